/* SPDX-License-Identifier: Apache-2.0
 *
 * The manager, turn by turn: how it begins and ends, what is answered beside a turn, and what is given back. */
#include <sys/random.h>

#include "lock_manager_turns.h"

static const struct weir_lock_manager_options usual = { 0 };

static unsigned signals;
static size_t random_missing; /* of the bytes that are asked for */

/* In place of the C library's: the same each time, and no thread sleeps here. */
ssize_t getrandom(void *buffer, size_t length, unsigned flags)
{
    (void)flags;
    memset(buffer, 7, length - random_missing);
    return (ssize_t)(length - random_missing);
}

int pthread_cond_signal(pthread_cond_t *cond)
{
    (void)cond;
    signals++;
    return 0;
}

/* A turn in which nothing is asked. */
static void rest(void)
{
    begin_turn(0);
    weir_lock_manager_end(manager, now_ns);
}

static void ends__what_is_usual_at_the_beginning(void **state)
{
    struct weir_lock_manager_state shown;
    (void)state;
    begin(&usual);
    assert_int_equal(manager->waiters_max, 65536);
    assert_int_equal(manager->pending_max, 65536);
    assert_int_equal(manager->timeout_ns, 2 * SECOND);
    assert_int_equal(manager->waits_due.max, 131072);
    weir_lock_manager_state(manager, &shown);
    assert_true(shown.engine.up);
    assert_int_equal(weir_lock_manager_due_ns(manager, now_ns), UINT64_MAX);
    weir_lock_manager_destroy_threadless(manager);
    begin(&(struct weir_lock_manager_options){ .waiters_max = 3, .pending_max = 4, .timeout_ns = 5 });
    assert_int_equal(manager->waiters_max, 3);
    assert_int_equal(manager->pending_max, 4);
    assert_int_equal(manager->timeout_ns, 5);
    weir_lock_manager_destroy_threadless(manager);
    weir_lock_manager_destroy(NULL);
}

/* Names whose hashes somebody could foretell would be put into one chain. */
static void ends__it_does_not_begin_without_a_secret(void **state)
{
    (void)state;
    random_missing = 1;
    assert_int_equal(try_begin(&usual), WEIR_EIO);
    assert_int_equal(destroyed, 1);
    random_missing = 0;
    begin(&usual);
    weir_lock_manager_destroy_threadless(manager);
    assert_int_equal(destroyed, 1);
}

/* Its caller may have had another answer in it before. */
static void ends__a_request_begins_empty(void **state)
{
    (void)state;
    for (int quick = 0; quick < 2; quick++) {
        struct weir_lock_manager_request *request = &requests[0];
        has_quick = quick;
        begin(&usual);
        is_quick = false;
        memset(request, 0x55, sizeof *request);
        request->op.verb = WEIR_LOCK_RENEW;
        request->op.name = request->op.owner = (struct weir_slice){ "a", 1 };
        request->op.seen = 7;
        if (quick)
            assert_false(weir_lock_manager_quick(manager, request));
        else
            assert_int_equal(weir_lock_manager_submit(manager, request), 0);
        assert_int_equal(quick_calls, quick);
        assert_false(request->waited || request->own.left || request->own.finished || request->own.decided);
        assert_int_equal(request->waiters, 0);
        assert_int_equal(request->op.status, 0);
        assert_int_equal(request->op.holder_size, 0);
        assert_int_equal(request->op.token.incarnation + request->op.token.number, 0);
        assert_int_equal(request->op.lease_ns, 0);
        assert_int_equal(request->own.waiter.seen, 7);
        weir_lock_manager_destroy_threadless(manager);
    }
}

/* ---- what is answered at once ---- */

static bool ask_quickly(enum weir_lock_verb verb, uint64_t wait_ns)
{
    requests[9] = (struct weir_lock_manager_request){
        .op = { .verb = verb, .name = { name, strlen(name) }, .owner = { "A", 1 }, .ttl_ns = SECOND },
        .wait_ns = wait_ns,
    };
    bool done = weir_lock_manager_quick(manager, &requests[9]);
    assert_int_equal(requests[9].own.finished, done);
    return done;
}

/* Only where nothing asked of its name before is open, and while the engine's idle is not about to be called. */
static void ends__when_a_quick_answer_may_be_given(void **state)
{
    struct weir_lock_manager_state shown;
    (void)state;
    has_quick = true;
    begin(&usual);
    assert_true(ask_quickly(WEIR_LOCK_ACQUIRE, 0));
    assert_int_equal(manager->counts.granted, 1);
    assert_false(ask_quickly(WEIR_LOCK_ACQUIRE, 1)); /* would wait */
    assert_true(ask_quickly(WEIR_LOCK_RELEASE, 1));
    weir_lock_manager_state(manager, &shown);
    assert_int_equal(shown.granted + shown.released, 2);
    assert_int_equal(quick_calls, 2);
    is_quick = false; /* it needs the store */
    assert_false(ask_quickly(WEIR_LOCK_RELEASE, 0));
    assert_int_equal(manager->counts.released, 1);
    is_quick = true;

    assert_int_equal(weir_lock_manager_due_ns(manager, now_ns), now_ns + SECOND); /* what it may have left to do */
    assert_true(ask_quickly(WEIR_LOCK_SHOW, 0));
    assert_int_equal(weir_lock_manager_due_ns(manager, now_ns + 1), now_ns + SECOND);
    now_ns += SECOND;
    rest();
    assert_int_equal(idles, 1);
    assert_true(manager->resting);
    assert_false(ask_quickly(WEIR_LOCK_SHOW, 0)); /* its idle would not be called again */

    submit(0, WEIR_LOCK_SHOW, "A", 0, 0);
    turn(WEIR_LOCK_SHOW, WEIR_LOCK_FREE, "", 0);
    assert_true(ask_quickly(WEIR_LOCK_SHOW, 0));
    submit(0, WEIR_LOCK_SHOW, "A", 0, 0);
    assert_false(ask_quickly(WEIR_LOCK_SHOW, 0));
    turn(WEIR_LOCK_SHOW, WEIR_LOCK_FREE, "", 0);
    assert_true(ask_quickly(WEIR_LOCK_SHOW, 0));
    manager->stopping = true;
    assert_false(ask_quickly(WEIR_LOCK_SHOW, 0));
    assert_int_equal(try_submit(0, WEIR_LOCK_SHOW, "A", 0, 0), WEIR_ELIMIT);
    weir_lock_manager_destroy_threadless(manager);
}

/* ---- what is given back ---- */

/* A (1) is granted it after H. */
static void grant_after_wait(void)
{
    begin_waiting(&usual);
    submit(2, WEIR_LOCK_RELEASE, "H", 0, 0);
    turn(WEIR_LOCK_RELEASE, WEIR_LOCK_GRANTED, "", 0);
    turn(WEIR_LOCK_ACQUIRE, WEIR_LOCK_GRANTED, "A", 60 * SECOND);
    assert_int_equal(answers[1], 1);
}

/* Whoever waits by then may have it at once. If the store cannot say, nobody knows. */
static void ends__what_is_given_back(void **state)
{
    (void)state;
    for (int status = 0; status <= 1; status++) {
        grant_after_wait();
        submit(3, WEIR_LOCK_ACQUIRE, "B", 60 * SECOND, 600 * SECOND);
        turn(WEIR_LOCK_ACQUIRE, WEIR_LOCK_HELD, "A", 60 * SECOND);
        assert_true(weir_lock_manager_take_back(manager, &requests[1]));
        begin_turn(1);
        assert_int_equal(weir_lock_manager_take_back(manager, &requests[1]), false);
        say(0, WEIR_LOCK_RELEASE, WEIR_LOCK_GRANTED, "", 0);
        manager->ops[0].status = status ? WEIR_EDOWN : 0;
        weir_lock_manager_end(manager, now_ns);
        assert_int_equal(answers[1], 2);
        assert_int_equal(requests[1].op.status, status ? WEIR_EUNKNOWN : 0);
        assert_int_equal(requests[1].op.said, WEIR_LOCK_HELD);
        assert_int_equal(manager->counts.forgone, !status);
        assert_int_equal(weir_lock_manager_due_ns(manager, now_ns) <= now_ns, !status);
        weir_lock_manager_destroy_threadless(manager);
    }
}

/* What its owner was given at once since then it counts on. */
static void ends__what_its_owner_has_renewed_at_once_is_kept(void **state)
{
    static const struct {
        enum weir_lock_verb verb;
        enum weir_lock_said said;
        bool kept;
    } cases[] = {
        { WEIR_LOCK_RENEW, WEIR_LOCK_GRANTED, true }, { WEIR_LOCK_ACQUIRE, WEIR_LOCK_GRANTED, true },
        { WEIR_LOCK_RENEW, WEIR_LOCK_FREE, false },   { WEIR_LOCK_ACQUIRE, WEIR_LOCK_HELD, false },
        { WEIR_LOCK_SHOW, WEIR_LOCK_GRANTED, false }, { WEIR_LOCK_RELEASE, WEIR_LOCK_GRANTED, false },
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        has_quick = true;
        grant_after_wait();
        quick_said = cases[i].said;
        assert_true(ask_quickly(cases[i].verb, 0));
        assert_int_equal(weir_lock_manager_take_back(manager, &requests[1]), !cases[i].kept);
        weir_lock_manager_destroy_threadless(manager);
    }
}

/* And what it asked the store for, as long as that did not refuse. */
static void ends__what_its_owner_has_asked_for_since_is_kept(void **state)
{
    static const struct {
        enum weir_lock_verb verb;
        enum weir_lock_said said;
        int status;
        bool kept;
    } cases[] = {
        { WEIR_LOCK_RENEW, WEIR_LOCK_GRANTED, 0, true },
        { WEIR_LOCK_ACQUIRE, WEIR_LOCK_GRANTED, 0, true },
        { WEIR_LOCK_RENEW, WEIR_LOCK_FREE, 0, false },
        { WEIR_LOCK_ACQUIRE, WEIR_LOCK_HELD, 0, false },
        { WEIR_LOCK_RENEW, WEIR_LOCK_FREE, WEIR_EDOWN, false },
        { WEIR_LOCK_RENEW, WEIR_LOCK_GRANTED, WEIR_EUNKNOWN, true }, /* it may have been */
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        grant_after_wait();
        submit(3, cases[i].verb, "A", 60 * SECOND, 0);
        begin_turn(1);
        say(0, cases[i].verb, cases[i].said, "A", 60 * SECOND);
        manager->ops[0].status = cases[i].status;
        weir_lock_manager_end(manager, now_ns);
        assert_int_equal(answers[3], 1);
        assert_int_equal(weir_lock_manager_take_back(manager, &requests[1]), !cases[i].kept);
        weir_lock_manager_destroy_threadless(manager);
    }
}

/* It is granted when its client has gone, and its owner has asked for the lock over another connection. */
static void ends__what_is_kept_is_nobodys_to_give_back(void **state)
{
    (void)state;
    begin_waiting(&usual);
    submit(2, WEIR_LOCK_RELEASE, "H", 0, 0);
    turn(WEIR_LOCK_RELEASE, WEIR_LOCK_GRANTED, "", 0);
    begin_turn(1);
    say(0, WEIR_LOCK_ACQUIRE, WEIR_LOCK_GRANTED, "A", 60 * SECOND);
    submit(3, WEIR_LOCK_RENEW, "A", 60 * SECOND, 0);
    weir_lock_manager_client_gone(manager, &requests[1]);
    weir_lock_manager_end(manager, now_ns);
    assert_int_equal(answers[1], 1);
    assert_false(requests[1].waited);
    assert_int_equal(manager->claims.count, 0);
    weir_lock_manager_destroy_threadless(manager);
}

/* More than a batch of each kind at once: of those who wait, and of what is given back. */
static void ends__no_batch_is_larger(void **state)
{
    static char names[WEIR_LOCK_BATCH_MAX + 1][2];
    enum { ALL = WEIR_LOCK_BATCH_MAX + 1 };
    static const enum weir_lock_verb verbs[] = { WEIR_LOCK_ACQUIRE, WEIR_LOCK_ACQUIRE, WEIR_LOCK_RELEASE };
    (void)state;
    begin(&usual);
    for (size_t i = 0; i < ALL; i++) {
        names[i][0] = (char)('A' + i % 32);
        names[i][1] = (char)('A' + i / 32);
        requests[i] = (struct weir_lock_manager_request){
            .op = { .verb = WEIR_LOCK_ACQUIRE, .name = { names[i], 2 }, .owner = { "A", 1 }, .ttl_ns = SECOND },
            .wait_ns = 600 * SECOND,
            .done = on_done,
        };
        assert_int_equal(weir_lock_manager_submit(manager, &requests[i]), 0);
    }
    for (size_t round = 0; round < 3; round++) {
        for (size_t left = ALL, count; left > 0; left -= count) {
            count = left < WEIR_LOCK_BATCH_MAX ? left : WEIR_LOCK_BATCH_MAX;
            begin_turn(count);
            for (size_t i = 0; i < count; i++)
                say(i, verbs[round], round ? WEIR_LOCK_GRANTED : WEIR_LOCK_HELD, round ? "A" : "H", 60 * SECOND);
            weir_lock_manager_end(manager, now_ns);
        }
        for (size_t i = 0; i < ALL; i++)
            assert_int_equal(answers[i], round);
        now_ns += WEIR_WAITING_AGAIN_MAX_NS;
        for (size_t i = 0; round == 1 && i < ALL; i++)
            assert_true(weir_lock_manager_take_back(manager, &requests[i]));
    }
    assert_int_equal(manager->counts.forgone, ALL);
    weir_lock_manager_destroy_threadless(manager);
}

/* ---- who wakes the thread ---- */

static void expect_signals(unsigned count)
{
    assert_int_equal(signals, count);
    signals = 0;
}

/* Only who finds nobody before him, for the others are taken with him; and who leaves, once. */
static void ends__the_first_to_come_wakes_the_thread(void **state)
{
    (void)state;
    grant_after_wait();
    manager->pending_max = 2;
    signals = 0;
    submit(3, WEIR_LOCK_SHOW, "", 0, 0);
    expect_signals(1);
    submit(4, WEIR_LOCK_SHOW, "", 0, 0);
    expect_signals(0);
    begin_turn(2);
    assert_int_equal(try_submit(5, WEIR_LOCK_SHOW, "", 0, 0), WEIR_ELIMIT);
    assert_false(weir_lock_manager_take_back(manager, &requests[1])); /* nor is there room for that: it is forgotten */
    expect_signals(0);
    for (int times = 0; times < 2; times++) {
        weir_lock_manager_client_gone(manager, &requests[3]);
        expect_signals(times == 0);
    }
    weir_lock_manager_destroy_threadless(manager);

    for (int first = 0; first < 2; first++) {
        grant_after_wait();
        if (!first)
            submit(3, WEIR_LOCK_SHOW, "", 0, 0);
        signals = 0;
        assert_true(weir_lock_manager_take_back(manager, &requests[1]));
        expect_signals(first ? 1 : 0);
        weir_lock_manager_told(manager, &requests[2]);
        expect_signals(0);
        weir_lock_manager_destroy_threadless(manager);
    }
}

/* ---- the end ---- */

/* All that came before is answered first, a wait with what is known; then nothing is left to do. */
static void ends__with_all_answered(void **state)
{
    enum { NOTHING, PLAIN, WAITS, WAITS_FOR_EVER, GIVES_BACK, PROBES, PUT_OFF, WAYS };
    (void)state;
    for (int way = 0; way < WAYS; way++) {
        if (way == GIVES_BACK)
            grant_after_wait();
        else if (way == WAITS || way == PROBES)
            begin_waiting(&usual);
        else
            begin(&usual);
        if (way == PLAIN || way == PUT_OFF)
            submit(1, way == PLAIN ? WEIR_LOCK_SHOW : WEIR_LOCK_RAISE, "", 0, 0);
        if (way == WAITS_FOR_EVER) {
            submit(1, WEIR_LOCK_ACQUIRE, "A", SECOND, UINT64_MAX);
            turn(WEIR_LOCK_ACQUIRE, WEIR_LOCK_HELD, "H", 60 * SECOND);
        }
        if (way == GIVES_BACK)
            assert_true(weir_lock_manager_take_back(manager, &requests[1]));
        if (way == PROBES) { /* A has got it by another weir, as B hears */
            weir_lock_manager_client_gone(manager, &requests[0]);
            submit(2, WEIR_LOCK_ACQUIRE, "H", 60 * SECOND, 0);
            turn(WEIR_LOCK_RENEW, WEIR_LOCK_FREE, "", 0);
            begin_turn(1);
            assert_ptr_equal(manager->asked[0], &requests[1]);
            say(0, WEIR_LOCK_ACQUIRE, WEIR_LOCK_HELD, "A", 60 * SECOND);
            weir_lock_manager_end(manager, now_ns);
            assert_non_null(manager->urgent.first);
        }
        if (way == PUT_OFF) {
            begin_turn(1);
            say_later(0, WEIR_LOCK_RAISE);
            weir_lock_manager_end(manager, now_ns);
        }
        const unsigned before = answers[1];
        manager->stopping = true;
        assert_true(weir_lock_manager_called(manager));
        for (int turns = 0; weir_lock_manager_begin(manager, now_ns); turns++) {
            assert_true(turns < 3);
            for (size_t i = 0; i < manager->count; i++)
                say(i, manager->ops[i].verb, WEIR_LOCK_GRANTED, "A", 60 * SECOND);
            weir_lock_manager_end(manager, now_ns);
        }
        assert_int_equal(answers[1], before + (way != NOTHING));
        assert_int_equal(manager->pending, 0);
        weir_lock_manager_destroy_threadless(manager);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ends__what_is_usual_at_the_beginning),
        cmocka_unit_test(ends__it_does_not_begin_without_a_secret),
        cmocka_unit_test(ends__a_request_begins_empty),
        cmocka_unit_test(ends__when_a_quick_answer_may_be_given),
        cmocka_unit_test(ends__what_is_given_back),
        cmocka_unit_test(ends__what_its_owner_has_renewed_at_once_is_kept),
        cmocka_unit_test(ends__what_its_owner_has_asked_for_since_is_kept),
        cmocka_unit_test(ends__what_is_kept_is_nobodys_to_give_back),
        cmocka_unit_test(ends__no_batch_is_larger),
        cmocka_unit_test(ends__the_first_to_come_wakes_the_thread),
        cmocka_unit_test(ends__with_all_answered),
    };
    return cmocka_run_group_tests_name("manager, ends", tests, NULL, NULL);
}
