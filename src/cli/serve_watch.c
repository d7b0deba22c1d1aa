/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/serve_watch.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

/* A store that comes and goes fills no log. */
#define TELL_AGAIN_S 10

struct watch {
    struct weir_lock_engine engine; /* first */
    struct weir_lock_engine_ops ops;
    struct weir_lock_engine *inner;
    uint64_t failures;
    bool told; /* that it is down */
    time_t told_at_s;
};

static time_t now_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec;
}

static void look(struct watch *watch)
{
    struct weir_lock_engine_state state;
    watch->inner->ops->state(watch->inner, &state);
    bool failed = state.failures != watch->failures;
    watch->failures = state.failures;
    if (state.up && watch->told) {
        fprintf(stderr, "weir: locks in %s: the store answers again\n", state.name);
        watch->told = false;
    } else if (!state.up && failed && !watch->told &&
               (!watch->told_at_s || now_s() - watch->told_at_s >= TELL_AGAIN_S)) {
        fprintf(stderr, "weir: locks in %s: the store cannot be asked: %s\n", state.name,
                state.fault[0] ? state.fault : "it does not say why");
        watch->told = true;
        watch->told_at_s = now_s();
    }
}

static void apply(struct weir_lock_engine *engine, struct weir_lock_op *ops, size_t count, uint64_t deadline_ns)
{
    struct watch *watch = (struct watch *)engine;
    watch->inner->ops->apply(watch->inner, ops, count, deadline_ns);
    look(watch);
}

/* Says nothing of the store. */
static bool quick(struct weir_lock_engine *engine, struct weir_lock_op *op)
{
    struct watch *watch = (struct watch *)engine;
    return watch->inner->ops->quick(watch->inner, op);
}

static void idle(struct weir_lock_engine *engine)
{
    struct watch *watch = (struct watch *)engine;
    watch->inner->ops->idle(watch->inner);
    look(watch);
}

static void state(struct weir_lock_engine *engine, struct weir_lock_engine_state *ret_state)
{
    const struct watch *watch = (const struct watch *)engine;
    watch->inner->ops->state(watch->inner, ret_state);
}

static void destroy(struct weir_lock_engine *engine)
{
    struct watch *watch = (struct watch *)engine;
    watch->inner->ops->destroy(watch->inner);
    free(watch);
}

void weir_cli_locks_watch(struct weir_lock_engine **engine)
{
    struct watch *watch = *engine ? calloc(1, sizeof(*watch)) : NULL;
    if (!watch)
        return;
    const struct weir_lock_engine_ops *inner = (*engine)->ops;
    watch->ops = (struct weir_lock_engine_ops){ .apply = apply,
                                                .state = state,
                                                .destroy = destroy,
                                                .idle = inner->idle ? idle : NULL,
                                                .quick = inner->quick ? quick : NULL,
                                                .poll_ns = inner->poll_ns };
    watch->engine.ops = &watch->ops;
    watch->inner = *engine;
    *engine = &watch->engine;
}
