/* SPDX-License-Identifier: Apache-2.0
 *
 * The verb `weir top`, called by main.c: asks a server (top_ask.c), makes a page of it (top_page.c), shows it
 * (top_screen.c), and waits for the next time, a key or a signal. A server that is away is asked again. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "cli/option.h"
#include "cli/plain.h"
#include "cli/top.h"
#include "cli/verbs.h"
#include "rules/config.h"

static const char help[] =
    "Usage: weir top [OPTION ...]\n"
    "\n"
    "Shows what a running server does, again and again: how much each limit admits and refuses, the keys that are\n"
    "refused most, the other nodes, the engine, locks and sessions. Keys: r by refused, e by early retries, q quits.\n"
    "What keys are called is shown if the server's configuration says top: { keys: text }.\n"
    "\n"
    "  --server ADDR    where it answers HTTP (127.0.0.1:8080): HOST:PORT, https://HOST:PORT or unix:/path\n"
    "  --interval TIME  from one look to the next (1s), 100ms to 1hour\n"
    "  --once           one look, as plain text, and the end\n"
    "  --json           each look as one line of JSON\n"
    "  --token TOKEN    who asks, with the right metrics; better in the environment as WEIR_TOKEN\n"
    "  --ca FILE        authorities to trust over https (the system's)\n"
    "  --timeout TIME   for each of the server's answers (2s)\n"
    "\n"
    "Exit code: 0 it was ended, 2 wrong arguments, or with --once no answer.\n"
    "\n"
    "Examples:\n"
    "  weir top\n"
    "  weir top --server https://limits.example.org --interval 5s\n"
    "  weir top --once --json | python3 -m json.tool\n";

struct flags {
    struct weir_client_options client;
    uint64_t interval_ns;
    bool once, json;
};

/* 100ms to 1hour. */
static int duration_read(const char *name, const char *value, uint64_t *ret_ns)
{
    struct weir_fault fault = { 0 };
    if (weir_duration_parse(value, ret_ns, &fault) == 0 && *ret_ns >= WEIR_NS_PER_SECOND / 10 &&
        *ret_ns <= 3600 * WEIR_NS_PER_SECOND)
        return 0;
    return weir_option_wrong(name, "must be a time of 100ms to 1hour, as 5s");
}

static int interval_read(void *flags, const char *name, char *value)
{
    return duration_read(name, value, &((struct flags *)flags)->interval_ns);
}

static int timeout_read(void *flags, const char *name, char *value)
{
    return duration_read(name, value, &((struct flags *)flags)->client.timeout_ns);
}

/* ---- looking ---- */

struct top {
    const struct flags *flags;
    struct weir_cli_top_screen screen;
    struct weir_cli_top_moment now, before;
    bool by_early;
};

static void look(struct top *top)
{
    json_t *last = top->now.told;
    if (last) { /* rates are told from the last look that was answered */
        json_decref(top->before.told);
        top->before = top->now;
    }
    const struct weir_time time = weir_time_read();
    top->now = (struct weir_cli_top_moment){ .now_ns = time.now_ns, .wall_ns = time.wall_ns };
    char problem[256];
    top->now.told = weir_cli_top_ask(&top->flags->client, problem, sizeof(problem));
    if (!top->now.told)
        (void)weir_plain(problem, top->now.problem, sizeof(top->now.problem));
}

/* False: nobody reads. */
static bool show_json(const struct top *top)
{
    if (!top->now.told) {
        fprintf(stderr, "weir: %s: %s\n", top->flags->client.server, top->now.problem);
        return true;
    }
    char *text = json_dumps(top->now.told, JSON_COMPACT);
    bool good = text && weir_cli_top_screen_show(&top->screen, text);
    free(text);
    return good;
}

static bool show(const struct top *top)
{
    if (top->flags->json)
        return show_json(top);
    const struct weir_cli_top_page page = {
        .server = top->flags->client.server,
        .now = &top->now,
        .before = top->before.told ? &top->before : NULL,
        .by_early = top->by_early,
        .keys_work = top->screen.live && top->screen.typed,
        .columns = top->screen.columns,
        .rows = top->screen.live ? top->screen.rows : 0,
    };
    char *text = weir_cli_top_page(&page);
    bool good = text && weir_cli_top_screen_show(&top->screen, text);
    free(text);
    return good;
}

static int once(struct top *top)
{
    look(top);
    if (!top->now.told) {
        fprintf(stderr, "weir: %s: %s\n", top->flags->client.server, top->now.problem);
        return WEIR_EXIT_ERROR;
    }
    top->screen = (struct weir_cli_top_screen){ .out = STDOUT_FILENO, .columns = 80 };
    bool good = show(top);
    return good ? WEIR_EXIT_OK : WEIR_EXIT_ERROR;
}

/* False: it is to end. */
static bool handle(struct top *top, enum weir_cli_top_event event, char key)
{
    if (event == WEIR_CLI_TOP_END || (event == WEIR_CLI_TOP_KEY && (key == 'q' || key == 'Q')))
        return false;
    if (event == WEIR_CLI_TOP_KEY && (key == 'r' || key == 'e'))
        top->by_early = key == 'e';
    return event == WEIR_CLI_TOP_TIME || top->flags->json || show(top);
}

static int run(struct top *top)
{
    bool goes_on = true;
    if (!weir_cli_top_screen_begin(&top->screen, !top->flags->json)) {
        perror("weir: signalfd");
        return WEIR_EXIT_ERROR;
    }
    while (goes_on) {
        const uint64_t next_ns = weir_time_read().now_ns + top->flags->interval_ns;
        look(top);
        goes_on = !weir_cli_top_screen_ends() && show(top);
        for (enum weir_cli_top_event event = WEIR_CLI_TOP_KEY; goes_on && event != WEIR_CLI_TOP_TIME;) {
            char key = '\0';
            event = weir_cli_top_screen_wait(&top->screen, next_ns, &key);
            goes_on = handle(top, event, key);
        }
    }
    weir_cli_top_screen_end(&top->screen);
    return WEIR_EXIT_OK;
}

int weir_cli_top(int argc, char **argv)
{
    struct flags flags = {
        .client = { .server = "127.0.0.1:8080", .token = getenv("WEIR_TOKEN"), .timeout_ns = 2 * WEIR_NS_PER_SECOND },
        .interval_ns = WEIR_NS_PER_SECOND
    };
    const struct weir_option options[] = {
        { "server", .text = &flags.client.server }, { "interval", .read = interval_read },
        { "once", .given = &flags.once },           { "json", .given = &flags.json },
        { "token", .text = &flags.client.token },   { "ca", .text = &flags.client.ca_file },
        { "timeout", .read = timeout_read },        WEIR_OPTIONS_HELP,
    };
    const int read = weir_options_read(argc, argv, options, &flags, help, "weir top --help");
    if (read != WEIR_OPTIONS_READ)
        return read;
    if (optind < argc) {
        fprintf(stderr, "weir: weir top takes no words, only options; try weir top --help\n");
        return WEIR_EXIT_ERROR;
    }
    struct top top = { .flags = &flags };
    int code = flags.once ? once(&top) : run(&top);
    json_decref(top.now.told);
    json_decref(top.before.told);
    return code;
}
