/* SPDX-License-Identifier: Apache-2.0
 *
 * An entry of the table as a state of the core: packing, converting, rings for logs. */
#include "limits/memory.h"
#include "limits/reserve_marks.h"

/* For a log that needs room, how many lines are searched at a time, and how often where that may evict one. What has
 * been searched in vain from end to end is searched again after a while, or when a ring has changed hands. */
#define LOG_SEARCH_LINES 256
#define LOG_SEARCHES 8
#define LOG_BARREN_NS UINT64_C(10000000)

struct weir_event weir_event_make(struct weir_limiter *limiter, const struct weir_terms *terms,
                                  const struct weir_key *key, uint64_t cost, const struct weir_time *time)
{
    struct weir_event event = { .now_ns = time->now_ns, .cost = cost };
    if (terms->limit.calendar) {
        uint64_t phase_ns = (uint64_t)((weir_u128)key->phase * terms->spread_ns >> 64);
        event.window = weir_wall_window(&limiter->wall, &terms->rule, terms->limit.period_ns, phase_ns, time->now_ns,
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

/* A ring has changed hands: a search may find one again. */
static void logs_changed(struct weir_limiter *limiter)
{
    __atomic_store_n(&limiter->logs_barren, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&limiter->logs_barren_since_ns, 0, __ATOMIC_RELAXED);
}

static void ring_give(struct weir_limiter *limiter, struct weir_log *log)
{
    if (log->room > 0) {
        weir_logs_give(&limiter->logs, ring_block(limiter, log), log->room);
        logs_changed(limiter);
    }
    *log = (struct weir_log){ 0 };
}

/* Of some lines' logs, ours (which is held) aside: forgets the one closest to fresh, if it is dead or may be evicted.
 * Else ret_wait_ns is at most how long until it is dead. */
static bool forget_a_log(struct weir_limiter *limiter, bool evict, uint64_t now_ns, uint64_t *ret_wait_ns)
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
    entry.widened = false;
    if (wait_ns > 0)
        weir_count_evicted(limiter, number);
    else
        weir_table_forgets(&limiter->table, now_ns);
    weir_entry_drop(limiter, &entry);
    return true;
}

/* Whether all lines have just been searched in vain. */
static bool is_barren(const struct weir_limiter *limiter, uint64_t now_ns)
{
    uint64_t since_ns = __atomic_load_n(&limiter->logs_barren_since_ns, __ATOMIC_RELAXED);
    return since_ns != 0 && now_ns - since_ns < LOG_BARREN_NS;
}

static void searched_in_vain(struct weir_limiter *limiter, uint64_t now_ns)
{
    uint64_t lines = __atomic_add_fetch(&limiter->logs_barren, LOG_SEARCH_LINES, __ATOMIC_RELAXED);
    if (lines < __atomic_load_n(&limiter->table.count, __ATOMIC_RELAXED))
        return;
    __atomic_store_n(&limiter->logs_barren, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&limiter->logs_barren_since_ns, weir_max_u64(now_ns, 1), __ATOMIC_RELAXED);
}

static uint32_t ring_take(struct weir_limiter *limiter, const struct weir_terms *terms, uint32_t room, uint64_t now_ns,
                          uint64_t *ret_wait_ns)
{
    uint16_t owner = is_permits(&terms->limit) ? terms->owner : 0;
    uint32_t block = weir_logs_take(&limiter->logs, room, owner);
    /* Beyond what they may have permits wait for permits: no log helps. */
    bool evict = block == WEIR_LOGS_NONE && terms->on_full == WEIR_ON_FULL_EVICT &&
                 !(owner && weir_logs_kept_full(&limiter->logs, room, owner));
    unsigned searches = evict ? LOG_SEARCHES : 1;
    for (unsigned i = 0; block == WEIR_LOGS_NONE && i < searches && !is_barren(limiter, now_ns); i++) {
        if (forget_a_log(limiter, evict, now_ns, ret_wait_ns))
            block = weir_logs_take(&limiter->logs, room, owner);
        else
            searched_in_vain(limiter, now_ns);
    }
    if (block == WEIR_LOGS_NONE)
        __atomic_store_n(&limiter->logs_short, true, __ATOMIC_RELAXED);
    else
        logs_changed(limiter);
    return block;
}

/* A ring of `need` words, at least, and not four times that. */
static bool make_room(struct weir_limiter *limiter, const struct weir_terms *terms, uint32_t need, uint64_t now_ns,
                      struct weir_entry *entry, uint64_t *ret_wait_ns)
{
    struct weir_log *log = &entry->state.log;
    uint64_t wait_ns = terms->limit.period_ns + limiter->skew_max_ns + 1;
    if (need == 0 || (need <= log->room && need >= log->room / 4))
        return true;
    if (need < log->used) /* not yet popped; the next charge will shrink it */
        return need <= log->room;
    uint32_t block = ring_take(limiter, terms, need, now_ns, &wait_ns);
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

bool weir_entry_room(struct weir_limiter *limiter, const struct weir_terms *terms, const struct weir_event *event,
                     uint64_t units, struct weir_entry *entry, uint64_t *ret_wait_ns)
{
    uint32_t need = weir_limit_room(&terms->limit, &entry->state, event, units);
    return make_room(limiter, terms, need, event->now_ns, entry, ret_wait_ns);
}

/* ---- counting permits ---- */

/* Units of permits that an entry shows by the limit that it was written under; 0 if that has none. */
static uint64_t units_shown(const struct weir_record *from, uint64_t b)
{
    const struct weir_log log = { .used = (uint32_t)b };
    return from && is_permits(&from->terms.limit) ? weir_permits_in(&log) : 0;
}

/* modulo: may be less */
static void count_out(struct weir_limiter *limiter, const struct weir_terms *terms, uint64_t more)
{
    if (more != 0)
        __atomic_fetch_add(&limiter->permit_counts[weir_count_stripe()][terms->owner].out, more, __ATOMIC_RELAXED);
}

/* An entry goes, and with it those permits that nobody gave back: their leases have ended, or it was reset. */
static void count_gone(struct weir_limiter *limiter, uint32_t number, uint64_t b)
{
    const struct weir_record *from = weir_record_at(limiter, number);
    uint64_t units = units_shown(from, b);
    if (units == 0)
        return;
    count_out(limiter, &from->terms, 0 - units);
    weir_count_permits(limiter, &from->terms, 0, 0, units);
}

/* A held entry is about to show another state. */
static void count_changed(struct weir_limiter *limiter, const struct weir_terms *terms, const struct weir_entry *entry)
{
    const struct weir_record *from = weir_record_at(limiter, weir_pair_limit(entry->held.pair));
    uint64_t before = units_shown(from, entry->held.b);
    if (is_permits(&terms->limit))
        count_out(limiter, terms, weir_permits_in(&entry->state.log));
    if (before > 0)
        count_out(limiter, &from->terms, 0 - before);
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
    if (weir_limit_keeps_log(&record->terms.limit)) {
        struct weir_log log = log_unpack(limiter, a, b);
        count_gone(limiter, number, b);
        ring_give(limiter, &log);
    }
    if (evicted)
        __atomic_fetch_add(&record->evicted, 1, __ATOMIC_RELAXED);
}

/* ---- holding ---- */

/* The log's ring and the continuation must fit the limit that the entry goes to. */
static bool fit_width(struct weir_limiter *limiter, const struct weir_terms *to, uint64_t now_ns,
                      struct weir_entry *entry)
{
    bool wide = !weir_limit_is_bucket(&to->limit);
    if (wide && !entry->held.wide) {
        if (!entry->widened)
            __atomic_fetch_add(&limiter->widenings_begun, 1, __ATOMIC_SEQ_CST);
        entry->widened = true;
        return weir_table_widen(&limiter->table, &entry->held, now_ns);
    }
    if (!wide && entry->held.wide)
        weir_table_narrow(&limiter->table, &entry->held);
    return true;
}

/* An entry that may have moved has been let go. */
static void widening_done(struct weir_limiter *limiter, struct weir_entry *entry)
{
    if (entry->widened)
        __atomic_fetch_add(&limiter->widenings_done, 1, __ATOMIC_SEQ_CST);
    entry->widened = false;
}

bool weir_entry_convert(struct weir_limiter *limiter, const struct weir_terms *to, const struct weir_event *event,
                        struct weir_entry *entry)
{
    const struct weir_record *from = weir_record_at(limiter, weir_pair_limit(entry->held.pair));
    const bool level = from && from->terms.level != to->level; /* an exception says so, not a reload */
    const enum weir_on_change on_change = level ? WEIR_ON_CHANGE_LEVEL : (enum weir_on_change)to->on_change;
    bool reset = !from || on_change == WEIR_ON_CHANGE_RESET;
    bool permits = !reset && is_permits(&from->terms.limit) && is_permits(&to->limit); /* they stay where they are */
    if (!reset && weir_limit_keeps_log(&to->limit) && !permits) {
        uint64_t units = weir_limit_carried(&from->terms.limit, &to->limit, on_change, &entry->state, event);
        uint32_t need = weir_limit_room_carried(&to->limit, &entry->state, event, units);
        if (!make_room(limiter, to, need, event->now_ns, entry, NULL))
            return false;
    }
    if (!fit_width(limiter, to, event->now_ns, entry))
        return false;
    if (from && !permits) /* whoever holds one holds it no more */
        weir_count_permits(limiter, &from->terms, 0, 0, units_shown(from, entry->held.b));
    if (reset) {
        struct weir_log log = entry->state.log;
        entry->state = weir_state_fresh(&to->limit, event->now_ns);
        ring_give(limiter, &log);
    } else {
        weir_limit_convert(&from->terms.limit, &to->limit, on_change, &entry->state, event);
        if (!weir_limit_keeps_log(&to->limit))
            ring_give(limiter, &entry->state.log);
    }
    __atomic_fetch_add(&limiter->converted, 1, __ATOMIC_RELAXED);
    return true;
}

void weir_entry_put_back(struct weir_limiter *limiter, struct weir_entry *entry)
{
    const struct weir_record *from = weir_record_at(limiter, weir_pair_limit(entry->held.pair));
    if (!from || !weir_limit_keeps_log(&from->terms.limit))
        ring_give(limiter, &entry->state.log);
    if (from)
        pack(limiter, &from->terms.limit, entry);
    weir_table_release(&entry->held, weir_pair_limit(entry->held.pair), weir_pair_fresh_at(entry->held.pair));
    widening_done(limiter, entry);
}

/* How long after it was used up a key is fresh. */
static uint64_t fill_ns(const struct weir_limit *limit)
{
    if (weir_limit_is_bucket(limit))
        return weir_ticks_wait_ns(limit->span, 0, limit->shift);
    return limit->algorithm == WEIR_SLIDING_COUNTER ? 2 * limit->period_ns : limit->period_ns;
}

uint64_t weir_entry_newcomer(struct weir_limiter *limiter, const struct weir_limit *limit, uint64_t now_ns,
                             struct weir_state *ret_state)
{
    uint64_t until_ns = weir_fall_until(&limiter->fall, &limiter->table, now_ns, fill_ns(limit));
    *ret_state = weir_state_fresh(limit, now_ns);
    if (until_ns == 0)
        return 0;
    if (!weir_limit_is_bucket(limit))
        return until_ns - now_ns;
    uint64_t ahead = weir_ticks_of(until_ns - now_ns, limit->shift, WEIR_TICKS_SPAN_MAX);
    ret_state->fresh_at = weir_ticks_add(ret_state->fresh_at, weir_min_u64(ahead, limit->span));
    return 0;
}

void weir_entry_bar(const struct weir_limit *limit, uint64_t cost, uint64_t wait_ns, struct weir_verdict *v)
{
    *v = (struct weir_verdict){ .admitted = cost == 0, .capacity = limit->capacity };
    if (limit->capacity > 0)
        v->reset_after_ns = v->next_after_ns = wait_ns;
    if (cost > 0)
        v->retry_after_ns = cost > limit->capacity ? WEIR_NEVER : wait_ns;
}

/* Lets go of an entry that was found, or made, for a limit that is gone. */
static void leave(struct weir_limiter *limiter, struct weir_held *held)
{
    if (held->newcomer)
        weir_table_drop(&limiter->table, held);
    else
        weir_table_release(held, weir_pair_limit(held->pair), weir_pair_fresh_at(held->pair));
}

/* Reservations of the key hear how it was found, or that it was made anew. */
static void see_reserved(struct weir_limiter *limiter, const struct weir_terms *terms, uint64_t hash,
                         const struct weir_event *event, const struct weir_entry *entry, bool broken)
{
    if (weir_reserve_marks_any(__atomic_load_n(&limiter->marks, __ATOMIC_ACQUIRE)) && !is_permits(&terms->limit))
        weir_reserve_marks_see(limiter, terms, hash, event, &entry->state, broken);
}

/* A resident becomes a state of `terms`. False if that finds no room: it is let go as it was found. */
static bool take_up(struct weir_limiter *limiter, const struct weir_terms *terms, uint64_t hash,
                    const struct weir_event *event, struct weir_entry *entry)
{
    const uint32_t written_under = weir_pair_limit(entry->held.pair);
    const struct weir_record *from = weir_record_at(limiter, written_under);
    bool settles = false;
    weir_entry_unpack(limiter, from ? &from->terms.limit : &terms->limit, entry);
    if (written_under != weir_id_number(terms->id) && !weir_entry_convert(limiter, terms, event, entry)) {
        weir_entry_put_back(limiter, entry);
        return false;
    }
    /* Without room for a full log the key stays as it is, which is refused too. Permits need none. */
    if (weir_limit_jumped(&terms->limit, &entry->state, event->now_ns))
        settles = is_permits(&terms->limit) ||
                  weir_entry_room(limiter, terms, event, terms->limit.capacity, entry, NULL);
    if (settles) {
        weir_limit_settle(&terms->limit, &entry->state, event);
        __atomic_fetch_add(&limiter->clock_jumps, 1, __ATOMIC_RELAXED);
    }
    see_reserved(limiter, terms, hash, event, entry, settles);
    return true;
}

enum weir_hold weir_entry_hold(struct weir_limiter *limiter, const struct weir_terms *terms, uint64_t hash,
                               enum weir_absent absent, const struct weir_event *event, struct weir_entry *ret_entry,
                               uint64_t *ret_wait_ns)
{
    uint32_t number = weir_id_number(terms->id);
    enum weir_hold result = weir_table_hold(&limiter->table, hash, number, absent, event->now_ns, &ret_entry->held,
                                            ret_wait_ns);
    if (result != WEIR_HOLD_OK)
        return result;
    if (!weir_terms_good(limiter, terms)) {
        leave(limiter, &ret_entry->held);
        return WEIR_HOLD_STALE;
    }
    ret_entry->widened = false;
    if (!ret_entry->held.newcomer) {
        *ret_wait_ns = 1;
        return take_up(limiter, terms, hash, event, ret_entry) ? WEIR_HOLD_OK : WEIR_HOLD_FULL;
    }
    *ret_wait_ns = weir_entry_newcomer(limiter, &terms->limit, event->now_ns, &ret_entry->state);
    if (*ret_wait_ns == 0) {
        see_reserved(limiter, terms, hash, event, ret_entry, true);
        return WEIR_HOLD_OK;
    }
    weir_table_drop(&limiter->table, &ret_entry->held);
    return WEIR_HOLD_ABSENT;
}

/* What an entry that is held says it is of is not used again before it is let go (finish_retired); but its id may have
 * ended, and then nobody can tell. */
static bool terms_of_own(const struct weir_limiter *limiter, const struct weir_held *held, struct weir_terms *ret_terms)
{
    const struct weir_record *record = weir_record_at(limiter, weir_pair_limit(held->pair));
    if (!record)
        return false;
    weir_words_load(ret_terms, &weir_record_now(limiter, record)->terms, sizeof *ret_terms);
    return ret_terms->id != 0;
}

bool weir_entry_hold_own(struct weir_limiter *limiter, const struct weir_key *key, const struct weir_time *time,
                         struct weir_grip *ret_grip)
{
    struct weir_entry *entry = &ret_grip->entry;
    uint64_t wait_ns;
    ret_grip->held = false;
    if (weir_table_hold(&limiter->table, key->hash, 0, WEIR_ABSENT_LEAVE, time->now_ns, &entry->held, &wait_ns) !=
        WEIR_HOLD_OK)
        return false;
    entry->widened = false;
    if (!terms_of_own(limiter, &entry->held, &ret_grip->terms)) {
        leave(limiter, &entry->held);
        return false;
    }
    ret_grip->event = weir_event_make(limiter, &ret_grip->terms, key, 0, time);
    ret_grip->held = take_up(limiter, &ret_grip->terms, key->hash, &ret_grip->event, entry);
    return ret_grip->held;
}

void weir_entry_release(struct weir_limiter *limiter, const struct weir_terms *terms, struct weir_entry *entry)
{
    count_changed(limiter, terms, entry);
    pack(limiter, &terms->limit, entry);
    weir_table_release(&entry->held, weir_id_number(terms->id), entry->state.fresh_at);
    widening_done(limiter, entry);
}

void weir_entry_drop(struct weir_limiter *limiter, struct weir_entry *entry)
{
    count_gone(limiter, weir_pair_limit(entry->held.pair), entry->held.b);
    ring_give(limiter, &entry->state.log);
    weir_table_drop(&limiter->table, &entry->held);
    widening_done(limiter, entry);
}
