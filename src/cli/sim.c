/* SPDX-License-Identifier: Apache-2.0
 *
 * The verb `weir sim` for limits, called by sim_main.c. It draws a plan from the seed (sim/plan.h), changes in it what
 * the options say, and runs it once or for a range of seeds; or it runs a scenario file. The simulator is in sim/, the
 * text about a run in sim_report.c. --locks and --sessions go to sim_locks.c and sim_sessions.c. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/option.h"
#include "cli/sim_flags.h"
#include "cli/sim_report.h"
#include "cli/verbs.h"
#include "rules/config.h"
#include "sim/modes.h"
#include "sim/picture.h"
#include "sim/scenario.h"

#define MODES "exact, leased, batched, split, gossip, leased-host, batched-host, gossip-host or exact-host"
static const char help[] =
    "Usage: weir sim [OPTION ...]\n"
    "       weir sim [--plot FILE] SCENARIO\n"
    "       weir sim --locks [OPTION ...]      locks instead of limits; weir sim --locks --help\n"
    "       weir sim --sessions [OPTION ...]   sessions; weir sim --sessions --help\n"
    "\n"
    "Runs N nodes, an engine, clients and a network in virtual time on the code that weir serve runs, and checks\n"
    "after every admission that the stated bound of the mode holds. What the options leave open follows from the "
    "seed:\n"
    "the same seed always gives the same run.\n"
    "\n"
    "  --mode MODE         " MODES " (leased)\n"
    "  --seed N            chooses nodes, limit, network, faults and demand (1)\n"
    "  --nodes N           1 to 64;  --slack N  units of one node (batched, gossip)\n"
    "  --limit RATE        such as 100/s; --burst N\n"
    "  --algorithm NAME    token_bucket, leaky_bucket, fixed_window, sliding_counter, sliding_log; without --limit "
    "the\n"
    "                      seed draws the rest of the limit\n"
    "  --seconds N         how long; what liveness is judged by is in the last seconds of the drawn length\n"
    "  --clients N         instead of the drawn demand: N requests a second at each node, steadily\n"
    "  --latency TIME      one way, at most;  --loss N  messages in a million that are lost\n"
    "  --faults none       no drawn faults\n"
    "  --partition F-U:N   nodes N (0,3-5) cut off from F to U seconds; may be given several times\n"
    "  --plot FILE         a picture of the run or the scenario, SVG;  --write FILE  the plan of the run, as a "
    "scenario\n"
    "  --json              the result as JSON\n"
    "  --soak --from A --to B   the seeds from A up to and without B; a failing one is shrunk\n"
    "  --plant NAME        a mistake that the check must find: sequence, epoch, return, overwrite, twin\n"
    "  --only-nodes N, --without-faults LIST, --without-loads LIST, --until-ns N   of a shrunk run\n"
    "\n"
    "Exit code: 0 the bound held, 1 it was broken, 2 wrong arguments.\n"
    "\n"
    "Examples:\n"
    "  weir sim --mode gossip --nodes 50 --seed 7 --plot gossip.svg\n"
    "  weir sim --mode batched --limit 100/s --burst 50 --clients 40 --partition 2-4:0,1\n"
    "  weir sim --soak --mode leased --from 1 --to 1001\n"
    "  weir sim sim/scenarios/stale-cache\n";

struct flags {
    const struct weir_sim_mode *mode;
    struct weir_sim_fixed fixed;
    struct weir_sim_reduction reduction;
    struct weir_limit_spec limit; /* as far as it was given */
    enum weir_sim_plant plant;
    uint64_t seed, from, to, seconds, clients, latency_ns, loss_ppm;
    bool algorithm, no_faults, json, soak, loss, help;
    const char *plot, *write, *range; /* the option by which one was given */
    struct weir_sim_fault partitions[8];
    uint32_t partitions_count;
    char options[512]; /* what shapes a plan besides mode and seed, to be repeated */
};

static int complain(const char *option, const char *value, const char *what)
{
    fprintf(stderr, "weir: --%s%s%s: %s\n", option, *value ? " " : "", value, what);
    return WEIR_EXIT_ERROR;
}

/* "0,3-5" */
static int mask_read(const char *option, const char *text, uint64_t *ret_mask)
{
    uint64_t mask = 0;
    for (const char *at = text;; at++) {
        char *end = NULL;
        unsigned long first = strtoul(at, &end, 10), last = first;
        if (end != at && *end == '-') {
            at = end + 1;
            last = strtoul(at, &end, 10);
        }
        if (end == at || *at < '0' || *at > '9' || last > 63 || first > last)
            return complain(option, text, "must be numbers below 64, such as 0,3-5");
        for (; first <= last; first++)
            mask |= UINT64_C(1) << first;
        at = end;
        if (*at != ',')
            break;
    }
    *ret_mask = mask;
    return 0;
}

/* "2-4:0,1" */
static int partition_read(void *data, const char *option, char *text)
{
    struct flags *flags = data;
    static const char what[] = "must be FROM-UNTIL:NODES in seconds, such as 2-4.5:0,1";
    char *end = NULL;
    double from = strtod(text, &end), until = *end == '-' ? strtod(end + 1, &end) : -1;
    if (*end != ':' || !(from >= 0 && from < until && until < 4000))
        return complain(option, text, what);
    if (flags->partitions_count == sizeof(flags->partitions) / sizeof(flags->partitions[0]))
        return complain(option, text, "there are eight already");
    struct weir_sim_fault *fault = &flags->partitions[flags->partitions_count];
    *fault = (struct weir_sim_fault){ .from_ns = (uint64_t)(from * 1e9), .until_ns = (uint64_t)(until * 1e9) };
    if (mask_read(option, end + 1, &fault->nodes) != 0)
        return WEIR_EXIT_ERROR;
    flags->partitions_count++;
    return 0;
}

static int algorithm_read(void *data, const char *option, char *text)
{
    struct flags *flags = data;
    const char *name;
    for (int i = 0; (name = weir_algorithm_name((enum weir_algorithm)i)); i++) {
        if (strcmp(name, text) != 0)
            continue;
        flags->limit.algorithm = (enum weir_algorithm)i;
        flags->algorithm = true;
        return 0;
    }
    return complain(option, text, "must be token_bucket, leaky_bucket, fixed_window, sliding_log or sliding_counter");
}

static int limit_read(void *data, const char *option, char *text)
{
    struct flags *flags = data;
    struct weir_limit_spec parsed = { .count = 0 };
    struct weir_fault fault;
    if (weir_rate_parse(text, &parsed, &fault) != 0)
        return complain(option, text, fault.text);
    if (parsed.count == 0 || parsed.count / 1000000 > parsed.period_ns / WEIR_NS_PER_SECOND + 1)
        return complain(option, text, "must be above 0 and at most a million a second: every request is played");
    flags->limit.count = parsed.count;
    flags->limit.period_ns = parsed.period_ns;
    return 0;
}

static int plant_read(void *data, const char *option, char *text)
{
    struct flags *flags = data;
    for (int i = 0; i < WEIR_SIM_PLANTS; i++) {
        if (strcmp(weir_sim_plant_name((enum weir_sim_plant)i), text) != 0)
            continue;
        flags->plant = (enum weir_sim_plant)i;
        return 0;
    }
    return complain(option, text, "must be sequence, epoch, return, overwrite or twin");
}

static int latency_read(void *data, const char *option, char *text)
{
    struct flags *flags = data;
    struct weir_fault fault;
    if (weir_duration_parse(text, &flags->latency_ns, &fault) != 0)
        return complain(option, text, fault.text);
    if (flags->latency_ns == 0 || flags->latency_ns > 600 * WEIR_NS_PER_SECOND)
        return complain(option, text, "must be 1ms to 10min");
    return 0;
}

static int mode_read(void *flags, const char *name, char *value)
{
    const struct weir_sim_mode *mode = weir_sim_mode_find(value);
    ((struct flags *)flags)->mode = mode;
    return mode ? 0 : complain(name, value, "must be " MODES);
}

static int faults_read(void *flags, const char *name, char *value)
{
    ((struct flags *)flags)->no_faults = true;
    return strcmp(value, "none") == 0 ? 0 : complain(name, value, "must be none");
}

static int without_faults_read(void *flags, const char *name, char *value)
{
    return mask_read(name, value, &((struct flags *)flags)->reduction.faults);
}

static int without_loads_read(void *flags, const char *name, char *value)
{
    return mask_read(name, value, &((struct flags *)flags)->reduction.loads);
}

static int flags_read(int argc, char **argv, struct flags *flags)
{
    enum { SHAPES_FIRST = 2, SHAPES_LAST = 12 }; /* those that shape a plan */
    const struct weir_option options[] = {
        { "mode", .read = mode_read },
        { "seed", .number = &flags->seed, .most = UINT64_MAX },
        [SHAPES_FIRST] = { "nodes", .count = &flags->fixed.nodes, .least = 1, .most = WEIR_SIM_NODES_MAX },
        { "limit", .read = limit_read },
        { "burst", .number = &flags->limit.burst, .least = 1, .most = WEIR_BURST_MAX },
        { "algorithm", .read = algorithm_read },
        { "slack", .number = &flags->fixed.slack, .least = 1, .most = WEIR_BURST_MAX },
        { "seconds", .number = &flags->seconds, .least = 1, .most = 3600 },
        { "clients", .number = &flags->clients, .least = 1, .most = 1000000 },
        { "latency", .read = latency_read },
        { "loss", .number = &flags->loss_ppm, .most = 1000000, .given = &flags->loss },
        { "faults", .read = faults_read },
        [SHAPES_LAST] = { "partition", .read = partition_read },
        { "plot", .text = &flags->plot },
        { "write", .text = &flags->write },
        { "json", .given = &flags->json },
        { "soak", .given = &flags->soak },
        { "from", .number = &flags->from, .most = UINT64_MAX },
        { "to", .number = &flags->to, .most = UINT64_MAX },
        { "plant", .read = plant_read },
        { "only-nodes", .count = &flags->reduction.nodes, .least = 1, .most = WEIR_SIM_NODES_MAX },
        { "without-faults", .read = without_faults_read },
        { "without-loads", .read = without_loads_read },
        { "until-ns", .number = &flags->reduction.until_ns, .least = 1, .most = UINT64_C(1) << 41 },
        { "help", .given = &flags->help },
        { .name = NULL },
    };
    for (int next; (next = weir_option_next(argc, argv, options)) != WEIR_OPTIONS_READ;) {
        const char *name = next >= 0 ? options[next].name : NULL;
        if (!name || weir_option_take(&options[next], flags, name, optarg) != 0)
            return WEIR_EXIT_ERROR;
        if (options[next].number == &flags->from || options[next].number == &flags->to)
            flags->range = name;
        size_t used = strlen(flags->options);
        if (next >= SHAPES_FIRST && next <= SHAPES_LAST)
            (void)snprintf(flags->options + used, sizeof(flags->options) - used, " --%s %s", name, optarg);
    }
    if (flags->limit.period_ns == 0 && flags->limit.burst > 0)
        return complain("burst", "", "needs --limit");
    flags->fixed.algorithm = flags->algorithm;
    flags->fixed.limit = flags->limit;
    if (!flags->soak && flags->range)
        return complain(flags->range, "", "goes with --soak; --seed chooses one run");
    if (flags->soak && flags->from >= flags->to)
        return complain("to", "", "must be above --from");
    return 0;
}

/* The plan of one seed, shaped by the options. */
static void plan_make(const struct flags *flags, uint64_t seed, struct weir_sim_plan *plan)
{
    weir_sim_plan_seeded(plan, flags->mode, seed, &flags->fixed);
    plan->plant = flags->plant;
    if (flags->no_faults || flags->partitions_count > 0)
        plan->faults_count = 0;
    for (uint32_t i = 0; i < flags->partitions_count; i++) {
        plan->faults[plan->faults_count] = flags->partitions[i];
        plan->faults[plan->faults_count++].kind = WEIR_SIM_CUT;
        plan->faults[plan->faults_count] = flags->partitions[i];
        plan->faults[plan->faults_count++].kind = WEIR_SIM_SPLIT;
    }
    if (flags->seconds > 0) {
        uint64_t duration_ns = flags->seconds * WEIR_NS_PER_SECOND;
        for (uint32_t i = 0; i < plan->loads_count; i++) {
            if (plan->loads[i].until_ns == plan->duration_ns)
                plan->loads[i].until_ns = duration_ns;
        }
        plan->duration_ns = duration_ns;
        plan->calm_ns = duration_ns > plan->calm_ns + 2 * WEIR_NS_PER_SECOND ? plan->calm_ns : 0;
    }
    if (flags->clients > 0) {
        plan->loads[0] = (struct weir_sim_load){ .nodes = WEIR_SIM_ALL,
                                                 .until_ns = plan->duration_ns,
                                                 .rate_per_s = flags->clients };
        plan->loads_count = 1;
    }
    if (flags->clients > 0 || flags->partitions_count > 0)
        plan->calm_ns = 0; /* demand or faults are the caller's: liveness cannot be told */
    if (flags->latency_ns > 0) {
        plan->latency_max_ns = flags->latency_ns;
        plan->latency_min_ns = plan->latency_min_ns < flags->latency_ns ? plan->latency_min_ns : flags->latency_ns;
    }
    if (flags->loss)
        plan->loss_ppm = (uint32_t)flags->loss_ppm;
    weir_sim_plan_reduce(plan, &flags->reduction);
}

static int run_one(const struct flags *flags)
{
    struct weir_sim_result result = { 0 };
    struct weir_sim_plan plan;
    struct weir_sim_trace trace = { .marks = NULL };
    struct weir_fault fault;
    FILE *file = NULL;
    plan_make(flags, flags->seed, &plan);
    if (flags->write && !weir_sim_report_plan(&plan, flags->seed, flags->write))
        return WEIR_EXIT_ERROR;
    if (weir_sim_run(&plan, flags->plot ? &trace : NULL, &result, &fault) != 0)
        return complain("limit", fault.field, fault.text);
    weir_sim_report_run(&plan, &result, flags->json);
    int code = result.broken ? WEIR_EXIT_REFUSED : WEIR_EXIT_OK;
    if (flags->plot && weir_sim_file_open(flags->plot, &file) != 0) {
        code = WEIR_EXIT_ERROR;
    } else if (flags->plot) {
        weir_sim_picture_write(&plan, &trace, file);
        code = weir_sim_file_close(flags->plot, file) == 0 ? code : WEIR_EXIT_ERROR;
    }
    free(trace.marks);
    return code;
}

static void failure_report(const struct flags *flags, uint64_t seed, const struct weir_sim_plan *plan,
                           enum weir_sim_break kind)
{
    struct weir_sim_result result = { 0 };
    struct weir_sim_command command = { seed, flags->options, weir_sim_shrink(plan, kind) };
    struct weir_sim_plan smaller = *plan;
    struct weir_fault fault;
    weir_sim_plan_reduce(&smaller, &command.reduction);
    (void)weir_sim_run(&smaller, NULL, &result, &fault);
    printf("seed %" PRIu64 " is broken; with what it needs to be:\n\n", seed);
    weir_sim_report_run(&smaller, &result, false);
    printf("\nagain:\n");
    weir_sim_report_command(plan, &command);
    putchar('\n');
    (void)fflush(stdout);
}

/* Shrinks and shows the first failing run; counts the others. */
static int soak(const struct flags *flags)
{
    struct weir_sim_result result = { 0 };
    struct weir_sim_cover cover = { 0 };
    struct weir_sim_plan plan;
    struct weir_fault fault;
    uint64_t began_ns = weir_time_read().now_ns;
    for (uint64_t seed = flags->from; seed < flags->to; seed++) {
        plan_make(flags, seed, &plan);
        if (weir_sim_run(&plan, NULL, &result, &fault) != 0)
            return complain("limit", fault.field, fault.text);
        weir_sim_cover_add(&cover, seed, &plan, &result);
        if (result.broken && cover.broken == 1 && !flags->json)
            failure_report(flags, seed, &plan, result.broken);
        if (result.broken && flags->plant != WEIR_SIM_PLANT_NONE)
            break; /* found */
    }
    weir_sim_report_cover(&plan, &cover, weir_time_read().now_ns - began_ns, flags->json);
    return cover.broken > 0 ? WEIR_EXIT_REFUSED : WEIR_EXIT_OK;
}

static int run_scenario(const struct flags *flags, const char *path)
{
    struct weir_scenario scenario = { 0 };
    struct weir_scenario_row rows[WEIR_SCENARIO_WAYS_MAX];
    struct weir_fault fault;
    char error[256];
    FILE *file = NULL;
    if (weir_scenario_load(path, &scenario, error, sizeof(error)) != 0) {
        fprintf(stderr, "weir: %s\n", error);
        return WEIR_EXIT_ERROR;
    }
    if (weir_scenario_run(&scenario, rows, &fault) != 0)
        return complain("limit", fault.field, fault.text);
    weir_scenario_print(&scenario, rows, stdout);
    int code = WEIR_EXIT_OK;
    for (uint32_t i = 0; i < scenario.ways_count; i++)
        code = rows[i].kept || rows[i].naive ? code : WEIR_EXIT_REFUSED;
    if (flags->plot && weir_sim_file_open(flags->plot, &file) != 0) {
        code = WEIR_EXIT_ERROR;
    } else if (flags->plot) {
        weir_scenario_draw(&scenario, rows, file);
        code = weir_sim_file_close(flags->plot, file) == 0 ? code : WEIR_EXIT_ERROR;
    }
    weir_scenario_rows_deinit(rows, scenario.ways_count);
    return code;
}

int weir_cli_sim(int argc, char **argv)
{
    struct flags flags = { .mode = &weir_sim_leased, .seed = 1, .from = 1, .to = 1001 };
    if (argc > 1 && strcmp(argv[1], "--locks") == 0)
        return weir_cli_sim_locks(argc, argv);
    if (argc > 1 && strcmp(argv[1], "--sessions") == 0)
        return weir_cli_sim_sessions(argc, argv);
    if (flags_read(argc, argv, &flags) != 0) {
        fputs("weir: try weir sim --help\n", stderr);
        return WEIR_EXIT_ERROR;
    }
    if (flags.help) {
        fputs(help, stdout);
        return WEIR_EXIT_OK;
    }
    if (argc - optind > 1) {
        fprintf(stderr, "weir: %s: one scenario at a time\n", argv[optind + 1]);
        return WEIR_EXIT_ERROR;
    }
    if (argc > optind)
        return run_scenario(&flags, argv[optind]);
    return flags.soak ? soak(&flags) : run_one(&flags);
}
