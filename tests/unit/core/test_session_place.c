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
    weir_known_history(&known, 9, &(struct weir_history){ .timeline = 2, .count = 1, .ancestors = { { 1, 104, 0 } } });
    weir_known_history(
        &known, 9, &(struct weir_history){ .timeline = 3, .count = 2, .ancestors = { { 1, 104, 0 }, { 2, 200, 0 } } });
    weir_known_history(&known, 9, &(struct weir_history){ .timeline = 4, .count = 1, .ancestors = { { 1, 152, 0 } } });
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

static void expect(size_t number, const struct weir_place *seen, const struct weir_shown *shown,
                   const struct weir_known *known, enum weir_place_verdict verdict)
{
    enum weir_place_verdict got = weir_place_compare(seen, shown, known);
    if (got != verdict)
        fail_msg("case %zu: %s, not %s", number, weir_place_verdict_name(got), weir_place_verdict_name(verdict));
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
        { SEEN(0, 10), STANDBY(0, 16), WEIR_PLACE_UNPROVEN }, /* that neither tells its timeline says nothing */
        { { .system = 8, .timeline = 1, .position = 1 }, STANDBY(1, 16), WEIR_PLACE_FOREIGN },
    };
    const struct weir_known known = family();
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        expect(i, &cases[i].seen, &cases[i].shown, &known, cases[i].verdict);
}

/* Two chains of which neither names an ancestor of the other's: not even the first record is of both. */
static void place__has_nothing_in_common_with_a_stranger_to_its_history(void **state)
{
    struct weir_known known = { 0 };
    const struct weir_shown standby = STANDBY(5, 400);
    (void)state;
    weir_known_history(&known, 9, &(struct weir_history){ .timeline = 4, .count = 1, .ancestors = { { 1, 104, 0 } } });
    weir_known_history(&known, 9, &(struct weir_history){ .timeline = 5, .count = 1, .ancestors = { { 2, 104, 0 } } });
    expect(1, &(struct weir_place)SEEN(4, 80), &standby, &known, WEIR_PLACE_LOST);
    expect(2, &(struct weir_place)SEEN(4, 1), &standby, &known, WEIR_PLACE_LOST);
}

/* Timeline 3's parent is 2, which it never reached: it left 1 at 56. */
static void place__is_cut_off_by_an_end_that_falls(void **state)
{
    struct weir_known known = { 0 };
    const struct weir_shown standby = STANDBY(3, 400), on_2 = STANDBY(2, 400), primary = PRIMARY(4, 400);
    (void)state;
    weir_known_history(
        &known, 9, &(struct weir_history){ .timeline = 3, .count = 2, .ancestors = { { 1, 104, 0 }, { 2, 56, 0 } } });
    weir_known_history(&known, 9,
                       &(struct weir_history){
                           .timeline = 4, .count = 3, .ancestors = { { 1, 104, 0 }, { 2, 56, 0 }, { 3, 200, 0 } } });
    for (uint32_t timeline = 1; timeline <= 2; timeline++) {
        expect(1, &(struct weir_place)SEEN(timeline, 56), &standby, &known, WEIR_PLACE_OK);
        expect(2, &(struct weir_place)SEEN(timeline, 64), &standby, &known, WEIR_PLACE_LOST);
        expect(3, &(struct weir_place)SEEN(timeline, 64), &primary, &known, WEIR_PLACE_LOST);
    }
    /* Timeline 2 itself left 1 at 104, whatever came of it. */
    expect(4, &(struct weir_place)SEEN(1, 104), &on_2, &known, WEIR_PLACE_OK);
    expect(5, &(struct weir_place)SEEN(1, 112), &on_2, &known, WEIR_PLACE_LOST);
    expect(6, &(struct weir_place)SEEN(3, 64), &on_2, &known, WEIR_PLACE_DIVERGED);
    /* A sibling of all of them: what it has in common with 3 ends where 3 left. */
    weir_known_history(&known, 9, &(struct weir_history){ .timeline = 5, .count = 1, .ancestors = { { 1, 152, 0 } } });
    expect(7, &(struct weir_place)SEEN(5, 56), &standby, &known, WEIR_PLACE_OK);
    expect(8, &(struct weir_place)SEEN(5, 64), &standby, &known, WEIR_PLACE_DIVERGED);
}

/* A history begins with its parent's: one that is known tells the ancestors' too. */
static void place__is_proven_by_a_descendants_history(void **state)
{
    struct weir_known known = { 0 };
    const struct weir_shown on_3 = STANDBY(3, 400), on_4 = STANDBY(4, 400);
    (void)state;
    weir_known_history(&known, 9,
                       &(struct weir_history){
                           .timeline = 5, .count = 3, .ancestors = { { 1, 104, 0 }, { 3, 200, 0 }, { 4, 304, 0 } } });
    expect(1, &(struct weir_place)SEEN(1, 104), &on_3, &known, WEIR_PLACE_OK);
    expect(2, &(struct weir_place)SEEN(1, 112), &on_3, &known, WEIR_PLACE_LOST);
    expect(3, &(struct weir_place)SEEN(3, 200), &on_4, &known, WEIR_PLACE_OK);
    expect(4, &(struct weir_place)SEEN(3, 208), &on_4, &known, WEIR_PLACE_LOST);
    expect(5, &(struct weir_place)SEEN(2, 8), &on_4, &known, WEIR_PLACE_UNPROVEN);
}

static void place__of_before_the_kept_ancestors_is_lost(void **state)
{
    struct weir_known known = { 0 };
    struct weir_history cut = { .timeline = 90, .count = 1, .cut = true, .ancestors = { { 80, 800, 0 } } };
    struct weir_history old = { .timeline = 70, .count = 1, .ancestors = { { 1, 8, 0 } } };
    const struct weir_shown now = STANDBY(90, 4000), then = STANDBY(70, 80), primary = PRIMARY(70, 80);
    (void)state;
    weir_known_history(&known, 9, &cut);
    expect(1, &(struct weir_place)SEEN(80, 800), &now, &known, WEIR_PLACE_OK);
    expect(2, &(struct weir_place)SEEN(1, 8), &now, &known, WEIR_PLACE_LOST);
    expect(3, &(struct weir_place)SEEN(70, 8), &now, &known, WEIR_PLACE_UNPROVEN);
    weir_known_history(&known, 9, &old);
    expect(4, &(struct weir_place)SEEN(70, 8), &now, &known, WEIR_PLACE_LOST);
    expect(5, &(struct weir_place)SEEN(90, 8), &then, &known, WEIR_PLACE_DIVERGED);
    expect(6, &(struct weir_place)SEEN(90, 8), &primary, &known, WEIR_PLACE_DIVERGED);
}

static void place__that_nobody_knows_of_is_unproven(void **state)
{
    struct weir_known other = family();
    const struct weir_shown standby = STANDBY(2, 400), same = STANDBY(1, 400);
    const struct weir_place seen = SEEN(1, 80);
    (void)state;
    other.system = 8;
    expect(1, &seen, &standby, NULL, WEIR_PLACE_UNPROVEN);
    expect(2, &seen, &standby, &other, WEIR_PLACE_UNPROVEN);
    expect(3, &seen, &same, NULL, WEIR_PLACE_OK);
}

/* Run 5 of timeline 1 is present and flushed to 80; run 4 is over and was seen to have flushed 40. */
static void place__that_was_not_flushed_needs_its_run(void **state)
{
#define IN_RUN(t, p, r)                                                                                                \
    {                                                                                                                  \
        .system = 9, .timeline = t, .position = p, .run = r                                                            \
    }
    static const struct {
        struct weir_place seen;
        struct weir_shown shown;
        enum weir_place_verdict verdict;
    } cases[] = {
        { IN_RUN(1, 88, 5), PRIMARY(1, 88), WEIR_PLACE_OK },
        { IN_RUN(1, 88, 5), PRIMARY(1, 80), WEIR_PLACE_LOST },
        { IN_RUN(1, 88, 4), PRIMARY(1, 400), WEIR_PLACE_LOST },
        { IN_RUN(1, 88, 6), PRIMARY(1, 400), WEIR_PLACE_LOST },
        { IN_RUN(1, 40, 4), PRIMARY(1, 400), WEIR_PLACE_OK },
        { IN_RUN(1, 48, 4), PRIMARY(1, 400), WEIR_PLACE_LOST },
        { IN_RUN(1, 80, 5), STANDBY(1, 80), WEIR_PLACE_OK },
        { IN_RUN(1, 88, 5), STANDBY(1, 400), WEIR_PLACE_BEHIND },
        { IN_RUN(1, 80, 5), STANDBY(1, 72), WEIR_PLACE_BEHIND },
        { IN_RUN(1, 40, 4), STANDBY(1, 400), WEIR_PLACE_OK },
        { IN_RUN(1, 48, 4), STANDBY(1, 400), WEIR_PLACE_LOST },
        { IN_RUN(1, 48, 4), STANDBY(1, 16), WEIR_PLACE_LOST },
        { IN_RUN(1, 88, 6), STANDBY(1, 400), WEIR_PLACE_UNPROVEN },
        { IN_RUN(1, 88, 6), STANDBY(1, 80), WEIR_PLACE_BEHIND },
        { IN_RUN(1, 88, 3), STANDBY(1, 400), WEIR_PLACE_LOST },
        { IN_RUN(1, 80, 5), STANDBY(2, 400), WEIR_PLACE_OK },
        { IN_RUN(1, 88, 5), STANDBY(2, 400), WEIR_PLACE_LOST },
        { IN_RUN(1, 88, 5), PRIMARY(2, 400), WEIR_PLACE_LOST },
        { IN_RUN(2, 112, 9), PRIMARY(1, 400), WEIR_PLACE_DIVERGED },
        { IN_RUN(2, 104, 9), PRIMARY(1, 400), WEIR_PLACE_DIVERGED },
        { IN_RUN(2, 112, 9), STANDBY(1, 80), WEIR_PLACE_BEHIND },
        { IN_RUN(0x7fffffff, 8, 9), STANDBY(1, 80), WEIR_PLACE_UNPROVEN },
    };
    struct weir_known known = family();
    (void)state;
    weir_known_run(&known, 9, 1, 0, 5, 80);
    weir_known_run(&known, 9, 1, 0, 4, 40);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        expect(i, &cases[i].seen, &cases[i].shown, &known, cases[i].verdict);
    expect(99, &(struct weir_place)IN_RUN(2, 40, 4), &(struct weir_shown)STANDBY(2, 400), &known, WEIR_PLACE_UNPROVEN);
    weir_known_run(&known, 9, 2, 0, 1, 0); /* a later timeline's run is a later run, whatever its number */
    expect(100, &(struct weir_place)IN_RUN(1, 88, 5), &(struct weir_shown)STANDBY(1, 80), &known, WEIR_PLACE_LOST);
    weir_known_run(&known, 9, 2, 0, 20, 0);
    expect(103, &(struct weir_place)IN_RUN(2, 112, 9), &(struct weir_shown)STANDBY(1, 80), &known, WEIR_PLACE_LOST);
    expect(104, &(struct weir_place)IN_RUN(2, 112, 20), &(struct weir_shown)STANDBY(1, 80), &known, WEIR_PLACE_BEHIND);
    expect(105, &(struct weir_place)IN_RUN(1, 88, 20), &(struct weir_shown)STANDBY(1, 80), &known, WEIR_PLACE_LOST);
    expect(101, &(struct weir_place)IN_RUN(1, 88, 5), &(struct weir_shown)STANDBY(1, 80), NULL, WEIR_PLACE_BEHIND);
    expect(102, &(struct weir_place)IN_RUN(1, 88, 5), &(struct weir_shown)STANDBY(1, 88), NULL, WEIR_PLACE_UNPROVEN);
}

/* Copies of one server tell the same run, as long as none of them has crashed. Two of them were promoted to timeline 2:
 * what one has flushed says nothing of the other. */
static void place__of_copies_that_tell_one_run_the_branch_says_which(void **state)
{
    struct weir_known known = family();
    struct weir_place seen = IN_RUN(2, 112, 5);
    struct weir_shown after = PRIMARY(2, 400), standby = STANDBY(2, 400);
    (void)state;
    seen.branch = after.branch = standby.branch = 11;
    after.run = 6; /* it crashed, and went on */
    weir_known_run(&known, 9, 2, 22, 5, 400);
    expect(0, &seen, &after, &known, WEIR_PLACE_LOST);
    expect(1, &seen, &standby, &known, WEIR_PLACE_BEHIND);
    weir_known_run(&known, 9, 2, 11, 5, 104);
    expect(2, &seen, &after, &known, WEIR_PLACE_LOST);
    weir_known_run(&known, 9, 2, 11, 5, 112);
    expect(3, &seen, &after, &known, WEIR_PLACE_OK);
    expect(4, &seen, &standby, &known, WEIR_PLACE_OK);
    weir_known_same(&known, 2, 33, 11); /* the same one under the number of a later start */
    seen.branch = 33;
    expect(5, &seen, &after, &known, WEIR_PLACE_OK);
}

/* A standby shows a commit before its primary may. */
static void place__seen_at_a_standby_needs_a_settled_primary(void **state)
{
    const struct weir_known known = family();
    struct weir_place seen = SEEN(1, 80), after = SEEN(2, 80);
    struct weir_shown primary = PRIMARY(1, 400), later = PRIMARY(2, 400), behind = PRIMARY(1, 72);
    (void)state;
    primary.settled = later.settled = behind.settled = false;
    expect(1, &seen, &primary, &known, WEIR_PLACE_OK);
    expect(2, &after, &primary, &known, WEIR_PLACE_BEHIND);
    expect(3, &seen, &later, &known, WEIR_PLACE_OK);
    seen.standby = true;
    expect(4, &seen, &primary, &known, WEIR_PLACE_BEHIND);
    expect(5, &seen, &later, &known, WEIR_PLACE_BEHIND);
    expect(6, &seen, &behind, &known, WEIR_PLACE_LOST);
    primary.settled = true;
    expect(7, &seen, &primary, &known, WEIR_PLACE_OK);
    expect(8, &seen, &(struct weir_shown)STANDBY(1, 80), &known, WEIR_PLACE_OK);
}

static void place__at_the_end_of_numbers(void **state)
{
    const uint64_t last = UINT64_MAX - 7;
    const struct weir_known known = family();
    struct weir_place half = SEEN(UINT32_MAX, last | 1), all = SEEN(UINT32_MAX, UINT64_MAX);
    struct weir_shown standby = STANDBY(UINT32_MAX, last), primary = PRIMARY(UINT32_MAX, last);
    struct weir_place place;
    (void)state;
    expect(1, &half, &standby, &known, WEIR_PLACE_BEHIND);
    expect(2, &half, &primary, &known, WEIR_PLACE_OK);
    expect(3, &all, &primary, &known, WEIR_PLACE_LOST);
    expect(4, &all, &standby, &known, WEIR_PLACE_BEHIND);
    expect(5, &all, &(struct weir_shown)PRIMARY(3, 400), &known, WEIR_PLACE_UNPROVEN);
    expect(6, &(struct weir_place)SEEN(3, UINT64_MAX), &(struct weir_shown)PRIMARY(3, 400), &known, WEIR_PLACE_LOST);
    expect(7, &(struct weir_place)SEEN(1, UINT64_MAX), &(struct weir_shown)STANDBY(3, last), &known, WEIR_PLACE_LOST);
    standby.received = 0;
    assert_int_equal(weir_place_seen(&standby, &place), 0);
    assert_true(place.position == (last | WEIR_POSITION_NEXT));
    assert_true(place.timeline == UINT32_MAX);
}

static void place__seen_is_what_the_server_may_have_shown(void **state)
{
    struct weir_shown primary = PRIMARY(2, 80), standby = STANDBY(2, 80);
    struct weir_place place = { 0 };
    (void)state;
    primary.branch = standby.branch = 22;
    assert_int_equal(weir_place_seen(&primary, &place), 0);
    assert_int_equal(place.branch, 22);
    primary.timeline = 1; /* of which there is but one */
    assert_int_equal(weir_place_seen(&primary, &place), 0);
    assert_int_equal(place.branch, 0);
    primary.timeline = 2;
    assert_int_equal(weir_place_seen(&primary, &place), 0);
    assert_true(place.system == 9 && place.position == 80 && place.run == 0 && place.timeline == 2 && !place.standby);
    primary.flushed = 72;
    assert_int_equal(weir_place_seen(&primary, &place), 0);
    assert_true(place.position == 80 && place.run == 5);
    assert_int_equal(weir_place_seen(&standby, &place), 0);
    assert_true(place.position == 80 && place.run == 0 && place.standby);
    const uint64_t in_flight[] = { 88, 0, 72 };
    for (size_t i = 0; i < 3; i++) {
        standby.received = in_flight[i];
        assert_int_equal(weir_place_seen(&standby, &place), 0);
        assert_true(place.position == (80 | WEIR_POSITION_NEXT));
    }
}

static void place__seen_at_a_server_that_cannot_tell_is_an_error(void **state)
{
    const struct weir_shown good = PRIMARY(2, 80);
    struct weir_shown bad[] = { good, good, good, good, good, STANDBY(0, 80), STANDBY(2, 0), STANDBY(2, 81) };
    struct weir_place place = { .system = 77 };
    (void)state;
    bad[0].system = 0;
    bad[1].timeline = 0;
    bad[2].run = 0;
    bad[3].position = 0;
    bad[4].position = 81;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_int_equal(weir_place_seen(&bad[i], &place), WEIR_EINVAL);
    assert_true(place.system == 77);
}

static void place__verdicts_have_names_and_an_order(void **state)
{
    static const enum weir_place_verdict worse[] = { WEIR_PLACE_OK,       WEIR_PLACE_BEHIND, WEIR_PLACE_UNPROVEN,
                                                     WEIR_PLACE_DIVERGED, WEIR_PLACE_LOST,   WEIR_PLACE_FOREIGN };
    static const char *const names[] = { "ok", "behind", "unproven", "diverged", "lost", "foreign" };
    (void)state;
    for (size_t i = 0; i < 6; i++) {
        assert_string_equal(weir_place_verdict_name(worse[i]), names[i]);
        for (size_t j = 0; j <= i; j++) {
            assert_int_equal(weir_place_worse(worse[i], worse[j]), worse[i]);
            assert_int_equal(weir_place_worse(worse[j], worse[i]), worse[i]);
        }
    }
    assert_string_equal(weir_place_verdict_name((enum weir_place_verdict)6), "unknown");
}

/* Two promotions that took number 2: one of branch 7, one of 8. Timeline 3 came of 7, timeline 4 of nobody knows which.
 * */
static void place__branches_of_one_number_are_told_apart(void **state)
{
    struct weir_known known = { 0 };
    struct weir_place seen = { .system = 9, .timeline = 2, .position = 120, .branch = 7 };
    struct weir_shown shown = { .system = 9, .timeline = 2, .position = 400, .branch = 8 };
    (void)state;
    weir_known_history(&known, 9,
                       &(struct weir_history){
                           .timeline = 2, .branch = 7, .count = 1, .ancestors = { { .timeline = 1, .end = 104 } } });
    weir_known_history(&known, 9,
                       &(struct weir_history){
                           .timeline = 2, .branch = 8, .count = 1, .ancestors = { { .timeline = 1, .end = 96 } } });
    for (int primary = 0; primary < 2; primary++) {
        shown = (struct weir_shown){ .system = 9, .timeline = 2, .position = 400, .branch = 8 };
        shown.primary = shown.settled = primary;
        shown.run = 1;
        assert_int_equal(weir_place_compare(&seen, &shown, &known), WEIR_PLACE_UNPROVEN);
        shown.branch = 7;
        assert_int_equal(weir_place_compare(&seen, &shown, &known), WEIR_PLACE_OK);
        shown.branch = 0; /* nobody knows */
        assert_int_equal(weir_place_compare(&seen, &shown, &known), WEIR_PLACE_UNPROVEN);
        for (uint32_t timeline = 3; timeline <= 4; timeline++) {
            struct weir_history history = { .timeline = timeline, .branch = timeline, .count = 2 };
            history.ancestors[0] = (struct weir_ancestor){ 1, 104, 0 };
            history.ancestors[1] = (struct weir_ancestor){ 2, 200, timeline == 3 ? 7 : 0 };
            weir_known_history(&known, 9, &history);
            shown.timeline = shown.branch = timeline;
            assert_int_equal(weir_place_compare(&seen, &shown, &known),
                             timeline == 3 ? WEIR_PLACE_OK : WEIR_PLACE_UNPROVEN);
        }
    }
    /* Where the two left timeline 1 is told by each one's own history. */
    seen = (struct weir_place){ .system = 9, .timeline = 1, .position = 100 };
    shown = (struct weir_shown){ .system = 9, .timeline = 2, .position = 400, .branch = 8 };
    assert_int_equal(weir_place_compare(&seen, &shown, &known), WEIR_PLACE_LOST);
    shown.branch = 7;
    assert_int_equal(weir_place_compare(&seen, &shown, &known), WEIR_PLACE_OK);
}

static void place__a_branch_goes_on_under_another_number_where_that_was_seen(void **state)
{
    struct weir_known known = { .system = 9 };
    struct weir_place seen = { .system = 9, .timeline = 2, .position = 120, .branch = 7 }, other = seen, merged;
    struct weir_shown shown = { .system = 9, .timeline = 2, .position = 400, .branch = 9 };
    (void)state;
    other.position = 200;
    other.branch = 9;
    assert_int_equal(weir_place_merge(&seen, &other, &known, &merged), WEIR_EAGAIN);
    weir_known_same(&known, 3, 9, 8);
    weir_known_same(&known, 2, 8, 7);
    assert_true(weir_known_is_same(&known, 3, 9, 8)); /* another timeline's numbers are its own */
    weir_known_same(&known, 2, 9, 8);
    weir_known_same(&known, 2, 0, 8);
    assert_int_equal(weir_place_compare(&seen, &shown, &known), WEIR_PLACE_OK);
    assert_int_equal(weir_place_merge(&seen, &other, &known, &merged), 0);
    assert_int_equal(merged.position, 200);
    shown.branch = 10;
    assert_int_equal(weir_place_compare(&seen, &shown, &known), WEIR_PLACE_UNPROVEN);
    shown.branch = 0;
    assert_int_equal(weir_place_compare(&seen, &shown, &known), WEIR_PLACE_UNPROVEN);
    for (uint32_t i = 0; i < 2 * WEIR_SAME_MAX; i++) /* the oldest are forgotten: nothing is proven then */
        weir_known_same(&known, 2, 100 + i, 50);
    shown.branch = 9;
    assert_int_equal(weir_place_compare(&seen, &shown, &known), WEIR_PLACE_UNPROVEN);
    assert_int_equal(known.same_count, WEIR_SAME_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(place__is_compared_along_the_history),
        cmocka_unit_test(place__has_nothing_in_common_with_a_stranger_to_its_history),
        cmocka_unit_test(place__is_cut_off_by_an_end_that_falls),
        cmocka_unit_test(place__is_proven_by_a_descendants_history),
        cmocka_unit_test(place__of_before_the_kept_ancestors_is_lost),
        cmocka_unit_test(place__that_nobody_knows_of_is_unproven),
        cmocka_unit_test(place__that_was_not_flushed_needs_its_run),
        cmocka_unit_test(place__seen_at_a_standby_needs_a_settled_primary),
        cmocka_unit_test(place__at_the_end_of_numbers),
        cmocka_unit_test(place__of_copies_that_tell_one_run_the_branch_says_which),
        cmocka_unit_test(place__seen_is_what_the_server_may_have_shown),
        cmocka_unit_test(place__seen_at_a_server_that_cannot_tell_is_an_error),
        cmocka_unit_test(place__branches_of_one_number_are_told_apart),
        cmocka_unit_test(place__a_branch_goes_on_under_another_number_where_that_was_seen),
        cmocka_unit_test(place__verdicts_have_names_and_an_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
