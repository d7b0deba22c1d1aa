/* SPDX-License-Identifier: Apache-2.0
 *
 * What the tests of snapshots share: a folder of the test's own, writing one to the end, and a limiter made of one. */
#pragma once

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "permit_fixture.h"
#include "weir/snapshot.h"

static char snapshot_folder[64], snapshot_path[96], snapshot_beside[104];

static inline int make_folder(void **state)
{
    (void)state;
    (void)snprintf(snapshot_folder, sizeof snapshot_folder, "/tmp/weir-snapshot-XXXXXX");
    if (!mkdtemp(snapshot_folder))
        return -1;
    (void)snprintf(snapshot_path, sizeof snapshot_path, "%s/counters", snapshot_folder);
    (void)snprintf(snapshot_beside, sizeof snapshot_beside, "%s.new", snapshot_path);
    return 0;
}

static inline int remove_folder(void **state)
{
    (void)state;
    (void)unlink(snapshot_path);
    (void)unlink(snapshot_beside);
    return rmdir(snapshot_folder);
}

static inline void write_file(const uint8_t *bytes, size_t size)
{
    (void)unlink(snapshot_path); /* ext4 flushes a file that is cut and written anew, which takes its time */
    int fd = open(snapshot_path, O_WRONLY | O_CREAT | O_EXCL, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, bytes, size), size);
    close(fd);
}

/* In one boot of the machine, all clocks alike. */
static inline struct weir_moment moment_at(uint64_t now_ns)
{
    return (struct weir_moment){ .now_ns = now_ns, .wall_ns = now_ns, .boot_ns = now_ns, .boot_id = { 1 } };
}

static inline struct weir_snapshot_writer *begin_snapshot(const struct fixture *f)
{
    struct weir_snapshot_writer *writer;
    struct weir_fault fault;
    if (weir_snapshot_begin(f->limiter, snapshot_path, "noted", 5, &writer, &fault) != 0)
        fail_msg("begin: %s %s", fault.field, fault.text);
    return writer;
}

static inline struct weir_snapshot_stats finish_snapshot(struct weir_snapshot_writer *writer,
                                                         const struct weir_moment *moment)
{
    struct weir_snapshot_stats stats;
    struct weir_fault fault;
    int error;
    do {
        error = weir_snapshot_step(writer, 64, moment, &stats, &fault);
    } while (error == WEIR_EAGAIN);
    if (error)
        fail_msg("step: %s %s", fault.field, fault.text);
    weir_snapshot_end(writer);
    return stats;
}

static inline struct weir_snapshot_stats save(const struct fixture *f, const struct weir_moment *moment)
{
    return finish_snapshot(begin_snapshot(f), moment);
}

/* A limiter of what the file says, with the limits that it says. */
static inline struct weir_limiter *restored(size_t memory, const struct weir_moment *moment,
                                            struct weir_snapshot_stats *ret_stats)
{
    struct weir_snapshot_reader *reader;
    struct weir_limiter *limiter;
    struct weir_fault fault = { 0 };
    if (weir_snapshot_open(snapshot_path, &reader, &fault) != 0)
        fail_msg("open: %s %s", fault.field, fault.text);
    assert_memory_equal(weir_snapshot_note(reader), "noted\0\0", 7);
    struct weir_limiter_options options = { .memory_max = memory, .secret = weir_snapshot_secret(reader) };
    assert_int_equal(weir_limiter_create(&options, &limiter, &fault), 0);
    if (weir_snapshot_restore(reader, limiter, moment, ret_stats, &fault) != 0)
        fail_msg("restore: %s %s", fault.field, fault.text);
    weir_snapshot_close(reader);
    return limiter;
}

/* As after a restart: restored, then the configuration's limits. */
static inline struct fixture restart(const struct weir_limit_spec *specs, size_t count,
                                     const struct weir_moment *moment, struct weir_snapshot_stats *ret_stats)
{
    struct fixture f = { .limiter = restored((size_t)4 << 20, moment, ret_stats) };
    fixture_define(&f, specs, count, moment->now_ns);
    return f;
}
