/* SPDX-License-Identifier: Apache-2.0
 *
 * The postgres store: the table weir_session_users (deploy/reads/users.sql). The row of no name is "EPOCH IDENTITY":
 * the server that the epoch began at, by its system, timeline and start, and the file of the table, which is another
 * one after TRUNCATE, DROP and CREATE, and a restored dump. The other rows are values.
 *
 * A new epoch waits for those that are putting values under the old one (an advisory lock, of the table's oid): so
 * every add that was answered was stored before the epoch began, and what it added is in the floor that is asked for
 * then. */
#include <inttypes.h>
#include <libpq-fe.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/checked.h"
#include "base/decimal.h"
#include "base/fault.h"
#include "base/hex.h"
#include "net/postgres_link.h"
#include "sessions/users_remote.h"

#define TABLE "weir_session_users"
#define LOCK "(CAST(8603398601508388864 AS bigint) + CAST(CAST('" TABLE "' AS regclass) AS oid)::bigint)" /* "weir" */
#define SERVER_MAX 96
#define HERE_MAX (SERVER_MAX + 24) /* with the number of the table's file */
#define MARK_MAX (WEIR_USERS_EPOCH_SIZE + 1 + HERE_MAX)
#define TRIES_MAX 4      /* to agree on an epoch */
#define FORGET_EVERY 128 /* values put by one connection; then a page of the table is looked through */
#define FORGET_PAGE "256"
#define TEXT_MAX 8192
#define WHY_MAX 96

struct postgres {
    struct weir_users_remote remote; /* first */
    char *conninfo;
    uint64_t ttl_s, timeout_ms;
};

struct link {
    struct weir_pg_link pg;
    bool ready;
    char here[SERVER_MAX];                    /* the server, without the table's file */
    char mark[MARK_MAX];                      /* the row of no name, as it was fetched */
    unsigned puts;                            /* since the last page */
    char cursor[2 * WEIR_SESSION_ID_MAX + 1]; /* the last name that was looked at, hexadecimal */
};

static void *link_create(struct weir_users_remote *remote)
{
    struct link *link = calloc(1, sizeof(*link));
    if (link && weir_pg_link_init(&link->pg, ((struct postgres *)(void *)remote)->conninfo) == 0)
        return link;
    free(link);
    return NULL;
}

static void link_destroy(void *context)
{
    struct link *link = context;
    weir_pg_link_deinit(&link->pg);
    free(link);
}

static void destroy(struct weir_users_remote *remote)
{
    struct postgres *postgres = (struct postgres *)(void *)remote;
    weir_users_remote_deinit(remote);
    explicit_bzero(postgres->conninfo, strlen(postgres->conninfo));
    free(postgres->conninfo);
    free(postgres);
}

/* ---- text ---- */

struct text {
    size_t size;
    char data[TEXT_MAX];
};

static void add_text(struct text *text, const char *more)
{
    size_t size = strlen(more);
    weir_assert(size < TEXT_MAX - text->size);
    memcpy(text->data + text->size, more, size + 1);
    text->size += size;
}

static void add_number(struct text *text, uint64_t number)
{
    char digits[24];
    snprintf(digits, sizeof digits, "%" PRIu64, number);
    add_text(text, digits);
}

/* '\x…': nothing that a client sends is read as SQL. */
static void add_bytes(struct text *text, const void *data, size_t size)
{
    weir_assert(2 * size < TEXT_MAX - text->size);
    add_text(text, "'\\x");
    weir_hex_write(text->data + text->size, data, size);
    text->size += 2 * size;
    add_text(text, "'::bytea");
}

/* A field of hexadecimal digits. False: it is none, or more than `room` bytes. */
static bool read_bytes(const char *field, size_t field_size, char *ret_data, size_t room, size_t *ret_size)
{
    if (field_size % 2 != 0 || field_size / 2 > room || !weir_hex_read(field, field_size / 2, ret_data))
        return false;
    *ret_size = field_size / 2;
    return true;
}

/* ---- asking ---- */

/* 0; WEIR_EIO: the connection is gone; WEIR_EDOWN: the server refuses. */
static int ask(struct postgres *postgres, struct link *link, const char *text, uint64_t deadline_ns,
               weir_pg_result_fn *take, void *context)
{
    enum weir_pg_outcome outcome = weir_pg_link_run(&link->pg, text, deadline_ns, take, context);
    if (outcome == WEIR_PG_DONE)
        return 0;
    weir_users_remote_fault(&postgres->remote, "%s", link->pg.fault);
    if (outcome != WEIR_PG_REFUSED)
        return WEIR_EIO;
    /* Two that create the table at once, or it is gone; a deadlock; a row being changed: the next try may do. */
    static const char *const passing[] = { "23505", "40001", "40P01", "42P01", "42P07", "XX000" };
    for (size_t i = 0; i < sizeof passing / sizeof passing[0]; i++) {
        if (strcmp(link->pg.state, passing[i]) == 0)
            return WEIR_EIO;
    }
    return WEIR_EDOWN;
}

/* A row of one text, at result 0. */
static bool take_here(void *context, size_t index, const struct pg_result *result)
{
    struct link *link = context;
    if (index != 0 || PQntuples(result) != 1 || PQnfields(result) != 1 || PQgetlength(result, 0, 0) >= SERVER_MAX)
        return false;
    snprintf(link->here, sizeof link->here, "%s", PQgetvalue(result, 0, 0));
    return true;
}

/* Why the table is not used, in a row of one text. */
static bool take_judged(void *context, size_t index, const struct pg_result *result)
{
    char *why = context;
    if (index != 0 || PQntuples(result) > 1 || PQnfields(result) != 1)
        return false;
    if (PQntuples(result) == 1)
        (void)snprintf(why, WHY_MAX, "%s", PQgetvalue(result, 0, 0));
    return true;
}

/* Whoever owns the table, or gives it triggers, has his code run by who writes to it, with the rights of that one. */
static int judge(struct postgres *postgres, struct link *link, uint64_t deadline_ns)
{
    static const char text[] =
        "SELECT CASE WHEN c.relkind OPERATOR(pg_catalog.<>) 'r' THEN 'is no plain table'"
        " WHEN c.relowner OPERATOR(pg_catalog.<>) me.oid AND c.relowner OPERATOR(pg_catalog.<>) d.datdba"
        " AND NOT o.rolsuper"
        " THEN 'belongs to neither this role, nor the owner of the database, nor a superuser'"
        " WHEN EXISTS (SELECT FROM pg_catalog.pg_trigger AS t WHERE t.tgrelid OPERATOR(pg_catalog.=) c.oid"
        " AND NOT t.tgisinternal) OR EXISTS (SELECT FROM pg_catalog.aclexplode(c.relacl) AS a"
        " WHERE a.privilege_type OPERATOR(pg_catalog.=) 'TRIGGER'::text"
        " AND a.grantee OPERATOR(pg_catalog.<>) c.relowner AND a.grantee OPERATOR(pg_catalog.<>) me.oid)"
        " THEN 'has triggers, or lets others make some'"
        " WHEN c.relrowsecurity OR EXISTS (SELECT FROM pg_catalog.pg_rewrite AS r"
        " WHERE r.ev_class OPERATOR(pg_catalog.=) c.oid) THEN 'has rules or row security' ELSE '' END"
        " FROM pg_catalog.pg_class AS c JOIN pg_catalog.pg_roles AS o ON o.oid OPERATOR(pg_catalog.=) c.relowner"
        " JOIN pg_catalog.pg_roles AS me ON me.rolname OPERATOR(pg_catalog.=) current_user"
        " JOIN pg_catalog.pg_database AS d ON d.datname OPERATOR(pg_catalog.=) pg_catalog.current_database()"
        " WHERE c.oid OPERATOR(pg_catalog.=) pg_catalog.to_regclass('" TABLE "'::text)::oid";
    char why[WHY_MAX] = "";
    int error = ask(postgres, link, text, deadline_ns, take_judged, why);
    if (error || !why[0])
        return error;
    weir_users_remote_fault(&postgres->remote, "the table " TABLE " %s", why);
    return WEIR_EDOWN;
}

/* A new connection: how it is to work, who is there, and the table. */
static int connect_link(struct postgres *postgres, struct link *link, uint64_t deadline_ns)
{
    static const char settings[] = "SELECT pg_catalog.set_config('synchronous_commit', CASE WHEN "
                                   "pg_catalog.current_setting('synchronous_commit') IN ('off', 'local')"
                                   " THEN 'on' ELSE pg_catalog.current_setting('synchronous_commit') END, false),"
                                   " pg_catalog.set_config('default_transaction_isolation', 'read committed', false),"
                                   " pg_catalog.set_config('default_transaction_read_only', 'off', false),"
                                   " pg_catalog.set_config('statement_timeout', '%" PRIu64 "', false)";
    static const char identity[] =
        "SELECT pg_catalog.concat_ws(':', (SELECT system_identifier FROM pg_catalog.pg_control_system()),"
        " pg_catalog.substr(pg_catalog.pg_walfile_name(pg_catalog.pg_current_wal_insert_lsn()), 1, 8),"
        " (extract(epoch FROM pg_catalog.pg_postmaster_start_time()) * 1000000::numeric)::bigint)";
    static const char create[] =
        "DO $$ BEGIN IF pg_catalog.to_regclass('" TABLE "'::text) IS NULL THEN CREATE TABLE " TABLE
        " (user_id bytea PRIMARY KEY, seen bytea NOT NULL, heard timestamptz NOT NULL); END IF; END $$";
    char text[sizeof settings + 24];
    snprintf(text, sizeof text, settings, 2 * postgres->timeout_ms);
    link->ready = false;
    weir_pg_link_drop(&link->pg);
    if (!weir_pg_link_connect(&link->pg, deadline_ns)) {
        weir_users_remote_fault(&postgres->remote, "%s", link->pg.fault);
        return WEIR_EDOWN;
    }
    int error = ask(postgres, link, text, deadline_ns, NULL, NULL);
    if (error == 0)
        error = ask(postgres, link, identity, deadline_ns, take_here, link);
    if (error == 0)
        error = ask(postgres, link, create, deadline_ns, NULL, NULL);
    if (error == 0)
        error = judge(postgres, link, deadline_ns);
    link->ready = error == 0;
    if (error)
        weir_pg_link_drop(&link->pg);
    return error;
}

static int opened(struct postgres *postgres, struct link *link, uint64_t deadline_ns)
{
    if (link->pg.conn && link->ready && weir_pg_link_alive(&link->pg))
        return 0;
    return connect_link(postgres, link, deadline_ns);
}

/* ---- fetch ---- */

struct fetching {
    struct link *link;
    struct weir_users_fetched *fetched;
    char here[HERE_MAX]; /* with the table's file */
    size_t mark_size;    /* of the row of no name; 0: none, or too long */
    bool agreed;         /* it says so */
};

static bool is_true(const PGresult *result, int column)
{
    return strcmp(PQgetvalue(result, 0, column), "t") == 0;
}

/* mark, value, is there a row, is it old, microseconds, the table's file. */
static bool take_fetched(void *context, size_t index, const struct pg_result *result)
{
    struct fetching *fetching = context;
    struct weir_users_fetched *fetched = fetching->fetched;
    struct link *link = fetching->link;
    uint64_t wall_us, file;
    size_t size = 0;
    if (index != 0 || PQntuples(result) != 1 || PQnfields(result) != 6 ||
        !weir_decimal_read(PQgetvalue(result, 0, 4), &wall_us) || !weir_decimal_read(PQgetvalue(result, 0, 5), &file))
        return false;
    *fetched = (struct weir_users_fetched){ .wall_ns = wall_us * 1000, .old = is_true(result, 3) };
    if (is_true(result, 2))
        fetched->said = read_bytes(PQgetvalue(result, 0, 1), (size_t)PQgetlength(result, 0, 1), fetched->value,
                                   sizeof fetched->value, &fetched->size) &&
                                !PQgetisnull(result, 0, 1)
                            ? WEIR_USERS_VALUE
                            : WEIR_USERS_ODD;
    snprintf(fetching->here, sizeof fetching->here, "%s:%" PRIu64, link->here, file);
    fetching->agreed = read_bytes(PQgetvalue(result, 0, 0), (size_t)PQgetlength(result, 0, 0), link->mark,
                                  sizeof link->mark - 1, &size) &&
                       size > WEIR_USERS_EPOCH_SIZE && weir_users_epoch_valid(link->mark);
    link->mark[size] = '\0';
    fetching->mark_size = size;
    if (fetching->agreed) {
        fetching->agreed = link->mark[WEIR_USERS_EPOCH_SIZE] == ' ' &&
                           strcmp(link->mark + WEIR_USERS_EPOCH_SIZE + 1, fetching->here) == 0;
        memcpy(fetched->epoch, link->mark, WEIR_USERS_EPOCH_SIZE);
    }
    return true;
}

static void write_fetch(struct text *text, const struct postgres *postgres, struct weir_users_name name)
{
    text->size = 0;
    add_text(text, "SELECT pg_catalog.encode(m.seen, 'hex'), CASE WHEN pg_catalog.length(u.seen) <= ");
    add_number(text, WEIR_USERS_VALUE_MAX);
    add_text(
        text,
        " THEN pg_catalog.encode(u.seen, 'hex') END, u.user_id IS NOT NULL, u.heard < pg_catalog.clock_timestamp() -"
        " pg_catalog.make_interval(secs => ");
    add_number(text, postgres->ttl_s / 4);
    add_text(text, "), (extract(epoch FROM pg_catalog.clock_timestamp()) * 1000000::numeric)::bigint, "
                   "pg_catalog.pg_relation_filenode(CAST('" TABLE "' AS regclass))"
                   " FROM (SELECT 1) AS one LEFT JOIN " TABLE " m ON m.user_id = '\\x'::bytea LEFT JOIN " TABLE
                   " u ON u.user_id = ");
    add_bytes(text, name.data, name.size);
}

/* A new epoch, unless another process was faster. What stood there may be none of ours, and name this server all the
 * same. */
static int begin_epoch(struct postgres *postgres, struct link *link, const struct fetching *fetching,
                       uint64_t deadline_ns)
{
    struct text text = { 0 };
    char epoch[WEIR_USERS_EPOCH_SIZE + 1], mark[MARK_MAX];
    weir_users_epoch_make(epoch);
    snprintf(mark, sizeof mark, "%s %s", epoch, fetching->here);
    add_text(&text, "SELECT pg_catalog.pg_advisory_xact_lock(" LOCK "); INSERT INTO " TABLE
                    " AS t (user_id, seen, heard) VALUES"
                    " ('\\x'::bytea, ");
    add_bytes(&text, mark, strlen(mark));
    add_text(&text, ", pg_catalog.clock_timestamp()) ON CONFLICT (user_id) DO UPDATE SET seen = EXCLUDED.seen, heard ="
                    " EXCLUDED.heard WHERE substring(t.seen FROM 18) <> ");
    add_bytes(&text, fetching->here, strlen(fetching->here));
    add_text(&text, " OR t.seen = ");
    add_bytes(&text, link->mark, fetching->mark_size);
    return ask(postgres, link, text.data, deadline_ns, NULL, NULL);
}

static int pg_fetch(struct weir_users_remote *remote, void *context, struct weir_users_name name, uint64_t deadline_ns,
                    struct weir_users_fetched *ret_fetched)
{
    struct postgres *postgres = (struct postgres *)(void *)remote;
    struct link *link = context;
    struct text text;
    int error = opened(postgres, link, deadline_ns);
    for (int tries = 0; error == 0 && tries < TRIES_MAX; tries++) {
        struct fetching fetching = { .link = link, .fetched = ret_fetched };
        write_fetch(&text, postgres, name);
        error = ask(postgres, link, text.data, deadline_ns, take_fetched, &fetching);
        if (error == 0 && fetching.agreed)
            return 0;
        if (error == 0)
            error = judge(postgres, link, deadline_ns); /* it may be another table than when the connection was made */
        if (error == 0)
            error = begin_epoch(postgres, link, &fetching, deadline_ns);
    }
    if (error == 0)
        weir_users_remote_fault(remote, "the table " TABLE " does not keep the row of its epoch");
    /* Somebody dropped the table, or it is another one: begin again. */
    link->ready = false;
    return error ? error : WEIR_EIO;
}

/* ---- swap ---- */

static bool take_swapped(void *context, size_t index, const struct pg_result *result)
{
    bool *done = context;
    if (index == 1)
        *done = PQntuples(result) == 1;
    return index < 2;
}

static void write_swap(struct text *text, const struct link *link, struct weir_users_name name,
                       const struct weir_users_fetched *before, const char *value, size_t size)
{
    text->size = 0;
    add_text(text, "SELECT pg_catalog.pg_advisory_xact_lock_shared(" LOCK "); INSERT INTO " TABLE
                   " AS t (user_id, seen, heard)"
                   " SELECT ");
    add_bytes(text, name.data, name.size);
    add_text(text, ", ");
    add_bytes(text, value, size);
    add_text(text, ", pg_catalog.clock_timestamp() WHERE EXISTS (SELECT FROM " TABLE
                   " WHERE user_id = '\\x'::bytea AND seen = ");
    add_bytes(text, link->mark, strlen(link->mark));
    add_text(text, ") ON CONFLICT (user_id) DO UPDATE SET seen = EXCLUDED.seen, heard = EXCLUDED.heard WHERE ");
    if (before->said == WEIR_USERS_VALUE) {
        add_text(text, "t.seen = ");
        add_bytes(text, before->value, before->size);
    } else if (before->said == WEIR_USERS_ODD) {
        add_text(text, "pg_catalog.length(t.seen) > ");
        add_number(text, WEIR_USERS_VALUE_MAX);
    } else {
        add_text(text, "false");
    }
    add_text(text, " RETURNING 1");
}

static bool take_page(void *context, size_t index, const struct pg_result *result)
{
    struct link *link = context;
    if (index != 0)
        return false;
    link->cursor[0] = '\0';
    if (PQntuples(result) == 1 && PQgetlength(result, 0, 0) < (int)sizeof link->cursor)
        snprintf(link->cursor, sizeof link->cursor, "%s", PQgetvalue(result, 0, 0));
    return true;
}

/* Forgets those of the next page that were not heard of for ttl. Whoever puts values does it: all of the table is
 * looked through in half as many puts as it has rows, and nothing needs an index of times. */
static void forget(struct postgres *postgres, struct link *link, uint64_t deadline_ns)
{
    struct text text = { 0 };
    add_text(&text, "WITH page AS MATERIALIZED (SELECT user_id FROM " TABLE " WHERE user_id > '\\x");
    add_text(&text, link->cursor);
    add_text(&text, "'::bytea ORDER BY user_id LIMIT " FORGET_PAGE "), old AS MATERIALIZED (SELECT user_id FROM " TABLE
                    " WHERE user_id IN (SELECT user_id FROM page) AND heard < pg_catalog.clock_timestamp() - "
                    "pg_catalog.make_interval(secs => ");
    add_number(&text, postgres->ttl_s);
    add_text(&text,
             ") FOR UPDATE SKIP LOCKED), gone AS (DELETE FROM " TABLE " WHERE user_id IN (SELECT user_id FROM old)"
             " AND heard < pg_catalog.clock_timestamp() - pg_catalog.make_interval(secs => ");
    add_number(&text, postgres->ttl_s);
    add_text(&text, ")) SELECT pg_catalog.encode(user_id, 'hex') FROM page ORDER BY user_id DESC LIMIT 1");
    (void)ask(postgres, link, text.data, deadline_ns, take_page, link);
    link->puts = 0;
}

static int pg_swap(struct weir_users_remote *remote, void *context, struct weir_users_name name,
                   const struct weir_users_fetched *before, const char *value, size_t size, uint64_t deadline_ns)
{
    struct postgres *postgres = (struct postgres *)(void *)remote;
    struct link *link = context;
    struct text text;
    bool done = false;
    int error = opened(postgres, link, deadline_ns);
    if (error)
        return error;
    /* Another connection, which has fetched nothing of this epoch yet. */
    if (strncmp(link->mark, before->epoch, WEIR_USERS_EPOCH_SIZE) != 0) {
        struct weir_users_fetched again;
        error = pg_fetch(remote, link, name, deadline_ns, &again);
        if (error)
            return error;
        if (strcmp(again.epoch, before->epoch) != 0)
            return WEIR_EBUSY;
    }
    write_swap(&text, link, name, before, value, size);
    error = ask(postgres, link, text.data, deadline_ns, take_swapped, &done);
    if (error)
        return error;
    if (++link->puts >= FORGET_EVERY)
        forget(postgres, link, deadline_ns);
    return done ? 0 : WEIR_EBUSY;
}

static const struct weir_users_remote_ops postgres_ops = {
    .link_create = link_create,
    .link_destroy = link_destroy,
    .fetch = pg_fetch,
    .swap = pg_swap,
    .destroy = destroy,
};

int weir_users_postgres_open(const struct weir_users_options *options, struct weir_users **ret_users,
                             struct weir_fault *ret_fault)
{
    struct weir_pg_link probe;
    int error = weir_pg_link_init(&probe, options->url);
    if (error)
        return error == WEIR_EINVAL ? weir_fault_set(ret_fault, error, "url", "is no conninfo of libpq") : error;
    weir_pg_link_deinit(&probe);
    struct postgres *postgres = calloc(1, sizeof(*postgres));
    if (!postgres)
        return WEIR_ENOMEM;
    postgres->ttl_s = weir_div_ceil(options->ttl_ns, UINT64_C(1000000000));
    postgres->timeout_ms = weir_div_ceil(options->timeout_ns, 1000000);
    postgres->conninfo = strdup(options->url);
    error = postgres->conninfo ? weir_users_remote_init(&postgres->remote, &postgres_ops, options) : WEIR_ENOMEM;
    if (error) {
        free(postgres->conninfo);
        free(postgres);
        return error;
    }
    *ret_users = &postgres->remote.users;
    return 0;
}
