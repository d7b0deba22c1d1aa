/* SPDX-License-Identifier: Apache-2.0
 *
 * The check as a text of SQL: what it consists of, and that it never says "ok" where weir_place_compare does not. It
 * is read here by a small interpreter of what it may consist of; tests/live/test_sessions_http.py has PostgreSQL read
 * it. */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "random.h"
#include "sessions/check_text.h"

#define SYSTEM UINT64_C(7300000000000000001)
#define ROUNDS 200000

static char text[WEIR_CHECK_TEXT_MAX];

/* ---- the interpreter: one server, asked now ---- */

struct reader {
    const char *at;
    const struct weir_shown *shown;
};

static bool takes(struct reader *reader, const char *word)
{
    size_t size = strlen(word);
    if (strncmp(reader->at, word, size) != 0)
        return false;
    reader->at += size;
    return true;
}

static void must(struct reader *reader, const char *word)
{
    if (!takes(reader, word))
        fail_msg("not \"%s\" at \"%.60s\" of\n%s", word, reader->at, text);
}

static uint64_t number(struct reader *reader, int base)
{
    char *end = NULL;
    uint64_t value = strtoull(reader->at, &end, base);
    assert_true(end > reader->at);
    reader->at = end;
    return value;
}

static uint64_t position(struct reader *reader)
{
    must(reader, "'");
    uint64_t high = number(reader, 16);
    must(reader, "/");
    uint64_t low = number(reader, 16);
    must(reader, "'::pg_catalog.pg_lsn");
    return high << 32 | low;
}

#define RUN                                                                                                            \
    "(extract(epoch FROM pg_catalog.pg_stat_get_bgwriter_stat_reset_time()) OPERATOR(pg_catalog.*) "                   \
    "1000000::numeric)::bigint"

#define WHOLE                                                                                                          \
    " AND (pg_catalog.pg_snapshot_xmax(pg_catalog.pg_current_snapshot())::text::numeric OPERATOR(pg_catalog.>=) "      \
    "(SELECT pg_catalog.split_part(next_xid, ':', 1)::numeric OPERATOR(pg_catalog.*) 4294967296::numeric "             \
    "OPERATOR(pg_catalog.+) pg_catalog.split_part(next_xid, ':', 2)::numeric FROM "                                    \
    "pg_catalog.pg_control_checkpoint()))"

/* Of what is asked of a server in another role, nothing may be asked: PostgreSQL would answer an error. */
static bool condition(struct reader *reader, bool live)
{
    const struct weir_shown *shown = reader->shown;
    if (takes(reader, "(SELECT system_identifier FROM pg_catalog.pg_control_system()) <> '")) {
        bool differs = number(reader, 10) != shown->system;
        must(reader, "'::bigint");
        return differs;
    }
    if (takes(reader, "pg_catalog.pg_is_in_recovery()"))
        return !shown->primary;
    if (takes(reader, "pg_catalog.pg_last_wal_replay_lsn() >= ")) {
        assert_true(!live || !shown->primary);
        bool reached = shown->position >= position(reader);
        must(reader, WHOLE); /* which is said of a connection, not of what is shown */
        return reached;
    }
    if (takes(reader, "pg_catalog.pg_current_wal_insert_lsn() < ")) {
        assert_true(!live || shown->primary);
        return shown->position < position(reader);
    }
    if (takes(reader,
              "pg_catalog.age(pg_catalog.pg_snapshot_xmin(pg_catalog.pg_current_snapshot())::pg_catalog.xid) = 0"))
        return shown->settled;
    if (takes(reader, RUN " IS DISTINCT FROM "))
        return shown->run != number(reader, 10);
    must(reader, RUN " = ");
    return shown->run == number(reader, 10);
}

static const char *value(struct reader *reader, bool live)
{
    static const char *const verdicts[] = { "ok", "behind", "lost", "diverged", "foreign", "unproven" };
    const char *said = NULL;
    if (takes(reader, "'")) {
        for (size_t i = 0; i < sizeof(verdicts) / sizeof(verdicts[0]) && !said; i++)
            said = takes(reader, verdicts[i]) ? verdicts[i] : NULL;
        assert_non_null(said);
        must(reader, "'");
        return said;
    }
    must(reader, "CASE");
    bool standby = takes(reader, " (pg_catalog.pg_stat_get_wal_receiver()).received_tli");
    bool primary = !standby &&
                   takes(reader,
                         " pg_catalog.left(pg_catalog.pg_walfile_name(pg_catalog.pg_current_wal_insert_lsn()), 8)");
    assert_true(!live || !primary || reader->shown->primary);
    while (takes(reader, " WHEN ")) {
        bool quoted = primary && takes(reader, "'"), holds;
        if (standby || primary)
            holds = number(reader, primary ? 16 : 10) == reader->shown->timeline;
        else
            holds = condition(reader, live && !said);
        if (quoted)
            must(reader, "'");
        must(reader, " THEN ");
        const char *then = value(reader, live && !said && holds);
        said = !said && holds ? then : said;
    }
    must(reader, " ELSE ");
    const char *otherwise = value(reader, live && !said);
    must(reader, " END");
    return said ? said : otherwise;
}

static const char *answer(const struct weir_check_wish *wish, const struct weir_shown *shown)
{
    struct reader reader = { text, shown };
    size_t size = weir_check_text(wish, text);
    assert_int_equal(size, strlen(text));
    must(&reader, "SELECT ");
    const char *said = value(&reader, true);
    assert_int_equal(*reader.at, '\0');
    return said;
}

/* ---- texts ---- */

static struct weir_known known;

static struct weir_session_token token_of(struct weir_place place)
{
    return (struct weir_session_token){ .count = 1, .places = { place } };
}

static void nothing_seen__is_ok_anywhere(void **state)
{
    (void)state;
    const struct weir_session_token nothing = { .count = 0 };
    weir_check_text(&(struct weir_check_wish){ .token = &nothing, .known = &known, .system = SYSTEM }, text);
    assert_string_equal(text, "SELECT 'ok'");
}

static void what_one_statement_cannot_tell__is_said(void **state)
{
    (void)state;
    struct weir_session_token token = { .count = 2,
                                        .places = { { .system = SYSTEM, .position = 8, .timeline = 1 },
                                                    { .system = SYSTEM, .position = 80, .timeline = 2 } } };
    weir_check_text(&(struct weir_check_wish){ .token = &token, .known = &known, .system = SYSTEM }, text);
    assert_string_equal(text, "SELECT 'unproven'");
    weir_check_text(&(struct weir_check_wish){ .token = &token, .known = &known, .system = SYSTEM + 1 }, text);
    assert_string_equal(text, "SELECT 'foreign'");
}

/* As it is in docs/sessions-http.md. */
static void a_write__is_checked_by_position_and_timeline(void **state)
{
    (void)state;
    const struct weir_session_token token = token_of(
        (struct weir_place){ .system = SYSTEM, .position = UINT64_C(0x16B374D848), .timeline = 10 });
    weir_check_text(&(struct weir_check_wish){ .token = &token, .known = &known, .system = SYSTEM }, text);
    assert_string_equal(
        text,
        "SELECT CASE WHEN (SELECT system_identifier FROM pg_catalog.pg_control_system()) <> "
        "'7300000000000000001'::bigint THEN 'foreign' WHEN pg_catalog.pg_is_in_recovery() THEN "
        "CASE WHEN pg_catalog.pg_last_wal_replay_lsn() >= '16/B374D848'::pg_catalog.pg_lsn" WHOLE " THEN "
        "CASE (pg_catalog.pg_stat_get_wal_receiver()).received_tli WHEN 10 THEN 'ok' ELSE 'unproven' END "
        "ELSE 'behind' END ELSE "
        "CASE pg_catalog.left(pg_catalog.pg_walfile_name(pg_catalog.pg_current_wal_insert_lsn()), 8) WHEN '0000000A' "
        "THEN "
        "CASE WHEN pg_catalog.pg_current_wal_insert_lsn() < '16/B374D848'::pg_catalog.pg_lsn THEN 'lost' ELSE 'ok' END "
        "ELSE 'unproven' END END");
}

/* ---- servers ---- */

static const char *asked(struct weir_place place, struct weir_shown shown, uint64_t settled_run)
{
    const struct weir_session_token token = token_of(place);
    return answer(&(struct weir_check_wish){ &token, &known, SYSTEM, NULL, settled_run }, &shown);
}

static void a_standby__must_have_replayed_it(void **state)
{
    (void)state;
    const struct weir_place seen = { .system = SYSTEM, .position = 800, .timeline = 1 };
    struct weir_shown shown = { .system = SYSTEM, .position = 792, .received = 9000, .timeline = 1 };
    assert_string_equal(asked(seen, shown, 0), "behind");
    shown.position = 800;
    assert_string_equal(asked(seen, shown, 0), "ok");
    shown.timeline = 0; /* no receiver, or no privilege */
    assert_string_equal(asked(seen, shown, 0), "unproven");
    shown.timeline = 7;
    assert_string_equal(asked(seen, shown, 0), "unproven");
    shown.system++;
    assert_string_equal(asked(seen, shown, 0), "foreign");
}

static void a_half_position__needs_what_follows(void **state)
{
    (void)state;
    const struct weir_place seen = {
        .system = SYSTEM, .position = 800 | WEIR_POSITION_NEXT, .timeline = 1, .standby = true
    };
    struct weir_shown standby = { .system = SYSTEM, .position = 800, .received = 800, .timeline = 1 };
    struct weir_shown primary = {
        .system = SYSTEM, .position = 800, .run = 5, .timeline = 1, .primary = true, .settled = true
    };
    assert_string_equal(asked(seen, standby, 0), "behind");
    standby.position = 808;
    assert_string_equal(asked(seen, standby, 0), "ok");
    assert_string_equal(asked(seen, primary, 0), "ok"); /* it has the record, if there is one */
    primary.position = 792;
    assert_string_equal(asked(seen, primary, 0), "lost");
}

static void a_primary_after_a_standby__must_be_settled(void **state)
{
    (void)state;
    struct weir_place seen = { .system = SYSTEM, .position = 800, .timeline = 1, .standby = true };
    struct weir_shown shown = { .system = SYSTEM, .position = 900, .run = 5, .timeline = 1, .primary = true };
    assert_string_equal(asked(seen, shown, 0), "behind");
    assert_string_equal(asked(seen, shown, 4), "behind"); /* it was settled in a run that is over */
    assert_string_equal(asked(seen, shown, 5), "ok");
    shown.settled = true;
    assert_string_equal(asked(seen, shown, 0), "ok");
    seen.standby = shown.settled = false;
    assert_string_equal(asked(seen, shown, 0), "ok");
}

static void what_was_not_flushed__is_of_its_run(void **state)
{
    (void)state;
    const struct weir_place seen = { .system = SYSTEM, .position = 800, .run = 5, .timeline = 1 };
    const struct weir_shown standby = { .system = SYSTEM, .position = 900, .received = 900, .timeline = 1 };
    struct weir_shown primary = { .system = SYSTEM, .position = 900, .run = 5, .timeline = 1, .primary = true };
    assert_string_equal(asked(seen, primary, 0), "ok");
    assert_string_not_equal(asked(seen, standby, 0), "ok");
    primary.run = 6;
    assert_string_equal(asked(seen, primary, 0), "lost");
    weir_known_run(&known, SYSTEM, 1, 0, 5, 800);
    assert_string_equal(asked(seen, standby, 0), "ok"); /* flushed, as has been heard */
    assert_string_equal(asked(seen, primary, 0), "ok");
    memset(&known, 0, sizeof(known));
}

static void a_promoted_server__is_judged_by_history(void **state)
{
    (void)state;
    const struct weir_history history = { .timeline = 2, .count = 1, .ancestors = { { 1, 1000, 0 } } };
    struct weir_place seen = { .system = SYSTEM, .position = 1000, .timeline = 1 };
    const struct weir_shown primary = { .system = SYSTEM, .position = 5000, .run = 5, .timeline = 2, .primary = true };
    const struct weir_shown standby = { .system = SYSTEM, .position = 5000, .received = 5000, .timeline = 2 };
    assert_string_equal(asked(seen, primary, 0), "unproven");
    assert_string_equal(asked(seen, standby, 0), "unproven");
    weir_known_history(&known, SYSTEM, &history);
    assert_string_equal(asked(seen, primary, 0), "ok");
    assert_string_equal(asked(seen, standby, 0), "ok");
    seen.position = 1008;
    assert_string_equal(asked(seen, primary, 0), "lost");
    assert_string_equal(asked(seen, standby, 0), "lost");
    const struct weir_place after = { .system = SYSTEM, .position = 1200, .timeline = 2 };
    const struct weir_shown zombie = { .system = SYSTEM, .position = 5000, .run = 5, .timeline = 1, .primary = true };
    assert_string_equal(asked(after, zombie, 0), "diverged");
    memset(&known, 0, sizeof(known));
}

/* ---- any of them ---- */

static uint64_t some_position(struct test_random *random)
{
    return 8 * (1 + test_random_below(random, 30));
}

static void some_history(struct test_random *random)
{
    memset(&known, 0, sizeof(known));
    for (uint32_t timeline = 2; timeline <= 4; timeline++) {
        struct weir_history history = { .timeline = timeline, .count = 1 };
        if (test_random_below(random, 4) == 0)
            continue;
        history.ancestors[0] = (struct weir_ancestor){ 1, some_position(random), 0 };
        if (timeline > 2 && test_random_below(random, 2)) {
            history.ancestors[1] = (struct weir_ancestor){ timeline - 1, history.ancestors[0].end + 8, 0 };
            history.count = 2;
        }
        weir_known_history(&known, SYSTEM, &history);
    }
    for (uint64_t run = 1; run <= 3; run++)
        if (test_random_below(random, 2))
            weir_known_run(&known, SYSTEM, 1 + (uint32_t)test_random_below(random, 4), 0, run, some_position(random));
}

static struct weir_shown some_shown(struct test_random *random)
{
    struct weir_shown shown = { .system = SYSTEM,
                                .position = some_position(random),
                                .timeline = (uint32_t)test_random_below(random, 5),
                                .primary = test_random_below(random, 2) };
    if (!shown.primary) {
        shown.received = shown.position + 8 * test_random_below(random, 2);
        return shown;
    }
    shown.timeline += shown.timeline == 0;
    shown.flushed = some_position(random);
    shown.run = 1 + test_random_below(random, 3);
    shown.settled = test_random_below(random, 2);
    return shown;
}

static bool is_named(const struct weir_place *seen, uint32_t timeline)
{
    const struct weir_history *own = weir_known_find(&known, seen->timeline, 0);
    for (unsigned i = 0; own && i < own->count; i++)
        if (own->ancestors[i].timeline == timeline)
            return true;
    return timeline == seen->timeline || (timeline > 1 && weir_known_find(&known, timeline, 0));
}

/* Never more than weir_place_compare would say, and as much wherever the timeline was known when it was made. */
static void what_it_says__is_what_compare_says(void **state)
{
    (void)state;
    struct test_random random = { test_random_seed() };
    unsigned oks = 0;
    for (unsigned i = 0; i < ROUNDS; i++) {
        struct weir_place seen;
        some_history(&random);
        const struct weir_shown before = some_shown(&random), shown = some_shown(&random);
        if (weir_place_seen(&before, &seen))
            continue;
        const char *said = asked(seen, shown, 0);
        bool ok = strcmp(said, "ok") == 0, truly = weir_place_compare(&seen, &shown, &known) == WEIR_PLACE_OK;
        if (ok != (truly && is_named(&seen, shown.timeline)))
            fail_msg("round %u: it says %s of\n%s", i, said, text);
        oks += ok;
    }
    assert_in_range(oks, ROUNDS / 100, ROUNDS / 2); /* there was something to see */
}

/* All that fits into a token, at as many timelines as can be known, fits into the text. */
static void the_longest__fits(void **state)
{
    (void)state;
    memset(&known, 0, sizeof(known));
    for (uint32_t i = 0; i < WEIR_HISTORIES_MAX; i++) {
        struct weir_history history = { .timeline = UINT32_MAX - i,
                                        .count = 1,
                                        .ancestors = { { UINT32_MAX - 100, UINT64_MAX - 7, 0 } } };
        weir_known_history(&known, SYSTEM, &history);
    }
    const struct weir_session_token token = token_of((struct weir_place){ .system = SYSTEM,
                                                                          .position = UINT64_MAX - 15,
                                                                          .run = INT64_MAX,
                                                                          .timeline = UINT32_MAX - 100,
                                                                          .standby = true });
    weir_known_run(&known, SYSTEM, UINT32_MAX - 100, 0, INT64_MAX, UINT64_MAX - 15);
    size_t size = weir_check_text(&(struct weir_check_wish){ &token, &known, SYSTEM, NULL, INT64_MAX }, text);
    assert_in_range(size, WEIR_CHECK_TEXT_MAX / 4, WEIR_CHECK_TEXT_MAX * 3 / 4);
    memset(&known, 0, sizeof(known));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_seen__is_ok_anywhere),
        cmocka_unit_test(what_one_statement_cannot_tell__is_said),
        cmocka_unit_test(a_write__is_checked_by_position_and_timeline),
        cmocka_unit_test(a_standby__must_have_replayed_it),
        cmocka_unit_test(a_half_position__needs_what_follows),
        cmocka_unit_test(a_primary_after_a_standby__must_be_settled),
        cmocka_unit_test(what_was_not_flushed__is_of_its_run),
        cmocka_unit_test(a_promoted_server__is_judged_by_history),
        cmocka_unit_test(what_it_says__is_what_compare_says),
        cmocka_unit_test(the_longest__fits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
