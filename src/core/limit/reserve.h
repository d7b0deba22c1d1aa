/* SPDX-License-Identifier: Apache-2.0
 *
 * core/limit/reserve: what reservations do to one key's state. Units are charged as in any decision; what turns out not
 * to have been used is given back as far as time has not given it back already; what was used beyond is charged without
 * asking. When that is due is core/limit/reservation.h. Pure, as limit.h is.
 *
 * A key has one mark for all of its open reservations. Whoever keeps it shows it every state that the key is found in,
 * before that is changed (weir_reserve_see): then it knows how full a token bucket has been since the oldest of them.
 */
#pragma once

#include "core/limit/limit.h"

#define WEIR_RESERVE_SCALE (UINT64_C(1) << 32)

struct weir_reserve_mark {
    uint64_t low;   /* token_bucket: ticks from full, when it was fullest since the oldest open reservation */
    uint64_t scale; /* the worth of WEIR_RESERVE_SCALE units of the oldest: on_change: proportional changes it */
    uint64_t epoch; /* another one: the key was forgotten or reset, and what was reserved before counts no more */
};

/* Units that were charged together. */
struct weir_reserve_part {
    uint64_t units;
    uint64_t at; /* which window, or the time in a log; leaky_bucket: until when its queue then was */
};

/* `epoch` was never that of a key. The state is the one after the charge. */
void weir_reserve_mark_init(struct weir_reserve_mark *mark, const struct weir_limit *limit,
                            const struct weir_state *state, const struct weir_event *event, uint64_t epoch);
void weir_reserve_see(struct weir_reserve_mark *mark, const struct weir_limit *limit, const struct weir_state *state,
                      const struct weir_event *event);
/* Carries the mark over with the key's state. False: what was reserved before counts no more, and the mark is to be
 * made anew. */
bool weir_reserve_convert(struct weir_reserve_mark *mark, const struct weir_limit *from, const struct weir_limit *to,
                          enum weir_on_change on_change, const struct weir_event *event);

/* Units charged under one scale, in those of another: never more. */
uint64_t weir_reserve_rescale(uint64_t units, uint64_t then, uint64_t now);

/* Of `units` that have just been charged. */
struct weir_reserve_part weir_reserve_part_of(const struct weir_limit *limit, const struct weir_state *state,
                                              uint64_t units);

/* Gives up to `units` of what was charged at `at` back; how many that could be. Not for concurrency. */
uint64_t weir_reserve_back(struct weir_reserve_mark *mark, const struct weir_limit *limit, struct weir_state *state,
                           const struct weir_event *event, uint64_t at, uint64_t units);

/* Charges `units` whatever is left; how many that could be: see WEIR_LIMIT_DEBT. The log has room for
 * weir_limit_room(…, min(units, capacity)). */
uint64_t weir_reserve_more(const struct weir_limit *limit, struct weir_state *state, const struct weir_event *event,
                           uint64_t units);
