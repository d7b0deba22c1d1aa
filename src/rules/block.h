/* SPDX-License-Identifier: Apache-2.0
 *
 * Blocks of addresses in CIDR notation (RFC 4632, RFC 4291 section 2.3), and which of many hold an address: blocks are
 * nested or apart, so in a sorted list those that hold an address are all on the chain "smallest other block that holds
 * me" of the address's predecessor. One binary search, then a walk.
 *
 * IPv4 and IPv6 are apart: ::/0 holds no IPv4 address. An IPv4-mapped IPv6 address is the IPv4 address that it maps.
 * Thread rule: pure functions; blocks may be asked from any thread once made. */
#pragma once

#include "rules/globs.h"
#include "weir/limiter.h"

#define WEIR_BLOCK_TEXT_MAX 50

struct weir_block {
    uint8_t address[16]; /* IPv4: mapped. What is behind the prefix is zero */
    uint8_t bits;        /* 0 to 128; IPv4: 96 + its own */
    bool six;
};

/* An address as a block of one; the zone of an IPv6 address (fe80::1%eth0) is no part of it. False: it is none. */
bool weir_block_of_address(struct weir_slice text, struct weir_block *ret_block);

/* What "ADDRESS/BITS" is. */
enum weir_block_text {
    WEIR_BLOCK_NONE, /* something else */
    WEIR_BLOCK_GOOD,
    WEIR_BLOCK_TOO_LONG, /* more bits than the address has */
    WEIR_BLOCK_LOOSE,    /* bits behind the prefix are set; ret_block is without them */
    WEIR_BLOCK_SHORT,    /* looks like one, but that is no whole address: 10.0.0/8 */
};
enum weir_block_text weir_block_parse(struct weir_slice text, struct weir_block *ret_block);

/* The canonical text, "10.0.0.0/8". */
void weir_block_format(const struct weir_block *block, char buffer[WEIR_BLOCK_TEXT_MAX]);

/* Whether all of `inner` is in `outer`. */
bool weir_block_holds(const struct weir_block *outer, const struct weir_block *inner);

/* ---- many at once ---- */

struct weir_blocks_item {
    struct weir_block block;
    uint32_t id;
    int32_t parent; /* the smallest other block that holds this one; -1: none */
};

struct weir_blocks {
    struct weir_blocks_item *items; /* sorted by address, then by bits */
    size_t count;
};

/* Sorts `items`, whose block and id are set, and keeps them. */
void weir_blocks_init(struct weir_blocks *ret_blocks, struct weir_blocks_item *items, size_t count);

/* Adds the ids of all that hold the value, if that is an address. WEIR_ELIMIT when there is no room for one. */
int weir_blocks_match(const struct weir_blocks *blocks, struct weir_slice value, struct weir_globs_found *found);
