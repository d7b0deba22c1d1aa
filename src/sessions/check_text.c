/* SPDX-License-Identifier: Apache-2.0
 *
 * The verdicts are computed here, one for each timeline that the text names, by weir_place_compare for a server whose
 * position is beyond all others. The statement only selects among them: by the server's system, role, timeline and
 * position, and on a primary by its run and by whether it is settled. Called by serve/session_decide.c. The library's
 * sessions do without it: they compare what their own connection shows (session_read.c). */
#include "sessions/check_text.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"

/* Timelines that a text names: the token's, those whose histories are known, and the token's latest ancestors, where
 * zombies are and standbys that come late. */
#define TIMELINES_MAX (WEIR_HISTORIES_MAX + 3)
#define FAR (UINT64_MAX & ~UINT64_C(7)) /* a position beyond all others: what is left is the timeline */

/* As shown.c asks for them. A run: what PostgreSQL discards after a crash. Settled: no transaction has a number from
 * the snapshot's xmin on. */
#define TIMELINE_OF_STANDBY "(pg_catalog.pg_stat_get_wal_receiver()).received_tli"
#define TIMELINE_OF_PRIMARY "pg_catalog.left(pg_catalog.pg_walfile_name(pg_catalog.pg_current_wal_insert_lsn()), 8)"
#define RUN                                                                                                            \
    "(extract(epoch FROM pg_catalog.pg_stat_get_bgwriter_stat_reset_time()) OPERATOR(pg_catalog.*) "                   \
    "1000000::numeric)::bigint"
#define SETTLED "pg_catalog.age(pg_catalog.pg_snapshot_xmin(pg_catalog.pg_current_snapshot())::pg_catalog.xid) = 0"
#define STARTED                                                                                                        \
    "(extract(epoch FROM pg_catalog.pg_postmaster_start_time()) OPERATOR(pg_catalog.*) 1000000::numeric)::bigint"
/* As of weir_shown_fixed: a standby that began anew may hide what it has replayed. */
#define WHOLE                                                                                                          \
    "(pg_catalog.pg_snapshot_xmax(pg_catalog.pg_current_snapshot())::text::numeric OPERATOR(pg_catalog.>=) "           \
    "(SELECT pg_catalog.split_part(next_xid, ':', 1)::numeric OPERATOR(pg_catalog.*) 4294967296::numeric "             \
    "OPERATOR(pg_catalog.+) pg_catalog.split_part(next_xid, ':', 2)::numeric FROM "                                    \
    "pg_catalog.pg_control_checkpoint()))"

struct out {
    char *text;
    size_t size;
};

__attribute__((format(printf, 2, 3))) static void put(struct out *out, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int size = vsnprintf(out->text + out->size, WEIR_CHECK_TEXT_MAX - out->size, format, arguments);
    va_end(arguments);
    weir_assert(size >= 0 && (size_t)size < WEIR_CHECK_TEXT_MAX - out->size);
    out->size += (size_t)size;
}

static void put_position(struct out *out, uint64_t position)
{
    put(out, "'%" PRIX64 "/%" PRIX64 "'::pg_catalog.pg_lsn", position >> 32, position & UINT32_MAX);
}

/* ---- which timelines contain the place ---- */

struct timelines {
    uint32_t numbers[TIMELINES_MAX];
    unsigned count;
};

static void timelines_add(struct timelines *timelines, uint32_t number)
{
    for (unsigned i = 0; i < timelines->count; i++)
        if (timelines->numbers[i] == number)
            return;
    if (timelines->count < TIMELINES_MAX)
        timelines->numbers[timelines->count++] = number;
}

static struct timelines timelines_of(const struct weir_place *seen, const struct weir_known *known)
{
    struct timelines timelines = { .count = 0 };
    timelines_add(&timelines, seen->timeline);
    for (unsigned i = 0; i < known->history_count; i++)
        timelines_add(&timelines, known->histories[i].timeline);
    const struct weir_history *own = weir_known_find(known, seen->timeline, seen->branch);
    for (unsigned i = own ? own->count : 0; i-- > 0;)
        timelines_add(&timelines, own->ancestors[i].timeline);
    return timelines;
}

static uint32_t branch_at(const struct weir_check_wish *wish, uint32_t timeline)
{
    return wish->server && wish->server->timeline == timeline ? wish->server->branch : 0;
}

/* Its number alone says nothing of a later timeline. */
static bool is_bound(const struct weir_check_wish *wish, uint32_t timeline)
{
    return wish->server && wish->server->started && timeline > 1;
}

/* Of a server that is far enough: a standby, or a primary in this run (not 0). */
static enum weir_place_verdict of_server(const struct weir_place *seen, const struct weir_check_wish *wish,
                                         uint32_t timeline, uint64_t run)
{
    const struct weir_shown shown = { .system = seen->system,
                                      .position = FAR,
                                      .received = run ? 0 : FAR,
                                      .run = run,
                                      .timeline = timeline,
                                      .primary = run,
                                      .settled = run,
                                      .branch = branch_at(wish, timeline) };
    return weir_place_compare(seen, &shown, wish->known);
}

static void put_bound(struct out *out, const struct weir_check_wish *wish, uint32_t timeline)
{
    if (is_bound(wish, timeline))
        put(out, "CASE WHEN " STARTED " <> %" PRIu64 " THEN 'unproven' ELSE ", wish->server->started);
}

static void put_unbound(struct out *out, const struct weir_check_wish *wish, uint32_t timeline)
{
    if (is_bound(wish, timeline))
        put(out, " END");
}

/* ---- the text ---- */

/* The position first, then the timeline: a standby's timeline only moves on, so what had been replayed before it was
 * read belongs to its history. The other way round it could have moved to a sibling in between. */
static void put_standby(struct out *out, const struct weir_place *seen, const struct weir_check_wish *wish)
{
    const struct timelines timelines = timelines_of(seen, wish->known);
    put(out, "CASE WHEN pg_catalog.pg_last_wal_replay_lsn() >= ");
    put_position(out, seen->position);
    put(out, " AND " WHOLE " THEN CASE " TIMELINE_OF_STANDBY);
    for (unsigned i = 0; i < timelines.count; i++) {
        put(out, " WHEN %" PRIu32 " THEN ", timelines.numbers[i]);
        put_bound(out, wish, timelines.numbers[i]);
        put(out, "'%s'", weir_place_verdict_name(of_server(seen, wish, timelines.numbers[i], 0)));
        put_unbound(out, wish, timelines.numbers[i]);
    }
    put(out, " ELSE 'unproven' END ELSE 'behind' END");
}

/* What of a primary on this timeline shows the place. */
struct needed {
    uint64_t run;                  /* 0 = any */
    enum weir_place_verdict other; /* what is said of other runs, or of all */
    bool never;
};

static struct needed needed_of(const struct weir_place *seen, const struct weir_check_wish *wish, uint32_t timeline)
{
    struct needed needed = { .other = of_server(seen, wish, timeline, seen->run == 1 ? 2 : 1) };
    if (needed.other != WEIR_PLACE_OK) {
        needed.run = seen->run;
        needed.never = seen->run == 0 || of_server(seen, wish, timeline, seen->run) != WEIR_PLACE_OK;
    }
    return needed;
}

static void put_settled(struct out *out, uint64_t settled_run)
{
    put(out, " WHEN " SETTLED " THEN 'ok'");
    if (settled_run)
        put(out, " WHEN " RUN " = %" PRIu64 " THEN 'ok'", settled_run);
    put(out, " ELSE 'behind' END");
}

static void put_primary(struct out *out, const struct weir_place *seen, const struct weir_check_wish *wish)
{
    const struct timelines timelines = timelines_of(seen, wish->known);
    put(out, "CASE " TIMELINE_OF_PRIMARY);
    for (unsigned i = 0; i < timelines.count; i++) {
        const struct needed needed = needed_of(seen, wish, timelines.numbers[i]);
        put(out, " WHEN '%08" PRIX32 "' THEN ", timelines.numbers[i]);
        if (needed.never) {
            put(out, "'%s'", weir_place_verdict_name(needed.other));
            continue;
        }
        put_bound(out, wish, timelines.numbers[i]);
        put(out, "CASE WHEN pg_catalog.pg_current_wal_insert_lsn() < ");
        put_position(out, seen->position & ~WEIR_POSITION_NEXT);
        put(out, " THEN '%s'", seen->timeline > timelines.numbers[i] ? "diverged" : "lost");
        if (needed.run)
            put(out, " WHEN " RUN " IS DISTINCT FROM %" PRIu64 " THEN '%s'", needed.run,
                weir_place_verdict_name(needed.other));
        if (seen->standby || seen->timeline > timelines.numbers[i])
            put_settled(out, wish->settled_run);
        else
            put(out, " ELSE 'ok' END");
        put_unbound(out, wish, timelines.numbers[i]);
    }
    put(out, " ELSE 'unproven' END");
}

static void put_place(struct out *out, const struct weir_place *seen, const struct weir_check_wish *wish)
{
    put(out,
        "SELECT CASE WHEN (SELECT system_identifier FROM pg_catalog.pg_control_system()) <> '%" PRId64
        "'::bigint THEN 'foreign' WHEN pg_catalog.pg_is_in_recovery() THEN ",
        (int64_t)seen->system);
    put_standby(out, seen, wish);
    put(out, " ELSE ");
    put_primary(out, seen, wish);
    put(out, " END");
}

size_t weir_check_text(const struct weir_check_wish *wish, char *text)
{
    const struct weir_session_token *token = wish->token;
    const struct weir_place *seen = NULL;
    struct out out = { .text = text };
    unsigned count = 0;
    uint64_t system = wish->system || token->count == 0 ? wish->system : token->places[0].system;
    for (unsigned i = 0; i < token->count; i++) {
        if (token->places[i].system == system) {
            seen = &token->places[i];
            count++;
        }
    }
    if (count == 1)
        put_place(&out, seen, wish);
    else
        put(&out, "SELECT '%s'",
            weir_place_verdict_name(token->count == 0 ? WEIR_PLACE_OK
                                    : count == 0      ? WEIR_PLACE_FOREIGN
                                                      : WEIR_PLACE_UNPROVEN));
    return out.size;
}
