/* SPDX-License-Identifier: Apache-2.0
 *
 * The in-flight flight. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/breaker/flight.h"
#include "random.h"

#define MS UINT64_C(1000000)
#define US UINT64_C(1000)
#define BUDGET (20 * MS)
#define SIZE_MAX_TEST 1000

static struct weir_flight flight;
static uint64_t now_ns;

static void begin(void)
{
    now_ns = 1000 * MS;
    weir_flight_init(&flight, SIZE_MAX_TEST);
    weir_flight_asked(&flight, BUDGET);
}

/* A full window is sent at once, and answered one round trip later. */
static void round_of(uint32_t count, uint64_t round_ns)
{
    uint64_t sent_ns = now_ns;
    for (uint32_t i = 0; i < count; i++)
        weir_flight_sent(&flight);
    now_ns += round_ns;
    for (uint32_t i = 0; i < count; i++)
        weir_flight_answered(&flight, sent_ns, now_ns);
}

static void flight__is_full_when_as_many_are_under_way_as_it_holds(void **state)
{
    (void)state;
    begin();
    for (uint32_t i = 0; i < WEIR_FLIGHT_START; i++) {
        assert_false(weir_flight_full(&flight));
        weir_flight_sent(&flight);
    }
    assert_true(weir_flight_full(&flight));
    weir_flight_lost(&flight);
    assert_false(weir_flight_full(&flight));
}

static void flight__doubles_until_a_queue_shows_then_grows_by_one_per_window(void **state)
{
    (void)state;
    begin();
    round_of(64, 1 * MS);
    assert_int_equal(flight.size, 128);
    round_of(128, 15 * MS); /* once, although all were slow */
    assert_int_equal(flight.size, 64);
    round_of(64, 1 * MS);
    assert_int_equal(flight.size, 65);
    round_of(65, 1 * MS);
    assert_int_equal(flight.size, 66);
}

static void flight__does_not_grow_while_it_is_not_used(void **state)
{
    (void)state;
    begin();
    for (int i = 0; i < 1000; i++)
        round_of(32, 1 * MS);
    assert_int_equal(flight.size, WEIR_FLIGHT_START);
    round_of(33, 1 * MS);
    assert_true(flight.size > WEIR_FLIGHT_START);
}

static void flight__stays_between_its_ends(void **state)
{
    (void)state;
    begin();
    for (int i = 0; i < 20; i++)
        round_of(flight.size, 1 * MS);
    assert_int_equal(flight.size, SIZE_MAX_TEST);
    for (int i = 0; i < 20; i++)
        round_of(flight.size, 30 * MS);
    assert_int_equal(flight.size, WEIR_FLIGHT_MIN);
}

/* The shortest round trip is the network's, and not held against the server. */
static void flight__judges_the_time_in_queues_by_a_quarter_and_a_half(void **state)
{
    (void)state;
    const struct {
        uint64_t round_ns;
        int grows; /* 1, 0, -1 */
    } cases[] = { { 12 * MS, 1 }, { 14 * MS - US, 1 }, { 14 * MS, 0 }, { 16 * MS, 0 }, { 16 * MS + US, -1 } };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        begin();
        round_of(1, 12 * MS); /* 8 ms are left for queues */
        uint32_t before = flight.size;
        round_of(before, cases[i].round_ns);
        assert_int_equal(((int)flight.size > (int)before) - ((int)flight.size < (int)before), cases[i].grows);
    }
}

static void flight__a_missed_deadline_cuts_before_the_answer_comes_and_once(void **state)
{
    (void)state;
    begin();
    uint64_t sent_ns = now_ns;
    for (int i = 0; i < 64; i++)
        weir_flight_sent(&flight);
    now_ns += BUDGET;
    for (int i = 0; i < 64; i++)
        weir_flight_missed(&flight, sent_ns, now_ns);
    assert_int_equal(flight.size, 32);
    assert_true(weir_flight_full(&flight)); /* they are still under way */
    now_ns += 5 * MS;
    for (int i = 0; i < 64; i++)
        weir_flight_answered(&flight, sent_ns, now_ns);
    assert_int_equal(flight.size, 32);
    assert_int_equal(flight.under_way, 0);
}

static void flight__a_deadline_missed_because_it_was_sent_late_says_nothing(void **state)
{
    (void)state;
    begin();
    weir_flight_sent(&flight);
    weir_flight_missed(&flight, now_ns, now_ns + 2 * MS);
    assert_int_equal(flight.size, WEIR_FLIGHT_START);
}

static void flight__what_cannot_be_answered_in_time_is_hopeless(void **state)
{
    (void)state;
    begin();
    round_of(64, 12 * MS); /* the first round trip is the shortest */
    round_of(64, 30 * MS);
    while (flight.size > 10)
        round_of(flight.size, 30 * MS);
    for (int i = 0; i < 100; i++)
        round_of(flight.size, 15 * MS);
    uint32_t size = flight.size;
    assert_false(weir_flight_hopeless(&flight, size - 1, BUDGET)); /* one round trip */
    assert_true(weir_flight_hopeless(&flight, 2 * size, BUDGET));  /* more than two */
    assert_false(weir_flight_hopeless(&flight, 2 * size, 4 * BUDGET));
    assert_true(weir_flight_hopeless(&flight, WEIR_FLIGHT_MIN, 14 * MS));
}

/* A full window is answered once per round trip: who is the 64th behind it waits for one, and then for its own. */
static void flight__the_wait_for_room_is_reckoned_to_the_one(void **state)
{
    (void)state;
    begin();
    flight.settled = true;
    flight.round_ns = MS;
    assert_int_equal(flight.size, 64);
    assert_false(weir_flight_hopeless(&flight, 127, 3 * MS));
    assert_true(weir_flight_hopeless(&flight, 128, 3 * MS));
    assert_false(weir_flight_hopeless(&flight, 63, MS + 30 * US));
    assert_true(weir_flight_hopeless(&flight, 64, MS + 30 * US)); /* the first behind a full one waits for one answer */
}

static void flight__a_few_are_always_sent_so_that_a_stall_is_forgotten(void **state)
{
    (void)state;
    begin();
    for (int i = 0; i < 20; i++)
        round_of(flight.size, 900 * MS);
    assert_true(weir_flight_hopeless(&flight, WEIR_FLIGHT_MIN, BUDGET));
    assert_false(weir_flight_hopeless(&flight, WEIR_FLIGHT_MIN - 1, BUDGET));
    for (int i = 0; i < 20; i++)
        round_of(WEIR_FLIGHT_MIN, 1 * MS);
    assert_false(weir_flight_hopeless(&flight, WEIR_FLIGHT_MIN, BUDGET));
}

static void flight__without_an_end_found_no_wait_is_known(void **state)
{
    (void)state;
    begin();
    round_of(64, 1 * MS);
    assert_false(weir_flight_hopeless(&flight, 100000, BUDGET));
}

/* Redis that stands still for 600 ms, then answers, and so on: the window is down to a few, though all that waits would
 * be answered within a second. */
static void flight__who_has_seconds_left_waits_through_stalls(void **state)
{
    (void)state;
    weir_flight_init(&flight, SIZE_MAX_TEST);
    weir_flight_asked(&flight, 10000 * MS);
    round_of(64, 1 * MS);
    while (flight.size > WEIR_FLIGHT_MIN)
        round_of(flight.size, 600 * MS);
    for (int i = 0; i < 20; i++)
        round_of(flight.size, 600 * MS);
    assert_false(weir_flight_hopeless(&flight, 1000, 10000 * MS));
    assert_true(weir_flight_hopeless(&flight, 1000, 1000 * MS));
    assert_true(weir_flight_hopeless(&flight, WEIR_FLIGHT_MIN, 500 * MS)); /* one round trip takes longer */
}

static void flight__short_times_to_answer_rule_soon_and_long_ones_later(void **state)
{
    (void)state;
    begin();
    weir_flight_init(&flight, SIZE_MAX_TEST);
    weir_flight_asked(&flight, UINT64_MAX);
    assert_int_equal(flight.budget_ns, WEIR_FLIGHT_BUDGET_MAX_NS);
    for (int i = 0; i < 60; i++)
        weir_flight_asked(&flight, BUDGET);
    assert_true(flight.budget_ns < 2 * BUDGET);
    for (int i = 0; i < 8; i++)
        weir_flight_asked(&flight, 1000 * MS);
    assert_true(flight.budget_ns < 4 * BUDGET);
}

/* ---- a server with a rate ---- */

enum { NODES = 3 };

/* One FIFO server that several windows share, each with more to send than it can: what is answered in time. */
struct world {
    uint64_t per_ns, network_ns; /* of one request; of the round trip */
    struct weir_flight windows[NODES];
    uint64_t free_ns; /* the server is */
    struct {
        uint64_t sent_ns, answered_ns;
        uint32_t node;
    } line[1 << 14];
    uint32_t head, tail;
    uint64_t in_time, late;
};
static struct world world;

static void world_step(uint64_t at_ns)
{
    while (world.head != world.tail && world.line[world.head % (1 << 14)].answered_ns <= at_ns) {
        uint64_t sent_ns = world.line[world.head % (1 << 14)].sent_ns;
        uint64_t answered_ns = world.line[world.head % (1 << 14)].answered_ns;
        weir_flight_answered(&world.windows[world.line[world.head++ % (1 << 14)].node], sent_ns, answered_ns);
        *(answered_ns - sent_ns <= BUDGET ? &world.in_time : &world.late) += 1;
    }
    for (uint32_t i = 0; i < NODES; i++) {
        weir_flight_asked(&world.windows[i], BUDGET);
        while (!weir_flight_full(&world.windows[i]) && !weir_flight_hopeless(&world.windows[i], 0, BUDGET)) {
            weir_flight_sent(&world.windows[i]);
            world.free_ns = (world.free_ns > at_ns ? world.free_ns : at_ns) + world.per_ns;
            world.line[world.tail % (1 << 14)].sent_ns = at_ns;
            world.line[world.tail % (1 << 14)].answered_ns = world.free_ns + world.network_ns;
            world.line[world.tail++ % (1 << 14)].node = i;
        }
    }
}

static void flight__overload_is_answered_at_the_servers_rate_and_in_time(void **state)
{
    (void)state;
    struct test_random random = { test_random_seed() };
    for (int run = 0; run < 50; run++) {
        world = (struct world){ .per_ns = 10 * US + test_random_below(&random, 200 * US),
                                .network_ns = 50 * US + test_random_below(&random, 4 * MS) };
        for (uint32_t i = 0; i < NODES; i++)
            weir_flight_init(&world.windows[i], 16384 / NODES);
        const uint64_t end_ns = 3000 * MS;
        for (uint64_t at_ns = 1; at_ns < end_ns; at_ns += 100 * US)
            world_step(at_ns);
        uint64_t could = end_ns / world.per_ns;
        print_message("%u us each, %u us away: %u of %u in time, %u late\n", (unsigned)(world.per_ns / US),
                      (unsigned)(world.network_ns / US), (unsigned)world.in_time, (unsigned)could,
                      (unsigned)world.late);
        assert_true(world.in_time > could * 8 / 10);
        assert_true(world.late < world.in_time / 50);
    }
}

static void flight__a_cut_window_counts_from_nothing(void **state)
{
    (void)state;
    begin();
    round_of(WEIR_FLIGHT_START, MS);
    weir_flight_sent(&flight);
    weir_flight_answered(&flight, now_ns, now_ns + BUDGET); /* cuts */
    now_ns += 2 * BUDGET;
    uint32_t size = flight.size;
    for (uint32_t i = 0; i < size; i++)
        weir_flight_sent(&flight);
    for (uint32_t i = 0; i < size; i++) {
        assert_int_equal(flight.size, size); /* all of a window have to come back before it grows */
        weir_flight_answered(&flight, now_ns, now_ns + MS);
    }
    assert_int_equal(flight.size, size + 1);
}

static void flight__knows_how_many_were_under_way_at_most(void **state)
{
    (void)state;
    begin();
    for (int i = 0; i < 3; i++)
        weir_flight_sent(&flight);
    weir_flight_lost(&flight);
    weir_flight_lost(&flight);
    weir_flight_sent(&flight);
    assert_int_equal(flight.under_way, 2);
    assert_int_equal(flight.under_way_most, 3);
}

/* What was good before it says nothing. */
static void flight__a_window_that_is_cut_again_counts_from_nothing(void **state)
{
    (void)state;
    begin();
    round_of(WEIR_FLIGHT_START, MS);
    round_of(flight.size, 15 * MS); /* cuts */
    uint32_t size = flight.size;
    now_ns += BUDGET;
    for (uint32_t i = 0; i < size; i++)
        weir_flight_sent(&flight);
    for (uint32_t i = 0; i < size - 1; i++)
        weir_flight_answered(&flight, now_ns, now_ns + MS);
    weir_flight_answered(&flight, now_ns, now_ns + BUDGET); /* cuts */
    assert_int_equal(flight.size, size / 2);
    assert_int_equal(flight.under_way_most, 0);
    now_ns += 2 * BUDGET;
    for (uint32_t i = 0; i < size / 2; i++)
        weir_flight_sent(&flight);
    for (uint32_t i = 0; i < size / 2; i++) {
        assert_int_equal(flight.size, size / 2);
        weir_flight_answered(&flight, now_ns, now_ns + MS);
    }
    assert_int_equal(flight.size, size / 2 + 1);
}

/* What a stall left is gone with the first answer that shows it is over: nothing is refused for it. */
static void flight__forgets_a_stall_when_it_is_over(void **state)
{
    (void)state;
    begin();
    for (int i = 0; i < 20; i++)
        round_of(1, MS);
    for (int i = 0; i < 3; i++)
        round_of(1, 1000 * MS);
    assert_true(weir_flight_hopeless(&flight, WEIR_FLIGHT_MIN, BUDGET));
    round_of(1, 2 * MS);
    assert_false(weir_flight_hopeless(&flight, WEIR_FLIGHT_MIN, BUDGET));
    assert_int_equal(flight.round_ns, 2 * MS);
    assert_int_equal(flight.spread_ns, 0);
    assert_int_equal(flight.shortest_ns, MS);
}

/* Once its end is found it takes a window of good answers to grow by one, and another to grow again. */
static void flight__each_window_grows_by_one(void **state)
{
    (void)state;
    begin();
    round_of(64, 1 * MS);
    round_of(flight.size, 15 * MS); /* cuts */
    for (int i = 0; i < 5; i++) {
        uint32_t size = flight.size;
        for (uint32_t good = 0; good < size; good++) {
            assert_int_equal(flight.size, size);
            for (uint32_t k = flight.under_way; k < size; k++)
                weir_flight_sent(&flight);
            weir_flight_answered(&flight, now_ns, now_ns + 1 * MS);
        }
        assert_int_equal(flight.size, size + 1);
    }
}

/* Once its end is found, too: that the window before was full says nothing of this one. */
static void flight__that_is_hardly_used_any_more_does_not_grow(void **state)
{
    (void)state;
    begin();
    round_of(64, 1 * MS);
    round_of(flight.size, 15 * MS); /* cuts */
    round_of(flight.size, 1 * MS);
    const uint32_t size = flight.size;
    for (uint32_t i = 0; i < 3 * size; i++)
        round_of(1, 1 * MS);
    assert_int_equal(flight.size, size);
}

/* Between a quarter and a half it neither grows nor is cut; but from then on it takes a window to grow by one. */
static void flight__that_shows_a_short_queue_has_found_its_end(void **state)
{
    (void)state;
    begin();
    round_of(1, 12 * MS);
    round_of(1, 15 * MS);
    assert_int_equal(flight.size, WEIR_FLIGHT_START);
    round_of(WEIR_FLIGHT_START, 12 * MS);
    assert_int_equal(flight.size, WEIR_FLIGHT_START + 1);
}

/* However short it is: what is slower never takes its place, nor does the end of a stall. */
static void flight__the_shortest_round_trip_stays(void **state)
{
    (void)state;
    for (uint64_t shortest_ns = 1; shortest_ns <= 3; shortest_ns++) {
        begin();
        round_of(1, shortest_ns);
        for (int i = 0; i < 20; i++)
            round_of(1, 10 * MS);
        assert_int_equal(flight.shortest_ns, shortest_ns);
        round_of(1, shortest_ns + 1);
        assert_int_equal(flight.round_ns, shortest_ns + 1);
        assert_int_equal(flight.shortest_ns, shortest_ns);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(flight__knows_how_many_were_under_way_at_most),
        cmocka_unit_test(flight__a_window_that_is_cut_again_counts_from_nothing),
        cmocka_unit_test(flight__forgets_a_stall_when_it_is_over),
        cmocka_unit_test(flight__that_is_hardly_used_any_more_does_not_grow),
        cmocka_unit_test(flight__is_full_when_as_many_are_under_way_as_it_holds),
        cmocka_unit_test(flight__doubles_until_a_queue_shows_then_grows_by_one_per_window),
        cmocka_unit_test(flight__does_not_grow_while_it_is_not_used),
        cmocka_unit_test(flight__stays_between_its_ends),
        cmocka_unit_test(flight__judges_the_time_in_queues_by_a_quarter_and_a_half),
        cmocka_unit_test(flight__a_missed_deadline_cuts_before_the_answer_comes_and_once),
        cmocka_unit_test(flight__a_deadline_missed_because_it_was_sent_late_says_nothing),
        cmocka_unit_test(flight__what_cannot_be_answered_in_time_is_hopeless),
        cmocka_unit_test(flight__the_wait_for_room_is_reckoned_to_the_one),
        cmocka_unit_test(flight__a_few_are_always_sent_so_that_a_stall_is_forgotten),
        cmocka_unit_test(flight__without_an_end_found_no_wait_is_known),
        cmocka_unit_test(flight__who_has_seconds_left_waits_through_stalls),
        cmocka_unit_test(flight__short_times_to_answer_rule_soon_and_long_ones_later),
        cmocka_unit_test(flight__overload_is_answered_at_the_servers_rate_and_in_time),
        cmocka_unit_test(flight__a_cut_window_counts_from_nothing),
        cmocka_unit_test(flight__each_window_grows_by_one),
        cmocka_unit_test(flight__that_shows_a_short_queue_has_found_its_end),
        cmocka_unit_test(flight__the_shortest_round_trip_stays),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
