/* SPDX-License-Identifier: Apache-2.0
 *
 * bench_decide KEYS: libweir in process. One hot key, and KEYS keys at random, one call each or in batches of 32; a key
 * is made and hashed anew for every decision on many keys, as callers do. */
#include "measure.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "weir/limiter.h"

#define CHUNK 4096
#define BATCH 32
#define BYTES_PER_KEY 32
#define DAY_NS (86400 * WEIR_NS_PER_SECOND)
#define FILL_COST 100000 /* keeps a key of `keyed` live for hours */

enum { HOT, EMPTY, KEYED, LIMITS };

struct subject {
    struct weir_limiter *limiter;
    weir_limit_id ids[LIMITS];
    uint64_t keys;
    struct weir_charge hot;
    struct weir_charge empty;
    struct weir_bucket bucket;
    struct weir_key bucket_key;
};

static void check(int error, const char *what, const struct weir_fault *fault)
{
    if (error != 0) {
        fprintf(stderr, "%s: %s (%s %s)\n", what, weir_error_text(error), fault != NULL ? fault->field : "",
                fault != NULL ? fault->text : "");
        exit(1);
    }
}

/* Keys are 16 bytes, as a UUID or an address is. */
static struct weir_charge charge_of(const struct subject *subject, int limit, uint64_t number, uint64_t cost)
{
    struct weir_charge charge = { .limit = subject->ids[limit], .cost = cost };
    const uint64_t key[2] = { number * UINT64_C(0x9e3779b97f4a7c15), number };
    struct weir_slice value = { key, sizeof key };
    check(weir_limiter_key(subject->limiter, charge.limit, &value, 1, &charge.key), "key", NULL);
    return charge;
}

static uint64_t random_key(const struct subject *subject, uint64_t *state)
{
    return measure_below(measure_mix((*state)++), subject->keys);
}

/* ---- one hot key ---- */

static bool decide(struct subject *subject, const struct weir_charge *charge, const struct weir_time *time)
{
    struct weir_decision decision;
    struct weir_verdict verdict;
    check(weir_limiter_decide(subject->limiter, charge, 1, time, 0, &decision, &verdict), "decide", NULL);
    measure_keep(verdict.remaining);
    return decision.admitted;
}

static uint64_t hot_own(void *context, uint64_t *state)
{
    struct subject *subject = context;
    for (int i = 0; i < CHUNK; i++) {
        *state += decide(subject, &subject->hot, NULL);
    }
    return CHUNK;
}

static uint64_t hot_given(void *context, uint64_t *state)
{
    struct subject *subject = context;
    struct weir_time time = weir_time_read();
    for (int i = 0; i < CHUNK; i++) {
        *state += decide(subject, &subject->hot, &time);
    }
    return CHUNK;
}

static uint64_t hot_deny(void *context, uint64_t *state)
{
    struct subject *subject = context;
    for (int i = 0; i < CHUNK; i++) {
        *state += decide(subject, &subject->empty, NULL);
    }
    return CHUNK;
}

static uint64_t hot_batch(void *context, uint64_t *state)
{
    struct subject *subject = context;
    struct weir_charge charges[BATCH];
    struct weir_verdict verdicts[BATCH];
    for (int i = 0; i < BATCH; i++) {
        charges[i] = subject->hot;
    }
    for (int i = 0; i < CHUNK; i += BATCH) {
        check(weir_limiter_decide_many(subject->limiter, charges, BATCH, NULL, 0, verdicts), "decide_many", NULL);
        *state += verdicts[BATCH - 1].admitted;
    }
    return CHUNK;
}

static uint64_t hot_bucket(void *context, uint64_t *state)
{
    struct subject *subject = context;
    struct weir_verdict verdict;
    for (int i = 0; i < CHUNK; i++) {
        check(
            weir_limiter_bucket_decide(subject->limiter, &subject->bucket, &subject->bucket_key, 1, NULL, 0, &verdict),
            "bucket_decide", NULL);
        *state += verdict.admitted;
    }
    return CHUNK;
}

/* ---- many keys at random ---- */

static uint64_t random_own(void *context, uint64_t *state)
{
    struct subject *subject = context;
    uint64_t admitted = 0;
    for (int i = 0; i < CHUNK; i++) {
        struct weir_charge charge = charge_of(subject, KEYED, random_key(subject, state), 1);
        admitted += decide(subject, &charge, NULL);
    }
    measure_keep(admitted);
    return CHUNK;
}

static uint64_t random_given(void *context, uint64_t *state)
{
    struct subject *subject = context;
    struct weir_time time = weir_time_read();
    uint64_t admitted = 0;
    for (int i = 0; i < CHUNK; i++) {
        struct weir_charge charge = charge_of(subject, KEYED, random_key(subject, state), 1);
        admitted += decide(subject, &charge, &time);
    }
    measure_keep(admitted);
    return CHUNK;
}

static uint64_t random_batch(void *context, uint64_t *state)
{
    struct subject *subject = context;
    struct weir_charge charges[BATCH];
    struct weir_verdict verdicts[BATCH];
    for (int i = 0; i < CHUNK; i += BATCH) {
        for (int j = 0; j < BATCH; j++) {
            charges[j] = charge_of(subject, KEYED, random_key(subject, state), 1);
        }
        check(weir_limiter_decide_many(subject->limiter, charges, BATCH, NULL, 0, verdicts), "decide_many", NULL);
        measure_keep(verdicts[0].remaining);
    }
    return CHUNK;
}

/* Hashing alone: what of a decision on many keys is the caller's key. */
static uint64_t key_only(void *context, uint64_t *state)
{
    struct subject *subject = context;
    for (int i = 0; i < CHUNK; i++) {
        struct weir_charge charge = charge_of(subject, KEYED, random_key(subject, state), 1);
        measure_keep(charge.key.hash);
    }
    return CHUNK;
}

/* ---- set-up ---- */

static void define(struct subject *subject)
{
    const struct weir_limit_def defs[LIMITS] = {
        [HOT] = { .name = "hot",
                  .spec = { .count = WEIR_RATE_MAX_PER_SECOND,
                            .period_ns = WEIR_NS_PER_SECOND,
                            .burst = WEIR_BURST_MAX } },
        [EMPTY] = { .name = "empty", .spec = { .count = 1, .period_ns = DAY_NS } },
        [KEYED] = { .name = "keyed", .spec = { .count = 1000000, .period_ns = DAY_NS } },
    };
    struct weir_limiter_options options = { .memory_max = subject->keys * BYTES_PER_KEY };
    struct weir_fault fault;
    if (options.memory_max < WEIR_MEMORY_MIN) {
        options.memory_max = WEIR_MEMORY_MIN;
    }
    check(weir_limiter_create(&options, &subject->limiter, &fault), "create", &fault);
    check(weir_limiter_define(subject->limiter, defs, LIMITS, NULL, subject->ids, &fault), "define", &fault);
    check(weir_bucket_init(&subject->bucket, &defs[HOT].spec, &fault), "bucket", &fault);
    struct weir_slice value = { "hot", 3 };
    check(weir_limiter_bucket_key(subject->limiter, value, &subject->bucket_key), "bucket key", NULL);
    subject->hot = charge_of(subject, HOT, 0, 1);
    subject->empty = charge_of(subject, EMPTY, 0, 1);
}

static void fill(struct subject *subject)
{
    struct weir_verdict verdicts[BATCH];
    struct weir_charge charges[BATCH];
    for (uint64_t i = 0; i < subject->keys;) {
        size_t count = 0;
        while (count < BATCH && i < subject->keys) {
            charges[count++] = charge_of(subject, KEYED, i++, FILL_COST);
        }
        check(weir_limiter_decide_many(subject->limiter, charges, count, NULL, 0, verdicts), "fill", NULL);
    }
    if (!decide(subject, &subject->empty, NULL) || decide(subject, &subject->empty, NULL)) {
        fputs("a limit of one a day did not admit exactly one\n", stderr);
        exit(1);
    }
}

int main(int argc, char **argv)
{
    static const struct measure_case cases[] = {
        { "hot-own-1", measure_take, hot_own, 1 },
        { "hot-own-2", measure_take, hot_own, 2 },
        { "hot-given-1", measure_take, hot_given, 1 },
        { "hot-given-2", measure_take, hot_given, 2 },
        { "hot-deny-1", measure_take, hot_deny, 1 },
        { "hot-deny-2", measure_take, hot_deny, 2 },
        { "hot-batch32-1", measure_take, hot_batch, 1 },
        { "hot-bucket-1", measure_take, hot_bucket, 1 },
        { "random-own-1", measure_take, random_own, 1 },
        { "random-own-2", measure_take, random_own, 2 },
        { "random-given-1", measure_take, random_given, 1 },
        { "random-batch32-1", measure_take, random_batch, 1 },
        { "random-batch32-2", measure_take, random_batch, 2 },
        { "key", measure_take, key_only, 1 },
    };
    static struct subject subject;
    subject.keys = measure_argument(argc, argv, 1, 1, 100000000, "KEYS");
    define(&subject);
    fill(&subject);
    int status = measure_serve(cases, sizeof cases / sizeof cases[0], &subject);
    weir_limiter_destroy(subject.limiter);
    return status;
}
