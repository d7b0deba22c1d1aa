/* SPDX-License-Identifier: Apache-2.0
 *
 * Counts RESP replies that all have the same number of lines, about as fast as memory is read: a load generator that
 * parsed each integer would be slower than the server. The shape is learned from one whole reply. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define REPLIES_CARRY_MAX 512

struct replies_shape {
    unsigned lines;        /* of one reply */
    char type;             /* its first byte */
    unsigned verdict_line; /* which line says whether it was admitted; `lines` or more: none does */
    char admitted;         /* what follows the type byte of that line then: '0' or '1' */
};

struct replies_tally {
    uint64_t replies;
    uint64_t admitted;
    uint64_t refused;
};

/* One stream of replies; zero-initialise. */
struct replies {
    unsigned line;                 /* of the reply that is under way */
    size_t carry_size;             /* bytes of a line that has not ended yet */
    char carry[REPLIES_CARRY_MAX]; /* the reader puts them before the next bytes */
};

/* Lines of the whole reply that `data` begins with; 0 if it is not all there. */
unsigned replies_lines(const char *data, size_t size);

/* Counts what ends in `data` (the carry first), keeps the rest as carry. False: a reply of another shape, such as an
 * error, or a line too long to carry. */
bool replies_scan(struct replies *replies, const struct replies_shape *shape, const char *data, size_t size,
                  struct replies_tally *tally);
