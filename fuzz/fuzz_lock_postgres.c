/* SPDX-License-Identifier: Apache-2.0
 *
 * Any rows as what PostgreSQL answers about locks: read within bounds, or no such answer. And any name, owner and
 * table in what is asked: only hexadecimal digits and numbers of theirs reach the server. */
#include <libpq-fe.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "locks/postgres_text.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* It ends at a NUL. Not strndup, which may look for one beyond the bytes. */
static char *copy_of(const void *bytes, size_t size)
{
    char *copy = malloc(size + 1);
    weir_assert(copy);
    memcpy(copy, bytes, size);
    copy[size] = '\0';
    return copy;
}

/* The first byte says how many columns; the values are cut at newlines, and an empty one is NULL. */
static PGresult *result_of(const char *text, size_t size)
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

static void check_answers(const PGresult *result)
{
    struct weir_pg_identity identity;
    static char owner[] = "owner";
    (void)weir_pg_identity_read(result, &identity);
    for (unsigned verb = WEIR_LOCK_ACQUIRE; verb <= WEIR_LOCK_SHOW; verb++) {
        struct weir_lock_op op = { .verb = (enum weir_lock_verb)verb, .owner = { owner, 5 }, .status = 77 };
        bool read = weir_pg_answer_read(result, &op);
        weir_assert(op.holder_size <= WEIR_LOCK_OWNER_MAX && op.status == 77);
        weir_assert(!read || op.said == WEIR_LOCK_GRANTED || op.said == WEIR_LOCK_HELD || op.said == WEIR_LOCK_FREE);
    }
}

static void check_questions(const uint8_t *data, size_t size)
{
    struct weir_pg_text text = { 0 };
    const struct weir_pg_ground ground = { 1, 2, 3 };
    size_t half = size / 2;
    struct weir_lock_op op = { .verb = (enum weir_lock_verb)(size % 4), .ttl_ns = size };
    op.name = (struct weir_slice){ data, half < WEIR_LOCK_NAME_MAX ? half : WEIR_LOCK_NAME_MAX };
    op.owner = (struct weir_slice){ data + half,
                                    size - half < WEIR_LOCK_OWNER_MAX ? size - half : WEIR_LOCK_OWNER_MAX };
    struct weir_lock_op *order[] = { &op };
    weir_pg_batch_write(&text, &ground, order, 1, true, 1000, (enum weir_pg_tokens)(size % 3));
    for (size_t i = 0; i < text.size; i++)
        weir_assert((text.data[i] >= ' ' && text.data[i] < 127) || text.data[i] == '\n');
    weir_assert(text.failed || strlen(text.data) == text.size);
    free(text.data);
    char *table = copy_of(data, size);
    if (weir_pg_table_valid(table))
        weir_assert(strlen(table) <= WEIR_PG_TABLE_MAX &&
                    strspn(table, "abcdefghijklmnopqrstuvwxyz0123456789_.") == strlen(table));
    free(table);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    PGresult *result = result_of((const char *)data, size);
    check_answers(result);
    PQclear(result);
    if (size > 0)
        check_questions(data, size);
    return 0;
}
