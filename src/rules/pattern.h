/* SPDX-License-Identifier: Apache-2.0
 *
 * Patterns: bytes in which each `*` stands for any bytes, also none. There is no escape: a value with a `*` in it is
 * matched by a pattern with a `*` there. Thread rule: pure functions. */
#pragma once

#include "weir/limiter.h"

/* Whether there is no `*` in it. */
bool weir_pattern_is_exact(struct weir_slice pattern);

/* "*": anything, as long as the attribute is there. */
bool weir_pattern_is_any(struct weir_slice pattern);

/* In time linear in both: nobody who chooses a value can make this slow. */
bool weir_pattern_matches(struct weir_slice pattern, struct weir_slice value);

/* Folds `**` into `*` in place, so that equal sets have equal patterns; returns the new size. */
size_t weir_pattern_fold(char *pattern, size_t size);

/* The text before the first `*` and after the last; of an exact pattern all of it, and nothing. */
struct weir_slice weir_pattern_prefix(struct weir_slice pattern);
struct weir_slice weir_pattern_suffix(struct weir_slice pattern);

/* How many bytes are not `*`. */
size_t weir_pattern_literal_bytes(struct weir_slice pattern);

int weir_slice_compare(struct weir_slice a, struct weir_slice b); /* as memcmp; a prefix comes first */
bool weir_slice_equal(struct weir_slice a, struct weir_slice b);
bool weir_slice_starts_with(struct weir_slice text, struct weir_slice prefix);
bool weir_slice_ends_with(struct weir_slice text, struct weir_slice suffix);
