/* SPDX-License-Identifier: Apache-2.0
 *
 * Question 8: the leaky bucket beside the token bucket, of the same numbers, as a client sees them and as the backend
 * behind them does. Straight on core/limit. A delayed request goes on when its delay is over. */
#include "sim/lab/labs.h"
#include "sim/lab/one_key.h"

#define BURST 30
#define STEADY 40 /* after the burst, one each 250 ms from 2 s on */
#define ASKED (BURST + STEADY)
#define STEADY_FROM_NS (2 * WEIR_NS_PER_SECOND)
#define STEADY_EVERY_NS (WEIR_NS_PER_SECOND / 4)

struct seen {
    uint64_t admitted, refused, delayed, longest_ns, delay_ns, retry_ns;
    uint64_t served_ns[ASKED]; /* when it went on; in order */
};

static uint64_t asked_at(uint64_t i)
{
    return i < BURST ? 0 : STEADY_FROM_NS + (i - BURST) * STEADY_EVERY_NS;
}

static void ask(enum weir_algorithm algorithm, struct seen *seen)
{
    const struct weir_limit_spec spec = {
        .algorithm = algorithm, .count = 10, .period_ns = WEIR_NS_PER_SECOND, .burst = 20
    };
    struct lab_key key;
    *seen = (struct seen){ .admitted = 0 };
    lab_key_init(&key, &spec);
    for (uint64_t i = 0; i < ASKED; i++) {
        struct weir_verdict verdict = lab_key_ask(&key, asked_at(i));
        if (!verdict.admitted) {
            seen->retry_ns = seen->refused++ == 0 ? verdict.retry_after_ns : seen->retry_ns;
            continue;
        }
        seen->served_ns[seen->admitted++] = asked_at(i) + verdict.delay_ns;
        seen->delayed += verdict.delay_ns > 0;
        seen->delay_ns += verdict.delay_ns;
        seen->longest_ns = verdict.delay_ns > seen->longest_ns ? verdict.delay_ns : seen->longest_ns;
    }
}

/* Of what went on, the most within any 100 ms. */
static uint64_t most_at_once(const struct seen *seen)
{
    uint64_t most = 0;
    for (uint64_t first = 0, last = 0; last < seen->admitted; last++) {
        while (seen->served_ns[first] + WEIR_NS_PER_SECOND / 10 <= seen->served_ns[last])
            first++;
        most = last - first + 1 > most ? last - first + 1 : most;
    }
    return most;
}

static void report_one(const char *name, const struct seen *seen, struct weir_lab_report *report)
{
    size_t served = weir_lab_begin(report, "%s", name);
    weir_lab_point(report, served, 0, 0);
    for (uint64_t i = 0; i < seen->admitted; i++)
        weir_lab_point(report, served, (double)seen->served_ns[i] / 1e9, (double)(i + 1));
    weir_lab_number(report, ASKED, "requests", "%s: asked", name);
    weir_lab_number(report, (double)seen->admitted, "requests", "%s: admitted", name);
    weir_lab_number(report, (double)seen->refused, "requests", "%s: refused", name);
    weir_lab_number(report, (double)seen->retry_ns / 1e6, "ms", "%s: the first refused may retry after", name);
    weir_lab_number(report, (double)seen->delayed, "requests", "%s: told to wait", name);
    weir_lab_number(report, (double)seen->longest_ns / 1e6, "ms", "%s: longest wait", name);
    weir_lab_number(report, (double)seen->delay_ns / (double)seen->admitted / 1e6, "ms", "%s: mean wait", name);
    weir_lab_number(report, (double)most_at_once(seen), "requests", "%s: most at the backend within 100 ms", name);
}

static void run(uint64_t seed, struct weir_lab_report *report)
{
    struct seen seen;
    (void)seed;
    report->x = "s";
    report->y = "requests that have gone on";
    ask(WEIR_TOKEN_BUCKET, &seen);
    report_one("token bucket", &seen, report);
    ask(WEIR_LEAKY_BUCKET, &seen);
    report_one("leaky bucket", &seen, report);
}

const struct weir_lab weir_lab_leaky = {
    .number = 8,
    .title = "leaky bucket against token bucket, as the client sees them",
    .question =
        "Both with 10 a second and a burst of 20. 30 requests come at once, then 4 a second. What does a client "
        "see of the one and of the other?",
    .shows =
        "Both admit and refuse the same requests. The token bucket lets its 20 go on at once, and the backend meets "
        "them all together; the leaky bucket gives each a delay of 100 ms more than the one before, and the backend "
        "never meets more than its rate. The last of the burst waits 1.9 s for that.",
    .shows_not =
        "A client that does not keep its delay: weir tells it, and can hold the answer until it is over "
        "(docs/rules.md, throttling), but without that a leaky bucket is a token bucket. Connections that wait "
        "cost memory; that is not counted here.",
    .run = run,
};
