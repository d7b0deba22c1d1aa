/* SPDX-License-Identifier: Apache-2.0
 *
 * Faults at random, held against a model of who may hold what. */
#include <unistd.h>

#include <stdio.h>

#include "random.h"
#include "sqlite_disk.h"

enum { NAMES = 4, OWNERS = 3 };
static const char *const OWNER[OWNERS] = { "A", "B", "C" };

struct model {
    struct weir_token last[NAMES];
    size_t last_owner[NAMES];
    unsigned may_hold[NAMES]; /* owners, by bit; 0: nobody may */
    bool sure[NAMES];         /* the one bit holds it */
};

static void random_acquire(struct model *model, struct test_random *random)
{
    size_t name = test_random_below(random, NAMES), owner = test_random_below(random, OWNERS);
    char text[8];
    snprintf(text, sizeof text, "r%zu", name);
    struct weir_lock_op op = world_acquire(text, OWNER[owner], TTL);
    if (op.status) {
        if (op.status == WEIR_EUNKNOWN && !model->sure[name])
            model->may_hold[name] |= 1u << owner;
        return;
    }
    if (op.said == WEIR_LOCK_HELD) {
        unsigned holder = 1u << (op.holder[0] - 'A');
        assert_true(model->may_hold[name] & holder);
        model->may_hold[name] = holder;
        model->sure[name] = true;
        return;
    }
    int compared = weir_token_compare(op.token, model->last[name]);
    if (model->sure[name]) {
        assert_int_equal(model->may_hold[name], 1u << owner); /* nobody else is granted what somebody holds */
        assert_true(compared >= 0);
    } else if (compared == 0) {
        assert_int_equal(model->last_owner[name], owner); /* its release was forgotten */
    } else {
        assert_true(compared > 0);
    }
    model->last[name] = op.token;
    model->last_owner[name] = owner;
    model->may_hold[name] = 1u << owner;
    model->sure[name] = true;
}

static void random_release(struct model *model, struct test_random *random)
{
    size_t name = test_random_below(random, NAMES), owner = test_random_below(random, OWNERS);
    char text[8];
    snprintf(text, sizeof text, "r%zu", name);
    struct weir_lock_op op = world_release(text, OWNER[owner]);
    assert_int_equal(op.status, 0);
    if (op.said == WEIR_LOCK_GRANTED) {
        assert_true(model->may_hold[name] & 1u << owner);
        /* Not durable: after a crash it may be held again. */
        model->sure[name] = false;
        model->may_hold[name] = 1u << owner;
    } else {
        assert_false(model->sure[name] && model->may_hold[name] == 1u << owner);
    }
}

void faults__tokens_grow_and_locks_hold_through_random_faults(void **state)
{
    (void)state;
    struct test_random random = { test_random_seed() };
    struct model model = { 0 };
    disk_back_up();
    for (int i = 0; i < 800; i++) {
        uint64_t what = test_random_below(&random, 300);
        if (what < 3)
            disk.sync = true;
        else if (what < 6)
            disk.write = true;
        else if (what < 9)
            disk_heal();
        else if (what < 11) {
            disk_heal();
            if (what == 9)
                disk_copy(disk_files.backup, disk_files.path);
            else
                unlink(disk_files.path);
            world_granted(world_acquire("notices", "A", TTL));
            world_granted(world_release("notices", "A"));
        } else if (what < 14) {
            disk_heal();
            disk.wall_s = (int64_t)test_random_below(&random, 2000000) - 1000000;
            world_reopen();
        } else if (what < 100)
            random_release(&model, &random);
        else
            random_acquire(&model, &random);
    }
}
