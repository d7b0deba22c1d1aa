/* SPDX-License-Identifier: Apache-2.0
 *
 * bench_instructions CASE: so many decisions on a bucket that is resident, for callgrind to count what they cost
 * (instructions.py). What is counted stands in `counted`; the case "nothing" is what the loop itself costs. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "measure.h"
#include "weir/limiter.h"

#define DECISIONS 3200
#define BATCH 32
#define NOW_NS (1000 * WEIR_NS_PER_SECOND)

struct subject {
    struct weir_limiter *limiter;
    struct weir_time time;
    struct weir_charge charges[BATCH]; /* one for each key */
    const char *name;
};

static void keep_decision(const struct subject *subject, size_t at)
{
    struct weir_decision decision;
    struct weir_verdict verdict;
    measure_keep((uint64_t)weir_limiter_decide(subject->limiter, &subject->charges[at], 1, &subject->time, 0, &decision,
                                               &verdict));
}

static void count_nothing(const struct subject *subject)
{
    (void)subject;
    for (size_t i = 0; i < DECISIONS; i++)
        measure_keep(i % BATCH);
}

static void count_admit(const struct subject *subject)
{
    for (size_t i = 0; i < DECISIONS; i++)
        measure_keep(weir_limiter_admit(subject->limiter, &subject->charges[i % BATCH], &subject->time));
}

static void count_decide(const struct subject *subject)
{
    for (size_t i = 0; i < DECISIONS; i++)
        keep_decision(subject, i % BATCH);
}

static void count_decide_many(const struct subject *subject)
{
    struct weir_verdict verdicts[BATCH];
    for (size_t i = 0; i < DECISIONS; i += BATCH)
        measure_keep(
            (uint64_t)weir_limiter_decide_many(subject->limiter, subject->charges, BATCH, &subject->time, 0, verdicts));
}

static void count_admit_many(const struct subject *subject)
{
    bool admitted[BATCH];
    for (size_t i = 0; i < DECISIONS; i += BATCH)
        measure_keep(
            (uint64_t)weir_limiter_admit_many(subject->limiter, subject->charges, BATCH, &subject->time, admitted));
}

static void count_key(const struct subject *subject)
{
    for (uint64_t i = 0; i < DECISIONS; i++) {
        const uint64_t bytes[2] = { i, i };
        const struct weir_slice value = { bytes, sizeof bytes };
        struct weir_key key;
        measure_keep((uint64_t)weir_limiter_key(subject->limiter, subject->charges[0].limit, &value, 1, &key));
    }
}

static const struct counted_case {
    const char *name;
    void (*count)(const struct subject *subject);
    uint64_t per_s; /* of the limit: whether all pass, or none */
} cases[] = {
    { "nothing", count_nothing, 1000000 },
    { "admit", count_admit, 1000000 },
    { "admit_refused", count_admit, 1 },
    { "admit_many", count_admit_many, 1000000 },
    { "admit_many_refused", count_admit_many, 1 },
    { "decide", count_decide, 1000000 },
    { "decide_refused", count_decide, 1 },
    { "decide_many", count_decide_many, 1000000 },
    { "decide_many_refused", count_decide_many, 1 },
    { "key", count_key, 1000000 },
};

/* Not inlined, for callgrind to find it by name. */
__attribute__((noinline)) void counted(const struct counted_case *wanted, const struct subject *subject);
void counted(const struct counted_case *wanted, const struct subject *subject)
{
    wanted->count(subject);
}

static void begin(struct subject *subject, uint64_t per_s)
{
    const uint8_t secret[16] = { 1 };
    const struct weir_limiter_options options = { .memory_max = (size_t)4 << 20, .secret = secret };
    const struct weir_limit_def def = {
        .name = "counted",
        .spec = { .algorithm = WEIR_TOKEN_BUCKET, .count = per_s, .period_ns = WEIR_NS_PER_SECOND, .burst = per_s }
    };
    weir_limit_id id;
    struct weir_fault fault;
    subject->time = (struct weir_time){ NOW_NS, NOW_NS };
    weir_assert(weir_limiter_create(&options, &subject->limiter, &fault) == 0);
    weir_assert(weir_limiter_define(subject->limiter, &def, 1, &subject->time, &id, &fault) == 0);
    for (uint64_t i = 0; i < BATCH; i++) {
        const uint64_t bytes[2] = { i, ~i };
        const struct weir_slice value = { bytes, sizeof bytes };
        subject->charges[i] = (struct weir_charge){ .limit = id, .cost = 1 };
        weir_assert(weir_limiter_key(subject->limiter, id, &value, 1, &subject->charges[i].key) == 0);
        keep_decision(subject, i); /* resident from now on */
    }
}

int main(int argc, char **argv)
{
    for (size_t i = 0; argc == 2 && i < sizeof cases / sizeof cases[0]; i++) {
        if (strcmp(argv[1], cases[i].name) != 0)
            continue;
        struct subject subject;
        begin(&subject, cases[i].per_s);
        counted(&cases[i], &subject);
        weir_limiter_destroy(subject.limiter);
        printf("%d\n", DECISIONS);
        return 0;
    }
    fprintf(stderr, "usage: bench_instructions CASE\n");
    return 2;
}
