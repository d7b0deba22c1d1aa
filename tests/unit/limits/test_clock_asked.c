/* SPDX-License-Identifier: Apache-2.0
 *
 * How often a decision by our own clock asks for the time: where nothing else is done, that is most of what it costs.
 * Linked with --wrap of clock_gettime. */
#include <time.h>

#include "fixture.h"

int __real_clock_gettime(clockid_t clock, struct timespec *ret_now);
int __wrap_clock_gettime(clockid_t clock, struct timespec *ret_now);

static unsigned asked;

int __wrap_clock_gettime(clockid_t clock, struct timespec *ret_now)
{
    asked++;
    return __real_clock_gettime(clock, ret_now);
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

/* Once by the short way; by the long one both clocks, and no more. */
static void each_clock_is_asked_once(void **state)
{
    (void)state;
    struct weir_limit_spec specs[] = { limit_of(WEIR_TOKEN_BUCKET, 1000, DAY, 0),
                                       limit_of(WEIR_FIXED_WINDOW, 1000, DAY, 0),
                                       limit_of(WEIR_TOKEN_BUCKET, 1000, DAY, 0),
                                       limit_of(WEIR_TOKEN_BUCKET, 1000, DAY, 0) };
    specs[2].mode = WEIR_MODE_SHADOW;
    specs[3].mode = WEIR_MODE_OFF;
    struct fixture f = fixture_create(specs, 4);
    for (size_t limit = 0; limit < 4; limit++) {
        const struct weir_charge charge = charge_of(&f, limit, "k", 1);
        const struct weir_charge newcomer = charge_of(&f, limit, "n", 1);
        assert_int_equal(asked_by(&f, &newcomer, true), 2);
        assert_int_equal(asked_by(&f, &charge, false), 2); /* it comes */
        assert_int_equal(asked_by(&f, &charge, false), limit == 0 ? 1 : 2);
        assert_int_equal(asked_by(&f, &charge, true), limit == 0 ? 1 : 2);
    }
    fixture_destroy(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(each_clock_is_asked_once) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
