/* SPDX-License-Identifier: Apache-2.0
 *
 * The counters come from the lists in nodes.h: one macro writes a member, another adds up how long it may become.
 * Called by serve/http_nodes.c. The value is filled by serve/nodes.c, and observe/sharing.c makes metrics of it. */
#include "wire/nodes.h"

#define NUMBER_MAX 20
#define MS_NS (WEIR_NS_PER_SECOND / 1000)

enum weir_breaker_state weir_nodes_breaker(const struct weir_nodes_server *server)
{
    if (server->breakers[WEIR_BREAKER_OPEN] > 0)
        return WEIR_BREAKER_OPEN;
    return server->breakers[WEIR_BREAKER_HALF_OPEN] > 0 ? WEIR_BREAKER_HALF_OPEN : WEIR_BREAKER_CLOSED;
}

/* Durations are rounded down: so long at least. */
static void milliseconds(struct weir_text *text, uint64_t ns)
{
    if (ns == WEIR_NEVER)
        weir_text_lit(text, "null");
    else
        weir_text_u64(text, ns / MS_NS);
}

static void number(struct weir_text *text, const char *name, uint64_t value)
{
    if (text->size && text->data[text->size - 1] != '{')
        weir_text_lit(text, ",");
    weir_text_json_or_null(text, name);
    weir_text_lit(text, ":");
    weir_text_u64(text, value);
}

/* Each member of a list. */
#define WRITE(member, type, help) number(text, #member, list->member);
#define WRITE_MAX(member, type, help) max += sizeof(",\"" #member "\":") + NUMBER_MAX;

static void write_server(struct weir_text *text, const struct weir_nodes_server *server)
{
    weir_text_member(text, "{\"address\":", server->address);
    weir_text_member(text, ",\"role\":", server->role);
    weir_text_member(text, ",\"state\":", server->state);
    weir_text_member(text, ",\"warning\":", server->warning);
    weir_text_member(text, ",\"breaker\":", weir_breaker_name(weir_nodes_breaker(server)));
    weir_text_lit(text, ",\"since_ms\":");
    milliseconds(text, server->since_ns);
    weir_text_lit(text, ",\"loops\":{");
    for (unsigned i = WEIR_BREAKER_CLOSED; i <= WEIR_BREAKER_HALF_OPEN; i++)
        number(text, weir_breaker_name((enum weir_breaker_state)i), server->breakers[i]);
    weir_text_lit(text, "}}");
}

static void write_engine(struct weir_text *text, const struct weir_nodes_engine *list)
{
    weir_text_member(text, "{\"name\":", list->name);
    weir_text_member_bool(text, ",\"ready\":", list->ready);
    weir_text_lit(text, ",\"servers\":[");
    for (size_t i = 0; i < list->servers_count; i++) {
        weir_text_str(text, i ? "," : "");
        write_server(text, &list->servers[i]);
    }
    weir_text_member(text, "],\"last_error\":", list->last_error);
    weir_text_lit(text, ",\"last_error_ms_ago\":");
    milliseconds(text, list->last_error ? list->last_error_after_ns : WEIR_NEVER);
    WEIR_NODES_ENGINE_LIST(WRITE)
    weir_text_lit(text, "}");
}

static void write_member(struct weir_text *text, const struct weir_nodes_member *member)
{
    weir_text_member(text, "{\"name\":", member->name);
    weir_text_member(text, ",\"state\":", member->state);
    weir_text_lit(text, ",\"epoch\":\""); /* beyond 2^53, so as text */
    weir_text_u64(text, member->epoch);
    weir_text_lit(text, "\",\"heard_ms_ago\":");
    milliseconds(text, member->heard_after_ns);
    weir_text_lit(text, "}");
}

static void write_gossip(struct weir_text *text, const struct weir_nodes_gossip *list)
{
    weir_text_lit(text, "{\"members\":[");
    for (size_t i = 0; i < list->members_count; i++) {
        weir_text_str(text, i ? "," : "");
        write_member(text, &list->members[i]);
    }
    weir_text_lit(text, "]");
    WEIR_NODES_GOSSIP_LIST(WRITE)
    weir_text_lit(text, "}");
}

static void write_locks(struct weir_text *text, const struct weir_nodes_locks *list)
{
    weir_text_member(text, "{\"name\":", list->name);
    weir_text_member_bool(text, ",\"up\":", list->up);
    weir_text_member(text, ",\"fault\":", list->fault);
    if (list->held == UINT64_MAX)
        weir_text_lit(text, ",\"held\":null");
    else
        weir_text_member_u64(text, ",\"held\":", list->held);
    WEIR_NODES_LOCKS_LIST(WRITE)
    weir_text_lit(text, "}");
}

void weir_nodes_json(struct weir_text *text, const struct weir_nodes *nodes)
{
    const struct weir_nodes_sharing *list = &nodes->sharing;
    weir_text_member(text, "{\"node\":", nodes->node);
    weir_text_member_u64(text, ",\"nodes\":", nodes->count);
    weir_text_lit(text, ",\"engine\":");
    if (nodes->engine)
        write_engine(text, nodes->engine);
    else
        weir_text_lit(text, "null");
    weir_text_lit(text, ",\"gossip\":");
    if (nodes->gossip)
        write_gossip(text, nodes->gossip);
    else
        weir_text_lit(text, "null");
    weir_text_lit(text, ",\"locks\":");
    if (nodes->locks)
        write_locks(text, nodes->locks);
    else
        weir_text_lit(text, "null");
    weir_text_lit(text, ",\"sharing\":{");
    WEIR_NODES_SHARING_LIST(WRITE)
    WEIR_NODES_FALLBACK_LIST(WRITE)
    weir_text_lit(text, "}}");
}

size_t weir_nodes_json_max(const struct weir_nodes *nodes)
{
    size_t max = 256 + weir_text_json_max(nodes->node);
    WEIR_NODES_SHARING_LIST(WRITE_MAX)
    WEIR_NODES_FALLBACK_LIST(WRITE_MAX)
    const struct weir_nodes_engine *engine = nodes->engine;
    if (engine) {
        max += 256 + weir_text_json_max(engine->name) + weir_text_json_max(engine->last_error);
        WEIR_NODES_ENGINE_LIST(WRITE_MAX)
    }
    for (size_t i = 0; engine && i < engine->servers_count; i++) {
        const struct weir_nodes_server *server = &engine->servers[i];
        max += 256 + weir_text_json_max(server->address) + weir_text_json_max(server->role) +
               weir_text_json_max(server->state) + weir_text_json_max(server->warning);
    }
    const struct weir_nodes_gossip *gossip = nodes->gossip;
    if (gossip) {
        max += 64;
        WEIR_NODES_GOSSIP_LIST(WRITE_MAX)
    }
    for (size_t i = 0; gossip && i < gossip->members_count; i++)
        max += 128 + weir_text_json_max(gossip->members[i].name) + weir_text_json_max(gossip->members[i].state);
    const struct weir_nodes_locks *locks = nodes->locks;
    if (locks) {
        max += 96 + weir_text_json_max(locks->name) + weir_text_json_max(locks->fault);
        WEIR_NODES_LOCKS_LIST(WRITE_MAX)
    }
    return max;
}
