/* SPDX-License-Identifier: Apache-2.0
 *
 * Any rows as what PostgreSQL answers about versions of rule sets: within every bound, or none that weir wrote. And any
 * author, comment and text in what is asked: only hexadecimal digits of theirs reach the server. */
#include "postgres_rows.h"
#include "rules/store_postgres.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_answers(const PGresult *result)
{
    struct weir_rule_head head;
    for (int row = 0; row < PQntuples(result); row++) {
        struct weir_rule_version version;
        struct weir_rule_told told;
        if (weir_rule_row_version(result, row, &version))
            weir_assert(version.number >= 1 && version.number <= WEIR_RULE_VERSIONS_MAX &&
                        version.of < version.number && version.author[0] && version.comment[0] &&
                        version.text_size <= WEIR_RULE_TEXT_MAX);
        if (weir_rule_row_told(result, row, &told))
            weir_assert(told.node[0] && strlen(told.node) <= WEIR_RULE_NODE_MAX && told.version >= 1);
    }
    if (weir_rule_row_head(result, &head))
        weir_assert(head.number <= WEIR_RULE_VERSIONS_MAX);
}

static void check_question(const uint8_t *data, size_t size)
{
    struct weir_pg_text text = { .data = NULL };
    static const uint8_t checksum[WEIR_RULE_CHECKSUM_SIZE];
    char *author = copy_of(data, size < WEIR_RULE_AUTHOR_MAX ? size : WEIR_RULE_AUTHOR_MAX);
    struct weir_rule_change change = {
        .expected = size, .kind = WEIR_RULE_APPLIED, .author = author, .comment = author, .text = { data, size }
    };
    weir_rule_sql_begin(&text, 100);
    weir_rule_sql_append(&text, "public.weir_rules", &change, checksum);
    weir_assert(!text.failed);
    /* The quotes are weir's own: an even number, and nothing between a decode's but digits. */
    size_t quotes = 0;
    for (const char *at = text.data; *at; at++) {
        quotes += *at == '\'';
        weir_assert(*at >= ' ' && *at != '\\' && (unsigned char)*at < 0x7f);
    }
    weir_assert(quotes % 2 == 0);
    for (const char *at = text.data; (at = strstr(at, "decode('"));) {
        at += strlen("decode('");
        weir_assert(at[strspn(at, "0123456789abcdef")] == '\'');
    }
    free(text.data);
    free(author);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    PGresult *result = result_of((const char *)data, size);
    check_answers(result);
    PQclear(result);
    check_question(data, size);
    return 0;
}
