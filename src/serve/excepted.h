/* SPDX-License-Identifier: Apache-2.0
 *
 * What exceptions make of a request (docs/exceptions.md), before a limit or an engine is asked: it is refused where its
 * key is banned, charged by a level where its key has one, and at another counter where its key was reset. Where there
 * are no exceptions that costs three loads. */
#pragma once

#include "rules/excepted_keys.h"
#include "serve/decide.h"

static inline bool weir_excepted_any(const struct weir_loop *loop)
{
    return loop->common->excepted && weir_excepted_keys_any(loop->common->excepted);
}

/* The match goes by the levels of its keys, and by their counters. *ret_banned: of the charges whose key is banned, the
 * one that is for longest, and for how long still; the count of charges: none is. A limit in shadow refuses nobody, and
 * what costs nothing is not refused. Errors of weir_rules_match. */
int weir_excepted_match(struct weir_loop *loop, const struct weir_question *question, uint64_t wall_ns,
                        struct weir_match *match, size_t *ret_banned, uint64_t *ret_left_ns,
                        struct weir_fault *ret_fault);

/* The same, and *ret_banned: refused, and counted; nothing is charged. */
int weir_excepted_decide(struct weir_loop *loop, const struct weir_question *question, const struct weir_time *time,
                         struct weir_outcome *outcome, bool *ret_banned, struct weir_fault *ret_fault);
