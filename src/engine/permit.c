/* SPDX-License-Identifier: Apache-2.0
 *
 * Permits of concurrency limits, by their number and keys. The entry of a key says itself by which limit it goes, so
 * that a permit outlives any number of changes of the limits. */
#include "engine/memory.h"

/* One key of a permit on its way. What an entry that is held says it is of is not used again before it is let go. */
struct part {
    const struct weir_terms *terms; /* NULL: the key has no permits at all */
    struct weir_event event;
    struct weir_entry entry;
};

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

/* The limit that an entry is of, and the one that has taken its place; NULL unless both are concurrency limits. */
static const struct weir_terms *terms_of(const struct weir_limiter *limiter, const struct weir_held *held)
{
    const struct weir_record *from = weir_record_at(limiter, weir_pair_limit(held->pair));
    const struct weir_record *to = from ? weir_record_now(limiter, from) : NULL;
    bool permits = to && from->terms.limit.algorithm == WEIR_CONCURRENCY &&
                   to->terms.limit.algorithm == WEIR_CONCURRENCY;
    return permits ? &to->terms : NULL;
}

static void hold(struct weir_limiter *limiter, uint64_t hash, const struct weir_time *time, struct part *part)
{
    static const struct weir_key no_key = { 0 }; /* permits have no phase */
    struct weir_held *held = &part->entry.held;
    uint64_t wait_ns;
    part->terms = NULL;
    part->entry.widened = false;
    if (weir_table_hold(&limiter->table, hash, 0, WEIR_ABSENT_LEAVE, time->now_ns, held, &wait_ns) != WEIR_HOLD_OK)
        return;
    part->terms = terms_of(limiter, held);
    if (!part->terms) {
        weir_table_release(held, weir_pair_limit(held->pair), weir_pair_fresh_at(held->pair));
        return;
    }
    const struct weir_record *from = weir_record_at(limiter, weir_pair_limit(held->pair));
    part->event = weir_event_make(limiter, part->terms, &no_key, 0, time);
    weir_entry_unpack(limiter, &from->terms.limit, &part->entry);
    if (&from->terms != part->terms) {
        bool converted = weir_entry_convert(limiter, part->terms, &part->event, &part->entry);
        weir_assert(converted); /* it needs neither room nor a wider place */
    }
    weir_limit_settle(&part->terms->limit, &part->entry.state, &part->event);
}

/* Holds what there is of all keys. */
static int hold_all(struct weir_limiter *limiter, const struct weir_key *keys, size_t count,
                    const struct weir_time *time, struct part *parts)
{
    uint64_t hashes[WEIR_CHARGES_MAX];
    int error = sort_keys(keys, count, hashes);
    if (error)
        return error;
    struct weir_time now = time ? *time : weir_time_read_monotonic();
    if (!weir_table_in_reach(&limiter->table, now.now_ns))
        weir_limiter_reach(limiter, now.now_ns);
    for (size_t i = 0; i < count; i++)
        hold(limiter, hashes[i], &now, &parts[i]);
    return 0;
}

static void let_go(struct weir_limiter *limiter, struct part *parts, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (parts[i].terms)
            weir_entry_release(limiter, parts[i].terms, &parts[i].entry);
}

int weir_limiter_release(struct weir_limiter *limiter, const struct weir_key *keys, size_t count, uint64_t permit,
                         const struct weir_time *time, uint64_t *ret_units)
{
    struct part parts[WEIR_CHARGES_MAX];
    uint64_t units = 0;
    int error = hold_all(limiter, keys, count, time, parts);
    if (error)
        return error;
    for (size_t i = 0; i < count; i++) {
        const struct weir_terms *terms = parts[i].terms;
        uint64_t back = terms ? weir_limit_release(&terms->limit, &parts[i].entry.state, &parts[i].event, permit) : 0;
        if (back > 0)
            weir_count_permits(limiter, terms, 0, back, 0);
        units += back;
    }
    let_go(limiter, parts, count);
    *ret_units = units;
    return 0;
}

static uint64_t lease_of(const struct part *part, uint64_t permit)
{
    return part->terms ? weir_limit_lease_ns(&part->terms->limit, &part->entry.state, &part->event, permit) : 0;
}

int weir_limiter_renew(struct weir_limiter *limiter, const struct weir_key *keys, size_t count, uint64_t permit,
                       const struct weir_time *time, uint64_t *ret_lease_ns)
{
    struct part parts[WEIR_CHARGES_MAX];
    uint64_t lease_ns = WEIR_NEVER;
    int error = hold_all(limiter, keys, count, time, parts);
    if (error)
        return error;
    for (size_t i = 0; i < count; i++)
        lease_ns = weir_min_u64(lease_ns, lease_of(&parts[i], permit));
    bool lost = lease_ns == 0;
    for (size_t i = 0; i < count && !lost; i++) {
        uint64_t left_ns = weir_limit_renew(&parts[i].terms->limit, &parts[i].entry.state, &parts[i].event, permit);
        lease_ns = i == 0 ? left_ns : weir_min_u64(lease_ns, left_ns);
    }
    let_go(limiter, parts, count);
    *ret_lease_ns = lease_ns;
    return 0;
}
