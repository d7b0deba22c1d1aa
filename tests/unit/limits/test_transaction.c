/* SPDX-License-Identifier: Apache-2.0
 *
 * limits/transaction: one request under several limits, in memory, with a host, by gossip and at an engine, is admitted
 * under all of them or charged under none; whatever the engine does, and whoever leaves. */
#include "transaction_world.h"

static struct world the_world; /* too large for a stack */

/* What came of one that was told. */
struct told {
    size_t count;
    bool admitted;
    struct weir_verdict verdicts[LIMITS];
    bool fell_back[LIMITS];
};

static void note(struct told *told, const struct weir_transaction *transaction)
{
    told->count++;
    told->admitted = weir_transaction_decision(transaction).admitted;
    for (size_t i = 0; i < transaction->count; i++) {
        told->verdicts[i] = transaction->parts[i].verdict;
        told->fell_back[i] = transaction->parts[i].fell_back;
    }
}

static void on_done(struct weir_transaction *transaction, void *context)
{
    note(context, transaction);
    weir_transaction_end(transaction);
}

/* One unit of each of `limits`, key a, and all the time that takes. */
static struct told decide(struct world *w, const size_t *limits, size_t count)
{
    struct told told = { 0 };
    struct weir_transaction *transaction = begin(w, WEIR_TRANSACTION_DECIDE);
    for (size_t i = 0; i < count; i++)
        add(w, transaction, limits[i], 0, 1);
    struct weir_transaction *pending = run(w, transaction);
    if (pending)
        weir_transaction_then(pending, on_done, &told);
    else
        note(&told, transaction);
    world_run(w, SECOND);
    assert_int_equal(told.count, 1);
    assert_int_equal(w->of.under_way, 0);
    return told;
}

#define DECIDE(w, ...)                                                                                                 \
    decide((w), (const size_t[]){ __VA_ARGS__ }, sizeof((const size_t[]){ __VA_ARGS__ }) / sizeof(size_t))

static struct world *world(uint64_t capacity, enum weir_on_failure on_failure)
{
    world_init(&the_world, 1, capacity, on_failure);
    return &the_world;
}

static void test_all_that_admit_are_charged(void **state)
{
    (void)state;
    struct world *w = world(10, WEIR_ON_FAILURE_CLOSED);
    const struct told told = DECIDE(w, HERE, EXACT, LEASED, BATCHED, GOSSIPED, SECOND_EXACT);
    assert_true(told.admitted);
    world_close(w);
    for (size_t limit = HERE; limit <= BATCHED; limit++)
        assert_int_equal(world_used(w, limit, 0), 1);
    assert_int_equal(world_used(w, GOSSIPED, 0), 1);
    assert_int_equal(w->settled, 3); /* and the two looks */
    world_deinit(w);
}

/* Each of them in turn is used up, and is the one that refuses. */
static void test_who_refuses_undoes_the_others(void **state)
{
    (void)state;
    for (size_t full = HERE; full <= GOSSIPED; full++) {
        struct world *w = world(1, WEIR_ON_FAILURE_CLOSED);
        assert_true(DECIDE(w, full).admitted);
        const struct told told = DECIDE(w, HERE, EXACT, SECOND_EXACT, LEASED, BATCHED, GOSSIPED);
        assert_false(told.admitted);
        for (size_t i = HERE; i <= GOSSIPED; i++) {
            assert_int_equal(told.verdicts[i].admitted, i != full);
            if (i != LEASED && i != BATCHED) /* their unit may be on the way back, and is told when it is there */
                assert_int_equal(told.verdicts[i].remaining, i != full);
        }
        world_close(w);
        for (size_t i = HERE; i <= GOSSIPED; i++)
            assert_int_equal(world_used(w, i, 0), i == full);
        world_deinit(w);
    }
}

/* At once, not when the rest has been looked at. */
static void test_what_a_refusal_gives_back_is_there_for_others(void **state)
{
    (void)state;
    struct world *w = world(1, WEIR_ON_FAILURE_CLOSED);
    struct told told = { 0 };
    assert_true(DECIDE(w, HERE).admitted);
    struct weir_transaction *transaction = begin(w, WEIR_TRANSACTION_DECIDE);
    add(w, transaction, GOSSIPED, 0, 1);
    add(w, transaction, HERE, 0, 1);
    add(w, transaction, EXACT, 0, 1);
    weir_transaction_then(run(w, transaction), on_done, &told);
    transaction = begin(w, WEIR_TRANSACTION_DECIDE);
    add(w, transaction, GOSSIPED, 0, 1);
    assert_null(run(w, transaction));
    assert_true(weir_transaction_decision(transaction).admitted);
    world_run(w, SECOND);
    assert_true(told.count == 1 && !told.admitted);
    world_deinit(w);
}

static void test_a_shadow_refuses_nobody_and_attempts_are_charged_for_a_refusal(void **state)
{
    (void)state;
    struct world *w = world(3, WEIR_ON_FAILURE_CLOSED);
    for (unsigned i = 0; i < 3; i++)
        assert_true(DECIDE(w, SHADOW).admitted);
    const struct told told = DECIDE(w, SHADOW, EXACT);
    assert_true(told.admitted && !told.verdicts[0].admitted && told.verdicts[0].shadow);
    assert_true(DECIDE(w, EXACT).admitted && DECIDE(w, EXACT).admitted);
    assert_false(DECIDE(w, ATTEMPTS, EXACT).admitted);
    assert_int_equal(world_used(w, ATTEMPTS, 0), 1);
    assert_int_equal(world_used(w, EXACT, 0), 3);
    struct weir_transaction *transaction = begin(w, WEIR_TRANSACTION_DECIDE);
    add(w, transaction, ATTEMPTS, 0, 1);
    add(w, transaction, GOSSIPED, 0, 4);
    assert_null(run(w, transaction));
    assert_false(weir_transaction_decision(transaction).admitted);
    assert_int_equal(world_used(w, ATTEMPTS, 0), 1); /* what can never pass is no attempt */
    world_deinit(w);
}

/* The engine is down, silent, or slower than the deadline: on_failure decides, and nothing else does. */
static void test_where_the_engine_fails_on_failure_decides(void **state)
{
    (void)state;
    for (unsigned n = 0; n < 3 * 3 * 3; n++) {
        const enum weir_on_failure on_failure = (enum weir_on_failure)(n % 3);
        const size_t limit = (const size_t[]){ EXACT, LEASED, BATCHED }[n / 3 % 3];
        struct world *w = world(10, on_failure);
        w->remote.down = n / 9 == 0;
        w->remote.lost = n / 9 == 1 ? 1000 : 0;
        w->remote.delay_ns = n / 9 == 2 ? 15 * MS : MS;
        const struct told told = DECIDE(w, HERE, limit);
        assert_true(told.fell_back[1]);
        assert_int_equal(told.admitted, on_failure != WEIR_ON_FAILURE_CLOSED);
        assert_int_equal(world_used(w, HERE, 0), told.admitted);
        if (limit == EXACT)
            assert_int_equal(w->unknown, n / 9 != 0);
        if (on_failure == WEIR_ON_FAILURE_LOCAL) { /* its share holds one, and the next comes in 100 s */
            const struct told second = DECIDE(w, HERE, limit);
            assert_false(second.admitted);
            assert_in_range(second.verdicts[1].retry_after_ns, 1, WEIR_TRANSACTION_RETRY_NS);
        }
        world_deinit(w);
    }
}

/* What counts attempts is charged before the others are looked at, and once. */
static void test_what_is_charged_is_decided_before_the_rest_is_looked_at(void **state)
{
    (void)state;
    struct world *w = world(10, WEIR_ON_FAILURE_CLOSED);
    w->limits[SECOND_EXACT].spec.count_mode = WEIR_COUNT_ATTEMPTS;
    for (unsigned i = 0; i < 10; i++)
        assert_true(DECIDE(w, HERE).admitted);
    const uint64_t asks = w->remote.asks;
    const struct told told = DECIDE(w, HERE, SECOND_EXACT, EXACT);
    assert_false(told.admitted);
    assert_int_equal(w->remote.asks - asks, 2);
    assert_int_equal(world_used(w, SECOND_EXACT, 0), 1);
    assert_int_equal(world_used(w, EXACT, 0), 0);
    assert_int_equal(told.verdicts[1].remaining, 9);
    assert_int_equal(told.verdicts[2].remaining, 10);
    world_deinit(w);
}

/* Who asks for nothing waits for no chunk, and takes none from others: the engine is looked at. */
static void test_who_asks_for_nothing_takes_no_chunk(void **state)
{
    (void)state;
    struct world *w = world(10, WEIR_ON_FAILURE_CLOSED);
    struct told told = { 0 };
    struct weir_transaction *transaction = begin(w, WEIR_TRANSACTION_DECIDE);
    add(w, transaction, LEASED, 0, 0);
    struct weir_transaction *pending = run(w, transaction);
    assert_non_null(pending);
    weir_transaction_then(pending, on_done, &told);
    world_run(w, 10 * MS);
    assert_true(told.count == 1 && told.admitted);
    assert_int_equal(told.verdicts[0].remaining, 10);
    assert_int_equal(w->remote.asks, 1);
    assert_int_equal(world_used(w, LEASED, 0), 0);
    world_deinit(w);
}

/* By no engine and no host, as if they had failed: what they hold is of a definition that is not understood here. */
static void test_what_is_not_understood_here_is_decided_by_on_failure(void **state)
{
    (void)state;
    static const size_t kinds[] = { EXACT, LEASED, BATCHED, GOSSIPED };
    for (unsigned n = 0; n < 12; n++) {
        const enum weir_on_failure on_failure = (enum weir_on_failure)(n % 3);
        const size_t limit = kinds[n / 3];
        struct world *w = world(10, on_failure);
        w->limits[limit].undecidable = true;
        for (unsigned i = 0; i < 2; i++) {
            const struct told told = DECIDE(w, HERE, limit);
            const bool admits = on_failure == WEIR_ON_FAILURE_OPEN || (on_failure == WEIR_ON_FAILURE_LOCAL && i == 0);
            assert_int_equal(told.admitted, admits);
            assert_true(told.fell_back[1] && !told.fell_back[0]);
            assert_int_equal(told.verdicts[1].admitted, admits);
            if (on_failure == WEIR_ON_FAILURE_CLOSED) {
                assert_int_equal(told.verdicts[1].retry_after_ns, WEIR_TRANSACTION_RETRY_NS);
                assert_int_equal(told.verdicts[1].next_after_ns, WEIR_TRANSACTION_RETRY_NS);
            }
        }
        struct weir_transaction *refund = begin(w, WEIR_TRANSACTION_REFUND);
        add(w, refund, limit, 0, 1);
        assert_null(run(w, refund)); /* nothing is given back there, either */
        assert_int_equal(w->remote.asks, 0);
        w->limits[limit].undecidable = false;
        assert_int_equal(world_used(w, limit, 0), 0);
        world_deinit(w);
    }
}

/* What waits for the engine is told nothing any more, and keeps nothing that is only set aside. */
static void test_who_leaves_is_charged_by_what_the_engine_decides_alone(void **state)
{
    (void)state;
    struct world *w = world(10, WEIR_ON_FAILURE_CLOSED);
    struct told told = { 0 };
    struct weir_transaction *transaction = begin(w, WEIR_TRANSACTION_DECIDE);
    add(w, transaction, HERE, 0, 1);
    add(w, transaction, LEASED, 0, 1); /* waits for its first chunk, before the others are decided */
    struct weir_transaction *pending = run(w, transaction);
    assert_non_null(pending);
    weir_transaction_then(pending, on_done, &told);
    weir_transaction_abandon(pending);
    assert_int_equal(w->of.under_way, 0);
    world_run(w, SECOND);
    assert_int_equal(world_used(w, HERE, 0), 0);
    transaction = begin(w, WEIR_TRANSACTION_DECIDE);
    add(w, transaction, HERE, 1, 1);
    add(w, transaction, EXACT, 1, 1);
    pending = run(w, transaction);
    assert_non_null(pending);
    weir_transaction_then(pending, on_done, &told);
    weir_transaction_abandon(pending);
    assert_int_equal(w->of.under_way, 1); /* it is heard, and then ends */
    world_run(w, SECOND);
    assert_int_equal(w->of.under_way, 0);
    assert_int_equal(world_used(w, HERE, 1), 1);
    assert_int_equal(world_used(w, EXACT, 1), 1);
    assert_int_equal(told.count, 0);
    world_deinit(w);
}

/* Others change the key all the time: no failure. It is asked again while there is time, and then refused. */
static void test_an_engine_that_is_busy_is_asked_again(void **state)
{
    (void)state;
    for (unsigned n = 0; n < 2; n++) {
        struct world *w = world(10, WEIR_ON_FAILURE_OPEN);
        w->remote.busy = 2;
        w->remote.delay_ns = n ? 10 * MS : MS; /* there and back: the deadline */
        const struct told told = DECIDE(w, HERE, EXACT);
        assert_int_equal(told.admitted, n == 0);
        assert_false(told.fell_back[1]);
        assert_int_equal(w->remote.asks, n ? 1 : 3);
        assert_int_equal(world_used(w, HERE, 0), n == 0);
        assert_int_equal(world_used(w, EXACT, 0), n == 0);
        if (n)
            assert_in_range(told.verdicts[1].retry_after_ns, 1, SECOND);
        world_deinit(w);
    }
}

/* The engine answers, and others are faster at a leased or batched key until the deadline: no failure either. */
static void test_a_key_that_others_are_faster_at_is_no_failure(void **state)
{
    (void)state;
    for (size_t limit = LEASED; limit <= BATCHED; limit++) {
        struct world *w = world(10, WEIR_ON_FAILURE_OPEN);
        w->remote.outrun = 25; /* of two ways of 1 ms */
        const struct told told = decide(w, (const size_t[]){ HERE, limit }, 2);
        assert_false(told.admitted);
        assert_false(told.fell_back[1]);
        assert_in_range(told.verdicts[1].retry_after_ns, 1, SECOND);
        assert_int_equal(world_used(w, HERE, 0), 0);
        assert_true(decide(w, (const size_t[]){ HERE, limit }, 2).admitted);
        world_deinit(w);
    }
}

/* Another limit leaves the request less time than the ask has, and the engine says nothing: that is a failure. */
static void test_who_waits_for_less_long_than_the_ask_takes_falls_back(void **state)
{
    (void)state;
    struct world *w = world(10, WEIR_ON_FAILURE_OPEN);
    w->limits[EXACT].deadline_ns = 10 * MS; /* of 20 */
    w->remote.lost = 1000;
    const struct told told = DECIDE(w, LEASED, EXACT);
    assert_true(told.admitted);
    assert_true(told.fell_back[0]);
    w->remote.lost = 0;
    world_deinit(w);
}

/* What is set aside runs out while the engine is asked about another limit: it must not be spent, nor the rest. */
static void test_a_commit_that_comes_too_late_refuses(void **state)
{
    (void)state;
    struct world *w = world(10, WEIR_ON_FAILURE_CLOSED);
    w->limits[LEASED].chunk_ttl_ns = 30 * MS;
    w->limits[EXACT].deadline_ns = w->limits[LEASED].deadline_ns = 200 * MS;
    struct told told = { 0 };
    struct weir_transaction *transaction = begin(w, WEIR_TRANSACTION_DECIDE);
    add(w, transaction, LEASED, 0, 1);
    add(w, transaction, HERE, 0, 1);
    add(w, transaction, EXACT, 0, 1);
    weir_transaction_then(run(w, transaction), on_done, &told);
    world_run(w, MS + MS / 2); /* the chunk is on its way */
    w->remote.delay_ns = 40 * MS;
    world_run(w, 60 * MS);
    assert_int_equal(world_used(w, HERE, 0), 1);
    world_run(w, 60 * MS);
    assert_true(told.count == 1 && !told.admitted && !told.fell_back[0] && !told.fell_back[2]);
    assert_int_equal(world_used(w, HERE, 0), 0);
    world_deinit(w);
}

/* A refusal gives back what the share was charged, and only that; what is open has no bound from then on. */
static void test_a_refusal_gives_the_share_back(void **state)
{
    (void)state;
    struct world *w = world(10, WEIR_ON_FAILURE_LOCAL);
    w->limits[SECOND_EXACT].share.count = w->limits[SECOND_EXACT].spec.count = 0; /* never */
    w->remote.down = true;
    assert_false(DECIDE(w, EXACT, SECOND_EXACT).admitted);
    assert_true(DECIDE(w, EXACT).admitted);
    assert_false(DECIDE(w, EXACT).admitted);
    const uint64_t now_ns = w->remote.now_ns;
    assert_true(weir_fallback_overshoot(w->of.fallback, EXACT, &w->limits[EXACT].spec, now_ns) < WEIR_NEVER);
    w->limits[EXACT].on_failure = WEIR_ON_FAILURE_OPEN;
    assert_true(DECIDE(w, EXACT).admitted);
    assert_int_equal(weir_fallback_overshoot(w->of.fallback, EXACT, &w->limits[EXACT].spec, now_ns), WEIR_NEVER);
    world_deinit(w);
}

/* Never before the longest wait; of those that admit, the one with the least; a shadow is none of them. */
static void test_the_limit_that_decides(void **state)
{
    (void)state;
    struct world *w = world(10, WEIR_ON_FAILURE_CLOSED);
    static const struct {
        struct weir_verdict verdicts[3];
        struct weir_decision decision;
    } cases[] = {
        { { { .admitted = true, .remaining = 5 },
            { .admitted = true, .remaining = 3, .delay_ns = 7 },
            { .admitted = true, .remaining = 4 } },
          { .admitted = true, .deciding = 1, .delay_ns = 7 } },
        { { { .retry_after_ns = 5 }, { .retry_after_ns = 9 }, { .admitted = true, .remaining = 1, .delay_ns = 7 } },
          { .deciding = 1, .retry_after_ns = 9 } },
        { { { .retry_after_ns = 5 }, { .retry_after_ns = WEIR_NEVER }, { .retry_after_ns = 9 } },
          { .deciding = 1, .retry_after_ns = WEIR_NEVER } },
        { { { .shadow = true, .retry_after_ns = 5 },
            { .admitted = true, .remaining = 6 },
            { .admitted = true, .remaining = 7 } },
          { .admitted = true, .deciding = 1 } },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct weir_transaction *transaction = begin(w, WEIR_TRANSACTION_PEEK);
        for (size_t k = 0; k < 3; k++) {
            add(w, transaction, HERE, k, 1);
            transaction->parts[k].verdict = cases[i].verdicts[k];
        }
        const struct weir_decision decision = weir_transaction_decision(transaction);
        assert_int_equal(decision.admitted, cases[i].decision.admitted);
        assert_int_equal(decision.deciding, cases[i].decision.deciding);
        assert_int_equal(decision.delay_ns, cases[i].decision.delay_ns);
        assert_int_equal(decision.retry_after_ns, cases[i].decision.retry_after_ns);
    }
    world_deinit(w);
}

/* One more than may be under way is not lost: its on_failure answers at once. */
static void test_too_many_under_way_fall_back(void **state)
{
    (void)state;
    struct world *w = world(10, WEIR_ON_FAILURE_OPEN);
    struct weir_transaction *transaction = begin(w, WEIR_TRANSACTION_DECIDE);
    add(w, transaction, HERE, 0, 1);
    add(w, transaction, EXACT, 0, 1);
    w->of.under_way = WEIR_TRANSACTIONS_MAX;
    assert_null(run(w, transaction));
    w->of.under_way = 0;
    assert_true(weir_transaction_decision(transaction).admitted && transaction->parts[1].fell_back);
    assert_int_equal(world_used(w, HERE, 0), 1);
    world_deinit(w);
}

static void test_a_refund_and_a_forget_go_where_the_units_are(void **state)
{
    (void)state;
    struct world *w = world(10, WEIR_ON_FAILURE_CLOSED);
    assert_true(DECIDE(w, HERE, EXACT, GOSSIPED).admitted && DECIDE(w, HERE, EXACT, GOSSIPED).admitted);
    for (unsigned n = 0; n < 2; n++) {
        struct told told = { 0 };
        struct weir_transaction *transaction = begin(w, n ? WEIR_TRANSACTION_FORGET : WEIR_TRANSACTION_REFUND);
        add(w, transaction, EXACT, 0, 1);
        if (n == 0) {
            add(w, transaction, HERE, 0, 5);
            add(w, transaction, GOSSIPED, 0, 1);
        }
        struct weir_transaction *pending = run(w, transaction);
        assert_non_null(pending);
        weir_transaction_then(pending, on_done, &told);
        world_run(w, SECOND);
        assert_int_equal(told.count, 1);
        assert_int_equal(world_used(w, EXACT, 0), n ? 0 : 1);
        assert_int_equal(world_used(w, HERE, 0), 0);
        assert_int_equal(world_used(w, GOSSIPED, 0), 2);
    }
    world_deinit(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_that_admit_are_charged),
        cmocka_unit_test(test_who_refuses_undoes_the_others),
        cmocka_unit_test(test_what_a_refusal_gives_back_is_there_for_others),
        cmocka_unit_test(test_a_shadow_refuses_nobody_and_attempts_are_charged_for_a_refusal),
        cmocka_unit_test(test_where_the_engine_fails_on_failure_decides),
        cmocka_unit_test(test_what_is_charged_is_decided_before_the_rest_is_looked_at),
        cmocka_unit_test(test_who_asks_for_nothing_takes_no_chunk),
        cmocka_unit_test(test_what_is_not_understood_here_is_decided_by_on_failure),
        cmocka_unit_test(test_who_leaves_is_charged_by_what_the_engine_decides_alone),
        cmocka_unit_test(test_an_engine_that_is_busy_is_asked_again),
        cmocka_unit_test(test_a_key_that_others_are_faster_at_is_no_failure),
        cmocka_unit_test(test_who_waits_for_less_long_than_the_ask_takes_falls_back),
        cmocka_unit_test(test_a_commit_that_comes_too_late_refuses),
        cmocka_unit_test(test_a_refusal_gives_the_share_back),
        cmocka_unit_test(test_the_limit_that_decides),
        cmocka_unit_test(test_too_many_under_way_fall_back),
        cmocka_unit_test(test_a_refund_and_a_forget_go_where_the_units_are),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
