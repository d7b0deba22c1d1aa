/* SPDX-License-Identifier: Apache-2.0
 *
 * Raises the incarnation: the new one is above that of the engine, of the database, of the witness and of any mark that
 * was seen, and not below the clock (core/lease/incarnation.c). The witness file has it first; the database gets it
 * with the next commit (sqlite.c), before a grant is answered. Called by sqlite.c: at the start, before a batch that
 * may need the store, and when idle. */
#include <stdio.h>

#include "base/checked.h"
#include "locks/sqlite_inside.h"
#include "locks/witness.h"

void weir_sqlite_note(struct weir_sqlite *engine, const char *fault)
{
    snprintf(engine->state.fault, sizeof engine->state.fault, "%s", fault);
}

static void note_witness(struct weir_sqlite *engine, int error)
{
    snprintf(engine->state.fault, sizeof engine->state.fault, "%.90s: %s", engine->witness_path,
             error == WEIR_ECORRUPT ? "not a witness file of weir" : weir_error_text(error));
}

int weir_sqlite_raise(struct weir_sqlite *engine, uint64_t seen)
{
    struct weir_witness witness = { 0 };
    int error = weir_witness_load(engine->witness_path, &witness);
    if (error && error != WEIR_ENOENT) {
        engine->pace.due_ns = 0;
        note_witness(engine, error);
        return error;
    }
    uint64_t known = weir_max_u64(weir_max_u64(engine->incarnation, engine->store.meta.incarnation),
                                  witness.incarnation);
    uint64_t clock_s = weir_pace_clock_s(), raised = weir_incarnation_raise(known, clock_s, seen);
    if (raised == 0) {
        engine->pace.due_ns = 0;
        weir_sqlite_note(engine, "the incarnations are used up");
        return WEIR_EDOWN;
    }
    if (!weir_pace_may(&engine->pace, raised, clock_s))
        return WEIR_EDOWN;
    witness = (struct weir_witness){ engine->store.meta.system, 0, engine->counter, raised };
    error = weir_witness_save(engine->witness_path, &witness);
    if (error) {
        note_witness(engine, error);
        return error;
    }
    engine->incarnation = raised;
    engine->state.raised++;
    engine->raise = false;
    return 0;
}

int weir_sqlite_raise_for(struct weir_sqlite *engine, const struct weir_lock_op *ops, size_t count)
{
    bool wanted = engine->up && engine->raise;
    uint64_t seen = 0;
    for (size_t i = 0; i < count; i++) {
        bool raises = ops[i].verb == WEIR_LOCK_RAISE ||
                      (ops[i].verb == WEIR_LOCK_ACQUIRE && ops[i].seen > engine->incarnation);
        if (!raises || !weir_incarnation_leaves_room(engine->incarnation, ops[i].seen))
            continue;
        wanted = true;
        seen = weir_max_u64(seen, ops[i].seen);
    }
    if (wanted && weir_pace_waits(&engine->pace))
        return WEIR_EDOWN;
    return wanted ? weir_sqlite_raise(engine, seen) : 0;
}
