/* SPDX-License-Identifier: Apache-2.0
 *
 * Sessions for people and dashboards. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "observe/counter.h"
#include "serve/sessions_inside.h"
#include "weir/limiter.h"

#define MS_NS (WEIR_NS_PER_SECOND / 1000)
#define FRAME_MAX 32
#define MUTE "it receives nothing now: no check can prove there what a session has seen"

static const struct weir_session_routes *routes_of(const struct weir_session_service *service, const char *name)
{
    for (size_t i = 0; i < service->routes_count; i++)
        if (strcmp(service->routes[i].name, name) == 0)
            return &service->routes[i];
    return NULL;
}

static const char *role_of(const struct weir_route_server *server, const struct weir_server_state *state)
{
    return !state->begun_ns        ? "unknown"
           : state->former         ? "former primary"
           : server->shown.primary ? "primary"
                                   : "standby";
}

void weir_session_service_view(struct weir_session_service *service, struct weir_sessions_view *ret_view)
{
    *ret_view = (struct weir_sessions_view){ .counters = &service->counters };
    struct weir_users_stats stats;
    const struct weir_snapshot *snapshot = weir_servers_look(service->servers);
    for (unsigned i = 0; i < snapshot->count; i++) {
        const struct weir_route_server *server = &snapshot->servers[i];
        const struct weir_session_routes *routes = routes_of(service, snapshot->states[i].name);
        if (!routes)
            continue;
        bool primary = server->shown.primary;
        struct weir_sessions_server *told = &ret_view->servers[ret_view->servers_count++];
        *told = (struct weir_sessions_server){
            .name = routes->name,
            .ok = weir_counted(&routes->ok),
            .stale = weir_counted(&routes->stale),
            .lag_known = server->usable && (primary || server->lag_ns != UINT64_MAX),
            .lag_ns = primary ? 0 : server->lag_ns,
            .usable = server->usable,
            .primary = primary,
            .role = role_of(server, &snapshot->states[i]),
        };
        (void)snprintf(told->fault, sizeof(told->fault), "%s", snapshot->states[i].fault);
    }
    weir_servers_release(service->servers, snapshot);
    ret_view->waiting = atomic_load(&service->waiting);
    weir_users_stats(service->users, &stats);
    ret_view->users_found = stats.found;
    ret_view->users_not_found = stats.not_found;
    ret_view->users_losses = stats.losses;
    ret_view->users_failures = stats.failures;
    ret_view->users_evicted = stats.evicted;
    (void)snprintf(ret_view->users_fault, sizeof(ret_view->users_fault), "%s", stats.fault);
}

bool weir_session_service_led(struct weir_session_service *service)
{
    const struct weir_snapshot *snapshot = weir_servers_look(service->servers);
    bool led = weir_route_leader(snapshot->servers, snapshot->count) != WEIR_ROUTE_NONE;
    for (unsigned i = 0; i < snapshot->count && !led; i++)
        led = snapshot->states[i].unasked;
    weir_servers_release(service->servers, snapshot);
    return led;
}

static void write_server(struct weir_text *text, const struct weir_snapshot *snapshot, unsigned index)
{
    const struct weir_route_server *server = &snapshot->servers[index];
    const struct weir_server_state *state = &snapshot->states[index];
    uint64_t now_ns = uv_hrtime();
    bool primary = server->shown.primary;
    bool mute = server->usable && !primary && !server->shown.streams && !state->fault[0];
    char position[24] = "";
    if (state->begun_ns)
        (void)snprintf(position, sizeof(position), "%" PRIX64 "/%" PRIX64, server->shown.position >> 32,
                       server->shown.position & UINT32_MAX);
    weir_session_json_server(text, &(struct weir_session_server_told){
                                       .name = state->name,
                                       .fault = mute ? MUTE : state->fault,
                                       .position = position,
                                       .role = role_of(server, state),
                                       .usable = server->usable,
                                       .frozen = state->frozen,
                                       .lag_known = !state->former && (primary || server->lag_ns != UINT64_MAX),
                                       .lag_ms = primary ? 0 : server->lag_ns / MS_NS,
                                       .age_ms = now_ns > state->begun_ns ? (now_ns - state->begun_ns) / MS_NS : 0,
                                       .timeline = server->shown.timeline,
                                       .load = server->load,
                                   });
}

uint8_t *weir_session_service_servers(struct weir_session_service *service, size_t *ret_size)
{
    const struct weir_snapshot *snapshot = weir_servers_look(service->servers);
    size_t room = FRAME_MAX + snapshot->count * (WEIR_SESSION_SERVER_JSON_MAX + 1);
    uint8_t *data = malloc(room);
    if (data) {
        struct weir_text text = weir_text_init(data, room);
        weir_text_lit(&text, "{\"servers\":[");
        for (unsigned i = 0; i < snapshot->count; i++) {
            weir_text_str(&text, i ? "," : "");
            write_server(&text, snapshot, i);
        }
        weir_text_lit(&text, "]}");
        *ret_size = text.size;
    }
    weir_servers_release(service->servers, snapshot);
    return data;
}
