/* SPDX-License-Identifier: Apache-2.0
 *
 * Files that are read again at each reload. A FIFO waits for whoever writes to it, a terminal for whoever types, and
 * a server that waits there obeys no signal: so only regular files are opened, and /dev/null. */
#pragma once

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#define WEIR_REGULAR_HINT "it is not a regular file: write what it should hold into one, and name that"

/* Why the file should not be opened; NULL: it may be. */
static inline const char *weir_regular_fault(const char *path)
{
    struct stat file;
    if (stat(path, &file) != 0)
        return strerror(errno);
    bool null = S_ISCHR(file.st_mode) && file.st_rdev == makedev(1, 3);
    return S_ISREG(file.st_mode) || null ? NULL : WEIR_REGULAR_HINT;
}
