/* SPDX-License-Identifier: Apache-2.0
 *
 * The query string of a request: name=value, joined by '&', percent-encoded. Which names there may be is a table of the
 * caller's.
 *
 * Thread rule: plain values. */
#pragma once

#include "weir/limiter.h"

struct weir_query_field {
    const char *name;
    char *value; /* room for a value and a NUL */
    size_t room;
    bool given; /* out: it stands in the query, and `value` has what it says */
};

/* Reads all of it. `value` of what is not given stays as it is. WEIR_EINVAL: a name that is not in the table, or a
 * value that is not percent-encoded, too long, or has a NUL; WEIR_EDUP: a name stands twice. The fault names it. */
int weir_query_read(struct weir_slice query, struct weir_query_field *fields, size_t count,
                    struct weir_fault *ret_fault);

/* A whole number of `min` to `max` (at most 18 digits). WEIR_ERANGE, and the fault names it and the range. */
int weir_query_number(const struct weir_query_field *field, uint64_t min, uint64_t max, uint64_t *ret_number,
                      struct weir_fault *ret_fault);
