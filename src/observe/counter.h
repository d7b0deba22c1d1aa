/* SPDX-License-Identifier: Apache-2.0
 *
 * Counters that one thread writes and any thread reads: a plain addition, not a locked one. What is read is a value
 * that the counter had; counters read together need not be of the same instant. */
#pragma once

#include <stdatomic.h>
#include <stdint.h>

static inline void weir_count(_Atomic uint64_t *counter, uint64_t more)
{
    atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + more, memory_order_relaxed);
}

static inline uint64_t weir_counted(const _Atomic uint64_t *counter)
{
    return atomic_load_explicit(counter, memory_order_relaxed);
}

/* Of a list with members X(name, text), the texts of an array. */
#define WEIR_LIST_TEXT(name, text) text,
