/* SPDX-License-Identifier: Apache-2.0
 *
 * Requests whose raise of the incarnation waits for the clock: they wait alone, and are asked again when it is due. And
 * what an engine does when nobody asks. */
#include "lock_manager_world.h"

static void send_with(struct sent *sent, const struct weir_lock_op *op, const char *owner, uint64_t wait_ns)
{
    *sent = (struct sent){ 0 };
    snprintf(sent->owner, sizeof sent->owner, "%s", owner);
    sent->request.op = *op;
    sent->request.op.owner = (struct weir_slice){ sent->owner, strlen(sent->owner) };
    sent->request.wait_ns = wait_ns;
    sent->request.done = on_done;
    sent->request.context = sent;
    assert_int_equal(weir_lock_manager_submit(manager, &sent->request), 0);
}

static void wait_seen(struct sent *sent, enum weir_lock_verb verb, const char *name, const char *owner,
                      uint64_t wait_ns)
{
    struct weir_lock_op op = { .verb = verb, .name = { name, strlen(name) }, .ttl_ns = 60 * SECOND, .seen = FAKE_SEEN };
    send_with(sent, &op, owner, wait_ns);
}

static void send_seen(struct sent *sent, enum weir_lock_verb verb, const char *name, const char *owner)
{
    wait_seen(sent, verb, name, owner, 0);
}

/* Until an op that was put off was asked so often. */
static void await_asked_again(size_t count)
{
    for (size_t times = 0; times < count; nap(50000)) {
        pthread_mutex_lock(&fake.mutex);
        times = fake.put_off_times;
        pthread_mutex_unlock(&fake.mutex);
    }
}

static void manager__who_is_put_off_waits_alone(void **state)
{
    (void)state;
    begin(&(struct weir_lock_manager_options){ .timeout_ns = 600 * SECOND }, 0);
    struct sent held, seen, raise, other, after;
    acquire(&held, "a", "A");
    assert_granted(&held);
    set_raises_due(SECOND / 1000, false);
    send_seen(&seen, WEIR_LOCK_ACQUIRE, "b", "B");
    send_seen(&raise, WEIR_LOCK_RAISE, "c", "");
    await_asked_again(4);
    send(&held, WEIR_LOCK_RENEW, "a", "A", 0);
    assert_granted(&held);
    acquire(&other, "b", "C"); /* the same name: nobody waits behind it */
    assert_granted(&other);
    release("b", "C");
    queue_up(&after, "a", "D");
    await_waiting(1);
    assert_false(is_done(&seen) || is_done(&raise));
    release("a", "A");
    assert_granted(&after);
    set_raises_due(0, false);
    assert_granted(&seen);
    assert_int_equal(hear(&raise)->status, 0);
    end();
}

/* Nor while one waits whose raise is not due: those behind him get the lock, and so does who comes then. */
static void manager__who_waits_for_a_raise_keeps_nobody_from_a_free_lock(void **state)
{
    (void)state;
    begin(&(struct weir_lock_manager_options){ .timeout_ns = 600 * SECOND }, 0);
    struct sent held, seen, behind, other, late;
    acquire(&held, "a", "A");
    assert_granted(&held);
    wait_seen(&seen, WEIR_LOCK_ACQUIRE, "a", "B", 600 * SECOND);
    queue_up(&behind, "a", "C");
    await_waiting(2);
    set_raises_due(SECOND / 1000, false);
    release("a", "A");
    assert_granted(&behind);
    assert_true(behind.request.waited);
    release("a", "C");
    await_asked_again(2);
    acquire(&other, "a", "D");
    assert_granted(&other);
    queue_up(&late, "a", "E");
    await_waiting(2);
    assert_false(is_done(&seen));
    release("a", "D");
    assert_granted(&late);
    set_raises_due(0, false);
    release("a", "E");
    assert_granted(&seen); /* in his place, as soon as his raise is made */
    assert_true(seen.request.waited);
    end();
}

/* Though nobody asks of him before the raise is due, his wait ends; by then another may hold the lock. */
static void manager__who_waits_for_a_raise_is_told_when_his_wait_ends(void **state)
{
    (void)state;
    begin(&(struct weir_lock_manager_options){ .timeout_ns = 600 * SECOND }, 0);
    struct sent held, first, second, behind;
    acquire(&held, "a", "A");
    assert_granted(&held);
    wait_seen(&first, WEIR_LOCK_ACQUIRE, "a", "B", SECOND / 2);
    await_waiting(1);
    set_raises_due(300 * SECOND, false);
    release("a", "A");
    assert_status(&first, WEIR_EDOWN);
    set_raises_due(0, false);
    acquire(&held, "a", "A");
    assert_granted(&held);
    wait_seen(&second, WEIR_LOCK_ACQUIRE, "a", "B", SECOND / 2);
    queue_up(&behind, "a", "C");
    await_waiting(2);
    set_raises_due(300 * SECOND, false);
    release("a", "A");
    assert_granted(&behind);
    assert_held(&second, "C");
    end();
}

static void manager__who_comes_while_all_wait_for_raises_need_not_wait(void **state)
{
    (void)state;
    begin(&(struct weir_lock_manager_options){ .timeout_ns = 600 * SECOND }, 0);
    struct sent held, seen, behind, late;
    acquire(&held, "a", "A");
    assert_granted(&held);
    wait_seen(&seen, WEIR_LOCK_ACQUIRE, "a", "B", 600 * SECOND);
    await_waiting(1);
    set_raises_due(300 * SECOND, false);
    release("a", "A");
    await_asked_again(1);
    queue_up(&behind, "a", "C");
    assert_granted(&behind);
    release("a", "C");
    queue_up(&late, "a", "D"); /* what was known of the lock does not keep him waiting either */
    assert_granted(&late);
    end();
    assert_held(&seen, "D");
}

/* The store is down, as B, who waits, has heard. Who comes now and does not wait is asked for in one batch with B,
 * which is still to begin: another stands at the gate. */
static void come_when_it_was_down(struct sent *held, struct sent *waiting, struct sent *late)
{
    static struct sent brief, other;
    struct weir_lock_op op = { .verb = WEIR_LOCK_ACQUIRE, .name = { "a", 1 }, .ttl_ns = SECOND / 10 };
    begin(&(struct weir_lock_manager_options){ .timeout_ns = 600 * SECOND }, 0);
    send_with(held, &op, "A", 0);
    assert_granted(held);
    queue_up(waiting, "a", "B");
    await_waiting(1);
    set_fault(WEIR_EDOWN);
    do /* until the lease has ended */
        acquire(&brief, "a", "C");
    while (hear(&brief)->status == 0);
    gate(true);
    await_at_gate(); /* B is asked for */
    send(&other, WEIR_LOCK_SHOW, "b", "C", 0);
    pass_one();      /* in the next batch he is not */
    nap(SECOND / 5); /* but in the one after it */
    acquire(late, "a", "D");
}

static void manager__a_store_that_was_down_may_be_up_when_it_is_asked_next(void **state)
{
    (void)state;
    struct sent held, waiting, late;
    come_when_it_was_down(&held, &waiting, &late);
    set_fault(0);
    gate(false);
    assert_granted(&waiting);
    assert_held(&late, "B");
    end();
}

static void manager__who_hears_that_the_store_is_down_waits_for_no_other_batch(void **state)
{
    (void)state;
    struct sent held, waiting, late, other;
    come_when_it_was_down(&held, &waiting, &late);
    pass_one();
    send(&other, WEIR_LOCK_SHOW, "b", "C", 0);
    pass_one();
    assert_status(&late, WEIR_EDOWN);
    gate(false);
    end();
    assert_status(&waiting, WEIR_EDOWN);
}

/* A lease counts from when the store decided, not from when its answer came. */
static void manager__a_batch_that_hangs_makes_no_lease_longer(void **state)
{
    (void)state;
    begin(&(struct weir_lock_manager_options){ 0 }, 0);
    struct sent held, waiting, brief;
    acquire(&held, "a", "A");
    assert_granted(&held);
    set_slow(SECOND / 5);
    queue_up(&waiting, "a", "B");
    await_waiting(1);
    set_slow(0);
    acquire(&brief, "a", "C"); /* is told what was known when B had to wait */
    assert_held(&brief, "A");
    assert_true(brief.request.op.lease_ns <= 60 * SECOND - SECOND / 5);
    end();
    assert_held(&waiting, "A");
}

static void manager__who_is_put_off_for_too_long_is_told(void **state)
{
    (void)state;
    begin(&(struct weir_lock_manager_options){ .timeout_ns = SECOND / 20 }, 0);
    struct sent seen, raise;
    set_raises_due(SECOND / 1000, false);
    send_seen(&seen, WEIR_LOCK_ACQUIRE, "b", "B");
    send_seen(&raise, WEIR_LOCK_RAISE, "c", "");
    assert_status(&seen, WEIR_EDOWN);
    assert_status(&raise, WEIR_EDOWN);
    end();
}

static void manager__no_more_than_a_batch_is_put_off(void **state)
{
    (void)state;
    enum { COUNT = WEIR_LOCK_BATCH_MAX + 1 };
    begin(&(struct weir_lock_manager_options){ .timeout_ns = 600 * SECOND }, 0);
    struct sent *seen = test_calloc(COUNT, sizeof *seen);
    size_t refused = 0, done = 0;
    set_raises_due(300 * SECOND, false);
    for (size_t i = 0; i < COUNT; i++)
        send_seen(&seen[i], WEIR_LOCK_RAISE, "c", "");
    assert_status(&seen[COUNT - 1], WEIR_EDOWN);
    set_raises_due(0, false);
    end(); /* asks all of them once more */
    for (size_t i = 0; i < COUNT; i++) {
        done += seen[i].done;
        refused += seen[i].request.op.status == WEIR_EDOWN;
    }
    assert_int_equal(done, COUNT);
    assert_int_equal(refused, 1);
    test_free(seen);
}

static void manager__who_is_put_off_and_goes_or_sees_the_end_is_answered(void **state)
{
    (void)state;
    begin(&(struct weir_lock_manager_options){ .timeout_ns = 600 * SECOND }, 0);
    struct sent gone, stays, raise;
    set_raises_due(SECOND / 1000, false);
    send_seen(&gone, WEIR_LOCK_ACQUIRE, "b", "B");
    send_seen(&stays, WEIR_LOCK_ACQUIRE, "d", "B");
    send_seen(&raise, WEIR_LOCK_RAISE, "c", "");
    await_asked_again(6);
    weir_lock_manager_client_gone(manager, &gone.request);
    assert_status(&gone, WEIR_EDOWN);
    assert_false(is_done(&stays) || is_done(&raise));
    end();
    assert_status(&stays, WEIR_EDOWN);
    assert_status(&raise, WEIR_EDOWN);
}

/* Nor are they refused for being many: it is not they who ask for it. */
static void manager__while_the_store_raises_new_tokens_wait_alone_and_in_order(void **state)
{
    (void)state;
    enum { COUNT = WEIR_LOCK_BATCH_MAX + 10 };
    begin(&(struct weir_lock_manager_options){ .timeout_ns = 600 * SECOND }, 0);
    struct sent *new = test_calloc(COUNT, sizeof *new), held, again, other;
    acquire(&held, "a", "A");
    struct weir_token token = assert_granted(&held);
    set_raises_due(SECOND / 2, true);
    for (size_t i = 0; i < COUNT; i++) {
        char owner[16];
        snprintf(owner, sizeof owner, "%zu", i);
        acquire(&new[i], "b", owner);
    }
    await_asked_again(COUNT);
    send(&held, WEIR_LOCK_RENEW, "a", "A", 0);
    assert_granted(&held);
    acquire(&again, "a", "A");
    assert_int_equal(weir_token_compare(assert_granted(&again), token), 0);
    acquire(&other, "a", "B");
    assert_held(&other, "A");
    release("a", "A");
    for (size_t i = 0; i < COUNT; i++)
        assert_false(is_done(&new[i]));
    set_raises_due(0, false);
    assert_granted(&new[0]);
    for (size_t i = 1; i < COUNT; i++)
        assert_held(&new[i], "0");
    end();
    test_free(new);
}

/* The token of whoever holds it would be below what he has seen: no renewal will do, he asks in his turn. */
static void manager__who_has_seen_more_than_his_own_token_is_not_renewed(void **state)
{
    (void)state;
    begin(&(struct weir_lock_manager_options){ 0 }, 0);
    struct sent held, waiting, seen, again;
    acquire(&held, "a", "A");
    assert_granted(&held);
    queue_up(&waiting, "a", "B");
    await_waiting(1);
    send_seen(&seen, WEIR_LOCK_ACQUIRE, "a", "A");
    assert_held(&seen, "A");
    acquire(&again, "a", "A"); /* who has seen nothing is */
    assert_granted(&again);
    end();
    assert_held(&waiting, "A");
}

/* So many times an idle engine has been called. */
static void await_idles(size_t count)
{
    size_t idles = 0;
    while (idles < count) {
        nap(SECOND / 100);
        pthread_mutex_lock(&fake.mutex);
        idles = fake.idles;
        pthread_mutex_unlock(&fake.mutex);
    }
    assert_int_equal(idles, count);
}

static void manager__an_idle_engine_does_what_was_put_off(void **state)
{
    (void)state;
    begin(&(struct weir_lock_manager_options){ 0 }, 0);
    struct sent holder;
    acquire(&holder, "a", "A");
    assert_granted(&holder);
    await_idles(1);
    end();
}

/* One that is down is called each second, so that it may come back though nobody asks. */
static void manager__an_engine_that_is_down_is_called_again(void **state)
{
    (void)state;
    begin(&(struct weir_lock_manager_options){ 0 }, 0);
    pthread_mutex_lock(&fake.mutex);
    fake.down = true;
    pthread_mutex_unlock(&fake.mutex);
    struct sent holder;
    acquire(&holder, "a", "A");
    assert_granted(&holder);
    await_idles(1);
    await_idles(2);
    end();
}

/* There is nothing yet that could have been put off. */
static void manager__an_engine_that_was_not_asked_is_not_idle(void **state)
{
    (void)state;
    begin(&(struct weir_lock_manager_options){ 0 }, 0);
    nap(SECOND / 20);
    pthread_mutex_lock(&fake.mutex);
    assert_int_equal(fake.idles, 0);
    pthread_mutex_unlock(&fake.mutex);
    end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(manager__who_is_put_off_waits_alone),
        cmocka_unit_test(manager__who_waits_for_a_raise_keeps_nobody_from_a_free_lock),
        cmocka_unit_test(manager__who_waits_for_a_raise_is_told_when_his_wait_ends),
        cmocka_unit_test(manager__who_comes_while_all_wait_for_raises_need_not_wait),
        cmocka_unit_test(manager__a_store_that_was_down_may_be_up_when_it_is_asked_next),
        cmocka_unit_test(manager__who_hears_that_the_store_is_down_waits_for_no_other_batch),
        cmocka_unit_test(manager__a_batch_that_hangs_makes_no_lease_longer),
        cmocka_unit_test(manager__who_is_put_off_for_too_long_is_told),
        cmocka_unit_test(manager__no_more_than_a_batch_is_put_off),
        cmocka_unit_test(manager__who_is_put_off_and_goes_or_sees_the_end_is_answered),
        cmocka_unit_test(manager__while_the_store_raises_new_tokens_wait_alone_and_in_order),
        cmocka_unit_test(manager__who_has_seen_more_than_his_own_token_is_not_renewed),
        cmocka_unit_test(manager__an_idle_engine_does_what_was_put_off),
        cmocka_unit_test(manager__an_engine_that_is_down_is_called_again),
        cmocka_unit_test(manager__an_engine_that_was_not_asked_is_not_idle),
    };
    return cmocka_run_group_tests_name("manager, put off", tests, NULL, NULL);
}
