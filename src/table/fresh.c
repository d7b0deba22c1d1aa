/* SPDX-License-Identifier: Apache-2.0
 *
 * How long until the key of an entry is fresh, and what its eviction would forgive: what room.c chooses by, and
 * grow.c, which leaves the dead behind. Reads what others may be changing. */
#include "table/internal.h"

int64_t weir_table_until_fresh_ns(const struct weir_table *table, struct weir_pair pair, uint64_t now_ns)
{
    int32_t shift = weir_table_kind(table, pair).shift;
    weir_debug_assert(shift >= WEIR_TICKS_SHIFT_MIN && shift <= WEIR_TICKS_SHIFT_MAX);
    int64_t ahead = weir_ticks_ahead(weir_pair_fresh_at(pair), weir_ticks_at(now_ns, shift));
    if (shift >= 0)
        return ahead >> shift;
    int64_t unit = INT64_C(1) << -shift;
    if (ahead > INT64_MAX / 2 / unit)
        return INT64_MAX / 2;
    return ahead < -(INT64_MAX / 2 / unit) ? -INT64_MAX / 2 : ahead * unit;
}

int64_t weir_table_forgiven_ns(const struct weir_table *table, const struct weir_line *line, unsigned index,
                               struct weir_pair pair, uint64_t now_ns)
{
    int64_t until_ns = weir_table_until_fresh_ns(table, pair, now_ns);
    struct weir_kind kind = weir_table_kind(table, pair);
    uint64_t a, b, share;
    if (until_ns <= 0 || kind.units == WEIR_UNITS_BY_TIME || index % 2 != 0)
        return until_ns;
    weir_continuation_get(&line->slot[index], &a, &b);
    uint64_t units = kind.units == WEIR_UNITS_B ? b : kind.units == WEIR_UNITS_B_LOW ? (uint32_t)b : weir_add_sat(a, b);
    uint64_t unit_share = __atomic_load_n(&table->unit_shares[weir_pair_limit(pair)], __ATOMIC_RELAXED);
    if (unit_share == 0 || __builtin_mul_overflow(units, unit_share, &share))
        return until_ns;
    int64_t forgiven_ns = (int64_t)((weir_u128)until_ns * share >> 64);
    weir_assert(forgiven_ns >= 0 && forgiven_ns <= until_ns);
    return forgiven_ns;
}

uint64_t weir_table_dead_after_ns(const struct weir_table *table, struct weir_pair pair, uint64_t now_ns)
{
    int64_t until = weir_table_until_fresh_ns(table, pair, now_ns) + (int64_t)table->skew_max_ns;
    return until >= 0 ? (uint64_t)until + 1 : 0;
}
