/* SPDX-License-Identifier: Apache-2.0
 *
 * Decisions, as callers see them. A bucket that is there and has its number right is judged and charged in one swap.
 * Everything else goes the long way (decide_long.c). What the short way keeps in registers, and how often it asks, is
 * counted (bench/instructions.c): what it does not need is in functions of their own, which it leaves to in its last
 * step. */
#include "limits/decide.h"

/* How many lines are on their way to the cache at once. */
#define PREFETCH_AHEAD 32

/* Whether one step may do: a bucket that charges something now. */
static inline bool is_short(const struct weir_record *record, const struct weir_charge *charge, unsigned flags)
{
    return weir_record_plain(record) && (charge->cost - 1 < WEIR_COST_MAX) && (charge->delay_max_ns == 0) && flags == 0;
}

static inline __attribute__((always_inline)) enum weir_step take_step(
    struct weir_limiter *limiter, const struct weir_record *record, const struct weir_charge *charge,
    const struct weir_look *look, const struct weir_time *time, bool told, struct weir_verdict *v)
{
    return weir_one_step(limiter, &record->terms.limit, record, &charge->limit, charge->key.hash, look, &charge->cost,
                         &time->now_ns, told, v);
}

/* What the verdict says is not read back: that would wait for its stores. On the hot path the limit's numbers are the
 * id's, or it takes the long way, where that is found out; and once the set is gone no slot shows the limit any more,
 * so that the swap fails. (Its number comes back only after some 65,000 others.) */
static enum weir_step decide_one(struct weir_limiter *limiter, const struct weir_record *record,
                                 const struct weir_charge *charge, const struct weir_time *time, unsigned flags,
                                 struct weir_verdict *v)
{
    enum weir_step step = is_short(record, charge, flags) ? WEIR_STEP_AGAIN : WEIR_STEP_LONG_WAY;
    while (step == WEIR_STEP_AGAIN)
        step = take_step(limiter, record, charge, NULL, time, true, v);
    return step == WEIR_STEP_LONG_WAY ? weir_decide_the_long_way(limiter, charge, time, flags, v) : step;
}

/* By the time that is given, or else by our own clock. */
static int decide_alone(struct weir_limiter *limiter, const struct weir_charge *charge, const struct weir_time *time,
                        unsigned flags, struct weir_decision *ret_decision, struct weir_verdict *ret_verdict)
{
    const struct weir_record *record = weir_record_at(limiter, weir_id_number(charge->limit));
    if (charge->cost > WEIR_COST_MAX || !record)
        return record ? WEIR_ERANGE : weir_id_error(limiter, charge->limit);
    const struct weir_time now = weir_decide_time(limiter, time);
    const enum weir_step step = decide_one(limiter, record, charge, &now, flags, ret_verdict);
    if (step == WEIR_STEP_STALE)
        return weir_id_error(limiter, charge->limit);
    /* Not what the record says: it may have been decided by its successor, which is in shadow only since a moment. */
    const bool counts = !ret_verdict->shadow, admitted = step == WEIR_STEP_ADMITTED || !counts;
    *ret_decision = (struct weir_decision){ .admitted = admitted,
                                            .deciding = !counts,
                                            .retry_after_ns = admitted ? 0 : ret_verdict->retry_after_ns,
                                            .delay_ns = counts ? ret_verdict->delay_ns : 0 };
    return 0;
}

/* ---- one charge ---- */

/* What one step has not decided. */
__attribute__((noinline)) static int decide_otherwise(struct weir_limiter *limiter, const struct weir_charge *charges,
                                                      size_t count, const struct weir_time *time, unsigned flags,
                                                      struct weir_decision *ret_decision,
                                                      struct weir_verdict *ret_verdicts)
{
    return count == 1 ? decide_alone(limiter, charges, time, flags, ret_decision, ret_verdicts)
                      : weir_decide_several(limiter, charges, count, time, flags, NULL, ret_decision, ret_verdicts);
}

/* The record to take one step by; NULL: that may not do. Asked before the clock is, which the long way reads itself. */
static inline __attribute__((always_inline)) const struct weir_record *short_record(const struct weir_limiter *limiter,
                                                                                    const struct weir_charge *charge,
                                                                                    unsigned flags)
{
    const struct weir_record *record = weir_record_at(limiter, weir_id_number(charge->limit));
    return record && is_short(record, charge, flags) ? record : NULL;
}

/* One step by `now`; `time`: what the caller gave, or NULL, and then it is tried until nobody was faster. */
static inline __attribute__((always_inline)) enum weir_step short_step(
    struct weir_limiter *limiter, const struct weir_record *record, const struct weir_charge *charge,
    const struct weir_time *time, const struct weir_time *now, bool told, struct weir_verdict *v)
{
    enum weir_step step = WEIR_STEP_LONG_WAY;
    if (record && weir_table_in_reach(&limiter->table, now->now_ns)) {
        do
            step = take_step(limiter, record, charge, NULL, now, told, v);
        while (!time && step == WEIR_STEP_AGAIN);
    }
    return step;
}

static inline __attribute__((always_inline)) int decide_short(struct weir_limiter *limiter,
                                                              const struct weir_record *record,
                                                              const struct weir_charge *charge,
                                                              const struct weir_time *time, const struct weir_time *now,
                                                              unsigned flags, struct weir_decision *ret_decision,
                                                              struct weir_verdict *ret_verdict)
{
    const enum weir_step step = short_step(limiter, record, charge, time, now, true, ret_verdict);
    if (step > WEIR_STEP_REFUSED) {
        const struct weir_time whole = time ? *time : weir_time_with_wall(*now);
        return decide_otherwise(limiter, charge, 1, time ? time : &whole, flags, ret_decision, ret_verdict);
    }
    const bool admitted = step == WEIR_STEP_ADMITTED;
    ret_decision->admitted = admitted;
    ret_decision->deciding = 0;
    ret_decision->retry_after_ns = admitted ? 0 : ret_verdict->retry_after_ns;
    ret_decision->delay_ns = admitted ? ret_verdict->delay_ns : 0;
    return 0;
}

__attribute__((noinline)) static int decide_now(struct weir_limiter *limiter, const struct weir_charge *charge,
                                                unsigned flags, struct weir_decision *ret_decision,
                                                struct weir_verdict *ret_verdict)
{
    const struct weir_record *record = short_record(limiter, charge, flags);
    if (!record)
        return decide_otherwise(limiter, charge, 1, NULL, flags, ret_decision, ret_verdict);
    const struct weir_time now = weir_limiter_time_monotonic(limiter);
    return decide_short(limiter, record, charge, NULL, &now, flags, ret_decision, ret_verdict);
}

int weir_limiter_decide(struct weir_limiter *limiter, const struct weir_charge *charges, size_t count,
                        const struct weir_time *time, unsigned flags, struct weir_decision *ret_decision,
                        struct weir_verdict *ret_verdicts)
{
    if (count != 1)
        return decide_otherwise(limiter, charges, count, time, flags, ret_decision, ret_verdicts);
    if (!time)
        return decide_now(limiter, charges, flags, ret_decision, ret_verdicts);
    return decide_short(limiter, short_record(limiter, charges, flags), charges, time, time, flags, ret_decision,
                        ret_verdicts);
}

/* By the way that has numbers, which nobody reads. */
__attribute__((noinline)) static bool admit_otherwise(struct weir_limiter *limiter, const struct weir_charge *charge,
                                                      const struct weir_time *time)
{
    struct weir_decision decision = { 0 };
    struct weir_verdict verdict;
    return decide_alone(limiter, charge, time, 0, &decision, &verdict) == 0 && decision.admitted;
}

static inline __attribute__((always_inline)) bool admit_short(struct weir_limiter *limiter,
                                                              const struct weir_record *record,
                                                              const struct weir_charge *charge,
                                                              const struct weir_time *time, const struct weir_time *now)
{
    const enum weir_step step = short_step(limiter, record, charge, time, now, false, NULL);
    if (step <= WEIR_STEP_REFUSED)
        return step == WEIR_STEP_ADMITTED;
    const struct weir_time whole = time ? *time : weir_time_with_wall(*now);
    return admit_otherwise(limiter, charge, time ? time : &whole);
}

__attribute__((noinline)) static bool admit_now(struct weir_limiter *limiter, const struct weir_charge *charge)
{
    const struct weir_record *record = short_record(limiter, charge, 0);
    if (!record)
        return admit_otherwise(limiter, charge, NULL);
    const struct weir_time now = weir_limiter_time_monotonic(limiter);
    return admit_short(limiter, record, charge, NULL, &now);
}

bool weir_limiter_admit(struct weir_limiter *limiter, const struct weir_charge *charge, const struct weir_time *time)
{
    return time ? admit_short(limiter, short_record(limiter, charge, 0), charge, time, time)
                : admit_now(limiter, charge);
}

/* ---- many ---- */

/* Sends for all lines before the first is needed. */
static inline __attribute__((always_inline)) void look_at(struct weir_limiter *limiter,
                                                          const struct weir_charge *charges, size_t count,
                                                          struct weir_look *ret_looks)
{
    for (size_t i = 0; i < count; i++)
        ret_looks[i] = weir_table_send(&limiter->table, charges[i].key.hash, weir_id_number(charges[i].limit));
    for (size_t i = 0; i < count; i++)
        weir_table_look(&limiter->table, charges[i].key.hash, &ret_looks[i]);
}

static int check_many(const struct weir_limiter *limiter, const struct weir_charge *charges, size_t count)
{
    return count > WEIR_BATCH_MAX ? WEIR_ERANGE : weir_decide_check(limiter, charges, count);
}

int weir_limiter_decide_many(struct weir_limiter *limiter, const struct weir_charge *charges, size_t count,
                             const struct weir_time *time, unsigned flags, struct weir_verdict *ret_verdicts)
{
    int error = check_many(limiter, charges, count);
    if (error)
        return error;
    struct weir_time now = weir_decide_time(limiter, time);
    struct weir_look looks[PREFETCH_AHEAD];
    for (size_t from = 0; from < count; from += PREFETCH_AHEAD) {
        size_t to = weir_min_u64(count, from + PREFETCH_AHEAD);
        look_at(limiter, charges + from, to - from, looks);
        for (size_t i = from; i < to; i++) {
            const struct weir_record *record = weir_record_at(limiter, weir_id_number(charges[i].limit));
            enum weir_step step = WEIR_STEP_LONG_WAY;
            if (record && is_short(record, &charges[i], flags))
                step = take_step(limiter, record, &charges[i], &looks[i - from], &now, true, &ret_verdicts[i]);
            if (step >= WEIR_STEP_AGAIN)
                step = record ? decide_one(limiter, record, &charges[i], &now, flags, &ret_verdicts[i])
                              : WEIR_STEP_STALE;
            if (step == WEIR_STEP_STALE)
                ret_verdicts[i] = (struct weir_verdict){ .retry_after_ns = 1 }; /* replaced twice since we began */
        }
    }
    return 0;
}

int weir_limiter_admit_many(struct weir_limiter *limiter, const struct weir_charge *charges, size_t count,
                            const struct weir_time *time, bool *ret_admitted)
{
    int error = check_many(limiter, charges, count);
    if (error)
        return error;
    const struct weir_time now = weir_decide_time(limiter, time);
    struct weir_look looks[PREFETCH_AHEAD];
    for (size_t from = 0; from < count; from += PREFETCH_AHEAD) {
        size_t to = weir_min_u64(count, from + PREFETCH_AHEAD);
        look_at(limiter, charges + from, to - from, looks);
        for (size_t i = from; i < to; i++) {
            const struct weir_record *record = weir_record_at(limiter, weir_id_number(charges[i].limit));
            enum weir_step step = WEIR_STEP_LONG_WAY;
            if (record && is_short(record, &charges[i], 0))
                step = take_step(limiter, record, &charges[i], &looks[i - from], &now, false, NULL);
            ret_admitted[i] = step == WEIR_STEP_ADMITTED;
            if (step >= WEIR_STEP_AGAIN)
                ret_admitted[i] = admit_otherwise(limiter, &charges[i], &now);
        }
    }
    return 0;
}
