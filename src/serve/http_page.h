/* SPDX-License-Identifier: Apache-2.0
 *
 * The dashboard's files (page/), which embed.py puts into the program. */
#pragma once

#include <stddef.h>

struct weir_page_file {
    const char *kind; /* "html", "css", "js" */
    const unsigned char *bytes;
    size_t size;
};

extern const struct weir_page_file weir_page_files[];
extern const size_t weir_page_files_count;
