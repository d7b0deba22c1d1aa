/* SPDX-License-Identifier: Apache-2.0
 *
 * Any bytes as the value of traceparent: one, or none; and one that is read is what stands at its places. */
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/hex.h"
#include "wire/traceparent.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const uint8_t zeros[WEIR_TRACE_ID_SIZE];
    struct weir_traceparent parent;
    char text[2 * WEIR_TRACE_ID_SIZE];
    char *copy = malloc(size ? size : 1); /* exactly as many, so that ASan sees a look beyond them */
    memcpy(copy, data, size);
    if (weir_traceparent_read((struct weir_slice){ copy, size }, &parent)) {
        weir_assert(size >= 55 && memcmp(copy, "ff", 2) != 0 && (size == 55 || memcmp(copy, "00", 2) != 0));
        (void)weir_hex_write(text, parent.trace_id, sizeof(parent.trace_id));
        weir_assert(memcmp(text, copy + 3, 32) == 0 && memcmp(parent.trace_id, zeros, sizeof(zeros)) != 0);
        (void)weir_hex_write(text, parent.parent_id, sizeof(parent.parent_id));
        weir_assert(memcmp(text, copy + 36, 16) == 0 && memcmp(parent.parent_id, zeros, WEIR_SPAN_ID_SIZE) != 0);
    }
    free(copy);
    return 0;
}
