/* SPDX-License-Identifier: Apache-2.0
 *
 * The manager, turn by turn: the moment at which each thing is due, and the bounds. */
#include <malloc.h>

#include "lock_manager_turns.h"

static const struct weir_lock_manager_options usual = { 0 };

/* A turn in which nothing is asked. */
static void rest(void)
{
    begin_turn(0);
    weir_lock_manager_end(manager, now_ns);
}

/* A second after its last answer it is called, and each second after that while it is down. */
static void edges__an_engine_is_idle_after_a_second(void **state)
{
    (void)state;
    for (int down = 0; down < 2; down++) {
        begin(&usual);
        is_down = down;
        submit(0, WEIR_LOCK_SHOW, "", 0, 0);
        turn(WEIR_LOCK_SHOW, WEIR_LOCK_FREE, "", 0);
        assert_false(manager->resting);
        for (unsigned n = 1; n <= 2; n++) {
            const bool is_due = n == 1 || down;
            assert_int_equal(weir_lock_manager_due_ns(manager, now_ns), is_due ? now_ns + SECOND : UINT64_MAX);
            now_ns += SECOND - 1;
            rest();
            assert_int_equal(idles, n - 1);
            now_ns++;
            rest();
            assert_int_equal(idles, n - !is_due);
        }
        assert_int_equal(manager->resting, !down);
        weir_lock_manager_destroy_threadless(manager);
    }
}

/* The client of one that is answered in this turn has gone during it, and that of one that is not. */
static void edges__who_went_during_a_turn_is_looked_at_only_if_it_is_not_over(void **state)
{
    (void)state;
    for (int first = 0; first < 2; first++) {
        begin_waiting(&usual);
        submit(2, WEIR_LOCK_SHOW, "", 0, 0);
        begin_turn(1);
        say(0, WEIR_LOCK_SHOW, WEIR_LOCK_GRANTED, "H", 60 * SECOND);
        weir_lock_manager_client_gone(manager, &requests[first ? 2 : 1]);
        weir_lock_manager_client_gone(manager, &requests[first ? 1 : 2]);
        weir_lock_manager_end(manager, now_ns);
        assert_int_equal(answers[2], 1);
        assert_ptr_equal(manager->left, &requests[1]);
        assert_null(requests[1].own.next_left);
        rest();
        assert_int_equal(answers[1], 1);
        assert_null(manager->left);
        weir_lock_manager_destroy_threadless(manager);
    }
}

/* A raise that is due so long after its answer: when it is asked for again; 0: it is answered. */
static void edges__when_a_raise_is_asked_for_again(void **state)
{
    static const struct {
        uint64_t before_ns, due_ns, again_ns;
    } cases[] = {
        { 0, 100 * MS, 100 * MS },           { 0, WEIR_WAITING_AGAIN_MIN_NS + 1, WEIR_WAITING_AGAIN_MIN_NS + 1 },
        { 0, 1, WEIR_WAITING_AGAIN_MIN_NS }, { MS, 0, WEIR_WAITING_AGAIN_MIN_NS }, /* it is due by now */
        { 0, SECOND - 1, SECOND - 1 },       { 0, SECOND, 0 },
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        begin(&(struct weir_lock_manager_options){ .timeout_ns = SECOND });
        submit(0, WEIR_LOCK_RAISE, "", 0, 0);
        begin_turn(1);
        say_later(0, WEIR_LOCK_RAISE);
        manager->ops[0].due_ns = now_ns - cases[i].before_ns + cases[i].due_ns;
        weir_lock_manager_end(manager, now_ns);
        assert_int_equal(answers[0], cases[i].again_ns == 0);
        assert_int_equal(manager->put_off_asks, cases[i].again_ns > 0);
        if (cases[i].again_ns > 0) {
            assert_int_equal(weir_lock_manager_due_ns(manager, now_ns), now_ns + cases[i].again_ns);
            now_ns += cases[i].again_ns - 1;
            rest();
            now_ns++;
            turn(WEIR_LOCK_RAISE, WEIR_LOCK_GRANTED, "", 0);
            assert_int_equal(answers[0], 1);
            assert_int_equal(requests[0].op.status, 0);
        } else {
            assert_int_equal(requests[0].op.status, WEIR_EDOWN);
        }
        weir_lock_manager_destroy_threadless(manager);
    }
}

/* Who asks for a raise himself is counted, and who needs one that the store makes is not. */
static void edges__whose_raises_are_counted(void **state)
{
    static const struct {
        enum weir_lock_verb verb;
        uint64_t seen;
        size_t count;
    } cases[] = { { WEIR_LOCK_RAISE, 0, 1 }, { WEIR_LOCK_ACQUIRE, 1, 1 }, { WEIR_LOCK_ACQUIRE, 0, 0 } };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        begin(&usual);
        submit(0, cases[i].verb, "A", 60 * SECOND, 0);
        requests[0].op.seen = requests[0].own.waiter.seen = cases[i].seen;
        begin_turn(1);
        say_later(0, cases[i].verb);
        weir_lock_manager_end(manager, now_ns);
        assert_int_equal(answers[0], 0);
        assert_int_equal(manager->put_off_asks, cases[i].count);
        weir_lock_manager_destroy_threadless(manager);
    }
}

/* Who stands behind one whose raise is put off does not begin to wait: he is the next to be asked for, be there room
 * for those who wait or not. */
static void edges__who_is_next_needs_no_room(void **state)
{
    (void)state;
    begin(&(struct weir_lock_manager_options){ .waiters_max = 1 });
    name = "other";
    submit(0, WEIR_LOCK_ACQUIRE, "A", 60 * SECOND, 600 * SECOND);
    turn(WEIR_LOCK_ACQUIRE, WEIR_LOCK_HELD, "H", 60 * SECOND);
    name = "lock";
    submit(1, WEIR_LOCK_ACQUIRE, "B", 60 * SECOND, 600 * SECOND);
    submit(2, WEIR_LOCK_ACQUIRE, "C", 60 * SECOND, 600 * SECOND);
    requests[1].op.seen = requests[1].own.waiter.seen = 1;
    begin_turn(1);
    say_later(0, WEIR_LOCK_ACQUIRE);
    weir_lock_manager_end(manager, now_ns);
    turn(WEIR_LOCK_ACQUIRE, WEIR_LOCK_GRANTED, "C", 60 * SECOND);
    assert_int_equal(answers[2], 1);
    assert_int_equal(requests[2].op.status, 0);
    assert_int_equal(answers[1], 0);
    weir_lock_manager_destroy_threadless(manager);
}

/* Nothing follows for those who wait where the store cannot say whether another holds it. */
static void edges__a_probe_without_an_answer_says_nothing_of_the_holder(void **state)
{
    (void)state;
    begin_waiting(&usual);
    submit(2, WEIR_LOCK_ACQUIRE, "H", 60 * SECOND, 0);
    begin_turn(1);
    say(0, WEIR_LOCK_RENEW, WEIR_LOCK_FREE, "", 0);
    manager->ops[0].status = WEIR_EDOWN;
    weir_lock_manager_end(manager, now_ns);
    assert_int_equal(answers[2], 1);
    assert_int_equal(requests[2].op.status, WEIR_EDOWN);
    assert_int_equal(weir_due_next_ns(&manager->queues_due), now_ns + WEIR_WAITING_AGAIN_MAX_NS);
    weir_lock_manager_destroy_threadless(manager);
}

/* One is found to hold it, who is not thought to: all who wait under its name are asked whether they do. */
static void edges__who_is_found_to_hold_it_is_looked_for_among_those_who_wait(void **state)
{
    (void)state;
    poll_ns = SECOND;
    begin(&usual);
    submit(0, WEIR_LOCK_ACQUIRE, "B", 60 * SECOND, 600 * SECOND);
    turn(WEIR_LOCK_ACQUIRE, WEIR_LOCK_HELD, "H", 60 * SECOND);
    submit(1, WEIR_LOCK_ACQUIRE, "A", 60 * SECOND, 600 * SECOND);
    rest();
    now_ns += SECOND; /* what is known of H is old */
    submit(2, WEIR_LOCK_ACQUIRE, "A", 60 * SECOND, 0);
    begin_turn(2);
    say(0, WEIR_LOCK_ACQUIRE, WEIR_LOCK_HELD, "H", 60 * SECOND);
    say(1, WEIR_LOCK_RENEW, WEIR_LOCK_GRANTED, "A", 60 * SECOND);
    weir_lock_manager_end(manager, now_ns);
    assert_int_equal(answers[2], 1);
    assert_int_equal(weir_lock_manager_due_ns(manager, now_ns), 0);
    turn(WEIR_LOCK_RENEW, WEIR_LOCK_GRANTED, "A", 60 * SECOND);
    assert_int_equal(answers[1], 1);
    assert_int_equal(answers[0], 0);
    weir_lock_manager_destroy_threadless(manager);
}

/* One may join a queue whose first is not due to be asked: as soon as it is known who holds the lock he waits, or is
 * told so if he does not. */
static void edges__what_a_holder_says_is_known_to_who_has_just_come(void **state)
{
    (void)state;
    begin(&usual);
    submit(0, WEIR_LOCK_ACQUIRE, "A", 60 * SECOND, 600 * SECOND);
    turn(WEIR_LOCK_ACQUIRE, WEIR_LOCK_HELD, "H", 1000); /* ends before A is asked for again */
    now_ns += 1000;
    submit(1, WEIR_LOCK_ACQUIRE, "B", 60 * SECOND, 0);
    submit(2, WEIR_LOCK_ACQUIRE, "H", 60 * SECOND, 0);
    turn(WEIR_LOCK_RENEW, WEIR_LOCK_GRANTED, "H", 60 * SECOND);
    assert_int_equal(answers[2], 1);
    rest();
    assert_int_equal(answers[1], 1);
    assert_int_equal(requests[1].op.said, WEIR_LOCK_HELD);
    assert_int_equal(answers[0], 0);
    weir_lock_manager_destroy_threadless(manager);
}

/* Of all that may be due the first counts, and only what is there. */
static void edges__the_next_turn_is_due_when_the_first_thing_is(void **state)
{
    enum { QUEUE, WAIT, IDLE, PUT_OFF, GATHERED, KINDS };
    (void)state;
    for (unsigned there = 0; there < 1U << KINDS; there++)
        for (unsigned first = 0; first < KINDS; first++) {
            struct weir_lock_manager_request request = { 0 };
            struct weir_due dues[2] = { { 0 }, { 0 } };
            uint64_t at_ns[KINDS], least_ns = UINT64_MAX;
            begin(&usual);
            for (unsigned kind = 0; kind < KINDS; kind++) {
                at_ns[kind] = now_ns + (first + kind) % KINDS;
                if (there >> kind & 1 && at_ns[kind] < least_ns)
                    least_ns = at_ns[kind];
            }
            if (there >> QUEUE & 1)
                weir_due_set(&manager->queues_due, &dues[0], at_ns[QUEUE]);
            if (there >> WAIT & 1)
                weir_due_set(&manager->waits_due, &dues[1], at_ns[WAIT]);
            manager->idle_ns = there >> IDLE & 1 ? at_ns[IDLE] : UINT64_MAX;
            manager->put_off.first = there >> PUT_OFF & 1 ? &request : NULL;
            manager->put_off_ns = at_ns[PUT_OFF];
            manager->gathered.first = there >> GATHERED & 1 ? &request : NULL;
            manager->gather_until_ns = at_ns[GATHERED];
            assert_int_equal(weir_lock_manager_due_ns(manager, now_ns), least_ns);
            assert_int_equal(manager->resting, !(there >> IDLE & 1));
            weir_lock_manager_destroy_threadless(manager);
        }
}

/* Who does not wait has his answer in the turn that asks for it, and leaves nothing behind. */
static void edges__who_does_not_wait_is_answered_in_his_turn(void **state)
{
    (void)state;
    for (int granted = 0; granted < 2; granted++) {
        begin(&usual);
        submit(0, WEIR_LOCK_ACQUIRE, "A", 60 * SECOND, 0);
        turn(WEIR_LOCK_ACQUIRE, granted ? WEIR_LOCK_GRANTED : WEIR_LOCK_HELD, granted ? "A" : "H", 60 * SECOND);
        assert_int_equal(answers[0], 1);
        assert_int_equal(requests[0].op.status, 0);
        assert_int_equal(requests[0].op.said, granted ? WEIR_LOCK_GRANTED : WEIR_LOCK_HELD);
        assert_int_equal(requests[0].op.lease_ns, 60 * SECOND);
        assert_int_equal(requests[0].op.token.number, 2);
        assert_int_equal(requests[0].op.holder_size, 1);
        assert_int_equal(requests[0].op.holder[0], granted ? 'A' : 'H');
        assert_int_equal(manager->pending, 0);
        assert_int_equal(manager->queues.count, 0);
        assert_int_equal(manager->owners.count, 0);
        weir_lock_manager_destroy_threadless(manager);
    }
}

/* Of an answer that is none nothing is told but that: what stands beside it may be of another batch. */
static void edges__what_the_engine_could_not_say_is_not_told(void **state)
{
    (void)state;
    begin(&usual);
    submit(0, WEIR_LOCK_SHOW, "", 0, 0);
    begin_turn(1);
    say(0, WEIR_LOCK_SHOW, WEIR_LOCK_GRANTED, "A", 60 * SECOND);
    manager->ops[0].status = WEIR_EDOWN;
    weir_lock_manager_end(manager, now_ns);
    assert_int_equal(requests[0].op.status, WEIR_EDOWN);
    assert_int_equal(requests[0].op.holder_size, 0);
    assert_int_equal(requests[0].op.token.number, 0);
    assert_int_equal(requests[0].op.lease_ns, 0);
    weir_lock_manager_destroy_threadless(manager);
}

/* The next waits until as many have come as were decided and came meanwhile, 64 at most; for half as long as that
 * took, a millisecond at most. */
static void edges__how_many_and_how_long_an_acquire_waits_for(void **state)
{
    static const struct {
        size_t count, coming;
        uint64_t took_ns;
        size_t companions;
        uint64_t wait_ns;
    } cases[] = {
        { 2, 0, MS, 2, MS / 2 },       { 2, 1, 3 * MS, 3, MS },     { 1, 1, 2 * MS - 2, 2, MS - 1 },
        { 60, 3, 2 * MS, 63, MS },     { 60, 4, 2 * MS, 64, MS },   { 60, 5, 2 * MS, 64, MS },
        { 64, 0, 2 * MS + 2, 64, MS }, { 70, 9, 600 * MS, 64, MS },
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        static char names[128][2];
        begin(&usual);
        for (size_t n = 0; n < cases[i].count + cases[i].coming; n++) {
            names[n][0] = (char)('A' + n);
            name = names[n];
            if (n == cases[i].count)
                begin_turn(n);
            submit(n, WEIR_LOCK_ACQUIRE, "H", 60 * SECOND, 0);
        }
        if (cases[i].coming == 0)
            begin_turn(cases[i].count);
        for (size_t n = 0; n < cases[i].count; n++)
            say(n, WEIR_LOCK_ACQUIRE, WEIR_LOCK_GRANTED, "H", 60 * SECOND);
        now_ns += cases[i].took_ns;
        weir_lock_manager_end(manager, now_ns);
        assert_int_equal(manager->companions, cases[i].companions);
        if (cases[i].coming == 0)
            submit(0, WEIR_LOCK_ACQUIRE, "A", 60 * SECOND, 0);
        rest();
        assert_int_equal(weir_lock_manager_due_ns(manager, now_ns), now_ns + cases[i].wait_ns);
        weir_lock_manager_destroy_threadless(manager);
    }
}

/* Who comes later makes nobody wait for longer. */
static void edges__the_first_waits_for_company_no_longer_for_the_second(void **state)
{
    (void)state;
    begin(&usual);
    for (size_t i = 0; i < 3; i++) {
        name = (const char *const[]){ "a", "b", "c" }[i];
        submit(i, WEIR_LOCK_ACQUIRE, "H", 60 * SECOND, 0);
    }
    begin_turn(3);
    for (size_t i = 0; i < 3; i++)
        say(i, WEIR_LOCK_ACQUIRE, WEIR_LOCK_GRANTED, "H", 60 * SECOND);
    now_ns += MS;
    weir_lock_manager_end(manager, now_ns);
    const uint64_t until_ns = now_ns + MS / 2;
    for (size_t i = 0; i < 2; i++) {
        name = i ? "e" : "d";
        submit(i, WEIR_LOCK_ACQUIRE, "A", 60 * SECOND, 0);
        rest();
        assert_int_equal(weir_lock_manager_due_ns(manager, now_ns), until_ns);
        now_ns += MS / 4;
    }
    begin_turn(2);
    weir_lock_manager_destroy_threadless(manager);
}

/* And what is left of a full batch is asked at once. */
static void edges__a_batch_is_bounded(void **state)
{
    (void)state;
    begin(&usual);
    for (size_t i = 0; i < WEIR_LOCK_BATCH_MAX + 1; i++)
        submit(i, WEIR_LOCK_SHOW, "", 0, 0);
    begin_turn(WEIR_LOCK_BATCH_MAX);
    for (size_t i = 0; i < WEIR_LOCK_BATCH_MAX; i++)
        say(i, WEIR_LOCK_SHOW, WEIR_LOCK_FREE, "", 0);
    weir_lock_manager_end(manager, now_ns);
    assert_int_equal(weir_lock_manager_due_ns(manager, now_ns), 0);
    turn(WEIR_LOCK_SHOW, WEIR_LOCK_FREE, "", 0);
    assert_int_equal(answers[WEIR_LOCK_BATCH_MAX], 1);
    assert_true(weir_lock_manager_due_ns(manager, now_ns) > now_ns);
    weir_lock_manager_destroy_threadless(manager);
}

/* As many as may wait or be pending are in one heap at once: two who wait, and one more of whom nothing is known yet;
 * one who waits, and two who are to be told who holds it. */
static void edges__the_heaps_have_room_for_all(void **state)
{
    (void)state;
    begin(&(struct weir_lock_manager_options){ .waiters_max = 2, .pending_max = 1 });
    for (size_t i = 0; i < 3; i++) {
        name = (const char *const[]){ "a", "b", "c" }[i];
        submit(i, WEIR_LOCK_ACQUIRE, "A", 60 * SECOND, 600 * SECOND);
        turn(WEIR_LOCK_ACQUIRE, WEIR_LOCK_HELD, "H", 60 * SECOND);
        assert_int_equal(answers[i], i == 2);
    }
    assert_int_equal(requests[2].op.status, WEIR_ELIMIT);
    assert_int_equal(manager->queues_due.max, 3);
    weir_lock_manager_destroy_threadless(manager);

    begin(&(struct weir_lock_manager_options){ .waiters_max = 1, .pending_max = 2 });
    submit(0, WEIR_LOCK_ACQUIRE, "A", 60 * SECOND, 600 * SECOND);
    turn(WEIR_LOCK_ACQUIRE, WEIR_LOCK_HELD, "H", 60 * SECOND);
    now_ns += 60 * SECOND; /* the lease is over */
    for (size_t i = 1; i < 3; i++)
        submit(i, WEIR_LOCK_ACQUIRE, i == 1 ? "B" : "C", 60 * SECOND, 0);
    turn(WEIR_LOCK_ACQUIRE, WEIR_LOCK_HELD, "H", 60 * SECOND);
    assert_int_equal(manager->waits_due.count, 3);
    assert_int_equal(manager->waits_due.max, 3);
    assert_true(malloc_usable_size(manager->queues_due.members) >= 4 * sizeof(void *)); /* the first is not used */
    assert_true(malloc_usable_size(manager->waits_due.members) >= 4 * sizeof(void *));
    assert_int_equal(manager->pending, 2);
    rest();
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(answers[i], i > 0);
    assert_int_equal(manager->pending, 0);
    weir_lock_manager_destroy_threadless(manager);
}

/* Each answer counts once, as what it is. */
static void edges__what_is_counted(void **state)
{
    enum { NONE, GRANTED, HELD, LOST, UNKNOWN, RELEASED };
    static const struct {
        enum weir_lock_verb verb;
        int status;
        enum weir_lock_said said;
        int counted;
    } cases[] = {
        { WEIR_LOCK_ACQUIRE, 0, WEIR_LOCK_GRANTED, GRANTED },
        { WEIR_LOCK_ACQUIRE, 0, WEIR_LOCK_HELD, HELD },
        { WEIR_LOCK_RENEW, 0, WEIR_LOCK_GRANTED, NONE },
        { WEIR_LOCK_RENEW, 0, WEIR_LOCK_FREE, LOST },
        { WEIR_LOCK_RELEASE, 0, WEIR_LOCK_GRANTED, RELEASED },
        { WEIR_LOCK_RELEASE, 0, WEIR_LOCK_FREE, NONE },
        { WEIR_LOCK_SHOW, 0, WEIR_LOCK_GRANTED, NONE },
        { WEIR_LOCK_SHOW, 0, WEIR_LOCK_FREE, NONE },
        { WEIR_LOCK_RAISE, 0, WEIR_LOCK_GRANTED, NONE },
        { WEIR_LOCK_RAISE, 0, WEIR_LOCK_FREE, NONE },
        { WEIR_LOCK_ACQUIRE, WEIR_EDOWN, WEIR_LOCK_HELD, NONE },
        { WEIR_LOCK_RENEW, WEIR_EDOWN, WEIR_LOCK_FREE, NONE },
        { WEIR_LOCK_SHOW, WEIR_EUNKNOWN, WEIR_LOCK_FREE, UNKNOWN },
        { WEIR_LOCK_ACQUIRE, WEIR_EUNKNOWN, WEIR_LOCK_GRANTED, UNKNOWN },
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct weir_lock_op op = { .verb = cases[i].verb, .status = cases[i].status, .said = cases[i].said };
        struct weir_lock_manager_state counts = { 0 };
        for (uint64_t n = 1; n <= 2; n++) {
            weir_lock_manager_count(&counts, &op);
            assert_int_equal(counts.granted, cases[i].counted == GRANTED ? n : 0);
            assert_int_equal(counts.held, cases[i].counted == HELD ? n : 0);
            assert_int_equal(counts.lost, cases[i].counted == LOST ? n : 0);
            assert_int_equal(counts.unknown, cases[i].counted == UNKNOWN ? n : 0);
            assert_int_equal(counts.released, cases[i].counted == RELEASED ? n : 0);
        }
    }
}

/* How many locks are held the engine says, if it can. */
static void edges__what_the_engine_holds_is_told(void **state)
{
    (void)state;
    begin(&usual);
    for (locks_held = 0; locks_held < 3; locks_held++) {
        struct weir_lock_manager_state shown;
        weir_lock_manager_state(manager, &shown);
        assert_int_equal(shown.locks_known, locks_held > 0);
        if (shown.locks_known)
            assert_int_equal(shown.locks, locks_held);
    }
    weir_lock_manager_destroy_threadless(manager);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(edges__an_engine_is_idle_after_a_second),
        cmocka_unit_test(edges__who_went_during_a_turn_is_looked_at_only_if_it_is_not_over),
        cmocka_unit_test(edges__when_a_raise_is_asked_for_again),
        cmocka_unit_test(edges__what_a_holder_says_is_known_to_who_has_just_come),
        cmocka_unit_test(edges__the_next_turn_is_due_when_the_first_thing_is),
        cmocka_unit_test(edges__who_does_not_wait_is_answered_in_his_turn),
        cmocka_unit_test(edges__what_the_engine_could_not_say_is_not_told),
        cmocka_unit_test(edges__how_many_and_how_long_an_acquire_waits_for),
        cmocka_unit_test(edges__the_first_waits_for_company_no_longer_for_the_second),
        cmocka_unit_test(edges__a_batch_is_bounded),
        cmocka_unit_test(edges__the_heaps_have_room_for_all),
        cmocka_unit_test(edges__what_is_counted),
        cmocka_unit_test(edges__what_the_engine_holds_is_told),
        cmocka_unit_test(edges__whose_raises_are_counted),
        cmocka_unit_test(edges__who_is_next_needs_no_room),
        cmocka_unit_test(edges__a_probe_without_an_answer_says_nothing_of_the_holder),
        cmocka_unit_test(edges__who_is_found_to_hold_it_is_looked_for_among_those_who_wait),
    };
    return cmocka_run_group_tests_name("manager, edges", tests, NULL, NULL);
}
