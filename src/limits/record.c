/* SPDX-License-Identifier: Apache-2.0
 *
 * A limit as defined, from its definition to a record that decisions go by. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "limits/memory.h"

void weir_record_destroy(struct weir_record *record)
{
    if (!record)
        return;
    free(record->name);
    free(record->variant);
    free(record->tz);
    free(record);
}

/* Puts a record aside, to be used again: whoever asks by its old id may still look at it. */
void weir_record_spare(struct weir_limiter *limiter, struct weir_record *record)
{
    free(record->name);
    free(record->variant);
    free(record->tz);
    record->name = record->variant = record->tz = NULL;
    record->spare = limiter->spare;
    limiter->spare = record;
}

struct weir_record *weir_record_take(struct weir_limiter *limiter)
{
    struct weir_record *record = limiter->spare;
    if (record)
        limiter->spare = record->spare;
    else
        record = calloc(1, sizeof *record);
    return record;
}

void weir_record_set_terms(struct weir_record *record, const struct weir_terms *terms)
{
    weir_words_store(&record->terms, terms, sizeof *terms);
}

static int zone_of(struct weir_limiter *limiter, const char *name, const struct weir_zone **ret_zone)
{
    for (size_t i = 0; i < limiter->zones_count; i++)
        if (strcmp(limiter->zones[i].name, name) == 0) {
            *ret_zone = limiter->zones[i].zone;
            return 0;
        }
    struct weir_zone_entry entry = { .name = strdup(name) };
    struct weir_zone_entry *more = realloc(limiter->zones, (limiter->zones_count + 1) * sizeof *more);
    if (more)
        limiter->zones = more;
    int error = entry.name && more ? weir_zone_create(name, &entry.zone) : WEIR_ENOMEM;
    if (error) {
        free(entry.name);
        return error;
    }
    limiter->zones[limiter->zones_count++] = entry;
    *ret_zone = entry.zone;
    return 0;
}

/* "NAME.FIELD", the name cut to fit, and which variant. */
int weir_def_fault(struct weir_fault *ret_fault, int error, const struct weir_limit_def *def, const char *field,
                   const char *text)
{
    if (ret_fault) {
        struct weir_fault fault = { .field = "" };
        size_t tail = strlen(field) + 1, room = sizeof fault.field - 1, length = def->name ? strlen(def->name) : 0;
        length = length + tail > room ? room - tail : length;
        memcpy(fault.field, def->name ? def->name : "", length);
        fault.field[length] = '.';
        memcpy(fault.field + length + 1, field, tail);
        snprintf(fault.text, sizeof fault.text, "%s", text);
        *ret_fault = fault;
    }
    return error;
}

int weir_def_check(const struct weir_limit_def *def, struct weir_fault *ret_fault)
{
    size_t length = def->name ? strlen(def->name) : 0;
    if (length == 0 || length > WEIR_LIMIT_NAME_MAX)
        return weir_def_fault(ret_fault, WEIR_ERANGE, def, "name", "must be 1 to 128 bytes");
    struct weir_fault fault;
    int error = weir_limit_check(&def->spec, &fault);
    return error ? weir_def_fault(ret_fault, error, def, fault.field, fault.text) : 0;
}

static struct weir_naming naming_of(const struct weir_limiter *limiter, const char *name)
{
    struct weir_naming naming = { .uid = weir_siphash(&limiter->key, name, strlen(name)) };
    if (naming.uid == 0) /* which is for buckets without a definition */
        naming.uid = 1;
    weir_siphash_start(&naming.phase, &limiter->cluster_key);
    weir_siphash_add(&naming.phase, name, strlen(name) + 1);
    return naming;
}

/* Its variant is "level:" and a name (rules/levels_decode.c). */
static uint16_t level_of(const char *variant)
{
    static const struct weir_sip_key fixed = { 0, 0 };
    if (!variant || strncmp(variant, "level:", 6) != 0)
        return 0;
    return (uint16_t)(1 + weir_siphash(&fixed, variant, strlen(variant)) % UINT16_MAX);
}

static int terms_init(struct weir_limiter *limiter, const struct weir_limit_def *def, struct weir_terms *ret_terms,
                      struct weir_fault *ret_fault)
{
    const struct weir_limit_spec *spec = &def->spec;
    struct weir_terms terms = { .mode = (uint8_t)spec->mode,
                                .count_mode = (uint8_t)spec->count_mode,
                                .on_full = (uint8_t)spec->on_full,
                                .on_change = (uint8_t)spec->on_change,
                                .level = level_of(def->variant),
                                .spread_ns = spec->spread_ns,
                                .rule = { spec->calendar, spec->calendar_count, spec->period_ns, NULL } };
    int error = weir_limit_init(&terms.limit, spec, limiter->skew_max_ns, NULL);
    if (!error && terms.limit.calendar && spec->tz && strcmp(spec->tz, "UTC") != 0) {
        error = zone_of(limiter, spec->tz, &terms.rule.zone);
        if (error)
            weir_def_fault(ret_fault, error, def, "tz",
                           "must be an IANA time zone that this system has, as Europe/Berlin");
        else
            weir_limit_zone_falls_back(&terms.limit, weir_zone_back_ns(terms.rule.zone));
    }
    if (!error)
        *ret_terms = terms;
    return error;
}

/* From now on the owner is another name's, and counts from 0. */
static void owner_give(struct weir_limiter *limiter, uint16_t owner, uint64_t uid)
{
    limiter->owners[owner].uid = uid;
    for (unsigned i = 0; i < WEIR_COUNT_STRIPES; i++) {
        struct weir_permit_counts *counts = &limiter->permit_counts[i][owner];
        __atomic_store_n(&counts->given, 0, __ATOMIC_RELAXED);
        __atomic_store_n(&counts->released, 0, __ATOMIC_RELAXED);
        __atomic_store_n(&counts->ended, 0, __ATOMIC_RELAXED);
        __atomic_store_n(&counts->out, 0, __ATOMIC_RELAXED);
    }
}

/* A name keeps its owner beyond its last limit, until another needs it: who comes back counts on. Nobody's permits are
 * there any more once its limits are neither in the set that is being replaced nor in the new one (finish_retired); and
 * both together have fewer names than there are owners, so one is always found. */
_Static_assert(2 * WEIR_LIMITS_MAX < WEIR_LOGS_OWNERS, "each concurrency limit has an owner of its own");

uint16_t weir_permit_owner_of(struct weir_limiter *limiter, uint64_t uid)
{
    const uint64_t generation = __atomic_load_n(&limiter->generation, __ATOMIC_RELAXED);
    uint64_t at = WEIR_LOGS_OWNERS;
    for (uint64_t i = 0; i < WEIR_LOGS_OWNERS && (i < limiter->owner_tries || at == WEIR_LOGS_OWNERS); i++) {
        const struct weir_permit_owner *owner = &limiter->owners[1 + (uid + i) % WEIR_LOGS_OWNERS];
        if (owner->uid == uid) {
            at = i;
            break;
        }
        if (at == WEIR_LOGS_OWNERS && (owner->uid == 0 || owner->generation + 2 <= generation))
            at = i;
    }
    weir_assert(at < WEIR_LOGS_OWNERS);
    limiter->owner_tries = weir_max_u64(limiter->owner_tries, at + 1);
    uint16_t number = (uint16_t)(1 + (uid + at) % WEIR_LOGS_OWNERS);
    if (limiter->owners[number].uid != uid)
        owner_give(limiter, number, uid);
    limiter->owners[number].generation = generation;
    return number;
}

int weir_record_create(struct weir_limiter *limiter, const struct weir_limit_def *def, struct weir_record **ret_record,
                       struct weir_fault *ret_fault)
{
    struct weir_terms terms;
    int error = terms_init(limiter, def, &terms, ret_fault);
    struct weir_record *r = error ? NULL : weir_record_take(limiter);
    if (!r)
        return error ? error : WEIR_ENOMEM;
    r->name = strdup(def->name);
    r->variant = strdup(def->variant ? def->variant : "");
    r->tz = strdup(def->spec.tz ? def->spec.tz : "UTC");
    if (!r->name || !r->variant || !r->tz) {
        weir_record_spare(limiter, r);
        return WEIR_ENOMEM;
    }
    r->spec = def->spec;
    r->spec.tz = r->tz;
    r->retired = false;
    struct weir_naming naming = naming_of(limiter, r->name);
    bool plain = weir_limit_is_bucket(&terms.limit) && terms.mode == WEIR_MODE_ENFORCE &&
                 terms.count_mode == WEIR_COUNT_ADMITTED && terms.limit.shift >= 0 && !terms.limit.reserves;
    weir_record_set_terms(r, &terms);
    weir_words_store(&r->naming, &naming, sizeof naming);
    __atomic_store_n(&r->plain, plain, __ATOMIC_RELEASE);
    __atomic_store_n(&r->next, 0, __ATOMIC_RELEASE);
    __atomic_store_n(&r->evicted, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&r->refused_full, 0, __ATOMIC_RELAXED);
    *ret_record = r;
    return 0;
}
