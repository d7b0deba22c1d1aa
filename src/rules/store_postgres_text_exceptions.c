/* SPDX-License-Identifier: Apache-2.0
 *
 * The SQL of the log of exceptions. A change is one statement that inserts, if the bounds let it: of two that do so at
 * once the primary key lets one pass, and the other finds nothing inserted and is asked again. So numbers become
 * visible in their order, and whoever asks for what came after N misses nothing. Called by
 * store_postgres_exceptions.c. */
#include <string.h>

#include "rules/store_postgres.h"

#define COLUMNS                                                                                                        \
    "number, kind, wall_ns, until_ns, encode(change, 'hex'), encode(limit_name, 'hex'), encode(key, 'hex'), "          \
    "encode(author, 'hex'), encode(comment, 'hex'), "                                                                  \
    "CASE WHEN kind = 3 THEN to_jsonb(e) ->> 'level_name' END" /* a table without levels has no such column */
#define TABLE "'@_exceptions'::regclass"

const char *const weir_rule_sql_exceptions_there = "; SELECT to_regclass('@_exceptions'::text) IS NOT NULL";

const char *const weir_rule_sql_exceptions_maker = "; SELECT owner.rolname " WEIR_RULE_SQL_JUDGED
                                                   "= '@'::regclass AND me.oid NOT IN (relowner, datdba) AND NOT "
                                                   "me.rolsuper";

const char *const weir_rule_sql_exceptions_create =
    "; SELECT pg_advisory_xact_lock(8531346731852853363); "
    "CREATE TABLE IF NOT EXISTS @_exceptions (number bigint PRIMARY KEY CHECK (number > 0), kind smallint NOT NULL, "
    "wall_ns bigint NOT NULL, until_ns bigint NOT NULL, change bytea NOT NULL UNIQUE, digest bytea NOT NULL, "
    "limit_name bytea NOT NULL, key bytea NOT NULL, author bytea NOT NULL, comment bytea NOT NULL, "
    "held bigint NOT NULL, UNIQUE (digest, number) INCLUDE (kind, until_ns))"; /* counted by that index alone */

/* It came later: a table that was made before there were levels gets it by the first change that has one. */
const char *const weir_rule_sql_exceptions_level = "; SELECT EXISTS (SELECT FROM pg_attribute WHERE attrelid = " TABLE
                                                   " AND attname = 'level_name' AND NOT "
                                                   "attisdropped)";
const char *const weir_rule_sql_exceptions_level_create =
    "; SELECT pg_advisory_xact_lock(8531346731852853363); "
    "ALTER TABLE @_exceptions ADD COLUMN IF NOT EXISTS level_name text COLLATE \"C\" NOT NULL DEFAULT ''; "
    "CREATE INDEX ON @_exceptions (level_name) WHERE level_name <> ''";

/* As weir_rule_sql_judge and weir_rule_sql_columns, of this table. */
const char *const weir_rule_sql_exceptions_judge = WEIR_RULE_SQL_JUDGE
    " WHEN EXISTS (SELECT FROM (VALUES ('number', 'bigint'), ('kind', 'smallint'), ('wall_ns', 'bigint'), "
    "('until_ns', 'bigint'), ('change', 'bytea'), ('digest', 'bytea'), ('limit_name', 'bytea'), ('key', 'bytea'), "
    "('author', 'bytea'), ('comment', 'bytea'), ('held', 'bigint')) AS w (name, type) WHERE NOT EXISTS (SELECT FROM "
    "pg_attribute WHERE attrelid = c.oid AND attname = name AND format_type(atttypid, atttypmod) = type AND NOT "
    "attisdropped)) OR EXISTS (SELECT FROM pg_attribute WHERE attrelid = c.oid AND attname = 'level_name' AND "
    "format_type(atttypid, atttypmod) <> 'text' AND NOT attisdropped) "
    "THEN ' is none of weir''s: name another one' END AS fault " WEIR_RULE_SQL_JUDGED "= " TABLE;

/* As weir_rule_sql_guard. */
const char *const weir_rule_sql_exceptions_guard =
    "; SELECT 1 / count(*) FROM pg_class WHERE oid = " TABLE " AND relkind = 'r' AND relpersistence = 'p' AND NOT "
    "relrowsecurity AND NOT EXISTS (SELECT FROM pg_trigger WHERE tgrelid = " TABLE " AND NOT tgisinternal) "
    "AND NOT EXISTS (SELECT FROM pg_rewrite WHERE ev_class = " TABLE ") "
    "AND NOT EXISTS (SELECT FROM pg_inherits WHERE inhparent = " TABLE " OR inhrelid = " TABLE ")";

static void add(struct weir_pg_text *text, const char *words)
{
    weir_pg_text_add(text, words, "");
}

static void add_number(struct weir_pg_text *text, const char *before, uint64_t number)
{
    add(text, before);
    weir_pg_text_number(text, number);
}

static void add_bytes(struct weir_pg_text *text, const char *before, const void *bytes, size_t size)
{
    add(text, before);
    add(text, "decode('");
    weir_pg_text_hex(text, bytes, size);
    add(text, "', 'hex')");
}

/* Of a row named e; the moment is whoever asks's. Whatever a later weir wrote holds as long as it says. */
static void add_holds(struct weir_pg_text *text, uint64_t at_ns)
{
    add_number(text, "(e.kind <> 2 AND (e.until_ns = 0 OR e.until_ns > ", at_ns);
    add(text, "))");
}

static void add_newest(struct weir_pg_text *text, const char *table)
{
    weir_pg_text_add(text,
                     " AND NOT EXISTS (SELECT FROM @_exceptions AS later WHERE later.digest = e.digest AND "
                     "later.number > e.number)",
                     table);
}

void weir_rule_sql_exceptions(struct weir_pg_text *text, const char *table, const struct weir_exception_select *select)
{
    const struct weir_exception_query *query = &select->query;
    weir_pg_text_add(text, "; SELECT " COLUMNS " FROM @_exceptions AS e WHERE number ", table);
    add_number(text, query->newest_first ? "<= " : ">= ", query->from);
    if (select->one_key) {
        add_bytes(text, " AND digest IN (", select->digest, sizeof select->digest);
        add_bytes(text, ", ", select->reset_digest, sizeof select->reset_digest);
        add(text, ")");
    }
    if (query->limit)
        add_bytes(text, " AND limit_name = ", query->limit, strlen(query->limit));
    if (query->holding_at_ns > 0) {
        add(text, " AND ");
        add_holds(text, query->holding_at_ns);
        add_newest(text, table);
    }
    add_number(text, query->newest_first ? " ORDER BY number DESC LIMIT " : " ORDER BY number LIMIT ",
               query->count_max);
}

/* No name has anything but letters, digits and . _ - */
static void add_level(struct weir_pg_text *text, const struct weir_exception_change *change)
{
    add(text, "convert_from(");
    add_bytes(text, "", change->level, strlen(change->level));
    add(text, ", 'UTF8')");
}

/* number, holding, held, levels: what there is before the change. */
static void add_state(struct weir_pg_text *text, const char *table, const struct weir_exception_change *change,
                      const uint8_t *digest, bool anew)
{
    weir_pg_text_add(text, "SELECT coalesce((SELECT max(number) FROM @_exceptions), 0) AS number, ", table);
    if (anew) { /* along the index of digests, backwards: the newest of each comes first */
        weir_pg_text_add(text,
                         "(SELECT count(*) FROM (SELECT DISTINCT ON (digest) kind, until_ns FROM @_exceptions ORDER BY "
                         "digest DESC, number DESC) AS e WHERE ",
                         table);
        add_holds(text, change->wall_ns);
        add(text, ") AS holding, ");
    } else {
        weir_pg_text_add(text, "coalesce((SELECT held FROM @_exceptions ORDER BY number DESC LIMIT 1), 0) AS holding, ",
                         table);
    }
    add(text, "coalesce((SELECT ");
    add_holds(text, change->wall_ns);
    weir_pg_text_add(text, " FROM @_exceptions AS e WHERE digest = ", table);
    add_bytes(text, "", digest, WEIR_EXCEPTION_DIGEST_SIZE);
    add(text, " ORDER BY number DESC LIMIT 1), false)::int AS before, ");
    if (change->kind != WEIR_EXCEPTION_LEVEL) {
        add(text, "0 AS levels");
        return;
    }
    weir_pg_text_add(text, /* one step through the index for each name */
                     "(WITH RECURSIVE names (name) AS (SELECT min(level_name) FROM @_exceptions WHERE level_name <> '' "
                     "UNION ALL SELECT (SELECT min(level_name) FROM @_exceptions WHERE level_name <> '' AND level_name "
                     "> name) FROM names WHERE name IS NOT NULL) SELECT count(*) FROM names WHERE name <> ",
                     table);
    add_level(text, change);
    add(text, ") AS levels");
}

void weir_rule_sql_except(struct weir_pg_text *text, const char *table, const struct weir_rule_store *store,
                          const struct weir_exception_change *change, const uint8_t *digest, bool anew)
{
    const bool ends = change->kind == WEIR_EXCEPTION_UNBAN, level = change->kind == WEIR_EXCEPTION_LEVEL;
    add(text, "; WITH s AS MATERIALIZED ("); /* a million may be counted there: once */
    add_state(text, table, change, digest, anew);
    weir_pg_text_add(text,
                     "), made AS (INSERT INTO @_exceptions (number, kind, wall_ns, until_ns, change, digest, "
                     "limit_name, key, author, comment, ",
                     table);
    add(text, level ? "level_name, held) SELECT s.number + 1" : "held) SELECT s.number + 1");
    add_number(text, ", ", (uint64_t)change->kind);
    add_number(text, ", ", change->wall_ns);
    add_number(text, ", ", change->until_ns);
    add_bytes(text, ", ", change->change, sizeof change->change);
    add_bytes(text, ", ", digest, WEIR_EXCEPTION_DIGEST_SIZE);
    add_bytes(text, ", ", change->limit, strlen(change->limit));
    add_bytes(text, ", ", change->key.data, change->key.size);
    add_bytes(text, ", ", change->author, strlen(change->author));
    add_bytes(text, ", ", change->comment, strlen(change->comment));
    if (level) {
        add(text, ", ");
        add_level(text, change);
    }
    add(text, ends ? ", greatest(s.holding - 1, 0) FROM s" : ", s.holding + 1 - s.before FROM s");
    add_number(text, " WHERE s.number < ", store->changes_max);
    if (ends)
        add(text, " AND s.before = 1");
    else
        add_number(text, " AND s.holding - s.before < ", store->exceptions_max);
    if (level)
        add_number(text, " AND s.levels < ", WEIR_EXCEPTION_LEVELS_MAX);
    weir_pg_text_add(text, " AND NOT EXISTS (SELECT FROM @_exceptions WHERE change = ", table);
    add_bytes(text, "", change->change, sizeof change->change);
    weir_pg_text_add(text,
                     ") ON CONFLICT DO NOTHING RETURNING number) SELECT s.number, s.holding, s.before, s.levels, "
                     "CASE WHEN made.number > 0 THEN pg_notify('weir_rules_' || '@'::regclass::oid::text, 'exception ' "
                     "|| made.number::text) END FROM s LEFT JOIN made ON true; SELECT " COLUMNS
                     " FROM @_exceptions AS e WHERE change = ",
                     table);
    add_bytes(text, "", change->change, sizeof change->change);
}
