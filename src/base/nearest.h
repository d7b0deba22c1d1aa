/* SPDX-License-Identifier: Apache-2.0
 *
 * "Did you mean ...?": of the words that are known, the nearest to one that is not. Near is at most two edits away (a
 * letter added, left out, changed, or swapped with its neighbour), and fewer than half as many as the known word has
 * letters. Pure; time and memory are bounded by WEIR_NEAREST_MAX: a longer word is near to nothing. */
#pragma once

#include <stddef.h>

#define WEIR_NEAREST_MAX 40

struct weir_nearest {
    const char *text; /* what was written */
    size_t size;
    const char *word; /* the nearest of those offered, the first of equals; NULL: none is near */
    unsigned edits;
};

/* Offers a word that is known, which must outlive `nearest`. */
void weir_nearest_offer(struct weir_nearest *nearest, const char *word);
