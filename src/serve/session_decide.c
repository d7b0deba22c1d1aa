/* SPDX-License-Identifier: Apache-2.0
 *
 * Turns a route and a snapshot into the question that core/session/policy.c decides, and its answer into a server, the
 * text of the check (sessions/check_text.c) and the time for which the route holds. A refusal also names the
 * servers that were left out and the one that `behind: stale` would read. Called by sessions_work.c. */
#include "serve/session_decide.h"

#include <stdio.h>
#include <string.h>

#include "core/session/policy.h"

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

/* ---- what core/session/policy is asked ---- */

static bool is_avoided(const struct weir_session_case *route, const char *name)
{
    for (unsigned i = 0; i < route->avoid_count; i++)
        if (strcmp(route->avoid[i], name) == 0)
            return true;
    return false;
}

static uint32_t find(const struct weir_snapshot *snapshot, const char *name)
{
    for (uint32_t i = 0; i < snapshot->count; i++)
        if (name[0] && strcmp(snapshot->states[i].name, name) == 0)
            return i;
    return WEIR_ROUTE_NONE;
}

static uint64_t avoided_of(const struct weir_session_case *route, const struct weir_snapshot *snapshot)
{
    uint64_t avoided = 0;
    for (unsigned i = 0; i < snapshot->count; i++)
        if (is_avoided(route, snapshot->states[i].name))
            avoided |= UINT64_C(1) << i;
    return avoided;
}

static struct weir_policy_request request_of(const struct weir_session_case *route,
                                             const struct weir_session_token *token,
                                             const struct weir_snapshot *snapshot,
                                             const struct weir_session_times *times)
{
    return (struct weir_policy_request){
        .route = { .token = token,
                   .known = &snapshot->known,
                   .servers = snapshot->servers,
                   .server_count = snapshot->count,
                   .session = route->session,
                   .stay = find(snapshot, route->stay),
                   .came_ns = route->came_ns,
                   .wall_ns = times->wall_ns,
                   .window_ns = times->window_ns,
                   .strategy = route->strategy,
                   .behind = route->behind,
                   .write = route->write || route->primary },
        .caller = WEIR_POLICY_STATEMENT,
        .avoided = avoided_of(route, snapshot),
        .now_ns = times->now_ns,
        .wait_ns = route->wait_ns,
        .give_up_ns = route->give_up_ns,
    };
}

/* ---- what becomes of its answer ---- */

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
                 const struct weir_policy *policy, struct weir_session_answer *answer)
{
    const struct weir_route *chosen = &policy->route;
    const struct weir_route_server *server = &snapshot->servers[chosen->server];
    const struct weir_server_state *state = &snapshot->states[chosen->server];
    static const struct weir_session_token nothing;
    const struct weir_check_wish wish = {
        .token = chosen->stale ? &nothing : token, /* what is known to be older is not checked */
        .known = &snapshot->known,
        .system = weir_session_system(snapshot),
        .server = &server->shown,
        .settled_run = route->primary || policy->settled ? server->shown.run : 0,
    };
    answer->said = WEIR_SESSION_ROUTED;
    answer->index = chosen->server;
    answer->server = server->id;
    memcpy(answer->name, state->name, sizeof(answer->name));
    answer->name[sizeof(answer->name) - 1] = '\0';
    answer->primary = server->shown.primary;
    answer->says_proven = route->primary;
    answer->proven = policy->shows_all;
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
        else if (reads && server->usable && weir_policy_is_mute(&server->shown, token))
            add_name(answer->mute, sizeof(answer->mute), name);
    }
}

/* What the same question would be answered with another policy; writes, sticky and window have none. */
static void name_stale(const struct weir_policy_request *request, const struct weir_snapshot *snapshot,
                       struct weir_session_answer *answer)
{
    struct weir_policy_request other = *request;
    answer->stale_reads[0] = '\0';
    other.route.behind = WEIR_BEHIND_STALE;
    other.wait_ns = 0;
    const struct weir_policy policy = weir_policy_decide(&other);
    if (policy.next == WEIR_POLICY_GO && policy.route.stale)
        add_name(answer->stale_reads, sizeof(answer->stale_reads), snapshot->states[policy.route.server].name);
}

static enum weir_session_said said_of(enum weir_route_end end)
{
    static const enum weir_session_said said[] = {
        [WEIR_ROUTE_LOST] = WEIR_SESSION_LOST,
        [WEIR_ROUTE_FOREIGN] = WEIR_SESSION_FOREIGN,
        [WEIR_ROUTE_BEHIND] = WEIR_SESSION_BEHIND,
        [WEIR_ROUTE_DOWN] = WEIR_SESSION_DOWN,
    };
    return said[end];
}

void weir_session_decide(const struct weir_session_case *route, const struct weir_snapshot *snapshot,
                         const struct weir_session_times *times, struct weir_session_answer *ret_answer)
{
    struct weir_session_token token = route->token;
    weir_session_tidy(&token, &snapshot->known);
    const struct weir_policy_request request = request_of(route, &token, snapshot, times);
    const struct weir_policy policy = weir_policy_decide(&request);
    if (policy.next == WEIR_POLICY_GO) {
        fill(route, &token, snapshot, times, &policy, ret_answer);
        return;
    }
    ret_answer->said = policy.next == WEIR_POLICY_WAIT ? WEIR_SESSION_WAITS : said_of(policy.end);
    name_left_out(route, &token, snapshot, ret_answer);
    if (ret_answer->said != WEIR_SESSION_WAITS)
        name_stale(&request, snapshot, ret_answer);
}
