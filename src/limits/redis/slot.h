/* SPDX-License-Identifier: Apache-2.0
 *
 * The cluster slot of a key: CRC16 (XMODEM) of its hash tag, modulo 16384 (Redis Cluster specification, "Key
 * distribution model"). */
#pragma once

#include <stddef.h>
#include <stdint.h>

uint16_t weir_redis_slot(const void *tag, size_t size); /* what lies between the braces */
uint16_t weir_redis_slot_of_tag(uint64_t tag);          /* of a tag in 16 hex digits */
uint32_t weir_redis_slot_tag(uint16_t slot);            /* the least number that, as a decimal tag, has this slot */
