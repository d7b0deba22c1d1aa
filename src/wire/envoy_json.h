/* SPDX-License-Identifier: Apache-2.0
 *
 * Questions and answers of Envoy's rate limit service as JSON, as protobuf maps them: POST /json. Names are written in
 * camelCase and read in snake_case too; numbers may be strings; a unit is a name or a number. Unknown members are
 * refused. Thread rule: plain values. */
#pragma once

#include "wire/envoy.h"
#include "wire/text.h"

/* The slices point into *ret_json, which the caller frees by weir_envoy_json_free. Errors: WEIR_EPROTO, WEIR_ERANGE,
 * WEIR_ELIMIT, WEIR_ENOMEM; WEIR_EINVAL: weir_envoy_check. */
int weir_envoy_json_read(const void *data, size_t size, void **ret_json, struct weir_envoy_request *ret_request,
                         struct weir_fault *ret_fault);
void weir_envoy_json_free(void *json); /* NULL is allowed */

/* The answer, and a bound on its length. */
void weir_envoy_json_write(struct weir_text *text, const struct weir_envoy_answer *answer);
size_t weir_envoy_json_max(const struct weir_envoy_answer *answer);
