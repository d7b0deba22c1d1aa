/* SPDX-License-Identifier: Apache-2.0
 *
 * Reservations of one key against a model that remembers everything that was ever charged and computes each answer from
 * that anew: all algorithms, random operations. */
#include "core/limit/reserve.h"

#include "core/limit/reservation.h"
#include "core/limit/ticks.h"
#include "fixture.h"
#include "random.h"

#define EVENTS_MAX 4096
#define OPEN_MAX 6
#define WINDOWS_MAX 4096
#define ROOM 4096
#define BEGIN (1000 * SECOND)

/* ---- the model ---- */

struct charged {
    uint64_t at;     /* when */
    uint64_t window; /* which */
    uint64_t units;  /* that are still charged */
    uint64_t undone; /* of them: given back by an event of its own (buckets) */
    bool given;      /* this is no charge: so much was given back then (buckets) */
};

struct model {
    const struct weir_limit *limit;
    struct charged events[EVENTS_MAX];
    size_t count;
    size_t oldest;       /* the charge of the oldest open reservation */
    uint64_t window_end; /* from the first hit */
};

static bool is_first(const struct model *m)
{
    return m->limit->algorithm == WEIR_FIXED_WINDOW && !m->limit->calendar;
}

static uint64_t units_in(const struct model *m, uint64_t window)
{
    uint64_t units = 0;
    for (size_t i = 0; i < m->count; i++)
        units += m->events[i].window == window ? m->events[i].units : 0;
    return units;
}

/* The window that a charge would be in. */
static uint64_t window_of(const struct model *m, uint64_t now)
{
    if (!is_first(m))
        return now / m->limit->period_ns;
    return now < m->window_end && units_in(m, m->window_end) > 0 ? m->window_end : now + m->limit->period_ns;
}

/* Ticks from full, from the beginning of time on; *ret_least: the least since the oldest open reservation. */
static uint64_t deficit(const struct model *m, uint64_t now, uint64_t *ret_least)
{
    uint64_t ticks = 0, before = BEGIN, least = UINT64_MAX;
    for (size_t i = 0; i <= m->count; i++) {
        const uint64_t t = i < m->count ? m->events[i].at : now;
        const uint64_t passed = (t - before) << m->limit->shift;
        ticks = ticks > passed ? ticks - passed : 0;
        before = t;
        if (i > m->oldest && ticks < least)
            least = ticks;
        if (i == m->count)
            break;
        const uint64_t units = m->events[i].units * m->limit->emission;
        ticks = m->events[i].given ? ticks - units : ticks + units;
        if (i >= m->oldest && ticks < least)
            least = ticks;
    }
    *ret_least = least;
    return ticks;
}

static uint64_t model_used(const struct model *m, uint64_t now)
{
    const uint64_t p = m->limit->period_ns;
    uint64_t used = 0, least;
    switch (m->limit->algorithm) {
    case WEIR_TOKEN_BUCKET:
    case WEIR_LEAKY_BUCKET:
        used = deficit(m, now, &least);
        return used / m->limit->emission + (used % m->limit->emission != 0);
    case WEIR_FIXED_WINDOW:
        return is_first(m) ? (now < m->window_end ? units_in(m, m->window_end) : 0) : units_in(m, now / p);
    case WEIR_SLIDING_COUNTER:
        return units_in(m, now / p) + units_in(m, now / p - 1) * (p - now % p) / p;
    default:
        for (size_t i = 0; i < m->count; i++)
            used += m->events[i].at + p > now ? m->events[i].units : 0;
        return used;
    }
}

static size_t model_charge(struct model *m, uint64_t now, uint64_t units)
{
    assert_true(m->count < EVENTS_MAX);
    const uint64_t window = window_of(m, now);
    m->window_end = window;
    m->events[m->count] = (struct charged){ .at = now, .window = window, .units = units };
    return m->count++;
}

/* Of a leaky bucket: nothing stands behind this charge. */
static bool is_last(const struct model *m, size_t charge)
{
    for (size_t i = charge + 1; i < m->count; i++)
        if (!m->events[i].given && m->events[i].units > m->events[i].undone)
            return false;
    return true;
}

/* A leaky bucket's charge that is given back was never there; of a token bucket the level rises now. */
static uint64_t model_back_bucket(struct model *m, size_t charge, uint64_t now, uint64_t units)
{
    uint64_t least, ticks = deficit(m, now, &least);
    const uint64_t most = m->limit->algorithm == WEIR_LEAKY_BUCKET ? (is_last(m, charge) ? ticks : 0) : least;
    const uint64_t back = units < most / m->limit->emission ? units : most / m->limit->emission;
    assert_true(m->count < EVENTS_MAX);
    m->events[charge].undone += back;
    m->events[m->count++] = (struct charged){ .at = now, .units = back, .given = true };
    return back;
}

static uint64_t model_back(struct model *m, size_t charge, uint64_t now, uint64_t units)
{
    struct charged *c = &m->events[charge];
    const uint64_t p = m->limit->period_ns;
    bool stands = true;
    switch (m->limit->algorithm) {
    case WEIR_TOKEN_BUCKET:
    case WEIR_LEAKY_BUCKET:
        return model_back_bucket(m, charge, now, units);
    case WEIR_FIXED_WINDOW:
        stands = is_first(m) ? c->window == m->window_end && now < m->window_end : c->window == now / p;
        break;
    case WEIR_SLIDING_COUNTER:
        stands = c->window + 1 >= now / p;
        break;
    default:
        stands = c->at + p > now;
    }
    const uint64_t back = !stands ? 0 : units < c->units ? units : c->units;
    c->units -= back;
    return back;
}

/* ---- both side by side ---- */

struct one {
    bool open;
    struct weir_reserve_part parts[3];
    size_t charges[3];
    size_t count;
};

struct both {
    struct weir_limit limit;
    struct weir_state state;
    struct weir_reserve_mark mark;
    struct model model;
    struct one ones[OPEN_MAX];
    uint64_t now;
    uint64_t words[ROOM];
};

static uint64_t settled, backs; /* how often something was settled, and given back at all */

static struct weir_event event_of(const struct both *b, uint64_t cost)
{
    const uint64_t p = b->limit.period_ns;
    return (struct weir_event){ .now_ns = b->now,
                                .cost = cost,
                                .window = { .id = b->now / p, .end_after_ns = p - b->now % p } };
}

static size_t open_count(const struct both *b)
{
    size_t open = 0;
    for (size_t i = 0; i < OPEN_MAX; i++)
        open += b->ones[i].open;
    return open;
}

/* As whoever keeps the mark does it. */
static struct weir_event look(struct both *b, uint64_t cost)
{
    const struct weir_event event = event_of(b, cost);
    if (open_count(b) > 0)
        weir_reserve_see(&b->mark, &b->limit, &b->state, &event);
    return event;
}

static void assert_same(const struct both *b)
{
    const struct weir_event event = event_of(b, 0);
    assert_int_equal(weir_limit_used(&b->limit, &b->state, &event), model_used(&b->model, b->now));
}

/* Charges if it fits; where it was noted. */
static bool charge(struct both *b, uint64_t cost, size_t *ret_charge)
{
    struct weir_event event = look(b, cost);
    struct weir_verdict verdict;
    if (!weir_limit_judge(&b->limit, &b->state, &event, &verdict))
        return false;
    weir_limit_charge(&b->limit, &b->state, &event, &verdict);
    *ret_charge = model_charge(&b->model, b->now, cost);
    return true;
}

static void reserve(struct both *b, struct one *one, uint64_t amount)
{
    size_t at;
    const bool first = open_count(b) == 0;
    if (!charge(b, amount, &at))
        return;
    const struct weir_event event = event_of(b, 0);
    if (first) {
        weir_reserve_mark_init(&b->mark, &b->limit, &b->state, &event, 1);
        b->model.oldest = at;
    }
    one->open = true;
    one->parts[one->count] = weir_reserve_part_of(&b->limit, &b->state, amount);
    one->charges[one->count++] = at;
}

static void settle(struct both *b, struct one *one, uint64_t actual)
{
    uint64_t held = 0;
    struct weir_event event = look(b, 0);
    for (size_t i = 0; i < one->count; i++)
        held += one->parts[i].units;
    for (uint64_t left = held > actual ? held - actual : 0, i = one->count; i > 0 && left > 0; i--) {
        const uint64_t units = left < one->parts[i - 1].units ? left : one->parts[i - 1].units;
        const uint64_t back = weir_reserve_back(&b->mark, &b->limit, &b->state, &event, one->parts[i - 1].at, units);
        assert_int_equal(back, model_back(&b->model, one->charges[i - 1], b->now, units));
        backs += back > 0;
        left -= units;
    }
    if (actual > held) {
        const uint64_t most = (b->limit.algorithm == WEIR_SLIDING_LOG ? 1 : 16) * b->limit.capacity;
        const uint64_t used = model_used(&b->model, b->now), left = most > used ? most - used : 0;
        const uint64_t more = weir_reserve_more(&b->limit, &b->state, &event, actual - held);
        assert_int_equal(more, actual - held < left ? actual - held : left);
        if (more > 0)
            (void)model_charge(&b->model, b->now, more);
    }
    *one = (struct one){ 0 };
    settled++;
}

static void step(struct both *b, struct test_random *random)
{
    struct one *one = &b->ones[test_random_below(random, OPEN_MAX)];
    const uint64_t capacity = b->limit.capacity, p = b->limit.period_ns;
    size_t at;
    switch (test_random_below(random, 8)) {
    case 0:
        b->now += test_random_below(random, 3) ? test_random_below(random, p / 8) : test_random_below(random, 3 * p);
        break;
    case 1:
        b->now += b->limit.period_ns / capacity;
        break;
    case 2:
    case 3:
        (void)charge(b, 1 + test_random_below(random, capacity / 4 + 1), &at);
        break;
    case 4:
    case 5:
        if (one->count < 3)
            reserve(b, one, 1 + test_random_below(random, capacity / 2 + 1));
        break;
    default:
        if (one->open)
            settle(b, one, test_random_below(random, capacity + 1));
    }
    assert_same(b);
}

static void run(enum weir_algorithm algorithm, bool first, struct test_random *random)
{
    static struct both b;
    const struct weir_limit_spec spec = {
        .algorithm = algorithm,
        .count = 2 + test_random_below(random, 40),
        .period_ns = (1 + test_random_below(random, 60)) * SECOND + test_random_below(random, 1000),
        .burst = algorithm <= WEIR_LEAKY_BUCKET ? 1 + test_random_below(random, 60) : 0,
        .align = first ? WEIR_ALIGN_FIRST : WEIR_ALIGN_CALENDAR,
        .reserves = 1,
    };
    memset(&b, 0, sizeof b);
    assert_int_equal(weir_limit_init(&b.limit, &spec, SECOND, NULL), 0);
    b.now = BEGIN;
    b.state = weir_state_fresh(&b.limit, b.now);
    b.state.log = (struct weir_log){ b.words, ROOM, 0, 0 };
    b.model.limit = &b.limit;
    for (unsigned i = 0; i < 1500; i++)
        step(&b, random);
}

static void all_algorithms_give_back_and_charge_what_the_model_says(void **state)
{
    (void)state;
    struct test_random random = { test_random_seed() };
    for (int algorithm = WEIR_TOKEN_BUCKET; algorithm < WEIR_CONCURRENCY; algorithm++) {
        settled = backs = 0;
        for (uint64_t i = test_effort(5, 40, 2000); i > 0; i--) {
            run((enum weir_algorithm)algorithm, false, &random);
            if (algorithm == WEIR_FIXED_WINDOW)
                run(WEIR_FIXED_WINDOW, true, &random);
        }
        assert_true(settled > 100 && backs > 10);
    }
}

/* ---- changes ---- */

static struct weir_limit limit_with(uint64_t burst, enum weir_algorithm algorithm)
{
    struct weir_limit limit;
    const struct weir_limit_spec spec = {
        .algorithm = algorithm, .count = 100, .period_ns = 100 * SECOND, .burst = burst, .reserves = 1
    };
    assert_int_equal(weir_limit_init(&limit, &spec, SECOND, NULL), 0);
    return limit;
}

static void a_change_converts_the_mark_as_it_converts_the_key(void **state)
{
    (void)state;
    const struct weir_event event = { .now_ns = BEGIN };
    struct weir_limit from = limit_with(100, WEIR_TOKEN_BUCKET), to = limit_with(50, WEIR_TOKEN_BUCKET);
    struct weir_limit leaky = limit_with(50, WEIR_LEAKY_BUCKET);
    struct weir_reserve_mark mark = { .low = 40 * from.emission, .scale = WEIR_RESERVE_SCALE, .epoch = 1 };
    struct weir_reserve_mark half = mark, none = mark;
    assert_true(weir_reserve_convert(&mark, &from, &to, WEIR_ON_CHANGE_KEEP, &event));
    assert_int_equal(mark.low / to.emission, 40);
    assert_int_equal(mark.scale, WEIR_RESERVE_SCALE);
    assert_true(weir_reserve_convert(&half, &from, &to, WEIR_ON_CHANGE_PROPORTIONAL, &event));
    assert_int_equal(half.low / to.emission, 20);
    assert_int_equal(weir_reserve_rescale(41, WEIR_RESERVE_SCALE, half.scale), 20); /* rounded down */
    assert_false(weir_reserve_convert(&none, &from, &to, WEIR_ON_CHANGE_RESET, &event));
    assert_false(weir_reserve_convert(&none, &from, &leaky, WEIR_ON_CHANGE_KEEP, &event));
}

static void of_a_log_what_others_took_at_other_times_stays(void **state)
{
    (void)state;
    uint64_t words[128];
    const struct weir_limit limit = limit_with(0, WEIR_SLIDING_LOG);
    struct weir_reserve_mark mark = { .scale = WEIR_RESERVE_SCALE, .epoch = 1 };
    struct weir_event event = { .now_ns = BEGIN };
    struct weir_state key = weir_state_fresh(&limit, BEGIN);
    key.log = (struct weir_log){ words, 128, 0, 0 };
    assert_int_equal(weir_reserve_more(&limit, &key, &event, 3), 3);
    event.now_ns++;
    assert_int_equal(weir_reserve_more(&limit, &key, &event, 5), 5);
    const struct weir_reserve_part part = weir_reserve_part_of(&limit, &key, 5);
    assert_int_equal(weir_limit_refund(&limit, &key, &event, 4), 4); /* the newest */
    assert_int_equal(weir_reserve_back(&mark, &limit, &key, &event, part.at, 5), 1);
    assert_int_equal(weir_limit_used(&limit, &key, &event), 3);
}

static void a_limit_that_reserves_says_so_and_may_be_in_debt(void **state)
{
    (void)state;
    struct weir_limit_spec spec = limit_of(WEIR_CONCURRENCY, 5, 30 * SECOND, 0);
    struct weir_fault fault;
    spec.reserves = 1;
    assert_int_equal(weir_limit_check(&spec, &fault), WEIR_EINVAL);
    assert_string_equal(fault.field, "reserves");
    spec.algorithm = WEIR_TOKEN_BUCKET;
    spec.reserves = 2;
    assert_int_equal(weir_limit_check(&spec, &fault), WEIR_EINVAL);
    struct weir_limit limit = limit_with(10, WEIR_TOKEN_BUCKET);
    struct weir_event event = { .now_ns = BEGIN };
    struct weir_state key = weir_state_fresh(&limit, BEGIN);
    assert_int_equal(weir_reserve_more(&limit, &key, &event, 1000), 160);
    assert_int_equal(weir_limit_used(&limit, &key, &event), 160); /* and not taken for a clock that came back */
    assert_int_equal(weir_reserve_more(&limit, &key, &event, 1), 0);
    limit = limit_with(0, WEIR_SLIDING_LOG);
    uint64_t words[128];
    key = weir_state_fresh(&limit, BEGIN);
    key.log = (struct weir_log){ words, 128, 0, 0 };
    assert_int_equal(weir_reserve_more(&limit, &key, &event, 1000), 100); /* a log cannot be */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_algorithms_give_back_and_charge_what_the_model_says),
        cmocka_unit_test(a_change_converts_the_mark_as_it_converts_the_key),
        cmocka_unit_test(of_a_log_what_others_took_at_other_times_stays),
        cmocka_unit_test(a_limit_that_reserves_says_so_and_may_be_in_debt),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
