/* SPDX-License-Identifier: Apache-2.0
 *
 * bench_memory MEBIBYTES: the floor of a cold key. Touches random 64-byte lines of a block as large as the table it is
 * compared with: one after the other, each address known only when the line before has come; and in batches of 32 that
 * are prefetched together and then swapped. */
#include "measure.h"

#include <stdatomic.h>
#include <stdio.h>
#include <sys/mman.h>

#define CHUNK 4096
#define BATCH 32
#define HUGE_PAGE ((size_t)2 << 20)

struct line {
    _Atomic uint64_t word;
    uint64_t rest[7];
};

struct block {
    struct line *lines;
    uint64_t count;
};

static uint64_t dependent(void *context, uint64_t *state)
{
    struct block *block = context;
    uint64_t next = *state;
    for (int i = 0; i < CHUNK; i++) {
        struct line *line = &block->lines[measure_below(next, block->count)];
        next = measure_mix(next + (uint64_t)i + atomic_load_explicit(&line->word, memory_order_relaxed));
    }
    *state = next;
    return CHUNK;
}

/* The same with a look at the clock before each, and the line written: what one decision on one cold key must do. */
static uint64_t dependent_clock(void *context, uint64_t *state)
{
    struct block *block = context;
    uint64_t next = *state;
    for (int i = 0; i < CHUNK; i++) {
        uint64_t now_ns = measure_now_ns();
        struct line *line = &block->lines[measure_below(next, block->count)];
        uint64_t old = atomic_load_explicit(&line->word, memory_order_relaxed);
        while (!atomic_compare_exchange_weak_explicit(&line->word, &old, old + (now_ns & 1), memory_order_relaxed,
                                                      memory_order_relaxed)) {
        }
        next = measure_mix(next + (uint64_t)i + old);
    }
    *state = next;
    return CHUNK;
}

static uint64_t batch(void *context, uint64_t *state)
{
    struct block *block = context;
    for (int i = 0; i < CHUNK; i += BATCH) {
        struct line *lines[BATCH];
        for (int j = 0; j < BATCH; j++) {
            lines[j] = &block->lines[measure_below(measure_mix((*state)++), block->count)];
            __builtin_prefetch(lines[j], 1, 3);
        }
        for (int j = 0; j < BATCH; j++) {
            uint64_t old = atomic_load_explicit(&lines[j]->word, memory_order_relaxed);
            while (!atomic_compare_exchange_weak_explicit(&lines[j]->word, &old, old + 1, memory_order_relaxed,
                                                          memory_order_relaxed)) {
            }
        }
    }
    return CHUNK;
}

int main(int argc, char **argv)
{
    static const struct measure_case cases[] = {
        { "dependent", measure_take, dependent, 1 },
        { "dependent-clock", measure_take, dependent_clock, 1 },
        { "batch32-1", measure_take, batch, 1 },
        { "batch32-2", measure_take, batch, 2 },
    };
    size_t size = measure_argument(argc, argv, 1, 1, 16384, "MEBIBYTES") << 20;
    char *memory = mmap(NULL, size + HUGE_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
        perror("mmap");
        return 1;
    }
    memory += (HUGE_PAGE - (uintptr_t)memory % HUGE_PAGE) % HUGE_PAGE;
    if (madvise(memory, size, MADV_HUGEPAGE) != 0) {
        perror("madvise");
    }
    struct block block = { (struct line *)(void *)memory, size / sizeof(struct line) };
    for (uint64_t i = 0; i < block.count; i++) {
        block.lines[i].word = measure_mix(i);
    }
    return measure_serve(cases, sizeof cases / sizeof cases[0], &block);
}
