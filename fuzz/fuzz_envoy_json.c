/* SPDX-License-Identifier: Apache-2.0
 *
 * Any bytes as a question of Envoy's in JSON: what is read is in its bounds, and an answer that repeats it fits. */
#include <stdint.h>
#include <stdlib.h>

#include "base/assert.h"
#include "wire/envoy_json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct weir_envoy_request request;
    static struct weir_envoy_answer answer;
    struct weir_fault fault;
    void *json;
    if (weir_envoy_json_read(data, size, &json, &request, &fault))
        return 0;
    weir_assert(request.count > 0 && request.count <= WEIR_ENVOY_DESCRIPTORS_MAX && request.domain.size > 0);
    answer.code = WEIR_ENVOY_OVER_LIMIT;
    answer.count = request.count;
    answer.headers_count = 1;
    answer.headers[0] = (struct weir_envoy_header){ request.entries[0].key, request.entries[0].value };
    for (size_t i = 0; i < request.count; i++) {
        const struct weir_envoy_descriptor *one = &request.descriptors[i];
        answer.statuses[i] = (struct weir_envoy_status){ .code = WEIR_ENVOY_OK,
                                                         .name = "a\"b",
                                                         .requests_per_unit = one->limit_requests,
                                                         .remaining = UINT32_MAX,
                                                         .has_reset = true,
                                                         .reset_ns = one->hits };
    }
    const size_t room = weir_envoy_json_max(&answer);
    struct weir_text text = weir_text_init(malloc(room), room);
    weir_envoy_json_write(&text, &answer);
    weir_assert(!text.overflow);
    free(text.data);
    weir_envoy_json_free(json);
    return 0;
}
