/* SPDX-License-Identifier: Apache-2.0
 *
 * bench_bans KEYS: what exceptions cost a request that meets one limit by one attribute. Where there are none; where
 * KEYS keys are banned and the request's is none of them, or is one; where they have a level, and it has one; and how
 * much of that is the hash of the key. Keys come at
 * random, so that the table's lines are not in the cache. "bytes": of the table, for each ban. */
#include "measure.h"

#include <stdio.h>
#include <stdlib.h>

#include "rules/excepted_keys.h"

#define CHUNK 4096

struct subject {
    struct weir_excepted_keys *none, *many, *leveled, *reset;
    uint64_t keys;
};

/* As serve/excepted.c does it, without finding the values. */
static uint64_t hash_of(const struct weir_excepted_keys *keys, uint64_t number)
{
    struct weir_siphash_state state;
    weir_excepted_keys_hash_start(keys, "api-per-user", &state);
    weir_excepted_keys_hash_add(&state, (struct weir_slice){ "user", 4 });
    weir_excepted_keys_hash_add(&state, (struct weir_slice){ &number, sizeof number });
    return weir_excepted_keys_hash_end(&state);
}

static void ask(const struct weir_excepted_keys *keys, uint64_t number)
{
    struct weir_excepted excepted;
    if (weir_excepted_keys_any(keys)) {
        const uint64_t hash = hash_of(keys, number);
        measure_keep(weir_excepted_keys_mark(keys, hash));
        measure_keep(weir_excepted_keys_find(keys, hash, 1, &excepted));
    }
}

static uint64_t none(void *context, uint64_t *state)
{
    const struct subject *subject = context;
    for (int i = 0; i < CHUNK; i++) {
        ask(subject->none, measure_mix((*state)++));
        measure_keep(*state);
    }
    return CHUNK;
}

static uint64_t hash(void *context, uint64_t *state)
{
    const struct subject *subject = context;
    for (int i = 0; i < CHUNK; i++) {
        measure_keep(hash_of(subject->many, measure_mix((*state)++)));
    }
    return CHUNK;
}

/* Numbers from `keys` on are not banned. */
static uint64_t miss(void *context, uint64_t *state)
{
    const struct subject *subject = context;
    for (int i = 0; i < CHUNK; i++) {
        ask(subject->many, subject->keys + (measure_mix((*state)++) >> 1));
    }
    return CHUNK;
}

static uint64_t hit(void *context, uint64_t *state)
{
    const struct subject *subject = context;
    for (int i = 0; i < CHUNK; i++) {
        ask(subject->many, measure_below(measure_mix((*state)++), subject->keys));
    }
    return CHUNK;
}

static uint64_t level(void *context, uint64_t *state)
{
    const struct subject *subject = context;
    for (int i = 0; i < CHUNK; i++) {
        ask(subject->leveled, measure_below(measure_mix((*state)++), subject->keys));
    }
    return CHUNK;
}

static uint64_t reset(void *context, uint64_t *state)
{
    const struct subject *subject = context;
    for (int i = 0; i < CHUNK; i++) {
        ask(subject->reset, measure_below(measure_mix((*state)++), subject->keys));
    }
    return CHUNK;
}

static double bytes(void *context, const struct measure_case *self, uint64_t sample_ns)
{
    const struct subject *subject = context;
    (void)self, (void)sample_ns;
    return (double)weir_excepted_keys_bytes(subject->many) / (double)weir_excepted_keys_count(subject->many);
}

int main(int argc, char **argv)
{
    static const struct measure_case cases[] = {
        { "none", measure_take, none, 1 },   { "hash", measure_take, hash, 1 },   { "miss", measure_take, miss, 1 },
        { "hit", measure_take, hit, 1 },     { "miss-2", measure_take, miss, 2 }, { "level", measure_take, level, 1 },
        { "reset", measure_take, reset, 1 }, { "bytes", bytes, NULL, 1 },
    };
    struct subject subject = { .keys = measure_argument(argc, argv, 1, 1, 100000000, "KEYS") };
    if (weir_excepted_keys_create(subject.keys, &subject.none) ||
        weir_excepted_keys_create(subject.keys, &subject.many) ||
        weir_excepted_keys_create(subject.keys, &subject.leveled) ||
        weir_excepted_keys_create(subject.keys, &subject.reset)) {
        return EXIT_FAILURE;
    }
    for (uint64_t i = 0; i < subject.keys; i++) {
        if (weir_excepted_keys_put(subject.many, hash_of(subject.many, i), NULL, 0, 1) ||
            weir_excepted_keys_put(subject.leveled, hash_of(subject.leveled, i), i % 2 ? "plus" : "low", 0, 1) ||
            weir_excepted_keys_reset(subject.reset, hash_of(subject.reset, i), i + 2, 1)) {
            return EXIT_FAILURE;
        }
    }
    int code = measure_serve(cases, sizeof cases / sizeof cases[0], &subject);
    weir_excepted_keys_destroy(subject.none);
    weir_excepted_keys_destroy(subject.many);
    weir_excepted_keys_destroy(subject.leveled);
    weir_excepted_keys_destroy(subject.reset);
    return code;
}
