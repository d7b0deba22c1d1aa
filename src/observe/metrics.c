/* SPDX-License-Identifier: Apache-2.0
 *
 * Each loop has its counters in pages of 256 slots, which it makes when it needs the first slot of one; a reader adds
 * the loops up. Names have a hash table under a mutex, and are looked up when rules are loaded. Counted by
 * serve/decide.c, shared.c and resp_throttle.c; read by serve/http_metrics.c, http_limits.c and watch_look.c. */
#include "observe/metrics.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/siphash.h"

#define PAGE_SLOTS 256
#define PAGES (WEIR_METRICS_LIMITS_MAX / PAGE_SLOTS)
#define INDEX_SIZE (2 * WEIR_METRICS_LIMITS_MAX)

/* Counters of some slots of one loop; made by that loop when it needs the first of them. */
enum {
    FALLBACKS = WEIR_METRICS_VERDICTS,
    LACKS = FALLBACKS + WEIR_FALLBACK_POLICIES,
    UNITS = LACKS + WEIR_LACKS,
    HITS = UNITS + WEIR_UNITS,
    COUNTERS = HITS + WEIR_HITS
};
struct page {
    _Atomic uint64_t counts[PAGE_SLOTS][COUNTERS]; /* verdicts, fallbacks, lacks, units and hits */
};

/* Loops do not share a cache line. */
struct loop {
    _Alignas(64) struct weir_metrics_loop open;
    _Atomic(struct page *) pages[PAGES];
};

struct weir_metrics {
    struct loop *loops;
    size_t loop_count;
    pthread_mutex_t lock; /* of the names */
    char **names;         /* of slots; room for WEIR_METRICS_LIMITS_MAX */
    uint32_t *index;      /* open addressing by the name's hash; 0 = empty, else slot + 1 */
    size_t count;
};

/* ---- names ---- */

/* Where the name is, or would go. Names come from the configuration: their hash needs no secret. */
static uint32_t *place_of(struct weir_metrics *metrics, const char *name)
{
    const struct weir_sip_key key = { 0 };
    size_t at = (size_t)weir_siphash(&key, name, strlen(name)) % INDEX_SIZE;
    while (metrics->index[at] && strcmp(metrics->names[metrics->index[at] - 1], name) != 0)
        at = (at + 1) % INDEX_SIZE;
    return &metrics->index[at];
}

uint32_t weir_metrics_slot(struct weir_metrics *metrics, const char *name)
{
    pthread_mutex_lock(&metrics->lock);
    uint32_t *place = place_of(metrics, name);
    if (*place == 0 && metrics->count < WEIR_METRICS_LIMITS_MAX) {
        char *copy = strdup(name);
        if (copy) {
            metrics->names[metrics->count++] = copy;
            *place = (uint32_t)metrics->count;
        }
    }
    uint32_t slot = *place ? *place - 1 : WEIR_METRICS_OTHER;
    pthread_mutex_unlock(&metrics->lock);
    return slot;
}

size_t weir_metrics_slots(struct weir_metrics *metrics)
{
    pthread_mutex_lock(&metrics->lock);
    size_t count = metrics->count;
    pthread_mutex_unlock(&metrics->lock);
    return count;
}

const char *weir_metrics_name(struct weir_metrics *metrics, uint32_t slot)
{
    pthread_mutex_lock(&metrics->lock);
    weir_assert(slot < metrics->count);
    const char *name = metrics->names[slot];
    pthread_mutex_unlock(&metrics->lock);
    return name;
}

/* ---- counting ---- */

struct weir_metrics_loop *weir_metrics_of_loop(struct weir_metrics *metrics, size_t loop)
{
    weir_assert(loop < metrics->loop_count);
    return &metrics->loops[loop].open;
}

/* The page of a slot, made if need be; NULL: memory is out. */
static struct page *page_of(struct weir_metrics *metrics, size_t loop, uint32_t slot)
{
    weir_assert(loop < metrics->loop_count && slot < WEIR_METRICS_LIMITS_MAX);
    _Atomic(struct page *) *place = &metrics->loops[loop].pages[slot / PAGE_SLOTS];
    struct page *page = atomic_load_explicit(place, memory_order_relaxed);
    if (!page) {
        page = calloc(1, sizeof(*page));
        if (page)
            atomic_store_explicit(place, page, memory_order_release);
    }
    return page;
}

static void add(struct weir_metrics *metrics, size_t loop, uint32_t slot, size_t counter, uint64_t count)
{
    struct page *page = page_of(metrics, loop, slot);
    if (page)
        weir_count(&page->counts[slot % PAGE_SLOTS][counter], count);
}

void weir_metrics_fell_back(struct weir_metrics *metrics, size_t loop, uint32_t slot, enum weir_fallback_policy policy)
{
    weir_assert(policy < WEIR_FALLBACK_POLICIES);
    add(metrics, loop, slot, FALLBACKS + policy, 1);
}

void weir_metrics_decided(struct weir_metrics *metrics, size_t loop, uint32_t slot, enum weir_metrics_verdict verdict,
                          uint64_t count)
{
    weir_assert(verdict < WEIR_METRICS_VERDICTS);
    add(metrics, loop, slot, verdict, count);
}

void weir_metrics_lacked(struct weir_metrics *metrics, size_t loop, uint32_t slot, enum weir_lack lack)
{
    weir_assert(lack < WEIR_LACKS);
    add(metrics, loop, slot, LACKS + lack, 1);
}

void weir_metrics_units(struct weir_metrics *metrics, size_t loop, uint32_t slot, enum weir_units units, uint64_t count)
{
    weir_assert(units < WEIR_UNITS);
    add(metrics, loop, slot, UNITS + units, count);
}

void weir_metrics_hit(struct weir_metrics *metrics, size_t loop, uint32_t slot, enum weir_hits hits, uint64_t count)
{
    weir_assert(hits < WEIR_HITS);
    add(metrics, loop, slot, HITS + hits, count);
}

enum weir_metrics_verdict weir_metrics_verdict_of(const struct weir_verdict *verdict)
{
    if (verdict->admitted)
        return WEIR_METRICS_ADMITTED;
    if (verdict->shadow)
        return WEIR_METRICS_SHADOW_REFUSED;
    if (verdict->late)
        return WEIR_METRICS_SHED;
    return verdict->retry_after_ns == WEIR_NEVER ? WEIR_METRICS_NEVER : WEIR_METRICS_REFUSED;
}

/* ---- reading ---- */

/* `count` counters from the first on, the loops added up. */
static void sum(struct weir_metrics *metrics, uint32_t slot, size_t first, size_t count, uint64_t *ret_counts)
{
    memset(ret_counts, 0, count * sizeof(ret_counts[0]));
    for (size_t i = 0; i < metrics->loop_count; i++) {
        const struct page *page = atomic_load_explicit(&metrics->loops[i].pages[slot / PAGE_SLOTS],
                                                       memory_order_acquire);
        for (size_t at = 0; page && at < count; at++)
            ret_counts[at] += weir_counted(&page->counts[slot % PAGE_SLOTS][first + at]);
    }
}

size_t weir_metrics_loops(const struct weir_metrics *metrics)
{
    return metrics->loop_count;
}

const char *weir_metrics_verdict_name(enum weir_metrics_verdict verdict)
{
    static const char *const names[] = { WEIR_METRICS_VERDICT_LIST(WEIR_LIST_TEXT) };
    return names[verdict];
}

void weir_metrics_decisions(struct weir_metrics *metrics, uint32_t slot, uint64_t ret_counts[WEIR_METRICS_VERDICTS])
{
    sum(metrics, slot, 0, WEIR_METRICS_VERDICTS, ret_counts);
}

const char *weir_fallback_policy_name(enum weir_fallback_policy policy)
{
    static const char *const names[] = { WEIR_FALLBACK_POLICY_LIST(WEIR_LIST_TEXT) };
    return names[policy];
}

void weir_metrics_fallbacks(struct weir_metrics *metrics, uint32_t slot, uint64_t ret_counts[WEIR_FALLBACK_POLICIES])
{
    sum(metrics, slot, FALLBACKS, WEIR_FALLBACK_POLICIES, ret_counts);
}

const char *weir_metrics_lack_name(enum weir_lack lack)
{
    static const char *const names[] = { WEIR_LACK_LIST(WEIR_LIST_TEXT) };
    return names[lack];
}

void weir_metrics_lacks(struct weir_metrics *metrics, uint32_t slot, uint64_t ret_counts[WEIR_LACKS])
{
    sum(metrics, slot, LACKS, WEIR_LACKS, ret_counts);
}

void weir_metrics_units_of(struct weir_metrics *metrics, uint32_t slot, uint64_t ret_counts[WEIR_UNITS])
{
    sum(metrics, slot, UNITS, WEIR_UNITS, ret_counts);
}

/* ---- life ---- */

int weir_metrics_create(size_t loops, struct weir_metrics **ret_metrics)
{
    weir_assert(loops > 0);
    struct weir_metrics *metrics = calloc(1, sizeof(*metrics));
    if (!metrics)
        return WEIR_ENOMEM;
    pthread_mutex_init(&metrics->lock, NULL);
    metrics->loops = aligned_alloc(64, loops * sizeof(metrics->loops[0]));
    metrics->names = calloc(WEIR_METRICS_LIMITS_MAX, sizeof(metrics->names[0]));
    metrics->index = calloc(INDEX_SIZE, sizeof(metrics->index[0]));
    bool made = metrics->loops && metrics->names && metrics->index;
    if (made) {
        memset(metrics->loops, 0, loops * sizeof(metrics->loops[0]));
        metrics->loop_count = loops;
        weir_metrics_slot(metrics, "(other)");
        made = weir_metrics_slot(metrics, "CL.THROTTLE") == WEIR_METRICS_THROTTLE; /* else memory was out */
    }
    if (!made) {
        weir_metrics_destroy(metrics);
        return WEIR_ENOMEM;
    }
    *ret_metrics = metrics;
    return 0;
}

void weir_metrics_destroy(struct weir_metrics *metrics)
{
    if (!metrics)
        return;
    for (size_t i = 0; i < metrics->loop_count; i++) {
        for (size_t page = 0; page < PAGES; page++)
            free(atomic_load(&metrics->loops[i].pages[page]));
    }
    for (size_t i = 0; i < metrics->count; i++)
        free(metrics->names[i]);
    free(metrics->names);
    free(metrics->index);
    free(metrics->loops);
    pthread_mutex_destroy(&metrics->lock);
    free(metrics);
}

const char *weir_hits_name(enum weir_hits hits)
{
    static const char *const names[] = { WEIR_HITS_LIST(WEIR_LIST_TEXT) };
    return names[hits];
}

void weir_metrics_hits_of(struct weir_metrics *metrics, uint32_t slot, uint64_t ret_counts[WEIR_HITS])
{
    sum(metrics, slot, HITS, WEIR_HITS, ret_counts);
}
