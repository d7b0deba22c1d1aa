/* SPDX-License-Identifier: Apache-2.0
 *
 * Stored values: what is written is read, under whatever limit, and takes the memory of its own algorithm. */
#include "engine/redis/value.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <setjmp.h>

#include <cmocka.h>

#define NOW_NS (1000 * WEIR_NS_PER_SECOND)

static struct weir_limit limit_of(enum weir_algorithm algorithm)
{
    const struct weir_limit_spec spec = { .algorithm = algorithm, .count = 100, .period_ns = 60 * WEIR_NS_PER_SECOND };
    struct weir_limit limit;
    struct weir_fault fault;
    assert_int_equal(weir_limit_init(&limit, &spec, 0, &fault), 0);
    return limit;
}

static struct weir_value read_value(const struct weir_limit *limit, const uint8_t *bytes, size_t size)
{
    struct weir_value value;
    const struct weir_remote_limit remote = { .limit = *limit };
    assert_int_equal(weir_value_read(&remote, NOW_NS, bytes, size, &value), 0);
    return value;
}

/* A megabyte of room for times, of each key of each decision, is what only a log can need. */
static void only_a_log_has_room_for_times(void **state)
{
    (void)state;
    for (int from = WEIR_TOKEN_BUCKET; from <= WEIR_SLIDING_COUNTER; from++) {
        const struct weir_limit limit = limit_of((enum weir_algorithm)from);
        struct weir_value value = read_value(&limit, NULL, 0);
        const struct weir_event event = { .now_ns = NOW_NS, .cost = 1, .window = { .id = 1, .end_after_ns = 1 } };
        struct weir_verdict verdict;
        uint8_t *bytes;
        size_t size;
        uint64_t ttl_ms;
        assert_int_equal(value.ledger.state.log.room > 0, from == WEIR_SLIDING_LOG);
        assert_true(weir_ledger_decide(&limit, &value.ledger, &event, false, &verdict));
        assert_int_equal(weir_value_write(&value, NOW_NS, &bytes, &size, &ttl_ms), 0);
        weir_value_deinit(&value);
        for (int to = WEIR_TOKEN_BUCKET; to <= WEIR_SLIDING_COUNTER; to++) {
            const struct weir_limit other = limit_of((enum weir_algorithm)to);
            value = read_value(&other, bytes, size);
            assert_int_equal(value.ledger.state.log.room > 0, from == WEIR_SLIDING_LOG || to == WEIR_SLIDING_LOG);
            assert_int_equal(value.ledger.state.log.used, from == WEIR_SLIDING_LOG ? 1 : 0);
            weir_value_deinit(&value);
        }
        free(bytes);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(only_a_log_has_room_for_times) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
