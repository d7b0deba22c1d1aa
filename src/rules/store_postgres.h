/* SPDX-License-Identifier: Apache-2.0
 *
 * Inside the PostgreSQL store: the connection, the tables, the SQL and its answers. Thread rule: one thread.
 *
 * Every question is the text of one simple query, which is one transaction and carries its own settings: behind a
 * pooler the next one may run on another session. It begins with a guard: the schema is ours, and the tables are plain
 * ones that run nobody's code; else the server refuses all of it. Values are numbers and hexadecimal digits: nothing
 * that anybody wrote is read as SQL, whatever the settings of the session are. */
#pragma once

#include "locks/postgres_table.h"
#include "locks/postgres_text.h"
#include "net/postgres_link.h"
#include "rules/store_inside.h"

struct weir_rule_postgres {
    struct weir_rule_store store;
    struct weir_pg_link link;
    struct weir_pg_text text;
    char *table;
    char named[WEIR_PG_NAMED_MAX];     /* the table with its schema */
    bool listening;                    /* on this connection; or it cannot be done there */
    bool exceptions_level;             /* the table has a column for names of levels, seen on this connection */
    bool exceptions_good;              /* their table is there, and was looked at on this connection */
    uint64_t rest_until_ns, rest_ns;   /* after a connection that failed */
    uint64_t primary_after_ns;         /* of one that only reads: when a better one is looked for */
    uint8_t id[WEIR_RULE_CHANGE_SIZE]; /* of the store */
};

/* ---- store_postgres_text.c ---- */

/* Why a table is not to be written to: the first cases of an expression, and where it looks. Whoever owns a table, or
 * may give it triggers, has his code run by whoever writes to it, with the writer's rights. */
#define WEIR_RULE_SQL_JUDGE                                                                                            \
    "; SELECT 'the table ' || c.oid::regclass::text || CASE WHEN relkind <> 'r' OR relispartition THEN ' is no plain " \
    "table' WHEN relpersistence <> 'p' THEN ' is empty after a crash: it must not be UNLOGGED or temporary' "          \
    "WHEN relowner NOT IN (me.oid, datdba) AND NOT owner.rolsuper THEN ' belongs to ' || owner.rolname || ', which "   \
    "is neither this role nor the owner of the database nor a superuser' "                                             \
    "WHEN EXISTS (SELECT FROM pg_trigger WHERE tgrelid = c.oid AND NOT tgisinternal) THEN ' has triggers' "            \
    "WHEN EXISTS (SELECT FROM aclexplode(relacl) WHERE privilege_type = 'TRIGGER' AND grantee NOT IN (relowner, "      \
    "me.oid)) THEN ' lets others give it triggers' "                                                                   \
    "WHEN EXISTS (SELECT FROM pg_rewrite WHERE ev_class = c.oid) THEN ' has rules' "                                   \
    "WHEN EXISTS (SELECT FROM pg_inherits WHERE c.oid IN (inhparent, inhrelid)) THEN ' inherits, or is inherited "     \
    "from' WHEN relrowsecurity THEN ' has row security'"
#define WEIR_RULE_SQL_JUDGED                                                                                           \
    "FROM pg_class AS c JOIN pg_roles AS owner ON owner.oid = relowner JOIN pg_roles AS me ON me.rolname = "           \
    "current_user JOIN pg_database ON datname = current_database() WHERE c.oid "

#define WEIR_RULE_SQL_GUARD 3 /* the result of the guard: a row, the store's id; those of the question follow */
#define WEIR_RULE_SQL_GROUND_GONE "22012" /* division by zero: it divides by the number of matching rows */

/* Settings of the transaction; the guard; a question. */
void weir_rule_sql_begin(struct weir_pg_text *text, uint64_t timeout_ms);
void weir_rule_sql_guard(struct weir_pg_text *text, const char *table, unsigned schema);
void weir_rule_sql_head(struct weir_pg_text *text, const char *table);
void weir_rule_sql_read(struct weir_pg_text *text, const char *table, uint64_t number);
void weir_rule_sql_list(struct weir_pg_text *text, const char *table, uint64_t from, size_t count_max);
/* Results: what was made; the version of this change; the head; how many versions are number `of`. */
void weir_rule_sql_append(struct weir_pg_text *text, const char *table, const struct weir_rule_change *change,
                          const uint8_t *checksum);
void weir_rule_sql_tell(struct weir_pg_text *text, const char *table, const struct weir_rule_told *told);
void weir_rule_sql_told(struct weir_pg_text *text, const char *table, bool newest_only);
void weir_rule_sql_create(struct weir_pg_text *text, const char *table, const uint8_t *id);
void weir_rule_sql_move(struct weir_pg_text *text, const char *table, unsigned from, unsigned to,
                        const struct weir_rule_step *steps);
extern const char *const weir_rule_sql_count;   /* how many of the tables there are */
extern const char *const weir_rule_sql_judge;   /* a row a table: null, or why it is not to be used */
extern const char *const weir_rule_sql_schema;  /* its number */
extern const char *const weir_rule_sql_columns; /* is all there that a schema 1 has? */

/* ---- store_postgres_text_exceptions.c: the log of exceptions ---- */

extern const char *const weir_rule_sql_exceptions_there; /* whether the table is, "t" or "f" */
extern const char
    *const weir_rule_sql_exceptions_maker; /* who else than this role must make it; "" or no row: nobody */
extern const char *const weir_rule_sql_exceptions_create; /* unless it is there */
extern const char *const weir_rule_sql_exceptions_judge;  /* null, or why the table is not to be used */
extern const char *const weir_rule_sql_exceptions_level;  /* whether it has a column for names of levels */
extern const char *const weir_rule_sql_exceptions_level_create;
extern const char *const weir_rule_sql_exceptions_guard; /* a row; else the server refuses all of it */
void weir_rule_sql_exceptions(struct weir_pg_text *text, const char *table, const struct weir_exception_select *select);
/* What is counted as holding is what the newest row says; or with `anew`, each one. Results: newest, holding,
 * whether something held for the key, and how many other names of levels there were, all before the change; the row of
 * this change. */
void weir_rule_sql_except(struct weir_pg_text *text, const char *table, const struct weir_rule_store *store,
                          const struct weir_exception_change *change, const uint8_t *digest, bool anew);

struct pg_result;

/* ---- store_postgres_ask.c ---- */

/* What a call asks and what it makes of the answers. take: false, weir did not write that. */
struct weir_rule_question {
    void (*write)(struct weir_pg_text *text, const char *table, const void *argument);
    const void *argument;
    bool (*take)(void *context, size_t index, const struct pg_result *result);
    void *context;
    bool writes;
};

int weir_rule_postgres_ask(struct weir_rule_postgres *postgres, const struct weir_rule_question *question,
                           uint64_t deadline_ns, struct weir_fault *ret_fault);

/* ---- store_postgres_exceptions.c: as struct weir_rule_store_ops ---- */

int weir_rule_postgres_except(struct weir_rule_store *store, const struct weir_exception_change *change,
                              const uint8_t *digest, uint64_t deadline_ns, uint64_t *ret_number,
                              struct weir_fault *ret_fault);
int weir_rule_postgres_exceptions(struct weir_rule_store *store, const struct weir_exception_select *select,
                                  uint64_t deadline_ns, struct weir_fault *ret_fault);

/* ---- store_postgres_row.c: false: weir did not write that ---- */

bool weir_rule_row_number(const struct pg_result *result, int row, int column, uint64_t *ret_number);
bool weir_rule_row_bytes(const struct pg_result *result, int row, int column, void *ret_bytes, size_t size);
bool weir_rule_row_head(const struct pg_result *result, struct weir_rule_head *ret_head); /* of one row, or none */
bool weir_rule_row_version(const struct pg_result *result, int row, struct weir_rule_version *ret_version);
bool weir_rule_row_told(const struct pg_result *result, int row, struct weir_rule_told *ret_told);

/* ---- store_postgres_table.c ---- */

/* There is a connection, and the tables are ours. Errors as in store.h. */
int weir_rule_postgres_ready(struct weir_rule_postgres *postgres, uint64_t deadline_ns, struct weir_fault *ret_fault);
/* To schema `to`. */
int weir_rule_postgres_move(struct weir_rule_postgres *postgres, unsigned to, uint64_t deadline_ns,
                            struct weir_fault *ret_fault);
/* What the server refused, or what else kept it from being done; for people it names the server's own words. */
int weir_rule_postgres_fault(struct weir_rule_postgres *postgres, enum weir_pg_outcome outcome, bool writes,
                             struct weir_fault *ret_fault);
uint64_t weir_rule_postgres_timeout_ms(uint64_t deadline_ns); /* of statements: time is left to hear of it */
