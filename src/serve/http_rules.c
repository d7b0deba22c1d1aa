/* SPDX-License-Identifier: Apache-2.0
 *
 * /v1/rules: the rules that stand in a store, read, changed, compared and rolled back. Reads the question and leaves
 * the call (weir_http_call_leave) until the store has answered (rules_job.c). Called by http.c, for callers with the
 * right to it. */
#include <stdio.h>
#include <string.h>

#include "base/fault_format.h"
#include "rules/rollout.h"
#include "serve/http_call.h"
#include "serve/loop.h"
#include "serve/rules_job.h"
#include "wire/limits.h"
#include "wire/query.h"

/* ---- answers ---- */

static void on_answered(struct weir_rules_job *job, void *context)
{
    const struct weir_time time = weir_time_read();
    const struct weir_http_call call = weir_http_call_resume(context, &time);
    struct weir_rules_answer *answer = weir_rules_job_answer(job);
    if (!answer->body) {
        weir_http_reply_problem(&call, 503, "", "out of memory");
    } else if (answer->status == 200) {
        weir_http_reply_long(&call, answer->type, answer->fields, answer->body, answer->size);
        answer->body = NULL;
    } else {
        const struct weir_text body = { .data = answer->body, .size = answer->size };
        weir_http_reply_body(&call, answer->status, answer->type, answer->fields, &body);
    }
    call.session->rules = NULL;
    weir_rules_job_end(job);
    weir_http_call_end(&call, false);
}

void weir_http_rules_drop(struct weir_http_session *session)
{
    if (session->rules)
        weir_rules_job_abandon(session->rules);
    session->rules = NULL;
}

static void ask(struct weir_http_call *call, const struct weir_rules_question *question)
{
    struct weir_fault fault = { 0 };
    int error = weir_rules_job_start(call->conn->loop, question, on_answered, call->conn, &call->session->rules,
                                     &fault);
    if (!error)
        weir_http_call_leave(call, false);
    else
        weir_http_reply_problem(call, error == WEIR_ENOENT ? 404 : 503,
                                error == WEIR_ENOENT ? "" : "Retry-After: 1\r\n",
                                fault.text[0] ? fault.text : weir_error_text(error));
}

void weir_http_rules_ask(struct weir_http_call *call, int error, const struct weir_fault *fault,
                         const struct weir_rules_question *question)
{
    if (error)
        weir_http_reply_fault(call, error, fault);
    else
        ask(call, question);
}

/* ---- questions ---- */

/* What a query may say; each call knows some of it. */
enum { VERSION, FROM, TO, COUNT, COMMENT, AUTHOR, DRY_RUN, PROPOSE, PERCENT, FIELDS };

struct query {
    uint64_t said[4]; /* the numbers; 0: not given */
    char numbers[4][24], dry_run[8], propose[8], percent[8];
    char author[WEIR_RULE_AUTHOR_MAX + 1], comment[WEIR_RULE_COMMENT_MAX + 1];
    struct weir_fault fault;
};

static const struct {
    const char *name;
    uint64_t max;
} numbers[] = { [VERSION] = { "version", WEIR_RULE_VERSIONS_MAX },
                [FROM] = { "from", WEIR_RULE_VERSIONS_MAX },
                [TO] = { "to", WEIR_RULE_VERSIONS_MAX },
                [COUNT] = { "count", WEIR_RULES_COUNT_MAX } };

static int check_truth(const struct weir_query_field *field, struct weir_fault *fault)
{
    bool is = !field->given || strcmp(field->value, "true") == 0 || strcmp(field->value, "false") == 0;
    return is ? 0 : weir_fault_format(fault, WEIR_EINVAL, field->name, "must be true or false");
}

/* Those of the fields whose bit is in `known`. */
static int read_query(const struct weir_http_call *call, unsigned known, struct query *query)
{
    struct weir_fault *fault = &query->fault;
    struct weir_query_field fields[FIELDS];
    const struct weir_query_field all[FIELDS] = {
        [COMMENT] = { "comment", query->comment, sizeof(query->comment), false },
        [AUTHOR] = { "author", query->author, sizeof(query->author), false },
        [DRY_RUN] = { "dry_run", query->dry_run, sizeof(query->dry_run), false },
        [PROPOSE] = { "propose", query->propose, sizeof(query->propose), false },
        [PERCENT] = { "percent", query->percent, sizeof(query->percent), true },
    };
    size_t count = 0;
    query->comment[0] = query->author[0] = query->dry_run[0] = query->propose[0] = query->percent[0] = '\0';
    memset(query->said, 0, sizeof(query->said));
    *fault = (struct weir_fault){ 0 };
    for (unsigned i = 0; i < FIELDS; i++) {
        struct weir_query_field field = all[i];
        if (i <= COUNT)
            field = (struct weir_query_field){ numbers[i].name, query->numbers[i], sizeof(query->numbers[i]), false };
        if (known & (1U << i))
            fields[count++] = field;
    }
    int error = weir_query_read(call->request->query, fields, count, fault);
    for (unsigned i = 0, at = 0; i < FIELDS && !error; i++) {
        if (!(known & (1U << i)))
            continue;
        if (i <= COUNT && fields[at].given)
            error = weir_query_number(&fields[at], 1, numbers[i].max, &query->said[i], fault);
        if (i == DRY_RUN || i == PROPOSE)
            error = check_truth(&fields[at], fault);
        at++;
    }
    return error;
}

/* If-Match: "42", or * for whatever is the newest. Without it *ret_expected stays. */
static int read_match(const struct weir_http_call *call, bool *ret_any, uint64_t *ret_expected,
                      struct weir_fault *fault)
{
    const struct weir_http_header *match = weir_http_find(call->request, "if-match");
    char digits[24] = "";
    *ret_any = match && match->value.size == 1 && memcmp(match->value.data, "*", 1) == 0;
    if (!match || *ret_any)
        return 0;
    const char *value = match->value.data;
    size_t size = match->value.size;
    if (size >= 3 && size < sizeof(digits) && value[0] == '"' && value[size - 1] == '"')
        memcpy(digits, value + 1, size - 2);
    const struct weir_query_field field = { "If-Match", digits, sizeof(digits), true };
    uint64_t number = 0;
    int error = weir_query_number(&field, 0, WEIR_RULE_VERSIONS_MAX, &number, fault);
    if (error)
        return weir_fault_format(fault, error, "If-Match", "must be one version in quotes, \"42\", or *");
    if (*ret_expected != WEIR_RULE_FROM_ANY && *ret_expected != number)
        return weir_fault_format(fault, WEIR_EINVAL, "If-Match", "says another version than the text's first line");
    *ret_expected = number;
    return 0;
}

int weir_http_rules_author(const struct weir_http_call *call, const char *author, const char *comment,
                           struct weir_rules_question *question, struct weir_fault *fault)
{
    int size = snprintf(question->author, sizeof(question->author), author[0] ? "%s (%s)" : "%s%s", author,
                        call->caller);
    if (size >= (int)sizeof(question->author))
        return weir_fault_format(fault, WEIR_ERANGE, "author", "must leave room for the name of the token: %d bytes",
                                 WEIR_RULE_AUTHOR_MAX);
    if (!comment[0])
        return weir_fault_format(fault, WEIR_EINVAL, "comment", "must say why, 1 to %d bytes", WEIR_RULE_COMMENT_MAX);
    (void)snprintf(question->comment, sizeof(question->comment), "%s", comment);
    question->wall_ns = call->time->wall_ns;
    return 0;
}

static int name_author(const struct weir_http_call *call, const struct query *query,
                       struct weir_rules_question *question, struct weir_fault *fault)
{
    question->dry_run = strcmp(query->dry_run, "true") == 0;
    return weir_http_rules_author(call, query->author, query->comment, question, fault);
}

static int read_percent(const struct query *query, uint32_t *ret_share, struct weir_fault *fault)
{
    int error = weir_rollout_parse(query->percent, strlen(query->percent), ret_share);
    return error ? weir_fault_format(fault, error, "percent",
                                     "must be 0.1 to 100 (of the keys), with one decimal at most")
                 : 0;
}

/* The text of the body, which is to be in force: for all, or for a percentage of the keys. */
static void put(struct weir_http_call *call, bool rolls)
{
    struct weir_rules_question question = { .call = rolls ? WEIR_RULES_ROLLOUT : WEIR_RULES_PUT,
                                            .expected = WEIR_RULE_FROM_ANY,
                                            .text = call->request->body };
    const unsigned known = 1U << COMMENT | 1U << AUTHOR | 1U << DRY_RUN | 1U << PROPOSE | (rolls ? 1U << PERCENT : 0);
    struct query query;
    bool any = false;
    int error = read_query(call, known, &query);
    if (!error && rolls)
        error = read_percent(&query, &question.share, &query.fault);
    weir_rule_from_take(&question.text, &question.expected);
    if (!error)
        error = read_match(call, &any, &question.expected, &query.fault);
    if (!error)
        error = name_author(call, &query, &question, &query.fault);
    if (any)
        question.expected = WEIR_RULE_FROM_ANY;
    question.any = any;
    question.propose = strcmp(query.propose, "true") == 0;
    weir_http_rules_ask(call, error, &query.fault, &question);
}

void weir_http_rules(struct weir_http_call *call)
{
    struct weir_rules_question question = { .call = WEIR_RULES_READ };
    struct query query;
    if (call->request->method == WEIR_HTTP_PUT) {
        put(call, false);
        return;
    }
    int error = read_query(call, 1U << VERSION, &query);
    question.version = query.said[VERSION];
    weir_http_rules_ask(call, error, &query.fault, &question);
}

void weir_http_rules_rollout(struct weir_http_call *call)
{
    put(call, true);
}

/* The text of the body, tried on the last hour. */
void weir_http_rules_replay(struct weir_http_call *call)
{
    struct weir_common *common = call->conn->loop->common;
    char said[1];
    struct weir_rules_question question = {
        .call = WEIR_RULES_REPLAY,
        .version = weir_http_in_force(common, call->conn->loop->setup, said, sizeof(said)).version,
        .text = call->request->body,
        .past = common->past,
        .metrics = common->metrics,
    };
    struct query query;
    uint64_t from;
    int error = read_query(call, 0, &query);
    weir_rule_from_take(&question.text, &from);
    weir_http_rules_ask(call, error, &query.fault, &question);
}

void weir_http_rules_versions(struct weir_http_call *call)
{
    struct weir_rules_question question = { .call = WEIR_RULES_VERSIONS };
    struct query query;
    int error = read_query(call, 1U << FROM | 1U << COUNT, &query);
    question.version = query.said[FROM];
    question.count = query.said[COUNT] ? (size_t)query.said[COUNT] : WEIR_RULES_COUNT;
    weir_http_rules_ask(call, error, &query.fault, &question);
}

void weir_http_rules_diff(struct weir_http_call *call)
{
    struct weir_rules_question question = { .call = WEIR_RULES_DIFF };
    struct query query;
    int error = read_query(call, 1U << FROM | 1U << TO, &query);
    if (!error && query.said[FROM] == 0)
        error = weir_fault_format(&query.fault, WEIR_EINVAL, "from", "must say which version is compared, 1 to %d",
                                  WEIR_RULE_VERSIONS_MAX);
    question.before = query.said[FROM];
    question.version = query.said[TO];
    weir_http_rules_ask(call, error, &query.fault, &question);
}

void weir_http_rules_rollback(struct weir_http_call *call)
{
    struct weir_rules_question question = { .call = WEIR_RULES_ROLLBACK, .expected = WEIR_RULE_FROM_ANY, .any = true };
    struct query query;
    bool any = false;
    int error = read_query(call, 1U << TO | 1U << COMMENT | 1U << AUTHOR | 1U << DRY_RUN, &query);
    if (!error && query.said[TO] == 0)
        error = weir_fault_format(&query.fault, WEIR_EINVAL, "to", "must say which version comes back, 1 to %d",
                                  WEIR_RULE_VERSIONS_MAX);
    if (!error)
        error = read_match(call, &any, &question.expected, &query.fault);
    if (!error)
        error = name_author(call, &query, &question, &query.fault);
    question.version = query.said[TO];
    weir_http_rules_ask(call, error, &query.fault, &question);
}

void weir_http_rules_approve(struct weir_http_call *call)
{
    struct weir_rules_question question = { .call = WEIR_RULES_APPROVE };
    struct query query;
    int error = read_query(call, 1U << VERSION | 1U << COMMENT | 1U << AUTHOR | 1U << DRY_RUN, &query);
    if (!error && query.said[VERSION] == 0)
        error = weir_fault_format(&query.fault, WEIR_EINVAL, "version", "must say which proposal is approved, 1 to %d",
                                  WEIR_RULE_VERSIONS_MAX);
    if (!error)
        error = name_author(call, &query, &question, &query.fault);
    question.version = question.expected = query.said[VERSION];
    weir_http_rules_ask(call, error, &query.fault, &question);
}
