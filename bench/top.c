/* SPDX-License-Identifier: Apache-2.0
 *
 * bench_top PATH_NS: what it costs a thread to count a refusal for GET /v1/top, where a refusal takes PATH_NS in all
 * and they come as fast as that. One hot key, keys of which a few are frequent, and 100,000 keys that are all alike:
 * the worst for a sketch, as nearly every one is new. The least of many short samples, in ns, and of the path. */
#include "measure.h"

#include <stdio.h>
#include <stdlib.h>

#include "observe/top.h"

#define CHUNK 4096
#define BATCH 32
#define SAMPLES 3000
#define SEED_EVENTS (2 * 1000 * 1000)

struct subject {
    struct weir_top *top;
    uint64_t path_ns, now_ns;
    uint64_t keys;
    bool skewed;
    bool fetched; /* those of a batch, as of CL.THROTTLE */
    struct weir_slice text;
};

/* Skewed: a product of uniform numbers, so that small ones are frequent. */
static uint64_t next_key(const struct subject *subject, uint64_t *state)
{
    uint64_t key = measure_below(measure_mix((*state)++), subject->keys);
    for (int i = 0; i < 3 && subject->skewed; i++) {
        key = measure_below(measure_mix((*state)++), key + 1);
    }
    return measure_mix(key + 1);
}

static void count_one(struct subject *subject, uint64_t hash)
{
    struct weir_top_label label;
    const struct weir_top_refusal refusal = { .hash = hash,
                                              .slot = 2,
                                              .now_ns = subject->now_ns += subject->path_ns,
                                              .retry_after_ns = 3600 * WEIR_NS_PER_SECOND };
    if (weir_top_refused(subject->top, 0, &refusal)) {
        weir_top_label_init(&label, &subject->text, 1);
        weir_top_label(subject->top, 0, &label);
    }
}

/* As pipelined commands are: decided together. */
static void one_batch(struct subject *subject, uint64_t *state, bool counted)
{
    uint64_t hashes[BATCH];
    for (int i = 0; i < BATCH; i++) {
        hashes[i] = next_key(subject, state);
        measure_keep(hashes[i]);
        if (counted && subject->fetched) {
            weir_top_prefetch(subject->top, hashes[i]);
        }
    }
    for (int i = 0; i < BATCH && counted; i++) {
        count_one(subject, hashes[i]);
    }
}

/* Of `counted`, or only of making the keys. */
static double least_ns(struct subject *subject, bool counted)
{
    uint64_t state = 1;
    double least = 1e9;
    for (uint64_t i = 0; counted && i < SEED_EVENTS; i += BATCH) {
        one_batch(subject, &state, true);
    }
    for (int i = 0; i < SAMPLES; i++) {
        uint64_t before = measure_now_ns();
        for (int j = 0; j < CHUNK; j += BATCH) {
            one_batch(subject, &state, counted);
        }
        double ns = (double)(measure_now_ns() - before) / CHUNK;
        least = ns < least ? ns : least;
    }
    return least;
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        uint64_t keys;
        bool skewed;
        bool fetched;
    } cases[] = { { "hot", 1, false, false },
                  { "skewed", 100000, true, false },
                  { "alike", 100000, false, false },
                  { "alike_in_batches", 100000, false, true } };
    const uint64_t path_ns = measure_argument(argc, argv, 1, 1, 1000000000, "PATH_NS");
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct subject subject = { .path_ns = path_ns,
                                   .keys = cases[i].keys,
                                   .skewed = cases[i].skewed,
                                   .fetched = cases[i].fetched,
                                   .text = { "ada@example.org", 15 } };
        if (weir_top_create(1, 0, &subject.top)) {
            return EXIT_FAILURE;
        }
        weir_top_configure(subject.top, 0, WEIR_TOP_TEXT, 0);
        double ns = least_ns(&subject, true) - least_ns(&subject, false);
        printf("%s ns %.3g percent %.2g\n", cases[i].name, ns, 100 * ns / (double)path_ns);
        weir_top_destroy(subject.top);
    }
    return EXIT_SUCCESS;
}
