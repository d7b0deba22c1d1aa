/* SPDX-License-Identifier: Apache-2.0
 *
 * `throttle: hold`: an answer waits in the server until its turn in the leaky bucket.
 *
 * How many wait (hold_max, per limit, over all loops) and for how long (hold_timeout) is bounded. What would pass
 * either
 * bound is refused at once and its charge given back. Nobody goes before the nanosecond at which the bucket says it is
 * due. Timers are late, though, and never equally late: so that two outputs of one key are not closer than the time
 * that the first one takes in the bucket, the time of a key's last output is remembered (hold_lane.h) and the next one
 * waits for it, where that time is at least WEIR_HOLD_GAP_MIN_NS; below that timers are too coarse to shape anything.
 *
 * A client that goes before its turn gets its charge back only if nothing queued after it: the turns of those behind it
 * are promised already. */
#ifndef WEIR_SERVE_HOLD_H
#define WEIR_SERVE_HOLD_H

#include "serve/decide.h"

struct weir_hold_waiter;

/* Shared by the loops: who waits, and when each key had its last output. */
struct weir_holds;
int weir_holds_create(struct weir_holds **ret_holds); /* WEIR_ENOMEM */
void weir_holds_destroy(struct weir_holds *holds);    /* NULL is allowed */

/* Judges an admitted outcome, just charged, of a caller that can wait. Its answer may go at once: nothing changes. It
 * has to wait: outcome->waiter is set, and the numbers are those of its turn. It may not wait: it becomes a refusal and
 * the charge is given back. */
void weir_hold_judge(struct weir_loop *loop, const struct weir_time *time, struct weir_outcome *outcome);

/* The answer was written to `conn`, which had `pending_before` bytes to send (weir_conn_pending): takes it back until
 * its turn. No further request is taken from `conn` meanwhile. */
void weir_hold_begin(struct weir_hold_waiter *waiter, struct weir_conn *conn, size_t pending_before);

/* The connection of a waiter ends. */
void weir_hold_leave(struct weir_conn *conn);

/* The connection of a waiter that has not begun ends. NULL is allowed. */
void weir_hold_drop(struct weir_hold_waiter *waiter);

/* ---- reading ---- */

/* The shortest time seen between two outputs of one key of a limit, one of them held; 0 = none yet. */
uint64_t weir_holds_gap_min_ns(struct weir_holds *holds, uint32_t slot);
uint32_t weir_holds_waiting(struct weir_holds *holds, uint32_t slot);

#endif
