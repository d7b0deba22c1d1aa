/* SPDX-License-Identifier: Apache-2.0
 *
 * What every lock engine must pass: the suite's world. One engine, opened as the command line says, once per case. */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "locks/engine.h"

#define SECOND UINT64_C(1000000000)
#define TTL (60 * SECOND)
#define SHORT (2 * SECOND) /* the shortest lease that there is */

struct lock_world {
    const char *kind;
    char **arguments; /* of the command line, after the kind */
    bool fast;        /* without the cases that wait for leases to end */
    size_t waiters;   /* how many wait in the case that counts them */
    bool alone;       /* the engine has its store to itself */
    uint64_t prefix;  /* of this run's names */
    struct weir_lock_engine *engine;
};

extern struct lock_world lock_world;

/* Opens the engine; the case fails if it cannot be. */
void world_open(void);
void world_close(void);
void world_reopen(void);

/* A name of this run: its text stays until the next 15 are made. */
struct weir_slice world_name(const char *name);
struct weir_slice world_text(const char *text);

/* One op by itself. */
struct weir_lock_op world_do(enum weir_lock_verb verb, struct weir_slice name, struct weir_slice owner,
                             uint64_t ttl_ns);
struct weir_lock_op world_acquire(const char *name, const char *owner, uint64_t ttl_ns);
struct weir_lock_op world_renew(const char *name, const char *owner, uint64_t ttl_ns);
struct weir_lock_op world_release(const char *name, const char *owner);
struct weir_lock_op world_show(const char *name);
void world_apply(struct weir_lock_op *ops, size_t count);      /* as a manager: what is put off is asked again */
void world_apply_once(struct weir_lock_op *ops, size_t count); /* what is put off has a due_ns */

/* Asserts. */
struct weir_token world_granted(struct weir_lock_op op);
void world_held_by(struct weir_lock_op op, const char *owner);
void world_free(struct weir_lock_op op);
void world_after(struct weir_token later, struct weir_token earlier);

void world_sleep(uint64_t ns);
uint64_t world_now_ns(void);

int lock_engine_cases(void);
int lock_manager_cases(void);
