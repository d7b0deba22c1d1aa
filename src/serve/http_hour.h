/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows of the last hour as JSON, for the calls that tell them. */
#pragma once

#include "observe/hour.h"
#include "serve/loop.h"

/* The body of GET /v1/hour, without an end of line, on the heap; NULL: memory is out. */
uint8_t *weir_hour_json(const struct weir_loop *loop, const struct weir_hour_row *rows, size_t count, uint64_t newest,
                        size_t *ret_size);
