/* SPDX-License-Identifier: Apache-2.0
 *
 * The keys of a limit that are about reservations: what they become, and what is refused at its place. */
#include "config_bad.h"
#include "rules_fixture.h"

#define LIMIT "limits:\n  - name: x\n    rate: 100/min\n" /* stands in front, so that what follows begins in line 4 */
#define TOKENS LIMIT "    cost: amount\n"

static const struct bad bad_reserves[] = {
    { TOKENS "    reserve_max: 0", 5, 18, WEIR_ERANGE, "reserve_max \"0\" must be 0.001 to 1 (of the capacity)" },
    { TOKENS "    reserve_max: 1.001", 5, 18, WEIR_ERANGE, "must be 0.001 to 1" },
    { TOKENS "    reserve_max: 0.0001", 5, 18, WEIR_ERANGE, "with three decimals at most" },
    { TOKENS "    reserve_max: -0.5", 5, 18, WEIR_ERANGE, "must be 0.001 to 1" },
    { TOKENS "    reserve_max: .5", 5, 18, WEIR_ERANGE, "must be 0.001 to 1" },
    { TOKENS "    reserve_max: 1.", 5, 18, WEIR_ERANGE, "must be 0.001 to 1" },
    { TOKENS "    reserve_max: 50%", 5, 18, WEIR_ERANGE, "must be 0.001 to 1" },
    { TOKENS "    reserve_max: 0.5x", 5, 18, WEIR_ERANGE, "must be 0.001 to 1" },
    { TOKENS "    reserve_max: 0.5001", 5, 18, WEIR_ERANGE, "three decimals at most" },
    { TOKENS "    reserve_max: 99999999999", 5, 18, WEIR_ERANGE, "must be 0.001 to 1" },
    { TOKENS "    reserve_max: [1]", 5, 18, WEIR_EPROTO, "reserve_max must be" },
    { TOKENS "    reserve_ttl_max: 999ms", 5, 22, WEIR_ERANGE,
      "reserve_ttl_max 999ms is out of range: must be 1s to 1day" },
    { TOKENS "    reserve_ttl_max: 1year", 5, 22, WEIR_ERANGE, "must be 1s to 1day" },
    { TOKENS "    on_expiry: relase", 5, 16, WEIR_EINVAL,
      "on_expiry \"relase\": did you mean \"release\"? It must be one of release, keep" },
    { TOKENS "    on_expiry: forget", 5, 16, WEIR_EINVAL, "on_expiry \"forget\" must be one of release, keep" },
    { TOKENS "    estimate: p49\n    estimate_first: 9", 5, 15, WEIR_ERANGE, "estimate \"p49\" must be p50 to p99" },
    { TOKENS "    estimate: p100\n    estimate_first: 9", 5, 15, WEIR_ERANGE, "must be p50 to p99" },
    { TOKENS "    estimate: 95\n    estimate_first: 9", 5, 15, WEIR_ERANGE, "must be p50 to p99" },
    { TOKENS "    estimate: p95", 5, 15, WEIR_EPROTO, "estimate needs estimate_first" },
    { TOKENS "    estimate: p95\n    estimate_first: 0", 6, 21, WEIR_ERANGE,
      "estimate_first 0 is out of range: must be 1 to 1000000000000" },
    { TOKENS "    estimate_first: 5", 5, 5, WEIR_EINVAL, "\"estimate_first\" is only for limits with estimate" },
    { TOKENS "    reserve_maxx: 1", 5, 5, WEIR_EPROTO, "did you mean \"reserve_max\"?" },
    { TOKENS "    reserve_max: 1\n    reserve_max: 1", 6, 5, WEIR_EPROTO, "reserve_max" },
    { LIMIT "    reserve_max: 0.5", 4, 5, WEIR_EINVAL, "\"reserve_max\" is only for limits with cost: amount" },
    { LIMIT "    reserve_ttl_max: 1min", 4, 5, WEIR_EINVAL, "is only for limits with cost: amount" },
    { LIMIT "    cost: tokens\n    on_expiry: keep", 5, 5, WEIR_EINVAL, "is only for limits with cost: amount" },
    { "limits:\n  - { name: x, algorithm: concurrency, rate: 5, cost: amount, on_expiry: keep }", 2, 63, WEIR_EINVAL,
      "and not algorithm: concurrency" },
};

static void what_cannot_be_meant_is_refused_at_its_place(void **state)
{
    (void)state;
    EXPECT_BAD(bad_reserves);
}

static void what_is_meant_is_there(void **state)
{
    (void)state;
    struct weir_config *config = config_parsed(
        TOKENS "    reserve_max: 0.25\n    reserve_ttl_max: 1hour\n    on_expiry: keep\n    estimate: p95\n"
               "    estimate_first: 800\n  - { name: y, rate: 5/min, cost: amount }\n  - { name: z, rate: 5/min }\n");
    const struct weir_config_reserve *x = &config->limits[0].reserve, *y = &config->limits[1].reserve;
    assert_int_equal(x->max_share, 250);
    assert_int_equal(x->ttl_max_ns, 3600 * WEIR_NS_PER_SECOND);
    assert_int_equal(x->on_expiry, WEIR_ON_EXPIRY_KEEP);
    assert_int_equal(x->estimate, 95);
    assert_int_equal(x->estimate_first, 800);
    assert_int_equal(y->max_share, 0);
    assert_int_equal(y->ttl_max_ns, 600 * WEIR_NS_PER_SECOND);
    assert_int_equal(y->on_expiry, WEIR_ON_EXPIRY_RELEASE);
    assert_int_equal(y->estimate, 0);
    weir_config_destroy(config);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_cannot_be_meant_is_refused_at_its_place),
        cmocka_unit_test(what_is_meant_is_there),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
