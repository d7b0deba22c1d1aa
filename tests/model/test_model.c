/* SPDX-License-Identifier: Apache-2.0
 *
 * core/limit against its two references over hard random streams: no verdict may differ in any field from the naive one
 * with the same rounding, nor be above the promise or more than 0.1 % below it in exact rationals.
 *
 *     test_model ALGORITHM [--ops N] [--seed S]
 *
 * Without --ops, WEIR_TEST_EFFORT chooses: short 100,000, soak 12,000,000, else 1,000,000. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lockstep.h"

#define EPISODE_OPS 500 /* operations on one key under one limit and its reloads */

static uint64_t default_ops(void)
{
    return test_effort(100000, 1000000, 12000000);
}

static double share(uint64_t part, uint64_t whole)
{
    return whole > 0 ? 100.0 * (double)part / (double)whole : 0;
}

/* One share, and whether it lies where a hard stream has it. */
static bool check_share(const char *name, uint64_t part, uint64_t whole, double low, double high)
{
    double percent = share(part, whole);
    bool good = percent >= low && percent <= high;
    printf("  %-28s %6.2f %%%s\n", name, percent, good ? "" : "  <-- the stream is not hard enough");
    return good;
}

static bool check_shares(const struct shares *s)
{
    bool good = check_share("refused", s->refused, s->judged, 30, 70);
    good &= check_share("never", s->never, s->judged, 0.5, 20);
    good &= check_share("within 1 ns of a boundary", s->boundary, s->judged, 10, 100);
    good &= check_share("stale clock", s->stale, s->ops, 5, 20);
    good &= check_share("clock jumps", s->jumps, s->ops, 1, 10);
    good &= check_share("reloads", s->reloads, s->ops, 0.9, 10);
    good &= check_share("  of them below what is used", s->in_debt, s->reloads, 1, 100);
    good &= check_share("refunds", s->refunds, s->ops, 1, 10);
    good &= check_share("refused attempts charged", s->drained, s->ops, 1, 40);
    good &= check_share("held to the exact promise", s->promised, s->judged, 30, 100);
    good &= check_share("fresh key forgotten", s->forgotten, s->ops, 0.1, 50);
    return good;
}

static bool run(enum weir_algorithm algorithm, uint64_t seed, uint64_t ops)
{
    struct shares shares = { 0 };
    struct lockstep lockstep;
    bool good = true;
    lockstep_create(&lockstep, &shares);
    for (uint64_t episode = 0; good && shares.ops < ops; episode++) {
        struct test_random random = { seed ^ episode * UINT64_C(0xd1342543de82ef95) };
        uint64_t episode_seed = episode == 0 ? seed : test_random_u64(&random);
        lockstep_start(&lockstep, episode_seed, algorithm);
        for (int i = 0; good && i < EPISODE_OPS && shares.ops < ops; i++) {
            good = lockstep_step(&lockstep);
            if (!good) {
                printf("at operation %d of episode %" PRIu64 "; again with --seed %" PRIu64 " --ops %d\n", i, episode,
                       episode_seed, i + 1);
            }
        }
    }
    lockstep_destroy(&lockstep);
    printf("%s: %" PRIu64 " operations, %s\n", weir_algorithm_name(algorithm), shares.ops,
           good ? "no difference" : "DIFFERENT");
    return (check_shares(&shares) || shares.ops < 500000) && good;
}

static bool parse_algorithm(const char *name, enum weir_algorithm *ret_algorithm)
{
    for (int i = 0; i <= WEIR_SLIDING_COUNTER; i++) {
        if (strcmp(weir_algorithm_name((enum weir_algorithm)i), name) == 0) {
            *ret_algorithm = (enum weir_algorithm)i;
            return true;
        }
    }
    return false;
}

int main(int argc, char **argv)
{
    enum weir_algorithm algorithm = WEIR_TOKEN_BUCKET;
    uint64_t ops = default_ops();
    uint64_t seed = 0;
    bool seeded = false;
    bool good = argc >= 2 && argc % 2 == 0 && parse_algorithm(argv[1], &algorithm);
    for (int i = 2; good && i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--ops") == 0) {
            ops = strtoull(argv[i + 1], NULL, 0);
        } else if (strcmp(argv[i], "--seed") == 0) {
            seed = strtoull(argv[i + 1], NULL, 0);
            seeded = true;
        } else {
            good = false;
        }
    }
    if (!good) {
        fprintf(stderr, "usage: test_model ALGORITHM [--ops N] [--seed S]\n");
        return 2;
    }
    seed = seeded ? seed : test_random_seed();
    return run(algorithm, seed, ops) ? 0 : 1;
}
