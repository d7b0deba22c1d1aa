/* SPDX-License-Identifier: Apache-2.0
 *
 * An IPv4 block is kept as the IPv6 block that maps it, so all blocks of an attribute are sorted in one list of 128-bit
 * numbers. When the list is made, each block finds its parent on the chain of the one before it. compile_conditions.c
 * makes the lists and match.c searches them; single blocks are parsed by condition_decode.c and compared by
 * condition.c. */
#include "rules/block.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "rules/number.h"

#define MAPPED_BITS 96
#define ADDRESS_MAX (INET6_ADDRSTRLEN + 16) /* with a zone */

static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };

bool weir_block_of_address(struct weir_slice text, struct weir_block *ret_block)
{
    char copy[ADDRESS_MAX + 1];
    struct weir_block block = { .bits = 128 };
    if (text.size == 0 || text.size > ADDRESS_MAX || memchr(text.data, '\0', text.size))
        return false;
    memcpy(copy, text.data, text.size);
    copy[text.size] = '\0';
    if (inet_pton(AF_INET, copy, block.address + sizeof(mapped)) == 1) {
        memcpy(block.address, mapped, sizeof(mapped));
    } else {
        char *zone = strchr(copy, '%');
        if (zone)
            *zone = '\0';
        if (inet_pton(AF_INET6, copy, block.address) != 1)
            return false;
        block.six = memcmp(block.address, mapped, sizeof(mapped)) != 0;
    }
    *ret_block = block;
    return true;
}

/* Whether the text is made of what addresses are made of, with at least one point or colon. */
static bool is_like_an_address(const char *text, size_t size)
{
    bool parted = false;
    for (size_t i = 0; i < size; i++) {
        if (!strchr("0123456789abcdefABCDEF.:", text[i]) || text[i] == '\0')
            return false;
        parted = parted || text[i] == '.' || text[i] == ':';
    }
    return parted;
}

/* Zeros what is behind the prefix; whether there was anything. */
static bool cut(struct weir_block *block)
{
    bool loose = false;
    for (unsigned i = 0; i < 16; i++) {
        unsigned kept = block->bits >= 8 * (i + 1) ? 8 : block->bits <= 8 * i ? 0 : block->bits - 8 * i;
        uint8_t mask = (uint8_t)(0xff00U >> kept);
        loose = loose || (block->address[i] & (uint8_t)~mask);
        block->address[i] &= mask;
    }
    return loose;
}

enum weir_block_text weir_block_parse(struct weir_slice text, struct weir_block *ret_block)
{
    const char *at = text.data;
    const char *slash = text.size ? memchr(at, '/', text.size) : NULL;
    size_t size = slash ? (size_t)(slash - at) : 0;
    uint64_t bits = 0;
    if (!slash || !is_like_an_address(at, size) || weir_number_parse(slash + 1, text.size - size - 1, &bits) != 0)
        return WEIR_BLOCK_NONE;
    struct weir_block block;
    if (!weir_block_of_address((struct weir_slice){ at, size }, &block))
        return WEIR_BLOCK_SHORT;
    bool four = !block.six && !memchr(at, ':', size); /* of ::ffff:10.0.0.0/104 the bits are IPv6's */
    if (bits > (four ? 32 : 128))
        return WEIR_BLOCK_TOO_LONG;
    block.bits = (uint8_t)(four ? bits + MAPPED_BITS : bits);
    block.six = block.six || block.bits < MAPPED_BITS;
    bool loose = cut(&block);
    *ret_block = block;
    return loose ? WEIR_BLOCK_LOOSE : WEIR_BLOCK_GOOD;
}

void weir_block_format(const struct weir_block *block, char buffer[WEIR_BLOCK_TEXT_MAX])
{
    char text[INET6_ADDRSTRLEN];
    const char *written = inet_ntop(block->six ? AF_INET6 : AF_INET, block->address + (block->six ? 0 : sizeof(mapped)),
                                    text, sizeof(text));
    weir_assert(written);
    (void)snprintf(buffer, WEIR_BLOCK_TEXT_MAX, "%s/%u", text, block->bits - (block->six ? 0U : MAPPED_BITS));
}

static bool prefix_equal(const uint8_t *a, const uint8_t *b, unsigned bits)
{
    if (memcmp(a, b, bits / 8) != 0)
        return false;
    return bits % 8 == 0 || ((a[bits / 8] ^ b[bits / 8]) & (uint8_t)(0xff00U >> bits % 8)) == 0;
}

/* As numbers of 128 bits: ::/0 has IPv4 in it. */
static bool is_around(const struct weir_block *outer, const struct weir_block *inner)
{
    return outer->bits <= inner->bits && prefix_equal(outer->address, inner->address, outer->bits);
}

bool weir_block_holds(const struct weir_block *outer, const struct weir_block *inner)
{
    return outer->six == inner->six && is_around(outer, inner);
}

/* ---- many at once ---- */

static int by_place(const void *a, const void *b)
{
    const struct weir_block *left = &((const struct weir_blocks_item *)a)->block;
    const struct weir_block *right = &((const struct weir_blocks_item *)b)->block;
    int order = memcmp(left->address, right->address, sizeof(left->address));
    return order ? order : (left->bits > right->bits) - (left->bits < right->bits);
}

void weir_blocks_init(struct weir_blocks *ret_blocks, struct weir_blocks_item *items, size_t count)
{
    if (count)
        qsort(items, count, sizeof(*items), by_place);
    for (size_t i = 0; i < count; i++) {
        int32_t parent = (int32_t)i - 1; /* it is on the chain of the one before */
        while (parent >= 0 && !is_around(&items[parent].block, &items[i].block))
            parent = items[parent].parent;
        items[i].parent = parent;
    }
    *ret_blocks = (struct weir_blocks){ items, count };
}

int weir_blocks_match(const struct weir_blocks *blocks, struct weir_slice value, struct weir_globs_found *found)
{
    struct weir_block address;
    size_t low = 0;
    size_t high = blocks->count;
    if (blocks->count == 0 || !weir_block_of_address(value, &address))
        return 0;
    while (low < high) { /* blocks before low begin at the address or before it */
        size_t middle = low + (high - low) / 2;
        found->steps++;
        if (memcmp(blocks->items[middle].block.address, address.address, sizeof(address.address)) <= 0)
            low = middle + 1;
        else
            high = middle;
    }
    for (int32_t at = (int32_t)low - 1; at >= 0; at = blocks->items[at].parent) {
        found->steps++;
        if (!weir_block_holds(&blocks->items[at].block, &address))
            continue;
        if (found->count >= found->capacity)
            return WEIR_ELIMIT;
        found->ids[found->count++] = blocks->items[at].id;
    }
    return 0;
}
