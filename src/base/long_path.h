/* SPDX-License-Identifier: Apache-2.0
 *
 * Whether a path is too long for those who will use it, asked before anything is made there. What they say of it later
 * ("unable to open database file") helps nobody, and files of which others may have longer names are left behind. In a
 * header of its own, for core/ needs base/ and has no files. */
#pragma once

#include <errno.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define WEIR_LONG_PATH_TEXT 96 /* bytes of a sentence, with its NUL; of real paths it has 60 at most */

/* Its bytes from the root on, links followed, as far as its folder is there. Else those of its text. */
static inline size_t weir_long_path_whole(const char *folder, const char *name, size_t size)
{
    char *whole = realpath(folder, NULL);
    if (whole)
        size = (whole[1] ? strlen(whole) : 0) + 1 + strlen(name);
    free(whole);
    return size;
}

/* NULL, or `buffer` with what is wrong. `whole_max`: bytes that the path may have from the root on. `ending`: how many
 * more the longest name of a file beside it has. */
static inline const char *weir_long_path(const char *path, size_t whole_max, size_t ending,
                                         char buffer[WEIR_LONG_PATH_TEXT])
{
    char folder[PATH_MAX];
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    size_t size = (size_t)(name - path), whole = strlen(path);
    long name_max = -1;
    if (size < sizeof folder) {
        (void)snprintf(folder, sizeof folder, "%.*s", (int)size, path);
        whole = weir_long_path_whole(size ? folder : ".", name, whole);
        name_max = pathconf(size ? folder : ".", _PC_NAME_MAX);
    }
    if (whole > whole_max)
        (void)snprintf(buffer, WEIR_LONG_PATH_TEXT, "with its folders it has %zu bytes, and may have %zu", whole,
                       whole_max);
    else if (name_max > (long)ending && strlen(name) + ending > (size_t)name_max)
        (void)snprintf(buffer, WEIR_LONG_PATH_TEXT, "its name has %zu bytes, and may have %zu", strlen(name),
                       (size_t)name_max - ending);
    else
        return NULL;
    return buffer;
}
