/* SPDX-License-Identifier: Apache-2.0
 *
 * A doubly linked list through the waiters, and beside it what the store said last of the lock. An answer that names a
 * holder is kept by learn(); ask_later() computes when the first is asked for again: when the lease ends or at the next
 * poll, within the bounds of waiting.h. Called by locks/manager_queue.c and manager_batch.c. */
#include "core/lease/waiting.h"

#include "base/assert.h"
#include "base/checked.h"

static bool is_over(const struct weir_waiter *waiter, uint64_t now_ns)
{
    return waiter->until_ns <= now_ns;
}

static bool is_one_asked(const struct weir_waiting *waiting)
{
    return waiting->asked != NULL;
}

bool weir_waiting_held_by(const struct weir_waiting *waiting, struct weir_owner owner)
{
    return waiting->held && weir_owner_equal((struct weir_owner){ waiting->holder, waiting->holder_size }, owner);
}

/* ---- who comes ---- */

/* If others write to the store too, its word about the holder is trusted for poll_ns; else for good. */
static bool may_hold(const struct weir_waiting *waiting, const struct weir_waiter *waiter, uint64_t now_ns)
{
    if (waiter->refuted || waiter->seen > waiting->token.incarnation)
        return false;
    if (is_one_asked(waiting) && weir_owner_equal(waiting->asked->owner, waiter->owner))
        return true;
    bool stale = waiting->poll_ns > 0 && waiting->told && weir_sub_sat(now_ns, waiting->known_ns) >= waiting->poll_ns;
    return stale || weir_waiting_held_by(waiting, waiter->owner);
}

enum weir_waiting_fate weir_waiting_come(const struct weir_waiting *waiting, const struct weir_waiter *waiter,
                                         uint64_t now_ns)
{
    weir_assert(waiting->count > 0 && waiter->phase == WEIR_WAITER_COME);
    if (may_hold(waiting, waiter, now_ns))
        return WEIR_WAITING_PROBED;
    bool down = waiting->down && !is_one_asked(waiting); /* it may be long ago, and the store is about to say more */
    bool known = waiting->told && (down || (waiting->held && waiting->held_until_ns > now_ns));
    return is_over(waiter, now_ns) && known ? WEIR_WAITING_ENDS : WEIR_WAITING_STAYS;
}

enum weir_waiting_fate weir_waiting_join(struct weir_waiting *waiting, struct weir_waiter *waiter,
                                         struct weir_waiter *before, uint64_t now_ns)
{
    before = before ? before : waiting->last;
    weir_assert((waiting->first == NULL) == (waiting->count == 0));
    weir_assert(!before || weir_waiter_is_queued(before));
    weir_waiter_move(waiter, WEIR_WAITER_NEW);
    waiter->previous = before;
    waiter->next = before ? before->next : NULL;
    waiter->learned = waiting->learned;
    *(waiter->next ? &waiter->next->previous : &waiting->last) = waiter;
    *(before ? &before->next : &waiting->first) = waiter;
    waiting->count++;
    waiting->new_count++;
    if (is_over(waiter, now_ns))
        waiting->told = false; /* nothing may be said of it before the next answer */
    if (!waiting->told && !is_one_asked(waiting))
        waiting->ask_ns = 0; /* all before it may be asked for later */
    return waiting->told ? WEIR_WAITING_BEGINS : WEIR_WAITING_STAYS;
}

void weir_waiting_begin(struct weir_waiting *waiting, struct weir_waiter *waiter)
{
    weir_assert(waiting->new_count > 0);
    weir_waiter_move(waiter, WEIR_WAITER_WAITING);
    waiting->new_count--;
}

/* ---- who is next ---- */

struct weir_waiter *weir_waiting_ask(struct weir_waiting *waiting, uint64_t now_ns)
{
    struct weir_waiter *next = waiting->first;
    uint64_t later_ns = UINT64_MAX - 1;
    weir_assert(next && !is_one_asked(waiting));
    for (; next && next->later_ns > now_ns; next = next->next)
        later_ns = weir_min_u64(later_ns, next->later_ns);
    if (!next) {
        waiting->told = false; /* whoever comes now need not wait for them */
        waiting->ask_ns = later_ns;
        return NULL;
    }
    if (weir_waiter_is_asked(next)) {
        waiting->ask_ns = weir_add_sat(now_ns, WEIR_WAITING_AGAIN_MIN_NS);
        return NULL;
    }
    weir_waiter_ask(next);
    next->later_ns = 0;
    waiting->asked = next;
    waiting->ask_ns = UINT64_MAX;
    return next;
}

static void learn(struct weir_waiting *waiting, const struct weir_waiting_answer *answer, uint64_t now_ns)
{
    const char *holder = answer->holder.bytes;
    weir_assert(answer->holder.size <= sizeof waiting->holder);
    waiting->down = false;
    waiting->told = waiting->held = true;
    waiting->known_ns = now_ns;
    waiting->learned++;
    waiting->held_until_ns = weir_add_sat(now_ns, answer->lease_ns);
    waiting->token = answer->token;
    waiting->holder_size = answer->holder.size;
    for (size_t i = 0; i < answer->holder.size; i++)
        waiting->holder[i] = holder[i];
}

/* What its owner is granted after another held the lock is new, if the other held it while it was here. What was known
 * before it came says so only where nobody else writes to the store: its owner may have been granted the lock since, by
 * another weir. The first of the others tells most: an attempt of unknown fate may have been granted behind him, and
 * stand again after a failover that later grants did not survive. It is kept in the waiter, for one who is put off
 * leaves the queue. */
static void note_holder(const struct weir_waiting *waiting, struct weir_waiter *waiter)
{
    if (waiting->holder_size == 0 || (waiting->poll_ns > 0 && waiting->learned == waiter->learned))
        return;
    if (weir_owner_equal((struct weir_owner){ waiting->holder, waiting->holder_size }, waiter->owner))
        waiter->behind = (struct weir_token){ 0 };
    else if (waiter->behind.number == 0)
        waiter->behind = waiting->token;
}

/* By what is known of the holder. */
static void ask_later(struct weir_waiting *waiting, uint64_t now_ns)
{
    uint64_t at_ns = weir_min_u64(waiting->held_until_ns, weir_add_sat(now_ns, WEIR_WAITING_AGAIN_MAX_NS));
    if (waiting->poll_ns > 0)
        at_ns = weir_min_u64(at_ns, weir_add_sat(now_ns, waiting->poll_ns));
    waiting->ask_ns = weir_max_u64(at_ns, weir_add_sat(now_ns, WEIR_WAITING_AGAIN_MIN_NS));
}

static struct weir_waiting_news hear_held(struct weir_waiting *waiting, const struct weir_waiting_answer *answer,
                                          const struct weir_waiter *asked, uint64_t now_ns)
{
    bool news = !weir_waiting_held_by(waiting, answer->holder), begins = asked->phase == WEIR_WAITER_NEW;
    learn(waiting, answer, now_ns);
    ask_later(waiting, now_ns);
    return (struct weir_waiting_news){ .fate = is_over(asked, now_ns) ? WEIR_WAITING_ENDS
                                               : begins               ? WEIR_WAITING_BEGINS
                                                                      : WEIR_WAITING_STAYS,
                                       .probe = news,
                                       .wake = true };
}

static struct weir_waiting_news hear_granted(struct weir_waiting *waiting, const struct weir_waiting_answer *answer,
                                             const struct weir_waiter *asked, uint64_t now_ns)
{
    /* After a failover an older grant may stand again, which its owner was told of long ago. */
    struct weir_token behind = asked->behind;
    bool waited = behind.number > 0 && weir_token_compare(answer->token, behind) > 0;
    learn(waiting, answer, now_ns);
    ask_later(waiting, now_ns);
    return (struct weir_waiting_news){ .fate = WEIR_WAITING_ENDS, .waited = waited, .probe = true, .wake = true };
}

/* Who has just come is told at once; who has waited already goes on, and asking twice for one owner is harmless. */
static struct weir_waiting_news hear_nothing(struct weir_waiting *waiting, enum weir_waiting_said said,
                                             const struct weir_waiter *asked, uint64_t now_ns)
{
    bool is_new = asked->phase == WEIR_WAITER_NEW, own = said == WEIR_WAITING_UNFIT;
    waiting->down |= !own;
    waiting->told = !own || waiting->held;
    waiting->ask_ns = own ? 0 : weir_add_sat(now_ns, WEIR_WAITING_AGAIN_DOWN_NS);
    return (struct weir_waiting_news){ .fate = own || is_new ? WEIR_WAITING_ENDS : WEIR_WAITING_STAYS,
                                       .wake = waiting->told };
}

/* The lock is free, or the store would have said who holds it. While the store itself needs the raise nobody is given
 * it, as if it were down; else whoever is next may have it now. */
static struct weir_waiting_news hear_later(struct weir_waiting *waiting, uint64_t due_ns, struct weir_waiter *asked,
                                           uint64_t now_ns)
{
    bool is_new = asked->phase == WEIR_WAITER_NEW, all = !is_new && asked->seen == 0;
    due_ns = weir_max_u64(due_ns, weir_add_sat(now_ns, WEIR_WAITING_AGAIN_MIN_NS));
    waiting->held = false;
    waiting->down = waiting->told = all;
    waiting->ask_ns = all ? weir_min_u64(due_ns, weir_add_sat(now_ns, WEIR_WAITING_AGAIN_DOWN_NS)) : 0;
    if (!is_new && !all)
        asked->later_ns = due_ns;
    return (struct weir_waiting_news){ .fate = is_new ? WEIR_WAITING_ENDS : WEIR_WAITING_STAYS, .wake = all };
}

struct weir_waiting_news weir_waiting_hear(struct weir_waiting *waiting, const struct weir_waiting_answer *answer,
                                           uint64_t now_ns)
{
    weir_assert(is_one_asked(waiting));
    struct weir_waiter *asked = waiting->asked;
    waiting->asked = NULL;
    weir_waiter_hear(asked);
    note_holder(waiting, asked);
    if (answer->said == WEIR_WAITING_GRANTED)
        return hear_granted(waiting, answer, asked, now_ns);
    if (answer->said == WEIR_WAITING_HELD)
        return hear_held(waiting, answer, asked, now_ns);
    if (answer->said == WEIR_WAITING_LATER)
        return hear_later(waiting, answer->due_ns, asked, now_ns);
    return hear_nothing(waiting, answer->said, asked, now_ns);
}

/* ---- what becomes known beside that ---- */

bool weir_waiting_found(struct weir_waiting *waiting, const struct weir_waiting_answer *answer, uint64_t now_ns)
{
    if (is_one_asked(waiting))
        return false;
    learn(waiting, answer, now_ns);
    ask_later(waiting, now_ns);
    return true;
}

bool weir_waiting_renewed(struct weir_waiting *waiting, const struct weir_waiting_answer *answer, uint64_t now_ns)
{
    if (!weir_waiting_held_by(waiting, answer->holder))
        return false;
    learn(waiting, answer, now_ns);
    return !is_one_asked(waiting);
}

void weir_waiting_freed(struct weir_waiting *waiting)
{
    waiting->held = false;
    if (!is_one_asked(waiting))
        waiting->ask_ns = 0;
}

void weir_waiting_disowned(struct weir_waiting *waiting, struct weir_owner owner)
{
    if (weir_waiting_held_by(waiting, owner))
        weir_waiting_freed(waiting);
}

/* ---- who leaves ---- */

/* Told who holds the lock; if nobody can be said to hold it, the next answer tells. Of one whose raise is not due yet
 * the last one told. */
static enum weir_waiting_fate end_wait(struct weir_waiting *waiting, struct weir_waiter *waiter, bool stopping)
{
    if (waiting->held || waiting->down || stopping || waiter->later_ns > 0)
        return WEIR_WAITING_ENDS;
    weir_waiter_move(waiter, WEIR_WAITER_NEW);
    waiting->told = false;
    waiting->new_count++;
    return WEIR_WAITING_STAYS;
}

enum weir_waiting_fate weir_waiting_denied(struct weir_waiting *waiting, struct weir_waiter *waiter, bool stopping)
{
    bool overdue = waiter->phase == WEIR_WAITER_OVERDUE;
    weir_waiter_hear(waiter);
    if (waiter->gone)
        return WEIR_WAITING_ENDS;
    if (overdue)
        return end_wait(waiting, waiter, stopping);
    return waiter->phase == WEIR_WAITER_NEW && waiting->told ? WEIR_WAITING_BEGINS : WEIR_WAITING_STAYS;
}

enum weir_waiting_fate weir_waiting_end(struct weir_waiting *waiting, struct weir_waiter *waiter, bool stopping)
{
    bool asked = weir_waiter_is_asked(waiter);
    if (!asked && (stopping || !weir_waiting_held_by(waiting, waiter->owner)))
        return end_wait(waiting, waiter, stopping);
    weir_waiter_move(waiter, WEIR_WAITER_OVERDUE);
    return asked ? WEIR_WAITING_STAYS : WEIR_WAITING_PROBED; /* its own: is it so still? */
}

enum weir_waiting_fate weir_waiting_gone(struct weir_waiter *waiter)
{
    waiter->gone = true;
    bool idle = waiter->phase == WEIR_WAITER_NEW || waiter->phase == WEIR_WAITER_WAITING;
    return idle ? WEIR_WAITING_ENDS : WEIR_WAITING_STAYS;
}

void weir_waiting_leave(struct weir_waiting *waiting, struct weir_waiter *waiter, enum weir_waiter_phase to)
{
    weir_assert(waiting->count > 0 && weir_waiter_is_queued(waiter) && waiter != waiting->asked);
    weir_assert(waiter->previous ? waiter->previous->next == waiter : waiting->first == waiter);
    weir_assert(waiter->next ? waiter->next->previous == waiter : waiting->last == waiter);
    *(waiter->previous ? &waiter->previous->next : &waiting->first) = waiter->next;
    *(waiter->next ? &waiter->next->previous : &waiting->last) = waiter->previous;
    waiting->count--;
    waiting->new_count -= weir_waiter_is_new(waiter);
    weir_waiter_move(waiter, to);
}

const char *weir_waiting_fault(const struct weir_waiting *waiting)
{
    const struct weir_waiter *before = NULL;
    size_t members = 0, new_count = 0, idle = 0;
    for (const struct weir_waiter *at = waiting->first; at; before = at, at = at->next) {
        if (at->previous != before || !weir_waiter_is_queued(at) || ++members > waiting->count)
            return "the list of those who wait is broken";
        new_count += weir_waiter_is_new(at);
        idle += at->phase == WEIR_WAITER_NEW;
    }
    if (waiting->last != before || members != waiting->count)
        return "the list of those who wait is broken";
    return new_count != waiting->new_count || (waiting->told && idle > 0 && !is_one_asked(waiting))
               ? "of those who wait, some are forgotten"
               : NULL;
}
