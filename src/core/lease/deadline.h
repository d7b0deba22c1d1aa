/* SPDX-License-Identifier: Apache-2.0
 *
 * The holder's half of a lease: until when it may believe that the lock is its own, when to renew, when to stop. Pure.
 *
 * All from the time of sending, never of receiving: the answer may have been long on the way. The margin, max(lease /
 * 10, 500 ms), covers clocks that run at different rates. Times are of the holder's own monotonic clock, which counts
 * while the machine sleeps (CLOCK_BOOTTIME).
 *
 * Source: docs/semantics-tests.md, "Locks"; Gray and Cheriton, "Leases", SOSP 1989, section 5. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define WEIR_LEASE_TTL_MAX_NS UINT64_C(86400000000000) /* one day */
#define WEIR_LEASE_MARGIN_MIN_NS UINT64_C(500000000)

struct weir_deadline {
    uint64_t sent_ns;  /* of the newest request that was granted */
    uint64_t lease_ns; /* as returned, not as asked */
    uint64_t end_ns;   /* sent + lease - margin; 0: lost, for good */
};

/* A grant, or a renewal, whose request was sent at sent_ns. A later end replaces an earlier one, never the reverse;
 * after weir_deadline_lose, or once `now_ns` is past the end, nothing brings it back: false. `begin` is for the first
 * grant. */
void weir_deadline_begin(struct weir_deadline *deadline, uint64_t sent_ns, uint64_t lease_ns);
bool weir_deadline_extend(struct weir_deadline *deadline, uint64_t sent_ns, uint64_t lease_ns, uint64_t now_ns);
void weir_deadline_lose(struct weir_deadline *deadline);

bool weir_deadline_mine(const struct weir_deadline *deadline, uint64_t now_ns);
uint64_t weir_deadline_left_ns(const struct weir_deadline *deadline, uint64_t now_ns);

/* When to send the next renewal: a third of the lease after the last was sent. */
uint64_t weir_deadline_renew_at_ns(const struct weir_deadline *deadline);

/* When `weir lock` sends TERM: end - lease / 4; KILL is at the end. */
uint64_t weir_deadline_warn_at_ns(const struct weir_deadline *deadline);
