/* SPDX-License-Identifier: Apache-2.0
 *
 * bench_past [PATH_NS]: what it costs a thread to keep a decision for the replay of the last hour (observe/past.h):
 * the limiter's decision alone, and with it. One hot key, 1,000 keys and a million, where decisions come every PATH_NS
 * (300). The sample has had time to find its size. The least of many short samples, in ns. */
#include "measure.h"

#include <stdio.h>
#include <stdlib.h>

#include "observe/past.h"
#include "weir/weir.h"

#define CHUNK 4096
#define SAMPLES 2000

struct subject {
    struct weir_limiter *limiter;
    struct weir_past *past;
    weir_limit_id id;
    uint64_t keys, path_ns, now_ns;
};

static void one_chunk(struct subject *subject, uint64_t *state, bool kept)
{
    for (int i = 0; i < CHUNK; i++) {
        const uint64_t hash = measure_mix(measure_below(measure_mix((*state)++), subject->keys) + 1);
        const struct weir_charge charge = { .limit = subject->id, .key = { hash, 0 }, .cost = 1 };
        const struct weir_time time = { subject->now_ns += subject->path_ns, 0 };
        struct weir_decision decision;
        struct weir_verdict verdict = { 0 };
        if (weir_limiter_decide(subject->limiter, &charge, 1, &time, 0, &decision, &verdict) != 0)
            abort();
        const struct weir_past_event event = {
            .hash = hash, .slot = 2, .refused = !verdict.admitted, .cost = charge.cost
        };
        if (kept)
            weir_past_note(subject->past, 0, &event, time.now_ns);
    }
}

/* By turns, so that whatever else the machine does meets both. */
static void measure(struct subject *subject, double *ret_alone, double *ret_kept)
{
    double least[2] = { 1e9, 1e9 };
    uint64_t state = 1;
    for (int i = 0; i < SAMPLES; i++)
        for (int kept = 0; kept < 2; kept++) {
            const uint64_t before = measure_now_ns();
            one_chunk(subject, &state, kept);
            const double ns = (double)(measure_now_ns() - before) / CHUNK;
            least[kept] = ns < least[kept] ? ns : least[kept];
        }
    *ret_alone = least[0];
    *ret_kept = least[1];
}

static void begin(struct subject *subject, uint64_t keys, uint64_t path_ns)
{
    const struct weir_limiter_options options = { .memory_max = 256 << 20 };
    const struct weir_limit_def def = {
        .name = "api", .spec = { .algorithm = WEIR_TOKEN_BUCKET, .count = 1000, .period_ns = WEIR_NS_PER_SECOND }
    };
    struct weir_fault fault;
    *subject = (struct subject){ .keys = keys, .path_ns = path_ns, .now_ns = 1000 * WEIR_NS_PER_SECOND };
    const struct weir_time now = { subject->now_ns, 0 };
    if (weir_limiter_create(&options, &subject->limiter, &fault) != 0 ||
        weir_limiter_define(subject->limiter, &def, 1, &now, &subject->id, &fault) != 0 ||
        weir_past_create(1, subject->now_ns, &subject->past) != 0)
        abort();
    /* Until the sample lasts. */
    for (uint64_t i = 0; i < 20 * 1000 * 1000; i++) {
        const uint64_t hash = measure_mix(measure_below(measure_mix(i), keys) + 1);
        const struct weir_past_event event = { .hash = hash, .slot = 2, .cost = 1 };
        weir_past_note(subject->past, 0, &event, subject->now_ns += path_ns);
    }
}

int main(int argc, char **argv)
{
    static const uint64_t keys[] = { 1, 1000, 1000 * 1000 };
    const uint64_t path_ns = argc > 1 ? strtoull(argv[1], NULL, 10) : 300;
    printf("%10s %12s %12s %12s\n", "keys", "decision ns", "and kept ns", "of it");
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
        struct subject subject;
        double alone, kept;
        begin(&subject, keys[i], path_ns);
        measure(&subject, &alone, &kept);
        printf("%10llu %12.1f %12.1f %12.1f\n", (unsigned long long)keys[i], alone, kept, kept - alone);
        weir_past_destroy(subject.past);
        weir_limiter_destroy(subject.limiter);
    }
    return 0;
}
