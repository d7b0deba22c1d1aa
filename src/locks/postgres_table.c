/* SPDX-License-Identifier: Apache-2.0
 *
 * Two questions about the tables: where are they, and may they be used? Each is one query, and the first row of its
 * result is the answer; the SQL is in postgres_text.c. The schema of a table is looked up before all else, because
 * postgres_run.c then cuts the search path down. Called by postgres_run.c, which makes the tables: for each new
 * connection, after making them, and before a raise. */
#include "locks/postgres_table.h"

#include <libpq-fe.h>
#include <stdio.h>
#include <string.h>

struct heard {
    char text[WEIR_PG_FAULT_SIZE]; /* of the first row; empty: null, or no row */
};

static bool take_first(void *context, size_t index, const PGresult *result)
{
    struct heard *heard = context;
    (void)index;
    if (PQntuples(result) > 0 && !PQgetisnull(result, 0, 0))
        (void)snprintf(heard->text, sizeof heard->text, "%s", PQgetvalue(result, 0, 0));
    return true;
}

static bool ask(struct weir_pg_link *link, struct weir_pg_text *text, const char *template, const char *table,
                struct heard *ret_heard, uint64_t deadline_ns)
{
    weir_pg_text_clear(text);
    weir_pg_text_add(text, template, table);
    return !text->failed && weir_pg_link_run(link, text->data, deadline_ns, take_first, ret_heard) == WEIR_PG_DONE;
}

static bool refuse(struct weir_pg_link *link, const char *why)
{
    (void)snprintf(link->fault, sizeof link->fault, "%s", why);
    return false;
}

bool weir_pg_table_find(struct weir_pg_link *link, struct weir_pg_text *text, const char *table,
                        char ret_named[WEIR_PG_NAMED_MAX], uint64_t deadline_ns)
{
    struct heard home = { "" };
    if (strchr(table, '.')) {
        (void)snprintf(ret_named, WEIR_PG_NAMED_MAX, "%s", table);
        return true;
    }
    if (!ask(link, text, weir_pg_home, table, &home, deadline_ns))
        return false;
    if (!home.text[0])
        return refuse(link, "no schema of the search_path exists: name one in `table`");
    if (strchr(home.text, '\'')) /* the name also stands between quotes */
        return refuse(link, "the schema's name has a quote in it: name another one in `table`");
    (void)snprintf(ret_named, WEIR_PG_NAMED_MAX, "%s.%s", home.text, table);
    return true;
}

bool weir_pg_table_judge(struct weir_pg_link *link, struct weir_pg_text *text, const char *named, uint64_t deadline_ns)
{
    struct heard fault = { "" };
    return ask(link, text, weir_pg_judge, named, &fault, deadline_ns) && (!fault.text[0] || refuse(link, fault.text));
}
