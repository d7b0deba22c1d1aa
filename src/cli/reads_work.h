/* SPDX-License-Identifier: Apache-2.0
 *
 * The sessions of a check at work: a thread for each, which asks as a stateless application would. With each request
 * comes what the session has seen, in a token, and with the answer it goes. */
#pragma once

#include "cli/reads_table.h"

struct weir_reads_work;

/* Begins at once. WEIR_ENOMEM, or what weir_replicas_open says: ret_text has it for people. */
int weir_reads_work_begin(const struct weir_reads_table *table, struct weir_reads_work **ret_work,
                          char ret_text[WEIR_READS_TEXT_SIZE]);

/* So far, roughly. */
uint64_t weir_reads_work_done(const struct weir_reads_work *work);

/* Lets each session end its request, and closes its connections. */
void weir_reads_work_end(struct weir_reads_work *work);

/* After the end; until destroy. */
struct weir_reads_ops weir_reads_work_ops(const struct weir_reads_work *work, enum weir_reads_mode mode);
/* The last thing that failed for this strategy, for people; empty. */
const char *weir_reads_work_fault(const struct weir_reads_work *work, enum weir_reads_mode mode);

void weir_reads_work_destroy(struct weir_reads_work *work); /* after the end; NULL is allowed */
