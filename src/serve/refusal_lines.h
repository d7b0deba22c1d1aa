/* SPDX-License-Identifier: Apache-2.0
 *
 * What the loops have picked of refusals (observe/refusals.h) goes to who looks (observe/last.h), and becomes lines of
 * the log (log.refusals): at most so many of each limit in a second over all loops, and WEIR_REFUSAL_LINES_MAX of all
 * limits. What is left out the limit's next line tells. Called by watch_look.c, on the server's own thread. */
#pragma once

#include "observe/logger.h"
#include "serve/loop.h"

#define WEIR_REFUSAL_LINES_MAX 50 /* half of what the log takes: other events find room */

struct weir_refusal_lines;

int weir_refusal_lines_create(struct weir_refusal_lines **ret_lines); /* WEIR_ENOMEM */
void weir_refusal_lines_destroy(struct weir_refusal_lines *lines);    /* NULL is allowed */

/* All that wait. */
void weir_refusal_lines_write(struct weir_refusal_lines *lines, const struct weir_common *common,
                              const struct weir_setup *setup, struct weir_logger *logger);
