/* SPDX-License-Identifier: Apache-2.0
 *
 * Round trips are measured as TCP does it: smoothed, with their mean deviation; the shortest one stands for a server
 * without queues. grow() adds to the window, cut() halves it, and ignores what was sent before the last cut. Called by
 * limits/redis/server.c and request.c; the requests that wait are in net/redis_conn.c. */
#include "core/breaker/flight.h"

#include "base/checked.h"

#define SHORTER_WEIGHT 8 /* of a time to answer in the smoothed one: one eighth, */
#define LONGER_WEIGHT 256
#define SLOWER_WEIGHT 8 /* of a round trip; what a stall has left is forgotten faster than it was learned */
#define FASTER_WEIGHT 4
#define STALL 8   /* an answer so many times faster than expected ends what went before */
#define SPREADS 2 /* what is expected of an answer: the round trip and so many deviations (RFC 6298 waits for four) */

void weir_flight_init(struct weir_flight *flight, uint32_t size_max)
{
    weir_assert(size_max >= WEIR_FLIGHT_START);
    *flight = (struct weir_flight){ .size = WEIR_FLIGHT_START, .size_max = size_max };
}

/* value moved towards `to` by 1/weight of the way. */
static uint64_t approach(uint64_t value, uint64_t to, uint64_t up_weight, uint64_t down_weight)
{
    weir_assert(up_weight > 0 && down_weight > 0);
    return to < value ? value - (value - to) / down_weight : value + (to - value) / up_weight;
}

void weir_flight_asked(struct weir_flight *flight, uint64_t left_ns)
{
    left_ns = weir_min_u64(left_ns, WEIR_FLIGHT_BUDGET_MAX_NS);
    if (flight->budget_ns == 0)
        flight->budget_ns = left_ns;
    else
        flight->budget_ns = approach(flight->budget_ns, left_ns, LONGER_WEIGHT, SHORTER_WEIGHT);
}

bool weir_flight_full(const struct weir_flight *flight)
{
    return flight->under_way >= flight->size;
}

/* How long those take that must be answered before there is room. Until the window has settled the rate is not
 * known. Little's law: a full window is answered once per round trip. */
static uint64_t wait_for_room(const struct weir_flight *flight, uint64_t before)
{
    if (!flight->settled || before < flight->size)
        return 0;
    weir_assert(flight->size > 0);
    return weir_mul_div(flight->round_ns, before - flight->size + 1, flight->size);
}

bool weir_flight_hopeless(const struct weir_flight *flight, uint64_t ahead, uint64_t left_ns)
{
    uint64_t before = weir_add_sat(ahead, flight->under_way);
    if (before < WEIR_FLIGHT_MIN)
        return false;
    uint64_t answer_ns = weir_add_sat(flight->round_ns, weir_mul_sat(flight->spread_ns, SPREADS));
    if (answer_ns > left_ns)
        return true;
    /* A few stalls leave a window of a few and a long round trip, which together say nothing of the seconds to come. */
    return left_ns <= WEIR_FLIGHT_BUDGET_MAX_NS && wait_for_room(flight, before) > (left_ns - answer_ns) / 2;
}

/* ---- the size ---- */

static void begin_window(struct weir_flight *flight)
{
    flight->good = 0;
    flight->under_way_most = flight->under_way;
}

static void grow(struct weir_flight *flight)
{
    weir_assert(flight->size >= WEIR_FLIGHT_MIN && flight->size <= flight->size_max);
    bool used = flight->under_way_most > flight->size / 2;
    if (flight->settled && ++flight->good < flight->size)
        return;
    if (used && flight->size < flight->size_max)
        flight->size++;
    if (flight->settled)
        begin_window(flight);
}

static void cut(struct weir_flight *flight, uint64_t sent_ns, uint64_t now_ns)
{
    if (flight->settled && sent_ns < flight->cut_ns)
        return;
    flight->settled = true;
    flight->cut_ns = now_ns;
    flight->size = flight->size / 2 > WEIR_FLIGHT_MIN ? flight->size / 2 : WEIR_FLIGHT_MIN;
    weir_assert(flight->size <= flight->size_max);
    begin_window(flight);
}

/* The round trip that has lost 1/part of what it may lose. */
static uint64_t threshold(const struct weir_flight *flight, uint64_t part)
{
    weir_assert(part > 0);
    return flight->shortest_ns + weir_sub_sat(flight->budget_ns, flight->shortest_ns) / part;
}

/* ---- what becomes of requests ---- */

void weir_flight_sent(struct weir_flight *flight)
{
    flight->under_way++;
    if (flight->under_way > flight->under_way_most)
        flight->under_way_most = flight->under_way;
}

static void measure(struct weir_flight *flight, uint64_t round_ns)
{
    weir_assert(round_ns > 0);
    /* The first; or a stall is over, and what it left would have the next ones refused at an engine that is well. */
    if (flight->round_ns == 0 || round_ns < flight->round_ns / STALL) {
        flight->shortest_ns = flight->shortest_ns > 0 ? weir_min_u64(flight->shortest_ns, round_ns) : round_ns;
        flight->round_ns = round_ns;
        flight->spread_ns = 0;
        return;
    }
    uint64_t off_ns = round_ns > flight->round_ns ? round_ns - flight->round_ns : flight->round_ns - round_ns;
    flight->shortest_ns = weir_min_u64(flight->shortest_ns, round_ns);
    flight->spread_ns = approach(flight->spread_ns, off_ns, FASTER_WEIGHT, FASTER_WEIGHT);
    flight->round_ns = approach(flight->round_ns, round_ns, SLOWER_WEIGHT, FASTER_WEIGHT);
    weir_assert(flight->shortest_ns <= flight->round_ns);
}

void weir_flight_answered(struct weir_flight *flight, uint64_t sent_ns, uint64_t now_ns)
{
    uint64_t round_ns = weir_max_u64(weir_sub_sat(now_ns, sent_ns), 1);
    weir_flight_lost(flight);
    measure(flight, round_ns);
    weir_assert(flight->shortest_ns > 0 && flight->shortest_ns <= round_ns);
    if (round_ns > threshold(flight, 2))
        cut(flight, sent_ns, now_ns);
    else if (round_ns < threshold(flight, 4))
        grow(flight);
    else
        flight->settled = true;
}

void weir_flight_missed(struct weir_flight *flight, uint64_t sent_ns, uint64_t now_ns)
{
    if (weir_sub_sat(now_ns, sent_ns) > threshold(flight, 2))
        cut(flight, sent_ns, now_ns);
}

void weir_flight_lost(struct weir_flight *flight)
{
    weir_assert(flight->under_way > 0);
    weir_assert(flight->under_way <= flight->under_way_most);
    flight->under_way--;
}
