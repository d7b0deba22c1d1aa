/* SPDX-License-Identifier: Apache-2.0
 *
 * To what a lock service raises its incarnation, how long a raise waits, and which marks may raise it. Pure.
 *
 * Numbers strictly increase within an incarnation only as long as the store remembers the last one. Whenever it may
 * have gone back (a start, a restored backup, a failover that lost the tail, another cluster under the same address),
 * the incarnation rises first, and all tokens after it are greater than all before. What cannot be seen from inside, a
 * full restore with no restart and no change of witness, is raised by hand (`weir lock restored`, with the right
 * `reset`) or learned from a resource.
 *
 * The witness is what the service last knew about its store, kept outside the store. Whether the store may have gone
 * back is asked here for etcd alone; SQLite decides that in locks/sqlite_store.c, PostgreSQL in
 * locks/postgres_run.c. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define WEIR_INCARNATION_MAX (UINT64_C(1) << 62) /* a mark above it is no mark of ours */

struct weir_witness {
    uint64_t system;   /* which store: cluster id, system identifier, random id of the database file */
    uint64_t timeline; /* PostgreSQL's; 0 where there is none */
    uint64_t position; /* only grows while the store goes forward: revision, log position, number of the last grant */
    uint64_t incarnation; /* the highest that this service has granted under */
};

/* Whether what is seen now may have forgotten grants that the witness knows of. */
bool weir_witness_differs(const struct weir_witness *known, const struct weir_witness *now);

/* max(stored + 1, wall seconds, seen + 1): `seen` is the highest incarnation at any resource or of the witness, 0 if
 * none. At most WEIR_INCARNATION_MAX; 0 when `stored` or `seen` is there already (refuse then). */
uint64_t weir_incarnation_raise(uint64_t stored, uint64_t wall_s, uint64_t seen);

/* How long a raise to `raised` waits: none that is above the clock is made before its next second. So there is one of
 * them a second at most, whatever starts or fails in a circle, and the clock stays the bound that every node knows.
 * `clock_s` is the highest clock that is known, `wall_ns` our own. 0: it does not wait. */
uint64_t weir_incarnation_wait_ns(uint64_t raised, uint64_t clock_s, uint64_t wall_ns);

/* Whether a mark `seen` may raise a service that is at `own`. One far above all that clocks and restarts lead to is
 * refused: it would use up what the service has to rise in, and no start could ever raise it again. */
bool weir_incarnation_leaves_room(uint64_t own, uint64_t seen);

/* Whether `seen` may raise a service that is at `own`, for a caller without the right `reset`: at most a day above the
 * clock. Real marks do not come there by starts and faults; one that was made up would burn all the incarnations
 * between, which nobody gets back. */
#define WEIR_INCARNATION_AHEAD_MAX_S UINT64_C(86400)
bool weir_incarnation_within_a_day(uint64_t own, uint64_t wall_s, uint64_t seen);
