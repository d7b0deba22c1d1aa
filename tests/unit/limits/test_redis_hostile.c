/* SPDX-License-Identifier: Apache-2.0
 *
 * Stored values, and replies of the script, that nobody of ours wrote: whatever their bytes say, they are refused as
 * corrupt or decided by, and no assertion ends the program. */
#include "limits/redis/script.h"
#include "limits/redis/script_core.h"
#include "limits/redis/value.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <setjmp.h>

#include <cmocka.h>

#include "core/limit/ticks.h"
#include "random.h"

#define NOW_NS UINT64_C(0x18ea839d90000000)
#define MINUTE_NS (60 * WEIR_NS_PER_SECOND)
#define DAY_NS (1440 * MINUTE_NS)
#define BYTES_MAX 4096

static const struct weir_limit_spec specs[] = {
    { .algorithm = WEIR_TOKEN_BUCKET, .count = 10, .period_ns = MINUTE_NS },
    { .algorithm = WEIR_TOKEN_BUCKET, .count = 1000000000, .period_ns = WEIR_NS_PER_SECOND, .burst = 40 },
    { .algorithm = WEIR_TOKEN_BUCKET, .count = 3650, .period_ns = 3650 * DAY_NS },
    { .algorithm = WEIR_TOKEN_BUCKET, .period_ns = MINUTE_NS },
    { .algorithm = WEIR_LEAKY_BUCKET, .count = 10, .period_ns = MINUTE_NS, .count_mode = WEIR_COUNT_ATTEMPTS },
    { .algorithm = WEIR_FIXED_WINDOW, .count = 10, .period_ns = MINUTE_NS },
    { .algorithm = WEIR_FIXED_WINDOW, .count = 10, .period_ns = DAY_NS, .calendar = WEIR_CALENDAR_DAY },
    { .algorithm = WEIR_FIXED_WINDOW, .count = 10, .period_ns = 30 * DAY_NS, .calendar = WEIR_CALENDAR_MONTH },
    { .algorithm = WEIR_FIXED_WINDOW, .count = 10, .period_ns = MINUTE_NS, .align = WEIR_ALIGN_FIRST },
    { .algorithm = WEIR_SLIDING_LOG, .count = 10, .period_ns = MINUTE_NS },
    { .algorithm = WEIR_SLIDING_LOG, .count = 10, .period_ns = 3650 * DAY_NS, .count_mode = WEIR_COUNT_ATTEMPTS },
    { .algorithm = WEIR_SLIDING_COUNTER, .count = 10, .period_ns = MINUTE_NS, .count_mode = WEIR_COUNT_ATTEMPTS },
    { .algorithm = WEIR_SLIDING_COUNTER, .count = 10, .period_ns = 3650 * DAY_NS },
};
#define SPECS (sizeof specs / sizeof specs[0])

struct world {
    struct weir_remote_limit limits[SPECS];
    struct test_random random;
};

static uint64_t below(struct world *w, uint64_t bound)
{
    return test_random_below(&w->random, bound);
}

static bool one_in(struct world *w, uint64_t n)
{
    return below(w, n) == 0;
}

static uint64_t pick(struct world *w, const uint64_t *numbers, size_t count)
{
    return numbers[below(w, count)];
}
#define PICK(w, ...)                                                                                                   \
    pick((w), (const uint64_t[]){ __VA_ARGS__ }, sizeof((const uint64_t[]){ __VA_ARGS__ }) / sizeof(uint64_t))

static uint64_t two_to(unsigned bits)
{
    return UINT64_C(1) << bits;
}

static uint64_t some_time(struct world *w, uint64_t now_ns)
{
    uint64_t by = PICK(w, 0, 1, WEIR_NS_PER_SECOND, MINUTE_NS, DAY_NS, 10000000 * WEIR_NS_PER_SECOND, two_to(57),
                       two_to(58), two_to(59));
    return one_in(w, 2) ? now_ns + by : now_ns - by;
}

static uint64_t some_number(struct world *w, uint64_t now_ns)
{
    switch (below(w, 4)) {
    case 0:
        return PICK(w, 0, 1, 2, 9, 10, 11, 100, 65535, 65536, 65537, two_to(32), two_to(50), two_to(63), UINT64_MAX);
    case 1:
        return two_to(55 + (unsigned)below(w, 9)) + below(w, 4) - 1;
    case 2:
        return some_time(w, now_ns);
    default:
        return test_random_u64(&w->random) >> below(w, 64);
    }
}

/* ---- values ---- */

static const struct weir_remote_limit *some_limit(struct world *w)
{
    return &w->limits[below(w, SPECS)];
}

/* Most parameters are those of a limit, some of none. */
static void put_parameters(struct world *w, const struct weir_remote_limit *remote, uint64_t now_ns,
                           struct layout_writer *to)
{
    struct weir_limit limit = remote->limit;
    uint64_t hash = remote->calendar_hash;
    if (one_in(w, 4)) {
        uint64_t *const fields[] = { &limit.capacity, &limit.emission, &limit.span, &limit.ahead_max,
                                     &limit.period_ns };
        for (uint64_t i = below(w, 3); i > 0; i--)
            *fields[below(w, 5)] = some_number(w, now_ns);
        if (weir_limit_is_bucket(&limit) && one_in(w, 2))
            limit.span = limit.capacity * limit.emission;
        if (one_in(w, 8))
            limit.shift = (int32_t)below(w, 20) - 8;
        if (one_in(w, 8))
            limit.calendar = !limit.calendar;
        if (one_in(w, 8))
            hash = test_random_u64(&w->random);
    }
    weir_value_parameters(&limit, hash, one_in(w, 3) ? 7 : WEIR_REVISION_FIRST, to->at);
    to->at += LAYOUT_PARAMETERS;
}

static uint64_t some_fresh_at(struct world *w, const struct weir_limit *limit, uint64_t now_ns)
{
    uint64_t now = weir_ticks_at(now_ns, limit->shift);
    uint64_t ahead = PICK(w, 0, 1, limit->span, limit->span / 2, 2 * limit->span, limit->ahead_max,
                          limit->ahead_max + 1, two_to(56), two_to(57), two_to(57) + 1, two_to(58) - 1, two_to(58));
    return one_in(w, 8) ? some_number(w, now_ns) & WEIR_TICKS_MASK : (now + ahead) & WEIR_TICKS_MASK;
}

static void put_stints(struct world *w, uint64_t count, uint64_t now_ns, struct layout_writer *to)
{
    for (uint64_t i = 0; i < count; i++) {
        layout_put(to, 8, one_in(w, 16) ? some_number(w, now_ns) : i + 1);
        layout_put(to, 8, PICK(w, 1, 1, 5, UINT64_MAX));
        layout_put(to, 8, one_in(w, 2) ? below(w, 8) : some_number(w, now_ns));
        layout_put(to, 8, one_in(w, 4) ? some_number(w, now_ns) : below(w, 8));
        layout_put(to, 8, one_in(w, 4) ? some_number(w, now_ns) : below(w, 8));
        layout_put(to, 8,
                   one_in(w, 4) ? some_number(w, now_ns)
                                : now_ns + PICK(w, 1, two_to(30), two_to(35)) - PICK(w, 0, 0, two_to(33)));
    }
}

static uint64_t put_runs(struct world *w, uint64_t count, uint64_t upto, uint64_t now_ns, struct layout_writer *to)
{
    uint64_t time_ns = now_ns - below(w, 2) * MINUTE_NS / 2;
    for (uint64_t i = 0; i < count; i++) {
        upto += PICK(w, 0, 1, 1, 1, 5, 5, 65530, 65536, 65537);
        time_ns += PICK(w, 0, 1, 1, WEIR_NS_PER_SECOND, MINUTE_NS, two_to(56), two_to(59));
        layout_put(to, 8, one_in(w, 32) ? some_number(w, now_ns) : time_ns);
        layout_put(to, 8, one_in(w, 32) ? some_number(w, now_ns) : upto);
    }
    return time_ns;
}

static size_t some_value(struct world *w, uint64_t now_ns, uint8_t *bytes)
{
    const struct weir_remote_limit *remote = some_limit(w);
    const struct weir_limit *limit = &remote->limit;
    const struct weir_calendar_window window = weir_calendar_at(&remote->rule, 0, now_ns);
    struct layout_writer to = { bytes, bytes + BYTES_MAX }, runs_to;
    uint8_t runs_bytes[4 * LAYOUT_RUN];
    bool log = limit->algorithm == WEIR_SLIDING_LOG;
    uint64_t stints = below(w, 4), runs = log ? below(w, 4) : 0, second = 0;
    runs_to = (struct layout_writer){ runs_bytes, runs_bytes + sizeof runs_bytes };
    put_parameters(w, remote, now_ns, &to);
    if (limit->calendar)
        second = window.id + below(w, 3) - 1;
    if (one_in(w, 4))
        second = some_number(w, now_ns);
    uint64_t newest_ns = put_runs(w, runs, second, now_ns, &runs_to);
    uint64_t fresh_at = some_fresh_at(w, limit, now_ns);
    if (runs > 0 && !one_in(w, 3))
        fresh_at = (weir_ticks_at(newest_ns, limit->shift) + limit->span) & WEIR_TICKS_MASK;
    layout_put(&to, 8, one_in(w, 4) ? some_number(w, now_ns) : now_ns + PICK(w, 1, two_to(34), two_to(56)));
    layout_put(&to, 8, fresh_at);
    layout_put(&to, 8, second);
    layout_put(&to, 8, one_in(w, 4) ? some_number(w, now_ns) : below(w, 12));
    layout_put(&to, 8, one_in(w, 4) ? some_number(w, now_ns) : below(w, 3));
    layout_put(&to, 8, one_in(w, 4) ? some_number(w, now_ns) : 0);
    layout_put(&to, 4, stints);
    layout_put(&to, 4, 0);
    layout_put(&to, 4, runs);
    layout_put(&to, 4, below(w, 4) > 0);
    put_stints(w, stints, now_ns, &to);
    layout_put_bytes(&to, runs_bytes, runs * LAYOUT_RUN);
    size_t size = (size_t)(to.at - bytes);
    if (one_in(w, 4))
        bytes[below(w, size)] = (uint8_t)below(w, 256);
    return one_in(w, 32) ? below(w, size) : size;
}

/* ---- what core does with one ---- */

static struct weir_event event_at(const struct weir_remote_limit *remote, uint64_t now_ns, uint64_t cost)
{
    const struct weir_remote_op op = { .limit = remote, .units = cost };
    return weir_script_event(&op, now_ns & INT64_MAX); /* later than that is refused with the reply */
}

static void use_limit(struct world *w, const struct weir_remote_limit *remote, struct weir_value *value,
                      uint64_t now_ns)
{
    struct weir_limit limit = value->limit;
    struct weir_state *state = &value->ledger.state;
    struct weir_verdict verdict;
    limit.ahead_max += weir_value_debt_ticks(value);
    for (int i = 0; i < 6; i++, now_ns = one_in(w, 2) ? now_ns : some_time(w, now_ns)) {
        struct weir_event event = event_at(remote, now_ns, PICK(w, 0, 1, 2, 10, 11, WEIR_COST_MAX));
        (void)weir_limit_wait_ns(&limit, state, &event, below(w, limit.capacity));
        bool admitted = weir_limit_judge(&limit, state, &event, &verdict);
        switch (below(w, 4)) {
        case 0:
            if (admitted)
                weir_limit_charge(&limit, state, &event, &verdict);
            break;
        case 1:
            if (!admitted)
                weir_limit_drain(&limit, state, &event, &verdict);
            break;
        case 2:
            (void)weir_limit_refund(&limit, state, &event, event.cost);
            break;
        default:
            weir_limit_settle(&limit, state, &event);
            break;
        }
    }
    if (remote->limit.calendar || limit.calendar)
        return;
    struct weir_event event = event_at(remote, now_ns, 0);
    struct weir_limit to = remote->limit;
    if (state->log.times || to.algorithm != WEIR_SLIDING_LOG)
        weir_limit_convert(&limit, &to, (enum weir_on_change)below(w, 2), state, &event);
    weir_limit_follow(&to, &limit, now_ns);
}

static struct weir_share_ask some_ask(struct world *w, uint64_t now_ns)
{
    struct weir_share_ask ask = { .stint = 1 + below(w, 5), .seq = 1 + below(w, 8), .ttl_ns = two_to(30) };
    ask.spent = below(w, 20);
    ask.known = below(w, ask.spent + 1);
    ask.hold = below(w, 12);
    ask.want = below(w, 12);
    ask.least = below(w, ask.want + 1);
    ask.window = one_in(w, 2) ? some_number(w, now_ns) : 0;
    return ask;
}

static void use_ledger(struct world *w, const struct weir_remote_limit *remote, struct weir_value *value,
                       uint64_t now_ns)
{
    for (int i = 0; i < 6; i++, now_ns = one_in(w, 2) ? now_ns : some_time(w, now_ns)) {
        struct weir_event event = event_at(remote, now_ns, PICK(w, 0, 1, 2, 10, 11, WEIR_COST_MAX));
        const struct weir_share_ask ask = some_ask(w, now_ns);
        struct weir_share_answer answer;
        struct weir_verdict verdict;
        (void)weir_ledger_room(&value->limit, &value->ledger, &event, event.cost);
        if (one_in(w, 3))
            weir_ledger_ask(&value->limit, &value->ledger, &event, &ask, &answer);
        else if (one_in(w, 3))
            weir_ledger_expire(&value->limit, &value->ledger, &event);
        else
            (void)weir_ledger_decide(&value->limit, &value->ledger, &event, one_in(w, 2), &verdict);
    }
}

/* ---- what the engine does with one ---- */

/* Feeds the value to a call as the script would, and what the call writes to the next. */
static void use_call(struct world *w, const struct weir_remote_limit *remote, const uint8_t *value, size_t size,
                     enum weir_remote_verb verb, uint64_t now_ns)
{
    uint8_t *reply = malloc(64 + LAYOUT_SEEN + size), *next = NULL;
    struct weir_remote_op op = { .limit = remote, .units = PICK(w, 0, 1, 1, 5, 10, 11), .ask = some_ask(w, now_ns) };
    struct weir_remote_request request = { .verb = verb, .ops = &op, .count = 1 };
    struct weir_script_call call;
    assert_non_null(reply);
    weir_script_call_init(&call, &request, "weir", now_ns);
    weir_script_call_add(&call, 0);
    struct layout_writer to = { reply, reply + 64 + LAYOUT_SEEN + size };
    layout_put(&to, 1, 'A');
    layout_put(&to, 8, now_ns);
    layout_put(&to, 4, size);
    if (size > 0) {
        layout_put_bytes(&to, (const uint8_t[LAYOUT_SEEN]){ 0 }, LAYOUT_SEEN);
        layout_put_bytes(&to, value, size);
    }
    int error = weir_script_call_decode(&call, reply, (size_t)(to.at - reply));
    assert_true(error == 0 || error == WEIR_EAGAIN || error == WEIR_ECORRUPT || error == WEIR_EBUSY);
    size_t next_size = call.ops[0].written_size;
    if (error == WEIR_EAGAIN && call.ops[0].written) {
        next = malloc(next_size);
        assert_non_null(next);
        memcpy(next, call.ops[0].written, next_size);
    }
    weir_script_call_deinit(&call);
    free(reply);
    if (next && next_size < 4 * BYTES_MAX && !one_in(w, 4))
        use_call(w, remote, next, next_size, (enum weir_remote_verb)PICK(w, 0, 1, 2, 4),
                 one_in(w, 2) ? now_ns : some_time(w, now_ns));
    free(next);
}

/* What the script says it has seen is as little to be trusted. */
static void use_reply(struct world *w, const struct weir_remote_limit *remote, uint64_t now_ns)
{
    uint8_t reply[128];
    struct layout_writer to = { reply, reply + sizeof reply };
    struct weir_remote_op op = { .limit = remote, .units = PICK(w, 0, 1, 1, 5, 10, 11) };
    struct weir_remote_request request = { .verb = (enum weir_remote_verb)below(w, 3), .ops = &op, .count = 1 };
    struct weir_script_call call;
    weir_script_call_init(&call, &request, "weir", now_ns);
    weir_script_call_add(&call, 0);
    layout_put(&to, 1, 'D');
    layout_put(&to, 8, now_ns);
    layout_put(&to, 1, PICK(w, 0, 1, 3, 3, 4, 5));
    layout_put(&to, 8, some_fresh_at(w, &remote->limit, now_ns));
    for (int i = 0; i < 8; i++)
        layout_put(&to, 8, one_in(w, 3) ? some_number(w, now_ns) : below(w, 8));
    int error = weir_script_call_decode(&call, reply, (size_t)(to.at - reply));
    assert_true(error == 0 || error == WEIR_ECORRUPT);
    weir_script_call_deinit(&call);
}

static void try_value(struct world *w, const uint8_t *bytes, size_t size, uint64_t now_ns)
{
    const struct weir_remote_limit *remote = some_limit(w);
    for (int i = 0; i < 2; i++) {
        struct weir_value value;
        int error = weir_value_read(remote, WEIR_REVISION_FIRST, now_ns, bytes, size, &value);
        assert_true(error == 0 || error == WEIR_ECORRUPT);
        if (error)
            break;
        /* Without its windows the engine does not decide by a calendar. */
        bool decides = !value.limit.calendar || remote->limit.calendar;
        if (decides && i == 0)
            use_limit(w, remote, &value, now_ns);
        else if (decides)
            use_ledger(w, remote, &value, now_ns);
        weir_value_deinit(&value);
    }
    use_call(w, remote, bytes, size, (enum weir_remote_verb)PICK(w, 0, 0, 1, 2, 4), now_ns);
}

/* ---- tests ---- */

static void make_world(struct world *w, uint64_t seed)
{
    w->random.state = seed;
    for (size_t i = 0; i < SPECS; i++)
        assert_int_equal(weir_remote_limit_init(&w->limits[i], "api", &specs[i], NULL), 0);
}

static void end_world(struct world *w)
{
    for (size_t i = 0; i < SPECS; i++)
        weir_remote_limit_deinit(&w->limits[i]);
}

static void no_value_ends_the_program(void **state)
{
    (void)state;
    static struct world w;
    static uint8_t bytes[BYTES_MAX];
    uint64_t values = test_effort(250, 4000, 500000);
    make_world(&w, test_random_seed());
    for (uint64_t i = 0; i < values; i++) {
        uint64_t now_ns = one_in(&w, 16) ? some_number(&w, NOW_NS) : NOW_NS + below(&w, DAY_NS);
        try_value(&w, bytes, some_value(&w, now_ns, bytes), now_ns);
        use_reply(&w, some_limit(&w), now_ns);
    }
    end_world(&w);
}

/* A value with a hold, field by field. */
struct made {
    uint64_t shift, capacity, emission, span, ahead_max, period_ns, fresh_at, second, stint, next_stint, held, entry_ns,
        entries;
};

static struct made usual(enum weir_algorithm algorithm)
{
    return (struct made){
        .capacity = 10,
        .emission = algorithm == WEIR_TOKEN_BUCKET ? MINUTE_NS / 10 : 1,
        .span = MINUTE_NS,
        .ahead_max = algorithm == WEIR_SLIDING_COUNTER ? 2 * MINUTE_NS : MINUTE_NS,
        .period_ns = MINUTE_NS,
        .fresh_at = NOW_NS + MINUTE_NS,
        .stint = 7,
        .held = 1,
        .entry_ns = NOW_NS,
        .entries = algorithm == WEIR_SLIDING_LOG ? 1 : 0,
    };
}

static size_t make_value(enum weir_algorithm algorithm, const struct made *m, uint8_t *bytes)
{
    struct layout_writer to = { bytes, bytes + BYTES_MAX };
    const struct weir_limit limit = { .algorithm = algorithm,
                                      .shift = (int32_t)m->shift,
                                      .capacity = m->capacity,
                                      .emission = m->emission,
                                      .span = m->span,
                                      .ahead_max = m->ahead_max,
                                      .period_ns = m->period_ns };
    weir_value_parameters(&limit, 0, WEIR_REVISION_FIRST, to.at);
    to.at += LAYOUT_PARAMETERS;
    const uint64_t state[] = { NOW_NS + two_to(56), m->fresh_at & WEIR_TICKS_MASK, m->second, 0, 0, 0 };
    for (size_t i = 0; i < 6; i++)
        layout_put(&to, 8, state[i]);
    layout_put(&to, 4, m->next_stint > 0 ? 2 : 1);
    layout_put(&to, 4, 0);
    layout_put(&to, 4, m->entries > 0);
    layout_put(&to, 4, 1);
    for (uint64_t i = 0; i < (m->next_stint > 0 ? 2 : 1); i++) {
        const uint64_t stint[] = { i == 0 ? m->stint : m->next_stint, 1, 0, m->held, 0, NOW_NS + two_to(36) };
        for (size_t j = 0; j < 6; j++)
            layout_put(&to, 8, stint[j]);
    }
    if (m->entries > 0) {
        layout_put(&to, 8, m->entry_ns);
        layout_put(&to, 8, m->entries);
    }
    return (size_t)(to.at - bytes);
}

#define WITH(field) offsetof(struct made, field)

static void what_no_limit_of_ours_writes_is_refused(void **state)
{
    (void)state;
    static uint8_t bytes[BYTES_MAX];
    static const struct {
        enum weir_algorithm algorithm;
        int error;
        struct {
            size_t field;
            uint64_t value;
        } with[4];
    } cases[] = {
        { WEIR_TOKEN_BUCKET, 0, { { WITH(next_stint), 8 } } },
        { WEIR_SLIDING_LOG, 0, { { WITH(entries), WEIR_LOG_MAX } } },
        { WEIR_SLIDING_COUNTER, 0, { { WITH(second), 3 } } },
        { WEIR_SLIDING_COUNTER, WEIR_ECORRUPT, { { WITH(second), UINT64_C(1) << 63 } } },
        { WEIR_SLIDING_COUNTER, WEIR_ECORRUPT, { { WITH(ahead_max), MINUTE_NS } } },
        { WEIR_SLIDING_COUNTER,
          WEIR_ECORRUPT,
          { { WITH(span), UINT64_C(1) << 57 }, { WITH(ahead_max), UINT64_C(1) << 58 } } },
        { WEIR_SLIDING_LOG, WEIR_ECORRUPT, { { WITH(entry_ns), NOW_NS + 11 * DAY_NS } } },
        { WEIR_SLIDING_LOG, WEIR_ECORRUPT, { { WITH(period_ns), 1 } } },
        { WEIR_SLIDING_LOG, WEIR_ECORRUPT, { { WITH(entries), WEIR_LOG_MAX + 1 } } },
        { WEIR_SLIDING_LOG, WEIR_ECORRUPT, { { WITH(capacity), WEIR_LOG_MAX + 1 } } },
        { WEIR_SLIDING_LOG, WEIR_ECORRUPT, { { WITH(ahead_max), MINUTE_NS - 1 } } },
        { WEIR_TOKEN_BUCKET, WEIR_ECORRUPT, { { WITH(ahead_max), MINUTE_NS - 1 } } },
        { WEIR_TOKEN_BUCKET, WEIR_ECORRUPT, { { WITH(ahead_max), (UINT64_C(1) << 58) + 1 } } },
        { WEIR_TOKEN_BUCKET,
          WEIR_ECORRUPT,
          { { WITH(capacity), 2 },
            { WITH(emission), UINT64_C(1) << 56 },
            { WITH(span), UINT64_C(1) << 57 },
            { WITH(ahead_max), UINT64_C(1) << 57 } } },
        { WEIR_TOKEN_BUCKET, WEIR_ECORRUPT, { { WITH(emission), 0 }, { WITH(span), 0 } } },
        { WEIR_TOKEN_BUCKET, WEIR_ECORRUPT, { { WITH(emission), 1 } } },
        { WEIR_TOKEN_BUCKET, WEIR_ECORRUPT, { { WITH(shift), 11 } } },
        { WEIR_TOKEN_BUCKET, WEIR_ECORRUPT, { { WITH(next_stint), 7 } } },
        { WEIR_TOKEN_BUCKET, WEIR_ECORRUPT, { { WITH(stint), UINT64_MAX }, { WITH(next_stint), 7 } } },
        { WEIR_TOKEN_BUCKET, WEIR_ECORRUPT, { { WITH(held), UINT64_MAX } } },
    };
    static struct world w;
    make_world(&w, 0);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct made made = usual(cases[i].algorithm);
        struct weir_value value;
        for (size_t j = 0; j < 4 && cases[i].with[j].field + cases[i].with[j].value > 0; j++)
            memcpy((uint8_t *)&made + cases[i].with[j].field, &cases[i].with[j].value, sizeof(uint64_t));
        size_t size = make_value(cases[i].algorithm, &made, bytes);
        int error = weir_value_read(&w.limits[0], WEIR_REVISION_FIRST, NOW_NS, bytes, size, &value);
        if (error != cases[i].error)
            print_error("case %zu\n", i);
        assert_int_equal(error, cases[i].error);
        if (!error)
            weir_value_deinit(&value);
    }
    end_world(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_no_limit_of_ours_writes_is_refused),
        cmocka_unit_test(no_value_ends_the_program),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
