/* SPDX-License-Identifier: Apache-2.0
 *
 * One weir: a poller for each server, which asks as src/sessions/poller.c does, and the health that production
 * makes of the answers. */
#include <string.h>

#include "sim/sessions_inside.h"

#define FREEZE_NS (400 * SESSIONS_MS)
#define POLL_NS (30 * SESSIONS_MS)

static uint64_t id_of(uint32_t server)
{
    return 100 + server;
}

void sessions_weir_start(struct sessions *sessions, uint32_t index)
{
    struct sessions_weir *weir = &sessions->weirs[index];
    bool slow = weir->slow;
    *weir = (struct sessions_weir){ .slow = slow, .health = { .freeze_ns = FREEZE_NS } };
    for (uint32_t i = 0; i < sessions->server_count; i++) {
        weir->servers[i].id = id_of(i);
        weir_health_add(&weir->health, &weir->servers[i]);
    }
}

/* ---- asking ---- */

static bool answers(const struct sessions *sessions, const struct sessions_weir *weir, uint32_t server)
{
    return sessions->servers[server].alive && !(weir->unreachable >> server & 1);
}

static void ask(struct sessions *sessions, struct sessions_weir *weir, uint32_t server)
{
    struct sessions_poll *poll = &weir->polls[server];
    struct weir_sim_random *random = &sessions->random;
    uint64_t most = weir->slow ? 120 : 3;
    poll->sent_ns = sessions->now_ns;
    poll->looked_ns = poll->sent_ns + weir_sim_random_below(random, most) * SESSIONS_MS;
    poll->comes_ns = poll->looked_ns + weir_sim_random_below(random, most) * SESSIONS_MS;
    poll->taken = poll->good = false;
}

/* Since the look began all that was in the log then has become visible: it was settled then. */
static uint64_t settled_ns(struct sessions *sessions, struct sessions_poll *poll, uint32_t index)
{
    const struct sessions_server *server = &sessions->servers[index];
    uint64_t result = 0;
    if (!server->primary || poll->settling_started != server->started + server->life)
        poll->settling_ns = 0;
    if (server->primary && server->shown == server->written)
        result = poll->sent_ns;
    else if (poll->settling_ns && sessions_contains(sessions, server->shown, poll->settling))
        result = poll->settling_ns;
    if (result || !poll->settling_ns) {
        poll->settling_ns = sessions->now_ns;
        poll->settling = server->written;
        poll->settling_started = server->started + server->life;
    }
    return result;
}

/* The server says what it shows: at a moment between the question and its answer. */
static void take(struct sessions *sessions, struct sessions_weir *weir, uint32_t index)
{
    struct sessions_poll *poll = &weir->polls[index];
    struct weir_health_reply *reply = &poll->reply;
    poll->taken = true;
    poll->good = answers(sessions, weir, index);
    if (!poll->good) {
        poll->comes_ns = poll->sent_ns + (sessions->servers[index].alive ? SESSIONS_TIMEOUT_NS : 2 * SESSIONS_MS);
        return;
    }
    *reply = (struct weir_health_reply){
        .shown = sessions_db_shown(sessions, index, true),
        .begun_ns = poll->sent_ns,
        .page_size = SESSIONS_PAGE,
        .settled_ns = settled_ns(sessions, poll, index),
    };
    uint32_t branch = weir_health_branch(&weir->servers[index], &reply->shown);
    reply->with_history = branch && !weir_known_find(&weir->health.known, reply->shown.timeline, branch);
    if (reply->with_history)
        reply->history = sessions_db_history(&sessions->servers[index], reply->shown.timeline);
}

static void hear(struct sessions *sessions, struct sessions_weir *weir, uint32_t index)
{
    struct sessions_poll *poll = &weir->polls[index];
    if (poll->good && poll->reply.shown.timeline != weir->told[index].timeline) {
        weir->told[index].timeline = poll->reply.shown.timeline;
        weir->told[index].since_ns = sessions->now_ns;
    }
    if (poll->good)
        weir_health_hear(&weir->health, &weir->servers[index], &poll->reply);
    else
        weir_health_miss(&weir->servers[index]);
    poll->due_ns = weir_max_u64(poll->sent_ns + (weir->slow ? 4 : 1) * POLL_NS, sessions->now_ns + SESSIONS_MS);
    poll->sent_ns = 0;
}

void sessions_weir_advance(struct sessions *sessions, uint32_t index)
{
    struct sessions_weir *weir = &sessions->weirs[index];
    if (weir->back_ns) {
        if (weir->back_ns > sessions->now_ns)
            return;
        sessions_weir_start(sessions, index);
        sessions->result->weir_starts++;
    }
    for (uint32_t i = 0; i < sessions->server_count; i++) {
        struct sessions_poll *poll = &weir->polls[i];
        if (!poll->sent_ns && poll->due_ns <= sessions->now_ns)
            ask(sessions, weir, i);
        if (poll->sent_ns && !poll->taken && poll->looked_ns <= sessions->now_ns)
            take(sessions, weir, i);
        if (poll->sent_ns && poll->taken && poll->comes_ns <= sessions->now_ns)
            hear(sessions, weir, i);
    }
}

void sessions_weir_hurry(struct sessions *sessions, uint32_t index, uint32_t server)
{
    struct sessions_poll *poll = &sessions->weirs[index].polls[server];
    poll->due_ns = weir_min_u64(poll->due_ns, sessions->now_ns + SESSIONS_MS);
}

/* ---- what it knows ---- */

unsigned sessions_weir_look(const struct sessions *sessions, uint32_t index,
                            struct weir_route_server servers[SESSIONS_SERVERS_MAX])
{
    const struct sessions_weir *weir = &sessions->weirs[index];
    for (uint32_t i = 0; i < sessions->server_count; i++) {
        weir_health_show(&weir->health, &weir->servers[i], &servers[i]);
        if (sessions->plant == WEIR_SIM_SESSIONS_NO_SETTLING)
            servers[i].settled_ns = UINT64_MAX;
    }
    if (sessions->plant != WEIR_SIM_SESSIONS_FORMER)
        return sessions->server_count;
    uint32_t former = SESSIONS_NOBODY;
    for (uint32_t i = 0; i < sessions->server_count; i++)
        if (weir_health_phase(&weir->health, &weir->servers[i]) == WEIR_HEALTH_FORMER)
            former = i;
    for (uint32_t i = 0; former != SESSIONS_NOBODY && i < sessions->server_count; i++) {
        servers[i].usable = i == former;
        if (i != former)
            servers[i].shown.timeline = 1;
    }
    return sessions->server_count;
}

uint32_t sessions_weir_branch(const struct sessions *sessions, uint32_t index, const struct weir_shown *shown)
{
    const struct sessions_weir *weir = &sessions->weirs[index];
    for (uint32_t i = 0; i < sessions->server_count; i++) {
        const struct weir_shown *now = &weir->servers[i].last.shown;
        if (now->started == shown->started && now->timeline == shown->timeline)
            return now->branch;
    }
    return 0;
}

static bool is_primary_on(const struct weir_shown *shown, uint32_t timeline)
{
    return shown->primary && shown->timeline == timeline;
}

/* By what it heard, or will hear: an answer that was made before that one went may be on its way. */
static bool believes_in(const struct sessions_weir *weir, uint32_t server, uint32_t timeline)
{
    const struct sessions_poll *poll = &weir->polls[server];
    return (weir->servers[server].up && is_primary_on(&weir->servers[server].last.shown, timeline)) ||
           (poll->sent_ns && poll->taken && poll->good && is_primary_on(&poll->reply.shown, timeline));
}

bool sessions_weir_all_know(const struct sessions *sessions, uint32_t primary)
{
    const struct sessions_server *server = &sessions->servers[primary];
    for (uint32_t i = 0; i < sessions->weir_count; i++) {
        const struct sessions_weir *weir = &sessions->weirs[i];
        const struct weir_shown *shown = &weir->servers[primary].last.shown;
        if (weir->back_ns)
            continue;
        if (!is_primary_on(shown, server->timeline) || shown->started != server->started)
            return false;
        for (uint32_t other = 0; other < sessions->server_count; other++)
            if (other != primary && believes_in(weir, other, server->timeline))
                return false;
    }
    return true;
}
