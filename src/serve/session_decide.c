/* SPDX-License-Identifier: Apache-2.0 */
#include "serve/session_decide.h"

#include <stdio.h>
#include <string.h>

#define MS_NS (WEIR_NS_PER_SECOND / 1000)
#define LEADER_HOLDS_POLLS 2 /* a read that went to the leader looks for a replica again soon */

/* One of another system is not usable. */
uint64_t weir_session_system(const struct weir_snapshot *snapshot)
{
    for (unsigned i = 0; i < snapshot->count; i++)
        if (snapshot->servers[i].usable)
            return snapshot->servers[i].shown.system;
    return snapshot->known.system;
}

bool weir_session_fresh(const struct weir_snapshot *snapshot, unsigned index, uint64_t since_ns)
{
    return snapshot->states[index].begun_ns > since_ns;
}

void weir_session_tidy(struct weir_session_token *token, const struct weir_known *known)
{
    struct weir_session_token tidy = *token;
    tidy.count = 0;
    for (unsigned i = 0; i < token->count; i++)
        if (weir_session_token_add(&tidy, &token->places[i], known))
            return; /* cannot be: there are no more of them than before */
    *token = tidy;
}

/* ---- what core/session/route is asked ---- */

static bool is_avoided(const struct weir_session_case *route, const char *name)
{
    for (unsigned i = 0; i < route->avoid_count; i++)
        if (strcmp(route->avoid[i], name) == 0)
            return true;
    return false;
}

/* A standby without a receiver (there is no primary, or it takes its log from an archive): no statement tells which
 * timeline it is on, so that its check cannot say ok, however far it is. */
static bool is_mute(const struct weir_shown *shown, const struct weir_session_token *token)
{
    return token->count > 0 && !shown->primary && !shown->streams;
}

/* The leader cannot be avoided: where its check does not say ok, nobody's would. One that is mute is there for a read
 * that may be stale, like one that stands still. */
static void copy_servers(const struct weir_session_case *route, const struct weir_session_token *token,
                         const struct weir_snapshot *snapshot, struct weir_route_server *servers)
{
    memcpy(servers, snapshot->servers, snapshot->count * sizeof(servers[0]));
    for (unsigned i = 0; i < snapshot->count; i++) {
        struct weir_route_server *server = &servers[i];
        bool mute = server->usable && route->strategy == WEIR_SESSION_TRACKED && is_mute(&server->shown, token);
        bool avoided = !server->shown.primary && is_avoided(route, snapshot->states[i].name);
        server->frozen = (server->frozen || mute) && !avoided;
        server->usable = server->usable && !mute && !avoided;
    }
}

/* Where nobody else is left for a read that may be stale: what was avoided because it is mute says unproven to all. */
static struct weir_route choose(const struct weir_session_token *token, const struct weir_snapshot *snapshot,
                                const struct weir_route_request *request, struct weir_route_server *servers)
{
    struct weir_route chosen = weir_route_choose(request);
    if (chosen.server == WEIR_ROUTE_NONE && !chosen.wait && request->behind == WEIR_BEHIND_STALE) {
        for (unsigned i = 0; i < snapshot->count; i++)
            if (snapshot->servers[i].usable && is_mute(&snapshot->servers[i].shown, token))
                servers[i].frozen = true;
        chosen = weir_route_choose(request);
    }
    /* sticky and window go there all the same */
    if (chosen.server != WEIR_ROUTE_NONE && chosen.verdict == WEIR_PLACE_OK &&
        is_mute(&snapshot->servers[chosen.server].shown, token))
        chosen.verdict = WEIR_PLACE_UNPROVEN;
    return chosen;
}

static uint32_t find(const struct weir_snapshot *snapshot, const char *name)
{
    for (uint32_t i = 0; i < snapshot->count; i++)
        if (name[0] && strcmp(snapshot->states[i].name, name) == 0)
            return i;
    return WEIR_ROUTE_NONE;
}

static struct weir_route_request request_of(const struct weir_session_case *route,
                                            const struct weir_session_token *token,
                                            const struct weir_snapshot *snapshot,
                                            const struct weir_session_times *times,
                                            struct weir_route_server servers[WEIR_ROUTE_SERVERS_MAX])
{
    copy_servers(route, token, snapshot, servers);
    return (struct weir_route_request){
        .token = token,
        .known = &snapshot->known,
        .servers = servers,
        .server_count = snapshot->count,
        .session = route->session,
        .stay = find(snapshot, route->stay),
        .came_ns = route->came_ns,
        .wall_ns = times->wall_ns,
        .window_ns = times->window_ns,
        .wait_left_ns = route->wait_ns > times->now_ns ? route->wait_ns - times->now_ns : 0,
        .strategy = route->strategy,
        .behind = route->behind,
        .write = route->write || route->primary,
    };
}

/* ---- what becomes of its answer ---- */

/* Something of it was seen elsewhere than at this primary, which may not show it yet though it is in its log. */
static bool seen_elsewhere(const struct weir_session_token *token, const struct weir_shown *primary)
{
    for (unsigned i = 0; i < token->count; i++)
        if (token->places[i].standby || token->places[i].timeline > primary->timeline)
            return true;
    return false;
}

/* Has the primary shown a position as far as the token's, in the run that had not flushed it? If not, it may have lost
 * it, or was asked too early. */
static bool reaches(const struct weir_shown *primary, const struct weir_session_token *token)
{
    for (unsigned i = 0; i < token->count; i++) {
        const struct weir_place *place = &token->places[i];
        if (place->position > (primary->position | WEIR_POSITION_NEXT) || (place->run && place->run != primary->run))
            return false;
    }
    return true;
}

/* All that ran at a moment after the token was made is visible there; or there is no standby that could have shown it
 * before. */
static bool is_settled(const struct weir_session_case *route, const struct weir_snapshot *snapshot, uint32_t server)
{
    return snapshot->servers[server].shown.primary &&
           (snapshot->count == 1 || snapshot->states[server].settled_ns > route->came_ns);
}

/* Nothing of it may be hidden there still. */
static bool shows_all(const struct weir_session_case *route, const struct weir_session_token *token,
                      const struct weir_snapshot *snapshot, uint32_t server)
{
    return !seen_elsewhere(token, &snapshot->servers[server].shown) || is_settled(route, snapshot, server);
}

/* Whether what is known of the chosen one says enough about it. */
static bool is_proven(const struct weir_session_case *route, const struct weir_session_token *token,
                      const struct weir_snapshot *snapshot, const struct weir_route *chosen)
{
    const struct weir_shown *shown = &snapshot->servers[chosen->server].shown;
    bool fresh = weir_session_fresh(snapshot, chosen->server, route->came_ns);
    if (!chosen->leader || chosen->stale || token->count == 0)
        return true;
    if (!fresh && !reaches(shown, token))
        return false;
    return route->write || route->primary || shows_all(route, token, snapshot, chosen->server);
}

static uint64_t holds_ms(const struct weir_session_case *route, const struct weir_session_times *times,
                         const struct weir_route *chosen)
{
    if (route->shared) /* the check is of what was seen when it was made, and says nothing of what came since */
        return 0;
    bool detour = (chosen->leader && !route->write) || chosen->stale || chosen->verdict != WEIR_PLACE_OK;
    return (detour ? LEADER_HOLDS_POLLS * times->poll_ns : times->freeze_ns) / MS_NS;
}

static void fill(const struct weir_session_case *route, const struct weir_session_token *token,
                 const struct weir_snapshot *snapshot, const struct weir_session_times *times,
                 const struct weir_route *chosen, struct weir_session_answer *answer)
{
    const struct weir_route_server *server = &snapshot->servers[chosen->server];
    const struct weir_server_state *state = &snapshot->states[chosen->server];
    static const struct weir_session_token nothing;
    const struct weir_check_wish wish = {
        .token = chosen->stale ? &nothing : token, /* what is known to be older is not checked */
        .known = &snapshot->known,
        .system = weir_session_system(snapshot),
        .server = &server->shown,
        .settled_run = route->primary || is_settled(route, snapshot, chosen->server) ? server->shown.run : 0,
    };
    answer->said = WEIR_SESSION_ROUTED;
    answer->index = chosen->server;
    answer->server = server->id;
    memcpy(answer->name, state->name, sizeof(answer->name));
    answer->name[sizeof(answer->name) - 1] = '\0';
    answer->primary = server->shown.primary;
    answer->says_proven = route->primary;
    answer->proven = shows_all(route, token, snapshot, chosen->server);
    answer->stale = chosen->stale || chosen->verdict != WEIR_PLACE_OK; /* sticky and window do not ask */
    answer->lag_known = server->shown.primary || server->lag_ns != UINT64_MAX;
    answer->lag_ms = server->shown.primary || !answer->lag_known ? 0 : server->lag_ns / MS_NS;
    answer->holds_ms = holds_ms(route, times, chosen);
    answer->check_size = weir_check_text(&wish, answer->check);
}

static void add_name(char *list, size_t size, const char *name)
{
    size_t used = strlen(list);
    if (used + strlen(name) + (used ? 3 : 1) <= size)
        (void)snprintf(list + used, size - used, "%s%s", used ? ", " : "", name);
}

/* Those that were left out because the caller said so, and those that answer and cannot prove anything, which the
 * operator sees as usable. */
static void name_left_out(const struct weir_session_case *route, const struct weir_session_token *token,
                          const struct weir_snapshot *snapshot, struct weir_session_answer *answer)
{
    bool reads = !route->write && !route->primary && route->strategy == WEIR_SESSION_TRACKED;
    answer->avoided[0] = answer->mute[0] = '\0';
    for (unsigned i = 0; i < snapshot->count; i++) {
        const struct weir_route_server *server = &snapshot->servers[i];
        const char *name = snapshot->states[i].name;
        if (!server->shown.primary && is_avoided(route, name))
            add_name(answer->avoided, sizeof(answer->avoided), name);
        else if (reads && server->usable && is_mute(&server->shown, token))
            add_name(answer->mute, sizeof(answer->mute), name);
    }
}

/* What the same question would be answered with another policy; writes, sticky and window have none. */
static void name_stale(const struct weir_route_request *request, const struct weir_snapshot *snapshot,
                       struct weir_route_server *servers, struct weir_session_answer *answer)
{
    struct weir_route_request other = *request;
    answer->stale_reads[0] = '\0';
    other.behind = WEIR_BEHIND_STALE;
    other.wait_left_ns = 0;
    const struct weir_route chosen = choose(request->token, snapshot, &other, servers);
    if (chosen.stale)
        add_name(answer->stale_reads, sizeof(answer->stale_reads), snapshot->states[chosen.server].name);
}

/* Nobody was chosen, or whoever was does not show enough. */
static enum weir_session_said refusal(const struct weir_route_request *request, enum weir_place_verdict verdict)
{
    static const enum weir_session_said said[] = {
        [WEIR_ROUTE_LOST] = WEIR_SESSION_LOST,
        [WEIR_ROUTE_FOREIGN] = WEIR_SESSION_FOREIGN,
        [WEIR_ROUTE_BEHIND] = WEIR_SESSION_BEHIND,
        [WEIR_ROUTE_DOWN] = WEIR_SESSION_DOWN,
    };
    return said[weir_route_end(request, verdict)];
}

void weir_session_decide(const struct weir_session_case *route, const struct weir_snapshot *snapshot,
                         const struct weir_session_times *times, struct weir_session_answer *ret_answer)
{
    struct weir_session_token token = route->token;
    weir_session_tidy(&token, &snapshot->known);
    struct weir_route_server servers[WEIR_ROUTE_SERVERS_MAX];
    const struct weir_route_request request = request_of(route, &token, snapshot, times, servers);
    const struct weir_route chosen = choose(&token, snapshot, &request, servers);
    bool proposed = chosen.server != WEIR_ROUTE_NONE && !chosen.wait;
    if (proposed && chosen.verdict != WEIR_PLACE_FOREIGN && is_proven(route, &token, snapshot, &chosen)) {
        fill(route, &token, snapshot, times, &chosen, ret_answer);
        return;
    }
    enum weir_session_said said = refusal(&request, chosen.verdict);
    bool may_wait = times->now_ns < route->wait_ns && chosen.wait;
    bool may_ask = times->now_ns < route->give_up_ns && proposed && said != WEIR_SESSION_FOREIGN;
    bool may_learn = times->now_ns < route->give_up_ns && chosen.verdict == WEIR_PLACE_UNPROVEN;
    ret_answer->said = may_wait || may_ask || may_learn ? WEIR_SESSION_WAITS : said;
    name_left_out(route, &token, snapshot, ret_answer);
    if (ret_answer->said != WEIR_SESSION_WAITS)
        name_stale(&request, snapshot, servers, ret_answer);
}
