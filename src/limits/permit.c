/* SPDX-License-Identifier: Apache-2.0
 *
 * Permits of concurrency limits, by their number and keys. The entry of a key says itself by which limit it goes, so
 * that a permit outlives any number of changes of the limits. */
#include "limits/memory.h"

/* Ascending by hash, in which order entries are held; WEIR_EDUP if two are equal. */
static int sort_keys(const struct weir_key *keys, size_t count, uint64_t *hashes)
{
    if (count == 0 || count > WEIR_CHARGES_MAX)
        return WEIR_ERANGE;
    for (size_t i = 0; i < count; i++) {
        size_t at = i;
        for (; at > 0 && hashes[at - 1] > keys[i].hash; at--)
            hashes[at] = hashes[at - 1];
        if (at > 0 && hashes[at - 1] == keys[i].hash)
            return WEIR_EDUP;
        hashes[at] = keys[i].hash;
    }
    return 0;
}

/* The limit that has taken the place of the one that an entry is of, or this itself. False unless both are concurrency
 * limits. What an entry that is held says it is of is not used again before it is let go; but its id ends before that
 * (finish_retired), and the entry must show the number all the same: else no walk finds it, and nobody's it stays. */
static bool terms_of(const struct weir_limiter *limiter, const struct weir_held *held, struct weir_terms *ret_terms)
{
    uint32_t number = weir_pair_limit(held->pair);
    const struct weir_record *from = weir_record_at(limiter, number);
    if (!from || from->terms.limit.algorithm != WEIR_CONCURRENCY)
        return false;
    uint32_t next = __atomic_load_n(&from->next, __ATOMIC_ACQUIRE);
    const struct weir_record *to = next ? weir_record_at(limiter, next) : from;
    weir_words_load(ret_terms, &to->terms, sizeof *ret_terms);
    ret_terms->id = next ? next : number;
    return ret_terms->limit.algorithm == WEIR_CONCURRENCY;
}

static void hold(struct weir_limiter *limiter, uint64_t hash, const struct weir_time *time, struct weir_grip *part)
{
    static const struct weir_key no_key = { 0 }; /* permits have no phase */
    struct weir_held *held = &part->entry.held;
    uint64_t wait_ns;
    part->held = false;
    part->entry.widened = false;
    if (weir_table_hold(&limiter->table, hash, 0, WEIR_ABSENT_LEAVE, time->now_ns, held, &wait_ns) != WEIR_HOLD_OK)
        return;
    uint32_t number = weir_pair_limit(held->pair);
    part->held = terms_of(limiter, held, &part->terms);
    if (!part->held) {
        weir_table_release(held, number, weir_pair_fresh_at(held->pair));
        return;
    }
    part->event = weir_event_make(limiter, &part->terms, &no_key, 0, time);
    weir_entry_unpack(limiter, &weir_record_at(limiter, number)->terms.limit, &part->entry);
    if (weir_id_number(part->terms.id) != number) {
        bool converted = weir_entry_convert(limiter, &part->terms, &part->event, &part->entry);
        weir_assert(converted); /* it needs neither room nor a wider place */
    }
    weir_limit_settle(&part->terms.limit, &part->entry.state, &part->event);
}

/* Holds what there is of all keys. */
static int hold_all(struct weir_limiter *limiter, const struct weir_key *keys, size_t count,
                    const struct weir_time *time, struct weir_grip *parts)
{
    uint64_t hashes[WEIR_CHARGES_MAX];
    int error = sort_keys(keys, count, hashes);
    if (error)
        return error;
    struct weir_time now = time ? *time : weir_limiter_time_monotonic(limiter);
    if (!weir_table_in_reach(&limiter->table, now.now_ns))
        weir_limiter_reach(limiter, now.now_ns);
    for (size_t i = 0; i < count; i++)
        hold(limiter, hashes[i], &now, &parts[i]);
    return 0;
}

static void let_go(struct weir_limiter *limiter, struct weir_grip *parts, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (parts[i].held)
            weir_entry_release(limiter, &parts[i].terms, &parts[i].entry);
}

int weir_limiter_release(struct weir_limiter *limiter, const struct weir_key *keys, size_t count, uint64_t permit,
                         const struct weir_time *time, uint64_t *ret_units)
{
    struct weir_grip parts[WEIR_CHARGES_MAX];
    uint64_t units = 0;
    int error = hold_all(limiter, keys, count, time, parts);
    if (error)
        return error;
    for (size_t i = 0; i < count; i++) {
        if (!parts[i].held)
            continue;
        uint64_t back = weir_limit_release(&parts[i].terms.limit, &parts[i].entry.state, &parts[i].event, permit);
        weir_count_permits(limiter, &parts[i].terms, 0, back, 0);
        units += back;
    }
    let_go(limiter, parts, count);
    *ret_units = units;
    return 0;
}

static uint64_t lease_of(const struct weir_grip *part, uint64_t permit)
{
    return part->held ? weir_limit_lease_ns(&part->terms.limit, &part->entry.state, &part->event, permit) : 0;
}

int weir_limiter_renew(struct weir_limiter *limiter, const struct weir_key *keys, size_t count, uint64_t permit,
                       const struct weir_time *time, uint64_t *ret_lease_ns)
{
    struct weir_grip parts[WEIR_CHARGES_MAX];
    uint64_t lease_ns = WEIR_NEVER;
    int error = hold_all(limiter, keys, count, time, parts);
    if (error)
        return error;
    for (size_t i = 0; i < count; i++)
        lease_ns = weir_min_u64(lease_ns, lease_of(&parts[i], permit));
    bool lost = lease_ns == 0;
    for (size_t i = 0; i < count && !lost; i++) {
        uint64_t left_ns = weir_limit_renew(&parts[i].terms.limit, &parts[i].entry.state, &parts[i].event, permit);
        lease_ns = i == 0 ? left_ns : weir_min_u64(lease_ns, left_ns);
    }
    let_go(limiter, parts, count);
    *ret_lease_ns = lease_ns;
    return 0;
}
