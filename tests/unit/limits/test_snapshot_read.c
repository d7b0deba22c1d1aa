/* SPDX-License-Identifier: Apache-2.0
 *
 * Snapshots that cannot be read: the disk fails at each step in turn. Linked with --wrap. */
#include <errno.h>

#include "snapshot_fixture.h"

ssize_t __real_read(int fd, void *bytes, size_t size);
ssize_t __wrap_read(int fd, void *bytes, size_t size);
off_t __real_lseek64(int fd, off_t at, int from);
off_t __wrap_lseek64(int fd, off_t at, int from);

static unsigned reads, read_fails_at, lseeks, lseek_fails_at; /* from 1; 0: none does */

ssize_t __wrap_read(int fd, void *bytes, size_t size)
{
    if (++reads != read_fails_at)
        return __real_read(fd, bytes, size);
    errno = EIO;
    return -1;
}

off_t __wrap_lseek64(int fd, off_t at, int from)
{
    if (++lseeks != lseek_fails_at)
        return __real_lseek64(fd, at, from);
    errno = EIO;
    return -1;
}

/* Each read in turn, that behind the end too, and each time it begins anew. */
static void what_cannot_be_read_is_told(void **state)
{
    (void)state;
    const struct weir_moment moment = moment_at(T0 + 1);
    struct weir_snapshot_stats stats;
    unsigned all_reads = 0, all_lseeks = 0, failed = 0;
    struct fixture a = one_limit(WEIR_SLIDING_LOG, 10, HOUR, 0);
    (void)ask(&a, 3, T0);
    (void)save(&a, &moment);
    fixture_destroy(&a);
    for (unsigned fails = 0; fails <= all_reads + all_lseeks; fails++) {
        struct weir_snapshot_reader *reader = NULL;
        struct weir_limiter *limiter = NULL;
        struct weir_fault fault = { .field = "" };
        reads = lseeks = 0;
        read_fails_at = fails <= all_reads ? fails : 0;
        lseek_fails_at = fails > all_reads ? fails - all_reads : 0;
        int error = weir_snapshot_open(snapshot_path, &reader, &fault);
        if (!error) {
            const struct weir_limiter_options options = { .memory_max = 1 << 20,
                                                          .secret = weir_snapshot_secret(reader) };
            assert_int_equal(weir_limiter_create(&options, &limiter, NULL), 0);
            error = weir_snapshot_restore(reader, limiter, &moment, &stats, &fault);
        }
        if (fails == 0) {
            assert_int_equal(error, 0);
            all_reads = reads;
            all_lseeks = lseeks;
        } else if (error != WEIR_ECORRUPT) { /* as a byte behind the end is, which is there or cannot be read */
            assert_int_equal(error, WEIR_EIO);
            assert_string_equal(fault.field, "path");
            assert_non_null(strstr(fault.text, "cannot read"));
            assert_non_null(strstr(fault.text, "Input/output error"));
            failed++;
        }
        weir_snapshot_close(reader);
        weir_limiter_destroy(limiter);
    }
    read_fails_at = lseek_fails_at = 0;
    assert_true(all_reads > 10 && all_lseeks == 2);
    assert_int_equal(failed, all_reads + all_lseeks - 1);
}

static void a_path_that_cannot_be_opened_is_told(void **state)
{
    (void)state;
    char name[400];
    struct weir_snapshot_reader *reader;
    struct weir_fault fault;
    (void)snprintf(name, sizeof name, "%s/%0300d", snapshot_folder, 0);
    assert_int_equal(weir_snapshot_open(name, &reader, &fault), WEIR_EIO);
    assert_string_equal(fault.field, "path");
    assert_non_null(strstr(fault.text, "cannot read"));
    assert_non_null(strstr(fault.text, "File name too long"));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, make_folder, remove_folder)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(what_cannot_be_read_is_told),
        TEST(a_path_that_cannot_be_opened_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
