/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "locks/witness.h"

static char folder[32], path[64];

/* ---- a disk that takes and gives a little at a time, and is interrupted ---- */

ssize_t __real_write(int fd, const void *bytes, size_t size);
ssize_t __wrap_write(int fd, const void *bytes, size_t size);
ssize_t __real_read(int fd, void *bytes, size_t size);
ssize_t __wrap_read(int fd, void *bytes, size_t size);

int __real_fsync(int fd);
int __wrap_fsync(int fd);
int __real_rename(const char *from, const char *to);
int __wrap_rename(const char *from, const char *to);

static size_t piece;       /* bytes at most; 0: as it is */
static char steps[8];      /* what was made durable, and when it took its place */
static int fsync_fails_at; /* the first, or the second; 0: none */

static void note_step(char step)
{
    size_t count = strlen(steps);
    if (count + 1 < sizeof steps)
        steps[count] = step;
}

int __wrap_fsync(int fd)
{
    struct stat status;
    assert_int_equal(fstat(fd, &status), 0);
    note_step(S_ISDIR(status.st_mode) ? 'd' : 'f');
    return --fsync_fails_at == 0 ? -1 : __real_fsync(fd);
}

int __wrap_rename(const char *from, const char *to)
{
    note_step('r');
    return __real_rename(from, to);
}

static unsigned calls;

static bool is_interrupted(void)
{
    errno = EINTR;
    return piece > 0 && ++calls % 2 == 0;
}

static bool is_inherited(int fd)
{
    return !(fcntl(fd, F_GETFD) & FD_CLOEXEC);
}

ssize_t __wrap_write(int fd, const void *bytes, size_t size)
{
    assert_false(is_inherited(fd));
    return is_interrupted() ? -1 : __real_write(fd, bytes, piece > 0 && size > piece ? piece : size);
}

ssize_t __wrap_read(int fd, void *bytes, size_t size)
{
    assert_false(is_inherited(fd));
    return is_interrupted() ? -1 : __real_read(fd, bytes, piece > 0 && size > piece ? piece : size);
}

static int first_free; /* of the numbers of files */

static int next_free(void)
{
    int fd = dup(STDIN_FILENO);
    close(fd);
    return fd;
}

static int set_up(void **state)
{
    (void)state;
    first_free = next_free();
    strcpy(folder, "/tmp/weir-witness-XXXXXX");
    if (!mkdtemp(folder))
        return -1;
    snprintf(path, sizeof path, "%s/w", folder);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    unlink(path);
    return rmdir(folder) == 0 && next_free() == first_free ? 0 : -1; /* no file is left over, nor left open */
}

static void assert_same(const struct weir_witness *a, const struct weir_witness *b)
{
    assert_true(a->system == b->system && a->timeline == b->timeline && a->position == b->position &&
                a->incarnation == b->incarnation);
}

static void witness__is_read_as_it_was_written(void **state)
{
    (void)state;
    static const struct weir_witness ALL[] = {
        { 1, 2, 3, 4 },
        { 0 },
        { UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX },
        { 7, 0, UINT64_MAX - 1, WEIR_INCARNATION_MAX },
    };
    struct weir_witness read = { 9, 9, 9, 9 };
    assert_int_equal(weir_witness_load(path, &read), WEIR_ENOENT);
    assert_int_equal(read.system, 9);
    for (size_t i = 0; i < sizeof ALL / sizeof ALL[0]; i++) {
        assert_int_equal(weir_witness_save(path, &ALL[i]), 0);
        assert_int_equal(weir_witness_load(path, &read), 0);
        assert_same(&read, &ALL[i]);
    }
    struct stat found;
    assert_int_equal(stat(path, &found), 0);
    assert_int_equal(found.st_mode & 077, 0);
}

static void put(const char *bytes, size_t size)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
}

static void witness__any_other_bytes_are_not_ours(void **state)
{
    (void)state;
    struct weir_witness witness = { 11, 22, 33, 44 }, read = { 9, 9, 9, 9 };
    assert_int_equal(weir_witness_save(path, &witness), 0);
    char line[256];
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    size_t size = fread(line, 1, sizeof line, file);
    fclose(file);
    for (size_t i = 0; i < size; i++)
        for (int bit = 0; bit < 8; bit++) {
            line[i] = (char)(line[i] ^ (1 << bit));
            put(line, size);
            assert_int_equal(weir_witness_load(path, &read), WEIR_ECORRUPT);
            line[i] = (char)(line[i] ^ (1 << bit));
        }
    for (size_t cut = 0; cut < size; cut++) {
        put(line, cut);
        assert_int_equal(weir_witness_load(path, &read), WEIR_ECORRUPT);
    }
    line[size] = '\n';
    put(line, size + 1);
    assert_int_equal(weir_witness_load(path, &read), WEIR_ECORRUPT);
    assert_int_equal(read.system, 9);
}

static void witness__that_cannot_be_written_leaves_the_old_one(void **state)
{
    (void)state;
    struct weir_witness witness = { 1, 2, 3, 4 }, other = { 5, 6, 7, 8 }, read;
    assert_int_equal(weir_witness_save(path, &witness), 0);
    char next[80];
    snprintf(next, sizeof next, "%s.next", path);
    assert_int_equal(mkdir(next, 0700), 0); /* stands where the new one would be written */
    assert_int_equal(weir_witness_save(path, &other), WEIR_EIO);
    assert_int_equal(rmdir(next), 0);
    assert_int_equal(weir_witness_load(path, &read), 0);
    assert_same(&read, &witness);
    assert_int_equal(weir_witness_save("/nonexistent/folder/w", &other), WEIR_EIO);
    assert_int_equal(weir_witness_load(folder, &read), WEIR_EIO);
}

static void witness__lies_in_the_working_folder_if_its_path_names_none(void **state)
{
    (void)state;
    struct weir_witness witness = { 1, 2, 3, 4 }, read;
    char before[4096];
    assert_non_null(getcwd(before, sizeof before));
    assert_int_equal(chdir(folder), 0);
    assert_int_equal(weir_witness_save("alone", &witness), 0);
    assert_int_equal(weir_witness_load("alone", &read), 0);
    assert_int_equal(unlink("alone"), 0);
    assert_int_equal(chdir(before), 0);
    assert_same(&read, &witness);
}

/* Of a path there is as much room as the system takes, and what does not fit is not cut. */
static void witness__has_a_path_as_long_as_there_is(void **state)
{
    (void)state;
    struct weir_witness witness = { 1, 2, 3, 4 }, read;
    char within[PATH_MAX], before[PATH_MAX];
    assert_non_null(getcwd(before, sizeof before));
    assert_int_equal(chdir(folder), 0);
    for (size_t length = PATH_MAX - sizeof ".next" - 1; length <= PATH_MAX - 1; length++) {
        const bool fits = length + sizeof ".next" <= PATH_MAX;
        memset(within, '/', length);
        within[0] = '.';
        within[length - 1] = 'w';
        within[length] = 0;
        assert_int_equal(weir_witness_save(within, &witness), fits ? 0 : WEIR_EIO);
        assert_int_equal(weir_witness_load(within, &read), fits ? 0 : WEIR_ENOENT);
        assert_int_equal(unlink("w"), fits ? 0 : -1);
    }
    assert_int_equal(chdir(before), 0);
}

/* Where somebody has made one by mistake: the service must not stand until somebody writes to it, or reads from it. */
static void witness__a_fifo_is_not_waited_for(void **state)
{
    (void)state;
    struct weir_witness witness = { 1, 2, 3, 4 }, read;
    char next[80];
    snprintf(next, sizeof next, "%s.next", path);
    alarm(60);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_int_equal(weir_witness_load(path, &read), WEIR_ECORRUPT);
    int both = open(path, O_RDWR | O_NONBLOCK); /* now it has a writer, who writes nothing */
    assert_true(both >= 0);
    assert_int_equal(weir_witness_load(path, &read), WEIR_EIO);
    close(both);
    assert_int_equal(mkfifo(next, 0600), 0);
    assert_int_equal(weir_witness_save(path, &witness), WEIR_EIO);
    alarm(0);
}

static void witness__is_whole_though_it_goes_in_pieces(void **state)
{
    (void)state;
    struct weir_witness witness = { UINT64_MAX, 2, 3, 4 }, read;
    for (piece = 1; piece < 100; piece += 9) {
        assert_int_equal(weir_witness_save(path, &witness), 0);
        assert_int_equal(weir_witness_load(path, &read), 0);
        assert_same(&read, &witness);
    }
    piece = 0;
}

/* Of a longer file beside it, that somebody left there, nothing stays. */
static void witness__is_written_over_whatever_lies_beside_it(void **state)
{
    (void)state;
    static const struct weir_witness saved = { .system = 1, .timeline = 2, .position = 3, .incarnation = 4 };
    struct weir_witness read;
    char next[80], left[300];
    snprintf(next, sizeof next, "%s.next", path);
    memset(left, 'x', sizeof left);
    int fd = open(next, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_int_equal(write(fd, left, sizeof left), sizeof left);
    close(fd);
    assert_int_equal(weir_witness_save(path, &saved), 0);
    assert_int_equal(weir_witness_load(path, &read), 0);
    assert_same(&read, &saved);
}

/* The file first, then its name. Where the disk does not take one of the two, it is not saved. */
static void witness__is_durable_before_it_is_saved(void **state)
{
    static const struct weir_witness witness = { .system = 1, .timeline = 2, .position = 3, .incarnation = 4 };
    static const char *const done[] = { "frd", "f", "frd" };
    (void)state;
    for (int fails = 0; fails < 3; fails++) {
        memset(steps, 0, sizeof steps);
        fsync_fails_at = fails;
        assert_int_equal(weir_witness_save(path, &witness), fails ? WEIR_EIO : 0);
        assert_string_equal(steps, done[fails]);
    }
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        CASE(witness__is_read_as_it_was_written),
        CASE(witness__is_written_over_whatever_lies_beside_it),
        CASE(witness__is_durable_before_it_is_saved),
        CASE(witness__any_other_bytes_are_not_ours),
        CASE(witness__that_cannot_be_written_leaves_the_old_one),
        CASE(witness__lies_in_the_working_folder_if_its_path_names_none),
        CASE(witness__has_a_path_as_long_as_there_is),
        CASE(witness__is_whole_though_it_goes_in_pieces),
        CASE(witness__a_fifo_is_not_waited_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
