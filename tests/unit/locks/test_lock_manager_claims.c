/* SPDX-License-Identifier: Apache-2.0
 *
 * What a client that left was granted: one rule, for both ways in which a client leaves: before it was answered
 * (weir_lock_manager_client_gone), and after that, before it was told (weir_lock_manager_take_back). */
#include "lock_manager_world.h"

static const struct weir_lock_manager_options usual = { .timeout_ns = 10 * SECOND };

enum way { LEFT, UNTOLD, WAYS };

/* H holds it, and A waits for it. */
static void begin_waiting(struct sent *gone)
{
    struct sent holder;
    begin(&usual, 0);
    acquire(&holder, "a", "H");
    assert_granted(&holder);
    is_untold = true;
    queue_up(gone, "a", "A");
    is_untold = false;
    await_waiting(1);
}

/* H releases it. A is granted it, and goes, as `again` may have been sent by the same owner meanwhile. */
static void grant_and_go(enum way way, struct sent *gone, struct sent *again, enum weir_lock_verb verb)
{
    struct sent freeing;
    if (way == UNTOLD) {
        release("a", "H");
        assert_granted(gone);
        if (again)
            send(again, verb, "a", "A", 0);
        bool back = weir_lock_manager_take_back(manager, &gone->request);
        assert_int_equal(back, !again);
        while (back && __atomic_load_n(&gone->done, __ATOMIC_ACQUIRE) < 2)
            nap(50000);
        return;
    }
    gate(true);
    send(&freeing, WEIR_LOCK_RELEASE, "a", "H", 0);
    await_at_gate();
    pass_one(); /* the release; now the question for A stands there */
    if (again)
        send(again, verb, "a", "A", 0);
    weir_lock_manager_client_gone(manager, &gone->request);
    gate(false);
    (void)hear(gone);
    assert_false(weir_lock_manager_take_back(manager, &gone->request));
}

static void claims__what_nobody_hears_of_is_given_back(void **state)
{
    (void)state;
    for (enum way way = 0; way < WAYS; way++) {
        struct sent gone, next;
        begin_waiting(&gone);
        queue_up(&next, "a", "B");
        await_waiting(2);
        grant_and_go(way, &gone, NULL, WEIR_LOCK_SHOW);
        assert_granted(&next);
        assert_true(next.request.waited);
        struct weir_lock_manager_state state_now = shown();
        assert_int_equal(state_now.forgone, 1);
        assert_int_equal(state_now.granted, way == LEFT ? 2 : 3); /* H, B, and A, who was not yet known to be gone */
        assert_int_equal(state_now.released, 1);
        end();
    }
}

static void claims__what_its_owner_asks_for_again_is_kept(void **state)
{
    static const enum weir_lock_verb verbs[] = { WEIR_LOCK_ACQUIRE, WEIR_LOCK_RENEW };
    (void)state;
    for (size_t i = 0; i < WAYS * 2; i++) {
        struct sent gone, again;
        begin_waiting(&gone);
        grant_and_go(i % WAYS, &gone, &again, verbs[i / WAYS]);
        assert_granted(&again);
        assert_int_equal(shown().forgone, 0);
        assert_int_equal(elsewhere(WEIR_LOCK_RENEW, "a", "A", SECOND).said, WEIR_LOCK_GRANTED);
        end();
    }
}

/* Who only looks at it, or releases it, does not ask for it again. */
static void claims__who_looks_or_releases_counts_on_nothing(void **state)
{
    static const enum weir_lock_verb verbs[] = { WEIR_LOCK_SHOW, WEIR_LOCK_RELEASE };
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        struct sent gone, again;
        begin_waiting(&gone);
        grant_and_go(LEFT, &gone, &again, verbs[i]);
        (void)hear(&again);
        assert_int_equal(shown().forgone, 1);
        assert_int_equal(elsewhere(WEIR_LOCK_SHOW, "a", "", 0).said, WEIR_LOCK_FREE);
        end();
    }
}

/* Of two owners' other locks, and of what was refused, nothing follows. */
static void claims__who_was_refused_counts_on_nothing(void **state)
{
    (void)state;
    for (enum way way = 0; way < WAYS; way++) {
        struct sent gone, refused, elsewhere_same, other;
        begin_waiting(&gone);
        acquire(&refused, "a", "A");
        assert_held(&refused, "H");
        acquire(&elsewhere_same, "b", "A");
        assert_granted(&elsewhere_same);
        acquire(&other, "a", "B");
        assert_held(&other, "H");
        grant_and_go(way, &gone, NULL, WEIR_LOCK_SHOW);
        assert_int_equal(shown().forgone, 1);
        assert_int_equal(elsewhere(WEIR_LOCK_SHOW, "a", "", 0).said, WEIR_LOCK_FREE);
        assert_int_equal(elsewhere(WEIR_LOCK_SHOW, "b", "", 0).said, WEIR_LOCK_GRANTED);
        end();
    }
}

/* Both connections of one owner go: what one of them was granted is given back by the one that is the last to go. */
static void claims__of_two_who_go_the_first_does_not_count_on_it(void **state)
{
    (void)state;
    struct sent gone, again;
    begin_waiting(&gone);
    release("a", "H");
    assert_granted(&gone);
    is_untold = true;
    acquire(&again, "a", "A");
    is_untold = false;
    assert_granted(&again);
    assert_false(weir_lock_manager_take_back(manager, &again.request)); /* it did not wait */
    assert_true(weir_lock_manager_take_back(manager, &gone.request));
    while (__atomic_load_n(&gone.done, __ATOMIC_ACQUIRE) < 2)
        nap(50000);
    assert_int_equal(elsewhere(WEIR_LOCK_SHOW, "a", "", 0).said, WEIR_LOCK_FREE);
    end();
}

static void claims__what_was_told_is_the_clients(void **state)
{
    (void)state;
    struct sent gone;
    begin_waiting(&gone);
    release("a", "H");
    assert_granted(&gone);
    weir_lock_manager_told(manager, &gone.request);
    assert_false(weir_lock_manager_take_back(manager, &gone.request));
    struct sent before; /* a lease from before */
    is_untold = true;
    acquire(&before, "a", "A");
    is_untold = false;
    assert_granted(&before);
    assert_false(weir_lock_manager_take_back(manager, &before.request));
    assert_int_equal(elsewhere(WEIR_LOCK_RENEW, "a", "A", SECOND).said, WEIR_LOCK_GRANTED);
    end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(claims__what_nobody_hears_of_is_given_back),
        cmocka_unit_test(claims__what_its_owner_asks_for_again_is_kept),
        cmocka_unit_test(claims__who_looks_or_releases_counts_on_nothing),
        cmocka_unit_test(claims__who_was_refused_counts_on_nothing),
        cmocka_unit_test(claims__of_two_who_go_the_first_does_not_count_on_it),
        cmocka_unit_test(claims__what_was_told_is_the_clients),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
