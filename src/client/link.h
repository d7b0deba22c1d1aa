/* SPDX-License-Identifier: Apache-2.0
 *
 * Links: connections to one weir server, one question at a time each. A question that waits for a day has a link of its
 * own; those that are idle are kept for the next.
 *
 * Thread rule: any thread, but for create and destroy. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "weir/lock.h"
#include "wire/resp_answer.h"

#define WEIR_LINK_IDLE_MAX 8      /* more are closed when their question is answered */
#define WEIR_LINK_ANSWER_MAX 4096 /* bytes */
#define WEIR_LINK_VALUES_MAX 32   /* of one answer; HELLO's has 15 */

struct weir_link_answer {
    uint64_t sent_ns; /* when the question began to be sent: what the holder's deadline counts from */
    size_t count;
    struct weir_resp_value values[WEIR_LINK_VALUES_MAX];
    uint8_t data[WEIR_LINK_ANSWER_MAX]; /* the values' texts point into it */
};

/* Sends one command and reads its answer. WEIR_EDOWN: the command did not get there whole, so nothing was done.
 * WEIR_EUNKNOWN: it did and no answer came, or none that could be read. The fault is kept for weir_locks_fault. */
int weir_locks_call(struct weir_locks *locks, const uint8_t *command, size_t size, uint64_t deadline_ns,
                    struct weir_link_answer *ret_answer);

uint64_t weir_locks_timeout_ns(const struct weir_locks *locks);
void weir_locks_fail(struct weir_locks *locks, const struct weir_fault *fault);
