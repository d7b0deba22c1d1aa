/* SPDX-License-Identifier: Apache-2.0
 *
 * What operators see of sharing and of locks: the JSON of GET /v1/nodes, and the same as metrics. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "observe/sharing.h"
#include "wire/nodes.h"

/* The text, which must keep its bound; free it. */
static char *written(const struct weir_nodes *nodes)
{
    size_t room = weir_nodes_json_max(nodes);
    char *buffer = malloc(room + 1);
    if (!buffer)
        abort();
    struct weir_text text = weir_text_init(buffer, room);
    weir_nodes_json(&text, nodes);
    assert_false(text.overflow);
    buffer[text.size] = '\0';
    return buffer;
}

static void expect(const struct weir_nodes *nodes, const char *expected)
{
    char *text = written(nodes);
    assert_string_equal(text, expected);
    free(text);
}

#define NOTHING_SHARED                                                                                                 \
    "\"locks\":null,"                                                                                                  \
    "\"sharing\":{\"keys\":0,\"evicted\":0,\"refused_full\":0,\"asks\":0,\"answers\":0,\"lost\":0,\"stale\":0,"        \
    "\"held\":0,\"forfeited\":0,\"unsettled\":0,\"untold\":0,\"waiting\":0,\"fallback_local\":0,\"fallback_open\":0,"  \
    "\"fallback_closed\":0}}"

static void a_node_alone(void **state)
{
    (void)state;
    expect(&(struct weir_nodes){ .count = 1 },
           "{\"node\":null,\"nodes\":1,\"engine\":null,\"gossip\":null," NOTHING_SHARED);
}

static void an_engine_with_its_breakers(void **state)
{
    (void)state;
    const struct weir_nodes_server servers[] = {
        { "127.0.0.1:6379", "primary", "connected", "its \"user\"", { 4, 0, 0 }, 1999999 },
        { "127.0.0.1:6380", "replica", "down", NULL, { 1, 2, 1 }, 5 * WEIR_NS_PER_SECOND },
    };
    const struct weir_nodes_engine engine = { .name = "redis",
                                              .ready = true,
                                              .servers = servers,
                                              .servers_count = 2,
                                              .last_error = "say \"no\"",
                                              .last_error_after_ns = 7000000,
                                              .asked = 9,
                                              .losses = 1 };
    expect(
        &(struct weir_nodes){ .node = "a", .count = 3, .engine = &engine },
        "{\"node\":\"a\",\"nodes\":3,\"engine\":{\"name\":\"redis\",\"ready\":true,\"servers\":["
        "{\"address\":\"127.0.0.1:6379\",\"role\":\"primary\",\"state\":\"connected\",\"warning\":\"its "
        "\\\"user\\\"\",\"breaker\":\"closed\","
        "\"since_ms\":1,\"loops\":{\"closed\":4,\"open\":0,\"half_open\":0}},"
        "{\"address\":\"127.0.0.1:6380\",\"role\":\"replica\",\"state\":\"down\",\"warning\":null,\"breaker\":\"open\","
        "\"since_ms\":5000,\"loops\":{\"closed\":1,\"open\":2,\"half_open\":1}}],"
        "\"last_error\":\"say \\\"no\\\"\",\"last_error_ms_ago\":7,\"asked\":9,\"answered\":0,\"refused\":0,"
        "\"unknown\":0,\"shed\":0,\"losses\":1,\"evicted\":0,\"warnings\":0,\"corrupt\":0,\"given_back\":0,\"given_"
        "back_lost\":0,"
        "\"reconnects\":0,\"scripts_loaded\":0,\"redirects\":0,\"primary_changes\":0},\"gossip\":null," NOTHING_SHARED);
}

static void members_of_gossip(void **state)
{
    (void)state;
    const struct weir_nodes_member members[] = { { "a", "self", 1795300000000000001, 0 },
                                                 { "b", "unknown", 0, WEIR_NEVER } };
    const struct weir_nodes_gossip gossip = {
        .members = members, .members_count = 2, .unacked = 5, .synced = 1, .refused_slack = 3
    };
    char *text = written(&(struct weir_nodes){ .node = "a", .count = 2, .gossip = &gossip });
    assert_non_null(strstr(text, "\"gossip\":{\"members\":[{\"name\":\"a\",\"state\":\"self\","
                                 "\"epoch\":\"1795300000000000001\",\"heard_ms_ago\":0},{\"name\":\"b\",\"state\":"
                                 "\"unknown\",\"epoch\":\"0\",\"heard_ms_ago\":null}],\"keys\":0,"));
    assert_non_null(strstr(text, ",\"unacked\":5,\"synced\":1,\"refused_unsynced\":0,\"refused_unheard\":0,"
                                 "\"refused_slack\":3,\"refused_superseded\":0},"));
    free(text);
}

/* The worst of the loops counts: an operator looks for the one that is cut off. */
static void the_worst_breaker_is_shown(void **state)
{
    (void)state;
    struct weir_nodes_server server = { .breakers = { 3, 0, 0 } };
    assert_int_equal(weir_nodes_breaker(&server), WEIR_BREAKER_CLOSED);
    server.breakers[WEIR_BREAKER_HALF_OPEN] = 1;
    assert_int_equal(weir_nodes_breaker(&server), WEIR_BREAKER_HALF_OPEN);
    server.breakers[WEIR_BREAKER_OPEN] = 1;
    assert_int_equal(weir_nodes_breaker(&server), WEIR_BREAKER_OPEN);
}

#define LARGEST_OF_ENGINE(member, type, help) engine.member = UINT64_MAX;
#define LARGEST_OF_GOSSIP(member, type, help) gossip.member = UINT64_MAX;

static void the_longest_text_keeps_its_bound(void **state)
{
    (void)state;
    char name[129];
    memset(name, '\x01', sizeof(name) - 1);
    name[sizeof(name) - 1] = '\0';
    struct weir_nodes_server servers[64];
    struct weir_nodes_member members[256];
    struct weir_nodes_engine engine = { .servers = servers, .servers_count = 64 };
    struct weir_nodes_gossip gossip = { .members = members, .members_count = 256 };
    struct weir_nodes nodes = { .engine = &engine, .gossip = &gossip };
    struct weir_nodes_locks locks;
    memset(&locks, 0xff, sizeof(locks));
    locks.name = locks.fault = "\x01\x01\x01";
    locks.up = false; /* "false" is longer */
    nodes.locks = &locks;
    memset(&nodes.sharing, 0xff, sizeof(nodes.sharing));
    WEIR_NODES_ENGINE_LIST(LARGEST_OF_ENGINE)
    WEIR_NODES_GOSSIP_LIST(LARGEST_OF_GOSSIP)
    engine.name = engine.last_error = nodes.node = name;
    engine.last_error_after_ns = UINT64_MAX - 1;
    nodes.count = SIZE_MAX;
    for (size_t i = 0; i < 64; i++)
        servers[i] = (struct weir_nodes_server){
            name, name, name, name, { UINT32_MAX, UINT32_MAX, UINT32_MAX }, UINT64_MAX - 1
        };
    for (size_t i = 0; i < 256; i++)
        members[i] = (struct weir_nodes_member){ name, name, UINT64_MAX, UINT64_MAX - 1 };
    for (size_t servers_count = 0; servers_count <= 64; servers_count += 32)
        for (size_t members_count = 0; members_count <= 256; members_count += 128) {
            engine.servers_count = servers_count;
            gossip.members_count = members_count;
            free(written(&nodes));
        }
}

static void the_same_as_metrics(void **state)
{
    (void)state;
    const struct weir_nodes_server server = { "127.0.0.1:6379", "primary", "connected", NULL, { 1, 2, 0 }, 1500000000 };
    const struct weir_nodes_engine engine = {
        .name = "redis", .ready = true, .servers = &server, .servers_count = 1, .unknown = 4
    };
    const struct weir_nodes_member member = { "b", "suspect", 1, 2 };
    const struct weir_nodes_gossip gossip = { .members = &member, .members_count = 1, .forged = 6, .unacked = 7 };
    const struct weir_nodes nodes = {
        .node = "a", .count = 2, .engine = &engine, .gossip = &gossip, .sharing = { .held = 8 }
    };
    static const char *const lines[] = {
        "\nweir_nodes 2\n",
        "\nweir_engine_ready 1\n",
        "\nweir_engine_breaker_loops{server=\"127.0.0.1:6379\",state=\"closed\"} 1\n",
        "\nweir_engine_breaker_loops{server=\"127.0.0.1:6379\",state=\"open\"} 2\n",
        "\nweir_engine_breaker_loops{server=\"127.0.0.1:6379\",state=\"half_open\"} 0\n",
        "\nweir_engine_breaker_since_seconds{server=\"127.0.0.1:6379\"} 1.5\n",
        "\n# TYPE weir_engine_unknown_total counter\nweir_engine_unknown_total 4\n",
        "\nweir_gossip_member{node=\"b\",state=\"suspect\"} 1\n",
        "\nweir_gossip_forged_total 6\n",
        "\n# TYPE weir_gossip_unacked gauge\nweir_gossip_unacked 7\n",
        "\n# TYPE weir_sharing_held gauge\nweir_sharing_held 8\n",
        "\nweir_sharing_held 8\n",
    };
    struct weir_prometheus out = weir_prometheus_init(1 << 20);
    size_t size = 0;
    weir_sharing_metrics(&out, &nodes);
    char *text = (char *)weir_prometheus_take(&out, &size);
    assert_non_null(text);
    text[size - 1] = '\0'; /* a line's end */
    char *whole = malloc(size + 2);
    if (!whole)
        abort();
    (void)snprintf(whole, size + 2, "\n%s\n", text);
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++)
        if (!strstr(whole, lines[i]))
            fail_msg("no %s in %s", lines[i], whole);
    free(whole);
    free(text);
}

static void without_an_engine_there_are_no_metrics_of_it(void **state)
{
    (void)state;
    struct weir_prometheus out = weir_prometheus_init(1 << 20);
    size_t size = 0;
    weir_sharing_metrics(&out, &(struct weir_nodes){ .count = 1 });
    char *text = (char *)weir_prometheus_take(&out, &size);
    assert_non_null(text);
    text[size - 1] = '\0';
    assert_non_null(strstr(text, "weir_sharing_keys 0"));
    assert_null(strstr(text, "weir_engine"));
    assert_null(strstr(text, "weir_gossip"));
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_node_alone),
        cmocka_unit_test(an_engine_with_its_breakers),
        cmocka_unit_test(members_of_gossip),
        cmocka_unit_test(the_worst_breaker_is_shown),
        cmocka_unit_test(the_longest_text_keeps_its_bound),
        cmocka_unit_test(the_same_as_metrics),
        cmocka_unit_test(without_an_engine_there_are_no_metrics_of_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
