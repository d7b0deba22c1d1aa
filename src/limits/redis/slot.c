/* SPDX-License-Identifier: Apache-2.0
 *
 * CRC16 is computed bit by bit. A number whose slot is a given one is found by trying them from 0 on. Called by
 * request.c and note.c for the slot of a key, and by mark.c, whose keys must lie in a given slot. */
#include "limits/redis/slot.h"

#include <inttypes.h>
#include <stdio.h>

uint16_t weir_redis_slot(const void *tag, size_t size)
{
    const uint8_t *bytes = tag;
    uint32_t crc = 0;
    for (size_t i = 0; i < size; i++) {
        crc ^= (uint32_t)bytes[i] << 8;
        for (int bit = 0; bit < 8; bit++)
            crc = crc & 0x8000 ? (crc << 1) ^ 0x1021 : crc << 1;
    }
    return crc & 16383;
}

uint16_t weir_redis_slot_of_tag(uint64_t tag)
{
    char text[17];
    for (int i = 0; i < 16; i++)
        text[i] = "0123456789abcdef"[tag >> (60 - 4 * i) & 15];
    return weir_redis_slot(text, 16);
}

uint32_t weir_redis_slot_tag(uint16_t slot)
{
    char text[16];
    uint32_t tag = 0; /* about 16,000 tries; each slot has one below 200,000 */
    while (weir_redis_slot(text, (size_t)snprintf(text, sizeof text, "%" PRIu32, tag)) != slot)
        tag++;
    return tag;
}
