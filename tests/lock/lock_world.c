/* SPDX-License-Identifier: Apache-2.0 */
#include "lock_world.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "locks/open.h"

struct lock_world lock_world;

/* ---- opening ---- */

static int open_sqlite(char **arguments, struct weir_lock_engine **ret_engine, struct weir_fault *ret_fault)
{
    struct weir_lock_sqlite_options options = { .path = arguments[0], .witness = arguments[1] };
    return weir_lock_sqlite_open(&options, ret_engine, ret_fault);
}

static int open_etcd(char **arguments, struct weir_lock_engine **ret_engine, struct weir_fault *ret_fault)
{
    const char *endpoints[] = { arguments[0] };
    struct weir_lock_etcd_options options = { .endpoints = endpoints, .endpoints_count = 1, .witness = arguments[1] };
    return weir_lock_etcd_open(&options, ret_engine, ret_fault);
}

static int open_postgres(char **arguments, struct weir_lock_engine **ret_engine, struct weir_fault *ret_fault)
{
    struct weir_lock_postgres_options options = { .conninfo = arguments[0], .witness = arguments[1] };
    return weir_lock_postgres_open(&options, ret_engine, ret_fault);
}

static const struct kind {
    const char *name;
    int (*open)(char **arguments, struct weir_lock_engine **ret_engine, struct weir_fault *ret_fault);
} KINDS[] = {
    { "sqlite", open_sqlite },
    { "etcd", open_etcd },
    { "postgres", open_postgres },
};

/* The engine's own word, where an answer is not what it should be. */
static void fail_unless_done(const struct weir_lock_op *op)
{
    struct weir_lock_engine_state shown;
    if (op->status == 0)
        return;
    lock_world.engine->ops->state(lock_world.engine, &shown);
    fail_msg("%s: %s", weir_error_name(op->status), shown.fault);
}

/* Behind a server, opening may take longer than the engine gives it (its raise waits for the clock's next second): then
 * batches go on to try, and answer WEIR_EDOWN at once while it rests between. */
static void await_engine(void)
{
    const uint64_t end_ns = world_now_ns() + 60 * SECOND;
    struct weir_lock_op op = world_show("awaited");
    for (; op.status == WEIR_EDOWN && world_now_ns() < end_ns; op = world_show("awaited"))
        world_sleep(SECOND / 50);
    fail_unless_done(&op);
}

void world_open(void)
{
    struct weir_fault fault = { 0 };
    int error = WEIR_EINVAL;
    for (size_t i = 0; i < sizeof KINDS / sizeof KINDS[0]; i++)
        if (strcmp(KINDS[i].name, lock_world.kind) == 0)
            error = KINDS[i].open(lock_world.arguments, &lock_world.engine, &fault);
    if (error)
        fail_msg("%s does not open: %s: %s %s", lock_world.kind, weir_error_name(error), fault.field, fault.text);
    if (strcmp(lock_world.kind, "sqlite") != 0)
        await_engine();
}

void world_close(void)
{
    lock_world.engine->ops->destroy(lock_world.engine);
    lock_world.engine = NULL;
}

void world_reopen(void)
{
    world_close();
    world_open();
}

/* ---- asking ---- */

struct weir_slice world_text(const char *text)
{
    return (struct weir_slice){ text, strlen(text) };
}

struct weir_slice world_name(const char *name)
{
    static char texts[16][64];
    static size_t next;
    char *text = texts[next++ % 16];
    int size = snprintf(text, sizeof texts[0], "%016llx/%s", (unsigned long long)lock_world.prefix, name);
    return (struct weir_slice){ text, (size_t)size };
}

void world_apply_once(struct weir_lock_op *ops, size_t count)
{
    lock_world.engine->ops->apply(lock_world.engine, ops, count, world_now_ns() + 10 * SECOND);
}

void world_apply(struct weir_lock_op *ops, size_t count)
{
    world_apply_once(ops, count);
    for (size_t i = 0; i < count; i++)
        while (ops[i].status == WEIR_EDOWN && ops[i].due_ns > 0) {
            const struct timespec due = { .tv_sec = (time_t)(ops[i].due_ns / SECOND),
                                          .tv_nsec = (long)(ops[i].due_ns % SECOND) };
            while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &due, NULL) == EINTR) {
            }
            world_apply_once(&ops[i], 1);
        }
}

struct weir_lock_op world_do(enum weir_lock_verb verb, struct weir_slice name, struct weir_slice owner, uint64_t ttl_ns)
{
    struct weir_lock_op op = { .verb = verb, .name = name, .owner = owner, .ttl_ns = ttl_ns };
    world_apply(&op, 1);
    return op;
}

struct weir_lock_op world_acquire(const char *name, const char *owner, uint64_t ttl_ns)
{
    return world_do(WEIR_LOCK_ACQUIRE, world_name(name), world_text(owner), ttl_ns);
}

struct weir_lock_op world_renew(const char *name, const char *owner, uint64_t ttl_ns)
{
    return world_do(WEIR_LOCK_RENEW, world_name(name), world_text(owner), ttl_ns);
}

struct weir_lock_op world_release(const char *name, const char *owner)
{
    return world_do(WEIR_LOCK_RELEASE, world_name(name), world_text(owner), 0);
}

struct weir_lock_op world_show(const char *name)
{
    return world_do(WEIR_LOCK_SHOW, world_name(name), (struct weir_slice){ 0 }, 0);
}

/* ---- asserting ---- */

struct weir_token world_granted(struct weir_lock_op op)
{
    fail_unless_done(&op);
    assert_int_equal(op.said, WEIR_LOCK_GRANTED);
    return op.token;
}

void world_held_by(struct weir_lock_op op, const char *owner)
{
    fail_unless_done(&op);
    assert_int_equal(op.said, op.verb == WEIR_LOCK_SHOW ? WEIR_LOCK_GRANTED : WEIR_LOCK_HELD);
    assert_int_equal(op.holder_size, strlen(owner));
    assert_memory_equal(op.holder, owner, op.holder_size);
    assert_true(op.token.number > 0);
}

void world_free(struct weir_lock_op op)
{
    fail_unless_done(&op);
    assert_int_equal(op.said, WEIR_LOCK_FREE);
}

void world_after(struct weir_token later, struct weir_token earlier)
{
    assert_true(weir_token_compare(later, earlier) > 0);
}

/* ---- time ---- */

uint64_t world_now_ns(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * SECOND + (uint64_t)time.tv_nsec;
}

void world_sleep(uint64_t ns)
{
    struct timespec left = { .tv_sec = (time_t)(ns / SECOND), .tv_nsec = (long)(ns % SECOND) };
    while (nanosleep(&left, &left) != 0 && errno == EINTR) {
    }
}
