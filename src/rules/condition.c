/* SPDX-License-Identifier: Apache-2.0
 *
 * Compares a value with each term of a condition, one after the other. Whether two conditions exclude each other is
 * told from their terms in pairs: by exact values, by what patterns begin and end with, by blocks. Called by explain.c,
 * by compile.c to rank overrides, and by warnings.c and attribute_warnings.c. */
#include "rules/condition.h"

#include "rules/pattern.h"

static bool term_holds(const struct weir_condition_value *term, struct weir_slice value)
{
    struct weir_block address;
    if (!term->is_block)
        return weir_pattern_matches(term->text, value);
    return weir_block_of_address(value, &address) && weir_block_holds(&term->block, &address);
}

bool weir_condition_holds(struct weir_slice pattern, const struct weir_condition_values *terms,
                          const struct weir_slice *value)
{
    bool any = false;
    if (!terms)
        return value && weir_pattern_matches(pattern, *value);
    for (size_t i = 0; i < terms->count && value && !any; i++)
        any = term_holds(&terms->list[i], *value);
    return any != terms->negated;
}

static bool term_is_exact(const struct weir_condition_value *term)
{
    return !term->is_block && weir_pattern_is_exact(term->text);
}

bool weir_condition_is_exact(struct weir_slice pattern, const struct weir_condition_values *terms)
{
    bool exact = terms ? !terms->negated : weir_pattern_is_exact(pattern);
    for (size_t i = 0; terms && i < terms->count; i++)
        exact = exact && term_is_exact(&terms->list[i]);
    return exact;
}

uint64_t weir_condition_closeness(struct weir_slice pattern, const struct weir_condition_values *terms)
{
    uint64_t least = terms ? UINT64_MAX : weir_pattern_literal_bytes(pattern);
    for (size_t i = 0; terms && i < terms->count; i++) {
        const struct weir_condition_value *term = &terms->list[i];
        uint64_t own = term->is_block ? WEIR_PATTERN_MAX + 1U + term->block.bits
                                      : weir_pattern_literal_bytes(term->text);
        if (!term_is_exact(term) && own < least)
            least = own;
    }
    return least;
}

/* ---- what excludes what ---- */

static bool begins_apart(struct weir_slice a, struct weir_slice b)
{
    return !weir_slice_starts_with(a, b) && !weir_slice_starts_with(b, a);
}

static bool ends_apart(struct weir_slice a, struct weir_slice b)
{
    return !weir_slice_ends_with(a, b) && !weir_slice_ends_with(b, a);
}

/* No value satisfies both. */
static bool terms_are_apart(const struct weir_condition_value *a, const struct weir_condition_value *b)
{
    if (term_is_exact(a))
        return !term_holds(b, a->text);
    if (term_is_exact(b))
        return !term_holds(a, b->text);
    if (a->is_block && b->is_block)
        return !weir_block_holds(&a->block, &b->block) && !weir_block_holds(&b->block, &a->block);
    if (a->is_block || b->is_block)
        return false;
    return begins_apart(weir_pattern_prefix(a->text), weir_pattern_prefix(b->text)) ||
           ends_apart(weir_pattern_suffix(a->text), weir_pattern_suffix(b->text));
}

/* Every value that satisfies `inner` satisfies `outer`. */
static bool term_covers(const struct weir_condition_value *outer, const struct weir_condition_value *inner)
{
    if (term_is_exact(inner))
        return term_holds(outer, inner->text);
    if (outer->is_block || inner->is_block)
        return outer->is_block == inner->is_block ? weir_block_holds(&outer->block, &inner->block)
                                                  : !outer->is_block && weir_pattern_is_any(outer->text);
    return weir_pattern_is_any(outer->text) || weir_slice_equal(outer->text, inner->text);
}

/* Every value of `a`, which is not negated, is refused by `b`. */
static bool all_refused(const struct weir_condition_values *a, const struct weir_condition_values *b)
{
    for (size_t i = 0; i < a->count; i++) {
        bool refused = !b->negated;
        for (size_t j = 0; j < b->count; j++)
            refused = b->negated ? refused || term_covers(&b->list[j], &a->list[i])
                                 : refused && terms_are_apart(&b->list[j], &a->list[i]);
        if (!refused)
            return false;
    }
    return true;
}

/* A condition of one pattern as terms. */
union one {
    struct weir_condition_values terms;
    uint8_t room[sizeof(struct weir_condition_values) + sizeof(struct weir_condition_value)];
};

static const struct weir_condition_values *terms_of(const struct weir_condition *condition, union one *one)
{
    if (condition->terms)
        return condition->terms;
    one->terms.negated = false;
    one->terms.count = 1;
    one->terms.list[0] = (struct weir_condition_value){ .text = condition->pattern };
    return &one->terms;
}

bool weir_conditions_conflict(const struct weir_condition *a, const struct weir_condition *b)
{
    union one room_a, room_b;
    const struct weir_condition_values *left = terms_of(a, &room_a);
    const struct weir_condition_values *right = terms_of(b, &room_b);
    if (left->negated && right->negated)
        return false; /* a request that lacks the attribute satisfies both */
    return left->negated ? all_refused(right, left) : all_refused(left, right);
}
