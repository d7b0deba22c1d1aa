/* SPDX-License-Identifier: Apache-2.0
 *
 * The file of a snapshot: cut at every byte, changed at every byte, of somebody else, of a later version, written where
 * nothing can be written; and records that no weir wrote, under a digest that is right. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "random.h"
#include "snapshot_fixture.h"
#include "wire/snapshot.h"

#define FILE_MAX 65536

static uint8_t whole[FILE_MAX];
static size_t whole_size;

static void write_file(const uint8_t *bytes, size_t size)
{
    (void)unlink(snapshot_path); /* ext4 flushes a file that is cut and written anew, which takes its time */
    int fd = open(snapshot_path, O_WRONLY | O_CREAT | O_EXCL, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, bytes, size), size);
    close(fd);
}

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

/* ---- records that no weir wrote ---- */

/* Seals `size` bytes of records as they are, behind `at` bytes of a file whose secret is zeros. */
static size_t seal(uint8_t *file, size_t at, enum weir_snapshot_kind kind, uint64_t place, const uint8_t *records,
                   size_t size)
{
    static const uint8_t secret[WEIR_SNAPSHOT_SECRET_BYTES];
    const struct weir_sip_key key = weir_sip_key_load(secret);
    struct weir_snapshot_block block = { file + at, size };
    memcpy(file + at + WEIR_SNAPSHOT_FRAME_BYTES, records, size);
    return at + weir_snapshot_seal(&block, kind, place, &key);
}

static size_t seal_head(uint8_t *file)
{
    const struct weir_snapshot_head head = { .moment = moment_at(T0), .shard_bits = 12, .note = "noted" };
    weir_snapshot_head_write(&head, file);
    return WEIR_SNAPSHOT_HEAD_BYTES;
}

static size_t seal_end(uint8_t *file, size_t at, uint64_t place, uint64_t definitions, uint64_t entries)
{
    uint8_t end[64];
    struct weir_snapshot_block block = { end, 0 };
    weir_snapshot_put_end(&block, definitions, entries);
    return seal(file, at, WEIR_SNAPSHOT_END, place, end + WEIR_SNAPSHOT_FRAME_BYTES, block.size);
}

/* These records, between definitions and an end that fit. */
static size_t forge(const uint8_t *definitions, size_t definitions_size, uint64_t count, const uint8_t *records,
                    size_t size, uint64_t entries, uint8_t *file)
{
    uint64_t place = 0;
    size_t at = seal_head(file);
    if (definitions_size > 0)
        at = seal(file, at, WEIR_SNAPSHOT_DEFINITIONS, place++, definitions, definitions_size);
    if (size > 0)
        at = seal(file, at, WEIR_SNAPSHOT_ENTRIES, place++, records, size);
    return seal_end(file, at, place, count, entries);
}

/* Restores it if it can be opened; then the limiter must be fit for use. */
static int restore_forged(void)
{
    struct weir_snapshot_reader *reader;
    struct weir_snapshot_stats stats;
    struct weir_fault fault;
    struct weir_moment moment = moment_at(T0 + SECOND);
    struct fixture f;
    int error = weir_snapshot_open(snapshot_path, &reader, &fault);
    if (error)
        return error;
    struct weir_limiter_options options = { .memory_max = 256 << 10, .secret = weir_snapshot_secret(reader) };
    assert_int_equal(weir_limiter_create(&options, &f.limiter, &fault), 0);
    error = weir_snapshot_restore(reader, f.limiter, &moment, &stats, &fault);
    weir_snapshot_close(reader);
    if (!error) {
        struct weir_limit_spec spec = limit_of(WEIR_SLIDING_LOG, 7, HOUR, 0);
        fixture_define(&f, &spec, 1, T0 + 2 * SECOND); /* carries all over that is of "0" */
        for (uint64_t i = 0; i < 20; i++)
            (void)ask(&f, 1, T0 + (2 + i) * SECOND);
        struct weir_time time = at(T0 + HOUR);
        while (weir_limiter_maintain(f.limiter, &time, 4096)) {
        }
    }
    weir_limiter_destroy(f.limiter);
    return error;
}

int __real_fsync(int fd);
int __wrap_fsync(int fd);

static bool fsync_fails; /* the next one */

int __wrap_fsync(int fd)
{
    if (!fsync_fails)
        return __real_fsync(fd);
    fsync_fails = false;
    errno = EIO;
    return -1;
}

/* Or a power cut would leave neither the file before nor this one. */
static void what_is_not_on_the_disk_takes_no_place(void **state)
{
    (void)state;
    struct weir_limit_spec spec = limit_of(WEIR_TOKEN_BUCKET, 10, HOUR, 0);
    struct fixture a = fixture_create(&spec, 1);
    const struct weir_moment moment = moment_at(T0);
    struct weir_snapshot_stats stats;
    struct weir_fault fault;
    struct stat before, after;
    int error;
    (void)save(&a, &moment);
    assert_int_equal(stat(snapshot_path, &before), 0);
    struct weir_snapshot_writer *writer = begin_snapshot(&a);
    fsync_fails = true;
    do {
        error = weir_snapshot_step(writer, 64, &moment, &stats, &fault);
    } while (error == WEIR_EAGAIN);
    assert_int_equal(error, WEIR_EIO);
    weir_snapshot_end(writer);
    assert_int_equal(stat(snapshot_path, &after), 0);
    assert_int_equal(after.st_ino, before.st_ino);
    fixture_destroy(&a);
}

static void records_that_no_weir_wrote_harm_nobody(void **state)
{
    (void)state;
    struct test_random random = { test_random_seed() };
    static uint8_t definitions[4096], records[4096], bytes[64 + FILE_MAX], file[2 * FILE_MAX];
    uint64_t fine = 0;
    for (uint64_t round = 0; round < test_effort(300, 3000, 100000); round++) {
        struct weir_snapshot_block block = { bytes, 0 };
        enum weir_algorithm algorithm = (enum weir_algorithm)test_random_below(&random, 6);
        struct weir_snapshot_definition definition = {
            .def = { "0", "", limit_of(algorithm, 1 + test_random_below(&random, 9), HOUR, 0) },
            .debt_units = test_random_u64(&random) >> test_random_below(&random, 64),
            .debt_until_ns = test_random_u64(&random) >> test_random_below(&random, 64),
        };
        weir_snapshot_put_definition(&block, &definition);
        size_t definitions_size = block.size;
        memcpy(definitions, bytes + WEIR_SNAPSHOT_FRAME_BYTES, definitions_size);
        block.size = 0;
        uint64_t entries = 1 + test_random_below(&random, 5), ring[16];
        for (uint64_t i = 0; i < entries; i++) {
            struct weir_snapshot_entry entry = {
                .shape = (enum weir_snapshot_shape)test_random_below(&random, 3),
                .number = test_random_below(&random, 3) ? WEIR_SNAPSHOT_FIRST
                                                        : (uint32_t)test_random_below(&random, 40),
                .hash = test_random_below(&random, 3),
                .fresh_at = test_random_u64(&random) >> test_random_below(&random, 64),
                .a = test_random_u64(&random) >> test_random_below(&random, 64),
                .b = test_random_u64(&random) >> test_random_below(&random, 64),
                .words_count = (uint32_t)test_random_below(&random, 16),
            };
            if (algorithm == WEIR_CONCURRENCY || algorithm == WEIR_SLIDING_LOG)
                entry.shape = WEIR_SNAPSHOT_LOG;
            for (int w = 0; w < 16; w++)
                ring[w] = T0 + test_random_below(&random, 2) * (uint64_t)w * SECOND +
                          (test_random_below(&random, 30) ? 0 : test_random_u64(&random));
            if (entry.shape == WEIR_SNAPSHOT_LOG)
                weir_snapshot_put_log(&block, &entry, ring, 16, 0);
            else
                weir_snapshot_put_entry(&block, &entry);
        }
        size_t size = block.size;
        memcpy(records, bytes + WEIR_SNAPSHOT_FRAME_BYTES, size);
        if (test_random_below(&random, 2))
            records[test_random_below(&random, size)] ^= (uint8_t)(1 << test_random_below(&random, 8));
        if (test_random_below(&random, 8) == 0)
            definitions[test_random_below(&random, definitions_size)] ^= (uint8_t)(1 << test_random_below(&random, 8));
        write_file(file, forge(definitions, definitions_size, 1, records, size, entries, file));
        fine += restore_forged() == 0;
    }
    assert_true(fine > 0);
}

/* What is there must be known before it is used: nothing of such a file is. */
static void definitions_behind_entries_are_refused(void **state)
{
    (void)state;
    static uint8_t bytes[2][1024], file[FILE_MAX];
    struct weir_snapshot_block definitions = { bytes[0], 0 }, entries = { bytes[1], 0 };
    const uint8_t *const records[] = { bytes[0] + WEIR_SNAPSHOT_FRAME_BYTES, bytes[1] + WEIR_SNAPSHOT_FRAME_BYTES };
    const struct weir_snapshot_definition definition = { .def = { "0", "", limit_of(WEIR_TOKEN_BUCKET, 9, DAY, 0) } };
    const struct weir_snapshot_entry entry = { .number = WEIR_SNAPSHOT_FIRST, .hash = 7, .fresh_at = T0 + HOUR };
    struct weir_fault fault;
    weir_snapshot_put_definition(&definitions, &definition);
    weir_snapshot_put_entry(&entries, &entry);
    for (unsigned behind = 0; behind < 2; behind++) {
        size_t at = seal(file, seal_head(file), WEIR_SNAPSHOT_DEFINITIONS, 0, records[0], definitions.size);
        at = seal(file, at, WEIR_SNAPSHOT_ENTRIES, 1, records[1], entries.size);
        if (behind)
            at = seal(file, at, WEIR_SNAPSHOT_DEFINITIONS, 2, records[0], definitions.size);
        write_file(file, seal_end(file, at, 2 + behind, 1 + behind, 1));
        assert_int_equal(open_error(&fault), behind ? WEIR_ECORRUPT : 0);
    }
}

/* Who was met twice while it moved is one key. */
static void a_key_that_is_there_twice_is_one(void **state)
{
    (void)state;
    static uint8_t definitions[4096], bytes[4096], file[FILE_MAX];
    struct weir_snapshot_block block = { bytes, 0 };
    const struct weir_snapshot_definition definition = { .def = { "0", "",
                                                                  limit_of(WEIR_SLIDING_COUNTER, 9, DAY, 0) } };
    weir_snapshot_put_definition(&block, &definition);
    const size_t definitions_size = block.size;
    memcpy(definitions, bytes + WEIR_SNAPSHOT_FRAME_BYTES, definitions_size);
    block.size = 0;
    for (uint64_t used = 1; used <= 2; used++) {
        const struct weir_snapshot_entry entry = {
            .shape = WEIR_SNAPSHOT_WIDE, .number = WEIR_SNAPSHOT_FIRST, .hash = 7, .fresh_at = T0 + 30 * HOUR, .b = used
        };
        weir_snapshot_put_entry(&block, &entry);
    }
    write_file(file, forge(definitions, definitions_size, 1, bytes + WEIR_SNAPSHOT_FRAME_BYTES, block.size, 2, file));
    struct weir_moment moment = moment_at(T0);
    struct weir_snapshot_stats stats;
    struct weir_limiter *limiter = restored((size_t)4 << 20, &moment, &stats);
    struct weir_limiter_stats counts;
    weir_limiter_stats(limiter, &counts);
    assert_int_equal(counts.keys, 1);
    assert_int_equal(stats.keys, 1);
    weir_limiter_destroy(limiter);
}

/* A clock that came back by hours: what was read before would be of another time than what comes. */
static void a_clock_that_comes_back_begins_the_reading_anew(void **state)
{
    (void)state;
    struct weir_limit_spec spec = limit_of(WEIR_TOKEN_BUCKET, 10, HOUR, 0);
    struct fixture a = fixture_create(&spec, 1);
    const struct weir_moment ahead = moment_at(T0 + 3 * HOUR), moment = moment_at(T0);
    struct weir_snapshot_stats stats;
    struct weir_fault fault;
    struct weir_snapshot_writer *writer = begin_snapshot(&a);
    assert_int_equal(weir_snapshot_step(writer, 64, &ahead, &stats, &fault), WEIR_EAGAIN);
    (void)ask(&a, 4, T0);
    (void)finish_snapshot(writer, &moment);
    fixture_destroy(&a);
    struct fixture b = restart(&spec, 1, &moment, &stats);
    assert_int_equal(peek(&b, 0, T0).remaining, 6);
    fixture_destroy(&b);
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
        TEST(definitions_behind_entries_are_refused),
        TEST(a_key_that_is_there_twice_is_one),
        TEST(a_clock_that_comes_back_begins_the_reading_anew),
        TEST(records_that_no_weir_wrote_harm_nobody),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
