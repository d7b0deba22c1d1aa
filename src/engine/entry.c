/* SPDX-License-Identifier: Apache-2.0
 *
 * An entry of the table as a state of the core: packing, converting, rings for logs. */
#include "engine/memory.h"

/* How many live logs may be evicted for one that needs room; how many lines are searched for each, and how often. */
#define LOG_EVICTIONS 8
#define LOG_SEARCH_LINES 256
#define LOG_SEARCHES 64

struct weir_event weir_event_make(struct weir_limiter *limiter, const struct weir_record *record,
                                  const struct weir_key *key, uint64_t cost, const struct weir_time *time)
{
    struct weir_event event = { .now_ns = time->now_ns, .cost = cost };
    if (record->limit.calendar) {
        uint64_t phase_ns = (uint64_t)((weir_u128)key->phase * record->spread_ns >> 64);
        event.window = weir_wall_window(&limiter->wall, &record->rule, record->limit.period_ns, phase_ns, time->now_ns,
                                        time->wall_ns);
    }
    return event;
}

static bool is_permits(const struct weir_limit *limit)
{
    return limit->algorithm == WEIR_CONCURRENCY;
}

/* ---- rings ---- */

/* A log in a continuation: a = block << 5 | order + 1 (0: no ring), b = head << 32 | used. */
static struct weir_log log_unpack(const struct weir_limiter *limiter, uint64_t a, uint64_t b)
{
    struct weir_log log = { NULL, 0, (uint32_t)(b >> 32), (uint32_t)b };
    if (a & 31) {
        log.room = (uint32_t)WEIR_LOGS_ENTRIES_MIN << ((a & 31) - 1);
        log.times = weir_logs_times(&limiter->logs, (uint32_t)(a >> 5));
    }
    return log;
}

static uint32_t ring_block(const struct weir_limiter *limiter, const struct weir_log *log)
{
    return (uint32_t)((size_t)(log->times - limiter->logs.memory) / WEIR_LOGS_ENTRIES_MIN);
}

static void ring_give(struct weir_limiter *limiter, struct weir_log *log)
{
    if (log->room > 0)
        weir_logs_give(&limiter->logs, ring_block(limiter, log), log->room);
    *log = (struct weir_log){ 0 };
}

/* Of some lines' logs, ours (which is held) aside: forgets the one closest to fresh, if it is dead or may be evicted.
 * Else ret_wait_ns is at most how long until it is dead. */
static bool forget_a_log(struct weir_limiter *limiter, bool evict, uint64_t now_ns, uint64_t *ret_wait_ns,
                         bool *ret_live)
{
    struct weir_entry entry;
    uint64_t cursor = __atomic_fetch_add(&limiter->log_cursor, LOG_SEARCH_LINES, __ATOMIC_RELAXED);
    if (!weir_table_hold_any(&limiter->table, &cursor, LOG_SEARCH_LINES, now_ns, &entry.held))
        return false;
    uint32_t number = weir_pair_limit(entry.held.pair);
    uint64_t wait_ns = weir_table_dead_after_ns(&limiter->table, entry.held.pair, now_ns);
    if (wait_ns > 0 && !evict) {
        weir_table_release(&entry.held, number, weir_pair_fresh_at(entry.held.pair));
        *ret_wait_ns = weir_min_u64(*ret_wait_ns, wait_ns);
        return false;
    }
    entry.state.log = log_unpack(limiter, entry.held.a, entry.held.b);
    weir_entry_drop(limiter, &entry);
    *ret_live = wait_ns > 0;
    if (wait_ns > 0)
        weir_count_evicted(limiter, number);
    return true;
}

static uint32_t ring_take(struct weir_limiter *limiter, uint32_t room, bool evict, uint64_t now_ns,
                          uint64_t *ret_wait_ns)
{
    uint32_t block = weir_logs_take(&limiter->logs, room);
    unsigned evicted = 0;
    for (unsigned i = 0; block == WEIR_LOGS_NONE && i < LOG_SEARCHES; i++) {
        bool live = false;
        if (forget_a_log(limiter, evict && evicted < LOG_EVICTIONS, now_ns, ret_wait_ns, &live))
            block = weir_logs_take(&limiter->logs, room);
        evicted += live;
    }
    if (block == WEIR_LOGS_NONE)
        __atomic_store_n(&limiter->logs_short, true, __ATOMIC_RELAXED);
    return block;
}

bool weir_entry_room(struct weir_limiter *limiter, const struct weir_record *record, const struct weir_event *event,
                     uint64_t units, struct weir_entry *entry, uint64_t *ret_wait_ns)
{
    struct weir_log *log = &entry->state.log;
    uint64_t wait_ns = record->limit.period_ns + limiter->skew_max_ns + 1;
    uint32_t need = weir_limit_room(&record->limit, &entry->state, event, units);
    if (need == 0 || (need <= log->room && need >= log->room / 4))
        return true;
    if (need < log->used) /* not yet popped; the next charge will shrink it */
        return need <= log->room;
    uint32_t block = ring_take(limiter, need, record->on_full == WEIR_ON_FULL_EVICT, event->now_ns, &wait_ns);
    if (block == WEIR_LOGS_NONE) {
        if (ret_wait_ns)
            *ret_wait_ns = wait_ns;
        return need <= log->room;
    }
    struct weir_log old = *log;
    weir_log_move(log, weir_logs_times(&limiter->logs, block), need);
    ring_give(limiter, &old);
    return true;
}

/* ---- packing ---- */

void weir_entry_unpack(const struct weir_limiter *limiter, const struct weir_limit *limit, struct weir_entry *entry)
{
    const struct weir_held *held = &entry->held;
    entry->state = (struct weir_state){ .fresh_at = weir_pair_fresh_at(held->pair) };
    if (weir_limit_keeps_log(limit)) {
        entry->state.log = log_unpack(limiter, held->a, held->b);
    } else if (held->wide) {
        entry->state.count = held->b;
        if (limit->algorithm == WEIR_FIXED_WINDOW)
            entry->state.window = held->a;
        else
            entry->state.previous = held->a;
    }
}

static void pack(const struct weir_limiter *limiter, const struct weir_limit *limit, struct weir_entry *entry)
{
    struct weir_held *held = &entry->held;
    const struct weir_state *state = &entry->state;
    held->b = state->count;
    if (limit->algorithm == WEIR_FIXED_WINDOW) {
        held->a = state->window;
    } else if (limit->algorithm == WEIR_SLIDING_COUNTER) {
        held->a = state->previous;
    } else if (weir_limit_keeps_log(limit)) {
        const struct weir_log *log = &state->log;
        held->a = 0;
        if (log->room > 0) {
            uint64_t order = (uint64_t)__builtin_ctz(log->room / WEIR_LOGS_ENTRIES_MIN);
            held->a = (uint64_t)ring_block(limiter, log) << 5 | (order + 1);
        }
        held->b = (uint64_t)log->head << 32 | log->used;
    }
}

void weir_entry_forgotten(void *context, uint32_t number, uint64_t a, uint64_t b, bool evicted)
{
    struct weir_limiter *limiter = context;
    struct weir_record *record = weir_record_at(limiter, number);
    if (!record)
        return;
    if (weir_limit_keeps_log(&record->limit)) {
        struct weir_log log = log_unpack(limiter, a, b);
        ring_give(limiter, &log);
    }
    if (evicted)
        __atomic_fetch_add(&record->evicted, 1, __ATOMIC_RELAXED);
}

/* ---- holding ---- */

/* The log's ring and the continuation must fit the limit that the entry goes to. */
static bool fit_width(struct weir_limiter *limiter, const struct weir_record *to, uint64_t now_ns,
                      struct weir_entry *entry)
{
    bool wide = !weir_limit_is_bucket(&to->limit);
    if (wide && !entry->held.wide)
        return weir_table_widen(&limiter->table, &entry->held, now_ns);
    if (!wide && entry->held.wide)
        weir_table_narrow(&limiter->table, &entry->held);
    return true;
}

bool weir_entry_convert(struct weir_limiter *limiter, const struct weir_record *to, const struct weir_event *event,
                        struct weir_entry *entry)
{
    const struct weir_record *from = weir_record_at(limiter, weir_pair_limit(entry->held.pair));
    bool reset = !from || to->spec.on_change == WEIR_ON_CHANGE_RESET;
    bool permits = !reset && is_permits(&from->limit) && is_permits(&to->limit); /* they stay where they are */
    if (!reset && weir_limit_keeps_log(&to->limit) && !permits) {
        uint64_t units = weir_limit_carried(&from->limit, &to->limit, to->spec.on_change, &entry->state, event);
        if (!weir_entry_room(limiter, to, event, units, entry, NULL))
            return false;
    }
    if (!fit_width(limiter, to, event->now_ns, entry))
        return false;
    if (reset) {
        struct weir_log log = entry->state.log;
        entry->state = weir_state_fresh(&to->limit, event->now_ns);
        ring_give(limiter, &log);
    } else {
        weir_limit_convert(&from->limit, &to->limit, to->spec.on_change, &entry->state, event);
        if (!weir_limit_keeps_log(&to->limit))
            ring_give(limiter, &entry->state.log);
    }
    __atomic_fetch_add(&limiter->converted, 1, __ATOMIC_RELAXED);
    return true;
}

void weir_entry_put_back(struct weir_limiter *limiter, struct weir_entry *entry)
{
    const struct weir_record *from = weir_record_at(limiter, weir_pair_limit(entry->held.pair));
    if (!from || !weir_limit_keeps_log(&from->limit))
        ring_give(limiter, &entry->state.log);
    if (from)
        pack(limiter, &from->limit, entry);
    weir_table_release(&entry->held, weir_pair_limit(entry->held.pair), weir_pair_fresh_at(entry->held.pair));
}

enum weir_hold weir_entry_hold(struct weir_limiter *limiter, const struct weir_record *record, uint64_t hash,
                               enum weir_absent absent, const struct weir_event *event, struct weir_entry *ret_entry,
                               uint64_t *ret_wait_ns)
{
    uint32_t number = weir_id_number(record->id);
    enum weir_hold result = weir_table_hold(&limiter->table, hash, number, absent, event->now_ns, &ret_entry->held,
                                            ret_wait_ns);
    if (result != WEIR_HOLD_OK)
        return result;
    uint32_t written_under = weir_pair_limit(ret_entry->held.pair);
    const struct weir_record *from = weir_record_at(limiter, written_under);
    weir_entry_unpack(limiter, from ? &from->limit : &record->limit, ret_entry);
    if (written_under != number && !weir_entry_convert(limiter, record, event, ret_entry)) {
        weir_entry_put_back(limiter, ret_entry);
        *ret_wait_ns = 1;
        return WEIR_HOLD_FULL;
    }
    if (!weir_limit_jumped(&record->limit, &ret_entry->state, event->now_ns))
        return WEIR_HOLD_OK;
    /* Without room for a full log the key stays as it is, which is refused too. Permits need none. */
    if (is_permits(&record->limit) ||
        weir_entry_room(limiter, record, event, record->limit.capacity, ret_entry, NULL)) {
        weir_limit_settle(&record->limit, &ret_entry->state, event);
        __atomic_fetch_add(&limiter->clock_jumps, 1, __ATOMIC_RELAXED);
    }
    return WEIR_HOLD_OK;
}

void weir_entry_release(struct weir_limiter *limiter, const struct weir_record *record, struct weir_entry *entry)
{
    pack(limiter, &record->limit, entry);
    weir_table_release(&entry->held, weir_id_number(record->id), entry->state.fresh_at);
}

void weir_entry_drop(struct weir_limiter *limiter, struct weir_entry *entry)
{
    ring_give(limiter, &entry->state.log);
    weir_table_drop(&limiter->table, &entry->held);
}
