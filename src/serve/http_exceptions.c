/* SPDX-License-Identifier: Apache-2.0
 *
 * /v1/rules/exceptions, ban, level, reset and unban: reads the question; http_rules.c has it asked. Called by http.c,
 * for callers with the right to it. */
#include <stdio.h>
#include <string.h>

#include "base/fault_format.h"
#include "rules/exception.h"
#include "serve/exceptions_answer.h"
#include "serve/http_call.h"
#include "wire/query.h"

#define KEY_SIZE (WEIR_KEY_BYTES_MAX + 1024) /* with the names and marks of JSON */

static void change(struct weir_http_call *call, enum weir_rules_call what)
{
    struct weir_rules_question question = { .call = what };
    struct weir_fault fault = { 0 };
    char key[KEY_SIZE] = "", author[WEIR_RULE_AUTHOR_MAX + 1] = "", comment[WEIR_RULE_COMMENT_MAX + 1] = "";
    struct weir_query_field fields[] = { { "limit", question.limit, sizeof(question.limit), false },
                                         { "key", key, sizeof(key), false },
                                         { "author", author, sizeof(author), false },
                                         { "comment", comment, sizeof(comment), false },
                                         { "until", question.until, sizeof(question.until), false },
                                         { "level", question.level, sizeof(question.level), false } };
    const size_t last = sizeof(fields) / sizeof(fields[0]); /* a ban has no level, the others no end either */
    const bool ends = what == WEIR_RULES_BAN || what == WEIR_RULES_LEVEL;
    const size_t count = last - (what != WEIR_RULES_LEVEL) - !ends;
    int error = weir_query_read(call->request->query, fields, count, &fault);
    if (!error && !question.limit[0])
        error = weir_fault_format(&fault, WEIR_EINVAL, "limit", "must be the name of a limit");
    if (!error && what == WEIR_RULES_LEVEL && !question.level[0])
        error = weir_fault_format(&fault, WEIR_EINVAL, "level", "must be the name of a level of the limit");
    if (!error && fields[4].given && !question.until[0]) /* a variable that was not set, say: that is not for good */
        error = weir_fault_format(&fault, WEIR_EINVAL, "until",
                                  "must be a time or a duration; without it it is for good");
    if (!error)
        error = weir_http_rules_author(call, author, comment, &question, &fault);
    question.text = (struct weir_slice){ key, strlen(key) };
    weir_http_rules_ask(call, error, &fault, &question);
}

void weir_http_rules_ban(struct weir_http_call *call)
{
    change(call, WEIR_RULES_BAN);
}

void weir_http_rules_level(struct weir_http_call *call)
{
    change(call, WEIR_RULES_LEVEL);
}

void weir_http_rules_reset(struct weir_http_call *call)
{
    change(call, WEIR_RULES_RESET);
}

void weir_http_rules_unban(struct weir_http_call *call)
{
    change(call, WEIR_RULES_UNBAN);
}

void weir_http_rules_exceptions(struct weir_http_call *call)
{
    struct weir_rules_question question = { .call = WEIR_RULES_EXCEPTIONS, .wall_ns = call->time->wall_ns };
    struct weir_fault fault = { 0 };
    char key[KEY_SIZE] = "", all[8] = "", count[24] = "", from[24] = "";
    enum { ALL = 2, COUNT, FROM };
    uint64_t number = WEIR_EXCEPTIONS_COUNT;
    struct weir_query_field fields[] = { { "limit", question.limit, sizeof(question.limit), false },
                                         { "key", key, sizeof(key), false },
                                         { "all", all, sizeof(all), false },
                                         { "count", count, sizeof(count), false },
                                         { "from", from, sizeof(from), false } };
    int error = weir_query_read(call->request->query, fields, sizeof(fields) / sizeof(fields[0]), &fault);
    if (!error && fields[COUNT].given)
        error = weir_query_number(&fields[COUNT], 1, WEIR_EXCEPTIONS_COUNT_MAX, &number, &fault);
    if (!error && fields[FROM].given)
        error = weir_query_number(&fields[FROM], 1, WEIR_EXCEPTION_CHANGES_MAX, &question.version, &fault);
    if (!error && fields[ALL].given && strcmp(all, "true") != 0 && strcmp(all, "false") != 0)
        error = weir_fault_format(&fault, WEIR_EINVAL, "all", "must be true or false");
    if (!error && key[0] && !question.limit[0])
        error = weir_fault_format(&fault, WEIR_EINVAL, "key", "needs a limit");
    question.all = strcmp(all, "true") == 0;
    question.count = (size_t)number;
    question.text = (struct weir_slice){ key, strlen(key) };
    weir_http_rules_ask(call, error, &fault, &question);
}
