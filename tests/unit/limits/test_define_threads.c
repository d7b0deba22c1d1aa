/* SPDX-License-Identifier: Apache-2.0
 *
 * The set of limits is replaced again and again under threads that decide by whatever id they have, the newest or
 * one long gone, and nobody waits for anybody: what is admitted stays within the limit, and an id of a set that is
 * gone says so. Run under TSan too. */
#include <pthread.h>
#include <stdlib.h>

#include "fixture.h"
#include "random.h"

#define THREADS 4
#define LIMITS 3 /* "0", asked; "1", beside it; "2", a calendar window whose keys have a phase */
#define COUNT 3000
#define KEY 1

/* What becomes of limit 0 with each replacement, in a circle. */
struct circle {
    const struct weir_limit_spec *specs;
    size_t count;
};

struct world {
    struct fixture fixture; /* its ids: atomic */
    bool over;              /* atomic */
    struct circle circle;
};

struct worker {
    struct world *world;
    pthread_t thread;
    struct test_random random;
    weir_limit_id old[LIMITS]; /* kept from some time or other */
    uint64_t admitted;
    uint64_t stale;     /* atomic: how often it met an id of a set that was gone */
    const char *broken; /* what must never be seen was */
};

/* An id of limit `limit`: mostly the newest, else one that was once. */
static weir_limit_id id_of(struct worker *w, size_t limit)
{
    weir_limit_id newest = __atomic_load_n(&w->world->fixture.ids[limit], __ATOMIC_ACQUIRE);
    if (test_random_below(&w->random, 16) == 0)
        w->old[limit] = newest;
    return test_random_below(&w->random, 4) == 0 ? w->old[limit] : newest;
}

/* Whether a call was answered; an id that is stale was the only thing wrong otherwise. */
static bool answered(struct worker *w, int error, const char *what)
{
    if (error == WEIR_ESTALE)
        __atomic_fetch_add(&w->stale, 1, __ATOMIC_RELAXED);
    else if (error != 0)
        w->broken = what;
    return error == 0;
}

static bool charge_of_number(struct worker *w, size_t limit, uint64_t number, uint64_t cost, struct weir_charge *ret)
{
    struct weir_slice value = { &number, sizeof number };
    *ret = (struct weir_charge){ .limit = id_of(w, limit), .cost = cost };
    return answered(w, weir_limiter_key(w->world->fixture.limiter, ret->limit, &value, 1, &ret->key), "key");
}

static void decide_one(struct worker *w, const struct weir_time *time, unsigned flags)
{
    struct weir_charge charge;
    struct weir_decision decision;
    struct weir_verdict verdict = { .remaining = 1 }; /* of nothing: it is told anew */
    if (!charge_of_number(w, 0, KEY, 1, &charge))
        return;
    if (answered(w, weir_limiter_decide(w->world->fixture.limiter, &charge, 1, time, flags, &decision, &verdict),
                 "decide")) {
        w->admitted += decision.admitted && !(flags & WEIR_PEEK);
        if (verdict.remaining > verdict.capacity)
            w->broken = "remaining";
    }
}

static void decide_several(struct worker *w, const struct weir_time *time)
{
    struct weir_charge charges[LIMITS];
    struct weir_decision decision;
    struct weir_verdict verdicts[LIMITS];
    for (size_t i = 0; i < LIMITS; i++)
        if (!charge_of_number(w, i, i == 0 ? KEY : test_random_below(&w->random, 100), 1, &charges[i]))
            return;
    if (answered(w, weir_limiter_decide(w->world->fixture.limiter, charges, LIMITS, time, 0, &decision, verdicts),
                 "decide several"))
        w->admitted += decision.admitted;
}

static void decide_many(struct worker *w, const struct weir_time *time)
{
    struct weir_charge charges[8];
    struct weir_verdict verdicts[8];
    for (size_t i = 0; i < 8; i++)
        if (!charge_of_number(w, 0, KEY, 1, &charges[i]))
            return;
    if (answered(w, weir_limiter_decide_many(w->world->fixture.limiter, charges, 8, time, 0, verdicts), "decide many"))
        for (size_t i = 0; i < 8; i++)
            w->admitted += verdicts[i].admitted;
}

static void ask_the_rest(struct worker *w, const struct weir_time *time)
{
    struct weir_limiter *limiter = w->world->fixture.limiter;
    struct weir_charge charge;
    struct weir_limit_stats stats;
    uint64_t units;
    bool found;
    if (charge_of_number(w, 0, KEY, 1, &charge)) {
        (void)answered(w, weir_limiter_refund(limiter, &charge, 0, time, &units), "refund");
        (void)answered(w, weir_limiter_refund_last(limiter, &charge, 12345, time, &units), "refund_last");
        (void)answered(w, weir_limiter_limit_stats(limiter, charge.limit, &stats), "stats");
    }
    if (charge_of_number(w, 1, test_random_below(&w->random, 100), 1, &charge))
        (void)answered(w, weir_limiter_forget(limiter, &charge, &found), "forget");
    (void)weir_limiter_maintain(limiter, time, 64);
}

static void *work(void *argument)
{
    struct worker *w = argument;
    const struct weir_time time = at(T0);
    while (!__atomic_load_n(&w->world->over, __ATOMIC_ACQUIRE) && !w->broken) {
        switch (test_random_below(&w->random, 8)) {
        case 0:
            decide_several(w, &time);
            break;
        case 1:
            decide_many(w, &time);
            break;
        case 2:
            ask_the_rest(w, &time);
            break;
        default:
            decide_one(w, &time, test_random_below(&w->random, 4) == 0 ? WEIR_PEEK : 0);
        }
    }
    return NULL;
}

/* The set of every turn: all three limits change. */
static void replace(struct world *world, uint64_t turn)
{
    struct weir_limit_def defs[LIMITS] = {
        { .name = "0", .spec = world->circle.specs[turn % world->circle.count] },
        { .name = "1", .spec = limit_of(WEIR_SLIDING_COUNTER, 1000000 + turn, HOUR, 0) },
        { .name = "2",
          .spec = { .algorithm = WEIR_FIXED_WINDOW, .count = 1000000 + turn, .period_ns = HOUR, .spread_ns = MINUTE } },
    };
    weir_limit_id ids[LIMITS];
    struct weir_time time = at(T0);
    assert_int_equal(weir_limiter_define(world->fixture.limiter, defs, LIMITS, &time, ids, NULL), 0);
    for (size_t i = 0; i < LIMITS; i++)
        __atomic_store_n(&world->fixture.ids[i], ids[i], __ATOMIC_RELEASE);
}

static uint64_t replacements(void)
{
    return test_effort(25, 150, 20000);
}

/* More keys than one, so that a walk takes its time. */
static void fill(struct world *world)
{
    struct weir_time time = at(T0);
    for (uint64_t i = 0; i < 200; i++) { /* each raise takes a unit of each: more logs would not have room */
        struct weir_charge charge = { .limit = world->fixture.ids[0], .cost = 1 };
        struct weir_verdict verdict;
        struct weir_slice value = { &i, sizeof i };
        assert_int_equal(weir_limiter_key(world->fixture.limiter, charge.limit, &value, 1, &charge.key), 0);
        if (i != KEY)
            assert_int_equal(weir_limiter_decide_many(world->fixture.limiter, &charge, 1, &time, 0, &verdict), 0);
    }
}

static bool all_met_a_stale_id(const struct worker *workers)
{
    for (size_t i = 0; i < THREADS; i++)
        if (__atomic_load_n(&workers[i].stale, __ATOMIC_RELAXED) == 0)
            return false;
    return true;
}

/* Returns what was admitted on one key in all. */
static uint64_t run(struct circle circle)
{
    static struct world world;
    static struct worker workers[THREADS];
    struct weir_limit_spec first[LIMITS] = { circle.specs[0], limit_of(WEIR_SLIDING_COUNTER, 1000000, HOUR, 0),
                                             limit_of(WEIR_FIXED_WINDOW, 1000000, HOUR, 0) };
    uint64_t admitted = 0, seed = test_random_seed();
    world = (struct world){ .fixture = fixture_create(first, LIMITS), .circle = circle };
    fill(&world);
    for (size_t i = 0; i < THREADS; i++) {
        workers[i] = (struct worker){ .world = &world, .random = { seed + i } };
        memcpy(workers[i].old, world.fixture.ids, sizeof workers[i].old);
        assert_int_equal(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
    }
    for (uint64_t turn = 1; turn <= replacements() || !all_met_a_stale_id(workers); turn++)
        replace(&world, turn);
    __atomic_store_n(&world.over, true, __ATOMIC_RELEASE);
    for (size_t i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(workers[i].thread, NULL), 0);
        if (workers[i].broken)
            fail_msg("%s", workers[i].broken);
        admitted += workers[i].admitted;
    }
    fixture_destroy(&world.fixture);
    return admitted;
}

static void define__under_deciding_threads_doubles_no_limit(void **state)
{
    (void)state;
    for (int algorithm = 0; algorithm <= WEIR_SLIDING_COUNTER; algorithm++) {
        const struct weir_limit_spec specs[2] = { limit_of((enum weir_algorithm)algorithm, COUNT, HOUR, 0),
                                                  limit_of((enum weir_algorithm)algorithm, COUNT - 1, HOUR, 0) };
        uint64_t admitted = run((struct circle){ specs, 2 });
        if (admitted == 0 || admitted > COUNT)
            fail_msg("%s: %llu of %d", weir_algorithm_name((enum weir_algorithm)algorithm),
                     (unsigned long long)admitted, COUNT);
    }
}

/* From a bucket to a window an entry moves to where two slots are free, while the walk is under way. */
static void define__that_changes_the_algorithm_doubles_no_limit(void **state)
{
    (void)state;
    struct weir_limit_spec specs[6];
    for (int i = 0; i < 6; i++)
        specs[i] = limit_of(i % 2 == 0 ? WEIR_TOKEN_BUCKET : (enum weir_algorithm)(WEIR_FIXED_WINDOW + i / 2), COUNT,
                            HOUR, 0);
    uint64_t admitted = run((struct circle){ specs, 6 });
    if (admitted == 0 || admitted > COUNT)
        fail_msg("%llu of %d", (unsigned long long)admitted, COUNT);
}

/* ---- enforced with room, or in shadow without: neither refuses ---- */

struct newcomers {
    struct fixture fixture; /* its id: atomic */
    bool over;              /* atomic */
    bool refused;
};

static void *ask_for_newcomers(void *argument)
{
    struct newcomers *n = argument;
    const struct weir_time time = at(T0);
    for (uint64_t key = 0; !__atomic_load_n(&n->over, __ATOMIC_ACQUIRE); key++) {
        const struct weir_slice value = { &key, sizeof key };
        struct weir_charge charge = { .limit = __atomic_load_n(&n->fixture.ids[0], __ATOMIC_ACQUIRE), .cost = 2 };
        struct weir_decision decision;
        struct weir_verdict verdict;
        if (weir_limiter_key(n->fixture.limiter, charge.limit, &value, 1, &charge.key) == 0 &&
            weir_limiter_decide(n->fixture.limiter, &charge, 1, &time, 0, &decision, &verdict) == 0)
            n->refused = n->refused || !decision.admitted;
    }
    return NULL;
}

static void define__into_shadow_refuses_nobody_meanwhile(void **state)
{
    (void)state;
    struct newcomers n = { .over = false };
    struct weir_limit_spec specs[2] = { limit_of(WEIR_TOKEN_BUCKET, 100, DAY, 0),
                                        limit_of(WEIR_TOKEN_BUCKET, 1, DAY, 0) };
    const struct weir_limiter_options options = { .memory_max = WEIR_MEMORY_MIN }; /* a walk takes no time */
    const struct weir_time time = at(T0);
    pthread_t thread;
    specs[1].mode = WEIR_MODE_SHADOW;
    n.fixture = fixture_create_with(&options, specs, 1);
    assert_int_equal(pthread_create(&thread, NULL, ask_for_newcomers, &n), 0);
    for (uint64_t turn = 1; turn <= 10 * replacements(); turn++) {
        const struct weir_limit_def def = { .name = "0", .spec = specs[turn % 2] };
        weir_limit_id id;
        assert_int_equal(weir_limiter_define(n.fixture.limiter, &def, 1, &time, &id, NULL), 0);
        __atomic_store_n(&n.fixture.ids[0], id, __ATOMIC_RELEASE);
    }
    __atomic_store_n(&n.over, true, __ATOMIC_RELEASE);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_false(n.refused);
    fixture_destroy(&n.fixture);
}

/* The error says which: an id that was, and what never was an id. */
static void define__an_id_of_a_set_that_is_gone_is_stale(void **state)
{
    (void)state;
    struct fixture f = one_limit(WEIR_TOKEN_BUCKET, 10, HOUR, 0);
    struct weir_charge first = charge_of(&f, 0, "k", 1);
    struct weir_decision decision;
    struct weir_verdict verdict;
    struct weir_key key;
    struct weir_limit_stats stats;
    struct weir_slice value = { "k", 1 };
    struct weir_time time = at(T0);
    uint64_t units;
    bool found;
    for (uint64_t count = 11; count <= 12; count++) {
        assert_int_equal(weir_limiter_decide(f.limiter, &first, 1, &time, 0, &decision, &verdict), 0);
        struct weir_limit_spec spec = limit_of(WEIR_TOKEN_BUCKET, count, HOUR, 0);
        fixture_define(&f, &spec, 1, T0);
    }
    assert_int_equal(weir_limiter_decide(f.limiter, &first, 1, &time, 0, &decision, &verdict), WEIR_ESTALE);
    assert_int_equal(weir_limiter_decide_many(f.limiter, &first, 1, &time, 0, &verdict), WEIR_ESTALE);
    assert_int_equal(weir_limiter_refund(f.limiter, &first, 1, &time, &units), WEIR_ESTALE);
    assert_int_equal(weir_limiter_refund_last(f.limiter, &first, 1, &time, &units), WEIR_ESTALE);
    assert_int_equal(weir_limiter_forget(f.limiter, &first, &found), WEIR_ESTALE);
    assert_int_equal(weir_limiter_key(f.limiter, first.limit, &value, 1, &key), WEIR_ESTALE);
    assert_int_equal(weir_limiter_limit_stats(f.limiter, first.limit, &stats), WEIR_ESTALE);
    const weir_limit_id never[] = { 0, 1, 1 << 16, UINT16_MAX, UINT64_MAX, (f.ids[0] + ((weir_limit_id)9 << 16)) };
    for (size_t i = 0; i < sizeof never / sizeof never[0]; i++) {
        struct weir_charge charge = { .limit = never[i], .key = first.key, .cost = 1 };
        assert_int_equal(weir_limiter_decide(f.limiter, &charge, 1, &time, 0, &decision, &verdict), WEIR_ENOENT);
    }
    assert_int_equal(ask(&f, 0, T0).remaining, 8); /* what was decided by the old ids counts, nothing else */
    fixture_destroy(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(define__under_deciding_threads_doubles_no_limit),
        cmocka_unit_test(define__that_changes_the_algorithm_doubles_no_limit),
        cmocka_unit_test(define__into_shadow_refuses_nobody_meanwhile),
        cmocka_unit_test(define__an_id_of_a_set_that_is_gone_is_stale),
    };
    return cmocka_run_group_tests_name("define under threads", tests, NULL, NULL);
}
