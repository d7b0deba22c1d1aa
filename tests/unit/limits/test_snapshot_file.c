/* SPDX-License-Identifier: Apache-2.0
 *
 * The file of a snapshot: cut at every byte, changed at every byte, of somebody else, of a later version, written where
 * nothing can be written, synced, or in memory. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "limits/snapshot_fd.h"
#include "snapshot_fixture.h"
#include "wire/snapshot.h"

#define FILE_MAX 65536

static uint8_t whole[FILE_MAX];
static size_t whole_size;

/* A small one of all shapes, and its bytes. */
static void make_whole(void)
{
    struct weir_limit_spec specs[] = { limit_of(WEIR_TOKEN_BUCKET, 9, HOUR, 0), limit_of(WEIR_SLIDING_LOG, 9, HOUR, 0),
                                       limit_of(WEIR_CONCURRENCY, 9, HOUR, 0),
                                       limit_of(WEIR_SLIDING_COUNTER, 9, HOUR, 0) };
    struct fixture f = fixture_create(specs, 4);
    struct weir_moment moment = moment_at(T0 + 1);
    struct weir_verdict verdicts[4];
    (void)ask_all(&f, "k", 2, T0, 0, verdicts);
    (void)ask_all(&f, "l", 3, T0, 0, verdicts);
    struct weir_snapshot_stats stats = save(&f, &moment);
    assert_int_equal(stats.keys, 8);
    int fd = open(snapshot_path, O_RDONLY);
    whole_size = (size_t)read(fd, whole, sizeof whole);
    close(fd);
    assert_int_equal(whole_size, stats.bytes);
    fixture_destroy(&f);
}

static int open_error(struct weir_fault *ret_fault)
{
    struct weir_snapshot_reader *reader = NULL;
    *ret_fault = (struct weir_fault){ 0 };
    int error = weir_snapshot_open(snapshot_path, &reader, ret_fault);
    weir_snapshot_close(reader);
    return error;
}

static void a_file_cut_at_any_byte_is_refused_whole(void **state)
{
    (void)state;
    struct weir_fault fault;
    make_whole();
    for (size_t size = 0; size < whole_size; size++) {
        write_file(whole, size);
        assert_int_equal(open_error(&fault), WEIR_ECORRUPT);
        assert_non_null(strstr(fault.text, "damaged or cut off at byte"));
    }
    write_file(whole, whole_size);
    assert_int_equal(open_error(&fault), 0);
    whole[whole_size] = 'x'; /* nor may anything follow */
    write_file(whole, whole_size + 1);
    assert_int_equal(open_error(&fault), WEIR_ECORRUPT);
}

static void a_file_changed_at_any_byte_is_refused_whole(void **state)
{
    (void)state;
    struct weir_fault fault;
    make_whole();
    for (size_t i = 0; i < whole_size; i++) {
        uint8_t was = whole[i];
        whole[i] = (uint8_t)(was ^ (1 << i % 8));
        write_file(whole, whole_size);
        int error = open_error(&fault);
        assert_true(error == WEIR_ECORRUPT || (i < 8 && error == WEIR_EPROTO) ||
                    (i >= 8 && i < 12 && error == WEIR_ERANGE));
        whole[i] = was;
    }
}

static void blocks_in_another_order_are_refused(void **state)
{
    (void)state;
    struct weir_fault fault;
    make_whole();
    static uint8_t swapped[FILE_MAX];
    size_t first = WEIR_SNAPSHOT_HEAD_BYTES;
    size_t size = whole[first + 4] | (size_t)whole[first + 5] << 8;
    size_t second = first + WEIR_SNAPSHOT_FRAME_BYTES + size + WEIR_SNAPSHOT_DIGEST_BYTES;
    memcpy(swapped, whole, second);
    memcpy(swapped + second, whole + first, second - first); /* the definitions twice */
    memcpy(swapped + 2 * second - first, whole + second, whole_size - second);
    write_file(swapped, whole_size + second - first);
    assert_int_equal(open_error(&fault), WEIR_ECORRUPT);
}

static void what_is_no_snapshot_is_told_apart(void **state)
{
    (void)state;
    struct weir_fault fault;
    struct weir_snapshot_reader *reader;
    assert_int_equal(open_error(&fault), WEIR_ENOENT);
    assert_int_equal(mkdir(snapshot_path, 0700), 0);
    assert_int_equal(open_error(&fault), WEIR_EPROTO);
    assert_non_null(strstr(fault.text, "is no file"));
    assert_int_equal(rmdir(snapshot_path), 0);
    assert_int_equal(mkfifo(snapshot_path, 0600), 0); /* is not waited for */
    assert_int_equal(open_error(&fault), WEIR_EPROTO);
    assert_int_equal(unlink(snapshot_path), 0);
    memset(whole, 'a', 300);
    for (size_t size = 1; size <= 300; size += 13) { /* a short one is no less somebody else's */
        write_file(whole, size);
        assert_int_equal(open_error(&fault), WEIR_EPROTO);
    }
    assert_non_null(strstr(fault.text, "is no snapshot of weir"));
    make_whole();
    whole[8] = 2;
    write_file(whole, whole_size);
    assert_int_equal(open_error(&fault), WEIR_ERANGE);
    assert_non_null(strstr(fault.text, "later weir"));
    assert_int_equal(weir_snapshot_open("", &reader, &fault), WEIR_ERANGE);
}

/* ---- writing ---- */

static void it_is_ours_alone_and_never_through_a_link(void **state)
{
    (void)state;
    struct stat status;
    char victim[160];
    (void)snprintf(victim, sizeof victim, "%s/victim", snapshot_folder);
    int fd = open(victim, O_WRONLY | O_CREAT, 0644);
    assert_int_equal(write(fd, "mine", 4), 4);
    close(fd);
    assert_int_equal(symlink(victim, snapshot_beside), 0);
    mode_t mask = umask(0);
    make_whole();
    (void)umask(mask);
    assert_int_equal(stat(snapshot_path, &status), 0);
    assert_int_equal(status.st_mode & 07777, 0600);
    assert_int_equal(stat(victim, &status), 0);
    assert_int_equal(status.st_size, 4);
    assert_int_equal(access(snapshot_beside, F_OK), -1);
    (void)unlink(victim);
}

static void what_cannot_be_written_leaves_what_was_there(void **state)
{
    (void)state;
    struct fixture f = one_limit(WEIR_TOKEN_BUCKET, 5, MINUTE, 0);
    struct weir_snapshot_writer *writer;
    struct weir_snapshot_stats stats;
    struct weir_fault fault;
    struct weir_moment moment = moment_at(T0);
    static const uint8_t note[WEIR_SNAPSHOT_NOTE_MAX + 1];
    make_whole();
    assert_int_equal(weir_snapshot_begin(f.limiter, "/no/such/folder/x", NULL, 0, &writer, &fault), WEIR_EIO);
    assert_non_null(strstr(fault.text, "No such file"));
    assert_int_equal(weir_snapshot_begin(f.limiter, snapshot_path, note, sizeof note, &writer, &fault), WEIR_ERANGE);
    assert_int_equal(weir_snapshot_begin(f.limiter, "", NULL, 0, &writer, &fault), WEIR_ERANGE);
    writer = begin_snapshot(&f); /* given up */
    assert_int_equal(weir_snapshot_step(writer, 64, &moment, &stats, &fault), WEIR_EAGAIN);
    assert_int_equal(access(snapshot_beside, F_OK), 0);
    weir_snapshot_end(writer);
    assert_int_equal(access(snapshot_beside, F_OK), -1);
    writer = begin_snapshot(&f); /* a folder where it shall be */
    assert_int_equal(unlink(snapshot_path), 0);
    assert_int_equal(mkdir(snapshot_path, 0700), 0);
    int error;
    do
        error = weir_snapshot_step(writer, 4096, &moment, &stats, &fault);
    while (error == WEIR_EAGAIN);
    assert_int_equal(error, WEIR_EIO);
    assert_non_null(strstr(fault.text, "cannot write"));
    weir_snapshot_end(writer);
    assert_int_equal(rmdir(snapshot_path), 0);
    assert_int_equal(open_error(&fault), WEIR_ENOENT);
    fixture_destroy(&f);
}

/* /dev/full says so only when it is written to: through a link, which weir does not follow; so a small disk. */
static void a_disk_that_is_full_is_told(void **state)
{
    (void)state;
    struct fixture f = one_limit(WEIR_TOKEN_BUCKET, 5, HOUR, 0);
    struct weir_snapshot_writer *writer;
    struct weir_snapshot_stats stats;
    struct weir_fault fault;
    struct weir_moment moment = moment_at(T0 + 1);
    for (uint64_t key = 0; key < 20000; key++) {
        struct weir_charge charge = numbered(&f, 0, key);
        struct weir_time time = at(T0);
        assert_true(weir_limiter_admit(f.limiter, &charge, &time));
    }
    make_whole();
    struct rlimit was, small = { 100000, 100000 };
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &was), 0);
    small.rlim_max = was.rlim_max;
    (void)signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(weir_snapshot_begin(f.limiter, snapshot_path, NULL, 0, &writer, &fault), 0);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    int error;
    do
        error = weir_snapshot_step(writer, 4096, &moment, &stats, &fault);
    while (error == WEIR_EAGAIN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &was), 0);
    assert_int_equal(error, WEIR_EIO);
    assert_non_null(strstr(fault.text, "File too large"));
    weir_snapshot_end(writer);
    assert_int_equal(open_error(&fault), 0); /* the one before */
    fixture_destroy(&f);
}

/* ---- what is synced ---- */

int __real_fsync(int fd);
int __wrap_fsync(int fd);

static unsigned fsyncs, fsync_fails_at;    /* so many were asked for; the first is number 1 */
static bool of_folder[2], was_in_place[2]; /* each: what it was of, and whether PATH was there by then */

int __wrap_fsync(int fd)
{
    struct stat status;
    assert_int_equal(fstat(fd, &status), 0);
    if (fsyncs < 2) {
        of_folder[fsyncs] = S_ISDIR(status.st_mode);
        was_in_place[fsyncs] = access(snapshot_path, F_OK) == 0;
    }
    if (++fsyncs != fsync_fails_at)
        return __real_fsync(fd);
    errno = EIO;
    return -1;
}

static int finish_error(struct weir_snapshot_writer *writer, struct weir_fault *ret_fault)
{
    const struct weir_moment moment = moment_at(T0);
    struct weir_snapshot_stats stats;
    int error;
    do
        error = weir_snapshot_step(writer, 4096, &moment, &stats, ret_fault);
    while (error == WEIR_EAGAIN);
    weir_snapshot_end(writer);
    return error;
}

/* Or a power cut would leave neither the file before nor this one. */
static void what_is_not_on_the_disk_takes_no_place(void **state)
{
    (void)state;
    struct weir_limit_spec spec = limit_of(WEIR_TOKEN_BUCKET, 10, HOUR, 0);
    struct fixture a = fixture_create(&spec, 1);
    const struct weir_moment moment = moment_at(T0);
    struct weir_fault fault;
    struct stat before, after;
    fsync_fails_at = 0;
    (void)save(&a, &moment);
    assert_int_equal(stat(snapshot_path, &before), 0);
    fsyncs = 0;
    fsync_fails_at = 1;
    assert_int_equal(finish_error(begin_snapshot(&a), &fault), WEIR_EIO);
    assert_int_equal(fsyncs, 1);
    assert_int_equal(stat(snapshot_path, &after), 0);
    assert_int_equal(after.st_ino, before.st_ino);
    assert_int_equal(access(snapshot_beside, F_OK), -1);
    fixture_destroy(&a);
}

/* First what is in it, then that it is there: a folder may forget its newest name. */
static void the_folder_is_synced_when_the_file_has_its_name(void **state)
{
    (void)state;
    struct weir_limit_spec spec = limit_of(WEIR_TOKEN_BUCKET, 10, HOUR, 0);
    struct fixture a = fixture_create(&spec, 1);
    struct weir_fault fault;
    struct stat before, after;
    fsyncs = fsync_fails_at = 0;
    assert_int_equal(finish_error(begin_snapshot(&a), &fault), 0);
    assert_int_equal(fsyncs, 2);
    assert_false(of_folder[0] || was_in_place[0]);
    assert_true(of_folder[1] && was_in_place[1]);
    assert_int_equal(stat(snapshot_path, &before), 0);
    fsyncs = 0;
    fsync_fails_at = 2;
    assert_int_equal(finish_error(begin_snapshot(&a), &fault), WEIR_EIO);
    assert_int_equal(fsyncs, 2);
    assert_string_equal(fault.field, "path");
    assert_non_null(strstr(fault.text, "cannot sync the folder of"));
    assert_non_null(strstr(fault.text, "Input/output error"));
    assert_int_equal(stat(snapshot_path, &after), 0);
    assert_int_not_equal(after.st_ino, before.st_ino);
    assert_int_equal(open_error(&fault), 0); /* whichever of them the disk has: it is a whole one */
    fsync_fails_at = 0;
    fixture_destroy(&a);
}

/* A file of the folder that weir runs in, with the shortest name that there is. */
static void a_path_may_be_one_byte(void **state)
{
    (void)state;
    struct weir_limit_spec spec = limit_of(WEIR_TOKEN_BUCKET, 10, HOUR, 0);
    struct fixture a = fixture_create(&spec, 1);
    struct weir_snapshot_writer *writer;
    struct weir_snapshot_reader *reader;
    struct weir_fault fault;
    struct rlimit was, small = { 10, 10 };
    const int here = open(".", O_RDONLY | O_DIRECTORY);
    assert_int_equal(chdir(snapshot_folder), 0);
    assert_int_equal(weir_snapshot_begin(a.limiter, "x", NULL, 0, &writer, &fault), 0);
    assert_int_equal(access("x.new", F_OK), 0);
    fsyncs = fsync_fails_at = 0;
    assert_int_equal(finish_error(writer, &fault), 0);
    assert_true(fsyncs == 2 && !of_folder[0] && of_folder[1]);
    assert_int_equal(access("x.new", F_OK), -1);
    assert_int_equal(weir_snapshot_open("x", &reader, &fault), 0);
    weir_snapshot_close(reader);
    assert_int_equal(weir_snapshot_begin(a.limiter, "x", NULL, 0, &writer, &fault), 0);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &was), 0);
    small.rlim_max = was.rlim_max;
    (void)signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    const int error = finish_error(writer, &fault);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &was), 0);
    assert_int_equal(error, WEIR_EIO);
    assert_string_equal(fault.text, "cannot write x.new: File too large");
    assert_int_equal(access("x.new", F_OK), -1);
    assert_int_equal(unlink("x"), 0);
    assert_int_equal(fchdir(here), 0);
    close(here);
    fixture_destroy(&a);
}

/* ---- in memory ---- */

static bool is_open(int fd)
{
    return fcntl(fd, F_GETFD) >= 0;
}

/* From one process to another: the writer's descriptor stays the caller's, the reader's goes with it. */
static void it_may_be_handed_over_in_memory(void **state)
{
    (void)state;
    struct weir_limit_spec spec = limit_of(WEIR_TOKEN_BUCKET, 10, HOUR, 0);
    struct fixture a = fixture_create(&spec, 1);
    const struct weir_moment moment = moment_at(T0);
    const int fd = memfd_create("test", MFD_CLOEXEC);
    struct weir_snapshot_writer *writer;
    struct weir_snapshot_reader *reader;
    struct weir_snapshot_stats stats;
    struct weir_fault fault;
    static const uint8_t note[WEIR_SNAPSHOT_NOTE_MAX + 1];
    assert_true(fd >= 0);
    (void)ask(&a, 4, T0);
    assert_int_equal(weir_snapshot_begin_fd(a.limiter, fd, note, sizeof note, &writer, &fault), WEIR_ERANGE);
    assert_string_equal(fault.field, "note");
    fsyncs = 0;
    assert_int_equal(weir_snapshot_begin_fd(a.limiter, fd, "noted", 5, &writer, &fault), 0);
    assert_int_equal(finish_error(writer, &fault), 0);
    assert_int_equal(fsyncs, 0);
    assert_int_equal(lseek(fd, 0, SEEK_CUR), 0);
    const int copy = dup(fd);
    assert_int_equal(weir_snapshot_open_fd(fd, &reader, &fault), 0);
    assert_memory_equal(weir_snapshot_note(reader), "noted\0\0", 7);
    struct weir_limiter_options options = { .memory_max = (size_t)4 << 20, .secret = weir_snapshot_secret(reader) };
    struct fixture b = { 0 };
    assert_int_equal(weir_limiter_create(&options, &b.limiter, &fault), 0);
    assert_int_equal(weir_snapshot_restore(reader, b.limiter, &moment, &stats, &fault), 0);
    assert_int_equal(stats.keys, 1);
    weir_snapshot_close(reader);
    assert_false(is_open(fd));
    fixture_define(&b, &spec, 1, T0);
    assert_int_equal(peek(&b, 0, T0).remaining, 6);
    fixture_destroy(&b);
    assert_int_equal(lseek(copy, 0, SEEK_SET), 0);
    assert_int_equal(ftruncate(copy, 100), 0);
    assert_int_equal(weir_snapshot_open_fd(copy, &reader, &fault), WEIR_ECORRUPT);
    assert_string_equal(fault.text, "what was handed over is damaged or cut off at byte 100");
    assert_false(is_open(copy));
    fixture_destroy(&a);
}

static void what_cannot_be_handed_over_is_told(void **state)
{
    (void)state;
    struct weir_limit_spec spec = limit_of(WEIR_TOKEN_BUCKET, 10, HOUR, 0);
    struct fixture a = fixture_create(&spec, 1);
    struct weir_snapshot_writer *writer;
    struct weir_snapshot_reader *reader;
    struct weir_fault fault;
    int ends[2];
    const int zero = open("/dev/zero", O_RDONLY);
    assert_int_equal(weir_snapshot_begin_fd(a.limiter, zero, NULL, 0, &writer, &fault), 0);
    assert_int_equal(finish_error(writer, &fault), WEIR_EIO);
    assert_non_null(strstr(fault.text, "cannot write memory: "));
    assert_true(is_open(zero));
    assert_int_equal(weir_snapshot_open_fd(zero, &reader, &fault), WEIR_EPROTO);
    assert_string_equal(fault.text, "what was handed over is no file");
    assert_false(is_open(zero));
    assert_int_equal(pipe(ends), 0); /* its place cannot be set */
    assert_int_equal(weir_snapshot_begin_fd(a.limiter, ends[1], NULL, 0, &writer, &fault), 0);
    assert_int_equal(finish_error(writer, &fault), WEIR_EIO);
    assert_non_null(strstr(fault.text, "cannot write memory: "));
    close(ends[0]);
    close(ends[1]);
    fixture_destroy(&a);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, make_folder, remove_folder)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_file_cut_at_any_byte_is_refused_whole),
        TEST(a_file_changed_at_any_byte_is_refused_whole),
        TEST(blocks_in_another_order_are_refused),
        TEST(what_is_no_snapshot_is_told_apart),
        TEST(it_is_ours_alone_and_never_through_a_link),
        TEST(what_cannot_be_written_leaves_what_was_there),
        TEST(a_disk_that_is_full_is_told),
        TEST(what_is_not_on_the_disk_takes_no_place),
        TEST(the_folder_is_synced_when_the_file_has_its_name),
        TEST(a_path_may_be_one_byte),
        TEST(it_may_be_handed_over_in_memory),
        TEST(what_cannot_be_handed_over_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
