/* SPDX-License-Identifier: Apache-2.0
 *
 * One who waits and is asked for as the holder, while there is no room for those who wait: answered once, by what the
 * engine says. */
#include "lock_manager_world.h"

static struct sent holder, waiter, shower, asker, probed;

/* A holds "a" by another weir. B and A queue up for it, so that what B is told names A; one waits for "b" already. The
 * question for B stands at the gate, B's and A's waits not begun. */
static void begin_with_room_for(size_t waiters)
{
    begin(&(struct weir_lock_manager_options){ .waiters_max = waiters }, 0);
    elsewhere(WEIR_LOCK_ACQUIRE, "a", "A", 60 * SECOND);
    acquire(&holder, "b", "H");
    assert_granted(&holder);
    queue_up(&waiter, "b", "W");
    await_waiting(1);
    gate(true);
    send(&shower, WEIR_LOCK_SHOW, "c", "W", 0);
    await_at_gate();
    queue_up(&asker, "a", "B");
    queue_up(&probed, "a", "A");
    pass_one();
}

static void probed__the_holder_is_told_so_though_nobody_may_wait(void **state)
{
    (void)state;
    begin_with_room_for(1);
    gate(false);
    assert_status(&asker, WEIR_ELIMIT);
    assert_int_equal(assert_granted(&probed).number, 1);
    assert_false(probed.request.waited);
    release("a", "A");
    end();
    assert_held(&waiter, "H");
    assert_int_equal(probed.done, 1);
}

static void probed__who_is_not_the_holder_is_refused_once(void **state)
{
    (void)state;
    begin_with_room_for(1);
    pass_one(); /* B was told of A; now the question whether A holds it stands there */
    elsewhere(WEIR_LOCK_RELEASE, "a", "A", 0);
    elsewhere(WEIR_LOCK_ACQUIRE, "a", "C", 60 * SECOND);
    gate(false);
    assert_status(&asker, WEIR_ELIMIT);
    assert_status(&probed, WEIR_ELIMIT);
    assert_int_equal(fake.asked, 5); /* and at once: A's own ACQUIRE was not asked first */
    acquire(&asker, "a", "B");       /* nobody is left in the queue */
    assert_held(&asker, "C");
    end();
    assert_held(&waiter, "H");
    assert_int_equal(probed.done, 1);
}

static void probed__who_is_not_the_holder_waits_if_there_is_room(void **state)
{
    (void)state;
    begin_with_room_for(3);
    pass_one();
    elsewhere(WEIR_LOCK_RELEASE, "a", "A", 0);
    elsewhere(WEIR_LOCK_ACQUIRE, "a", "C", 60 * SECOND);
    gate(false);
    await_waiting(3);
    assert_false(is_done(&probed));
    release("a", "C");
    assert_granted(&asker);
    release("a", "B");
    assert_granted(&probed);
    end();
    assert_held(&waiter, "H");
}

static void probed__who_lost_it_elsewhere_is_not_told_that_it_holds_it(void **state)
{
    (void)state;
    begin(&(struct weir_lock_manager_options){ 0 }, 600 * SECOND);
    acquire(&holder, "a", "A");
    assert_granted(&holder);
    queue_up(&waiter, "a", "B");
    await_waiting(1);
    elsewhere(WEIR_LOCK_RELEASE, "a", "A", 0); /* by another weir: this one knows of it when A asks again */
    acquire(&probed, "a", "A");
    assert_held(&probed, "B");
    assert_granted(&waiter);
    queue_up(&asker, "a", "C");
    await_waiting(1);
    elsewhere(WEIR_LOCK_RELEASE, "a", "B", 0);
    send(&probed, WEIR_LOCK_ACQUIRE, "a", "B", SECOND / 1000); /* and who waits a little for it, too */
    assert_held(&probed, "C");
    assert_granted(&asker);
    end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(probed__the_holder_is_told_so_though_nobody_may_wait),
        cmocka_unit_test(probed__who_is_not_the_holder_is_refused_once),
        cmocka_unit_test(probed__who_is_not_the_holder_waits_if_there_is_room),
        cmocka_unit_test(probed__who_lost_it_elsewhere_is_not_told_that_it_holds_it),
    };
    return cmocka_run_group_tests_name("manager, probed", tests, NULL, NULL);
}
