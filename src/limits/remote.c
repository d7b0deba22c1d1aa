/* SPDX-License-Identifier: Apache-2.0
 *
 * What callers prepare before they ask an engine: limits, compiled once and counted by their holders, and keys. A key
 * is three hashes with the cluster's secret: two, of the limit's name and all values, are its id; the third, of the
 * first value alone (without values, of the name), its tag. rules/compile.c and serve/cell.c make limits, rules/match.c
 * and serve/cell.c make keys; the Redis engine (redis/redis.c) and gossip (gossip_host.c) take them. */
#include "limits/remote.h"

#include <endian.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/bytes.h"
#include "base/fault.h"
#include "base/siphash.h"

/* The same on every machine: it lies in values that nodes share. */
static uint64_t hash_calendar(const struct weir_limit_spec *spec)
{
    static const struct weir_sip_key key = { 0, 0 };
    const uint32_t count = spec->calendar_count > 0 ? spec->calendar_count : 1;
    const uint32_t words[2] = { htole32((uint32_t)spec->calendar), htole32(count) };
    const char *tz = spec->tz ? spec->tz : "UTC";
    return weir_siphash_joined(&key, words, sizeof words, tz, strlen(tz));
}

int weir_remote_limit_init(struct weir_remote_limit *limit, const char *name, const struct weir_limit_spec *spec,
                           struct weir_fault *ret_fault)
{
    struct weir_remote_limit made = { .spec = *spec, .revision = WEIR_REVISION_FIRST, .holders = 1 };
    size_t size = strlen(name);
    if (size == 0 || size > WEIR_LIMIT_NAME_MAX)
        return WEIR_ERANGE;
    memcpy(made.name, name, size);
    int error = weir_limit_init(&made.limit, spec, 0, ret_fault);
    if (error)
        return error;
    if (spec->algorithm == WEIR_CONCURRENCY)
        return weir_fault_set(ret_fault, WEIR_EINVAL, "algorithm", "concurrency is kept in this process's memory only");
    if (made.limit.calendar && spec->tz) {
        error = weir_zone_create(spec->tz, &made.zone);
        if (error)
            return error;
    }
    if (made.limit.calendar)
        weir_limit_zone_falls_back(&made.limit, weir_zone_back_ns(made.zone));
    made.rule = (struct weir_calendar_rule){ spec->calendar, spec->calendar_count, spec->period_ns, made.zone };
    if (made.limit.calendar)
        made.calendar_hash = hash_calendar(spec);
    made.spec.tz = NULL; /* the caller's */
    *limit = made;
    return 0;
}

void weir_remote_limit_deinit(struct weir_remote_limit *limit)
{
    weir_zone_destroy(limit->zone);
    *limit = (struct weir_remote_limit){ 0 };
}

int weir_remote_limit_create(const char *name, uint64_t variant, uint32_t revision, const struct weir_limit_spec *spec,
                             const struct weir_remote_limit **ret_limit, struct weir_fault *ret_fault)
{
    struct weir_remote_limit *limit = malloc(sizeof(*limit));
    if (!limit)
        return WEIR_ENOMEM;
    int error = weir_remote_limit_init(limit, name, spec, ret_fault);
    if (error) {
        free(limit);
        return error;
    }
    limit->variant = variant;
    limit->revision = revision;
    *ret_limit = limit;
    return 0;
}

/* Immutable but for the count of its holders, and for what it met. */
static struct weir_remote_limit *counted(const struct weir_remote_limit *limit)
{
    return (struct weir_remote_limit *)(uintptr_t)limit;
}

const struct weir_remote_limit *weir_remote_limit_hold(const struct weir_remote_limit *limit)
{
    atomic_fetch_add_explicit(&counted(limit)->holders, 1, memory_order_relaxed);
    return limit;
}

void weir_remote_limit_drop(const struct weir_remote_limit *limit)
{
    if (!limit || atomic_fetch_sub_explicit(&counted(limit)->holders, 1, memory_order_acq_rel) > 1)
        return;
    weir_remote_limit_drop(limit->whole);
    weir_remote_limit_deinit(counted(limit));
    free(counted(limit));
}

void weir_remote_limit_override(const struct weir_remote_limit *override, const struct weir_remote_limit *limit)
{
    weir_assert(!override->whole && !limit->whole && override != limit);
    counted(override)->whole = weir_remote_limit_hold(limit);
}

void weir_remote_limit_leveled(const struct weir_remote_limit *limit)
{
    counted(limit)->leveled = true;
}

/* What is not passed must not hide what is. */
static uint32_t rank(uint32_t revision)
{
    return revision > WEIR_REVISION_CLOCK_MAX ? WEIR_REVISION_FIRST : revision;
}

void weir_remote_limit_meet(const struct weir_remote_limit *limit, uint32_t revision)
{
    _Atomic uint32_t *met = &counted(limit->whole ? limit->whole : limit)->met;
    uint32_t before = atomic_load_explicit(met, memory_order_relaxed);
    while (rank(before) < rank(revision) &&
           !atomic_compare_exchange_weak_explicit(met, &before, revision, memory_order_relaxed, memory_order_relaxed))
        continue;
}

uint32_t weir_remote_limit_met(const struct weir_remote_limit *limit)
{
    return atomic_load_explicit(&limit->met, memory_order_relaxed);
}

int weir_values_append(uint8_t *bytes, size_t *size, const struct weir_slice *values, size_t count)
{
    size_t total = 0;
    if (count > WEIR_KEY_VALUES_MAX)
        return WEIR_ERANGE;
    for (size_t i = 0; i < count; i++) {
        bool absent = values[i].size == WEIR_VALUE_ABSENT;
        size_t length = absent ? 0 : values[i].size;
        uint32_t head = absent ? UINT32_MAX : (uint32_t)length; /* no value is so long */
        if (length > WEIR_KEY_BYTES_MAX - total)
            return WEIR_ERANGE;
        total += length;
        weir_little_put(bytes + *size, head, 4);
        *size += 4;
        if (length > 0)
            memcpy(bytes + *size, values[i].data, length);
        *size += length;
    }
    return 0;
}

/* What the hashes of one tuple are for: each has a key of its own. */
enum purpose { PURPOSE_LOW, PURPOSE_HIGH, PURPOSE_TAG };

static uint64_t hash(const struct weir_sip_key *key, enum purpose purpose, const void *bytes, size_t size)
{
    const struct weir_sip_key own = { key->k0 ^ (uint64_t)purpose, key->k1 };
    return weir_siphash(&own, bytes, size);
}

int weir_remote_key_init(const uint8_t *secret, const char *limit, const struct weir_slice *values, size_t count,
                         struct weir_remote_key *ret_key)
{
    static const uint8_t zeros[16] = { 0 };
    uint8_t bytes[WEIR_LIMIT_NAME_MAX + 1 + WEIR_KEY_BYTES_MAX + WEIR_KEY_VALUES_MAX * 4];
    const struct weir_sip_key key = weir_sip_key_load(secret ? secret : zeros);
    size_t name_size = strlen(limit) + 1, size = name_size;
    weir_assert(name_size <= WEIR_LIMIT_NAME_MAX + 1);
    memcpy(bytes, limit, name_size);
    int error = weir_values_append(bytes, &size, values, count);
    if (error)
        return error;
    bool first = count > 0 && values[0].size != WEIR_VALUE_ABSENT;
    size_t first_size = 4 + (first ? values[0].size : 0);
    uint64_t high = hash(&key, PURPOSE_HIGH, bytes, size);
    *ret_key = (struct weir_remote_key){
        .id = { hash(&key, PURPOSE_LOW, bytes, size), high },
        /* Limits of one tenant, whatever their names, share the tag of its value. */
        .tag = count > 0 ? hash(&key, PURPOSE_TAG, bytes + name_size, first_size)
                         : hash(&key, PURPOSE_TAG, bytes, name_size),
        .phase = high, /* any bits that nodes agree on */
    };
    return 0;
}
