/* SPDX-License-Identifier: Apache-2.0
 *
 * Asks a server for its JSON and its metrics, one call after the other (client.c); of the metrics it keeps the
 * decisions by limit and three numbers. A path that an older server does not have is left out. Called by top.c. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/top.h"

#define DECISIONS "weir_decisions_total{limit=\""

static void note_problem(const struct weir_client_answer *answer, char *problem, size_t size)
{
    json_t *body = json_loadb(answer->body, answer->size, 0, NULL);
    const char *detail = json_string_value(json_object_get(body, "detail"));
    (void)snprintf(problem, size, "the server answered %d%s%s", answer->status, detail ? ": " : "",
                   detail ? detail : "");
    json_decref(body);
}

/* Its answer as `name` of `told`; null for 404. */
static bool ask_json(const struct weir_client_options *client, const char *path, const char *name, json_t *told,
                     char *problem, size_t size)
{
    struct weir_client_answer answer = { 0 };
    json_t *body = NULL;
    if (weir_client_get(client, path, &answer, problem, size))
        return false;
    if (answer.status == 404)
        body = json_null();
    else if (answer.status == 200)
        body = json_loadb(answer.body, answer.size, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, NULL);
    else
        note_problem(&answer, problem, size);
    if (!body && answer.status == 200)
        (void)snprintf(problem, size, "its answer to %s is no JSON: is that weir?", path);
    free(answer.body);
    return body && json_object_set_new(told, name, body) == 0;
}

/* ---- metrics ---- */

/* A label's value up to its quote, without backslashes; the cursor moves behind the quote. */
static bool read_label(const char **cursor, char *ret_value, size_t size)
{
    size_t used = 0;
    const char *at = *cursor;
    for (; *at && *at != '"' && *at != '\n'; at++) {
        char letter = *at;
        if (letter == '\\' && at[1])
            letter = *++at == 'n' ? '\n' : *at;
        if (used + 1 < size)
            ret_value[used++] = letter;
    }
    ret_value[used] = '\0';
    *cursor = at + (*at == '"');
    return *at == '"';
}

static void add_to(json_t *object, const char *name, json_int_t more)
{
    (void)json_object_set_new(object, name, json_integer(json_integer_value(json_object_get(object, name)) + more));
}

static void read_decisions(const char *at, json_t *decisions)
{
    char limit[512], verdict[64];
    if (!read_label(&at, limit, sizeof(limit)) || strncmp(at, ",verdict=\"", 10) != 0)
        return;
    at += 10;
    if (!read_label(&at, verdict, sizeof(verdict)) || strncmp(at, "} ", 2) != 0)
        return;
    json_t *verdicts = json_object_get(decisions, limit);
    if (!verdicts && json_object_set_new(decisions, limit, verdicts = json_object()))
        return;
    add_to(verdicts, verdict, strtoll(at + 2, NULL, 10));
}

static void read_line(const char *line, json_t *told, json_t *decisions)
{
    char version[64];
    const char *space = strchr(line, ' '), *at = line + strlen("weir_info{version=\"");
    if (strncmp(line, DECISIONS, strlen(DECISIONS)) == 0)
        read_decisions(line + strlen(DECISIONS), decisions);
    else if (strncmp(line, "weir_connections ", 17) == 0)
        add_to(told, "connections", strtoll(line + 17, NULL, 10));
    else if (strncmp(line, "weir_requests_total{", 20) == 0 && space)
        add_to(told, "requests", strtoll(space, NULL, 10));
    else if (strncmp(line, "weir_info{version=\"", 19) == 0 && read_label(&at, version, sizeof(version)))
        (void)json_object_set_new(told, "version", json_string(version));
}

static bool ask_metrics(const struct weir_client_options *client, json_t *told, char *problem, size_t size)
{
    struct weir_client_answer answer = { 0 };
    json_t *decisions = json_object(); /* it is told's: whatever fails from here on, it goes with that */
    if (json_object_set_new(told, "decisions", decisions) ||
        weir_client_get(client, "/metrics", &answer, problem, size))
        return false;
    bool good = answer.status == 200;
    if (!good)
        note_problem(&answer, problem, size);
    for (char *line = answer.body, *end; good && line && *line; line = end) {
        end = line + strcspn(line, "\n");
        if (*end)
            *end++ = '\0';
        read_line(line, told, decisions);
    }
    free(answer.body);
    return good;
}

json_t *weir_cli_top_ask(const struct weir_client_options *client, char *problem, size_t problem_size)
{
    static const struct {
        const char *path, *name;
    } calls[] = { { "/v1/limits", "limits" },
                  { "/v1/nodes", "nodes" },
                  { "/v1/top?by=refused&n=100", "refused" },
                  { "/v1/top?by=early&n=100", "early" },
                  { "/v1/sessions/servers", "sessions" } };
    json_t *told = json_object();
    (void)snprintf(problem, problem_size, "out of memory");
    bool good = told && ask_metrics(client, told, problem, problem_size);
    for (size_t i = 0; good && i < sizeof(calls) / sizeof(calls[0]); i++)
        good = !weir_cli_top_screen_ends() &&
               ask_json(client, calls[i].path, calls[i].name, told, problem, problem_size);
    if (good)
        return told;
    json_decref(told);
    return NULL;
}
