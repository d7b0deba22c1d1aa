/* SPDX-License-Identifier: Apache-2.0
 *
 * Computes the table of distances row by row and keeps three rows of it, because a swap looks two rows back. Called
 * where a word is unknown: in the configuration (rules/decode.c) and on the command line (cli/option.c, main.c,
 * lock.c). */
#include "base/nearest.h"

#include <string.h>

#define EDITS_MAX 2

static unsigned least(unsigned a, unsigned b)
{
    return a < b ? a : b;
}

/* The optimal string alignment distance, row by row; both are at most WEIR_NEAREST_MAX long. */
static unsigned edits_between(const char *one, size_t one_size, const char *other, size_t other_size)
{
    unsigned rows[3][WEIR_NEAREST_MAX + 1];
    for (unsigned j = 0; j <= other_size; j++)
        rows[0][j] = j;
    for (size_t i = 1; i <= one_size; i++) {
        unsigned *row = rows[i % 3];
        const unsigned *above = rows[(i - 1) % 3];
        row[0] = (unsigned)i;
        for (size_t j = 1; j <= other_size; j++) {
            unsigned changed = one[i - 1] == other[j - 1] ? 0 : 1;
            row[j] = least(least(above[j], row[j - 1]) + 1, above[j - 1] + changed);
            if (i > 1 && j > 1 && one[i - 1] == other[j - 2] && one[i - 2] == other[j - 1])
                row[j] = least(row[j], rows[(i - 2) % 3][j - 2] + 1);
        }
    }
    return rows[one_size % 3][other_size];
}

void weir_nearest_offer(struct weir_nearest *nearest, const char *word)
{
    size_t size = strlen(word);
    if (size > WEIR_NEAREST_MAX || nearest->size > WEIR_NEAREST_MAX)
        return;
    unsigned edits = edits_between(nearest->text, nearest->size, word, size);
    if (edits > EDITS_MAX || 2 * edits >= size || (nearest->word && edits >= nearest->edits))
        return;
    nearest->word = word;
    nearest->edits = edits;
}
