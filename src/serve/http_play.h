/* SPDX-License-Identifier: Apache-2.0
 *
 * The playground's files, which play/bundle.py puts into the program. */
#pragma once

#include <stddef.h>

struct weir_play_file {
    const char *kind; /* "html", "css", "js", "learn", "learn.js", "wasm"; where the build had no compiler for the last
                       * "html" and "learn" alone, which say so */
    const unsigned char *bytes, *packed; /* packed by gzip */
    size_t size, packed_size;
};

extern const struct weir_play_file weir_play_files[];
extern const size_t weir_play_files_count;
