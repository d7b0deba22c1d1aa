/* SPDX-License-Identifier: Apache-2.0
 *
 * Each server gets one statement that asks about itself: role, system identifier, version, start, room for connections;
 * then the replies are compared. The oid of the new table is noted, so that a replica that still shows the table of an
 * earlier check is not taken for one that has caught up. If a later step fails, the table is dropped again. Called by
 * reads_run.c. */
#include "cli/reads_table.h"

#include <libpq-fe.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cli/plain.h"
#include "cli/reads_link.h"
#include "cli/verbs.h"
#include "net/postgres_ask.h"
#include "weir/error.h"

#define SHOWN_TIMEOUT_NS UINT64_C(30000000000)
#define SHOWN_STEP_NS 20000000
#define VERSION_MIN 150000
#define POLLERS 4 /* connections at each server beside the sessions': of two pollers, with replication */

/* What one server says of itself. */
struct about {
    char start[64]; /* of its postmaster: no two that began in one microsecond are meant here */
    char role;      /* 'p' or 's' */
    char system[24];
    int version, room; /* free connections */
    bool told;         /* its role may learn the timeline of a standby */
    char database[64];
};

static int complain(const char *server, const char *text)
{
    char plain[WEIR_PLAIN_SIZE(WEIR_READS_VALUE_SIZE)];
    fprintf(stderr, "weir: %s: %s\n", server, weir_plain(text, plain, sizeof(plain)));
    return WEIR_EXIT_ERROR;
}

static bool field_next(const char **text, char *ret_field, size_t size)
{
    size_t length = strcspn(*text, "|");
    (void)snprintf(ret_field, size, "%.*s", (int)length, *text);
    *text += length + ((*text)[length] != '\0');
    return length > 0;
}

static int about_ask(const char *server, const char *conninfo, struct about *ret_about)
{
    static const char statement[] =
        "SELECT concat_ws('|', CASE WHEN pg_is_in_recovery() THEN 's' ELSE 'p' END, (SELECT system_identifier FROM "
        "pg_control_system()), current_setting('server_version_num'), current_setting('max_connections')::int - "
        "current_setting('superuser_reserved_connections')::int - (SELECT sum(numbackends) FROM pg_stat_database), "
        "to_char(pg_postmaster_start_time() AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS.US'), current_database(), "
        "pg_has_role(current_user, 'pg_read_all_stats', 'USAGE') OR (SELECT rolsuper OR rolreplication FROM pg_roles "
        "WHERE rolname = current_user))";
    char text[WEIR_READS_VALUE_SIZE], field[64];
    PGconn *conn = NULL;
    if (weir_reads_connect(conninfo, WEIR_READS_TIMEOUT_NS, &conn, text) != 0)
        return complain(server, text);
    int error = weir_reads_ask(conn, statement, WEIR_READS_TIMEOUT_NS, text);
    PQfinish(conn);
    if (error)
        return complain(server, text);
    const char *at = text;
    bool good = field_next(&at, field, sizeof(field));
    ret_about->role = field[0];
    good = good && field_next(&at, ret_about->system, sizeof(ret_about->system)) &&
           field_next(&at, field, sizeof(field));
    ret_about->version = (int)strtol(field, NULL, 10);
    good = good && field_next(&at, field, sizeof(field));
    ret_about->room = (int)strtol(field, NULL, 10);
    good = good && field_next(&at, ret_about->start, sizeof(ret_about->start)) &&
           field_next(&at, ret_about->database, sizeof(ret_about->database)) && field_next(&at, field, sizeof(field));
    ret_about->told = field[0] == 't';
    return good ? 0 : complain(server, "does not answer like PostgreSQL");
}

static int primary_check(const struct weir_reads_plan *plan, const struct about *primary)
{
    if (primary->role == 's')
        return complain(plan->names[0], "is a replica: --primary is the server that takes writes");
    if (primary->version < VERSION_MIN)
        return complain(plan->names[0], "is older than PostgreSQL 15");
    return 0;
}

static int replica_check(const struct weir_reads_plan *plan, const struct about *abouts, unsigned server)
{
    const struct about *primary = &abouts[0], *replica = &abouts[server];
    char text[256];
    for (unsigned i = 0; i < server; i++) {
        if (strcmp(abouts[i].start, replica->start) != 0 || strcmp(abouts[i].system, replica->system) != 0)
            continue;
        (void)snprintf(text, sizeof(text), "is the same server as %s: each is given once", plan->names[i]);
        return complain(plan->names[server], text);
    }
    if (strcmp(replica->system, primary->system) != 0) {
        (void)snprintf(text, sizeof(text), "is no replica of %s: it is of another system (%s, not %s)", plan->names[0],
                       replica->system, primary->system);
        return complain(plan->names[server], text);
    }
    if (replica->role != 's')
        return complain(plan->names[server], "is no replica: it takes writes itself, as one that was promoted does");
    if (!replica->told && (weir_reads_mode_count(plan) > 1 || !plan->modes[WEIR_READS_PLAIN]))
        return complain(plan->names[server],
                        "its role may not learn the timeline of a replica, so that no strategy but plain would read "
                        "there, and the table would mean nothing: GRANT pg_read_all_stats to it, or give it "
                        "REPLICATION, or --strategies plain");
    if (strcmp(replica->database, primary->database) != 0) {
        (void)snprintf(text, sizeof(text), "is asked for database %s, the primary for %s", replica->database,
                       primary->database);
        return complain(plan->names[server], text);
    }
    return 0;
}

int weir_reads_servers_check(const struct weir_reads_plan *plan, int *ret_version)
{
    struct about abouts[WEIR_READS_SERVERS_MAX] = { { .role = '\0' } };
    int needed = (int)(plan->sessions * weir_reads_mode_count(plan)) + POLLERS;
    for (unsigned i = 0; i < plan->server_count; i++) {
        int failed = about_ask(plan->names[i], plan->conninfos[i], &abouts[i]);
        if (!failed)
            failed = i == 0 ? primary_check(plan, abouts) : replica_check(plan, abouts, i);
        if (failed)
            return failed;
        if (abouts[i].room < needed) {
            char text[160];
            (void)snprintf(text, sizeof(text),
                           "has room for %d more connections and %d may be needed: fewer --sessions or --strategies",
                           abouts[i].room, needed);
            return complain(plan->names[i], text);
        }
    }
    *ret_version = abouts[0].version;
    return 0;
}

/* ---- the table ---- */

static int refused(const struct weir_reads_plan *plan, const char *said)
{
    char text[WEIR_PLAIN_SIZE(WEIR_READS_VALUE_SIZE)];
    (void)weir_plain(said, text, sizeof(text));
    if (strncmp(text, "42P07", 5) == 0)
        fprintf(stderr,
                "weir: %s: there is a table " WEIR_READS_TABLE " already: another check is running, or one was killed "
                "or had --keep; if none is: DROP TABLE " WEIR_READS_TABLE "\n",
                plan->names[0]);
    else if (strncmp(text, "42501", 5) == 0 || strncmp(text, "3F000", 5) == 0)
        fprintf(stderr,
                "weir: %s: may not make the table " WEIR_READS_TABLE ": %s\n"
                "weir: give the role of --primary a schema to make it in: CREATE SCHEMA weir AUTHORIZATION role; ALTER "
                "ROLE role SET search_path = weir\n",
                plan->names[0], text + 6);
    else
        fprintf(stderr, "weir: %s: cannot make the table " WEIR_READS_TABLE ": %s\n", plan->names[0], text);
    return WEIR_EXIT_ERROR;
}

/* A publication that takes in every new table takes in ours: a subscriber that lacks it stops at the first row, and
 * does not go on when the table is gone. */
static int publications_check(const struct weir_reads_plan *plan, PGconn *conn)
{
    static const char statement[] =
        "SELECT coalesce((SELECT string_agg(quote_ident(pubname), ', ' ORDER BY pubname) FROM pg_publication p WHERE "
        "puballtables OR EXISTS (SELECT FROM pg_publication_namespace n JOIN pg_namespace s ON s.oid = n.pnnspid "
        "WHERE n.pnpubid = p.oid AND s.nspname = current_schema())), '')";
    char text[WEIR_READS_VALUE_SIZE];
    if (weir_reads_ask(conn, statement, WEIR_READS_TIMEOUT_NS, text) != 0)
        return refused(plan, text);
    if (!text[0])
        return 0;
    fprintf(stderr,
            "weir: %s: the table " WEIR_READS_TABLE " would be published by %s, and a subscriber without such a table "
            "stops for good\n"
            "weir: make a schema that is not published and run it there: CREATE SCHEMA weir AUTHORIZATION role; ALTER "
            "ROLE role SET search_path = weir (with FOR ALL TABLES there is none: run it in another database of the "
            "cluster)\n",
            plan->names[0], text);
    return WEIR_EXIT_ERROR;
}

/* Fill factor: a version of a row beside the last one, so that the index is left alone. The roles that read the
 * replicas may be others than the one that writes. */
static int make(const struct weir_reads_table *table, PGconn *conn)
{
    char rows[160], text[WEIR_READS_VALUE_SIZE];
    (void)snprintf(rows, sizeof(rows),
                   "INSERT INTO " WEIR_READS_TABLE " SELECT key, (key = 0)::int FROM generate_series(0, %u) key",
                   WEIR_READS_MODES * table->plan->sessions);
    const char *const statements[] = {
        "CREATE TABLE " WEIR_READS_TABLE " (key bigint PRIMARY KEY, value bigint NOT NULL) WITH (fillfactor = 30)",
        "COMMENT ON TABLE " WEIR_READS_TABLE " IS 'of weir reads check, which drops it when it ends'",
        "GRANT SELECT ON " WEIR_READS_TABLE " TO PUBLIC",
        rows,
    };
    for (size_t i = 0; i < sizeof(statements) / sizeof(statements[0]); i++) {
        if (weir_reads_ask(conn, statements[i], WEIR_READS_TIMEOUT_NS, text) == 0)
            continue;
        int code = refused(table->plan, text);
        if (i > 0)
            (void)weir_reads_table_drop(table);
        return code;
    }
    return 0;
}

static int make_named(struct weir_reads_table *table)
{
    const struct weir_reads_plan *plan = table->plan;
    char text[WEIR_READS_VALUE_SIZE];
    PGconn *conn = NULL;
    if (weir_reads_connect(plan->conninfos[0], WEIR_READS_TIMEOUT_NS, &conn, text) != 0)
        return complain(plan->names[0], text);
    int code = publications_check(plan, conn);
    if (!code)
        code = make(table, conn);
    if (!code && weir_reads_ask(conn,
                                "SELECT concat(c.oid, '|', quote_ident(nspname), '.', relname) FROM pg_class c JOIN "
                                "pg_namespace n ON n.oid = relnamespace WHERE c.oid = '" WEIR_READS_TABLE "'::regclass",
                                WEIR_READS_TIMEOUT_NS, text) != 0) {
        code = refused(plan, text);
        (void)weir_reads_table_drop(table);
    }
    PQfinish(conn);
    const char *at = text;
    if (!code && field_next(&at, table->oid, sizeof(table->oid))) /* all of the rest is its name, whatever is in it */
        (void)snprintf(table->name, sizeof(table->name), "%s", at);
    return code;
}

/* 0, WEIR_EAGAIN: not yet; WEIR_EPROTO: refused, which may end when it is replayed. */
static int shown_ask(PGconn *conn, const struct weir_reads_table *table, char ret_text[WEIR_READS_VALUE_SIZE])
{
    char statement[256];
    (void)snprintf(statement, sizeof(statement), "SELECT value FROM %s WHERE key = 0 AND tableoid = %s", table->name,
                   table->oid);
    int error = weir_reads_ask(conn, statement, WEIR_READS_TIMEOUT_NS, ret_text);
    return error ? error : ret_text[0] ? 0 : WEIR_EAGAIN;
}

static int shown_wait(const struct weir_reads_table *table, unsigned server, const sigset_t *signals)
{
    const struct timespec step = { .tv_nsec = SHOWN_STEP_NS };
    const struct weir_reads_plan *plan = table->plan;
    char text[WEIR_READS_VALUE_SIZE];
    uint64_t deadline_ns = weir_ask_now_ns() + SHOWN_TIMEOUT_NS;
    PGconn *conn = NULL;
    if (weir_reads_connect(plan->conninfos[server], WEIR_READS_TIMEOUT_NS, &conn, text) != 0)
        return complain(plan->names[server], text);
    int error, code = 0;
    while ((error = shown_ask(conn, table, text)) != 0 && error != WEIR_EIO && weir_ask_now_ns() < deadline_ns) {
        if (sigtimedwait(signals, NULL, &step) > 0) {
            code = WEIR_READS_EXIT_SIGNAL;
            break;
        }
    }
    PQfinish(conn);
    if (code || !error)
        return code;
    if (error == WEIR_EIO)
        return complain(plan->names[server], text);
    fprintf(stderr,
            "weir: %s: does not show within 30 s what was written at %s: it does not follow it, or is that far "
            "behind%s%s\n",
            plan->names[server], plan->names[0], text[0] ? ": " : "", text[0] ? text + 6 : "");
    return WEIR_EXIT_ERROR;
}

int weir_reads_table_make(const struct weir_reads_plan *plan, const sigset_t *signals,
                          struct weir_reads_table *ret_table)
{
    *ret_table = (struct weir_reads_table){ .plan = plan, .name = WEIR_READS_TABLE };
    int code = make_named(ret_table);
    if (code)
        return code;
    for (unsigned i = 1; !code && i < plan->server_count; i++)
        code = shown_wait(ret_table, i, signals);
    if (code)
        (void)weir_reads_table_drop(ret_table);
    return code;
}

/* A reader of ours may still be there for a moment, and others may hold locks for long. */
int weir_reads_table_drop(const struct weir_reads_table *table)
{
    const struct weir_reads_plan *plan = table->plan;
    char statement[256], text[WEIR_READS_VALUE_SIZE];
    PGconn *conn = NULL;
    (void)snprintf(statement, sizeof(statement), "DROP TABLE %s", table->name);
    int error = weir_reads_connect(plan->conninfos[0], WEIR_READS_TIMEOUT_NS, &conn, text);
    if (!error)
        error = weir_reads_ask(conn, "SET lock_timeout = '4s'", WEIR_READS_TIMEOUT_NS, text);
    if (!error)
        error = weir_reads_ask(conn, statement, WEIR_READS_TIMEOUT_NS, text);
    PQfinish(conn);
    if (!error)
        return 0;
    (void)complain(plan->names[0], text);
    fprintf(stderr, "weir: the table is left there: DROP TABLE %s\n", table->name);
    return WEIR_EXIT_ERROR;
}
