/* SPDX-License-Identifier: Apache-2.0
 *
 * The verb `weir reads`, called by reads_main.c. It reads the options into a plan, checks that the run stays below
 * WEIR_READS_OPS_MAX reads and writes, and calls weir_reads_run (reads_run.c). It connects to no server: of
 * reads_link.c it only uses the parser of a server's address. */
#include "cli/reads.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cli/option.h"
#include "cli/reads_link.h"
#include "cli/verbs.h"
#include "client/clock.h"
#include "rules/config.h"
#include "weir/session.h"

static const char help[] =
    "Usage: weir reads check --primary URL --replica URL ... [OPTION ...]\n"
    "\n"
    "Says how often users of your replicas see something older than they have seen, and what each way to prevent it\n"
    "would cost on your servers. For a while it writes and reads as sessions would: plainly, each read at any "
    "replica,\n"
    "and by each strategy, side by side, so that all meet the same lag. Then a table: reads that went back, reads "
    "that\n"
    "missed the session's own write, waits, reads at the primary, and how far each replica was behind.\n"
    "\n"
    "It makes one small table of its own, " WEIR_READS_TABLE ", at the primary and drops it at the end, also after\n"
    "Ctrl-C; rows are written there all the time, which is log for every replica. It touches nothing else. A\n"
    "publication FOR ALL TABLES, or of the schema, would stop its subscribers: then it refuses to begin. It needs the\n"
    "right to make a table at the primary, and at the replicas pg_read_all_stats or REPLICATION "
    "(docs/reads-postgres.md).\n"
    "\n"
    "  --primary URL      the server that takes writes: postgresql://user@host:port/db or \"host=… port=… dbname=…\"\n"
    "  --replica URL      a standby; up to 16 of them. Passwords are better in ~/.pgpass: ps shows arguments\n"
    "  --duration TIME    how long, up to 1hour (30s)\n"
    "  --sessions N       users of each strategy, each with its own connections, 1 to 64 (4)\n"
    "  --rate N           requests a second of each user, 1 to 1000 (10)\n"
    "  --writes PERCENT   of the requests, each followed by a read of what was written, 1 to 90 (10)\n"
    "  --wait TIME        for a replica to catch up, before the primary is asked, 1ms to 60s (500ms)\n"
    "  --window TIME      of strategy window: at the primary so long after a write (1s)\n"
    "  --strategies LIST  some of plain,sticky,window,physical,lamport,tracked (all)\n"
    "  --plot FILE        also as a picture, SVG: violations, reads at the primary, lag over time\n"
    "  --json             instead of the table\n"
    "  --keep             leave the table\n"
    "\n"
    "docs/reads.md describes the strategies. Only tracked keeps its promise always; lamport does for rows whose "
    "writers\n"
    "move a clock, which makes them wait for each other; the others break in ways that this shows or, where your\n"
    "replicas are quick today, does not show.\n"
    "\n"
    "Exit code: 0 done, 2 wrong arguments or servers, 130 ended by a signal (what was seen until then is printed).\n"
    "\n"
    "Examples:\n"
    "  weir reads check --primary postgresql://app@db1/shop --replica postgresql://app@db2/shop\n"
    "  weir reads check --primary 'host=db1 dbname=shop' --replica 'host=db2 dbname=shop' \\\n"
    "      --replica 'host=db3 dbname=shop' --duration 10min --plot reads.svg\n"
    "  weir reads check ... --strategies plain,tracked --json | jq '.strategies[] | {name, went_back, on_primary}'\n";

/* Whole milliseconds. */
static int time_read(const char *option, const char *value, uint64_t min_ms, uint64_t max_ms, uint64_t *ret_ms)
{
    struct weir_fault fault;
    char text[2 * WEIR_DURATION_SIZE + 64], min[WEIR_DURATION_SIZE], max[WEIR_DURATION_SIZE];
    uint64_t ns = 0;
    if (weir_duration_parse(value, &ns, &fault) != 0)
        return weir_option_wrong(option, fault.text);
    *ret_ms = ns / WEIR_NS_PER_MS;
    if (ns % WEIR_NS_PER_MS == 0 && *ret_ms >= min_ms && *ret_ms <= max_ms)
        return 0;
    weir_period_format(min_ms * WEIR_NS_PER_MS, min, sizeof(min));
    weir_period_format(max_ms * WEIR_NS_PER_MS, max, sizeof(max));
    (void)snprintf(text, sizeof(text), "must be whole milliseconds, %s to %s", min, max);
    return weir_option_wrong(option, text);
}

static int duration_read(void *plan, const char *option, char *value)
{
    uint64_t ms = 0;
    int failed = time_read(option, value, 100, WEIR_READS_DURATION_MAX_S * 1000, &ms);
    ((struct weir_reads_plan *)plan)->duration_ns = ms * WEIR_NS_PER_MS;
    return failed;
}

static int wait_read(void *plan, const char *option, char *value)
{
    uint64_t ms = 0;
    int failed = time_read(option, value, 1, WEIR_SESSION_WAIT_MAX_MS, &ms);
    ((struct weir_reads_plan *)plan)->wait_ms = (unsigned)ms;
    return failed;
}

static int window_read(void *plan, const char *option, char *value)
{
    uint64_t ms = 0;
    int failed = time_read(option, value, 1, 3600000, &ms);
    ((struct weir_reads_plan *)plan)->window_ms = (unsigned)ms;
    return failed;
}

static int strategies_read(void *data, const char *option, char *value)
{
    struct weir_reads_plan *plan = data;
    memset(plan->modes, 0, sizeof(plan->modes));
    for (const char *at = value;; at++) {
        size_t size = strcspn(at, ",");
        int mode = 0;
        while (mode < WEIR_READS_MODES &&
               (strlen(weir_reads_mode_name(mode)) != size || strncmp(weir_reads_mode_name(mode), at, size) != 0))
            mode++;
        if (mode == WEIR_READS_MODES)
            return weir_option_wrong(option, "are some of plain,sticky,window,physical,lamport,tracked");
        plan->modes[mode] = true;
        at += size;
        if (*at == '\0')
            return 0;
    }
}

static int server_read(struct weir_reads_plan *plan, const char *option, unsigned server, const char *value)
{
    if (server >= WEIR_READS_SERVERS_MAX)
        return weir_option_wrong(option, "may be given 16 times");
    /* What is not understood is not shown: there may be a password in it. */
    if (weir_reads_name(value, plan->names[server], sizeof(plan->names[server])) != 0)
        return weir_option_wrong(option, "must be postgresql://user@host:port/db or \"host=… port=… dbname=…\"");
    for (unsigned i = 1; plan->conninfos[0] && i < server; i++) {
        if (strcmp(plan->names[i], plan->names[server]) == 0)
            return weir_option_wrong(option, "is given twice for the same address");
    }
    plan->conninfos[server] = value;
    return 0;
}

static int primary_read(void *plan, const char *option, char *value)
{
    return server_read(plan, option, 0, value);
}

static int replica_read(void *plan, const char *option, char *value)
{
    return server_read(plan, option, ((struct weir_reads_plan *)plan)->server_count++, value);
}

static int plan_run(const struct weir_reads_plan *plan)
{
    /* A write has a read after it. */
    double most = 2.0 * plan->rate * plan->sessions * weir_reads_mode_count(plan) * (double)plan->duration_ns / 1e9;
    if (!plan->conninfos[0])
        return weir_option_wrong("primary", "is missing (try weir reads --help)");
    if (plan->server_count < 2)
        return weir_option_wrong("replica", "is missing (try weir reads --help)");
    if (most > WEIR_READS_OPS_MAX)
        return weir_option_wrong("duration",
                                 "times --rate, --sessions and strategies is more than 2 million reads and writes");
    return weir_reads_run(plan);
}

static int check(int argc, char **argv)
{
    struct weir_reads_plan plan = { .server_count = 1,
                                    .duration_ns = 30 * 1000 * WEIR_NS_PER_MS,
                                    .sessions = 4,
                                    .rate = 10,
                                    .writes_percent = 10,
                                    .wait_ms = 500,
                                    .window_ms = 1000,
                                    .modes = { true, true, true, true, true, true } };
    const struct weir_option options[] = {
        { "primary", .read = primary_read },
        { "replica", .read = replica_read },
        { "duration", .read = duration_read },
        { "sessions", .count = &plan.sessions, .least = 1, .most = WEIR_READS_SESSIONS_MAX, .unshown = true },
        { "rate", .count = &plan.rate, .least = 1, .most = WEIR_READS_RATE_MAX, .unshown = true },
        { "writes", .count = &plan.writes_percent, .least = 1, .most = 90, .unshown = true },
        { "wait", .read = wait_read },
        { "window", .read = window_read },
        { "strategies", .read = strategies_read },
        { "plot", .text = &plan.plot },
        { "json", .given = &plan.json },
        { "keep", .given = &plan.keep },
        WEIR_OPTIONS_HELP,
    };
    const int read = weir_options_read(argc, argv, options, &plan, help, "weir reads --help");
    if (read != WEIR_OPTIONS_READ)
        return read;
    if (optind < argc) {
        fprintf(stderr, "weir: %s is one argument too many\n", argv[optind]);
        return WEIR_EXIT_ERROR;
    }
    return plan_run(&plan);
}

int weir_cli_reads(int argc, char **argv)
{
    static const char *const words[] = { "check", NULL };
    const char *verb = argc > 1 ? argv[1] : "";
    if (strcmp(verb, "check") == 0)
        return check(argc - 1, argv + 1);
    return weir_word_none(argv[0], verb, words, help);
}
