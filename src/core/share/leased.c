/* SPDX-License-Identifier: Apache-2.0
 *
 * A step lets time pass, handles one event, and says what is to be asked. Units go from the grant to
 * `pocket`, to `reserved`, to `spent`; at the deadline a new stint begins if anything is held or owed. Called by
 * limits/share_step.c and sim/node_host.c; the engine's side is ledger.c. */
#include "core/share/leased.h"

#include "base/checked.h"

void weir_leased_init(struct weir_leased *key, uint64_t stint)
{
    weir_assert(stint > 0);
    *key = (struct weir_leased){ .stint = stint };
}

/* ---- time ---- */

static void forfeit(struct weir_leased *key, uint64_t units)
{
    key->forfeited = weir_add_sat(key->forfeited, units);
}

/* The engine may hold `units` that are not in the pocket, and holds them at least until then: an answer heard before
 * says that they came back. Each ask takes back what an earlier one left, so at most one left something. */
static void doubt(struct weir_leased *key, uint64_t units, uint64_t until_ns)
{
    key->doubt_ns = key->doubt > 0 ? weir_min_u64(key->doubt_ns, until_ns) : until_ns;
    key->doubt = weir_max_u64(key->doubt, units);
    weir_assert(key->doubt_ns <= until_ns && key->doubt >= units);
}

static void end_doubt(struct weir_leased *key)
{
    forfeit(key, key->doubt);
    key->doubt = 0;
}

/* The engine charges all that it holds for the stint: what is reserved is as good as spent, the pocket is lost. An ask
 * under way stays so, for its answer frees the way for the next; but it speaks of a stint that is over. */
static void begin_stint(struct weir_leased *key)
{
    key->stint++;
    key->dead = weir_add_sat(key->dead, key->reserved);
    forfeit(key, key->pocket);
    end_doubt(key);
    key->pocket = key->reserved = key->spent = key->known = 0;
    key->deadline_ns = key->renew_ns = key->retry_ns = key->window = 0;
    weir_assert(key->doubt == 0);
}

static uint64_t interval_of(const struct weir_leased_options *options)
{
    return weir_max_u64(options->ttl_ns / 3, 1);
}

/* Demand, per third of a ttl: the mean of the last interval and of all before it. */
static void count_demand(struct weir_leased *key, const struct weir_leased_options *options, uint64_t now_ns)
{
    uint64_t interval_ns = interval_of(options);
    if (key->begun_ns == 0)
        key->begun_ns = now_ns;
    for (int i = 0; i < 64 && now_ns >= weir_add_sat(key->begun_ns, interval_ns); i++) {
        key->rate = key->rate / 2 + key->demand / 2 + (key->rate & key->demand & 1);
        key->demand = 0;
        key->begun_ns += interval_ns;
    }
    if (now_ns >= weir_add_sat(key->begun_ns, interval_ns)) /* long idle */
        key->begun_ns = now_ns;
}

/* It is told again while the engine still holds what the ask may have been granted. An ask that came when its stint was
 * forfeited is granted units that no word of the next stint brings back, and what it told of is charged once more. */
static void lose(struct weir_leased *key, const struct weir_leased_options *options, uint64_t now_ns)
{
    weir_assert(key->sent_ns > 0); /* something is under way that can be lost */
    uint64_t units = weir_add_sat(key->sent_back, weir_add_sat(key->sent_want, key->sent_owed));
    if (key->sent_stint != key->stint)
        forfeit(key, units);
    else
        doubt(key, units, key->sent_until_ns);
    key->sent_ns = 0;
    key->waiting = key->again = key->least = 0;
    key->retry_ns = weir_add_sat(now_ns, weir_max_u64(weir_min_u64(options->lost_ns, options->ttl_ns / 2), 1));
}

static void pass_time(struct weir_leased *key, const struct weir_leased_options *options, uint64_t now_ns)
{
    weir_assert(key->pocket == 0 || key->deadline_ns > 0); /* what is held has an end */
    if (key->deadline_ns > 0 && now_ns >= key->deadline_ns) {
        /* With nothing held and nothing owed there is nothing to give up, and what an ask under way brings stays. */
        if (key->pocket > 0 || key->reserved > 0 || key->spent != key->known)
            begin_stint(key);
        key->deadline_ns = key->renew_ns = 0;
    }
    if (key->doubt > 0 && now_ns >= key->doubt_ns)
        end_doubt(key);
    if (key->sent_ns > 0 && now_ns >= weir_add_sat(key->sent_ns, options->lost_ns))
        lose(key, options, now_ns);
    count_demand(key, options, now_ns);
}

/* ---- asking ---- */

/* How much to have: what is spent in a third of the ttl, but of what remains no more than a quarter, so that one loop
 * of one node does not take all. A burst is followed as it grows. */
static uint64_t chunk_of(const struct weir_leased *key, const struct weir_leased_options *options)
{
    uint64_t remaining = options->capacity;
    if (key->last_ns > 0)
        remaining = weir_add_sat(weir_sub_sat(key->last.capacity, key->last.used), key->pocket);
    return weir_min_u64(weir_max_u64(key->rate, key->demand), remaining / 4);
}

/* `back` of the pocket goes back to the engine, which has it once it hears this. */
static void send_ask(struct weir_leased *key, const struct weir_leased_options *options, uint64_t now_ns, uint64_t want,
                     uint64_t back, struct weir_share_effects *effects)
{
    weir_assert(key->sent_ns == 0 && back <= key->pocket);
    key->pocket -= back;
    key->sent_ns = now_ns;
    key->sent_stint = key->stint;
    key->sent_back = back;
    key->sent_owed = key->spent - key->known;
    weir_assert(key->sent_owed <= key->spent);
    const uint64_t held_ns = weir_min_u64(options->ttl_ns, WEIR_SHARE_TTL_MAX_NS);
    key->sent_until_ns = weir_add_sat(now_ns, held_ns - held_ns / 10);
    if (back > 0)
        key->sent_until_ns = weir_min_u64(key->sent_until_ns, key->deadline_ns);
    key->sent_spent = key->spent;
    key->sent_want = want;
    key->sent_least = weir_min_u64(key->least, want);
    key->waiting = key->again = key->least = 0;
    key->retry_ns = key->renew_ns = 0;
    effects->send = true;
    effects->ask = (struct weir_share_ask){
        .stint = key->stint,
        .seq = ++key->seq,
        .spent = key->spent,
        .known = key->known,
        .hold = weir_add_sat(key->pocket, key->reserved),
        .want = want,
        .least = key->sent_least,
        .ttl_ns = options->ttl_ns,
        .window = key->window,
    };
    weir_assert(effects->ask.least <= effects->ask.want && effects->ask.known <= effects->ask.spent);
    weir_assert(effects->ask.seq > 0);
}

static void ask_for_chunk(struct weir_leased *key, const struct weir_leased_options *options, uint64_t now_ns,
                          uint64_t back, struct weir_share_effects *effects)
{
    /* Those who waited for the last ask have not all asked again yet: this one speaks for them too. */
    uint64_t waiting = weir_max_u64(key->waiting, weir_sub_sat(key->again, key->pocket));
    uint64_t chunk = now_ns < key->refused_until_ns ? 0 : weir_sub_sat(chunk_of(key, options), key->pocket);
    send_ask(key, options, now_ns, weir_max_u64(waiting, chunk), back, effects);
}

/* What a burst left and nobody needs any more: beyond what is spent in two thirds of the ttl. */
static uint64_t surplus_of(const struct weir_leased *key)
{
    uint64_t needed = weir_max_u64(weir_mul_sat(2, weir_max_u64(key->rate, key->demand)), 1);
    return key->waiting > 0 || key->again > 0 ? 0 : weir_sub_sat(key->pocket, needed);
}

/* ---- events ---- */

/* The numbers as this node knows them: the engine's last word, and what is in the pocket. */
static void fill_verdict(const struct weir_leased *key, const struct weir_leased_options *options, bool admitted,
                         uint64_t now_ns, struct weir_verdict *v)
{
    uint64_t since_ns = weir_sub_sat(now_ns, key->last_ns);
    uint64_t remaining = key->last_ns > 0 ? weir_sub_sat(key->last.capacity, key->last.used) : 0;
    uint64_t retry_ns = key->last.retry_after_ns > 0 ? key->last.retry_after_ns : key->last.reset_after_ns;
    *v = (struct weir_verdict){
        .admitted = admitted,
        .capacity = options->capacity,
        .remaining = weir_min_u64(weir_add_sat(remaining, key->pocket), options->capacity),
    };
    weir_assert(v->remaining <= v->capacity);
    if (!admitted)
        v->retry_after_ns = weir_max_u64(weir_sub_sat(retry_ns, since_ns), 1);
    if (v->remaining < v->capacity) {
        v->next_after_ns = weir_max_u64(weir_sub_sat(retry_ns, since_ns), 1);
        v->reset_after_ns = weir_max_u64(weir_sub_sat(key->last.reset_after_ns, since_ns), v->next_after_ns);
    }
}

static void wait_for_engine(struct weir_leased *key, const struct weir_leased_options *options, uint64_t units,
                            uint64_t now_ns, struct weir_share_effects *effects)
{
    weir_assert(units > key->pocket && units <= options->capacity);
    effects->say = WEIR_SHARE_WAIT;
    if (key->least == 0)
        key->least = units - key->pocket; /* the rest of it is here */
    key->waiting = weir_min_u64(weir_add_sat(key->waiting, units), options->capacity);
    weir_assert(key->waiting <= options->capacity && key->least > 0);
    if (key->sent_ns == 0)
        ask_for_chunk(key, options, now_ns, 0, effects);
}

static void reserve(struct weir_leased *key, const struct weir_leased_options *options, uint64_t units, uint64_t now_ns,
                    struct weir_share_effects *effects)
{
    bool refused = now_ns < key->refused_until_ns && units >= key->refused_units;
    key->used_ns = now_ns;
    key->leaving = false;
    key->demand = weir_min_u64(weir_add_sat(key->demand, units), options->capacity);
    if (units > options->capacity) {
        effects->say = WEIR_SHARE_NO;
        fill_verdict(key, options, false, now_ns, &effects->verdict);
        effects->verdict.retry_after_ns = WEIR_NEVER;
    } else if (units <= key->pocket) {
        effects->say = WEIR_SHARE_YES;
        key->pocket -= units;
        key->reserved += units;
        fill_verdict(key, options, true, now_ns, &effects->verdict);
    } else if (refused) {
        effects->say = WEIR_SHARE_NO;
        fill_verdict(key, options, false, now_ns, &effects->verdict);
    } else {
        wait_for_engine(key, options, units, now_ns, effects);
        return;
    }
    key->again = weir_sub_sat(key->again, units);
}

/* After a deadline we cannot tell units that were set aside before it from later ones. So a commit counts as of the
 * later ones, and a cancel as of the earlier ones, which returns nothing: both err towards charging. */
static enum weir_share_say commit(struct weir_leased *key, uint64_t units)
{
    uint64_t live = weir_min_u64(units, key->reserved);
    key->reserved -= live;
    key->spent = weir_add_sat(key->spent, live);
    weir_assert(units - live <= key->dead);
    key->dead -= units - live;
    weir_assert(live == 0 || key->spent >= live);
    if (live < units)
        forfeit(key, units); /* charged, and the request does not go on */
    return live == units ? WEIR_SHARE_YES : WEIR_SHARE_NO;
}

static void cancel(struct weir_leased *key, uint64_t units)
{
    uint64_t dead = weir_min_u64(units, key->dead), held = key->pocket + key->reserved;
    key->dead -= dead;
    forfeit(key, dead);
    weir_assert(units - dead <= key->reserved);
    key->reserved -= units - dead;
    key->pocket += units - dead;
    weir_assert(key->pocket + key->reserved == held); /* it goes back where it came from */
}

/* A part of what was asked for means that nothing more is to be had. Nothing granted: not even `least` is
 * free. */
static void note_refusal(struct weir_leased *key, const struct weir_leased_options *options,
                         const struct weir_share_answer *answer, uint64_t now_ns)
{
    if (key->sent_want == 0)
        return;
    key->refused_until_ns = 0;
    if (answer->granted >= key->sent_want)
        return;
    key->refused_units = answer->granted > 0 ? 0 : weir_add_sat(weir_max_u64(key->sent_least, 1), key->pocket);
    uint64_t wait_ns = weir_min_u64(answer->retry_after_ns, options->refused_ns);
    key->refused_until_ns = weir_add_sat(now_ns, weir_max_u64(wait_ns, 1));
    weir_assert(answer->granted < key->sent_want && key->refused_until_ns >= now_ns);
}

/* The answer took so long that what it grants is no longer safe to spend; the engine may hold it for as long again. So
 * it is given back, unless the engine may have charged for it what was spent or reserved meanwhile. */
static void come_late(struct weir_leased *key, uint64_t now_ns)
{
    if (key->reserved > 0 || key->spent != key->known) {
        begin_stint(key);
        return;
    }
    weir_assert(key->reserved == 0 && key->sent_ns == 0);
    if (key->pocket > 0) {
        doubt(key, key->pocket, key->deadline_ns);
        key->retry_ns = now_ns;
    }
    key->pocket = key->deadline_ns = key->renew_ns = 0;
}

static void hear(struct weir_leased *key, const struct weir_leased_options *options,
                 const struct weir_share_answer *answer, uint64_t now_ns)
{
    if (key->sent_ns == 0 || answer->seq != key->seq)
        return;
    if (answer->stint != key->stint || answer->stale) { /* it speaks of a stint that is over */
        key->sent_want = answer->stale ? 0 : answer->granted;
        lose(key, options, now_ns);
        return;
    }
    key->doubt = 0;
    if (now_ns >= key->sent_until_ns)
        forfeit(key, key->sent_back); /* it may have been too late to come back */
    uint64_t margin_ns = weir_max_u64(answer->hold_ns / 10, 1);
    uint64_t usable_ns = weir_sub_sat(answer->hold_ns, margin_ns);
    key->deadline_ns = weir_add_sat(key->sent_ns, usable_ns);
    key->renew_ns = weir_add_sat(key->sent_ns, usable_ns / 3);
    weir_assert(key->sent_spent >= key->known && key->sent_spent <= key->spent);
    weir_assert(key->renew_ns <= key->deadline_ns);
    key->pocket = weir_add_sat(key->pocket, answer->granted);
    key->known = key->sent_spent;
    key->window = answer->window;
    key->last = *answer;
    key->last_ns = now_ns;
    note_refusal(key, options, answer, now_ns);
    key->sent_ns = 0;
    key->again = key->waiting; /* who waits asks again, one after the other; the first sends for all */
    key->waiting = key->least = 0;
    if (now_ns >= key->deadline_ns)
        come_late(key, now_ns);
}

/* What is to be said unasked: give back when idle or leaving, renew a chunk that runs out or ages, and speak again
 * after a loss. */
static void speak(struct weir_leased *key, const struct weir_leased_options *options, uint64_t now_ns,
                  struct weir_share_effects *effects)
{
    bool owing = key->pocket > 0 || key->spent != key->known;
    weir_assert(key->spent >= key->known);
    bool idle = now_ns >= weir_add_sat(key->used_ns, options->ttl_ns / 2);
    bool lost = key->retry_ns > 0 && now_ns >= key->retry_ns;
    if (key->sent_ns > 0 || (key->retry_ns > 0 && !lost))
        return;
    if (key->leaving || idle) {
        if (lost || owing)
            send_ask(key, options, now_ns, 0, key->pocket, effects);
        return;
    }
    bool aged = key->renew_ns > 0 && now_ns >= key->renew_ns && owing;
    bool low = key->deadline_ns > 0 && key->pocket < chunk_of(key, options) / 2 && now_ns >= key->refused_until_ns;
    if (lost || aged || low)
        ask_for_chunk(key, options, now_ns, aged ? surplus_of(key) : 0, effects);
}

static uint64_t sooner(uint64_t a, uint64_t b)
{
    return a == 0 || (b > 0 && b < a) ? b : a;
}

static uint64_t wake_of(const struct weir_leased *key, const struct weir_leased_options *options)
{
    if (key->sent_ns > 0)
        return sooner(key->deadline_ns, weir_add_sat(key->sent_ns, options->lost_ns));
    if (key->retry_ns > 0)
        return sooner(key->deadline_ns, key->retry_ns);
    if (key->pocket == 0 && key->spent == key->known)
        return key->reserved > 0 ? key->deadline_ns : 0;
    uint64_t idle_ns = weir_add_sat(key->used_ns, options->ttl_ns / 2);
    return sooner(sooner(key->deadline_ns, key->renew_ns), idle_ns);
}

void weir_leased_step(struct weir_leased *key, const struct weir_leased_options *options,
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
        if (key->sent_ns == 0 || event->seq != key->seq)
            break;
        if (event->undone)
            key->sent_want = key->sent_owed = 0;
        lose(key, options, now_ns);
        break;
    case WEIR_SHARE_LEAVE:
        key->leaving = true;
        break;
    case WEIR_SHARE_TICK:
        break;
    }
    /* After an answer those who waited come first: what they still need belongs into the next ask. */
    if (event->kind != WEIR_SHARE_HEARD || key->leaving)
        speak(key, options, now_ns, ret_effects);
    ret_effects->wake_ns = wake_of(key, options);
    ret_effects->idle = key->sent_ns == 0 && key->retry_ns == 0 && key->pocket == 0 && key->reserved == 0 &&
                        key->dead == 0 && key->spent == key->known;
    weir_assert(key->known <= key->spent); /* nobody confirms more than was spent */
    weir_assert(!ret_effects->send || (key->sent_ns == now_ns && key->sent_stint == key->stint));
    weir_assert(!ret_effects->idle || key->sent_ns == 0);
    weir_assert(event->kind != WEIR_SHARE_RESERVE || ret_effects->say != WEIR_SHARE_NOTHING);
}
