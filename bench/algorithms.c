/* SPDX-License-Identifier: Apache-2.0
 *
 * bench_algorithms WHAT ALGORITHM …: one algorithm's figures for docs/algorithms.md, all through libweir with a clock
 * of our own.
 *
 *   bytes ALGORITHM KEYS HITS   memory per key, KEYS keys of HITS requests each
 *   speed ALGORITHM             ns per decision: one key admitted, one key refused, 100,000 keys at random
 *   worst ALGORITHM             searches for the arrivals that get most into one rolling period
 *   trace ALGORITHM             reads arrival times in ms, prints for each: ms, 1 or 0, and the delay in ms */
#include "measure.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "weir/limiter.h"

#define COUNT 100
#define PERIOD_NS (60 * WEIR_NS_PER_SECOND)
#define TRACE_COUNT 10
#define TRACE_PERIOD_NS (10 * WEIR_NS_PER_SECOND)
#define BEGIN_NS (UINT64_C(1000000) * PERIOD_NS) /* windows begin at multiples of the period */

struct subject {
    struct weir_limiter *limiter;
    struct weir_charge charge;
    struct weir_time time;
    uint64_t period_ns;
};

static void check(int error, const char *what)
{
    if (error != 0) {
        fprintf(stderr, "%s: %s\n", what, weir_error_text(error));
        exit(1);
    }
}

static void begin(struct subject *subject, const char *algorithm, uint64_t count, uint64_t period_ns)
{
    struct weir_limit_def def = { .name = algorithm, .spec = { .count = count, .period_ns = period_ns } };
    struct weir_limiter_options options = { .memory_max = (size_t)256 << 20 };
    while (weir_algorithm_name(def.spec.algorithm) != NULL &&
           strcmp(weir_algorithm_name(def.spec.algorithm), algorithm) != 0) {
        def.spec.algorithm++;
    }
    if (def.spec.algorithm == WEIR_SLIDING_LOG) {
        options.log_memory_max = options.memory_max / 2;
    }
    subject->period_ns = period_ns;
    subject->time = (struct weir_time){ BEGIN_NS, BEGIN_NS };
    subject->charge.cost = 1;
    check(weir_limiter_create(&options, &subject->limiter, NULL), "create");
    check(weir_limiter_define(subject->limiter, &def, 1, &subject->time, &subject->charge.limit, NULL), algorithm);
}

static void use_key(struct subject *subject, uint64_t number)
{
    struct weir_slice value = { &number, sizeof number };
    check(weir_limiter_key(subject->limiter, subject->charge.limit, &value, 1, &subject->charge.key), "key");
}

static bool ask(struct subject *subject, struct weir_verdict *ret_verdict)
{
    struct weir_decision decision;
    check(weir_limiter_decide(subject->limiter, &subject->charge, 1, &subject->time, 0, &decision, ret_verdict),
          "decide");
    return decision.admitted;
}

static void go_to(struct subject *subject, uint64_t ns)
{
    subject->time = (struct weir_time){ ns, ns };
}

/* ---- bytes ---- */

static void bytes(const char *algorithm, uint64_t keys, uint64_t hits)
{
    struct subject subject = { 0 };
    struct weir_verdict verdict;
    struct weir_limiter_stats stats;
    uint64_t before = measure_resident_bytes();
    begin(&subject, algorithm, COUNT, PERIOD_NS);
    for (uint64_t key = 0; key < keys; key++) {
        use_key(&subject, key);
        for (uint64_t hit = 0; hit < hits; hit++) {
            ask(&subject, &verdict);
        }
    }
    weir_limiter_stats(subject.limiter, &stats);
    if (stats.keys < keys) {
        fprintf(stderr, "only %" PRIu64 " of %" PRIu64 " keys are held\n", stats.keys, keys);
        exit(1);
    }
    printf("bytes %.4g\n", (double)(measure_resident_bytes() - before) / (double)keys);
    weir_limiter_destroy(subject.limiter);
}

/* ---- speed ---- */

#define CHUNK 1024
#define RANDOM_KEYS 100000
#define SAMPLES 5
#define SAMPLE_NS (UINT64_C(100) * 1000000)

/* Time goes on by one unit per request, so that every request is admitted and every structure stays full. */
static uint64_t admitted_chunk(void *context, uint64_t *state)
{
    struct subject *subject = context;
    struct weir_verdict verdict;
    for (int i = 0; i < CHUNK; i++) {
        go_to(subject, subject->time.now_ns + PERIOD_NS / COUNT + 1);
        *state += ask(subject, &verdict);
    }
    return CHUNK;
}

static uint64_t refused_chunk(void *context, uint64_t *state)
{
    struct subject *subject = context;
    struct weir_verdict verdict;
    for (int i = 0; i < CHUNK; i++) {
        *state += ask(subject, &verdict);
    }
    return CHUNK;
}

static uint64_t random_chunk(void *context, uint64_t *state)
{
    struct subject *subject = context;
    struct weir_verdict verdict;
    for (int i = 0; i < CHUNK; i++) {
        use_key(subject, measure_below(measure_mix((*state)++), RANDOM_KEYS));
        go_to(subject, subject->time.now_ns + PERIOD_NS / COUNT / RANDOM_KEYS);
        ask(subject, &verdict);
    }
    return CHUNK;
}

static double median_ns(measure_chunk *chunk, struct subject *subject)
{
    double values[SAMPLES];
    for (int i = 0; i < SAMPLES; i++) {
        double value = measure_threads(chunk, subject, 1, SAMPLE_NS);
        int at = i;
        for (; at > 0 && values[at - 1] > value; at--) {
            values[at] = values[at - 1];
        }
        values[at] = value;
    }
    return values[SAMPLES / 2];
}

static void speed(const char *algorithm)
{
    struct subject subject = { 0 };
    begin(&subject, algorithm, COUNT, PERIOD_NS);
    use_key(&subject, 0);
    double admitted = median_ns(admitted_chunk, &subject);
    double refused = median_ns(refused_chunk, &subject);
    double random = median_ns(random_chunk, &subject);
    printf("admitted %.4g refused %.4g random %.4g\n", admitted, refused, random);
    weir_limiter_destroy(subject.limiter);
}

/* ---- worst ----
 *
 * A client takes all it can get at some of the points of a grid over three periods: each step of the grid, and the
 * nanosecond before. Searched: every pair of points; a burst at every point and then steadily from every later point;
 * and hill-climbing over arbitrary sets of points. */

#define STEPS 60 /* in a period */
#define POINTS (2 * 3 * STEPS)
#define CLIMBS 20
#define CLIMB_STEPS 400
#define TAKEN_MAX (12 * COUNT)

struct search {
    struct subject subject;
    bool chosen[POINTS];
    uint64_t asked[TAKEN_MAX];  /* when each admitted unit was asked for */
    uint64_t output[TAKEN_MAX]; /* the same plus its delay */
    size_t count;
    uint64_t trials;
    /* The worst so far. */
    size_t rolling_most; /* admitted within one period */
    size_t output_most;  /* the same with each delay waited for */
    size_t shortfall;    /* refused although so many more would have fitted into the last period */
    size_t burst;        /* admitted at one instant by a fresh key */
    uint64_t delay_ns;   /* told to wait */
};

static int by_time(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a;
    uint64_t y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* The most within (t - period, t] of times that are in order. */
static size_t most_rolling(const uint64_t *times, size_t count, uint64_t period_ns)
{
    size_t most = 0;
    size_t first = 0;
    for (size_t i = 0; i < count; i++) {
        while (times[first] + period_ns <= times[i]) {
            first++;
        }
        most = i - first + 1 > most ? i - first + 1 : most;
    }
    return most;
}

static void take_all(struct search *search, uint64_t now_ns)
{
    struct subject *subject = &search->subject;
    struct weir_verdict verdict;
    size_t recent = 0;
    size_t before = search->count;

    while (recent < before && search->asked[before - recent - 1] + subject->period_ns > now_ns) {
        recent++;
    }
    go_to(subject, now_ns);
    while (search->count < TAKEN_MAX && ask(subject, &verdict)) {
        search->asked[search->count] = now_ns;
        search->output[search->count] = now_ns + verdict.delay_ns;
        search->count++;
        search->delay_ns = verdict.delay_ns > search->delay_ns ? verdict.delay_ns : search->delay_ns;
    }
    size_t got = search->count - before;
    if (before == 0 && got > search->burst) {
        search->burst = got;
    }
    if (recent + got < COUNT && COUNT - recent - got > search->shortfall) {
        search->shortfall = COUNT - recent - got;
    }
}

/* Plays the chosen points on a fresh key; returns the most that one rolling period admitted. */
static size_t play(struct search *search)
{
    uint64_t period_ns = search->subject.period_ns;
    uint64_t start_ns = BEGIN_NS + ++search->trials * 8 * period_ns;
    search->count = 0;
    use_key(&search->subject, search->trials);
    for (uint64_t i = 0; i < POINTS; i++) {
        if (search->chosen[i]) {
            /* Odd points stand a nanosecond before the step that follows. */
            take_all(search, start_ns + (i + 1) / 2 * period_ns / STEPS - i % 2);
        }
    }
    size_t rolling = most_rolling(search->asked, search->count, period_ns);
    qsort(search->output, search->count, sizeof search->output[0], by_time);
    size_t output = most_rolling(search->output, search->count, period_ns);
    search->rolling_most = rolling > search->rolling_most ? rolling : search->rolling_most;
    search->output_most = output > search->output_most ? output : search->output_most;
    return rolling;
}

static void search_pairs(struct search *search)
{
    for (size_t first = 0; first < POINTS; first++) {
        for (size_t second = first + 1; second < POINTS; second++) {
            memset(search->chosen, 0, sizeof search->chosen);
            search->chosen[first] = true;
            search->chosen[second] = true;
            play(search);
            memset(search->chosen + second, 1, POINTS - second);
            play(search);
        }
    }
}

static void climb(struct search *search, uint64_t seed)
{
    for (size_t i = 0; i < POINTS; i++) {
        search->chosen[i] = measure_mix(seed + i) % 8 == 0;
    }
    size_t best = play(search);
    for (uint64_t i = 0; i < CLIMB_STEPS; i++) {
        size_t flipped = measure_below(measure_mix(seed * CLIMB_STEPS + i), POINTS);
        search->chosen[flipped] = !search->chosen[flipped];
        size_t rolling = play(search);
        if (rolling >= best) {
            best = rolling;
        } else {
            search->chosen[flipped] = !search->chosen[flipped];
        }
    }
}

static void worst(const char *algorithm)
{
    static struct search search;
    begin(&search.subject, algorithm, COUNT, PERIOD_NS);
    search_pairs(&search);
    for (uint64_t seed = 1; seed <= CLIMBS; seed++) {
        climb(&search, seed);
    }
    printf("count %d rolling %zu output %zu shortfall %zu burst %zu delay_s %.4g trials %" PRIu64 "\n", COUNT,
           search.rolling_most, search.output_most, search.shortfall, search.burst, (double)search.delay_ns / 1e9,
           search.trials);
    weir_limiter_destroy(search.subject.limiter);
}

/* ---- trace ---- */

static void trace(const char *algorithm)
{
    struct subject subject = { 0 };
    struct weir_verdict verdict;
    uint64_t ms;
    begin(&subject, algorithm, TRACE_COUNT, TRACE_PERIOD_NS);
    use_key(&subject, 0);
    while (scanf("%" SCNu64, &ms) == 1) {
        go_to(&subject, BEGIN_NS + ms * 1000000);
        bool admitted = ask(&subject, &verdict);
        printf("%" PRIu64 " %d %.6g\n", ms, admitted, admitted ? (double)verdict.delay_ns / 1e6 : 0);
    }
    weir_limiter_destroy(subject.limiter);
}

int main(int argc, char **argv)
{
    const char *what = argc > 2 ? argv[1] : "";
    if (strcmp(what, "bytes") == 0) {
        bytes(argv[2], measure_argument(argc, argv, 3, 1, 10000000, "KEYS"),
              measure_argument(argc, argv, 4, 1, COUNT, "HITS"));
    } else if (strcmp(what, "speed") == 0) {
        speed(argv[2]);
    } else if (strcmp(what, "worst") == 0) {
        worst(argv[2]);
    } else if (strcmp(what, "trace") == 0) {
        trace(argv[2]);
    } else {
        fputs("usage: bench_algorithms bytes|speed|worst|trace ALGORITHM [KEYS HITS]\n", stderr);
        return 2;
    }
    return 0;
}
