/* SPDX-License-Identifier: Apache-2.0
 *
 * `weir sim --locks`, called by sim.c: runs one seed and prints what happened, or a range of seeds until one is broken,
 * and prints their sums. The run, its checks and the mistakes that can be planted are in sim/locks.h. */
#include <inttypes.h>
#include <stdio.h>

#include "base/plural.h"
#include "cli/sim_flags.h"
#include "cli/verbs.h"
#include "sim/locks.h"

static const char help[] =
    "Usage: weir sim --locks [--seed N | --from A --to B] [--plant NAME]\n"
    "\n"
    "Runs clients, the lock managers of 1 to 3 weirs over one store, and a resource of 1 to 5 replicas in virtual\n"
    "time on the code that weir serve runs, with pauses, late and lost messages, clients that wait, go away and come\n"
    "back, kills, clocks that step, and a store that stalls, fails and forgets; the same seed always gives the same\n"
    "run. With --from and --to: the seeds from A up to and without B, until one is broken.\n"
    "\n"
    "  --plant NAME   a mistake that the checks must find: install-late, no-raise, renew-late, not-durable,\n"
    "                 install-short, read-short, plain-read, no-write-back\n"
    "\n"
    "Exit code: 0 everything held, 1 something was broken, 2 wrong arguments.\n";

static const char *plant_name(unsigned plant)
{
    return weir_sim_locks_plant_name((enum weir_sim_locks_plant)plant);
}

static void run_show(uint64_t seed, unsigned plant, const struct weir_sim_locks_result *result)
{
    printf("seed %" PRIu64 ": %" PRIu32 " clients, %" PRIu32 " replicas (install %" PRIu32 ", read %" PRIu32
           ", write %" PRIu32 "), plant %s\n",
           seed, result->clients, result->replicas, result->install, result->read, result->write, plant_name(plant));
    printf("  %" PRIu32 " weir%s, %" PRIu32 " visitor%s, the store %s; %" PRIu64 " requests in %" PRIu64
           " batches, %" PRIu64 " granted after a wait, %" PRIu64 " left by their clients, %" PRIu64 " killed\n",
           result->weirs, weir_s(result->weirs), result->visitors, weir_s(result->visitors),
           result->shared ? "shared" : "embedded", result->requests, result->batches, result->waited, result->gone,
           result->unanswered);
    printf("  %" PRIu64 " grants, %" PRIu64 " renewals, %" PRIu64 " lost; %" PRIu64 " writes acknowledged, %" PRIu64
           " fenced, %" PRIu64 " unknown\n",
           result->grants, result->renewals, result->lost, result->acknowledged, result->fenced, result->unknown);
    printf("  %" PRIu64 " pauses, %" PRIu64 " kills of a weir, %" PRIu64 " failovers that forgot %" PRIu64 " grants\n",
           result->pauses, result->restarts, result->failovers, result->forgotten);
    if (result->broken)
        printf("  BROKEN after %.3f s: %s\n", (double)result->broken_ns / 1e9, result->broken);
    else
        puts("  everything held");
}

static int soak(const struct weir_sim_flags *flags)
{
    struct weir_sim_locks_result result = { .broken = NULL }, sum = { .broken = NULL };
    uint64_t seed = flags->from;
    for (; seed < flags->to && !result.broken; seed++) {
        weir_sim_locks_run(seed, (enum weir_sim_locks_plant)flags->plant, &result);
        sum.requests += result.requests;
        sum.waited += result.waited;
        sum.grants += result.grants;
        sum.acknowledged += result.acknowledged;
        sum.fenced += result.fenced;
        sum.pauses += result.pauses;
        sum.restarts += result.restarts;
        sum.forgotten += result.forgotten;
    }
    if (result.broken)
        run_show(seed - 1, flags->plant, &result);
    printf("%" PRIu64 " run%s: %" PRIu64 " requests, %" PRIu64 " granted after a wait, %" PRIu64 " grants, %" PRIu64
           " writes acknowledged, %" PRIu64 " fenced, %" PRIu64 " pauses, %" PRIu64 " kills, %" PRIu64
           " grants forgotten; %s\n",
           seed - flags->from, weir_s(seed - flags->from), sum.requests, sum.waited, sum.grants, sum.acknowledged,
           sum.fenced, sum.pauses, sum.restarts, sum.forgotten, result.broken ? "BROKEN" : "everything held");
    return result.broken ? WEIR_EXIT_REFUSED : WEIR_EXIT_OK;
}

int weir_cli_sim_locks(int argc, char **argv)
{
    struct weir_sim_flags flags;
    if (!weir_sim_flags_read(argc, argv, "locks", plant_name, &flags))
        return WEIR_EXIT_ERROR;
    if (flags.help) {
        fputs(help, stdout);
        return WEIR_EXIT_OK;
    }
    if (flags.to > 0)
        return soak(&flags);
    struct weir_sim_locks_result result;
    weir_sim_locks_run(flags.seed, (enum weir_sim_locks_plant)flags.plant, &result);
    run_show(flags.seed, flags.plant, &result);
    return result.broken ? WEIR_EXIT_REFUSED : WEIR_EXIT_OK;
}
