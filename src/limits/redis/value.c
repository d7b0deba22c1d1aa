/* SPDX-License-Identifier: Apache-2.0
 *
 * Reading trusts no byte: numbers that no limit of ours could have make the value corrupt, so that nothing that is
 * stored trips an assert of core. The runs of a log are read as single units, and written as runs again. A value that
 * is fresh by now becomes a fresh key of the caller's limit, unless nodes may still hold units of it. Called by
 * script_core.c and script.c; inside the server, decide.lua and plain.lua read the same bytes. */
#include "limits/redis/value.h"

#include <stdlib.h>

#include "core/limit/ticks.h"

#define LOG_ROOM (2 * (uint32_t)WEIR_LOG_MAX) /* all that counts, and a charge beyond it (a debt) */

void weir_value_parameters(const struct weir_limit *limit, uint64_t calendar_hash, uint32_t revision, uint8_t *out)
{
    bool says = revision > WEIR_REVISION_FIRST;
    struct layout_writer w = { out, out + LAYOUT_PARAMETERS };
    layout_put_bytes(&w, LAYOUT_MAGIC, 4);
    layout_put(&w, 1, (uint64_t)limit->algorithm);
    layout_put(&w, 1, limit->calendar);
    layout_put(&w, 1, (uint64_t)((int64_t)limit->shift + 64));
    layout_put(&w, 1, says ? LAYOUT_REVISED : 0);
    layout_put(&w, 8, limit->capacity);
    layout_put(&w, 8, limit->emission);
    layout_put(&w, 8, limit->span);
    layout_put(&w, 8, limit->ahead_max);
    layout_put(&w, 8, limit->period_ns);
    layout_put(&w, 8, says ? (uint64_t)revision << 32 | (uint32_t)calendar_hash : calendar_hash);
    weir_assert(w.at == w.end);
}

bool weir_value_alike(const struct weir_value *value, const struct weir_remote_limit *remote)
{
    uint8_t a[LAYOUT_PARAMETERS], b[LAYOUT_PARAMETERS];
    weir_value_parameters(&value->limit, value->calendar_hash, WEIR_REVISION_MAX, a);
    weir_value_parameters(&remote->limit, remote->calendar_hash, WEIR_REVISION_MAX, b);
    return memcmp(a, b, sizeof a) == 0;
}

/* What core/limit asserts of a limit must hold of these numbers, whoever wrote them: what weir_limit_init may make, and
 * nothing else. */
static bool sane(const struct weir_limit *limit)
{
    if ((unsigned)limit->algorithm > WEIR_SLIDING_COUNTER || limit->shift < WEIR_TICKS_SHIFT_MIN ||
        limit->shift > WEIR_TICKS_SHIFT_MAX || limit->emission == 0 || limit->emission > 4 * WEIR_TICKS_SPAN_MAX ||
        limit->span > WEIR_TICKS_SPAN_MAX + 1 || limit->ahead_max < limit->span ||
        limit->ahead_max > 4 * WEIR_TICKS_SPAN_MAX || limit->period_ns == 0 || limit->capacity > WEIR_FILL_MAX_NS ||
        (limit->calendar && limit->algorithm != WEIR_FIXED_WINDOW))
        return false;
    if (weir_limit_is_bucket(limit))
        return weir_mul_sat(limit->capacity, limit->emission) == limit->span && limit->span <= WEIR_TICKS_SPAN_MAX;
    if (limit->algorithm == WEIR_SLIDING_LOG && limit->capacity > WEIR_LOG_MAX)
        return false;
    if (limit->algorithm == WEIR_SLIDING_COUNTER && limit->ahead_max < 2 * limit->span)
        return false;
    return limit->span == weir_ticks_of(limit->period_ns, limit->shift, WEIR_TICKS_SPAN_MAX) + (limit->shift < 0);
}

static bool read_parameters(struct layout_reader *r, struct weir_value *value)
{
    struct weir_limit *limit = &value->limit;
    const uint8_t *magic = layout_take(r, 4);
    if (!magic || memcmp(magic, LAYOUT_MAGIC, 4) != 0)
        return false;
    limit->algorithm = (enum weir_algorithm)layout_get(r, 1);
    uint64_t calendar = layout_get(r, 1);
    limit->calendar = calendar == 1;
    limit->shift = (int32_t)layout_get(r, 1) - 64;
    uint64_t revised = layout_get(r, 1);
    limit->capacity = layout_get(r, 8);
    limit->emission = layout_get(r, 8);
    limit->span = layout_get(r, 8);
    limit->ahead_max = layout_get(r, 8);
    limit->period_ns = layout_get(r, 8);
    value->calendar_hash = layout_get(r, 8);
    value->revision = WEIR_REVISION_FIRST;
    if (revised == LAYOUT_REVISED) {
        value->revision = (uint32_t)(value->calendar_hash >> 32);
        value->calendar_hash = (uint32_t)value->calendar_hash;
    }
    limit->inverse = limit->emission > 0 ? UINT64_MAX / limit->emission : 0;
    /* Else these bytes would not be those of any limit, and the value a changed one at each turn. */
    bool plain = calendar <= 1 && revised <= LAYOUT_REVISED && (!revised || value->revision > WEIR_REVISION_FIRST);
    return plain && sane(limit);
}

static bool is_log(const struct weir_limit *limit)
{
    return limit->algorithm == WEIR_SLIDING_LOG;
}

/* Not cleared: a log's room is a megabyte, of which most logs touch a few pages, and the others need none. */
static int make_room(struct weir_value *value, bool log)
{
    value->ledger.stints = malloc(WEIR_LEDGER_STINTS_MAX * sizeof *value->ledger.stints);
    value->ledger.stints_max = WEIR_LEDGER_STINTS_MAX;
    if (log)
        value->ledger.state.log.times = malloc(LOG_ROOM * sizeof(uint64_t));
    value->ledger.state.log.room = value->ledger.state.log.times ? LOG_ROOM : 0;
    if (value->ledger.stints && (!log || value->ledger.state.log.times))
        return 0;
    weir_value_deinit(value);
    return WEIR_ENOMEM;
}

void weir_value_deinit(struct weir_value *value)
{
    free(value->ledger.stints);
    free(value->ledger.state.log.times);
    value->ledger = (struct weir_ledger){ 0 };
}

/* In the order of their names, none twice; and no more is held than any limit has. */
static bool read_stints(struct layout_reader *r, struct weir_ledger *ledger)
{
    uint64_t before = 0;
    for (uint32_t i = 0; i < ledger->stints_count; i++) {
        struct weir_ledger_stint *stint = &ledger->stints[i];
        stint->stint = layout_get(r, 8);
        stint->seq = layout_get(r, 8);
        stint->spent = layout_get(r, 8);
        stint->held = layout_get(r, 8);
        stint->granted = layout_get(r, 8);
        stint->until_ns = layout_get(r, 8);
        if (stint->stint <= before)
            return false;
        before = stint->stint;
    }
    return weir_ledger_held(ledger) <= WEIR_FILL_MAX_NS;
}

/* Runs as single units. Times ascend, and no more units than a log may ever have. */
static bool read_runs(struct layout_reader *r, struct weir_log *log, uint64_t before, uint64_t first, uint64_t runs)
{
    uint64_t newest = 0;
    if (!layout_take(r, first * LAYOUT_RUN))
        return false;
    for (uint64_t i = 0; i < runs; i++) {
        uint64_t time = layout_get(r, 8), upto = layout_get(r, 8);
        if (upto < before || upto - before > weir_min_u64(log->room, WEIR_LOG_MAX) - log->used || time < newest)
            return false;
        for (; before < upto; before++)
            log->times[log->used++] = time;
        newest = time;
    }
    return true;
}

/* A log is fresh a period after its newest entry, or after a refund that was later. */
static bool is_fresh_after_log(const struct weir_limit *limit, const struct weir_state *state)
{
    const struct weir_log *log = &state->log;
    if (log->used == 0)
        return true;
    uint64_t newest = weir_ticks_at(log->times[log->used - 1], limit->shift);
    return weir_ticks_until(state->fresh_at, newest) >= limit->span;
}

static bool read_state(struct layout_reader *r, struct weir_value *value)
{
    struct weir_state *state = &value->ledger.state;
    value->at_ns = layout_get(r, 8);
    state->fresh_at = layout_get(r, 8);
    uint64_t second = layout_get(r, 8);
    state->count = layout_get(r, 8);
    value->ledger.debt = layout_get(r, 8);
    (void)layout_get(r, 8);
    uint64_t stints = layout_get(r, 4), first = layout_get(r, 4), runs = layout_get(r, 4);
    value->held = layout_get(r, 4) != 0;
    if (value->limit.algorithm == WEIR_FIXED_WINDOW)
        state->window = second;
    else if (value->limit.algorithm == WEIR_SLIDING_COUNTER)
        state->previous = second;
    if (r->short_of_bytes || stints > WEIR_LEDGER_STINTS_MAX || state->fresh_at > WEIR_TICKS_MASK ||
        state->window >> 63 || state->previous >> 63 || state->count >> 63)
        return false;
    value->rewrite = value->limit.algorithm == WEIR_SLIDING_LOG && second >> 50 > 0;
    value->ledger.stints_count = (uint32_t)stints;
    return read_stints(r, &value->ledger) && read_runs(r, &state->log, second, first, runs) &&
           is_fresh_after_log(&value->limit, state) && !r->short_of_bytes;
}

/* Times so far from now that they say nothing modulo 2^59 ticks are those of a clock that jumped, or of holds of which
 * all that was charged is long refilled. */
static void cut_far(struct weir_value *value, uint64_t now_ns)
{
    struct weir_state *state = &value->ledger.state;
    uint64_t far_ns = weir_value_far_ns(&value->limit), latest_ns = value->at_ns;
    if (state->log.used > 0)
        latest_ns = weir_max_u64(latest_ns, state->log.times[state->log.used - 1]);
    if (weir_sub_sat(latest_ns, now_ns) > far_ns)
        state->fresh_at = weir_ticks_add(weir_ticks_at(now_ns, value->limit.shift), 2 * WEIR_TICKS_DEBT_MAX - 1);
    for (uint32_t i = 0; i < value->ledger.stints_count; i++) {
        struct weir_ledger_stint *stint = &value->ledger.stints[i];
        if (weir_sub_sat(now_ns, stint->until_ns) > far_ns)
            stint->held = 0;
    }
}

int weir_value_read(const struct weir_remote_limit *remote, uint32_t revision, uint64_t now_ns, const uint8_t *bytes,
                    size_t size, struct weir_value *ret_value)
{
    const struct weir_limit *limit = &remote->limit;
    struct weir_value value = { .limit = *limit, .calendar_hash = remote->calendar_hash, .revision = revision };
    struct layout_reader r = { bytes, bytes + size, false };
    if (size > 0) {
        value.limit = (struct weir_limit){ 0 };
        if (!read_parameters(&r, &value))
            return WEIR_ECORRUPT;
    }
    int error = make_room(&value, is_log(limit) || is_log(&value.limit));
    if (error)
        return error;
    if (size > 0 && !read_state(&r, &value)) {
        weir_value_deinit(&value);
        return WEIR_ECORRUPT;
    }
    /* Fresh: of the state nothing is left, under whatever limit. But what is held may be charged as of a time when
     * something was. */
    bool recent = value.held && now_ns - value.at_ns < weir_value_far_ns(&value.limit);
    if (now_ns >= value.at_ns && !recent) {
        struct weir_log log = { value.ledger.state.log.times, value.ledger.state.log.room, 0, 0 };
        value.limit = *limit;
        value.calendar_hash = remote->calendar_hash;
        value.revision = revision;
        value.ledger.state = weir_state_fresh(limit, now_ns);
        value.ledger.state.log = log;
        value.ledger.debt = 0;
        value.rewrite = size > 0;
        for (uint32_t i = 0; i < value.ledger.stints_count; i++)
            value.ledger.stints[i].held = 0;
    }
    if (size > 0)
        cut_far(&value, now_ns);
    *ret_value = value;
    return 0;
}

uint64_t weir_value_debt_ticks(const struct weir_value *value)
{
    if (!weir_limit_is_bucket(&value->limit))
        return 0;
    return weir_min_u64(weir_mul_sat(value->ledger.debt, value->limit.emission), WEIR_TICKS_DEBT_MAX);
}

uint64_t weir_value_far_ns(const struct weir_limit *limit)
{
    return limit->shift >= 0 ? WEIR_TICKS_DEBT_MAX >> limit->shift : WEIR_TICKS_DEBT_MAX << -limit->shift;
}

/* How long the value means something: until the state is fresh; and what is held may be charged at its deadline, with
 * all that it takes to refill. */
static uint64_t lives_ns(const struct weir_value *value, uint64_t now_ns, uint64_t fresh_after_ns)
{
    const struct weir_ledger *ledger = &value->ledger;
    uint64_t lives = fresh_after_ns;
    for (uint32_t i = 0; i < ledger->stints_count; i++) {
        uint64_t left_ns = weir_sub_sat(ledger->stints[i].until_ns, now_ns);
        if (ledger->stints[i].held > 0) {
            uint64_t refill_ns = weir_ticks_wait_ns(value->limit.ahead_max, 0, value->limit.shift);
            left_ns = weir_add_sat(left_ns, weir_add_sat(fresh_after_ns, refill_ns));
        }
        lives = weir_max_u64(lives, left_ns);
    }
    return lives;
}

static size_t count_runs(const struct weir_log *log)
{
    size_t runs = 0;
    for (uint32_t i = 0; i < log->used; i++) {
        uint32_t at = (log->head + i) & (log->room - 1);
        runs += i == 0 || log->times[at] != log->times[(at - 1) & (log->room - 1)];
    }
    return runs;
}

static void write_runs(struct layout_writer *w, const struct weir_log *log)
{
    for (uint32_t i = 0; i < log->used; i++) {
        uint64_t time = log->times[(log->head + i) & (log->room - 1)];
        if (i + 1 < log->used && log->times[(log->head + i + 1) & (log->room - 1)] == time)
            continue;
        layout_put(w, 8, time);
        layout_put(w, 8, i + 1);
    }
}

int weir_value_write(const struct weir_value *value, uint64_t now_ns, uint8_t **ret_bytes, size_t *ret_size,
                     uint64_t *ret_ttl_ms)
{
    const struct weir_limit *limit = &value->limit;
    const struct weir_ledger *ledger = &value->ledger;
    const struct weir_state *state = &ledger->state;
    size_t runs = limit->algorithm == WEIR_SLIDING_LOG ? count_runs(&state->log) : 0;
    size_t size = LAYOUT_VALUE + ledger->stints_count * LAYOUT_STINT + runs * LAYOUT_RUN;
    uint8_t *bytes = malloc(size);
    if (!bytes)
        return WEIR_ENOMEM;
    uint64_t ahead = weir_ticks_until(state->fresh_at, weir_ticks_at(now_ns, limit->shift));
    uint64_t wait_ns = weir_ticks_wait_ns(ahead, now_ns, limit->shift), held = 0;
    uint64_t at_ns = weir_add_sat(weir_add_sat(now_ns, wait_ns), limit->calendar ? 64 : 0);
    struct layout_writer w = { bytes, bytes + size };
    weir_value_parameters(limit, value->calendar_hash, value->revision, w.at);
    w.at += LAYOUT_PARAMETERS;
    layout_put(&w, 8, at_ns);
    layout_put(&w, 8, state->fresh_at);
    layout_put(&w, 8, limit->algorithm == WEIR_SLIDING_COUNTER ? state->previous : state->window);
    layout_put(&w, 8, state->count);
    layout_put(&w, 8, ledger->debt);
    layout_put(&w, 8, weir_value_debt_ticks(value));
    for (uint32_t i = 0; i < ledger->stints_count; i++)
        held |= ledger->stints[i].held;
    layout_put(&w, 4, ledger->stints_count);
    layout_put(&w, 4, 0);
    layout_put(&w, 4, runs);
    layout_put(&w, 4, held > 0);
    for (uint32_t i = 0; i < ledger->stints_count; i++) {
        const struct weir_ledger_stint *stint = &ledger->stints[i];
        const uint64_t words[] = {
            stint->stint, stint->seq, stint->spent, stint->held, stint->granted, stint->until_ns
        };
        for (size_t j = 0; j < sizeof words / sizeof words[0]; j++)
            layout_put(&w, 8, words[j]);
    }
    if (runs > 0)
        write_runs(&w, &state->log);
    weir_assert(w.at == w.end);
    *ret_bytes = bytes;
    *ret_size = size;
    *ret_ttl_ms = lives_ns(value, now_ns, wait_ns) / 1000000 + 1;
    return 0;
}
