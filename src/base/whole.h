/* SPDX-License-Identifier: Apache-2.0
 *
 * Reading and writing all of it, however often the system takes a part and signals come. In a header of its own, for
 * core/ needs base/ and has no files. */
#pragma once

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <unistd.h>

/* Up to `size` bytes: how many, fewer where the file ends; -1: errno says why. */
static inline ssize_t weir_whole_read(int fd, void *ret_bytes, size_t size)
{
    size_t done = 0;
    while (done < size) {
        ssize_t got = read(fd, (uint8_t *)ret_bytes + done, size - done);
        if (got < 0 && errno != EINTR)
            return -1;
        if (got == 0)
            break;
        done += got > 0 ? (size_t)got : 0;
    }
    return (ssize_t)done;
}

/* False: errno says why, and some of it may be written. */
static inline bool weir_whole_write(int fd, const void *bytes, size_t size)
{
    for (size_t done = 0; done < size;) {
        ssize_t put = write(fd, (const uint8_t *)bytes + done, size - done);
        if (put < 0 && errno != EINTR)
            return false;
        done += put > 0 ? (size_t)put : 0;
    }
    return true;
}
