/* SPDX-License-Identifier: Apache-2.0
 *
 * Question 4: a token bucket is asked for more than it refills. Straight on core/limit: one key, no network. */
#include "sim/lab/labs.h"
#include "sim/lab/one_key.h"

#define SECONDS 20
#define ASKED_PER_S 20
#define ASKED (SECONDS * ASKED_PER_S)

static const struct weir_limit_spec bucket = {
    .algorithm = WEIR_TOKEN_BUCKET, .count = 10, .period_ns = WEIR_NS_PER_SECOND, .burst = 100
};

struct rows {
    uint64_t admitted, refused; /* the longest row of each after the first refusal */
    uint64_t row;
    bool last;
};

static void row_goes_on(struct rows *rows, bool admitted)
{
    uint64_t *most = admitted ? &rows->admitted : &rows->refused;
    rows->row = rows->row > 0 && admitted == rows->last ? rows->row + 1 : 1;
    rows->last = admitted;
    *most = rows->row > *most ? rows->row : *most;
}

static void run(uint64_t seed, struct weir_lab_report *report)
{
    struct lab_key key;
    struct rows rows = { .row = 0 };
    uint64_t first_ns = 0, before = 0, admitted = 0, refused = 0, at_ns = 0;
    (void)seed;
    report->x = "s";
    report->y = "units, requests";
    size_t left = weir_lab_begin(report, "tokens left"), no = weir_lab_begin(report, "refused so far");
    lab_key_init(&key, &bucket);
    for (uint64_t i = 0; i < ASKED; i++) {
        at_ns = i * WEIR_NS_PER_SECOND / ASKED_PER_S;
        struct weir_verdict verdict = lab_key_ask(&key, at_ns);
        admitted += verdict.admitted;
        refused += !verdict.admitted;
        if (refused == 1 && !verdict.admitted) {
            first_ns = at_ns;
            before = admitted;
        }
        if (refused > 0)
            row_goes_on(&rows, verdict.admitted);
        weir_lab_point(report, left, (double)at_ns / 1e9, (double)verdict.remaining);
        weir_lab_point(report, no, (double)at_ns / 1e9, (double)refused);
    }
    weir_lab_number(report, ASKED, "requests", "asked");
    weir_lab_number(report, (double)(admitted), "requests", "admitted");
    weir_lab_number(report, (double)first_ns / 1e9, "s", "first refusal");
    weir_lab_number(report, (double)before, "requests", "admitted before it");
    weir_lab_number(report, (double)(admitted - before), "requests", "admitted after it");
    weir_lab_number(report, (double)refused, "requests", "refused");
    weir_lab_number(report, (double)rows.admitted, "requests", "longest row of admissions after it");
    weir_lab_number(report, (double)rows.refused, "requests", "longest row of refusals");
}

const struct weir_lab weir_lab_refill = {
    .number = 4,
    .title = "bucket 100, refill 10/s, 20 requests per second: when does refusal begin?",
    .question =
        "A token bucket holds 100 and refills 10 a second. It is asked 20 times a second. When does it begin to "
        "refuse, and what then?",
    .shows = "The bucket loses 20 - 10 = 10 tokens a second, so its 100 last near 10 s. Just before that half a token "
             "is left, and a request needs a whole one. From then on each second request finds the token that the two "
             "gaps before it brought: what is admitted is the refill.",
    .shows_not =
        "Requests come evenly here. Where they come in clumps, rows of admissions and refusals are longer, and "
        "the first refusal may come sooner or later; what is admitted in the long run stays 10 a second.",
    .run = run,
};
