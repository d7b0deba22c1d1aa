/* SPDX-License-Identifier: Apache-2.0
 *
 * `weir sim --sessions`, called by sim.c: runs one seed and prints what happened, or a range of seeds until one is
 * broken, and prints their sums. The run, its checks and the mistakes that can be planted are in sim/sessions.h. */
#include <inttypes.h>
#include <stdio.h>

#include "base/plural.h"
#include "cli/sim_flags.h"
#include "cli/verbs.h"
#include "sim/sessions.h"

static const char help[] =
    "Usage: weir sim --sessions [--seed N | --from A --to B] [--plant NAME]\n"
    "\n"
    "Runs sessions over a replicated database in virtual time, by the policy and the health that weir serve and\n"
    "libweir-session run: standbys that lag, failovers, two promotions of one number, restarts, crashes, connections\n"
    "that break, slow pollers and several weirs. The same seed always gives the same run. With --from and --to: the\n"
    "seeds from A up to and without B, until one is broken.\n"
    "\n"
    "  --plant NAME   a mistake that the checks must find: no-token, no-move, no-check, no-timeline, no-branch,\n"
    "                 no-half, no-run, no-settling, former, for-ever, no-loss, loss-at-once, old-connection;\n"
    "                 known-hole is none of weir's: docs/soak.md tells of it\n"
    "\n"
    "Exit code: 0 everything held, 1 something was broken, 2 wrong arguments.\n";

static const char *plant_name(unsigned plant)
{
    return weir_sim_sessions_plant_name((enum weir_sim_sessions_plant)plant);
}

static void sums_show(const struct weir_sim_sessions_result *result)
{
    printf("  %" PRIu64 " reads (%" PRIu64 " at the primary, %" PRIu64 " stale), %" PRIu64 " writes, %" PRIu64
           " tokens merged; told lost %" PRIu64 ", behind %" PRIu64 ", down %" PRIu64 "\n",
           result->reads, result->at_primary, result->stale, result->writes, result->merged, result->told_lost,
           result->behind, result->down);
    printf("  %" PRIu64 " failovers, %" PRIu64 " crashes, %" PRIu64 " restarts, %" PRIu64 " copies, %" PRIu64
           " starts of a weir, %" PRIu64 " times connections broke\n",
           result->failovers, result->crashes, result->restarts, result->copies, result->weir_starts, result->breaks);
}

static void run_show(uint64_t seed, unsigned plant, const struct weir_sim_sessions_result *result)
{
    printf("seed %" PRIu64 ": %" PRIu32 " servers, %" PRIu32 " weir%s, %" PRIu32 " sessions%s%s, plant %s\n", seed,
           result->servers, result->weirs, weir_s(result->weirs), result->sessions,
           result->calm ? ", nothing can be lost" : "", result->twins ? ", a number may be taken twice" : "",
           plant_name(plant));
    sums_show(result);
    if (result->broken)
        printf("  BROKEN after %.3f s: %s\n", (double)result->broken_ns / 1e9, result->broken);
    else
        puts("  everything held");
}

static void add(struct weir_sim_sessions_result *sum, const struct weir_sim_sessions_result *result)
{
    sum->reads += result->reads;
    sum->at_primary += result->at_primary;
    sum->stale += result->stale;
    sum->writes += result->writes;
    sum->merged += result->merged;
    sum->told_lost += result->told_lost;
    sum->behind += result->behind;
    sum->down += result->down;
    sum->failovers += result->failovers;
    sum->crashes += result->crashes;
    sum->restarts += result->restarts;
    sum->copies += result->copies;
    sum->weir_starts += result->weir_starts;
    sum->breaks += result->breaks;
}

static int soak(const struct weir_sim_flags *flags)
{
    struct weir_sim_sessions_result result = { .broken = NULL }, sum = { .broken = NULL };
    uint64_t seed = flags->from;
    for (; seed < flags->to && !result.broken; seed++) {
        weir_sim_sessions_run(seed, (enum weir_sim_sessions_plant)flags->plant, &result);
        add(&sum, &result);
    }
    if (result.broken)
        run_show(seed - 1, flags->plant, &result);
    printf("%" PRIu64 " run%s: %s\n", seed - flags->from, weir_s(seed - flags->from),
           result.broken ? "BROKEN" : "everything held");
    sums_show(&sum);
    return result.broken ? WEIR_EXIT_REFUSED : WEIR_EXIT_OK;
}

int weir_cli_sim_sessions(int argc, char **argv)
{
    struct weir_sim_flags flags;
    if (!weir_sim_flags_read(argc, argv, "sessions", plant_name, &flags))
        return WEIR_EXIT_ERROR;
    if (flags.help) {
        fputs(help, stdout);
        return WEIR_EXIT_OK;
    }
    if (flags.to > 0)
        return soak(&flags);
    struct weir_sim_sessions_result result;
    weir_sim_sessions_run(flags.seed, (enum weir_sim_sessions_plant)flags.plant, &result);
    run_show(flags.seed, flags.plant, &result);
    return result.broken ? WEIR_EXIT_REFUSED : WEIR_EXIT_OK;
}
