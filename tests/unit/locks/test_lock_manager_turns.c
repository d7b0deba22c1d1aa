/* SPDX-License-Identifier: Apache-2.0
 *
 * The manager, turn by turn: what becomes of requests in the order in which they are asked and answered. */
#include "lock_manager_turns.h"

/* The holder takes it again, for less: who waits is asked for when that ends. */
static void turns__a_lease_that_was_made_shorter_ends_when_it_ends(void **state)
{
    (void)state;
    begin_waiting(&(struct weir_lock_manager_options){ 0 });
    submit(2, WEIR_LOCK_ACQUIRE, "H", 200 * MS, 0);
    turn(WEIR_LOCK_RENEW, WEIR_LOCK_GRANTED, "H", 200 * MS);
    assert_int_equal(answers[2], 1);
    assert_int_equal(weir_due_next_ns(&manager->queues_due), now_ns + 200 * MS);
    weir_lock_manager_destroy_threadless(manager);
}

/* Who was thought to hold it does not: who waits is asked for at once. */
static void turns__what_is_not_held_any_more_is_asked_for_at_once(void **state)
{
    (void)state;
    begin_waiting(&(struct weir_lock_manager_options){ 0 });
    submit(2, WEIR_LOCK_ACQUIRE, "H", 60 * SECOND, 0);
    turn(WEIR_LOCK_RENEW, WEIR_LOCK_FREE, "", 0);
    assert_int_equal(answers[2], 0);
    assert_true(weir_due_next_ns(&manager->queues_due) <= now_ns);
    turn(WEIR_LOCK_ACQUIRE, WEIR_LOCK_GRANTED, "A", 60 * SECOND);
    assert_int_equal(answers[1], 1);
    weir_lock_manager_destroy_threadless(manager);
}

/* B, who waits behind A, is found to hold it, and the store does not say whether that is so. By the end of its wait
 * another holds it: that is known. */
static void turns__what_was_not_known_of_a_holder_is_known_once_another_holds_it(void **state)
{
    (void)state;
    begin_waiting(&(struct weir_lock_manager_options){ 0 });
    submit(2, WEIR_LOCK_ACQUIRE, "B", 60 * SECOND, 100 * SECOND);
    begin_turn(0);
    weir_lock_manager_end(manager, now_ns);
    now_ns += WEIR_WAITING_AGAIN_MAX_NS;
    turn(WEIR_LOCK_ACQUIRE, WEIR_LOCK_HELD, "B", 200 * SECOND);
    begin_turn(1);
    say(0, WEIR_LOCK_RENEW, WEIR_LOCK_FREE, "", 0);
    manager->ops[0].status = WEIR_EUNKNOWN;
    weir_lock_manager_end(manager, now_ns);
    assert_int_equal(answers[2], 0);
    now_ns += 100 * SECOND;
    begin_turn(2);
    say(0, WEIR_LOCK_RENEW, WEIR_LOCK_FREE, "", 0);
    say(1, WEIR_LOCK_ACQUIRE, WEIR_LOCK_HELD, "C", 60 * SECOND);
    weir_lock_manager_end(manager, now_ns);
    for (int i = 0; i < 3 && answers[2] == 0; i++) {
        if (weir_due_next_ns(&manager->queues_due) <= now_ns) {
            turn(WEIR_LOCK_ACQUIRE, WEIR_LOCK_HELD, "C", 60 * SECOND);
        } else {
            begin_turn(0);
            weir_lock_manager_end(manager, now_ns);
        }
    }
    assert_int_equal(answers[2], 1);
    assert_int_equal(requests[2].op.status, 0);
    assert_int_equal(requests[2].op.said, WEIR_LOCK_HELD);
    assert_memory_equal(requests[2].op.holder, "C", 1);
    weir_lock_manager_destroy_threadless(manager);
}

/* What is given back is pending once more, and only until that is done. */
static void turns__what_is_given_back_leaves_its_place(void **state)
{
    (void)state;
    begin_waiting(&(struct weir_lock_manager_options){ .pending_max = 2 });
    for (unsigned n = 1; n <= 4; n++) {
        submit(2, WEIR_LOCK_RELEASE, "H", 0, 0);
        turn(WEIR_LOCK_RELEASE, WEIR_LOCK_GRANTED, "", 0);
        turn(WEIR_LOCK_ACQUIRE, WEIR_LOCK_GRANTED, "A", 60 * SECOND);
        assert_int_equal(answers[1], 1);
        assert_true(weir_lock_manager_take_back(manager, &requests[1]));
        assert_false(requests[1].own.finished);
        assert_int_equal(manager->pending, 1);
        submit(3, WEIR_LOCK_SHOW, "", 0, 0);
        assert_int_equal(try_submit(4, WEIR_LOCK_SHOW, "", 0, 0), WEIR_ELIMIT);
        begin_turn(2);
        say(0, WEIR_LOCK_RELEASE, WEIR_LOCK_FREE, "", 0);
        say(1, WEIR_LOCK_SHOW, WEIR_LOCK_FREE, "", 0);
        weir_lock_manager_end(manager, now_ns);
        assert_int_equal(answers[1], 2);
        assert_int_equal(manager->pending, 0);
        assert_int_equal(manager->counts.forgone, n);
        answers[1] = 0;
        now_ns += SECOND;
        submit(1, WEIR_LOCK_ACQUIRE, "A", 60 * SECOND, 600 * SECOND);
        turn(WEIR_LOCK_ACQUIRE, WEIR_LOCK_HELD, "H", 60 * SECOND);
    }
    weir_lock_manager_destroy_threadless(manager);
}

/* A is granted it after H, and goes. */
static void grant_and_go(bool is_new)
{
    assert_int_equal(answers[1], 1);
    assert_int_equal(requests[1].op.status, 0);
    assert_int_equal(requests[1].op.said, WEIR_LOCK_GRANTED);
    assert_int_equal(requests[1].waited, is_new);
    assert_int_equal(weir_lock_manager_take_back(manager, &requests[1]), is_new);
    weir_lock_manager_destroy_threadless(manager);
}

/* A's wait ends as H releases it, so the store says what A is told: that it raises first. That A has waited is known
 * when it is asked for again. */
static void turns__who_is_put_off_has_waited_all_the_same(void **state)
{
    (void)state;
    begin_waiting(&(struct weir_lock_manager_options){ 0 });
    submit(2, WEIR_LOCK_RELEASE, "H", 0, 0);
    turn(WEIR_LOCK_RELEASE, WEIR_LOCK_GRANTED, "", 0);
    now_ns += 600 * SECOND;
    begin_turn(1);
    say_later(0, WEIR_LOCK_ACQUIRE);
    weir_lock_manager_end(manager, now_ns);
    assert_int_equal(manager->queues.count, 0);
    now_ns += SECOND;
    turn(WEIR_LOCK_ACQUIRE, WEIR_LOCK_GRANTED, "A", 60 * SECOND);
    grant_and_go(true);
}

/* While A is put off, A asks over another connection, and is granted it: that is no new grant to the first, who would
 * give it back as it goes. Another owner's grant changes nothing. */
static void turns__who_was_put_off_has_not_waited_for_what_its_owner_was_granted_since(void **state)
{
    (void)state;
    for (int other = 0; other < 2; other++) {
        const char *since = other ? "B" : "A";
        begin_waiting(&(struct weir_lock_manager_options){ 0 });
        submit(2, WEIR_LOCK_RELEASE, "H", 0, 0);
        turn(WEIR_LOCK_RELEASE, WEIR_LOCK_GRANTED, "", 0);
        now_ns += 600 * SECOND;
        begin_turn(1);
        say_later(0, WEIR_LOCK_ACQUIRE);
        weir_lock_manager_end(manager, now_ns);
        submit(3, WEIR_LOCK_ACQUIRE, since, 60 * SECOND, 0);
        turn(WEIR_LOCK_ACQUIRE, WEIR_LOCK_GRANTED, since, 60 * SECOND);
        assert_int_equal(answers[3], 1);
        now_ns += SECOND;
        turn(WEIR_LOCK_ACQUIRE, WEIR_LOCK_GRANTED, "A", 60 * SECOND);
        grant_and_go(other);
    }
}

/* A failover brings back what A was granted before H, and may rely on. */
static void turns__a_grant_from_before_that_stands_again_is_kept(void **state)
{
    (void)state;
    for (int newer = 0; newer < 2; newer++) {
        begin_waiting(&(struct weir_lock_manager_options){ 0 });
        struct weir_token token = requests[0].op.token;
        now_ns += WEIR_WAITING_AGAIN_MAX_NS;
        begin_turn(1);
        say(0, WEIR_LOCK_ACQUIRE, WEIR_LOCK_GRANTED, "A", 60 * SECOND);
        token.number = newer ? token.number + 1 : token.number - 1;
        manager->ops[0].token = token;
        weir_lock_manager_end(manager, now_ns);
        grant_and_go(newer);
    }
}

/* A waits behind H and is asked for, and the answer is lost. Another is granted it, and a failover forgets that: A's
 * grant stands, which nobody was told of yet. */
static void turns__a_grant_of_unknown_fate_that_stands_again_is_new(void **state)
{
    (void)state;
    begin_waiting(&(struct weir_lock_manager_options){ 0 });
    struct weir_token token = requests[0].op.token;
    token.number++;
    now_ns += WEIR_WAITING_AGAIN_MAX_NS;
    begin_turn(1);
    say(0, WEIR_LOCK_ACQUIRE, WEIR_LOCK_HELD, "", 0);
    manager->ops[0].status = WEIR_EUNKNOWN;
    weir_lock_manager_end(manager, now_ns);
    now_ns += WEIR_WAITING_AGAIN_DOWN_NS;
    begin_turn(1);
    say(0, WEIR_LOCK_ACQUIRE, WEIR_LOCK_HELD, "B", SECOND);
    manager->ops[0].token = (struct weir_token){ token.incarnation, token.number + 1 };
    weir_lock_manager_end(manager, now_ns);
    now_ns += SECOND;
    begin_turn(1);
    say(0, WEIR_LOCK_ACQUIRE, WEIR_LOCK_GRANTED, "A", 60 * SECOND);
    manager->ops[0].token = token;
    weir_lock_manager_end(manager, now_ns);
    grant_and_go(true);
}

/* What was known of H before A came may be old where others change the store too: A may have been granted it since, by
 * another weir. What is known since A came is not. */
static void turns__a_grant_of_another_weir_from_before_is_kept(void **state)
{
    (void)state;
    for (int known = 0; known < 2; known++) {
        poll_ns = SECOND;
        begin(&(struct weir_lock_manager_options){ 0 });
        submit(0, WEIR_LOCK_ACQUIRE, "B", 60 * SECOND, 600 * SECOND);
        turn(WEIR_LOCK_ACQUIRE, WEIR_LOCK_HELD, "H", 60 * SECOND);
        submit(1, WEIR_LOCK_ACQUIRE, "A", 60 * SECOND, 600 * SECOND);
        begin_turn(0);
        weir_lock_manager_end(manager, now_ns);
        if (known) {
            submit(2, WEIR_LOCK_RENEW, "H", 60 * SECOND, 0);
            turn(WEIR_LOCK_RENEW, WEIR_LOCK_GRANTED, "H", 60 * SECOND);
        }
        weir_lock_manager_client_gone(manager, &requests[0]);
        now_ns += SECOND;
        turn(WEIR_LOCK_ACQUIRE, WEIR_LOCK_GRANTED, "A", 60 * SECOND);
        grant_and_go(known);
    }
}

/* Where others change the store too, what is known of the holder grows old: who comes is asked for as the holder, once,
 * and then refused by what is known. */
static void turns__who_is_not_the_holder_is_asked_for_once(void **state)
{
    (void)state;
    poll_ns = SECOND;
    begin(&(struct weir_lock_manager_options){ 0 });
    submit(1, WEIR_LOCK_ACQUIRE, "A", 60 * SECOND, 600 * SECOND);
    turn(WEIR_LOCK_ACQUIRE, WEIR_LOCK_HELD, "H", 60 * SECOND);
    now_ns += SECOND;
    submit(2, WEIR_LOCK_ACQUIRE, "B", 60 * SECOND, 0);
    begin_turn(2); /* A's time has come, too */
    say(0, WEIR_LOCK_ACQUIRE, WEIR_LOCK_HELD, "H", 60 * SECOND);
    say(1, WEIR_LOCK_RENEW, WEIR_LOCK_FREE, "", 0);
    now_ns += SECOND; /* it took so long that what A was told is old by now */
    weir_lock_manager_end(manager, now_ns - SECOND);
    assert_int_equal(answers[2], 0);
    begin_turn(1);
    say(0, WEIR_LOCK_ACQUIRE, WEIR_LOCK_HELD, "H", 60 * SECOND);
    weir_lock_manager_end(manager, now_ns);
    assert_int_equal(answers[2], 1);
    assert_int_equal(requests[2].op.status, 0);
    assert_int_equal(requests[2].op.said, WEIR_LOCK_HELD);
    weir_lock_manager_destroy_threadless(manager);
}

/* A (0) asks, and once more (1): that one is asked for as the holder, refuted, and put off as the first is. Meanwhile A
 * is granted it by another weir, and B is told so. */
static void turns__who_was_no_holder_may_be_one_after_it_was_put_off(void **state)
{
    (void)state;
    poll_ns = 10 * SECOND;
    begin(&(struct weir_lock_manager_options){ 0 });
    submit(0, WEIR_LOCK_ACQUIRE, "A", 60 * SECOND, 600 * SECOND);
    submit(1, WEIR_LOCK_ACQUIRE, "A", 60 * SECOND, 0);
    begin_turn(2);
    say_later(0, WEIR_LOCK_ACQUIRE);
    say(1, WEIR_LOCK_RENEW, WEIR_LOCK_FREE, "", 0);
    weir_lock_manager_end(manager, now_ns);
    begin_turn(1);
    say_later(0, WEIR_LOCK_ACQUIRE);
    weir_lock_manager_end(manager, now_ns);
    submit(2, WEIR_LOCK_ACQUIRE, "B", 60 * SECOND, 600 * SECOND);
    turn(WEIR_LOCK_ACQUIRE, WEIR_LOCK_HELD, "A", 60 * SECOND);
    now_ns += SECOND;
    begin_turn(2);
    for (size_t i = 0; i < 2; i++)
        say(i, WEIR_LOCK_RENEW, WEIR_LOCK_GRANTED, "A", 60 * SECOND);
    weir_lock_manager_end(manager, now_ns);
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(answers[i], 1);
        assert_int_equal(requests[i].op.said, WEIR_LOCK_GRANTED);
        assert_false(requests[i].waited);
    }
    weir_lock_manager_destroy_threadless(manager);
}

static void turns__answers_are_counted(void **state)
{
    (void)state;
    begin_waiting(&(struct weir_lock_manager_options){ 0 });
    submit(2, WEIR_LOCK_RENEW, "X", 60 * SECOND, 0);
    turn(WEIR_LOCK_RENEW, WEIR_LOCK_FREE, "", 0);
    submit(2, WEIR_LOCK_RENEW, "H", 60 * SECOND, 0);
    turn(WEIR_LOCK_RENEW, WEIR_LOCK_GRANTED, "H", 60 * SECOND);
    submit(2, WEIR_LOCK_RELEASE, "X", 0, 0);
    turn(WEIR_LOCK_RELEASE, WEIR_LOCK_FREE, "", 0);
    submit(2, WEIR_LOCK_RELEASE, "H", 0, 0);
    begin_turn(1);
    manager->ops[0].status = WEIR_EUNKNOWN;
    weir_lock_manager_end(manager, now_ns);
    struct weir_lock_manager_state state_now;
    weir_lock_manager_state(manager, &state_now);
    assert_int_equal(state_now.granted, 1);
    assert_int_equal(state_now.held, 0);
    assert_int_equal(state_now.lost, 1);
    assert_int_equal(state_now.released, 0);
    assert_int_equal(state_now.unknown, 1);
    assert_int_equal(state_now.waiting, 1);
    weir_lock_manager_destroy_threadless(manager);
}

/* The engine could not say once whether it was granted. A grant after that is one; a refusal says nothing of then. */
static void turns__after_an_attempt_of_unknown_fate(void **state)
{
    (void)state;
    for (int granted = 0; granted < 2; granted++) {
        begin_waiting(&(struct weir_lock_manager_options){ 0 });
        submit(2, WEIR_LOCK_RELEASE, "H", 0, 0);
        turn(WEIR_LOCK_RELEASE, WEIR_LOCK_GRANTED, "", 0);
        begin_turn(1);
        say(0, WEIR_LOCK_ACQUIRE, WEIR_LOCK_HELD, "", 0);
        manager->ops[0].status = WEIR_EUNKNOWN;
        weir_lock_manager_end(manager, now_ns);
        assert_int_equal(answers[1], 0);
        now_ns += WEIR_WAITING_AGAIN_DOWN_NS;
        turn(WEIR_LOCK_ACQUIRE, granted ? WEIR_LOCK_GRANTED : WEIR_LOCK_HELD, granted ? "A" : "B", 3600 * SECOND);
        assert_int_equal(answers[1], granted);
        if (!granted) { /* its wait ends */
            now_ns += 600 * SECOND;
            begin_turn(0);
            weir_lock_manager_end(manager, now_ns);
        }
        assert_int_equal(answers[1], 1);
        assert_int_equal(requests[1].op.status, granted ? 0 : WEIR_EUNKNOWN);
        weir_lock_manager_destroy_threadless(manager);
    }
}

/* Two were decided together, and it took a while: the next waits for company. */
static void begin_in_company(void)
{
    begin(&(struct weir_lock_manager_options){ 0 });
    for (size_t i = 0; i < 2; i++) {
        name = i ? "a" : "b";
        submit(i, WEIR_LOCK_ACQUIRE, "H", 60 * SECOND, 0);
    }
    begin_turn(2);
    for (size_t i = 0; i < 2; i++)
        say(i, WEIR_LOCK_ACQUIRE, WEIR_LOCK_GRANTED, "H", 60 * SECOND);
    now_ns += MS;
    weir_lock_manager_end(manager, now_ns);
    name = "lock";
    submit(2, WEIR_LOCK_ACQUIRE, "A", 60 * SECOND, 0);
    begin_turn(0);
    weir_lock_manager_end(manager, now_ns);
}

/* For half as long as that took, or until as many have come. What is behind it in the order of its name, and what
 * counts for all names, takes it along. */
static void turns__an_acquire_waits_for_company_and_nobody_for_it(void **state)
{
    (void)state;
    begin_in_company();
    name = "other";
    submit(3, WEIR_LOCK_SHOW, "", 0, 0);
    turn(WEIR_LOCK_SHOW, WEIR_LOCK_FREE, "", 0);
    now_ns += MS / 2 - 1;
    begin_turn(0);
    weir_lock_manager_end(manager, now_ns);
    now_ns++;
    turn(WEIR_LOCK_ACQUIRE, WEIR_LOCK_GRANTED, "A", 60 * SECOND);
    weir_lock_manager_destroy_threadless(manager);

    begin_in_company();
    name = "other";
    submit(3, WEIR_LOCK_ACQUIRE, "B", 60 * SECOND, 0);
    begin_turn(2);
    weir_lock_manager_destroy_threadless(manager);

    for (int raise = 0; raise < 2; raise++) {
        begin_in_company();
        name = raise ? "" : "lock";
        submit(3, raise ? WEIR_LOCK_RAISE : WEIR_LOCK_SHOW, "", 0, 0);
        begin_turn(2);
        assert_int_equal(manager->ops[0].verb, WEIR_LOCK_ACQUIRE);
        weir_lock_manager_destroy_threadless(manager);
    }
}

/* And not when the engine is looked after the next time, which is later. */
static void turns__wakes_for_who_was_put_off(void **state)
{
    (void)state;
    begin(&(struct weir_lock_manager_options){ 0 });
    submit(0, WEIR_LOCK_RAISE, "", 0, 0);
    begin_turn(1);
    say_later(0, WEIR_LOCK_RAISE);
    manager->ops[0].due_ns = now_ns + 100 * MS;
    weir_lock_manager_end(manager, now_ns);
    assert_int_equal(answers[0], 0);
    assert_int_equal(weir_lock_manager_due_ns(manager, now_ns), now_ns + 100 * MS);
    weir_lock_manager_destroy_threadless(manager);
}

/* What its holder renews is known to whoever comes. */
static void turns__a_lease_that_was_renewed_is_told(void **state)
{
    (void)state;
    begin_waiting(&(struct weir_lock_manager_options){ 0 });
    submit(2, WEIR_LOCK_RENEW, "H", 3600 * SECOND, 0);
    turn(WEIR_LOCK_RENEW, WEIR_LOCK_GRANTED, "H", 3600 * SECOND);
    now_ns += 100 * MS;
    submit(2, WEIR_LOCK_ACQUIRE, "B", 60 * SECOND, 0);
    begin_turn(0);
    weir_lock_manager_end(manager, now_ns);
    assert_int_equal(answers[2], 2);
    assert_int_equal(requests[2].op.said, WEIR_LOCK_HELD);
    assert_int_equal(requests[2].op.lease_ns, 3600 * SECOND - 100 * MS);
    weir_lock_manager_destroy_threadless(manager);
}

/* Whether the engine is there shows with its answers. */
static void turns__the_engines_state_is_shown_with_its_answers(void **state)
{
    (void)state;
    begin(&(struct weir_lock_manager_options){ 0 });
    for (int down = 1; down >= 0; down--) {
        struct weir_lock_manager_state state_now;
        submit(0, WEIR_LOCK_SHOW, "", 0, 0);
        begin_turn(1);
        say(0, WEIR_LOCK_SHOW, WEIR_LOCK_FREE, "", 0);
        is_down = down;
        weir_lock_manager_end(manager, now_ns);
        weir_lock_manager_state(manager, &state_now);
        assert_int_equal(state_now.engine.up, !down);
    }
    weir_lock_manager_destroy_threadless(manager);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(turns__a_lease_that_was_made_shorter_ends_when_it_ends),
        cmocka_unit_test(turns__what_is_not_held_any_more_is_asked_for_at_once),
        cmocka_unit_test(turns__what_was_not_known_of_a_holder_is_known_once_another_holds_it),
        cmocka_unit_test(turns__what_is_given_back_leaves_its_place),
        cmocka_unit_test(turns__who_is_put_off_has_waited_all_the_same),
        cmocka_unit_test(turns__who_was_put_off_has_not_waited_for_what_its_owner_was_granted_since),
        cmocka_unit_test(turns__a_grant_from_before_that_stands_again_is_kept),
        cmocka_unit_test(turns__a_grant_of_unknown_fate_that_stands_again_is_new),
        cmocka_unit_test(turns__a_grant_of_another_weir_from_before_is_kept),
        cmocka_unit_test(turns__who_is_not_the_holder_is_asked_for_once),
        cmocka_unit_test(turns__who_was_no_holder_may_be_one_after_it_was_put_off),
        cmocka_unit_test(turns__answers_are_counted),
        cmocka_unit_test(turns__after_an_attempt_of_unknown_fate),
        cmocka_unit_test(turns__an_acquire_waits_for_company_and_nobody_for_it),
        cmocka_unit_test(turns__wakes_for_who_was_put_off),
        cmocka_unit_test(turns__a_lease_that_was_renewed_is_told),
        cmocka_unit_test(turns__the_engines_state_is_shown_with_its_answers),
    };
    return cmocka_run_group_tests_name("manager, turn by turn", tests, NULL, NULL);
}
