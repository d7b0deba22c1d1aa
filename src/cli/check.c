/* SPDX-License-Identifier: Apache-2.0
 *
 * The verb `weir check`, called by main.c. It makes the JSON body of POST /v1/check from the arguments, sends it
 * (client.c) and prints the verdict with a row for each limit. It decides nothing itself: the exit code follows
 * `admitted` in the reply. Which limits a request would meet, without charging it, is told by explain.c. */
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/plural.h"
#include "cli/attributes.h"
#include "cli/client.h"
#include "cli/option.h"
#include "cli/plain.h"
#include "cli/verbs.h"

static const char help[] =
    "Usage: weir check [OPTION ...] [ATTRIBUTE=VALUE ...]\n"
    "\n"
    "Asks a running server whether a request with these attributes may proceed, and charges it if so.\n"
    "\n"
    "  --server ADDR    where it answers HTTP (127.0.0.1:8080): HOST:PORT, https://HOST:PORT or unix:/path\n"
    "  --cost N         how many units the request takes (1); 0 only shows the numbers\n"
    "  --peek           whether it would be admitted now, charging nothing: what remains is told as it stands\n"
    "  --json           the server's answer as it came\n"
    "  --token TOKEN    who asks; better in the environment as WEIR_TOKEN, where ps does not show it\n"
    "  --ca FILE        authorities to trust over https (the system's)\n"
    "  --timeout TIME   for everything together (5s)\n"
    "\n"
    "Exit code: 0 admitted, 1 refused, 2 no answer.\n"
    "\n"
    "Examples:\n"
    "  weir check user=ada route=/api/x\n"
    "  weir check --peek --json user=ada route=/api/x\n"
    "  weir check --server unix:/run/weir.sock --cost 10 tenant=acme && ./expensive-job\n";

struct flags {
    struct weir_client_options client;
    const char *cost;
    bool peek;
    bool json;
};

static json_t *cost_make(const char *text)
{
    char *end = NULL;
    json_int_t cost = strtoll(text, &end, 10);
    bool legal = text[0] >= '0' && text[0] <= '9' && *end == '\0';
    /* Out of range, strtoll answers the largest there is: told apart by writing it back. */
    char back[32];
    (void)snprintf(back, sizeof(back), "%" JSON_INTEGER_FORMAT, cost);
    if (legal && strcmp(back, text) == 0)
        return json_integer(cost);
    fprintf(stderr, "weir: --cost %s: must be a whole number, 0 to %" PRId64 "\n", text, INT64_MAX);
    return NULL;
}

/* The body of POST /v1/check; NULL after a complaint. */
static char *question_make(const struct flags *flags, const struct weir_cli_attributes *attributes)
{
    json_t *list = json_object();
    json_t *cost = cost_make(flags->cost);
    char *text = NULL;
    for (size_t i = 0; cost && i < attributes->count; i++) {
        const struct weir_attribute *attribute = &attributes->list[i];
        char *name = strndup(attribute->name.data, attribute->name.size);
        bool twice = name && json_object_get(list, name);
        int failed = twice || !name ||
                     json_object_set_new(list, name, json_stringn(attribute->value.data, attribute->value.size));
        if (failed)
            fprintf(stderr, "weir: attribute '%s' %s\n", name ? name : "",
                    twice ? "is given twice" : "must be UTF-8 (other bytes can be sent over RESP)");
        free(name);
        if (failed)
            goto out;
    }
    json_t *question = json_pack("{s:O,s:O,s:b}", "attributes", list, "cost", cost, "peek", flags->peek);
    text = question ? json_dumps(question, JSON_COMPACT) : NULL;
    json_decref(question);
out:
    json_decref(list);
    json_decref(cost);
    return text;
}

static const char *text_of(const json_t *object, const char *name)
{
    const char *text = json_string_value(json_object_get(object, name));
    return text ? text : "-";
}

/* "600ms", "8d 1h", "never". */
static void wait_print(const json_t *object, const char *name, char *buffer, size_t size)
{
    json_int_t ms = json_integer_value(json_object_get(object, name));
    if (ms > 0)
        weir_duration_format((uint64_t)ms, buffer, size);
    else
        (void)snprintf(buffer, size, ms < 0 ? "never" : "-");
}

static void row_print(const json_t *limit, int width, bool deciding)
{
    char retry[WEIR_DURATION_SIZE], reset[WEIR_DURATION_SIZE], delay[WEIR_DURATION_SIZE];
    bool admitted = json_is_true(json_object_get(limit, "admitted"));
    bool shadow = json_is_true(json_object_get(limit, "shadow"));
    wait_print(limit, "retry_after_ms", retry, sizeof(retry));
    wait_print(limit, "reset_after_ms", reset, sizeof(reset));
    wait_print(limit, "delay_ms", delay, sizeof(delay));
    printf("%c %-*s  %-8s  %12" JSON_INTEGER_FORMAT "  %12" JSON_INTEGER_FORMAT "  %10s  %10s  %10s\n",
           deciding ? '*' : ' ', width, text_of(limit, "limit"),
           shadow ? (admitted ? "(admits)" : "(would)") : (admitted ? "admits" : "refuses"),
           json_integer_value(json_object_get(limit, "remaining")),
           json_integer_value(json_object_get(limit, "capacity")), retry, reset, delay);
}

/* Of a limit that nodes share: how, and what that is worth. */
static void sharing_print(const json_t *limit, int width)
{
    const char *mode = json_string_value(json_object_get(limit, "sharing"));
    const char *fallback = json_string_value(json_object_get(limit, "fallback"));
    if (!mode)
        return;
    const json_t *share = json_object_get(limit, "share");
    json_int_t nodes = json_integer_value(json_object_get(limit, "nodes"));
    printf("  %-*s  %s over %" JSON_INTEGER_FORMAT " node%s", width, "", mode, nodes, weir_s((uint64_t)nodes));
    if (share)
        printf(", this node's share %" JSON_INTEGER_FORMAT, json_integer_value(share));
    json_int_t slack = json_integer_value(json_object_get(limit, "slack"));
    if (slack)
        printf(", slack %" JSON_INTEGER_FORMAT, slack);
    if (json_is_null(json_object_get(limit, "overshoot_max")))
        printf(", overshoot without a bound");
    else
        printf(", overshoot at most %" JSON_INTEGER_FORMAT,
               json_integer_value(json_object_get(limit, "overshoot_max")));
    if (fallback)
        printf("; the engine failed: decided by on_failure: %s", fallback);
    putchar('\n');
}

/* Whoever wants to give it back before its lease ends needs all of it. */
static void permit_print(const json_t *verdict)
{
    const char *permit = json_string_value(json_object_get(verdict, "permit"));
    char lease[WEIR_DURATION_SIZE];
    wait_print(verdict, "lease_ms", lease, sizeof(lease));
    if (permit)
        printf("\npermit %s\nlasts %s; give it back: POST /v1/permits/ID/release\n", permit, lease);
}

/* Why no wait helps. A gossiping node never admits more at once than the others need not know of. */
static void never_print(const json_t *verdict)
{
    size_t index;
    json_t *limit;
    json_array_foreach(json_object_get(verdict, "limits"), index, limit)
    {
        json_int_t capacity = json_integer_value(json_object_get(limit, "capacity"));
        json_int_t slack = json_integer_value(json_object_get(limit, "slack"));
        bool gossips = strcmp(text_of(limit, "sharing"), "gossip") == 0 && slack < capacity;
        if (json_is_true(json_object_get(limit, "admitted")) || json_is_true(json_object_get(limit, "shadow")) ||
            json_integer_value(json_object_get(limit, "retry_after_ms")) >= 0)
            continue;
        printf("%s never admits it: it costs more than the %s, %" JSON_INTEGER_FORMAT "\n", text_of(limit, "limit"),
               gossips ? "slack" : "capacity", gossips ? slack : capacity);
    }
}

static void verdict_print(const json_t *verdict)
{
    json_t *limits = json_object_get(verdict, "limits");
    const char *deciding = text_of(verdict, "limit");
    bool admitted = json_is_true(json_object_get(verdict, "admitted"));
    int width = 5;
    size_t index;
    json_t *limit;
    json_array_foreach(limits, index, limit)
    {
        int length = (int)strlen(text_of(limit, "limit"));
        width = length > width ? length : width;
    }
    bool none = json_array_size(limits) == 0;
    printf("%s%s%s\n", admitted ? "admitted" : "refused", none ? ": no limit applies" : "",
           none && !admitted ? " (unmatched: refuse); weir explain says why" : "");
    if (json_object_get(verdict, "missing"))
        printf("the request lacks \"%s\"\n", text_of(verdict, "missing"));
    else
        never_print(verdict);
    if (none)
        return;
    printf("\n  %-*s  %-8s  %12s  %12s  %10s  %10s  %10s\n", width, "limit", "says", "remaining", "capacity",
           "retry in", "reset in", "delay");
    json_array_foreach(limits, index, limit)
    {
        row_print(limit, width, strcmp(deciding, text_of(limit, "limit")) == 0);
        sharing_print(limit, width);
    }
    permit_print(verdict);
}

/* What an error answer says: the detail or title of a problem (RFC 9457), else nothing that could be shown. */
static int refusal_print(const struct weir_client_answer *answer, const json_t *body)
{
    const json_t *detail = json_object_get(body, "detail");
    const char *text = text_of(body, detail ? "detail" : "title");
    fprintf(stderr, "weir: the server answered %d: %s\n", answer->status, text);
    return WEIR_EXIT_ERROR;
}

static int answer_print(const struct flags *flags, const struct weir_client_answer *answer)
{
    json_t *body = json_loadb(answer->body, answer->size, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, NULL);
    if (!weir_plain_json(body)) {
        json_decref(body);
        body = NULL;
    }
    json_t *admitted = json_object_get(body, "admitted");
    int code;
    bool verdict = answer->status == 200 || answer->status == 429 || answer->status == 503; /* 503: the engine failed */
    if (!verdict || !json_is_boolean(admitted)) {
        code = refusal_print(answer, body);
    } else {
        code = json_is_true(admitted) ? WEIR_EXIT_OK : WEIR_EXIT_REFUSED;
        if (flags->json)
            printf("%s\n", answer->body);
        else
            verdict_print(body);
    }
    json_decref(body);
    return code;
}

int weir_cli_check(int argc, char **argv)
{
    struct flags flags = {
        .client = { .server = "127.0.0.1:8080", .token = getenv("WEIR_TOKEN"), .timeout_ns = 5 * WEIR_NS_PER_SECOND },
        .cost = "1"
    };
    struct weir_cli_attributes attributes;
    struct weir_client_answer answer = { 0 };
    char problem[256];
    const struct weir_option options[] = {
        { "server", .text = &flags.client.server },
        { "cost", .text = &flags.cost },
        { "peek", .given = &flags.peek },
        { "json", .given = &flags.json },
        { "token", .text = &flags.client.token },
        { "ca", .text = &flags.client.ca_file },
        { "timeout", .duration_ns = &flags.client.timeout_ns },
        WEIR_OPTIONS_HELP,
    };
    const int read = weir_options_read(argc, argv, options, NULL, help, "weir check --help");
    if (read != WEIR_OPTIONS_READ)
        return read;
    if (weir_cli_attributes_read(argc - optind, argv + optind, &attributes) != 0)
        return WEIR_EXIT_ERROR;
    char *question = question_make(&flags, &attributes);
    if (!question)
        return WEIR_EXIT_ERROR;
    int error = weir_client_post(&flags.client, "/v1/check", question, &answer, problem, sizeof(problem));
    free(question);
    if (error) {
        char text[WEIR_PLAIN_SIZE(sizeof(problem))];
        fprintf(stderr, "weir: %s: %s\n", flags.client.server, weir_plain(problem, text, sizeof(text)));
        return WEIR_EXIT_ERROR;
    }
    int code = answer_print(&flags, &answer);
    free(answer.body);
    return code;
}
