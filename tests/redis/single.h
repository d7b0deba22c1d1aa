/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls one at a time, and what is expected of each. */
#pragma once

#include "server.h"

#define NOW_S 1750000000
#define NOW_NS (NOW_S * WEIR_NS_PER_SECOND)

extern int failures;      /* of what was checked */
extern uint64_t clock_ns; /* of what is asked */

void check(bool good, const char *what);

const struct weir_remote_limit *limit_of(struct weir_limit_spec spec);
struct weir_remote_op op_of(const struct weir_remote_limit *limit, const char *value, uint64_t units);

int ask(struct server *server, enum weir_remote_verb verb, struct weir_remote_op *ops, size_t count, const uint64_t *id,
        struct weir_script_call *ret_call);
int decide(struct server *server, struct weir_remote_op *op);

/* A reply's number, or its length where it is a string; -100 for anything else. */
long long command(struct server *server, const char *name, const struct weir_remote_op *op, const void *value,
                  size_t size);
