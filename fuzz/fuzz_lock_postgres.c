/* SPDX-License-Identifier: Apache-2.0
 *
 * Any rows as what PostgreSQL answers about locks: read within bounds, or no such answer. And any name, owner and
 * table in what is asked: only hexadecimal digits and numbers of theirs reach the server. */
#include "locks/postgres_text.h"
#include "postgres_rows.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

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
