/* SPDX-License-Identifier: Apache-2.0
 *
 * The limiter: creating it, keys, refunds, counters. */
#include <endian.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/fault.h"
#include "base/reserved.h"
#include "limits/one_step.h"
#include "limits/remote.h"
#include "limits/reserve_marks.h"

#define RESERVED_KEYS_MOST (UINT64_C(1) << 24)

static int check_options(const struct weir_limiter_options *o, struct weir_fault *ret_fault)
{
    size_t memory = o->memory_max ? o->memory_max : WEIR_MEMORY_DEFAULT;
    if (weir_reserved_used(o->reserved, sizeof o->reserved))
        return weir_fault_set(ret_fault, WEIR_EINVAL, "reserved", WEIR_RESERVED_TEXT);
    if (memory < WEIR_MEMORY_MIN || memory > (size_t)1 << 46)
        return weir_fault_set(ret_fault, WEIR_ERANGE, "memory_max", "must be 65536 to 2^46 bytes");
    if (o->log_memory_max > memory / 2)
        return weir_fault_set(ret_fault, WEIR_ERANGE, "log_memory_max", "must be at most half of memory_max");
    if (o->skew_max_ns > 3600 * WEIR_NS_PER_SECOND || (o->skew_none && o->skew_max_ns > 0))
        return weir_fault_set(ret_fault, WEIR_ERANGE, "skew_max_ns", "must be at most 1 hour, and 0 with skew_none");
    if (o->reserved_keys_max > RESERVED_KEYS_MOST)
        return weir_fault_set(ret_fault, WEIR_ERANGE, "reserved_keys_max", "must be at most 16777216");
    if (o->clock > WEIR_CLOCK_COARSE)
        return weir_fault_set(ret_fault, WEIR_EINVAL, "clock", "must be one of enum weir_clock_kind");
    return 0;
}

static int read_secrets(struct weir_limiter *limiter, const struct weir_limiter_options *o)
{
    uint8_t random[16];
    const uint8_t *secret = o->secret, zeros[16] = { 0 };
    if (!secret) {
        if (getrandom(random, sizeof random, 0) != (ssize_t)sizeof random)
            return WEIR_EIO;
        secret = random;
    }
    limiter->key = weir_sip_key_load(secret);
    limiter->cluster_key = weir_sip_key_load(o->cluster_secret ? o->cluster_secret : zeros);
    return 0;
}

/* Who may ask once with a time and once without meets two clocks, which must not disagree by more than skew_max. */
static bool init_clock(struct weir_limiter *limiter, const struct weir_limiter_options *o)
{
    enum weir_clock_kind kind = (enum weir_clock_kind)o->clock;
    if (kind == WEIR_CLOCK_AUTO && limiter->skew_max_ns < WEIR_NS_PER_MS)
        kind = WEIR_CLOCK_MONOTONIC;
    const struct weir_clock_source machine = weir_clock_machine(kind);
    return weir_clock_init(&limiter->clock, kind, &machine);
}

static int init(struct weir_limiter *limiter, const struct weir_limiter_options *o)
{
    size_t memory = o->memory_max ? o->memory_max : WEIR_MEMORY_DEFAULT;
    size_t logs = o->log_memory_max ? o->log_memory_max : memory / 8;
    limiter->memory_max = memory;
    limiter->logs_bytes = logs;
    limiter->skew_max_ns = o->skew_none ? 0 : o->skew_max_ns ? o->skew_max_ns : WEIR_SKEW_DEFAULT_NS;
    limiter->number_hint = WEIR_DEFINED_FIRST;
    limiter->reserved_keys_max = o->reserved_keys_max ? o->reserved_keys_max : WEIR_RESERVED_KEYS_DEFAULT;
    pthread_mutex_init(&limiter->background, NULL);
    /* Wall clocks are stepped even where one engine owns the clock, so they get the usual tolerance. */
    weir_wall_init(&limiter->wall, o->skew_max_ns ? o->skew_max_ns : WEIR_SKEW_DEFAULT_NS);
    weir_fall_init(&limiter->fall);
    int error = init_clock(limiter, o) ? read_secrets(limiter, o) : WEIR_EINVAL;
    if (!error)
        error = weir_logs_init(&limiter->logs, logs);
    if (!error)
        error = weir_table_init(&limiter->table, memory - logs, limiter->skew_max_ns, weir_clock_now(&limiter->clock),
                                weir_entry_forgotten, limiter);
    limiter->records = calloc(WEIR_SLOT_LIMIT_MAX + 1, sizeof *limiter->records);
    limiter->owners = calloc(WEIR_LOGS_OWNERS + 1, sizeof *limiter->owners);
    for (unsigned i = 0; i < WEIR_COUNT_STRIPES; i++) {
        limiter->refused[i] = calloc(WEIR_SLOT_LIMIT_MAX + 1, sizeof **limiter->refused);
        limiter->permit_counts[i] = calloc(WEIR_LOGS_OWNERS + 1, sizeof **limiter->permit_counts);
        if (!limiter->refused[i] || !limiter->permit_counts[i] || !limiter->records || !limiter->owners)
            error = error ? error : WEIR_ENOMEM;
    }
    for (uint32_t i = 0; i < WEIR_RAW_COUNT && !error; i++)
        weir_table_set_kind(&limiter->table, WEIR_RAW_FIRST + i,
                            (struct weir_kind){ .shift = (int8_t)((int32_t)i + WEIR_TICKS_SHIFT_MIN) }, 0);
    return error;
}

int weir_limiter_create(const struct weir_limiter_options *options, struct weir_limiter **ret_limiter,
                        struct weir_fault *ret_fault)
{
    static const struct weir_limiter_options defaults = { 0 };
    const struct weir_limiter_options *o = options ? options : &defaults;
    int error = check_options(o, ret_fault);
    if (error)
        return error;
    struct weir_limiter *limiter = aligned_alloc(64, (sizeof *limiter + 63) / 64 * 64);
    if (!limiter)
        return weir_fault_set(ret_fault, WEIR_ENOMEM, "", "out of memory");
    memset(limiter, 0, sizeof *limiter);
    error = init(limiter, o);
    if (error) {
        weir_limiter_destroy(limiter);
        if (error == WEIR_EINVAL)
            return weir_fault_set(ret_fault, error, "clock", "the kernel does not go by the time-stamp counter here");
        return weir_fault_set(ret_fault, error, "memory_max", weir_error_text(error));
    }
    *ret_limiter = limiter;
    return 0;
}

void weir_limiter_destroy(struct weir_limiter *limiter)
{
    if (!limiter)
        return;
    weir_limiter_undefine_all(limiter);
    weir_table_deinit(&limiter->table);
    weir_logs_deinit(&limiter->logs);
    weir_reserve_marks_destroy(limiter->marks);
    for (unsigned i = 0; i < WEIR_COUNT_STRIPES; i++) {
        free(limiter->refused[i]);
        free(limiter->permit_counts[i]);
    }
    weir_fall_deinit(&limiter->fall);
    weir_clock_deinit(&limiter->clock);
    weir_wall_deinit(&limiter->wall);
    pthread_mutex_destroy(&limiter->background);
    free(limiter->owners);
    free(limiter->records);
    free(limiter);
}

/* ---- keys ---- */

/* Of several values, or with a phase. Apart, for the room it takes. */
__attribute__((noinline)) static int key_of_several(const struct weir_limiter *limiter,
                                                    const struct weir_record *record, weir_limit_id limit,
                                                    const struct weir_slice *values, size_t count,
                                                    struct weir_key *ret_key)
{
    uint8_t bytes[sizeof(uint64_t) + WEIR_LIMIT_NAME_MAX + WEIR_KEY_BYTES_MAX + WEIR_KEY_VALUES_MAX * sizeof(uint32_t)];
    const uint64_t uid = __atomic_load_n(&record->naming.uid, __ATOMIC_ACQUIRE);
    const uint64_t spread_ns = __atomic_load_n(&record->terms.spread_ns, __ATOMIC_ACQUIRE);
    struct weir_siphash_state phase;
    if (spread_ns > 0)
        weir_words_load(&phase, &record->naming.phase, sizeof phase);
    if (weir_record_id(record) != limit)
        return weir_id_error(limiter, limit);
    size_t size = sizeof uid;
    memcpy(bytes, &uid, size);
    int error = weir_values_append(bytes, &size, values, count);
    if (error)
        return error;
    struct weir_key key = { .hash = weir_siphash(&limiter->key, bytes, size) };
    if (spread_ns > 0) { /* nodes must agree: by the name, and by the secret they share */
        weir_siphash_add(&phase, bytes + sizeof uid, size - sizeof uid);
        key.phase = weir_siphash_end(&phase);
    }
    *ret_key = key;
    return 0;
}

int weir_limiter_key(const struct weir_limiter *limiter, weir_limit_id limit, const struct weir_slice *values,
                     size_t count, struct weir_key *ret_key)
{
    const struct weir_record *record = weir_record_at(limiter, weir_id_number(limit));
    if (!record)
        return weir_id_error(limiter, limit);
    const uint64_t uid = __atomic_load_n(&record->naming.uid, __ATOMIC_ACQUIRE);
    const uint64_t spread_ns = __atomic_load_n(&record->terms.spread_ns, __ATOMIC_ACQUIRE);
    if (weir_record_id(record) != limit)
        return weir_id_error(limiter, limit);
    if (count != 1 || spread_ns > 0 || values->size > WEIR_KEY_BYTES_MAX)
        return key_of_several(limiter, record, limit, values, count, ret_key);
    /* Without copying it: the same bytes in the same order as weir_values_append has. */
    ret_key->phase = 0;
    ret_key->hash = weir_siphash_sized(&limiter->key, htole64(uid), values->data, (uint32_t)values->size);
    return 0;
}

/* ---- giving back ---- */

/* Holds the entry of a charge, if there is one. */
static int hold_for(struct weir_limiter *limiter, const struct weir_charge *charge, const struct weir_time *time,
                    struct weir_grip *ret_grip)
{
    struct weir_terms *terms = &ret_grip->terms;
    struct weir_event *event = &ret_grip->event;
    uint64_t wait_ns;
    enum weir_hold hold;
    struct weir_time now = time ? *time : weir_limiter_time(limiter);
    ret_grip->held = false;
    if (!weir_table_in_reach(&limiter->table, now.now_ns))
        weir_limiter_reach(limiter, now.now_ns);
    do {
        if (!weir_terms_of(limiter, charge->limit, terms))
            return weir_id_error(limiter, charge->limit);
        *event = weir_event_make(limiter, terms, &charge->key, charge->cost, &now);
        hold = weir_entry_hold(limiter, terms, charge->key.hash, WEIR_ABSENT_LEAVE, event, &ret_grip->entry, &wait_ns);
    } while (hold == WEIR_HOLD_STALE);
    ret_grip->held = hold == WEIR_HOLD_OK;
    return 0;
}

int weir_limiter_refund(struct weir_limiter *limiter, const struct weir_charge *charge, uint64_t units,
                        const struct weir_time *time, uint64_t *ret_units)
{
    struct weir_grip grip;
    int error = hold_for(limiter, charge, time, &grip);
    if (error)
        return error;
    *ret_units = 0;
    if (grip.held) {
        *ret_units = weir_limit_refund(&grip.terms.limit, &grip.entry.state, &grip.event, units);
        weir_entry_release(limiter, &grip.terms, &grip.entry);
    }
    return 0;
}

int weir_limiter_refund_last(struct weir_limiter *limiter, const struct weir_charge *charge, uint64_t ticket,
                             const struct weir_time *time, uint64_t *ret_newest)
{
    struct weir_grip grip;
    int error = hold_for(limiter, charge, time, &grip);
    if (error)
        return error;
    *ret_newest = 0;
    const uint64_t *fresh_at = &grip.entry.state.fresh_at;
    if (grip.held && weir_limit_is_bucket(&grip.terms.limit) && weir_ticket_make(*fresh_at) == ticket) {
        (void)weir_limit_refund(&grip.terms.limit, &grip.entry.state, &grip.event, charge->cost);
        *ret_newest = weir_ticket_make(*fresh_at);
    }
    if (grip.held)
        weir_entry_release(limiter, &grip.terms, &grip.entry);
    return 0;
}

/* What is there is forgotten, whenever that may be: no clock is asked. */
int weir_limiter_forget(struct weir_limiter *limiter, const struct weir_charge *charge, bool *ret_found)
{
    struct weir_entry entry;
    uint64_t wait_ns;
    if (!weir_record_of(limiter, charge->limit))
        return weir_id_error(limiter, charge->limit);
    *ret_found = weir_table_hold(&limiter->table, charge->key.hash, 0, WEIR_ABSENT_LEAVE, 0, &entry.held, &wait_ns) ==
                 WEIR_HOLD_OK;
    if (*ret_found) {
        const struct weir_record *from = weir_record_at(limiter, weir_pair_limit(entry.held.pair));
        entry.widened = false;
        weir_entry_unpack(limiter, &from->terms.limit, &entry);
        weir_entry_drop(limiter, &entry);
    }
    return 0;
}

/* ---- counters ---- */

static uint64_t load(const uint64_t *word)
{
    return __atomic_load_n(word, __ATOMIC_RELAXED);
}

void weir_limiter_stats(const struct weir_limiter *limiter, struct weir_limiter_stats *ret_stats)
{
    const struct weir_table *table = &limiter->table;
    struct weir_limiter *unlocked = (struct weir_limiter *)(uintptr_t)limiter; /* the logs' mutex */
    uint64_t lines = load(&table->count);
    *ret_stats = (struct weir_limiter_stats){
        .memory_max = limiter->memory_max,
        .memory_used = lines * sizeof(struct weir_line) + weir_logs_used(&unlocked->logs),
        .keys = load(&table->entries),
        .slots_used = load(&table->slots_used),
        .slots = lines * WEIR_LINE_SLOTS,
        .inserted = load(&table->inserted),
        .evicted = load(&table->evicted),
        .refused_full = load(&limiter->refused_full),
        .converted = load(&limiter->converted),
        .clock_jumps = load(&limiter->clock_jumps),
        .clock_falls = load(&limiter->fall.count),
    };
}

static void add_permits(const struct weir_limiter *limiter, uint16_t owner, struct weir_limit_stats *stats)
{
    uint64_t out = 0;
    for (unsigned i = 0; i < WEIR_COUNT_STRIPES; i++) {
        const struct weir_permit_counts *counts = &limiter->permit_counts[i][owner];
        stats->permits_given += load(&counts->given);
        stats->permits_released += load(&counts->released);
        stats->permits_ended += load(&counts->ended);
        out += load(&counts->out);
    }
    stats->permits_out = out > INT64_MAX ? 0 : out; /* the stripes were not read at one instant */
}

int weir_limiter_limit_stats(const struct weir_limiter *limiter, weir_limit_id limit,
                             struct weir_limit_stats *ret_stats)
{
    const struct weir_record *record = weir_record_of(limiter, limit);
    if (!record)
        return weir_id_error(limiter, limit);
    struct weir_limit_stats stats = { .evicted = load(&record->evicted), .refused_full = load(&record->refused_full) };
    for (unsigned i = 0; i < WEIR_COUNT_STRIPES; i++)
        stats.refused += load(&limiter->refused[i][weir_id_number(limit)]);
    struct weir_terms terms;
    weir_words_load(&terms, &record->terms, sizeof terms);
    if (terms.limit.algorithm == WEIR_CONCURRENCY)
        add_permits(limiter, terms.owner, &stats);
    if (weir_record_id(record) != limit)
        return weir_id_error(limiter, limit);
    *ret_stats = stats;
    return 0;
}
