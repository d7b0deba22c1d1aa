/* SPDX-License-Identifier: Apache-2.0
 *
 * What restoring makes of what stands in a snapshot: records that no weir wrote, under a digest that is right; keys
 * that are there twice; limits that cannot be defined; the ticks of another clock. */
#include <stdio.h>

#include "limits/snapshot_inside.h"
#include "random.h"
#include "snapshot_fixture.h"

#define FILE_MAX 65536

/* ---- forging ---- */

static const uint8_t no_secret[16];

/* A file under construction: its secret is zeros. */
static struct {
    uint8_t bytes[2 * FILE_MAX];
    size_t size;
    uint64_t place;
} forged;

static void forge_head(void)
{
    const struct weir_snapshot_head head = { .moment = moment_at(T0), .shard_bits = 12, .note = "noted" };
    weir_snapshot_head_write(&head, forged.bytes);
    forged.size = WEIR_SNAPSHOT_HEAD_BYTES;
    forged.place = 0;
}

/* Sealed, as they are; of nothing there is no block. */
static void forge_block(enum weir_snapshot_kind kind, const uint8_t *records, size_t size)
{
    const struct weir_sip_key key = weir_sip_key_load(no_secret);
    struct weir_snapshot_block block = { forged.bytes + forged.size, size };
    if (size == 0)
        return;
    assert_true(forged.size + size + 64 <= sizeof forged.bytes);
    memcpy(block.bytes + WEIR_SNAPSHOT_FRAME_BYTES, records, size);
    forged.size += weir_snapshot_seal(&block, kind, forged.place++, &key);
}

static void forge_end(uint64_t definitions, uint64_t entries)
{
    uint8_t bytes[64];
    struct weir_snapshot_block block = { bytes, 0 };
    weir_snapshot_put_end(&block, definitions, entries);
    forge_block(WEIR_SNAPSHOT_END, bytes + WEIR_SNAPSHOT_FRAME_BYTES, block.size);
    write_file(forged.bytes, forged.size);
}

static void forge_definition(const struct weir_limit_def *def)
{
    uint8_t bytes[512];
    struct weir_snapshot_block block = { bytes, 0 };
    const struct weir_snapshot_definition definition = { .def = *def };
    weir_snapshot_put_definition(&block, &definition);
    forge_block(WEIR_SNAPSHOT_DEFINITIONS, bytes + WEIR_SNAPSHOT_FRAME_BYTES, block.size);
}

/* An entry with its words, if it is a log. */
struct forged_entry {
    struct weir_snapshot_entry entry;
    uint64_t words[16];
};

static void forge_entries(const struct forged_entry *entries, size_t count)
{
    uint8_t bytes[1024];
    struct weir_snapshot_block block = { bytes, 0 };
    for (size_t i = 0; i < count; i++) {
        if (entries[i].entry.shape == WEIR_SNAPSHOT_LOG)
            weir_snapshot_put_log(&block, &entries[i].entry, entries[i].words, 16, 0);
        else
            weir_snapshot_put_entry(&block, &entries[i].entry);
    }
    forge_block(WEIR_SNAPSHOT_ENTRIES, bytes + WEIR_SNAPSHOT_FRAME_BYTES, block.size);
}

/* ---- using it ---- */

static int open_forged(struct weir_fault *ret_fault)
{
    struct weir_snapshot_reader *reader = NULL;
    *ret_fault = (struct weir_fault){ 0 };
    const int error = weir_snapshot_open(snapshot_path, &reader, ret_fault);
    weir_snapshot_close(reader);
    return error;
}

/* The limiter is the caller's, whatever becomes of it. */
static int restore_forged(size_t memory, struct weir_limiter **ret_limiter, struct weir_snapshot_stats *ret_stats,
                          struct weir_fault *ret_fault)
{
    const struct weir_moment moment = moment_at(T0 + SECOND);
    const struct weir_limiter_options options = { .memory_max = memory, .secret = no_secret };
    struct weir_snapshot_reader *reader;
    struct weir_fault fault;
    assert_int_equal(weir_limiter_create(&options, ret_limiter, NULL), 0);
    int error = weir_snapshot_open(snapshot_path, &reader, &fault);
    if (error)
        return error;
    error = weir_snapshot_restore(reader, *ret_limiter, &moment, ret_stats, ret_fault);
    weir_snapshot_close(reader);
    return error;
}

/* Restores it if it can be opened; then the limiter must be fit for use. */
static int restore_and_use(void)
{
    struct weir_snapshot_stats stats = { 0 };
    struct weir_fault fault;
    struct fixture f;
    const int error = restore_forged(256 << 10, &f.limiter, &stats, &fault);
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

static void records_that_no_weir_wrote_harm_nobody(void **state)
{
    (void)state;
    struct test_random random = { test_random_seed() };
    static uint8_t definitions[4096], records[4096], bytes[64 + FILE_MAX];
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
        forge_head();
        forge_block(WEIR_SNAPSHOT_DEFINITIONS, definitions, definitions_size);
        forge_block(WEIR_SNAPSHOT_ENTRIES, records, size);
        forge_end(1, entries);
        fine += restore_and_use() == 0;
    }
    assert_true(fine > 0);
}

/* ---- blocks ---- */

static void says_at(const struct weir_fault *fault, size_t byte)
{
    char text[sizeof fault->text];
    (void)snprintf(text, sizeof text, "%.100s is damaged or cut off at byte %zu", snapshot_path, byte);
    assert_string_equal(fault->field, "path");
    assert_string_equal(fault->text, text);
}

/* Also where its digest is right: what no frame can say is no block, and the byte behind the frame is told. */
static void a_frame_that_begins_no_block_is_refused(void **state)
{
    (void)state;
    const struct weir_limit_def defs[] = { { "a", "", limit_of(WEIR_TOKEN_BUCKET, 9, HOUR, 0) },
                                           { "b", "", limit_of(WEIR_TOKEN_BUCKET, 9, HOUR, 0) } };
    const uint32_t kinds[] = { WEIR_SNAPSHOT_DEFINITIONS, 0, 4, UINT32_MAX };
    const uint32_t sizes[] = { 0, WEIR_SNAPSHOT_BLOCK_MAX + 1, UINT32_MAX };
    struct weir_fault fault;
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0] + sizeof sizes / sizeof sizes[0]; i++) {
        const bool of_kind = i < sizeof kinds / sizeof kinds[0];
        forge_head();
        forge_definition(&defs[0]);
        const size_t second = forged.size, size = second - WEIR_SNAPSHOT_HEAD_BYTES - 16;
        uint8_t records[512];
        forge_definition(&defs[1]);
        memcpy(records, forged.bytes + second + WEIR_SNAPSHOT_FRAME_BYTES, size);
        forged.size = second;
        forged.place = 1;
        forge_block(of_kind ? (enum weir_snapshot_kind)kinds[i] : WEIR_SNAPSHOT_DEFINITIONS, records, size);
        if (!of_kind)
            memcpy(forged.bytes + second + 4, &sizes[i - sizeof kinds / sizeof kinds[0]], 4);
        forge_end(2, 0);
        assert_int_equal(open_forged(&fault), i == 0 ? 0 : WEIR_ECORRUPT);
        if (i > 0)
            says_at(&fault, second + WEIR_SNAPSHOT_FRAME_BYTES);
    }
}

static void a_file_that_contradicts_itself_is_refused(void **state)
{
    (void)state;
    const struct weir_limit_def def = { "0", "", limit_of(WEIR_TOKEN_BUCKET, 9, HOUR, 0) };
    const struct forged_entry entry = { .entry = { .number = WEIR_SNAPSHOT_FIRST, .hash = 1, .fresh_at = 1 } };
    struct weir_fault fault;
    for (uint64_t definitions = 0; definitions < 3; definitions++)
        for (uint64_t entries = 0; entries < 3; entries++) { /* as the end says */
            forge_head();
            forge_definition(&def);
            forge_entries(&entry, 1);
            forge_end(definitions, entries);
            assert_int_equal(open_forged(&fault), definitions == 1 && entries == 1 ? 0 : WEIR_ECORRUPT);
            if (definitions != 1 || entries != 1)
                says_at(&fault, forged.size);
        }
    forge_head(); /* in the wrong order */
    forge_entries(&entry, 1);
    forge_definition(&def);
    const size_t second = forged.size;
    forge_end(1, 1);
    assert_int_equal(open_forged(&fault), WEIR_ECORRUPT);
    says_at(&fault, second);
}

/* ---- entries ---- */

#define STATE(of_shape, at, of_a, of_b)                                                                                \
    {                                                                                                                  \
        .entry = {                                                                                                     \
            .shape = WEIR_SNAPSHOT_##of_shape,                                                                         \
            .number = WEIR_SNAPSHOT_FIRST,                                                                             \
            .fresh_at = (at),                                                                                          \
            .a = (of_a),                                                                                               \
            .b = (of_b)                                                                                                \
        }                                                                                                              \
    }
#define OF_NUMBER(of_number, of_shape, of_hash, at)                                                                    \
    {                                                                                                                  \
        .entry = {.shape = WEIR_SNAPSHOT_##of_shape, .number = (of_number), .hash = (of_hash), .fresh_at = (at) }      \
    }
#define LOG_OF(count, ...)                                                                                             \
    {                                                                                                                  \
        .entry = { .shape = WEIR_SNAPSHOT_LOG, .number = WEIR_SNAPSHOT_FIRST, .words_count = (count) }, .words = {     \
            __VA_ARGS__                                                                                                \
        }                                                                                                              \
    }
#define RAW_LAST (WEIR_RAW_FIRST + WEIR_RAW_COUNT - 1)
#define TIMES_MAX (T0 + SECOND + 2 * 366 * DAY) /* ahead of when it is restored */
#define COUNT_MAX (UINT64_C(1) << 62)

static const struct {
    enum weir_algorithm algorithm;
    bool good;
    struct forged_entry entry;
} entries_of[] = {
    { WEIR_TOKEN_BUCKET, true, STATE(NARROW, WEIR_TICKS_MASK, 0, 0) },
    { WEIR_TOKEN_BUCKET, false, STATE(NARROW, WEIR_TICKS_MASK + 1, 0, 0) },
    { WEIR_TOKEN_BUCKET, false, STATE(WIDE, 1, 0, 0) },
    { WEIR_TOKEN_BUCKET, false, LOG_OF(1, T0) },
    { WEIR_TOKEN_BUCKET, false, OF_NUMBER(WEIR_SNAPSHOT_FIRST + 1, NARROW, 0, 1) },
    { WEIR_TOKEN_BUCKET, true, OF_NUMBER(WEIR_RAW_FIRST, NARROW, UINT64_MAX, WEIR_TICKS_MASK) },
    { WEIR_TOKEN_BUCKET, true, OF_NUMBER(RAW_LAST, NARROW, UINT64_MAX, 1) },
    { WEIR_TOKEN_BUCKET, false, OF_NUMBER(WEIR_RAW_FIRST - 1, NARROW, UINT64_MAX, 1) },
    { WEIR_TOKEN_BUCKET, false, OF_NUMBER(RAW_LAST + 1, NARROW, UINT64_MAX, 1) },
    { WEIR_TOKEN_BUCKET, false, OF_NUMBER(WEIR_SNAPSHOT_FIRST - 1, NARROW, UINT64_MAX, 1) },
    { WEIR_TOKEN_BUCKET, false, OF_NUMBER(WEIR_RAW_FIRST, NARROW, UINT64_MAX, WEIR_TICKS_MASK + 1) },
    { WEIR_TOKEN_BUCKET, false, OF_NUMBER(WEIR_RAW_FIRST, NARROW, ~WEIR_TAG_KEY_MASK, 1) },
    { WEIR_TOKEN_BUCKET, false, OF_NUMBER(WEIR_RAW_FIRST, WIDE, UINT64_MAX, 1) },
    { WEIR_FIXED_WINDOW, true, STATE(WIDE, 1, UINT64_MAX >> 1, 1) },
    { WEIR_FIXED_WINDOW, false, STATE(WIDE, 1, UINT64_C(1) << 63, 1) },
    { WEIR_FIXED_WINDOW, false, STATE(WIDE, WEIR_TICKS_MASK + 1, 1, 1) },
    { WEIR_FIXED_WINDOW, false, STATE(NARROW, 1, 0, 0) },
    { WEIR_SLIDING_COUNTER, true, STATE(WIDE, 1, COUNT_MAX, COUNT_MAX) },
    { WEIR_SLIDING_COUNTER, false, STATE(WIDE, 1, COUNT_MAX + 1, 0) },
    { WEIR_SLIDING_COUNTER, false, STATE(WIDE, 1, 0, COUNT_MAX + 1) },
    { WEIR_SLIDING_LOG, true, LOG_OF(3, T0, T0, T0 + HOUR) },
    { WEIR_SLIDING_LOG, false, LOG_OF(3, T0, T0 + HOUR, T0 + HOUR - 1) },
    { WEIR_SLIDING_LOG, true, LOG_OF(1, TIMES_MAX) },
    { WEIR_SLIDING_LOG, false, LOG_OF(1, TIMES_MAX + 1) },
    { WEIR_SLIDING_LOG, false, STATE(NARROW, 1, 0, 0) },
    { WEIR_SLIDING_LOG, false, STATE(WIDE, 1, 0, 0) },
    { WEIR_CONCURRENCY, true, LOG_OF(4, T0 + HOUR, 7, T0 + HOUR, 6) },
    { WEIR_CONCURRENCY, false, LOG_OF(4, T0 + HOUR, 7, T0 + HOUR - 1, 8) },
    { WEIR_CONCURRENCY, false, LOG_OF(3, T0 + HOUR, 7, T0 + HOUR) },
    { WEIR_CONCURRENCY, false, STATE(NARROW, 1, 0, 0) },
};

/* It is enough that one entry can be of no weir: what follows it may be as good as it likes. */
static void an_entry_that_fits_no_limit_spoils_the_file(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof entries_of / sizeof entries_of[0]; i++) {
        const struct weir_limit_def def = { "0", "", limit_of(entries_of[i].algorithm, 9, HOUR, 0) };
        const struct forged_entry entries[] = {
            entries_of[i].entry, { .entry = { .number = WEIR_RAW_FIRST, .hash = UINT64_MAX >> 1, .fresh_at = 1 } }
        };
        struct weir_snapshot_stats stats = { 0 };
        struct weir_limiter *limiter;
        struct weir_fault fault = { 0 };
        forge_head();
        forge_definition(&def);
        forge_entries(entries, 2);
        const size_t size = forged.size;
        forge_end(1, 2);
        const int error = restore_forged(256 << 10, &limiter, &stats, &fault);
        if (error != (entries_of[i].good ? 0 : WEIR_ECORRUPT))
            fail_msg("entry %zu: %d", i, error);
        if (error)
            says_at(&fault, size);
        else
            assert_int_equal(stats.keys + stats.fresh, 2);
        weir_limiter_destroy(limiter);
    }
}

/* Of key "k", as a snapshot has it. */
static struct forged_entry entry_of_k(const struct fixture *f)
{
    const struct weir_moment moment = moment_at(T0);
    struct forged_entry made;
    struct weir_snapshot_reader *reader;
    struct weir_fault fault;
    enum weir_snapshot_kind kind;
    (void)save(f, &moment);
    assert_int_equal(weir_snapshot_open(snapshot_path, &reader, &fault), 0);
    do
        assert_int_equal(weir_snapshot_read_block(reader, &kind, &fault), 0);
    while (kind != WEIR_SNAPSHOT_ENTRIES);
    struct weir_snapshot_rest rest = weir_snapshot_records(reader);
    assert_int_equal(weir_snapshot_take_entry(&rest, &made.entry), 1);
    for (uint32_t i = 0; i < made.entry.words_count; i++)
        made.words[i] = weir_snapshot_word(&made.entry, i);
    weir_snapshot_close(reader);
    return made;
}

/* Both entries, or the second alone, are restored: how much is left of "k", and how much memory that takes. */
static uint64_t left_of(const struct weir_limit_def *def, const struct forged_entry *entries, size_t count,
                        uint64_t *ret_memory)
{
    struct weir_snapshot_stats stats = { 0 };
    struct weir_limiter_stats counts;
    struct fixture f;
    forge_head();
    forge_definition(def);
    forge_entries(entries + 2 - count, count);
    forge_end(1, count);
    assert_int_equal(restore_forged((size_t)4 << 20, &f.limiter, &stats, NULL), 0);
    assert_int_equal(stats.keys, 1);
    assert_int_equal(stats.fresh + stats.lost, 0);
    weir_limiter_stats(f.limiter, &counts);
    assert_int_equal(counts.keys, 1);
    *ret_memory = counts.memory_used;
    fixture_define(&f, &def->spec, 1, T0 + SECOND);
    const uint64_t left = peek(&f, 0, T0 + SECOND).remaining;
    fixture_destroy(&f);
    return left;
}

static void of_a_key_that_is_there_twice_the_later_entry_counts(void **state)
{
    (void)state;
    for (int algorithm = WEIR_TOKEN_BUCKET; algorithm <= WEIR_CONCURRENCY; algorithm++) {
        const struct weir_limit_def def = { "0", "", limit_of((enum weir_algorithm)algorithm, 9, HOUR, 0) };
        const struct weir_limiter_options options = { .memory_max = (size_t)4 << 20, .secret = no_secret };
        struct fixture f = fixture_create_with(&options, &def.spec, 1);
        (void)ask(&f, 1, T0);
        const struct forged_entry less = entry_of_k(&f);
        for (int i = 0; i < 5; i++)
            (void)ask(&f, 1, T0);
        const struct forged_entry more = entry_of_k(&f);
        fixture_destroy(&f);
        for (int grows = 0; grows < 2; grows++) {
            const struct forged_entry both[] = { grows ? less : more, grows ? more : less };
            uint64_t memory, alone;
            assert_int_equal(left_of(&def, both, 2, &memory), grows ? 3 : 8);
            assert_int_equal(left_of(&def, both, 1, &alone), grows ? 3 : 8);
            assert_int_equal(memory, alone);
        }
    }
}

/* ---- limits ---- */

/* The fault names it, as that of weir_limiter_define would. */
static void a_limit_that_cannot_be_defined_is_named(void **state)
{
    (void)state;
    struct weir_limit_def defs[] = { { "a", "", limit_of(WEIR_TOKEN_BUCKET, 9, HOUR, 0) },
                                     { "b", "", limit_of(WEIR_TOKEN_BUCKET, 9, 0, 0) } };
    for (int told = 0; told < 3; told++) {
        struct weir_snapshot_stats stats = { 0 };
        struct weir_limiter *limiter;
        struct weir_fault fault = { 0 };
        defs[1].name = told == 1 ? "a" : "b";
        defs[1].spec.period_ns = told == 1 ? HOUR : 0;
        forge_head();
        forge_definition(&defs[0]);
        forge_definition(&defs[1]);
        forge_end(2, 0);
        assert_int_equal(restore_forged(256 << 10, &limiter, &stats, told == 2 ? NULL : &fault),
                         told == 1 ? WEIR_EEXIST : WEIR_ERANGE);
        assert_string_equal(fault.field, told == 0 ? "b.period" : told == 1 ? "a.name" : "");
        assert_int_equal(fault.text[0] != '\0', told != 2);
        weir_limiter_destroy(limiter);
    }
}

/* ---- clocks ---- */

/* Of ten years a tick is of several ns. Where the clocks of two boots differ by a whole number of them a key waits to
 * the ns as before; where not, by at most a tick longer, and never less. */
static void a_restart_gives_no_part_of_a_tick(void **state)
{
    (void)state;
    const struct weir_limit_spec spec = limit_of(WEIR_TOKEN_BUCKET, 1, 365 * DAY, 10);
    for (uint64_t part = 0; part <= 64; part++) {
        struct fixture a = fixture_create(&spec, 1);
        struct weir_snapshot_stats stats = { 0 };
        struct weir_moment then = moment_at(64 * T0), now = moment_at(64 * T0 + HOUR * 64 + part);
        const uint64_t wait_ns = (ask(&a, 10, then.now_ns), peek(&a, 10, then.now_ns).retry_after_ns);
        (void)save(&a, &then);
        now.boot_id[0] = 2;
        now.wall_ns = then.wall_ns;
        struct fixture b = restart(&spec, 1, &now, &stats);
        assert_false(peek(&b, 10, now.now_ns + wait_ns - 1).admitted);
        assert_true(peek(&b, 10, now.now_ns + wait_ns + (part % 64 ? 64 : 0)).admitted);
        fixture_destroy(&a);
        fixture_destroy(&b);
    }
}

/* Buckets without a definition are no limit's: nobody counts what goes. */
static void of_a_bucket_that_is_there_twice_the_later_entry_counts(void **state)
{
    (void)state;
    struct forged_entry entries[2];
    struct weir_snapshot_stats stats = { 0 };
    struct weir_limiter_stats counts;
    struct weir_limiter *limiter;
    for (uint32_t i = 0; i < 2; i++) {
        const uint64_t fresh_at = weir_ticks_at(T0 + HOUR, (int32_t)(4 + i) + WEIR_TICKS_SHIFT_MIN);
        entries[i] = (struct forged_entry)OF_NUMBER(WEIR_RAW_FIRST + 4 + i, NARROW, UINT64_MAX, fresh_at);
    }
    forge_head();
    forge_entries(entries, 2);
    forge_end(0, 2);
    assert_int_equal(restore_forged(256 << 10, &limiter, &stats, NULL), 0);
    weir_limiter_stats(limiter, &counts);
    assert_int_equal(counts.keys, 1);
    assert_int_equal(stats.keys, 1);
    assert_int_equal(stats.fresh + stats.lost, 0);
    weir_limiter_destroy(limiter);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, make_folder, remove_folder)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(records_that_no_weir_wrote_harm_nobody),
        TEST(a_frame_that_begins_no_block_is_refused),
        TEST(a_file_that_contradicts_itself_is_refused),
        TEST(an_entry_that_fits_no_limit_spoils_the_file),
        TEST(of_a_key_that_is_there_twice_the_later_entry_counts),
        TEST(a_limit_that_cannot_be_defined_is_named),
        TEST(a_restart_gives_no_part_of_a_tick),
        TEST(of_a_bucket_that_is_there_twice_the_later_entry_counts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
