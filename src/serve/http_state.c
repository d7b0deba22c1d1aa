/* SPDX-License-Identifier: Apache-2.0
 *
 * GET /v1/state: what the dashboard shows of this server and no other call tells as JSON: the table, sessions by their
 * outcome, and the last refusals. Of bounded size, whatever the configuration has. Called by http.c. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/assert.h"
#include "base/checked.h"
#include "observe/hour.h"
#include "observe/last.h"
#include "serve/http_call.h"
#include "serve/loop.h"
#include "serve/sessions.h"
#include "weir/version.h"

#define HEAD_MAX 2048
#define NUMBER_MAX 24
#define MS_NS (WEIR_NS_PER_SECOND / 1000)

struct state {
    struct weir_limiter_stats table;
    bool has_sessions;
    struct weir_sessions_view sessions;
    struct weir_last_refusal last[WEIR_LAST_ROOM];
    size_t last_count;
};

/* ---- the table ---- */

static void write_table(struct weir_text *text, const struct weir_limiter_stats *table)
{
    weir_text_member_u64(text, ",\"table\":{\"memory_max\":", table->memory_max);
    weir_text_member_u64(text, ",\"memory_used\":", table->memory_used);
    weir_text_member_u64(text, ",\"keys\":", table->keys);
    weir_text_member_u64(text, ",\"slots\":", table->slots);
    weir_text_member_u64(text, ",\"inserted\":", table->inserted);
    weir_text_member_u64(text, ",\"evicted\":", table->evicted);
    weir_text_member_u64(text, ",\"refused_full\":", table->refused_full);
    weir_text_lit(text, "}");
}

/* ---- sessions ---- */

static void write_server(struct weir_text *text, const struct weir_sessions_server *server)
{
    weir_text_member(text, "{\"name\":", server->name);
    weir_text_member(text, ",\"role\":", server->role);
    weir_text_member_bool(text, ",\"usable\":", server->usable);
    if (server->lag_known)
        weir_text_member_u64(text, ",\"lag_ms\":", server->lag_ns / MS_NS);
    else
        weir_text_lit(text, ",\"lag_ms\":null");
    weir_text_member_u64(text, ",\"ok\":", server->ok);
    weir_text_member_u64(text, ",\"stale\":", server->stale);
    weir_text_member(text, ",\"fault\":", server->fault[0] ? server->fault : NULL);
    weir_text_lit(text, "}");
}

static void write_sessions(struct weir_text *text, const struct weir_sessions_view *view)
{
    static const char *const refused[] = { WEIR_SESSIONS_REFUSED_LIST(WEIR_LIST_TEXT) };
    weir_text_lit(text, ",\"sessions\":{\"servers\":[");
    for (size_t i = 0; i < view->servers_count; i++) {
        weir_text_str(text, i > 0 ? "," : "");
        write_server(text, &view->servers[i]);
    }
    weir_text_lit(text, "],\"refused\":{");
    for (size_t i = 0; i < WEIR_SESSIONS_REFUSED; i++) {
        weir_text_str(text, i > 0 ? ",\"" : "\"");
        weir_text_str(text, refused[i]);
        weir_text_member_u64(text, "\":", weir_counted(&view->counters->refused[i]));
    }
    weir_text_member_u64(text, "},\"waits\":", weir_counted(&view->counters->waits));
    weir_text_member_u64(text, ",\"waited_ms\":", weir_counted(&view->counters->waited_ns) / MS_NS);
    weir_text_member_u64(text, ",\"waiting\":", view->waiting);
    weir_text_lit(text, "}");
}

static size_t sessions_max(const struct weir_sessions_view *view)
{
    size_t max = 256 + WEIR_SESSIONS_REFUSED * (16 + NUMBER_MAX);
    for (size_t i = 0; i < view->servers_count; i++)
        max += 192 + weir_text_json_max(view->servers[i].name) + weir_text_json_max(view->servers[i].role) +
               weir_text_json_max(view->servers[i].fault);
    return max;
}

/* ---- refusals ---- */

#define REFUSAL_MAX (320 + 6 * WEIR_TOP_TEXT_MAX + 8 * WEIR_KEY_VALUES_MAX)

static void write_key(struct weir_text *text, const struct weir_top_label *label)
{
    weir_text_lit(text, ",\"key\":");
    if (!label->known) {
        weir_text_lit(text, "null");
        return;
    }
    weir_text_lit(text, "[");
    for (size_t i = 0; i < label->count; i++) {
        const struct weir_slice value = weir_top_label_value(label, i);
        weir_text_str(text, i > 0 ? "," : "");
        if (value.size == WEIR_VALUE_ABSENT)
            weir_text_lit(text, "null");
        else
            weir_text_json(text, value.data, value.size);
    }
    weir_text_lit(text, "]");
}

static void write_refusal(struct weir_text *text, const struct weir_loop *loop, const struct weir_last_refusal *last)
{
    const struct weir_refusal *refusal = &last->refusal;
    char hash[24];
    (void)snprintf(hash, sizeof(hash), "%016" PRIx64, weir_top_shown(loop->common->top, refusal->hash));
    weir_text_member_u64(text, "{\"wall_ms\":", last->wall_ns / MS_NS);
    weir_text_member(text, ",\"limit\":", weir_metrics_name(loop->common->metrics, refusal->slot));
    write_key(text, &refusal->label);
    weir_text_member_bool(text, ",\"cut\":", refusal->label.known && refusal->label.cut);
    weir_text_member(text, ",\"hash\":", hash);
    weir_text_member_u64(text, ",\"cost\":", refusal->cost);
    weir_text_lit(text, ",\"retry_after_ms\":");
    if (refusal->retry_after_ns == WEIR_NEVER)
        weir_text_lit(text, "null");
    else
        weir_text_i64(text, weir_told_ms(refusal->retry_after_ns));
    weir_text_member_bool(text, ",\"banned\":", refusal->banned);
    weir_text_lit(text, "}");
}

static size_t refusals_max(const struct weir_loop *loop, const struct state *state)
{
    size_t max = 64;
    for (size_t i = 0; i < state->last_count; i++)
        max += REFUSAL_MAX + weir_text_json_max(weir_metrics_name(loop->common->metrics, state->last[i].refusal.slot));
    return max;
}

/* A reload may have said that keys are not told any more. */
static void hide_keys(const struct weir_loop *loop, struct state *state)
{
    for (size_t i = 0; i < state->last_count; i++)
        if (loop->setup->config->top_keys != WEIR_TOP_TEXT)
            state->last[i].refusal.label.known = false;
}

/* ---- the call ---- */

static void look(const struct weir_loop *loop, struct state *ret_state)
{
    struct weir_common *common = loop->common;
    weir_limiter_stats(loop->limiter, &ret_state->table);
    ret_state->has_sessions = common->sessions != NULL;
    if (common->sessions)
        weir_session_service_view(common->sessions, &ret_state->sessions);
    ret_state->last_count = common->last ? weir_last_read(common->last, ret_state->last) : 0;
    hide_keys(loop, ret_state);
}

static void reply(struct weir_http_call *call, const struct state *state)
{
    const struct weir_loop *loop = call->conn->loop;
    const struct weir_config *config = loop->setup->config;
    const size_t room = HEAD_MAX + (state->has_sessions ? sessions_max(&state->sessions) : 0) +
                        refusals_max(loop, state);
    uint8_t *body = malloc(room);
    if (!body) {
        weir_http_reply_problem(call, 503, "", "out of memory");
        return;
    }
    struct weir_text text = weir_text_init(body, room);
    weir_text_member(&text, "{\"node\":", config->nodes_count ? config->node_name : NULL);
    weir_text_member(&text, ",\"version\":", WEIR_VERSION);
    weir_text_member_u64(&text, ",\"process\":", weir_hour_process(loop->common->hour));
    weir_text_member_u64(&text, ",\"up_ms\":", weir_sub_sat(call->time->now_ns, loop->common->started_ns) / MS_NS);
    write_table(&text, &state->table);
    if (state->has_sessions)
        write_sessions(&text, &state->sessions);
    else
        weir_text_lit(&text, ",\"sessions\":null");
    weir_text_lit(&text, ",\"refusals\":[");
    for (size_t i = 0; i < state->last_count; i++) {
        weir_text_str(&text, i > 0 ? "," : "");
        write_refusal(&text, loop, &state->last[i]);
    }
    weir_text_lit(&text, "]}\n");
    weir_assert(!text.overflow);
    weir_http_reply_long(call, WEIR_HTTP_JSON, "", body, text.size);
}

void weir_http_state(struct weir_http_call *call)
{
    struct state *state = calloc(1, sizeof(*state));
    if (!state) {
        weir_http_reply_problem(call, 503, "", "out of memory");
        return;
    }
    look(call->conn->loop, state);
    reply(call, state);
    free(state);
}
