/* SPDX-License-Identifier: Apache-2.0 */
#include "stream.h"

#define SECOND WEIR_NS_PER_SECOND
#define DAY (86400 * SECOND)
#define START_NS (UINT64_C(1) << 58) /* 9 years: room to be stale, and to jump 10 years and more */
#define COUNT_MAX (UINT64_C(1) << 44)

static uint64_t below(struct stream *stream, uint64_t bound)
{
    return test_random_below(&stream->random, bound);
}

static bool percent(struct stream *stream, uint64_t share)
{
    return below(stream, 100) < share;
}

/* 1 to max, every power of two as likely as any other. */
static uint64_t log_uniform(struct stream *stream, uint64_t max)
{
    uint64_t drawn = test_random_u64(&stream->random); /* one after the other, whatever the compiler's order is */
    uint64_t value = drawn >> below(stream, 64);
    return value == 0 || value > max ? 1 + below(stream, max > 16 ? 16 : max) : value;
}

static uint64_t min_u64(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static uint64_t draw_period(struct stream *stream)
{
    static const uint64_t periods[] = {
        1, 1000, 1000000, SECOND, 60 * SECOND, 3600 * SECOND, DAY, 30 * DAY, 366 * DAY
    };
    return percent(stream, 70) ? periods[below(stream, 9)] : log_uniform(stream, 3650 * DAY);
}

/* b * p / n at most 10 years. */
static uint64_t draw_burst(struct stream *stream, uint64_t count, uint64_t period_ns)
{
    __extension__ typedef unsigned __int128 u128;
    u128 max = (u128)WEIR_FILL_MAX_NS * count / period_ns;
    uint64_t burst_max = max > WEIR_BURST_MAX ? WEIR_BURST_MAX : (uint64_t)max;
    if (percent(stream, 10)) {
        return burst_max;
    }
    return percent(stream, 60) ? 1 + below(stream, min_u64(burst_max, 30)) : log_uniform(stream, burst_max);
}

static void draw_bucket_rate(struct stream *stream, struct weir_limit_spec *spec)
{
    spec->period_ns = draw_period(stream);
    uint64_t count_min = 1 + (spec->period_ns - 1) / WEIR_EMISSION_MAX_NS;
    uint64_t count_max = min_u64(spec->period_ns, COUNT_MAX);
    if (percent(stream, 8)) {
        spec->count = count_max; /* 10^9 per second */
    } else if (percent(stream, 8)) {
        spec->count = count_min;
    } else {
        spec->count = log_uniform(stream, count_max);
    }
    if (spec->count < count_min) {
        spec->count = count_min;
    }
    spec->burst = draw_burst(stream, spec->count, spec->period_ns);
}

static void draw_window_rate(struct stream *stream, struct weir_limit_spec *spec)
{
    spec->period_ns = min_u64(draw_period(stream), WEIR_FILL_MAX_NS);
    uint64_t count_min = 1 + (spec->period_ns - 1) / WEIR_EMISSION_MAX_NS;
    uint64_t count_max = min_u64(spec->period_ns, COUNT_MAX);
    if (spec->algorithm == WEIR_SLIDING_LOG) {
        count_max = min_u64(count_max, percent(stream, 3) ? WEIR_LOG_MAX : 60);
    }
    spec->count = percent(stream, 50) ? 1 + below(stream, min_u64(count_max, 30)) : log_uniform(stream, count_max);
    if (spec->count < count_min) {
        spec->count = count_min;
    }
}

static bool is_bucket(enum weir_algorithm algorithm)
{
    return algorithm == WEIR_TOKEN_BUCKET || algorithm == WEIR_LEAKY_BUCKET;
}

static struct weir_limit_spec draw_spec(struct stream *stream, enum weir_algorithm algorithm)
{
    struct weir_limit_spec spec = { .algorithm = algorithm };
    if (is_bucket(algorithm)) {
        draw_bucket_rate(stream, &spec);
    } else {
        draw_window_rate(stream, &spec);
    }
    if (percent(stream, 2)) {
        spec.count = 0;
    }
    if (algorithm == WEIR_FIXED_WINDOW && percent(stream, 50)) {
        spec.align = WEIR_ALIGN_FIRST;
    }
    spec.count_mode = percent(stream, 25) ? WEIR_COUNT_ATTEMPTS : WEIR_COUNT_ADMITTED;
    spec.on_change = (enum weir_on_change)below(stream, 2); /* keep or proportional: a reset is a new key */
    return spec;
}

/* The next limit: often a small change of this one, as reloads are. */
static struct weir_limit_spec redraw_spec(struct stream *stream)
{
    struct weir_limit_spec spec = stream->spec;
    struct weir_limit_spec drawn = draw_spec(stream, spec.algorithm);
    if (percent(stream, 40)) {
        drawn.align = spec.align;
        return drawn;
    }
    spec.on_change = drawn.on_change;
    if (is_bucket(spec.algorithm) && percent(stream, 50)) {
        spec.burst = spec.count > 0 ? draw_burst(stream, spec.count, spec.period_ns) : 0;
    } else {
        uint64_t count = percent(stream, 50) ? spec.count / 2 : spec.count * 2;
        spec.count = count > 0 ? count : 1;
    }
    struct weir_fault fault;
    return weir_limit_check(&spec, &fault) == 0 ? spec : drawn;
}

void stream_init(struct stream *stream, uint64_t seed, enum weir_algorithm algorithm, uint64_t skew_max_ns)
{
    *stream = (struct stream){ .random = { seed }, .skew_max_ns = skew_max_ns, .step_log2 = 4 };
    stream->honest = percent(stream, 50);
    stream->newest_ns = START_NS + below(stream, START_NS);
    stream->spec = draw_spec(stream, algorithm);
}

/* Around one unit's time, times what the steering says. */
static uint64_t draw_step(struct stream *stream)
{
    uint64_t unit_ns = stream->spec.count > 0 ? stream->spec.period_ns / stream->spec.count : stream->spec.period_ns;
    uint64_t mean = unit_ns >> 4 ? unit_ns >> 4 : 1;
    int left = stream->step_log2;
    mean = left >= 0 ? (mean > (UINT64_C(1) << 53) >> left ? UINT64_C(1) << 53 : mean << left) : mean >> -left;
    return below(stream, 2 * mean + 2);
}

static uint64_t draw_cost(struct stream *stream)
{
    uint64_t capacity = weir_limit_capacity(&stream->spec);
    uint64_t kind = below(stream, 100);
    if (kind < 45) {
        return 1;
    }
    if (kind < 48) {
        return 0;
    }
    if (kind < 66) {
        return 1 + below(stream, min_u64(capacity, 8));
    }
    if (kind < 93) {
        return 1 + below(stream, capacity);
    }
    if (kind < 97) {
        return capacity;
    }
    return kind < 99 ? capacity + 1 : (uint64_t)WEIR_COST_MAX - below(stream, 3);
}

static uint64_t draw_jump(struct stream *stream)
{
    uint64_t fill = 2 * stream->spec.period_ns;
    uint64_t far = percent(stream, 50) ? fill : 5000 * DAY;
    return stream->skew_max_ns + 1 + below(stream, min_u64(far, stream->jump_max_ns));
}

/* When it happens: aimed, stale, jumping, or a step on. */
static void draw_time(struct stream *stream, struct op *op)
{
    uint64_t kind = below(stream, 100);
    if (stream->return_ns > 0) {
        op->jump = true;
        stream->newest_ns = stream->return_ns;
        stream->return_ns = 0;
        op->now_ns = stream->newest_ns + below(stream, 3);
    } else if (!stream->honest && kind < 3 && stream->newest_ns < START_NS * 4) {
        op->jump = true;
        stream->return_ns = stream->newest_ns;
        op->now_ns = stream->newest_ns + draw_jump(stream);
    } else if (!stream->honest && kind < 20) {
        op->stale = true;
        op->now_ns = stream->newest_ns - (percent(stream, 30) ? 1 : 1 + below(stream, stream->skew_max_ns));
    } else if (kind < 48 && stream->aims_count > 0) {
        uint64_t aim_ns = stream->aims[below(stream, (uint64_t)stream->aims_count)];
        op->now_ns = aim_ns + below(stream, 3) - 1;
        op->cost = percent(stream, 80) ? stream->aim_cost : op->cost;
    } else {
        op->now_ns = stream->newest_ns + draw_step(stream);
    }
    if (stream->honest && op->now_ns < stream->newest_ns) {
        op->now_ns = stream->newest_ns;
    }
    op->stale |= !op->jump && op->now_ns < stream->newest_ns;
    stream->newest_ns = op->now_ns > stream->newest_ns ? op->now_ns : stream->newest_ns;
}

struct op stream_next(struct stream *stream)
{
    struct op op = { .kind = OP_CHARGE, .cost = draw_cost(stream) };
    uint64_t kind = below(stream, 1000);
    draw_time(stream, &op);
    if (kind < 12 && !op.stale && !op.jump) {
        op.kind = OP_RECONFIGURE;
        op.spec = redraw_spec(stream);
        stream->spec = op.spec;
    } else if (kind < 40) {
        op.kind = OP_REFUND;
    } else if (kind < 120) {
        op.kind = OP_PEEK;
    }
    return op;
}

/* Times beyond this would leave the range in which everything is exact in 128 bits. */
static void aim(struct stream *stream, uint64_t now_ns, uint64_t wait_ns)
{
    if (wait_ns > 0 && wait_ns < WEIR_FILL_MAX_NS && now_ns + wait_ns < START_NS * 4) {
        stream->aims[stream->aims_count++] = now_ns + wait_ns;
    }
}

void stream_tell(struct stream *stream, const struct op *op, const struct weir_verdict *verdict)
{
    if (op->kind == OP_CHARGE || op->kind == OP_PEEK) {
        int step = verdict->admitted ? -4 : 1;
        if (op->cost > 0 && verdict->retry_after_ns != WEIR_NEVER && stream->step_log2 + step >= -40 &&
            stream->step_log2 + step <= 40) {
            stream->step_log2 += step;
        }
    }
    stream->aims_count = 0;
    stream->aim_cost = op->cost;
    aim(stream, op->now_ns, verdict->retry_after_ns);
    aim(stream, op->now_ns, verdict->retry_after_ns);
    aim(stream, op->now_ns, verdict->next_after_ns);
    aim(stream, op->now_ns, verdict->reset_after_ns);
}
