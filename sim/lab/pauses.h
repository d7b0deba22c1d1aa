/* SPDX-License-Identifier: Apache-2.0
 *
 * Question 1, what its two experiments have in common: the ways to guard a store, the orders in which the clients wake,
 * and the report. In virtual time it is sim/lab/pauses.c, with processes and a Redis cli/lab_pauses.c.
 *
 * Each of three clients takes the lock, reads the counter and pauses; the next one gets the lock when the lease of the
 * one before has ended. So all three pause at the same time, and each believes that it holds the lock. Then each wakes
 * and writes what it had read, plus one. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "sim/lab/lab.h"

#define LAB_PAUSES_CLIENTS 3
#define LAB_PAUSES_LEASE_MS 300
#define LAB_PAUSES_WAYS 4
#define LAB_PAUSES_X "writes that were tried; 4: the end"
#define LAB_PAUSES_ORDERS 2

struct lab_pauses_way {
    const char *name;
    bool checked;  /* the store compares the token of a write with its mark */
    bool durable;  /* the mark survives a restart of the store */
    bool installs; /* each client installs its token before it reads, and the store wants that */
};

struct lab_pauses_order {
    const char *name;
    uint32_t wakes[LAB_PAUSES_CLIENTS]; /* the client that wakes, 0: the one with the first token */
    bool restarts;                      /* the store does, after the first write */
};

static const struct lab_pauses_way lab_pauses_ways[LAB_PAUSES_WAYS] = {
    { "the lock alone", false, false, false },
    { "token checked, mark in memory", true, false, false },
    { "token checked, mark on disk", true, true, false },
    { "token installed before the read", true, true, true },
};

static const struct lab_pauses_order lab_pauses_orders[LAB_PAUSES_ORDERS] = {
    { "oldest first", { 0, 1, 2 }, false },
    { "newest first, restart", { 2, 0, 1 }, true },
};

/* What came of one way and one order: which writes were acknowledged, in the order in which they woke, and what the
 * counter was after each. */
struct lab_pauses_run {
    bool acknowledged[LAB_PAUSES_CLIENTS];
    uint64_t counter[LAB_PAUSES_CLIENTS];
};

void lab_pauses_report(const struct lab_pauses_way *way, const struct lab_pauses_order *order,
                       const struct lab_pauses_run *run, struct weir_lab_report *report);
