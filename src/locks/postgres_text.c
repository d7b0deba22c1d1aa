/* SPDX-License-Identifier: Apache-2.0
 *
 * The SQL, the writer of a batch and the reader of its answers. The statement weir_acquire reads, decides and writes in
 * one step, under the row's lock and by the server's clock. Called by postgres.c for batches, and by postgres_run.c and
 * postgres_table.c for new connections and raises; the text is sent by net/postgres_link.c. */
#include "locks/postgres_text.h"

#include <inttypes.h>
#include <libpq-fe.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/checked.h"
#include "base/decimal.h"
#include "base/hex.h"

/* ---- the statements ---- */

/* remote_apply waits for more than `on` does: whoever chose it keeps it. */
const char *const weir_pg_settings =
    "SET standard_conforming_strings = on; SET bytea_output = hex; SET client_min_messages = warning; "
    "SET default_transaction_isolation = 'read committed'; SET plan_cache_mode = force_generic_plan; "
    "SET idle_in_transaction_session_timeout = 5000; SET client_connection_check_interval = 500; "
    "SET tcp_user_timeout = 10000; SET statement_timeout = 10000; SET search_path = pg_catalog, pg_temp; "
    "SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') <> "
    "'remote_apply'";

/* Where a name without a schema leads, before the search path is cut down; nothing on that path is run. */
const char *const weir_pg_home =
    "SELECT pg_catalog.quote_ident(coalesce((SELECT n.nspname FROM pg_catalog.pg_class AS c "
    "JOIN pg_catalog.pg_namespace AS n ON n.oid OPERATOR(pg_catalog.=) c.relnamespace "
    "WHERE c.oid OPERATOR(pg_catalog.=) pg_catalog.to_regclass('@'::text)::oid), pg_catalog.current_schema())::text)";

/* Whoever owns a table, or may give it triggers, has his code run by whoever writes to it, with the writer's rights. */
const char *const weir_pg_judge =
    "SELECT 'the table ' || c.oid::regclass::text || CASE WHEN relkind <> 'r' THEN ' is no plain table' "
    "WHEN relowner NOT IN (me.oid, datdba) AND NOT owner.rolsuper THEN ' belongs to ' || owner.rolname || ', which is "
    "neither this role nor the owner of the database nor a superuser' "
    "WHEN EXISTS (SELECT FROM pg_trigger WHERE tgrelid = c.oid AND NOT tgisinternal) THEN ' has triggers' "
    "WHEN EXISTS (SELECT FROM pg_rewrite WHERE ev_class = c.oid) THEN ' has rules' "
    "WHEN relrowsecurity THEN ' has row security' END AS fault "
    "FROM pg_class AS c JOIN pg_roles AS owner ON owner.oid = relowner JOIN pg_roles AS me ON me.rolname = "
    "current_user "
    "JOIN pg_database ON datname = current_database() WHERE c.oid IN (to_regclass('@')::oid, "
    "to_regclass('@_meta')::oid) "
    "ORDER BY fault";

/* Two nodes that start together: the second waits, and finds the tables there. Rows are rewritten in place (HOT) as
 * long as their page has room. A lock that is free has an owner of no bytes. */
const char *const weir_pg_create =
    "SELECT pg_advisory_xact_lock(x'77656972'::bigint); "
    "CREATE TABLE IF NOT EXISTS @ (name bytea PRIMARY KEY, owner bytea NOT NULL, incarnation bigint NOT NULL, "
    "number bigint NOT NULL, decided timestamptz NOT NULL, ends timestamptz NOT NULL) WITH (fillfactor = 50); "
    "CREATE TABLE IF NOT EXISTS @_meta (one boolean PRIMARY KEY DEFAULT true CHECK (one), incarnation bigint NOT "
    "NULL); INSERT INTO @_meta VALUES (true, 0) ON CONFLICT DO NOTHING";

/* The timeline is that of the log being written now: pg_control_checkpoint() shows the old one until the first
 * checkpoint after a promotion. */
const char *const weir_pg_identify =
    "SELECT system_identifier & 9223372036854775807, ('x' || left(pg_walfile_name(pg_current_wal_lsn()), "
    "8))::bit(32)::bigint, "
    "(pg_current_wal_lsn() - '0/0')::bigint, floor(extract(epoch FROM clock_timestamp()))::bigint, m.incarnation, "
    "pg_backend_pid(), pg_relation_filenode('@'::regclass)::bigint, (SELECT bool_and(relpersistence = 'p')::int "
    "FROM pg_class WHERE oid IN ('@'::regclass, '@_meta'::regclass)), (current_setting('fsync') = 'on')::int, "
    "(extract(epoch FROM pg_postmaster_start_time()) * 1000000::numeric)::bigint, "
    "(SELECT oid::bigint FROM pg_database WHERE datname = current_database()) "
    "FROM pg_control_system(), @_meta AS m";

/* acquire. `other` answers without writing while another holds the lock, which is what those who wait see again and
 * again. Else one row is written under its row lock, and the clock is read once, after that lock is had (a subquery
 * with a volatile function is not flattened; OFFSET 0 says so): whoever came first while we waited is seen in l, and
 * `kept` and `held` are decided at one time. If it is `held` after all (another node was faster) the row is written
 * back as it was: rare, and the answer is there in the same statement.
 * A holder that was fenced by a later incarnation ($5) can do nothing with its token: it gets a new one.
 * greatest(l.incarnation, …): a node that has not heard of a raise yet cannot go below it.
 *
 * renew: no lease that has ended. Where it waits for a row lock, the WHERE is judged again on the row as it then is,
 * with the clock of then.
 *
 * keep: an acquire that gives out no new token: its own lock, as it is, or another's; no row where it would. */
const char *const weir_pg_prepare =
    "PREPARE weir_ground (bigint, bigint, bigint) AS SELECT 1 / count(*) FROM @_meta WHERE incarnation = $1 "
    "AND pg_backend_pid() = $2 AND pg_relation_filenode('@'::regclass) = $3 "
    "AND NOT EXISTS (SELECT FROM pg_trigger WHERE tgrelid IN ('@'::regclass, '@_meta'::regclass) AND NOT tgisinternal) "
    "AND NOT EXISTS (SELECT FROM pg_rewrite WHERE ev_class IN ('@'::regclass, '@_meta'::regclass)) "
    "AND NOT EXISTS (SELECT FROM pg_class WHERE oid IN ('@'::regclass, '@_meta'::regclass) AND relrowsecurity); "

    "PREPARE weir_acquire (bytea, bytea, bigint, bigint, bigint) AS "
    "WITH other AS MATERIALIZED (SELECT owner, incarnation, number, ends - clock_timestamp() AS lease FROM @ "
    "WHERE name = $1 AND owner <> $2 AND ends > clock_timestamp()), "
    "taken AS (INSERT INTO @ AS l (name, owner, incarnation, number, decided, ends) "
    "SELECT $1, $2, $3, 1, now, now + $4::float8 * interval '1 microsecond' "
    "FROM (SELECT clock_timestamp() AS now OFFSET 0) AS clock WHERE NOT EXISTS (SELECT FROM other) "
    "ON CONFLICT (name) DO UPDATE SET (owner, incarnation, number, decided, ends) = ("
    "SELECT CASE WHEN held THEN l.owner ELSE excluded.owner END, "
    "CASE WHEN held OR kept THEN l.incarnation ELSE greatest(l.incarnation, excluded.incarnation) END, "
    "CASE WHEN held OR kept THEN l.number ELSE l.number + 1 END, now, "
    "CASE WHEN held THEN l.ends WHEN kept THEN greatest(l.ends, until) ELSE until END "
    "FROM (SELECT now, now + $4::float8 * interval '1 microsecond' AS until, l.ends > now AND l.owner <> "
    "excluded.owner AS "
    "held, l.ends > now AND l.owner = excluded.owner AND l.incarnation >= $5 AS kept "
    "FROM (SELECT clock_timestamp() AS now OFFSET 0) AS clock "
    "OFFSET 0) AS state) "
    "RETURNING owner, incarnation, number, ends - decided AS lease) "
    "SELECT owner, incarnation, number, (extract(epoch FROM lease) * 1000000::numeric)::bigint "
    "FROM (SELECT * FROM other UNION ALL SELECT * FROM taken) AS answer; "

    "PREPARE weir_renew (bytea, bytea, bigint) AS UPDATE @ AS l SET (decided, ends) = ("
    "SELECT now, greatest(l.ends, now + $3::float8 * interval '1 microsecond') "
    "FROM (SELECT clock_timestamp() AS now OFFSET 0) AS clock) "
    "WHERE name = $1 AND owner = $2 AND ends > clock_timestamp() "
    "RETURNING owner, incarnation, number, (extract(epoch FROM ends - decided) * 1000000::numeric)::bigint; "

    "PREPARE weir_keep (bytea, bytea, bigint, bigint) AS WITH kept AS (UPDATE @ AS l SET (decided, ends) = ("
    "SELECT now, greatest(l.ends, now + $3::float8 * interval '1 microsecond') "
    "FROM (SELECT clock_timestamp() AS now OFFSET 0) AS clock) "
    "WHERE name = $1 AND owner = $2 AND ends > clock_timestamp() AND incarnation >= $4 "
    "RETURNING owner, incarnation, number, ends - decided AS lease) "
    "SELECT owner, incarnation, number, (extract(epoch FROM lease) * 1000000::numeric)::bigint "
    "FROM (SELECT * FROM kept UNION ALL SELECT owner, incarnation, number, ends - clock_timestamp() FROM @ "
    "WHERE name = $1 AND owner <> $2 AND ends > clock_timestamp()) AS answer; "

    "PREPARE weir_release (bytea, bytea) AS UPDATE @ SET owner = '', ends = '-infinity' "
    "WHERE name = $1 AND owner = $2 AND ends > clock_timestamp() RETURNING $2, incarnation, number, 0; "

    "PREPARE weir_show (bytea) AS SELECT owner, incarnation, number, "
    "(extract(epoch FROM ends - clock_timestamp()) * 1000000::numeric)::bigint FROM @ "
    "WHERE name = $1 AND ends > clock_timestamp()";

/* ---- text ---- */

void weir_pg_text_clear(struct weir_pg_text *text)
{
    text->size = 0;
    text->failed = false;
}

/* Room for `size` more and the NUL; NULL: none, and the text has failed. */
static char *room(struct weir_pg_text *text, size_t size)
{
    if (text->failed)
        return NULL;
    if (text->room - text->size <= size) {
        size_t wanted = 2 * (text->size + size) + 256;
        char *data = realloc(text->data, wanted);
        if (!data) {
            text->failed = true;
            return NULL;
        }
        text->data = data;
        text->room = wanted;
    }
    char *at = text->data + text->size;
    text->size += size;
    at[size] = '\0';
    return at;
}

static void add_bytes(struct weir_pg_text *text, const char *bytes, size_t size)
{
    char *at = room(text, size);
    if (at)
        memcpy(at, bytes, size);
}

void weir_pg_text_add(struct weir_pg_text *text, const char *template, const char *table)
{
    for (const char *at = template;;) {
        size_t size = strcspn(at, "@");
        add_bytes(text, at, size);
        if (at[size] == '\0')
            return;
        add_bytes(text, table, strlen(table));
        at += size + 1;
    }
}

void weir_pg_text_number(struct weir_pg_text *text, uint64_t number)
{
    char digits[24];
    int size = snprintf(digits, sizeof digits, "%" PRIu64, number);
    add_bytes(text, digits, (size_t)size);
}

void weir_pg_text_hex(struct weir_pg_text *text, const void *bytes, size_t size)
{
    char *at = room(text, 2 * size);
    if (at)
        (void)weir_hex_write(at, bytes, size);
}

static void add_literal(struct weir_pg_text *text, struct weir_slice bytes)
{
    char *at = room(text, 4 + 2 * bytes.size);
    if (!at)
        return;
    memcpy(at, "'\\x", 3);
    *weir_hex_write(at + 3, bytes.data, bytes.size) = '\'';
}

static size_t name_size(const char *name)
{
    size_t size = strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_");
    return size > 50 || (name[0] >= '0' && name[0] <= '9') ? 0 : size;
}

bool weir_pg_table_valid(const char *table)
{
    size_t size = name_size(table);
    if (size > 0 && table[size] == '.') {
        table += size + 1;
        size = name_size(table);
    }
    return size > 0 && table[size] == '\0';
}

/* ---- what is asked ---- */

void weir_pg_raise_write(struct weir_pg_text *text, const char *table, uint64_t stored, uint64_t raised)
{
    /* A stranger who keeps the row locks out raises, and nobody else. */
    weir_pg_text_add(text, "SELECT set_config('lock_timeout', '200', true); UPDATE @_meta SET incarnation = ", table);
    weir_pg_text_number(text, raised);
    weir_pg_text_add(text, " WHERE incarnation = ", table);
    weir_pg_text_number(text, stored);
    weir_pg_text_add(text, " RETURNING incarnation", table);
}

static void op_write(struct weir_pg_text *text, const struct weir_lock_op *op, uint64_t incarnation,
                     enum weir_pg_tokens tokens)
{
    static const char *const names[] = { [WEIR_LOCK_ACQUIRE] = "acquire",
                                         [WEIR_LOCK_RENEW] = "renew",
                                         [WEIR_LOCK_RELEASE] = "release",
                                         [WEIR_LOCK_SHOW] = "show" };
    weir_assert(op->verb <= WEIR_LOCK_SHOW);
    weir_pg_text_add(text, "; EXECUTE weir_", "");
    weir_pg_text_add(text, tokens != WEIR_PG_TOKENS_NEW && op->verb == WEIR_LOCK_ACQUIRE ? "keep" : names[op->verb],
                     "");
    add_bytes(text, "(", 1);
    add_literal(text, op->name);
    if (op->verb != WEIR_LOCK_SHOW) {
        add_bytes(text, ",", 1);
        add_literal(text, op->owner);
    }
    if (op->verb == WEIR_LOCK_ACQUIRE && tokens == WEIR_PG_TOKENS_NEW) {
        add_bytes(text, ",", 1);
        weir_pg_text_number(text, incarnation);
    }
    if (op->verb == WEIR_LOCK_ACQUIRE || op->verb == WEIR_LOCK_RENEW) {
        add_bytes(text, ",", 1);
        weir_pg_text_number(text, op->ttl_ns / 1000);
    }
    if (op->verb == WEIR_LOCK_ACQUIRE) {
        add_bytes(text, ",", 1);
        weir_pg_text_number(text, tokens == WEIR_PG_TOKENS_NONE ? INT64_MAX : op->seen);
    }
    add_bytes(text, ")", 1);
}

void weir_pg_batch_write(struct weir_pg_text *text, const struct weir_pg_ground *ground,
                         struct weir_lock_op *const *order, size_t count, bool durable, uint64_t timeout_ms,
                         enum weir_pg_tokens tokens)
{
    weir_pg_text_add(text, "SELECT set_config('statement_timeout', '", "");
    weir_pg_text_number(text, timeout_ms);
    weir_pg_text_add(text, durable ? "', true)" : "', true), set_config('synchronous_commit', 'off', true)", "");
    weir_pg_text_add(text, "; EXECUTE weir_ground(", "");
    weir_pg_text_number(text, ground->incarnation);
    add_bytes(text, ",", 1);
    weir_pg_text_number(text, ground->backend);
    add_bytes(text, ",", 1);
    weir_pg_text_number(text, ground->file);
    add_bytes(text, ")", 1);
    for (size_t i = 0; i < count; i++)
        op_write(text, order[i], ground->incarnation, tokens);
}

/* ---- what is answered ---- */

bool weir_pg_identity_read(const PGresult *result, struct weir_pg_identity *ret_identity)
{
    uint64_t value[11];
    if (PQntuples(result) != 1 || PQnfields(result) != 11)
        return false;
    for (int i = 0; i < 11; i++)
        if (!weir_decimal_read(PQgetvalue(result, 0, i), &value[i]))
            return false;
    *ret_identity = (struct weir_pg_identity){
        .system = value[0],
        .timeline = value[1],
        .position = value[2],
        .wall_s = value[3],
        .ground = { .incarnation = value[4], .backend = value[5], .file = value[6] },
        .logged = value[7] == 1,
        .fsync = value[8] == 1,
        .started_us = value[9],
        .database = value[10],
    };
    return true;
}

static bool owner_read(const char *text, struct weir_lock_op *op)
{
    size_t size = strlen(text);
    if (size < 4 || size % 2 != 0 || size / 2 - 1 > WEIR_LOCK_OWNER_MAX || memcmp(text, "\\x", 2) != 0)
        return false;
    op->holder_size = size / 2 - 1;
    return weir_hex_read(text + 2, op->holder_size, op->holder);
}

bool weir_pg_answer_read(const PGresult *result, struct weir_lock_op *op)
{
    uint64_t lease_us = 0;
    op->said = WEIR_LOCK_FREE;
    op->token = (struct weir_token){ 0, 0 };
    op->lease_ns = 0;
    op->holder_size = 0;
    if (PQnfields(result) != 4)
        return false;
    if (PQntuples(result) == 0)
        return true;
    if (PQntuples(result) != 1 || !owner_read(PQgetvalue(result, 0, 0), op) ||
        !weir_decimal_read(PQgetvalue(result, 0, 1), &op->token.incarnation) ||
        !weir_decimal_read(PQgetvalue(result, 0, 2), &op->token.number))
        return false;
    const char *lease = PQgetvalue(result, 0, 3);
    if (!weir_decimal_read(lease, &lease_us) && lease[0] != '-') /* it ended meanwhile */
        return false;
    op->lease_ns = weir_mul_sat(lease_us, 1000);
    op->said = WEIR_LOCK_GRANTED;
    if (op->verb == WEIR_LOCK_ACQUIRE &&
        (op->holder_size != op->owner.size || memcmp(op->holder, op->owner.data, op->owner.size) != 0))
        op->said = WEIR_LOCK_HELD;
    return true;
}
