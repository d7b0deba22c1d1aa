/* SPDX-License-Identifier: Apache-2.0
 *
 * CL.THROTTLE as redis-cell defined it, and DEL, which resets its counters. */
#include "observe/metrics.h"
#include "serve/refused.h"
#include "serve/resp_call.h"
#include "wire/resp_write.h"

#define PERIOD_MAX_S ((int64_t)(WEIR_FILL_MAX_NS / WEIR_NS_PER_SECOND))

static int64_t whole_seconds(uint64_t ns)
{
    return (int64_t)(ns / WEIR_NS_PER_SECOND + (ns % WEIR_NS_PER_SECOND != 0));
}

static uint8_t *put_verdict(uint8_t *at, const struct weir_verdict *verdict)
{
    bool waits = !verdict->admitted && verdict->retry_after_ns != WEIR_NEVER;
    memcpy(at, verdict->admitted ? "*5\r\n:0\r\n" : "*5\r\n:1\r\n", 8);
    at = weir_resp_put_integer(at + 8, (int64_t)verdict->capacity);
    at = weir_resp_put_integer(at, (int64_t)verdict->remaining);
    at = weir_resp_put_integer(at, waits ? whole_seconds(verdict->retry_after_ns) : -1);
    return weir_resp_put_integer(at, whole_seconds(verdict->reset_after_ns));
}

/* How many were refused. */
static uint64_t count_verdicts(const struct weir_loop *loop, const struct weir_verdict *verdicts, size_t count)
{
    uint64_t sums[WEIR_METRICS_VERDICTS] = { 0 };
    for (size_t i = 0; i < count; i++)
        sums[weir_metrics_verdict_of(&verdicts[i])]++;
    for (size_t i = 0; i < WEIR_METRICS_VERDICTS; i++) {
        if (sums[i] > 0)
            weir_metrics_decided(loop->common->metrics, loop->number, WEIR_METRICS_THROTTLE,
                                 (enum weir_metrics_verdict)i, sums[i]);
    }
    return count - sums[WEIR_METRICS_ADMITTED];
}

static void count_refused(const struct weir_resp_call *call, size_t count)
{
    const struct weir_resp_batch *batch = &call->work->batch;
    struct weir_refused_cell cells[WEIR_RESP_BATCH];
    size_t refused = 0;
    for (size_t i = 0; i < count; i++) {
        if (batch->verdicts[i].admitted)
            continue;
        cells[refused++] = (struct weir_refused_cell){ .hash = batch->keys[i].hash,
                                                       .key = batch->texts[i],
                                                       .cost = batch->costs[i],
                                                       .retry_after_ns = batch->verdicts[i].retry_after_ns };
    }
    weir_refused_cells(call->conn->loop, cells, refused, call->time->now_ns);
}

void weir_resp_batch_flush(const struct weir_resp_call *call)
{
    struct weir_resp_batch *batch = &call->work->batch;
    size_t count = batch->count;
    if (count == 0)
        return;
    batch->count = 0;
    int error = weir_limiter_bucket_decide_many(call->conn->loop->limiter, batch->buckets, batch->keys, batch->costs,
                                                count, call->time, 0, batch->verdicts);
    if (error) {
        for (size_t i = 0; i < count; i++)
            weir_resp_reply_fault(call, error, NULL);
        return;
    }
    if (count_verdicts(call->conn->loop, batch->verdicts, count) > 0)
        count_refused(call, count);
    uint8_t *start = weir_conn_reserve(call->conn, count * (8 + 4 * WEIR_RESP_HEADER_MAX));
    if (!start)
        return;
    uint8_t *at = start;
    for (size_t i = 0; i < count; i++)
        at = put_verdict(at, &batch->verdicts[i]);
    weir_conn_commit(call->conn, (size_t)(at - start));
}

/* An error is an answer: those before it come first. */
static void refuse(const struct weir_resp_call *call, const char *text)
{
    weir_resp_batch_flush(call);
    weir_resp_reply_error(call, "ERR %s", text);
}

static struct weir_limit_spec spec_of(const struct weir_resp_compiled *wanted)
{
    return (struct weir_limit_spec){ .algorithm = WEIR_TOKEN_BUCKET,
                                     .count = (uint64_t)wanted->count,
                                     .period_ns = (uint64_t)wanted->period_s * WEIR_NS_PER_SECOND,
                                     .burst = (uint64_t)wanted->max_burst + 1 };
}

static int compile(const struct weir_resp_call *call, struct weir_resp_compiled *wanted)
{
    struct weir_fault fault = { 0 };
    const struct weir_limit_spec spec = spec_of(wanted);
    int error = weir_bucket_init(&wanted->bucket, &spec, &fault);
    if (error) {
        weir_resp_batch_flush(call);
        weir_resp_reply_fault(call, error, &fault);
    }
    return error;
}

static bool check_ranges(const struct weir_resp_call *call, const struct weir_resp_compiled *wanted, int64_t quantity)
{
    if (wanted->max_burst < 0 || wanted->max_burst >= (int64_t)WEIR_BURST_MAX)
        refuse(call, "max_burst must be an integer from 0 to 999999999999");
    else if (wanted->count < 0)
        refuse(call, "count per period must be an integer from 1 to 9223372036854775807");
    else if (wanted->count == 0 || wanted->period_s == 0)
        refuse(call, "Zero rates are not supported");
    else if (wanted->period_s < 0 || wanted->period_s > PERIOD_MAX_S)
        refuse(call, "period must be an integer from 1 to 315360000 seconds");
    else if (quantity < 0)
        refuse(call, "quantity must be an integer from 0 to 9223372036854775807");
    else
        return true;
    return false;
}

/* The bucket of these parameters: compiled before, or now in the place where it will be found next time. */
static const struct weir_bucket *find_bucket(const struct weir_resp_call *call, struct weir_resp_compiled *wanted)
{
    uint64_t mixed = (uint64_t)wanted->max_burst + (uint64_t)wanted->count * 31 + (uint64_t)wanted->period_s * 961;
    size_t place = (mixed ^ mixed >> 6 ^ mixed >> 12) % WEIR_RESP_COMPILED;
    struct weir_resp_compiled *known = &call->work->compiled[place];
    if (known->bucket.burst == 0 || known->max_burst != wanted->max_burst || known->count != wanted->count ||
        known->period_s != wanted->period_s) {
        if (compile(call, wanted))
            return NULL;
        *known = *wanted;
    }
    return &known->bucket;
}

static bool read_arguments(const struct weir_resp_call *call, struct weir_resp_compiled *ret_wanted,
                           int64_t *ret_quantity)
{
    *ret_quantity = 1;
    if (weir_resp_integer(call->args[2], &ret_wanted->max_burst) &&
        weir_resp_integer(call->args[3], &ret_wanted->count) &&
        weir_resp_integer(call->args[4], &ret_wanted->period_s) &&
        (call->count < 6 || weir_resp_integer(call->args[5], ret_quantity)))
        return true;
    refuse(call, "value is not an integer or out of range");
    return false;
}

/* The bytes from the first parameter to the end of the last, with RESP's own between them, which make clear where each
 * begins; a line has none. */
static struct weir_slice written(const struct weir_resp_call *call)
{
    const uint8_t *start = call->args[2].data;
    const uint8_t *end = (const uint8_t *)call->args[4].data + call->args[4].size;
    bool array = call->count == 5 && !call->in_exec && !call->work->command.line;
    return (struct weir_slice){ start, array ? (size_t)(end - start) : 0 };
}

static bool is_recent(const struct weir_resp_recent *recent, struct weir_slice text)
{
    return text.size == recent->size && text.size > 0 && memcmp(text.data, recent->text, text.size) == 0;
}

static void remember(struct weir_resp_recent *recent, struct weir_slice text, const struct weir_bucket *bucket)
{
    recent->size = text.size <= sizeof(recent->text) ? text.size : 0;
    memcpy(recent->text, text.data, recent->size);
    recent->bucket = *bucket;
}

/* The bucket and quantity of a call; NULL when it has been refused. */
static const struct weir_bucket *read_call(const struct weir_resp_call *call, uint64_t *ret_quantity)
{
    struct weir_resp_recent *recent = &call->work->recent;
    struct weir_slice text = written(call);
    *ret_quantity = 1;
    if (is_recent(recent, text))
        return &recent->bucket;

    struct weir_resp_compiled wanted;
    int64_t quantity;
    if (!read_arguments(call, &wanted, &quantity) || !check_ranges(call, &wanted, quantity))
        return NULL;
    const struct weir_bucket *bucket = find_bucket(call, &wanted);
    if (bucket && text.size > 0)
        remember(recent, text, bucket);
    *ret_quantity = (uint64_t)quantity;
    return bucket;
}

void weir_resp_reply_throttle(const struct weir_resp_call *call, const struct weir_verdict *verdict)
{
    uint8_t *start = weir_conn_reserve(call->conn, 8 + 4 * WEIR_RESP_HEADER_MAX);
    if (start)
        weir_conn_commit(call->conn, (size_t)(put_verdict(start, verdict) - start));
}

/* At the engine. What can be said at once still waits for the answers before it. */
static void throttle_shared(const struct weir_resp_call *call)
{
    size_t pending = weir_conn_pending(call->conn);
    struct weir_resp_compiled wanted;
    int64_t quantity;
    bool later = false;
    if (read_arguments(call, &wanted, &quantity) && check_ranges(call, &wanted, quantity)) {
        const struct weir_limit_spec spec = spec_of(&wanted);
        later = weir_resp_cell_throttle(call, &spec, (uint64_t)quantity);
    }
    if (!later && call->session->later_count > 0)
        weir_resp_later_written(call, pending, NULL);
}

void weir_resp_throttle(const struct weir_resp_call *call)
{
    if (weir_resp_cell_is_shared(call)) {
        throttle_shared(call);
        return;
    }
    struct weir_resp_batch *batch = &call->work->batch;
    uint64_t quantity;
    const struct weir_bucket *bucket = read_call(call, &quantity);
    if (!bucket)
        return;
    size_t place = batch->count;
    if (weir_limiter_bucket_key(call->conn->loop->limiter, call->args[1], &batch->keys[place])) {
        refuse(call, "key must be at most 4096 bytes long");
        return;
    }
    batch->texts[place] = call->args[1];
    batch->buckets[place] = *bucket;
    batch->costs[place] = quantity;
    if (++batch->count == WEIR_RESP_BATCH)
        weir_resp_batch_flush(call);
}

void weir_resp_del(const struct weir_resp_call *call)
{
    int64_t forgotten = 0;
    if (weir_resp_cell_is_shared(call)) {
        size_t pending = weir_conn_pending(call->conn);
        if (!weir_resp_cell_del(call) && call->session->later_count > 0)
            weir_resp_later_written(call, pending, NULL);
        return;
    }
    for (size_t i = 1; i < call->count; i++) {
        struct weir_key key;
        bool found = false;
        if (weir_limiter_bucket_key(call->conn->loop->limiter, call->args[i], &key) == 0 &&
            weir_limiter_bucket_forget(call->conn->loop->limiter, &key, &found) == 0)
            forgotten += found;
    }
    weir_resp_reply_integer(call, forgotten);
}
