/* SPDX-License-Identifier: Apache-2.0
 *
 * core/limit: a state from ahead of the clock is answered for as if it had been settled first, whoever asks what. */
#include "core/limit/limit.h"
#include "fixture.h"

#define ROOM 64

static const struct weir_limit_spec specs[] = {
    { .algorithm = WEIR_TOKEN_BUCKET, .count = 10, .period_ns = SECOND, .burst = 4 },
    { .algorithm = WEIR_LEAKY_BUCKET, .count = 3, .period_ns = 7 * SECOND, .burst = 4 },
    { .algorithm = WEIR_FIXED_WINDOW, .count = 4, .period_ns = SECOND, .align = WEIR_ALIGN_FIRST },
    { .algorithm = WEIR_FIXED_WINDOW, .count = 4, .period_ns = SECOND },
    { .algorithm = WEIR_SLIDING_LOG, .count = 4, .period_ns = SECOND },
    { .algorithm = WEIR_SLIDING_COUNTER, .count = 4, .period_ns = SECOND },
};

struct key {
    struct weir_limit limit;
    struct weir_state state;
    uint64_t times[ROOM];
};

static struct weir_event event_at(uint64_t now_ns, uint64_t cost)
{
    return (struct weir_event){ .now_ns = now_ns,
                                .cost = cost,
                                .window = { .id = now_ns / SECOND, .end_after_ns = SECOND - now_ns % SECOND } };
}

/* A unit is used, an hour ahead of T0. */
static void use_ahead(struct key *key, const struct weir_limit_spec *spec)
{
    struct weir_event event = event_at(T0 + HOUR, 1);
    struct weir_verdict verdict;
    assert_int_equal(weir_limit_init(&key->limit, spec, SECOND, NULL), 0);
    key->state = weir_state_fresh(&key->limit, event.now_ns);
    key->state.log = (struct weir_log){ .times = key->times, .room = ROOM };
    assert_true(weir_limit_judge(&key->limit, &key->state, &event, &verdict));
    weir_limit_charge(&key->limit, &key->state, &event, &verdict);
}

static void assert_verdicts_equal(const struct weir_verdict *a, const struct weir_verdict *b)
{
    assert_int_equal(a->admitted, b->admitted);
    assert_int_equal(a->late, b->late);
    assert_int_equal(a->capacity, b->capacity);
    assert_int_equal(a->remaining, b->remaining);
    assert_int_equal(a->retry_after_ns, b->retry_after_ns);
    assert_int_equal(a->reset_after_ns, b->reset_after_ns);
    assert_int_equal(a->next_after_ns, b->next_after_ns);
    assert_int_equal(a->delay_ns, b->delay_ns);
}

static void what_is_ahead_is_answered_for_as_if_it_were_settled(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof specs / sizeof specs[0]; i++) {
        struct key ahead, settled;
        const struct weir_event event = event_at(T0 + 12345, 0);
        use_ahead(&ahead, &specs[i]);
        use_ahead(&settled, &specs[i]);
        weir_limit_settle(&settled.limit, &settled.state, &event);
        assert_true(weir_limit_jumped(&ahead.limit, &ahead.state, event.now_ns));
        assert_int_equal(weir_limit_used(&ahead.limit, &ahead.state, &event), 4);
        assert_int_equal(weir_limit_used(&settled.limit, &settled.state, &event), 4);
        for (uint64_t most = 0; most <= 4; most++)
            assert_int_equal(weir_limit_wait_ns(&ahead.limit, &ahead.state, &event, most),
                             weir_limit_wait_ns(&settled.limit, &settled.state, &event, most));
        assert_int_equal(weir_limit_wait_ns(&ahead.limit, &ahead.state, &event, 4), 0);
        for (uint64_t cost = 0; cost <= 5; cost++) {
            const struct weir_event costs = event_at(event.now_ns, cost);
            struct weir_verdict a, b;
            assert_int_equal(weir_limit_judge(&ahead.limit, &ahead.state, &costs, &a), cost == 0);
            assert_int_equal(weir_limit_judge(&settled.limit, &settled.state, &costs, &b), cost == 0);
            assert_verdicts_equal(&a, &b);
        }
        assert_int_equal(weir_limit_refund(&ahead.limit, &ahead.state, &event, 1), 0); /* it is of another time */
    }
}

/* What lies in it goes: only what is added needs room. */
static void a_log_that_is_ahead_needs_no_room_for_what_is_in_it(void **state)
{
    (void)state;
    const struct weir_limit_spec spec = { .algorithm = WEIR_SLIDING_LOG, .count = 20, .period_ns = SECOND };
    struct key key;
    use_ahead(&key, &spec);
    struct weir_event event = event_at(T0 + HOUR, 15);
    struct weir_verdict verdict;
    assert_true(weir_limit_judge(&key.limit, &key.state, &event, &verdict));
    weir_limit_charge(&key.limit, &key.state, &event, &verdict);
    assert_int_equal(weir_limit_room(&key.limit, &key.state, &event, 4), 32); /* 16 and 4 */
    event = event_at(T0, 0);
    assert_int_equal(weir_limit_room(&key.limit, &key.state, &event, 4), 8);
    assert_int_equal(weir_limit_room(&key.limit, &key.state, &event, 9), 16);
}

/* Wall time fell back: however little was used, until the window ends nothing is admitted. */
static void a_closed_window_is_waited_for(void **state)
{
    (void)state;
    struct key key;
    const struct weir_limit_spec spec = { .algorithm = WEIR_FIXED_WINDOW, .count = 4, .period_ns = SECOND };
    use_ahead(&key, &spec);
    const struct weir_event event = { .now_ns = T0 + HOUR + 5 * SECOND,
                                      .cost = 1,
                                      .window = { T0 / SECOND + 3605, 700 * MS, true } };
    struct weir_verdict verdict;
    assert_int_equal(weir_limit_wait_ns(&key.limit, &key.state, &event, 0), 700 * MS);
    assert_false(weir_limit_judge(&key.limit, &key.state, &event, &verdict));
    assert_int_equal(verdict.retry_after_ns, 700 * MS);
}

/* Nothing is charged: the key stays as it was, whatever time it is. */
static void what_costs_nothing_changes_nothing(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof specs / sizeof specs[0]; i++) {
        struct key key;
        use_ahead(&key, &specs[i]);
        const struct weir_state before = key.state;
        const struct weir_event later = event_at(T0 + 2 * HOUR, 0);
        struct weir_verdict verdict;
        assert_true(weir_limit_judge(&key.limit, &key.state, &later, &verdict));
        weir_limit_charge(&key.limit, &key.state, &later, &verdict);
        assert_memory_equal(&key.state, &before, sizeof before);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_ahead_is_answered_for_as_if_it_were_settled),
        cmocka_unit_test(what_costs_nothing_changes_nothing),
        cmocka_unit_test(a_closed_window_is_waited_for),
        cmocka_unit_test(a_log_that_is_ahead_needs_no_room_for_what_is_in_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
