/* SPDX-License-Identifier: Apache-2.0
 *
 * A run of the server, not of a batch (that is postgres.c): what a connection finds, and what follows from it. The
 * incarnation is raised once for each run, and by each weir at its own start; a run is its postmaster's start, with
 * the database and its files. A server cannot be restored, promoted or replaced without a new run, so whatever it has
 * forgotten, tokens after it are greater than all before, even where system identifier, timeline and position look as
 * they should. The witness adds what this node had granted under, and lets the fault say what was seen. A connection
 * that comes again within a run finds all as it was, and raises nothing, unless its former backend still lives
 * (same_run()).
 *
 * The raise keeps new tokens in order. What is held keeps its token before and after it, so nothing but a new token
 * waits for it. */
#include <libpq-fe.h>
#include <stdio.h>
#include <string.h>

#include "base/checked.h"
#include "locks/postgres_inside.h"

static void show(struct weir_postgres *postgres, const char *text, bool passes)
{
    pthread_mutex_lock(&postgres->mutex);
    (void)snprintf(postgres->shown.fault, sizeof postgres->shown.fault, "%s", text);
    postgres->fault_passes = passes;
    pthread_mutex_unlock(&postgres->mutex);
}

void weir_pg_show_fault(struct weir_postgres *postgres, const char *text)
{
    show(postgres, text, true);
}

void weir_pg_show_done(struct weir_postgres *postgres)
{
    if (postgres->fault_passes)
        show(postgres, "", false);
}

void weir_pg_show_up(struct weir_postgres *postgres, bool up, bool raised)
{
    pthread_mutex_lock(&postgres->mutex);
    postgres->shown.up = up;
    postgres->shown.incarnation = weir_max_u64(postgres->witness.incarnation, postgres->ground.incarnation);
    postgres->shown.raised += raised;
    pthread_mutex_unlock(&postgres->mutex);
}

/* ---- queries of our own ---- */

struct last {
    const char *table;
    struct weir_pg_identity identity;
    bool identified;
    int rows; /* of the last statement */
};

static bool take_last(void *context, size_t index, const PGresult *result)
{
    struct last *last = context;
    (void)index;
    last->rows = PQntuples(result);
    last->identified = weir_pg_identity_read(result, &last->identity);
    return true;
}

static enum weir_pg_outcome query(struct weir_postgres *postgres, const char *template, struct last *ret_last,
                                  uint64_t deadline_ns)
{
    weir_pg_text_clear(&postgres->text);
    weir_pg_text_add(&postgres->text, template, postgres->named);
    if (postgres->text.failed)
        return WEIR_PG_REFUSED;
    return weir_pg_link_run(&postgres->link, postgres->text.data, deadline_ns, take_last, ret_last);
}

/* ---- who the server is ---- */

/* The tables are made where they are missing; a role that may not create finds them made by hand. */
bool weir_pg_identify_now(struct weir_postgres *postgres, struct weir_pg_identity *ret_identity, uint64_t deadline_ns)
{
    for (int i = 0; i < 2; i++) {
        struct last last = { 0 };
        enum weir_pg_outcome outcome = query(postgres, weir_pg_identify, &last, deadline_ns);
        if (outcome == WEIR_PG_DONE && last.identified) {
            *ret_identity = last.identity;
            return true;
        }
        bool missing = outcome == WEIR_PG_DONE ||
                       (outcome == WEIR_PG_REFUSED && strcmp(postgres->link.state, "42P01") == 0);
        if (!missing || i > 0 || query(postgres, weir_pg_create, &last, deadline_ns) != WEIR_PG_DONE ||
            !weir_pg_table_judge(&postgres->link, &postgres->text, postgres->named, deadline_ns))
            break;
    }
    if (!postgres->link.fault[0])
        (void)snprintf(postgres->link.fault, sizeof postgres->link.fault,
                       "what the database says of its incarnation cannot be read");
    return false;
}

static bool witness_save(struct weir_postgres *postgres, const struct weir_pg_identity *identity, uint64_t incarnation)
{
    struct weir_witness witness = { identity->system, identity->timeline, identity->position, incarnation };
    if (weir_witness_save(postgres->witness_path, &witness) != 0) {
        weir_pg_show_fault(postgres, "the witness file cannot be written: nothing is granted");
        return false;
    }
    postgres->witness = witness;
    postgres->witnessed = true;
    postgres->raised = true;
    postgres->late = false;
    postgres->run = *identity;
    postgres->ground = identity->ground;
    postgres->ground.incarnation = incarnation;
    return true;
}

bool weir_pg_adopt_incarnation(struct weir_postgres *postgres, const struct weir_pg_identity *identity)
{
    /* What nobody of us raised it to. In the witness it would outlive its correction. */
    if (identity->ground.incarnation >= WEIR_INCARNATION_MAX)
        return false;
    if (!witness_save(postgres, identity, identity->ground.incarnation))
        return false;
    postgres->pace.due_ns = 0;
    weir_pg_show_up(postgres, true, false);
    return true;
}

/* Says what of the server is not as it was: for people, the incarnation is raised in any case. */
static void tell_differences(struct weir_postgres *postgres, const struct weir_pg_identity *now)
{
    const struct weir_witness *known = &postgres->witness;
    char text[160];
    if (!postgres->witnessed)
        return;
    if (now->system != known->system)
        (void)snprintf(text, sizeof text, "another database system than the witness knows: incarnation raised");
    else if (now->timeline != known->timeline)
        (void)snprintf(text, sizeof text, "timeline %llu, the witness knows %llu: incarnation raised",
                       (unsigned long long)now->timeline, (unsigned long long)known->timeline);
    else if (now->position < known->position || now->ground.incarnation < known->incarnation)
        (void)snprintf(text, sizeof text, "the server went back behind what the witness knows: incarnation raised");
    else
        return;
    show(postgres, text, false);
}

void weir_pg_need_raise(struct weir_postgres *postgres, const struct weir_pg_identity *identity)
{
    postgres->late &= identity->started_us == postgres->run.started_us && identity->system == postgres->run.system;
    postgres->raised = false;
    postgres->before = UINT64_MAX;
    postgres->run = *identity;
    postgres->ground = identity->ground;
    weir_pg_show_up(postgres, true, false);
}

static bool try_raise(struct weir_postgres *postgres, uint64_t seen, uint64_t *before, uint64_t deadline_ns)
{
    const uint64_t floor = weir_max_u64(seen, postgres->witness.incarnation);
    for (int i = 0; i < WEIR_PG_TRIES_MAX; i++) {
        struct weir_pg_identity now;
        struct last last = { 0 };
        if (!weir_pg_identify_now(postgres, &now, deadline_ns) ||
            !weir_pg_table_judge(&postgres->link, &postgres->text, postgres->named, deadline_ns))
            return false;
        tell_differences(postgres, &now);
        uint64_t stored = now.ground.incarnation, wall_s = weir_max_u64(weir_pace_clock_s(), now.wall_s);
        uint64_t raised = weir_incarnation_raise(stored, wall_s, floor);
        if (raised == 0) {
            weir_pg_show_fault(postgres, stored < WEIR_INCARNATION_MAX
                                             ? "incarnations are used up"
                                             : "the database has an incarnation that no weir wrote: correct it");
            return false;
        }
        if (stored > *before && stored > floor)
            return weir_pg_adopt_incarnation(postgres, &now);
        *before = weir_min_u64(*before, stored);
        if (!weir_pace_may(&postgres->pace, raised, wall_s))
            return false;
        weir_pg_text_clear(&postgres->text);
        weir_pg_raise_write(&postgres->text, postgres->named, stored, raised);
        if (postgres->text.failed ||
            weir_pg_link_run(&postgres->link, postgres->text.data, deadline_ns, take_last, &last) != WEIR_PG_DONE)
            return false;
        if (last.rows == 0)
            continue;
        if (!witness_save(postgres, &now, raised))
            return false;
        weir_pg_show_up(postgres, true, true);
        return true;
    }
    return false;
}

bool weir_pg_raise(struct weir_postgres *postgres, uint64_t seen, uint64_t *before, uint64_t deadline_ns)
{
    const uint64_t due_ns = postgres->pace.due_ns;
    postgres->link.fault[0] = '\0';
    if (try_raise(postgres, seen, before, deadline_ns))
        return true;
    if (postgres->pace.due_ns == due_ns) /* it came not so far as to ask the clock */
        postgres->pace.due_ns = 0;
    if (postgres->link.fault[0])
        weir_pg_show_fault(postgres, postgres->link.fault);
    return false;
}

/* ---- connecting ---- */

static bool fit(struct weir_postgres *postgres, const struct weir_pg_identity *identity)
{
    if (!identity->logged) {
        weir_pg_show_fault(postgres, "the table is UNLOGGED: it is empty after a crash, so nothing is granted");
        return false;
    }
    if (!identity->fsync)
        show(postgres, "the server runs with fsync=off: a crash of its machine forgets grants", false);
    return true;
}

/* The server and the database are those under which we had an incarnation, and have forgotten nothing since. What the
 * connection before was sent may still be done while its backend lives: then only a raise keeps it out. */
static bool same_run(struct weir_postgres *postgres, const struct weir_pg_identity *now, uint64_t deadline_ns)
{
    const struct weir_pg_identity *then = &postgres->run;
    struct last last = { 0 };
    if (!postgres->raised || now->system != then->system || now->timeline != then->timeline ||
        now->started_us != then->started_us || now->database != then->database ||
        now->ground.file != then->ground.file || now->position < then->position ||
        now->ground.incarnation < postgres->witness.incarnation)
        return false;
    weir_pg_text_clear(&postgres->text);
    weir_pg_text_add(&postgres->text, "SELECT FROM pg_stat_activity WHERE pid = ", "");
    weir_pg_text_number(&postgres->text, then->ground.backend);
    return !postgres->text.failed &&
           weir_pg_link_run(&postgres->link, postgres->text.data, deadline_ns, take_last, &last) == WEIR_PG_DONE &&
           last.rows == 0;
}

bool weir_pg_settle(struct weir_postgres *postgres, uint64_t deadline_ns)
{
    struct weir_pg_identity identity;
    struct last last = { 0 };
    if (PQserverVersion(postgres->link.conn) < 140000) {
        (void)snprintf(postgres->link.fault, sizeof postgres->link.fault, "needs PostgreSQL 14 or later");
        return false;
    }
    if (!weir_pg_table_find(&postgres->link, &postgres->text, postgres->table, postgres->named, deadline_ns) ||
        query(postgres, weir_pg_settings, &last, deadline_ns) != WEIR_PG_DONE ||
        !weir_pg_table_judge(&postgres->link, &postgres->text, postgres->named, deadline_ns) ||
        !weir_pg_identify_now(postgres, &identity, deadline_ns) || !fit(postgres, &identity) ||
        query(postgres, weir_pg_prepare, &last, deadline_ns) != WEIR_PG_DONE)
        return false;
    if (!same_run(postgres, &identity, deadline_ns) || !weir_pg_adopt_incarnation(postgres, &identity))
        weir_pg_need_raise(postgres, &identity);
    return postgres->link.conn != NULL;
}
