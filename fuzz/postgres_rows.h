/* SPDX-License-Identifier: Apache-2.0
 *
 * Any rows, as what PostgreSQL answers. */
#pragma once

#include <libpq-fe.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"

/* It ends at a NUL. Not strndup, which may look for one beyond the bytes. */
static inline char *copy_of(const void *bytes, size_t size)
{
    char *copy = malloc(size + 1);
    weir_assert(copy);
    memcpy(copy, bytes, size);
    copy[size] = '\0';
    return copy;
}

/* The first byte says how many columns; the values are cut at newlines, and an empty one is NULL. */
static inline PGresult *result_of(const char *text, size_t size)
{
    PGresult *result = PQmakeEmptyPGresult(NULL, PGRES_TUPLES_OK);
    int columns = size ? (unsigned char)text[0] % 12 : 0;
    PGresAttDesc columns_of[12];
    memset(columns_of, 0, sizeof(columns_of));
    char name[] = "c";
    for (int i = 0; i < columns; i++)
        columns_of[i].name = name;
    if (columns == 0 || !PQsetResultAttrs(result, columns, columns_of))
        return result;
    const char *end = text + size;
    const char *at = text + 1;
    for (int cell = 0; at < end && cell < 3 * columns; cell++) {
        const char *line = memchr(at, '\n', (size_t)(end - at));
        size_t length = (size_t)((line ? line : end) - at);
        char *value = copy_of(at, length);
        int shown = length ? (int)strlen(value) : -1;
        PQsetvalue(result, cell / columns, cell % columns, length ? value : NULL, shown);
        free(value);
        at = line ? line + 1 : end;
    }
    return result;
}
