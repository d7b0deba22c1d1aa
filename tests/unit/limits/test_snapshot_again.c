/* SPDX-License-Identifier: Apache-2.0
 *
 * Snapshots of a limiter that was itself made of one, and what of a definition is in them. */
#include "snapshot_fixture.h"

static struct weir_verdict decide(const struct fixture *f, size_t limit, uint64_t key, uint64_t cost, uint64_t now_ns,
                                  unsigned flags)
{
    struct weir_charge charge = numbered(f, limit, key);
    struct weir_verdict verdict;
    struct weir_time time = at(now_ns);
    charge.cost = cost;
    assert_int_equal(weir_limiter_decide_many(f->limiter, &charge, 1, &time, flags, &verdict), 0);
    return verdict;
}

/* No permit's number is granted twice, however often weir is restarted. */
static void a_permit_of_before_a_restart_is_none_of_after_it(void **state)
{
    (void)state;
    const struct weir_limit_spec spec = limit_of(WEIR_CONCURRENCY, 100, HOUR, 0);
    struct fixture f = fixture_create(&spec, 1);
    uint64_t last = 0;
    for (uint64_t i = 0; i < 4; i++) {
        const struct weir_moment moment = moment_at(T0 + i * SECOND);
        struct weir_snapshot_stats stats;
        for (unsigned k = 0; k < 3; k++) {
            const uint64_t ticket = ask(&f, 1, T0 + i * SECOND).ticket;
            assert_true(ticket > last);
            last = ticket;
        }
        (void)save(&f, &moment);
        fixture_destroy(&f);
        f = restart(&spec, 1, &moment, &stats);
    }
    assert_int_equal(out(&f, T0 + 4 * SECOND), 4 * 3);
    fixture_destroy(&f);
}

/* The machine was started anew, and its clock began at 0: whoever holds a permit gives it back by its number. */
static void a_permit_is_given_back_after_a_restart_of_the_machine(void **state)
{
    (void)state;
    const struct weir_limit_spec spec = limit_of(WEIR_CONCURRENCY, 10, HOUR, 0);
    const struct weir_moment before = moment_at(T0);
    const struct weir_moment after = {
        .now_ns = 20 * SECOND, .wall_ns = T0 + MINUTE, .boot_ns = 20 * SECOND, .boot_id = { 2 }
    };
    struct weir_snapshot_stats stats;
    struct fixture a = fixture_create(&spec, 1);
    const uint64_t given = ask(&a, 3, T0).ticket, renewed = ask(&a, 2, T0).ticket;
    (void)save(&a, &before);
    fixture_destroy(&a);
    struct fixture b = restart(&spec, 1, &after, &stats);
    assert_int_equal(out(&b, after.now_ns), 5);
    assert_int_equal(give_back(&b, given, after.now_ns), 3);
    assert_int_equal(renew(&b, renewed, after.now_ns + MINUTE), HOUR);
    assert_int_equal(out(&b, after.now_ns + HOUR), 2);
    fixture_destroy(&b);
}

/* A window goes on as it was: its limit is the same one, in its own time zone. */
static void a_window_keeps_its_time_zone(void **state)
{
    (void)state;
    const uint64_t now_ns = 20 * DAY + 10 * HOUR;
    struct weir_limit_spec spec = limit_of(WEIR_FIXED_WINDOW, 10, DAY, 0);
    struct weir_snapshot_stats stats;
    struct weir_limiter_stats counts;
    spec.calendar = WEIR_CALENDAR_DAY;
    spec.tz = "Asia/Tokyo";
    const struct weir_moment moment = moment_at(now_ns);
    struct fixture a = fixture_create(&spec, 1);
    const uint64_t reset_ns = ask(&a, 4, now_ns).reset_after_ns;
    assert_int_equal(reset_ns, 5 * HOUR);
    (void)save(&a, &moment);
    fixture_destroy(&a);
    struct fixture b = restart(&spec, 1, &moment, &stats);
    const struct weir_verdict verdict = ask(&b, 1, now_ns);
    assert_int_equal(verdict.remaining, 5);
    assert_int_equal(verdict.reset_after_ns, reset_ns);
    weir_limiter_stats(b.limiter, &counts);
    assert_int_equal(counts.converted, 0);
    fixture_destroy(&b);
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

/* What has gone to another limit is carried over before anything is written. */
static void the_keys_of_the_limits_before_are_carried_over_first(void **state)
{
    (void)state;
    enum { KEYS = 500 };
    struct weir_limit_spec spec = limit_of(WEIR_TOKEN_BUCKET, 10, HOUR, 0);
    struct fixture a = fixture_create(&spec, 1);
    const struct weir_moment moment = moment_at(T0);
    struct weir_snapshot_stats stats;
    struct weir_limiter_stats counts;
    struct weir_fault fault;
    for (uint64_t key = 0; key < KEYS; key++) {
        assert_true(decide(&a, 0, key, 1, T0, 0).admitted);
    }
    spec.count = 11;
    fixture_define(&a, &spec, 1, T0);
    struct weir_snapshot_writer *writer = begin_snapshot(&a);
    assert_int_equal(weir_snapshot_step(writer, SIZE_MAX, &moment, &stats, &fault), WEIR_EAGAIN);
    weir_limiter_stats(a.limiter, &counts);
    assert_int_equal(counts.converted, KEYS);
    stats = finish_snapshot(writer, &moment);
    assert_int_equal(stats.keys, KEYS);
    fixture_destroy(&a);
}

/* A key that became a log's and found no room for it yet stands there as if it had. */
static void what_found_no_room_under_its_new_limit_is_written_as_of_that(void **state)
{
    (void)state;
    enum { KEYS = 200 };
    static const enum weir_algorithm algorithms[] = { WEIR_TOKEN_BUCKET, WEIR_LEAKY_BUCKET, WEIR_FIXED_WINDOW,
                                                      WEIR_SLIDING_COUNTER };
    for (size_t i = 0; i < 2 * sizeof algorithms / sizeof algorithms[0]; i++) {
        const bool resets = i % 2;
        struct weir_limit_spec was = limit_of(algorithms[i / 2], 10, HOUR, 10);
        struct weir_limit_spec is = limit_of(WEIR_SLIDING_LOG, 10, HOUR, 0);
        const struct weir_limiter_options options = { .memory_max = (size_t)4 << 20, .log_memory_max = 4096 };
        const struct weir_moment moment = moment_at(T0 + SECOND);
        struct weir_snapshot_stats stats;
        struct weir_limiter_stats counts;
        was.burst = i / 2 < 2 ? 10 : 0;
        is.on_full = WEIR_ON_FULL_REFUSE;
        is.on_change = resets ? WEIR_ON_CHANGE_RESET : WEIR_ON_CHANGE_KEEP;
        struct fixture a = fixture_create_with(&options, &was, 1), roomy = fixture_create(&was, 1);
        for (uint64_t key = 0; key < KEYS; key++) {
            assert_true(decide(&a, 0, key, 1 + key % 9, T0, 0).admitted);
            assert_true(decide(&roomy, 0, key, 1 + key % 9, T0, 0).admitted);
        }
        fixture_define(&a, &is, 1, T0 + SECOND);
        fixture_define(&roomy, &is, 1, T0 + SECOND);
        const uint64_t written = save(&a, &moment).keys;
        weir_limiter_stats(a.limiter, &counts);
        assert_int_equal(counts.evicted, 0);
        assert_true(resets || counts.converted < KEYS);
        struct fixture b = restart(&is, 1, &moment, &stats);
        assert_int_equal(stats.keys + stats.fresh, written);
        if (!resets)
            assert_int_equal(written, KEYS);
        for (uint64_t key = 0; key < KEYS; key++) {
            const struct weir_verdict x = decide(&b, 0, key, 1, T0 + SECOND, WEIR_PEEK);
            const struct weir_verdict y = decide(&roomy, 0, key, 1, T0 + SECOND, WEIR_PEEK);
            assert_same_verdict(&x, &y);
        }
        fixture_destroy(&a);
        fixture_destroy(&b);
        fixture_destroy(&roomy);
    }
}

/* The descriptor is somebody else's by then. */
static void a_writer_that_has_ended_closes_nothing_more(void **state)
{
    (void)state;
    struct fixture a = one_limit(WEIR_TOKEN_BUCKET, 10, HOUR, 0);
    const struct weir_moment moment = moment_at(T0);
    struct weir_snapshot_stats stats;
    struct weir_fault fault;
    int error;
    struct weir_snapshot_writer *writer = begin_snapshot(&a);
    while ((error = weir_snapshot_step(writer, 64, &moment, &stats, &fault)) == WEIR_EAGAIN)
        ;
    assert_int_equal(error, 0);
    const int fd = open("/dev/null", O_RDONLY);
    weir_snapshot_end(writer);
    assert_int_equal(close(fd), 0);
    fixture_destroy(&a);
}

/* As /proc shows it, and between two looks at each clock. */
static void a_moment_is_of_this_boot(void **state)
{
    (void)state;
    struct weir_moment moments[2];
    char text[64] = "", read[40] = "";
    const int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY);
    if (fd < 0)
        skip();
    assert_in_range(pread(fd, text, sizeof text - 1, 0), 36, 37);
    close(fd);
    for (int i = 0; i < 2; i++)
        weir_moment_read(&moments[i]);
    for (unsigned i = 0, at = 0; i < 16; i++) {
        at += (unsigned)snprintf(read + at, sizeof read - at, "%02x", moments[0].boot_id[i]);
        if (i == 3 || i == 5 || i == 7 || i == 9)
            at += (unsigned)snprintf(read + at, sizeof read - at, "-");
    }
    assert_memory_equal(read, text, 36);
    assert_true(moments[0].now_ns > 0 && moments[0].now_ns <= moments[1].now_ns);
    assert_true(moments[0].boot_ns >= moments[0].now_ns && moments[0].boot_ns <= moments[1].boot_ns);
    assert_true(moments[0].wall_ns > UINT64_C(1700000000) * SECOND);
}

/* Of logs, where they give way to nobody: who finds no room is counted as lost, and who did is not, and stays. */
static void a_smaller_memory_of_logs_keeps_what_it_has_room_for(void **state)
{
    (void)state;
    enum { LOGS = 2000 };
    struct weir_limit_spec specs[] = { limit_of(WEIR_SLIDING_LOG, 100, HOUR, 0),
                                       limit_of(WEIR_TOKEN_BUCKET, 10, HOUR, 0) };
    const struct weir_moment moment = moment_at(T0 + 2);
    struct weir_snapshot_stats stats;
    struct weir_limiter_stats counts;
    uint64_t kept = 0;
    specs[0].on_full = specs[1].on_full = WEIR_ON_FULL_REFUSE;
    struct fixture a = fixture_create(specs, 2);
    for (uint64_t key = 0; key < LOGS; key++)
        assert_true(decide(&a, 0, key, 4, T0, 0).admitted);
    (void)save(&a, &moment);
    struct fixture b = { .limiter = restored((size_t)256 << 10, &moment, &stats) };
    fixture_define(&b, specs, 2, T0 + 2);
    weir_limiter_stats(b.limiter, &counts);
    assert_int_equal(stats.keys, counts.keys);
    assert_in_range(stats.keys, 100, LOGS - 100);
    assert_int_equal(stats.keys + stats.lost, LOGS);
    for (int full = 0; full < 100;) { /* newcomers take the place of nobody who counts */
        static uint64_t newcomer;
        full += decide(&b, 1, newcomer++, 1, T0 + MINUTE, 0).full;
    }
    for (uint64_t key = 0; key < LOGS; key++)
        kept += decide(&b, 0, key, 0, T0 + MINUTE, WEIR_PEEK).remaining == 96;
    assert_int_equal(kept, stats.keys);
    fixture_destroy(&a);
    fixture_destroy(&b);
}

/* More of them than one block holds, each with what it says. */
static void many_limits_are_written_in_many_blocks(void **state)
{
    (void)state;
    enum { LIMITS = 3000 };
    static struct weir_limit_def defs[LIMITS];
    static weir_limit_id ids[LIMITS];
    static char names[LIMITS][8];
    const struct weir_moment moment = moment_at(T0);
    const struct weir_time time = at(T0);
    struct fixture a = one_limit(WEIR_TOKEN_BUCKET, 10, HOUR, 0);
    struct weir_snapshot_stats stats;
    struct weir_limiter_stats counts;
    for (unsigned i = 0; i < LIMITS; i++) {
        (void)snprintf(names[i], sizeof names[i], "%u", i);
        defs[i] = (struct weir_limit_def){ .name = names[i], .spec = limit_of(WEIR_TOKEN_BUCKET, 2 + i, HOUR, 0) };
    }
    assert_int_equal(weir_limiter_define(a.limiter, defs, LIMITS, &time, ids, NULL), 0);
    for (unsigned i = 0; i < LIMITS; i++) {
        const struct weir_charge charge = { .limit = ids[i], .key = { .hash = (uint64_t)i << 40 | 99 }, .cost = 1 };
        assert_true(weir_limiter_admit(a.limiter, &charge, &time));
    }
    assert_int_equal(save(&a, &moment).keys, LIMITS);
    fixture_destroy(&a);
    struct fixture b = { .limiter = restored((size_t)4 << 20, &moment, &stats) };
    assert_int_equal(stats.keys, LIMITS);
    assert_int_equal(weir_limiter_define(b.limiter, defs, LIMITS, &time, ids, NULL), 0);
    for (unsigned i = 0; i < LIMITS; i++) {
        const struct weir_charge charge = { .limit = ids[i], .key = { .hash = (uint64_t)i << 40 | 99 } };
        struct weir_verdict verdict;
        assert_int_equal(weir_limiter_decide_many(b.limiter, &charge, 1, &time, WEIR_PEEK, &verdict), 0);
        assert_int_equal(verdict.remaining, 1 + i);
    }
    weir_limiter_stats(b.limiter, &counts);
    assert_int_equal(counts.converted, 0); /* they are the limits that they were */
    fixture_destroy(&b);
}

/* Permits give way to nobody: what comes after them, and has no place, is lost, and counted. */
static void who_has_no_place_among_permits_is_lost(void **state)
{
    (void)state;
    enum { PERMITS = 600, BUCKETS = 6000 };
    struct weir_limit_spec specs[] = { limit_of(WEIR_CONCURRENCY, 2, HOUR, 0),
                                       limit_of(WEIR_TOKEN_BUCKET, 10, HOUR, 0) };
    const struct weir_moment moment = moment_at(T0);
    struct weir_snapshot_stats stats;
    struct weir_limiter_stats counts;
    struct fixture a = fixture_create(specs, 2);
    for (uint64_t key = 0; key < BUCKETS; key++) {
        if (key < PERMITS)
            assert_true(decide(&a, 0, key, 1, T0, 0).admitted);
        assert_true(decide(&a, 1, key, 1, T0, 0).admitted);
    }
    (void)save(&a, &moment);
    struct weir_snapshot_reader *reader;
    struct weir_limiter *b;
    assert_int_equal(weir_snapshot_open(snapshot_path, &reader, NULL), 0);
    const struct weir_limiter_options options = { .memory_max = WEIR_MEMORY_MIN,
                                                  .log_memory_max = WEIR_MEMORY_MIN / 2,
                                                  .secret = weir_snapshot_secret(reader) };
    assert_int_equal(weir_limiter_create(&options, &b, NULL), 0);
    assert_int_equal(weir_snapshot_restore(reader, b, &moment, &stats, NULL), 0);
    weir_snapshot_close(reader);
    weir_limiter_stats(b, &counts);
    assert_int_equal(stats.keys, counts.keys);
    assert_true(stats.lost > counts.evicted);
    assert_int_equal(stats.keys + stats.lost, PERMITS + BUCKETS);
    weir_limiter_destroy(b);
    fixture_destroy(&a);
}

/* As of a time far from every one before: nobody counts any more. */
static void a_snapshot_of_long_after_has_nobody_who_is_fresh(void **state)
{
    (void)state;
    const struct weir_limit_spec spec = limit_of(WEIR_TOKEN_BUCKET, 1000000000, SECOND, 1000000000);
    for (uint64_t hours = 20; hours < 400; hours += 13) {
        const struct weir_moment moment = moment_at(T0 + hours * HOUR);
        struct weir_snapshot_stats stats;
        struct fixture a = fixture_create(&spec, 1);
        (void)ask(&a, 5, T0);
        const uint64_t keys = save(&a, &moment).keys;
        struct fixture b = restart(&spec, 1, &moment, &stats);
        assert_int_equal(stats.fresh, keys);
        assert_int_equal(peek(&b, 0, moment.now_ns).reset_after_ns, 0);
        fixture_destroy(&a);
        fixture_destroy(&b);
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, make_folder, remove_folder)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_permit_of_before_a_restart_is_none_of_after_it),
        TEST(a_permit_is_given_back_after_a_restart_of_the_machine),
        TEST(a_window_keeps_its_time_zone),
        TEST(a_clock_that_comes_back_begins_the_reading_anew),
        TEST(the_keys_of_the_limits_before_are_carried_over_first),
        TEST(what_found_no_room_under_its_new_limit_is_written_as_of_that),
        TEST(a_writer_that_has_ended_closes_nothing_more),
        TEST(a_moment_is_of_this_boot),
        TEST(a_smaller_memory_of_logs_keeps_what_it_has_room_for),
        TEST(many_limits_are_written_in_many_blocks),
        TEST(who_has_no_place_among_permits_is_lost),
        TEST(a_snapshot_of_long_after_has_nobody_who_is_fresh),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
