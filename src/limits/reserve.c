/* SPDX-License-Identifier: Apache-2.0
 *
 * Reservations (weir/reserve.h). A reserve is a decision (decide_long.c) that takes notes; what is due afterwards
 * (core/limit/reservation.h) is done to one key after the other, each by the limit that its entry says it goes by, so
 * that a reservation outlives changes of the limits. */
#include "weir/reserve.h"

#include <stddef.h>
#include <string.h>

#include "base/fault.h"
#include "base/reserved.h"
#include "core/limit/reservation.h"
#include "limits/decide.h"
#include "limits/reserve_marks.h"

_Static_assert(sizeof(struct weir_reservation_life) <= sizeof(((struct weir_reservation *)0)->life), "it has room");
_Static_assert(WEIR_RESERVE_PARTS_MAX == WEIR_RESERVATION_PARTS_MAX, "each part has its place");

static struct weir_reservation_life life_of(const struct weir_reservation *reservation)
{
    struct weir_reservation_life life;
    memcpy(&life, reservation->life, sizeof life);
    return life;
}

static void keep_life(struct weir_reservation *reservation, const struct weir_reservation_life *life)
{
    memcpy(reservation->life, life, sizeof *life);
    reservation->held = life->state == WEIR_RESERVATION_OPEN ? life->held : 0;
    reservation->end_ns = life->end_ns;
}

/* Of a ticket what there is. */
static void copy(struct weir_reservation *to, const struct weir_reservation *from)
{
    memcpy(to, from, offsetof(struct weir_reservation, limits) + (size_t)from->count * sizeof from->limits[0]);
}

static struct weir_reserve_marks *marks_of(const struct weir_limiter *limiter)
{
    return __atomic_load_n(&limiter->marks, __ATOMIC_ACQUIRE);
}

/* ---- reserve ---- */

static int check_options(const struct weir_reserve_options *o, struct weir_fault *fault)
{
    if (weir_reserved_used(o->reserved, sizeof o->reserved))
        return weir_fault_set(fault, WEIR_EINVAL, "reserved", WEIR_RESERVED_TEXT);
    if (o->amount == 0 || o->amount > WEIR_RESERVE_AMOUNT_MAX)
        return weir_fault_set(fault, WEIR_ERANGE, "amount", "must be 1 to 9223372036854775807");
    if (o->ttl_ns == 0 || o->ttl_ns > WEIR_RESERVE_TTL_MAX_NS)
        return weir_fault_set(fault, WEIR_ERANGE, "ttl", "must be more than 0 and at most a day");
    if (o->keep > 1)
        return weir_fault_set(fault, WEIR_EINVAL, "keep", "must be 0 or 1");
    return 0;
}

/* One charge, and where its notes are to be taken. */
static int check_charge(const struct weir_limiter *limiter, const struct weir_charge *charge, bool of_amount,
                        const struct weir_reserve_options *o, struct weir_reservation *reservation,
                        struct weir_reserved **ret_reserved, struct weir_fault *fault)
{
    struct weir_terms terms;
    *ret_reserved = NULL;
    if (!weir_terms_of(limiter, charge->limit, &terms))
        return weir_id_error(limiter, charge->limit);
    const bool permits = terms.limit.algorithm == WEIR_CONCURRENCY;
    if (permits && charge->cost > 0 && terms.mode != WEIR_MODE_OFF) {
        if (terms.limit.period_ns < o->ttl_ns)
            return weir_fault_set(fault, WEIR_ERANGE, "ttl", "must be at most the lease of each concurrency limit");
        if (reservation->permits_count == WEIR_RESERVE_PERMITS_MAX)
            return weir_fault_set(fault, WEIR_ELIMIT, "limits", "at most 8 concurrency limits in a reservation");
        reservation->permits[reservation->permits_count++] = charge->key;
    }
    if (!of_amount)
        return 0;
    if (charge->cost != o->amount || (!terms.limit.reserves && !permits))
        return weir_fault_set(fault, WEIR_EINVAL, "amounts", "must cost the amount, under a limit that reserves");
    if (permits)
        return 0;
    if (reservation->count == WEIR_RESERVE_LIMITS_MAX)
        return weir_fault_set(fault, WEIR_ELIMIT, "limits", "at most 8 limits are charged the amount");
    struct weir_reserved *reserved = &reservation->limits[reservation->count++];
    *reserved = (struct weir_reserved){ .limit = charge->limit, .key = charge->key };
    *ret_reserved = reserved;
    return 0;
}

/* The permit that all concurrency limits gave: one number. Those of limits in shadow that gave none are not among its
 * keys any more. */
static void note_permits(const struct weir_limiter *limiter, const struct weir_charge *charges, size_t count,
                         const struct weir_verdict *verdicts, struct weir_reservation *reservation)
{
    reservation->permits_count = 0;
    for (size_t i = 0; i < count; i++) {
        struct weir_terms terms;
        if (verdicts[i].ticket == 0 || !weir_terms_of(limiter, charges[i].limit, &terms) ||
            terms.limit.algorithm != WEIR_CONCURRENCY || reservation->permits_count == WEIR_RESERVE_PERMITS_MAX)
            continue;
        reservation->permit = verdicts[i].ticket;
        reservation->permits[reservation->permits_count++] = charges[i].key;
    }
}

int weir_limiter_reserve(struct weir_limiter *limiter, const struct weir_charge *charges, size_t count,
                         uint64_t amounts, const struct weir_reserve_options *options, const struct weir_time *time,
                         struct weir_reservation *ret_reservation, struct weir_decision *ret_decision,
                         struct weir_verdict *ret_verdicts, struct weir_fault *ret_fault)
{
    struct weir_reservation reservation = { 0 };
    struct weir_reserving reserving = { 0 };
    struct weir_fault unwanted;
    struct weir_fault *fault = ret_fault ? ret_fault : &unwanted;
    *fault = (struct weir_fault){ 0 };
    int error = count > WEIR_CHARGES_MAX ? WEIR_ERANGE : check_options(options, fault);
    for (size_t i = 0; i < count && !error; i++)
        error = check_charge(limiter, &charges[i], amounts >> i & 1, options, &reservation, &reserving.reserved[i],
                             fault);
    if (error)
        return error;
    const struct weir_time now = weir_decide_time(limiter, time);
    reserving.end_ns = weir_add_sat(now.now_ns, options->ttl_ns);
    error = weir_decide_several(limiter, charges, count, &now, 0, &reserving, ret_decision, ret_verdicts);
    if (error || !ret_decision->admitted)
        return error;
    note_permits(limiter, charges, count, ret_verdicts, &reservation);
    struct weir_reservation_life life;
    weir_reservation_begin(&life, options->amount, options->ttl_ns, options->keep != 0, now.now_ns);
    keep_life(&reservation, &life);
    *ret_reservation = reservation;
    return 0;
}

/* ---- extend ---- */

/* Its permits go on for their whole lease, or have ended: then nothing is left to renew. */
static void renew_permits(struct weir_limiter *limiter, const struct weir_reservation *reservation,
                          const struct weir_time *now)
{
    for (size_t i = 0; i < reservation->permits_count; i++) {
        uint64_t lease_ns;
        if (weir_limiter_renew(limiter, &reservation->permits[i], 1, reservation->permit, now, &lease_ns))
            continue;
    }
}

int weir_limiter_extend(struct weir_limiter *limiter, struct weir_reservation *reservation, uint64_t more,
                        uint64_t ttl_ns, const struct weir_time *time, struct weir_decision *ret_decision,
                        struct weir_verdict *ret_verdicts)
{
    struct weir_charge charges[WEIR_RESERVE_LIMITS_MAX];
    struct weir_reservation next;
    struct weir_reservation_life life = life_of(reservation);
    struct weir_reserving reserving = { .part = life.parts };
    const struct weir_time now = weir_decide_time(limiter, time);
    if (more == 0 || more > WEIR_RESERVE_AMOUNT_MAX || ttl_ns == 0 || ttl_ns > WEIR_RESERVE_TTL_MAX_NS)
        return WEIR_ERANGE;
    int error = weir_reservation_extends(&life, more, now.now_ns);
    if (error)
        return error;
    copy(&next, reservation);
    reserving.end_ns = weir_add_sat(now.now_ns, ttl_ns);
    for (size_t i = 0; i < next.count; i++) {
        charges[i] = (struct weir_charge){ .limit = next.limits[i].limit, .key = next.limits[i].key, .cost = more };
        reserving.reserved[i] = &next.limits[i];
    }
    error = weir_decide_several(limiter, charges, next.count, &now, 0, &reserving, ret_decision, ret_verdicts);
    if (error || !ret_decision->admitted)
        return error;
    renew_permits(limiter, &next, &now);
    weir_reservation_extend(&life, more, ttl_ns, now.now_ns);
    keep_life(&next, &life);
    copy(reservation, &next);
    return 0;
}

/* ---- what is due ---- */

static bool was_charged(const struct weir_reserved *reserved, uint32_t parts)
{
    for (uint32_t i = 0; i < parts; i++)
        if (reserved->parts[i].units > 0)
            return true;
    return false;
}

/* Charges what a held key shall pay, as far as its log has room. */
static uint64_t charge_held(struct weir_limiter *limiter, struct weir_grip *grip, uint64_t units)
{
    const struct weir_limit *limit = &grip->terms.limit;
    if (weir_limit_keeps_log(limit) &&
        !weir_entry_room(limiter, &grip->terms, &grip->event, weir_min_u64(units, limit->capacity), &grip->entry, NULL))
        return 0;
    return weir_reserve_more(limit, &grip->entry.state, &grip->event, units);
}

/* The key has no entry, or none that can be told of: it is fresh, and pays. */
static uint64_t charge_fresh(struct weir_limiter *limiter, const struct weir_reserved *reserved, uint64_t units,
                             const struct weir_time *now)
{
    struct weir_grip grip;
    uint64_t wait_ns;
    enum weir_hold hold;
    do {
        if (!weir_terms_of(limiter, reserved->limit, &grip.terms) || grip.terms.limit.algorithm == WEIR_CONCURRENCY)
            return 0;
        grip.event = weir_event_make(limiter, &grip.terms, &reserved->key, 0, now);
        hold = weir_entry_hold(limiter, &grip.terms, reserved->key.hash, WEIR_ABSENT_INSERT, &grip.event, &grip.entry,
                               &wait_ns);
    } while (hold == WEIR_HOLD_STALE);
    if (hold != WEIR_HOLD_OK)
        return 0;
    const uint64_t charged = charge_held(limiter, &grip, units);
    if (charged == 0 && grip.entry.held.newcomer)
        weir_entry_drop(limiter, &grip.entry);
    else
        weir_entry_release(limiter, &grip.terms, &grip.entry);
    return charged;
}

/* To one of its keys. *ret_given, *ret_charged: how much of it could be. */
static void do_one(struct weir_limiter *limiter, const struct weir_reserved *reserved, uint32_t parts,
                   const struct weir_reservation_due *due, const struct weir_time *now, uint64_t *ret_given,
                   uint64_t *ret_charged)
{
    struct weir_grip grip;
    *ret_given = *ret_charged = 0;
    if (due->back == 0 && due->more == 0)
        return;
    grip.held = weir_entry_hold_own(limiter, &reserved->key, now, &grip);
    if (!grip.held) {
        *ret_charged = charge_fresh(limiter, reserved, due->more, now);
        return;
    }
    if (grip.terms.limit.algorithm != WEIR_CONCURRENCY) {
        if (due->back > 0)
            *ret_given = weir_reserve_marks_back(marks_of(limiter), &grip.terms.limit, &grip.event, &grip.entry.state,
                                                 reserved, parts, due->back);
        if (due->more > 0)
            *ret_charged = charge_held(limiter, &grip, due->more);
    }
    weir_entry_release(limiter, &grip.terms, &grip.entry);
}

static void do_due(struct weir_limiter *limiter, const struct weir_reservation *reservation, uint32_t parts,
                   const struct weir_reservation_due *due, const struct weir_time *now, struct weir_settled *settled)
{
    uint64_t least = due->back;
    for (size_t i = 0; i < reservation->count; i++) {
        uint64_t charged;
        if (!was_charged(&reservation->limits[i], parts)) /* a limit in shadow that would have refused */
            continue;
        do_one(limiter, &reservation->limits[i], parts, due, now, &settled->given[i], &charged);
        least = weir_min_u64(least, settled->given[i]);
        settled->uncharged = weir_max_u64(settled->uncharged, due->more - charged);
    }
    settled->given_back = least;
    settled->under_estimated += due->more;
}

/* Whoever ended it: its marks and permits go. */
static void end(struct weir_limiter *limiter, struct weir_reservation *reservation, const struct weir_time *now)
{
    uint64_t units;
    for (size_t i = 0; i < reservation->count; i++)
        if (reservation->limits[i].epoch > 0)
            weir_reserve_marks_close(marks_of(limiter), reservation->limits[i].key.hash, reservation->limits[i].epoch);
    if (reservation->permits_count > 0)
        (void)weir_limiter_release(limiter, reservation->permits, reservation->permits_count, reservation->permit, now,
                                   &units);
    reservation->permits_count = 0;
}

static bool expire(struct weir_limiter *limiter, struct weir_reservation *reservation, const struct weir_time *now,
                   struct weir_settled *settled)
{
    struct weir_reservation_life life = life_of(reservation);
    if (!weir_reservation_is_over(&life, now->now_ns))
        return false;
    const struct weir_reservation_due due = weir_reservation_expire(&life, now->now_ns);
    do_due(limiter, reservation, life.parts, &due, now, settled);
    end(limiter, reservation, now);
    keep_life(reservation, &life);
    return true;
}

bool weir_limiter_expire(struct weir_limiter *limiter, struct weir_reservation *reservation,
                         const struct weir_time *time, struct weir_settled *ret_settled)
{
    struct weir_settled settled = { 0 };
    const struct weir_time now = weir_decide_time(limiter, time);
    if (!expire(limiter, reservation, &now, &settled))
        return false;
    *ret_settled = settled;
    return true;
}

int weir_limiter_settle(struct weir_limiter *limiter, struct weir_reservation *reservation, uint64_t actual,
                        const struct weir_time *time, struct weir_settled *ret_settled)
{
    struct weir_settled settled = { 0 };
    if (actual > WEIR_RESERVE_AMOUNT_MAX)
        return WEIR_ERANGE;
    const struct weir_time now = weir_decide_time(limiter, time);
    (void)expire(limiter, reservation, &now, &settled);
    struct weir_reservation_life life = life_of(reservation);
    if (life.state == WEIR_RESERVATION_NONE) /* it never was one */
        return WEIR_EINVAL;
    const bool open = life.state == WEIR_RESERVATION_OPEN;
    const struct weir_reservation_due due = weir_reservation_settle(&life, actual, now.now_ns);
    settled = (struct weir_settled){ .late = due.late, .again = due.again };
    do_due(limiter, reservation, life.parts, &due, &now, &settled);
    if (open)
        end(limiter, reservation, &now);
    keep_life(reservation, &life);
    *ret_settled = settled;
    return 0;
}
