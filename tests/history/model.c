/* SPDX-License-Identifier: Apache-2.0 */
#include "model.h"

#include <string.h>

#include "base/checked.h"

/* ---- locks ---- */

/* The token of a grant against those before it; a grant whose answer was lost took one of its own. */
static bool token_take(const struct model *model, struct model_state *state, const struct history_op *op)
{
    struct weir_token last = { state->incarnation, state->number };
    state->open = !op->has_token;
    if (!op->has_token) {
        state->number = weir_add_sat(state->number, 1);
        return true;
    }
    if (model->fenced && weir_token_compare(op->token, last) <= 0)
        return false;
    state->incarnation = op->token.incarnation;
    state->number = op->token.number;
    return true;
}

/* The same grant again: its token is the same, or shows itself now. */
static bool token_keep(const struct model *model, struct model_state *state, const struct history_op *op)
{
    struct weir_token last = { state->incarnation, state->number };
    if (!op->has_token || !model->fenced)
        return true;
    int order = weir_token_compare(op->token, last);
    if (order < 0 || (order > 0 && !state->open))
        return false;
    state->incarnation = op->token.incarnation;
    state->number = op->token.number;
    state->open = false;
    return true;
}

static void lease_set(struct model_state *state, const struct history_op *op, bool longer)
{
    bool unknown = op->result == HISTORY_UNKNOWN;
    /* Whoever asked went away perhaps, and the service gave the lock back by itself. */
    uint64_t end_min_ns = unknown && op->verb == HISTORY_ACQUIRE ? state->now_ns
                                                                 : weir_add_sat(state->now_ns, op->lease_ns);
    uint64_t end_max_ns = op->lease_max_ns == 0 || unknown ? 0 : weir_add_sat(op->end_ns, op->lease_max_ns);
    if (longer && !(unknown && op->verb == HISTORY_ACQUIRE))
        end_min_ns = weir_max_u64(end_min_ns, state->end_min_ns);
    if (longer && end_max_ns != 0)
        end_max_ns = state->end_max_ns == 0 ? 0 : weir_max_u64(end_max_ns, state->end_max_ns);
    state->end_min_ns = end_min_ns;
    state->end_max_ns = end_max_ns;
    state->lease_max_ns = op->lease_max_ns;
    state->previous = 0;
}

/* Free: nothing of its lease is left that would tell two equal states apart. */
static void become_free(struct model_state *state, uint64_t previous)
{
    state->previous = previous;
    state->holder = 0;
    state->end_min_ns = state->end_max_ns = 0;
}

/* After an older store came back: a new grant, or the old one of whoever had it then. */
static bool anybody_holds(const struct model *model, struct model_state *state, const struct history_op *op)
{
    struct weir_token last = { state->incarnation, state->number };
    bool later = !op->has_token || weir_token_compare(op->token, last) > 0;
    if (op->result == HISTORY_UNKNOWN)
        return false;
    if (model->fenced && !(op->verb == HISTORY_ACQUIRE && later) && !op->echo)
        return false;
    if (later && op->has_token) {
        state->incarnation = op->token.incarnation;
        state->number = op->token.number;
    }
    /* An old grant is not the last one: what it holds under is only known to be no later. */
    if (!later)
        return true;
    state->holder = op->owner;
    state->open = false;
    lease_set(state, op, false);
    return true;
}

static bool acquire(const struct model *model, struct model_state *state, const struct history_op *op)
{
    bool own = state->holder == op->owner, anybody = state->holder == MODEL_ANYBODY;
    if (op->result == HISTORY_HELD)
        return anybody || (state->holder != 0 && (!own || !model->reentrant));
    if (anybody)
        return anybody_holds(model, state, op);
    bool outgrown = own && model->fenced && op->seen > state->incarnation;
    if (own && model->reentrant && !outgrown) {
        if (!token_keep(model, state, op))
            return false;
        lease_set(state, op, true);
        return true;
    }
    if ((state->holder != 0 && !outgrown) || !token_take(model, state, op))
        return false;
    state->holder = op->owner;
    lease_set(state, op, false);
    return true;
}

static bool renew(const struct model *model, struct model_state *state, const struct history_op *op)
{
    bool own = state->holder == op->owner, anybody = state->holder == MODEL_ANYBODY;
    if (op->result == HISTORY_LOST)
        return !own;
    if (anybody)
        return anybody_holds(model, state, op);
    if (!own || !token_keep(model, state, op))
        return false;
    lease_set(state, op, true);
    return true;
}

static bool release(struct model_state *state, const struct history_op *op)
{
    bool own = state->holder == op->owner, anybody = state->holder == MODEL_ANYBODY;
    if (op->result == HISTORY_LOST)
        return !own;
    if (!own && !(anybody && op->result == HISTORY_OK))
        return false;
    become_free(state, op->owner);
    return true;
}

/* variant 1: a release, or an end, that was not durable is undone: who had it last has it again. */
static bool restart(struct model_state *state, const struct history_op *op, unsigned variant)
{
    if (variant == 1) {
        if (state->holder != 0 || state->previous == 0)
            return false;
        state->holder = state->previous;
        state->previous = 0;
        state->end_min_ns = state->now_ns;
    }
    /* Leases may begin anew at a restart: one that ended too, if nobody noticed. */
    state->end_max_ns = state->lease_max_ns == 0 ? 0 : weir_add_sat(op->end_ns, state->lease_max_ns);
    return true;
}

static bool event(struct model_state *state, const struct history_op *op, unsigned variant)
{
    if (op->verb == HISTORY_RESTART)
        return restart(state, op, variant);
    if (variant == 1)
        return false;
    if (op->verb == HISTORY_REWIND)
        state->incarnation = state->number = 0;
    state->holder = MODEL_ANYBODY;
    state->previous = 0;
    state->open = false;
    state->end_min_ns = state->end_max_ns = state->lease_max_ns = 0;
    return true;
}

static bool lock_step(const struct model *model, const struct model_state *state, const struct history_op *op,
                      unsigned variant, struct model_state *ret_next)
{
    struct model_state next = *state;
    bool held = state->holder != 0 && state->holder != MODEL_ANYBODY;
    bool is_event = op->verb >= HISTORY_RESTART;
    next.now_ns = weir_max_u64(state->now_ns, op->start_ns);
    if (variant == 1 && !is_event) { /* the lease ended before */
        if (!held)
            return false;
        next.now_ns = weir_max_u64(next.now_ns, state->end_min_ns);
        become_free(&next, state->holder);
    } else if (held && !is_event && state->end_max_ns != 0 && next.now_ns >= state->end_max_ns) {
        return false; /* it has ended */
    }
    if (next.now_ns > op->end_ns)
        return false;
    bool may = is_event                      ? event(&next, op, variant)
               : op->verb == HISTORY_ACQUIRE ? acquire(model, &next, op)
               : op->verb == HISTORY_RENEW   ? renew(model, &next, op)
                                             : release(&next, op);
    if (may)
        *ret_next = next;
    return may;
}

/* ---- a register behind a fence ---- */

static bool register_step(const struct model *model, const struct model_state *state, const struct history_op *op,
                          unsigned variant, struct model_state *ret_next)
{
    (void)model;
    struct model_state next = *state;
    int order = weir_token_compare(op->token, (struct weir_token){ state->incarnation, state->number });
    bool may = variant == 0;
    if (op->result == HISTORY_FENCED) {
        may = may && order < 0;
    } else if (op->result == HISTORY_UNINSTALLED) {
        may = may && order > 0;
    } else if (op->verb == HISTORY_READ) {
        may = may && (uint64_t)op->value == state->value;
    } else if (op->verb == HISTORY_INSTALL) {
        may = may && order >= 0;
        next.incarnation = op->token.incarnation;
        next.number = op->token.number;
    } else {
        may = may && order == 0 && (!op->has_from || (uint64_t)op->from == state->value);
        next.value = (uint64_t)op->value;
    }
    if (may)
        *ret_next = next;
    return may;
}

/* ---- all of them ---- */

#define LOCK_VERBS                                                                                                     \
    (1 << HISTORY_ACQUIRE | 1 << HISTORY_RENEW | 1 << HISTORY_RELEASE | 1 << HISTORY_RESTART | 1 << HISTORY_RESTORE |  \
     1 << HISTORY_REWIND)
#define REGISTER_VERBS (1 << HISTORY_INSTALL | 1 << HISTORY_READ | 1 << HISTORY_WRITE)

static const struct model models[] = {
    { "mutex", LOCK_VERBS, false, false, lock_step },
    { "reentrant", LOCK_VERBS, true, false, lock_step },
    { "fenced", LOCK_VERBS, true, true, lock_step },
    { "register", REGISTER_VERBS, false, false, register_step },
};

const struct model *model_find(const char *name)
{
    for (size_t i = 0; i < sizeof(models) / sizeof(models[0]); i++) {
        if (strcmp(models[i].name, name) == 0)
            return &models[i];
    }
    return NULL;
}
