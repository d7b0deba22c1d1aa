/* SPDX-License-Identifier: Apache-2.0
 *
 * To build, the patterns are sorted and cut into groups, and each group finds its parent on the chain of the one before
 * it. To match, the chain of prefixes is walked, and for each prefix the chain of suffixes, with only what is behind
 * the prefix: the two never overlap. Built by compile_conditions.c, asked by match.c; one pattern and one value are
 * compared in pattern.c. */
#include "rules/globs.h"

#include <stdlib.h>

#include "rules/pattern.h"

/* As weir_slice_compare, from the last byte to the first. */
static int compare_from_end(struct weir_slice a, struct weir_slice b)
{
    const unsigned char *left = a.data;
    const unsigned char *right = b.data;
    for (size_t i = 1; i <= a.size && i <= b.size; i++)
        if (left[a.size - i] != right[b.size - i])
            return left[a.size - i] < right[b.size - i] ? -1 : 1;
    return (a.size > b.size) - (a.size < b.size);
}

static int by_texts(const void *a, const void *b)
{
    struct weir_slice left = ((const struct weir_glob *)a)->pattern;
    struct weir_slice right = ((const struct weir_glob *)b)->pattern;
    int order = weir_slice_compare(weir_pattern_prefix(left), weir_pattern_prefix(right));
    if (!order)
        order = compare_from_end(weir_pattern_suffix(left), weir_pattern_suffix(right));
    return order ? order : weir_slice_compare(left, right);
}

static bool is_part(struct weir_slice text, struct weir_slice part, bool from_end)
{
    return from_end ? weir_slice_ends_with(text, part) : weir_slice_starts_with(text, part);
}

/* The parent of the last of `count` groups, all sorted: it is on the chain of the one before. */
static int32_t parent_of(const struct weir_globs_group *groups, size_t count, bool from_end)
{
    int32_t parent = (int32_t)count - 2;
    while (parent >= 0 && !is_part(groups[count - 1].text, groups[parent].text, from_end))
        parent = groups[parent].parent;
    return parent;
}

static void group_add(struct weir_globs_group *groups, size_t *count, struct weir_slice text, size_t first,
                      bool from_end)
{
    groups[*count] = (struct weir_globs_group){ .text = text, .first = (uint32_t)first };
    ++*count;
    groups[*count - 1].parent = parent_of(groups, *count, from_end);
}

int weir_globs_init(struct weir_globs *ret_globs, struct weir_arena *arena, struct weir_glob *globs, size_t count,
                    uint32_t *ret_excess)
{
    struct weir_globs_group *prefixes = weir_arena_alloc(arena, count, sizeof(*prefixes));
    struct weir_globs_group *suffixes = weir_arena_alloc(arena, count, sizeof(*suffixes));
    size_t prefixes_count = 0;
    size_t suffixes_count = 0; /* of all prefixes */
    if (count && (!prefixes || !suffixes))
        return WEIR_ENOMEM;
    if (count)
        qsort(globs, count, sizeof(*globs), by_texts);
    for (size_t i = 0; i < count; i++) {
        struct weir_slice prefix = weir_pattern_prefix(globs[i].pattern);
        struct weir_slice suffix = weir_pattern_suffix(globs[i].pattern);
        globs[i].inner = prefix.size + suffix.size + 1 < globs[i].pattern.size;
        if (prefixes_count == 0 || !weir_slice_equal(prefixes[prefixes_count - 1].text, prefix))
            group_add(prefixes, &prefixes_count, prefix, suffixes_count, false);
        struct weir_globs_group *owner = &prefixes[prefixes_count - 1];
        size_t owned = owner->count;
        if (owned == 0 || !weir_slice_equal(suffixes[suffixes_count - 1].text, suffix)) {
            group_add(suffixes + owner->first, &owned, suffix, i, true);
            owner->count = (uint32_t)owned;
            suffixes_count++;
        }
        if (++suffixes[suffixes_count - 1].count > WEIR_GLOBS_INNER_MAX + 1) {
            *ret_excess = globs[i].id;
            return WEIR_ELIMIT;
        }
    }
    *ret_globs = (struct weir_globs){ prefixes, suffixes, globs, prefixes_count };
    return 0;
}

/* The longest text of the list that `value` begins (ends) with, or -1. */
static int32_t chain_start(const struct weir_globs_group *groups, size_t count, struct weir_slice value, bool from_end,
                           size_t *steps)
{
    size_t low = 0;
    size_t high = count;
    while (low < high) { /* groups before low are at most `value`, from high on they are above it */
        size_t middle = low + (high - low) / 2;
        int order = from_end ? compare_from_end(groups[middle].text, value)
                             : weir_slice_compare(groups[middle].text, value);
        ++*steps;
        if (order <= 0)
            low = middle + 1;
        else
            high = middle;
    }
    int32_t at = (int32_t)low - 1;
    for (; at >= 0 && !is_part(value, groups[at].text, from_end); at = groups[at].parent)
        ++*steps;
    return at;
}

static int group_match(const struct weir_globs *globs, const struct weir_globs_group *group, struct weir_slice value,
                       struct weir_globs_found *found)
{
    for (uint32_t i = group->first; i < group->first + group->count; i++) {
        const struct weir_glob *glob = &globs->globs[i];
        found->steps++;
        if (glob->inner && !weir_pattern_matches(glob->pattern, value))
            continue;
        if (found->count >= found->capacity)
            return WEIR_ELIMIT;
        found->ids[found->count++] = glob->id;
    }
    return 0;
}

int weir_globs_match(const struct weir_globs *globs, struct weir_slice value, struct weir_globs_found *found)
{
    int error = 0;
    int32_t at = chain_start(globs->prefixes, globs->prefixes_count, value, false, &found->steps);
    for (; at >= 0 && !error; at = globs->prefixes[at].parent) {
        const struct weir_globs_group *prefix = &globs->prefixes[at];
        const struct weir_globs_group *suffixes = globs->suffixes + prefix->first;
        const char *bytes = value.data;
        /* Prefix and suffix must not overlap in the value: only what is behind the prefix may end with the suffix. */
        struct weir_slice rest = { bytes + prefix->text.size, value.size - prefix->text.size };
        int32_t tail = chain_start(suffixes, prefix->count, rest, true, &found->steps);
        for (; tail >= 0 && !error; tail = suffixes[tail].parent)
            error = group_match(globs, &suffixes[tail], value, found);
    }
    return error;
}
