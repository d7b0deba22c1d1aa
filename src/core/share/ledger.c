/* SPDX-License-Identifier: Apache-2.0
 *
 * Decide and ask first settle a key of a clock that came back, then forfeit what is overdue, in the order of deadlines.
 * What is held is counted beside the state of core/limit, and for fixed windows in that state. Called by
 * limits/redis/script_core.c for what the script in Redis leaves to core, and by sim/ledger_host.c and
 * sim/script_double.c. */
#include "core/share/ledger.h"

#include "base/checked.h"
#include "core/limit/algorithm.h"
#include "core/limit/ticks.h"

/* The limit as this key meets it: a key in debt lies further ahead than any clock's jump would have to explain. */
static struct weir_limit limit_in_debt(const struct weir_limit *limit, const struct weir_ledger *ledger)
{
    struct weir_limit own = *limit;
    if (weir_limit_is_bucket(limit))
        own.ahead_max += weir_min_u64(weir_mul_sat(ledger->debt, limit->emission), WEIR_TICKS_DEBT_MAX);
    weir_assert(own.ahead_max >= limit->ahead_max || own.ahead_max < WEIR_TICKS_DEBT_MAX);
    return own;
}

/* Fixed windows count what is held as if it were spent; the others count it beside the state. */
static bool counts_holds(const struct weir_limit *limit)
{
    return limit->algorithm == WEIR_FIXED_WINDOW;
}

uint64_t weir_ledger_held(const struct weir_ledger *ledger)
{
    uint64_t held = 0;
    for (uint32_t i = 0; i < ledger->stints_count; i++)
        held = weir_add_sat(held, ledger->stints[i].held);
    return held;
}

/* Held, and not counted in the state. */
static uint64_t held_beside(const struct weir_limit *limit, const struct weir_ledger *ledger)
{
    return counts_holds(limit) ? 0 : weir_ledger_held(ledger);
}

static uint64_t available(const struct weir_limit *limit, const struct weir_ledger *ledger,
                          const struct weir_event *event)
{
    uint64_t used = weir_limit_used(limit, &ledger->state, event);
    return weir_sub_sat(limit->capacity, weir_add_sat(used, held_beside(limit, ledger)));
}

/* Charges, whatever is left. */
static void charge_always(const struct weir_limit *limit, struct weir_ledger *ledger, const struct weir_event *event,
                          uint64_t units)
{
    if (units == 0)
        return;
    const struct weir_algorithm_ops *algorithm = weir_algorithm_of(limit);
    if (algorithm->used(limit, &ledger->state, event) <= limit->capacity)
        ledger->debt = 0; /* paid since */
    algorithm->add(limit, &ledger->state, event, units);
    uint64_t over = weir_sub_sat(algorithm->used(limit, &ledger->state, event), limit->capacity);
    ledger->debt = over > 0 ? weir_max_u64(ledger->debt, over) : 0;
}

/* ---- what time does ---- */

static void forget_stint(struct weir_ledger *ledger, uint32_t index)
{
    weir_assert(index < ledger->stints_count);
    weir_assert(ledger->stints[index].held == 0); /* or units would be gone without being charged */
    ledger->stints_count--;
    for (uint32_t i = index; i < ledger->stints_count; i++)
        ledger->stints[i] = ledger->stints[i + 1];
}

/* Charged as of its deadline, which no event since has passed: each does this first. What the node tells of it later is
 * charged again: it knows its deadline, and speaks under a new stint from then on. */
static void forfeit(const struct weir_limit *limit, struct weir_ledger *ledger, const struct weir_event *event,
                    struct weir_ledger_stint *stint)
{
    struct weir_event then = { .now_ns = weir_min_u64(stint->until_ns, event->now_ns), .window = event->window };
    weir_assert(stint->held > 0 && then.now_ns <= event->now_ns);
    if (!counts_holds(limit))
        charge_always(limit, ledger, &then, stint->held);
    stint->held = 0;
    stint->until_ns = weir_add_sat(then.now_ns, WEIR_LEDGER_MEMORY_NS);
}

static uint32_t first_overdue(const struct weir_ledger *ledger, uint64_t now_ns)
{
    uint32_t first = ledger->stints_count;
    for (uint32_t i = 0; i < ledger->stints_count; i++) {
        uint64_t until_ns = ledger->stints[i].until_ns;
        if (until_ns <= now_ns && (first == ledger->stints_count || until_ns < ledger->stints[first].until_ns))
            first = i;
    }
    return first;
}

/* A clock that came back leaves deadlines that nobody gave. */
static void cut_deadlines(struct weir_ledger *ledger, uint64_t now_ns)
{
    uint64_t latest = weir_add_sat(now_ns, WEIR_SHARE_TTL_MAX_NS);
    for (uint32_t i = 0; i < ledger->stints_count; i++)
        ledger->stints[i].until_ns = weir_min_u64(ledger->stints[i].until_ns, latest);
}

bool weir_ledger_settle(const struct weir_limit *limit, struct weir_ledger *ledger, const struct weir_event *event)
{
    struct weir_limit own = limit_in_debt(limit, ledger);
    if (!weir_limit_jumped(&own, &ledger->state, event->now_ns))
        return false;
    weir_limit_settle(&own, &ledger->state, event);
    /* A log of which all lies at now admits nothing for a period, however much it is. */
    if (ledger->debt > 0 && limit->algorithm != WEIR_SLIDING_LOG)
        weir_algorithm_of(limit)->add(limit, &ledger->state, event, ledger->debt);
    weir_assert(limit->calendar || !weir_limit_jumped(&own, &ledger->state, event->now_ns));
    return true;
}

/* A window's units are held until it ends at the latest. Where the clock came back out of it and is in it again, nodes
 * may spend what they hold of the first time in the second: that counts in it from its beginning. */
static void close_window(const struct weir_limit *limit, struct weir_ledger *ledger, const struct weir_event *event)
{
    uint64_t held = 0;
    for (uint32_t i = 0; i < ledger->stints_count; i++) {
        struct weir_ledger_stint *stint = &ledger->stints[i];
        if (stint->until_ns <= event->now_ns)
            stint->held = 0;
        held = weir_add_sat(held, stint->held);
    }
    if (counts_holds(limit))
        charge_always(limit, ledger, event, held);
}

void weir_ledger_expire(const struct weir_limit *limit, struct weir_ledger *ledger, const struct weir_event *event)
{
    weir_assert(ledger->stints_count <= ledger->stints_max);
    weir_ledger_settle(limit, ledger, event);
    cut_deadlines(ledger, event->now_ns);
    if (limit->calendar && ledger->state.window < event->window.id)
        close_window(limit, ledger, event);
    for (;;) {
        uint32_t index = first_overdue(ledger, event->now_ns);
        if (index == ledger->stints_count)
            return;
        weir_assert(ledger->stints[index].until_ns <= event->now_ns);
        if (ledger->stints[index].held > 0)
            forfeit(limit, ledger, event, &ledger->stints[index]);
        else
            forget_stint(ledger, index);
    }
}

/* As of when expire charges first: what has left a log by the event may not have by a deadline before it. */
static struct weir_event first_charge(const struct weir_ledger *ledger, const struct weir_event *event)
{
    struct weir_event first = *event;
    for (uint32_t i = 0; i < ledger->stints_count; i++) {
        if (ledger->stints[i].held > 0)
            first.now_ns = weir_min_u64(first.now_ns, ledger->stints[i].until_ns);
    }
    weir_assert(first.now_ns <= event->now_ns);
    return first;
}

uint32_t weir_ledger_room(const struct weir_limit *limit, const struct weir_ledger *ledger,
                          const struct weir_event *event, uint64_t units)
{
    struct weir_limit own = limit_in_debt(limit, ledger);
    uint64_t more = weir_add_sat(weir_ledger_held(ledger), units);
    if (weir_limit_jumped(&own, &ledger->state, event->now_ns))
        return weir_limit_room(&own, &ledger->state, event, weir_add_sat(more, limit->capacity));
    struct weir_event first = first_charge(ledger, event);
    own.ahead_max = UINT64_MAX; /* a deadline before the event tells nothing of the clock */
    return weir_limit_room(&own, &ledger->state, &first, more);
}

/* ---- numbers ---- */

/* When the first hold ends; when the last does. */
static uint64_t hold_ends_ns(const struct weir_ledger *ledger, uint64_t now_ns, bool last)
{
    uint64_t ends_ns = 0;
    for (uint32_t i = 0; i < ledger->stints_count; i++) {
        const struct weir_ledger_stint *stint = &ledger->stints[i];
        uint64_t in_ns = weir_max_u64(weir_sub_sat(stint->until_ns, now_ns), 1);
        if (stint->held > 0 && (ends_ns == 0 || (in_ns > ends_ns) == last))
            ends_ns = in_ns;
    }
    return ends_ns;
}

/* The wait until `units` fit, if holders neither spend nor return; if they would not even then, until one must. */
static uint64_t wait_for(const struct weir_limit *limit, const struct weir_ledger *ledger,
                         const struct weir_event *event, uint64_t units)
{
    uint64_t taken = weir_add_sat(units, held_beside(limit, ledger));
    if (units > limit->capacity)
        return WEIR_NEVER;
    if (taken > limit->capacity)
        return hold_ends_ns(ledger, event->now_ns, false);
    weir_assert(taken >= units);
    uint64_t most = limit->capacity - taken;
    return weir_max_u64(weir_limit_wait_ns(limit, &ledger->state, event, most), 1);
}

static uint64_t reset_after(const struct weir_limit *limit, const struct weir_ledger *ledger,
                            const struct weir_event *event)
{
    uint64_t reset_ns = hold_ends_ns(ledger, event->now_ns, true);
    return weir_max_u64(reset_ns, weir_limit_wait_ns(limit, &ledger->state, event, 0));
}

static void add_holds(const struct weir_limit *limit, const struct weir_ledger *ledger, const struct weir_event *event,
                      struct weir_verdict *v)
{
    v->remaining = available(limit, ledger, event);
    weir_assert(v->remaining <= limit->capacity);
    v->admitted = event->cost <= v->remaining;
    v->retry_after_ns = v->admitted ? 0 : wait_for(limit, ledger, event, event->cost);
    v->reset_after_ns = reset_after(limit, ledger, event);
    v->next_after_ns = v->remaining < limit->capacity ? wait_for(limit, ledger, event, v->remaining + 1) : 0;
}

bool weir_ledger_decide(const struct weir_limit *limit, struct weir_ledger *ledger, const struct weir_event *event,
                        bool peek, struct weir_verdict *ret_verdict)
{
    weir_ledger_expire(limit, ledger, event);
    struct weir_limit own = limit_in_debt(limit, ledger);
    bool holds = held_beside(limit, ledger) > 0;
    weir_limit_judge(&own, &ledger->state, event, ret_verdict);
    if (holds)
        add_holds(&own, ledger, event, ret_verdict);
    if (!ret_verdict->admitted || peek || event->cost == 0)
        return ret_verdict->admitted;
    ledger->debt = 0;
    weir_limit_charge(&own, &ledger->state, event, ret_verdict);
    if (holds) {
        struct weir_event after = *event;
        after.cost = 0;
        add_holds(&own, ledger, &after, ret_verdict);
    }
    return true;
}

/* ---- asks ---- */

/* The fixed window that is open as of the event; 0 if none is. */
static uint64_t window_of(const struct weir_limit *limit, const struct weir_ledger *ledger,
                          const struct weir_event *event)
{
    if (!counts_holds(limit))
        return 0;
    if (limit->calendar)
        return weir_max_u64(ledger->state.window, event->window.id) + 1;
    return weir_limit_used(limit, &ledger->state, event) > 0 ? ledger->state.fresh_at + 1 : 0;
}

static uint64_t window_ends_ns(const struct weir_limit *limit, const struct weir_ledger *ledger,
                               const struct weir_event *event)
{
    if (limit->calendar && ledger->state.window <= event->window.id)
        return event->window.end_after_ns;
    if (window_of(limit, ledger, event) == 0)
        return UINT64_MAX;
    uint64_t now = weir_ticks_at(event->now_ns, limit->shift);
    return weir_ticks_wait_ns(weir_ticks_until(ledger->state.fresh_at, now), event->now_ns, limit->shift);
}

static struct weir_ledger_stint *find_stint(struct weir_ledger *ledger, uint64_t name)
{
    for (uint32_t i = 0; i < ledger->stints_count; i++) {
        if (ledger->stints[i].stint == name)
            return &ledger->stints[i];
    }
    return NULL;
}

/* A place for a new one, if need be that of the one that holds nothing and would be forgotten first. */
static bool make_place(struct weir_ledger *ledger)
{
    if (ledger->stints_count < ledger->stints_max)
        return true;
    uint32_t goes = ledger->stints_count;
    for (uint32_t i = 0; i < ledger->stints_count; i++) {
        const struct weir_ledger_stint *stint = &ledger->stints[i];
        if (stint->held == 0 && (goes == ledger->stints_count || stint->until_ns < ledger->stints[goes].until_ns))
            goes = i;
    }
    if (goes == ledger->stints_count)
        return false;
    forget_stint(ledger, goes);
    weir_assert(ledger->stints_count < ledger->stints_max);
    return true;
}

/* NULL if all places are taken by stints that hold something. */
static struct weir_ledger_stint *add_stint(struct weir_ledger *ledger, const struct weir_share_ask *ask)
{
    if (!make_place(ledger))
        return NULL;
    uint32_t at = ledger->stints_count++;
    for (; at > 0 && ledger->stints[at - 1].stint > ask->stint; at--)
        ledger->stints[at] = ledger->stints[at - 1];
    weir_assert(ledger->stints_count <= ledger->stints_max);
    weir_assert(at == 0 || ledger->stints[at - 1].stint < ask->stint); /* in order, and none twice */
    ledger->stints[at] = (struct weir_ledger_stint){ .stint = ask->stint,
                                                     .spent = weir_min_u64(ask->known, ask->spent) };
    return &ledger->stints[at];
}

/* A stint that was forgotten and told of again by a late ask may know less than was confirmed before. */
uint64_t weir_ledger_owed(const struct weir_ledger *ledger, const struct weir_share_ask *ask)
{
    uint64_t charged = ask->known;
    for (uint32_t i = 0; i < ledger->stints_count; i++) {
        if (ledger->stints[i].stint == ask->stint)
            charged = weir_min_u64(charged, ledger->stints[i].spent);
    }
    return weir_sub_sat(ask->spent, charged);
}

/* Whether what is told of `window` was spent in one that is over. One from the first hit ends before its time when all
 * of it is given back, and the next may begin in it: a node that has not heard of that spends in the next. */
static bool is_over(const struct weir_limit *limit, const struct weir_ledger *ledger, const struct weir_event *event,
                    uint64_t window)
{
    uint64_t open = window_of(limit, ledger, event);
    if (window == 0 || window == open)
        return false;
    if (limit->calendar || !counts_holds(limit))
        return true;
    uint64_t begun = weir_ticks_at(event->now_ns, limit->shift);
    if (open > 0)
        begun = (ledger->state.fresh_at - limit->span) & WEIR_TICKS_MASK;
    uint64_t left = weir_ticks_until(window - 1, begun);
    return left == 0 || left > limit->ahead_max;
}

/* The node's word: what it spent is charged, what it does not keep comes back. Of a window that is over neither: where
 * units are held in it still, the clock came back out of it, and the one that is open counts as full for that. */
static void hear_word(const struct weir_limit *limit, struct weir_ledger *ledger, const struct weir_event *event,
                      const struct weir_share_ask *ask, struct weir_ledger_stint *stint)
{
    bool over = is_over(limit, ledger, event, ask->window);
    uint64_t spent = over ? 0 : weir_sub_sat(ask->spent, stint->spent);
    uint64_t keeps = weir_min_u64(ask->hold, stint->held), gone = stint->held - keeps;
    weir_assert(keeps + gone == stint->held);
    if (!counts_holds(limit)) {
        charge_always(limit, ledger, event, spent);
    } else if (over) {
        weir_assert(spent == 0);
    } else if (spent >= gone) {
        charge_always(limit, ledger, event, spent - gone);
    } else {
        weir_algorithm_of(limit)->take(limit, &ledger->state, event, gone - spent);
    }
    stint->spent = weir_max_u64(stint->spent, ask->spent);
    weir_assert(stint->spent >= ask->spent);
    stint->held = keeps;
}

static uint64_t grant(const struct weir_limit *limit, struct weir_ledger *ledger, const struct weir_event *event,
                      const struct weir_share_ask *ask, struct weir_ledger_stint *stint)
{
    uint64_t left = available(limit, ledger, event), granted = weir_min_u64(ask->want, left);
    if (granted < weir_max_u64(ask->least, 1))
        return 0;
    if (counts_holds(limit))
        weir_algorithm_of(limit)->add(limit, &ledger->state, event, granted);
    stint->held = weir_add_sat(stint->held, granted);
    weir_assert(available(limit, ledger, event) <= left - granted); /* what one holds nobody else gets */
    return granted;
}

static void extend(const struct weir_limit *limit, const struct weir_ledger *ledger, const struct weir_event *event,
                   const struct weir_share_ask *ask, struct weir_ledger_stint *stint)
{
    uint64_t ttl_ns = weir_min_u64(ask->ttl_ns, WEIR_SHARE_TTL_MAX_NS);
    ttl_ns = weir_min_u64(ttl_ns, window_ends_ns(limit, ledger, event));
    stint->until_ns = weir_add_sat(event->now_ns, weir_max_u64(ttl_ns, 1));
}

static void answer_numbers(const struct weir_limit *limit, const struct weir_ledger *ledger,
                           const struct weir_event *event, const struct weir_share_ask *ask,
                           struct weir_share_answer *answer)
{
    answer->window = window_of(limit, ledger, event);
    answer->capacity = limit->capacity;
    answer->used = weir_add_sat(weir_limit_used(limit, &ledger->state, event), held_beside(limit, ledger));
    answer->reset_after_ns = reset_after(limit, ledger, event);
    if (answer->granted < ask->want)
        answer->retry_after_ns = weir_max_u64(wait_for(limit, ledger, event, weir_max_u64(ask->least, 1)), 1);
}

void weir_ledger_ask(const struct weir_limit *limit, struct weir_ledger *ledger, const struct weir_event *event,
                     const struct weir_share_ask *ask, struct weir_share_answer *ret_answer)
{
    weir_assert(ask->stint > 0 && ask->seq > 0);
    weir_ledger_expire(limit, ledger, event);
    *ret_answer = (struct weir_share_answer){ .stint = ask->stint, .seq = ask->seq };
    struct weir_ledger_stint *stint = find_stint(ledger, ask->stint), none;
    if (stint && ask->seq < stint->seq) {
        ret_answer->stale = true;
        return;
    }
    bool repeated = stint && ask->seq == stint->seq, kept = true;
    if (!stint)
        stint = add_stint(ledger, ask);
    if (!stint) {
        none = (struct weir_ledger_stint){ .stint = ask->stint, .spent = weir_min_u64(ask->known, ask->spent) };
        stint = &none;
        kept = false;
    }
    if (!repeated) {
        stint->seq = ask->seq;
        hear_word(limit, ledger, event, ask, stint);
        stint->granted = kept ? grant(limit, ledger, event, ask, stint) : 0;
        extend(limit, ledger, event, ask, stint);
    }
    weir_assert(stint->seq == ask->seq && stint->until_ns > event->now_ns);
    struct weir_limit own = limit_in_debt(limit, ledger);
    ret_answer->granted = weir_min_u64(stint->granted, stint->held);
    ret_answer->hold_ns = weir_sub_sat(stint->until_ns, event->now_ns);
    weir_assert(ret_answer->granted <= stint->held);
    weir_assert(ret_answer->hold_ns > 0);
    answer_numbers(&own, ledger, event, ask, ret_answer);
}
