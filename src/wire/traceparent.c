/* SPDX-License-Identifier: Apache-2.0
 *
 * The four parts stand at fixed places, whatever the version. Called by serve/http_trace.c. */
#include "wire/traceparent.h"

#include "base/hex.h"

#define TRACE_AT 3
#define PARENT_AT 36
#define FLAGS_AT 53
#define SIZE 55 /* of version 00 */

static bool is_zero(const uint8_t *id, size_t size)
{
    uint8_t any = 0;
    for (size_t i = 0; i < size; i++)
        any |= id[i];
    return any == 0;
}

bool weir_traceparent_read(struct weir_slice value, struct weir_traceparent *ret_parent)
{
    const char *text = value.data;
    struct weir_traceparent parent;
    uint8_t version;
    if (value.size < SIZE || text[TRACE_AT - 1] != '-' || text[PARENT_AT - 1] != '-' || text[FLAGS_AT - 1] != '-' ||
        !weir_hex_read(text, 1, &version) || version == 0xff)
        return false;
    if (value.size > SIZE && (version == 0 || text[SIZE] != '-'))
        return false;
    if (!weir_hex_read(text + TRACE_AT, sizeof(parent.trace_id), parent.trace_id) ||
        !weir_hex_read(text + PARENT_AT, sizeof(parent.parent_id), parent.parent_id) ||
        !weir_hex_read(text + FLAGS_AT, 1, &parent.flags) || is_zero(parent.trace_id, sizeof(parent.trace_id)) ||
        is_zero(parent.parent_id, sizeof(parent.parent_id)))
        return false;
    if (version != 0)
        parent.flags &= WEIR_TRACE_SAMPLED;
    *ret_parent = parent;
    return true;
}
