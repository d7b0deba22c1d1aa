/* SPDX-License-Identifier: Apache-2.0
 *
 * A permit's bytes are the number, how many keys count, the keys, and a SipHash of all that, shown as hexadecimal
 * digits. Each key is XORed with a SipHash of the number and the key's index, so that it looks different in each
 * permit. Called by serve/permit.c; whether the permit is still out is known to the limiter (limits/permit.c). */
#include "wire/permit.h"

#include "base/assert.h"
#include "base/hex.h"

#define HEAD (8 + 1)
#define BYTES_MAX (WEIR_PERMIT_TEXT_MAX / 2)

static void put(uint8_t *at, uint64_t value)
{
    for (int i = 0; i < 8; i++)
        at[i] = (uint8_t)(value >> 8 * i);
}

static uint64_t get(const uint8_t *at)
{
    uint64_t value = 0;
    for (int i = 0; i < 8; i++)
        value |= (uint64_t)at[i] << 8 * i;
    return value;
}

/* Never the same twice: a number is granted once. */
static uint64_t mask_of(const struct weir_permit_secret *secret, uint64_t number, uint64_t key)
{
    uint8_t words[16];
    put(words, number);
    put(words + 8, key);
    return weir_siphash(&secret->mask, words, sizeof(words));
}

size_t weir_permit_write(const struct weir_permit_secret *secret, const struct weir_permit_id *id,
                         char text[WEIR_PERMIT_TEXT_MAX])
{
    uint8_t bytes[BYTES_MAX];
    size_t size = HEAD + 8 * id->count;
    weir_assert(id->count > 0 && id->count <= WEIR_CHARGES_MAX && id->counting <= id->count);
    put(bytes, id->number);
    bytes[8] = (uint8_t)id->counting;
    for (size_t i = 0; i < id->count; i++)
        put(bytes + HEAD + 8 * i, id->keys[i].hash ^ mask_of(secret, id->number, i));
    put(bytes + size, weir_siphash(&secret->authentication, bytes, size));
    size += 8;
    return (size_t)(weir_hex_write(text, bytes, size) - text);
}

bool weir_permit_read(const struct weir_permit_secret *secret, struct weir_slice text, struct weir_permit_id *ret_id)
{
    uint8_t bytes[BYTES_MAX];
    size_t size = text.size / 2;
    if (text.size % 2 != 0 || size < HEAD + 8 + 8 || size > BYTES_MAX || (size - HEAD) % 8 != 0 ||
        !weir_hex_read(text.data, size, bytes)) /* one spelling only */
        return false;
    /* Words are compared whole: how long that takes tells nothing of where they differ. */
    if (get(bytes + size - 8) != weir_siphash(&secret->authentication, bytes, size - 8))
        return false;
    struct weir_permit_id id = { .number = get(bytes), .counting = bytes[8], .count = (size - HEAD) / 8 - 1 };
    for (size_t i = 0; i < id.count; i++)
        id.keys[i].hash = get(bytes + HEAD + 8 * i) ^ mask_of(secret, id.number, i);
    if (id.counting > id.count)
        return false;
    *ret_id = id;
    return true;
}
