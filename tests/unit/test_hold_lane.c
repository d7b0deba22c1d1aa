/* SPDX-License-Identifier: Apache-2.0
 *
 * Two outputs of one key are never closer than the first one's time in its bucket, whoever asks and however late. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "random.h"
#include "serve/hold_lane.h"

#define MS UINT64_C(1000000)

static struct weir_lanes lanes;

static uint64_t claim_one(uint64_t id, uint64_t gap_ns, uint64_t now_ns)
{
    struct weir_lane_claim claim = { .id = id, .gap_ns = gap_ns };
    return weir_lanes_claim(&lanes, &claim, 1, now_ns);
}

static void the_next_output_waits_for_the_first_ones_gap(void **state)
{
    (void)state;
    assert_int_equal(claim_one(1, 20 * MS, 1000 * MS), 0);
    assert_int_equal(claim_one(1, 5 * MS, 1019 * MS), 1020 * MS);
    assert_int_equal(claim_one(1, 5 * MS, 1020 * MS - 1), 1020 * MS);
    assert_int_equal(claim_one(2, 5 * MS, 1019 * MS), 0); /* another key */
    assert_int_equal(claim_one(1, 5 * MS, 1021 * MS), 0); /* late: the next one counts from here */
    assert_int_equal(claim_one(1, 5 * MS, 1025 * MS), 1026 * MS);
    assert_int_equal(claim_one(1, 5 * MS, 1026 * MS), 0);
}

static void gaps_below_the_timers_grain_are_not_kept(void **state)
{
    (void)state;
    assert_int_equal(claim_one(10, WEIR_HOLD_GAP_MIN_NS - 1, 1000 * MS), 0);
    assert_int_equal(claim_one(10, WEIR_HOLD_GAP_MIN_NS, 1000 * MS), 0);
    assert_int_equal(claim_one(10, WEIR_HOLD_GAP_MIN_NS, 1000 * MS), 1001 * MS);
}

static void several_lanes_are_taken_together_or_not_at_all(void **state)
{
    (void)state;
    struct weir_lane_claim claims[2] = { { .id = 20, .gap_ns = 10 * MS }, { .id = 21, .gap_ns = 30 * MS } };
    assert_int_equal(weir_lanes_claim(&lanes, claims, 2, 1000 * MS), 0);
    assert_int_equal(weir_lanes_claim(&lanes, claims, 2, 1010 * MS), 1030 * MS);
    assert_int_equal(claim_one(20, 10 * MS, 1010 * MS), 0); /* the first was not taken by the failure */
    assert_int_equal(weir_lanes_claim(&lanes, claims, 2, 1031 * MS), 0);
    assert_int_equal(claims[0].since_last_ns, 21 * MS);
    assert_int_equal(claims[1].since_last_ns, 31 * MS);
}

static void a_full_set_forgets_the_key_that_is_ready_soonest(void **state)
{
    (void)state;
    const uint64_t stride = WEIR_LANES / WEIR_LANE_WAYS;
    for (uint64_t i = 0; i < WEIR_LANE_WAYS; i++)
        assert_int_equal(claim_one(30 + i * stride, (10 + i) * MS, 1000 * MS), 0);
    assert_int_equal(claim_one(30 + 4 * stride, 50 * MS, 1000 * MS), 0);
    assert_int_equal(claim_one(30 + 1 * stride, MS, 1000 * MS), 1011 * MS);
    assert_int_equal(claim_one(30 + 4 * stride, MS, 1000 * MS), 1050 * MS);
}

/* A queue that is always full, its timers late by chance: no gap is short, and the time lost is the lateness alone. */
static void late_timers_never_shorten_a_gap(void **state)
{
    (void)state;
    struct test_random random = { test_random_seed() };
    uint64_t now_ns = 5000 * MS, last_ns = 0, lateness_ns = 0, first_ns = 0;
    for (uint64_t i = 0; i < 10000; i++) {
        uint64_t due_ns = 5000 * MS + i * 20 * MS;
        now_ns = now_ns > due_ns ? now_ns : due_ns;
        for (uint64_t ready_ns; (ready_ns = claim_one(40, 20 * MS, now_ns)) != 0;) {
            uint64_t late_ns = test_random_below(&random, 100000);
            lateness_ns += late_ns;
            now_ns = ready_ns + late_ns;
        }
        assert_true(last_ns == 0 || now_ns - last_ns >= 20 * MS);
        last_ns = now_ns;
        first_ns = first_ns ? first_ns : now_ns;
    }
    assert_true(last_ns - first_ns <= 9999 * 20 * MS + lateness_ns);
}

int main(void)
{
    weir_lanes_init(&lanes);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_next_output_waits_for_the_first_ones_gap),
        cmocka_unit_test(gaps_below_the_timers_grain_are_not_kept),
        cmocka_unit_test(several_lanes_are_taken_together_or_not_at_all),
        cmocka_unit_test(a_full_set_forgets_the_key_that_is_ready_soonest),
        cmocka_unit_test(late_timers_never_shorten_a_gap),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    weir_lanes_deinit(&lanes);
    return failed;
}
