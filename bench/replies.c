/* SPDX-License-Identifier: Apache-2.0
 *
 * Replies of a known shape, counted by their line ends. */
#include "replies.h"

#include <stdlib.h>
#include <string.h>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

#define STEP 16

unsigned replies_lines(const char *data, size_t size)
{
    unsigned lines = 0;
    long due = 1; /* replies still to be seen */
    while (due > 0) {
        const char *end = memchr(data, '\n', size);
        if (end == NULL) {
            return 0;
        }
        lines++;
        due--;
        if (*data == '*') {
            due += strtol(data + 1, NULL, 10);
        } else if (*data == '$' && data[1] != '-') {
            due++; /* its bytes: one more line, as long as they hold no line end */
        }
        size -= (size_t)(end + 1 - data);
        data = end + 1;
    }
    return lines;
}

/* Bit i is set where data[i] ends a line; `size` of at most STEP bytes are looked at. */
static unsigned line_ends(const char *data, size_t size)
{
    unsigned bits = 0;
#ifdef __SSE2__
    if (size >= STEP) {
        __m128i bytes = _mm_loadu_si128((const __m128i *)(const void *)data);
        return (unsigned)_mm_movemask_epi8(_mm_cmpeq_epi8(bytes, _mm_set1_epi8('\n')));
    }
#endif
    for (size_t i = 0; i < size && i < STEP; i++) {
        bits |= (unsigned)(data[i] == '\n') << i;
    }
    return bits;
}

bool replies_scan(struct replies *replies, const struct replies_shape *shape, const char *data, size_t size,
                  struct replies_tally *tally)
{
    const char *begin = data; /* of the line under way */
    unsigned line = replies->line;

    for (size_t at = 0; at < size; at += STEP) {
        for (unsigned ends = line_ends(data + at, size - at); ends != 0; ends &= ends - 1) {
            if (line == 0 && *begin != shape->type) {
                return false;
            }
            if (line == shape->verdict_line) {
                bool admitted = begin[1] == shape->admitted;
                tally->admitted += admitted;
                tally->refused += !admitted;
            }
            begin = data + at + (unsigned)__builtin_ctz(ends) + 1;
            if (++line == shape->lines) {
                line = 0;
                tally->replies++;
            }
        }
    }
    replies->line = line;
    replies->carry_size = (size_t)(data + size - begin);
    if (replies->carry_size > sizeof replies->carry) {
        return false;
    }
    memcpy(replies->carry, begin, replies->carry_size);
    return true;
}
