/* SPDX-License-Identifier: Apache-2.0
 *
 * Sessions. Half of them use the service: any weir says where, the check is as it was then, and what was seen is told
 * to any weir. The others use the library: one weir's, which asks on the connection and knows what is known by then;
 * and read there several times before they take the place. */
#include <string.h>

#include "sim/sessions_inside.h"

#define TRIES_MAX 6
#define LEARN_NS (100 * SESSIONS_MS) /* for a poller to tell what a connection could not */
#define SETTLE_NS (200 * SESSIONS_MS)

static void enter(struct sessions *sessions, struct sessions_client *client, enum sessions_phase phase,
                  uint64_t most_ms)
{
    client->phase = phase;
    client->phase_ns = sessions->now_ns;
    client->due_ns = sessions->now_ns + sessions_below(sessions, most_ms) * SESSIONS_MS;
}

static struct sessions_weir *weir_of(struct sessions *sessions, const struct sessions_client *client)
{
    return &sessions->weirs[client->weir];
}

/* The connection, where it is still what it was. */
static struct sessions_server *connected(struct sessions *sessions, const struct sessions_client *client)
{
    struct sessions_server *server = &sessions->servers[client->server];
    bool same = server->life == client->life || sessions->plant == WEIR_SIM_SESSIONS_OLD_CONNECTION;
    return client->server != SESSIONS_NOBODY && server->alive && same ? server : NULL;
}

/* ---- the end of a request ---- */

static void forget(struct sessions_client *client)
{
    client->token = (struct weir_session_token){ .count = 0 };
    client->seen_count = 0;
    client->from_calm = false;
}

static void finish(struct sessions *sessions, struct sessions_client *client, bool served)
{
    if (client->began_ns >= sessions->recovered_ns) {
        client->calm_done++;
        client->calm_served += served;
    }
    client->saw_count = 0;
    client->server = client->library ? client->server : SESSIONS_NOBODY;
    enter(sessions, client, SESSIONS_IDLE, 60);
}

static void told_lost(struct sessions *sessions, struct sessions_client *client)
{
    sessions_check_lost(sessions, client);
    forget(client);
    finish(sessions, client, false);
}

static void told_behind(struct sessions *sessions, struct sessions_client *client, bool down)
{
    sessions->result->behind += !down;
    sessions->result->down += down;
    finish(sessions, client, false);
}

/* Look for another server; what was seen on this connection is not told, and not kept by who asked. */
static void again(struct sessions *sessions, struct sessions_client *client)
{
    sessions->result->retries++;
    if (client->library && client->saw_count > 0)
        forget(client); /* it asks the primary, or is told LOST (sessions/session_lead.c): it begins anew here */
    client->saw_count = 0;
    client->server = SESSIONS_NOBODY;
    client->checked = false;
    if (++client->tries > TRIES_MAX || sessions->now_ns >= client->give_up_ns)
        told_behind(sessions, client, false);
    else
        enter(sessions, client, SESSIONS_ROUTING, 3);
}

/* ---- where to go ---- */

static void begin(struct sessions *sessions, struct sessions_client *client)
{
    static const enum weir_session_behind behinds[] = { WEIR_BEHIND_LEADER, WEIR_BEHIND_LEADER, WEIR_BEHIND_WAIT,
                                                        WEIR_BEHIND_OTHER,  WEIR_BEHIND_STALE,  WEIR_BEHIND_ERROR };
    bool calm = sessions->now_ns >= sessions->recovered_ns;
    uint32_t there = client->server;
    if (!client->library || weir_of(sessions, client)->back_ns)
        client->weir = (uint32_t)sessions_below(sessions, sessions->weir_count);
    if (weir_of(sessions, client)->back_ns)
        return;
    client->request = (struct weir_policy_request){
        .caller = client->library ? WEIR_POLICY_CONNECTION : WEIR_POLICY_STATEMENT,
        .begun_ns = sessions->now_ns,
        .wait_ns = sessions->now_ns + sessions_below(sessions, 200) * SESSIONS_MS,
        .route = { .session = (uint64_t)(client - sessions->clients) + 1,
                   .stay = there,
                   .came_ns = sessions->now_ns,
                   .strategy = WEIR_SESSION_TRACKED,
                   .behind = calm ? WEIR_BEHIND_LEADER : behinds[sessions_below(sessions, 6)],
                   .write = sessions_chance(sessions, 4) },
    };
    client->request.give_up_ns = client->request.wait_ns + (calm ? 1000 : sessions_below(sessions, 400)) * SESSIONS_MS;
    if (client->library)
        client->request.give_up_ns = client->request.wait_ns;
    client->began_ns = sessions->now_ns;
    client->give_up_ns = client->request.give_up_ns;
    client->tries = 0;
    client->reads_left = client->library ? (uint32_t)sessions_below(sessions, SESSIONS_SAW_MAX) : 0;
    memset(client->shunned_ns, 0, sizeof(client->shunned_ns));
    enter(sessions, client, SESSIONS_ROUTING, 1);
}

static void go(struct sessions *sessions, struct sessions_client *client, const struct weir_policy *policy,
               const struct weir_route_server *servers)
{
    uint32_t index = policy->route.server;
    if (client->server != index || !connected(sessions, client)) {
        client->checked = false;
        client->server = index;
        client->life = sessions->servers[index].life;
    }
    client->chosen_ns = sessions->now_ns;
    client->chosen = servers[index].shown;
    client->known = weir_of(sessions, client)->health.known;
    client->stale = policy->route.stale;
    client->settled = policy->settled;
    client->settling = SESSIONS_NOBODY;
    enter(sessions, client, SESSIONS_CHECKING, 3);
    if (!sessions->servers[index].alive)
        again(sessions, client);
}

static void end(struct sessions *sessions, struct sessions_client *client, enum weir_route_end end)
{
    if (sessions->plant == WEIR_SIM_SESSIONS_NO_LOSS && end == WEIR_ROUTE_LOST)
        end = WEIR_ROUTE_BEHIND;
    if (sessions->plant == WEIR_SIM_SESSIONS_LOSS_AT_ONCE && end == WEIR_ROUTE_BEHIND)
        end = WEIR_ROUTE_LOST;
    if (end == WEIR_ROUTE_LOST)
        told_lost(sessions, client);
    else
        told_behind(sessions, client, end == WEIR_ROUTE_DOWN);
}

static const struct weir_session_token *token_of(const struct sessions *sessions, const struct sessions_client *client)
{
    static const struct weir_session_token none;
    return sessions->plant == WEIR_SIM_SESSIONS_NO_TOKEN ? &none : &client->token;
}

/* What the library does not take before it was asked anew. */
static void leave_out(struct sessions *sessions, struct sessions_client *client, struct weir_route_server *servers)
{
    for (uint32_t i = 0; i < sessions->server_count; i++)
        if (client->shunned_ns[i] &&
            (servers[i].asked_ns <= client->shunned_ns[i] || sessions->now_ns >= client->request.wait_ns))
            servers[i].usable = servers[i].frozen = false;
}

static void route(struct sessions *sessions, struct sessions_client *client)
{
    struct weir_route_server servers[SESSIONS_SERVERS_MAX];
    struct sessions_weir *weir = weir_of(sessions, client);
    sessions_check_time(sessions, client);
    if (weir->back_ns) { /* it is gone: the service's client asks another, the library's process is gone with it */
        client->server = SESSIONS_NOBODY;
        told_behind(sessions, client, true);
        return;
    }
    struct weir_policy_request request = client->request;
    request.now_ns = sessions->now_ns;
    request.route.token = token_of(sessions, client);
    request.route.known = &weir->health.known;
    request.route.servers = servers;
    request.route.server_count = sessions_weir_look(sessions, client->weir, servers);
    request.route.wall_ns = sessions->now_ns;
    if (client->library)
        leave_out(sessions, client, servers);
    if (sessions->plant == WEIR_SIM_SESSIONS_FOR_EVER)
        request.give_up_ns = request.wait_ns = UINT64_MAX;
    const struct weir_policy policy = weir_policy_decide(&request);
    client->request.looked = true;
    if (policy.next == WEIR_POLICY_GO) {
        go(sessions, client, &policy, servers);
    } else if (policy.next == WEIR_POLICY_END) {
        end(sessions, client, policy.end);
    } else {
        for (uint32_t i = 0; i < sessions->server_count; i++) /* pollers ask more often while somebody waits */
            if (policy.next == WEIR_POLICY_WAIT || i == policy.route.server)
                sessions_weir_hurry(sessions, client->weir, i);
        client->due_ns = sessions->now_ns + SESSIONS_MS;
    }
}

/* ---- the check ---- */

/* One statement, by what was known when it was made. */
static enum weir_place_verdict statement(struct sessions *sessions, const struct sessions_client *client)
{
    struct weir_shown shown = sessions_db_shown(sessions, client->server, false);
    bool as_chosen = shown.started == client->chosen.started && shown.timeline == client->chosen.timeline;
    shown.branch = shown.timeline > 1 && as_chosen ? client->chosen.branch : 0;
    if (shown.primary && client->settled && shown.run == client->chosen.run)
        shown.settled = true;
    if (client->stale)
        return WEIR_PLACE_OK;
    return weir_session_token_compare(token_of(sessions, client), &shown, &client->known);
}

/* What the connection cannot tell by itself its poller does, who asks after it. */
static bool learn(struct sessions *sessions, struct sessions_client *client, struct weir_shown *shown)
{
    const struct weir_health_server *polled = &weir_of(sessions, client)->servers[client->server];
    bool asked = polled->last.begun_ns > client->phase_ns;
    if (!shown->timeline && asked && polled->last.shown.started == shown->started && !polled->last.shown.primary)
        shown->timeline = polled->last.shown.timeline;
    if (shown->timeline > 1)
        shown->branch = sessions_weir_branch(sessions, client->weir, shown);
    return shown->timeline == 1 || shown->branch;
}

/* As long as it may help. */
static bool waits_to_learn(struct sessions *sessions, struct sessions_client *client)
{
    if (sessions->now_ns >= client->phase_ns + LEARN_NS)
        return false;
    sessions_weir_hurry(sessions, client->weir, client->server);
    client->due_ns = sessions->now_ns + SESSIONS_MS;
    return true;
}

/* It is far enough, but for commits that standbys may show already and it does not. */
static bool settles(struct sessions *sessions, struct sessions_client *client, struct weir_shown *shown,
                    enum weir_place_verdict *verdict)
{
    const struct sessions_server *server = &sessions->servers[client->server];
    struct weir_shown settled = *shown;
    settled.settled = true;
    if (*verdict != WEIR_PLACE_BEHIND || !shown->primary || sessions->now_ns >= client->phase_ns + SETTLE_NS ||
        weir_session_token_compare(&client->token, &settled, &weir_of(sessions, client)->health.known) != WEIR_PLACE_OK)
        return false;
    if (client->settling == SESSIONS_NOBODY)
        client->settling = server->written;
    if (sessions_contains(sessions, server->shown, client->settling)) {
        *verdict = WEIR_PLACE_OK;
        return false;
    }
    client->due_ns = sessions->now_ns + SESSIONS_MS;
    return true;
}

static void refused(struct sessions *sessions, struct sessions_client *client, const struct weir_shown *shown,
                    enum weir_place_verdict verdict)
{
    struct weir_route_server servers[SESSIONS_SERVERS_MAX];
    struct weir_route_request request = client->request.route;
    request.token = &client->token;
    request.known = &weir_of(sessions, client)->health.known;
    request.servers = servers;
    request.server_count = sessions_weir_look(sessions, client->weir, servers);
    if (weir_policy_refused(&request, shown, verdict) == WEIR_POLICY_LOST) {
        client->server = SESSIONS_NOBODY;
        end(sessions, client, WEIR_ROUTE_LOST);
        return;
    }
    client->shunned_ns[client->server] = sessions->now_ns;
    again(sessions, client);
}

static void forget_standbys(struct weir_session_token *token)
{
    for (unsigned i = 0; i < token->count; i++)
        token->places[i].standby = false;
}

/* On the connection, by what is known by now. */
static void check_connection(struct sessions *sessions, struct sessions_client *client)
{
    struct sessions_weir *weir = weir_of(sessions, client);
    struct weir_shown shown = sessions_db_shown(sessions, client->server, false);
    bool ask = false, told = learn(sessions, client, &shown);
    if (shown.primary)
        (void)weir_health_tell(&weir->health, &shown, &ask);
    enum weir_place_verdict verdict = weir_session_token_compare(token_of(sessions, client), &shown,
                                                                 &weir->health.known);
    if ((!told || verdict == WEIR_PLACE_UNPROVEN) && waits_to_learn(sessions, client))
        return;
    if (settles(sessions, client, &shown, &verdict))
        return;
    if (verdict != WEIR_PLACE_OK || !told) {
        refused(sessions, client, &shown, verdict == WEIR_PLACE_OK ? WEIR_PLACE_UNPROVEN : verdict);
        return;
    }
    if (shown.primary)
        forget_standbys(&client->token);
    client->checked = true;
    enter(sessions, client, SESSIONS_READING, 3);
}

static void check(struct sessions *sessions, struct sessions_client *client)
{
    bool skips = client->stale || client->checked || sessions->plant == WEIR_SIM_SESSIONS_NO_CHECK;
    if (!connected(sessions, client)) {
        again(sessions, client);
    } else if (client->library && weir_of(sessions, client)->back_ns) {
        again(sessions, client);
    } else if (skips) {
        enter(sessions, client, SESSIONS_READING, 3);
    } else if (client->library) {
        check_connection(sessions, client);
    } else if (statement(sessions, client) == WEIR_PLACE_OK) {
        enter(sessions, client, SESSIONS_READING, 3);
    } else {
        client->request.avoided |= UINT64_C(1) << client->server;
        client->request.route.came_ns = sessions->now_ns;
        again(sessions, client);
    }
}

/* ---- reading and writing ---- */

static void write(struct sessions *sessions, struct sessions_client *client, const struct sessions_server *server)
{
    if (!server->primary) {
        again(sessions, client);
        return;
    }
    sessions_check_primary(sessions, client);
    client->saw[client->saw_count++] = sessions_db_write(sessions, client->server);
    sessions->result->writes++;
    enter(sessions, client, SESSIONS_PLACING, 3);
}

static void read(struct sessions *sessions, struct sessions_client *client)
{
    const struct sessions_server *server = connected(sessions, client);
    if (!server) {
        again(sessions, client);
        return;
    }
    if (client->request.route.write) {
        write(sessions, client, server);
        return;
    }
    sessions->result->reads++;
    sessions->result->at_primary += server->primary;
    sessions->result->stale += client->stale;
    if (client->stale) {
        finish(sessions, client, true);
        return;
    }
    sessions_check_primary(sessions, client);
    sessions_check_read(sessions, client, server->shown);
    client->saw[client->saw_count++] = server->shown;
    if (client->reads_left == 0 || weir_of(sessions, client)->back_ns) {
        enter(sessions, client, SESSIONS_PLACING, 3);
        return;
    }
    struct weir_route_server servers[SESSIONS_SERVERS_MAX];
    (void)sessions_weir_look(sessions, client->weir, servers);
    bool stays = !client->chosen.primary && weir_policy_may_stay(&client->token, &servers[client->server],
                                                                 &weir_of(sessions, client)->health.known);
    client->reads_left--;
    client->chosen_ns = sessions->now_ns;
    enter(sessions, client, stays ? SESSIONS_READING : SESSIONS_PLACING, 40);
}

/* ---- what was seen ---- */

static void moved(struct sessions *sessions, struct sessions_client *client)
{
    if (client->seen_count == 0)
        client->from_calm = client->began_ns >= sessions->recovered_ns;
    for (uint32_t i = 0; i < client->saw_count; i++)
        sessions_check_saw(sessions, client, client->saw[i]);
    finish(sessions, client, true);
}

/* Where nobody can tell where it was, who asked does not use the answer. */
static void tell(struct sessions *sessions, struct sessions_client *client)
{
    struct weir_place place;
    if (weir_of(sessions, client)->back_ns) {
        again(sessions, client);
        return;
    }
    struct weir_shown shown = client->placed;
    if (!learn(sessions, client, &shown)) {
        if (!waits_to_learn(sessions, client))
            again(sessions, client);
        return;
    }
    if (weir_place_seen(&shown, &place) != 0) {
        again(sessions, client);
        return;
    }
    if (sessions->plant == WEIR_SIM_SESSIONS_NO_HALF)
        place.position &= ~WEIR_POSITION_NEXT;
    if (sessions->plant == WEIR_SIM_SESSIONS_NO_RUN)
        place.run = 0;
    bool moves = sessions->plant != WEIR_SIM_SESSIONS_NO_MOVE || client->request.route.write;
    if (moves && weir_session_token_add(&client->token, &place, &weir_of(sessions, client)->health.known) != 0)
        told_lost(sessions, client); /* as many histories as there can be stand side by side */
    else
        moved(sessions, client);
}

/* On the connection that read. The service's client tells it to any weir. */
static void place(struct sessions *sessions, struct sessions_client *client)
{
    if (!connected(sessions, client)) {
        again(sessions, client);
        return;
    }
    client->placed = sessions_db_shown(sessions, client->server, false);
    if (!client->library)
        client->weir = (uint32_t)sessions_below(sessions, sessions->weir_count);
    enter(sessions, client, SESSIONS_TELLING, client->library ? 1 : 3);
}

/* ---- a tick ---- */

/* What another device of the user has seen; it stays with its own connection. */
static void merge(struct sessions *sessions, struct sessions_client *client)
{
    const struct sessions_client *other = &sessions->clients[sessions_below(sessions, sessions->client_count)];
    const struct sessions_weir *weir = weir_of(sessions, client);
    if (other->seen_count + client->seen_count > SESSIONS_SEEN_MAX / 2 || other->seen_count == 0 || weir->back_ns ||
        weir_session_token_merge(&client->token, &other->token, &weir->health.known) != 0)
        return;
    client->from_calm = other->from_calm && (client->from_calm || client->seen_count == 0);
    client->checked = false;
    client->calm_done = client->calm_served = 0;
    sessions->result->merged++;
    for (uint32_t i = 0; i < other->seen_count; i++)
        sessions_check_saw(sessions, client, other->seen[i]);
}

void sessions_client_advance(struct sessions *sessions, uint32_t index)
{
    struct sessions_client *client = &sessions->clients[index];
    if (client->due_ns > sessions->now_ns)
        return;
    switch (client->phase) {
    case SESSIONS_IDLE:
        if (sessions_chance(sessions, 8))
            merge(sessions, client);
        begin(sessions, client);
        break;
    case SESSIONS_ROUTING:
        route(sessions, client);
        break;
    case SESSIONS_CHECKING:
        check(sessions, client);
        break;
    case SESSIONS_READING:
        read(sessions, client);
        break;
    case SESSIONS_PLACING:
        place(sessions, client);
        break;
    case SESSIONS_TELLING:
        tell(sessions, client);
        break;
    }
}
