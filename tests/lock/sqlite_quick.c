/* SPDX-License-Identifier: Apache-2.0
 *
 * What is answered while a batch is being made durable: all that hangs on no store and not on that batch. */
#include "sqlite_disk.h"

static bool quick(enum weir_lock_verb verb, const char *name, const char *owner, uint64_t ttl_ns,
                  struct weir_lock_op *ret_op)
{
    *ret_op =
        (struct weir_lock_op){ .verb = verb, .name = world_name(name), .owner = world_text(owner), .ttl_ns = ttl_ns };
    return lock_world.engine->ops->quick(lock_world.engine, ret_op);
}

static void assert_quick(enum weir_lock_verb verb, const char *name, const char *owner, uint64_t ttl_ns,
                         enum weir_lock_said said)
{
    struct weir_lock_op op;
    assert_true(quick(verb, name, owner, ttl_ns, &op));
    assert_int_equal(op.status, 0);
    assert_int_equal(op.said, said);
}

static void assert_refused(enum weir_lock_verb verb, const char *name, const char *owner, uint64_t ttl_ns)
{
    struct weir_lock_op op;
    assert_false(quick(verb, name, owner, ttl_ns, &op));
}

/* While "asked" is being granted to A, and the row of "freed" deleted. */
static void look_around(void)
{
    disk.during = NULL;
    assert_refused(WEIR_LOCK_SHOW, "asked", "A", TTL);
    assert_refused(WEIR_LOCK_ACQUIRE, "asked", "B", TTL);
    assert_refused(WEIR_LOCK_RENEW, "asked", "A", TTL);
    assert_refused(WEIR_LOCK_RELEASE, "asked", "A", TTL);
    assert_refused(WEIR_LOCK_SHOW, "freed", "A", TTL);
    assert_refused(WEIR_LOCK_ACQUIRE, "new", "A", TTL);
    assert_refused(WEIR_LOCK_ACQUIRE, "held", "A", TTL);
    assert_refused(WEIR_LOCK_RENEW, "held", "A", 2 * TTL);
    assert_quick(WEIR_LOCK_SHOW, "new", "A", TTL, WEIR_LOCK_FREE);
    assert_quick(WEIR_LOCK_RELEASE, "new", "A", TTL, WEIR_LOCK_FREE);
    assert_quick(WEIR_LOCK_ACQUIRE, "held", "B", TTL, WEIR_LOCK_HELD);
    assert_quick(WEIR_LOCK_RENEW, "held", "A", TTL, WEIR_LOCK_GRANTED);
    assert_quick(WEIR_LOCK_RELEASE, "held", "B", TTL, WEIR_LOCK_FREE);
    assert_quick(WEIR_LOCK_RELEASE, "left", "A", TTL, WEIR_LOCK_GRANTED);
    assert_refused(WEIR_LOCK_SHOW, "left", "A", TTL); /* its row is still there */
}

static void prepare(void)
{
    world_granted(world_acquire("held", "A", TTL));
    world_granted(world_acquire("left", "A", TTL));
    world_granted(world_acquire("freed", "A", TTL));
    world_granted(world_release("freed", "A"));
    disk.during = look_around;
}

void faults__while_a_batch_is_synced_the_rest_is_answered(void **state)
{
    (void)state;
    prepare();
    world_granted(world_acquire("asked", "A", TTL));
    assert_null(disk.during);
    world_free(world_show("left"));
    world_free(world_show("freed"));
    lock_world.engine->ops->idle(lock_world.engine);
    world_reopen();
    world_free(world_show("left"));
    world_held_by(world_show("held"), "A");
    world_held_by(world_show("asked"), "A");
}

void faults__what_was_answered_during_a_batch_that_fails_holds(void **state)
{
    (void)state;
    prepare();
    disk.sync = true;
    assert_int_equal(world_acquire("asked", "A", TTL).status, WEIR_EUNKNOWN);
    assert_null(disk.during);
    disk_heal();
    struct weir_token next = world_granted(world_acquire("left", "B", TTL));
    for (int i = 0; i < 2; i++) {
        world_free(world_show("asked"));
        world_free(world_show("freed"));
        world_held_by(world_show("held"), "A");
        assert_int_equal(weir_token_compare(world_granted(world_acquire("left", "B", TTL)), next), 0);
        world_reopen();
    }
}
