/* SPDX-License-Identifier: Apache-2.0
 *
 * core/lease: holders against a slow reference that is plainly right, by random operations; the rest promise by
 * promise. Its wait queue is test_waiting.c. */
#include "core/lease/deadline.h"
#include "core/lease/holders.h"
#include "core/lease/incarnation.h"
#include "core/lease/quorum.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "random.h"

#define SECOND UINT64_C(1000000000)
#define HOLDERS 6

static uint64_t seed;

/* ---- holders: each has its own end, and who is out is counted ---- */

struct reference {
    uint64_t number[HOLDERS + 1], end_ns[HOLDERS + 1]; /* by holder; out while now < end */
    uint64_t now_ns;
};

static size_t reference_out(const struct reference *reference)
{
    size_t out = 0;
    for (size_t holder = 1; holder <= HOLDERS; holder++)
        out += reference->end_ns[holder] > reference->now_ns;
    return out;
}

static void take_is_right(struct weir_holders *holders, struct reference *reference, uint64_t holder, uint64_t number,
                          uint64_t ttl_ns, uint64_t now_ns)
{
    struct weir_lease_holder held_by;
    bool own = reference->end_ns[holder] > reference->now_ns;
    bool full = reference_out(reference) >= holders->max;
    uint64_t end_ns = reference->now_ns + ttl_ns;
    enum weir_holders_answer said = weir_holders_take(holders, holder, number, ttl_ns, now_ns, &held_by);
    assert_int_equal(said, own ? WEIR_HOLDERS_KEPT : full ? WEIR_HOLDERS_HELD : WEIR_HOLDERS_GRANTED);
    if (said == WEIR_HOLDERS_HELD) {
        for (size_t i = 1; i <= HOLDERS; i++)
            assert_true(reference->end_ns[i] <= reference->now_ns || reference->end_ns[i] >= held_by.end_ns);
        return;
    }
    if (!own)
        reference->number[holder] = number;
    reference->end_ns[holder] = own && reference->end_ns[holder] > end_ns ? reference->end_ns[holder] : end_ns;
    assert_int_equal(held_by.number, reference->number[holder]);
    assert_int_equal(held_by.end_ns, reference->end_ns[holder]);
}

static void renew_is_right(struct weir_holders *holders, struct reference *reference, uint64_t holder, uint64_t ttl_ns,
                           uint64_t now_ns)
{
    struct weir_lease_holder held_by;
    bool own = reference->end_ns[holder] > reference->now_ns;
    uint64_t end_ns = reference->now_ns + ttl_ns;
    assert_int_equal(weir_holders_renew(holders, holder, ttl_ns, now_ns, &held_by), own);
    if (!own)
        return;
    reference->end_ns[holder] = reference->end_ns[holder] > end_ns ? reference->end_ns[holder] : end_ns;
    assert_int_equal(held_by.number, reference->number[holder]);
    assert_int_equal(held_by.end_ns, reference->end_ns[holder]);
}

static void holders_step(struct weir_holders *holders, struct reference *reference, struct test_random *random,
                         uint64_t number)
{
    uint64_t holder = 1 + test_random_below(random, HOLDERS), ttl_ns = test_random_below(random, 100);
    uint64_t back_ns = test_random_below(random, 10);
    uint64_t now_ns = reference->now_ns + test_random_below(random, 40) - back_ns;
    reference->now_ns = now_ns > reference->now_ns ? now_ns : reference->now_ns; /* one that goes back is the newest */
    bool own = reference->end_ns[holder] > reference->now_ns;
    switch (test_random_below(random, 4)) {
    case 0:
        take_is_right(holders, reference, holder, number, ttl_ns, now_ns);
        break;
    case 1:
        renew_is_right(holders, reference, holder, ttl_ns, now_ns);
        break;
    case 2:
        assert_int_equal(weir_holders_release(holders, holder, now_ns), own);
        reference->end_ns[holder] = 0;
        break;
    default:
        assert_int_equal(weir_holders_expire(holders, now_ns), reference_out(reference));
        const struct weir_lease_holder *held_by = weir_holders_of(holders, holder);
        assert_int_equal(held_by != NULL, own);
        assert_true(!held_by || held_by->end_ns == reference->end_ns[holder]);
    }
    for (size_t i = 1; i < holders->count; i++)
        assert_true(holders->out[i - 1].end_ns <= holders->out[i].end_ns);
}

static void lease__holders_agree_with_a_plain_reference(void **state)
{
    (void)state;
    struct test_random random = { seed };
    for (size_t max = 0; max <= HOLDERS; max++) {
        struct weir_lease_holder out[HOLDERS];
        struct weir_holders holders = { .out = out, .max = max, .seen_ns = 1000 };
        struct reference reference = { .now_ns = 1000 };
        for (uint64_t number = 1; number <= 20000; number++)
            holders_step(&holders, &reference, &random, number);
    }
}

static void lease__a_renewal_after_the_end_is_refused_though_nobody_took_it(void **state)
{
    (void)state;
    struct weir_lease_holder out[1], held_by;
    struct weir_holders holders = { .out = out, .max = 1 };
    assert_int_equal(weir_holders_take(&holders, 7, 1, 10, 100, &held_by), WEIR_HOLDERS_GRANTED);
    assert_true(weir_holders_renew(&holders, 7, 10, 109, &held_by));
    assert_int_equal(held_by.number, 1);
    assert_false(weir_holders_renew(&holders, 7, 10, 119, &held_by));
    assert_int_equal(weir_holders_take(&holders, 7, 2, 10, 119, &held_by), WEIR_HOLDERS_GRANTED);
    assert_int_equal(held_by.number, 2);
}

/* ---- the holder's deadline ---- */

static void lease__the_deadline_is_of_the_sending_less_a_margin(void **state)
{
    (void)state;
    struct weir_deadline deadline;
    weir_deadline_begin(&deadline, 100 * SECOND, 2 * SECOND);
    assert_int_equal(deadline.end_ns, 100 * SECOND + 2 * SECOND - SECOND / 2); /* at least 500 ms */
    weir_deadline_begin(&deadline, 100 * SECOND, 60 * SECOND);
    assert_int_equal(deadline.end_ns, 100 * SECOND + 54 * SECOND); /* a tenth */
    assert_int_equal(weir_deadline_renew_at_ns(&deadline), 120 * SECOND);
    assert_int_equal(weir_deadline_warn_at_ns(&deadline), 154 * SECOND - 15 * SECOND);
    assert_true(weir_deadline_mine(&deadline, 154 * SECOND - 1));
    assert_false(weir_deadline_mine(&deadline, 154 * SECOND));
    assert_int_equal(weir_deadline_left_ns(&deadline, 153 * SECOND), SECOND);
    assert_int_equal(weir_deadline_left_ns(&deadline, 155 * SECOND), 0);
    weir_deadline_begin(&deadline, UINT64_MAX - SECOND, UINT64_MAX); /* saturates, never wraps */
    assert_true(weir_deadline_mine(&deadline, UINT64_MAX - 1));
    weir_deadline_begin(&deadline, 100 * SECOND, SECOND / 2); /* a lease that the margin eats */
    assert_false(weir_deadline_mine(&deadline, 100 * SECOND));
}

static void lease__a_lost_deadline_stays_lost(void **state)
{
    (void)state;
    struct weir_deadline deadline;
    weir_deadline_begin(&deadline, 100 * SECOND, 10 * SECOND);
    assert_true(weir_deadline_extend(&deadline, 105 * SECOND, 10 * SECOND, 106 * SECOND));
    assert_int_equal(deadline.end_ns, 114 * SECOND);
    assert_true(weir_deadline_extend(&deadline, 101 * SECOND, 10 * SECOND, 107 * SECOND)); /* an answer that was late */
    assert_int_equal(deadline.end_ns, 114 * SECOND);
    assert_false(weir_deadline_extend(&deadline, 113 * SECOND, 10 * SECOND, 114 * SECOND)); /* it came after the end */
    assert_false(weir_deadline_mine(&deadline, 114 * SECOND));
    assert_false(weir_deadline_extend(&deadline, 114 * SECOND, 10 * SECOND, 100 * SECOND));
    weir_deadline_begin(&deadline, 200 * SECOND, 10 * SECOND);
    weir_deadline_lose(&deadline);
    assert_false(weir_deadline_mine(&deadline, 200 * SECOND));
}

/* ---- incarnations ---- */

/* Room is left below the last of all, or up to one's own. */
static void lease__an_incarnation_that_was_seen_leaves_room(void **state)
{
    (void)state;
    uint64_t most = 1;
    while (most < WEIR_INCARNATION_MAX && weir_incarnation_leaves_room(1, most))
        most *= 2;
    assert_true(most > 1000); /* far above an own one that is low */
    assert_true(weir_incarnation_leaves_room(WEIR_INCARNATION_MAX, WEIR_INCARNATION_MAX));
    assert_false(weir_incarnation_leaves_room(1, WEIR_INCARNATION_MAX));
    assert_true(weir_incarnation_leaves_room(WEIR_INCARNATION_MAX - 1, WEIR_INCARNATION_MAX - 1));
    assert_false(weir_incarnation_leaves_room(WEIR_INCARNATION_MAX - 1, WEIR_INCARNATION_MAX));
}

static void lease__the_incarnation_is_above_all_that_was_seen(void **state)
{
    (void)state;
    assert_int_equal(weir_incarnation_raise(5, 0, 0), 6);
    assert_int_equal(weir_incarnation_raise(5, 1000, 0), 1000);
    assert_int_equal(weir_incarnation_raise(5, 1000, 2000), 2001);
    assert_int_equal(weir_incarnation_raise(3000, 1000, 2000), 3001); /* a clock that was set back */
    assert_int_equal(weir_incarnation_raise(WEIR_INCARNATION_MAX - 1, 0, 0), WEIR_INCARNATION_MAX);
    assert_int_equal(weir_incarnation_raise(WEIR_INCARNATION_MAX, 0, 0), 0); /* used up */
    assert_int_equal(weir_incarnation_raise(1, 0, WEIR_INCARNATION_MAX + 1), 0);
    assert_int_equal(weir_incarnation_raise(1, UINT64_MAX, 0), WEIR_INCARNATION_MAX);
    assert_true(weir_incarnation_within_a_day(0, 1000, 1000 + WEIR_INCARNATION_AHEAD_MAX_S));
    assert_false(weir_incarnation_within_a_day(0, 1000, 1001 + WEIR_INCARNATION_AHEAD_MAX_S));
    assert_true(weir_incarnation_within_a_day(WEIR_INCARNATION_MAX, 1000, WEIR_INCARNATION_MAX));
    assert_true(weir_incarnation_within_a_day(0, UINT64_MAX, UINT64_MAX));
}

static void lease__a_raise_above_the_clock_waits_for_its_next_second(void **state)
{
    (void)state;
    assert_int_equal(weir_incarnation_wait_ns(1000, 1000, 1000 * SECOND), 0);
    assert_int_equal(weir_incarnation_wait_ns(999, 1000, 1000 * SECOND + 1), 0);
    assert_int_equal(weir_incarnation_wait_ns(1001, 1000, 1000 * SECOND), SECOND);
    assert_int_equal(weir_incarnation_wait_ns(1001, 1000, 1000 * SECOND + 1), SECOND - 1);
    assert_int_equal(weir_incarnation_wait_ns(1001, 1000, 1001 * SECOND - 1), 1);
    assert_int_equal(weir_incarnation_wait_ns(WEIR_INCARNATION_MAX, 0, 0), SECOND); /* never more than one */
    assert_int_equal(weir_incarnation_wait_ns(1001, 1001, 1000 * SECOND + 5), 0);   /* another's clock is ahead */
}

static void lease__a_witness_tells_a_store_that_went_back_or_is_another(void **state)
{
    (void)state;
    const struct weir_witness known = { .system = 1, .timeline = 2, .position = 30, .incarnation = 4 };
    struct weir_witness now = known;
    assert_false(weir_witness_differs(&known, &now));
    now.position = 31;
    now.incarnation = 5;
    assert_false(weir_witness_differs(&known, &now));
    now = known;
    now.position = 29;
    assert_true(weir_witness_differs(&known, &now));
    now = known;
    now.incarnation = 3;
    assert_true(weir_witness_differs(&known, &now));
    now = known;
    now.timeline = 3;
    assert_true(weir_witness_differs(&known, &now));
    now = known;
    now.system = 9;
    assert_true(weir_witness_differs(&known, &now));
}

/* ---- marks and quorums ---- */

static void lease__a_mark_refuses_older_tokens_and_those_not_installed(void **state)
{
    (void)state;
    struct weir_token mark = { 0 };
    const struct weir_token older = { 1, UINT64_MAX }, newer = { 2, 1 };
    assert_int_equal(weir_mark_check(&mark, older), WEIR_ENOTINSTALLED);
    assert_int_equal(weir_mark_install(&mark, older), 0);
    assert_int_equal(weir_mark_install(&mark, older), 0);
    assert_int_equal(weir_mark_check(&mark, older), 0);
    assert_int_equal(weir_mark_check(&mark, newer), WEIR_ENOTINSTALLED);
    assert_int_equal(weir_mark_install(&mark, newer), 0);
    assert_int_equal(weir_mark_install(&mark, older), WEIR_EFENCED); /* the incarnation comes first */
    assert_int_equal(weir_mark_check(&mark, older), WEIR_EFENCED);
    assert_int_equal(weir_token_compare(mark, newer), 0);
}

static void lease__quorums_meet_or_are_refused(void **state)
{
    (void)state;
    for (unsigned n = 0; n <= 7; n++) {
        for (unsigned i = 0; i < 9 * 9 * 9; i++) {
            struct weir_quorum quorum = { n, i % 9, i / 9 % 9, i / 81 };
            struct weir_fault fault = { 0 };
            bool counts = n > 0 && quorum.install > 0 && quorum.install <= n && quorum.read > 0 && quorum.read <= n &&
                          quorum.write > 0 && quorum.write <= n;
            bool meet = quorum.install + quorum.write > n && quorum.read + quorum.write > n;
            int said = weir_quorum_check(&quorum, &fault);
            assert_int_equal(said, !counts ? WEIR_ERANGE : !meet ? WEIR_EINVAL : 0);
            assert_true((said == 0) == (fault.field[0] == '\0'));
            assert_true(n > 0 || strcmp(fault.field, "replicas") == 0);
            assert_true(!strchr(fault.field, ' ') &&
                        (said == 0 || strchr(fault.text, ' '))); /* a name, and a sentence */
        }
    }
}

static void lease__a_round_is_done_fenced_or_unknown(void **state)
{
    (void)state;
    const struct weir_quorum quorum = { .replicas = 3, .install = 2, .read = 2, .write = 2 };
    struct weir_round round;
    weir_round_begin(&round, &quorum, 2);
    assert_int_equal(weir_round_hear(&round, 0, 0), WEIR_ROUND_OPEN);
    assert_int_equal(weir_round_hear(&round, 0, 0), WEIR_ROUND_OPEN); /* a replica counts once */
    assert_int_equal(weir_round_end(&round), WEIR_ROUND_UNKNOWN);
    assert_int_equal(weir_round_hear(&round, 1, WEIR_EFENCED), WEIR_ROUND_OPEN);
    assert_int_equal(weir_round_end(&round), WEIR_ROUND_FENCED);
    assert_int_equal(weir_round_hear(&round, 2, 0), WEIR_ROUND_DONE);
    weir_round_begin(&round, &quorum, 2);
    assert_int_equal(weir_round_hear(&round, 0, WEIR_EIO), WEIR_ROUND_OPEN);
    assert_int_equal(weir_round_hear(&round, 0, 0), WEIR_ROUND_OPEN); /* its first word counts */
    assert_int_equal(weir_round_hear(&round, 1, WEIR_EIO), WEIR_ROUND_UNKNOWN);
    assert_int_equal(weir_round_hear(&round, 0, 0), WEIR_ROUND_UNKNOWN);
    assert_int_equal(weir_round_hear(&round, 1, 0), WEIR_ROUND_UNKNOWN);
    weir_round_begin(&round, &quorum, 2);
    assert_int_equal(weir_round_hear(&round, 0, WEIR_EFENCED), WEIR_ROUND_OPEN);
    assert_int_equal(weir_round_hear(&round, 2, WEIR_EIO), WEIR_ROUND_FENCED);
}

static void lease__each_step_of_a_takeover_needs_its_own_quorum(void **state)
{
    (void)state;
    const struct weir_quorum quorum = { .replicas = 5, .install = 2, .read = 3, .write = 4 };
    static const unsigned needs[] = {
        [WEIR_TAKEOVER_INSTALL] = 2, [WEIR_TAKEOVER_READ] = 3, [WEIR_TAKEOVER_WRITE_BACK] = 4, [WEIR_TAKEOVER_READY] = 4
    };
    for (unsigned step = 0; step < sizeof needs / sizeof needs[0]; step++)
        assert_int_equal(weir_takeover_need(&quorum, (enum weir_takeover)step), needs[step]);
}

static void lease__versions_go_by_token_then_by_sequence(void **state)
{
    (void)state;
    const struct weir_version versions[] = {
        { { 0, 0 }, 0 }, { { 1, 9 }, 1 }, { { 1, 9 }, 2 }, { { 1, 10 }, 1 }, { { 2, 1 }, 1 }
    };
    for (int i = 0; i < 5; i++) {
        for (int j = 0; j < 5; j++) {
            int order = weir_version_compare(versions[i], versions[j]);
            assert_true(order == 0 ? i == j : (order < 0) == (i < j));
        }
    }
}

/* What lies behind the places that are in use is the caller's. */
static void holders_move_no_more_than_they_have(void **state)
{
    (void)state;
    enum { MAX = 4, ALL = 12 };
    struct weir_lease_holder out[ALL], held_by;
    for (uint64_t goes = 1; goes <= MAX; goes++) {
        struct weir_holders holders = { .out = out, .max = MAX };
        for (uint64_t i = 0; i < ALL; i++)
            out[i] = (struct weir_lease_holder){ .id = 100 + i };
        for (uint64_t id = 1; id <= MAX; id++)
            assert_int_equal(weir_holders_take(&holders, id, id, id * SECOND, 1, &held_by), WEIR_HOLDERS_GRANTED);
        assert_true(weir_holders_release(&holders, goes, 2));
        assert_int_equal(weir_holders_expire(&holders, 1 + 2 * SECOND), goes > 2 ? 1 : 2);
        for (uint64_t i = MAX; i < ALL; i++)
            assert_int_equal(out[i].id, 100 + i);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(holders_move_no_more_than_they_have),
        cmocka_unit_test(lease__holders_agree_with_a_plain_reference),
        cmocka_unit_test(lease__a_renewal_after_the_end_is_refused_though_nobody_took_it),
        cmocka_unit_test(lease__the_deadline_is_of_the_sending_less_a_margin),
        cmocka_unit_test(lease__a_lost_deadline_stays_lost),
        cmocka_unit_test(lease__an_incarnation_that_was_seen_leaves_room),
        cmocka_unit_test(lease__the_incarnation_is_above_all_that_was_seen),
        cmocka_unit_test(lease__a_raise_above_the_clock_waits_for_its_next_second),
        cmocka_unit_test(lease__a_witness_tells_a_store_that_went_back_or_is_another),
        cmocka_unit_test(lease__a_mark_refuses_older_tokens_and_those_not_installed),
        cmocka_unit_test(lease__quorums_meet_or_are_refused),
        cmocka_unit_test(lease__a_round_is_done_fenced_or_unknown),
        cmocka_unit_test(lease__each_step_of_a_takeover_needs_its_own_quorum),
        cmocka_unit_test(lease__versions_go_by_token_then_by_sequence),
    };
    seed = test_random_seed();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
