/* SPDX-License-Identifier: Apache-2.0
 *
 * Goes through the descriptors 0, 1 and 2 in this order and opens /dev/null for each that is closed: open() takes the
 * lowest free number, which then is that one. Called by main.c, reads_main.c and sim_main.c before anything else is
 * opened. */
#include "cli/streams.h"

#include <fcntl.h>
#include <unistd.h>

bool weir_streams_open(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", O_RDWR) != fd)
            return false;
    }
    return true;
}
