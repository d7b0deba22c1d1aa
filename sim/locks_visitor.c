/* SPDX-License-Identifier: Apache-2.0
 *
 * Visitors: clients without a resource, for the lock manager alone. They come and wait or do not, ask again over a new
 * connection while the old one is still there, go away, hold too long, never release, look, and ask for raises. */
#include "sim/locks_inside.h"

#include "weir/error.h"

#define FAR_NS (3600 * LOCKS_SECOND)

static uint64_t owner_of(const struct locks *locks, uint32_t at)
{
    return UINT64_C(1) << 40 | (uint64_t)at << 32 | locks->visitors[at].session;
}

static uint64_t some_ns(struct locks *locks, uint64_t most_ms)
{
    return weir_sim_random_in(&locks->random, 1, most_ms) * LOCKS_MS;
}

static void go_away(struct locks *locks, uint32_t at, uint64_t for_ns)
{
    struct locks_visitor *visitor = &locks->visitors[at];
    visitor->mood = LOCKS_AWAY;
    visitor->turn++;
    if (weir_sim_random_below(&locks->random, 3) > 0)
        visitor->session++;
    locks_visitor_event(locks, at, for_ns);
}

static bool ask(struct locks *locks, uint32_t at, enum weir_lock_verb verb, uint64_t wait_ns, uint64_t seen)
{
    struct weir_lock_manager_request wish = { .op = { .verb = verb, .ttl_ns = locks->ttl_ns, .seen = seen },
                                              .wait_ns = wait_ns };
    if (weir_sim_random_below(&locks->random, 8) == 0)
        wish.op.ttl_ns = weir_sim_random_in(&locks->random, 300 * LOCKS_MS, 2 * locks->ttl_ns);
    locks->visitors[at].asked = locks->waits.count + 1;
    return locks_weir_visit(locks, at, owner_of(locks, at), &wish);
}

static uint64_t seen_draw(struct locks *locks)
{
    struct weir_sim_random *random = &locks->random;
    uint64_t draw = weir_sim_random_below(random, 60), own = locks->store.memory.incarnation;
    return draw == 0 ? WEIR_INCARNATION_MAX : draw < 4 ? own + draw - 1 : 0;
}

static uint64_t wait_draw(struct locks *locks)
{
    uint64_t draw = weir_sim_random_below(&locks->random, 10);
    return draw < 3 ? 0 : draw < 6 ? some_ns(locks, 500) : draw < 9 ? some_ns(locks, 8000) : FAR_NS;
}

/* Something else than a lock: nobody waits for the answer. */
static void pass_by(struct locks *locks, uint32_t at)
{
    static const enum weir_lock_verb verbs[] = { WEIR_LOCK_SHOW, WEIR_LOCK_SHOW, WEIR_LOCK_RENEW, WEIR_LOCK_RELEASE,
                                                 WEIR_LOCK_RAISE };
    enum weir_lock_verb verb = verbs[weir_sim_random_below(&locks->random, 5)];
    if (verb == WEIR_LOCK_RAISE && weir_sim_random_below(&locks->random, 4) > 0)
        verb = WEIR_LOCK_SHOW;
    locks->visitors[at].turn++;
    (void)ask(locks, at, verb, 0, verb == WEIR_LOCK_RAISE ? locks->store.memory.incarnation : 0);
    go_away(locks, at, some_ns(locks, 200));
}

static void come(struct locks *locks, uint32_t at)
{
    struct locks_visitor *visitor = &locks->visitors[at];
    struct weir_sim_random *random = &locks->random;
    visitor->name = (uint32_t)weir_sim_random_below(random, LOCKS_NAMES);
    visitor->weir = (uint32_t)weir_sim_random_below(random, locks->weirs_count);
    if (weir_sim_random_below(random, 5) == 0) {
        pass_by(locks, at);
        return;
    }
    visitor->turn++;
    visitor->mood = LOCKS_WAITING;
    if (!ask(locks, at, WEIR_LOCK_ACQUIRE, wait_draw(locks), seen_draw(locks)))
        go_away(locks, at, some_ns(locks, 300));
    else if (visitor->mood == LOCKS_WAITING) /* not answered at once */
        locks_visitor_event(locks, at, some_ns(locks, weir_sim_random_below(random, 2) ? 300 : 6000));
}

/* Its patience has ended, or its connection. */
static void give_up(struct locks *locks, uint32_t at)
{
    struct locks_visitor *visitor = &locks->visitors[at];
    struct weir_sim_random *random = &locks->random;
    uint32_t before = visitor->asked - 1;
    uint64_t draw = weir_sim_random_below(random, 10);
    if (draw < 4) { /* for good */
        locks_weir_leave(locks, before);
        go_away(locks, at, some_ns(locks, 500));
        return;
    }
    if (draw == 4)
        locks_weir_leave(locks, before);
    else if (draw < 9)
        locks_batch_event(locks, LOCKS_LEAVE, visitor->weir, before, locks->now_ns + some_ns(locks, 300));
    if (weir_sim_random_below(random, 6) == 0)
        visitor->weir = (uint32_t)weir_sim_random_below(random, locks->weirs_count);
    visitor->turn++;
    if (!ask(locks, at, WEIR_LOCK_ACQUIRE, wait_draw(locks), 0))
        go_away(locks, at, some_ns(locks, 300));
    else if (visitor->mood == LOCKS_WAITING)
        locks_visitor_event(locks, at, some_ns(locks, 3000));
}

static void hold_on(struct locks *locks, uint32_t at)
{
    struct locks_visitor *visitor = &locks->visitors[at];
    uint64_t draw = weir_sim_random_below(&locks->random, 20);
    visitor->turn++;
    if (locks->now_ns >= visitor->until_ns) {
        (void)ask(locks, at, WEIR_LOCK_RELEASE, 0, 0);
        go_away(locks, at, some_ns(locks, 300));
    } else if (draw == 0) { /* vanishes; perhaps it comes back as the same */
        go_away(locks, at, some_ns(locks, 4000));
    } else if (draw < 3) { /* asks again for what it holds */
        visitor->mood = LOCKS_WAITING;
        if (!ask(locks, at, WEIR_LOCK_ACQUIRE, wait_draw(locks), 0))
            go_away(locks, at, some_ns(locks, 300));
        else if (visitor->mood == LOCKS_WAITING)
            locks_visitor_event(locks, at, some_ns(locks, 2000));
    } else {
        if (draw < 16)
            (void)ask(locks, at, WEIR_LOCK_RENEW, 0, 0);
        locks_visitor_event(locks, at, weir_min_u64(locks->ttl_ns / 3, visitor->until_ns - locks->now_ns));
    }
}

void locks_visitor_wake(struct locks *locks, uint32_t at)
{
    switch (locks->visitors[at].mood) {
    case LOCKS_AWAY:
        come(locks, at);
        break;
    case LOCKS_WAITING:
        give_up(locks, at);
        break;
    case LOCKS_HOLDING:
        hold_on(locks, at);
        break;
    }
}

void locks_visitor_hear(struct locks *locks, const struct locks_request *request)
{
    struct locks_visitor *visitor = &locks->visitors[request->visitor];
    const struct weir_lock_op *op = &request->request.op;
    if (op->verb != WEIR_LOCK_ACQUIRE || request->turn != visitor->turn || visitor->mood != LOCKS_WAITING)
        return;
    if (op->status == 0 && op->said == WEIR_LOCK_GRANTED) {
        uint64_t draw = weir_sim_random_below(&locks->random, 20);
        visitor->mood = LOCKS_HOLDING;
        visitor->until_ns = locks->now_ns + (draw < 12   ? some_ns(locks, 40)
                                             : draw < 18 ? some_ns(locks, 600)
                                                         : some_ns(locks, 2 * locks->ttl_ns / LOCKS_MS));
        locks_visitor_event(locks, request->visitor,
                            weir_min_u64(locks->ttl_ns / 3, visitor->until_ns - locks->now_ns));
    } else if (op->status == WEIR_EUNKNOWN && weir_sim_random_below(&locks->random, 2)) {
        visitor->asked = request->id + 1;
        locks_visitor_event(locks, request->visitor, some_ns(locks, 100)); /* and asks again with the same owner */
    } else {
        go_away(locks, request->visitor, some_ns(locks, 400));
    }
}
