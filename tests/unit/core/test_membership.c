/* SPDX-License-Identifier: Apache-2.0
 *
 * core/share/membership: alive, suspect, dead, and back; what others hear counts. */
#include "core/share/membership.h"
#include "fixture.h"

static struct weir_membership members;

static size_t tick(uint64_t now_ns, struct weir_membership_send *ret_sends)
{
    return weir_membership_tick(&members, now_ns, ret_sends);
}

static void init(uint32_t nodes)
{
    weir_membership_init(&members, nodes, 0, SECOND, 5 * SECOND, T0);
    for (uint32_t j = 1; j < nodes; j++)
        weir_membership_heard(&members, j, T0);
}

static void test_nobody_is_known_at_the_start(void **state)
{
    (void)state;
    weir_membership_init(&members, 3, 1, SECOND, 5 * SECOND, T0);
    for (uint32_t j = 0; j < 3; j++) {
        assert_int_equal(members.node[j].since_ns, T0);
        assert_int_equal(members.node[j].state, j == 1 ? WEIR_MEMBERSHIP_SELF : WEIR_MEMBERSHIP_UNKNOWN);
    }
    weir_membership_told(&members, 3, T0 + SECOND); /* there is none */
    assert_int_equal(members.node[3].heard_ns, 0);
    assert_int_equal(members.node[3].state, WEIR_MEMBERSHIP_UNKNOWN);
}

static void test_a_silent_node_is_pinged_then_through_others_then_suspected_then_dead(void **state)
{
    (void)state;
    struct weir_membership_send sends[WEIR_MEMBERSHIP_SENDS];
    init(3);
    assert_int_equal(tick(T0 + SECOND / 2, sends), 0);
    weir_membership_heard(&members, 2, T0 + SECOND / 2);
    assert_int_equal(tick(T0 + SECOND, sends), 1);
    assert_true(sends[0].to == 1 && sends[0].ping);
    weir_membership_heard(&members, 2, T0 + 3 * SECOND / 2);
    assert_int_equal(tick(T0 + 3 * SECOND / 2, sends), 1);
    assert_true(sends[0].to == 2 && sends[0].ask == 1 && !sends[0].ping);
    assert_int_equal(members.node[1].state, WEIR_MEMBERSHIP_ALIVE);
    weir_membership_heard(&members, 2, T0 + 2 * SECOND);
    assert_true(members.node[2].since_ns == T0); /* it has been alive all the time */
    tick(T0 + 2 * SECOND, sends);
    assert_int_equal(members.node[1].state, WEIR_MEMBERSHIP_SUSPECT);
    tick(T0 + 6 * SECOND, sends);
    assert_int_equal(members.node[1].state, WEIR_MEMBERSHIP_SUSPECT);
    tick(T0 + 7 * SECOND, sends);
    assert_int_equal(members.node[1].state, WEIR_MEMBERSHIP_DEAD);
    assert_string_equal(weir_membership_name(members.node[1].state), "dead");
    weir_membership_heard(&members, 1, T0 + 8 * SECOND);
    assert_int_equal(members.node[1].state, WEIR_MEMBERSHIP_ALIVE);
}

static void test_what_others_hear_refutes_a_suspicion(void **state)
{
    (void)state;
    struct weir_membership_send sends[WEIR_MEMBERSHIP_SENDS];
    init(3);
    tick(T0 + SECOND, sends);
    weir_membership_told(&members, 1, T0 + 3 * SECOND / 2);
    tick(T0 + 2 * SECOND, sends);
    assert_int_equal(members.node[1].state, WEIR_MEMBERSHIP_ALIVE);
}

/* A ping that was answered is over: the next silence is pinged first, and not suspected at once. */
static void test_who_answered_a_ping_is_pinged_anew(void **state)
{
    (void)state;
    struct weir_membership_send sends[WEIR_MEMBERSHIP_SENDS];
    init(2);
    assert_int_equal(tick(T0 + SECOND, sends), 1);
    weir_membership_heard(&members, 1, T0 + SECOND + MS);
    assert_int_equal(tick(T0 + 2 * SECOND, sends), 0);
    assert_int_equal(tick(T0 + 2 * SECOND + MS, sends), 1);
    assert_true(sends[0].to == 1 && sends[0].ping);
    assert_int_equal(members.node[1].state, WEIR_MEMBERSHIP_ALIVE);
}

/* And others are asked about it anew. */
static void test_others_are_asked_about_each_silence(void **state)
{
    (void)state;
    struct weir_membership_send sends[WEIR_MEMBERSHIP_SENDS];
    init(3);
    assert_int_equal(members.node[1].since_ns, T0);
    for (uint64_t now_ns = T0; now_ns < T0 + 10 * SECOND; now_ns += 2 * SECOND) {
        weir_membership_heard(&members, 1, now_ns);
        weir_membership_heard(&members, 2, now_ns + SECOND);
        assert_int_equal(tick(now_ns + SECOND, sends), 1);
        assert_true(sends[0].to == 1 && sends[0].ping);
        assert_int_equal(tick(now_ns + 3 * SECOND / 2, sends), 1);
        assert_true(sends[0].to == 2 && sends[0].ask == 1);
    }
}

static void test_who_asked_is_told_once_and_not_late(void **state)
{
    (void)state;
    init(4);
    weir_membership_asked(&members, 2, 1, T0);
    weir_membership_asked(&members, 3, 1, T0);
    assert_int_equal(weir_membership_heard(&members, 1, T0 + SECOND / 2), 1 << 2 | 1 << 3);
    assert_int_equal(weir_membership_heard(&members, 1, T0 + SECOND / 2), 0);
    weir_membership_asked(&members, 2, 1, T0 + SECOND);
    assert_int_equal(weir_membership_heard(&members, 1, T0 + 2 * SECOND), 1 << 2);
    weir_membership_asked(&members, 2, 1, T0 + SECOND);
    assert_int_equal(weir_membership_heard(&members, 1, T0 + 2 * SECOND + 1), 0);
    weir_membership_asked(&members, 2, 99, T0); /* nobody: changes nothing */
    weir_membership_told(&members, 99, T0);
}

/* Whom it asks for help it asks once, however few there are. */
static void test_a_helper_is_asked_once(void **state)
{
    (void)state;
    struct weir_membership_send sends[WEIR_MEMBERSHIP_SENDS];
    for (uint32_t nodes = 2; nodes < 8; nodes++) {
        const uint32_t silent = nodes - 1;
        init(nodes);
        for (uint32_t j = 1; j < silent; j++)
            weir_membership_heard(&members, j, T0 + SECOND);
        tick(T0 + SECOND, sends);
        for (uint32_t j = 1; j < silent; j++)
            weir_membership_heard(&members, j, T0 + 3 * SECOND / 2);
        size_t count = tick(T0 + 3 * SECOND / 2, sends), asked = 0, seen = 0;
        for (size_t i = 0; i < count; i++)
            if (sends[i].ask == silent) {
                assert_false(seen >> sends[i].to & 1);
                seen |= (size_t)1 << sends[i].to;
                asked++;
            }
        assert_int_equal(asked, nodes - 2 < WEIR_MEMBERSHIP_HELPERS ? nodes - 2 : WEIR_MEMBERSHIP_HELPERS);
    }
}

/* However many are silent, a tick sends a bounded number, and every node's turn comes. */
static void test_a_tick_is_bounded(void **state)
{
    (void)state;
    struct weir_membership_send sends[WEIR_MEMBERSHIP_SENDS];
    bool pinged[WEIR_MEMBERSHIP_MAX] = { false };
    weir_membership_init(&members, WEIR_MEMBERSHIP_MAX, 0, SECOND, 5 * SECOND, T0);
    for (uint64_t now_ns = T0 + SECOND; now_ns < T0 + 3 * SECOND; now_ns += 100 * MS) {
        size_t count = tick(now_ns, sends);
        assert_true(count <= WEIR_MEMBERSHIP_SENDS);
        for (size_t i = 0; i < count; i++)
            pinged[sends[i].to] |= sends[i].ping;
    }
    for (uint32_t j = 1; j < WEIR_MEMBERSHIP_MAX; j++)
        assert_true(pinged[j]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nobody_is_known_at_the_start),
        cmocka_unit_test(test_a_silent_node_is_pinged_then_through_others_then_suspected_then_dead),
        cmocka_unit_test(test_what_others_hear_refutes_a_suspicion),
        cmocka_unit_test(test_who_answered_a_ping_is_pinged_anew),
        cmocka_unit_test(test_others_are_asked_about_each_silence),
        cmocka_unit_test(test_who_asked_is_told_once_and_not_late),
        cmocka_unit_test(test_a_helper_is_asked_once),
        cmocka_unit_test(test_a_tick_is_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
