/* SPDX-License-Identifier: Apache-2.0
 *
 * The embedded engine. Memory decides (sqlite_index.h, core/lease/holders.h with n = 1), by CLOCK_BOOTTIME; the
 * database is where it survives (sqlite_store.h). docs/locks.md tells why, and what is promised after which fault.
 *
 * When the store fails, what the batch granted is taken back in memory and answered as not done or as unknown. The
 * database is not trusted from then on: it is opened anew and written anew from memory, and the incarnation is raised,
 * before the next grant. Renewals of the same length, releases and looks need no store and go on meanwhile.
 *
 * `memory` guards all but the store, which is the manager's thread's alone: that thread holds it, but for the time of a
 * commit, and what is being committed is dirty until then and left alone by `quick`. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/fault.h"
#include "base/long_path.h"
#include "base/timing.h"
#include "core/lease/incarnation.h"
#include "locks/open.h"
#include "locks/sqlite_inside.h"
#include "locks/witness.h"

#define LAZY_NS UINT64_C(1000000000) /* a release is written so much later at most */
#define RETRY_NS UINT64_C(100000000) /* between attempts to open a store that failed */

/* ---- the store ---- */

/* It needs a raise that cannot be made, and for another reason than the clock. */
static bool is_stuck(const struct weir_sqlite *engine)
{
    return engine->raise && engine->pace.due_ns == 0;
}

static struct weir_sqlite_meta meta_of(const struct weir_sqlite *engine)
{
    return (struct weir_sqlite_meta){ engine->store.meta.system, engine->incarnation, engine->counter };
}

static void go_down(struct weir_sqlite *engine, const char *fault)
{
    weir_sqlite_note(engine, fault);
    weir_sqlite_store_close(&engine->store);
    engine->up = false;
}

/* Opens the store again and writes all from memory. */
static int mend(struct weir_sqlite *engine)
{
    int error = weir_sqlite_store_open(&engine->store);
    if (error) {
        weir_sqlite_note(engine, engine->store.fault);
        return error;
    }
    engine->counter = weir_max_u64(engine->counter, engine->store.meta.counter);
    engine->incarnation = weir_max_u64(engine->incarnation, engine->store.meta.incarnation);
    engine->raise = true;
    struct weir_sqlite_meta meta = meta_of(engine);
    error = weir_sqlite_store_rewrite(&engine->store, &engine->index, &meta);
    if (error) {
        go_down(engine, engine->store.fault);
        return error;
    }
    weir_sqlite_index_clean(&engine->index, weir_sqlite_index_take(&engine->index));
    engine->up = true;
    weir_sqlite_note(engine, "");
    return 0;
}

/* Before a grant: the store is the one that we know, or made so. */
static void look_at_store(struct weir_sqlite *engine, uint64_t now_ns)
{
    if (engine->up && weir_sqlite_store_changed(&engine->store))
        go_down(engine, "the database was replaced or changed by another; it is written anew from memory");
    if (engine->up || now_ns < engine->retry_ns)
        return;
    mend(engine);
    engine->retry_ns = weir_add_sat(weir_timing_now(CLOCK_BOOTTIME), RETRY_NS);
}

/* Grants that did not become durable were none. What is held by nobody is forgotten at once, or names that are asked
 * for while the store is down would pile up: its rows go when all is written anew. */
static void undo_grants(struct weir_sqlite *engine)
{
    for (struct weir_sqlite_entry *entry = engine->index.dirty; entry; entry = entry->dirty_next)
        if (entry->fresh) {
            entry->holders.count = 0;
            entry->fresh = false;
        }
    weir_sqlite_index_forget(&engine->index);
}

/* What is dirty becomes durable. 0, WEIR_EDOWN, WEIR_EUNKNOWN. */
static int make_durable(struct weir_sqlite *engine)
{
    struct weir_sqlite_entry *taken = NULL;
    int error = WEIR_EDOWN;
    if (engine->up) {
        struct weir_sqlite_meta meta = meta_of(engine);
        taken = weir_sqlite_index_take(&engine->index);
        pthread_mutex_unlock(&engine->memory);
        error = weir_sqlite_store_write(&engine->store, taken, &meta);
        pthread_mutex_lock(&engine->memory);
        if (error)
            go_down(engine, engine->store.fault);
    }
    if (error) {
        weir_sqlite_index_return(&engine->index, taken);
        engine->state.failures++;
        undo_grants(engine);
        return error;
    }
    weir_sqlite_index_clean(&engine->index, taken);
    engine->state.batches++;
    if (!is_stuck(engine))
        weir_sqlite_note(engine, "");
    return 0;
}

/* ---- one op ---- */

static void touch(struct weir_sqlite *engine, struct weir_sqlite_entry *entry, uint64_t now_ns)
{
    if (!engine->index.dirty)
        engine->dirty_ns = now_ns;
    weir_sqlite_index_touch(&engine->index, entry);
}

/* The answer is what the entry says. */
static void say(struct weir_lock_op *op, enum weir_lock_said said, const struct weir_sqlite_entry *entry)
{
    op->said = said;
    op->token = (struct weir_token){ entry->incarnation, entry->holder.number };
    op->lease_ns = weir_sub_sat(entry->holder.end_ns, entry->holders.seen_ns);
    memcpy(op->holder, entry->owner, entry->owner_size);
    op->holder_size = entry->owner_size;
}

static void grant(struct weir_sqlite *engine, const struct weir_lock_op *op, struct weir_sqlite_entry *entry,
                  uint64_t now_ns)
{
    engine->counter++;
    entry->incarnation = engine->incarnation;
    entry->ttl_ns = op->ttl_ns;
    memcpy(entry->owner, op->owner.data, op->owner.size);
    entry->owner_size = op->owner.size;
    entry->holder.id = 1;
    entry->fresh = true;
    touch(engine, entry, now_ns);
    weir_sqlite_index_sweep(&engine->index, now_ns);
    engine->must = true;
}

/* A restart gives a full lease of the stored length, so the longest that was promised must be stored. A renewal that
 * asks for no more needs no write, unless that of a longer one has failed. */
static void lengthen(struct weir_sqlite *engine, const struct weir_lock_op *op, struct weir_sqlite_entry *entry,
                     uint64_t now_ns)
{
    if (op->ttl_ns <= entry->ttl_ns && !entry->dirty)
        return;
    entry->ttl_ns = weir_max_u64(entry->ttl_ns, op->ttl_ns);
    touch(engine, entry, now_ns);
    engine->must = true;
}

/* It asks for a raise that was not made, or for a token that may not be given out before. While the store is down none
 * will be: that is said at once. */
static bool unraised(struct weir_sqlite *engine, struct weir_lock_op *op)
{
    bool believed = weir_incarnation_leaves_room(engine->incarnation, op->seen);
    op->status = believed ? WEIR_EDOWN : WEIR_ERANGE;
    op->due_ns = believed && engine->up ? engine->pace.due_ns : 0;
    engine->refused |= op->status == WEIR_EDOWN && op->due_ns == 0;
    return false;
}

/* Nobody holds it, or its holder was fenced by a later incarnation. */
static bool gets_new_token(const struct weir_lock_op *op, struct weir_sqlite_entry *entry, uint64_t now_ns)
{
    return !entry || weir_holders_expire(&entry->holders, now_ns) == 0 ||
           (op->seen > entry->incarnation && weir_sqlite_entry_holder(entry, op->owner) == 1);
}

static bool acquire(struct weir_sqlite *engine, struct weir_lock_op *op, uint64_t now_ns)
{
    struct weir_sqlite_entry *entry = weir_sqlite_index_find(&engine->index, op->name);
    if (op->seen > engine->incarnation || (engine->raise && gets_new_token(op, entry, now_ns)))
        return unraised(engine, op);
    if (!entry)
        entry = weir_sqlite_index_add(&engine->index, op->name);
    if (!entry) {
        op->status = WEIR_EDOWN;
        return false;
    }
    uint64_t holder = weir_sqlite_entry_holder(entry, op->owner);
    /* A holder that was fenced by a later incarnation can do nothing with its token: it needs a new one. */
    if (op->seen > entry->incarnation)
        weir_holders_release(&entry->holders, holder, now_ns);
    struct weir_lease_holder held_by;
    enum weir_holders_answer answer = weir_holders_take(&entry->holders, holder, engine->counter + 1, op->ttl_ns,
                                                        now_ns, &held_by);
    if (answer == WEIR_HOLDERS_GRANTED)
        grant(engine, op, entry, now_ns);
    bool before = entry->fresh;
    if (answer == WEIR_HOLDERS_KEPT)
        lengthen(engine, op, entry, now_ns);
    say(op, answer == WEIR_HOLDERS_HELD ? WEIR_LOCK_HELD : WEIR_LOCK_GRANTED, entry);
    return before || (answer == WEIR_HOLDERS_KEPT && entry->dirty);
}

static bool renew(struct weir_sqlite *engine, struct weir_lock_op *op, uint64_t now_ns)
{
    struct weir_sqlite_entry *entry = weir_sqlite_index_find(&engine->index, op->name);
    struct weir_lease_holder held_by;
    op->said = WEIR_LOCK_FREE;
    if (!entry ||
        !weir_holders_renew(&entry->holders, weir_sqlite_entry_holder(entry, op->owner), op->ttl_ns, now_ns, &held_by))
        return false;
    lengthen(engine, op, entry, now_ns);
    say(op, WEIR_LOCK_GRANTED, entry);
    return entry->dirty;
}

static bool release(struct weir_sqlite *engine, struct weir_lock_op *op, uint64_t now_ns)
{
    struct weir_sqlite_entry *entry = weir_sqlite_index_find(&engine->index, op->name);
    op->said = WEIR_LOCK_FREE;
    if (!entry || !weir_holders_release(&entry->holders, weir_sqlite_entry_holder(entry, op->owner), now_ns))
        return false;
    say(op, WEIR_LOCK_GRANTED, entry);
    op->lease_ns = 0;
    touch(engine, entry, now_ns);
    return false; /* whatever becomes of the batch, it is free */
}

static bool show(struct weir_sqlite *engine, struct weir_lock_op *op, uint64_t now_ns)
{
    struct weir_sqlite_entry *entry = weir_sqlite_index_find(&engine->index, op->name);
    op->said = WEIR_LOCK_FREE;
    if (!entry || weir_holders_expire(&entry->holders, now_ns) == 0)
        return false;
    say(op, WEIR_LOCK_GRANTED, entry);
    return entry->fresh;
}

static bool raise(struct weir_sqlite *engine, struct weir_lock_op *op, uint64_t now_ns)
{
    (void)now_ns;
    if (engine->raise_error || op->seen >= engine->incarnation)
        return unraised(engine, op);
    op->said = WEIR_LOCK_GRANTED;
    op->token = (struct weir_token){ engine->incarnation, 0 };
    engine->must = true;
    return true;
}

/* ---- the interface ---- */

static bool decide(struct weir_sqlite *engine, struct weir_lock_op *op, uint64_t now_ns)
{
    static bool (*const VERBS[])(struct weir_sqlite *, struct weir_lock_op *, uint64_t) = {
        [WEIR_LOCK_ACQUIRE] = acquire, [WEIR_LOCK_RENEW] = renew, [WEIR_LOCK_RELEASE] = release,
        [WEIR_LOCK_SHOW] = show,       [WEIR_LOCK_RAISE] = raise,
    };
    op->status = 0;
    op->due_ns = 0;
    op->token = (struct weir_token){ 0 };
    op->lease_ns = 0;
    op->holder_size = 0;
    return VERBS[op->verb](engine, op, now_ns);
}

/* What is found after a commit counts as its own: without a look before, it would hide a change by another. */
static bool may_commit(const struct weir_sqlite *engine, const struct weir_lock_op *op)
{
    const struct weir_sqlite_entry *entry = op->verb == WEIR_LOCK_RENEW
                                                ? weir_sqlite_index_find(&engine->index, op->name)
                                                : NULL;
    return op->verb == WEIR_LOCK_ACQUIRE || op->verb == WEIR_LOCK_RAISE || (entry && op->ttl_ns > entry->ttl_ns);
}

static bool is_overdue(const struct weir_sqlite *engine, uint64_t now_ns)
{
    return engine->index.dirty && now_ns - engine->dirty_ns >= LAZY_NS;
}

static void apply_batch(struct weir_sqlite *engine, struct weir_lock_op *ops, size_t count)
{
    uint64_t now_ns = weir_timing_now(CLOCK_BOOTTIME);
    bool asks = is_overdue(engine, now_ns) ||
                /* a raise not written yet; a longer renewal failed, and its holder tries again */
                (engine->up ? engine->incarnation != engine->store.meta.incarnation : engine->index.dirty != NULL);
    for (size_t i = 0; !asks && i < count; i++)
        asks = may_commit(engine, &ops[i]);
    if (asks) {
        look_at_store(engine, now_ns);
        engine->raise_error = weir_sqlite_raise_for(engine, ops, count);
        now_ns = weir_timing_now(CLOCK_BOOTTIME);
    }
    engine->must = engine->incarnation != engine->store.meta.incarnation && engine->up;
    engine->refused = false;
    for (size_t i = 0; i < count; i++)
        engine->depends[i] = decide(engine, &ops[i], now_ns);
    int error = engine->must || (engine->up && asks && is_overdue(engine, now_ns)) ? make_durable(engine) : 0;
    engine->state.failures += !error && engine->refused; /* else nobody would hear of it */
    for (size_t i = 0; error && i < count; i++)
        if (engine->depends[i])
            ops[i].status = error;
}

static void apply(struct weir_lock_engine *base, struct weir_lock_op *ops, size_t count, uint64_t deadline_ns)
{
    struct weir_sqlite *engine = (struct weir_sqlite *)base;
    (void)deadline_ns; /* nobody can end an fsync early */
    weir_assert(count <= WEIR_LOCK_BATCH_MAX);
    pthread_mutex_lock(&engine->memory);
    apply_batch(engine, ops, count);
    pthread_mutex_unlock(&engine->memory);
}

/* Of a lock whose row is as it should be: only then the answer hangs on nothing that may fail yet. */
static bool is_quick(const struct weir_sqlite *engine, const struct weir_lock_op *op, struct weir_sqlite_entry *entry,
                     uint64_t now_ns)
{
    if (op->verb == WEIR_LOCK_RAISE || (!entry && op->verb == WEIR_LOCK_ACQUIRE))
        return false;
    if (!entry)
        return true;
    if (entry->dirty) /* and may be under the eyes of the thread that writes it: not even a lease may end here */
        return false;
    bool held = weir_holders_expire(&entry->holders, now_ns) > 0;
    if (op->verb == WEIR_LOCK_ACQUIRE)
        return held && op->seen <= engine->incarnation && weir_sqlite_entry_holder(entry, op->owner) != 1;
    return op->verb != WEIR_LOCK_RENEW || op->ttl_ns <= entry->ttl_ns;
}

/* A mutex that is taken is no reason to wait: the manager's thread may be writing all anew. */
static bool quick(struct weir_lock_engine *base, struct weir_lock_op *op)
{
    struct weir_sqlite *engine = (struct weir_sqlite *)base;
    if (pthread_mutex_trylock(&engine->memory) != 0)
        return false;
    uint64_t now_ns = weir_timing_now(CLOCK_BOOTTIME);
    bool done = is_quick(engine, op, weir_sqlite_index_find(&engine->index, op->name), now_ns);
    if (done)
        decide(engine, op, now_ns);
    pthread_mutex_unlock(&engine->memory);
    return done;
}

static bool held(struct weir_lock_engine *base, uint64_t *ret_held)
{
    struct weir_sqlite *engine = (struct weir_sqlite *)base;
    if (pthread_mutex_trylock(&engine->memory) != 0)
        return false;
    *ret_held = weir_sqlite_index_held(&engine->index, weir_timing_now(CLOCK_BOOTTIME));
    pthread_mutex_unlock(&engine->memory);
    return true;
}

static void idle(struct weir_lock_engine *base)
{
    struct weir_sqlite *engine = (struct weir_sqlite *)base;
    pthread_mutex_lock(&engine->memory);
    look_at_store(engine, weir_timing_now(CLOCK_BOOTTIME));
    (void)weir_sqlite_raise_for(engine, NULL, 0); /* one that must wait waits for the next call */
    if (engine->up && (engine->index.dirty || engine->incarnation != engine->store.meta.incarnation))
        make_durable(engine);
    if (engine->up)
        weir_sqlite_store_settle(&engine->store);
    pthread_mutex_unlock(&engine->memory);
}

static void state(struct weir_lock_engine *base, struct weir_lock_engine_state *ret_state)
{
    struct weir_sqlite *engine = (struct weir_sqlite *)base;
    *ret_state = engine->state;
    ret_state->name = "sqlite";
    ret_state->up = engine->up && !is_stuck(engine);
    ret_state->incarnation = engine->incarnation;
}

static void destroy(struct weir_lock_engine *base)
{
    struct weir_sqlite *engine = (struct weir_sqlite *)base;
    bool ours = engine->up && !weir_sqlite_store_changed(&engine->store);
    pthread_mutex_lock(&engine->memory);
    if (ours && engine->index.dirty)
        ours = make_durable(engine) == 0;
    pthread_mutex_unlock(&engine->memory);
    pthread_mutex_destroy(&engine->memory);
    if (ours && !weir_sqlite_store_changed(&engine->store))
        weir_sqlite_store_finish(&engine->store);
    weir_sqlite_store_deinit(&engine->store);
    weir_sqlite_index_deinit(&engine->index);
    free(engine->witness_path);
    free(engine);
}

/* ---- opening ---- */

/* Before anything is made. `own_witness`: it lies beside the store, and its name is the longest there. */
static int check_paths(struct weir_sqlite *engine, bool own_witness)
{
    static const char OWN[] = ".witness" WEIR_WITNESS_NEXT, JOURNAL[] = "-journal";
    const size_t whole_max = (size_t)sqlite3_vfs_find(NULL)->mxPathname - (sizeof JOURNAL - 1), /* 504 */
        next = sizeof WEIR_WITNESS_NEXT - 1;
    char text[WEIR_LONG_PATH_TEXT], why[sizeof text + sizeof "the witness: "];
    if (weir_long_path(engine->store.path, whole_max, (own_witness ? sizeof OWN : sizeof JOURNAL) - 1, text))
        (void)snprintf(why, sizeof why, "%s", text);
    else if (!own_witness && weir_long_path(engine->witness_path, PATH_MAX - 1 - next, next, text))
        (void)snprintf(why, sizeof why, "the witness: %s", text);
    else
        return 0;
    if (engine->store.made)
        unlink(engine->store.path);
    (void)snprintf(engine->store.fault, sizeof engine->store.fault, "%.80s: %.75s", engine->store.path, why);
    weir_sqlite_note(engine, engine->store.fault);
    return WEIR_EINVAL;
}

/* With `memory` held. */
static int begin(struct weir_sqlite *engine)
{
    int error = weir_sqlite_store_claim(&engine->store);
    if (!error)
        error = weir_sqlite_store_open(&engine->store);
    if (error) {
        weir_sqlite_note(engine, engine->store.fault);
        return error;
    }
    engine->counter = engine->store.meta.counter;
    engine->incarnation = engine->store.meta.incarnation;
    engine->raise = true;
    error = weir_sqlite_raise(engine, 0);
    if (error && is_stuck(engine))
        return error;
    error = weir_sqlite_store_load(&engine->store, &engine->index, weir_timing_now(CLOCK_BOOTTIME));
    if (error) {
        weir_sqlite_note(engine, engine->store.fault);
        return error;
    }
    engine->up = true;
    return make_durable(engine) ? WEIR_EIO : 0;
}

static struct weir_sqlite *make(const struct weir_lock_sqlite_options *options)
{
    static const struct weir_lock_engine_ops OPS = {
        .apply = apply, .state = state, .destroy = destroy, .idle = idle, .quick = quick, .held = held
    };
    struct weir_sqlite *engine = calloc(1, sizeof *engine);
    if (!engine)
        return NULL;
    engine->base.ops = &OPS;
    pthread_mutex_init(&engine->memory, NULL);
    engine->store.claim = -1; /* should it not come to its init */
    size_t size = strlen(options->path) + sizeof ".witness";
    engine->witness_path = options->witness ? strdup(options->witness) : malloc(size);
    if (engine->witness_path && !options->witness)
        snprintf(engine->witness_path, size, "%s.witness", options->path);
    if (!engine->witness_path || weir_sqlite_index_init(&engine->index) != 0 ||
        weir_sqlite_store_init(&engine->store, options->path) != 0) {
        destroy(&engine->base);
        return NULL;
    }
    return engine;
}

int weir_lock_sqlite_open(const struct weir_lock_sqlite_options *options, struct weir_lock_engine **ret_engine,
                          struct weir_fault *ret_fault)
{
    struct weir_sqlite *engine = make(options);
    if (!engine)
        return WEIR_ENOMEM;
    pthread_mutex_lock(&engine->memory);
    int error = check_paths(engine, !options->witness);
    if (!error)
        error = begin(engine);
    pthread_mutex_unlock(&engine->memory);
    if (error) {
        (void)weir_fault_set(ret_fault, error, "path", engine->state.fault);
        engine->up = false;
        destroy(&engine->base);
        return error;
    }
    *ret_engine = &engine->base;
    return 0;
}
