/* SPDX-License-Identifier: Apache-2.0
 *
 * Any bytes as a question to Envoy's rate limit service: what is read is in its bounds, and an answer that repeats it
 * can be written. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/assert.h"
#include "wire/envoy_proto.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void touch(struct weir_slice slice)
{
    volatile uint8_t last = slice.size > 0 ? ((const uint8_t *)slice.data)[slice.size - 1] : 0;
    (void)last;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static _Alignas(max_align_t) uint8_t block[WEIR_ENVOY_BLOCK_SIZE];
    static struct weir_envoy_request request;
    static struct weir_envoy_answer answer;
    struct weir_fault fault;
    if (weir_envoy_read(data, size, block, &request, &fault))
        return 0;
    weir_assert(request.count > 0 && request.count <= WEIR_ENVOY_DESCRIPTORS_MAX && request.domain.size > 0);
    size_t entries = 0;
    answer.code = WEIR_ENVOY_OK;
    answer.count = request.count;
    for (size_t i = 0; i < request.count; i++) {
        const struct weir_envoy_descriptor *one = &request.descriptors[i];
        weir_assert(one->first == entries && weir_envoy_hits(&request, i) <= WEIR_COST_MAX);
        entries += one->count;
        for (size_t j = one->first; j < entries; j++) {
            touch(request.entries[j].key);
            touch(request.entries[j].value);
        }
        answer.statuses[i] = (struct weir_envoy_status){ .code = WEIR_ENVOY_OK,
                                                         .name = "a",
                                                         .remaining = one->limit_requests,
                                                         .has_reset = one->negative,
                                                         .reset_ns = one->hits };
    }
    weir_assert(entries == request.entries_count);
    uint8_t *out = malloc(weir_envoy_write(&answer, NULL));
    weir_assert(weir_envoy_write(&answer, out) == weir_envoy_write(&answer, NULL));
    free(out);
    return 0;
}
