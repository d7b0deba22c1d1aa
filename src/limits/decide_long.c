/* SPDX-License-Identifier: Apache-2.0
 *
 * The long way to a decision: hold every slot, in ascending order of hash; judge all; charge all or none; let go. The
 * short way is decide.c's. */
#include "limits/decide.h"

#include "limits/combine.h"
#include "limits/reserve_marks.h"

/* How often several limits are looked at again because a newcomer came in between. Each try meets another newcomer. */
#define LOOK_TRIES 16

/* One charge of a request on its way. */
struct job {
    struct weir_terms terms;
    const struct weir_charge *charge;
    struct weir_event event;
    struct weir_entry entry;
    struct weir_verdict *verdict;
    bool held;
    bool stale;                     /* the limit's set is gone: nothing has been decided */
    struct weir_reserved *reserved; /* what was charged is noted there, as its part number `part`; NULL: nowhere */
    uint32_t part;
    uint64_t end_ns;
    bool opened; /* one more reservation of the key is open, unless all is refused */
};

static void judge_newcomer(struct weir_limiter *limiter, struct job *job)
{
    struct weir_state state;
    uint64_t wait_ns = weir_entry_newcomer(limiter, &job->terms.limit, job->event.now_ns, &state);
    if (wait_ns > 0)
        weir_entry_bar(&job->terms.limit, job->event.cost, wait_ns, job->verdict);
    else
        weir_limit_judge(&job->terms.limit, &state, &job->event, job->verdict);
}

/* Whether a charge would find room in a log: where others may be evicted for it, yes. */
static bool has_room(struct weir_limiter *limiter, struct job *job, uint64_t *ret_wait_ns)
{
    return job->terms.on_full == WEIR_ON_FULL_EVICT ||
           weir_entry_room(limiter, &job->terms, &job->event, job->event.cost, &job->entry, ret_wait_ns);
}

/* Judges the key that has no entry, or, `absent` saying so, only finds out whether it could have one. Holds what it
 * finds. */
static void look_at_entry(struct weir_limiter *limiter, struct job *job, enum weir_absent absent)
{
    uint64_t wait_ns;
    enum weir_hold result = weir_entry_hold(limiter, &job->terms, job->charge->key.hash, absent, &job->event,
                                            &job->entry, &wait_ns);
    job->held = result == WEIR_HOLD_OK;
    switch (result) {
    case WEIR_HOLD_ABSENT:
        judge_newcomer(limiter, job);
        if (absent == WEIR_ABSENT_LEAVE && job->verdict->admitted && job->event.cost > 0 &&
            job->terms.on_full == WEIR_ON_FULL_REFUSE)
            look_at_entry(limiter, job, WEIR_ABSENT_INSERT_FREE);
        break;
    case WEIR_HOLD_FULL:
        judge_newcomer(limiter, job);
        weir_verdict_refuse_full(job->verdict, wait_ns);
        break;
    case WEIR_HOLD_STALE:
        job->stale = true;
        break;
    case WEIR_HOLD_OK:
        if (weir_limit_judge(&job->terms.limit, &job->entry.state, &job->event, job->verdict) &&
            !has_room(limiter, job, &wait_ns))
            weir_verdict_refuse_full(job->verdict, wait_ns);
    }
}

/* ---- what a reserve notes ---- */

static struct weir_reserve_marks *marks_of(const struct weir_limiter *limiter)
{
    return __atomic_load_n(&limiter->marks, __ATOMIC_ACQUIRE);
}

/* Whether there is a place for the mark of the key, if it needs one. */
static bool open_mark(struct weir_limiter *limiter, struct job *job)
{
    const struct weir_reserved *reserved = job->reserved;
    job->opened = false;
    return !reserved || !job->terms.limit.reserves ||
           weir_reserve_marks_open(marks_of(limiter), reserved->key.hash, reserved->epoch, job->end_ns,
                                   job->event.now_ns, &job->opened);
}

/* It has been charged. What a key had of an epoch that is over is closed with that. */
static void note_reserved(struct weir_limiter *limiter, const struct job *job)
{
    if (job->reserved && job->terms.limit.reserves)
        weir_reserve_marks_charged(marks_of(limiter), &job->terms.limit, job->terms.id, &job->event, &job->entry.state,
                                   job->event.cost, job->part, job->reserved);
}

static void close_mark(struct weir_limiter *limiter, struct job *job)
{
    if (job->opened)
        weir_reserve_marks_close(marks_of(limiter), job->reserved->key.hash, 0);
    job->opened = false;
}

static void let_go(struct weir_limiter *limiter, struct job *job)
{
    if (!job->held)
        return;
    job->held = false;
    close_mark(limiter, job);
    if (job->entry.held.newcomer)
        weir_entry_drop(limiter, &job->entry);
    else
        weir_entry_release(limiter, &job->terms, &job->entry);
}

static bool any_stale(const struct job *jobs, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (jobs[i].stale)
            return true;
    return false;
}

/* Judges without charging: what a peek shows, and a first look before anything is inserted. */
static void look(struct weir_limiter *limiter, struct job *job)
{
    struct weir_pair seen;
    const struct weir_limit *limit = &job->terms.limit;
    struct weir_slot *slot = weir_table_find(&limiter->table, job->charge->key.hash, &seen);
    if (slot && weir_limit_is_bucket(limit) && weir_pair_is_free_and_of(seen, weir_id_number(job->terms.id))) {
        struct weir_state state = { .fresh_at = weir_pair_fresh_at(seen) };
        if (!weir_limit_jumped(limit, &state, job->event.now_ns)) {
            weir_limit_judge(limit, &state, &job->event, job->verdict);
            return;
        }
    }
    look_at_entry(limiter, job, WEIR_ABSENT_LEAVE);
    let_go(limiter, job);
}

/* Looks at several, all held at once, so that what they say together is of one instant. Returns false when one that was
 * absent came meanwhile. */
static bool look_together(struct weir_limiter *limiter, struct job *jobs, const uint8_t *order, size_t count)
{
    bool same_instant = true;
    for (size_t i = 0; i < count; i++)
        look_at_entry(limiter, &jobs[order[i]], WEIR_ABSENT_LEAVE);
    for (size_t i = 0; i < count; i++) {
        struct weir_pair seen;
        struct job *job = &jobs[order[i]];
        same_instant = same_instant && (job->held || !weir_table_find(&limiter->table, job->charge->key.hash, &seen));
        let_go(limiter, job);
    }
    return same_instant;
}

static void combine(const struct job *jobs, size_t count, struct weir_decision *d)
{
    struct weir_combining combining = weir_combine_begin(count);
    for (size_t i = 0; i < count; i++)
        weir_combine(&combining, i, jobs[i].verdict);
    *d = weir_combine_end(&combining);
}

/* False: a limit is of a set that is gone; as below. */
static bool look_at_all(struct weir_limiter *limiter, struct job *jobs, const uint8_t *order, size_t count,
                        struct weir_decision *d)
{
    if (count == 1)
        look(limiter, jobs);
    for (int tries = 0; count > 1 && tries < LOOK_TRIES && !look_together(limiter, jobs, order, count); tries++)
        ;
    if (any_stale(jobs, count))
        return false;
    for (size_t i = 0; i < count; i++)
        jobs[i].verdict->shadow = jobs[i].terms.mode == WEIR_MODE_SHADOW;
    combine(jobs, count, d);
    return true;
}

/* Holds the entry of a job and judges it; a log gets its room now, while the request can still be refused. */
static void hold_one(struct weir_limiter *limiter, struct job *job)
{
    uint64_t wait_ns = 1;
    enum weir_absent absent = job->terms.on_full == WEIR_ON_FULL_EVICT ? WEIR_ABSENT_INSERT : WEIR_ABSENT_INSERT_FREE;
    enum weir_hold result = weir_entry_hold(limiter, &job->terms, job->charge->key.hash, absent, &job->event,
                                            &job->entry, &wait_ns);
    job->held = result == WEIR_HOLD_OK;
    job->stale = result == WEIR_HOLD_STALE;
    if (job->stale)
        return;
    if (result == WEIR_HOLD_ABSENT) {
        weir_entry_bar(&job->terms.limit, job->event.cost, wait_ns, job->verdict);
    } else if (!job->held) {
        judge_newcomer(limiter, job);
        weir_verdict_refuse_full(job->verdict, wait_ns);
    } else if (weir_limit_judge(&job->terms.limit, &job->entry.state, &job->event, job->verdict) &&
               !(weir_entry_room(limiter, &job->terms, &job->event, job->event.cost, &job->entry, &wait_ns) &&
                 open_mark(limiter, job))) {
        weir_verdict_refuse_full(job->verdict, wait_ns);
    }
    if (job->verdict->full)
        weir_count_full(limiter, weir_id_number(job->terms.id));
    job->verdict->shadow = job->terms.mode == WEIR_MODE_SHADOW;
}

/* Room for a refused attempt. A key whose clock jumped, and that could not be made empty when it was held, first is. */
static bool has_room_to_drain(struct weir_limiter *limiter, struct job *job)
{
    const struct weir_limit *limit = &job->terms.limit;
    bool jumped = weir_limit_jumped(limit, &job->entry.state, job->event.now_ns);
    uint64_t units = jumped ? limit->capacity : job->event.cost;
    return weir_entry_room(limiter, &job->terms, &job->event, units, &job->entry, NULL);
}

static bool is_permits(const struct job *job)
{
    return job->terms.limit.algorithm == WEIR_CONCURRENCY;
}

/* One number for all concurrency limits of a request; 0 if it meets none. */
static uint64_t permit_next(struct weir_limiter *limiter, const struct job *jobs, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (is_permits(&jobs[i]) && jobs[i].event.cost > 0)
            return __atomic_add_fetch(&limiter->permits, 1, __ATOMIC_RELAXED);
    return 0;
}

/* Charges, drains or leaves a held entry, and lets go. */
static void settle_one(struct weir_limiter *limiter, struct job *job, bool admitted, bool never, uint64_t permit)
{
    const struct weir_limit *limit = &job->terms.limit;
    struct weir_verdict *v = job->verdict;
    bool attempts = job->terms.count_mode == WEIR_COUNT_ATTEMPTS && !never && !v->full;
    if (!admitted || !v->admitted)
        close_mark(limiter, job);
    if (admitted && v->admitted) {
        uint64_t before = weir_permits_in(&job->entry.state.log);
        if (is_permits(job))
            v->ticket = job->event.permit = permit;
        weir_limit_charge(limit, &job->entry.state, &job->event, v);
        note_reserved(limiter, job);
        job->opened = false;
        if (is_permits(job)) /* which forgets those that have ended */
            weir_count_permits(limiter, &job->terms, job->event.cost, 0,
                               before + job->event.cost - weir_permits_in(&job->entry.state.log));
        if (weir_limit_is_bucket(limit))
            v->ticket = weir_ticket_make(job->entry.state.fresh_at);
    } else if (attempts && (!admitted || v->shadow) && job->event.cost <= limit->capacity &&
               has_room_to_drain(limiter, job)) {
        weir_limit_drain(limit, &job->entry.state, &job->event, v);
    } else if (job->entry.held.newcomer) {
        weir_entry_drop(limiter, &job->entry);
        return;
    }
    weir_entry_release(limiter, &job->terms, &job->entry);
}

static bool wants_attempts(const struct job *jobs, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (jobs[i].terms.count_mode == WEIR_COUNT_ATTEMPTS)
            return true;
    return false;
}

/* Charges all together. The order of locks is the ascending order of hashes. */
static bool charge_all(struct weir_limiter *limiter, struct job *jobs, const uint8_t *order, size_t count,
                       struct weir_decision *d)
{
    for (size_t i = 0; i < count; i++)
        if (jobs[order[i]].event.cost > 0)
            hold_one(limiter, &jobs[order[i]]);
    if (any_stale(jobs, count)) {
        for (size_t i = 0; i < count; i++)
            let_go(limiter, &jobs[i]);
        return false;
    }
    combine(jobs, count, d);
    bool admitted = d->admitted, never = d->retry_after_ns == WEIR_NEVER;
    uint64_t permit = admitted ? permit_next(limiter, jobs, count) : 0;
    for (size_t i = 0; i < count; i++)
        if (jobs[i].held)
            settle_one(limiter, &jobs[i], admitted, never, permit);
    if (!admitted) /* attempts that were charged make the wait longer */
        combine(jobs, count, d);
    return true;
}

static bool decide_together(struct weir_limiter *limiter, struct job *jobs, const uint8_t *order, size_t count,
                            unsigned flags, struct weir_decision *d)
{
    bool peek = flags & WEIR_PEEK, sure = count == 1 && jobs->event.cost > 0 && !jobs->event.window.closed &&
                                          jobs->event.cost <= jobs->terms.limit.capacity;
    d->admitted = true;
    if ((peek || !sure) && !look_at_all(limiter, jobs, order, count, d))
        return false;
    if (!peek && (d->admitted || (d->retry_after_ns != WEIR_NEVER && wants_attempts(jobs, count))) &&
        !charge_all(limiter, jobs, order, count, d))
        return false;
    for (size_t i = 0; i < count && !peek; i++)
        if (!jobs[i].verdict->admitted)
            weir_count_refused(limiter, weir_id_number(jobs[i].terms.id));
    return true;
}

/* ---- one charge ---- */

/* Limits that are off are not there: admitted, fresh. */
static void judge_off(const struct weir_limit *limit, struct weir_verdict *v)
{
    *v = (struct weir_verdict){
        .admitted = true, .shadow = true, .capacity = limit->capacity, .remaining = limit->capacity
    };
}

/* The charge as a job, by what its id says now. False if that is of a set that is gone. */
static bool job_init(struct weir_limiter *limiter, const struct weir_charge *charge, const struct weir_time *time,
                     struct weir_verdict *v, struct job *ret_job)
{
    ret_job->reserved = NULL;
    ret_job->opened = false;
    if (!weir_terms_of(limiter, charge->limit, &ret_job->terms))
        return false;
    ret_job->charge = charge;
    ret_job->verdict = v;
    ret_job->held = ret_job->stale = false;
    ret_job->event = weir_event_make(limiter, &ret_job->terms, &charge->key, charge->cost, time);
    ret_job->event.delay_max_ns = charge->delay_max_ns;
    return true;
}

enum weir_step weir_decide_the_long_way(struct weir_limiter *limiter, const struct weir_charge *charge,
                                        const struct weir_time *time, unsigned flags, struct weir_verdict *v)
{
    static const uint8_t first = 0;
    struct weir_decision decision;
    struct job job;
    do {
        if (!job_init(limiter, charge, time, v, &job))
            return WEIR_STEP_STALE;
        if (job.terms.mode == WEIR_MODE_OFF) {
            judge_off(&job.terms.limit, v);
            break;
        }
    } while (!decide_together(limiter, &job, &first, 1, flags, &decision));
    return v->admitted ? WEIR_STEP_ADMITTED : WEIR_STEP_REFUSED;
}

/* ---- several charges ---- */

int weir_decide_check(const struct weir_limiter *limiter, const struct weir_charge *charges, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (charges[i].cost > WEIR_COST_MAX)
            return WEIR_ERANGE;
        if (!weir_record_of(limiter, charges[i].limit))
            return weir_id_error(limiter, charges[i].limit);
    }
    return 0;
}

/* Ascending by hash; WEIR_EDUP if two are equal: the same name and values. */
static int sort_by_hash(const struct weir_charge *charges, size_t count, uint8_t *order)
{
    for (size_t i = 0; i < count; i++) {
        size_t at = i;
        for (; at > 0 && charges[order[at - 1]].key.hash > charges[i].key.hash; at--)
            order[at] = order[at - 1];
        if (at > 0 && charges[order[at - 1]].key.hash == charges[i].key.hash)
            return WEIR_EDUP;
        order[at] = (uint8_t)i;
    }
    return 0;
}

static void note_for(const struct weir_reserving *reserving, size_t i, struct job *job)
{
    job->reserved = reserving->reserved[i];
    job->part = reserving->part;
    job->end_ns = reserving->end_ns;
}

int weir_decide_several(struct weir_limiter *limiter, const struct weir_charge *charges, size_t count,
                        const struct weir_time *time, unsigned flags, const struct weir_reserving *reserving,
                        struct weir_decision *ret_decision, struct weir_verdict *ret_verdicts)
{
    uint8_t order[WEIR_CHARGES_MAX], jobs_order[WEIR_CHARGES_MAX], job_of[WEIR_CHARGES_MAX];
    struct job jobs[WEIR_CHARGES_MAX];
    struct weir_decision decision;
    size_t jobs_count, charge_of[WEIR_CHARGES_MAX];
    if (count > WEIR_CHARGES_MAX)
        return WEIR_ERANGE;
    int error = weir_decide_check(limiter, charges, count);
    if (!error)
        error = sort_by_hash(charges, count, order);
    if (error)
        return error;
    struct weir_time now = weir_decide_time(limiter, time);
    do {
        jobs_count = 0;
        for (size_t i = 0; i < count; i++) {
            struct job *job = &jobs[jobs_count];
            if (!job_init(limiter, &charges[i], &now, &ret_verdicts[i], job))
                return WEIR_ESTALE;
            if (reserving)
                note_for(reserving, i, job);
            job_of[i] = job->terms.mode == WEIR_MODE_OFF ? UINT8_MAX : (uint8_t)jobs_count;
            if (job_of[i] == UINT8_MAX)
                judge_off(&job->terms.limit, &ret_verdicts[i]);
            else
                charge_of[jobs_count++] = i;
        }
        for (size_t i = 0, n = 0; i < count; i++)
            if (job_of[order[i]] != UINT8_MAX)
                jobs_order[n++] = job_of[order[i]];
    } while (!decide_together(limiter, jobs, jobs_order, jobs_count, flags, &decision));
    *ret_decision = decision;
    ret_decision->deciding = decision.deciding < jobs_count ? charge_of[decision.deciding] : count;
    return 0;
}
