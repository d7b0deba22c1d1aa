/* SPDX-License-Identifier: Apache-2.0
 *
 * The command line and the environment of `weir serve`: one table of options for both, and the text of --help. What was
 * not said on the command line is looked up as WEIR_<FLAG>. Values of variables are printed only where they are wrong
 * for a flag, and flags take no secrets. What the flags mean for the configuration is in serve_config.c. Called by
 * serve.c. */
#include "cli/serve_flags.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/option.h"
#include "cli/plain.h"
#include "cli/serve_warn.h"
#include "cli/verbs.h"

static const char help[] =
    "Usage: weir serve [OPTION ...]\n"
    "\n"
    "Answers Redis clients (CL.THROTTLE, WEIR.CHECK, WEIR.LOCK, ...), HTTP (/v1/check, /v1/auth, /v1/locks,\n"
    "/v1/sessions; for operators /metrics, /v1/limits, /v1/nodes, /v1/sessions/servers, /readyz?verbose)\n"
    "and, where that is asked for, gRPC (Envoy's rate limit service).\n"
    "\n"
    "  --config FILE   limits and settings in YAML; without it the example limits\n"
    "  --resp ADDR     where Redis clients connect (127.0.0.1:6380)\n"
    "  --http ADDR     where HTTP clients connect (127.0.0.1:8080)\n"
    "  --grpc ADDR     where gRPC clients connect, Envoy say: 127.0.0.1:8081 (off)\n"
    "                  ADDR is HOST:PORT, unix:/path, or off\n"
    "  --locks PATH    keep locks in this SQLite database, or off; wins over locks: in FILE\n"
    "                  (without FILE: locks.db in $STATE_DIRECTORY, $XDG_STATE_HOME/weir or ~/.local/state/weir)\n"
    "  --ratelimit-config FOLDER\n"
    "                  limits of envoyproxy/ratelimit's configuration files, as they are (docs/envoy.md), and none in "
    "FILE\n"
    "  --memory SIZE   for all keys together (256MiB)\n"
    "  --threads N     event loops (one per core)\n"
    "  --node NAME     which of the nodes in cluster: this one is; wins over node: there\n"
    "  --take-over PATH\n"
    "                  take over from the weir that was started with the same PATH, with its connections and "
    "counters,\n"
    "                  and be taken over there in turn; if there is none, start as ever\n"
    "  --insecure      ask nobody for a token, wherever it listens\n"
    "  --check FILE    only say whether FILE is a good configuration: exit code 0 or 2\n"
    "\n"
    "Each flag may stand in the environment instead: WEIR_CONFIG, WEIR_HTTP, ..., WEIR_INSECURE=true. The flag wins "
    "over\n"
    "the environment, and both over FILE; an empty variable counts as none.\n"
    "\n"
    "SIGHUP reads FILE again and keeps the old limits if it is wrong. SIGTERM answers what has come and ends.\n"
    "With --take-over SIGUSR2 starts this command once more, which takes over: an upgrade.\n"
    "\n"
    "Examples:\n"
    "  weir serve\n"
    "  weir serve --config weir.yaml --resp unix:/run/weir.sock --http off\n"
    "  weir serve --config weir.yaml --take-over /run/weir/takeover    # the first, and each newer one\n"
    "  weir serve --check weir.yaml && kill -HUP $(pidof weir)\n"
    "  redis-cli -p 6380 CL.THROTTLE user123 15 30 60\n";

#define THREADS_MAX 256
#define UNKNOWN_SHOWN_MAX 8 /* a warning each */

static int complain(const char *what, const char *value, const struct weir_fault *fault)
{
    fprintf(stderr, "weir: %s ", what);
    weir_plain_print(stderr, (struct weir_slice){ value, strlen(value) });
    fprintf(stderr, ": %s\n", fault->text);
    return WEIR_EXIT_ERROR;
}

/* In what follows `what` names it in a complaint: "--http", or the variable. */
static int read_threads(void *flags, const char *what, char *text)
{
    const struct weir_fault fault = { .text = "must be 1 to 256" };
    char *end = NULL;
    unsigned long value = strtoul(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || *end || value < 1 || value > THREADS_MAX)
        return complain(what, text, &fault);
    ((struct weir_serve_flags *)flags)->threads = (uint32_t)value;
    return 0;
}

static int read_memory(void *flags, const char *what, char *value)
{
    struct weir_fault fault = { 0 };
    return weir_size_parse(value, &((struct weir_serve_flags *)flags)->memory, &fault) ? complain(what, value, &fault)
                                                                                       : 0;
}

static int read_address(const char *what, const char *value, struct weir_address *ret_address)
{
    struct weir_fault fault = { 0 };
    return weir_address_parse(value, ret_address, &fault) ? complain(what, value, &fault) : 0;
}

static int read_resp(void *flags, const char *what, char *value)
{
    return read_address(what, value, &((struct weir_serve_flags *)flags)->resp);
}

static int read_http(void *flags, const char *what, char *value)
{
    return read_address(what, value, &((struct weir_serve_flags *)flags)->http);
}

static int read_grpc(void *flags, const char *what, char *value)
{
    return read_address(what, value, &((struct weir_serve_flags *)flags)->grpc);
}

#define OPTIONS_COUNT 14 /* with --help and the end */

static void options_make(struct weir_serve_flags *flags, struct weir_option ret_options[OPTIONS_COUNT])
{
    const struct weir_option options[OPTIONS_COUNT] = {
        { "config", .text = &flags->config_file },
        { "resp", .read = read_resp, .given = &flags->resp_given },
        { "http", .read = read_http, .given = &flags->http_given },
        { "grpc", .read = read_grpc, .given = &flags->grpc_given },
        { "memory", .read = read_memory },
        { "threads", .read = read_threads },
        { "check", .text = &flags->check_file },
        { "node", .text = &flags->node },
        { "locks", .text = &flags->locks },
        { "take-over", .text = &flags->take_over },
        { "ratelimit-config", .text = &flags->ratelimit_config },
        { "insecure", .given = &flags->insecure },
        WEIR_OPTIONS_HELP,
    };
    memcpy(ret_options, options, sizeof(options));
}

/* ---- the environment ---- */

#define VARIABLE_HEAD "WEIR_"
#define VARIABLE_SIZE 32

/* "WEIR_HTTP" of the option "http". */
static const char *variable_of(const struct weir_option *option, char *buffer)
{
    size_t used = (size_t)snprintf(buffer, VARIABLE_SIZE, VARIABLE_HEAD);
    for (const char *c = option->name; *c && used + 1 < VARIABLE_SIZE; c++)
        buffer[used++] = *c == '-' ? '_' : (char)toupper((unsigned char)*c);
    buffer[used] = '\0';
    return buffer;
}

/* Of a flag without a value: "true" sets it, "false" does not. */
static int read_switch(bool *flag, const char *what, const char *value)
{
    const struct weir_fault fault = { .text = "must be true or false" };
    if (strcmp(value, "true") == 0 || strcmp(value, "1") == 0)
        *flag = true;
    else if (strcmp(value, "false") != 0 && strcmp(value, "0") != 0)
        return complain(what, value, &fault);
    return 0;
}

/* What was `given` on the command line, a bit for each option, is not looked for. */
static int read_environment(const struct weir_option *options, struct weir_serve_flags *flags, uint32_t given)
{
    char variable[VARIABLE_SIZE];
    int failed = 0;
    for (size_t i = 0; !failed && options[i].name; i++) {
        const struct weir_option *option = &options[i];
        char *value = option->letter == 'h' ? NULL : getenv(variable_of(option, variable));
        if (!value || !value[0] || given & 1U << i)
            continue;
        failed = option->text || option->read ? weir_option_take(option, flags, variable, value)
                                              : read_switch(option->given, variable, value);
    }
    return failed;
}

/* Variables that other verbs read or set, those of weir's own tests, and what an orchestrator says of a service that is
 * called weir: WEIR_SERVICE_HOST, WEIR_PORT_8080_TCP. */
static bool is_of_others(const char *name, size_t size)
{
    static const char *const others[] = { "WEIR_TOKEN",     "WEIR_FENCE",       "WEIR_FENCE_INCARNATION",
                                          "WEIR_LOCK_NAME", "WEIR_PROGRESS_FD", "WEIR_FENCE_NUMBER",
                                          "WEIR_BUILD",     "WEIR_MUTANT",      "WEIR_SEED",
                                          "WEIR_TEST_SEED", "WEIR_TEST_EFFORT" };
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        if (strlen(others[i]) == size && memcmp(others[i], name, size) == 0)
            return true;
    return memmem(name, size, "_SERVICE_", 9) || memmem(name, size, "_PORT", 5);
}

/* False: it is the variable of a flag. */
static bool is_unknown(const char *name, size_t size, char *ret_near)
{
    struct weir_serve_flags none;
    struct weir_option options[OPTIONS_COUNT];
    char known[OPTIONS_COUNT][VARIABLE_SIZE];
    const size_t head = sizeof(VARIABLE_HEAD) - 1;
    struct weir_nearest nearest = { .text = name + head, .size = size - head };
    size_t count = 0;
    options_make(&none, options);
    for (const struct weir_option *option = options; option->letter != 'h'; option++) {
        weir_nearest_offer(&nearest, variable_of(option, known[count]) + head);
        if (strlen(known[count]) == size && memcmp(known[count], name, size) == 0)
            return false;
        count++;
    }
    (void)snprintf(ret_near, VARIABLE_SIZE, "%s", nearest.word ? nearest.word - head : "");
    return true;
}

void weir_serve_flags_warn(const struct weir_config *config)
{
    char near[VARIABLE_SIZE], shown[64], plain[WEIR_PLAIN_SIZE(sizeof(shown))];
    size_t count = 0;
    for (char **variable = environ; variable && *variable; variable++) {
        size_t size = strcspn(*variable, "=");
        if (strncmp(*variable, VARIABLE_HEAD, sizeof(VARIABLE_HEAD) - 1) != 0 || is_of_others(*variable, size) ||
            !is_unknown(*variable, size, near) || count++ >= UNKNOWN_SHOWN_MAX)
            continue;
        (void)snprintf(shown, sizeof(shown), "%.*s", (int)size, *variable);
        weir_plain(shown, plain, sizeof(plain));
        weir_serve_warn(config, "%s in the environment is no flag of weir serve%s%s%s", plain,
                        near[0] ? "; did you mean " : "", near, near[0] ? "?" : "");
    }
    if (count > UNKNOWN_SHOWN_MAX)
        weir_serve_warn(config, "%zu more such variables in the environment", count - UNKNOWN_SHOWN_MAX);
}

int weir_serve_flags_read(int argc, char **argv, struct weir_serve_flags *ret_flags, bool *ret_help)
{
    struct weir_option options[OPTIONS_COUNT];
    uint32_t given = 0;
    int next;
    *ret_flags = (struct weir_serve_flags){ 0 };
    options_make(ret_flags, options);
    while ((next = weir_option_next(argc, argv, options)) >= 0) {
        char what[VARIABLE_SIZE];
        (void)snprintf(what, sizeof(what), "--%s", options[next].name);
        int failed = weir_option_take(&options[next], ret_flags, what, optarg);
        if (failed)
            return failed;
        given |= 1U << next;
    }
    if (next == WEIR_OPTIONS_WRONG) {
        fputs("weir: try weir serve --help\n", stderr);
        return WEIR_EXIT_ERROR;
    }
    if (next == WEIR_OPTIONS_HELP_WANTED) {
        *ret_help = true;
        fputs(help, stdout);
        return 0;
    }
    if (optind < argc) {
        fprintf(stderr, "weir: serve takes no argument '%s'; try weir serve --help\n", argv[optind]);
        return WEIR_EXIT_ERROR;
    }
    return read_environment(options, ret_flags, given);
}
