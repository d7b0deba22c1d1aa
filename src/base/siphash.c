/* SPDX-License-Identifier: Apache-2.0
 *
 * One round for each word of 8 bytes, the last of which has the length in it, and three more at the end. Bytes that
 * fill no word wait in `tail` for the next add. Called for each key by the limiter (limits/limiter.c), by hash tables
 * (rules/map.c, locks/manager_queue.c), and by wire/permit.c, which authenticates permits with it. */
#include "base/siphash.h"

#include <string.h>

static inline uint64_t rotate_left(uint64_t x, int bits)
{
    return x << bits | x >> (64 - bits);
}

static inline void round_once(struct weir_siphash_state *s)
{
    s->v0 += s->v1;
    s->v1 = rotate_left(s->v1, 13) ^ s->v0;
    s->v0 = rotate_left(s->v0, 32);
    s->v2 += s->v3;
    s->v3 = rotate_left(s->v3, 16) ^ s->v2;
    s->v0 += s->v3;
    s->v3 = rotate_left(s->v3, 21) ^ s->v0;
    s->v2 += s->v1;
    s->v1 = rotate_left(s->v1, 17) ^ s->v2;
    s->v2 = rotate_left(s->v2, 32);
}

static inline void mix_word(struct weir_siphash_state *s, uint64_t word)
{
    s->v3 ^= word;
    round_once(s);
    s->v0 ^= word;
}

/* Up to 8 bytes, little endian on any machine. */
static inline uint64_t load_bytes(const uint8_t *data, size_t size)
{
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    if (size == 8) {
        uint64_t word;
        memcpy(&word, data, sizeof word);
        return word;
    }
    if (size >= 4) { /* two halves that overlap where both say the same */
        uint32_t low, high;
        memcpy(&low, data, sizeof low);
        memcpy(&high, data + size - sizeof high, sizeof high);
        return low | (uint64_t)high << (8 * (size - sizeof high));
    }
#endif
    uint64_t word = 0;
    for (size_t i = 0; i < size; i++)
        word |= (uint64_t)data[i] << (8 * i);
    return word;
}

struct weir_sip_key weir_sip_key_load(const uint8_t secret[16])
{
    return (struct weir_sip_key){ load_bytes(secret, 8), load_bytes(secret + 8, 8) };
}

static inline void start(struct weir_siphash_state *s, const struct weir_sip_key *key)
{
    s->v0 = UINT64_C(0x736f6d6570736575) ^ key->k0;
    s->v1 = UINT64_C(0x646f72616e646f6d) ^ key->k1;
    s->v2 = UINT64_C(0x6c7967656e657261) ^ key->k0;
    s->v3 = UINT64_C(0x7465646279746573) ^ key->k1;
    s->tail = 0;
    s->size = 0;
}

void weir_siphash_start(struct weir_siphash_state *s, const struct weir_sip_key *key)
{
    start(s, key);
}

/* Inlined where the parts are known: calls would cost as much as the rounds. */
static inline __attribute__((always_inline)) void add(struct weir_siphash_state *s, const void *data, size_t size)
{
    const uint8_t *p = data;
    size_t have = s->size % 8;
    s->size += size;
    if (have > 0) {
        size_t take = size < 8 - have ? size : 8 - have;
        s->tail |= load_bytes(p, take) << (8 * have);
        p += take;
        size -= take;
        if (have + take < 8)
            return;
        mix_word(s, s->tail);
        s->tail = 0;
    }
    for (; size >= 8; p += 8, size -= 8)
        mix_word(s, load_bytes(p, 8));
    s->tail = load_bytes(p, size);
}

void weir_siphash_add(struct weir_siphash_state *s, const void *data, size_t size)
{
    add(s, data, size);
}

static inline __attribute__((always_inline)) uint64_t end(struct weir_siphash_state *s)
{
    mix_word(s, s->tail | s->size << 56);
    s->v2 ^= 0xff;
    round_once(s);
    round_once(s);
    round_once(s);
    return s->v0 ^ s->v1 ^ s->v2 ^ s->v3;
}

uint64_t weir_siphash_end(struct weir_siphash_state *s)
{
    return end(s);
}

uint64_t weir_siphash(const struct weir_sip_key *key, const void *data, size_t size)
{
    struct weir_siphash_state s;
    start(&s, key);
    add(&s, data, size);
    return end(&s);
}

uint64_t weir_siphash_joined(const struct weir_sip_key *key, const void *head, size_t head_size, const void *data,
                             size_t size)
{
    struct weir_siphash_state s;
    start(&s, key);
    add(&s, head, head_size);
    if (size > 0) /* data may be NULL */
        add(&s, data, size);
    return end(&s);
}

/* Of the cut into words all is known but how many there are: half the instructions of `add`. */
uint64_t weir_siphash_sized(const struct weir_sip_key *key, uint64_t first, const void *data, uint32_t size)
{
    struct weir_siphash_state s;
    const uint8_t *p = data;
    size_t left = size;
    start(&s, key);
    mix_word(&s, first);
    s.tail = size;
    if (left < 4) {
        s.tail |= load_bytes(p, left) << 32;
    } else {
        mix_word(&s, s.tail | load_bytes(p, 4) << 32);
        for (p += 4, left -= 4; left >= 8; p += 8, left -= 8)
            mix_word(&s, load_bytes(p, 8));
        s.tail = load_bytes(p, left);
    }
    s.size = sizeof first + sizeof size + size;
    return end(&s);
}
