/* SPDX-License-Identifier: Apache-2.0
 *
 * The messages of grpc.reflection, v1 and v1alpha, which are the same bytes: a question in, its answer out. It tells of
 * the services that are built in, whether or not they are served to this caller. Thread rule: plain values. */
#pragma once

#include "weir/limiter.h"

#define WEIR_GRPC_REFLECTION_MAX ((size_t)32 << 10) /* bytes of an answer, at most */

/* Returns the size of the answer, which may be that the question has none. 0: it is no such message. */
size_t weir_grpc_reflection_answer(const uint8_t *data, size_t size, uint8_t buffer[WEIR_GRPC_REFLECTION_MAX]);
