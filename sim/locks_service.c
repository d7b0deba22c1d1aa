/* SPDX-License-Identifier: Apache-2.0
 *
 * The lock service: core/lease on a store that is durable, up to its failovers. */
#include <string.h>

#include "sim/locks_inside.h"
#include "weir/error.h"

#define WALL_S UINT64_C(1700000000)

static uint64_t service_now(const struct locks *locks)
{
    return locks_clock_ns(locks, &locks->service.clock);
}

static struct weir_witness witness_now(const struct locks_store *store)
{
    return (struct weir_witness){
        .system = 1, .timeline = store->timeline, .position = store->position, .incarnation = store->incarnation
    };
}

static void raise_incarnation(struct locks *locks)
{
    struct locks_service *service = &locks->service;
    struct locks_store *memory = &service->memory;
    if (locks->plant != WEIR_SIM_LOCKS_NO_RAISE)
        memory->incarnation = weir_incarnation_raise(memory->incarnation,
                                                     WALL_S + locks->now_ns / LOCKS_SECOND + service->wall_step_s,
                                                     service->witness.incarnation);
    service->store = *memory;
    service->witness = witness_now(memory);
}

/* From what the store says: who holds, with a full lease from now. */
static void leases_begin_anew(struct locks *locks)
{
    struct locks_service *service = &locks->service;
    struct weir_permit permit;
    uint64_t now_ns = service_now(locks);
    service->permits = (struct weir_permits){ .out = service->out, .max = 1, .seen_ns = now_ns };
    service->last_holder = service->memory.holder;
    if (service->memory.holder != 0)
        (void)weir_permits_take(&service->permits, service->memory.holder, service->memory.number, locks->ttl_ns,
                                now_ns, &permit);
    locks_check_leases_begin_anew(locks, now_ns + locks->ttl_ns);
}

void locks_service_start(struct locks *locks)
{
    struct locks_service *service = &locks->service;
    service->up = true;
    service->life++;
    service->memory = service->store;
    raise_incarnation(locks);
    leases_begin_anew(locks);
}

/* Another store answers from now on, one that missed the newest grants: the timeline tells. */
void locks_service_fail_over(struct locks *locks)
{
    struct locks_service *service = &locks->service;
    if (service->snapshots_count == 0)
        return;
    uint64_t timeline = service->store.timeline + 1;
    uint64_t back = weir_sim_random_below(&locks->random, service->snapshots_count);
    locks->result->failovers++;
    service->store = service->snapshots[back];
    service->store.timeline = timeline;
    service->memory = service->store;
    service->snapshots_count = 0;
    locks_check_forgotten(locks, service->store.token);
    if (!service->up)
        return;
    struct weir_witness now = witness_now(&service->store);
    if (weir_witness_differs(&service->witness, &now))
        raise_incarnation(locks);
    leases_begin_anew(locks);
}

static void commit(struct locks *locks)
{
    struct locks_service *service = &locks->service;
    memmove(&service->snapshots[1], &service->snapshots[0], sizeof(service->snapshots) - sizeof(service->snapshots[0]));
    service->snapshots[0] = service->store;
    service->snapshots_count += service->snapshots_count < LOCKS_SNAPSHOTS;
    if (locks->plant != WEIR_SIM_LOCKS_NOT_DURABLE)
        service->store = service->memory;
    if (service->memory.position % 4 == 0) /* the witness lags behind, as it may */
        service->witness = witness_now(&service->memory);
}

static void acquire(struct locks *locks, const struct locks_message *message, struct locks_message *answer)
{
    struct locks_service *service = &locks->service;
    struct locks_store *memory = &service->memory;
    struct weir_permit permit;
    uint64_t holder = message->holder, now_ns = service_now(locks);
    enum weir_permits_answer said = weir_permits_take(&service->permits, holder, memory->number + 1, locks->ttl_ns,
                                                      now_ns, &permit);
    if (said == WEIR_PERMITS_HELD) {
        answer->result = WEIR_EHELD;
        return;
    }
    if (said == WEIR_PERMITS_GRANTED) {
        memory->number++;
        memory->position++;
        memory->holder = service->last_holder = holder;
        memory->token = (struct weir_token){ memory->incarnation, memory->number };
        commit(locks);
        locks->result->grants++;
        locks_check_granted(locks, message->client, memory->token, permit.end_ns);
    } else {
        locks->result->kept++;
        locks_check_renewed(locks, memory->token, now_ns, permit.end_ns);
    }
    answer->token = memory->token;
    answer->lease_ns = permit.end_ns - now_ns;
}

static void renew(struct locks *locks, const struct locks_message *message, struct locks_message *answer)
{
    struct locks_service *service = &locks->service;
    struct weir_permit permit;
    uint64_t holder = message->holder, now_ns = service_now(locks);
    bool renewed = weir_permits_renew(&service->permits, holder, locks->ttl_ns, now_ns, &permit);
    if (!renewed && locks->plant == WEIR_SIM_LOCKS_RENEW_LATE && service->last_holder == holder)
        renewed = weir_permits_take(&service->permits, holder, service->memory.number, locks->ttl_ns, now_ns,
                                    &permit) != WEIR_PERMITS_HELD;
    answer->result = renewed ? 0 : WEIR_ELOST;
    if (!renewed)
        return;
    locks->result->renewals++;
    answer->lease_ns = permit.end_ns - now_ns;
    locks_check_renewed(locks, service->memory.token, now_ns, permit.end_ns);
}

void locks_service_hear(struct locks *locks, const struct locks_message *message)
{
    struct locks_message answer = *message;
    answer.answer = true;
    answer.result = 0;
    if (!locks->service.up)
        return;
    if (message->verb == LOCKS_ACQUIRE)
        acquire(locks, message, &answer);
    else if (message->verb == LOCKS_RENEW)
        renew(locks, message, &answer);
    else
        (void)weir_permits_release(&locks->service.permits, message->holder, service_now(locks));
    /* Killed between commit and answer. */
    if (weir_sim_random_chance(&locks->random, 3000)) {
        locks->service.up = false;
        locks->result->restarts++;
        return;
    }
    locks_send(locks, &answer);
}
