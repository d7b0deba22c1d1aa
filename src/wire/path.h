/* SPDX-License-Identifier: Apache-2.0
 *
 * From a request target to the one path that limits match: many spellings (/api/x, //api/x, /%61pi/x, /o/../api/x)
 * reach the same place at most backends, and a limit that saw them as different paths could be walked around.
 *
 * What it decides: which spellings are one path, or which are refused. What it does not: what a backend makes of them;
 * docs/paths.md has what some do.
 *
 * Thread rule: plain values. */
#pragma once

#include "wire/text.h"

enum weir_path_rule {
    WEIR_PATH_NORMALISE, /* decode once (%2F too), merge slashes, remove dot segments */
    WEIR_PATH_REFUSE,    /* and refuse what backends read differently */
};

/* Writes the path of `target` into `text`: at most the target's length. NULL, or what is wrong. The
 * target may be in origin form (/path?query), in absolute form (http://host/path), or "*". */
const char *weir_path_read(enum weir_path_rule rule, struct weir_slice target, struct weir_text *text,
                           struct weir_slice *ret_path);
