/* SPDX-License-Identifier: Apache-2.0
 *
 * Loaded before libc (LD_PRELOAD): the wall clock of a process and its children is off by as many microseconds as stand
 * in the 8 bytes of the file WEIR_CLOCK_OFFSET, which may change at any time, as when the time service steps a clock.
 * The monotonic clock is not. */
#include <fcntl.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

/* Mapped for as long as the process lives. */
static const _Atomic int64_t *offset_us;

__attribute__((constructor)) static void offset_map(void)
{
    const char *path = getenv("WEIR_CLOCK_OFFSET");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0)
        return;
    void *mapped = mmap(NULL, sizeof(int64_t), PROT_READ, MAP_SHARED, file, 0);
    if (mapped != MAP_FAILED)
        offset_us = mapped;
    close(file);
}

int clock_gettime(clockid_t clock, struct timespec *ret_time)
{
    int failed = (int)syscall(SYS_clock_gettime, clock, ret_time);
    if (failed || clock != CLOCK_REALTIME || !offset_us)
        return failed;
    int64_t ns = ret_time->tv_nsec + atomic_load(offset_us) * 1000;
    ret_time->tv_sec += ns / 1000000000 - (ns % 1000000000 < 0);
    ret_time->tv_nsec = ns % 1000000000 + (ns % 1000000000 < 0 ? 1000000000 : 0);
    return 0;
}

int gettimeofday(struct timeval *restrict ret_time, void *restrict zone)
{
    struct timespec now;
    (void)zone;
    int failed = clock_gettime(CLOCK_REALTIME, &now);
    if (!failed)
        *ret_time = (struct timeval){ .tv_sec = now.tv_sec, .tv_usec = now.tv_nsec / 1000 };
    return failed;
}
