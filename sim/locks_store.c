/* SPDX-License-Identifier: Apache-2.0
 *
 * The store of locks: core/lease behind what an engine promises (locks/engine.h), up to its failovers. It takes
 * the place of sqlite, etcd and PostgreSQL, whose own code is not simulated. */
#include <string.h>

#include "base/checked.h"
#include "sim/locks_inside.h"
#include "weir/error.h"

#define WALL_S UINT64_C(1700000000)

uint32_t locks_name(const struct weir_lock_op *op)
{
    return op->verb == WEIR_LOCK_RAISE ? 0 : (uint32_t)(*(const char *)op->name.data - 'a');
}

uint64_t locks_owner(const struct weir_lock_op *op)
{
    uint64_t owner = 0;
    if (op->owner.size == sizeof(owner))
        memcpy(&owner, op->owner.data, sizeof(owner));
    return owner;
}

static uint64_t store_now(const struct locks *locks)
{
    return locks_clock_ns(locks, &locks->store.clock);
}

static struct locks_lock *lock_of(struct locks *locks, uint32_t name)
{
    struct locks_lock *lock = &locks->store.memory.locks[name];
    lock->holders.out = lock->out;
    bool held = lock->holders.count > 0;
    if (weir_holders_expire(&lock->holders, store_now(locks)) == 0 && held)
        locks->waits.changed_ns[name] = locks->now_ns;
    return lock;
}

static struct weir_witness witness_now(const struct locks_state *state)
{
    return (struct weir_witness){
        .system = 1, .timeline = state->timeline, .position = state->position, .incarnation = state->incarnation
    };
}

/* ---- raises ---- */

/* Whether it is made. One that waits is due at weir->raise_due_ns. */
static bool raise_incarnation(struct locks *locks, struct locks_weir *weir, uint64_t seen)
{
    struct locks_store *store = &locks->store;
    struct locks_state *state = &store->memory;
    uint64_t wall_ns = (WALL_S + store->wall_step_s) * LOCKS_SECOND + locks->now_ns;
    uint64_t raised = weir_incarnation_raise(state->incarnation, wall_ns / LOCKS_SECOND,
                                             weir_max_u64(seen, weir->witness.incarnation));
    uint64_t wait_ns = weir_incarnation_wait_ns(raised, wall_ns / LOCKS_SECOND, wall_ns);
    bool due = weir->raise_due_ns > 0 && locks->now_ns >= weir->raise_due_ns;
    if (wait_ns > 0 && !due && locks->plant != WEIR_SIM_LOCKS_NO_RAISE) {
        weir->raise_due_ns = weir->raise_due_ns ? weir->raise_due_ns : locks->now_ns + wait_ns;
        return false;
    }
    weir->raise_due_ns = 0;
    weir->needs_raise = false;
    if (locks->plant != WEIR_SIM_LOCKS_NO_RAISE)
        state->incarnation = raised;
    state->position++;
    store->durable.incarnation = state->incarnation;
    store->durable.position = state->position;
    if (locks->weirs_count > 1) /* each knows what it raised to itself: no store forgets the raise of another */
        store->snapshots_count = 0;
    weir->witness = witness_now(state);
    return true;
}

/* ---- one op ---- */

static void say_holder(const struct locks *locks, struct weir_lock_op *op, const struct locks_lock *lock)
{
    op->token = lock->token;
    op->lease_ns = weir_sub_sat(lock->out[0].end_ns, store_now(locks));
    memcpy(op->holder, &lock->holder, sizeof(lock->holder));
    op->holder_size = sizeof(lock->holder);
}

static void put_off(const struct locks *locks, const struct locks_weir *weir, struct weir_lock_op *op)
{
    op->status = WEIR_EDOWN;
    op->due_ns = locks_clock_ns(locks, &weir->clock) + weir_sub_sat(weir->raise_due_ns, locks->now_ns) + 1;
}

static void grant(struct locks *locks, struct locks_asked *asked, struct locks_lock *lock)
{
    struct locks_state *state = &locks->store.memory;
    struct weir_lease_holder held_by;
    uint64_t now_ns = store_now(locks);
    const struct locks_request *request = locks->waits.records[asked->request].request;
    (void)weir_holders_release(&lock->holders, asked->owner, now_ns); /* its old token, below what it has seen */
    (void)weir_holders_take(&lock->holders, asked->owner, ++state->number, asked->op.ttl_ns, now_ns, &held_by);
    state->position++;
    lock->holder = asked->owner;
    lock->ttl_ns = asked->op.ttl_ns;
    lock->request = asked->request;
    lock->token = state->last = (struct weir_token){ state->incarnation, state->number };
    locks->result->grants++;
    if (asked->name == 0)
        locks_check_granted(locks, request && request->from_client ? request->message.client : LOCKS_NOBODY,
                            lock->token, held_by.end_ns);
    locks_waits_granted(locks, asked);
}

static void acquire(struct locks *locks, struct locks_weir *weir, struct locks_asked *asked, struct locks_lock *lock)
{
    struct locks_store *store = &locks->store;
    struct weir_lock_op *op = &asked->op;
    struct weir_lease_holder held_by;
    if (!weir_incarnation_leaves_room(store->memory.incarnation, op->seen)) {
        op->status = WEIR_ERANGE;
        return;
    }
    op->said = WEIR_LOCK_GRANTED;
    if (lock->holders.count > 0 && lock->holder != asked->owner) {
        op->said = WEIR_LOCK_HELD;
    } else if (lock->holders.count > 0 && op->seen <= lock->token.incarnation) {
        uint64_t now_ns = store_now(locks);
        (void)weir_holders_take(&lock->holders, asked->owner, 1, op->ttl_ns, now_ns, &held_by);
        lock->ttl_ns = weir_max_u64(lock->ttl_ns, op->ttl_ns);
        locks->result->kept++;
        if (asked->name == 0)
            locks_check_renewed(locks, lock->token, now_ns, held_by.end_ns);
    } else if (!store->shared && locks->now_ns < store->down_until_ns) {
        op->status = store->fails_unknown ? WEIR_EUNKNOWN : WEIR_EDOWN;
        return;
    } else if ((weir->needs_raise || op->seen > store->memory.incarnation) &&
               !raise_incarnation(locks, weir, op->seen)) {
        put_off(locks, weir, op);
        return;
    } else {
        grant(locks, asked, lock);
    }
    say_holder(locks, op, lock);
}

static void renew(struct locks *locks, struct locks_asked *asked, struct locks_lock *lock)
{
    struct weir_lease_holder held_by;
    uint64_t now_ns = store_now(locks);
    bool renewed = weir_holders_renew(&lock->holders, asked->owner, asked->op.ttl_ns, now_ns, &held_by);
    if (!renewed && locks->plant == WEIR_SIM_LOCKS_RENEW_LATE && lock->holder == asked->owner)
        renewed = weir_holders_take(&lock->holders, asked->owner, lock->token.number, asked->op.ttl_ns, now_ns,
                                    &held_by) != WEIR_HOLDERS_HELD;
    asked->op.said = renewed ? WEIR_LOCK_GRANTED : WEIR_LOCK_FREE;
    if (!renewed)
        return;
    locks->result->renewals++;
    lock->ttl_ns = weir_max_u64(lock->ttl_ns, asked->op.ttl_ns);
    say_holder(locks, &asked->op, lock);
    if (asked->name == 0)
        locks_check_renewed(locks, lock->token, now_ns, held_by.end_ns);
}

static void decide_one(struct locks *locks, struct locks_weir *weir, struct locks_asked *asked)
{
    struct weir_lock_op *op = &asked->op;
    struct locks_lock *lock = lock_of(locks, asked->name);
    op->status = 0;
    op->said = WEIR_LOCK_FREE;
    switch (op->verb) {
    case WEIR_LOCK_ACQUIRE:
        acquire(locks, weir, asked, lock);
        break;
    case WEIR_LOCK_RENEW:
        renew(locks, asked, lock);
        break;
    case WEIR_LOCK_RELEASE:
        if (!weir_holders_release(&lock->holders, asked->owner, store_now(locks)))
            break;
        op->said = WEIR_LOCK_GRANTED;
        locks->waits.changed_ns[asked->name] = locks->now_ns;
        locks->store.dirty = true;
        break;
    case WEIR_LOCK_SHOW:
        if (lock->holders.count == 0)
            break;
        op->said = WEIR_LOCK_GRANTED;
        say_holder(locks, op, lock);
        break;
    case WEIR_LOCK_RAISE:
        op->said = WEIR_LOCK_GRANTED;
        if (!raise_incarnation(locks, weir, op->seen))
            put_off(locks, weir, op);
        op->token.incarnation = locks->store.memory.incarnation;
        break;
    }
}

/* ---- batches ---- */

void locks_store_synced(struct locks *locks)
{
    locks->store.dirty = false;
    if (locks->plant != WEIR_SIM_LOCKS_NOT_DURABLE)
        locks->store.durable = locks->store.memory;
}

void locks_store_decide(struct locks *locks, struct locks_batch *batch)
{
    struct locks_store *store = &locks->store;
    struct locks_weir *weir = &locks->weirs[batch->weir];
    struct weir_witness now = witness_now(&store->memory);
    uint64_t grants = locks->result->grants;
    weir->needs_raise |= weir_witness_differs(&weir->witness, &now);
    struct locks_state before = store->durable;
    for (size_t i = 0; i < batch->count; i++)
        decide_one(locks, weir, &batch->asked[i]);
    if (store->shared)
        locks_store_synced(locks);
    if (locks->result->grants == grants)
        return;
    memmove(&store->snapshots[1], &store->snapshots[0], sizeof(store->snapshots) - sizeof(store->snapshots[0]));
    before.incarnation = weir_max_u64(before.incarnation, locks->weirs_count > 1 ? store->memory.incarnation : 0);
    store->snapshots[0] = before;
    store->snapshots_count += store->snapshots_count < LOCKS_SNAPSHOTS;
    if (store->memory.position % 4 == 0) /* the witness lags behind, as it may */
        weir->witness = witness_now(&store->memory);
}

/* From memory, where the store is embedded: what asks for no new token, and of a lease nothing that is longer. */
bool locks_store_quick(struct weir_lock_engine *base, struct weir_lock_op *op)
{
    struct locks_engine *engine = (struct locks_engine *)(void *)base;
    struct locks *locks = engine->locks;
    struct locks_weir *weir = &locks->weirs[engine->weir];
    struct locks_asked asked = { .op = *op, .name = locks_name(op), .owner = locks_owner(op) };
    const struct locks_lock *lock = lock_of(locks, asked.name);
    bool held = lock->holders.count > 0;
    if (op->verb == WEIR_LOCK_RAISE || (weir->syncing >> asked.name & 1))
        return false;
    if (op->verb == WEIR_LOCK_ACQUIRE && (!held || op->seen > lock->token.incarnation))
        return false;
    if ((op->verb == WEIR_LOCK_ACQUIRE || op->verb == WEIR_LOCK_RENEW) && held && lock->holder == asked.owner &&
        op->ttl_ns > lock->ttl_ns)
        return false;
    decide_one(locks, weir, &asked);
    *op = asked.op;
    return true;
}

/* ---- starts and losses ---- */

/* From what the store says: who holds, with a full lease from now. */
static void leases_begin_anew(struct locks *locks)
{
    uint64_t now_ns = store_now(locks);
    for (uint32_t name = 0; name < LOCKS_NAMES; name++) {
        struct locks_lock *lock = &locks->store.memory.locks[name];
        struct weir_lease_holder held_by;
        bool held = lock->holders.count > 0;
        lock->holders = (struct weir_holders){ .out = lock->out, .max = 1, .seen_ns = now_ns };
        locks->waits.changed_ns[name] = locks->now_ns;
        if (!held)
            continue;
        (void)weir_holders_take(&lock->holders, lock->holder, lock->token.number, lock->ttl_ns, now_ns, &held_by);
        if (name == 0)
            locks_check_leases_begin_anew(locks, held_by.end_ns);
    }
}

void locks_store_started(struct locks *locks, uint32_t at)
{
    struct locks_store *store = &locks->store;
    locks->weirs[at].needs_raise = true;
    locks->weirs[at].raise_due_ns = 0;
    if (locks->weirs_count == 1)
        store->wall_step_s = weir_sim_random_below(&locks->random, UINT64_C(1000000000));
    if (store->shared)
        return;
    store->memory = store->durable;
    store->dirty = false;
    leases_begin_anew(locks);
}

/* Another store answers from now on, one that missed the newest grants: the timeline tells. An embedded one is a backup
 * that somebody restored while weir was down. */
void locks_store_fail_over(struct locks *locks)
{
    struct locks_store *store = &locks->store;
    if (store->snapshots_count == 0)
        return;
    if (!store->shared && locks->weirs[0].manager)
        locks_weir_kill(locks, 0);
    uint64_t timeline = store->durable.timeline + 1;
    uint64_t back = weir_sim_random_below(&locks->random, store->snapshots_count);
    locks->result->failovers++;
    store->durable = store->snapshots[back];
    store->durable.timeline = timeline;
    store->memory = store->durable;
    store->snapshots_count = 0;
    locks_check_forgotten(locks, store->durable.last);
    leases_begin_anew(locks);
}

void locks_store_draw(struct locks *locks)
{
    struct locks_store *store = &locks->store;
    store->shared = locks->plant != WEIR_SIM_LOCKS_NOT_DURABLE && weir_sim_random_below(&locks->random, 5) < 3;
    locks->weirs_count = store->shared ? (uint32_t)weir_sim_random_in(&locks->random, 1, LOCKS_WEIRS_MAX) : 1;
    leases_begin_anew(locks);
}
