/* SPDX-License-Identifier: Apache-2.0
 *
 * The seed, the queue of events and the loop: messages, timers and faults. Whom the messages are for is in
 * locks_weir.c, locks_store.c, locks_client.c and locks_visitor.c; what is checked is in locks_check.c and
 * locks_waits.c. Called by `weir sim --locks` (cli/sim_locks.c) and by tests/sim/test_locks.c. */
#include "sim/locks.h"

#include <stdlib.h>
#include <string.h>

#include "sim/locks_inside.h"

#define DURATION_NS (40 * LOCKS_SECOND)
#define RATE_MAX 10486 /* clocks run at most 1 % faster or slower, 2^-20 */
#define LOSS_PPM 4000
#define SLOW_PPM 12000

#define CALM_NS (26 * LOCKS_SECOND)
#define STOP_NS (36 * LOCKS_SECOND) /* the weirs stop, and answer everybody */

enum fault { FAULT_START, FAULT_FAIL_OVER, FAULT_PAUSE, FAULT_KILL, FAULT_STOP, FAULT_STALL, FAULT_DOWN, FAULT_KINDS };
enum timer { TIMER_TURN, TIMER_RENEW, TIMER_VISIT, TIMER_LOOK };

const char *weir_sim_locks_plant_name(enum weir_sim_locks_plant plant)
{
    static const char *const names[WEIR_SIM_LOCKS_PLANTS] = { "none",       "install-late", "no-raise",
                                                              "renew-late", "not-durable",  "install-short",
                                                              "read-short", "plain-read",   "no-write-back" };
    return plant < WEIR_SIM_LOCKS_PLANTS ? names[plant] : NULL;
}

uint64_t locks_clock_ns(const struct locks *locks, const struct locks_clock *clock)
{
    int64_t ahead = (int64_t)(locks->now_ns >> 20) * clock->rate;
    return clock->base_ns + locks->now_ns + (uint64_t)ahead;
}

/* ---- what is yet to happen ---- */

void *locks_grown(void *memory, size_t size)
{
    void *more = realloc(memory, size);
    if (!more)
        abort(); /* a simulation cannot go on without */
    return more;
}

static void push_message(struct locks *locks, uint64_t at_ns, const struct locks_message *message)
{
    if (locks->free_count == 0) {
        uint32_t room = locks->room == 0 ? 64 : locks->room * 2;
        locks->messages = locks_grown(locks->messages, room * sizeof(*locks->messages));
        locks->free = locks_grown(locks->free, room * sizeof(*locks->free));
        for (uint32_t i = locks->room; i < room; i++)
            locks->free[locks->free_count++] = i;
        locks->room = room;
    }
    uint32_t slot = locks->free[--locks->free_count];
    locks->messages[slot] = *message;
    weir_sim_queue_push(&locks->queue, at_ns, &(struct weir_sim_event){ .kind = WEIR_SIM_EVENT_MESSAGE, .slot = slot });
}

void locks_send(struct locks *locks, const struct locks_message *message)
{
    struct weir_sim_random *random = &locks->random;
    bool calm = locks->now_ns >= locks->calm_ns;
    if (!calm && weir_sim_random_chance(random, LOSS_PPM))
        return;
    uint64_t delay_ns = weir_sim_random_in(random, LOCKS_MS / 10, 3 * LOCKS_MS);
    if (!calm && weir_sim_random_chance(random, SLOW_PPM))
        delay_ns = weir_sim_random_below(random, 5 * locks->ttl_ns / 2);
    struct locks_message sent = *message;
    sent.stopped_ns = 0;
    push_message(locks, locks->now_ns + message->stopped_ns + delay_ns, &sent);
}

static void push_timer(struct locks *locks, uint32_t client, enum timer timer, uint64_t at_ns)
{
    weir_sim_queue_push(&locks->queue, at_ns,
                        &(struct weir_sim_event){ .kind = WEIR_SIM_EVENT_TIMER,
                                                  .place = client,
                                                  .number = timer,
                                                  .life = timer == TIMER_TURN ? locks->clients[client].turn : 0 });
}

void locks_wake(struct locks *locks, uint32_t client, uint64_t delay_ns)
{
    push_timer(locks, client, TIMER_TURN, locks->now_ns + delay_ns);
}

void locks_wake_to_renew(struct locks *locks, uint32_t client, uint64_t delay_ns)
{
    push_timer(locks, client, TIMER_RENEW, locks->now_ns + delay_ns);
}

void locks_batch_event(struct locks *locks, enum locks_step step, uint32_t weir, uint32_t slot, uint64_t at_ns)
{
    weir_sim_queue_push(&locks->queue, at_ns,
                        &(struct weir_sim_event){ .kind = WEIR_SIM_EVENT_FINISH,
                                                  .place = weir,
                                                  .number = step,
                                                  .life = locks->weirs[weir].timer,
                                                  .slot = slot });
}

void locks_visitor_event(struct locks *locks, uint32_t visitor, uint64_t delay_ns)
{
    weir_sim_queue_push(&locks->queue, locks->now_ns + delay_ns,
                        &(struct weir_sim_event){ .kind = WEIR_SIM_EVENT_TIMER,
                                                  .place = visitor,
                                                  .number = TIMER_VISIT,
                                                  .life = ++locks->visitors[visitor].timer });
}

static void push_fault(struct locks *locks, enum fault fault, uint32_t weir, uint64_t delay_ns)
{
    weir_sim_queue_push(&locks->queue, locks->now_ns + delay_ns,
                        &(struct weir_sim_event){ .kind = WEIR_SIM_EVENT_FAULT, .number = fault, .place = weir });
}

/* ---- faults ---- */

static void pause_one(struct locks *locks)
{
    uint32_t client = (uint32_t)weir_sim_random_below(&locks->random, locks->clients_count);
    locks->clients[client].paused_until_ns = locks->now_ns + weir_sim_random_below(&locks->random, 3 * locks->ttl_ns);
    locks->result->pauses++;
}

void locks_weir_ended(struct locks *locks, uint32_t weir)
{
    if (locks->now_ns < STOP_NS)
        push_fault(locks, FAULT_START, weir, weir_sim_random_in(&locks->random, 50, 3000) * LOCKS_MS);
}

static void fault_happens(struct locks *locks, enum fault fault, uint32_t weir)
{
    struct weir_sim_random *random = &locks->random;
    switch (fault) {
    case FAULT_START:
        if (locks->now_ns < STOP_NS)
            locks_weir_start(locks, weir);
        break;
    case FAULT_FAIL_OVER:
        locks_store_fail_over(locks);
        break;
    case FAULT_PAUSE:
        pause_one(locks);
        break;
    case FAULT_KILL:
        locks->weirs[weir].doomed = weir_sim_random_below(random, 2) == 0;
        if (!locks->weirs[weir].doomed)
            locks_weir_kill(locks, weir);
        break;
    case FAULT_STOP:
        locks_weir_stop(locks, weir);
        break;
    case FAULT_STALL:
        locks->store.stalled_until_ns = locks->now_ns + weir_sim_random_in(random, 100, 3500) * LOCKS_MS;
        break;
    case FAULT_DOWN:
        locks->store.down_until_ns = locks->now_ns + weir_sim_random_in(random, 100, 3000) * LOCKS_MS;
        locks->store.fails_unknown = weir_sim_random_below(random, 2) == 0;
        break;
    case FAULT_KINDS:
        break;
    }
}

static void faults_draw(struct locks *locks)
{
    struct weir_sim_random *random = &locks->random;
    static const uint64_t most[FAULT_KINDS] = { [FAULT_FAIL_OVER] = 3, [FAULT_PAUSE] = 20, [FAULT_KILL] = 3,
                                                [FAULT_STOP] = 2,      [FAULT_STALL] = 4,  [FAULT_DOWN] = 3 };
    for (int fault = 0; fault < FAULT_KINDS; fault++) {
        uint64_t left = most[fault] ? weir_sim_random_in(random, 0, most[fault]) : 0;
        for (; left > 0; left--)
            push_fault(locks, (enum fault)fault, (uint32_t)weir_sim_random_below(random, locks->weirs_count),
                       weir_sim_random_below(random, CALM_NS));
    }
}

/* ---- the loop ---- */

static void message_comes(struct locks *locks, uint32_t slot)
{
    struct locks_message message = locks->messages[slot];
    locks->free[locks->free_count++] = slot;
    if (message.answer && locks->clients[message.client].paused_until_ns > locks->now_ns)
        push_message(locks, locks->clients[message.client].paused_until_ns, &message);
    else if (message.answer)
        locks_client_hear(locks, &message);
    else if (message.verb >= LOCKS_INSTALL)
        locks_replica_hear(locks, &message);
    else
        locks_weir_hear(locks, &message);
}

static void client_due(struct locks *locks, const struct weir_sim_event *event)
{
    const struct locks_client *client = &locks->clients[event->place];
    if (event->number == TIMER_TURN && event->life != client->turn)
        return;
    if (client->paused_until_ns > locks->now_ns)
        push_timer(locks, event->place, (enum timer)event->number, client->paused_until_ns);
    else if (event->number == TIMER_TURN)
        locks_client_wake(locks, event->place);
    else
        locks_client_renew(locks, event->place);
}

static void look(struct locks *locks)
{
    locks_waits_look(locks);
    weir_sim_queue_push(&locks->queue, locks->now_ns + LOCKS_LOOK_NS,
                        &(struct weir_sim_event){ .kind = WEIR_SIM_EVENT_TIMER, .number = TIMER_LOOK });
    bool stops = locks->now_ns >= STOP_NS && locks->now_ns < STOP_NS + LOCKS_LOOK_NS;
    for (uint32_t i = 0; i < locks->weirs_count && stops; i++)
        locks_weir_stop(locks, i);
}

static void timer_due(struct locks *locks, const struct weir_sim_event *event)
{
    if (event->number == TIMER_LOOK)
        look(locks);
    else if (event->number != TIMER_VISIT)
        client_due(locks, event);
    else if (locks->visitors[event->place].timer == event->life)
        locks_visitor_wake(locks, event->place);
}

static void event_happens(struct locks *locks, const struct weir_sim_event *event)
{
    locks->result->events++;
    if (event->kind == WEIR_SIM_EVENT_MESSAGE)
        message_comes(locks, event->slot);
    else if (event->kind == WEIR_SIM_EVENT_TIMER)
        timer_due(locks, event);
    else if (event->kind == WEIR_SIM_EVENT_FINISH)
        locks_weir_step(locks, event);
    else
        fault_happens(locks, (enum fault)event->number, event->place);
}

/* ---- what the seed chooses ---- */

struct locks_clock locks_clock_draw(struct weir_sim_random *random)
{
    return (struct locks_clock){ .base_ns = weir_sim_random_below(random, UINT64_C(1) << 50),
                                 .rate = (int64_t)weir_sim_random_in(random, 0, 2 * RATE_MAX) - RATE_MAX };
}

static void quorum_draw(struct locks *locks)
{
    struct weir_sim_random *random = &locks->random;
    struct weir_quorum *quorum = &locks->quorum;
    bool several = locks->plant >= WEIR_SIM_LOCKS_INSTALL_SHORT;
    quorum->replicas = (unsigned)weir_sim_random_in(random, several ? 3 : 1, several ? 3 : LOCKS_REPLICAS_MAX);
    quorum->write = (unsigned)weir_sim_random_in(random, 1, quorum->replicas - (several ? 1 : 0));
    unsigned low = quorum->replicas - quorum->write + 1;
    quorum->install = (unsigned)weir_sim_random_in(random, low, quorum->replicas);
    quorum->read = (unsigned)weir_sim_random_in(random, low, quorum->replicas);
    weir_assert(weir_quorum_check(quorum, NULL) == 0);
    if (several) /* no more than the two sums ask for */
        quorum->install = quorum->read = low;
    if (locks->plant == WEIR_SIM_LOCKS_INSTALL_SHORT)
        quorum->install = low - 1;
    if (locks->plant == WEIR_SIM_LOCKS_READ_SHORT)
        quorum->read = low - 1;
}

static void world_draw(struct locks *locks)
{
    struct weir_sim_random *random = &locks->random;
    locks->ttl_ns = weir_sim_random_in(random, 2000, 5000) * LOCKS_MS;
    quorum_draw(locks);
    locks->clients_count = (uint32_t)weir_sim_random_in(random, 2, LOCKS_CLIENTS_MAX);
    locks->store.clock = locks_clock_draw(random);
    locks_store_draw(locks);
    for (uint32_t i = 0; i < locks->weirs_count; i++) {
        locks_weir_draw(locks, i);
        locks_weir_start(locks, i);
    }
    locks->visitors_count = (uint32_t)weir_sim_random_in(random, 0, LOCKS_VISITORS_MAX);
    for (uint32_t i = 0; i < locks->visitors_count; i++)
        locks_visitor_event(locks, i, weir_sim_random_below(random, LOCKS_SECOND));
    for (uint32_t i = 0; i < locks->clients_count; i++) {
        locks->clients[i].clock = locks_clock_draw(random);
        locks->clients[i].heedless = weir_sim_random_below(random, 2) == 0;
        locks->clients[i].hasty = weir_sim_random_below(random, 2) == 0;
        locks->clients[i].patience_ns = weir_sim_random_in(random, 300 * LOCKS_MS, 2 * locks->ttl_ns);
        locks_wake(locks, i, weir_sim_random_below(random, LOCKS_SECOND));
    }
    faults_draw(locks);
    look(locks);
}

static void world_end(struct locks *locks)
{
    locks->now_ns = DURATION_NS;
    for (uint32_t i = 0; i < locks->weirs_count; i++)
        locks_weir_kill(locks, i);
    for (uint32_t i = 0; i < locks->batches_count; i++)
        free(locks->batches[i]);
    weir_sim_queue_deinit(&locks->queue);
    free(locks->waits.records);
    free(locks->waits.holds);
    free(locks->batches);
    free(locks->messages);
    free(locks->free);
    free(locks);
}

void weir_sim_locks_run(uint64_t seed, enum weir_sim_locks_plant plant, struct weir_sim_locks_result *ret_result)
{
    struct locks *locks = locks_grown(NULL, sizeof(*locks));
    struct weir_sim_event event;
    *ret_result = (struct weir_sim_locks_result){ .duration_ns = DURATION_NS };
    memset(locks, 0, sizeof(*locks));
    locks->plant = plant;
    locks->random.state = seed;
    locks->result = ret_result;
    locks->calm_ns = CALM_NS;
    weir_sim_queue_init(&locks->queue);
    world_draw(locks);
    ret_result->clients = locks->clients_count;
    ret_result->replicas = locks->quorum.replicas;
    ret_result->install = locks->quorum.install;
    ret_result->read = locks->quorum.read;
    ret_result->write = locks->quorum.write;
    ret_result->weirs = locks->weirs_count;
    ret_result->visitors = locks->visitors_count;
    ret_result->shared = locks->store.shared;
    while (weir_sim_queue_pop(&locks->queue, &locks->now_ns, &event) && locks->now_ns < DURATION_NS &&
           !ret_result->broken)
        event_happens(locks, &event);
    for (uint32_t i = 0; i < locks->weirs_count && !ret_result->broken; i++)
        if (locks->weirs[i].manager)
            locks_broken(locks, "a weir that was to stop has not answered everybody");
    world_end(locks);
}
