/* SPDX-License-Identifier: Apache-2.0
 *
 * A client of the lock: acquire, install, read, write back, write a few times, release; and the replicas it talks to.
 * It goes by its own deadline before each write, gives up where an answer is missing, and asks again. One that is
 * heedless neither renews nor looks at its deadline: the resource alone must stop it. */
#include "sim/locks_inside.h"
#include "weir/error.h"

#define STOPPED_PPM 80000 /* between its own check and the sending, or between two replicas */

static uint64_t client_now(const struct locks *locks, uint32_t client)
{
    return locks_clock_ns(locks, &locks->clients[client].clock);
}

/* It may be stopped right here, between its own check and the sending; what is sent goes out when it wakes. */
static uint64_t stop(struct locks *locks, uint32_t client)
{
    struct locks_client *self = &locks->clients[client];
    if (!weir_sim_random_chance(&locks->random, STOPPED_PPM))
        return 0;
    uint64_t stopped_ns = weir_sim_random_below(&locks->random, 2 * locks->ttl_ns);
    self->paused_until_ns = weir_max_u64(self->paused_until_ns, locks->now_ns + stopped_ns);
    locks->result->pauses++;
    return stopped_ns;
}

static void ask_service(struct locks *locks, uint32_t client, enum locks_verb verb)
{
    struct locks_client *self = &locks->clients[client];
    struct locks_message message = { .verb = verb,
                                     .client = client,
                                     .replica = self->weir,
                                     .holder = self->session * LOCKS_CLIENTS_MAX + client + 1,
                                     .turn = self->turn,
                                     .token = self->token,
                                     .sent_ns = client_now(locks, client) };
    message.stopped_ns = stop(locks, client);
    if (verb == LOCKS_ACQUIRE && !self->hasty)
        message.wait_ns = weir_sim_random_below(&locks->random, self->patience_ns);
    locks_send(locks, &message);
}

/* As many replicas as it needs and perhaps some more, in any order. */
static void ask_replicas(struct locks *locks, uint32_t client, enum locks_phase phase, enum locks_verb verb,
                         unsigned need)
{
    struct locks_client *self = &locks->clients[client];
    struct weir_sim_random *random = &locks->random;
    self->phase = phase;
    self->turn++;
    self->sequence += verb == LOCKS_WRITE;
    weir_round_begin(&self->round, &locks->quorum, need);
    uint64_t stopped_ns = stop(locks, client);
    uint64_t stopped_at = weir_sim_random_below(random, need);
    uint64_t asked = weir_sim_random_in(random, need, locks->quorum.replicas);
    for (uint64_t mask = 0, i = 0; i < asked; i++) {
        uint32_t at = (uint32_t)weir_sim_random_below(random, locks->quorum.replicas);
        while (mask >> at & 1)
            at = (at + 1) % locks->quorum.replicas;
        mask |= UINT64_C(1) << at;
        locks_send(locks, &(struct locks_message){ .verb = verb,
                                                   .client = client,
                                                   .replica = at,
                                                   .turn = self->turn,
                                                   .token = self->token,
                                                   .version = { self->token, self->sequence },
                                                   .value = self->value,
                                                   .stopped_ns = i < stopped_at ? 0 : stopped_ns });
    }
    locks_wake(locks, client, stopped_ns + self->patience_ns);
}

static void leave(struct locks *locks, uint32_t client, bool release)
{
    struct locks_client *self = &locks->clients[client];
    self->phase = LOCKS_IDLE;
    self->turn++;
    weir_deadline_lose(&self->deadline);
    if (release)
        ask_service(locks, client, LOCKS_RELEASE);
    self->session++;
    self->weir = (uint32_t)weir_sim_random_below(&locks->random, locks->weirs_count);
    locks_wake(locks, client, weir_sim_random_in(&locks->random, 10, 500) * LOCKS_MS);
}

static void install(struct locks *locks, uint32_t client)
{
    ask_replicas(locks, client, LOCKS_INSTALLING, LOCKS_INSTALL,
                 weir_takeover_need(&locks->quorum, WEIR_TAKEOVER_INSTALL));
}

static void read(struct locks *locks, uint32_t client)
{
    locks->clients[client].best = (struct weir_version){ .sequence = 0 };
    locks->clients[client].value = 0;
    ask_replicas(locks, client, LOCKS_READING, LOCKS_READ, weir_takeover_need(&locks->quorum, WEIR_TAKEOVER_READ));
}

static void think(struct locks *locks, uint32_t client)
{
    struct locks_client *self = &locks->clients[client];
    self->phase = LOCKS_READY;
    self->round.need = 0;
    self->turn++;
    locks_wake(locks, client, weir_sim_random_in(&locks->random, 1, 700) * LOCKS_MS);
}

static void show(struct locks *locks, uint32_t client)
{
    locks_check_shown(locks, locks->clients[client].grant, locks->clients[client].value);
    think(locks, client);
}

static void write_next(struct locks *locks, uint32_t client)
{
    struct locks_client *self = &locks->clients[client];
    bool mine = self->heedless || weir_deadline_mine(&self->deadline, client_now(locks, client));
    if (self->writes_left == 0 || !mine) {
        leave(locks, client, true);
        return;
    }
    self->writes_left--;
    self->value++;
    self->late = locks_check_late(locks, self->grant);
    ask_replicas(locks, client, LOCKS_READY, LOCKS_WRITE, weir_takeover_need(&locks->quorum, WEIR_TAKEOVER_READY));
}

/* A round is done. */
static void go_on(struct locks *locks, uint32_t client, enum locks_verb verb)
{
    struct locks_client *self = &locks->clients[client];
    bool late_install = locks->plant == WEIR_SIM_LOCKS_INSTALL_LATE;
    bool installed_last = verb == LOCKS_INSTALL && late_install;
    if (verb == LOCKS_INSTALL)
        locks_check_installed(locks, self->grant);
    if (verb == LOCKS_INSTALL && !late_install) {
        read(locks, client);
    } else if (verb == LOCKS_READ && late_install) {
        install(locks, client);
    } else if (verb == LOCKS_READ && locks->plant == WEIR_SIM_LOCKS_NO_WRITE_BACK) {
        show(locks, client);
    } else if (verb == LOCKS_READ || installed_last) {
        ask_replicas(locks, client, LOCKS_WRITING_BACK, LOCKS_WRITE,
                     weir_takeover_need(&locks->quorum, WEIR_TAKEOVER_WRITE_BACK));
    } else if (self->phase == LOCKS_WRITING_BACK) {
        show(locks, client);
    } else {
        locks_check_acknowledged(locks, self->grant, self->value, self->late);
        think(locks, client);
    }
}

static void acquired(struct locks *locks, uint32_t client, const struct locks_message *message)
{
    struct locks_client *self = &locks->clients[client];
    uint64_t now_ns = client_now(locks, client);
    if (message->result == WEIR_EUNKNOWN || message->result == WEIR_EDOWN) { /* it asks again, as the same owner */
        self->turn++;
        locks_wake(locks, client, weir_sim_random_in(&locks->random, 1, 300) * LOCKS_MS);
        return;
    }
    if (message->result != 0) {
        leave(locks, client, false);
        return;
    }
    /* The same token again: its sequence goes on. */
    if (weir_token_compare(self->token, message->token) != 0)
        self->sequence = 0;
    self->token = message->token;
    self->grant = locks_check_find(locks, message->token);
    weir_deadline_begin(&self->deadline, message->sent_ns, message->lease_ns);
    locks_check_believes(locks, client);
    self->writes_left = (uint32_t)weir_sim_random_in(&locks->random, 1, 6);
    locks_wake_to_renew(locks, client, weir_sub_sat(weir_deadline_renew_at_ns(&self->deadline), now_ns));
    if (locks->plant == WEIR_SIM_LOCKS_INSTALL_LATE)
        read(locks, client);
    else
        install(locks, client);
}

static void renewed(struct locks *locks, uint32_t client, const struct locks_message *message)
{
    struct locks_client *self = &locks->clients[client];
    uint64_t now_ns = client_now(locks, client);
    if (message->result == WEIR_ELOST)
        weir_deadline_lose(&self->deadline);
    else if (message->result == 0 && weir_deadline_extend(&self->deadline, message->sent_ns, message->lease_ns, now_ns))
        locks_check_believes(locks, client);
    uint64_t left_ns = weir_sub_sat(weir_deadline_renew_at_ns(&self->deadline), now_ns);
    if (weir_deadline_mine(&self->deadline, now_ns))
        locks_wake_to_renew(locks, client, message->result == 0 ? left_ns : weir_max_u64(left_ns, 200 * LOCKS_MS));
    else
        locks->result->lost++;
}

static void heard(struct locks *locks, uint32_t client, const struct locks_message *message)
{
    struct locks_client *self = &locks->clients[client];
    if (message->verb == LOCKS_READ && message->result == 0 && weir_version_compare(message->version, self->best) > 0) {
        self->best = message->version;
        self->value = message->value;
    }
    switch (weir_round_hear(&self->round, message->replica, message->result)) {
    case WEIR_ROUND_DONE:
        go_on(locks, client, message->verb);
        break;
    case WEIR_ROUND_FENCED:
        locks->result->fenced++;
        leave(locks, client, false);
        break;
    case WEIR_ROUND_UNKNOWN:
        locks->result->unknown++;
        leave(locks, client, true);
        break;
    case WEIR_ROUND_OPEN:
        break;
    }
}

void locks_client_hear(struct locks *locks, const struct locks_message *message)
{
    const struct locks_client *self = &locks->clients[message->client];
    bool holds = self->phase > LOCKS_ASKING;
    if (message->verb == LOCKS_RENEW && holds && weir_token_compare(message->token, self->token) == 0)
        renewed(locks, message->client, message);
    else if (message->verb == LOCKS_ACQUIRE && self->phase == LOCKS_ASKING && message->turn == self->turn)
        acquired(locks, message->client, message);
    else if (message->verb >= LOCKS_INSTALL && holds && message->turn == self->turn)
        heard(locks, message->client, message);
}

void locks_client_wake(struct locks *locks, uint32_t client)
{
    struct locks_client *self = &locks->clients[client];
    if (self->phase == LOCKS_ASKING && weir_sim_random_below(&locks->random, 5) == 0) {
        leave(locks, client, true);
    } else if (self->phase == LOCKS_IDLE || self->phase == LOCKS_ASKING) {
        self->phase = LOCKS_ASKING;
        self->turn++;
        ask_service(locks, client, LOCKS_ACQUIRE);
        locks_wake(locks, client, self->patience_ns);
    } else if (self->phase == LOCKS_READY && self->round.need == 0) {
        write_next(locks, client);
    } else {
        locks->result->unknown++;
        leave(locks, client, true);
    }
}

void locks_client_renew(struct locks *locks, uint32_t client)
{
    const struct locks_client *self = &locks->clients[client];
    if (self->phase <= LOCKS_ASKING || self->heedless ||
        !weir_deadline_mine(&self->deadline, client_now(locks, client)))
        return;
    ask_service(locks, client, LOCKS_RENEW);
}

/* ---- the resource ---- */

/* Check and act in one step. Every request carries its token, and raises the mark. */
void locks_replica_hear(struct locks *locks, const struct locks_message *message)
{
    struct locks_replica *replica = &locks->replicas[message->replica];
    struct locks_message answer = *message;
    bool plain = message->verb == LOCKS_READ &&
                 (locks->plant == WEIR_SIM_LOCKS_PLAIN_READ || locks->plant == WEIR_SIM_LOCKS_INSTALL_LATE);
    answer.answer = true;
    answer.result = plain ? 0 : weir_mark_install(&replica->mark, message->token);
    if (answer.result == 0 && message->verb == LOCKS_READ) {
        answer.version = replica->version;
        answer.value = replica->value;
    } else if (answer.result == 0 && message->verb == LOCKS_WRITE &&
               weir_version_compare(message->version, replica->version) > 0) {
        replica->version = message->version;
        replica->value = message->value;
    }
    locks_send(locks, &answer);
}
