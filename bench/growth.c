/* SPDX-License-Identifier: Apache-2.0
 *
 * bench_growth KEYS: a table from its first key to KEYS keys that all stay live, with weir_limiter_maintain called
 * from a timer as its header asks. Prints one line: the bytes of memory that a key has cost at the end and at worst on
 * the way (of the whole process, from what it took before the limiter was made; counted from a tenth of KEYS on), how
 * many keys are held, and the longest single decisions by the wall clock and by this thread's own processor time
 * (which other processes cannot lengthen). */
#include "histogram.h"
#include "measure.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "weir/limiter.h"

#define BYTES_PER_KEY 32
#define LOOK_EVERY 16384
#define DAY_NS (86400 * WEIR_NS_PER_SECOND)

struct worst {
    uint64_t wall_ns;
    uint64_t cpu_ns;
    struct histogram wall;
};

static void check(int error, const char *what)
{
    if (error != 0) {
        fprintf(stderr, "%s: %s\n", what, weir_error_text(error));
        exit(1);
    }
}

struct upkeep {
    struct weir_limiter *limiter;
    atomic_bool done;
};

static void *maintain(void *argument)
{
    struct upkeep *upkeep = argument;
    while (!atomic_load(&upkeep->done)) {
        weir_limiter_maintain(upkeep->limiter, NULL, 4096);
        usleep(10000);
    }
    return NULL;
}

static bool insert(struct weir_limiter *limiter, weir_limit_id limit, uint64_t number, struct worst *worst)
{
    struct weir_charge charge = { .limit = limit, .cost = 1 };
    struct weir_slice value = { &number, sizeof number };
    struct weir_decision decision;
    struct weir_verdict verdict;
    check(weir_limiter_key(limiter, limit, &value, 1, &charge.key), "key");

    uint64_t cpu_ns = measure_clock_ns(CLOCK_THREAD_CPUTIME_ID);
    uint64_t wall_ns = measure_now_ns();
    check(weir_limiter_decide(limiter, &charge, 1, NULL, 0, &decision, &verdict), "decide");
    wall_ns = measure_now_ns() - wall_ns;
    cpu_ns = measure_clock_ns(CLOCK_THREAD_CPUTIME_ID) - cpu_ns;
    worst->wall_ns = wall_ns > worst->wall_ns ? wall_ns : worst->wall_ns;
    worst->cpu_ns = cpu_ns > worst->cpu_ns ? cpu_ns : worst->cpu_ns;
    histogram_add(&worst->wall, wall_ns);
    return decision.admitted;
}

int main(int argc, char **argv)
{
    static struct worst worst;
    uint64_t keys = measure_argument(argc, argv, 1, 1000, 100000000, "KEYS");
    struct weir_limit_def def = { .name = "daily", .spec = { .count = 10, .period_ns = DAY_NS } };
    struct weir_limiter_options options = { .memory_max = keys * BYTES_PER_KEY };
    struct weir_limiter_stats stats;
    struct upkeep upkeep = { 0 };
    pthread_t thread;
    struct weir_limiter *limiter;
    weir_limit_id limit;
    double most = 0;

    memset(&worst, 0, sizeof worst); /* its pages count as ours, not the limiter's */
    uint64_t before = measure_resident_bytes();
    if (options.memory_max < WEIR_MEMORY_MIN) {
        options.memory_max = WEIR_MEMORY_MIN;
    }
    check(weir_limiter_create(&options, &limiter, NULL), "create");
    check(weir_limiter_define(limiter, &def, 1, NULL, &limit, NULL), "define");
    upkeep.limiter = limiter;
    if (pthread_create(&thread, NULL, maintain, &upkeep) != 0) {
        perror("pthread_create");
        return 1;
    }
    for (uint64_t i = 1; i <= keys; i++) {
        if (!insert(limiter, limit, i, &worst)) {
            fputs("a fresh key was refused\n", stderr);
            return 1;
        }
        if (i >= keys / 10 && i % LOOK_EVERY == 0) {
            double bytes = (double)(measure_resident_bytes() - before) / (double)i;
            most = bytes > most ? bytes : most;
        }
    }
    atomic_store(&upkeep.done, true);
    pthread_join(thread, NULL);
    weir_limiter_stats(limiter, &stats);
    printf("bytes %.4g bytes_most %.4g held %" PRIu64 " evicted %" PRIu64
           " worst_us %.4g worst_cpu_us %.4g p9999_us %.4g\n",
           (double)(measure_resident_bytes() - before) / (double)stats.keys, most, stats.keys, stats.evicted,
           (double)worst.wall_ns / 1e3, (double)worst.cpu_ns / 1e3,
           (double)histogram_percentile(&worst.wall, 9999) / 1e3);
    weir_limiter_destroy(limiter);
    return 0;
}
