/* SPDX-License-Identifier: Apache-2.0
 *
 * The configuration of sharing: engine, nodes, and how each limit is shared. What cannot be kept is refused at its
 * place; what is hardly meant is warned of. */
#include <unistd.h>

#include "config_bad.h"
#include "rules_fixture.h"

#define SECRET "cluster_secret: 000102030405060708090a0b0c0d0e0f\n"
#define ENGINE "engine: { redis: { servers: [ 127.0.0.1:6379 ] } }\n"
#define NODES "cluster: { nodes: [ { name: a, gossip: 127.0.0.1:7001 }, { name: b, gossip: 127.0.0.1:7002 }, c ] }\n"
#define GOSSIP "cluster: { nodes: [ { name: a, gossip: 127.0.0.1:7001 }, { name: b, gossip: 127.0.0.1:7002 } ] }\n"
#define LIMIT "limits:\n  - name: x\n    rate: 100/min\n" /* stands in front, so that what follows begins in line 4 */
#define PERMITS "limits:\n  - name: x\n    rate: 100\n"
#define REDIS "engine:\n  redis:\n    servers: [ 127.0.0.1:6379 ]\n" /* goes on in line 4, column 5 */

static void expect_warnings(const char *text, size_t count, unsigned line, unsigned column, const char *part)
{
    struct weir_config *config = config_parsed(text);
    bool found = count == 0;
    for (size_t i = 0; i < config->warnings_count; i++)
        found = found || (config->warnings[i].mark.line == line && config->warnings[i].mark.column == column &&
                          strstr(config->warnings[i].text, part));
    if (config->warnings_count != count || !found)
        fail_msg("%s\n  gives %zu warnings, first %u:%u: %s", text, config->warnings_count,
                 config->warnings_count ? config->warnings[0].mark.line : 0,
                 config->warnings_count ? config->warnings[0].mark.column : 0,
                 config->warnings_count ? config->warnings[0].text : "");
    weir_config_destroy(config);
}

static const struct bad bad_engines[] = {
    { "engine: {}", 1, 9, WEIR_EPROTO, "engine lacks the key \"redis\"" },
    { "engine: { etcd: {} }", 1, 11, WEIR_EPROTO, "unknown key \"etcd\" in engine: must be one of redis" },
    { "engine: { redis: {} }", 1, 18, WEIR_EPROTO, "redis lacks the key \"servers\"" },
    { "engine: { redis: { servers: [] } }", 1, 29, WEIR_ELIMIT, "servers must be 1 to 64" },
    { "engine: { redis: { servers: 127.0.0.1:6379 } }", 1, 29, WEIR_EPROTO,
      "servers must be a list, not text: write [\"HOST:6379\"]" },
    { "engine: redis", 1, 9, WEIR_EPROTO,
      "engine must be a mapping, not text: write { redis: { servers: [\"HOST:6379\"] } }" },
    { "engine: { redis: h }", 1, 18, WEIR_EPROTO,
      "redis must be a mapping, not text: write { servers: [\"HOST:6379\"] }" },
    { "engine: { redis: { servers: [ off ] } }", 1, 31, WEIR_EINVAL, "server \"off\": must be HOST:PORT, such as" },
    { "engine: { redis: { servers: [ 127.0.0.1:0 ] } }", 1, 31, WEIR_ERANGE, "the port must be 1 to 65535" },
    { "engine: { redis: { servers: [ 127.0.0.1.1:6379 ] } }", 1, 31, WEIR_EINVAL, "must be HOST:PORT" },
    { "engine: { redis: { servers: [ -a:6379 ] } }", 1, 31, WEIR_EINVAL, "must be HOST:PORT" },
    { "engine: { redis: { servers: [ a b:6379 ] } }", 1, 31, WEIR_EINVAL, "must be HOST:PORT" },
    { "engine: { redis: { servers: [ r:1, r:1 ], cluster: true } }", 1, 36, WEIR_EEXIST, "\"r:1\" stands twice" },
    { "engine: { redis: { servers: [ r:1, r:2 ] } }", 1, 20, WEIR_EINVAL, "only for cluster: true or sentinel: NAME" },
    { REDIS "    cluster: yes\n", 4, 14, WEIR_EINVAL, "must be one of off, on, false, true" },
    { REDIS "    cluster: true\n    sentinel: main\n", 5, 5, WEIR_EINVAL, "exclude each other" },
    { "engine: { redis: { servers: [ \"unix:/r\" ], cluster: true } }", 1, 20, WEIR_EINVAL, "for a single server" },
    { "engine: { redis: { servers: [ \"unix:/r\" ], tls: true } }", 1, 44, WEIR_EINVAL,
      "tls is not for a Unix socket" },
    { REDIS "    password: \"\"\n", 4, 15, WEIR_ERANGE, "a password must be 1 to 512 bytes" },
    { REDIS "    password: \"a\\nb\"\n", 4, 15, WEIR_ERANGE, "without control characters" },
    { REDIS "    password: p\n    password_file: f\n", 5, 20, WEIR_EIO, "password_file \"f\" cannot be read" },
    { REDIS "    password: p\n    password_file: /dev/null\n", 5, 20, WEIR_ERANGE, "must be 1 to 512 bytes" },
    { REDIS "    username: u\n", 4, 5, WEIR_EINVAL, "username needs password" },
    { REDIS "    sentinel_password: p\n", 4, 5, WEIR_EINVAL, "needs sentinel: NAME" },
    { REDIS "    prefix: \"a{b\"\n", 4, 13, WEIR_EINVAL, "must be made of letters, digits and _ - . :" },
    { REDIS "    prefix: aaaaaaaaaabbbbbbbbbbccccccccccddd\n", 4, 13, WEIR_ERANGE, "prefix must be 1 to 32 bytes" },
    { REDIS "    tls: { ca: f }\n", 4, 12, WEIR_EPROTO, "must be one of ca_file name" },
    { REDIS "    tls: maybe\n", 4, 10, WEIR_EINVAL, "tls \"maybe\" must be one of off, on, false, true" },
    { REDIS "    connect_timeout: 9ms\n", 4, 22, WEIR_ERANGE, "must be 10ms to 1min" },
    { REDIS "    connect_timeout: 2min\n", 4, 22, WEIR_ERANGE, "must be 10ms to 1min" },
};

static const struct bad bad_clusters[] = {
    { "cluster: {}", 1, 10, WEIR_EPROTO, "cluster lacks the key \"nodes\"" },
    { "cluster: { nodes: [] }", 1, 19, WEIR_ELIMIT, "nodes must be 1 to 256" },
    { "cluster: { nodes: [ a, b, a ] }", 1, 27, WEIR_EEXIST, "node \"a\" stands twice in nodes" },
    { "cluster: { nodes: [ a, { name: a } ] }", 1, 24, WEIR_EEXIST, "node \"a\" stands twice" },
    { "cluster: { nodes: [ a/b ] }", 1, 21, WEIR_EINVAL, "a node's name \"a/b\" must be made of letters" },
    { "cluster: { nodes: [ { gossip: off } ] }", 1, 21, WEIR_EPROTO, "a node lacks the key \"name\"" },
    { "cluster: { nodes: [ { name: \"\" } ] }", 1, 29, WEIR_ERANGE, "name must be 1 to 64 bytes" },
    { "cluster: { nodes: [ { name: a, gossip: 127.0.0.1:0 } ] }", 1, 40, WEIR_EINVAL, "port 1 to 65535) or off" },
    { "cluster: { nodes: [ { name: a, gossip: \"unix:/x\" } ] }", 1, 40, WEIR_EINVAL, "must be IP:PORT (UDP" },
    { "cluster: { nodes: [ { name: a, gossip: h:1 }, { name: b, gossip: h:1 } ] }", 1, 40, WEIR_EINVAL,
      "gossip \"h:1\": must be HOST:PORT with an IP address" },
    { "cluster: { nodes: [ { name: a, gossip: \"[::1]:1\" }, { name: b, gossip: \"[::1]:1\" } ] }", 1, 53, WEIR_EEXIST,
      "node \"b\" has the gossip address of node \"a\"" },
    { "cluster: { node: d, nodes: [ c, a, b ] }", 1, 18, WEIR_ENOENT, "node \"d\" must be one of a, b, c" },
    { "cluster: { node: a b, nodes: [ c ] }", 1, 18, WEIR_EINVAL, "node \"a b\" must be made of letters" },
};

static const struct bad bad_sharing[] = {
    { LIMIT "    sharing: all\n", 4, 14, WEIR_EINVAL, "must be one of exact, leased, batched, split, gossip" },
    { LIMIT "    sharing: leased\n", 4, 14, WEIR_EINVAL, "sharing: leased needs an engine that nodes share" },
    { LIMIT "    sharing: batched\n" NODES, 4, 14, WEIR_EINVAL, "sharing: batched needs an engine" },
    { LIMIT "    sharing: gossip\n", 4, 14, WEIR_EINVAL, "sharing: gossip needs the nodes that talk" },
    { LIMIT "    sharing: gossip\n" GOSSIP, 4, 14, WEIR_EINVAL, "sharing: gossip needs cluster_secret" },
    { LIMIT "    sharing: gossip\n" NODES SECRET, 4, 14, WEIR_EINVAL, "of every node: node \"c\" has none" },
    { LIMIT "    slack: 3\n", 4, 5, WEIR_EINVAL, "\"slack\" is only for sharing: batched or gossip" },
    { LIMIT "    slack: 3\n    sharing: leased\n" ENGINE, 4, 5, WEIR_EINVAL, "\"slack\" is only for" },
    { LIMIT "    slack: 0\n", 4, 12, WEIR_ERANGE, "slack 0 is out of range: must be 1 to 1000000000000" },
    { LIMIT "    interval: 1s\n" ENGINE, 4, 5, WEIR_EINVAL, "\"interval\" is only for sharing: batched" },
    { LIMIT "    interval: 2min\n", 4, 15, WEIR_ERANGE, "must be 1ms to 1min" },
    { LIMIT "    chunk_ttl: 1s\n", 4, 5, WEIR_EINVAL, "\"chunk_ttl\" is only for sharing: leased" },
    { LIMIT "    chunk_ttl: 99ms\n", 4, 16, WEIR_ERANGE, "must be 100ms to 1hour" },
    { LIMIT "    on_failure: open\n", 4, 5, WEIR_EINVAL, "\"on_failure\" is only for limits that need an engine" },
    { LIMIT "    on_failure: shut\n", 4, 17, WEIR_EINVAL, "must be one of local, open, closed" },
    { LIMIT "    sharing: split\n    on_failure: open\n" ENGINE, 5, 5, WEIR_EINVAL, "only for limits that need" },
    { LIMIT "    deadline: 20ms\n", 4, 5, WEIR_EINVAL, "\"deadline\" is only for limits that need an engine" },
    { LIMIT "    deadline: 11s\n" ENGINE, 4, 15, WEIR_ERANGE, "must be 1ms to 10s" },
    { LIMIT "    on_full: refuse\n" ENGINE, 4, 5, WEIR_EINVAL, "\"on_full\" is only for limits in this process's" },
    { LIMIT "    sharing: leased\n    algorithm: leaky_bucket\n" ENGINE, 4, 14, WEIR_EINVAL, "keep the turns" },
    { LIMIT "    sharing: batched\n    algorithm: leaky_bucket\n" ENGINE, 4, 14, WEIR_EINVAL,
      "must be exact or split" },
    { LIMIT "    sharing: gossip\n    algorithm: leaky_bucket\n    throttle: hold\n" GOSSIP SECRET, 4, 14, WEIR_EINVAL,
      "cannot keep the turns of a leaky_bucket" },
    { LIMIT "    sharing: gossip\n    algorithm: sliding_log\n" GOSSIP SECRET, 4, 14, WEIR_EINVAL,
      "sharing: gossip does not carry the times of a sliding_log" },
    { LIMIT "    sharing: gossip\n    algorithm: fixed_window\n    align: first\n" GOSSIP SECRET, 6, 12, WEIR_EINVAL,
      "sharing: gossip does not carry when a window began, and each node would fill its own: must be align: calendar" },
    { LIMIT "    algorithm: leaky_bucket\n    throttle: hold\n" ENGINE, 5, 15, WEIR_EINVAL,
      "sharing: exact at an engine cannot hold answers" },
    { LIMIT "    sharing: leased\n    count: attempts\n" ENGINE, 5, 12, WEIR_EINVAL, "cannot charge refused attempts" },
    { "limits: [{ name: x, rate: 4/4year, sharing: split }]\n" NODES, 1, 27, WEIR_ERANGE,
      "node \"a\" cannot keep its share, 2 of 4: rate must be at least 1 per 366 days" },
    { "limits: [{ name: x, rate: 4/4year }]\n" NODES ENGINE, 1, 27, WEIR_ERANGE,
      "node \"a\" cannot keep its share, 2 of 4, which on_failure: local decides by: " },
    { PERMITS "    algorithm: concurrency\n" ENGINE, 4, 16, WEIR_EINVAL,
      "sharing: exact at an engine does not keep the permits of a concurrency limit" },
    { PERMITS "    algorithm: concurrency\n    sharing: leased\n" ENGINE, 4, 16, WEIR_EINVAL,
      "does not keep the permits" },
    { PERMITS "    algorithm: concurrency\n    sharing: batched\n" ENGINE, 4, 16, WEIR_EINVAL,
      "must be sharing: split" },
    { PERMITS "    algorithm: concurrency\n    sharing: gossip\n" GOSSIP SECRET, 4, 16, WEIR_EINVAL,
      "sharing: gossip does not keep the permits" },
    { LIMIT "    lease: 30s\n" ENGINE, 4, 5, WEIR_EINVAL, "\"lease\" is only for algorithm: concurrency" },
};

static void test_bad_engines_are_refused_with_their_place(void **state)
{
    (void)state;
    EXPECT_BAD(bad_engines);
}

static void test_bad_nodes_are_refused_with_their_place(void **state)
{
    (void)state;
    EXPECT_BAD(bad_clusters);
}

/* A mode that cannot keep what the limit promises is refused, not kept by half. */
static void test_sharing_that_means_nothing_is_refused_with_its_place(void **state)
{
    (void)state;
    EXPECT_BAD(bad_sharing);
}

static void test_defaults(void **state)
{
    (void)state;
    struct weir_config *config = config_parsed(LIMIT);
    assert_int_equal(config->limits[0].sharing, WEIR_SHARING_EXACT);
    assert_int_equal(config->limits[0].on_failure, WEIR_ON_FAILURE_LOCAL);
    assert_int_equal(config->limits[0].slack, 0);
    assert_int_equal(config->limits[0].interval_ns, 100000000);
    assert_int_equal(config->limits[0].chunk_ttl_ns, 2000000000);
    assert_int_equal(config->limits[0].deadline_ns, 20000000);
    assert_int_equal(config->redis.servers_count, 0);
    assert_int_equal(weir_config_nodes(config), 1);
    assert_null(config->node_name);
    weir_config_destroy(config);
    config = config_parsed(ENGINE);
    assert_string_equal(config->redis.prefix, "weir");
    assert_int_equal(config->redis.connect_timeout_ns, WEIR_NS_PER_SECOND);
    assert_false(config->redis.tls || config->redis.cluster);
    assert_null(config->redis.sentinel);
    weir_config_destroy(config);
}

/* Wherever the sections stand: limits are read last. */
static void test_every_key_is_read(void **state)
{
    (void)state;
    struct weir_config *config = config_parsed(
        "limits:\n"
        "  - { name: l, rate: 1000/s, sharing: leased, chunk_ttl: 3s, on_failure: closed, deadline: 5ms }\n"
        "  - { name: b, rate: 1000/s, sharing: batched, slack: 7, interval: 50ms, on_failure: open }\n"
        "  - { name: s, rate: 1000/s, sharing: split, on_full: refuse }\n"
        "  - { name: g, rate: 1000/s, sharing: gossip, slack: 9 }\n"
        "engine:\n"
        "  redis: { servers: [ redis.example.org:6379, \"[::1]:6380\" ], sentinel: main, username: u,\n"
        "           password: \"p w\", sentinel_password: s, prefix: \"w:1\", connect_timeout: 2s,\n"
        "           tls: { ca_file: ca.pem, name: redis } }\n" GOSSIP SECRET);
    assert_int_equal(config->limits[0].sharing, WEIR_SHARING_LEASED);
    assert_int_equal(config->limits[0].chunk_ttl_ns, 3000000000);
    assert_int_equal(config->limits[0].on_failure, WEIR_ON_FAILURE_CLOSED);
    assert_int_equal(config->limits[0].deadline_ns, 5000000);
    assert_int_equal(config->limits[1].sharing, WEIR_SHARING_BATCHED);
    assert_int_equal(config->limits[1].slack, 7);
    assert_int_equal(config->limits[1].interval_ns, 50000000);
    assert_int_equal(config->limits[1].on_failure, WEIR_ON_FAILURE_OPEN);
    assert_int_equal(config->limits[2].sharing, WEIR_SHARING_SPLIT);
    assert_int_equal(config->limits[3].sharing, WEIR_SHARING_GOSSIP);
    assert_int_equal(config->limits[3].slack, 9);
    const struct weir_config_redis *redis = &config->redis;
    assert_int_equal(redis->servers_count, 2);
    assert_string_equal(redis->servers[0].host, "redis.example.org");
    assert_false(redis->servers[0].loopback);
    assert_string_equal(redis->servers[1].host, "::1");
    assert_int_equal(redis->servers[1].port, 6380);
    assert_string_equal(redis->sentinel, "main");
    assert_string_equal(redis->username, "u");
    assert_memory_equal(redis->password.data, "p w", 3);
    assert_int_equal(redis->password.size, 3);
    assert_int_equal(redis->sentinel_password.size, 1);
    assert_string_equal(redis->prefix, "w:1");
    assert_true(redis->tls);
    assert_string_equal(redis->tls_ca_file, "ca.pem");
    assert_string_equal(redis->tls_name, "redis");
    assert_int_equal(redis->connect_timeout_ns, 2 * WEIR_NS_PER_SECOND);
    assert_int_equal(config->nodes[1].gossip.port, 7002);
    weir_config_destroy(config);
}

static void test_gossip_is_for_at_most_64_nodes(void **state)
{
    (void)state;
    for (int nodes = 64; nodes <= 65; nodes++) {
        char text[6000] = SECRET LIMIT "    sharing: gossip\ncluster:\n  nodes:\n";
        struct weir_config *config = NULL;
        struct weir_config_fault fault;
        size_t used = strlen(text);
        for (int i = 1; i <= nodes; i++)
            used += (size_t)snprintf(text + used, sizeof(text) - used, "    - { name: n%d, gossip: 127.0.0.1:%d }\n", i,
                                     i);
        assert_int_equal(weir_config_parse(text, used, &config, &fault), nodes == 64 ? 0 : WEIR_ELIMIT);
        if (nodes > 64)
            assert_string_equal(fault.text, "sharing: gossip is for at most 64 nodes");
        weir_config_destroy(config);
    }
}

/* Every node counts the nodes alike, whatever their order in the file. */
static void test_nodes_are_counted_by_name(void **state)
{
    (void)state;
    struct weir_config *config = config_parsed("cluster: { node: b, nodes: [ c, a, b ] }");
    assert_int_equal(weir_config_nodes(config), 3);
    assert_string_equal(config->nodes[0].name, "a");
    assert_string_equal(config->nodes[2].name, "c");
    assert_int_equal(config->node, 1);
    assert_string_equal(config->node_name, "b");
    weir_config_destroy(config);
}

/* One file serves all nodes: the flag --node says which one reads it, and wins over node:. */
static void test_the_flag_says_which_node_this_is(void **state)
{
    (void)state;
    struct weir_config_fault fault = { { 9, 9 }, "" };
    struct weir_config *config = config_parsed("cluster:\n  nodes: [ c, a, b ]");
    assert_int_equal(weir_config_be(config, NULL, &fault), WEIR_EINVAL);
    assert_int_equal(fault.mark.line, 2);
    assert_string_equal(fault.text, "nobody says which node this is: must be one of a, b, c (--node NAME, or node: "
                                    "here)");
    assert_int_equal(weir_config_be(config, "d", &fault), WEIR_ENOENT);
    assert_string_equal(fault.text, "node \"d\" must be one of a, b, c");
    assert_null(config->node_name);
    assert_int_equal(weir_config_be(config, "c", &fault), 0);
    assert_int_equal(config->node, 2);
    assert_string_equal(config->node_name, "c");
    weir_config_destroy(config);
    config = config_parsed("cluster: { node: a, nodes: [ a, b ] }");
    assert_int_equal(weir_config_be(config, NULL, &fault), 0);
    assert_int_equal(config->node, 0);
    assert_int_equal(weir_config_be(config, "b", &fault), 0);
    assert_int_equal(config->node, 1);
    weir_config_destroy(config);
    config = config_parsed(LIMIT);
    assert_int_equal(weir_config_be(config, NULL, &fault), 0);
    assert_int_equal(weir_config_be(config, "a", &fault), WEIR_ENOENT);
    assert_non_null(strstr(fault.text, "there is no cluster:"));
    weir_config_destroy(config);
}

static void test_a_password_may_stand_in_a_file_of_its_own(void **state)
{
    (void)state;
    char folder[] = "/tmp/weir-config-XXXXXX", path[64], secret[64];
    assert_non_null(mkdtemp(folder));
    (void)snprintf(path, sizeof(path), "%s/weir.yaml", folder);
    (void)snprintf(secret, sizeof(secret), "%s/password", folder);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(REDIS "    sentinel: main\n    password_file: password\n    sentinel_password_file: password\n", file);
    assert_int_equal(fclose(file), 0);
    file = fopen(secret, "w");
    assert_non_null(file);
    fputs("pass word\nsecond line\n", file);
    assert_int_equal(fclose(file), 0);
    struct weir_config *config = NULL;
    struct weir_config_fault fault;
    assert_int_equal(weir_config_load(path, &config, &fault), 0);
    assert_int_equal(config->redis.password.size, 9);
    assert_memory_equal(config->redis.password.data, "pass word", 9);
    assert_memory_equal(config->redis.sentinel_password.data, "pass word", 9);
    weir_config_destroy(config);
    assert_int_equal(remove(secret) || remove(path) || remove(folder), 0);
}

/* Whatever is wrong with it or beside it, no message shows a password. */
static void test_no_message_shows_a_password(void **state)
{
    (void)state;
    static const char *const texts[] = {
        REDIS "    password: \"hunter2\\n\"\n",
        REDIS "    password: hunter2\n    password_file: /no/such\n",
        REDIS "    password: hunter2\n    password_file: hunter2\n    connect_timeout: 0s\n",
        REDIS "    sentinel_password: hunter2\n",
        REDIS "    password: [ hunter2 ]\n",
        REDIS "    username: u\n    password: { hunter2: x }\n",
    };
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        struct weir_config *config = NULL;
        struct weir_config_fault fault = { { 0, 0 }, "" };
        assert_int_not_equal(weir_config_parse(texts[i], strlen(texts[i]), &config, &fault), 0);
        if (i != 2) /* there it is a path, and shown as one */
            assert_null(strstr(fault.text, "hunter2"));
    }
}

static void test_what_is_hardly_meant_is_warned_of(void **state)
{
    (void)state;
    expect_warnings(LIMIT ENGINE SECRET NODES, 0, 0, 0, "");
    expect_warnings(LIMIT "    algorithm: leaky_bucket\n" ENGINE SECRET, 0, 0, 0, "");
    expect_warnings(LIMIT "    algorithm: leaky_bucket\n    throttle: hold\n    sharing: split\n" NODES, 0, 0, 0, "");
    expect_warnings(LIMIT "    sharing: gossip\n" SECRET GOSSIP, 0, 0, 0, "");
    expect_warnings(LIMIT ENGINE, 1, 4, 9, "hashed without a secret");
    expect_warnings(LIMIT "    sharing: split\n", 1, 4, 14, "limit \"x\" is split over one node");
    expect_warnings(LIMIT "    deadline: 1001ms\n" ENGINE SECRET, 1, 4, 15, "requests of limit \"x\" wait for 1s 1ms");
    expect_warnings(LIMIT "    deadline: 1s\n" ENGINE SECRET, 0, 0, 0, "");
    expect_warnings(LIMIT NODES, 1, 4, 10, "each of the 3 nodes keeps limits with sharing: exact on its own");
    expect_warnings(LIMIT "    sharing: split\n" NODES ENGINE SECRET, 1, 6, 9, "no limit uses the engine");
    expect_warnings("engine: { redis: { servers: [ redis:6379 ], password: p } }\n" SECRET, 1, 1, 9,
                    "the password goes to server redis:6379 as plain text");
    expect_warnings("engine: { redis: { servers: [ 127.0.0.1:6379 ], password: p } }\n" SECRET, 0, 0, 0, "");
    expect_warnings("engine: { redis: { servers: [ redis:6379 ], password: p, tls: true } }\n" SECRET, 0, 0, 0, "");
}

static void test_a_split_that_leaves_a_node_nothing_is_warned_of(void **state)
{
    (void)state;
    expect_warnings("limits: [{ name: x, rate: 2/s, sharing: split }]\n" NODES, 1, 1, 27,
                    "limit \"x\" is split over 3 nodes and leaves 1 of them nothing, from node \"c\" on");
    expect_warnings("limits: [{ name: x, rate: 9/s, burst: 1, sharing: split }]\n" NODES, 1, 1, 27,
                    "leaves 2 of them nothing, from node \"b\" on");
    expect_warnings("limits: [{ name: x, rate: 3/s, sharing: split }]\n" NODES, 0, 0, 0, "");
    expect_warnings("limits: [{ name: x, rate: 0/s, sharing: split }]\n" NODES, 0, 0, 0, "");
    expect_warnings(
        "limits: [{ name: x, rate: 9/s, key: [u], sharing: split, overrides: [{ u: a, rate: 1/s }] }]\n" NODES, 1, 1,
        70, "leaves 2 of them nothing");
}

static void test_a_slack_as_large_as_the_limit_is_warned_of(void **state)
{
    (void)state;
#define BATCHED(slack) "limits: [{ name: x, rate: 30/min, sharing: batched" slack " }]\n" NODES ENGINE SECRET
    expect_warnings(BATCHED(", slack: 9"), 0, 0, 0, "");
    expect_warnings(BATCHED(", slack: 10"), 1, 1, 60, "may overshoot by 30 (3 nodes, slack 10), no less than its");
    expect_warnings(BATCHED(""), 0, 0, 0, "");
    expect_warnings("limits: [{ name: x, rate: 3/min, sharing: gossip }]\n" GOSSIP SECRET, 0, 0, 0, "");
    expect_warnings("limits: [{ name: x, rate: 2/min, sharing: gossip }]\n" GOSSIP SECRET, 1, 1, 27,
                    "may overshoot by 2 (2 nodes, slack 1)");
}

static void test_gossip_always_keeps_what_was_used(void **state)
{
    (void)state;
#define CHANGES(how, sharing) "limits: [{ name: x, rate: 60/min, on_change: " how ", sharing: " sharing " }]\n"
    expect_warnings(CHANGES("keep", "gossip") GOSSIP SECRET, 0, 0, 0, "");
    expect_warnings(CHANGES("reset", "gossip") GOSSIP SECRET, 1, 1, 46, "limit \"x\" what was used stays used");
    expect_warnings(CHANGES("proportional", "gossip") GOSSIP SECRET, 1, 1, 46, "on_change: keep");
    expect_warnings(CHANGES("reset", "split") GOSSIP SECRET, 0, 0, 0, "");
#undef CHANGES
}

static void test_a_cost_above_the_slack_of_gossip_is_warned_of(void **state)
{
    (void)state;
#define COSTS(more) "limits: [{ name: x, rate: 60/min, sharing: gossip" more " }]\n" GOSSIP SECRET
    expect_warnings(COSTS(", cost: 3"), 0, 0, 0, "");
    expect_warnings(COSTS(", cost: 4"), 1, 1, 27,
                    "costs 4 units a request and has a slack of 3: none is ever admitted");
    expect_warnings(COSTS(", cost: 4, slack: 4"), 0, 0, 0, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bad_engines_are_refused_with_their_place),
        cmocka_unit_test(test_bad_nodes_are_refused_with_their_place),
        cmocka_unit_test(test_sharing_that_means_nothing_is_refused_with_its_place),
        cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_every_key_is_read),
        cmocka_unit_test(test_gossip_is_for_at_most_64_nodes),
        cmocka_unit_test(test_nodes_are_counted_by_name),
        cmocka_unit_test(test_the_flag_says_which_node_this_is),
        cmocka_unit_test(test_a_password_may_stand_in_a_file_of_its_own),
        cmocka_unit_test(test_no_message_shows_a_password),
        cmocka_unit_test(test_what_is_hardly_meant_is_warned_of),
        cmocka_unit_test(test_a_split_that_leaves_a_node_nothing_is_warned_of),
        cmocka_unit_test(test_a_slack_as_large_as_the_limit_is_warned_of),
        cmocka_unit_test(test_gossip_always_keeps_what_was_used),
        cmocka_unit_test(test_a_cost_above_the_slack_of_gossip_is_warned_of),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
