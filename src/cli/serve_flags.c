/* SPDX-License-Identifier: Apache-2.0
 *
 * The command line of `weir serve`: one table of options, and the text of --help. What the flags mean for the
 * configuration is in serve_config.c. Called by serve.c. */
#include "cli/serve_flags.h"

#include <stdio.h>
#include <stdlib.h>

#include "cli/option.h"
#include "cli/verbs.h"

static const char help[] =
    "Usage: weir serve [OPTION ...]\n"
    "\n"
    "Answers Redis clients (CL.THROTTLE, WEIR.CHECK, WEIR.LOCK, ...) and HTTP (/v1/check, /v1/auth, /v1/locks,\n"
    "/v1/sessions; for operators /metrics, /v1/limits, /v1/nodes, /v1/sessions/servers, /readyz?verbose).\n"
    "\n"
    "  --config FILE   limits and settings in YAML; without it the example limits\n"
    "  --resp ADDR     where Redis clients connect (127.0.0.1:6380)\n"
    "  --http ADDR     where HTTP clients connect (127.0.0.1:8080)\n"
    "                  ADDR is HOST:PORT, unix:/path, or off\n"
    "  --locks PATH    keep locks in this SQLite database, or off; wins over locks: in FILE\n"
    "                  (without FILE: locks.db in $STATE_DIRECTORY, $XDG_STATE_HOME/weir or ~/.local/state/weir)\n"
    "  --memory SIZE   for all keys together (256MiB)\n"
    "  --threads N     event loops (one per core)\n"
    "  --node NAME     which of the nodes in cluster: this one is; wins over node: there\n"
    "  --insecure      ask nobody for a token, wherever it listens\n"
    "  --check FILE    only say whether FILE is a good configuration: exit code 0 or 2\n"
    "\n"
    "SIGHUP reads FILE again and keeps the old limits if it is wrong. SIGTERM answers what has come and ends.\n"
    "\n"
    "Examples:\n"
    "  weir serve\n"
    "  weir serve --config weir.yaml --resp unix:/run/weir.sock --http off\n"
    "  weir serve --check weir.yaml && kill -HUP $(pidof weir)\n"
    "  redis-cli -p 6380 CL.THROTTLE user123 15 30 60\n";

#define THREADS_MAX 256

static int complain(const char *option, const char *value, const struct weir_fault *fault)
{
    fprintf(stderr, "weir: %s %s: %s\n", option, value, fault->text);
    return WEIR_EXIT_ERROR;
}

static int read_threads(const char *text, uint32_t *ret_threads)
{
    const struct weir_fault fault = { .text = "must be 1 to 256" };
    char *end = NULL;
    unsigned long value = strtoul(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || *end || value < 1 || value > THREADS_MAX)
        return complain("--threads", text, &fault);
    *ret_threads = (uint32_t)value;
    return 0;
}

static int read_option(struct weir_serve_flags *flags, int option, const char *value)
{
    struct weir_fault fault = { 0 };
    switch (option) {
    case 'c':
        flags->config_file = value;
        return 0;
    case 'k':
        flags->check_file = value;
        return 0;
    case 'i':
        flags->insecure = true;
        return 0;
    case 'n':
        flags->node = value;
        return 0;
    case 'l':
        flags->locks = value;
        return 0;
    case 't':
        return read_threads(value, &flags->threads);
    case 'm':
        if (weir_size_parse(value, &flags->memory, &fault))
            return complain("--memory", value, &fault);
        return 0;
    case 'r':
        flags->resp_given = true;
        return weir_address_parse(value, &flags->resp, &fault) ? complain("--resp", value, &fault) : 0;
    case 'w':
        flags->http_given = true;
        return weir_address_parse(value, &flags->http, &fault) ? complain("--http", value, &fault) : 0;
    default:
        fputs("weir: try weir serve --help\n", stderr);
        return WEIR_EXIT_ERROR;
    }
}

int weir_serve_flags_read(int argc, char **argv, struct weir_serve_flags *ret_flags, bool *ret_help)
{
    static const struct option options[] = {
        { "config", required_argument, NULL, 'c' },
        { "resp", required_argument, NULL, 'r' },
        { "http", required_argument, NULL, 'w' },
        { "memory", required_argument, NULL, 'm' },
        { "threads", required_argument, NULL, 't' },
        { "check", required_argument, NULL, 'k' },
        { "node", required_argument, NULL, 'n' },
        { "locks", required_argument, NULL, 'l' },
        { "insecure", no_argument, NULL, 'i' },
        { "help", no_argument, NULL, 'h' },
        { NULL, 0, NULL, 0 },
    };
    *ret_flags = (struct weir_serve_flags){ 0 };
    for (int option; (option = weir_option_next(argc, argv, "h", options, NULL)) != -1;) {
        if (option == 'h') {
            *ret_help = true;
            fputs(help, stdout);
            return 0;
        }
        int failed = read_option(ret_flags, option, optarg);
        if (failed)
            return failed;
    }
    if (optind < argc) {
        fprintf(stderr, "weir: serve takes no argument '%s'; try weir serve --help\n", argv[optind]);
        return WEIR_EXIT_ERROR;
    }
    return 0;
}
