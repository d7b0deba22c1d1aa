/* SPDX-License-Identifier: Apache-2.0
 *
 * The name of a file is as lasting as its folder: what was made or renamed there may be gone after a crash of the
 * machine until the folder was synced. In a header of its own, for core/ needs base/ and has no files. */
#pragma once

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

#include "base/assert.h"

/* Syncs the folder that `path` (of less than PATH_MAX bytes) lies in. 0, or errno. A file system that has no such thing
 * is no error. */
static inline int weir_folder_sync(const char *path)
{
    char folder[PATH_MAX];
    const char *slash = strrchr(path, '/');
    size_t size = slash ? (size_t)(slash - path) : 0;
    weir_assert(size < sizeof folder);
    memcpy(folder, path, size);
    folder[size] = '\0';
    int fd = open(size ? folder : slash ? "/" : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int error = fd < 0 || fsync(fd) != 0 ? errno : 0;
    if (fd >= 0)
        close(fd);
    return error == EINVAL ? 0 : error;
}
