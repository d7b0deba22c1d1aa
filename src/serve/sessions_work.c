/* SPDX-License-Identifier: Apache-2.0
 *
 * What an ask does: its question, its decision, and the parts that may block. Whether a user may have seen a place that
 * a client brings is decided here too (is_believable). Called by sessions.c, on its workers' threads. */
#include <string.h>

#include "base/siphash.h"
#include "serve/sessions_inside.h"
#include "weir/limiter.h"

#define MS_NS (WEIR_NS_PER_SECOND / 1000)
#define ACCEPT_TRIES 3

static void name_copy(char *ret_name, struct weir_slice name)
{
    memcpy(ret_name, name.data, name.size);
    ret_name[name.size] = '\0';
}

/* ---- the question ---- */

/* The same for the same text in every process; a session without a name goes anywhere. */
static uint64_t session_of(struct weir_session_service *service, const struct weir_session_question *question)
{
    static const struct weir_sip_key key;
    struct weir_slice name = question->session.size ? question->session : question->user;
    uint64_t number = name.size ? 0 : atomic_fetch_add_explicit(&service->spread, 1, memory_order_relaxed);
    return name.size ? weir_siphash(&key, name.data, name.size) : weir_siphash(&key, &number, sizeof(number));
}

static void read_times(struct weir_session_ask *ask, uint64_t wait_ms)
{
    struct weir_session_case *route = &ask->route;
    bool draining = atomic_load(&ask->service->draining);
    route->came_ns = uv_hrtime();
    route->wait_ns = route->came_ns + (draining ? 0 : wait_ms * MS_NS);
    route->give_up_ns = route->came_ns + ask->service->timeout_ns;
    if (route->give_up_ns < route->wait_ns)
        route->give_up_ns = route->wait_ns;
}

static void read_route(struct weir_session_ask *ask, const struct weir_session_question *question)
{
    struct weir_session_case *route = &ask->route;
    route->session = session_of(ask->service, question);
    route->strategy = question->strategy;
    route->behind = question->behind;
    route->write = question->write;
    route->primary = question->primary;
    route->shared = question->has_user;
    name_copy(route->stay, question->stay.size ? question->stay : (struct weir_slice){ "", 0 });
    route->avoid_count = question->avoid_count;
    for (unsigned i = 0; i < question->avoid_count; i++)
        name_copy(route->avoid[i], question->avoid[i]);
}

static bool read_places(struct weir_session_ask *ask, const struct weir_session_question *question)
{
    name_copy(ask->server, question->server.size ? question->server : (struct weir_slice){ "", 0 });
    ask->wrote = question->wrote;
    ask->shown_count = question->places_count;
    for (unsigned i = 0; i < question->places_count; i++)
        if (weir_shown_parse(question->places[i].data, question->places[i].size, &ask->shown[i]))
            return false;
    return true;
}

int weir_session_work_read(struct weir_session_ask *ask, const struct weir_session_question *question)
{
    int error = 0;
    ask->has_user = question->has_user;
    ask->user_size = question->user.size;
    if (question->has_user)
        memcpy(ask->user, question->user.data, question->user.size);
    else if (question->token.size > 0)
        error = weir_session_token_read(question->token.data, question->token.size,
                                        weir_signer_of(ask->service->signer), &ask->route.token);
    if (error) {
        ask->answer.said = error == WEIR_EFORGED  ? WEIR_SESSION_FORGED
                           : error == WEIR_ENOMEM ? WEIR_SESSION_NOMEM
                                                  : WEIR_SESSION_MALFORMED;
        return error;
    }
    read_times(ask, ask->call == WEIR_SESSION_CALL_ROUTE ? question->wait_ms : 0);
    if (ask->call == WEIR_SESSION_CALL_ROUTE)
        read_route(ask, question);
    if (ask->call == WEIR_SESSION_CALL_SEEN && !read_places(ask, question)) {
        ask->answer.said = WEIR_SESSION_NO_PLACE;
        return WEIR_EPROTO;
    }
    return 0;
}

/* ---- answers ---- */

static enum weir_session_said said_of(int error)
{
    return error == WEIR_ELIMIT   ? WEIR_SESSION_LOST
           : error == WEIR_ENOMEM ? WEIR_SESSION_NOMEM
                                  : WEIR_SESSION_STORE_DOWN;
}

static bool write_token(struct weir_session_ask *ask, const struct weir_session_token *token)
{
    struct weir_session_answer *answer = &ask->answer;
    int error = weir_session_token_write(token, weir_signer_of(ask->service->signer), answer->token,
                                         &answer->token_size);
    if (error)
        answer->said = WEIR_SESSION_NOMEM;
    return error == 0;
}

static void moved(struct weir_session_ask *ask, const struct weir_session_token *token)
{
    if (write_token(ask, token))
        ask->answer.said = WEIR_SESSION_MOVED;
}

static void decide_at(struct weir_session_ask *ask, const struct weir_snapshot *snapshot, uint64_t now_ns)
{
    const struct weir_session_service *service = ask->service;
    const struct weir_session_times times = {
        .now_ns = now_ns,
        .wall_ns = weir_time_read().wall_ns,
        .window_ns = service->window_ns,
        .freeze_ns = service->freeze_ns,
        .poll_ns = service->poll_ns,
    };
    weir_session_decide(&ask->route, snapshot, &times, &ask->answer);
}

/* While this process ends nobody waits. What only lacks a proof is not lost by that: the next process may have it. */
void weir_session_work_decide(struct weir_session_ask *ask, const struct weir_snapshot *snapshot)
{
    bool draining = atomic_load(&ask->service->draining);
    decide_at(ask, snapshot, draining ? UINT64_MAX : uv_hrtime());
    if (draining && ask->answer.said == WEIR_SESSION_LOST) {
        decide_at(ask, snapshot, uv_hrtime());
        if (ask->answer.said == WEIR_SESSION_WAITS)
            ask->answer.said = WEIR_SESSION_BEHIND;
    }
    if (ask->answer.said != WEIR_SESSION_ROUTED)
        return;
    struct weir_session_token token = ask->route.token;
    weir_session_tidy(&token, &snapshot->known);
    (void)write_token(ask, &token);
}

/* ---- places ---- */

static bool is_known_run(const struct weir_snapshot *snapshot, uint64_t run)
{
    for (unsigned i = 0; i < snapshot->known.run_count; i++)
        if (snapshot->known.runs[i].run == run)
            return true;
    for (unsigned i = 0; i < snapshot->count; i++)
        if (snapshot->servers[i].shown.run == run)
            return true;
    return false;
}

/* Whether a server of ours may have shown that: nobody has more than some server has. What a client brings for a user
 * is believed no further, because it may come to count for others (sessions/users.h). */
static bool is_believable(const struct weir_snapshot *snapshot, const struct weir_place *place)
{
    uint64_t position = 0;
    uint32_t timeline = 0;
    for (unsigned i = 0; i < snapshot->count; i++) {
        const struct weir_shown *shown = &snapshot->servers[i].shown;
        uint64_t farthest = shown->position > shown->received ? shown->position : shown->received;
        if (snapshot->states[i].begun_ns == 0)
            continue;
        position = farthest > position ? farthest : position;
        timeline = shown->timeline > timeline ? shown->timeline : timeline;
    }
    return place->position <= (position | WEIR_POSITION_NEXT) && place->timeline <= timeline &&
           (place->run == 0 || is_known_run(snapshot, place->run));
}

static uint32_t find(const struct weir_snapshot *snapshot, const char *name)
{
    for (uint32_t i = 0; i < snapshot->count; i++)
        if (strcmp(snapshot->states[i].name, name) == 0)
            return i;
    return WEIR_ROUTE_NONE;
}

/* The servers' places as a token of its own. */
static bool places_add(struct weir_session_ask *ask, const struct weir_snapshot *snapshot, bool asked,
                       struct weir_session_token *token)
{
    uint64_t system = weir_session_system(snapshot);
    for (unsigned i = 0; i < ask->shown_count; i++) {
        struct weir_place place;
        ask->shown[i].branch = weir_snapshot_branch(snapshot, &ask->shown[i]);
        bool told = ask->shown[i].timeline <= 1 || ask->shown[i].branch;
        ask->answer.said = system && ask->shown[i].system != system  ? WEIR_SESSION_FOREIGN
                           : !told && !asked                         ? WEIR_SESSION_WAITS
                           : !told                                   ? WEIR_SESSION_UNPROVEN
                           : weir_place_seen(&ask->shown[i], &place) ? WEIR_SESSION_UNPROVEN
                           : !ask->has_user                          ? WEIR_SESSION_MOVED
                           : is_believable(snapshot, &place)         ? WEIR_SESSION_MOVED
                           : asked                                   ? WEIR_SESSION_LOST
                                                                     : WEIR_SESSION_WAITS;
        if (ask->answer.said == WEIR_SESSION_MOVED && weir_session_token_add(token, &place, &snapshot->known))
            ask->answer.said = WEIR_SESSION_LOST; /* as many as there can be stand side by side already */
        if (ask->answer.said != WEIR_SESSION_MOVED)
            return false;
    }
    if (ask->wrote)
        token->wrote_ns = weir_time_read().wall_ns;
    return true;
}

/* A standby told no timeline: its poller asks it, after the place was seen (sessions/shown.h). */
static bool lacks_timeline(const struct weir_session_ask *ask)
{
    for (unsigned i = 0; i < ask->shown_count; i++)
        if (ask->shown[i].timeline == 0)
            return true;
    return false;
}

/* Of a start that no poller has seen yet. */
static bool lacks_branch(const struct weir_session_ask *ask, const struct weir_snapshot *snapshot)
{
    for (unsigned i = 0; i < ask->shown_count; i++)
        if (ask->shown[i].timeline > 1 && !weir_snapshot_branch(snapshot, &ask->shown[i]))
            return true;
    return false;
}

/* The one that the question names. */
static void ask_server(struct weir_session_ask *ask)
{
    struct weir_servers *servers = ask->service->servers;
    const struct weir_snapshot *snapshot = weir_servers_look(servers);
    uint32_t index = find(snapshot, ask->server);
    uint64_t id = index == WEIR_ROUTE_NONE ? 0 : snapshot->servers[index].id;
    weir_servers_release(servers, snapshot);
    if (index == WEIR_ROUTE_NONE || weir_servers_ask(servers, id, ask->route.give_up_ns))
        return;
    snapshot = weir_servers_look(servers);
    index = find(snapshot, ask->server);
    for (unsigned i = 0; i < ask->shown_count && index != WEIR_ROUTE_NONE; i++) {
        struct weir_shown *shown = &ask->shown[i];
        const struct weir_shown *now = &snapshot->servers[index].shown;
        /* In one run of its postmaster a server only goes on: what it showed is part of what it shows now. In another
         * it may follow others, or be another. */
        if (shown->timeline == 0 && shown->system == now->system && shown->started == now->started)
            shown->timeline = now->timeline;
    }
    weir_servers_release(servers, snapshot);
}

/* ---- the primary ---- */

/* Its index in the snapshot, asked after this call; WEIR_ROUTE_NONE: nobody answers as one. Release the snapshot. */
static uint32_t ask_leader(struct weir_servers *servers, uint64_t deadline_ns,
                           const struct weir_snapshot **ret_snapshot)
{
    const struct weir_snapshot *snapshot = weir_servers_look(servers);
    uint32_t leader = weir_route_leader(snapshot->servers, snapshot->count);
    int error = leader == WEIR_ROUTE_NONE ? WEIR_EDOWN : 0;
    uint64_t begun_ns = uv_hrtime();
    if (!error) {
        error = weir_servers_ask(servers, snapshot->servers[leader].id, deadline_ns);
        weir_servers_release(servers, snapshot);
        snapshot = weir_servers_look(servers);
        leader = weir_route_leader(snapshot->servers, snapshot->count);
    }
    *ret_snapshot = snapshot;
    bool asked = !error && leader != WEIR_ROUTE_NONE && weir_session_fresh(snapshot, leader, begun_ns);
    return asked ? leader : WEIR_ROUTE_NONE;
}

/* Whoever was forgotten may have seen it at a standby, before the primary shows it. */
int weir_session_newest(void *context, uint64_t deadline_ns, struct weir_session_token *ret_token,
                        uint64_t *ret_changes)
{
    struct weir_session_service *service = context;
    const struct weir_snapshot *snapshot;
    struct weir_session_token token = { .count = 0 };
    struct weir_place place;
    uint32_t leader = ask_leader(service->servers, deadline_ns, &snapshot);
    int error = leader == WEIR_ROUTE_NONE ? WEIR_EDOWN : weir_place_seen(&snapshot->servers[leader].shown, &place);
    if (!error) {
        place.standby = true;
        error = weir_session_token_add(&token, &place, &snapshot->known);
    }
    uint64_t changes = snapshot->known.changes;
    weir_servers_release(service->servers, snapshot);
    if (error)
        return WEIR_EDOWN;
    *ret_token = token;
    *ret_changes = changes;
    return 0;
}

/* ---- what a worker does ---- */

static void work_route(struct weir_session_ask *ask)
{
    struct weir_session_service *service = ask->service;
    const struct weir_snapshot *snapshot = weir_servers_look(service->servers);
    int error = weir_users_get(service->users, ask->user, ask->user_size, &snapshot->known, &ask->route.token);
    weir_servers_release(service->servers, snapshot);
    if (error) {
        ask->answer.said = said_of(error);
        return;
    }
    /* Another device may have moved it since the question came. */
    ask->route.came_ns = uv_hrtime();
    if (ask->route.give_up_ns < ask->route.came_ns + service->timeout_ns)
        ask->route.give_up_ns = ask->route.came_ns + service->timeout_ns;
    snapshot = weir_servers_look(service->servers);
    weir_session_work_decide(ask, snapshot);
    weir_servers_release(service->servers, snapshot);
}

static void store_seen(struct weir_session_ask *ask, const struct weir_snapshot *snapshot,
                       const struct weir_session_token *seen)
{
    struct weir_session_token token = ask->route.token;
    int error = ask->has_user
                    ? weir_users_add(ask->service->users, ask->user, ask->user_size, &snapshot->known, seen, &token)
                    : weir_session_token_merge(&token, seen, &snapshot->known);
    if (error)
        ask->answer.said = said_of(error);
    else
        moved(ask, &token);
}

static void work_seen(struct weir_session_ask *ask)
{
    struct weir_session_service *service = ask->service;
    struct weir_session_token seen = { .count = 0 };
    if (lacks_timeline(ask))
        ask_server(ask);
    const struct weir_snapshot *snapshot = weir_servers_look(service->servers);
    bool added = places_add(ask, snapshot, false, &seen);
    if (ask->answer.said == WEIR_SESSION_WAITS) {
        bool lacks = lacks_branch(ask, snapshot);
        weir_servers_release(service->servers, snapshot);
        if (lacks)
            ask_server(ask);
        seen = (struct weir_session_token){ .count = 0 };
        uint32_t leader = ask_leader(service->servers, ask->route.give_up_ns, &snapshot);
        added = places_add(ask, snapshot, true, &seen);
        if (!added && ask->answer.said == WEIR_SESSION_LOST && leader == WEIR_ROUTE_NONE)
            ask->answer.said = WEIR_SESSION_DOWN; /* it may be true: nobody says */
    }
    if (added)
        store_seen(ask, snapshot, &seen);
    weir_servers_release(service->servers, snapshot);
}

/* One try. WEIR_EBUSY: the user has seen more meanwhile. */
static int try_accept(struct weir_session_ask *ask)
{
    struct weir_session_service *service = ask->service;
    const struct weir_snapshot *snapshot = weir_servers_look(service->servers);
    struct weir_session_token before = ask->route.token;
    int error = ask->has_user ? weir_users_get(service->users, ask->user, ask->user_size, &snapshot->known, &before)
                              : 0;
    weir_servers_release(service->servers, snapshot);
    if (error) {
        ask->answer.said = said_of(error);
        return error;
    }
    uint32_t leader = ask_leader(service->servers, ask->route.give_up_ns, &snapshot);
    struct weir_session_token after = before;
    if (leader == WEIR_ROUTE_NONE) {
        ask->answer.said = WEIR_SESSION_DOWN;
        error = WEIR_EDOWN;
    } else {
        (void)weir_session_token_accept(&after, &snapshot->servers[leader].shown, &snapshot->known);
        error = ask->has_user ? weir_users_accept(service->users, ask->user, ask->user_size, &before, &after) : 0;
        if (error)
            ask->answer.said = said_of(error);
        else
            moved(ask, &after);
    }
    weir_servers_release(service->servers, snapshot);
    return error;
}

static void work_accept(struct weir_session_ask *ask)
{
    for (int i = 0; i < ACCEPT_TRIES && try_accept(ask) == WEIR_EBUSY; i++)
        continue;
}

void weir_session_work(struct weir_session_ask *ask)
{
    if (uv_hrtime() >= ask->route.give_up_ns) { /* it has stood behind others for too long */
        ask->answer.said = ask->has_user ? WEIR_SESSION_STORE_DOWN : WEIR_SESSION_DOWN;
        return;
    }
    if (ask->call == WEIR_SESSION_CALL_ROUTE)
        work_route(ask);
    else if (ask->call == WEIR_SESSION_CALL_SEEN)
        work_seen(ask);
    else
        work_accept(ask);
}

bool weir_session_work_at_once(struct weir_session_ask *ask)
{
    struct weir_session_service *service = ask->service;
    bool seen = ask->call == WEIR_SESSION_CALL_SEEN;
    if (ask->has_user || ask->call == WEIR_SESSION_CALL_ACCEPT || (seen && ask->server[0] && lacks_timeline(ask)))
        return false;
    const struct weir_snapshot *snapshot = weir_servers_look(service->servers);
    struct weir_session_token token = { .count = 0 };
    if (!seen)
        weir_session_work_decide(ask, snapshot);
    else if (places_add(ask, snapshot, false, &token))
        store_seen(ask, snapshot, &token);
    weir_servers_release(service->servers, snapshot);
    return !seen || ask->answer.said != WEIR_SESSION_WAITS;
}

/* ---- counting ---- */

static void count_route(struct weir_session_service *service, const struct weir_session_answer *answer)
{
    weir_servers_count(service->servers, answer->server);
    for (size_t i = 0; i < service->routes_count; i++)
        if (strcmp(service->routes[i].name, answer->name) == 0)
            weir_sessions_count(answer->stale ? &service->routes[i].stale : &service->routes[i].ok, 1);
}

void weir_session_work_count(struct weir_session_ask *ask)
{
    static const uint8_t refused[WEIR_SESSION_SAID] = {
        [WEIR_SESSION_LOST] = WEIR_SESSIONS_LOST,          [WEIR_SESSION_BEHIND] = WEIR_SESSIONS_BEHIND,
        [WEIR_SESSION_DOWN] = WEIR_SESSIONS_DOWN,          [WEIR_SESSION_FOREIGN] = WEIR_SESSIONS_FOREIGN,
        [WEIR_SESSION_FORGED] = WEIR_SESSIONS_FORGED,      [WEIR_SESSION_MALFORMED] = WEIR_SESSIONS_MALFORMED,
        [WEIR_SESSION_NO_PLACE] = WEIR_SESSIONS_MALFORMED, [WEIR_SESSION_UNPROVEN] = WEIR_SESSIONS_UNPROVEN,
        [WEIR_SESSION_STORE_DOWN] = WEIR_SESSIONS_DOWN,    [WEIR_SESSION_NOMEM] = WEIR_SESSIONS_DOWN,
    };
    struct weir_session_service *service = ask->service;
    const struct weir_session_answer *answer = &ask->answer;
    if (answer->said == WEIR_SESSION_ROUTED)
        count_route(service, answer);
    else if (answer->said == WEIR_SESSION_MOVED)
        weir_sessions_count(ask->call == WEIR_SESSION_CALL_SEEN ? &service->counters.seen : &service->counters.accepted,
                            1);
    else
        weir_sessions_count(&service->counters.refused[refused[answer->said]], 1);
}
