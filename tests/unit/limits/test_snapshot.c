/* SPDX-License-Identifier: Apache-2.0
 *
 * What a restart from a snapshot remembers (weir/snapshot.h): compared, key by key and later decision by decision, with
 * the limiter that was never stopped. */
#include "snapshot_fixture.h"

#include "random.h"

#define KEYS 40
#define LIMITS 8

static const struct weir_limit_spec *all_kinds(void)
{
    static struct weir_limit_spec specs[LIMITS];
    specs[0] = limit_of(WEIR_TOKEN_BUCKET, 7, 3 * SECOND, 20);
    specs[1] = limit_of(WEIR_LEAKY_BUCKET, 100, HOUR, 5);
    specs[2] = limit_of(WEIR_FIXED_WINDOW, 9, MINUTE, 0);
    specs[2].align = WEIR_ALIGN_FIRST;
    specs[3] = limit_of(WEIR_FIXED_WINDOW, 30, DAY, 0);
    specs[3].calendar = WEIR_CALENDAR_DAY;
    specs[3].tz = "Europe/Berlin";
    specs[4] = limit_of(WEIR_SLIDING_COUNTER, 12, MINUTE, 0);
    specs[5] = limit_of(WEIR_SLIDING_LOG, 17, MINUTE, 0);
    specs[6] = limit_of(WEIR_CONCURRENCY, 6, 30 * SECOND, 0);
    specs[7] = limit_of(WEIR_TOKEN_BUCKET, 1000000, SECOND, 0); /* fine ticks */
    return specs;
}

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

static bool decide_raw(const struct fixture *f, uint64_t number, uint64_t now_ns, struct weir_verdict *ret_verdict)
{
    const struct weir_limit_spec spec = limit_of(WEIR_TOKEN_BUCKET, 10, 60 * SECOND, 5);
    struct weir_bucket bucket;
    struct weir_key key;
    struct weir_time time = at(now_ns);
    assert_int_equal(weir_bucket_init(&bucket, &spec, NULL), 0);
    assert_int_equal(weir_limiter_bucket_key(f->limiter, (struct weir_slice){ &number, sizeof number }, &key), 0);
    assert_int_equal(weir_limiter_bucket_decide(f->limiter, &bucket, &key, 1, &time, 0, ret_verdict), 0);
    return ret_verdict->admitted;
}

static void charge_at_random(const struct fixture *f, struct test_random *random, uint64_t from_ns, uint64_t count)
{
    struct weir_verdict verdict;
    for (uint64_t i = 0; i < count; i++) {
        uint64_t now_ns = from_ns + i * 7 * MS;
        (void)decide(f, test_random_below(random, LIMITS), test_random_below(random, KEYS),
                     test_random_below(random, 4), now_ns, 0);
        (void)decide_raw(f, test_random_below(random, KEYS), now_ns, &verdict);
    }
}

static void assert_same_keys(const struct fixture *a, const struct fixture *b, uint64_t now_ns)
{
    for (size_t limit = 0; limit < LIMITS; limit++)
        for (uint64_t key = 0; key < KEYS; key++) {
            struct weir_verdict x = decide(a, limit, key, 1, now_ns, WEIR_PEEK);
            struct weir_verdict y = decide(b, limit, key, 1, now_ns, WEIR_PEEK);
            assert_same_verdict(&x, &y);
        }
}

static void a_restart_remembers_every_key_exactly(void **state)
{
    (void)state;
    struct test_random random = { test_random_seed() };
    for (uint64_t round = 0; round < test_effort(4, 20, 400); round++) {
        struct weir_snapshot_stats written, read;
        struct fixture a = fixture_create(all_kinds(), LIMITS);
        uint64_t now_ns = T0 + test_random_below(&random, DAY);
        charge_at_random(&a, &random, now_ns, 1500);
        now_ns += 1500 * 7 * MS;
        struct weir_moment moment = moment_at(now_ns);
        written = save(&a, &moment);
        uint64_t down_ns = test_random_below(&random, 2) ? 0 : test_random_below(&random, 90 * SECOND);
        now_ns += down_ns;
        moment = moment_at(now_ns);
        struct fixture b = restart(all_kinds(), LIMITS, &moment, &read);
        assert_int_equal(read.keys + read.fresh, written.keys);
        assert_int_equal(read.lost + written.lost, 0);
        assert_int_equal(read.bytes, written.bytes);
        assert_int_equal(read.away_ns, down_ns);
        assert_same_keys(&a, &b, now_ns);
        /* ... and goes on alike, to the unit and the ns. */
        for (uint64_t i = 0; i < 500; i++) {
            uint64_t limit = test_random_below(&random, LIMITS), key = test_random_below(&random, KEYS);
            now_ns += test_random_below(&random, 300 * MS);
            struct weir_verdict x = decide(&a, limit, key, 1, now_ns, 0), y = decide(&b, limit, key, 1, now_ns, 0);
            assert_same_verdict(&x, &y);
            bool p = decide_raw(&a, key, now_ns, &x), q = decide_raw(&b, key, now_ns, &y);
            assert_int_equal(p, q);
            assert_same_verdict(&x, &y);
        }
        fixture_destroy(&a);
        fixture_destroy(&b);
    }
}

static void permits_stay_out_and_their_numbers_are_not_given_again(void **state)
{
    (void)state;
    struct weir_limit_spec spec = limit_of(WEIR_CONCURRENCY, 5, 30 * SECOND, 0);
    struct fixture a = fixture_create(&spec, 1);
    struct weir_snapshot_stats stats;
    struct weir_moment moment = moment_at(T0 + 10);
    uint64_t first = ask(&a, 2, T0).ticket, second = ask(&a, 1, T0 + 5).ticket;
    (void)save(&a, &moment);
    uint64_t after = ask(&a, 1, T0 + 20).ticket; /* the snapshot knows nothing of it */
    struct fixture b = restart(&spec, 1, &moment, &stats);
    assert_int_equal(out(&b, T0 + 20), 3);
    struct weir_limit_stats counts;
    assert_int_equal(weir_limiter_limit_stats(b.limiter, b.ids[0], &counts), 0);
    assert_int_equal(counts.permits_out, 3);
    assert_int_equal(give_back(&b, after, T0 + 20), 0);
    uint64_t next = ask(&b, 1, T0 + 20).ticket;
    assert_true(next != after && next > second);
    assert_int_equal(renew(&b, second, T0 + 20), 30 * SECOND);
    assert_int_equal(give_back(&b, first, T0 + 20), 2);
    assert_int_equal(give_back(&b, first, T0 + 20), 0);
    assert_int_equal(out(&b, T0 + 20), 2);
    assert_int_equal(out(&b, T0 + 20 + 30 * SECOND), 0);
    fixture_destroy(&a);
    fixture_destroy(&b);
}

/* ---- clocks ---- */

/* Under one limit: 5 used of 10 at T0, then a restart whose clocks show `moment`; how many are left. */
static uint64_t left_after(enum weir_algorithm algorithm, const struct weir_moment *then,
                           const struct weir_moment *moment)
{
    struct weir_limit_spec spec = limit_of(algorithm, 10, HOUR, 0);
    struct fixture a = fixture_create(&spec, 1);
    struct weir_snapshot_stats stats;
    struct weir_time time = { then->now_ns, then->wall_ns };
    (void)ask_at(&a, "k", 5, time, 0);
    (void)save(&a, then);
    struct fixture b = restart(&spec, 1, moment, &stats);
    time = (struct weir_time){ moment->now_ns, moment->wall_ns };
    uint64_t left = ask_at(&b, "k", 0, time, WEIR_PEEK).remaining;
    fixture_destroy(&a);
    fixture_destroy(&b);
    return left;
}

static void time_down_counts_by_the_boot_clock_within_one_boot(void **state)
{
    (void)state;
    struct weir_moment then = moment_at(10 * DAY), now = then;
    now.now_ns += MINUTE; /* suspended meanwhile: the boot clock went on */
    now.boot_ns += 30 * MINUTE;
    now.wall_ns += 5 * DAY; /* stepped: nobody cares */
    assert_int_equal(left_after(WEIR_TOKEN_BUCKET, &then, &now), 10);
    now.boot_ns = then.boot_ns + 6 * MINUTE;
    assert_int_equal(left_after(WEIR_TOKEN_BUCKET, &then, &now), 6);
    now = then;
    now.now_ns += 5;      /* clocks are read one after the other */
    now.boot_ns += 90000; /* ... which forgives nothing */
    assert_int_equal(left_after(WEIR_TOKEN_BUCKET, &then, &now), 5);
}

static void time_down_counts_by_the_wall_clock_over_a_reboot_and_is_never_negative(void **state)
{
    (void)state;
    struct weir_moment then = moment_at(10 * DAY), now = moment_at(20 * SECOND);
    now.boot_id[0] = 2;
    for (int algorithm = WEIR_TOKEN_BUCKET; algorithm <= WEIR_CONCURRENCY; algorithm++) {
        now.wall_ns = then.wall_ns + 2 * HOUR;
        assert_int_equal(left_after((enum weir_algorithm)algorithm, &then, &now), 10);
        now.wall_ns = then.wall_ns - 3 * DAY; /* set back: no time has passed, nothing is minted */
        uint64_t left = left_after((enum weir_algorithm)algorithm, &then, &now);
        assert_int_equal(left, algorithm == WEIR_FIXED_WINDOW ? 0 : 5); /* the wall fell: its window is closed */
    }
    now.wall_ns = then.wall_ns + 12 * MINUTE;
    assert_int_equal(left_after(WEIR_TOKEN_BUCKET, &then, &now), 7);
    assert_int_equal(left_after(WEIR_SLIDING_LOG, &then, &now), 5);
    memset(then.boot_id, 0, sizeof then.boot_id); /* nobody knows which boot it was */
    memset(now.boot_id, 0, sizeof now.boot_id);
    now.boot_ns = then.boot_ns + 10 * HOUR;
    assert_int_equal(left_after(WEIR_TOKEN_BUCKET, &then, &now), 7);
}

/* A log's times cannot lie before the clock's 0. */
static void a_unit_from_before_the_boot_counts_until_a_period_after_it_at_most(void **state)
{
    (void)state;
    struct weir_limit_spec spec = limit_of(WEIR_SLIDING_LOG, 10, HOUR, 0);
    struct fixture a = fixture_create(&spec, 1);
    struct weir_snapshot_stats stats;
    struct weir_moment then = moment_at(10 * DAY), now = moment_at(MINUTE);
    (void)ask(&a, 4, then.now_ns);
    (void)save(&a, &then);
    now.boot_id[0] = 2;
    now.wall_ns = then.wall_ns + 50 * MINUTE;
    struct fixture b = restart(&spec, 1, &now, &stats);
    assert_int_equal(peek(&b, 0, MINUTE).remaining, 6);
    assert_int_equal(peek(&b, 0, HOUR - 1).remaining, 6);
    assert_int_equal(peek(&b, 0, HOUR).remaining, 10);
    fixture_destroy(&a);
    fixture_destroy(&b);
}

static void the_wall_clock_set_back_over_a_restart_opens_no_window_twice(void **state)
{
    (void)state;
    struct weir_limit_spec spec = limit_of(WEIR_FIXED_WINDOW, 3, DAY, 0);
    spec.calendar = WEIR_CALENDAR_DAY;
    struct fixture a = fixture_create(&spec, 1);
    struct weir_snapshot_stats stats;
    struct weir_moment then = moment_at(20 * DAY + HOUR), now = moment_at(10 * SECOND);
    assert_int_equal(admitted_of(&a, 5, then.now_ns), 3);
    (void)save(&a, &then);
    now.boot_id[0] = 2;
    now.wall_ns = then.wall_ns - 3 * HOUR; /* yesterday */
    struct fixture b = restart(&spec, 1, &now, &stats);
    assert_false(ask_at(&b, "k", 1, (struct weir_time){ now.now_ns, now.wall_ns }, 0).admitted);
    assert_false(ask_at(&b, "other", 1, (struct weir_time){ now.now_ns, now.wall_ns }, 0).admitted);
    fixture_destroy(&a);
    fixture_destroy(&b);
}

static void a_window_that_the_wall_clock_closed_stays_closed_over_a_restart(void **state)
{
    (void)state;
    struct weir_limit_spec spec = limit_of(WEIR_FIXED_WINDOW, 3, DAY, 0);
    spec.calendar = WEIR_CALENDAR_DAY;
    struct fixture a = fixture_create(&spec, 1);
    struct weir_snapshot_stats stats;
    uint64_t today = 20 * DAY + 2 * HOUR;
    (void)ask_at(&a, "k", 3, (struct weir_time){ T0, today - 3 * HOUR }, 0);
    (void)ask_at(&a, "other", 1, (struct weir_time){ T0 + 1, today }, 0);
    struct weir_time back = { T0 + 2, today - 3 * HOUR }; /* the clock falls while it runs */
    assert_int_equal(ask_at(&a, "k", 0, back, WEIR_PEEK).remaining, 0);
    struct weir_moment moment = moment_at(back.now_ns);
    moment.wall_ns = back.wall_ns;
    (void)save(&a, &moment);
    struct fixture b = restart(&spec, 1, &moment, &stats);
    assert_int_equal(ask_at(&b, "k", 0, back, WEIR_PEEK).remaining, 0);
    assert_int_equal(ask_at(&b, "nobody yet", 0, back, WEIR_PEEK).remaining, 0);
    fixture_destroy(&a);
    fixture_destroy(&b);
}

/* For a period since the fall, by whatever clock there is then. */
static void a_window_that_the_wall_clock_closed_opens_in_time_after_a_reboot(void **state)
{
    (void)state;
    struct weir_limit_spec spec = limit_of(WEIR_FIXED_WINDOW, 3, DAY, 0);
    spec.calendar = WEIR_CALENDAR_DAY;
    struct fixture a = fixture_create(&spec, 1);
    struct weir_snapshot_stats stats;
    const uint64_t today = 20 * DAY + 2 * HOUR, away = 23 * HOUR;
    struct weir_moment then = moment_at(T0 + 1 + away), now = moment_at(T0 + 100 * DAY);
    (void)ask_at(&a, "other", 1, (struct weir_time){ T0, today }, 0);
    (void)ask_at(&a, "other", 1, (struct weir_time){ T0 + 1, today - 5 * DAY }, 0);
    then.wall_ns = now.wall_ns = today - 5 * DAY + away;
    (void)save(&a, &then);
    now.boot_id[0] = 2;
    struct fixture b = restart(&spec, 1, &now, &stats);
    struct weir_time time = { now.now_ns, now.wall_ns };
    assert_int_equal(ask_at(&b, "k", 0, time, WEIR_PEEK).remaining, 0);
    time.now_ns += 2 * HOUR;
    time.wall_ns += 2 * HOUR;
    assert_int_equal(ask_at(&b, "k", 0, time, WEIR_PEEK).remaining, 3);
    fixture_destroy(&a);
    fixture_destroy(&b);
}

/* ---- limits ---- */

static void limits_changed_while_away_are_as_a_reload(void **state)
{
    (void)state;
    struct weir_limit_spec was[] = { limit_of(WEIR_TOKEN_BUCKET, 10, HOUR, 0), limit_of(WEIR_SLIDING_LOG, 10, HOUR, 0),
                                     limit_of(WEIR_FIXED_WINDOW, 10, HOUR, 0) };
    struct weir_limit_spec is[] = { limit_of(WEIR_SLIDING_LOG, 6, HOUR, 0), limit_of(WEIR_TOKEN_BUCKET, 20, HOUR, 0) };
    struct fixture a = fixture_create(was, 3);
    struct weir_snapshot_stats stats;
    struct weir_moment moment = moment_at(T0 + 1);
    struct weir_verdict verdicts[3], others[3];
    (void)ask_all(&a, "k", 8, T0, 0, verdicts);
    (void)save(&a, &moment);
    fixture_define(&a, is, 2, T0 + 1);
    struct fixture b = restart(is, 2, &moment, &stats);
    (void)ask_all(&a, "k", 1, T0 + 2, WEIR_PEEK, verdicts);
    (void)ask_all(&b, "k", 1, T0 + 2, WEIR_PEEK, others);
    for (int i = 0; i < 2; i++)
        assert_same_verdict(&verdicts[i], &others[i]);
    assert_int_equal(others[0].remaining, 0);
    assert_int_equal(others[1].remaining, 2); /* was left under `keep` */
    fixture_destroy(&a);
    fixture_destroy(&b);
}

static void what_a_key_owes_after_a_lowered_limit_is_not_forgiven(void **state)
{
    (void)state;
    struct weir_limit_spec high = limit_of(WEIR_FIXED_WINDOW, 100, HOUR, 0),
                           low = limit_of(WEIR_FIXED_WINDOW, 10, HOUR, 0);
    struct weir_limit_spec bucket = limit_of(WEIR_TOKEN_BUCKET, 100, HOUR, 0), small = bucket;
    small.count = 10;
    struct weir_limit_spec was[] = { high, bucket }, is[] = { low, small };
    struct fixture a = fixture_create(was, 2);
    struct weir_snapshot_stats stats;
    struct weir_moment moment = moment_at(T0 + 3);
    struct weir_verdict verdicts[2], others[2];
    (void)ask_all(&a, "k", 90, T0, 0, verdicts);
    fixture_define(&a, is, 2, T0 + 1);
    (void)ask_all(&a, "k", 1, T0 + 2, 0, verdicts);
    (void)save(&a, &moment);
    struct fixture b = restart(is, 2, &moment, &stats);
    fixture_define(&a, was, 2, T0 + 4);
    fixture_define(&b, was, 2, T0 + 4);
    (void)ask_all(&a, "k", 1, T0 + 5, WEIR_PEEK, verdicts);
    (void)ask_all(&b, "k", 1, T0 + 5, WEIR_PEEK, others);
    for (int i = 0; i < 2; i++)
        assert_same_verdict(&verdicts[i], &others[i]);
    fixture_destroy(&a);
    fixture_destroy(&b);
}

/* Nor by a clock that is far ahead of the former one: what lies so far ahead is a debt still. */
static void what_a_key_owes_is_not_forgiven_by_a_reboot(void **state)
{
    (void)state;
    struct weir_limit_spec spec = limit_of(WEIR_TOKEN_BUCKET, 100, HOUR, 0);
    struct fixture a = fixture_create(&spec, 1);
    struct weir_snapshot_stats stats;
    struct weir_moment then = moment_at(T0 + 3), now = moment_at(T0 + 100 * DAY);
    (void)ask(&a, 90, T0);
    spec.count = 10;
    fixture_define(&a, &spec, 1, T0 + 1);
    (void)save(&a, &then);
    now.boot_id[0] = 2;
    now.wall_ns = then.wall_ns;
    struct fixture b = restart(&spec, 1, &now, &stats);
    const uint64_t wait_ns = peek(&a, 1, T0 + 3).retry_after_ns;
    assert_in_range(wait_ns, 8 * HOUR, 9 * HOUR);
    assert_in_range(peek(&b, 1, now.now_ns).retry_after_ns, wait_ns - MS, wait_ns + MS);
    fixture_destroy(&a);
    fixture_destroy(&b);
}

static void limits_replaced_while_it_is_written_begin_it_anew(void **state)
{
    (void)state;
    struct weir_limit_spec spec = limit_of(WEIR_TOKEN_BUCKET, 10, HOUR, 0);
    struct fixture a = fixture_create(&spec, 1);
    struct weir_moment moment = moment_at(T0 + 2);
    struct weir_snapshot_stats stats;
    struct weir_fault fault;
    for (uint64_t key = 0; key < 2000; key++)
        (void)decide(&a, 0, key, 3, T0, 0);
    struct weir_snapshot_writer *writer = begin_snapshot(&a);
    for (int i = 0; i < 9; i++)
        assert_int_equal(weir_snapshot_step(writer, 64, &moment, &stats, &fault), WEIR_EAGAIN);
    spec = limit_of(WEIR_SLIDING_LOG, 10, HOUR, 0); /* entries become wide, and move */
    fixture_define(&a, &spec, 1, T0 + 1);
    for (uint64_t key = 0; key < 1000; key++)
        (void)decide(&a, 0, key, 1, T0 + 1, 0);
    stats = finish_snapshot(writer, &moment);
    struct weir_limiter_stats counts; /* what became wide may have needed another's place */
    weir_limiter_stats(a.limiter, &counts);
    assert_int_equal(stats.keys + counts.evicted, 2000);
    assert_true(counts.evicted < 20);
    struct fixture b = restart(&spec, 1, &moment, &stats);
    for (uint64_t key = 0; key < 2000; key++) {
        struct weir_verdict x = decide(&a, 0, key, 1, T0 + 3, WEIR_PEEK), y = decide(&b, 0, key, 1, T0 + 3, WEIR_PEEK);
        assert_same_verdict(&x, &y);
    }
    fixture_destroy(&a);
    fixture_destroy(&b);
}

/* ---- memory ---- */

static void a_smaller_table_keeps_who_has_used_most(void **state)
{
    (void)state;
    struct weir_limit_spec spec = limit_of(WEIR_TOKEN_BUCKET, 100, HOUR, 0);
    struct fixture a = fixture_create(&spec, 1);
    struct weir_moment moment = moment_at(T0 + 2);
    struct weir_snapshot_stats stats;
    for (uint64_t key = 0; key < 20000; key++)
        (void)decide(&a, 0, key, key % 100 == 0 ? 90 : 1, T0, 0);
    (void)save(&a, &moment);
    struct fixture b = { .limiter = restored(WEIR_MEMORY_MIN, &moment, &stats) };
    struct weir_limiter_stats counts;
    weir_limiter_stats(b.limiter, &counts);
    assert_int_equal(stats.keys, counts.keys);
    assert_int_equal(stats.keys + stats.lost, 20000);
    fixture_define(&b, &spec, 1, T0 + 2);
    uint64_t kept = 0;
    for (uint64_t key = 0; key < 20000; key += 100)
        kept += decide(&b, 0, key, 1, T0 + 2, WEIR_PEEK).remaining < 50;
    assert_int_equal(kept, 200);
    fixture_destroy(&a);
    fixture_destroy(&b);
}

static void keys_of_a_tiny_table_are_not_put_into_a_larger_one(void **state)
{
    (void)state;
    struct weir_limit_spec spec = limit_of(WEIR_TOKEN_BUCKET, 100, HOUR, 0);
    struct weir_limiter_options options = { .memory_max = WEIR_MEMORY_MIN };
    struct fixture a = fixture_create_with(&options, &spec, 1);
    struct weir_moment moment = moment_at(T0 + 2);
    struct weir_snapshot_stats stats;
    struct weir_snapshot_reader *reader;
    struct weir_fault fault;
    struct weir_limiter *larger;
    (void)decide(&a, 0, 1, 5, T0, 0);
    (void)save(&a, &moment);
    assert_int_equal(weir_snapshot_open(snapshot_path, &reader, &fault), 0);
    options = (struct weir_limiter_options){ .memory_max = (size_t)4 << 20, .secret = weir_snapshot_secret(reader) };
    assert_int_equal(weir_limiter_create(&options, &larger, &fault), 0);
    assert_int_equal(weir_snapshot_restore(reader, larger, &moment, &stats, &fault), WEIR_ERANGE);
    assert_string_equal(fault.field, "memory_max");
    weir_snapshot_close(reader);
    weir_limiter_destroy(larger);
    struct fixture b = { .limiter = restored(WEIR_MEMORY_MIN, &moment, &stats) };
    fixture_define(&b, &spec, 1, T0 + 2);
    assert_int_equal(decide(&b, 0, 1, 1, T0 + 2, WEIR_PEEK).remaining, 95);
    fixture_destroy(&a);
    fixture_destroy(&b);
}

static void a_limiter_with_limits_or_another_secret_is_refused(void **state)
{
    (void)state;
    struct fixture a = one_limit(WEIR_TOKEN_BUCKET, 5, MINUTE, 0), b = one_limit(WEIR_TOKEN_BUCKET, 5, MINUTE, 0);
    struct weir_moment moment = moment_at(T0);
    struct weir_snapshot_stats stats;
    struct weir_snapshot_reader *reader;
    struct weir_fault fault;
    (void)save(&a, &moment);
    assert_int_equal(weir_snapshot_open(snapshot_path, &reader, &fault), 0);
    assert_int_equal(weir_snapshot_restore(reader, a.limiter, &moment, &stats, &fault), WEIR_EINVAL);
    assert_string_equal(fault.field, "limiter");
    assert_int_equal(weir_snapshot_restore(reader, b.limiter, &moment, &stats, &fault), WEIR_EINVAL);
    assert_string_equal(fault.field, "secret");
    weir_snapshot_close(reader);
    fixture_destroy(&a);
    fixture_destroy(&b);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, make_folder, remove_folder)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_restart_remembers_every_key_exactly),
        TEST(permits_stay_out_and_their_numbers_are_not_given_again),
        TEST(time_down_counts_by_the_boot_clock_within_one_boot),
        TEST(time_down_counts_by_the_wall_clock_over_a_reboot_and_is_never_negative),
        TEST(a_unit_from_before_the_boot_counts_until_a_period_after_it_at_most),
        TEST(the_wall_clock_set_back_over_a_restart_opens_no_window_twice),
        TEST(a_window_that_the_wall_clock_closed_stays_closed_over_a_restart),
        TEST(a_window_that_the_wall_clock_closed_opens_in_time_after_a_reboot),
        TEST(what_a_key_owes_is_not_forgiven_by_a_reboot),
        TEST(limits_changed_while_away_are_as_a_reload),
        TEST(what_a_key_owes_after_a_lowered_limit_is_not_forgiven),
        TEST(limits_replaced_while_it_is_written_begin_it_anew),
        TEST(a_smaller_table_keeps_who_has_used_most),
        TEST(keys_of_a_tiny_table_are_not_put_into_a_larger_one),
        TEST(a_limiter_with_limits_or_another_secret_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
