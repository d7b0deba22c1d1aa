/* SPDX-License-Identifier: Apache-2.0
 *
 * Turns what the sessions did into the numbers of the report. Each read or write becomes an event for the judge
 * (core/session/judge.h), which finds the reads that showed too little; durations and lags are sorted for their
 * percentiles. Called by reads_run.c when all sessions have ended; reads_print.c and reads_plot.c show the numbers. */
#include <stdlib.h>

#include "base/checked.h"
#include "cli/reads.h"
#include "weir/error.h"

static int u64_compare(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* The smallest that at least so many percent are not above; of sorted values. */
static uint64_t percentile(const uint64_t *sorted, size_t count, unsigned percent)
{
    return count == 0 ? 0 : sorted[weir_max_u64(weir_div_ceil(count * percent, 100), 1) - 1];
}

/* ---- one mode ---- */

/* A read that showed less than it should have is drawn where it ended. */
static void told(void *context, const struct weir_judge_violation *violation)
{
    const struct weir_reads_report *report = ((void **)context)[0];
    uint32_t *timeline = ((void **)context)[1];
    uint64_t bucket = weir_mul_div(violation->event.end_ns, WEIR_READS_BUCKETS, weir_max_u64(report->ran_ns, 1));
    timeline[weir_min_u64(bucket, WEIR_READS_BUCKETS - 1)]++;
}

static struct weir_judge_event event_of(const struct weir_reads_op *op, size_t index)
{
    enum weir_judge_kind kind = op->write ? WEIR_JUDGE_WRITE : op->stale ? WEIR_JUDGE_STALE : WEIR_JUDGE_READ;
    if (op->outcome == WEIR_READS_LOST)
        kind = WEIR_JUDGE_LOST;
    else if (op->outcome == WEIR_READS_FAILED)
        kind = WEIR_JUDGE_UNKNOWN; /* of a read: nobody saw what it showed */
    return (struct weir_judge_event){ .kind = kind,
                                      .server = op->server,
                                      .session = op->session,
                                      .key = kind == WEIR_JUDGE_LOST ? 0 : op->key,
                                      .version = kind == WEIR_JUDGE_LOST ? 0 : op->version,
                                      .start_ns = op->begin_ns,
                                      .end_ns = op->end_ns,
                                      .id = index };
}

static int judge(const struct weir_reads_report *report, struct weir_reads_result *result,
                 const struct weir_reads_ops *ops)
{
    size_t sessions = report->plan->sessions, slot_count = 2 * sessions * (sessions + 1);
    struct weir_judge_slot *slots = calloc(slot_count, sizeof(slots[0]));
    struct weir_judge_server servers[WEIR_READS_SERVERS_MAX] = { { 0 } };
    void *context[] = { (void *)(uintptr_t)report, result->timeline };
    struct weir_judge judge;
    if (!slots)
        return WEIR_ENOMEM;
    weir_judge_init(&judge, slots, slot_count, servers, report->plan->server_count);
    judge.tell = told;
    judge.context = context;
    for (size_t i = 0; i < ops->count; i++)
        (void)weir_judge_feed(&judge, event_of(&ops->ops[i], i));
    int error = weir_judge_finish(&judge);
    result->judged = judge.counts;
    for (unsigned i = 0; i < report->plan->server_count; i++)
        result->violated_by[i] = servers[i].violated;
    free(slots);
    return error;
}

static void op_count(struct weir_reads_result *result, const struct weir_reads_op *op)
{
    if (op->outcome != WEIR_READS_DONE) {
        result->failed += op->outcome == WEIR_READS_FAILED;
        return;
    }
    result->writes += op->write;
    if (op->write)
        return;
    result->reads++;
    result->waits += op->waited_us > 0;
    result->by_server[op->server]++;
}

struct times {
    uint64_t *of;
    size_t count;
};

static void times_sort(struct times *times)
{
    qsort(times->of, times->count, sizeof(times->of[0]), u64_compare);
}

static int times_fill(struct weir_reads_result *result, const struct weir_reads_ops *ops)
{
    uint64_t *room = calloc(2 * ops->count + 1, sizeof(room[0]));
    if (!room)
        return WEIR_ENOMEM;
    struct times waits = { .of = room }, reads = { .of = room + result->waits },
                 writes = { .of = room + result->waits + result->reads };
    for (size_t i = 0; i < ops->count; i++) {
        const struct weir_reads_op *op = &ops->ops[i];
        if (op->outcome != WEIR_READS_DONE)
            continue;
        struct times *times = op->write ? &writes : &reads;
        times->of[times->count++] = op->end_ns - op->begin_ns;
        if (!op->write && op->waited_us > 0)
            waits.of[waits.count++] = (uint64_t)op->waited_us * 1000;
    }
    times_sort(&waits);
    times_sort(&reads);
    times_sort(&writes);
    result->wait_p50_ns = percentile(waits.of, waits.count, 50);
    result->wait_p99_ns = percentile(waits.of, waits.count, 99);
    result->wait_max_ns = percentile(waits.of, waits.count, 100);
    result->read_p50_ns = percentile(reads.of, reads.count, 50);
    result->read_p99_ns = percentile(reads.of, reads.count, 99);
    result->write_p50_ns = percentile(writes.of, writes.count, 50);
    free(room);
    return 0;
}

int weir_reads_judge(struct weir_reads_report *report, enum weir_reads_mode mode, const struct weir_reads_ops *ops)
{
    struct weir_reads_result *result = &report->results[mode];
    *result = (struct weir_reads_result){ .timeline = calloc(WEIR_READS_BUCKETS, sizeof(result->timeline[0])) };
    if (!result->timeline)
        return WEIR_ENOMEM;
    for (size_t i = 0; i < ops->count; i++)
        op_count(result, &ops->ops[i]);
    int error = judge(report, result, ops);
    return error ? error : times_fill(result, ops);
}

uint64_t weir_reads_violated(const struct weir_reads_result *result)
{
    uint64_t count = 0;
    for (unsigned i = 0; i < WEIR_READS_SERVERS_MAX; i++)
        count += result->violated_by[i];
    return count;
}

/* ---- lag ---- */

static void behind_fill(const struct weir_reads_lag *lag, unsigned server_count, unsigned server, uint64_t *room,
                        struct weir_reads_behind *behind)
{
    size_t known = 0, out = 0;
    for (size_t i = 0; i < lag->count; i++) {
        uint32_t sample = lag->samples[i * server_count + server];
        out += lag->out[i * server_count + server];
        if (sample != WEIR_READS_UNKNOWN)
            room[known++] = sample;
    }
    qsort(room, known, sizeof(room[0]), u64_compare);
    double all = lag->count > 0 ? (double)lag->count : 1;
    *behind = (struct weir_reads_behind){ .p50_us = percentile(room, known, 50),
                                          .p99_us = percentile(room, known, 99),
                                          .max_us = percentile(room, known, 100),
                                          .unknown = (double)(lag->count - known) / all,
                                          .out = (double)out / all };
}

int weir_reads_behind_fill(struct weir_reads_report *report)
{
    uint64_t *room = calloc(report->lag->count + 1, sizeof(room[0]));
    if (!room)
        return WEIR_ENOMEM;
    for (unsigned i = 1; i < report->plan->server_count; i++)
        behind_fill(report->lag, report->plan->server_count, i, room, &report->behind[i]);
    free(room);
    return 0;
}

void weir_reads_report_deinit(struct weir_reads_report *report)
{
    for (int mode = 0; mode < WEIR_READS_MODES; mode++)
        free(report->results[mode].timeline);
}
