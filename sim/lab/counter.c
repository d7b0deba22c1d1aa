/* SPDX-License-Identifier: Apache-2.0
 *
 * Question 3: where the sliding window counter is wrong. It supposes that the hits of the window before were spread
 * evenly; here they were not. Straight on core/limit: the counter decides, a log of its admissions says what is true,
 * and a sliding log decides about the same requests beside it. */
#include "sim/lab/labs.h"
#include "sim/lab/one_key.h"

#define LIMIT 100
#define PERIOD_S 60
#define SECOND WEIR_NS_PER_SECOND
#define ADMITTED_MAX 512

struct traffic {
    const char *name;
    uint64_t burst_ns; /* LIMIT requests begin here, 9.9 ms apart */
    uint64_t from_ns;  /* and from here on one each every_ns */
    uint64_t every_ns, count;
    uint64_t shown_ns; /* series begin here */
};

/* The burst is at the end of its window: all of it is younger than 60 s for as long as the next window lasts. */
static const struct traffic low = { "too low", 59 * SECOND, 60 * SECOND, SECOND / 10, 600, 59 * SECOND };
/* It is at the beginning of its window: all of it is older than 60 s when the others come. */
static const struct traffic high = { "too high", 0, 61 * SECOND, SECOND / 10, 590, 60 * SECOND };

struct side {
    struct lab_key key;
    uint64_t times_ns[ADMITTED_MAX]; /* of its admissions */
    size_t count, oldest;            /* oldest: of those within the last period */
    uint64_t most;                   /* within any period */
    uint64_t after;                  /* admitted after the burst */
};

static void side_ask(struct side *side, uint64_t at_ns, bool burst)
{
    if (lab_key_ask(&side->key, at_ns).admitted) {
        weir_assert(side->count < ADMITTED_MAX);
        side->times_ns[side->count++] = at_ns;
        side->after += !burst;
    }
    while (side->oldest < side->count && side->times_ns[side->oldest] + PERIOD_S * SECOND <= at_ns)
        side->oldest++;
    side->most = side->count - side->oldest > side->most ? side->count - side->oldest : side->most;
}

static void side_init(struct side *side, enum weir_algorithm algorithm)
{
    const struct weir_limit_spec spec = { .algorithm = algorithm, .count = LIMIT, .period_ns = PERIOD_S * SECOND };
    side->count = side->oldest = side->most = side->after = 0;
    lab_key_init(&side->key, &spec);
}

static void play(const struct traffic *traffic, struct weir_lab_report *report)
{
    struct side counter, log;
    uint64_t waited_ns = 0;
    double off = 0;
    side_init(&counter, WEIR_SLIDING_COUNTER);
    side_init(&log, WEIR_SLIDING_LOG);
    size_t counted = weir_lab_begin(report, "%s: as counted", traffic->name);
    size_t truth = weir_lab_begin(report, "%s: in truth", traffic->name);
    for (uint64_t i = 0; i < LIMIT + traffic->count; i++) {
        bool burst = i < LIMIT;
        uint64_t at_ns = burst ? traffic->burst_ns + i * (SECOND * 99 / 10000)
                               : traffic->from_ns + (i - LIMIT) * traffic->every_ns;
        side_ask(&counter, at_ns, burst);
        side_ask(&log, at_ns, burst);
        double used = (double)lab_key_used(&counter.key, at_ns), real = (double)(counter.count - counter.oldest);
        if (!burst && (real - used) * (real - used) > off * off)
            off = used - real;
        if (!burst && waited_ns == 0 && counter.after == LIMIT)
            waited_ns = at_ns - traffic->from_ns;
        if (at_ns >= traffic->shown_ns && (burst ? i % 10 == 0 : i % 2 == 0)) {
            weir_lab_point(report, counted, (double)at_ns / 1e9, used);
            weir_lab_point(report, truth, (double)at_ns / 1e9, real);
        }
    }
    const char *of = traffic->name;
    weir_lab_number(report, (double)traffic->count, "requests", "%s: asked after the burst of %d", of, LIMIT);
    weir_lab_number(report, (double)counter.after, "requests", "%s: admitted of them by the counter", of);
    weir_lab_number(report, (double)log.after, "requests", "%s: admitted of them by a log", of);
    weir_lab_number(report, (double)counter.most, "requests", "%s: most in any 60 s by the counter", of);
    weir_lab_number(report, (double)log.most, "requests", "%s: most in any 60 s by a log", of);
    weir_lab_number(report, off, "requests", "%s: counted less true, at worst", of);
    weir_lab_number(report, (double)waited_ns / 1e9, "s", "%s: until the counter admitted another 100", of);
}

static void run(uint64_t seed, struct weir_lab_report *report)
{
    (void)seed;
    report->x = "s";
    report->y = "requests in the last 60 s";
    play(&low, report);
    play(&high, report);
}

const struct weir_lab weir_lab_counter = {
    .number = 3,
    .title = "traffic that makes the sliding window counter wrong, too high and too low",
    .question =
        "A sliding window counter keeps two numbers: hits of this minute and of the one before, weighted by how "
        "much of it the last 60 s still cover. What traffic makes it count too little, and what too much? The "
        "limit is 100 in 60 s.",
    .shows =
        "Too low: 100 hits in the last second of a minute are weighted as if they were spread over it, so they fade "
        "while they are still young; nearly twice the limit passes within 60 s. Too high: 100 hits in the first "
        "second of a minute are all older than 60 s when the next minute is a second old, and are counted as 98: "
        "who asks then is refused though nobody was admitted within 60 s. A sliding log is right in both.",
    .shows_not =
        "Both are the worst that the counter can do, made on purpose. Traffic that is spread evenly is counted "
        "right to one hit, and the log's price, a time for each hit, is not seen here.",
    .run = run,
};
