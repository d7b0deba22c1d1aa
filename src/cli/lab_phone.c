/* SPDX-License-Identifier: Apache-2.0
 *
 * Question 2 with a PostgreSQL primary and two replicas, by libweir-session (weir/session.h). Each way is a process: a
 * phone and a laptop for each user are two sessions there, which share what the way lets them share. The rounds are
 * those that the seed draws. In virtual time it is sim/lab/phone.c. */
#include <libpq-fe.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "base/units.h"
#include "cli/lab_postgres.h"
#include "cli/lab_real.h"
#include "sim/lab/phone.h"
#include "weir/session.h"

struct device {
    enum lab_phone_way way;
    uint64_t seed;
    const struct weir_lab_postgres *group;
    struct lab_phone_found *found;
    struct weir_replicas *replicas;
    struct weir_session *phones[LAB_PHONE_USERS], *laptops[LAB_PHONE_USERS];
    PGconn *plain[WEIR_LAB_POSTGRES_SERVERS]; /* of way ANY */
    uint64_t read[LAB_PHONE_USERS];           /* on the laptop, last */
};

static bool sessions_open(struct device *device)
{
    static const char *const names[WEIR_LAB_POSTGRES_SERVERS] = { "primary", "near", "far" };
    struct weir_replicas_server servers[WEIR_LAB_POSTGRES_SERVERS];
    struct weir_fault fault;
    for (unsigned i = 0; i < WEIR_LAB_POSTGRES_SERVERS; i++) {
        servers[i] = (struct weir_replicas_server){ names[i], device->group->conninfos[i] };
        device->plain[i] = PQconnectdb(device->group->conninfos[i]);
        if (PQstatus(device->plain[i]) != CONNECTION_OK)
            return false;
    }
    const struct weir_replicas_options options = { .servers = servers,
                                                   .server_count = WEIR_LAB_POSTGRES_SERVERS,
                                                   .poll_ms = 10 };
    if (weir_replicas_open(&options, &device->replicas, &fault) != 0)
        return false;
    for (unsigned i = 0; i < LAB_PHONE_USERS; i++) {
        const struct weir_session_options session = {
            .id = &i,
            .id_size = sizeof(i),
            .strategy = device->way == LAB_PHONE_STICKY ? WEIR_SESSION_STICKY : WEIR_SESSION_TRACKED,
            .wait_ms = LAB_PHONE_WAIT_MS,
        };
        if (weir_session_open(device->replicas, &session, &device->phones[i]) != 0 ||
            weir_session_open(device->replicas, &session, &device->laptops[i]) != 0)
            return false;
    }
    weir_lab_sleep_ns(300 * WEIR_NS_PER_MS); /* all servers have been asked */
    return true;
}

/* One number. */
static bool result_take(PGresult *result, uint64_t *ret_value)
{
    bool good = PQresultStatus(result) == PGRES_TUPLES_OK && PQntuples(result) == 1;
    *ret_value = good ? strtoull(PQgetvalue(result, 0, 0), NULL, 10) : 0;
    PQclear(result);
    return good;
}

static bool phone_writes(struct device *device, unsigned user, uint64_t *ret_written)
{
    char sql[128];
    PGconn *conn;
    (void)snprintf(sql, sizeof(sql), "UPDATE lab SET value = value + 1 WHERE way = %d AND name = %u RETURNING value",
                   (int)device->way, user);
    return weir_session_write(device->phones[user], &conn) == 0 && result_take(PQexec(conn, sql), ret_written);
}

/* What the phone has seen goes to the laptop, as in a cookie. */
static bool token_goes(struct device *device, unsigned user)
{
    char token[WEIR_SESSION_TOKEN_MAX];
    size_t size;
    return weir_session_token(device->phones[user], token, &size) == 0 &&
           weir_session_join(device->laptops[user], token, size) == 0;
}

static bool laptop_reads(struct device *device, const struct lab_phone_round *round, uint64_t *ret_value,
                         bool *ret_primary)
{
    char sql[96];
    (void)snprintf(sql, sizeof(sql), "SELECT value FROM lab WHERE way = %d AND name = %u", (int)device->way,
                   round->user);
    *ret_primary = false;
    if (device->way == LAB_PHONE_ANY)
        return result_take(PQexec(device->plain[round->replica], sql), ret_value);
    const struct weir_query query = { .text = sql };
    struct pg_result *result;
    struct weir_read read;
    if (weir_session_query(device->laptops[round->user], &query, &result, &read) != 0)
        return false;
    *ret_primary = read.leader;
    return result_take(result, ret_value);
}

static bool play_round(struct device *device, const struct lab_phone_round *round)
{
    uint64_t written, value;
    bool primary;
    if (!phone_writes(device, round->user, &written))
        return false;
    uint64_t written_ns = weir_lab_now_ns();
    if (device->way == LAB_PHONE_SHARED && !token_goes(device, round->user))
        return false;
    uint64_t due_ns = written_ns + round->moment_ms * WEIR_NS_PER_MS, now_ns = weir_lab_now_ns();
    weir_lab_sleep_ns(due_ns > now_ns ? due_ns - now_ns : 0);
    uint64_t begin_ns = weir_lab_now_ns();
    if (!laptop_reads(device, round, &value, &primary))
        return false;
    lab_phone_count(device->found, written, device->read[round->user], value, primary, weir_lab_now_ns() - begin_ns);
    device->read[round->user] = value;
    return true;
}

static int way_work(void *context)
{
    struct device *device = context;
    struct weir_sim_random random = { .state = device->seed };
    device->found->failed = !sessions_open(device);
    for (unsigned i = 0; i < LAB_PHONE_ROUNDS && !device->found->failed; i++) {
        struct lab_phone_round round = lab_phone_draw(&random, i);
        device->found->failed = !play_round(device, &round);
    }
    return device->found->failed;
}

static bool ways_play(struct weir_lab_stand *stand, const struct weir_lab_postgres *group,
                      struct lab_phone_found *found)
{
    pid_t pids[LAB_PHONE_WAYS];
    for (unsigned i = 0; i < LAB_PHONE_WAYS; i++) {
        struct device device = {
            .way = (enum lab_phone_way)i, .seed = stand->seed, .group = group, .found = &found[i]
        };
        pids[i] = weir_lab_fork(stand, way_work, &device);
        if (pids[i] == 0)
            return false;
    }
    bool good = true;
    for (unsigned i = 0; i < LAB_PHONE_WAYS; i++) {
        while (weir_lab_runs(pids[i]))
            weir_lab_sleep_ns(5 * WEIR_NS_PER_MS);
        good = good && !found[i].failed && found[i].rounds == LAB_PHONE_ROUNDS;
    }
    return good || weir_lab_fail(stand, "a device could not write or read");
}

bool weir_lab_phone_real(struct weir_lab_stand *stand)
{
    static const uint64_t lag_ms[WEIR_LAB_POSTGRES_SERVERS] = LAB_PHONE_LAG_MS;
    struct weir_lab_postgres group;
    struct lab_phone_found *found = mmap(NULL, LAB_PHONE_WAYS * sizeof(*found), PROT_READ | PROT_WRITE,
                                         MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    char sql[256];
    (void)snprintf(sql, sizeof(sql),
                   "CREATE TABLE lab (way int, name int, value bigint, PRIMARY KEY (way, name)); "
                   "INSERT INTO lab SELECT w, n, 0 FROM generate_series(0, %d) w, generate_series(0, %d) n",
                   LAB_PHONE_WAYS - 1, LAB_PHONE_USERS - 1);
    stand->report.seed = stand->seed;
    if (found == MAP_FAILED)
        return weir_lab_fail(stand, "no memory");
    if (!weir_lab_postgres_start(stand, lag_ms, sql, &group))
        return false;
    bool good = ways_play(stand, &group, found);
    weir_lab_postgres_stop(&group);
    if (good)
        lab_phone_report(found, &stand->report);
    return good;
}
