/* SPDX-License-Identifier: Apache-2.0 */
#include "lock_manager_world.h"

static const struct weir_lock_manager_options usual = { 0 };

/* ---- batches ---- */

static void manager__batches_are_bounded_and_gather_while_one_is_decided(void **state)
{
    (void)state;
    begin(&usual, 0);
    gate(true);
    static struct sent first, sent[3 * WEIR_LOCK_BATCH_MAX];
    send(&first, WEIR_LOCK_SHOW, "a", "A", 0);
    await_at_gate();
    for (size_t i = 0; i < 3 * WEIR_LOCK_BATCH_MAX; i++)
        send(&sent[i], WEIR_LOCK_SHOW, "a", "A", 0);
    gate(false);
    for (size_t i = 0; i < 3 * WEIR_LOCK_BATCH_MAX; i++)
        hear(&sent[i]);
    assert_int_equal(fake.asked_most, WEIR_LOCK_BATCH_MAX);
    assert_int_equal(fake.asked, 3 * WEIR_LOCK_BATCH_MAX + 1);
    end();
}

static void manager__requests_of_one_name_are_decided_in_order(void **state)
{
    (void)state;
    begin(&usual, 0);
    gate(true);
    struct sent first, sent[8];
    send(&first, WEIR_LOCK_SHOW, "a", "A", 0);
    await_at_gate();
    acquire(&sent[0], "a", "A");
    acquire(&sent[1], "a", "A");
    send(&sent[2], WEIR_LOCK_RENEW, "a", "A", 0);
    send(&sent[3], WEIR_LOCK_RELEASE, "a", "A", 0);
    send(&sent[4], WEIR_LOCK_SHOW, "a", "A", 0);
    acquire(&sent[5], "a", "B");
    gate(false);
    struct weir_token token = assert_granted(&sent[0]);
    assert_int_equal(assert_granted(&sent[1]).number, token.number);
    assert_int_equal(assert_granted(&sent[2]).number, token.number);
    assert_granted(&sent[3]);
    assert_int_equal(hear(&sent[4])->said, WEIR_LOCK_FREE);
    assert_int_equal(assert_granted(&sent[5]).number, token.number + 1);
    end();
}

static void manager__bounds_are_kept(void **state)
{
    (void)state;
    begin(&(struct weir_lock_manager_options){ .waiters_max = 2, .pending_max = 4 }, 0);
    struct sent holder, waiters[2], third, tries[5];
    acquire(&holder, "a", "A");
    assert_granted(&holder);
    queue_up(&waiters[0], "a", "B");
    queue_up(&waiters[1], "a", "C");
    await_waiting(2);
    queue_up(&third, "a", "D");
    assert_status(&third, WEIR_ELIMIT);
    queue_up(&third, "a", "A"); /* who holds it does not wait */
    assert_granted(&third);
    gate(true);
    for (int i = 0; i < 4; i++)
        send(&tries[i], WEIR_LOCK_SHOW, "b", "E", 0);
    assert_int_equal(try_send(&tries[4], WEIR_LOCK_SHOW, "b", "E", 0), WEIR_ELIMIT);
    gate(false);
    for (int i = 0; i < 4; i++)
        hear(&tries[i]);
    send(&tries[4], WEIR_LOCK_SHOW, "a", "E", 0);
    hear(&tries[4]);
    assert_int_equal(tries[4].request.waiters, 2);
    end();
    assert_held(&waiters[0], "A");
    assert_held(&waiters[1], "A");
}

/* ---- order ---- */

static void manager__ten_thousand_wait_in_order_and_are_asked_for_once_each(void **state)
{
    (void)state;
    enum { COUNT = 10000 };
    begin(&usual, 0);
    struct sent *sent = test_calloc(COUNT, sizeof *sent), holder;
    acquire(&holder, "a", "H");
    assert_granted(&holder);
    char owner[32];
    for (int i = 0; i < COUNT; i++) {
        snprintf(owner, sizeof owner, "w%d", i);
        queue_up(&sent[i], "a", owner);
        if (i % 5000 == 4999)
            await_waiting((size_t)i + 1);
    }
    size_t asked = fake.asked;
    assert_true(asked < 10);
    for (int i = 1; i < COUNT; i += 2) { /* half of them leave */
        weir_lock_manager_client_gone(manager, &sent[i].request);
        assert_held(&sent[i], NULL);
    }
    release("a", "H");
    for (int i = 0; i < COUNT; i += 2) {
        assert_granted(&sent[i]);
        assert_true(sent[i].request.waited);
        assert_true(i == 0 || sent[i].order > sent[i - 2].order);
        release("a", sent[i].owner);
    }
    assert_true(fake.asked - asked < 3 * COUNT);
    test_free(sent);
    end();
}

static void manager__nobody_passes_those_who_wait(void **state)
{
    (void)state;
    begin(&usual, 0);
    struct sent holder, waiter, passer, again, shower;
    acquire(&holder, "a", "A");
    assert_granted(&holder);
    queue_up(&waiter, "a", "B");
    await_waiting(1);
    gate(true);
    send(&shower, WEIR_LOCK_SHOW, "a", "A", 0);
    await_at_gate();
    struct sent freeing;
    send(&freeing, WEIR_LOCK_RELEASE, "a", "A", 0);
    acquire(&passer, "a", "C"); /* comes after the release, and sees a free lock */
    acquire(&again, "a", "A");
    gate(false);
    assert_granted(&freeing);
    assert_granted(&waiter);
    assert_held(&passer, NULL);
    assert_held(&again, NULL);
    end();
}

static void manager__a_wait_ends_when_it_should_and_not_before(void **state)
{
    (void)state;
    begin(&usual, 0);
    struct sent holder, waits[5];
    acquire(&holder, "a", "A");
    assert_granted(&holder);
    uint64_t start_ns = now_ns();
    static const uint64_t MS[] = { 120, 40, 80, 20, 100 };
    char owner[8];
    for (int i = 0; i < 5; i++) {
        snprintf(owner, sizeof owner, "w%d", i);
        send(&waits[i], WEIR_LOCK_ACQUIRE, "a", owner, MS[i] * SECOND / 1000);
    }
    static const int ORDER[] = { 3, 1, 2, 4, 0 };
    for (int i = 0; i < 5; i++) {
        assert_held(&waits[ORDER[i]], "A");
        assert_true(now_ns() - start_ns >= MS[ORDER[i]] * SECOND / 1000);
        assert_true(i == 0 || waits[ORDER[i]].order > waits[ORDER[i - 1]].order);
    }
    assert_int_equal(shown().waiting, 0);
    end();
}

static void manager__the_first_is_asked_for_when_the_lease_ends(void **state)
{
    (void)state;
    begin(&usual, 0);
    elsewhere(WEIR_LOCK_ACQUIRE, "a", "dead", SECOND / 5);
    struct sent heir, second;
    queue_up(&heir, "a", "B");
    queue_up(&second, "a", "C");
    assert_granted(&heir);
    assert_false(is_done(&second));
    assert_true(fake.asked < 10);
    end();
    assert_held(&second, "B");
}

/* ---- owners that come again ---- */

static void manager__who_holds_it_does_not_wait_for_it(void **state)
{
    (void)state;
    begin(&usual, 0);
    struct sent holder, waiter, again;
    acquire(&holder, "a", "A");
    uint64_t number = assert_granted(&holder).number;
    queue_up(&waiter, "a", "B");
    await_waiting(1);
    queue_up(&again, "a", "A");
    assert_int_equal(assert_granted(&again).number, number);
    assert_false(again.request.waited);
    assert_false(is_done(&waiter));
    end();
}

static void manager__who_holds_it_is_not_refused_behind_one_who_is(void **state)
{
    (void)state;
    begin(&usual, 0);
    struct sent holder, shower, other, again[3];
    acquire(&holder, "a", "A");
    struct weir_token token = assert_granted(&holder);
    gate(true);
    send(&shower, WEIR_LOCK_SHOW, "b", "A", 0);
    await_at_gate();
    acquire(&other, "a", "B"); /* asked first; those behind it know nothing of the holder yet */
    for (size_t i = 0; i < 3; i++)
        acquire(&again[i], "a", "A");
    gate(false);
    assert_held(&other, "A");
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(assert_granted(&again[i]).number, token.number);
    end();
}

static void manager__a_reconnected_owner_keeps_its_earlier_place(void **state)
{
    (void)state;
    begin(&usual, 0);
    struct sent holder, old, other, fresh;
    acquire(&holder, "a", "H");
    assert_granted(&holder);
    queue_up(&old, "a", "A");
    queue_up(&other, "a", "B");
    await_waiting(2);
    queue_up(&fresh, "a", "A");
    await_waiting(3);
    weir_lock_manager_client_gone(manager, &old.request);
    assert_held(&old, NULL);
    release("a", "H");
    assert_granted(&fresh);
    assert_false(is_done(&other));
    queue_up(&old, "a", "A"); /* and a third time, while it holds it */
    assert_int_equal(assert_granted(&old).number, fresh.request.op.token.number);
    release("a", "A");
    assert_granted(&other);
    end();
}

static void manager__two_requests_of_one_owner_get_one_grant(void **state)
{
    (void)state;
    begin(&usual, 0);
    struct sent holder, one, other, two;
    acquire(&holder, "a", "H");
    assert_granted(&holder);
    queue_up(&one, "a", "A");
    queue_up(&other, "a", "B");
    queue_up(&two, "a", "A");
    await_waiting(3);
    release("a", "H");
    assert_int_equal(assert_granted(&one).number, assert_granted(&two).number);
    assert_false(is_done(&other));
    end();
}

static void manager__a_waiter_found_to_hold_it_is_told(void **state)
{
    (void)state;
    begin(&usual, 0);
    struct sent other, self, freeing;
    elsewhere(WEIR_LOCK_ACQUIRE, "a", "H", 60 * SECOND);
    queue_up(&other, "a", "B");
    queue_up(&self, "a", "A");
    await_waiting(2);
    gate(true);
    send(&freeing, WEIR_LOCK_RELEASE, "a", "H", 0);
    await_at_gate();
    pass_one();
    elsewhere(WEIR_LOCK_ACQUIRE, "a", "A", 60 * SECOND);
    gate(false);
    assert_int_equal(assert_granted(&self).number, fake.number);
    assert_true(fake.asked == 4 && !is_done(&other)); /* B was asked for before the release, and now; no third time */
    end();
}

/* ---- clients that leave ---- */

static void manager__a_grant_to_one_who_left_is_given_back(void **state)
{
    (void)state;
    begin(&usual, 0);
    struct sent holder, gone, next, freeing;
    acquire(&holder, "a", "H");
    assert_granted(&holder);
    queue_up(&gone, "a", "A");
    queue_up(&next, "a", "B");
    await_waiting(2);
    gate(true);
    send(&freeing, WEIR_LOCK_RELEASE, "a", "H", 0);
    await_at_gate();
    pass_one(); /* the release; now the question for the first who waits stands there */
    weir_lock_manager_client_gone(manager, &gone.request);
    weir_lock_manager_client_gone(manager, &gone.request); /* twice is once */
    gate(false);
    assert_held(&gone, NULL);
    assert_granted(&next);
    assert_int_equal(shown().forgone, 1);
    weir_lock_manager_client_gone(manager, &gone.request); /* too late: nothing */
    end();
}

static void manager__a_grant_is_not_taken_from_the_same_owner_elsewhere(void **state)
{
    (void)state;
    begin(&usual, 0);
    struct sent gone, back, other, freeing;
    elsewhere(WEIR_LOCK_ACQUIRE, "a", "H", 60 * SECOND);
    queue_up(&gone, "a", "A");
    queue_up(&other, "a", "B");
    queue_up(&back, "a", "A");
    await_waiting(3);
    gate(true);
    send(&freeing, WEIR_LOCK_RELEASE, "a", "H", 0);
    await_at_gate();
    pass_one();
    weir_lock_manager_client_gone(manager, &gone.request);
    gate(false);
    assert_granted(&back);
    hear(&gone);
    assert_false(gone.request.waited); /* its caller must not give it back either */
    assert_false(is_done(&other));
    assert_int_equal(shown().forgone, 0);
    assert_int_equal(elsewhere(WEIR_LOCK_RENEW, "a", "A", SECOND).said, WEIR_LOCK_GRANTED);
    end();
}

/* ---- an engine that fails ---- */

static void manager__newcomers_are_told_at_once_and_waiters_go_on(void **state)
{
    (void)state;
    begin(&usual, SECOND / 50);
    struct sent holder, waiter, brief, newcomer;
    acquire(&holder, "a", "A");
    assert_granted(&holder);
    queue_up(&waiter, "a", "B");
    send(&brief, WEIR_LOCK_ACQUIRE, "a", "C", SECOND / 4);
    await_waiting(2);
    set_fault(WEIR_EUNKNOWN);
    queue_up(&newcomer, "b", "D");
    assert_status(&newcomer, WEIR_EUNKNOWN);
    assert_status(&brief, WEIR_EDOWN); /* it was never asked for */
    weir_lock_manager_client_gone(manager, &waiter.request);
    assert_status(&waiter, WEIR_EUNKNOWN); /* it was: who knows */
    queue_up(&waiter, "a", "B");
    assert_status(&waiter, WEIR_EUNKNOWN);
    set_fault(0);
    send(&brief, WEIR_LOCK_ACQUIRE, "a", "C", SECOND / 2);
    await_waiting(1);
    set_fault(WEIR_EUNKNOWN);
    nap(SECOND / 5);
    set_fault(WEIR_EDOWN);
    assert_status(&brief, WEIR_EUNKNOWN); /* once unknown, not denied later: that attempt may still be on its way */
    set_fault(0);
    queue_up(&waiter, "a", "B");
    await_waiting(1);
    set_fault(WEIR_EDOWN);
    nap(SECOND / 20);
    assert_false(is_done(&waiter));
    set_fault(0);
    release("a", "A");
    assert_granted(&waiter);
    assert_true(shown().unknown >= 3);
    end();
}

static void manager__looks_again_where_others_change_the_store(void **state)
{
    (void)state;
    begin(&usual, SECOND / 100);
    elsewhere(WEIR_LOCK_ACQUIRE, "a", "far", 60 * SECOND);
    struct sent waiter;
    queue_up(&waiter, "a", "B");
    await_waiting(1);
    elsewhere(WEIR_LOCK_RELEASE, "a", "far", 0);
    assert_granted(&waiter);
    end();
}

/* ---- ends ---- */

static void manager__destroy_answers_everybody_first(void **state)
{
    (void)state;
    begin(&usual, 0);
    static struct sent holder, shower, waits[100], plain[100];
    acquire(&holder, "a", "H");
    assert_granted(&holder);
    for (int i = 0; i < 50; i++)
        queue_up(&waits[i], "a", i % 2 ? "A" : "B");
    await_waiting(50);
    gate(true);
    send(&shower, WEIR_LOCK_SHOW, "a", "A", 0);
    await_at_gate();
    for (int i = 50; i < 100; i++)
        queue_up(&waits[i], i % 2 ? "a" : "b", "C");
    for (int i = 0; i < 100; i++)
        send(&plain[i], WEIR_LOCK_RENEW, "a", "H", 0);
    gate(false);
    end();
    for (int i = 0; i < 50; i++)
        assert_held(&waits[i], "H");
    for (int i = 50; i < 100; i++)
        hear(&waits[i]);
    for (int i = 0; i < 100; i++)
        assert_granted(&plain[i]);
}

/* ---- all at once ---- */

enum { STORM = 400, THREADS = 3 };

static void *storm(void *context)
{
    struct test_random random = { *(uint64_t *)context };
    struct sent *sent = test_calloc(STORM, sizeof *sent);
    static const char *const NAMES[] = { "a", "b", "c" }, *const OWNERS[] = { "A", "B", "C", "D" };
    static const enum weir_lock_verb VERBS[] = { WEIR_LOCK_ACQUIRE, WEIR_LOCK_ACQUIRE, WEIR_LOCK_ACQUIRE,
                                                 WEIR_LOCK_RENEW,   WEIR_LOCK_RELEASE, WEIR_LOCK_RELEASE,
                                                 WEIR_LOCK_SHOW };
    for (int i = 0; i < STORM; i++) {
        send(&sent[i], VERBS[test_random_below(&random, 7)], NAMES[test_random_below(&random, 3)],
             OWNERS[test_random_below(&random, 4)], test_random_below(&random, 20) * SECOND / 1000);
        if (test_random_below(&random, 4) == 0)
            weir_lock_manager_client_gone(manager, &sent[test_random_below(&random, (uint64_t)i + 1)].request);
        if (test_random_below(&random, 50) == 0)
            set_fault(test_random_below(&random, 2) ? WEIR_EUNKNOWN : WEIR_EDOWN);
        else if (test_random_below(&random, 10) == 0)
            set_fault(0);
        if (test_random_below(&random, 8) == 0)
            nap(test_random_below(&random, SECOND / 1000));
    }
    for (int i = 0; i < STORM; i++)
        hear(&sent[i]);
    test_free(sent);
    return NULL;
}

static void manager__every_request_is_answered_once_whatever_happens(void **state)
{
    (void)state;
    uint64_t seed = test_random_seed();
    for (uint64_t poll_ns = 0; poll_ns <= SECOND / 500; poll_ns += SECOND / 500) {
        begin(&(struct weir_lock_manager_options){ .waiters_max = 100 }, poll_ns);
        pthread_t threads[THREADS];
        uint64_t seeds[THREADS];
        for (int i = 0; i < THREADS; i++) {
            seeds[i] = seed + (uint64_t)i + poll_ns;
            assert_int_equal(pthread_create(&threads[i], NULL, storm, &seeds[i]), 0);
        }
        for (int i = 0; i < THREADS; i++)
            pthread_join(threads[i], NULL);
        assert_int_equal(shown().waiting, 0);
        end();
    }
}

static void manager__the_engine_has_until_the_timeout(void **state)
{
    (void)state;
    begin(&(struct weir_lock_manager_options){ .timeout_ns = 600 * SECOND }, 0);
    struct sent sent;
    acquire(&sent, "a", "A");
    assert_granted(&sent);
    assert_in_range(fake.left_ns, 1, 600 * SECOND);
    end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(manager__batches_are_bounded_and_gather_while_one_is_decided),
        cmocka_unit_test(manager__requests_of_one_name_are_decided_in_order),
        cmocka_unit_test(manager__bounds_are_kept),
        cmocka_unit_test(manager__ten_thousand_wait_in_order_and_are_asked_for_once_each),
        cmocka_unit_test(manager__nobody_passes_those_who_wait),
        cmocka_unit_test(manager__a_wait_ends_when_it_should_and_not_before),
        cmocka_unit_test(manager__the_first_is_asked_for_when_the_lease_ends),
        cmocka_unit_test(manager__who_holds_it_does_not_wait_for_it),
        cmocka_unit_test(manager__who_holds_it_is_not_refused_behind_one_who_is),
        cmocka_unit_test(manager__a_reconnected_owner_keeps_its_earlier_place),
        cmocka_unit_test(manager__two_requests_of_one_owner_get_one_grant),
        cmocka_unit_test(manager__a_waiter_found_to_hold_it_is_told),
        cmocka_unit_test(manager__a_grant_to_one_who_left_is_given_back),
        cmocka_unit_test(manager__a_grant_is_not_taken_from_the_same_owner_elsewhere),
        cmocka_unit_test(manager__newcomers_are_told_at_once_and_waiters_go_on),
        cmocka_unit_test(manager__looks_again_where_others_change_the_store),
        cmocka_unit_test(manager__destroy_answers_everybody_first),
        cmocka_unit_test(manager__every_request_is_answered_once_whatever_happens),
        cmocka_unit_test(manager__the_engine_has_until_the_timeout),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
