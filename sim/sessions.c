/* SPDX-License-Identifier: Apache-2.0
 *
 * The seed, faults and the loop, in ticks of 1 ms: the database moves first, then the weirs, then the sessions
 * (sessions_db.c, sessions_weir.c, sessions_client.c). What is checked is sessions_check.c. Called by `weir sim
 * --sessions` (cli/sim_sessions.c) and by tests/sim/test_sessions.c. */
#include "sim/sessions.h"

#include <stdlib.h>
#include <string.h>

#include "sim/sessions_inside.h"

#define DURATION_NS (8000 * SESSIONS_MS)
#define CALM_NS (5000 * SESSIONS_MS)
#define RECOVERY_NS (1500 * SESSIONS_MS)

const char *weir_sim_sessions_plant_name(enum weir_sim_sessions_plant plant)
{
    static const char *const names[WEIR_SIM_SESSIONS_PLANTS] = {
        [WEIR_SIM_SESSIONS_NONE] = "none",
        [WEIR_SIM_SESSIONS_NO_TOKEN] = "no-token",
        [WEIR_SIM_SESSIONS_NO_MOVE] = "no-move",
        [WEIR_SIM_SESSIONS_NO_CHECK] = "no-check",
        [WEIR_SIM_SESSIONS_NO_TIMELINE] = "no-timeline",
        [WEIR_SIM_SESSIONS_NO_BRANCH] = "no-branch",
        [WEIR_SIM_SESSIONS_NO_HALF] = "no-half",
        [WEIR_SIM_SESSIONS_NO_RUN] = "no-run",
        [WEIR_SIM_SESSIONS_NO_SETTLING] = "no-settling",
        [WEIR_SIM_SESSIONS_FORMER] = "former",
        [WEIR_SIM_SESSIONS_FOR_EVER] = "for-ever",
        [WEIR_SIM_SESSIONS_NO_LOSS] = "no-loss",
        [WEIR_SIM_SESSIONS_LOSS_AT_ONCE] = "loss-at-once",
        [WEIR_SIM_SESSIONS_OLD_CONNECTION] = "old-connection",
        [WEIR_SIM_SESSIONS_KNOWN_HOLE] = "known-hole",
    };
    return plant < WEIR_SIM_SESSIONS_PLANTS ? names[plant] : NULL;
}

/* ---- faults ---- */

static void stop_weir(struct sessions *sessions)
{
    struct sessions_weir *weir = &sessions->weirs[sessions_below(sessions, sessions->weir_count)];
    if (!weir->back_ns)
        weir->back_ns = sessions->now_ns + (20 + sessions_below(sessions, 400)) * SESSIONS_MS;
}

static void disturb_weir(struct sessions *sessions)
{
    struct sessions_weir *weir = &sessions->weirs[sessions_below(sessions, sessions->weir_count)];
    uint32_t server = (uint32_t)sessions_below(sessions, sessions->server_count);
    if (sessions_chance(sessions, 2))
        weir->slow = !weir->slow;
    else
        weir->unreachable ^= UINT32_C(1) << server;
}

static void break_connections(struct sessions *sessions)
{
    sessions->servers[sessions_below(sessions, sessions->server_count)].life++;
    sessions->result->breaks++;
}

/* Of a server that is up: a standby's start takes nothing back, a primary's only where it crashes. */
static void restart(struct sessions *sessions)
{
    uint32_t index = (uint32_t)sessions_below(sessions, sessions->server_count);
    const struct sessions_server *server = &sessions->servers[index];
    bool crash = sessions_chance(sessions, 2) && (!sessions->result->calm || !server->primary);
    if (!server->alive)
        return;
    sessions->result->crashes += crash && server->primary;
    sessions->result->restarts += !crash || !server->primary;
    sessions_db_restart(sessions, index, crash);
}

/* A copy is made anew where a server is no good any more: it is down for good, a former primary, or follows nobody. */
static void repair(struct sessions *sessions)
{
    sessions_db_copy(sessions, (uint32_t)sessions_below(sessions, sessions->server_count));
}

static void fault_happens(struct sessions *sessions)
{
    struct sessions_server *server = &sessions->servers[sessions_below(sessions, sessions->server_count)];
    switch (sessions_below(sessions, 10)) {
    case 0:
    case 1:
        server->slow = !server->slow;
        break;
    case 2:
        restart(sessions);
        break;
    case 3:
        break_connections(sessions);
        break;
    case 4:
        stop_weir(sessions);
        break;
    case 5:
    case 6:
        disturb_weir(sessions);
        break;
    case 7:
        if (!sessions->result->calm)
            sessions_db_fail_over(sessions);
        break;
    default:
        if (!sessions->result->calm)
            repair(sessions);
        break;
    }
}

/* ---- the calm at the end ---- */

static void bring_leader_back(struct sessions *sessions)
{
    struct sessions_server *leader = &sessions->servers[sessions->leader];
    if (!leader->alive)
        leader->back_ns = sessions->now_ns;
}

static void calm_comes(struct sessions *sessions)
{
    bring_leader_back(sessions);
    for (uint32_t i = 0; i < sessions->server_count; i++)
        sessions->servers[i].slow = false;
    for (uint32_t i = 0; i < sessions->weir_count; i++) {
        struct sessions_weir *weir = &sessions->weirs[i];
        weir->slow = false;
        weir->unreachable = 0;
        weir->back_ns = weir->back_ns ? sessions->now_ns : 0;
    }
}

static void calm_goes_on(struct sessions *sessions)
{
    if (sessions->now_ns % (100 * SESSIONS_MS) != 0 || sessions->now_ns >= sessions->recovered_ns)
        return;
    for (uint32_t i = 0; i < sessions->server_count; i++)
        sessions_db_copy(sessions, i);
}

/* ---- the loop ---- */

static void draw(struct sessions *sessions, struct weir_sim_sessions_result *result)
{
    result->calm = sessions_chance(sessions, 4);
    sessions->archive = sessions_chance(sessions, 2);
    result->twins = !sessions->archive && !result->calm;
    result->duration_ns = DURATION_NS;
    result->servers = sessions->server_count = 2 + (uint32_t)sessions_below(sessions, SESSIONS_SERVERS_MAX - 1);
    result->weirs = sessions->weir_count = 1 + (uint32_t)sessions_below(sessions, SESSIONS_WEIRS_MAX);
    result->sessions = sessions->client_count = 2 + (uint32_t)sessions_below(sessions, SESSIONS_CLIENTS_MAX - 1);
    sessions->now_ns = SESSIONS_MS;
    sessions->calm_ns = CALM_NS;
    sessions->recovered_ns = CALM_NS + RECOVERY_NS;
    sessions_db_begin(sessions);
    for (uint32_t i = 0; i < sessions->weir_count; i++)
        sessions_weir_start(sessions, i);
    for (uint32_t i = 0; i < sessions->client_count; i++) {
        struct sessions_client *client = &sessions->clients[i];
        client->server = SESSIONS_NOBODY;
        client->library = sessions_chance(sessions, 2);
        client->weir = (uint32_t)sessions_below(sessions, sessions->weir_count);
        client->due_ns = sessions_below(sessions, 100) * SESSIONS_MS;
    }
}

static void tick(struct sessions *sessions, uint32_t fault_one_in)
{
    sessions->now_ns += SESSIONS_MS;
    sessions_db_advance(sessions);
    if (sessions->now_ns < sessions->calm_ns && sessions_chance(sessions, fault_one_in))
        fault_happens(sessions);
    if (sessions->now_ns == sessions->calm_ns)
        calm_comes(sessions);
    if (sessions->now_ns >= sessions->calm_ns)
        calm_goes_on(sessions);
    for (uint32_t i = 0; i < sessions->weir_count; i++)
        sessions_weir_advance(sessions, i);
    for (uint32_t i = 0; i < sessions->client_count; i++)
        sessions_client_advance(sessions, i);
}

void weir_sim_sessions_run(uint64_t seed, enum weir_sim_sessions_plant plant,
                           struct weir_sim_sessions_result *ret_result)
{
    struct sessions *sessions = calloc(1, sizeof(*sessions));
    if (!sessions)
        abort(); /* a simulation cannot go on without */
    memset(ret_result, 0, sizeof(*ret_result));
    sessions->random.state = seed;
    sessions->plant = plant;
    sessions->result = ret_result;
    draw(sessions, ret_result);
    uint32_t fault_one_in = (uint32_t)weir_sim_random_in(&sessions->random, 15, 80);
    while (sessions->now_ns < DURATION_NS && !ret_result->broken)
        tick(sessions, fault_one_in);
    if (!ret_result->broken)
        sessions_check_end(sessions);
    free(sessions);
}
