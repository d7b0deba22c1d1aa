/* SPDX-License-Identifier: Apache-2.0
 *
 * Makes a primary with initdb and its replicas with pg_basebackup, in a folder that PostgreSQL's user owns where we are
 * root, and starts them on free ports of the loopback. Their lag is recovery_min_apply_delay. They are ended with
 * SIGQUIT, which takes their shared memory away. Called by lab_phone.c and lab_sticky.c. */
#include "cli/lab_postgres.h"

#include <errno.h>
#include <inttypes.h>
#include <libpq-fe.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/units.h"

#define PATH_SIZE (WEIR_LAB_PATH_SIZE + 64)

static void data_of(const struct weir_lab_stand *stand, unsigned server, char path[PATH_SIZE])
{
    (void)snprintf(path, PATH_SIZE, "%s/postgres/%u", stand->folder, server);
}

static bool folder_make(struct weir_lab_stand *stand)
{
    char path[PATH_SIZE];
    const struct passwd *user = geteuid() == 0 ? getpwnam("postgres") : NULL;
    (void)snprintf(path, sizeof(path), "%s/postgres", stand->folder);
    if (mkdir(path, 0700) != 0 || (user && chown(path, user->pw_uid, user->pw_gid) != 0))
        return weir_lab_fail(stand, "%s: %s", path, strerror(errno));
    if (geteuid() == 0 && !user)
        return weir_lab_fail(stand, "PostgreSQL does not run as root, and there is no user postgres");
    return true;
}

/* As the last settings, which count. */
static bool settings_write(struct weir_lab_stand *stand, unsigned server, uint16_t port, uint64_t lag_ms)
{
    char path[PATH_SIZE];
    data_of(stand, server, path);
    (void)strcat(path, "/postgresql.conf");
    FILE *file = fopen(path, "a");
    if (!file)
        return weir_lab_fail(stand, "%s: %s", path, strerror(errno));
    fprintf(file,
            "\nport = %u\nlisten_addresses = '127.0.0.1'\nunix_socket_directories = ''\nfsync = off\n"
            "max_wal_senders = 10\nwal_keep_size = '256MB'\nhot_standby = on\nmax_connections = 100\n"
            "shared_buffers = '8MB'\nautovacuum = off\nwal_retrieve_retry_interval = '100ms'\n"
            "wal_receiver_status_interval = '1s'\nrecovery_min_apply_delay = '%" PRIu64 "ms'\n",
            port, lag_ms);
    return fclose(file) == 0 || weir_lab_fail(stand, "%s: %s", path, strerror(errno));
}

/* Its shared memory and its children with it: immediate shutdown. */
void weir_lab_postgres_crash(struct weir_lab_postgres *group, unsigned server)
{
    if (group->pids[server] == 0)
        return;
    (void)kill(group->pids[server], SIGQUIT);
    for (uint64_t end_ns = weir_lab_now_ns() + 10000 * WEIR_NS_PER_MS; weir_lab_runs(group->pids[server]);) {
        if (weir_lab_now_ns() > end_ns) {
            weir_lab_kill(group->pids[server]);
            break;
        }
        weir_lab_sleep_ns(2 * WEIR_NS_PER_MS);
    }
    group->pids[server] = 0;
}

bool weir_lab_postgres_again(struct weir_lab_stand *stand, struct weir_lab_postgres *group, unsigned server)
{
    char name[16], data[PATH_SIZE];
    (void)snprintf(name, sizeof(name), "postgres-%u", server);
    data_of(stand, server, data);
    const char *const words[] = { "postgres", "-D", data, NULL };
    group->pids[server] = weir_lab_start(stand, name, words);
    if (group->pids[server] == 0)
        return false;
    for (uint64_t end_ns = weir_lab_now_ns() + WEIR_LAB_READY_NS; PQping(group->conninfos[server]) != PQPING_OK;) {
        if (!weir_lab_runs(group->pids[server])) {
            group->pids[server] = 0;
            return weir_lab_fail(stand, "postgres did not start");
        }
        if (weir_lab_now_ns() > end_ns)
            return weir_lab_fail(stand, "postgres does not answer");
        weir_lab_sleep_ns(20 * WEIR_NS_PER_MS);
    }
    return true;
}

static bool server_start(struct weir_lab_stand *stand, struct weir_lab_postgres *group, unsigned server,
                         uint64_t lag_ms)
{
    char data[PATH_SIZE], port[8];
    data_of(stand, server, data);
    (void)snprintf(port, sizeof(port), "%u", group->ports[0]);
    const char *const first[] = { "initdb",   "-D", data,   "-A",         "trust",     "-U",
                                  "postgres", "-E", "UTF8", "--locale=C", "--no-sync", NULL };
    const char *const copy[] = { "pg_basebackup", "-h", "127.0.0.1", "-p", port, "-U",
                                 "postgres",      "-D", data,        "-R", "-c", "fast",
                                 "--no-sync",     NULL };
    if (!weir_lab_complete(stand, server == 0 ? "initdb" : "pg_basebackup", server == 0 ? first : copy))
        return false;
    group->ports[server] = weir_lab_port();
    (void)snprintf(group->conninfos[server], WEIR_LAB_POSTGRES_CONNINFO,
                   "host=127.0.0.1 port=%u user=postgres dbname=postgres connect_timeout=10", group->ports[server]);
    return settings_write(stand, server, group->ports[server], lag_ms) && weir_lab_postgres_again(stand, group, server);
}

/* At a server; `sql` gives one row or none. True: it was run, and gave "t" or no row. */
static bool sql_run(const char *conninfo, const char *sql)
{
    PGconn *conn = PQconnectdb(conninfo);
    PGresult *result = PQexec(conn, sql);
    bool good = PQresultStatus(result) == PGRES_COMMAND_OK ||
                (PQresultStatus(result) == PGRES_TUPLES_OK && PQntuples(result) == 1 &&
                 strcmp(PQgetvalue(result, 0, 0), "t") == 0);
    PQclear(result);
    PQfinish(conn);
    return good;
}

/* The marker was made after all else. */
static bool replica_wait(struct weir_lab_stand *stand, const char *conninfo)
{
    for (uint64_t end_ns = weir_lab_now_ns() + WEIR_LAB_READY_NS;
         !sql_run(conninfo, "SELECT to_regclass('lab_begins') IS NOT NULL");) {
        if (weir_lab_now_ns() > end_ns)
            return weir_lab_fail(stand, "a replica does not show what the primary has");
        weir_lab_sleep_ns(20 * WEIR_NS_PER_MS);
    }
    return true;
}

bool weir_lab_postgres_start(struct weir_lab_stand *stand, const uint64_t lag_ms[WEIR_LAB_POSTGRES_SERVERS],
                             const char *sql, struct weir_lab_postgres *ret_group)
{
    *ret_group = (struct weir_lab_postgres){ .pids = { 0 } };
    bool good = folder_make(stand);
    for (unsigned i = 0; i < WEIR_LAB_POSTGRES_SERVERS && good; i++)
        good = server_start(stand, ret_group, i, lag_ms[i]);
    if (good && (!sql_run(ret_group->conninfos[0], sql) ||
                 !sql_run(ret_group->conninfos[0], "CREATE TABLE lab_begins (number int)")))
        good = weir_lab_fail(stand, "the primary does not do what it is told");
    for (unsigned i = 1; i < WEIR_LAB_POSTGRES_SERVERS && good; i++)
        good = replica_wait(stand, ret_group->conninfos[i]);
    if (!good)
        weir_lab_postgres_stop(ret_group);
    return good;
}

void weir_lab_postgres_stop(struct weir_lab_postgres *group)
{
    for (unsigned i = WEIR_LAB_POSTGRES_SERVERS; i-- > 0;)
        weir_lab_postgres_crash(group, i);
}
