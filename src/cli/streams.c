/* SPDX-License-Identifier: Apache-2.0 */
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
