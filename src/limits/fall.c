/* SPDX-License-Identifier: Apache-2.0
 *
 * How a fall is noticed: the table (src/table) keeps the latest time at which it forgot a key. If a caller's clock is
 * more than skew_max behind that time, it has fallen: that time moves to from_ns, and the table's starts again at the
 * caller's clock. Called by entry.c for each newcomer and by define.c in maintenance. The wall clock, by which calendar
 * windows go, is watched in wall.c. */
#include "limits/fall.h"

void weir_fall_init(struct weir_fall *fall)
{
    *fall = (struct weir_fall){ 0 };
    pthread_mutex_init(&fall->mutex, NULL);
}

void weir_fall_deinit(struct weir_fall *fall)
{
    pthread_mutex_destroy(&fall->mutex);
}

static uint64_t load(const uint64_t *word)
{
    return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

static bool is_behind(const struct weir_table *table, uint64_t now_ns, uint64_t then_ns)
{
    return then_ns > now_ns && then_ns - now_ns > table->skew_max_ns;
}

/* What is forgotten from here on is forgotten by the clock that fell. */
static void fell(struct weir_fall *fall, struct weir_table *table, uint64_t now_ns)
{
    pthread_mutex_lock(&fall->mutex);
    uint64_t last = load(&table->forgotten_ns);
    if (is_behind(table, now_ns, last)) { /* nobody else saw it first */
        __atomic_fetch_add(&fall->count, 1, __ATOMIC_RELAXED);
        __atomic_store_n(&fall->at_ns, now_ns, __ATOMIC_RELEASE);
        while (load(&table->forgotten_ns) > now_ns) { /* somebody may still have the time from before */
            last = load(&table->forgotten_ns);
            if (last > load(&fall->from_ns))
                __atomic_store_n(&fall->from_ns, last, __ATOMIC_RELEASE);
            (void)__atomic_compare_exchange_n(&table->forgotten_ns, &last, now_ns, false, __ATOMIC_ACQ_REL,
                                              __ATOMIC_ACQUIRE);
        }
    }
    pthread_mutex_unlock(&fall->mutex);
}

uint64_t weir_fall_until(struct weir_fall *fall, struct weir_table *table, uint64_t now_ns, uint64_t fill_ns)
{
    if (table->skew_max_ns == 0) /* one clock, which does not go back */
        return 0;
    if (is_behind(table, now_ns, load(&table->forgotten_ns)))
        fell(fall, table, now_ns);
    uint64_t from = load(&fall->from_ns);
    if (!is_behind(table, now_ns, from))
        return 0;
    uint64_t until = weir_min_u64(from - table->skew_max_ns, weir_add_sat(load(&fall->at_ns), fill_ns));
    return until > now_ns ? until : 0;
}
