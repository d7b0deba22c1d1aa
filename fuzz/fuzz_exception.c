/* SPDX-License-Identifier: Apache-2.0
 *
 * Any bytes as the key of an exception, which a store gives: what is taken for one reads, and written again is the
 * same, byte by byte. */
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "rules/exception.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t *copy = malloc(size + 1); /* of its own size, for ASan */
    if (!copy)
        return 0;
    if (size > 0)
        memcpy(copy, data, size);
    struct weir_slice rest = { copy, size }, part;
    const bool valid = weir_exception_key_valid(rest);
    char *again = malloc(WEIR_EXCEPTION_KEY_MAX);
    size_t again_size = 0, parts = 0;
    while (again && valid && rest.size > 0) {
        weir_assert(weir_exception_key_next(&rest, &part));
        weir_assert(weir_exception_key_add(again, WEIR_EXCEPTION_KEY_MAX, &again_size, part));
        parts++;
    }
    if (again && valid)
        weir_assert(again_size == size && memcmp(again, copy, size) == 0 && parts % 2 == 0 &&
                    parts <= (size_t)2 * WEIR_KEY_VALUES_MAX);
    free(again);
    free(copy);
    return 0;
}
