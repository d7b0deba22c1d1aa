/* SPDX-License-Identifier: Apache-2.0
 *
 * Any bytes as what a server answers to a client of locks: an answer within its bounds, none, or not yet; and an answer
 * that is shown byte by byte is the same one. */
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "wire/resp_answer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define VALUES_MAX 16

static int parse(const uint8_t *data, size_t size, struct weir_resp_value *values, size_t *ret_count, size_t *ret_size)
{
    uint8_t *copy = malloc(size ? size : 1); /* exactly as many, so that ASan sees a look beyond them */
    memcpy(copy, data, size);
    int error = weir_resp_answer_parse(copy, size, values, VALUES_MAX, ret_count, ret_size);
    for (size_t i = 0; !error && i < *ret_count; i++) {
        const uint8_t *at = values[i].text.data;
        weir_assert(values[i].text.size == 0 || (at >= copy && at + values[i].text.size <= copy + size));
    }
    free(copy);
    return error;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct weir_resp_value values[VALUES_MAX], parts[VALUES_MAX];
    size_t count = 0, taken = 0, part_count = 0, part_taken = 0;
    int error = parse(data, size, values, &count, &taken);
    weir_assert(error == 0 || error == WEIR_EAGAIN || error == WEIR_EPROTO || error == WEIR_ELIMIT);
    weir_assert(error || (count >= 1 && count <= VALUES_MAX && taken >= 1 && taken <= size));
    size_t most = size < 4096 ? size : 4096;
    for (size_t shown = 0; shown < most; shown += 1 + shown / 8) {
        int part = parse(data, shown, parts, &part_count, &part_taken);
        if (part == WEIR_EAGAIN)
            continue;
        /* What was said of a part stands: more bytes behind it change nothing. */
        weir_assert(part == error);
        weir_assert(part || (part_count == count && part_taken == taken));
        break;
    }
    return 0;
}
