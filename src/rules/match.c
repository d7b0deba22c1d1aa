/* SPDX-License-Identifier: Apache-2.0
 *
 * Implements weir_rules_match of rules.h in four steps: find the conditions that the values satisfy, walk the paths
 * that these open (paths.c), keep the best entry of each limit, make a charge of each with cost and key. The verdict on
 * the charges is the limiter's or the engine's. Called for requests by serve/decide.c and serve/resp_check.c. */
#include <inttypes.h>
#include <string.h>

#include "base/assert.h"
#include "base/bytes.h"
#include "base/fault_format.h"
#include "base/siphash.h"
#include "rules/compiled.h"
#include "rules/condition.h"
#include "rules/number.h"
#include "rules/request.h"

#define SATISFIED_MAX 512  /* conditions that one request satisfies */
#define CANDIDATES_MAX 256 /* limits it matches, those that are off included */

struct matcher {
    const struct weir_rules *rules;
    const struct weir_request *request;
    struct weir_match *match;
    size_t steps;
    size_t satisfied_count;
    size_t candidates_count;
    uint32_t satisfied[SATISFIED_MAX];
    uint32_t candidates[CANDIDATES_MAX]; /* entries, the best of each limit */
};

static int satisfied_add(struct matcher *matcher, uint32_t condition)
{
    if (matcher->satisfied_count == SATISFIED_MAX)
        return WEIR_ELIMIT;
    matcher->satisfied[matcher->satisfied_count++] = condition;
    return 0;
}

/* From the terms that a value satisfies, which begin at `first`, to the lists and `not`s that hold with them. Terms
 * that no limit asks for by themselves are dropped. */
static int sets_find(struct matcher *matcher, const struct weir_compiled_attribute *attribute, size_t first)
{
    uint64_t refused = 0;
    size_t count = matcher->satisfied_count, kept = first;
    int error = 0;
    for (size_t i = first; i < count && !error; i++) {
        const struct weir_compiled_term *term = &matcher->rules->terms[matcher->satisfied[i]];
        refused |= term->nots;
        for (const struct weir_compiled_member *list = term->lists; list && !error; list = list->next) {
            error = satisfied_add(matcher, list->condition);
            matcher->steps++;
        }
    }
    for (unsigned i = 0; i < attribute->nots_count && !error; i++)
        if (!(refused >> i & 1))
            error = satisfied_add(matcher, attribute->nots[i]);
    matcher->steps += attribute->nots_count;
    for (size_t i = first; i < matcher->satisfied_count && !error; i++)
        if (i >= count || matcher->rules->terms[matcher->satisfied[i]].alone)
            matcher->satisfied[kept++] = matcher->satisfied[i];
    matcher->satisfied_count = kept;
    return error;
}

/* By number, from `first` on, and each once: several terms may lead to one list. */
static void satisfied_sort(struct matcher *matcher, size_t first)
{
    uint32_t *satisfied = matcher->satisfied;
    size_t kept = first;
    for (size_t i = first + 1; i < matcher->satisfied_count; i++)
        for (size_t j = i; j > first && satisfied[j] < satisfied[j - 1]; j--) {
            uint32_t swap = satisfied[j];
            satisfied[j] = satisfied[j - 1];
            satisfied[j - 1] = swap;
        }
    for (size_t i = first; i < matcher->satisfied_count; i++)
        if (kept == first || satisfied[kept - 1] != satisfied[i])
            satisfied[kept++] = satisfied[i];
    matcher->satisfied_count = kept;
}

/* Finds the conditions that a value satisfies. They stay in the order of paths: by attribute, since the request is
 * sorted, and inside one by number. */
static int value_satisfies(struct matcher *matcher, const struct weir_request_value *value)
{
    const struct weir_compiled_attribute *attribute = &matcher->rules->attributes[value->attribute];
    struct weir_globs_found found = { matcher->satisfied, matcher->satisfied_count, SATISFIED_MAX, 0 };
    size_t first = found.count;
    int error = weir_globs_match(&attribute->globs, value->value, &found);
    if (!error && attribute->blocks.count > 0)
        error = weir_blocks_match(&attribute->blocks, value->value, &found);
    matcher->steps += found.steps + 1;
    matcher->satisfied_count = found.count;
    uint32_t exact = error ? 0 : weir_map_find(&matcher->rules->exacts, value->attribute, value->value);
    if (exact)
        error = satisfied_add(matcher, exact);
    if (!error && attribute->any)
        error = satisfied_add(matcher, attribute->any);
    if (!error && attribute->has_sets)
        error = sets_find(matcher, attribute, first);
    if (!error && matcher->satisfied_count > first + 1)
        satisfied_sort(matcher, first);
    return error;
}

/* Of an attribute that the request lacks, every `not` holds. */
static int absence_satisfies(struct matcher *matcher, uint32_t attribute)
{
    const struct weir_compiled_attribute *compiled = &matcher->rules->attributes[attribute];
    int error = 0;
    for (unsigned i = 0; i < compiled->nots_count && !error; i++)
        error = satisfied_add(matcher, compiled->nots[i]);
    matcher->steps += compiled->nots_count;
    return error;
}

static int conditions_find(struct matcher *matcher)
{
    const struct weir_request *request = matcher->request;
    const uint32_t *absent = matcher->rules->absent_hold;
    int error = 0;
    for (size_t i = 0; i < request->count && !error; i++) {
        const struct weir_request_value *value = &request->values[request->order[i]];
        for (; *absent && *absent < value->attribute && !error; absent++)
            error = absence_satisfies(matcher, *absent);
        absent += *absent == value->attribute;
        if (!error)
            error = value_satisfies(matcher, value);
    }
    for (; *absent && !error; absent++)
        error = absence_satisfies(matcher, *absent);
    return error;
}

static void lack_note(struct weir_match *match, const struct weir_rule *rule, enum weir_lack lack)
{
    if (match->lacks_count < WEIR_MATCH_LACKS_MAX)
        match->lacking[match->lacks_count++] = (struct weir_match_lack){ rule, lack };
}

/* Whether the limit is not met for want of an attribute; noted once, with the limit's own entry. */
static bool is_skipped(struct matcher *matcher, const struct weir_compiled_entry *entry)
{
    const struct weir_compiled_limit *limit = &matcher->rules->limits[entry->rule.index];
    if (limit->missing != WEIR_MISSING_SKIP || !weir_request_lack(matcher->request, limit))
        return false;
    if (entry == &matcher->rules->entries[limit->first_entry] && entry->rule.limit.spec.mode != WEIR_MODE_OFF)
        lack_note(matcher->match, &entry->rule, WEIR_LACK_SKIPPED);
    return true;
}

/* Whether what its path does not ask for holds as well. */
static bool is_filtered(const struct matcher *matcher, const struct weir_compiled_entry *entry)
{
    for (uint32_t i = 0; i < entry->filters_count; i++) {
        const struct weir_compiled_filter *filter = &entry->filters[i];
        const struct weir_request_value *value = weir_request_find(matcher->request, filter->attribute);
        if (!weir_condition_holds((struct weir_slice){ "", 0 }, filter->terms, value ? &value->value : NULL))
            return true;
    }
    return false;
}

/* Keeps the entry if it is the best of its limit so far. */
static int candidate_add(struct matcher *matcher, uint32_t number)
{
    const struct weir_compiled_entry *entries = matcher->rules->entries;
    const struct weir_compiled_entry *entry = &entries[number];
    if (is_filtered(matcher, entry) || is_skipped(matcher, entry) ||
        !weir_request_is_for(matcher->request, matcher->rules, entry))
        return 0;
    for (size_t i = 0; i < matcher->candidates_count; i++) {
        const struct weir_compiled_entry *other = &entries[matcher->candidates[i]];
        if (other->rule.index != entry->rule.index)
            continue;
        if (entry->rank > other->rank)
            matcher->candidates[i] = number;
        return 0;
    }
    if (matcher->candidates_count == CANDIDATES_MAX)
        return WEIR_ELIMIT;
    matcher->candidates[matcher->candidates_count++] = number;
    return 0;
}

static int node_visit(struct matcher *matcher, uint32_t node)
{
    int error = 0;
    uint32_t number = matcher->rules->paths.nodes[node].entry;
    for (; number && !error; number = matcher->rules->entries[number].next)
        error = candidate_add(matcher, number);
    return error;
}

/* Depth first along every path that the request satisfies; a path is as long as one entry has conditions. */
static int paths_walk(struct matcher *matcher)
{
    struct {
        uint32_t node;
        uint32_t next; /* of the satisfied conditions */
    } stack[WEIR_CONDITIONS_MAX + 1];
    const struct weir_paths *paths = &matcher->rules->paths;
    size_t depth = 1;
    stack[0].node = WEIR_PATHS_ROOT;
    stack[0].next = 0;
    int error = node_visit(matcher, WEIR_PATHS_ROOT);
    while (depth > 0 && !error) {
        uint32_t node = stack[depth - 1].node;
        uint32_t next = stack[depth - 1].next++;
        if (next == matcher->satisfied_count || paths->nodes[node].children == 0) {
            depth--;
            continue;
        }
        uint32_t child = weir_paths_step(paths, node, matcher->satisfied[next]);
        if (++matcher->steps > WEIR_MATCH_STEPS_MAX)
            return WEIR_ELIMIT;
        if (!child)
            continue;
        error = node_visit(matcher, child);
        stack[depth].node = child;
        stack[depth++].next = next + 1;
    }
    return error;
}

/* In the order of the file. */
static void candidates_sort(struct matcher *matcher)
{
    const struct weir_compiled_entry *entries = matcher->rules->entries;
    uint32_t *candidates = matcher->candidates;
    for (size_t i = 1; i < matcher->candidates_count; i++)
        for (size_t j = i; j > 0; j--) {
            if (entries[candidates[j - 1]].rule.index < entries[candidates[j]].rule.index)
                break;
            uint32_t swap = candidates[j];
            candidates[j] = candidates[j - 1];
            candidates[j - 1] = swap;
        }
}

static int units_of(const struct weir_compiled_limit *limit, const struct weir_rule *rule,
                    const struct weir_rules *rules, const struct weir_request *request, uint64_t *ret_units,
                    struct weir_fault *fault)
{
    *ret_units = limit->cost;
    if (!limit->cost_attribute)
        return 0;
    const char *name = rules->attributes[limit->cost_attribute].name;
    const struct weir_request_value *value = weir_request_find(request, limit->cost_attribute);
    if (!value)
        return weir_fault_format(fault, WEIR_EINVAL, name, "must be there: limit \"%.64s\" takes its cost from it",
                                 rule->name);
    int error = weir_number_parse(value->value.data, value->value.size, ret_units);
    if (error)
        return weir_fault_format(fault, error, name,
                                 "must be a whole number, 0 to %" PRId64 ": it is the cost of limit "
                                 "\"%.64s\"",
                                 WEIR_COST_MAX, rule->name);
    return 0;
}

static int cost_of(const struct weir_compiled_limit *limit, const struct weir_rule *rule,
                   const struct weir_rules *rules, const struct weir_request *request, uint64_t cost,
                   uint64_t *ret_cost, struct weir_fault *fault)
{
    uint64_t units = 0;
    uint64_t total = 0;
    int error = units_of(limit, rule, rules, request, &units, fault);
    if (error)
        return error;
    if (__builtin_mul_overflow(units, cost, &total) || total > (uint64_t)WEIR_COST_MAX)
        return weir_fault_format(fault, WEIR_ERANGE, "cost",
                                 "must be 0 to %" PRId64 " (limit \"%.64s\" charges %" PRIu64 " times %" PRIu64 ")",
                                 WEIR_COST_MAX, rule->name, cost, units);
    *ret_cost = total;
    return 0;
}

/* The key of a charge: for the limiter, or where the rule is kept elsewhere, for there. */
static int key_of(const struct weir_compiled_limit *limit, const struct weir_rule *rule, const struct weir_rules *rules,
                  const struct weir_request *request, struct weir_match *match, struct weir_fault *fault)
{
    struct weir_slice values[WEIR_KEY_VALUES_MAX];
    char cut[WEIR_KEY_VALUES_MAX][WEIR_LITERAL_TEXT_MAX];
    weir_request_key(request, limit, values, cut);
    int error = rule->limit.remote ? weir_remote_key_init(rules->secret, rule->name, values, limit->key_count,
                                                          &match->remote_keys[match->count])
                                   : weir_limiter_key(rules->limiter, rule->id, values, limit->key_count,
                                                      &match->charges[match->count].key);
    if (error == WEIR_ERANGE)
        return weir_fault_format(fault, error, "key",
                                 "the values of the key of limit \"%.64s\" must be at most %d bytes", rule->name,
                                 WEIR_KEY_BYTES_MAX);
    return error ? weir_fault_format(fault, error, "key", "%s", weir_error_text(error)) : 0;
}

/* What `missing` says to a request that is to pay `cost` and lacks `lack`: whether the limit charges it. */
static bool lack_judge(const struct weir_rules *rules, const struct weir_rule *rule, uint32_t lack, uint64_t cost,
                       struct weir_match *match)
{
    bool shares = rules->limits[rule->index].missing == WEIR_MISSING_SHARE;
    if (!shares && cost == 0)
        return false; /* what costs nothing is never refused */
    bool shadow = rule->limit.spec.mode == WEIR_MODE_SHADOW;
    lack_note(match, rule, shares ? WEIR_LACK_SHARED : shadow ? WEIR_LACK_SHADOWED : WEIR_LACK_REFUSED);
    if (!shares && !shadow && !match->refused_by) {
        match->refused_by = rule;
        match->lacks = rules->attributes[lack].name;
    }
    return shares;
}

/* One more charge, by `rule`, or none, as `missing` says. */
static int charge_make(const struct weir_rules *rules, const struct weir_rule *rule, const struct weir_request *request,
                       uint64_t cost, struct weir_match *match, struct weir_fault *fault)
{
    const struct weir_compiled_limit *limit = &rules->limits[rule->index];
    struct weir_charge *charge = &match->charges[match->count];
    if (match->count == WEIR_CHARGES_MAX)
        return weir_fault_format(fault, WEIR_ELIMIT, "limits", "at most %d may match one request", WEIR_CHARGES_MAX);
    int error = cost_of(limit, rule, rules, request, cost, &charge->cost, fault);
    if (error)
        return error;
    uint32_t lack = limit->missing == WEIR_MISSING_SKIP ? 0 : weir_request_lack(request, limit);
    if (lack && !lack_judge(rules, rule, lack, charge->cost, match))
        return 0;
    error = key_of(limit, rule, rules, request, match, fault);
    if (error)
        return error;
    charge->limit = rule->id;
    charge->delay_max_ns = 0; /* the match may be one that was used before */
    match->remote_count += rule->limit.remote != NULL;
    match->rules[match->count++] = rule;
    return 0;
}

static int charges_make(const struct matcher *matcher, const struct weir_request *request, uint64_t cost,
                        struct weir_match *match, struct weir_fault *fault)
{
    const struct weir_rules *rules = matcher->rules;
    int error = 0;
    for (size_t i = 0; i < matcher->candidates_count && !error; i++) {
        const struct weir_rule *rule = &rules->entries[matcher->candidates[i]].rule;
        if (rules->limits[rule->index].replaces_count > 0 && match->replacing_count < WEIR_MATCH_REPLACING_MAX)
            match->replacing[match->replacing_count++] = rule;
        if (rule->limit.spec.mode != WEIR_MODE_OFF)
            error = charge_make(rules, rule, request, cost, match, fault);
        else if (rules->limits[rule->index].levels_count > 0 && match->offs_count < WEIR_MATCH_OFFS_MAX)
            match->offs[match->offs_count++] = rule;
    }
    return error;
}

static void match_empty(struct weir_match *match)
{
    match->count = 0;
    match->remote_count = 0;
    match->met = false;
    match->refused_by = NULL;
    match->lacks = NULL;
    match->lacks_count = 0;
    match->offs_count = 0;
    match->replacing_count = 0;
}

int weir_rules_match(const struct weir_rules *rules, const struct weir_attribute *attributes, size_t count,
                     uint64_t cost, struct weir_match *ret_match, struct weir_fault *ret_fault)
{
    struct weir_request request;
    struct matcher matcher;
    match_empty(ret_match); /* it is built in place: 5.5 KB are not worth a copy */
    int error = weir_request_init(&request, rules, attributes, count, ret_fault);
    if (error)
        return error;
    matcher.rules = rules;
    matcher.request = &request;
    matcher.match = ret_match;
    matcher.steps = request.steps;
    matcher.satisfied_count = 0;
    matcher.candidates_count = 0;
    error = conditions_find(&matcher);
    if (!error)
        error = paths_walk(&matcher);
    if (error) {
        match_empty(ret_match);
        return weir_fault_format(ret_fault, error, "limits",
                                 "too many conditions match this request (bounds: %d conditions, %d limits, %d steps)",
                                 SATISFIED_MAX, CANDIDATES_MAX, WEIR_MATCH_STEPS_MAX);
    }
    candidates_sort(&matcher);
    ret_match->steps = matcher.steps;
    ret_match->met = matcher.candidates_count > 0;
    error = charges_make(&matcher, &request, cost, ret_match, ret_fault);
    if (error)
        match_empty(ret_match);
    else if (ret_match->refused_by)
        ret_match->count = ret_match->remote_count = 0;
    return error;
}

/* ---- exceptions ---- */

void weir_match_remove(struct weir_match *match, size_t at)
{
    match->remote_count -= match->rules[at]->limit.remote != NULL;
    match->count--;
    for (size_t i = at; i < match->count; i++) {
        match->charges[i] = match->charges[i + 1];
        match->rules[i] = match->rules[i + 1];
        match->remote_keys[i] = match->remote_keys[i + 1];
    }
}

static void charges_swap(struct weir_match *match, size_t a, size_t b)
{
    const struct weir_charge charge = match->charges[a];
    const struct weir_rule *rule = match->rules[a];
    const struct weir_remote_key key = match->remote_keys[a];
    match->charges[a] = match->charges[b];
    match->rules[a] = match->rules[b];
    match->remote_keys[a] = match->remote_keys[b];
    match->charges[b] = charge;
    match->rules[b] = rule;
    match->remote_keys[b] = key;
}

bool weir_match_level(struct weir_match *match, size_t at, const struct weir_rule *level)
{
    weir_assert(match->rules[at]->index == level->index);
    if (level->limit.spec.mode == WEIR_MODE_OFF) {
        weir_match_remove(match, at);
        return false;
    }
    match->rules[at] = level; /* the key is the limit's */
    match->charges[at].limit = level->id;
    return true;
}

/* The same on every node, for what was mixed is. */
static uint64_t mixed(const uint64_t *hash, size_t count, uint64_t mark, uint64_t purpose)
{
    const struct weir_sip_key key = { mark, purpose };
    uint8_t bytes[2 * sizeof(*hash)];
    for (size_t i = 0; i < count; i++)
        weir_little_put(bytes + i * sizeof(*hash), hash[i], sizeof(*hash));
    return weir_siphash(&key, bytes, count * sizeof(*hash));
}

/* The tag stays, so that keys of one tag still lie on one server; and the phase, for windows begin when they did. */
void weir_match_reset(struct weir_match *match, size_t at, uint64_t mark)
{
    if (match->rules[at]->limit.remote) {
        struct weir_remote_key *key = &match->remote_keys[at];
        const uint64_t id[2] = { mixed(key->id, 2, mark, 0), mixed(key->id, 2, mark, 1) };
        memcpy(key->id, id, sizeof(id));
    } else {
        struct weir_key *key = &match->charges[at].key;
        key->hash = mixed(&key->hash, 1, mark, 0);
    }
}

int weir_match_level_on(const struct weir_rules *rules, const struct weir_attribute *attributes, size_t count,
                        uint64_t cost, const struct weir_rule *level, struct weir_match *match,
                        struct weir_fault *ret_fault)
{
    struct weir_request request;
    const size_t before = match->count;
    if (level->limit.spec.mode == WEIR_MODE_OFF)
        return 0;
    int error = weir_request_init(&request, rules, attributes, count, ret_fault);
    if (!error)
        error = charge_make(rules, level, &request, cost, match, ret_fault);
    if (error)
        match_empty(match);
    for (size_t i = before; i > 0 && i < match->count && match->rules[i - 1]->index > level->index; i--)
        charges_swap(match, i - 1, i); /* in the order of the file */
    return error;
}
