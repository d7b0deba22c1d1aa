/* SPDX-License-Identifier: Apache-2.0
 *
 * What is told of a transaction of the world of transaction_world.h, once it has ended. For one file of a program. */
#pragma once

#include "transaction_world.h"

static struct world the_world; /* too large for a stack */

static struct world *world(enum weir_on_failure on_failure)
{
    world_init(&the_world, 1, 10, on_failure);
    return &the_world;
}

/* Of one that was answered: of its first limit, and of it all. */
struct told {
    struct weir_verdict verdict;
    bool admitted, fell_back, unknown;
    int error;
};

static void note(struct told *told, const struct weir_transaction *transaction)
{
    *told = (struct told){ .fell_back = transaction->parts[0].fell_back,
                           .unknown = transaction->unknown,
                           .error = transaction->error };
    if (transaction->verb != WEIR_TRANSACTION_FORGET) { /* which decides nothing */
        told->verdict = transaction->parts[0].verdict;
        told->admitted = weir_transaction_decision(transaction).admitted;
    }
}

static void on_done(struct weir_transaction *transaction, void *context)
{
    note(context, transaction);
    weir_transaction_end(transaction);
}

/* One of this cost, and all the time that it takes. */
static struct told ask_key(struct world *w, enum weir_transaction_verb verb, size_t limit, size_t key, uint64_t cost)
{
    struct told told = { .error = -1 };
    struct weir_transaction *transaction = begin(w, verb);
    add(w, transaction, limit, key, cost);
    struct weir_transaction *pending = run(w, transaction);
    if (pending) {
        weir_transaction_then(pending, on_done, &told);
        world_run(w, SECOND);
        assert_int_equal(w->of.under_way, 0);
    } else {
        note(&told, transaction);
    }
    return told;
}

static struct told ask(struct world *w, enum weir_transaction_verb verb, size_t limit, uint64_t cost)
{
    return ask_key(w, verb, limit, 0, cost);
}
