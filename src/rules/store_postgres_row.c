/* SPDX-License-Identifier: Apache-2.0
 *
 * What the server answers, believed only as far as weir could have written it: the tables may be anybody's. Numbers are
 * digits, bytes are hexadecimal digits. Called by store_postgres.c. */
#include <libpq-fe.h>
#include <stdlib.h>
#include <string.h>

#include "base/hex.h"
#include "rules/store_postgres.h"

bool weir_rule_row_number(const struct pg_result *result, int row, int column, uint64_t *ret_number)
{
    const char *text = PQgetvalue(result, row, column);
    char *end;
    if (PQgetisnull(result, row, column) || text[0] < '0' || text[0] > '9' || strlen(text) > 19)
        return false;
    uint64_t number = strtoull(text, &end, 10);
    if (*end != '\0')
        return false;
    *ret_number = number;
    return true;
}

bool weir_rule_row_bytes(const struct pg_result *result, int row, int column, void *ret_bytes, size_t size)
{
    return !PQgetisnull(result, row, column) && (size_t)PQgetlength(result, row, column) == 2 * size &&
           weir_hex_read(PQgetvalue(result, row, column), size, ret_bytes);
}

/* At most room - 1 bytes, and a NUL behind them. */
static bool get_string(const PGresult *result, int row, int column, char *ret_text, size_t room)
{
    size_t size = (size_t)PQgetlength(result, row, column) / 2;
    if (size >= room || !weir_rule_row_bytes(result, row, column, ret_text, size) || memchr(ret_text, '\0', size))
        return false;
    ret_text[size] = '\0';
    return true;
}

bool weir_rule_row_head(const struct pg_result *result, struct weir_rule_head *ret_head)
{
    struct weir_rule_head head = { 0 };
    if (PQntuples(result) > 1 || PQnfields(result) != 2)
        return false;
    if (PQntuples(result) == 1 &&
        (!weir_rule_row_number(result, 0, 0, &head.number) || head.number < 1 || head.number > WEIR_RULE_VERSIONS_MAX ||
         !weir_rule_row_bytes(result, 0, 1, head.checksum, sizeof head.checksum)))
        return false;
    *ret_head = head;
    return true;
}

bool weir_rule_row_version(const struct pg_result *result, int row, struct weir_rule_version *ret_version)
{
    struct weir_rule_version *version = ret_version;
    uint64_t kind = 0;
    if (PQnfields(result) < 9 || !weir_rule_row_number(result, row, 0, &version->number) ||
        !weir_rule_row_number(result, row, 1, &kind) || kind > WEIR_RULE_APPROVED ||
        !weir_rule_row_number(result, row, 2, &version->of) ||
        !weir_rule_row_number(result, row, 3, &version->wall_ns) ||
        !weir_rule_row_bytes(result, row, 4, version->change, sizeof version->change) ||
        !get_string(result, row, 5, version->author, sizeof version->author) ||
        !get_string(result, row, 6, version->comment, sizeof version->comment) ||
        !weir_rule_row_bytes(result, row, 7, version->checksum, sizeof version->checksum) ||
        !weir_rule_row_number(result, row, 8, &version->text_size))
        return false;
    version->kind = (enum weir_rule_kind)kind;
    return weir_rule_version_valid(version);
}

bool weir_rule_row_told(const struct pg_result *result, int row, struct weir_rule_told *ret_told)
{
    struct weir_rule_told told = { 0 };
    if (PQnfields(result) != 3 || PQgetisnull(result, row, 0) || PQgetlength(result, row, 0) > WEIR_RULE_NODE_MAX ||
        !weir_rule_row_number(result, row, 1, &told.version) || !weir_rule_row_number(result, row, 2, &told.since_ns))
        return false;
    memcpy(told.node, PQgetvalue(result, row, 0), (size_t)PQgetlength(result, row, 0));
    if (!weir_rule_told_valid(&told))
        return false;
    *ret_told = told;
    return true;
}
