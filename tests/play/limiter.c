/* SPDX-License-Identifier: Apache-2.0
 *
 * limiter COUNT PERIOD_NS BURST: what the library says of one key under one limit, by each algorithm. Reads lines of
 * "c TIME_NS" (a request of cost 1) or "p TIME_NS" (a look) and answers each by a line of five words, one an algorithm:
 * for a request what was said, how long it waits and how much is used; for a look what remains, and the waits until a
 * request may come, until it is full again and until it grows. The page's model must say the same. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "play/play.h"
#include "weir/weir.h"

#define ALGORITHMS 5

static struct weir_limiter *limiter;
static struct weir_charge charges[ALGORITHMS];

static void fail(const char *what)
{
    fprintf(stderr, "limiter: %s\n", what);
    exit(1);
}

static void define(uint64_t count, uint64_t period_ns, uint64_t burst, const struct weir_time *time)
{
    struct weir_limit_def defs[ALGORITHMS] = { 0 };
    weir_limit_id ids[ALGORITHMS];
    struct weir_fault fault;
    for (size_t i = 0; i < ALGORITHMS; i++) {
        defs[i].name = weir_algorithm_name((enum weir_algorithm)i);
        defs[i].spec =
            (struct weir_limit_spec){ .algorithm = (enum weir_algorithm)i, .count = count, .period_ns = period_ns };
        defs[i].spec.burst = i < 2 ? burst : 0;
    }
    const struct weir_limiter_options options = { .memory_max = 64 << 20, .skew_none = true };
    if (weir_limiter_create(&options, &limiter, &fault) != 0 ||
        weir_limiter_define(limiter, defs, ALGORITHMS, time, ids, &fault) != 0)
        fail(fault.text);
    for (size_t i = 0; i < ALGORITHMS; i++) {
        charges[i] = (struct weir_charge){ .limit = ids[i], .cost = 1 };
        if (weir_limiter_key(limiter, ids[i], &(struct weir_slice){ "one", 3 }, 1, &charges[i].key) != 0)
            fail("no key");
    }
}

static void print_ns(uint64_t ns)
{
    if (ns == WEIR_NEVER)
        printf(",never");
    else
        printf(",%" PRIu64, ns);
}

static void answer(size_t i, bool look, const struct weir_time *time)
{
    struct weir_decision decision;
    struct weir_verdict verdict;
    if (weir_limiter_decide(limiter, &charges[i], 1, time, look ? WEIR_PEEK : 0, &decision, &verdict) != 0)
        fail("no decision");
    if (look) {
        printf("%" PRIu64, verdict.remaining);
        print_ns(verdict.admitted ? 0 : verdict.retry_after_ns);
    } else {
        printf("%d", !verdict.admitted ? PLAY_REFUSED : verdict.delay_ns > 0 ? PLAY_DELAYED : PLAY_ADMITTED);
        print_ns(verdict.admitted ? verdict.delay_ns : verdict.retry_after_ns);
        print_ns(verdict.capacity - verdict.remaining);
    }
    putchar(i + 1 < ALGORITHMS ? ' ' : '\n');
}

int main(int argc, char **argv)
{
    if (argc != 4)
        fail("usage: limiter COUNT PERIOD_NS BURST");
    uint64_t period_ns = strtoull(argv[2], NULL, 10), at_ns;
    uint64_t origin_ns = play_origin_ns(period_ns);
    struct weir_time time = { origin_ns, origin_ns };
    char line[64];
    define(strtoull(argv[1], NULL, 10), period_ns, strtoull(argv[3], NULL, 10), &time);
    while (fgets(line, sizeof line, stdin)) {
        at_ns = strtoull(line + 2, NULL, 10);
        time = (struct weir_time){ origin_ns + at_ns, origin_ns + at_ns };
        for (size_t i = 0; i < ALGORITHMS; i++)
            answer(i, line[0] == 'p', &time);
    }
    weir_limiter_destroy(limiter);
    return 0;
}
