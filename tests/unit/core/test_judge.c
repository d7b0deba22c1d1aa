/* SPDX-License-Identifier: Apache-2.0
 *
 * The judge of sessions against its definition over all pairs, on random histories; and its bounds. Histories made by
 * hand are in tests/session. */
#include "core/session/judge.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "random.h"
#include "weir/error.h"

#define EVENTS 48
#define SLOTS 64
#define SERVERS 3
#define HISTORIES 20000

/* ---- the definition ---- */

struct run {
    struct weir_judge_event events[EVENTS]; /* id: the index, from 0 */
    struct weir_judge_violation told[EVENTS];
    bool was_told[EVENTS];
};

static bool judged(const struct weir_judge_event *event)
{
    return event->kind == WEIR_JUDGE_READ || event->kind == WEIR_JUDGE_WRITE;
}

/* Whether the session was told LOST between the two, or may have been. */
static bool voided(const struct run *run, const struct weir_judge_event *earlier, const struct weir_judge_event *later)
{
    for (size_t i = 0; i < EVENTS; i++) {
        const struct weir_judge_event *lost = &run->events[i];
        if (lost->kind == WEIR_JUDGE_LOST && lost->session == later->session && lost->start_ns <= later->end_ns &&
            earlier->start_ns <= lost->end_ns)
            return true;
    }
    return false;
}

/* The least version that `earlier` leaves to `later`; 0: any. */
static uint64_t expected(const struct run *run, const struct weir_judge_event *earlier,
                         const struct weir_judge_event *later)
{
    if (!judged(earlier) || !judged(later) || earlier->session != later->session || earlier->key != later->key ||
        earlier->end_ns >= later->start_ns || voided(run, earlier, later))
        return 0;
    return earlier->version + (later->kind == WEIR_JUDGE_WRITE);
}

static enum weir_guarantee guarantee_of(const struct weir_judge_event *earlier, const struct weir_judge_event *later)
{
    if (later->kind == WEIR_JUDGE_READ)
        return earlier->kind == WEIR_JUDGE_READ ? WEIR_MONOTONIC_READS : WEIR_READ_YOUR_WRITES;
    return earlier->kind == WEIR_JUDGE_READ ? WEIR_WRITES_FOLLOW_READS : WEIR_MONOTONIC_WRITES;
}

static struct weir_judge_violation violation_of(const struct run *run, const struct weir_judge_event *later)
{
    struct weir_judge_violation violation = { .event = *later };
    for (size_t i = 0; i < EVENTS; i++) {
        uint64_t least = expected(run, &run->events[i], later);
        if (later->version >= least)
            continue;
        violation.broken |= 1U << guarantee_of(&run->events[i], later);
        violation.expected = least > violation.expected ? least : violation.expected;
    }
    return violation;
}

/* Whether something that the session had seen or written, and was not told LOST of yet, was cut off before. */
static bool lost_needed(const struct run *run, size_t lost)
{
    const struct weir_judge_event *events = run->events;
    for (size_t i = 0; i < lost; i++) {
        bool told = !judged(&events[i]) || events[i].session != events[lost].session;
        for (size_t j = 0; !told && j < lost; j++)
            told = events[j].kind == WEIR_JUDGE_LOST && events[j].session == events[lost].session &&
                   events[i].start_ns <= events[j].end_ns;
        for (size_t j = 0; !told && j < lost; j++) {
            if (events[j].kind == WEIR_JUDGE_CUT && events[j].key == events[i].key &&
                events[i].start_ns <= events[j].end_ns && events[i].version > events[j].version)
                return true;
        }
    }
    return false;
}

/* ---- random histories ---- */

static struct weir_judge_event event_draw(struct test_random *random, uint64_t *version, uint64_t *cut_end_ns,
                                          uint64_t now_ns)
{
    struct weir_judge_event event = { .server = (uint32_t)test_random_below(random, SERVERS),
                                      .session = 1 + test_random_below(random, 2),
                                      .key = 1 + test_random_below(random, 2),
                                      .start_ns = now_ns,
                                      .end_ns = now_ns + test_random_below(random, 12) };
    static const enum weir_judge_kind kinds[] = { WEIR_JUDGE_READ,  WEIR_JUDGE_READ,    WEIR_JUDGE_READ,
                                                  WEIR_JUDGE_READ,  WEIR_JUDGE_READ,    WEIR_JUDGE_READ,
                                                  WEIR_JUDGE_WRITE, WEIR_JUDGE_WRITE,   WEIR_JUDGE_WRITE,
                                                  WEIR_JUDGE_STALE, WEIR_JUDGE_UNKNOWN, WEIR_JUDGE_LOST,
                                                  WEIR_JUDGE_CUT };
    event.kind = kinds[test_random_below(random, sizeof(kinds) / sizeof(kinds[0]))];
    uint64_t *highest = &version[event.key], lag = test_random_below(random, 4) == 0 ? 3 : 0;
    if (event.kind == WEIR_JUDGE_CUT && now_ns <= cut_end_ns[event.key])
        event.kind = WEIR_JUDGE_READ;
    if (event.kind == WEIR_JUDGE_WRITE && lag == 0)
        ++*highest;
    event.version = *highest > lag ? *highest - test_random_below(random, lag + 1) : *highest;
    if (event.kind == WEIR_JUDGE_WRITE && event.version == 0)
        event.version = 1;
    if (event.kind == WEIR_JUDGE_LOST)
        event.key = event.version = 0;
    if (event.kind == WEIR_JUDGE_CUT) {
        event.session = 0;
        cut_end_ns[event.key] = event.end_ns;
        *highest = event.version -= event.version > 0 ? test_random_below(random, 2) : 0;
    }
    return event;
}

static void run_draw(struct test_random *random, struct run *run)
{
    uint64_t version[3] = { 0 }, cut_end_ns[3] = { 0 }, now_ns = 0;
    for (size_t i = 0; i < EVENTS; i++) {
        now_ns += test_random_below(random, 8); /* 0, often enough, and starts before others end */
        run->events[i] = event_draw(random, version, cut_end_ns, now_ns);
        run->events[i].id = i;
    }
}

static void run_tell(void *context, const struct weir_judge_violation *violation)
{
    struct run *run = context;
    assert_false(run->was_told[violation->event.id]);
    run->told[violation->event.id] = *violation;
    run->was_told[violation->event.id] = true;
}

static void violation_check(const struct run *run, size_t i, uint64_t history)
{
    const struct weir_judge_violation *told = &run->told[i];
    struct weir_judge_violation is = { 0 };
    if (judged(&run->events[i]))
        is = violation_of(run, &run->events[i]);
    if (run->was_told[i] != (is.broken != 0))
        fail_msg("history %llu, event %zu: told %d, broken %u", (unsigned long long)history, i, run->was_told[i],
                 is.broken);
    if (is.broken == 0)
        return;
    if (told->broken != is.broken || told->expected != is.expected ||
        expected(run, &run->events[told->earlier], &run->events[i]) != is.expected)
        fail_msg("history %llu, event %zu: broke %u (%u), expected %llu (%llu) for %llu", (unsigned long long)history,
                 i, told->broken, is.broken, (unsigned long long)told->expected, (unsigned long long)is.expected,
                 (unsigned long long)told->earlier);
}

/* What it counts, from what it told and from the events. */
static void counts_check(const struct weir_judge *judge, const struct run *run)
{
    struct weir_judge_counts counts = { 0 };
    struct weir_judge_server servers[SERVERS] = { 0 };
    uint64_t *const by_kind[] = { &counts.reads,   &counts.writes, &counts.stale,
                                  &counts.unknown, &counts.lost,   &counts.cuts };
    for (size_t i = 0; i < EVENTS; i++) {
        const struct weir_judge_event *event = &run->events[i];
        ++*by_kind[event->kind];
        counts.lost_without_need += event->kind == WEIR_JUDGE_LOST && !lost_needed(run, i);
        counts.violated += run->was_told[i];
        for (unsigned j = 0; j < WEIR_GUARANTEES; j++)
            counts.broken[j] += run->told[i].broken >> j & 1;
        servers[event->server].reads += event->kind == WEIR_JUDGE_READ;
        servers[event->server].violated += event->kind == WEIR_JUDGE_READ && run->was_told[i];
        servers[event->server].stale += event->kind == WEIR_JUDGE_STALE;
    }
    assert_memory_equal(&judge->counts, &counts, sizeof(counts));
    assert_memory_equal(judge->servers, servers, sizeof(servers));
}

static void judge__agrees_with_all_pairs_on_random_histories(void **state)
{
    (void)state;
    uint64_t seed = test_random_seed(), violated = 0, needless = 0, lost = 0;
    unsigned limited = 0;
    uint64_t histories = test_effort(HISTORIES / 10, HISTORIES, HISTORIES);
    for (uint64_t i = 0; i < histories; i++) {
        struct test_random random = { seed + i };
        struct run run = { .was_told = { false } };
        struct weir_judge_slot slots[SLOTS] = { 0 };
        struct weir_judge_server servers[SERVERS] = { 0 };
        struct weir_judge judge;
        run_draw(&random, &run);
        weir_judge_init(&judge, slots, 2 + 4 + 2 + test_random_below(&random, SLOTS - 8), servers, SERVERS);
        judge.tell = run_tell;
        judge.context = &run;
        for (size_t j = 0; j < EVENTS; j++)
            (void)weir_judge_feed(&judge, run.events[j]);
        if (weir_judge_finish(&judge) == WEIR_ELIMIT) {
            limited++;
            continue;
        }
        assert_int_equal(judge.failed, 0);
        for (size_t j = 0; j < EVENTS; j++)
            violation_check(&run, j, seed + i);
        counts_check(&judge, &run);
        violated += judge.counts.violated;
        lost += judge.counts.lost;
        needless += judge.counts.lost_without_need;
    }
    printf("%llu violations, %llu lost, %llu of them without need, %u at a bound\n", (unsigned long long)violated,
           (unsigned long long)lost, (unsigned long long)needless, limited);
    assert_true(violated > histories && needless > histories / 10 && lost - needless > histories / 10);
    assert_true(limited < histories / 10);
}

/* ---- bounds ---- */

struct fixture {
    struct weir_judge judge;
    struct weir_judge_slot slots[6];
    struct weir_judge_server servers[1];
};

static struct fixture *fixture(size_t slots)
{
    static struct fixture fixture;
    fixture = (struct fixture){ .servers = { { 0 } } };
    weir_judge_init(&fixture.judge, fixture.slots, slots, fixture.servers, 1);
    return &fixture;
}

static struct weir_judge_event read_of(uint64_t session, uint64_t key, uint64_t version, uint64_t at_ns)
{
    return (struct weir_judge_event){ WEIR_JUDGE_READ, 0, session, key, version, at_ns, at_ns, at_ns };
}

static void judge__a_full_table_is_an_error_and_stays_one(void **state)
{
    (void)state;
    struct fixture *f = fixture(6);
    for (uint64_t i = 1; i <= 3; i++)
        assert_int_equal(weir_judge_feed(&f->judge, read_of(i, 1, 5, i)), 0);
    assert_int_equal(weir_judge_feed(&f->judge, read_of(1, 1, 5, 10)), 0);
    assert_int_equal(weir_judge_feed(&f->judge, read_of(4, 1, 5, 11)), WEIR_ELIMIT);
    assert_non_null(f->judge.fault);
    assert_int_equal(weir_judge_feed(&f->judge, read_of(1, 1, 5, 12)), WEIR_ELIMIT);
    assert_int_equal(weir_judge_finish(&f->judge), WEIR_ELIMIT);
}

static void judge__a_key_too_many_and_a_cut_too_many_are_errors(void **state)
{
    (void)state;
    struct fixture *f = fixture(2);
    assert_int_equal(weir_judge_feed(&f->judge, read_of(1, 1, 5, 1)), 0);
    assert_int_equal(weir_judge_feed(&f->judge, read_of(1, 2, 5, 2)), WEIR_ELIMIT);
    f = fixture(2);
    assert_int_equal(weir_judge_feed(&f->judge, read_of(1, 1, 5, 1)), 0);
    struct weir_judge_event cut = { WEIR_JUDGE_CUT, 0, 0, 1, 4, 2, 2, 2 };
    assert_int_equal(weir_judge_feed(&f->judge, cut), WEIR_ELIMIT);
}

static void judge__too_many_overlapping_operations_are_an_error(void **state)
{
    (void)state;
    struct fixture *f = fixture(6);
    struct weir_judge_event read = read_of(1, 1, 5, 1);
    read.end_ns = 100;
    for (unsigned i = 0; i < WEIR_JUDGE_OVERLAP_MAX; i++)
        assert_int_equal(weir_judge_feed(&f->judge, read), 0);
    assert_int_equal(weir_judge_feed(&f->judge, read), WEIR_ELIMIT);
    /* As are violations of which it is not known yet whether they are. */
    f = fixture(6);
    for (uint64_t key = 1; key <= 2; key++)
        assert_int_equal(weir_judge_feed(&f->judge, read_of(1, key, 5, 1)), 0);
    for (unsigned i = 0; i < WEIR_JUDGE_OVERLAP_MAX; i++) {
        struct weir_judge_event low = read_of(1, 1 + i % 2, 4, 2);
        low.end_ns = 100;
        assert_int_equal(weir_judge_feed(&f->judge, low), 0);
    }
    assert_int_equal(weir_judge_feed(&f->judge, read_of(1, 1, 5, 2)), 0);
    assert_int_equal(weir_judge_feed(&f->judge, read_of(1, 1, 4, 2)), WEIR_ELIMIT);
}

static void judge__what_is_no_history_is_an_error(void **state)
{
    (void)state;
    static const struct weir_judge_event bad[] = {
        { WEIR_JUDGE_KINDS, 0, 1, 1, 1, 20, 20, 1 }, /* no kind */
        { WEIR_JUDGE_READ, 0, 1, 1, 1, 21, 20, 1 },  /* ends first */
        { WEIR_JUDGE_READ, 0, 0, 1, 1, 20, 20, 1 },  /* no session */
        { WEIR_JUDGE_CUT, 0, 1, 1, 1, 20, 20, 1 },   /* one too many */
        { WEIR_JUDGE_READ, 0, 1, 0, 1, 20, 20, 1 },  /* no key */
        { WEIR_JUDGE_LOST, 0, 1, 1, 1, 20, 20, 1 },  /* one too many */
        { WEIR_JUDGE_WRITE, 0, 1, 1, 0, 20, 20, 1 }, /* no version */
        { WEIR_JUDGE_STALE, 1, 1, 1, 1, 20, 20, 1 }, /* no such server */
        { WEIR_JUDGE_READ, 0, 1, 1, 1, 9, 20, 1 },   /* starts before the one before */
        { WEIR_JUDGE_CUT, 0, 0, 1, 1, 9, 20, 1 },    /* likewise */
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct fixture *f = fixture(6);
        assert_int_equal(weir_judge_feed(&f->judge, read_of(1, 1, 5, 10)), 0);
        assert_int_equal(weir_judge_feed(&f->judge, bad[i]), WEIR_EINVAL);
        assert_non_null(f->judge.fault);
        assert_int_equal(weir_judge_finish(&f->judge), WEIR_EINVAL);
    }
}

static void judge__order_is_a_sessions_own_until_there_are_cuts(void **state)
{
    (void)state;
    struct fixture *f = fixture(6);
    assert_int_equal(weir_judge_feed(&f->judge, read_of(1, 1, 5, 10)), 0);
    assert_int_equal(weir_judge_feed(&f->judge, read_of(2, 1, 5, 9)), 0);
    assert_int_equal(weir_judge_feed(&f->judge, (struct weir_judge_event){ WEIR_JUDGE_CUT, 0, 0, 1, 4, 11, 12, 1 }), 0);
    assert_int_equal(weir_judge_feed(&f->judge, read_of(2, 1, 5, 10)), WEIR_EINVAL);
}

static void judge__cuts_of_one_key_do_not_overlap(void **state)
{
    (void)state;
    struct fixture *f = fixture(6);
    assert_int_equal(weir_judge_feed(&f->judge, (struct weir_judge_event){ WEIR_JUDGE_CUT, 0, 0, 1, 4, 1, 2, 1 }), 0);
    assert_int_equal(weir_judge_feed(&f->judge, (struct weir_judge_event){ WEIR_JUDGE_CUT, 0, 0, 2, 4, 2, 2, 1 }), 0);
    assert_int_equal(weir_judge_feed(&f->judge, (struct weir_judge_event){ WEIR_JUDGE_CUT, 0, 0, 1, 4, 2, 3, 1 }),
                     WEIR_EINVAL);
}

static void judge__a_version_at_the_end_of_its_range_does_not_wrap(void **state)
{
    (void)state;
    struct fixture *f = fixture(6);
    assert_int_equal(weir_judge_feed(&f->judge, read_of(1, 1, UINT64_MAX, 1)), 0);
    struct weir_judge_event write = read_of(1, 1, UINT64_MAX - 1, 2);
    write.kind = WEIR_JUDGE_WRITE;
    assert_int_equal(weir_judge_feed(&f->judge, write), 0);
    assert_int_equal(weir_judge_finish(&f->judge), 0);
    assert_int_equal(f->judge.counts.broken[WEIR_WRITES_FOLLOW_READS], 1);
}

static void judge__what_is_told_at_the_end_is_told_once_and_not_after_an_error(void **state)
{
    (void)state;
    for (int fails = 0; fails <= 1; fails++) {
        struct fixture *f = fixture(6);
        struct weir_judge_event low = read_of(1, 1, 4, 20), wrong = read_of(1, 1, 5, 30);
        assert_int_equal(weir_judge_feed(&f->judge, read_of(1, 1, 5, 1)), 0);
        assert_int_equal(weir_judge_feed(&f->judge, low), 0);
        wrong.end_ns = 0;
        assert_int_equal(fails ? weir_judge_feed(&f->judge, wrong) : 0, fails ? WEIR_EINVAL : 0);
        assert_int_equal(weir_judge_finish(&f->judge), fails ? WEIR_EINVAL : 0);
        assert_int_equal(weir_judge_finish(&f->judge), fails ? WEIR_EINVAL : 0);
        assert_int_equal(f->judge.counts.violated, !fails);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(judge__agrees_with_all_pairs_on_random_histories),
        cmocka_unit_test(judge__a_full_table_is_an_error_and_stays_one),
        cmocka_unit_test(judge__a_key_too_many_and_a_cut_too_many_are_errors),
        cmocka_unit_test(judge__too_many_overlapping_operations_are_an_error),
        cmocka_unit_test(judge__what_is_no_history_is_an_error),
        cmocka_unit_test(judge__order_is_a_sessions_own_until_there_are_cuts),
        cmocka_unit_test(judge__cuts_of_one_key_do_not_overlap),
        cmocka_unit_test(judge__a_version_at_the_end_of_its_range_does_not_wrap),
        cmocka_unit_test(judge__what_is_told_at_the_end_is_told_once_and_not_after_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
