/* SPDX-License-Identifier: Apache-2.0
 *
 * From top to bottom: the server, what is wrong, what it leans on (engine, nodes, locks, sessions), limits, keys. What
 * is told in fixed columns comes first, texts of any length last, and a line is cut where the terminal ends, but for
 * what is wrong. Each part gets the rows that the parts before it left, and says how many more there are. Called by
 * top.c. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/plain.h"
#include "cli/top.h"
#include "wire/text.h"

#define LINE_MAX_BYTES 4096
#define ROWS_UNBOUNDED 1000
#define KEYS_LEAST 5 /* rows that limits leave to them */
#define KEYS_PLAIN 10
#define TEXT_SIZE 512

struct page {
    const struct weir_cli_top_page *given;
    FILE *out;
    unsigned rows_left;
};

/* ---- lines ---- */

/* Bytes of `line` that fit into so many columns; what may be wide counts as two. */
static size_t fitting(const char *line, unsigned columns)
{
    const uint8_t *at = (const uint8_t *)line;
    unsigned used = 0;
    while (*at) {
        size_t size = *at < 0x80 ? 1 : *at < 0xE0 ? 2 : *at < 0xF0 ? 3 : 4;
        used += size < 3 ? 1 : 2;
        if (used > columns)
            break;
        for (; size > 0 && *at; size--)
            at++;
    }
    return (size_t)((const char *)at - line);
}

__attribute__((format(printf, 2, 3))) static void line(struct page *page, const char *format, ...)
{
    char text[LINE_MAX_BYTES];
    va_list arguments;
    if (page->rows_left == 0)
        return;
    va_start(arguments, format);
    (void)vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    size_t size = fitting(text, page->given->columns);
    while (size > 0 && text[size - 1] == ' ')
        size--;
    (void)fprintf(page->out, "%.*s\n", (int)size, text);
    page->rows_left--;
}

/* Of what is wrong all is shown, on as many lines as it takes; broken between words where there are any. */
static void sentence(struct page *page, const char *before, const char *text)
{
    char whole[LINE_MAX_BYTES];
    (void)snprintf(whole, sizeof(whole), "%s%s", before, text);
    for (const char *at = whole; *at && page->rows_left > 0;) {
        size_t fits = fitting(at, page->given->columns), size = fits;
        while (at[size] && size > 0 && at[size] != ' ')
            size--;
        size = size > 0 ? size : fits > 0 ? fits : strlen(at);
        line(page, "%.*s", (int)size, at);
        at += size;
        at += strspn(at, " ");
    }
}

/* ---- what is told ---- */

/* A string that a terminal may be shown. */
static const char *text_of(const json_t *object, const char *member, char buffer[TEXT_SIZE])
{
    const json_t *text = json_object_get(object, member);
    return json_is_string(text) ? weir_plain_json_string(text, buffer, TEXT_SIZE) : weir_plain("-", buffer, TEXT_SIZE);
}

static uint64_t number_of(const json_t *object, const char *member)
{
    json_int_t number = json_integer_value(json_object_get(object, member));
    return number > 0 ? (uint64_t)number : 0;
}

/* 1234, 123k, 12.3M. */
static const char *count_text(uint64_t count, char buffer[32])
{
    static const char units[] = " kMGTPE";
    double value = (double)count;
    size_t unit = 0;
    for (; value >= 99999.5 && unit + 2 < sizeof(units); unit++)
        value /= 1000;
    if (unit == 0)
        (void)snprintf(buffer, 32, "%" PRIu64, count);
    else
        (void)snprintf(buffer, 32, "%.0f%c", value, units[unit]);
    return buffer;
}

/* A second, between the last look and this one. */
static const char *rate_text(const struct page *page, uint64_t now, uint64_t before, char buffer[32])
{
    const struct weir_cli_top_moment *last = page->given->before;
    if (!last)
        return "-";
    double seconds = (double)(page->given->now->now_ns - last->now_ns) / 1e9;
    double rate = now > before && seconds > 0 ? (double)(now - before) / seconds : 0; /* less: it has started again */
    if (rate >= 99.95)
        return count_text((uint64_t)(rate + 0.5), buffer);
    (void)snprintf(buffer, 32, "%.1f", rate);
    return buffer;
}

static json_t *told_before(const struct page *page)
{
    return page->given->before ? page->given->before->told : NULL;
}

/* ---- the server, and what is wrong ---- */

static void head_lines(struct page *page)
{
    const json_t *told = page->given->now->told, *limits = json_object_get(told, "limits");
    char clock[WEIR_TEXT_UTC_SIZE], server[TEXT_SIZE], node[TEXT_SIZE], version[TEXT_SIZE], rate[32];
    struct weir_text text = weir_text_init(clock, sizeof(clock));
    weir_text_utc(&text, page->given->now->wall_ns);
    bool named = json_is_string(json_object_get(limits, "node"));
    line(page, "weir top  %s%s%s  %.8s UTC%s", weir_plain(page->given->server, server, sizeof(server)),
         named ? "  node " : "", named ? text_of(limits, "node", node) : "", clock + 11,
         page->given->keys_work ? "  (r refused, e early, q quit)" : "");
    if (!told)
        return;
    line(page, "version %s  connections %" PRIu64 "  requests/s %s", text_of(told, "version", version),
         number_of(told, "connections"),
         rate_text(page, number_of(told, "requests"), number_of(told_before(page), "requests"), rate));
}

static void away_lines(struct page *page)
{
    line(page, "%s", "");
    sentence(page, "no answer: ", page->given->now->problem);
    sentence(
        page, "",
        "weir top goes on asking. Does weir serve run there? --server says where it answers HTTP; where a token is "
        "needed, WEIR_TOKEN has one with the right metrics.");
}

static void reload_line(struct page *page)
{
    const json_t *limits = json_object_get(page->given->now->told, "limits");
    const json_t *reloads = json_object_get(limits, "reloads");
    char said[TEXT_SIZE];
    if (json_is_true(json_object_get(reloads, "last_failed")))
        sentence(page, "RELOAD FAILED  ", text_of(reloads, "said", said));
}

/* ---- what it leans on ---- */

static void engine_lines(struct page *page, const json_t *engine)
{
    const json_t *servers = json_object_get(engine, "servers"), *server;
    char name[TEXT_SIZE], address[TEXT_SIZE], role[TEXT_SIZE], state[TEXT_SIZE], breaker[TEXT_SIZE], warning[TEXT_SIZE];
    size_t index;
    if (!json_is_object(engine))
        return;
    bool ready = json_is_true(json_object_get(engine, "ready"));
    line(page, "ENGINE    %s %s  unknown %" PRIu64 "  losses %" PRIu64, text_of(engine, "name", name),
         ready ? "ready" : "NOT READY: on_failure decides", number_of(engine, "unknown"), number_of(engine, "losses"));
    json_array_foreach(servers, index, server)
    {
        bool warned = json_is_string(json_object_get(server, "warning"));
        if (index == 3 && json_array_size(servers) > 4 && page->given->rows > 0) {
            line(page, "          %zu more servers", json_array_size(servers) - index);
            break;
        }
        line(page, "          %s %s %s  breaker %s%s%s", text_of(server, "address", address),
             text_of(server, "role", role), text_of(server, "state", state), text_of(server, "breaker", breaker),
             warned ? "  " : "", warned ? text_of(server, "warning", warning) : "");
    }
}

static void nodes_line(struct page *page, const json_t *nodes)
{
    const json_t *gossip = json_object_get(nodes, "gossip"), *member;
    char states[LINE_MAX_BYTES / 2] = "", name[TEXT_SIZE], state[TEXT_SIZE];
    size_t index, used = 0;
    if (number_of(nodes, "nodes") < 2)
        return;
    json_array_foreach(json_object_get(gossip, "members"), index, member)
    {
        int size = snprintf(states + used, sizeof(states) - used, "  %s %s", text_of(member, "name", name),
                            text_of(member, "state", state));
        used += size > 0 && (size_t)size < sizeof(states) - used ? (size_t)size : 0;
        states[used] = '\0';
    }
    line(page, "NODES     %" PRIu64 "%s", number_of(nodes, "nodes"), states);
}

static void locks_line(struct page *page, const json_t *locks)
{
    char name[TEXT_SIZE], fault[TEXT_SIZE];
    if (!json_is_object(locks))
        return;
    bool up = json_is_true(json_object_get(locks, "up"));
    line(page, "LOCKS     %s %s  granted %" PRIu64 "  waiters %" PRIu64 "  lost %" PRIu64 "%s%s",
         text_of(locks, "name", name), up ? "up" : "DOWN", number_of(locks, "granted"), number_of(locks, "waiters"),
         number_of(locks, "lost"), up ? "" : "  ", up ? "" : text_of(locks, "fault", fault));
}

static void sessions_lines(struct page *page, const json_t *sessions)
{
    const json_t *servers = json_object_get(sessions, "servers"), *server;
    char name[TEXT_SIZE], role[TEXT_SIZE], fault[TEXT_SIZE];
    size_t index;
    json_array_foreach(servers, index, server)
    {
        bool usable = json_is_true(json_object_get(server, "usable"));
        bool faulty = json_is_string(json_object_get(server, "fault"));
        if (index == 3 && json_array_size(servers) > 4 && page->given->rows > 0) {
            line(page, "          %zu more servers", json_array_size(servers) - index);
            break;
        }
        line(page, "%-10s%s %s  %s  lag %" PRIu64 " ms%s%s", index == 0 ? "SESSIONS" : "",
             text_of(server, "name", name), text_of(server, "role", role), usable ? "usable" : "NOT USED",
             number_of(server, "lag_ms"), faulty ? "  " : "", faulty ? text_of(server, "fault", fault) : "");
    }
}

/* ---- limits ---- */

struct limit {
    const char *name;
    const json_t *told; /* of /v1/limits; NULL: of CL.THROTTLE, and of what is no more */
    uint64_t admitted, refused, shadow;
    uint64_t admitted_before, refused_before;
};

static void sum_up(const json_t *verdicts, uint64_t *ret_admitted, uint64_t *ret_refused, uint64_t *ret_shadow)
{
    *ret_admitted = number_of(verdicts, "admitted");
    *ret_refused = number_of(verdicts, "refused") + number_of(verdicts, "never") + number_of(verdicts, "shed") +
                   number_of(verdicts, "banned");
    *ret_shadow = number_of(verdicts, "shadow_refused");
}

/* What refuses most now, then what has refused most, then what admits most; then by name. */
static int by_weight(const void *a, const void *b)
{
    const struct limit *left = a, *right = b;
    const uint64_t pairs[][2] = { { left->refused - left->refused_before, right->refused - right->refused_before },
                                  { left->refused, right->refused },
                                  { left->admitted - left->admitted_before, right->admitted - right->admitted_before },
                                  { left->admitted, right->admitted } };
    for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++) {
        if (pairs[i][0] != pairs[i][1])
            return pairs[i][0] > pairs[i][1] ? -1 : 1;
    }
    return strcmp(left->name, right->name);
}

static struct limit limit_of(const struct page *page, const json_t *in_force, const char *name, const json_t *verdicts)
{
    const json_t *before = json_object_get(json_object_get(told_before(page), "decisions"), name);
    struct limit limit = { .name = name, .told = json_object_get(in_force, name) };
    uint64_t unused;
    sum_up(verdicts, &limit.admitted, &limit.refused, &limit.shadow);
    sum_up(before, &limit.admitted_before, &limit.refused_before, &unused);
    if (!told_before(page) || limit.admitted_before > limit.admitted || limit.refused_before > limit.refused) {
        limit.admitted_before = limit.admitted; /* the first look, or it has started again */
        limit.refused_before = limit.refused;
    }
    return limit;
}

/* /v1/limits by name: there may be 32,000. */
static json_t *in_force_of(const struct page *page)
{
    json_t *list = json_object_get(json_object_get(page->given->now->told, "limits"), "limits"), *told;
    json_t *in_force = json_object();
    size_t index;
    json_array_foreach(list, index, told)
    {
        const char *name = json_string_value(json_object_get(told, "limit"));
        if (name)
            (void)json_object_set(in_force, name, told);
    }
    return in_force;
}

static void limit_line(struct page *page, const struct limit *limit)
{
    char admitted[32], refused[32], count[32], total[32], name[TEXT_SIZE], rate[TEXT_SIZE], mode[TEXT_SIZE],
        sharing[TEXT_SIZE], shadow[64] = "";
    const bool enforced = !limit->told || strcmp(text_of(limit->told, "mode", mode), "enforce") == 0;
    const bool shared = json_is_string(json_object_get(limit->told, "sharing"));
    if (limit->shadow > 0)
        (void)snprintf(shadow, sizeof(shadow), ", would refuse %" PRIu64, limit->shadow);
    line(page, "%9s %9s %9s %9s  %s%s%s%s%s%s%s%s", rate_text(page, limit->admitted, limit->admitted_before, admitted),
         rate_text(page, limit->refused, limit->refused_before, refused), count_text(limit->admitted, total),
         count_text(limit->refused, count), weir_plain(limit->name, name, sizeof(name)), limit->told ? "  " : "",
         limit->told ? text_of(limit->told, "rate", rate) : "", shared ? " " : "",
         shared ? text_of(limit->told, "sharing", sharing) : "", enforced ? "" : " ", enforced ? "" : mode, shadow);
}

static void limits_lines(struct page *page, unsigned keep)
{
    json_t *decisions = json_object_get(page->given->now->told, "decisions"), *verdicts;
    json_t *in_force = in_force_of(page);
    const size_t count = json_object_size(decisions);
    struct limit *limits = calloc(count + 1, sizeof(limits[0]));
    size_t used = 0;
    const char *name;
    if (!limits || !in_force) {
        json_decref(in_force);
        free(limits);
        return;
    }
    json_object_foreach(decisions, name, verdicts)
    {
        struct limit limit = limit_of(page, in_force, name, verdicts);
        bool idle = !limit.told && limit.admitted + limit.refused == 0; /* "(other)", CL.THROTTLE that nobody uses */
        if (!idle)
            limits[used++] = limit;
    }
    qsort(limits, used, sizeof(limits[0]), by_weight);
    line(page, "%s", "");
    line(page, "%9s %9s %9s %9s  LIMIT (%zu)", "ADMIT/s", "REFUSE/s", "ADMITTED", "REFUSED", used);
    for (size_t i = 0; i < used; i++) {
        if (page->rows_left <= keep + 1 && used - i > 1) {
            line(page, "%39s  %zu more", "", used - i);
            break;
        }
        limit_line(page, &limits[i]);
    }
    json_decref(in_force);
    free(limits);
}

/* ---- keys ---- */

/* Its values with a space between them; a key that is not told by its hash. */
static const char *key_text(const json_t *row, char buffer[TEXT_SIZE])
{
    const json_t *values = json_object_get(row, "key"), *value;
    char text[WEIR_PLAIN_SIZE(64)];
    size_t used = 0, index;
    if (!json_is_array(values)) {
        char hash[TEXT_SIZE];
        (void)snprintf(buffer, TEXT_SIZE, "#%.16s", text_of(row, "hash", hash));
        return buffer;
    }
    (void)snprintf(buffer, TEXT_SIZE, "%s", json_array_size(values) == 0 ? "(all requests)" : "");
    json_array_foreach(values, index, value)
    {
        const char *shown = json_is_string(value) ? weir_plain_json_string(value, text, sizeof(text)) : "(absent)";
        int size = snprintf(buffer + used, TEXT_SIZE - used, "%s%s", index ? " " : "", shown);
        used += size > 0 && (size_t)size < TEXT_SIZE - used ? (size_t)size : 0;
    }
    if (json_is_true(json_object_get(row, "cut")) && used + 4 < TEXT_SIZE)
        memcpy(buffer + used, "...", 4);
    return buffer;
}

static const json_t *same_key(const json_t *rows, const json_t *wanted)
{
    const char *hash = json_string_value(json_object_get(wanted, "hash"));
    const json_t *row;
    size_t index;
    json_array_foreach(rows, index, row)
    {
        const char *other = json_string_value(json_object_get(row, "hash"));
        if (hash && other && strcmp(hash, other) == 0)
            return row;
    }
    return NULL;
}

static const char *certain_text(const json_t *row, char buffer[32])
{
    uint64_t count = number_of(row, "count"), error = number_of(row, "error");
    if (!row)
        return "-";
    return count_text(count > error ? count - error : 0, buffer);
}

static void key_line(struct page *page, const json_t *row, const json_t *refused, const json_t *early)
{
    char counts[2][32], error[32], limit[TEXT_SIZE], key[TEXT_SIZE];
    const json_t *of_refused = same_key(refused, row), *of_early = same_key(early, row);
    char more[40] = "";
    if (of_refused && number_of(of_refused, "error") > 0)
        (void)snprintf(more, sizeof(more), "+%s", count_text(number_of(of_refused, "error"), error));
    line(page, "%9s %9s %9s %9s  %s  %s", certain_text(of_refused, counts[0]), more, "",
         certain_text(of_early, counts[1]), text_of(row, "limit", limit), key_text(row, key));
}

static void keys_lines(struct page *page)
{
    const json_t *told = page->given->now->told;
    const json_t *refused = json_object_get(told, "refused"), *early = json_object_get(told, "early");
    const json_t *chosen = page->given->by_early ? early : refused, *rows = json_object_get(chosen, "top"), *row;
    char keys[TEXT_SIZE], since[TEXT_SIZE];
    size_t index;
    line(page, "%s", "");
    if (!json_is_object(chosen)) {
        line(page, "This server does not tell which keys are refused: it is an older one.");
        return;
    }
    bool off = strcmp(text_of(chosen, "keys", keys), "off") == 0, hashed = strcmp(keys, "hash") == 0;
    if (off) {
        line(page, "Which keys are refused is not counted: top: { keys: off } in the configuration.");
        return;
    }
    const char *begun = text_of(chosen, "since", since); /* 2026-11-27T20:00:00.000Z */
    line(page, "%9s %9s %9s %9s  LIMIT  KEY%s", page->given->by_early ? "REFUSED" : "REFUSED*", "AT MOST", "",
         page->given->by_early ? "EARLY*" : "EARLY", hashed ? " (names: top: { keys: text })" : "");
    json_array_foreach(rows, index, row)
    {
        if (page->given->rows == 0 && index == KEYS_PLAIN)
            break;
        key_line(page, row, json_object_get(refused, "top"), json_object_get(early, "top"));
    }
    if (json_array_size(rows) == 0)
        line(page, "%39s  nobody%s since %.5s UTC", "", page->given->by_early ? " came back too early" : " was refused",
             strlen(begun) > 16 ? begun + 11 : begun);
}

static void told_lines(struct page *page)
{
    const json_t *nodes = json_object_get(page->given->now->told, "nodes");
    reload_line(page);
    engine_lines(page, json_object_get(nodes, "engine"));
    nodes_line(page, nodes);
    locks_line(page, json_object_get(nodes, "locks"));
    sessions_lines(page, json_object_get(page->given->now->told, "sessions"));
    limits_lines(page, 2 + KEYS_LEAST);
    keys_lines(page);
}

char *weir_cli_top_page(const struct weir_cli_top_page *given)
{
    char *text = NULL;
    size_t size = 0;
    struct page page = { .given = given, .rows_left = given->rows ? given->rows : ROWS_UNBOUNDED };
    page.out = open_memstream(&text, &size);
    if (!page.out)
        return NULL;
    head_lines(&page);
    if (given->now->told)
        told_lines(&page);
    else
        away_lines(&page);
    return fclose(page.out) == 0 ? text : NULL;
}
