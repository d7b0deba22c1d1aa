/* SPDX-License-Identifier: Apache-2.0
 *
 * Questions and answers of Envoy's rate limit service as protobuf (proto/envoy/service/ratelimit/v3/rls.proto). Unknown
 * fields and enum values are passed over in silence. Thread rule: plain values. */
#pragma once

#include "wire/envoy.h"

/* Memory for one question: what it takes in pieces is bounded by it, whatever the message promises. */
#define WEIR_ENVOY_BLOCK_SIZE ((size_t)256 << 10)

/* The slices point into `block`, which has WEIR_ENVOY_BLOCK_SIZE bytes and is aligned as malloc aligns. WEIR_EPROTO: it
 * is no such message; WEIR_ELIMIT: one with too many parts; WEIR_EINVAL: weir_envoy_check. */
int weir_envoy_read(const uint8_t *data, size_t size, void *block, struct weir_envoy_request *ret_request,
                    struct weir_fault *ret_fault);

/* How many bytes the answer has, and the same written. */
size_t weir_envoy_write(const struct weir_envoy_answer *answer, uint8_t *buffer); /* NULL: only counted */
