/* SPDX-License-Identifier: Apache-2.0
 *
 * One formula, end = sent + lease - margin, and comparisons with it; an end of 0 is a lease that is lost. Called by
 * client/lock.c, which has the clock, the mutex and the thread that renews, and by the simulated clients
 * (sim/locks_client.c). */
#include "core/lease/deadline.h"

#include "base/checked.h"

static uint64_t end_of(uint64_t sent_ns, uint64_t lease_ns)
{
    uint64_t margin_ns = weir_max_u64(lease_ns / 10, WEIR_LEASE_MARGIN_MIN_NS);
    return weir_add_sat(sent_ns, weir_sub_sat(lease_ns, margin_ns));
}

void weir_deadline_begin(struct weir_deadline *deadline, uint64_t sent_ns, uint64_t lease_ns)
{
    *deadline = (struct weir_deadline){ sent_ns, lease_ns, end_of(sent_ns, lease_ns) };
    weir_assert(deadline->end_ns >= sent_ns && deadline->end_ns - sent_ns <= lease_ns);
}

bool weir_deadline_extend(struct weir_deadline *deadline, uint64_t sent_ns, uint64_t lease_ns, uint64_t now_ns)
{
    if (!weir_deadline_mine(deadline, now_ns)) {
        weir_deadline_lose(deadline);
        return false;
    }
    if (end_of(sent_ns, lease_ns) > deadline->end_ns)
        weir_deadline_begin(deadline, sent_ns, lease_ns);
    weir_assert(deadline->end_ns > now_ns && deadline->end_ns >= end_of(sent_ns, lease_ns));
    return true;
}

void weir_deadline_lose(struct weir_deadline *deadline)
{
    deadline->end_ns = 0;
}

bool weir_deadline_mine(const struct weir_deadline *deadline, uint64_t now_ns)
{
    return now_ns < deadline->end_ns;
}

uint64_t weir_deadline_left_ns(const struct weir_deadline *deadline, uint64_t now_ns)
{
    return weir_sub_sat(deadline->end_ns, now_ns);
}

uint64_t weir_deadline_renew_at_ns(const struct weir_deadline *deadline)
{
    return weir_add_sat(deadline->sent_ns, deadline->lease_ns / 3);
}

uint64_t weir_deadline_warn_at_ns(const struct weir_deadline *deadline)
{
    return weir_sub_sat(deadline->end_ns, deadline->lease_ns / 4);
}
