/* SPDX-License-Identifier: Apache-2.0
 *
 * sharing: split. The shares of all nodes together are the limit, and not a unit more. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/share/split.h"
#include "random.h"

static void shares_add_up_to_the_whole(void **state)
{
    (void)state;
    struct test_random random = { test_random_seed() };
    for (int run = 0; run < 20000; run++) {
        uint32_t nodes = 1 + (uint32_t)test_random_below(&random, 40);
        struct weir_limit_spec spec = { .count = test_random_u64(&random) >> test_random_below(&random, 64),
                                        .burst = test_random_u64(&random) >> (24 + test_random_below(&random, 40)),
                                        .period_ns = 1000 };
        uint64_t count = 0, capacity = 0, before = UINT64_MAX;
        for (uint32_t i = 0; i < nodes; i++) {
            struct weir_limit_spec share = weir_split_spec(&spec, nodes, i);
            assert_int_equal(share.period_ns, spec.period_ns);
            assert_true(share.count <= before); /* the remainder goes to the lowest */
            before = share.count;
            count += share.count;
            capacity += weir_limit_capacity(&share);
        }
        assert_true(count <= spec.count && capacity <= weir_limit_capacity(&spec));
        if (spec.burst == 0 || spec.burst >= nodes)
            assert_int_equal(count, spec.count);
        if (spec.burst == 0 || spec.count >= nodes) /* else a node without units has no use for its burst */
            assert_true(spec.burst >= nodes || spec.burst == 0 ? capacity == weir_limit_capacity(&spec) : true);
    }
}

/* A burst of 0 would mean "as many as count": a node without a part of the burst gets nothing at all. */
static void a_share_without_burst_admits_nothing(void **state)
{
    (void)state;
    const struct weir_limit_spec spec = { .count = 9, .period_ns = WEIR_NS_PER_SECOND, .burst = 1 };
    struct weir_limit_spec first = weir_split_spec(&spec, 3, 0), second = weir_split_spec(&spec, 3, 1);
    assert_int_equal(weir_limit_capacity(&first), 1);
    assert_int_equal(weir_limit_capacity(&second), 0);
}

static void slack_is_a_tenth_of_a_share_and_never_nothing(void **state)
{
    (void)state;
    assert_int_equal(weir_split_slack(1000, 10), 10);
    assert_int_equal(weir_split_slack(1099, 10), 10);
    assert_int_equal(weir_split_slack(0, 10), 1);
    assert_int_equal(weir_split_slack(99, 10), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shares_add_up_to_the_whole),
        cmocka_unit_test(a_share_without_burst_admits_nothing),
        cmocka_unit_test(slack_is_a_tenth_of_a_share_and_never_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
