/* SPDX-License-Identifier: Apache-2.0
 *
 * The verb `weir replay`, called by replay_main.c. It reads the options into a plan and calls weir_replay_run
 * (replay_run.c). It opens no file itself. */
#include "cli/replay.h"

#include <stdlib.h>
#include <string.h>

#include "cli/option.h"
#include "cli/verbs.h"

static const char help[] =
    "Usage: weir replay --config FILE [OPTION ...] LOG ...\n"
    "       weir replay --suggest [OPTION ...] LOG ...\n"
    "\n"
    "Says what limits would have refused, before they are in force: it decides the requests of access logs as the\n"
    "server would, by the times of the log. By limit, route, key and minute. LOG is a file, plain or gzip, or - for\n"
    "standard input; lines of several files are merged by their times. docs/replay.md says what differs from a "
    "server.\n"
    "\n"
    "  --config FILE     the limits to try\n"
    "  --beside FILE     the limits in force: both side by side\n"
    "  --node NAME       as which of the nodes in cluster:\n"
    "  --format FORMAT   combined (nginx, Apache; common too), envoy, json, or a format string as in the server's own\n"
    "                    configuration: $remote_addr, %h, %REQ(:METHOD)% (by the first line of each file)\n"
    "  --map FIELD=NAME  the field FIELD of the log is the attribute NAME, or time, request, duration, duration_ms,\n"
    "                    duration_us; may be given up to 64 times\n"
    "  --suggest         propose a rate and a burst for each route, by what keys really do, and say whom they hit\n"
    "  --key NAMES       the key of --suggest: attributes, with commas between them (ip)\n"
    "  --percentile P    how many per cent of keys stay within what is proposed, 1 to 100 (99)\n"
    "  --out FILE        write the proposed limits there\n"
    "  --depth N         how many segments of a path make a route, 1 to 8 (1)\n"
    "  --rows N          of each table, 1 to 1000000 (10)\n"
    "  --plot FILE       also as a picture, SVG: requests and refusals over time\n"
    "  --json            instead of the tables, with every minute\n"
    "\n"
    "Exit code: 0 done, whatever was refused; 1 done, but a log could not be read to its end, or no line of it;\n"
    "2 wrong arguments, configuration or files.\n"
    "\n"
    "Examples:\n"
    "  weir replay --config new.yaml /var/log/nginx/access.log\n"
    "  weir replay --config new.yaml --beside /etc/weir.yaml --plot day.svg /var/log/nginx/access.log*\n"
    "  weir replay --suggest --out proposed.yaml access.log.1.gz\n"
    "  weir replay --config new.yaml --format '$remote_addr [$time_local] \"$request\" $user' app.log\n"
    "  zcat *.gz | weir replay --config new.yaml --map headers.x_api_key=user --json - | jq .limits\n";

static int complain(const char *option, const char *value, const char *text)
{
    fprintf(stderr, "weir: --%s %s: %s\n", option, value, text);
    return WEIR_EXIT_ERROR;
}

static int percentile_read(void *plan, const char *name, char *value)
{
    char *end = NULL;
    double number = value[0] >= '0' && value[0] <= '9' ? strtod(value, &end) : 0;
    if (!end || *end || !(number >= 1 && number <= 100))
        return complain(name, value, "must be a number, 1 to 100");
    ((struct weir_replay_plan *)plan)->percentile = number;
    return 0;
}

/* Cuts the argument at its '='. */
static int map_add(void *data, const char *name, char *value)
{
    struct weir_replay_plan *plan = data;
    char *equals = strchr(value, '=');
    if (!equals || equals == value || !equals[1])
        return complain(name, value, "must be FIELD=NAME");
    if (plan->maps_count == WEIR_ACCESS_MAPS_MAX)
        return complain(name, value, "may be given 64 times");
    *equals = '\0';
    plan->maps[plan->maps_count++] = (struct weir_access_map){ value, equals + 1 };
    return 0;
}

static bool is_name(const char *name)
{
    size_t size = strlen(name);
    return size >= 1 && size <= WEIR_ATTRIBUTE_NAME_MAX && !strpbrk(name, "\"\\") &&
           strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._:-") == size;
}

/* Cuts the argument at its commas. */
static int keys_read(void *data, const char *option, char *value)
{
    struct weir_replay_plan *plan = data;
    plan->keys_count = 0;
    for (char *rest = value, *name; (name = strsep(&rest, ","));) {
        bool twice = false;
        for (size_t i = 0; i < plan->keys_count; i++)
            twice = twice || strcmp(plan->keys[i], name) == 0;
        if (twice || !is_name(name))
            return complain(option, name, twice ? "stands twice" : "is no name of an attribute");
        if (plan->keys_count == WEIR_KEY_VALUES_MAX)
            return complain(option, name, "at most 16 attributes make a key");
        plan->keys[plan->keys_count++] = name;
    }
    return 0;
}

static bool files_read(int argc, char **argv, struct weir_replay_plan *plan)
{
    bool standard = false;
    for (int i = optind; i < argc; i++) {
        if (plan->files_count == WEIR_REPLAY_FILES_MAX) {
            fprintf(stderr, "weir: at most %d files at once\n", WEIR_REPLAY_FILES_MAX);
            return false;
        }
        bool dash = strcmp(argv[i], "-") == 0;
        if (dash && standard) {
            fputs("weir: standard input (-) can be read once\n", stderr);
            return false;
        }
        standard = standard || dash;
        plan->files[plan->files_count++] = argv[i];
    }
    if (plan->files_count > 0)
        return true;
    fputs("weir: replay needs a LOG, or - for standard input; try weir replay --help\n", stderr);
    return false;
}

int weir_cli_replay(int argc, char **argv)
{
    static const struct weir_replay_plan defaults = {
        .keys = { "ip" }, .keys_count = 1, .percentile = 99, .depth = 1, .rows = 10
    };
    struct weir_replay_plan plan = defaults;
    const struct weir_option options[] = {
        { "config", .text = &plan.config },
        { "beside", .text = &plan.beside },
        { "node", .text = &plan.node },
        { "format", .text = &plan.format },
        { "map", .read = map_add },
        { "suggest", .given = &plan.suggest },
        { "key", .read = keys_read },
        { "percentile", .read = percentile_read },
        { "out", .text = &plan.out },
        { "depth", .count = &plan.depth, .least = 1, .most = 8 },
        { "rows", .count = &plan.rows, .least = 1, .most = 1000000 },
        { "plot", .text = &plan.plot },
        { "json", .given = &plan.json },
        WEIR_OPTIONS_HELP,
    };
    const int read = weir_options_read(argc, argv, options, &plan, help, "weir replay --help");
    if (read != WEIR_OPTIONS_READ)
        return read;
    if (!plan.config && !plan.suggest) {
        fputs("weir: replay needs --config FILE, or --suggest; try weir replay --help\n", stderr);
        return WEIR_EXIT_ERROR;
    }
    if (plan.beside && !plan.config) {
        fputs("weir: --beside needs --config, beside which it stands\n", stderr);
        return WEIR_EXIT_ERROR;
    }
    if (plan.out && !plan.suggest) {
        fputs("weir: --out needs --suggest, whose limits it writes\n", stderr);
        return WEIR_EXIT_ERROR;
    }
    return files_read(argc, argv, &plan) ? weir_replay_run(&plan) : WEIR_EXIT_ERROR;
}
