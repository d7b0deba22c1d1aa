/* SPDX-License-Identifier: Apache-2.0
 *
 * A connection, and whose the tables are. To the server that takes writes if there is one, else to whichever answers:
 * versions can be read of a standby, too. The tables are looked at once for each connection, and again whenever the
 * guard of a question finds them changed. Called by store_postgres.c. */
#include <libpq-fe.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/fault.h"
#include "base/fault_format.h"
#include "rules/store_postgres.h"

#define MS UINT64_C(1000000)
#define REST_MIN_NS (50 * MS) /* after a failed connection, doubled */
#define REST_MAX_NS (500 * MS)
#define PRIMARY_NS (10000 * MS) /* of a server that only reads: how long before a better one is looked for */
#define TRIES_MAX 4             /* others make the tables, or bring them up, at the same time */

uint64_t weir_rule_postgres_timeout_ms(uint64_t deadline_ns)
{
    return weir_max_u64(weir_sub_sat(deadline_ns, weir_rule_now_ns()) / MS * 2 / 3, 1);
}

static int say(const struct weir_rule_postgres *postgres, int error, const char *what, struct weir_fault *ret_fault)
{
    return weir_fault_format(ret_fault, error, "store", "%.60s: %.95s",
                             postgres->named[0] ? postgres->named : postgres->table, what);
}

int weir_rule_postgres_fault(struct weir_rule_postgres *postgres, enum weir_pg_outcome outcome, bool writes,
                             struct weir_fault *ret_fault)
{
    const char *state = postgres->link.state, *said = postgres->link.fault;
    if (outcome == WEIR_PG_UNKNOWN || outcome == WEIR_PG_UNSENT)
        return say(postgres, outcome == WEIR_PG_UNKNOWN && writes ? WEIR_EUNKNOWN : WEIR_EDOWN, said, ret_fault);
    if (strcmp(state, "25006") == 0) {
        weir_pg_link_drop(&postgres->link); /* by then there may be one that takes writes */
        return say(postgres, WEIR_EDOWN, "the database is read-only: a standby, or default_transaction_read_only is on",
                   ret_fault);
    }
    if (strcmp(state, "42501") == 0)
        return weir_fault_format(ret_fault, WEIR_EDOWN, "store", "the role has not the right: %.120s", said);
    if (strcmp(state, "57014") == 0)
        return say(postgres, WEIR_EDOWN, "the server did not answer in time", ret_fault);
    if (strcmp(state, "42P01") == 0 || strcmp(state, "3F000") == 0) {
        weir_pg_link_drop(&postgres->link);
        return say(postgres, WEIR_EDOWN, said, ret_fault);
    }
    if (strncmp(state, "42", 2) == 0) /* no such column, no such operator for it */
        return say(postgres, WEIR_ECORRUPT, said, ret_fault);
    return say(postgres, WEIR_EDOWN, said, ret_fault);
}

/* ---- questions about the tables ---- */

struct heard {
    size_t rows; /* of the last result */
    char text[WEIR_PG_FAULT_SIZE];
};

static bool take_last(void *context, size_t index, const struct pg_result *result)
{
    struct heard *heard = context;
    (void)index;
    heard->rows = (size_t)PQntuples(result);
    heard->text[0] = '\0';
    if (heard->rows > 0 && PQnfields(result) > 0 && !PQgetisnull(result, 0, 0))
        (void)snprintf(heard->text, sizeof heard->text, "%s", PQgetvalue(result, 0, 0));
    return true;
}

/* The text has been begun. The first field of the last result. */
static enum weir_pg_outcome run(struct weir_rule_postgres *postgres, uint64_t deadline_ns, struct heard *ret_heard)
{
    *ret_heard = (struct heard){ 0 };
    if (postgres->text.failed) {
        (void)snprintf(postgres->link.fault, sizeof postgres->link.fault, "out of memory");
        return WEIR_PG_UNSENT;
    }
    return weir_pg_link_run(&postgres->link, postgres->text.data, deadline_ns, take_last, ret_heard);
}

static int ask(struct weir_rule_postgres *postgres, const char *template, uint64_t deadline_ns, struct heard *ret_heard,
               struct weir_fault *ret_fault)
{
    weir_rule_sql_begin(&postgres->text, weir_rule_postgres_timeout_ms(deadline_ns));
    weir_pg_text_add(&postgres->text, template, postgres->named);
    enum weir_pg_outcome outcome = run(postgres, deadline_ns, ret_heard);
    return outcome == WEIR_PG_DONE ? 0 : weir_rule_postgres_fault(postgres, outcome, false, ret_fault);
}

static int make(struct weir_rule_postgres *postgres, uint64_t deadline_ns, struct weir_fault *ret_fault)
{
    uint8_t id[WEIR_RULE_CHANGE_SIZE];
    struct heard heard;
    if (!postgres->store.create)
        return say(postgres, WEIR_ENOENT, "there are no such tables", ret_fault);
    if (weir_rule_change_id(id) != 0)
        return say(postgres, WEIR_EDOWN, "no random bytes", ret_fault);
    weir_rule_sql_begin(&postgres->text, weir_rule_postgres_timeout_ms(deadline_ns));
    weir_rule_sql_create(&postgres->text, postgres->named, id);
    enum weir_pg_outcome outcome = run(postgres, deadline_ns, &heard);
    return outcome == WEIR_PG_DONE ? 0 : weir_rule_postgres_fault(postgres, outcome, false, ret_fault);
}

/* All three, or none of them: then they are made. */
static int look_for_tables(struct weir_rule_postgres *postgres, uint64_t deadline_ns, struct weir_fault *ret_fault)
{
    struct heard heard;
    for (int i = 0; i < 2; i++) {
        int error = ask(postgres, weir_rule_sql_count, deadline_ns, &heard, ret_fault);
        if (!error && strcmp(heard.text, "3") == 0)
            return 0;
        if (!error && strcmp(heard.text, "0") != 0)
            return say(postgres, WEIR_ECORRUPT, "a table of this name is none of weir's: name another one", ret_fault);
        if (!error && i == 0)
            error = make(postgres, deadline_ns, ret_fault);
        if (error)
            return error;
    }
    return say(postgres, WEIR_EDOWN, "the tables come and go", ret_fault);
}

static int judge(struct weir_rule_postgres *postgres, uint64_t deadline_ns, struct weir_fault *ret_fault)
{
    struct heard heard;
    int error = ask(postgres, weir_rule_sql_judge, deadline_ns, &heard, ret_fault);
    return error || !heard.text[0] ? error : weir_fault_set(ret_fault, WEIR_ECORRUPT, "store", heard.text);
}

static int find_schema(struct weir_rule_postgres *postgres, uint64_t deadline_ns, unsigned *ret_schema,
                       struct weir_fault *ret_fault)
{
    struct heard heard;
    int error = ask(postgres, weir_rule_sql_schema, deadline_ns, &heard, ret_fault);
    if (error)
        return error;
    unsigned long schema = strtoul(heard.text, NULL, 10);
    if (heard.rows != 1 || schema < 1 || schema > UINT16_MAX)
        return say(postgres, WEIR_ECORRUPT, "the row of its schema is damaged", ret_fault);
    *ret_schema = (unsigned)schema;
    return 0;
}

int weir_rule_postgres_move(struct weir_rule_postgres *postgres, unsigned to, uint64_t deadline_ns,
                            struct weir_fault *ret_fault)
{
    for (int i = 0;; i++) {
        unsigned found = 0;
        struct heard heard;
        int error = find_schema(postgres, deadline_ns, &found, ret_fault);
        if (error || found == to)
            return error;
        if (found > postgres->store.schema || i == TRIES_MAX)
            return weir_rule_schema_fault(found, postgres->store.schema, ret_fault);
        weir_rule_sql_begin(&postgres->text, weir_rule_postgres_timeout_ms(deadline_ns));
        weir_rule_sql_move(&postgres->text, postgres->named, found, to, postgres->store.steps);
        enum weir_pg_outcome outcome = run(postgres, deadline_ns, &heard);
        bool late = outcome == WEIR_PG_REFUSED && strcmp(postgres->link.state, WEIR_RULE_SQL_GROUND_GONE) == 0;
        if (outcome != WEIR_PG_DONE && !late)
            return weir_rule_postgres_fault(postgres, outcome, true, ret_fault);
    }
}

static int look_at_schema(struct weir_rule_postgres *postgres, uint64_t deadline_ns, struct weir_fault *ret_fault)
{
    unsigned found = 0;
    struct heard heard;
    int error = find_schema(postgres, deadline_ns, &found, ret_fault);
    if (!error && found < postgres->store.schema && postgres->store.create) {
        error = weir_rule_postgres_move(postgres, postgres->store.schema, deadline_ns, ret_fault);
        found = postgres->store.schema;
    }
    if (error)
        return error;
    if (found != postgres->store.schema)
        return weir_rule_schema_fault(found, postgres->store.schema, ret_fault);
    error = ask(postgres, weir_rule_sql_columns, deadline_ns, &heard, ret_fault);
    if (!error && strcmp(heard.text, "0") != 0)
        error = say(postgres, WEIR_ECORRUPT, "a table of this name is none of weir's: name another one", ret_fault);
    return error;
}

/* ---- connecting ---- */

static bool connect_any(struct weir_rule_postgres *postgres, uint64_t deadline_ns)
{
    struct weir_pg_link *link = &postgres->link;
    uint64_t now_ns = weir_rule_now_ns();
    link->any = false;
    if (weir_pg_link_connect(link, now_ns + weir_sub_sat(deadline_ns, now_ns) / 2))
        return true;
    link->any = true;
    return weir_pg_link_connect(link, deadline_ns);
}

static int look(struct weir_rule_postgres *postgres, uint64_t deadline_ns, struct weir_fault *ret_fault)
{
    int error = 0;
    postgres->named[0] = '\0';
    if (PQserverVersion(postgres->link.conn) < 140000)
        return say(postgres, WEIR_EDOWN, "needs PostgreSQL 14 or later", ret_fault);
    if (!weir_pg_table_find(&postgres->link, &postgres->text, postgres->table, postgres->named, deadline_ns))
        return say(postgres, WEIR_EDOWN, postgres->link.fault, ret_fault);
    error = look_for_tables(postgres, deadline_ns, ret_fault);
    if (!error)
        error = judge(postgres, deadline_ns, ret_fault);
    return error ? error : look_at_schema(postgres, deadline_ns, ret_fault);
}

int weir_rule_postgres_ready(struct weir_rule_postgres *postgres, uint64_t deadline_ns, struct weir_fault *ret_fault)
{
    struct weir_pg_link *link = &postgres->link;
    uint64_t now_ns = weir_rule_now_ns();
    if (link->conn && link->any && now_ns >= postgres->primary_after_ns)
        weir_pg_link_drop(link);
    if (weir_pg_link_alive(link))
        return 0;
    if (postgres->rest_until_ns >= deadline_ns)
        return say(postgres, WEIR_EDOWN, link->fault[0] ? link->fault : "is not asked yet again", ret_fault);
    weir_rule_sleep_until(postgres->rest_until_ns);
    postgres->listening = postgres->exceptions_good = postgres->exceptions_level = false;
    int error = connect_any(postgres, deadline_ns) ? 0 : say(postgres, WEIR_EDOWN, link->fault, ret_fault);
    bool connected = !error;
    if (connected)
        error = look(postgres, deadline_ns, ret_fault);
    now_ns = weir_rule_now_ns();
    postgres->primary_after_ns = now_ns + PRIMARY_NS;
    if (!error) {
        postgres->rest_ns = 0;
        return 0;
    }
    weir_pg_link_drop(link);
    if (!connected) { /* what a server has said may be mended at once; one that is not there is not pressed */
        postgres->rest_ns = weir_min_u64(weir_max_u64(2 * postgres->rest_ns, REST_MIN_NS), REST_MAX_NS);
        postgres->rest_until_ns = now_ns + postgres->rest_ns;
    }
    return error;
}
