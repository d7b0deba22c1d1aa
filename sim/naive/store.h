/* SPDX-License-Identifier: Apache-2.0
 *
 * The store behind the naive ways: counters, with an expiry that somebody has to set. */
#pragma once

#include <stdint.h>

enum naive_verb {
    NAIVE_GET,
    NAIVE_INCR,
    NAIVE_EXPIRE, /* the counter goes a period from now */
    NAIVE_COUNT,  /* INCR, and EXPIRE if that made the counter, in one step */
};

/* A command, and its answer: the store fills in `value`, the rest comes back as it was. */
struct naive_command {
    enum naive_verb verb;
    uint32_t request;
    uint64_t counter; /* which one: its name */
    uint64_t value;   /* of the counter after the command */
};

#define WEIR_NAIVE_COUNTERS_MAX 16 /* more, and the one with the lowest name goes */

struct naive_store {
    struct naive_counter {
        uint64_t name;
        uint64_t count;      /* 0 = there is no such counter */
        uint64_t expires_ns; /* 0 = never */
    } counters[WEIR_NAIVE_COUNTERS_MAX];
};

void weir_naive_store_run(struct naive_store *store, struct naive_command *command, uint64_t period_ns,
                          uint64_t now_ns);
