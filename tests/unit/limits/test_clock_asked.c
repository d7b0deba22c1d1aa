/* SPDX-License-Identifier: Apache-2.0
 *
 * How often a decision by our own clock asks for the time: where nothing else is done, that is most of what it costs.
 * Linked with --wrap of clock_gettime. */
#include <time.h>

#include "fixture.h"
#include "limits/memory.h"

int __real_clock_gettime(clockid_t clock, struct timespec *ret_now);
int __wrap_clock_gettime(clockid_t clock, struct timespec *ret_now);

static unsigned asked;

int __wrap_clock_gettime(clockid_t clock, struct timespec *ret_now)
{
    asked++;
    return __real_clock_gettime(clock, ret_now);
}

/* Until it goes by the counter, with an anchor far from old: the machine may stop this test for a while. */
static void settle(struct fixture *f)
{
    f->limiter->clock.reach = 0;
    for (int i = 0; i < 1000 && f->limiter->clock.reach == 0; i++) {
        nanosleep(&(struct timespec){ .tv_nsec = 5000000 }, NULL);
        (void)weir_clock_now(&f->limiter->clock);
    }
    assert_true(f->limiter->clock.reach > 0);
    f->limiter->clock.reach = UINT64_MAX / 4;
}

static unsigned asked_by(const struct fixture *f, const struct weir_charge *charge, bool told)
{
    struct weir_decision decision;
    struct weir_verdict verdict;
    asked = 0;
    if (told)
        assert_int_equal(weir_limiter_decide(f->limiter, charge, 1, NULL, 0, &decision, &verdict), 0);
    else
        assert_true(weir_limiter_admit(f->limiter, charge, NULL));
    return asked;
}

/* By `clock` once by the short way; by the long one both clocks, and no more. */
static void count(enum weir_clock_kind clock, unsigned monotonic)
{
    const struct weir_limiter_options options = { .memory_max = (size_t)4 << 20, .clock = clock };
    struct weir_limit_spec specs[] = { limit_of(WEIR_TOKEN_BUCKET, 1000, DAY, 0),
                                       limit_of(WEIR_FIXED_WINDOW, 1000, DAY, 0),
                                       limit_of(WEIR_TOKEN_BUCKET, 1000, DAY, 0),
                                       limit_of(WEIR_TOKEN_BUCKET, 1000, DAY, 0) };
    specs[2].mode = WEIR_MODE_SHADOW;
    specs[3].mode = WEIR_MODE_OFF;
    struct fixture f = fixture_create_with(&options, specs, 4);
    if (clock == WEIR_CLOCK_TSC)
        settle(&f);
    for (size_t limit = 0; limit < 4; limit++) {
        const struct weir_charge charge = charge_of(&f, limit, "k", 1);
        const struct weir_charge newcomer = charge_of(&f, limit, "n", 1);
        assert_int_equal(asked_by(&f, &newcomer, true), monotonic + 1);
        assert_int_equal(asked_by(&f, &charge, false), monotonic + 1); /* it comes */
        assert_int_equal(asked_by(&f, &charge, false), limit == 0 ? monotonic : monotonic + 1);
        assert_int_equal(asked_by(&f, &charge, true), limit == 0 ? monotonic : monotonic + 1);
    }
    fixture_destroy(&f);
}

static void each_clock_is_asked_once(void **state)
{
    (void)state;
    count(WEIR_CLOCK_MONOTONIC, 1);
    count(WEIR_CLOCK_COARSE, 1);
}

/* Where the kernel goes by the counter: the wall's clock at most, as long as the anchor stands. */
static void the_counter_asks_no_clock(void **state)
{
    (void)state;
    if (weir_clock_machine(WEIR_CLOCK_TSC).trusted(NULL))
        count(WEIR_CLOCK_TSC, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(each_clock_is_asked_once),
                                        cmocka_unit_test(the_counter_asks_no_clock) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
