/* SPDX-License-Identifier: Apache-2.0
 *
 * Question 5 with a redis-server: the first client is a process that kills itself as soon as its first command is
 * answered; then another asks 20 times a second. Once with INCR and EXPIRE, once with a script. In virtual time it is
 * sim/lab/expire.c. */
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/units.h"
#include "cli/lab_real.h"
#include "cli/lab_redis.h"

#define LIMIT 10
#define SECONDS 5
#define EVERY_NS (50 * WEIR_NS_PER_MS)

static const char script[] = "local n = redis.call('INCR', KEYS[1]) "
                             "if n == 1 then redis.call('PEXPIRE', KEYS[1], ARGV[1]) end return n";

struct way {
    const char *name, *key;
    bool scripted;
};

/* The counter after this request, -1: no answer. `dies`: after the first command that was answered. */
static int64_t count(const struct way *way, struct weir_lab_client *client, bool dies)
{
    if (way->scripted)
        (void)WEIR_LAB_ASK(client, "EVAL", script, "1", way->key, "1000");
    else
        (void)WEIR_LAB_ASK(client, "INCR", way->key);
    int64_t counted = weir_lab_said_number(client);
    if (dies)
        (void)kill(getpid(), SIGKILL);
    if (!way->scripted && counted == 1)
        (void)WEIR_LAB_ASK(client, "PEXPIRE", way->key, "1000");
    return counted;
}

struct dying {
    const struct way *way;
    uint16_t port;
};

static int die_between(void *context)
{
    const struct dying *dying = context;
    struct weir_lab_stand nobody;
    struct weir_lab_client client;
    if (weir_lab_client_open(&nobody, dying->port, &client))
        (void)count(dying->way, &client, true);
    return 1; /* it should be dead */
}

static bool first_dies(struct weir_lab_stand *stand, const struct way *way, uint16_t port)
{
    struct dying dying = { way, port };
    int status = 0;
    pid_t pid = weir_lab_fork(stand, die_between, &dying);
    if (pid == 0)
        return false;
    if (waitpid(pid, &status, 0) != pid || !WIFSIGNALED(status))
        return weir_lab_fail(stand, "the client that was to die did not: Redis gave it no answer");
    return true;
}

static bool way_run(struct weir_lab_stand *stand, const struct way *way, uint16_t port, struct weir_lab_client *client)
{
    struct weir_lab_report *report = &stand->report;
    size_t series = weir_lab_begin(report, "%s", way->name);
    uint64_t begin_ns = weir_lab_now_ns(), asked = 1, admitted = 0, late = 0;
    weir_lab_point(report, series, 0, 0);
    if (!first_dies(stand, way, port))
        return false;
    (void)WEIR_LAB_ASK(client, "PTTL", way->key);
    int64_t left_ms = weir_lab_said_number(client);
    for (uint64_t i = 1; i * EVERY_NS < SECONDS * 1000 * WEIR_NS_PER_MS; i++, asked++) {
        uint64_t now_ns = weir_lab_now_ns(), due_ns = begin_ns + i * EVERY_NS;
        weir_lab_sleep_ns(due_ns > now_ns ? due_ns - now_ns : 0);
        int64_t counted = count(way, client, false);
        if (counted < 0)
            return weir_lab_fail(stand, "Redis gave no answer");
        if (counted > LIMIT)
            continue;
        double at_s = (double)(weir_lab_now_ns() - begin_ns) / 1e9;
        late += at_s >= 2;
        weir_lab_point(report, series, at_s, (double)++admitted);
    }
    weir_lab_point(report, series, (double)(weir_lab_now_ns() - begin_ns) / 1e9, (double)admitted);
    weir_lab_number(report, (double)asked, "requests", "%s: asked", way->name);
    weir_lab_number(report, (double)admitted, "requests", "%s: admitted", way->name);
    weir_lab_number(report, (double)late, "requests", "%s: of them after 2 s", way->name);
    weir_lab_number(report, left_ms < 0 ? -1 : (double)left_ms, "ms", "%s: time to live after the crash (-1: none)",
                    way->name);
    return true;
}

bool weir_lab_expire_real(struct weir_lab_stand *stand)
{
    static const struct way ways[] = { { "INCR, then EXPIRE", "plain", false }, { "one script", "scripted", true } };
    struct weir_lab_redis redis;
    struct weir_lab_client client;
    stand->report.x = "s after the first request";
    stand->report.y = "requests that were admitted";
    if (!weir_lab_redis_start(stand, "redis", false, &redis) || !weir_lab_client_open(stand, redis.port, &client))
        return false;
    bool good = true;
    for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]) && good; i++)
        good = way_run(stand, &ways[i], redis.port, &client);
    weir_lab_client_close(&client);
    weir_lab_kill(redis.pid);
    return good;
}
