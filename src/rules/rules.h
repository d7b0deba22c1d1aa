/* SPDX-License-Identifier: Apache-2.0
 *
 * Rules: the limits of a configuration, compiled for asking "which limits does this request meet, and under which key?"
 *
 * What it decides: the charges of a request. What it does not: the verdict (weir/limiter.h).
 *
 * A set is immutable. A reload loads, validates and compiles a whole new set; only then does weir_rules_create hand it
 * to the limiter in one step, so there is a complete new set or a fault with nothing changed. Sets in use at the same
 * time: the newest and the one before it. Once a third is created the limiter answers WEIR_ESTALE to the ids of
 * the oldest: whoever still has that set takes the newest.
 *
 * Cost of a match: per attribute one hash of its name and one of its value, a binary search where the attribute has
 * patterns with `*`, then one look-up per step of a path that the request satisfies. It does not grow with the number
 * of limits that do not match. Nothing is allocated.
 *
 * Bounds of one request: WEIR_ATTRIBUTES_MAX attributes; WEIR_CHARGES_MAX limits that match; beyond, and on rules so
 * entangled that a match would take more than WEIR_MATCH_STEPS_MAX steps, WEIR_ELIMIT.
 *
 * Addresses: a value that is an IPv6 literal is brought to its canonical form (RFC 5952), an IPv4-mapped one
 * (::ffff:192.0.2.1) to its IPv4 form, before anything is compared. In a key, IPv6 is cut to the limit's ipv6_prefix.
 *
 * Thread rule: create calls must not overlap each other (weir_limiter_define); everything else may be called from any
 * thread. */
#pragma once

#include "observe/metrics.h"
#include "rules/config.h"
#include "rules/literal.h"
#include "wire/ratelimit.h"

#define WEIR_ATTRIBUTES_MAX 64
#define WEIR_MATCH_STEPS_MAX 65536

struct weir_rules;

/* One attribute of a request. Any bytes are legal in both. */
struct weir_attribute {
    struct weir_slice name;
    struct weir_slice value;
};

#define WEIR_RULE_THROTTLE UINT32_MAX /* as an index: CL.THROTTLE, which no file defines */

/* A limit, or an override of it, as compiled; lives as long as its set. */
struct weir_rule {
    weir_limit_id id;
    uint32_t index;      /* of the limit, 0 to weir_rules_count() - 1 in the order of the file; overrides share it */
    const char *name;    /* of the limit */
    const char *variant; /* of the override; "" for the limit itself */
    const char *level;   /* not NULL: it is for the keys for which an exception says so (weir_rules_level) */
    uint32_t rollout;    /* not 0: it is for this share of the limit's keys (rules/rollout.h), whatever their values */
    /* `remote` is NULL where the limiter keeps it; else (exact at an engine elsewhere, leased, batched, gossip) `id` is
     * 0, and the set holds `remote`. */
    struct weir_shared_limit limit;
    struct weir_limit_spec whole;   /* of all nodes together, as configured */
    struct weir_told_sharing terms; /* for those who ask; mode NULL: this process alone keeps it */
    bool one_counter;               /* its key is empty: all requests are charged to one */
    uint64_t hour_units;            /* so many it may admit in an hour, of `whole`; WEIR_NEVER: it is no rate */
    enum weir_throttle throttle;
    uint32_t hold_max;
    uint64_t hold_timeout_ns;
    bool of_amount; /* its cost is the attribute `amount`, and it is no concurrency limit: `reserve` says the rest */
    struct weir_config_reserve reserve;
};

static inline const struct weir_rule *weir_rule_of(const struct weir_shared_limit *limit)
{
    return (const struct weir_rule *)((const uint8_t *)limit - offsetof(struct weir_rule, limit));
}

#define WEIR_MATCH_LACKS_MAX 64 /* of one request; more are not told */

struct weir_match_lack {
    const struct weir_rule *rule;
    enum weir_lack lack;
};

#define WEIR_MATCH_OFFS_MAX 32      /* more are not told */
#define WEIR_MATCH_REPLACING_MAX 16 /* more replace nothing */

/* What a request has to pay, ready for weir_limiter_decide; charge i is under rules[i]; in the order of the file. */
struct weir_match {
    size_t count;
    bool met;                           /* some limit applies, even if its mode is off */
    const struct weir_rule *refused_by; /* not NULL: refused, for want of the attribute `lacks`; count is 0 */
    const char *lacks;
    size_t lacks_count; /* limits whose match fits, and for whose key an attribute is missing */
    struct weir_match_lack lacking[WEIR_MATCH_LACKS_MAX];
    size_t offs_count; /* limits that apply, whose mode is off, and that have levels, which may not be */
    const struct weir_rule *offs[WEIR_MATCH_OFFS_MAX];
    size_t replacing_count; /* limits that apply, even if their mode is off, and replace others */
    const struct weir_rule *replacing[WEIR_MATCH_REPLACING_MAX];
    size_t steps; /* look-ups and comparisons it took */
    struct weir_charge charges[WEIR_CHARGES_MAX];
    const struct weir_rule *rules[WEIR_CHARGES_MAX];
    /* Of them, those with rules[i]->limit.remote: charges[i] has a cost, but no `limit` and no `key`. */
    size_t remote_count;
    struct weir_remote_key remote_keys[WEIR_CHARGES_MAX]; /* [i] of charge i, only where rules[i]->limit.remote */
};

/* Compiles the limits of `config` and defines them in `limiter`, all or nothing. `config` may be destroyed afterwards,
 * `limiter` must outlive the set. The fault has the place in the configuration's text. */
int weir_rules_create(struct weir_limiter *limiter, const struct weir_config *config, struct weir_rules **ret_rules,
                      struct weir_config_fault *ret_fault);
void weir_rules_destroy(struct weir_rules *rules); /* NULL is allowed */

/* Limits, without overrides; and limit number `index` itself. */
size_t weir_rules_count(const struct weir_rules *rules);
const struct weir_rule *weir_rules_limit(const struct weir_rules *rules, size_t index);
/* The overrides of limit number `index`, in the order of the file but for those that an earlier one hides; and where
 * one stands in the text (NULL is allowed). */
size_t weir_rules_overrides(const struct weir_rules *rules, size_t index);
const struct weir_rule *weir_rules_override(const struct weir_rules *rules, size_t index, size_t number,
                                            struct weir_mark *ret_mark);
/* The rollout of limit number `index`, which is one of its overrides; NULL: there is none. */
const struct weir_rule *weir_rules_rollout(const struct weir_rules *rules, size_t index);
/* The level of this name of limit number `index`, which is one of its overrides, too; NULL: there is none. */
size_t weir_rules_levels(const struct weir_rules *rules, size_t index);
const struct weir_rule *weir_rules_level_at(const struct weir_rules *rules, size_t index, size_t number,
                                            struct weir_mark *ret_mark);
const struct weir_rule *weir_rules_level(const struct weir_rules *rules, size_t index, const char *name);
/* Limits and overrides together, each limit before its overrides. */
size_t weir_rules_variants(const struct weir_rules *rules);
const struct weir_rule *weir_rules_variant(const struct weir_rules *rules, size_t index);

/* The charges of a request of `cost`; none (count 0, refused_by NULL) means that no limit applies; what that means, the
 * configuration's `unmatched` says. Each limit charges `cost` times its own `cost`; what costs 0 is not refused.
 * Errors: WEIR_ELIMIT (the bounds above), WEIR_EDUP (an attribute twice that a limit looks at), WEIR_EINVAL (an
 * attribute that carries a cost is absent or no number), WEIR_ERANGE (a cost above WEIR_COST_MAX, a key above
 * WEIR_KEY_BYTES_MAX). ret_fault->field names the attribute at fault. On
 * failure ret_match is empty (count 0). */
int weir_rules_match(const struct weir_rules *rules, const struct weir_attribute *attributes, size_t count,
                     uint64_t cost, struct weir_match *ret_match, struct weir_fault *ret_fault);

/* An exception says that a level decides in the place of what matched (docs/exceptions.md): of rules[at], whose charge
 * then goes by `level`, or goes if the level's mode is off (false); or of one of `offs`, which is charged now, with the
 * errors of weir_rules_match for the same request. */
bool weir_match_level(struct weir_match *match, size_t at, const struct weir_rule *level);
int weir_match_level_on(const struct weir_rules *rules, const struct weir_attribute *attributes, size_t count,
                        uint64_t cost, const struct weir_rule *level, struct weir_match *match,
                        struct weir_fault *ret_fault);

/* Whether any limit replaces others (rules/replaces.h); takes those that some of `by` replace out of the match, and
 * says how many they were. */
bool weir_rules_replace(const struct weir_rules *rules);
size_t weir_match_replace(const struct weir_rules *rules, struct weir_match *match, const struct weir_rule *const *by,
                          size_t count);

/* An exception says that the key of charge number `at` was reset: from now on it is counted at another counter, which
 * `mark` says, the same on every node. */
void weir_match_reset(struct weir_match *match, size_t at, uint64_t mark);

/* The values of a request's key under one limit, as they are counted: addresses in their canonical form, and cut; of an
 * attribute that the request lacks, of size WEIR_VALUE_ABSENT. They point into `attributes` or into the value itself,
 * which must not be copied. The request is one that matched. */
struct weir_rules_key {
    size_t count;
    struct weir_slice values[WEIR_KEY_VALUES_MAX];
    char texts[WEIR_KEY_VALUES_MAX][WEIR_LITERAL_TEXT_MAX];
};
void weir_rules_key(const struct weir_rules *rules, const struct weir_rule *rule,
                    const struct weir_attribute *attributes, size_t count, struct weir_rules_key *ret_key);
/* Whether any limit looks at an attribute of this name. */
bool weir_rules_looks_at(const struct weir_rules *rules, struct weir_slice name);
/* NULL: none of them is called so. */
const struct weir_attribute *weir_attribute_find(const struct weir_attribute *attributes, size_t count,
                                                 const char *name);

/* The attribute whose value is number `i` of the key; as long as the set. */
const char *weir_rules_key_name(const struct weir_rules *rules, const struct weir_rule *rule, size_t i);

/* ---- why ---- */

enum weir_reason {
    WEIR_REASON_APPLIES,  /* where `attribute` is not empty: the request lacks it, and shares a counter for that */
    WEIR_REASON_MISSING,  /* the request lacks `attribute` */
    WEIR_REASON_MISMATCH, /* its `attribute` does not look like `pattern` */
    WEIR_REASON_OFF,      /* it matches, but its mode, or that of the override that applies, is off */
    WEIR_REASON_REFUSES,  /* it refuses the request, which lacks `attribute` of its key */
};

struct weir_explanation {
    enum weir_reason reason;
    const struct weir_rule *rule; /* the limit, or the override that applies */
    struct weir_mark mark;        /* where that stands in the text */
    const char *attribute;
    struct weir_slice pattern;
};

/* Why limit number `index` applies to a request or not. Slow (it looks at every override) and exact: agrees with match.
 * Errors: WEIR_ELIMIT and WEIR_EDUP as match; WEIR_ENOENT. */
int weir_rules_explain(const struct weir_rules *rules, size_t index, const struct weir_attribute *attributes,
                       size_t count, struct weir_explanation *ret_explanation, struct weir_fault *ret_fault);
