/* SPDX-License-Identifier: Apache-2.0
 *
 * Question 10 with a redis-server and two `weir serve` before it. A process at each node asks for the tenants in turn,
 * as often as in virtual time or, where answers take longer, one request after the other; three limits that differ in
 * their sharing are asked one after the other, first with the Redis for themselves, then while scripts of others keep
 * it busy. What is counted lies in memory that all share. In virtual time it is sim/lab/tenants.c. */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/units.h"
#include "cli/lab_real.h"
#include "cli/lab_redis.h"

#define NODES 2
#define SMALL 100         /* tenants */
#define RUN_MS 5000       /* of each way */
#define EVERY_NS 500000   /* a request at each node */
#define SAMPLE_MS 50      /* of a series */
#define BUCKET_NS 20000   /* of a histogram */
#define BUCKETS 5000      /* the last one has all that took longer than 100 ms */
#define BUSY_PROCESSES 3  /* each with one script under way at a time */
#define BUSY_LOOP "50000" /* turns of a script: some hundred microseconds */

struct way {
    const char *name, *attribute;
};

static const struct way ways[] = { { "exact for all", "exact" },
                                   { "exact for the large one, else leased", "mixed" },
                                   { "leased for all", "leased" } };
enum { WAYS = sizeof(ways) / sizeof(ways[0]) };

/* What one way did; written by the processes that ask. */
struct tally {
    _Atomic uint64_t decisions, admitted, large, broken;
    _Atomic uint32_t histogram[BUCKETS];
};

struct asking {
    const struct way *way;
    uint16_t port;
    uint64_t begin_ns, end_ns;
    struct tally *tally;
};

/* ---- who asks ---- */

static bool ask(const struct asking *asking, struct weir_lab_client *client, const char *tenant)
{
    struct tally *tally = asking->tally;
    uint64_t begin_ns = weir_lab_now_ns();
    const struct weir_resp_value *answer = WEIR_LAB_ASK(client, "WEIR.CHECK", "1", "way", asking->way->attribute,
                                                        "tenant", tenant);
    uint64_t bucket = (weir_lab_now_ns() - begin_ns) / BUCKET_NS;
    if (!answer || answer->type != WEIR_RESP_ARRAY || client->count < 2) {
        tally->broken++;
        return false;
    }
    tally->decisions++;
    tally->histogram[bucket < BUCKETS ? bucket : BUCKETS - 1]++;
    tally->admitted += client->values[1].integer == 1;
    tally->large += client->values[1].integer == 1 && tenant[0] == 'l';
    return true;
}

/* The large one and a small one in turn: of 200 requests it has 100, and each small one has one. */
static int ask_for_all(void *context)
{
    const struct asking *asking = context;
    struct weir_lab_stand nobody;
    struct weir_lab_client client;
    if (!weir_lab_client_open(&nobody, asking->port, &client))
        return 1;
    uint64_t now_ns;
    for (unsigned turn = 0; (now_ns = weir_lab_now_ns()) < asking->end_ns; turn++) {
        uint64_t due_ns = asking->begin_ns + turn * (uint64_t)EVERY_NS;
        char tenant[16];
        weir_lab_sleep_ns(due_ns > now_ns ? due_ns - now_ns : 0);
        (void)snprintf(tenant, sizeof(tenant), "t%u", turn / 2 % SMALL);
        if (!ask(asking, &client, turn % 2 ? tenant : "large"))
            return 1;
    }
    return 0;
}

static int keep_busy(void *context)
{
    const uint16_t *port = context;
    struct weir_lab_stand nobody;
    struct weir_lab_client client;
    if (weir_lab_client_open(&nobody, *port, &client))
        while (WEIR_LAB_ASK(&client, "EVAL", "for i = 1, tonumber(ARGV[1]) do end return 1", "0", BUSY_LOOP))
            ;
    return 0;
}

/* ---- what the Redis did ---- */

struct load {
    uint64_t asks;
    double cpu_s;
};

/* The number behind `name` in the text that INFO gave. */
static double field(const struct weir_lab_client *client, const char *name)
{
    char text[sizeof(client->data)];
    if (client->count == 0 || client->values[0].type != WEIR_RESP_BULK)
        return 0;
    (void)snprintf(text, sizeof(text), "%.*s", (int)client->values[0].text.size,
                   (const char *)client->values[0].text.data);
    const char *at = strstr(text, name);
    return at ? strtod(at + strlen(name), NULL) : 0;
}

static struct load load_of(struct weir_lab_client *client)
{
    struct load load;
    (void)WEIR_LAB_ASK(client, "INFO", "commandstats");
    load.asks = (uint64_t)field(client, "cmdstat_evalsha:calls=");
    (void)WEIR_LAB_ASK(client, "INFO", "cpu");
    load.cpu_s = field(client, "used_cpu_sys:") + field(client, "used_cpu_user:");
    return load;
}

/* ---- one way ---- */

static double percentile_ms(const struct tally *tally, double share)
{
    uint64_t below = 0, wanted = (uint64_t)(share * (double)tally->decisions);
    unsigned bucket = 0;
    for (; bucket + 1 < BUCKETS && below + tally->histogram[bucket] <= wanted; bucket++)
        below += tally->histogram[bucket];
    return (bucket + 0.5) * BUCKET_NS / 1e6;
}

static void way_report(const char *name, const char *when, const struct tally *tally, const struct load *load,
                       double seconds, struct weir_lab_report *report)
{
    double decisions = (double)tally->decisions;
    if (when[0] == '\0') {
        weir_lab_number(report, decisions, "requests", "%s: decisions", name);
        weir_lab_number(report, (double)tally->admitted, "requests", "%s: admitted", name);
        weir_lab_number(report, (double)load->asks * 100 / decisions, "asks", "%s: asks of Redis per 100 decisions",
                        name);
        weir_lab_number(report, 100 + 100 * seconds, "requests", "%s: the large one may have", name);
        weir_lab_number(report, (double)tally->large, "requests", "%s: the large one had", name);
    }
    weir_lab_number(report, decisions / seconds, "a second", "%s%s: decisions a second", name, when);
    weir_lab_number(report, percentile_ms(tally, 0.5), "ms", "%s%s: half of the waits below", name, when);
    weir_lab_number(report, percentile_ms(tally, 0.95), "ms", "%s%s: 95 %% of the waits below", name, when);
    weir_lab_number(report, load->cpu_s / seconds * 100, "%", "%s%s: of a processor, Redis", name, when);
}

static bool way_run(struct weir_lab_stand *stand, const struct way *way, const char *when, const uint16_t ports[NODES],
                    struct weir_lab_client *redis)
{
    struct tally *tally = mmap(NULL, sizeof(*tally), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pid_t pids[NODES];
    if (tally == MAP_FAILED)
        return weir_lab_fail(stand, "no memory");
    size_t series = weir_lab_begin(&stand->report, "%s%s", way->name, when);
    struct load before = load_of(redis), after;
    uint64_t begin_ns = weir_lab_now_ns(), end_ns = begin_ns + RUN_MS * WEIR_NS_PER_MS, now_ns;
    for (int i = 0; i < NODES; i++) {
        struct asking asking = { way, ports[i], begin_ns, end_ns, tally };
        pids[i] = weir_lab_fork(stand, ask_for_all, &asking);
        if (pids[i] == 0)
            return false;
    }
    weir_lab_point(&stand->report, series, 0, 0);
    while ((now_ns = weir_lab_now_ns()) < end_ns) {
        weir_lab_point(&stand->report, series, (double)(now_ns - begin_ns) / 1e9, (double)tally->decisions);
        weir_lab_sleep_ns(SAMPLE_MS * WEIR_NS_PER_MS);
    }
    for (int i = 0; i < NODES; i++) {
        while (weir_lab_runs(pids[i]))
            weir_lab_sleep_ns(WEIR_NS_PER_MS);
    }
    double seconds = (double)(weir_lab_now_ns() - begin_ns) / 1e9;
    after = load_of(redis);
    after.asks -= before.asks;
    after.cpu_s -= before.cpu_s;
    weir_lab_point(&stand->report, series, seconds, (double)tally->decisions);
    bool good = tally->broken == 0 && tally->decisions > 0;
    if (good)
        way_report(way->name, when, tally, &after, seconds, &stand->report);
    (void)munmap(tally, sizeof(*tally));
    return good || weir_lab_fail(stand, "weir serve gave no answer");
}

/* ---- the servers ---- */

static bool config_write(struct weir_lab_stand *stand, const char *path, uint16_t redis)
{
    static const char common[] = "key: [tenant], missing: share, rate: 100/s, on_failure: closed, deadline: 10s";
    FILE *file = fopen(path, "w");
    if (!file)
        return weir_lab_fail(stand, "%s cannot be written", path);
    fprintf(file,
            "cluster_secret: 00112233445566778899aabbccddeeff\n"
            "engine: { redis: { servers: [\"127.0.0.1:%u\"] } }\n"
            "cluster: { nodes: [ { name: n0 }, { name: n1 } ] }\n"
            "limits:\n"
            "  - { name: exact, match: { way: exact }, %s, sharing: exact }\n"
            "  - { name: large, match: { way: mixed, tenant: large }, %s, sharing: exact }\n"
            "  - { name: small, match: { way: mixed, tenant: \"t*\" }, %s, sharing: leased }\n"
            "  - { name: leased, match: { way: leased }, %s, sharing: leased }\n",
            redis, common, common, common, common);
    return fclose(file) == 0 || weir_lab_fail(stand, "%s cannot be written", path);
}

static bool node_start(struct weir_lab_stand *stand, const char *weir, const char *config, int number,
                       uint16_t *ret_port)
{
    char name[8], address[32];
    struct weir_lab_client client;
    *ret_port = weir_lab_port();
    (void)snprintf(name, sizeof(name), "n%d", number);
    (void)snprintf(address, sizeof(address), "127.0.0.1:%u", *ret_port);
    const char *const words[] = { weir,    "serve",  "--config", config,      "--node", name, "--resp",
                                  address, "--http", "off",      "--threads", "1",      NULL };
    pid_t pid = weir_lab_start(stand, name, words);
    if (pid == 0)
        return false;
    for (uint64_t end_ns = weir_lab_now_ns() + WEIR_LAB_READY_NS; weir_lab_now_ns() < end_ns;) {
        if (!weir_lab_runs(pid))
            return weir_lab_fail(stand, "weir serve did not start");
        if (weir_lab_client_open(stand, *ret_port, &client)) {
            weir_lab_client_close(&client);
            stand->error[0] = '\0';
            return true;
        }
        weir_lab_sleep_ns(10 * WEIR_NS_PER_MS);
    }
    return weir_lab_fail(stand, "weir serve does not listen");
}

static bool busy_start(struct weir_lab_stand *stand, uint16_t *redis)
{
    for (int i = 0; i < BUSY_PROCESSES; i++) {
        if (weir_lab_fork(stand, keep_busy, redis) == 0)
            return false;
    }
    return true;
}

bool weir_lab_tenants_real(struct weir_lab_stand *stand)
{
    struct weir_lab_redis redis;
    struct weir_lab_client client;
    char weir[PATH_MAX], config[WEIR_LAB_PATH_SIZE + 16];
    uint16_t ports[NODES];
    stand->report.x = "s";
    weir_lab_number(&stand->report, NODES * 1e9 / EVERY_NS, "a second", "requests that there are");
    stand->report.y = "decisions";
    (void)snprintf(config, sizeof(config), "%s/weir.yaml", stand->folder);
    if (!weir_lab_weir_find(weir))
        return weir_lab_fail(stand, "the program weir is not beside weir-lab");
    if (!weir_lab_redis_start(stand, "redis", false, &redis) || !config_write(stand, config, redis.port) ||
        !weir_lab_client_open(stand, redis.port, &client))
        return false;
    for (int i = 0; i < NODES; i++) {
        if (!node_start(stand, weir, config, i, &ports[i]))
            return false;
    }
    for (int i = 0; i < 2 * WAYS; i++) {
        if (i == WAYS && !busy_start(stand, &redis.port))
            return false;
        if (!way_run(stand, &ways[i % WAYS], i < WAYS ? "" : "; Redis busy", ports, &client))
            return false;
    }
    return true;
}
