/* SPDX-License-Identifier: Apache-2.0
 *
 * Between envoy.c, which decides, envoy_question.c, envoy_override.c, envoy_hits.c and
 * envoy_tell.c. */
#pragma once

#include "serve/envoy.h"

/* ---- envoy_question.c ---- */

/* What work->request asks of these rules: work->questions, whose attributes point into it and into work. */
void weir_envoy_questions_make(struct weir_envoy_work *work, const struct weir_rules *rules);

/* ---- envoy_tell.c ---- */

bool weir_envoy_refused_one(const struct weir_envoy_ask *ask, size_t descriptor);
bool weir_envoy_refused_any(const struct weir_envoy_ask *ask);

/* The answer of what is decided, in work->answer. */
void weir_envoy_tell(const struct weir_envoy_ask *ask, struct weir_envoy_work *work);

/* ---- envoy_hits.c ---- */

/* Counts what is decided, as envoyproxy/ratelimit does. */
void weir_envoy_hits_count(const struct weir_envoy_ask *ask);

/* ---- envoy_override.c ---- */

/* Descriptors with a limit of their own: what it would say now, as a part each. WEIR_EINVAL, WEIR_ERANGE: there is no
 * such limit; WEIR_ELIMIT. */
int weir_envoy_overrides_look(struct weir_envoy_ask *ask, const struct weir_envoy_work *work,
                              const struct weir_time *time, struct weir_fault *ret_fault);

/* Charges them, unless the question is refused. */
void weir_envoy_overrides_charge(struct weir_envoy_ask *ask, const struct weir_time *time);
