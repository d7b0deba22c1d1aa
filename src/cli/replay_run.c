/* SPDX-License-Identifier: Apache-2.0
 *
 * The order of a replay: load the configurations, so that it is known which attributes matter; open the files, so that
 * it is known whether lines tell durations; decide and count every line; with --suggest make the proposals and decide
 * the same lines by them; show. Called by replay.c. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/plain.h"
#include "cli/replay.h"
#include "cli/verbs.h"

#define LOOK_LINES 32768 /* between two looks at the clock, for the progress */
#define SHOW_NS (WEIR_NS_PER_SECOND / 2)

struct run {
    const struct weir_replay_plan *plan;
    struct weir_replay_names names;
    struct weir_replay_set sets[WEIR_REPLAY_SIDES];
    struct weir_replay_source *source;
    struct weir_replay_counts counts, tried; /* of the first and the second reading */
    struct weir_replay_demands *demands;
    struct weir_replay_advice advice;
    uint64_t begun_ns, shown_ns;
    bool terminal;
};

static bool no_memory(void)
{
    fputs("weir: out of memory\n", stderr);
    return false;
}

/* ---- progress ---- */

static void progress_show(struct run *run, const char *what, uint64_t lines)
{
    uint64_t now_ns = weir_time_read().now_ns, read = 0, size = 0;
    if (!run->terminal || now_ns - run->shown_ns < SHOW_NS)
        return;
    run->shown_ns = now_ns;
    weir_replay_source_progress(run->source, &read, &size);
    fprintf(stderr, "\r\033[K%s %" PRIu64 " lines, %.0f a second", what, lines,
            (double)lines * 1e9 / (double)(now_ns - run->begun_ns));
    if (size > 0 && read <= size)
        fprintf(stderr, ", %.0f %%", 100 * (double)read / (double)size);
}

static void progress_end(const struct run *run)
{
    if (run->terminal)
        fputs("\r\033[K", stderr);
}

/* ---- the first reading ---- */

static void count(struct run *run, const struct weir_replay_read *read, const bool admitted[WEIR_REPLAY_SIDES],
                  uint64_t now_ns)
{
    struct weir_replay_counts *counts = &run->counts;
    const struct weir_access_line *line = read->line;
    struct weir_replay_route *route = weir_replay_route_find(counts, line->values[run->names.route], run->plan->depth);
    struct weir_replay_minute *minute = weir_replay_minute_find(counts, now_ns);
    route->asked++;
    if (minute)
        minute->asked++;
    for (int side = 0; side < WEIR_REPLAY_SIDES; side++) {
        if (admitted[side])
            continue;
        route->refused[side]++;
        if (minute)
            minute->refused[side]++;
        counts->only[side] += admitted[WEIR_REPLAY_SIDES - 1 - side];
        weir_replay_refusal_count(counts, &run->sets[side], (enum weir_replay_side)side, &run->names, line);
    }
    counts->without_duration += !line->has_duration;
    if (run->demands)
        weir_replay_demand_count(run->demands, run->plan, &run->names, line, counts, route, now_ns);
}

static void first_reading(struct run *run)
{
    struct weir_replay_read read;
    while (weir_replay_source_next(run->source, &read)) {
        bool admitted[WEIR_REPLAY_SIDES] = { true, true };
        uint64_t now_ns = weir_replay_counts_time(&run->counts, &read);
        for (int side = 0; side < WEIR_REPLAY_SIDES; side++) {
            if (!run->sets[side].rules)
                continue;
            admitted[side] = weir_replay_set_decide(&run->sets[side], &run->names, read.line, now_ns);
        }
        count(run, &read, admitted, now_ns);
        if (run->counts.lines % LOOK_LINES == 0)
            progress_show(run, "read", run->counts.lines);
    }
    progress_end(run);
}

/* ---- the second ---- */

static bool second_reading(struct run *run, struct weir_replay_set *set)
{
    struct weir_replay_counts *counts = &run->tried;
    struct weir_replay_read read;
    if (!weir_replay_counts_init(counts))
        return no_memory();
    run->begun_ns = weir_time_read().now_ns;
    while (weir_replay_source_next(run->source, &read)) {
        uint64_t now_ns = weir_replay_counts_time(counts, &read);
        if (!weir_replay_set_decide(set, &run->names, read.line, now_ns))
            weir_replay_refusal_count(counts, set, WEIR_REPLAY_NEW, &run->names, read.line);
        if (counts->lines % LOOK_LINES == 0)
            progress_show(run, "tried on", counts->lines);
    }
    progress_end(run);
    struct weir_limiter_stats stats;
    weir_limiter_stats(set->limiter, &stats);
    run->advice.evicted = stats.evicted;
    for (size_t i = 0; i < run->advice.count; i++) {
        run->advice.list[i].refused = set->limits[i].refused;
        run->advice.list[i].keys_hit = set->limits[i].keys_refused;
        run->advice.list[i].asked = set->limits[i].asked;
    }
    return !weir_replay_source_failed(run->source);
}

static bool out_write(const struct run *run)
{
    FILE *out = run->plan->out ? fopen(run->plan->out, "w") : NULL;
    if (!run->plan->out)
        return true;
    bool bad = !out || fwrite(run->advice.yaml, 1, run->advice.yaml_size, out) != run->advice.yaml_size;
    bad = (out && fclose(out) != 0) || bad;
    if (bad)
        weir_plain_line(stderr, "weir: %s: %s", run->plan->out, strerror(errno));
    return !bad;
}

static bool advise(struct run *run)
{
    struct weir_replay_set set = { 0 };
    if (!weir_replay_advise(run->demands, run->plan, &run->counts, &run->advice))
        return no_memory();
    const struct weir_slice text = { run->advice.yaml, run->advice.yaml_size };
    bool good = weir_replay_set_parse(&set, "the proposal", text, &run->names) && weir_replay_set_begin(&set, true) &&
                weir_replay_source_rewind(run->source) && second_reading(run, &set) && out_write(run);
    weir_replay_set_deinit(&set);
    return good;
}

/* ---- all of it ---- */

/* The route is always looked at, for the table. */
static bool names_init(struct run *run)
{
    const struct weir_replay_plan *plan = run->plan;
    struct weir_replay_names *names = &run->names;
    names->list[names->count++] = "route";
    if (plan->config && !weir_replay_set_load(&run->sets[WEIR_REPLAY_NEW], plan->config, plan->node, names))
        return false;
    if (plan->beside && !weir_replay_set_load(&run->sets[WEIR_REPLAY_BESIDE], plan->beside, plan->node, names))
        return false;
    for (size_t i = 0; i < plan->keys_count && plan->suggest; i++) {
        size_t number = 0;
        while (number < names->count && strcmp(names->list[number], plan->keys[i]) != 0)
            number++;
        if (number == WEIR_ACCESS_WANTED_MAX) {
            fprintf(stderr, "weir: more than %d attributes are looked at\n", WEIR_ACCESS_WANTED_MAX);
            return false;
        }
        names->list[number] = plan->keys[i];
        names->count += number == names->count;
    }
    return true;
}

static bool begin(struct run *run)
{
    if (!names_init(run))
        return false;
    const struct weir_config *config = run->sets[WEIR_REPLAY_NEW].config ? run->sets[WEIR_REPLAY_NEW].config
                                                                         : run->sets[WEIR_REPLAY_BESIDE].config;
    const struct weir_access_options options = { .wanted = run->names.list,
                                                 .wanted_count = run->names.count,
                                                 .maps = run->plan->maps,
                                                 .maps_count = run->plan->maps_count,
                                                 .path = config ? config->http_rules.path : WEIR_PATH_NORMALISE };
    run->source = weir_replay_source_open(run->plan, &options, run->plan->suggest);
    if (!run->source)
        return false;
    for (int side = 0; side < WEIR_REPLAY_SIDES; side++)
        if (run->sets[side].config &&
            !weir_replay_set_begin(&run->sets[side], weir_replay_source_durations(run->source)))
            return false;
    run->demands = run->plan->suggest ? weir_replay_demands_create() : NULL;
    bool good = weir_replay_counts_init(&run->counts) && (run->demands || !run->plan->suggest);
    return good || no_memory();
}

static int show(struct run *run, double seconds)
{
    const struct weir_replay_report report = {
        .plan = run->plan,
        .sets = run->sets,
        .counts = &run->counts,
        .tried = &run->tried,
        .bad = weir_replay_source_bad(run->source),
        .format = weir_replay_source_format(run->source),
        .advice = run->plan->suggest ? &run->advice : NULL,
        .durations = weir_replay_source_durations(run->source),
        .seconds = seconds,
    };
    bool good = run->plan->json ? weir_replay_print_json(&report) : weir_replay_print(&report);
    if (good && (fflush(stdout) != 0 || ferror(stdout))) {
        fprintf(stderr, "weir: standard output: %s\n", strerror(errno));
        good = false;
    }
    if (!good)
        return WEIR_EXIT_ERROR;
    if (run->plan->plot && weir_replay_plot(&report) != 0) {
        weir_plain_line(stderr, "weir: %s: %s", run->plan->plot, strerror(errno));
        return WEIR_EXIT_ERROR;
    }
    weir_replay_broken_print(stderr, "weir: ", report.bad);
    return report.bad->broken_count > 0 ? WEIR_EXIT_PART : WEIR_EXIT_OK;
}

static void run_deinit(struct run *run)
{
    for (int side = 0; side < WEIR_REPLAY_SIDES; side++)
        weir_replay_set_deinit(&run->sets[side]);
    weir_replay_source_close(run->source);
    weir_replay_counts_deinit(&run->counts);
    weir_replay_counts_deinit(&run->tried);
    weir_replay_demands_destroy(run->demands);
    weir_replay_advice_deinit(&run->advice);
    free(run);
}

int weir_replay_run(const struct weir_replay_plan *plan)
{
    struct run *run = calloc(1, sizeof(*run));
    int code = WEIR_EXIT_ERROR;
    if (!run) {
        (void)no_memory();
        return code;
    }
    run->plan = plan;
    run->terminal = isatty(STDERR_FILENO);
    if (begin(run)) {
        run->begun_ns = run->shown_ns = weir_time_read().now_ns;
        first_reading(run);
        double seconds = (double)(weir_time_read().now_ns - run->begun_ns) / 1e9;
        bool good = !weir_replay_source_failed(run->source);
        if (good && plan->suggest)
            good = advise(run);
        code = good ? show(run, seconds) : WEIR_EXIT_ERROR;
    }
    run_deinit(run);
    return code;
}
