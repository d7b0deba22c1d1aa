/* SPDX-License-Identifier: Apache-2.0
 *
 * SipHash-1-3 with a 64-bit result, for keys that clients choose: without the 16 secret bytes nobody can aim at a line
 * of the table. Source: Aumasson and Bernstein, "SipHash: a fast short-input PRF", 2012; 1-3 is the variant of the
 * hash tables of Rust, Ruby and Python. */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct weir_sip_key {
    uint64_t k0, k1;
};

/* From 16 bytes, little endian. */
struct weir_sip_key weir_sip_key_load(const uint8_t secret[16]);

/* The hash of `size` bytes. */
uint64_t weir_siphash(const struct weir_sip_key *key, const void *data, size_t size);
/* The same of `head` and `data` one behind the other. */
uint64_t weir_siphash_joined(const struct weir_sip_key *key, const void *head, size_t head_size, const void *data,
                             size_t size);

/* The same of eight bytes, of the size of `data` in four, and of `data`: each as it stands in memory, little endian. */
uint64_t weir_siphash_sized(const struct weir_sip_key *key, uint64_t first, const void *data, uint32_t size);

/* The same in pieces: start, any number of adds, end. The value depends on the bytes only, not on how they were cut. */
struct weir_siphash_state {
    uint64_t v0, v1, v2, v3;
    uint64_t tail; /* bytes not yet mixed in, little endian */
    uint64_t size; /* bytes so far */
};
void weir_siphash_start(struct weir_siphash_state *state, const struct weir_sip_key *key);
void weir_siphash_add(struct weir_siphash_state *state, const void *data, size_t size);
uint64_t weir_siphash_end(struct weir_siphash_state *state);
