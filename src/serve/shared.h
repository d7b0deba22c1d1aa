/* SPDX-License-Identifier: Apache-2.0
 *
 * Requests that meet limits shared with other nodes: what limits/transaction.h needs of a loop, and what it says of
 * them. One loop's thread only. */
#pragma once

#include "limits/transaction.h"
#include "serve/decide.h"

extern const struct weir_transactions_ops weir_shared_ops; /* their context is the loop */

/* Decides outcome->match, or begins to: *ret_pending is NULL and the outcome is whole, or the answer comes later. */
int weir_shared_decide(struct weir_loop *loop, const struct weir_question *question, const struct weir_time *time,
                       struct weir_outcome *outcome, struct weir_transaction **ret_pending);

/* As weir_refund where a limit of `match` is shared. Of what is leased or batched the engine gives back; gossip gives
 * nothing back. */
void weir_shared_refund(struct weir_loop *loop, const struct weir_match *match, const struct weir_time *time,
                        uint64_t *ret_units, struct weir_transaction **ret_pending);

/* The keys become fresh, all of them at the engine; for each whether it was there. Without the engine's answer an
 * error, here or as the outcome: they may be fresh or not. */
int weir_shared_forget(struct weir_loop *loop, const struct weir_match *match, const struct weir_time *time,
                       uint64_t *ret_found, struct weir_transaction **ret_pending);

/* What came of one that was pending, when it says so. An error as weir_limiter_decide. */
int weir_shared_outcome(const struct weir_transaction *transaction, struct weir_outcome *ret_outcome);
