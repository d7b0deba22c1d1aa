/* SPDX-License-Identifier: Apache-2.0
 *
 * Through engine.h: what an engine says, and that it still knows it after it was killed. */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "core/lease/incarnation.h"
#include "lock_world.h"

static int open_case(void **state)
{
    (void)state;
    world_open();
    world_granted(world_acquire("opened", "A", TTL)); /* its raise is made */
    world_granted(world_release("opened", "A"));
    return 0;
}

static int close_case(void **state)
{
    (void)state;
    if (lock_world.engine)
        world_close();
    return 0;
}

static bool same(struct weir_token a, struct weir_token b)
{
    return weir_token_compare(a, b) == 0;
}

/* ---- who holds it ---- */

static void lock__is_held_by_one_owner(void **state)
{
    (void)state;
    struct weir_lock_op granted = world_acquire("one", "A", TTL);
    struct weir_token token = world_granted(granted);
    assert_true(token.incarnation > 0 && token.incarnation < WEIR_INCARNATION_MAX && token.number > 0);
    assert_true(granted.lease_ns > TTL / 2 && granted.lease_ns <= TTL + SECOND);
    struct weir_lock_op other = world_acquire("one", "B", TTL);
    world_held_by(other, "A");
    assert_true(same(other.token, token));
    assert_true(other.lease_ns > 0 && other.lease_ns <= TTL + SECOND);
    world_held_by(world_show("one"), "A");
    world_free(world_release("one", "B"));
    world_free(world_renew("one", "B", TTL));
    assert_true(same(world_granted(world_renew("one", "A", TTL)), token));
    world_granted(world_release("one", "A"));
    world_free(world_show("one"));
    world_free(world_release("one", "A"));
    world_after(world_granted(world_acquire("one", "B", TTL)), token);
    world_granted(world_release("one", "B"));
}

static void lock__reentry_and_renewal_keep_the_token(void **state)
{
    (void)state;
    struct weir_token token = world_granted(world_acquire("again", "A", TTL));
    for (int i = 0; i < 5; i++) {
        assert_true(same(world_granted(world_acquire("again", "A", TTL)), token));
        assert_true(same(world_granted(world_renew("again", "A", TTL)), token));
    }
    world_granted(world_release("again", "A"));
}

static void lock__a_lease_never_becomes_shorter(void **state)
{
    (void)state;
    world_granted(world_acquire("long", "A", TTL));
    assert_true(world_acquire("long", "A", SHORT).lease_ns > TTL / 2);
    assert_true(world_renew("long", "A", SHORT).lease_ns > TTL / 2);
    assert_true(world_renew("long", "A", 2 * TTL).lease_ns > TTL + TTL / 2);
    world_granted(world_release("long", "A"));
}

static void lock__tokens_strictly_increase_through_release_and_regrant(void **state)
{
    (void)state;
    struct weir_token last = { 0 };
    for (int i = 0; i < 30; i++) {
        const char *owner = i % 3 == 0 ? "A" : "B";
        struct weir_token token = world_granted(world_acquire("steps", owner, TTL));
        world_after(token, last);
        last = token;
        world_granted(world_release("steps", owner));
    }
}

static void lock__names_and_owners_may_be_any_bytes(void **state)
{
    (void)state;
    char long_name[WEIR_LOCK_NAME_MAX], other_name[WEIR_LOCK_NAME_MAX], owner[WEIR_LOCK_OWNER_MAX];
    for (size_t i = 0; i < sizeof long_name; i++)
        long_name[i] = (char)(i * 7 + lock_world.prefix);
    memcpy(long_name, &lock_world.prefix, sizeof lock_world.prefix);
    memcpy(other_name, long_name, sizeof long_name);
    other_name[sizeof other_name - 1] ^= 1;
    memset(owner, 0, sizeof owner);
    struct weir_slice names[] = {
        { long_name, sizeof long_name },
        { other_name, sizeof other_name },
        { long_name, sizeof long_name - 1 },
        { long_name, 9 },
        { long_name, 10 },
    };
    struct weir_slice zeros = { owner, sizeof owner }, fewer = { owner, sizeof owner - 1 };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        struct weir_token token = world_granted(world_do(WEIR_LOCK_ACQUIRE, names[i], zeros, TTL));
        struct weir_lock_op held = world_do(WEIR_LOCK_ACQUIRE, names[i], fewer, TTL);
        assert_int_equal(held.said, WEIR_LOCK_HELD);
        assert_int_equal(held.holder_size, sizeof owner);
        assert_true(same(held.token, token));
    }
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        world_free(world_do(WEIR_LOCK_RELEASE, names[i], fewer, 0));
        world_granted(world_do(WEIR_LOCK_RELEASE, names[i], zeros, 0));
    }
}

/* ---- batches ---- */

static void lock__a_batch_is_decided_in_its_order(void **state)
{
    (void)state;
    struct weir_slice name = world_name("batch"), a = world_text("A"), b = world_text("B");
    struct weir_lock_op ops[] = {
        { .verb = WEIR_LOCK_SHOW, .name = name },
        { .verb = WEIR_LOCK_ACQUIRE, .name = name, .owner = a, .ttl_ns = TTL },
        { .verb = WEIR_LOCK_ACQUIRE, .name = name, .owner = b, .ttl_ns = TTL },
        { .verb = WEIR_LOCK_ACQUIRE, .name = name, .owner = a, .ttl_ns = TTL },
        { .verb = WEIR_LOCK_RELEASE, .name = name, .owner = a },
        { .verb = WEIR_LOCK_RENEW, .name = name, .owner = a, .ttl_ns = TTL },
        { .verb = WEIR_LOCK_ACQUIRE, .name = name, .owner = b, .ttl_ns = TTL },
        { .verb = WEIR_LOCK_SHOW, .name = name },
        { .verb = WEIR_LOCK_RELEASE, .name = name, .owner = b },
    };
    world_apply(ops, sizeof ops / sizeof ops[0]);
    world_free(ops[0]);
    struct weir_token token = world_granted(ops[1]);
    world_held_by(ops[2], "A");
    assert_true(same(world_granted(ops[3]), token));
    world_granted(ops[4]);
    world_free(ops[5]);
    world_after(world_granted(ops[6]), token);
    world_held_by(ops[7], "B");
    world_granted(ops[8]);
}

static void lock__a_full_batch_is_granted(void **state)
{
    (void)state;
    size_t count = lock_world.alone ? WEIR_LOCK_BATCH_MAX : 64;
    static char names[WEIR_LOCK_BATCH_MAX][32];
    struct weir_lock_op *ops = test_calloc(count, sizeof *ops);
    for (size_t i = 0; i < count; i++) {
        int size = snprintf(names[i], sizeof names[i], "%016llx/%zu", (unsigned long long)lock_world.prefix, i);
        ops[i] = (struct weir_lock_op){
            .verb = WEIR_LOCK_ACQUIRE, .name = { names[i], (size_t)size }, .owner = world_text("A"), .ttl_ns = TTL
        };
    }
    world_apply(ops, count);
    for (size_t i = 0; i < count; i++) {
        world_granted(ops[i]);
        ops[i].verb = WEIR_LOCK_RELEASE;
    }
    world_apply(ops, count);
    for (size_t i = 0; i < count; i++)
        world_granted(ops[i]);
    test_free(ops);
}

/* ---- leases that end ---- */

static void lock__after_its_end_a_lease_is_lost(void **state)
{
    (void)state;
    struct weir_token taken = world_granted(world_acquire("taken", "A", SHORT));
    struct weir_token again = world_granted(world_acquire("again-late", "A", SHORT));
    world_granted(world_acquire("renew-late", "A", SHORT));
    world_granted(world_acquire("release-late", "A", SHORT));
    world_granted(world_acquire("kept", "A", SHORT));
    world_granted(world_renew("kept", "A", TTL));
    world_sleep(SHORT + SECOND + SECOND / 2); /* etcd counts whole seconds */
    world_free(world_renew("renew-late", "A", TTL));
    world_free(world_release("release-late", "A"));
    world_after(world_granted(world_acquire("again-late", "A", TTL)), again);
    world_after(world_granted(world_acquire("taken", "B", TTL)), taken);
    world_free(world_renew("taken", "A", TTL));
    world_held_by(world_acquire("kept", "B", TTL), "A");
}

/* ---- incarnations ---- */

static void lock__a_mark_seen_raises_the_incarnation_above_it(void **state)
{
    (void)state;
    struct weir_token before = world_granted(world_acquire("marks", "A", TTL));
    struct weir_lock_op op = { .verb = WEIR_LOCK_ACQUIRE,
                               .name = world_name("marked"),
                               .owner = world_text("A"),
                               .ttl_ns = TTL,
                               .seen = before.incarnation + 1000 };
    world_apply(&op, 1);
    struct weir_token raised = world_granted(op);
    assert_true(raised.incarnation > before.incarnation + 1000);
    /* Numbers are of a name: only the incarnation of another name's token is to be compared. */
    assert_true(world_granted(world_acquire("later", "A", TTL)).incarnation >= raised.incarnation);
    /* Who holds on is not disturbed. */
    assert_true(same(world_granted(world_renew("marks", "A", TTL)), before));
    static const uint64_t NOT_BELIEVED[] = { WEIR_INCARNATION_MAX + 1, WEIR_INCARNATION_MAX - 1, UINT64_MAX,
                                             WEIR_INCARNATION_MAX / 2 + 1 };
    for (size_t i = 0; i < sizeof NOT_BELIEVED / sizeof NOT_BELIEVED[0]; i++) {
        op.seen = NOT_BELIEVED[i];
        world_apply(&op, 1);
        assert_int_equal(op.status, WEIR_ERANGE);
    }
    world_reopen(); /* nobody's word has used up what a start rises in */
    world_granted(world_acquire("after", "A", TTL));
}

static void lock__a_holder_fenced_by_a_later_incarnation_gets_a_new_token(void **state)
{
    (void)state;
    struct weir_token before = world_granted(world_acquire("fenced", "A", TTL));
    struct weir_lock_op op = { .verb = WEIR_LOCK_ACQUIRE,
                               .name = world_name("fenced"),
                               .owner = world_text("A"),
                               .ttl_ns = TTL,
                               .seen = before.incarnation + 7 };
    world_apply(&op, 1);
    assert_true(world_granted(op).incarnation > before.incarnation + 7);
    world_held_by(world_acquire("fenced", "B", TTL), "A");
}

static void lock__restored_raises_the_incarnation(void **state)
{
    (void)state;
    struct weir_token before = world_granted(world_acquire("restored", "A", TTL));
    world_granted(world_release("restored", "A"));
    struct weir_lock_op op = { .verb = WEIR_LOCK_RAISE };
    world_apply(&op, 1);
    assert_true(world_granted(op).incarnation > before.incarnation);
    op.seen = op.token.incarnation + 50;
    world_apply(&op, 1);
    assert_true(world_granted(op).incarnation > op.seen);
    assert_true(world_granted(world_acquire("restored", "A", TTL)).incarnation >= op.token.incarnation);
    op.seen = WEIR_INCARNATION_MAX - 1;
    world_apply(&op, 1);
    assert_int_equal(op.status, WEIR_ERANGE);
    struct weir_lock_engine_state shown;
    lock_world.engine->ops->state(lock_world.engine, &shown);
    assert_true(shown.up && shown.incarnation > before.incarnation && shown.raised >= 3);
    assert_string_equal(shown.name, lock_world.kind);
}

static void lock__a_restart_raises_the_incarnation_and_keeps_what_is_held(void **state)
{
    (void)state;
    struct weir_token held = world_granted(world_acquire("held", "A", TTL));
    struct weir_token released = world_granted(world_acquire("released", "A", TTL));
    world_granted(world_release("released", "A"));
    for (int i = 0; i < 3; i++) {
        world_reopen();
        struct weir_token token = world_granted(world_acquire("released", "B", TTL));
        assert_true(token.incarnation > released.incarnation);
        released = token;
        world_granted(world_release("released", "B"));
        world_held_by(world_acquire("held", "B", TTL), "A");
        assert_true(same(world_granted(world_acquire("held", "A", TTL)), held));
    }
    world_granted(world_release("held", "A"));
}

/* By how much the incarnation is above the clock; what other cases have seen may have put it there. */
static int64_t ahead_s(void)
{
    struct weir_lock_engine_state shown;
    world_granted(world_acquire("ahead", "A", TTL));
    lock_world.engine->ops->state(lock_world.engine, &shown);
    struct timespec now; /* time() may be a tick behind, and still be in the second before */
    assert_int_equal(clock_gettime(CLOCK_REALTIME, &now), 0);
    return (int64_t)shown.incarnation - (int64_t)now.tv_sec;
}

static void lock__starts_and_raises_do_not_outrun_the_clock(void **state)
{
    (void)state;
    int64_t before = ahead_s();
    for (int i = 0; i < 3; i++) {
        world_reopen();
        assert_true(ahead_s() <= (before > 0 ? before : 0));
    }
    for (int i = 0; i < 3; i++) {
        struct weir_lock_op op = { .verb = WEIR_LOCK_RAISE };
        world_apply(&op, 1);
        world_granted(op);
        assert_true(ahead_s() <= (before > 0 ? before : 0));
    }
}

/* From here on every raise waits for the clock's next second. */
static void put_above_the_clock(void)
{
    struct weir_lock_engine_state shown;
    lock_world.engine->ops->state(lock_world.engine, &shown);
    struct weir_lock_op op = { .verb = WEIR_LOCK_RAISE, .seen = shown.incarnation + 1000 };
    world_apply(&op, 1);
    world_granted(op);
}

/* All of one batch. True: the raise that the store needs waited, and held up new tokens alone. */
static bool goes_on_beside_a_raise(struct weir_token held)
{
    struct weir_lock_engine *engine = lock_world.engine;
    struct weir_slice a = world_text("A"), b = world_text("B"), name = world_name("held"), left = world_name("left");
    struct weir_lock_op ops[] = {
        { .verb = WEIR_LOCK_ACQUIRE, .name = world_name("new"), .owner = b, .ttl_ns = TTL },
        { .verb = WEIR_LOCK_RENEW, .name = name, .owner = a, .ttl_ns = TTL },
        { .verb = WEIR_LOCK_RENEW, .name = name, .owner = a, .ttl_ns = 2 * TTL },
        { .verb = WEIR_LOCK_ACQUIRE, .name = name, .owner = a, .ttl_ns = TTL },
        { .verb = WEIR_LOCK_ACQUIRE, .name = name, .owner = b, .ttl_ns = TTL },
        { .verb = WEIR_LOCK_RENEW, .name = name, .owner = b, .ttl_ns = TTL },
        { .verb = WEIR_LOCK_SHOW, .name = name },
        { .verb = WEIR_LOCK_RELEASE, .name = left, .owner = a },
        { .verb = WEIR_LOCK_ACQUIRE, .name = left, .owner = b, .ttl_ns = TTL },
        { .verb = WEIR_LOCK_SHOW, .name = left },
    };
    world_apply_once(ops, sizeof ops / sizeof ops[0]);
    for (int i = 1; i <= 3; i++)
        assert_true(same(world_granted(ops[i]), held));
    assert_true(ops[2].lease_ns > TTL);
    world_held_by(ops[4], "A");
    world_free(ops[5]);
    world_held_by(ops[6], "A");
    world_granted(ops[7]);
    struct weir_lock_op renew = { .verb = WEIR_LOCK_RENEW, .name = name, .owner = a, .ttl_ns = TTL };
    assert_true(!engine->ops->quick || engine->ops->quick(engine, &renew));
    assert_true(!engine->ops->quick || same(world_granted(renew), held));
    bool waited = ops[0].status == WEIR_EDOWN;
    assert_int_equal(ops[8].status, ops[0].status);
    for (int i = 0; i <= 8; i += 8) {
        assert_true(!waited || ops[i].due_ns > 0);
        world_apply(&ops[i], 1);
        assert_true(world_granted(ops[i]).incarnation > held.incarnation);
    }
    if (waited)
        world_free(ops[9]);
    world_granted(world_release("new", "B"));
    world_granted(world_release("left", "B"));
    return waited;
}

/* A restart of weir; and a store that was lost and heals, where a case can do that (those of servers: tests/live). */
static void lock__what_is_held_goes_on_while_the_stores_own_raise_waits(void **state)
{
    (void)state;
    put_above_the_clock();
    struct weir_token held = world_granted(world_acquire("held", "A", TTL));
    for (int i = 0; i < (lock_world.alone ? 4 : 2); i++) {
        for (int j = 0;; j++) { /* the clock may just have come so far: then it is raised at once */
            assert_true(j < 100);
            world_granted(world_acquire("left", "A", TTL));
            if (i >= 2) {
                world_sleep(SECOND / 5); /* one that is lost again at once stays down until it may be opened again */
                assert_int_equal(unlink(lock_world.arguments[0]), 0);
            } else {
                world_reopen();
            }
            if (goes_on_beside_a_raise(held))
                break;
        }
        assert_true(same(world_granted(world_renew("held", "A", TTL)), held));
    }
    world_granted(world_release("held", "A"));
}

/* Who asks for a raise above the clock waits alone: what others ask in its batch is answered, and they lose nothing. */
static void lock__a_raise_that_is_asked_for_holds_up_nobody_else(void **state)
{
    (void)state;
    struct weir_token held = world_granted(world_acquire("held", "A", TTL));
    for (int i = 0; i < 6; i++) {
        bool raise = i % 2 == 1, put_off = false;
        for (int j = 0; !put_off; j++) { /* the clock may just have come so far: then it is granted at once */
            assert_true(j < 100);
            struct weir_lock_engine_state shown;
            lock_world.engine->ops->state(lock_world.engine, &shown);
            struct weir_lock_op ops[] = {
                { .verb = raise ? WEIR_LOCK_RAISE : WEIR_LOCK_ACQUIRE,
                  .name = world_name("asks"),
                  .owner = world_text("B"),
                  .ttl_ns = TTL,
                  .seen = shown.incarnation + 1 },
                { .verb = WEIR_LOCK_RENEW, .name = world_name("held"), .owner = world_text("A"), .ttl_ns = TTL },
                { .verb = WEIR_LOCK_ACQUIRE, .name = world_name("new"), .owner = world_text("C"), .ttl_ns = TTL },
                { .verb = WEIR_LOCK_RELEASE, .name = world_name("new"), .owner = world_text("C") },
            };
            world_apply_once(ops, 4);
            put_off = ops[0].status == WEIR_EDOWN;
            assert_true(put_off ? ops[0].due_ns > 0 : ops[0].token.incarnation > ops[0].seen);
            assert_true(same(world_granted(ops[1]), held));
            assert_int_equal(world_granted(ops[2]).incarnation, put_off ? shown.incarnation : ops[0].token.incarnation);
            world_granted(ops[3]);
            lock_world.engine->ops->state(lock_world.engine, &shown);
            assert_true(shown.up); /* nothing is wrong with the store */
            assert_string_equal(shown.fault, "");
            if (put_off && i >= 4) { /* and once it is due it is done */
                world_apply(ops, 1);
                assert_true(world_granted(ops[0]).incarnation > ops[0].seen);
                world_granted(world_renew("held", "A", TTL));
            }
        }
    }
    world_granted(world_release("held", "A"));
}

/* A child takes the locks, tells the tokens of them, and is killed before it can say goodbye. */
static void child(int fd)
{
    world_open();
    struct weir_lock_op ops[2] = {
        { .verb = WEIR_LOCK_ACQUIRE, .name = world_name("killed"), .owner = world_text("A"), .ttl_ns = TTL },
        { .verb = WEIR_LOCK_ACQUIRE, .name = world_name("killed-b"), .owner = world_text("A"), .ttl_ns = TTL },
    };
    world_apply(ops, 2);
    if (ops[0].status == 0 && ops[1].status == 0 &&
        write(fd, &ops[1].token, sizeof ops[1].token) == sizeof ops[1].token)
        kill(getpid(), SIGKILL);
    struct weir_lock_engine_state shown;
    lock_world.engine->ops->state(lock_world.engine, &shown);
    fprintf(stderr, "the child: %s, %s: %s\n", weir_error_name(ops[0].status), weir_error_name(ops[1].status),
            shown.fault);
    _exit(1);
}

static void lock__a_grant_survives_kill_9_and_its_owner_gets_the_same_token(void **state)
{
    (void)state;
    world_close();
    struct weir_token last = { 0 };
    for (int i = 0; i < 3; i++) {
        int ends[2];
        assert_int_equal(pipe(ends), 0);
        pid_t pid = fork();
        if (pid == 0)
            child(ends[1]);
        close(ends[1]);
        struct weir_token token = { 0 };
        ssize_t size = read(ends[0], &token, sizeof token);
        close(ends[0]);
        int status = 0;
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_int_equal(size, sizeof token);
        assert_true(WIFSIGNALED(status));
        if (i > 0)
            assert_true(same(token, last)); /* it held them when it died before, and asked again */
        last = token;
        world_open();
        world_held_by(world_acquire("killed", "B", TTL), "A");
        assert_true(same(world_granted(world_acquire("killed-b", "A", TTL)), token));
        world_after(world_granted(world_acquire("killed-c", "A", TTL)), token);
        world_granted(world_release("killed-c", "A"));
        world_close();
    }
    world_open();
    world_granted(world_release("killed", "A"));
}

int lock_engine_cases(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, open_case, close_case)
    const struct CMUnitTest quick[] = {
        CASE(lock__is_held_by_one_owner),
        CASE(lock__reentry_and_renewal_keep_the_token),
        CASE(lock__a_lease_never_becomes_shorter),
        CASE(lock__tokens_strictly_increase_through_release_and_regrant),
        CASE(lock__names_and_owners_may_be_any_bytes),
        CASE(lock__a_batch_is_decided_in_its_order),
        CASE(lock__a_full_batch_is_granted),
        CASE(lock__a_mark_seen_raises_the_incarnation_above_it),
        CASE(lock__a_holder_fenced_by_a_later_incarnation_gets_a_new_token),
        CASE(lock__restored_raises_the_incarnation),
        CASE(lock__starts_and_raises_do_not_outrun_the_clock),
        CASE(lock__what_is_held_goes_on_while_the_stores_own_raise_waits),
        CASE(lock__a_raise_that_is_asked_for_holds_up_nobody_else),
        CASE(lock__a_restart_raises_the_incarnation_and_keeps_what_is_held),
        CASE(lock__a_grant_survives_kill_9_and_its_owner_gets_the_same_token),
    };
    const struct CMUnitTest slow[] = { CASE(lock__after_its_end_a_lease_is_lost) };
#undef CASE
    int failed = cmocka_run_group_tests_name("engine", quick, NULL, NULL);
    return lock_world.fast ? failed : failed + cmocka_run_group_tests_name("engine, slow", slow, NULL, NULL);
}
