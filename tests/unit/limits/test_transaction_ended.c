/* SPDX-License-Identifier: Apache-2.0
 *
 * limits/transaction: requests that end otherwise than they should: without a host, a timer, a share or a limit that is
 * good, too late, or refused by another limit. */
#include "limits/gossip_inside.h"
#include "transaction_told.h"

static void note_refunded(struct weir_transaction *transaction, void *context)
{
    *(uint64_t *)context = transaction->parts[1].refunded;
    weir_transaction_end(transaction);
}

static void note_trips(struct weir_transaction *transaction, void *context)
{
    *(uint32_t *)context = transaction->round_trips;
    weir_transaction_end(transaction);
}

/* The share of one unit is taken by who is charged: not by a look, by nothing, or by who is refused for another. */
static void test_a_share_is_charged_by_who_is_let_through(void **state)
{
    (void)state;
    struct world *w = world(WEIR_ON_FAILURE_LOCAL);
    w->remote.down = true;
    assert_true(ask(w, WEIR_TRANSACTION_PEEK, EXACT, 1).admitted);
    assert_true(ask(w, WEIR_TRANSACTION_DECIDE, EXACT, 0).admitted);
    for (int first = 0; first < 2; first++) { /* refused before, or after its share has said yes */
        struct told told = { .error = -1 };
        struct weir_transaction *transaction = begin(w, WEIR_TRANSACTION_DECIDE), *pending;
        add(w, transaction, first ? GOSSIPED : EXACT, 0, first ? 11 : 1);
        add(w, transaction, first ? EXACT : GOSSIPED, 0, first ? 1 : 11);
        pending = run(w, transaction);
        if (pending) {
            weir_transaction_then(pending, on_done, &told);
            world_run(w, SECOND);
        } else {
            note(&told, transaction);
        }
        assert_false(told.admitted);
    }
    const struct told told = ask(w, WEIR_TRANSACTION_DECIDE, EXACT, 1);
    assert_true(told.admitted && told.fell_back);
    assert_int_equal(told.verdict.remaining, 0);
    const struct told refused = ask(w, WEIR_TRANSACTION_DECIDE, EXACT, 1);
    assert_false(refused.admitted);
    assert_int_equal(refused.verdict.retry_after_ns, WEIR_TRANSACTION_RETRY_NS); /* the engine may be back by then */
    assert_int_equal(refused.verdict.next_after_ns, WEIR_TRANSACTION_RETRY_NS);
    assert_true(ask(w, WEIR_TRANSACTION_DECIDE, EXACT, 0).admitted);
    world_deinit(w);
}

/* Without memory for a timer nobody waits for a host: on_failure answers at once. */
static void test_who_cannot_wait_is_answered_at_once(void **state)
{
    (void)state;
    for (int on_failure = WEIR_ON_FAILURE_OPEN; on_failure <= WEIR_ON_FAILURE_CLOSED; on_failure++) {
        struct world *w = world((enum weir_on_failure)on_failure);
        w->no_timers = true;
        struct weir_transaction *transaction = begin(w, WEIR_TRANSACTION_DECIDE);
        add(w, transaction, LEASED, 0, 1);
        add(w, transaction, BATCHED, 0, 1);
        add(w, transaction, HERE, 0, 1);
        assert_null(run(w, transaction));
        assert_int_equal(transaction->round_trips, 0);
        for (size_t i = 0; i < 2; i++)
            assert_true(transaction->parts[i].answered && transaction->parts[i].fell_back);
        assert_int_equal(weir_transaction_decision(transaction).admitted, on_failure == WEIR_ON_FAILURE_OPEN);
        assert_int_equal(w->settled, 1);
        assert_int_equal(world_used(w, HERE, 0), on_failure == WEIR_ON_FAILURE_OPEN);
        world_deinit(w);
    }
}

static void test_a_permit_of_a_request_that_another_limit_refuses_is_given_back(void **state)
{
    (void)state;
    struct world *w = world(WEIR_ON_FAILURE_CLOSED);
    const struct weir_time time = world_now(w);
    struct weir_limit_stats stats;
    weir_limit_id ids[2];
    struct told told = { .error = -1 };
    w->limits[HERE].spec = (struct weir_limit_spec){ .algorithm = WEIR_CONCURRENCY, .count = 10, .period_ns = YEAR };
    const struct weir_limit_def defs[] = { { names[HERE], "", w->limits[HERE].spec },
                                           { names[ATTEMPTS], "", w->limits[ATTEMPTS].spec } };
    assert_int_equal(weir_limiter_define(w->limiter, defs, 2, &time, ids, NULL), 0);
    w->here[0][0].limit = ids[0];
    assert_true(ask(w, WEIR_TRANSACTION_DECIDE, HERE, 1).admitted);
    assert_true(ask(w, WEIR_TRANSACTION_DECIDE, EXACT, 10).admitted);
    struct weir_transaction *transaction = begin(w, WEIR_TRANSACTION_DECIDE);
    add(w, transaction, HERE, 0, 2);
    add(w, transaction, EXACT, 0, 1);
    weir_transaction_then(run(w, transaction), on_done, &told);
    world_run(w, SECOND);
    assert_true(told.error == 0 && !told.admitted);
    assert_int_equal(told.verdict.remaining, 9);
    assert_int_equal(told.verdict.retry_after_ns, 0);
    assert_int_equal(weir_limiter_limit_stats(w->limiter, ids[0], &stats), 0);
    assert_int_equal(stats.permits_out, 1);
    assert_int_equal(stats.permits_released, 2);
    world_deinit(w);
}

/* A share that cannot be: nothing is let through by it, and the whole limit says how long to wait. */
static void test_a_share_that_cannot_be_refuses(void **state)
{
    (void)state;
    struct world *w = world(WEIR_ON_FAILURE_LOCAL);
    w->remote.down = true;
    w->limits[EXACT].share.period_ns = 0;
    for (uint64_t cost = 1; cost <= 11; cost += 10) {
        const struct told told = ask(w, WEIR_TRANSACTION_DECIDE, EXACT, cost);
        assert_true(told.fell_back && !told.admitted);
        assert_int_equal(told.verdict.capacity, 10);
        assert_int_equal(told.verdict.remaining, 0);
        assert_int_equal(told.verdict.retry_after_ns, cost > 10 ? WEIR_NEVER : WEIR_TRANSACTION_RETRY_NS);
    }
    world_deinit(w);
}

/* An id of before the last reload but one: it is told, and nothing is charged anywhere. */
static void test_an_error_of_this_processs_limiter_is_told(void **state)
{
    (void)state;
    struct world *w = world(WEIR_ON_FAILURE_CLOSED);
    const struct weir_time time = world_now(w);
    for (uint64_t count = 11; count <= 12; count++) {
        struct weir_limit_def def = { names[HERE], "", w->limits[HERE].spec };
        weir_limit_id id;
        def.spec.count = count;
        assert_int_equal(weir_limiter_define(w->limiter, &def, 1, &time, &id, NULL), 0);
    }
    struct weir_transaction *transaction = begin(w, WEIR_TRANSACTION_DECIDE);
    add(w, transaction, GOSSIPED, 0, 3);
    add(w, transaction, HERE, 0, 1);
    add(w, transaction, EXACT, 0, 1);
    assert_null(run(w, transaction));
    assert_int_equal(transaction->error, WEIR_ESTALE);
    assert_true(transaction->refused && !transaction->parts[1].answered);
    assert_int_equal(w->remote.asks, 0);
    assert_int_equal(world_used(w, GOSSIPED, 0), 0);
    world_deinit(w);
}

/* To the engine, that it has waited for: for the metrics. */
static void test_round_trips_are_counted(void **state)
{
    (void)state;
    static const struct {
        enum weir_transaction_verb verb;
        size_t first, second;
        uint32_t trips;
    } cases[] = {
        { WEIR_TRANSACTION_DECIDE, HERE, ATTEMPTS, 0 },      { WEIR_TRANSACTION_DECIDE, GOSSIPED, HERE, 0 },
        { WEIR_TRANSACTION_DECIDE, EXACT, SECOND_EXACT, 1 }, { WEIR_TRANSACTION_DECIDE, LEASED, HERE, 1 },
        { WEIR_TRANSACTION_DECIDE, LEASED, EXACT, 2 },       { WEIR_TRANSACTION_PEEK, LEASED, EXACT, 1 },
        { WEIR_TRANSACTION_REFUND, EXACT, HERE, 1 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct world *w = world(WEIR_ON_FAILURE_CLOSED);
        uint32_t trips = 0;
        struct weir_transaction *transaction = begin(w, cases[i].verb);
        add(w, transaction, cases[i].first, 0, 1);
        add(w, transaction, cases[i].second, 0, 1);
        struct weir_transaction *pending = run(w, transaction);
        if (pending) {
            weir_transaction_then(pending, note_trips, &trips);
            world_run(w, SECOND);
            assert_int_equal(w->of.under_way, 0);
        }
        if (trips != cases[i].trips)
            fail_msg("case %zu: %u", i, trips);
        world_deinit(w);
    }
}

/* A reload may have brought a limit that needs what this node has not: on_failure answers. */
static void test_without_a_host_on_failure_answers(void **state)
{
    (void)state;
    for (size_t limit = EXACT; limit <= GOSSIPED; limit++)
        for (int on_failure = WEIR_ON_FAILURE_OPEN; on_failure <= WEIR_ON_FAILURE_CLOSED; on_failure++) {
            struct world *w = world((enum weir_on_failure)on_failure);
            struct weir_share_host *host = w->of.host;
            struct weir_gossip_host *gossip = w->of.gossip;
            w->of.host = NULL;
            w->of.gossip = NULL;
            w->of.remote = NULL;
            struct weir_transaction *transaction = begin(w, WEIR_TRANSACTION_DECIDE);
            add(w, transaction, limit, 0, 1);
            add(w, transaction, HERE, 0, 1);
            assert_null(run(w, transaction));
            assert_true(transaction->parts[0].fell_back && !transaction->parts[1].fell_back);
            assert_int_equal(weir_transaction_decision(transaction).admitted, on_failure == WEIR_ON_FAILURE_OPEN);
            assert_int_equal(world_used(w, HERE, 0), on_failure == WEIR_ON_FAILURE_OPEN);
            assert_int_equal(transaction->round_trips, 0);
            w->of.host = host;
            w->of.gossip = gossip;
            w->of.remote = &w->remote.remote;
            world_deinit(w);
        }
}

/* What a commit of another limit's spoils is gone where it was committed already, and is told as gone. */
static void test_what_was_committed_before_a_commit_that_came_too_late_is_told_as_gone(void **state)
{
    (void)state;
    struct world *w = world(WEIR_ON_FAILURE_CLOSED);
    w->limits[LEASED].chunk_ttl_ns = 30 * MS;
    w->limits[EXACT].deadline_ns = w->limits[LEASED].deadline_ns = w->limits[BATCHED].deadline_ns = 200 * MS;
    assert_true(ask(w, WEIR_TRANSACTION_DECIDE, BATCHED, 1).admitted);
    struct told told = { .error = -1 };
    struct weir_transaction *transaction = begin(w, WEIR_TRANSACTION_DECIDE);
    add(w, transaction, BATCHED, 0, 2);
    add(w, transaction, LEASED, 0, 1);
    add(w, transaction, HERE, 0, 1);
    add(w, transaction, EXACT, 0, 1);
    weir_transaction_then(run(w, transaction), on_done, &told);
    world_run(w, MS + MS / 2); /* the chunk is on its way */
    w->remote.delay_ns = 40 * MS;
    world_run(w, 120 * MS);
    assert_true(told.error == 0 && !told.admitted && told.verdict.admitted);
    assert_int_equal(told.verdict.remaining, 10 - 3);
    assert_int_equal(world_used(w, HERE, 0), 0);
    world_run(w, 2 * SECOND);
    assert_int_equal(world_used(w, BATCHED, 0), 3);
    world_deinit(w);
}

/* While what is left is looked at, what was set aside is there for others. */
static void test_a_refusal_gives_back_at_once_what_was_set_aside(void **state)
{
    (void)state;
    struct world *w = world(WEIR_ON_FAILURE_CLOSED);
    assert_true(ask(w, WEIR_TRANSACTION_DECIDE, HERE, 10).admitted);
    struct told told = { .error = -1 };
    struct weir_transaction *transaction = begin(w, WEIR_TRANSACTION_DECIDE);
    for (size_t key = 0; key < KEYS; key++)
        add(w, transaction, GOSSIPED, key, 10);
    add(w, transaction, HERE, 0, 1);
    add(w, transaction, EXACT, 0, 1);
    weir_transaction_then(run(w, transaction), on_done, &told);
    for (size_t key = 0; key < KEYS; key++) {
        transaction = begin(w, WEIR_TRANSACTION_DECIDE);
        add(w, transaction, GOSSIPED, key, 10);
        assert_null(run(w, transaction));
        assert_true(transaction->parts[0].verdict.admitted);
    }
    world_run(w, SECOND);
    assert_true(told.error == 0 && !told.admitted);
    world_deinit(w);
}

/* What is given back to an engine that does not answer is lost, and nobody waits for it any longer. */
static void test_a_refund_that_the_engine_did_not_hear_ends(void **state)
{
    (void)state;
    for (size_t limit = EXACT; limit <= BATCHED; limit++)
        for (int lost = 0; lost < 2; lost++) {
            struct world *w = world(WEIR_ON_FAILURE_CLOSED);
            assert_true(ask(w, WEIR_TRANSACTION_DECIDE, limit, 2).admitted);
            w->remote.down = !lost;
            w->remote.lost = lost ? 1000 : 0;
            const size_t settled = w->settled;
            const struct told told = ask(w, WEIR_TRANSACTION_REFUND, limit, 1);
            assert_int_equal(told.error, 0);
            assert_int_equal(w->settled, settled); /* nothing was decided */
            assert_false(told.fell_back || told.unknown);
            w->remote.down = false;
            w->remote.lost = 0;
            world_deinit(w);
        }
}

/* By how many reloads were heard of when they began: the limits of a set live as long. */
static void test_those_under_way_are_counted_by_their_reload(void **state)
{
    (void)state;
    struct world *w = world(WEIR_ON_FAILURE_CLOSED);
    struct told told[4];
    for (size_t i = 0; i < 4; i++) {
        w->of.reloads = i;
        struct weir_transaction *transaction = begin(w, WEIR_TRANSACTION_DECIDE);
        add(w, transaction, EXACT, 0, 1);
        weir_transaction_then(run(w, transaction), on_done, &told[i]);
        assert_int_equal(w->of.under_way, i + 1);
        assert_int_equal(w->of.under_way_of[0], i / 2 + 1);
        assert_int_equal(w->of.under_way_of[1], (i + 1) / 2);
    }
    world_run(w, SECOND);
    assert_int_equal(w->of.under_way + w->of.under_way_of[0] + w->of.under_way_of[1], 0);
    assert_int_equal(w->ended, 4);
    world_deinit(w);
}

/* What is gossiped asks no engine: how long it may take for that is no matter. */
static void test_a_gossiped_limit_has_no_deadline(void **state)
{
    (void)state;
    struct world *w = world(WEIR_ON_FAILURE_CLOSED);
    struct told told = { .error = -1 };
    w->limits[GOSSIPED].deadline_ns = 1;
    struct weir_transaction *transaction = begin(w, WEIR_TRANSACTION_DECIDE);
    add(w, transaction, GOSSIPED, 0, 1);
    add(w, transaction, EXACT, 0, 1);
    weir_transaction_then(run(w, transaction), on_done, &told);
    world_run(w, SECOND);
    assert_true(told.admitted && !told.fell_back);
    world_deinit(w);
}

/* What a host has set aside is the host's: a key's share of an outage is another matter. */
static void test_what_a_host_takes_back_is_no_shares(void **state)
{
    (void)state;
    for (int refuses = 0; refuses < 2; refuses++) {
        struct world *w = world(WEIR_ON_FAILURE_LOCAL);
        const struct weir_remote_key key = world_key(LEASED, 0);
        struct weir_verdict verdict;
        w->remote.down = true;
        assert_true(ask(w, WEIR_TRANSACTION_DECIDE, LEASED, 1).fell_back);
        w->remote.down = false;
        world_run(w, 100 * MS);
        assert_false(ask(w, WEIR_TRANSACTION_DECIDE, LEASED, 1).fell_back);
        struct weir_transaction *transaction = begin(w, WEIR_TRANSACTION_DECIDE), *pending;
        struct told told = { .error = -1 };
        add(w, transaction, LEASED, 0, 1);
        add(w, transaction, GOSSIPED, 0, refuses ? 11 : 1);
        pending = run(w, transaction);
        if (pending) {
            weir_transaction_then(pending, on_done, &told);
            world_run(w, 100 * MS);
        }
        assert_int_equal(weir_fallback_decide(w->of.fallback, LEASED, &w->limits[LEASED].share, 0, &key, 1, true,
                                              w->remote.now_ns, &verdict),
                         0);
        assert_false(verdict.admitted);
        world_deinit(w);
    }
}

/* Of each limit, as much as was used. */
static void test_what_was_refunded_is_told(void **state)
{
    (void)state;
    struct world *w = world(WEIR_ON_FAILURE_CLOSED);
    uint64_t refunded = 0;
    assert_true(ask(w, WEIR_TRANSACTION_DECIDE, EXACT, 2).admitted);
    assert_true(ask(w, WEIR_TRANSACTION_DECIDE, HERE, 2).admitted);
    struct weir_transaction *transaction = begin(w, WEIR_TRANSACTION_REFUND), *pending;
    add(w, transaction, HERE, 0, 1);
    add(w, transaction, EXACT, 0, 5);
    pending = run(w, transaction);
    assert_int_equal(pending->parts[0].refunded, 1);
    weir_transaction_then(pending, note_refunded, &refunded);
    world_run(w, SECOND);
    assert_int_equal(refunded, 2);
    assert_int_equal(world_used(w, HERE, 0), 1);
    assert_int_equal(world_used(w, EXACT, 0), 0);
    world_deinit(w);
}

/* By another limit's: what it took is there again, and is shown so. */
static void test_a_share_that_another_refuses_is_given_back(void **state)
{
    (void)state;
    struct world *w = world(WEIR_ON_FAILURE_LOCAL);
    struct told told = { .error = -1 };
    w->remote.down = true;
    w->limits[EXACT].share.burst = 5;
    assert_true(ask(w, WEIR_TRANSACTION_DECIDE, EXACT, 2).admitted);
    assert_true(ask(w, WEIR_TRANSACTION_DECIDE, SECOND_EXACT, 1).admitted);
    struct weir_transaction *transaction = begin(w, WEIR_TRANSACTION_DECIDE), *pending;
    add(w, transaction, EXACT, 0, 1);
    add(w, transaction, SECOND_EXACT, 0, 1);
    pending = run(w, transaction);
    if (pending) {
        weir_transaction_then(pending, on_done, &told);
        world_run(w, SECOND);
    } else {
        note(&told, transaction);
    }
    assert_true(!told.admitted && told.verdict.admitted && told.fell_back);
    assert_int_equal(told.verdict.remaining, 3);
    assert_int_equal(told.verdict.capacity, 5);
    assert_int_equal(told.verdict.retry_after_ns, 0);
    assert_int_equal(ask(w, WEIR_TRANSACTION_DECIDE, EXACT, 1).verdict.remaining, 2);
    world_deinit(w);
}

/* What was gossiped has been spent, and comes back with time: nothing of it is set aside any more. */
static void test_what_is_gossiped_comes_back_with_time(void **state)
{
    (void)state;
    struct world *w = world(WEIR_ON_FAILURE_CLOSED);
    assert_true(ask(w, WEIR_TRANSACTION_DECIDE, GOSSIPED, 3).admitted);
    assert_int_equal(world_used(w, GOSSIPED, 0), 3);
    assert_int_equal(weir_gossip_host_find(w->of.gossip, world_key(GOSSIPED, 0).id)->key.reserved, 0);
    w->remote.now_ns += YEAR;
    assert_int_equal(world_used(w, GOSSIPED, 0), 0);
    assert_true(ask(w, WEIR_TRANSACTION_DECIDE, GOSSIPED, 10).admitted);
    world_deinit(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_who_cannot_wait_is_answered_at_once),
        cmocka_unit_test(test_a_permit_of_a_request_that_another_limit_refuses_is_given_back),
        cmocka_unit_test(test_a_share_that_cannot_be_refuses),
        cmocka_unit_test(test_an_error_of_this_processs_limiter_is_told),
        cmocka_unit_test(test_without_a_host_on_failure_answers),
        cmocka_unit_test(test_a_share_is_charged_by_who_is_let_through),
        cmocka_unit_test(test_round_trips_are_counted),
        cmocka_unit_test(test_what_was_committed_before_a_commit_that_came_too_late_is_told_as_gone),
        cmocka_unit_test(test_a_refusal_gives_back_at_once_what_was_set_aside),
        cmocka_unit_test(test_a_refund_that_the_engine_did_not_hear_ends),
        cmocka_unit_test(test_those_under_way_are_counted_by_their_reload),
        cmocka_unit_test(test_a_gossiped_limit_has_no_deadline),
        cmocka_unit_test(test_what_a_host_takes_back_is_no_shares),
        cmocka_unit_test(test_what_was_refunded_is_told),
        cmocka_unit_test(test_a_share_that_another_refuses_is_given_back),
        cmocka_unit_test(test_what_is_gossiped_comes_back_with_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
