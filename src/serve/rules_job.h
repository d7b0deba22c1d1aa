/* SPDX-License-Identifier: Apache-2.0
 *
 * One question of /v1/rules to the store of rules. A store blocks, so a thread of libuv's pool asks it, on a connection
 * of its own, and the loop that asked is told. What is asked and answered is in rules_answer.h.
 *
 * Bound: WEIR_RULES_JOBS_MAX at a time, half of the pool: the names of engines are looked up there, too, and a store
 * that hangs must not keep an engine away. Each ends within WEIR_RULES_TIMEOUTS times rules.timeout, and within one
 * once it was abandoned, so a loop that ends waits for it.
 *
 * Thread rule: a job is of its loop's thread. */
#pragma once

#include "serve/rules_answer.h"

#define WEIR_RULES_JOBS_MAX 2

struct weir_loop;
struct weir_rules_job;

/* The text of the question is copied. `then` is called once, on the loop's thread, unless the job was abandoned.
 * WEIR_ENOENT: the rules stand in the file; WEIR_ELIMIT: too many at once; WEIR_ENOMEM; WEIR_EINVAL with the fault: the
 * configuration's file cannot be read again. */
int weir_rules_job_start(struct weir_loop *loop, const struct weir_rules_question *question,
                         void (*then)(struct weir_rules_job *job, void *context), void *context,
                         struct weir_rules_job **ret_job, struct weir_fault *ret_fault);

/* In `then`. The body may be taken: set it to NULL. */
struct weir_rules_answer *weir_rules_job_answer(struct weir_rules_job *job);

/* One of these ends it: it was answered, or its connection goes first. */
void weir_rules_job_end(struct weir_rules_job *job);
void weir_rules_job_abandon(struct weir_rules_job *job);
