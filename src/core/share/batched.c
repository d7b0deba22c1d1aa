/* SPDX-License-Identifier: Apache-2.0
 *
 * Units are counted by where they stand: spent or set aside ahead of the engine, granted by it (`pocket`), set aside of
 * that (`reserved`). A step lets time pass, handles one event, and says whether an ask is due. Called by
 * limits/share_step.c and sim/node_host.c; the engine's side is ledger.c. */
#include "core/share/batched.h"

#include "base/checked.h"
#include "core/limit/ticks.h"

/* Who leaves has little time: it does not wait for a long interval to ask again. */
#define LEAVING_NS WEIR_NS_PER_SECOND

void weir_batched_init(struct weir_batched *key, uint64_t stint)
{
    weir_assert(stint > 0);
    *key = (struct weir_batched){ .stint = stint };
}

void weir_batched_follow(struct weir_batched *key)
{
    key->heard_ns = key->refused_until_ns = 0;
}

/* ---- what is known ---- */

/* Units admitted here that the engine's last word does not count. */
static uint64_t own_units(const struct weir_batched *key)
{
    return weir_add_sat(key->unsettled, key->ahead);
}

/* What the engine holds for the stint and counts as used (ledger.c, available()), spent here or not. It is charged when
 * the hold ends, told or not. */
static uint64_t held_at_engine(const struct weir_batched *key)
{
    weir_assert(key->unsettled <= key->spent - key->known);
    return weir_add_sat(weir_add_sat(key->pocket, key->reserved), key->spent - key->known - key->unsettled);
}

/* Of a bucket: how far from fresh it is here and now, in ticks; the engine's word, refilled since it was heard (it was
 * said before), and our own units. Saturates far above any span. */
static uint64_t bucket_ahead(const struct weir_batched *key, const struct weir_limit *limit, uint64_t now_ns)
{
    uint64_t since_ns = weir_sub_sat(now_ns, key->heard_ns);
    uint64_t refilled = limit->shift < 0 ? since_ns >> -limit->shift
                                         : weir_mul_sat(since_ns, UINT64_C(1) << limit->shift);
    uint64_t ahead = weir_sub_sat(weir_mul_sat(key->last.used, limit->emission), refilled);
    return weir_add_sat(ahead, weir_mul_sat(own_units(key), limit->emission));
}

/* Units used, as far as this node knows. Windows empty at times that it does not know: they count in full. */
static uint64_t estimate(const struct weir_batched *key, const struct weir_limit *limit, uint64_t now_ns)
{
    if (weir_limit_is_bucket(limit))
        return weir_div_ceil(bucket_ahead(key, limit, now_ns), limit->emission);
    return weir_add_sat(key->last.used, own_units(key));
}

/* What is used under a newer definition says nothing of what this node's has left. Until the node has the newer one
 * every decision is the engine's: by its own it would admit a slack, settle it and admit the next, up to an older and
 * larger limit. */
static bool informed(const struct weir_batched *key, uint64_t now_ns)
{
    return key->heard_ns > 0 && now_ns < key->valid_ns && !key->last.newer;
}

/* What does not fit by the engine's last word is refused by it for an interval, or until it said there may be more. A
 * bucket's refill is reckoned with here. */
static bool still_full(const struct weir_batched *key, const struct weir_batched_options *options, uint64_t now_ns)
{
    uint64_t full_ns = options->interval_ns;
    if (key->last.retry_after_ns > 0)
        full_ns = weir_min_u64(full_ns, key->last.retry_after_ns);
    return now_ns < weir_add_sat(key->heard_ns, full_ns);
}

/* The wait until at most `most` units are used, as far as this node knows; > 0. */
static uint64_t wait_until(const struct weir_batched *key, const struct weir_limit *limit, uint64_t most,
                           uint64_t now_ns)
{
    uint64_t since_ns = weir_sub_sat(now_ns, key->heard_ns), wait_ns;
    if (weir_limit_is_bucket(limit) && !key->last.newer) {
        uint64_t ahead = weir_min_u64(bucket_ahead(key, limit, now_ns), WEIR_TICKS_DEBT_MAX);
        wait_ns = weir_ticks_wait_ns(weir_sub_sat(ahead, weir_mul_sat(most, limit->emission)), now_ns, limit->shift);
    } else if (most > 0 && key->last.retry_after_ns > 0) {
        wait_ns = weir_sub_sat(key->last.retry_after_ns, since_ns);
    } else {
        wait_ns = weir_sub_sat(key->last.reset_after_ns, since_ns);
    }
    weir_assert(most <= limit->capacity);
    return weir_max_u64(wait_ns, 1);
}

static void fill_verdict(const struct weir_batched *key, const struct weir_limit *limit, bool admitted, uint64_t units,
                         uint64_t now_ns, struct weir_verdict *v)
{
    uint64_t capacity = limit->capacity;
    uint64_t remaining = informed(key, now_ns) ? weir_sub_sat(capacity, estimate(key, limit, now_ns)) : 0;
    remaining = weir_min_u64(weir_add_sat(remaining, key->pocket), capacity);
    *v = (struct weir_verdict){ .admitted = admitted, .capacity = capacity, .remaining = remaining };
    weir_assert(remaining <= capacity);
    if (remaining < capacity) {
        v->next_after_ns = wait_until(key, limit, capacity - remaining - 1, now_ns);
        v->reset_after_ns = weir_max_u64(wait_until(key, limit, 0, now_ns), v->next_after_ns);
    }
    if (!admitted)
        v->retry_after_ns = units > capacity ? WEIR_NEVER : wait_until(key, limit, capacity - units, now_ns);
}

/* ---- time ---- */

/* The engine charges what it held for the stint: what is reserved of it is as good as spent. What it has not confirmed
 * is told again, under the next. */
static void begin_stint(struct weir_batched *key)
{
    key->stint++;
    key->dead = weir_add_sat(key->dead, key->reserved);
    key->pocket = key->reserved = 0;
    key->spent = key->unsettled;
    key->known = 0;
    weir_assert(key->stint > 0 && key->pocket == 0);
}

static void hurry(struct weir_batched *key, uint64_t now_ns)
{
    key->retry_ns = weir_min_u64(key->retry_ns, weir_add_sat(now_ns, LEAVING_NS));
}

static void lose(struct weir_batched *key, const struct weir_batched_options *options, uint64_t now_ns)
{
    weir_assert(key->sent_ns > 0); /* something is under way that can be lost */
    key->sent_ns = 0;
    key->waiting = 0;
    key->retry_ns = weir_add_sat(now_ns, weir_max_u64(options->interval_ns, 1));
    weir_assert(key->retry_ns >= now_ns && key->retry_ns > 0);
    if (key->leaving)
        hurry(key, now_ns);
}

static void pass_time(struct weir_batched *key, const struct weir_batched_options *options, uint64_t now_ns)
{
    if (held_at_engine(key) > 0 && now_ns >= key->deadline_ns)
        begin_stint(key);
    if (key->sent_ns > 0 && now_ns >= weir_add_sat(key->sent_ns, options->lost_ns))
        lose(key, options, now_ns);
}

/* ---- events ---- */

/* `least`: the cost of the request that waits for it; 0: none does. */
static void send_ask(struct weir_batched *key, const struct weir_batched_options *options, uint64_t least,
                     uint64_t now_ns, struct weir_share_effects *effects)
{
    weir_assert(key->sent_ns == 0 && key->waiting == 0);
    key->sent_ns = now_ns;
    key->sent_spent = key->spent;
    key->sent_unsettled = key->unsettled;
    /* Those who waited for the last ask have not all asked again yet: this one speaks for them too. */
    key->sent_want = weir_max_u64(least, weir_sub_sat(key->again, key->pocket));
    key->sent_least = least;
    weir_assert(key->sent_unsettled <= key->sent_spent);
    key->again = 0;
    key->settle_ns = key->retry_ns = 0;
    uint64_t hold = weir_add_sat(key->pocket, key->reserved);
    bool holds = hold > 0 || key->sent_want > 0;
    effects->send = true;
    effects->ask = (struct weir_share_ask){
        .stint = key->stint,
        .seq = ++key->seq,
        .spent = key->spent,
        .known = key->known,
        .hold = hold,
        .want = key->sent_want,
        .least = key->sent_least,
        .ttl_ns = holds ? weir_min_u64(options->ttl_ns, WEIR_BATCHED_HOLD_NS) : options->ttl_ns,
        .window = key->window,
    };
    weir_assert(effects->ask.least <= effects->ask.want);
}

static void wait_for_engine(struct weir_batched *key, const struct weir_batched_options *options, uint64_t units,
                            uint64_t now_ns, struct weir_share_effects *effects)
{
    weir_assert(units > key->pocket && units <= options->limit.capacity);
    effects->say = WEIR_SHARE_WAIT;
    if (key->sent_ns == 0)
        send_ask(key, options, units, now_ns, effects);
    else
        key->waiting = weir_min_u64(weir_add_sat(key->waiting, units), options->limit.capacity);
    weir_assert(key->waiting <= options->limit.capacity);
}

static void reserve(struct weir_batched *key, const struct weir_batched_options *options, uint64_t units,
                    uint64_t now_ns, struct weir_share_effects *effects)
{
    const struct weir_limit *limit = &options->limit;
    bool known = informed(key, now_ns);
    bool fits = weir_add_sat(estimate(key, limit, now_ns), units) <= limit->capacity;
    bool refused = now_ns < key->refused_until_ns && units >= key->refused_units;
    key->leaving = false;
    refused = refused || (known && !fits && still_full(key, options, now_ns));
    bool here = known && fits && weir_add_sat(own_units(key), units) <= options->slack;
    effects->say = WEIR_SHARE_YES;
    if (units > limit->capacity || (units > key->pocket && !here && refused)) {
        effects->say = WEIR_SHARE_NO;
    } else if (units <= key->pocket) {
        key->pocket -= units;
        key->reserved += units;
    } else if (here) {
        key->ahead += units;
        weir_assert(own_units(key) <= options->slack); /* no more ahead of the engine than is promised */
    } else {
        wait_for_engine(key, options, units, now_ns, effects);
        return;
    }
    key->again = weir_sub_sat(key->again, units);
    fill_verdict(key, limit, effects->say == WEIR_SHARE_YES, units, now_ns, &effects->verdict);
}

/* Of the units set aside, those ahead of the engine and those out of the pocket are one: the sums are the same. Those
 * set aside before a deadline that has passed are told from them by the stricter guess, as in leased.c. */
static enum weir_share_say commit(struct weir_batched *key, uint64_t units)
{
    uint64_t ahead = weir_min_u64(units, key->ahead), reserved = weir_min_u64(units - ahead, key->reserved);
    uint64_t dead = units - ahead - reserved;
    weir_assert(dead <= key->dead);
    key->ahead -= ahead;
    key->unsettled += ahead;
    key->reserved -= reserved;
    key->dead -= dead;
    key->spent = weir_add_sat(key->spent, ahead + reserved);
    weir_assert(ahead + reserved + dead == units && key->unsettled <= key->spent);
    return dead == 0 ? WEIR_SHARE_YES : WEIR_SHARE_NO;
}

static void cancel(struct weir_batched *key, uint64_t units)
{
    uint64_t dead = weir_min_u64(units, key->dead), ahead = weir_min_u64(units - dead, key->ahead);
    uint64_t reserved = units - dead - ahead;
    weir_assert(reserved <= key->reserved);
    key->dead -= dead;
    key->ahead -= ahead;
    key->reserved -= reserved;
    key->pocket += reserved;
    weir_assert(dead + ahead + reserved == units);
}

/* A part of what was asked for means that nothing more is to be had; nothing, that `least` was not. */
static void note_refusal(struct weir_batched *key, const struct weir_batched_options *options,
                         const struct weir_share_answer *answer, uint64_t now_ns)
{
    if (key->sent_want == 0)
        return;
    key->refused_until_ns = 0;
    if (answer->granted >= key->sent_want)
        return;
    key->refused_units = answer->granted > 0 ? 0 : weir_max_u64(key->sent_least, 1);
    uint64_t wait_ns = weir_min_u64(answer->retry_after_ns, options->interval_ns);
    key->refused_until_ns = weir_add_sat(now_ns, weir_max_u64(wait_ns, 1));
    weir_assert(answer->granted < key->sent_want && key->refused_until_ns >= now_ns);
}

static void hear(struct weir_batched *key, const struct weir_batched_options *options,
                 const struct weir_share_answer *answer, uint64_t now_ns)
{
    if (key->sent_ns == 0 || answer->seq != key->seq)
        return;
    if (answer->stint != key->stint || answer->stale) { /* it speaks of a stint that is over */
        lose(key, options, now_ns);
        return;
    }
    uint64_t margin_ns = weir_max_u64(answer->hold_ns / 10, 1);
    key->valid_ns = weir_add_sat(key->sent_ns, weir_sub_sat(answer->hold_ns, margin_ns));
    key->deadline_ns = key->valid_ns;
    key->pocket = weir_add_sat(key->pocket, answer->granted);
    weir_assert(key->sent_spent >= key->known && key->sent_spent <= key->spent);
    weir_assert(key->sent_unsettled <= key->unsettled);
    key->known = key->sent_spent;
    key->unsettled -= key->sent_unsettled;
    key->window = answer->window;
    key->last = *answer;
    key->heard_ns = now_ns;
    note_refusal(key, options, answer, now_ns);
    key->sent_ns = 0;
    key->again = key->waiting; /* who waits asks again, one after the other */
    key->waiting = 0;
    if (held_at_engine(key) > 0 && now_ns >= key->deadline_ns)
        begin_stint(key);
}

/* Settles every interval, sooner when half of the slack is committed or a hold is half over; what nobody fetched by
 * then goes back. Not while an ask is under way, nor before it may try again. */
static void speak(struct weir_batched *key, const struct weir_batched_options *options, bool heard, uint64_t now_ns,
                  struct weir_share_effects *effects)
{
    bool owing = key->pocket > 0 || key->spent != key->known;
    if (key->sent_ns > 0 || now_ns < key->retry_ns)
        return;
    if (!owing)
        key->settle_ns = 0;
    else if (key->settle_ns == 0)
        key->settle_ns = weir_add_sat(now_ns, weir_max_u64(options->interval_ns, 1));
    if (owing && held_at_engine(key) > 0) {
        uint64_t hold_ns = weir_sub_sat(key->deadline_ns, key->heard_ns);
        key->settle_ns = weir_min_u64(key->settle_ns, weir_add_sat(key->heard_ns, hold_ns / 2));
    }
    /* After an answer those who waited come first: what they still need belongs into the next ask. */
    if (heard && !key->leaving)
        return;
    bool due = key->retry_ns > 0 || (owing && (now_ns >= key->settle_ns || key->leaving));
    if (due)
        key->pocket = 0;
    if (due || (key->unsettled > 0 && key->unsettled >= options->slack / 2))
        send_ask(key, options, 0, now_ns, effects);
}

static uint64_t wake_of(const struct weir_batched *key, const struct weir_batched_options *options)
{
    uint64_t wake_ns = key->settle_ns;
    if (key->sent_ns > 0)
        wake_ns = weir_add_sat(key->sent_ns, options->lost_ns);
    else if (key->retry_ns > 0)
        wake_ns = key->retry_ns;
    return held_at_engine(key) > 0 && (wake_ns == 0 || key->deadline_ns < wake_ns) ? key->deadline_ns : wake_ns;
}

void weir_batched_step(struct weir_batched *key, const struct weir_batched_options *options,
                       const struct weir_share_event *event, uint64_t now_ns, struct weir_share_effects *ret_effects)
{
    weir_assert(now_ns > 0 && options->lost_ns > 0);
    *ret_effects = (struct weir_share_effects){ .say = WEIR_SHARE_NOTHING };
    pass_time(key, options, now_ns);
    switch (event->kind) {
    case WEIR_SHARE_RESERVE:
        reserve(key, options, event->units, now_ns, ret_effects);
        break;
    case WEIR_SHARE_COMMIT:
        ret_effects->say = commit(key, event->units);
        break;
    case WEIR_SHARE_CANCEL:
        cancel(key, event->units);
        break;
    case WEIR_SHARE_HEARD:
        hear(key, options, event->answer, now_ns);
        break;
    case WEIR_SHARE_UNANSWERED:
        if (key->sent_ns > 0 && event->seq == key->seq)
            lose(key, options, now_ns);
        break;
    case WEIR_SHARE_LEAVE:
        key->leaving = true;
        hurry(key, now_ns);
        break;
    case WEIR_SHARE_TICK:
        break;
    }
    speak(key, options, event->kind == WEIR_SHARE_HEARD, now_ns, ret_effects);
    ret_effects->wake_ns = wake_of(key, options);
    ret_effects->idle = key->sent_ns == 0 && key->retry_ns == 0 && key->pocket == 0 && key->reserved == 0 &&
                        key->ahead == 0 && key->dead == 0 && key->spent == key->known;
    weir_assert(key->known <= key->spent);
    weir_assert(key->unsettled <= key->spent - key->known); /* what is not confirmed is told again */
    weir_assert(!ret_effects->send || (key->sent_ns == now_ns && ret_effects->ask.seq == key->seq));
    weir_assert(!ret_effects->idle || key->unsettled == 0);
    weir_assert(event->kind != WEIR_SHARE_RESERVE || ret_effects->say != WEIR_SHARE_NOTHING);
}
