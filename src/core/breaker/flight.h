/* SPDX-License-Identifier: Apache-2.0
 *
 * An in-flight window: how many requests may be under way at an engine at once, so that what is offered beyond its rate
 * waits here, where it can still be refused with nothing charged, and not there, where it is charged and answered too
 * late. This is adaptive concurrency limiting (Netflix's concurrency-limits), done as TCP does it (AIMD: Chiu and Jain,
 * 1989), by the time spent in queues instead of by loss (Brakmo and Peterson, "TCP Vegas", 1994).
 *
 * What a request may lose in queues is its time to answer less the shortest round trip seen. While answers have lost
 * less than a quarter of it, the window grows: by one per answer until the first that lost more, then by one per window
 * answered; and only if more than half of it is used. An answer that lost more than half of it cuts the window in two,
 * once per round trip.
 *
 * Of requests with different times to answer the short ones rule, soon after they come.
 * Pure: no clock, no memory. Thread rule: plain values. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define WEIR_FLIGHT_MIN 4
#define WEIR_FLIGHT_START 64
#define WEIR_FLIGHT_BUDGET_MAX_NS UINT64_C(1000000000) /* a longer time to answer counts as this */

struct weir_flight {
    uint32_t size, size_max; /* WEIR_FLIGHT_MIN to size_max may be under way */
    uint32_t under_way;      /* that are */
    uint32_t under_way_most; /* in this window; until settled: ever */
    uint32_t good;           /* answers soon enough in this window */
    bool settled;            /* an answer has lost more than a quarter */
    uint64_t cut_ns;         /* when: answers to what was sent before say nothing new */
    uint64_t shortest_ns;    /* round trip; 0 = none yet, as the next two */
    uint64_t round_ns;       /* smoothed */
    uint64_t spread_ns;      /* mean deviation from it */
    uint64_t budget_ns;      /* the time to answer, smoothed: shorter ones count at once, longer ones slowly */
};

void weir_flight_init(struct weir_flight *flight, uint32_t size_max); /* size_max >= WEIR_FLIGHT_START */

/* A request wants to be sent and answered within left_ns. */
void weir_flight_asked(struct weir_flight *flight, uint64_t left_ns);

bool weir_flight_full(const struct weir_flight *flight);

/* Whether a request that has left_ns would be answered too late, with `ahead` others waiting before it, which may take
 * half of the time that is to spare, or all of it if left_ns is more than WEIR_FLIGHT_BUDGET_MAX_NS. Never while fewer
 * than WEIR_FLIGHT_MIN are before it, so that the round trip is measured whatever was measured before. */
bool weir_flight_hopeless(const struct weir_flight *flight, uint64_t ahead, uint64_t left_ns);

/* For each one that is sent: `sent`, and later `answered` (in time or late) or `lost` (no answer will come). `missed`
 * besides, when its deadline passes before that. */
void weir_flight_sent(struct weir_flight *flight);
void weir_flight_answered(struct weir_flight *flight, uint64_t sent_ns, uint64_t now_ns);
void weir_flight_missed(struct weir_flight *flight, uint64_t sent_ns, uint64_t now_ns);
void weir_flight_lost(struct weir_flight *flight);
