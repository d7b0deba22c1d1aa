/* SPDX-License-Identifier: Apache-2.0
 *
 * Question 7 with a PostgreSQL primary and two replicas. Each user of each way is a process: a sticky one has plain
 * connections, and prefers a replica while it can be reached, as a load balancer would; a tracked one has a session of
 * libweir-session (weir/session.h). This process counts the row up, crashes the near replica and starts it again. In
 * virtual time it is sim/lab/sticky.c. */
#include <libpq-fe.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "base/units.h"
#include "cli/lab_postgres.h"
#include "cli/lab_real.h"
#include "sim/lab/sticky.h"
#include "weir/session.h"

struct reader {
    enum lab_sticky_way way;
    unsigned number;
    uint64_t begin_ns, end_ns;
    const struct weir_lab_postgres *group;
    struct lab_sticky_user *user;
};

#define SELECT "SELECT value FROM lab"
#define RETRY_NS (100 * WEIR_NS_PER_MS) /* who was away is tried again so often */

/* How one user reads. */
struct hands {
    struct weir_session *session;             /* tracked */
    PGconn *conns[WEIR_LAB_POSTGRES_SERVERS]; /* sticky: of the replicas */
    uint64_t tried_ns;
    unsigned prefers;
};

static bool hands_open(const struct reader *reader, struct hands *hands)
{
    static const char *const names[WEIR_LAB_POSTGRES_SERVERS] = { "primary", "near", "far" };
    struct weir_replicas_server servers[WEIR_LAB_POSTGRES_SERVERS];
    struct weir_replicas *replicas;
    struct weir_fault fault;
    *hands = (struct hands){ .prefers = lab_sticky_prefers(reader->number) };
    for (unsigned i = 0; i < WEIR_LAB_POSTGRES_SERVERS; i++)
        servers[i] = (struct weir_replicas_server){ names[i], reader->group->conninfos[i] };
    for (unsigned i = 1; i < WEIR_LAB_POSTGRES_SERVERS && reader->way == LAB_STICKY_PLAIN; i++)
        hands->conns[i] = PQconnectdb(reader->group->conninfos[i]);
    if (reader->way == LAB_STICKY_PLAIN)
        return true;
    const struct weir_replicas_options options = { .servers = servers,
                                                   .server_count = WEIR_LAB_POSTGRES_SERVERS,
                                                   .poll_ms = 25 };
    const struct weir_session_options how = { .id = &reader->number,
                                              .id_size = sizeof(reader->number),
                                              .strategy = WEIR_SESSION_TRACKED,
                                              .wait_ms = LAB_STICKY_WAIT_MS };
    return weir_replicas_open(&options, &replicas, &fault) == 0 &&
           weir_session_open(replicas, &how, &hands->session) == 0;
}

static bool value_take(PGresult *result, uint64_t *ret_value)
{
    bool good = PQresultStatus(result) == PGRES_TUPLES_OK && PQntuples(result) == 1;
    *ret_value = good ? strtoull(PQgetvalue(result, 0, 0), NULL, 10) : 0;
    PQclear(result);
    return good;
}

/* At the one that it prefers where that is there, else at the other. */
static bool sticky_read(struct hands *hands, uint64_t *ret_value)
{
    PGconn *own = hands->conns[hands->prefers], *other = hands->conns[3 - hands->prefers];
    uint64_t now_ns = weir_lab_now_ns();
    if (PQstatus(own) != CONNECTION_OK && now_ns >= hands->tried_ns + RETRY_NS) {
        hands->tried_ns = now_ns;
        PQreset(own);
    }
    return value_take(PQexec(PQstatus(own) == CONNECTION_OK ? own : other, SELECT), ret_value);
}

/* False: it failed, as one does whose server has gone. */
static bool row_read(struct hands *hands, uint64_t *ret_value, bool *ret_primary)
{
    const struct weir_query query = { .text = SELECT };
    struct pg_result *result;
    struct weir_read read;
    *ret_primary = false;
    if (!hands->session)
        return sticky_read(hands, ret_value);
    if (weir_session_query(hands->session, &query, &result, &read) != 0)
        return false;
    *ret_primary = read.leader;
    return value_take(result, ret_value);
}

static int reader_work(void *context)
{
    const struct reader *reader = context;
    struct hands hands;
    if (!hands_open(reader, &hands))
        return 1;
    for (uint64_t due_ns = reader->begin_ns; due_ns < reader->end_ns; due_ns += LAB_STICKY_READ_MS * WEIR_NS_PER_MS) {
        uint64_t now_ns = weir_lab_now_ns(), value = 0;
        bool primary = false, good = false;
        if (now_ns > due_ns + LAB_STICKY_READ_MS * WEIR_NS_PER_MS)
            continue; /* the read before took longer */
        weir_lab_sleep_ns(due_ns > now_ns ? due_ns - now_ns : 0);
        uint64_t asked_ns = weir_lab_now_ns();
        while (!(good = row_read(&hands, &value, &primary)) && weir_lab_now_ns() < reader->end_ns) {
            reader->user->failed++;
            weir_lab_sleep_ns(5 * WEIR_NS_PER_MS);
        }
        if (good)
            lab_sticky_count(reader->user, value, primary, weir_lab_now_ns() - asked_ns);
    }
    return 0;
}

/* Counts up and takes samples, until it is so many ms after the beginning. */
static bool count_until(struct weir_lab_stand *stand, const struct lab_sticky_board *board, PGconn *primary,
                        uint64_t begin_ns, uint64_t until_ms)
{
    uint64_t end_ns = begin_ns + until_ms * WEIR_NS_PER_MS, now_ns;
    while ((now_ns = weir_lab_now_ns()) < end_ns) {
        PGresult *result = PQexec(primary, "UPDATE lab SET value = value + 1");
        bool good = PQresultStatus(result) == PGRES_COMMAND_OK;
        PQclear(result);
        if (!good)
            return weir_lab_fail(stand, "the primary does not take a write");
        lab_sticky_sample(board, (double)(now_ns - begin_ns) / 1e9, &stand->report);
        uint64_t took_ns = weir_lab_now_ns() - now_ns;
        weir_lab_sleep_ns(
            took_ns < LAB_STICKY_WRITE_MS * WEIR_NS_PER_MS ? LAB_STICKY_WRITE_MS * WEIR_NS_PER_MS - took_ns : 0);
    }
    return true;
}

static bool readers_start(struct weir_lab_stand *stand, const struct weir_lab_postgres *group,
                          struct lab_sticky_board *board, uint64_t begin_ns,
                          pid_t ret_pids[LAB_STICKY_WAYS * LAB_STICKY_USERS])
{
    for (unsigned i = 0; i < LAB_STICKY_WAYS * LAB_STICKY_USERS; i++) {
        unsigned way = i / LAB_STICKY_USERS, user = i % LAB_STICKY_USERS;
        struct reader reader = { .way = (enum lab_sticky_way)way,
                                 .number = user,
                                 .begin_ns = begin_ns + (400 + 7 * user) * WEIR_NS_PER_MS,
                                 .end_ns = begin_ns + LAB_STICKY_END_MS * WEIR_NS_PER_MS,
                                 .group = group,
                                 .user = &board->users[way][user] };
        ret_pids[i] = weir_lab_fork(stand, reader_work, &reader);
        if (ret_pids[i] == 0)
            return false;
    }
    return true;
}

static bool play(struct weir_lab_stand *stand, struct weir_lab_postgres *group, struct lab_sticky_board *board)
{
    pid_t pids[LAB_STICKY_WAYS * LAB_STICKY_USERS];
    /* A second for their processes to begin. */
    uint64_t begin_ns = weir_lab_now_ns() + 1000 * WEIR_NS_PER_MS;
    if (!readers_start(stand, group, board, begin_ns, pids))
        return false;
    PGconn *primary = PQconnectdb(group->conninfos[0]);
    uint64_t now_ns = weir_lab_now_ns();
    weir_lab_sleep_ns(begin_ns > now_ns ? begin_ns - now_ns : 0);
    bool good = count_until(stand, board, primary, begin_ns, LAB_STICKY_FAILS_MS);
    weir_lab_postgres_crash(group, LAB_STICKY_NEAR);
    good = good && count_until(stand, board, primary, begin_ns, LAB_STICKY_BACK_MS) &&
           weir_lab_postgres_again(stand, group, LAB_STICKY_NEAR) &&
           count_until(stand, board, primary, begin_ns, LAB_STICKY_END_MS);
    PQfinish(primary);
    for (unsigned i = 0; i < LAB_STICKY_WAYS * LAB_STICKY_USERS && good; i++) {
        while (weir_lab_runs(pids[i]))
            weir_lab_sleep_ns(5 * WEIR_NS_PER_MS);
        good = board->users[i / LAB_STICKY_USERS][i % LAB_STICKY_USERS].reads > 0;
        if (!good)
            (void)weir_lab_fail(stand, "a user could not read");
    }
    return good;
}

bool weir_lab_sticky_real(struct weir_lab_stand *stand)
{
    static const uint64_t lag_ms[WEIR_LAB_POSTGRES_SERVERS] = LAB_STICKY_LAG_MS;
    struct weir_lab_postgres group;
    struct lab_sticky_board *board = mmap(NULL, sizeof(*board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
                                          0);
    if (board == MAP_FAILED)
        return weir_lab_fail(stand, "no memory");
    if (!weir_lab_postgres_start(stand, lag_ms, "CREATE TABLE lab (value bigint); INSERT INTO lab VALUES (0)", &group))
        return false;
    bool good = play(stand, &group, board);
    weir_lab_postgres_stop(&group);
    if (good)
        lab_sticky_report(board, &stand->report);
    return good;
}
