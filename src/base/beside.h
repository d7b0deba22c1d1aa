/* SPDX-License-Identifier: Apache-2.0
 *
 * Files that are installed with the running program and that it finds by where it is itself, not by a search path: in
 * its own folder (a build has everything there), else where `make install` puts them, as seen from its folder, so that
 * a tree that was moved as a whole works. How the program was called does not matter: the kernel says where it is.
 *
 * A program that has rights its user has not (setuid, file capabilities) takes them only from where it was configured
 * to be installed: its user may have made a hard link to it, in a folder of their own. */
#pragma once

#include <limits.h>
#include <stdbool.h>

enum weir_beside_kind {
    WEIR_BESIDE_PROGRAM, /* libexecdir/weir */
    WEIR_BESIDE_MODULE,  /* libdir/weir */
    WEIR_BESIDE_DATA,    /* datadir/weir */
};

struct weir_beside {
    char path[PATH_MAX];
    char folders[2 * PATH_MAX + 8]; /* where it was looked for: "/usr/bin or /usr/lib/weir" */
};

/* False: it is nowhere, and only `folders` says something. One that is there and may not be used is found: whoever
 * opens it learns why not. */
bool weir_beside_find(enum weir_beside_kind kind, const char *name, struct weir_beside *ret_beside);
