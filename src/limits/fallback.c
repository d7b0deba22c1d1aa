/* SPDX-License-Identifier: Apache-2.0
 *
 * The state of the fallbacks, in two arrays: one has each limit's outages, the other the keys that have used some of
 * their share, each with the time at which its bucket is full again. Keys lie in sets of eight places, found by the
 * key's hash, and a newcomer takes the place of its set that is free soonest. The bucket's arithmetic is in core/limit.
 * Called by requests (transaction.c and transaction_part.c), and by serve/bound.c, which shows the overshoot. */
#include "limits/fallback.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/checked.h"
#include "core/limit/ticks.h"

#define WAYS 8
#define LOCKS 64

/* A limit's outages. */
struct outage {
    _Atomic bool on;       /* there has been a fallback since the last outage ended */
    _Atomic bool answered; /* and an answer since */
    uint64_t start_ns;     /* of its first fallback; 0 = there was none yet */
    uint64_t calm_ns;      /* how long there had been none before it */
    uint64_t last_ns;      /* of the last fallback; 0 = there was none, and the process's start counts */
    uint64_t first_ns;     /* since then no calm was as long as a share takes to fill */
    uint64_t fill_ns;      /* the longest of its shares */
    uint64_t opened_ns;    /* of the last that was admitted by `open`; 0 = never */
};

struct place {
    uint64_t id[2];
    uint64_t fresh_at;                   /* ticks of its share's */
    uint64_t fresh_ns;                   /* the same as a time; 0 = nobody is here */
    uint64_t told_ns;                    /* it was charged, or followed a reload, then */
    uint64_t count, period_ns, capacity; /* of its share: a reload brings another */
    uint64_t reloads;                    /* as of the newest definition that it has met */
};

struct weir_fallback {
    uint64_t start_ns;
    pthread_mutex_t limits_lock;
    struct outage *outages; /* all zero until they are needed: there is room for many limits, and a start takes none */
    struct place *places;
    size_t sets_mask;
    pthread_mutex_t locks[LOCKS]; /* of sets */
};

int weir_fallback_create(size_t limits, size_t keys_max, uint64_t start_ns, struct weir_fallback **ret_fallback)
{
    struct weir_fallback *fallback = calloc(1, sizeof(*fallback));
    if (!fallback)
        return WEIR_ENOMEM;
    size_t sets = LOCKS;
    while (2 * sets * WAYS <= keys_max)
        sets *= 2;
    fallback->sets_mask = sets - 1;
    fallback->start_ns = start_ns;
    fallback->outages = calloc(limits, sizeof(fallback->outages[0]));
    fallback->places = calloc(sets * WAYS, sizeof(fallback->places[0]));
    pthread_mutex_init(&fallback->limits_lock, NULL);
    for (size_t i = 0; i < LOCKS; i++)
        pthread_mutex_init(&fallback->locks[i], NULL);
    if (!fallback->outages || !fallback->places) {
        weir_fallback_destroy(fallback);
        return WEIR_ENOMEM;
    }
    *ret_fallback = fallback;
    return 0;
}

void weir_fallback_destroy(struct weir_fallback *fallback)
{
    if (!fallback)
        return;
    pthread_mutex_destroy(&fallback->limits_lock);
    for (size_t i = 0; i < LOCKS; i++)
        pthread_mutex_destroy(&fallback->locks[i]);
    free(fallback->outages);
    free(fallback->places);
    free(fallback);
}

/* ---- outages ---- */

void weir_fallback_answered(struct weir_fallback *fallback, size_t limit)
{
    struct outage *outage = &fallback->outages[limit];
    if (atomic_load_explicit(&outage->on, memory_order_relaxed))
        atomic_store_explicit(&outage->answered, true, memory_order_relaxed);
}

/* Notes a fallback now. True: a share that takes `fill_ns` was empty when this outage began, at *ret_start_ns, and is
 * not full again. Of one limit each override has its own share. */
static bool note(struct weir_fallback *fallback, size_t limit, uint64_t fill_ns, uint64_t now_ns,
                 uint64_t *ret_start_ns)
{
    struct outage *outage = &fallback->outages[limit];
    pthread_mutex_lock(&fallback->limits_lock);
    const uint64_t last_ns = weir_max_u64(outage->last_ns, fallback->start_ns);
    uint64_t calm_ns = weir_sub_sat(now_ns, last_ns);
    bool over = atomic_load_explicit(&outage->answered, memory_order_relaxed) && calm_ns > WEIR_FALLBACK_CALM_NS;
    if (outage->start_ns == 0 || over) {
        outage->fill_ns = weir_max_u64(outage->fill_ns, fill_ns);
        if (outage->start_ns == 0 || calm_ns >= outage->fill_ns)
            outage->first_ns = now_ns;
        outage->calm_ns = calm_ns;
        outage->start_ns = weir_max_u64(now_ns, 1);
    }
    outage->last_ns = weir_max_u64(last_ns, now_ns);
    atomic_store_explicit(&outage->on, true, memory_order_relaxed);
    atomic_store_explicit(&outage->answered, false, memory_order_relaxed);
    bool empty = outage->calm_ns < fill_ns && weir_sub_sat(now_ns, outage->start_ns) < fill_ns;
    *ret_start_ns = outage->start_ns;
    pthread_mutex_unlock(&fallback->limits_lock);
    return empty;
}

void weir_fallback_opened(struct weir_fallback *fallback, size_t limit, uint64_t now_ns)
{
    struct outage *outage = &fallback->outages[limit];
    pthread_mutex_lock(&fallback->limits_lock);
    outage->opened_ns = weir_max_u64(outage->opened_ns, weir_max_u64(now_ns, 1));
    atomic_store_explicit(&outage->on, true, memory_order_relaxed);
    pthread_mutex_unlock(&fallback->limits_lock);
}

uint64_t weir_fallback_overshoot(struct weir_fallback *fallback, size_t limit, const struct weir_limit_spec *whole,
                                 uint64_t now_ns)
{
    struct outage *outage = &fallback->outages[limit];
    if (!atomic_load_explicit(&outage->on, memory_order_relaxed) || whole->count == 0)
        return 0;
    const uint64_t capacity = weir_limit_capacity(whole);
    const uint64_t fill_ns = weir_mul_div_ceil(capacity, whole->period_ns, whole->count);
    uint64_t units = 0;
    pthread_mutex_lock(&fallback->limits_lock);
    if (outage->opened_ns && weir_sub_sat(now_ns, outage->opened_ns) < fill_ns)
        units = WEIR_NEVER;
    else if (outage->start_ns && weir_sub_sat(now_ns, outage->last_ns) < fill_ns)
        units = weir_add_sat(capacity, weir_mul_div_ceil(weir_sub_sat(outage->last_ns, outage->first_ns), whole->count,
                                                         whole->period_ns));
    pthread_mutex_unlock(&fallback->limits_lock);
    return units;
}

/* ---- keys ---- */

static size_t set_of(const struct weir_fallback *fallback, const struct weir_remote_key *key)
{
    return key->id[1] & fallback->sets_mask;
}

/* The key's place, or the one of its set that it may have. */
static struct place *find(struct weir_fallback *fallback, const struct weir_remote_key *key)
{
    struct place *set = &fallback->places[set_of(fallback, key) * WAYS];
    struct place *soonest = set;
    for (size_t i = 0; i < WAYS; i++) {
        if (set[i].fresh_ns && set[i].id[0] == key->id[0] && set[i].id[1] == key->id[1])
            return &set[i];
        if (set[i].fresh_ns < soonest->fresh_ns)
            soonest = &set[i];
    }
    return soonest;
}

static bool is_of(const struct place *place, const struct weir_remote_key *key)
{
    return place->fresh_ns && place->id[0] == key->id[0] && place->id[1] == key->id[1];
}

static int compile(const struct weir_limit_spec *share, struct weir_limit *ret_limit)
{
    const struct weir_limit_spec bucket = { .algorithm = WEIR_TOKEN_BUCKET,
                                            .count = share->count,
                                            .period_ns = share->period_ns,
                                            .burst = share->count ? weir_limit_capacity(share) : 0 };
    struct weir_fault fault;
    return weir_limit_init(ret_limit, &bucket, WEIR_NS_PER_SECOND, &fault);
}

static void store(struct place *place, const struct weir_limit *limit, const struct weir_limit_spec *share,
                  const struct weir_remote_key *key, uint64_t fresh_at, uint64_t fresh_ns, uint64_t now_ns)
{
    *place = (struct place){ .id = { key->id[0], key->id[1] },
                             .fresh_at = fresh_at,
                             .fresh_ns = fresh_ns,
                             .told_ns = now_ns,
                             .count = share->count,
                             .period_ns = share->period_ns,
                             .capacity = limit->capacity };
}

static struct weir_limit_spec share_of(const struct place *place)
{
    return (struct weir_limit_spec){ .count = place->count,
                                     .period_ns = place->period_ns,
                                     .burst = place->count ? place->capacity : 0 };
}

/* A loop that has not heard of the newest reload still asks by a definition before it. It does not carry the key back,
 * which would lose on the way what a raise gives only in time: the key is decided by the share that it has by now. */
static struct weir_limit_spec newest(const struct place *place, const struct weir_limit_spec *share,
                                     const struct weir_remote_key *key, uint64_t *reloads)
{
    if (!is_of(place, key) || place->reloads <= *reloads)
        return *share;
    *reloads = place->reloads;
    return share_of(place);
}

/* When the key will be fresh under `to`, had that come at then_ns. */
static uint64_t fresh_under(const struct weir_limit *from, const struct weir_limit *to, const struct place *place,
                            uint64_t then_ns)
{
    const struct weir_event event = { .now_ns = then_ns };
    struct weir_state state = weir_state_fresh(from, then_ns);
    if (place->fresh_ns > then_ns)
        state.fresh_at = place->fresh_at;
    weir_limit_convert(from, to, WEIR_ON_CHANGE_KEEP, &state, &event);
    uint64_t ahead = weir_ticks_until(state.fresh_at, weir_ticks_at(then_ns, to->shift));
    return weir_add_sat(then_ns, weir_ticks_wait_ns(weir_min_u64(ahead, to->span), then_ns, to->shift));
}

/* The key's share may be another one since a reload; what it has used stays used. The reload came at any time since the
 * key was charged, so of what came back since then the less counts: by the one rate, or by the other. */
static void follow(struct place *place, const struct weir_limit *limit, const struct weir_limit_spec *share,
                   const struct weir_remote_key *key, uint64_t now_ns)
{
    const struct weir_limit_spec before = share_of(place);
    struct weir_limit from;
    bool same = place->count == share->count && place->period_ns == share->period_ns &&
                place->capacity == limit->capacity;
    if (!is_of(place, key) || same || compile(&before, &from))
        return;
    uint64_t fresh_ns = weir_max_u64(fresh_under(&from, limit, place, place->told_ns),
                                     fresh_under(&from, limit, place, now_ns));
    store(place, limit, share, key, weir_ticks_at(fresh_ns, limit->shift), fresh_ns, now_ns);
}

/* What the key has used: what is stored, and all of it as of an outage that began empty. */
static struct weir_state load(const struct weir_limit *limit, const struct place *place,
                              const struct weir_remote_key *key, bool empty, uint64_t start_ns, uint64_t now_ns)
{
    const uint64_t now = weir_ticks_at(now_ns, limit->shift);
    uint64_t ahead = 0;
    if (is_of(place, key) && place->fresh_ns > now_ns)
        ahead = weir_ticks_until(place->fresh_at, now);
    if (empty) {
        uint64_t end = weir_ticks_add(weir_ticks_at(start_ns, limit->shift), limit->span);
        ahead = weir_max_u64(ahead, weir_ticks_until(end, now));
    }
    return (struct weir_state){ .fresh_at = weir_ticks_add(now, ahead) };
}

int weir_fallback_decide(struct weir_fallback *fallback, size_t limit, const struct weir_limit_spec *share,
                         uint64_t reloads, const struct weir_remote_key *key, uint64_t cost, bool peek, uint64_t now_ns,
                         struct weir_verdict *ret_verdict)
{
    struct weir_limit bucket;
    uint64_t start_ns = 0;
    pthread_mutex_t *lock = &fallback->locks[set_of(fallback, key) % LOCKS];
    pthread_mutex_lock(lock);
    struct place *place = find(fallback, key);
    const struct weir_limit_spec by = newest(place, share, key, &reloads);
    int error = compile(&by, &bucket);
    if (error) {
        pthread_mutex_unlock(lock);
        return error;
    }
    uint64_t fill_ns = by.count ? weir_mul_div_ceil(bucket.capacity, by.period_ns, by.count) : 0;
    bool empty = note(fallback, limit, fill_ns, now_ns, &start_ns);
    const struct weir_event event = { .now_ns = now_ns, .cost = cost };
    follow(place, &bucket, &by, key, now_ns);
    struct weir_state state = load(&bucket, place, key, empty, start_ns, now_ns);
    bool charges = weir_limit_judge(&bucket, &state, &event, ret_verdict) && !peek && cost > 0;
    if (charges)
        weir_limit_charge(&bucket, &state, &event, ret_verdict);
    /* What an outage that began empty has kept from it a reload must not bring back; nobody gives way for that. */
    bool free = is_of(place, key) || place->fresh_ns <= now_ns;
    if (charges || (empty && free))
        store(place, &bucket, &by, key, state.fresh_at, weir_add_sat(now_ns, ret_verdict->reset_after_ns), now_ns);
    if (is_of(place, key))
        place->reloads = reloads;
    pthread_mutex_unlock(lock);
    return 0;
}

void weir_fallback_refund(struct weir_fallback *fallback, const struct weir_limit_spec *share, uint64_t reloads,
                          const struct weir_remote_key *key, uint64_t units, uint64_t now_ns)
{
    struct weir_limit bucket;
    const struct weir_event event = { .now_ns = now_ns };
    pthread_mutex_t *lock = &fallback->locks[set_of(fallback, key) % LOCKS];
    pthread_mutex_lock(lock);
    struct place *place = find(fallback, key);
    const struct weir_limit_spec by = newest(place, share, key, &reloads);
    if (is_of(place, key) && place->fresh_ns > now_ns && !compile(&by, &bucket)) {
        follow(place, &bucket, &by, key, now_ns);
        place->reloads = reloads;
        struct weir_state state = load(&bucket, place, key, false, 0, now_ns);
        weir_limit_refund(&bucket, &state, &event, units);
        place->fresh_at = state.fresh_at;
    }
    pthread_mutex_unlock(lock);
}
