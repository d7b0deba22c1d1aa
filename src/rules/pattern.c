/* SPDX-License-Identifier: Apache-2.0
 *
 * To match, prefix and suffix are compared first; then each text between two stars is searched for behind the one
 * before. Its first place is always good enough, so nothing is tried twice. The comparisons of slices are here too.
 * Called throughout src/rules; all patterns of an attribute at once are in globs.c. */
#include "rules/pattern.h"

#include <string.h>

static const char *bytes_of(struct weir_slice slice)
{
    return slice.data;
}

int weir_slice_compare(struct weir_slice a, struct weir_slice b)
{
    size_t size = a.size < b.size ? a.size : b.size;
    int order = size ? memcmp(a.data, b.data, size) : 0;
    return order ? order : (a.size > b.size) - (a.size < b.size);
}

bool weir_slice_equal(struct weir_slice a, struct weir_slice b)
{
    return a.size == b.size && (a.size == 0 || memcmp(a.data, b.data, a.size) == 0);
}

bool weir_slice_starts_with(struct weir_slice text, struct weir_slice prefix)
{
    return prefix.size <= text.size && (prefix.size == 0 || memcmp(text.data, prefix.data, prefix.size) == 0);
}

bool weir_slice_ends_with(struct weir_slice text, struct weir_slice suffix)
{
    return suffix.size <= text.size &&
           (suffix.size == 0 || memcmp(bytes_of(text) + text.size - suffix.size, suffix.data, suffix.size) == 0);
}

bool weir_pattern_is_exact(struct weir_slice pattern)
{
    return pattern.size == 0 || !memchr(pattern.data, '*', pattern.size);
}

bool weir_pattern_is_any(struct weir_slice pattern)
{
    return pattern.size == 1 && bytes_of(pattern)[0] == '*';
}

/* Each text between two `*` is taken at its first place: a later one would leave less for the rest. */
bool weir_pattern_matches(struct weir_slice pattern, struct weir_slice value)
{
    if (weir_pattern_is_exact(pattern))
        return weir_slice_equal(pattern, value);
    struct weir_slice prefix = weir_pattern_prefix(pattern);
    struct weir_slice suffix = weir_pattern_suffix(pattern);
    if (prefix.size + suffix.size > value.size || !weir_slice_starts_with(value, prefix) ||
        !weir_slice_ends_with(value, suffix))
        return false;
    const char *text = bytes_of(pattern) + prefix.size + 1; /* behind a `*` */
    const char *last = bytes_of(suffix);                    /* behind the last one */
    const char *at = bytes_of(value) + prefix.size;
    const char *end = bytes_of(value) + value.size - suffix.size;
    while (text < last) {
        const char *star = memchr(text, '*', (size_t)(last - text));
        const char *found = memmem(at, (size_t)(end - at), text, (size_t)(star - text));
        if (!found)
            return false;
        at = found + (star - text);
        text = star + 1;
    }
    return true;
}

size_t weir_pattern_fold(char *pattern, size_t size)
{
    size_t kept = 0;
    for (size_t i = 0; i < size; i++)
        if (pattern[i] != '*' || kept == 0 || pattern[kept - 1] != '*')
            pattern[kept++] = pattern[i];
    return kept;
}

struct weir_slice weir_pattern_prefix(struct weir_slice pattern)
{
    const char *star = pattern.size ? memchr(pattern.data, '*', pattern.size) : NULL;
    return (struct weir_slice){ pattern.data, star ? (size_t)(star - bytes_of(pattern)) : pattern.size };
}

struct weir_slice weir_pattern_suffix(struct weir_slice pattern)
{
    const char *star = pattern.size ? memrchr(pattern.data, '*', pattern.size) : NULL;
    if (!star)
        return (struct weir_slice){ pattern.data, 0 };
    return (struct weir_slice){ star + 1, pattern.size - (size_t)(star + 1 - bytes_of(pattern)) };
}

size_t weir_pattern_literal_bytes(struct weir_slice pattern)
{
    size_t bytes = 0;
    for (size_t i = 0; i < pattern.size; i++)
        bytes += bytes_of(pattern)[i] != '*';
    return bytes;
}
