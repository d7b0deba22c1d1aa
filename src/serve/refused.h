/* SPDX-License-Identifier: Apache-2.0
 *
 * Refusals on their way to observe/top.h and, some of them, to the log and the dashboard: which key of which limit it
 * was, and what it is called. Requests that are admitted do not come here; nor do limits in shadow, which refuse
 * nobody, and requests that lack an attribute of a key (`missing: refuse`) or meet no limit: they have no key. One
 * loop's thread. */
#pragma once

#include "limits/transaction.h"
#include "rules/rules.h"
#include "serve/loop.h"

struct weir_question; /* serve/decide.h */
struct weir_outcome;

/* The loop's setup is another one. */
void weir_refused_configure(struct weir_loop *loop, uint64_t now_ns);

/* A request was decided, and refused: counts the keys of the limits that refused it. */
void weir_refused_outcome(struct weir_loop *loop, const struct weir_question *question,
                          const struct weir_outcome *outcome, uint64_t now_ns);

/* The same of one charge of it, where several questions were decided together: that of the charge. */
void weir_refused_charge(struct weir_loop *loop, const struct weir_question *question,
                         const struct weir_outcome *outcome, size_t i, uint64_t now_ns);

/* A transaction waits, and the request goes: what its keys are called, on the heap; NULL: that is not wanted, or memory
 * is out, and then the keys have no text. One label for each part. */
struct weir_top_label *weir_refused_keep(const struct weir_loop *loop, const struct weir_question *question,
                                         const struct weir_match *match);
/* questions[i] is that of charge i. */
struct weir_top_label *weir_refused_keep_each(const struct weir_loop *loop,
                                              const struct weir_question *const *questions,
                                              const struct weir_match *match);
struct weir_top_label *weir_refused_keep_cell(const struct weir_loop *loop, struct weir_slice key);

/* It has been decided. */
void weir_refused_settled(struct weir_loop *loop, const struct weir_transaction *transaction, uint64_t now_ns);

/* CL.THROTTLE that were refused at one moment, in the order in which they came. */
struct weir_refused_cell {
    uint64_t hash;
    struct weir_slice key;
    uint64_t cost;
    uint64_t retry_after_ns; /* WEIR_NEVER */
};
void weir_refused_cells(struct weir_loop *loop, const struct weir_refused_cell *cells, size_t count, uint64_t now_ns);
