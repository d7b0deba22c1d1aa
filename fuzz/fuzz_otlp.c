/* SPDX-License-Identifier: Apache-2.0
 *
 * Any bytes as the answer of a receiver of traces: one, or none; and as what is written into a span, which is whole
 * however little room there is. */
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "wire/otlp.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_answer(const uint8_t *data, size_t size)
{
    uint64_t rejected = 1;
    uint8_t *copy = malloc(size ? size : 1); /* exactly as many, so that ASan sees a look beyond them */
    memcpy(copy, data, size);
    if (weir_otlp_answer_read(copy, size, &rejected))
        weir_assert(rejected <= INT64_MAX);
    else
        weir_assert(rejected == 1);
    free(copy);
}

static void write_spans(const uint8_t *data, size_t room, const char *text)
{
    uint8_t *memory = malloc(room ? room : 1);
    struct weir_otlp otlp;
    struct weir_otlp_attribute attributes[] = {
        { .name = "text", .kind = WEIR_OTLP_TEXT, .text = text },
        { .name = text, .kind = WEIR_OTLP_INTEGER },
        { .name = "truth", .kind = WEIR_OTLP_TRUTH, .number = data[0] & 1 },
    };
    memcpy(&attributes[1].number, data, sizeof(attributes[1].number));
    const struct weir_otlp_span span = { .trace_id = data,
                                         .span_id = data + 1,
                                         .parent_id = data[2] & 1 ? data + 2 : NULL,
                                         .flags = data[3],
                                         .failed = data[4] & 1,
                                         .name = text,
                                         .attributes = attributes,
                                         .count = 3 };
    if (weir_otlp_begin(&otlp, memory, room, attributes, data[5] % 4, "scope", text)) {
        while (weir_otlp_add(&otlp, &span))
            ;
        weir_assert(weir_otlp_end(&otlp) <= room);
    }
    free(memory);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char text[300];
    read_answer(data, size);
    if (size < 24)
        return 0;
    const size_t length = size - 24 < sizeof(text) - 1 ? size - 24 : sizeof(text) - 1;
    memcpy(text, data + 24, length);
    text[length] = '\0';
    write_spans(data, (size_t)data[20] * 8 + data[21] % 8, text);
    return 0;
}
