/* SPDX-License-Identifier: Apache-2.0
 *
 * The SQL. A version is inserted by one statement, if the newest is the one that was expected and the change is not
 * there yet; of two that do so at once the primary key lets one pass, and the other finds nothing to insert. Called by
 * store_postgres.c and store_postgres_table.c. */
#include <string.h>

#include "rules/store_postgres.h"

#define COLUMNS                                                                                                        \
    "number, kind, of_version, wall_ns, encode(change, 'hex'), encode(author, 'hex'), encode(comment, 'hex'), "        \
    "encode(checksum, 'hex'), octet_length(text)"
#define TABLES "('@'::regclass, '@_meta'::regclass, '@_nodes'::regclass)"

/* It is no matter who else has which table of which name locked: two weirs that make them wait for each other. */
#define ADVISORY "SELECT pg_advisory_xact_lock(8531346731852853363)"

/* By name: of a session that was there before, whatever it calls by our operators is its owner's. `local` is less than
 * what a crash of the machine survives only where there are synchronous standbys, which it does not wait for. */
void weir_rule_sql_begin(struct weir_pg_text *text, uint64_t timeout_ms)
{
    weir_pg_text_clear(text);
    weir_pg_text_add(text,
                     "SET TRANSACTION ISOLATION LEVEL READ COMMITTED; "
                     "SELECT pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true); "
                     "SELECT set_config('synchronous_commit', CASE WHEN current_setting('synchronous_commit') IN "
                     "('off', 'local') THEN 'on' ELSE current_setting('synchronous_commit') END, true), "
                     "set_config('statement_timeout', '",
                     "");
    weir_pg_text_number(text, timeout_ms);
    weir_pg_text_add(text, "', true)", "");
}

void weir_rule_sql_guard(struct weir_pg_text *text, const char *table, unsigned schema)
{
    weir_pg_text_add(text, "; SELECT max(encode(store, 'hex')), 1 / count(*) FROM @_meta WHERE schema = ", table);
    weir_pg_text_number(text, schema);
    weir_pg_text_add(text,
                     " AND NOT EXISTS (SELECT FROM pg_trigger WHERE tgrelid IN " TABLES " AND NOT tgisinternal) "
                     "AND NOT EXISTS (SELECT FROM pg_rewrite WHERE ev_class IN " TABLES ") "
                     "AND NOT EXISTS (SELECT FROM pg_inherits WHERE inhparent IN " TABLES " OR inhrelid IN " TABLES ") "
                     "AND NOT EXISTS (SELECT FROM pg_class WHERE oid IN " TABLES
                     " AND (relrowsecurity OR relkind <> 'r' OR relpersistence <> 'p'))",
                     table);
}

void weir_rule_sql_head(struct weir_pg_text *text, const char *table)
{
    weir_pg_text_add(text, "; SELECT number, encode(checksum, 'hex') FROM @ ORDER BY number DESC LIMIT 1", table);
}

void weir_rule_sql_read(struct weir_pg_text *text, const char *table, uint64_t number)
{
    weir_pg_text_add(text, "; SELECT " COLUMNS ", encode(text, 'hex') FROM @ WHERE number = ", table);
    weir_pg_text_number(text, number);
    weir_rule_sql_head(text, table);
}

void weir_rule_sql_list(struct weir_pg_text *text, const char *table, uint64_t from, size_t count_max)
{
    weir_pg_text_add(text, "; SELECT " COLUMNS " FROM @ WHERE number <= ", table);
    weir_pg_text_number(text, from);
    weir_pg_text_add(text, " ORDER BY number DESC LIMIT ", "");
    weir_pg_text_number(text, count_max);
}

/* decode('…', 'hex'): a literal without a backslash is the same under all settings. */
static void add_bytes(struct weir_pg_text *text, const void *bytes, size_t size)
{
    weir_pg_text_add(text, "decode('", "");
    weir_pg_text_hex(text, bytes, size);
    weir_pg_text_add(text, "', 'hex')", "");
}

static void add_number(struct weir_pg_text *text, const char *before, uint64_t number)
{
    weir_pg_text_add(text, before, "");
    weir_pg_text_number(text, number);
}

void weir_rule_sql_append(struct weir_pg_text *text, const char *table, const struct weir_rule_change *change,
                          const uint8_t *checksum)
{
    const bool copies = weir_rule_kind_copies(change->kind);
    weir_pg_text_add(text,
                     "; WITH made AS (INSERT INTO @ (number, kind, of_version, wall_ns, change, author, comment, "
                     "checksum, text) SELECT ",
                     table);
    weir_pg_text_number(text, change->expected + 1);
    add_number(text, ", ", (uint64_t)change->kind);
    add_number(text, ", ", change->of);
    add_number(text, ", ", change->wall_ns);
    weir_pg_text_add(text, ", ", "");
    add_bytes(text, change->change, sizeof change->change);
    weir_pg_text_add(text, ", ", "");
    add_bytes(text, change->author, strlen(change->author));
    weir_pg_text_add(text, ", ", "");
    add_bytes(text, change->comment, strlen(change->comment));
    weir_pg_text_add(text, ", ", "");
    if (copies) {
        weir_pg_text_add(text, "o.checksum, o.text FROM @ AS o WHERE o.number = ", table);
        weir_pg_text_number(text, change->of);
        weir_pg_text_add(text, " AND ", "");
    } else {
        add_bytes(text, checksum, WEIR_RULE_CHECKSUM_SIZE);
        weir_pg_text_add(text, ", ", "");
        add_bytes(text, change->text.data, change->text.size);
        weir_pg_text_add(text, " WHERE ", "");
    }
    weir_pg_text_number(text, change->expected);
    add_number(text, " < ", WEIR_RULE_VERSIONS_MAX);
    weir_pg_text_add(text, " AND (SELECT coalesce(max(number), 0) FROM @) = ", table);
    weir_pg_text_number(text, change->expected);
    weir_pg_text_add(text, " AND NOT EXISTS (SELECT FROM @ WHERE change = ", table);
    add_bytes(text, change->change, sizeof change->change);
    weir_pg_text_add(text,
                     ") ON CONFLICT DO NOTHING RETURNING number) SELECT number, pg_notify('weir_rules_' || "
                     "'@'::regclass::oid::text, number::text) FROM made; SELECT " COLUMNS " FROM @ WHERE change = ",
                     table);
    add_bytes(text, change->change, sizeof change->change);
    weir_rule_sql_head(text, table);
    weir_pg_text_add(text, "; SELECT count(*) FROM @ WHERE number = ", table);
    weir_pg_text_number(text, change->of);
}

/* The name has no quote in it (weir_rule_node_valid). */
static void add_node(struct weir_pg_text *text, const struct weir_rule_told *told)
{
    weir_pg_text_add(text, "'", "");
    weir_pg_text_add(text, told->node, "");
    weir_pg_text_add(text, "'", "");
}

void weir_rule_sql_tell(struct weir_pg_text *text, const char *table, const struct weir_rule_told *told)
{
    weir_pg_text_add(text, "; INSERT INTO @_nodes (node, version, since_ns) SELECT ", table);
    add_node(text, told);
    add_number(text, ", ", told->version);
    add_number(text, ", ", told->since_ns);
    weir_pg_text_add(
        text, " WHERE NOT EXISTS (SELECT FROM @_nodes WHERE id = (SELECT max(id) FROM @_nodes WHERE node = ", table);
    add_node(text, told);
    add_number(text, ") AND version = ", told->version);
    add_number(text, " AND since_ns = ", told->since_ns);
    weir_pg_text_add(text, "); DELETE FROM @_nodes WHERE node = ", table);
    add_node(text, told);
    weir_pg_text_add(text, " AND id <= (SELECT id FROM @_nodes WHERE node = ", table);
    add_node(text, told);
    add_number(text, " ORDER BY id DESC LIMIT 1 OFFSET ", WEIR_RULE_TOLD_MAX);
    weir_pg_text_add(text,
                     "); DELETE FROM @_nodes WHERE node IN (SELECT node FROM @_nodes GROUP BY node "
                     "ORDER BY max(id) DESC OFFSET ",
                     table);
    add_number(text, "", WEIR_RULE_NODES_MAX);
    weir_pg_text_add(text, ")", "");
}

void weir_rule_sql_told(struct weir_pg_text *text, const char *table, bool newest_only)
{
    weir_pg_text_add(text,
                     newest_only ? "; SELECT DISTINCT ON (node COLLATE \"C\") node, version, since_ns FROM @_nodes "
                                   "ORDER BY node COLLATE \"C\", id DESC"
                                 : "; SELECT node, version, since_ns FROM @_nodes ORDER BY node COLLATE \"C\", id DESC",
                     table);
}

/* ---- the tables ---- */

const char *const weir_rule_sql_count = "; SELECT (to_regclass('@'::text) IS NOT NULL)::int + "
                                        "(to_regclass('@_meta'::text) IS NOT NULL)::int + "
                                        "(to_regclass('@_nodes'::text) IS NOT NULL)::int";

const char *const weir_rule_sql_judge = WEIR_RULE_SQL_JUDGE " END AS fault " WEIR_RULE_SQL_JUDGED "IN " TABLES
                                                            " ORDER BY fault";

const char *const weir_rule_sql_schema = "; SELECT schema FROM @_meta";

const char *const weir_rule_sql_columns =
    "; SELECT count(*) FROM (VALUES ('@'::regclass::oid, 'number', 'bigint'), ('@'::regclass, 'kind', 'smallint'), "
    "('@'::regclass, 'of_version', 'bigint'), ('@'::regclass, 'wall_ns', 'bigint'), ('@'::regclass, 'change', "
    "'bytea'), "
    "('@'::regclass, 'author', 'bytea'), ('@'::regclass, 'comment', 'bytea'), ('@'::regclass, 'checksum', 'bytea'), "
    "('@'::regclass, 'text', 'bytea'), ('@_meta'::regclass, 'store', 'bytea'), ('@_nodes'::regclass, 'id', 'bigint'), "
    "('@_nodes'::regclass, 'node', 'text'), ('@_nodes'::regclass, 'version', 'bigint'), "
    "('@_nodes'::regclass, 'since_ns', 'bigint')) AS c (of_table, name, type) WHERE NOT EXISTS (SELECT FROM "
    "pg_attribute WHERE attrelid = of_table AND attname = name AND format_type(atttypid, atttypmod) = type AND NOT "
    "attisdropped)";

/* The tables of schema 1, and then whatever came later. */
void weir_rule_sql_create(struct weir_pg_text *text, const char *table, const uint8_t *id)
{
    weir_pg_text_add(
        text,
        "; " ADVISORY "; CREATE TABLE IF NOT EXISTS @ (number bigint PRIMARY KEY CHECK (number > 0), "
        "kind smallint NOT NULL, of_version bigint NOT NULL, wall_ns bigint NOT NULL, change bytea NOT NULL UNIQUE, "
        "author bytea NOT NULL, comment bytea NOT NULL, checksum bytea NOT NULL, text bytea NOT NULL); "
        "CREATE TABLE IF NOT EXISTS @_nodes (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, node text NOT NULL, "
        "version bigint NOT NULL, since_ns bigint NOT NULL, UNIQUE (node, id)); "
        "CREATE TABLE IF NOT EXISTS @_meta (one boolean PRIMARY KEY DEFAULT true CHECK (one), schema integer NOT NULL, "
        "store bytea NOT NULL); INSERT INTO @_meta VALUES (true, 1, ",
        table);
    add_bytes(text, id, WEIR_RULE_CHANGE_SIZE);
    weir_pg_text_add(text, ") ON CONFLICT DO NOTHING", "");
}

/* The schema must still be the one that was found: else it is refused, and looked at again. */
void weir_rule_sql_move(struct weir_pg_text *text, const char *table, unsigned from, unsigned to,
                        const struct weir_rule_step *steps)
{
    weir_pg_text_add(text, "; " ADVISORY "; SELECT 1 / count(*) FROM @_meta WHERE schema = ", table);
    weir_pg_text_number(text, from);
    for (unsigned at = from; at < to; at++) {
        weir_pg_text_add(text, "; ", "");
        weir_pg_text_add(text, steps[at - 1].up, table);
    }
    for (unsigned at = from; at > to; at--) {
        weir_pg_text_add(text, "; ", "");
        weir_pg_text_add(text, steps[at - 2].down, table);
    }
    weir_pg_text_add(text, "; UPDATE @_meta SET schema = ", table);
    weir_pg_text_number(text, to);
}
