/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/session/place.h"
#include "weir/error.h"

/* Timeline 2 left 1 at 100, 3 left 2 at 200, 4 left 1 at 150. */
static struct weir_known family(void)
{
    struct weir_known known = { 0 };
    weir_known_history(&known, 9, &(struct weir_history){ .timeline = 2, .count = 1, .ancestors = { { 1, 104 } } });
    weir_known_history(&known, 9,
                       &(struct weir_history){ .timeline = 3, .count = 2, .ancestors = { { 1, 104 }, { 2, 200 } } });
    weir_known_history(&known, 9, &(struct weir_history){ .timeline = 4, .count = 1, .ancestors = { { 1, 152 } } });
    return known;
}

#define SEEN(t, p)                                                                                                     \
    {                                                                                                                  \
        .system = 9, .timeline = t, .position = p                                                                      \
    }
#define STANDBY(t, p)                                                                                                  \
    {                                                                                                                  \
        .system = 9, .timeline = t, .position = p, .received = p                                                       \
    }
#define PRIMARY(t, p)                                                                                                  \
    {                                                                                                                  \
        .system = 9, .timeline = t, .position = p, .flushed = p, .run = 5, .primary = true, .settled = true            \
    }

static void place__is_compared_along_the_history(void **state)
{
    static const struct {
        struct weir_place seen;
        struct weir_shown shown;
        enum weir_place_verdict verdict;
    } cases[] = {
        { SEEN(1, 80), STANDBY(1, 80), WEIR_PLACE_OK },
        { SEEN(1, 80), STANDBY(1, 72), WEIR_PLACE_BEHIND },
        { SEEN(1, 81), STANDBY(1, 80), WEIR_PLACE_BEHIND },
        { SEEN(1, 81), STANDBY(1, 88), WEIR_PLACE_OK },
        { SEEN(1, 81), PRIMARY(1, 80), WEIR_PLACE_OK },
        { SEEN(1, 88), PRIMARY(1, 80), WEIR_PLACE_LOST },
        { SEEN(1, 104), PRIMARY(2, 104), WEIR_PLACE_OK },
        { SEEN(1, 105), PRIMARY(2, 112), WEIR_PLACE_LOST },
        { SEEN(1, 112), PRIMARY(2, 400), WEIR_PLACE_LOST },
        { SEEN(1, 112), STANDBY(2, 80), WEIR_PLACE_LOST },
        { SEEN(2, 112), STANDBY(1, 104), WEIR_PLACE_BEHIND },
        { SEEN(2, 112), STANDBY(1, 112), WEIR_PLACE_DIVERGED },
        { SEEN(2, 112), PRIMARY(1, 104), WEIR_PLACE_DIVERGED },
        { SEEN(2, 104), PRIMARY(1, 104), WEIR_PLACE_OK },
        { SEEN(2, 104), PRIMARY(1, 96), WEIR_PLACE_DIVERGED },
        { SEEN(3, 150), STANDBY(2, 152), WEIR_PLACE_OK },
        { SEEN(3, 208), STANDBY(2, 200), WEIR_PLACE_BEHIND },
        { SEEN(3, 100), STANDBY(1, 104), WEIR_PLACE_OK },
        { SEEN(3, 112), STANDBY(4, 104), WEIR_PLACE_LOST },
        { SEEN(4, 112), STANDBY(3, 104), WEIR_PLACE_BEHIND },
        { SEEN(4, 112), STANDBY(3, 112), WEIR_PLACE_DIVERGED },
        { SEEN(4, 104), STANDBY(3, 112), WEIR_PLACE_OK },
        { SEEN(5, 10), STANDBY(3, 112), WEIR_PLACE_UNPROVEN },
        { SEEN(5, 10), STANDBY(5, 16), WEIR_PLACE_OK },
        { SEEN(1, 10), STANDBY(5, 16), WEIR_PLACE_UNPROVEN },
        { SEEN(1, 10), STANDBY(0, 16), WEIR_PLACE_UNPROVEN },
        { { .system = 8, .timeline = 1, .position = 1 }, STANDBY(1, 16), WEIR_PLACE_FOREIGN },
    };
    const struct weir_known known = family();
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        enum weir_place_verdict verdict = weir_place_compare(&cases[i].seen, &cases[i].shown, &known);
        if (verdict != cases[i].verdict)
            fail_msg("case %zu: %s", i, weir_place_verdict_name(verdict));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(place__is_compared_along_the_history),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
