/* SPDX-License-Identifier: Apache-2.0
 *
 * A thin layer over net/postgres_ask.h, which uses libpq without blocking and keeps the deadline. It makes one line
 * of text of each result: the first value, or the SQLSTATE and message of a refusal. Called by reads_table.c and
 * reads_work.c; reads.c has the name of each server made here. */
#include "cli/reads_link.h"

#include <libpq-fe.h>
#include <stdio.h>
#include <string.h>

#include "net/postgres_ask.h"
#include "weir/error.h"

/* The first line, without what is around it. */
static void line_copy(char ret_text[WEIR_READS_VALUE_SIZE], const char *begin, const char *text)
{
    (void)snprintf(ret_text, WEIR_READS_VALUE_SIZE, "%s%.*s", begin, (int)strcspn(text, "\n"), text);
}

static const char *option_of(const PQconninfoOption *options, const char *keyword)
{
    for (; options->keyword; options++) {
        if (strcmp(options->keyword, keyword) == 0)
            return options->val;
    }
    return NULL;
}

int weir_reads_name(const char *conninfo, char *ret_name, size_t size)
{
    /* A word alone would be taken for a database's name, which is hardly what was meant. */
    PQconninfoOption *options = strchr(conninfo, '=') || strstr(conninfo, "://") ? PQconninfoParse(conninfo, NULL)
                                                                                 : NULL;
    if (!options)
        return WEIR_EINVAL;
    const char *host = option_of(options, "host"), *port = option_of(options, "port");
    host = host ? host : option_of(options, "hostaddr");
    (void)snprintf(ret_name, size, "%s:%s", host && *host ? host : "local", port && *port ? port : "5432");
    PQconninfoFree(options);
    return 0;
}

int weir_reads_connect(const char *conninfo, uint64_t timeout_ns, PGconn **ret_conn,
                       char ret_text[WEIR_READS_VALUE_SIZE])
{
    static const char *const extra[] = { "fallback_application_name", "weir reads check", NULL };
    char text[WEIR_ASK_TEXT_SIZE] = "";
    int error = weir_ask_connect(conninfo, extra, weir_ask_now_ns() + timeout_ns, ret_conn, text);
    if (error)
        line_copy(ret_text, "", text);
    return error;
}

int weir_reads_ask(PGconn *conn, const char *statement, uint64_t timeout_ns, char ret_text[WEIR_READS_VALUE_SIZE])
{
    PGresult *result = NULL;
    if (weir_ask(conn, statement, weir_ask_now_ns() + timeout_ns, &result) != 0) {
        line_copy(ret_text, "", "the connection broke, or there was no answer in time");
        return WEIR_EIO;
    }
    ExecStatusType status = PQresultStatus(result);
    int error = 0;
    if (status == PGRES_TUPLES_OK && PQntuples(result) > 0) {
        line_copy(ret_text, "", PQgetvalue(result, 0, 0));
    } else if (status == PGRES_TUPLES_OK || status == PGRES_COMMAND_OK) {
        ret_text[0] = '\0';
    } else {
        const char *state = PQresultErrorField(result, PG_DIAG_SQLSTATE);
        const char *message = PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);
        char begin[8];
        (void)snprintf(begin, sizeof(begin), "%.5s ", state ? state : "XX000");
        line_copy(ret_text, begin, message ? message : "refused");
        error = WEIR_EPROTO;
    }
    PQclear(result);
    return error;
}
