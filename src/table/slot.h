/* SPDX-License-Identifier: Apache-2.0
 *
 * A slot: 16 bytes that are read and swapped as one, so that a swap of the state also proves that the slot still
 * belongs to the key.
 *
 *     tag   63 continuation | 62 in its second home | 61..12 fingerprint (50 bits) | 11..0 limit, high bits
 *     word  63 locked       | 62..59 limit, low 4 bits     | 58..0 fresh_at, ticks (core/limit/ticks.h)
 *
 * tag 0 is an empty slot: a limit's number is never 0. A wide entry (anything but a bucket) has its main slot at an
 * even place of its line and a continuation in the next: 63 bits in the tag and 64 in the word, which belong to whoever
 * holds the main slot's lock. Together with the 12 bits of the line's number that the hash also decides, 62 bits of a
 * keyed hash tell keys apart: among 10 million keys two share a counter with probability 1e-5. */
#pragma once

#include <sched.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/assert.h"
#include "base/checked.h"
#include "base/tsan.h"
#include "core/limit/ticks.h"

#define WEIR_TAG_CONTINUATION (UINT64_C(1) << 63)
#define WEIR_TAG_SECOND (UINT64_C(1) << 62)
#define WEIR_TAG_LIMIT_BITS 12
#define WEIR_TAG_LIMIT_MASK UINT64_C(0xfff)
#define WEIR_TAG_KEY_MASK (~(WEIR_TAG_CONTINUATION | WEIR_TAG_SECOND | WEIR_TAG_LIMIT_MASK))
#define WEIR_WORD_LOCKED (UINT64_C(1) << 63)
#define WEIR_SLOT_LIMIT_MAX UINT32_C(65535)
#define WEIR_LINE_SLOTS 4

/* What a slot shows, or shall show. */
struct weir_pair {
    uint64_t tag, word;
};

struct weir_slot {
    _Alignas(16) uint64_t tag;
    uint64_t word;
};

struct weir_line {
    _Alignas(64) struct weir_slot slot[WEIR_LINE_SLOTS];
};

_Static_assert(sizeof(struct weir_slot) == 16 && sizeof(struct weir_line) == 64, "a line is a cache line");

typedef weir_u128 __attribute__((may_alias)) weir_pair_bits;

static inline weir_u128 weir_pair_pack(struct weir_pair pair)
{
    return (weir_u128)pair.word << 64 | pair.tag;
}

/* One atomic step: if the slot still shows `seen`, it shows `next`. gcc inlines the __sync form (cmpxchg16b with
 * -mcx16) where it would call libatomic for the __atomic one; ThreadSanitizer knows both. */
static inline bool weir_slot_swap(struct weir_slot *slot, struct weir_pair seen, struct weir_pair next)
{
    weir_debug_assert(next.tag != 0 || next.word == 0); /* an empty slot says nothing more */
    weir_debug_assert(!(next.tag & WEIR_TAG_CONTINUATION));
    return __sync_bool_compare_and_swap((weir_pair_bits *)(void *)slot, weir_pair_pack(seen), weir_pair_pack(next));
}

/* Both halves as of one instant. Aligned 16-byte loads are atomic on every x86-64 processor with AVX (Intel SDM vol. 3
 * 9.1.1, AMD APM vol. 2 7.3.2); elsewhere a swap of nothing reads. */
static inline struct weir_pair weir_slot_load(const struct weir_slot *slot)
{
#if defined(__x86_64__) && !defined(WEIR_TSAN)
    __extension__ typedef long long two_words __attribute__((vector_size(16)));
    two_words both;
    __asm__ volatile("movdqa %1, %0" : "=x"(both) : "m"(*slot));
    return (struct weir_pair){ (uint64_t)both[0], (uint64_t)both[1] };
#else
    weir_pair_bits *bits = (weir_pair_bits *)(uintptr_t)slot;
    weir_u128 both = __sync_val_compare_and_swap(bits, (weir_u128)0, (weir_u128)0);
    return (struct weir_pair){ (uint64_t)both, (uint64_t)(both >> 64) };
#endif
}

static inline bool weir_slot_shows(const struct weir_slot *slot, struct weir_pair seen)
{
    const struct weir_pair now = weir_slot_load(slot);
    return now.tag == seen.tag && now.word == seen.word;
}

/* The tag alone, to look before loading. */
static inline uint64_t weir_slot_tag(const struct weir_slot *slot)
{
    return __atomic_load_n(&slot->tag, __ATOMIC_ACQUIRE);
}

static inline struct weir_pair weir_pair_make(uint64_t hash, uint32_t limit, uint64_t fresh_at)
{
    weir_debug_assert(limit > 0 && limit <= WEIR_SLOT_LIMIT_MAX);
    return (struct weir_pair){ (hash & WEIR_TAG_KEY_MASK) | limit >> 4,
                               (uint64_t)(limit & 15) << WEIR_TICKS_BITS | (fresh_at & WEIR_TICKS_MASK) };
}

static inline uint32_t weir_pair_limit(struct weir_pair pair)
{
    return (uint32_t)(pair.tag & WEIR_TAG_LIMIT_MASK) << 4 | (uint32_t)(pair.word >> WEIR_TICKS_BITS & 15);
}

static inline uint64_t weir_pair_fresh_at(struct weir_pair pair)
{
    return pair.word & WEIR_TICKS_MASK;
}

static inline bool weir_pair_locked(struct weir_pair pair)
{
    return pair.word >> 63;
}

static inline struct weir_pair weir_pair_lock(struct weir_pair pair)
{
    weir_debug_assert(!weir_pair_locked(pair) && pair.tag != 0);
    return (struct weir_pair){ pair.tag, pair.word | WEIR_WORD_LOCKED };
}

static inline struct weir_pair weir_pair_unlock(struct weir_pair pair)
{
    weir_debug_assert(weir_pair_locked(pair));
    return (struct weir_pair){ pair.tag, pair.word & ~WEIR_WORD_LOCKED };
}

/* The same key in the same home, another limit's number or state. */
static inline struct weir_pair weir_pair_with(struct weir_pair pair, uint32_t limit, uint64_t fresh_at)
{
    struct weir_pair next = weir_pair_make(pair.tag, limit, fresh_at);
    next.tag |= pair.tag & WEIR_TAG_SECOND;
    return next;
}

/* The same entry, another state: of `fresh_at` what a word has room for. */
static inline struct weir_pair weir_pair_at(struct weir_pair pair, uint64_t fresh_at)
{
    return (struct weir_pair){ pair.tag, pair.word ^ ((pair.word ^ fresh_at) & WEIR_TICKS_MASK) };
}

/* Whether an entry is of `limit` and not locked. */
static inline bool weir_pair_is_free_and_of(struct weir_pair pair, uint32_t limit)
{
    return (pair.tag & WEIR_TAG_LIMIT_MASK) == limit >> 4 && pair.word >> WEIR_TICKS_BITS == (limit & 15);
}

/* The same entry in its first or its second home. */
static inline struct weir_pair weir_pair_at_home(struct weir_pair pair, bool second)
{
    return (struct weir_pair){ (pair.tag & ~WEIR_TAG_SECOND) | (second ? WEIR_TAG_SECOND : 0), pair.word };
}

/* Spinning on somebody's lock: a few pauses, then give the core away, for its holder may have been put aside. */
static inline void weir_relax(unsigned *spins)
{
    if (++*spins % 64 == 0)
        sched_yield();
#if defined(__x86_64__)
    else
        __builtin_ia32_pause();
#endif
}
