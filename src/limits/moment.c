/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads the clocks that a snapshot is dated by (weir/snapshot.h). Called by whoever writes or restores one; what is
 * made of two moments is snapshot_restore.c's. */
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/hex.h"
#include "base/timing.h"
#include "weir/snapshot.h"

/* "5c1e...-...": 32 digits, of which dashes are left out. */
static void read_boot_id(uint8_t ret_id[16])
{
    char text[64] = "";
    unsigned digits = 0;
    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    ssize_t size = fd >= 0 ? read(fd, text, sizeof text - 1) : -1;
    if (fd >= 0)
        close(fd);
    memset(ret_id, 0, 16);
    for (ssize_t i = 0; i < size && digits < 32; i++) {
        int value = weir_hex_digit(text[i]);
        if (value < 0)
            continue;
        ret_id[digits / 2] = (uint8_t)(ret_id[digits / 2] << 4 | value);
        digits++;
    }
}

void weir_moment_read(struct weir_moment *ret_moment)
{
    *ret_moment = (struct weir_moment){ .now_ns = weir_timing_now(CLOCK_MONOTONIC),
                                        .wall_ns = weir_timing_now(CLOCK_REALTIME),
                                        .boot_ns = weir_timing_now(CLOCK_BOOTTIME) };
    read_boot_id(ret_moment->boot_id);
}
