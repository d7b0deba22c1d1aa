/* SPDX-License-Identifier: Apache-2.0
 *
 * Several questions that are decided as one: all of them are admitted, or none is charged. A counter that more than one
 * of them meets is charged the sum. */
#pragma once

#include "serve/decide.h"

#define WEIR_TOGETHER_MAX 64

/* What became of one of them. */
struct weir_together {
    uint64_t charges; /* bit i: charge i of the outcome is its own, perhaps with others */
    bool met;         /* some limit applies, even if its mode is off */
    bool replaced;    /* all that apply are replaced by others */
    /* It is refused whatever its limits say, and the others are only looked at: */
    const struct weir_rule *barred_by; /* whose key lacks an attribute or is banned; NULL: none */
    uint64_t barred_ns;                /* for how long: WEIR_NEVER for good */
    bool banned;                       /* it is the latter */
    bool unmatched;                    /* it meets no limit, and such are refused */
};

static inline bool weir_together_is_barred(const struct weir_together *one)
{
    return one->barred_by || one->unmatched;
}

/* As weir_decide; all have the same `peek`. *ret_outcome is of the charges of all of them, and says nothing of those
 * that are barred: where one is, nothing was charged. Answers are never held. `scratch` is for the time of the call.
 * WEIR_ELIMIT too: together they meet more than WEIR_CHARGES_MAX limits. */
int weir_decide_together(struct weir_loop *loop, const struct weir_question *questions, size_t count,
                         const struct weir_time *time, struct weir_match *scratch, struct weir_outcome *ret_outcome,
                         struct weir_together *ret_each, struct weir_fault *ret_fault,
                         struct weir_transaction **ret_pending);
