/* SPDX-License-Identifier: Apache-2.0
 *
 * The calls that reach the disk, in the place of libc's: sqlite's library finds them in this program first. */
#include "sqlite_disk.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

struct disk disk;
struct disk_files disk_files = { .under = "/tmp" };

/* Dies here, if this is the call to die at. */
static void step(void)
{
    if (disk.steps_left > 0 && --disk.steps_left == 0)
        kill(getpid(), SIGKILL);
}

static int sync_file(long call, int fd)
{
    step();
    disk.syncs++;
    if (disk.during)
        disk.during();
    if (disk.sync) {
        errno = EIO;
        return -1;
    }
    return (int)syscall(call, fd);
}

int fsync(int fd)
{
    return sync_file(SYS_fsync, fd);
}

int fdatasync(int fd)
{
    return sync_file(SYS_fdatasync, fd);
}

ssize_t write(int fd, const void *data, size_t size)
{
    step();
    if (disk.put) {
        errno = ENOSPC;
        return -1;
    }
    return syscall(SYS_write, fd, data, size);
}

int unlink(const char *path)
{
    step();
    return (int)syscall(SYS_unlink, path);
}

int rename(const char *from, const char *to)
{
    step();
    return (int)syscall(SYS_rename, from, to);
}

int renameat2(int from_folder, const char *from, int to_folder, const char *to, unsigned flags)
{
    step();
    return (int)syscall(SYS_renameat2, from_folder, from, to_folder, to, flags);
}

ssize_t pwrite64(int fd, const void *data, size_t size, off_t offset)
{
    step();
    if (disk.write) {
        errno = ENOSPC;
        return -1;
    }
    return syscall(SYS_pwrite64, fd, data, size, offset);
}

static struct timespec plus(struct timespec time, uint64_t ns)
{
    ns += (uint64_t)time.tv_nsec;
    return (struct timespec){ time.tv_sec + (time_t)(ns / SECOND), (long)(ns % SECOND) };
}

/* The clock by which leases end goes its own way: what is passed over ends none. */
int clock_gettime(clockid_t clock, struct timespec *ret_now)
{
    int failed = (int)syscall(SYS_clock_gettime, clock, ret_now);
    if (!failed && (clock == CLOCK_REALTIME || clock == CLOCK_MONOTONIC))
        *ret_now = plus(*ret_now, disk.slept_ns);
    if (!failed && clock == CLOCK_BOOTTIME)
        *ret_now = plus(*ret_now, disk.boot_ns);
    if (!failed && clock == CLOCK_REALTIME)
        ret_now->tv_sec += (time_t)disk.wall_s;
    return failed;
}

int clock_nanosleep(clockid_t clock, int flags, const struct timespec *until, struct timespec *ret_left)
{
    struct timespec now;
    (void)ret_left;
    assert_true(clock == CLOCK_MONOTONIC && flags == TIMER_ABSTIME);
    clock_gettime(clock, &now);
    int64_t left_ns = (int64_t)(until->tv_sec - now.tv_sec) * (int64_t)SECOND + until->tv_nsec - now.tv_nsec;
    disk.slept_ns += left_ns > 0 ? (uint64_t)left_ns : 0;
    return 0;
}

/* ---- files ---- */

static char *arguments[] = { disk_files.path, disk_files.witness };

int disk_begin(void **state)
{
    (void)state;
    struct disk_files *files = &disk_files;
    memset(&disk, 0, sizeof disk);
    snprintf(files->folder, sizeof files->folder, "%s/weir-faults-XXXXXX", files->under);
    if (!mkdtemp(files->folder))
        return -1;
    snprintf(files->path, sizeof files->path, "%.64s/db", files->folder);
    snprintf(files->next, sizeof files->next, "%.64s/db.new", files->folder);
    snprintf(files->wal, sizeof files->wal, "%.64s/db-wal", files->folder);
    snprintf(files->witness, sizeof files->witness, "%.64s/witness", files->folder);
    snprintf(files->backup, sizeof files->backup, "%.64s/backup", files->folder);
    lock_world.kind = "sqlite";
    lock_world.arguments = arguments;
    world_open();
    return 0;
}

int disk_end(void **state)
{
    (void)state;
    memset(&disk, 0, sizeof disk);
    if (lock_world.engine)
        world_close();
    unlink(disk_files.path);
    unlink(disk_files.next);
    unlink(disk_files.wal);
    unlink(disk_files.witness);
    unlink(disk_files.backup);
    char claim[96];
    snprintf(claim, sizeof claim, "%s.lock", disk_files.path);
    unlink(claim);
    return rmdir(disk_files.folder);
}

void disk_heal(void)
{
    disk.sync = disk.write = false;
    world_sleep(SECOND / 8); /* it tries every 100 ms */
}

size_t disk_read(const char *from, char *bytes, size_t max)
{
    FILE *file = fopen(from, "rb");
    assert_non_null(file);
    size_t size = fread(bytes, 1, max, file);
    assert_true(size < max);
    fclose(file);
    return size;
}

void disk_write(const char *to, const char *bytes, size_t size)
{
    FILE *file = fopen(to, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
}

void disk_copy(const char *from, const char *to)
{
    static char bytes[1 << 20];
    disk_write(to, bytes, disk_read(from, bytes, sizeof bytes));
}

void disk_back_up(void)
{
    world_close();
    disk_copy(disk_files.path, disk_files.backup);
    world_open();
}

struct weir_token disk_after_backup(void)
{
    world_granted(world_acquire("early", "A", TTL));
    disk_back_up();
    world_granted(world_acquire("held", "A", TTL));
    world_granted(world_release("early", "A"));
    struct weir_token last = { 0 };
    for (int i = 0; i < 5; i++) {
        last = world_granted(world_acquire("turns", "A", TTL));
        world_granted(world_release("turns", "A"));
    }
    return last;
}
