/* SPDX-License-Identifier: Apache-2.0
 *
 * `throttle: hold`: an answer waits in the server until its turn in the leaky bucket.
 *
 * The bucket's own times are the schedule: an answer is due when the level that its charge found has drained, so turns
 * come in the order of the charges and as far apart as the bucket says, whichever loops they wait in. Nobody goes
 * before the nanosecond at which it is due; a timer that is late delays its own answer and no other.
 *
 * How many wait (hold_max, per limit, over all loops), in how much memory (server.hold_bytes_max) and for how long
 * (hold_timeout) is bounded. A place is taken before the request is decided, and how long it may wait is judged by the
 * decision itself, under the key's lock: what may not wait is refused there and charges nothing.
 *
 * A client that goes before its turn gets its charge back only if nothing queued after it: the turns of those behind it
 * are promised already. When all behind it have gone too, it does. */
#pragma once

#include "serve/decide.h"

struct weir_hold_waiter;

/* Shared by the loops: who waits. */
struct weir_holds;
int weir_holds_create(struct weir_holds **ret_holds); /* WEIR_ENOMEM */
void weir_holds_destroy(struct weir_holds *holds);    /* NULL is allowed; after all loops */

/* A match of a caller that can wait, before it is decided: sets how long its charges may be delayed, and takes a place
 * in outcome->waiter where one may be needed. A peek takes none. */
void weir_hold_prepare(struct weir_loop *loop, bool peek, struct weir_outcome *outcome);

/* After it was decided at `time`. Its answer goes at once: outcome->waiter is NULL. It has to wait: outcome->waiter is
 * set, and the numbers are those of its turn. */
void weir_hold_judge(const struct weir_time *time, struct weir_outcome *outcome);

/* Its place is not needed, or no longer. NULL is allowed. */
void weir_hold_free(struct weir_hold_waiter *waiter);

/* What the answer tells of the permit that was taken with it: its lease begins with its turn, or it is refused then. */
void weir_hold_tells_lease(struct weir_hold_waiter *waiter, uint64_t lease_ns);

/* The answer was written to `conn`, which had `pending_before` bytes to send (weir_conn_pending): takes it back until
 * its turn. No further request is taken from `conn` meanwhile. */
void weir_hold_begin(struct weir_hold_waiter *waiter, struct weir_conn *conn, size_t pending_before);

/* The client of a waiter will send no more. Whether it has gone or still reads cannot be seen, but by sending: it is
 * sent the first byte of its answer, which tells it nothing, and which a client that has gone resets. */
void weir_hold_probe(struct weir_conn *conn);

/* Whether the answer that this connection waits for tells of a permit: its lease begins, in memory, with its turn. */
bool weir_hold_is_leased(const struct weir_conn *conn);

/* The connection of a waiter ends. */
void weir_hold_leave(struct weir_conn *conn);

/* The connection of a waiter that has not begun ends. NULL is allowed. */
void weir_hold_drop(struct weir_hold_waiter *waiter);

/* ---- reading ---- */

uint32_t weir_holds_waiting(struct weir_holds *holds, uint32_t slot);
size_t weir_holds_bytes(struct weir_holds *holds);
