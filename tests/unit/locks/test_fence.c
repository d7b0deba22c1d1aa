/* SPDX-License-Identifier: Apache-2.0
 *
 * Marks by name: the rule, and what survives. */
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "fence_fixture.h"
#include "random.h"

/* ---- the rule ---- */

static void fence__a_later_token_fences_an_earlier_one(void **state)
{
    (void)state;
    struct weir_fence *fence = fence_open(NULL);
    assert_int_equal(try_write(fence, "l", 7, 1), WEIR_ENOTINSTALLED);
    assert_int_equal(install(fence, "l", 7, 1), 0);
    assert_int_equal(install(fence, "l", 7, 1), 0);
    assert_int_equal(try_write(fence, "l", 7, 1), 0);
    assert_int_equal(try_write(fence, "l", 7, 2), WEIR_ENOTINSTALLED);
    assert_int_equal(install(fence, "l", 8, 1), 0);
    assert_int_equal(try_write(fence, "l", 7, INT64_MAX), WEIR_EFENCED);
    assert_int_equal(install(fence, "l", 7, 2), WEIR_EFENCED);
    assert_int_equal(weir_fence_mark(fence, "l", 1).incarnation, 8);
    assert_int_equal(try_write(fence, "other", 8, 1), WEIR_ENOTINSTALLED);
    assert_int_equal(number_of(fence, "other"), 0);
    weir_fence_close(fence);
    weir_fence_close(NULL);
}

static int fail_write(void *context)
{
    (void)context;
    return WEIR_EIO;
}

static void fence__returns_what_the_write_returned(void **state)
{
    (void)state;
    struct weir_fence *fence = fence_open(NULL);
    assert_int_equal(install(fence, "l", 7, 1), 0);
    assert_int_equal(weir_fence_write(fence, "l", 1, (struct weir_token){ 7, 1 }, fail_write, NULL), WEIR_EIO);
    weir_fence_close(fence);
}

static void fence__names_and_tokens_have_ranges(void **state)
{
    (void)state;
    static char longest[WEIR_FENCE_NAME_MAX + 1];
    const struct weir_token token = { 7, 1 };
    struct weir_fence *fence = fence_open(path);
    assert_int_equal(weir_fence_install(fence, longest, 0, token), WEIR_ERANGE);
    assert_int_equal(weir_fence_install(fence, longest, sizeof(longest), token), WEIR_ERANGE);
    assert_int_equal(weir_fence_install(fence, longest, sizeof(longest) - 1, token), 0);
    assert_int_equal(install(fence, "l", 0, 1), WEIR_ERANGE);
    assert_int_equal(install(fence, "l", 1, 0), WEIR_ERANGE);
    assert_int_equal(install(fence, "l", 1, UINT64_C(1) << 63), WEIR_ERANGE);
    assert_int_equal(try_write(fence, "l", 0, 0), WEIR_ERANGE);
    assert_int_equal(install(fence, "l", INT64_MAX, INT64_MAX), 0);
    assert_int_equal(weir_fence_install(fence, "a\0b", 3, token), 0);
    assert_int_equal(number_of(fence, "a"), 0);
    weir_fence_close(fence);
    fence = fence_open(path);
    assert_int_equal(weir_fence_mark(fence, longest, sizeof(longest) - 1).number, 1);
    assert_int_equal(weir_fence_mark(fence, "a\0b", 3).number, 1);
    assert_true(number_of(fence, "l") == INT64_MAX);
    weir_fence_close(fence);
}

static void fence__one_name_too_many_is_refused_and_nothing_lost(void **state)
{
    (void)state;
    struct weir_fence *fence = NULL;
    assert_int_equal(weir_fence_open(&(struct weir_fence_options){ .names_max = 2 }, &fence, NULL), 0);
    assert_int_equal(install(fence, "a", 7, 1), 0);
    assert_int_equal(install(fence, "b", 7, 1), 0);
    assert_int_equal(install(fence, "c", 7, 1), WEIR_ELIMIT);
    assert_int_equal(install(fence, "a", 7, 2), 0);
    assert_int_equal(try_write(fence, "b", 7, 1), 0);
    weir_fence_close(fence);
}

/* ---- the file ---- */

static void fence__marks_survive_a_restart(void **state)
{
    (void)state;
    struct weir_fence *fence = fence_open(path);
    assert_int_equal(install(fence, "l", 7, 2), 0);
    assert_int_equal(install(fence, "m", 7, 9), 0);
    weir_fence_close(fence);
    fence = fence_open(path);
    assert_int_equal(try_write(fence, "l", 7, 1), WEIR_EFENCED);
    assert_int_equal(try_write(fence, "l", 7, 2), 0);
    assert_int_equal(number_of(fence, "m"), 9);
    weir_fence_close(fence);
}

static void fence__one_process_has_it_open(void **state)
{
    (void)state;
    struct weir_fence *fence = fence_open(path), *second = NULL;
    struct weir_fault fault = { .text = "" };
    const struct weir_fence_options options = { .path = path };
    assert_int_equal(weir_fence_open(&options, &second, &fault), WEIR_EBUSY);
    assert_null(second);
    assert_string_equal(fault.field, "path");
    assert_true(fault.text[0] != '\0');
    weir_fence_close(fence);
    weir_fence_close(fence_open(path));
    const struct weir_fence_options nowhere = { .path = "/nowhere/at/all" };
    assert_int_equal(weir_fence_open(&nowhere, &second, NULL), WEIR_EIO);
}

static size_t bytes_read(const char *from, uint8_t *bytes, size_t max)
{
    int file = open(from, O_RDONLY);
    ssize_t got = read(file, bytes, max);
    close(file);
    assert_true(got >= 0);
    return (size_t)got;
}

static void bytes_write(const char *to, const uint8_t *bytes, size_t size)
{
    int file = open(to, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_int_equal(write(file, bytes, size), size);
    close(file);
}

/* Marks of "l" go up by one a record, so the number tells how many records were read. */
static size_t records_write(uint64_t count, uint64_t sizes[], uint8_t *bytes, size_t max)
{
    struct weir_fence *fence = fence_open(path);
    struct stat now;
    for (uint64_t i = 0; i <= count; i++) {
        if (i > 0)
            assert_int_equal(install(fence, "l", 7, i), 0);
        assert_int_equal(stat(path, &now), 0);
        sizes[i] = (uint64_t)now.st_size;
    }
    weir_fence_close(fence);
    return bytes_read(path, bytes, max);
}

static void fence__a_link_leads_to_the_same_marks_and_lock(void **state)
{
    (void)state;
    struct weir_fence *fence = NULL;
    assert_int_equal(symlink(path, copy), 0);
    assert_int_equal(weir_fence_open(&(struct weir_fence_options){ .path = copy }, &fence, NULL), WEIR_EIO);
    struct weir_fence *first = fence_open(path);
    assert_int_equal(weir_fence_open(&(struct weir_fence_options){ .path = copy }, &fence, NULL), WEIR_EBUSY);
    assert_int_equal(install(first, "a", 7, 1), 0);
    weir_fence_close(first);
    struct weir_fence *second = fence_open(copy);
    assert_int_equal(install(second, "a", 6, 9), WEIR_EFENCED);
    for (uint64_t number = 2; number < 4000; number++) /* it is compacted meanwhile */
        assert_int_equal(install(second, "a", 7, number), 0);
    assert_int_equal(weir_fence_open(&(struct weir_fence_options){ .path = path }, &fence, NULL), WEIR_EBUSY);
    weir_fence_close(second);
    first = fence_open(path);
    assert_int_equal(install(first, "a", 7, 3998), WEIR_EFENCED);
    weir_fence_close(first);
}

static void fence__a_file_cut_anywhere_keeps_what_was_acknowledged(void **state)
{
    (void)state;
    uint64_t sizes[9];
    uint8_t bytes[1024];
    size_t size = records_write(8, sizes, bytes, sizeof(bytes));
    assert_int_equal(size, sizes[8]);
    for (size_t at = 0; at <= size; at++) {
        uint64_t whole = 0;
        while (whole < 8 && sizes[whole + 1] <= at)
            whole++;
        bytes_write(copy, bytes, at);
        struct weir_fence *fence = fence_open(copy);
        assert_int_equal(number_of(fence, "l"), whole);
        assert_int_equal(install(fence, "l", 7, 100), 0);
        weir_fence_close(fence);
        fence = fence_open(copy);
        assert_int_equal(number_of(fence, "l"), 100);
        weir_fence_close(fence);
    }
}

static void fence__damage_is_never_taken_for_a_lower_mark(void **state)
{
    (void)state;
    static uint8_t bytes[16384];
    uint64_t sizes[101];
    size_t size = records_write(100, sizes, bytes, sizeof(bytes));
    for (size_t at = 0; at < size; at++) {
        struct weir_fence *fence = NULL;
        bytes[at] ^= 0x10;
        bytes_write(copy, bytes, size);
        bytes[at] ^= 0x10;
        int error = weir_fence_open(&(struct weir_fence_options){ .path = copy }, &fence, NULL);
        /* what cannot be told from a torn end: less than one longest record */
        bool end = size - at <= 26 + WEIR_FENCE_NAME_MAX + 27;
        assert_true(error == WEIR_ECORRUPT || (error == 0 && end));
        weir_fence_close(fence);
    }
}

/* The last record has its length, and not all that belongs into it: as long as a record can be, it is torn still. */
static void fence__the_longest_record_may_be_torn(void **state)
{
    (void)state;
    static uint8_t bytes[4096];
    static char longest[WEIR_FENCE_NAME_MAX];
    struct weir_fence *fence = fence_open(path);
    assert_int_equal(install(fence, "l", 7, 1), 0);
    assert_int_equal(weir_fence_install(fence, longest, sizeof(longest), (struct weir_token){ 7, 2 }), 0);
    weir_fence_close(fence);
    size_t size = bytes_read(path, bytes, sizeof(bytes));
    bytes[size - 1] ^= 0x10;
    bytes_write(path, bytes, size);
    fence = fence_open(path);
    assert_int_equal(number_of(fence, "l"), 1);
    assert_int_equal(weir_fence_mark(fence, longest, sizeof(longest)).number, 0);
    weir_fence_close(fence);
    bytes[size] = 0; /* a byte more is behind a record that was there */
    bytes_write(path, bytes, size + 1);
    assert_int_equal(weir_fence_open(&(struct weir_fence_options){ .path = path }, &fence, NULL), WEIR_ECORRUPT);
}

static void fence__a_file_that_is_not_ours_is_refused_and_kept(void **state)
{
    (void)state;
    struct weir_fence *fence = NULL;
    uint8_t bytes[64];
    bytes_write(path, (const uint8_t *)"a text of mine, and long enough\n", 32);
    assert_int_equal(weir_fence_open(&(struct weir_fence_options){ .path = path }, &fence, NULL), WEIR_ECORRUPT);
    assert_int_equal(bytes_read(path, bytes, sizeof(bytes)), 32);
    assert_memory_equal(bytes, "a text of mine, and long enough\n", 32);
}

static void fence__the_file_is_bounded_by_its_names(void **state)
{
    (void)state;
    char name[WEIR_FENCE_NAME_MAX + 1] = { 0 };
    struct stat now;
    struct weir_fence *fence = fence_open(path);
    memset(name, 'n', WEIR_FENCE_NAME_MAX);
    assert_int_equal(install(fence, "other", 7, 5), 0);
    for (uint64_t i = 1; i <= 300; i++) {
        assert_int_equal(install(fence, name, 7, i), 0);
        assert_int_equal(stat(path, &now), 0);
        assert_true(now.st_size < 65536 + 4 * 1050);
    }
    weir_fence_close(fence);
    fence = fence_open(path);
    assert_int_equal(number_of(fence, name), 300);
    assert_int_equal(number_of(fence, "other"), 5);
    weir_fence_close(fence);
}

static void fence__a_full_disk_is_an_error_and_nothing_is_lost(void **state)
{
    (void)state;
    struct rlimit before, small;
    struct weir_fence *fence = fence_open(path);
    assert_int_equal(install(fence, "l", 7, 1), 0);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    small = before;
    small.rlim_cur = 16 + 27 + 10; /* part of the second record */
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    int error = install(fence, "l", 7, 2);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    assert_int_equal(error, WEIR_EIO);
    assert_int_equal(try_write(fence, "l", 7, 2), WEIR_ENOTINSTALLED);
    assert_int_equal(install(fence, "l", 7, 3), 0);
    weir_fence_close(fence);
    fence = fence_open(path);
    assert_int_equal(number_of(fence, "l"), 3);
    weir_fence_close(fence);
}

/* The child installs as fast as it can and says what was acknowledged. */
static void child_install(int out)
{
    struct weir_fence *fence = NULL;
    static char name[901];
    memset(name, 'n', 900); /* long, so that compactions are under way too */
    if (weir_fence_open(&(struct weir_fence_options){ .path = path }, &fence, NULL) != 0)
        _exit(1);
    for (uint64_t i = number_of(fence, name) + 1; install(fence, name, 7, i) == 0; i++) {
        if (write(out, &i, sizeof(i)) != sizeof(i))
            break;
    }
    _exit(1);
}

static void fence__a_kill_loses_nothing_that_was_acknowledged(void **state)
{
    (void)state;
    struct test_random random = { test_random_seed() };
    static char name[901];
    uint64_t acknowledged = 0, number;
    memset(name, 'n', 900);
    for (int round = 0; round < 20; round++) {
        int ends[2];
        assert_int_equal(pipe(ends), 0);
        pid_t child = fork();
        if (child == 0)
            child_install(ends[1]);
        close(ends[1]);
        usleep((useconds_t)(500 + test_random_below(&random, 15000)));
        kill(child, SIGKILL);
        while (read(ends[0], &number, sizeof(number)) == sizeof(number))
            acknowledged = number;
        close(ends[0]);
        waitpid(child, NULL, 0);
        struct weir_fence *fence = fence_open(path);
        assert_true(number_of(fence, name) >= acknowledged);
        assert_true(number_of(fence, name) <= acknowledged + 1);
        acknowledged = number_of(fence, name);
        weir_fence_close(fence);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fence__a_later_token_fences_an_earlier_one),
        cmocka_unit_test(fence__returns_what_the_write_returned),
        cmocka_unit_test_setup_teardown(fence__names_and_tokens_have_ranges, folder_make, folder_remove),
        cmocka_unit_test(fence__one_name_too_many_is_refused_and_nothing_lost),
        cmocka_unit_test_setup_teardown(fence__marks_survive_a_restart, folder_make, folder_remove),
        cmocka_unit_test_setup_teardown(fence__one_process_has_it_open, folder_make, folder_remove),
        cmocka_unit_test_setup_teardown(fence__a_link_leads_to_the_same_marks_and_lock, folder_make, folder_remove),
        cmocka_unit_test_setup_teardown(fence__a_file_cut_anywhere_keeps_what_was_acknowledged, folder_make,
                                        folder_remove),
        cmocka_unit_test_setup_teardown(fence__damage_is_never_taken_for_a_lower_mark, folder_make, folder_remove),
        cmocka_unit_test_setup_teardown(fence__the_longest_record_may_be_torn, folder_make, folder_remove),
        cmocka_unit_test_setup_teardown(fence__a_file_that_is_not_ours_is_refused_and_kept, folder_make, folder_remove),
        cmocka_unit_test_setup_teardown(fence__the_file_is_bounded_by_its_names, folder_make, folder_remove),
        cmocka_unit_test_setup_teardown(fence__a_full_disk_is_an_error_and_nothing_is_lost, folder_make, folder_remove),
        cmocka_unit_test_setup_teardown(fence__a_kill_loses_nothing_that_was_acknowledged, folder_make, folder_remove),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
