/* SPDX-License-Identifier: Apache-2.0
 *
 * Routes of the service, decided from snapshots: what is believed of a primary that was asked before the token came. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "serve/session_decide.h"

#define SYSTEM 77
#define MS UINT64_C(1000000)
#define CAME (1000 * MS)

static struct weir_snapshot snapshot;
static struct weir_session_case route;
static struct weir_session_answer answer;

/* A primary `a`, and standbys `b` and `c`, asked before the token came, all at 800. */
static int setup(void **state)
{
    (void)state;
    memset(&snapshot, 0, sizeof(snapshot));
    memset(&route, 0, sizeof(route));
    snapshot.count = 3;
    for (unsigned i = 0; i < 3; i++) {
        snapshot.servers[i] = (struct weir_route_server){
            .id = 10 + i,
            .shown = { .system = SYSTEM, .position = 800, .received = 800, .timeline = 1, .streams = i > 0 },
            .asked_ns = CAME - MS,
            .usable = true,
        };
        snapshot.states[i].begun_ns = CAME - MS;
        snapshot.states[i].name[0] = (char)('a' + (int)i);
    }
    snapshot.servers[0].shown.primary = true;
    snapshot.servers[0].shown.run = 5;
    snapshot.servers[0].shown.flushed = 800;
    weir_known_run(&snapshot.known, SYSTEM, 1, 0, 5, 800);
    route.came_ns = CAME;
    route.wait_ns = CAME + 500 * MS;
    route.give_up_ns = CAME + 1000 * MS;
    return 0;
}

static void seen(uint64_t position, bool standby)
{
    const struct weir_place place = { .system = SYSTEM, .position = position, .timeline = 1, .standby = standby };
    route.token = (struct weir_session_token){ .count = 0 };
    assert_int_equal(weir_session_token_add(&route.token, &place, NULL), 0);
}

static void asked(unsigned index, uint64_t at_ns, uint64_t position)
{
    snapshot.servers[index].asked_ns = snapshot.states[index].begun_ns = at_ns;
    snapshot.servers[index].shown.position = snapshot.servers[index].shown.received = position;
}

static enum weir_session_said decided(uint64_t now_ns)
{
    const struct weir_session_times times = {
        .now_ns = now_ns, .wall_ns = 1, .window_ns = 1000 * MS, .freeze_ns = 1000 * MS, .poll_ns = 50 * MS
    };
    weir_session_decide(&route, &snapshot, &times, &answer);
    return answer.said;
}

static void what_is_shown__is_answered_at_once(void **state)
{
    (void)state;
    seen(800, false);
    assert_int_equal(decided(CAME), WEIR_SESSION_ROUTED);
    assert_true(answer.name[0] == 'b' || answer.name[0] == 'c');
    assert_false(answer.primary || answer.stale);
    assert_int_equal(answer.holds_ms, 1000);
    assert_non_null(strstr(answer.check, "'0/320'"));
}

static void a_replica__is_waited_for_and_then_the_leader(void **state)
{
    (void)state;
    seen(808, false);
    assert_int_equal(decided(CAME), WEIR_SESSION_WAITS);
    asked(0, CAME + MS, 900);
    assert_int_equal(decided(CAME + 499 * MS), WEIR_SESSION_WAITS);
    assert_int_equal(decided(CAME + 500 * MS), WEIR_SESSION_ROUTED);
    assert_true(answer.primary);
    assert_int_equal(answer.holds_ms, 100); /* it looks for a replica again soon */
    asked(2, CAME + 2 * MS, 808);
    assert_int_equal(decided(CAME + 3 * MS), WEIR_SESSION_ROUTED);
    assert_string_equal(answer.name, "c");
}

/* A write that is younger than the primary's last answer is no loss, and one that is beyond its next is. */
static void lost__is_said_of_a_primary_that_was_asked_since(void **state)
{
    (void)state;
    seen(900, false);
    route.write = true;
    assert_int_equal(decided(CAME), WEIR_SESSION_WAITS);
    asked(0, CAME + MS, 892);
    assert_int_equal(decided(CAME + 2 * MS), WEIR_SESSION_LOST);
    asked(0, CAME + MS, 900);
    assert_int_equal(decided(CAME + 2 * MS), WEIR_SESSION_ROUTED);
    asked(0, CAME - MS, 800);
    assert_int_equal(decided(CAME + 1000 * MS), WEIR_SESSION_BEHIND); /* it does not answer any more: nobody knows */
}

/* A crash takes back what was not flushed, and gives its positions out again: the primary is beyond them. */
static void lost__is_said_of_a_run_that_is_over(void **state)
{
    (void)state;
    const struct weir_place place = { .system = SYSTEM, .position = 760, .timeline = 1, .run = 4 };
    route.token = (struct weir_session_token){ .count = 0 };
    assert_int_equal(weir_session_token_add(&route.token, &place, NULL), 0);
    for (int write = 0; write < 2; write++) {
        route.write = write == 1;
        asked(0, CAME - MS, 800);
        assert_int_equal(decided(CAME), WEIR_SESSION_WAITS);
        asked(0, CAME + MS, 800);
        assert_int_equal(decided(CAME + 2 * MS), WEIR_SESSION_LOST);
    }
    weir_known_run(&snapshot.known, SYSTEM, 1, 0, 4, 768);
    assert_int_equal(decided(CAME + 2 * MS), WEIR_SESSION_ROUTED);
}

static void a_leader_after_a_standby__is_read_once_it_is_settled(void **state)
{
    (void)state;
    seen(800, true);
    snapshot.servers[1].usable = snapshot.servers[2].usable = false;
    snapshot.servers[0].settled_ns = CAME; /* before the token came */
    assert_int_equal(decided(CAME), WEIR_SESSION_WAITS);
    asked(0, CAME + MS, 800);
    assert_int_equal(decided(CAME + 2 * MS), WEIR_SESSION_WAITS);
    snapshot.servers[0].settled_ns = CAME + 1; /* others run now: those that ran then have ended */
    assert_int_equal(decided(CAME + 2 * MS), WEIR_SESSION_ROUTED);
    assert_non_null(strstr(answer.check, "::bigint = 5 THEN 'ok'")); /* it stays settled for this token, in this run */
    snapshot.servers[0].settled_ns = CAME;
    assert_int_equal(decided(CAME + 1000 * MS), WEIR_SESSION_BEHIND);
    route.write = true; /* a write needs no such proof: its check has it */
    assert_int_equal(decided(CAME + 2 * MS), WEIR_SESSION_ROUTED);
    assert_null(strstr(answer.check, "::bigint = 5 THEN 'ok'"));
}

static void those_to_avoid__are_not_chosen_but_the_leader(void **state)
{
    (void)state;
    seen(800, false);
    strcpy(route.avoid[0], "b");
    strcpy(route.avoid[1], "a");
    route.avoid_count = 2;
    assert_int_equal(decided(CAME), WEIR_SESSION_ROUTED);
    assert_string_equal(answer.name, "c");
    strcpy(route.avoid[1], "c");
    assert_int_equal(decided(CAME), WEIR_SESSION_ROUTED);
    assert_string_equal(answer.name, "a");
}

/* Its check asks the receiver which timeline it is on. */
static void a_standby_without_a_receiver__is_for_stale_reads_only(void **state)
{
    (void)state;
    seen(800, false);
    snapshot.servers[1].shown.streams = false;
    for (unsigned i = 0; i < 20; i++) {
        route.session = i;
        assert_int_equal(decided(CAME), WEIR_SESSION_ROUTED);
        assert_string_equal(answer.name, "c");
    }
    snapshot.servers[2].shown.streams = false;
    assert_int_equal(decided(CAME), WEIR_SESSION_ROUTED); /* it may have none for good: nobody waits for it */
    assert_string_equal(answer.name, "a");
    snapshot.servers[0].usable = false;
    for (route.behind = WEIR_BEHIND_LEADER; route.behind <= WEIR_BEHIND_ERROR; route.behind++) {
        bool is_stale = route.behind == WEIR_BEHIND_STALE;
        assert_int_equal(decided(CAME + 500 * MS), is_stale ? WEIR_SESSION_ROUTED : WEIR_SESSION_DOWN);
        assert_true(answer.stale || !is_stale);
    }
    route.behind = WEIR_BEHIND_STALE;
    assert_int_equal(decided(CAME), WEIR_SESSION_WAITS);
    assert_int_equal(decided(CAME + 500 * MS), WEIR_SESSION_ROUTED);
    assert_string_equal(answer.check, "SELECT 'ok'");
    strcpy(route.avoid[0], answer.name);
    route.avoid_count = 1;
    assert_int_equal(decided(CAME + 500 * MS), WEIR_SESSION_ROUTED);
    assert_string_not_equal(answer.name, route.avoid[0]);
    strcpy(route.avoid[1], answer.name);
    route.avoid_count = 2;
    assert_int_equal(decided(CAME + 500 * MS), WEIR_SESSION_ROUTED); /* those are all that there is */
    assert_true(answer.stale);
    snapshot.servers[1].shown.streams = snapshot.servers[2].shown.streams = true;
    assert_int_equal(decided(CAME + 500 * MS), WEIR_SESSION_DOWN); /* why their checks failed only the caller knows */
    assert_string_equal(answer.avoided, "b, c");
}

/* The policy that would read somebody all the same is said exactly where it would. */
static void a_refusal__names_whom_a_stale_read_would_find(void **state)
{
    static const struct {
        const char *what;
        unsigned usable, streaming, frozen; /* bits of the servers */
        unsigned avoided;
        bool write, primary, sticky, cut_off, alone;
        uint64_t position; /* that was seen */
        enum weir_session_said said;
        const char *names;
    } cases[] = {
        { "all are behind", 7, 6, 0, 0, .position = 808, .said = WEIR_SESSION_BEHIND, .names = "b" },
        { "one is to be avoided", 7, 6, 0, 2, .position = 808, .said = WEIR_SESSION_BEHIND, .names = "c" },
        { "both are", 7, 6, 0, 6, .position = 808, .said = WEIR_SESSION_BEHIND, .names = "" },
        { "both stand still", 1, 6, 6, 0, .position = 808, .said = WEIR_SESSION_BEHIND, .names = "b" },
        { "they do, and there is no primary", 0, 6, 6, 4, .position = 808, .said = WEIR_SESSION_DOWN, .names = "b" },
        { "nobody receives, all are avoided", 6, 0, 0, 6, .position = 800, .said = WEIR_SESSION_DOWN, .names = "b" },
        { "nobody answers", 0, 6, 0, 0, .position = 800, .said = WEIR_SESSION_DOWN, .names = "" },
        { "there is a primary only", 1, 6, 0, 0, .position = 808, .said = WEIR_SESSION_BEHIND, .names = "" },
        { "what they show was cut off", 6, 0, 0, 0, .cut_off = true, .position = 800, .said = WEIR_SESSION_DOWN,
          .names = "" },
        { "the primary is alone", 1, 0, 0, 0, .alone = true, .position = 808, .said = WEIR_SESSION_BEHIND,
          .names = "" },
        { "it is to be written", 6, 6, 0, 0, .write = true, .position = 800, .said = WEIR_SESSION_DOWN, .names = "" },
        { "the primary is wanted", 6, 6, 0, 0, .primary = true, .position = 800, .said = WEIR_SESSION_DOWN,
          .names = "" },
        { "sticky has no policy", 0, 6, 6, 0, .sticky = true, .position = 800, .said = WEIR_SESSION_DOWN, .names = "" },
    };
    for (size_t c = 0; c < sizeof(cases) / sizeof(cases[0]); c++) {
        setup(state);
        seen(cases[c].position, false);
        snapshot.servers[1].shown.position = 804;
        for (unsigned i = 0; i < 3; i++) {
            snapshot.servers[i].usable = cases[c].usable >> i & 1;
            snapshot.servers[i].frozen = cases[c].frozen >> i & 1;
            snapshot.servers[i].shown.streams = cases[c].streaming >> i & 1;
            if (cases[c].avoided >> i & 1)
                route.avoid[route.avoid_count++][0] = (char)('a' + (int)i);
        }
        if (cases[c].cut_off) { /* by a primary on timeline 2, which is down */
            snapshot.servers[0].shown.timeline = 2;
            weir_known_history(&snapshot.known, SYSTEM,
                               &(struct weir_history){ .timeline = 2, .count = 1, .ancestors = { { 1, 104, 0 } } });
        }
        snapshot.count = cases[c].alone ? 1 : 3;
        route.behind = WEIR_BEHIND_WAIT;
        route.write = cases[c].write;
        route.primary = cases[c].primary;
        route.strategy = cases[c].sticky ? WEIR_SESSION_STICKY : WEIR_SESSION_TRACKED;
        enum weir_session_said said = decided(CAME + 1000 * MS);
        if (said != cases[c].said || strcmp(answer.stale_reads, cases[c].names) != 0)
            fail_msg("%s: %d, %s", cases[c].what, said, answer.stale_reads);
        route.behind = WEIR_BEHIND_STALE; /* and so it is */
        bool reads = decided(CAME + 1000 * MS) == WEIR_SESSION_ROUTED;
        if (reads != (cases[c].names[0] != '\0') || (reads && strcmp(answer.name, cases[c].names) != 0))
            fail_msg("%s: stale reads %s", cases[c].what, reads ? answer.name : "nobody");
    }
}

static void nothing_seen__needs_no_receiver(void **state)
{
    (void)state;
    snapshot.servers[0].usable = snapshot.servers[1].shown.streams = snapshot.servers[2].shown.streams = false;
    assert_int_equal(decided(CAME), WEIR_SESSION_ROUTED);
    assert_false(answer.stale);
    assert_string_equal(answer.check, "SELECT 'ok'");
}

static void a_sticky_read_without_a_receiver__is_marked(void **state)
{
    (void)state;
    seen(800, false);
    route.strategy = WEIR_SESSION_STICKY;
    assert_int_equal(decided(CAME), WEIR_SESSION_ROUTED);
    assert_false(answer.stale);
    snapshot.servers[1].shown.streams = snapshot.servers[2].shown.streams = false;
    assert_int_equal(decided(CAME), WEIR_SESSION_ROUTED);
    assert_true(answer.stale);
    assert_false(answer.primary);
}

/* It may be promoted by now, and know the run that the token is of. */
static void lost_is_not_said__before_one_without_a_receiver_was_asked(void **state)
{
    (void)state;
    const struct weir_place place = { .system = SYSTEM, .position = 700, .timeline = 2, .branch = 9 };
    assert_int_equal(weir_session_token_add(&route.token, &place, NULL), 0);
    for (unsigned i = 0; i < 3; i++) {
        snapshot.servers[i].shown.timeline = 2;
        snapshot.servers[i].shown.branch = 8;
    }
    snapshot.servers[0].shown.told = true;
    snapshot.servers[2].shown.streams = false;
    asked(0, CAME + MS, 800);
    asked(1, CAME + MS, 800);
    assert_int_equal(decided(CAME + 2 * MS), WEIR_SESSION_WAITS);
    asked(2, CAME + MS, 800);
    assert_int_equal(decided(CAME + 2 * MS), WEIR_SESSION_LOST);
}

/* Nor does it keep anybody from being told, once it was. */
static void lost_is_said__though_one_has_no_receiver(void **state)
{
    (void)state;
    const struct weir_place place = { .system = SYSTEM, .position = 700, .timeline = 3 };
    assert_int_equal(weir_session_token_add(&route.token, &place, NULL), 0);
    snapshot.servers[2].shown.streams = false;
    for (unsigned i = 0; i < 2; i++)
        asked(i, CAME + MS, 800);
    assert_int_equal(decided(UINT64_MAX), WEIR_SESSION_BEHIND);
    asked(2, CAME + MS, 800);
    assert_int_equal(decided(UINT64_MAX), WEIR_SESSION_LOST);
}

static void nobody__is_down(void **state)
{
    (void)state;
    seen(800, false);
    for (unsigned i = 0; i < 3; i++)
        snapshot.servers[i].usable = false;
    assert_int_equal(decided(CAME), WEIR_SESSION_WAITS);
    assert_int_equal(decided(CAME + 500 * MS), WEIR_SESSION_DOWN);
    assert_int_equal(decided(UINT64_MAX), WEIR_SESSION_DOWN); /* as in a drain */
}

static void another_system__is_foreign_at_once(void **state)
{
    (void)state;
    const struct weir_place place = { .system = SYSTEM + 1, .position = 8, .timeline = 1 };
    assert_int_equal(weir_session_token_add(&route.token, &place, NULL), 0);
    assert_int_equal(decided(CAME), WEIR_SESSION_FOREIGN);
    route.strategy = WEIR_SESSION_STICKY;
    assert_int_equal(decided(CAME), WEIR_SESSION_FOREIGN);
}

static void a_sticky_read__is_marked_where_it_may_be_older(void **state)
{
    (void)state;
    seen(808, false);
    route.strategy = WEIR_SESSION_STICKY;
    assert_int_equal(decided(CAME), WEIR_SESSION_ROUTED);
    assert_true(answer.stale);
    assert_non_null(strstr(answer.check, "'0/328'")); /* whoever wants to know may ask */
    route.strategy = WEIR_SESSION_TRACKED;
    route.behind = WEIR_BEHIND_STALE;
    assert_int_equal(decided(CAME + 500 * MS), WEIR_SESSION_ROUTED);
    assert_true(answer.stale);
    assert_string_equal(answer.check, "SELECT 'ok'");
}

/* Something was seen at a standby, and a transaction is open at the primary. */
static void want_primary__is_answered_at_once_proven_or_not(void **state)
{
    (void)state;
    seen(800, true);
    for (unsigned i = 1; i < 3; i++)
        snapshot.servers[i].usable = false;
    assert_int_equal(decided(CAME), WEIR_SESSION_WAITS);
    route.primary = true;
    assert_int_equal(decided(CAME), WEIR_SESSION_ROUTED);
    assert_string_equal(answer.name, "a");
    assert_true(answer.says_proven && !answer.proven && !answer.stale);
    snapshot.servers[0].settled_ns = CAME + 1;
    assert_int_equal(decided(CAME), WEIR_SESSION_ROUTED);
    assert_true(answer.proven);
}

static void one_server_in_all__needs_no_settling(void **state)
{
    (void)state;
    seen(800, true);
    snapshot.count = 1;
    assert_int_equal(decided(CAME), WEIR_SESSION_ROUTED);
    assert_string_equal(answer.name, "a");
}

static void a_users_route__holds_for_this_read_only(void **state)
{
    (void)state;
    seen(800, false);
    assert_int_equal(decided(CAME), WEIR_SESSION_ROUTED);
    assert_true(answer.holds_ms > 0);
    route.shared = true;
    assert_int_equal(decided(CAME), WEIR_SESSION_ROUTED);
    assert_int_equal(answer.holds_ms, 0);
}

/* The primary is on timeline 2 now, whose history nobody may ask for. */
static void what_nobody_can_prove__is_lost_once_the_time_is_over(void **state)
{
    (void)state;
    seen(800, false);
    for (unsigned i = 0; i < 3; i++)
        snapshot.servers[i].shown.timeline = 2;
    for (unsigned write = 0; write < 2; write++) {
        route.write = write;
        assert_int_equal(decided(CAME), WEIR_SESSION_WAITS);
        assert_int_equal(decided(UINT64_MAX), WEIR_SESSION_LOST);
    }
    snapshot.servers[0].usable = false; /* nobody who would know */
    assert_int_equal(decided(UINT64_MAX), WEIR_SESSION_DOWN);
    route.write = false;
    assert_int_equal(decided(UINT64_MAX), WEIR_SESSION_BEHIND);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(what_is_shown__is_answered_at_once, setup),
        cmocka_unit_test_setup(a_replica__is_waited_for_and_then_the_leader, setup),
        cmocka_unit_test_setup(lost__is_said_of_a_primary_that_was_asked_since, setup),
        cmocka_unit_test_setup(lost__is_said_of_a_run_that_is_over, setup),
        cmocka_unit_test_setup(a_leader_after_a_standby__is_read_once_it_is_settled, setup),
        cmocka_unit_test_setup(those_to_avoid__are_not_chosen_but_the_leader, setup),
        cmocka_unit_test_setup(a_standby_without_a_receiver__is_for_stale_reads_only, setup),
        cmocka_unit_test_setup(a_refusal__names_whom_a_stale_read_would_find, setup),
        cmocka_unit_test_setup(nothing_seen__needs_no_receiver, setup),
        cmocka_unit_test_setup(a_sticky_read_without_a_receiver__is_marked, setup),
        cmocka_unit_test_setup(lost_is_not_said__before_one_without_a_receiver_was_asked, setup),
        cmocka_unit_test_setup(lost_is_said__though_one_has_no_receiver, setup),
        cmocka_unit_test_setup(nobody__is_down, setup),
        cmocka_unit_test_setup(another_system__is_foreign_at_once, setup),
        cmocka_unit_test_setup(what_nobody_can_prove__is_lost_once_the_time_is_over, setup),
        cmocka_unit_test_setup(a_users_route__holds_for_this_read_only, setup),
        cmocka_unit_test_setup(one_server_in_all__needs_no_settling, setup),
        cmocka_unit_test_setup(want_primary__is_answered_at_once_proven_or_not, setup),
        cmocka_unit_test_setup(a_sticky_read__is_marked_where_it_may_be_older, setup),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
