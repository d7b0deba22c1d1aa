/* SPDX-License-Identifier: Apache-2.0 */
#include "stream.h"

#include "base/checked.h"

#define SECOND WEIR_NS_PER_SECOND
#define HOUR (3600 * SECOND)
#define DAY (24 * HOUR)

/* Slow and fast, small and large, each algorithm. */
static const struct weir_limit_spec specs[] = {
    { .algorithm = WEIR_TOKEN_BUCKET, .count = 10, .period_ns = SECOND, .burst = 20 },
    { .algorithm = WEIR_TOKEN_BUCKET, .count = 3, .period_ns = SECOND / 7, .burst = 1 },
    { .algorithm = WEIR_TOKEN_BUCKET, .count = 1000000000, .period_ns = SECOND, .burst = 1000000000000 },
    { .algorithm = WEIR_TOKEN_BUCKET, .count = 1, .period_ns = 366 * DAY, .burst = 9 },
    { .algorithm = WEIR_LEAKY_BUCKET, .count = 50, .period_ns = SECOND, .burst = 100 },
    { .algorithm = WEIR_LEAKY_BUCKET, .count = 2, .period_ns = 3, .burst = 5 },
    { .algorithm = WEIR_FIXED_WINDOW, .count = 100, .period_ns = HOUR, .align = WEIR_ALIGN_FIRST },
    { .algorithm = WEIR_FIXED_WINDOW, .count = 17, .period_ns = 1000003, .align = WEIR_ALIGN_FIRST },
    { .algorithm = WEIR_FIXED_WINDOW, .count = 30, .period_ns = 10 * SECOND },
    { .algorithm = WEIR_FIXED_WINDOW, .count = 5, .period_ns = DAY, .calendar = WEIR_CALENDAR_DAY },
    { .algorithm = WEIR_SLIDING_LOG, .count = 12, .period_ns = SECOND },
    { .algorithm = WEIR_SLIDING_LOG, .count = 1000, .period_ns = 60 * SECOND },
    { .algorithm = WEIR_SLIDING_COUNTER, .count = 40, .period_ns = 5 * SECOND },
    { .algorithm = WEIR_SLIDING_COUNTER, .count = 1000000007, .period_ns = 3 * SECOND + 1 },
    { .algorithm = WEIR_TOKEN_BUCKET, .count = 0, .period_ns = SECOND },
    { .algorithm = WEIR_LEAKY_BUCKET, .count = 999999937, .period_ns = SECOND, .burst = 3 },
};
enum { SPECS = sizeof specs / sizeof specs[0] };

/* splitmix64 (Steele, Lea and Flood, 2014). */
static uint64_t random_next(struct weir_stream *stream)
{
    uint64_t z = stream->random += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

static uint64_t random_below(struct weir_stream *stream, uint64_t bound)
{
    return random_next(stream) % bound;
}

static void digest_add(struct weir_stream *stream, uint64_t value)
{
    uint64_t z = (stream->digest ^ value) * UINT64_C(0xff51afd7ed558ccd);
    stream->digest = (z ^ z >> 33) * UINT64_C(0xc4ceb9fe1a85ec53) + 1;
}

static void digest_state(struct weir_stream *stream, const struct weir_state *state)
{
    digest_add(stream, state->fresh_at);
    digest_add(stream, state->window);
    digest_add(stream, state->count);
    digest_add(stream, state->previous);
    digest_add(stream, state->log.used);
    if (state->log.used > 0)
        digest_add(stream, state->log.times[(state->log.head + state->log.used - 1) & (state->log.room - 1)]);
}

static void digest_verdict(struct weir_stream *stream, const struct weir_verdict *verdict)
{
    digest_add(stream, verdict->admitted);
    digest_add(stream, verdict->capacity);
    digest_add(stream, verdict->remaining);
    digest_add(stream, verdict->retry_after_ns);
    digest_add(stream, verdict->reset_after_ns);
    digest_add(stream, verdict->next_after_ns);
    digest_add(stream, verdict->delay_ns);
}

/* Returns how long the limit takes to recover from empty. */
static uint64_t compile_limit(struct weir_limit *limit, const struct weir_limit_spec *spec)
{
    int error = weir_limit_init(limit, spec, SECOND, NULL);
    weir_assert(error == 0);
    return spec->count > 0 ? weir_mul_div(spec->period_ns, limit->capacity, spec->count) : HOUR;
}

void weir_stream_init(struct weir_stream *stream, uint64_t seed)
{
    stream->random = seed;
    stream->digest = 0;
    for (size_t i = 0; i < STREAM_COUNTS; i++)
        stream->counts[i] = 0;
    for (size_t i = 0; i < STREAM_KEYS; i++) {
        struct weir_stream_key *key = &stream->keys[i];
        key->now_ns = 40 * 365 * DAY;
        key->recover_ns = compile_limit(&key->limit, &specs[i % SPECS]);
        key->state = weir_state_fresh(&key->limit, key->now_ns);
        key->state.log = (struct weir_log){ .times = stream->times[i][0], .room = STREAM_LOG_ROOM };
        key->back_at_ns = 0;
        key->other_buffer = false;
    }
}

/* Each key has a clock of its own, so that a rate of 10^9 per second is as busy as one of 1 per year. Mostly steps
 * small
 * beside the time that the limit takes to recover; sometimes to the nanosecond at which a refused key was told to come
 * back, or one beside it; sometimes far, backwards, or forwards and back again. Slow keys run through all 2^64 ns. */
static uint64_t advance(struct weir_stream *stream, struct weir_stream_key *key)
{
    uint64_t dice = random_below(stream, 100);
    uint64_t now = key->now_ns;
    if (dice < 20 && key->back_at_ns > now) {
        stream->counts[STREAM_EDGE]++;
        now = key->back_at_ns - 1 + random_below(stream, 3);
    } else if (dice < 90) {
        now += random_below(stream, key->recover_ns / 4 + 2);
    } else if (dice < 91) {
        now += random_below(stream, 2 * key->recover_ns + 2 * SECOND);
    } else if (dice < 96) {
        return now - random_below(stream, 2 * SECOND); /* stale; the key's own time stays */
    } else if (dice < 97) {
        stream->counts[STREAM_JUMPED]++;
        return now + random_below(stream, 40 * DAY); /* ahead, and back with the next operation */
    }
    return key->now_ns = now;
}

static uint64_t choose_cost(struct weir_stream *stream, const struct weir_limit *limit)
{
    switch (random_below(stream, 12)) {
    case 0:
        return 0;
    case 1:
        return random_below(stream, 10);
    case 2:
        return limit->capacity;
    case 3:
        return limit->capacity / 3;
    case 4:
        return random_below(stream, 50) == 0 ? WEIR_COST_MAX : limit->capacity / 2 + 1;
    default:
        return 1;
    }
}

static struct weir_event make_event(struct weir_stream *stream, const struct weir_limit *limit, uint64_t now_ns)
{
    struct weir_event event = { .now_ns = now_ns, .cost = choose_cost(stream, limit) };
    if (limit->calendar) {
        event.window.id = now_ns / limit->period_ns;
        event.window.end_after_ns = limit->period_ns - now_ns % limit->period_ns;
        event.window.closed = random_below(stream, 100) == 0;
    }
    return event;
}

/* Whether the log has room for `units` more, moving it to the key's other buffer now and then. */
static bool have_room(struct weir_stream *stream, struct weir_stream_key *key, const struct weir_limit *limit,
                      const struct weir_event *event, uint64_t units)
{
    if (weir_limit_room(limit, &key->state, event, units) > STREAM_LOG_ROOM)
        return false;
    if (random_below(stream, 64) == 0) {
        key->other_buffer = !key->other_buffer;
        weir_log_move(&key->state.log, stream->times[key - stream->keys][key->other_buffer], STREAM_LOG_ROOM);
    }
    return true;
}

static void ask(struct weir_stream *stream, struct weir_stream_key *key, const struct weir_event *event)
{
    struct weir_verdict verdict = { 0 };
    bool admitted = weir_limit_judge(&key->limit, &key->state, event, &verdict);
    digest_verdict(stream, &verdict);
    stream->counts[admitted ? STREAM_ADMITTED : STREAM_REFUSED]++;
    stream->counts[STREAM_NEVER] += verdict.retry_after_ns == WEIR_NEVER;
    key->back_at_ns = admitted || verdict.retry_after_ns == WEIR_NEVER ? 0 : event->now_ns + verdict.retry_after_ns;
    if (admitted) {
        if (have_room(stream, key, &key->limit, event, event->cost))
            weir_limit_charge(&key->limit, &key->state, event, &verdict);
    } else if (verdict.retry_after_ns != WEIR_NEVER && random_below(stream, 8) == 0 &&
               have_room(stream, key, &key->limit, event, key->limit.capacity)) {
        stream->counts[STREAM_DRAINED]++;
        weir_limit_drain(&key->limit, &key->state, event, &verdict);
    } else if (weir_limit_jumped(&key->limit, &key->state, event->now_ns) &&
               have_room(stream, key, &key->limit, event, key->limit.capacity)) {
        weir_limit_settle(&key->limit, &key->state, event);
    }
    digest_verdict(stream, &verdict);
}

/* The key's limit becomes another, the next in the table or any. */
static void convert(struct weir_stream *stream, struct weir_stream_key *key, const struct weir_event *event)
{
    enum weir_on_change on_change = random_below(stream, 2) ? WEIR_ON_CHANGE_KEEP : WEIR_ON_CHANGE_PROPORTIONAL;
    struct weir_limit to;
    uint64_t recover_ns = compile_limit(&to, &specs[random_below(stream, SPECS)]);
    weir_limit_follow(&to, &key->limit, event->now_ns);
    struct weir_event there = make_event(stream, &to, event->now_ns);
    if (!key->limit.calendar || !to.calendar)
        there.window = to.calendar ? there.window : event->window;
    uint64_t carried = weir_limit_carried(&key->limit, &to, on_change, &key->state, &there);
    digest_add(stream, carried);
    if (!have_room(stream, key, &to, &there, carried))
        return;
    stream->counts[STREAM_CONVERTED]++;
    weir_limit_convert(&key->limit, &to, on_change, &key->state, &there);
    key->limit = to;
    key->recover_ns = recover_ns;
    key->back_at_ns = 0;
}

static void step(struct weir_stream *stream)
{
    struct weir_stream_key *key = &stream->keys[random_below(stream, STREAM_KEYS)];
    struct weir_event event = make_event(stream, &key->limit, advance(stream, key));
    uint64_t dice = random_below(stream, 100);
    if (dice < 92) {
        ask(stream, key, &event);
    } else if (dice < 97) {
        uint64_t back = weir_limit_refund(&key->limit, &key->state, &event, event.cost);
        stream->counts[STREAM_REFUNDED] += back > 0;
        digest_add(stream, back);
    } else {
        convert(stream, key, &event);
    }
    digest_add(stream, weir_limit_used(&key->limit, &key->state, &event));
    digest_state(stream, &key->state);
}

uint64_t weir_stream_run(struct weir_stream *stream, uint64_t operations)
{
    for (uint64_t i = 0; i < operations; i++)
        step(stream);
    return stream->digest;
}
