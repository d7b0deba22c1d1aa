/* SPDX-License-Identifier: Apache-2.0
 *
 * Opens the store, asks it, and writes the answer. Who changes something is told as which version it was stored, or why
 * not: each outcome of an edit (rules/editor.h) has one status. Called by rules_job.c, on a thread that may block. */
#include "serve/rules_answer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rules/history.h"
#include "serve/exceptions_answer.h"
#include "serve/rules_replay.h"
#include "wire/http_answer.h"
#include "wire/json.h"

#define YAML "application/yaml"
#define JSON "application/json"
#define PROBLEM "application/problem+json"

/* ---- bodies ---- */

/* Takes the reference. */
static void put_json(struct weir_rules_answer *answer, int status, const char *type, json_t *json)
{
    char *text = json ? json_dumps(json, JSON_COMPACT) : NULL;
    json_decref(json);
    answer->status = status;
    answer->type = type;
    answer->body = (uint8_t *)text;
    answer->size = text ? strlen(text) : 0;
}

static json_t *problem(int status, const char *detail)
{
    return json_pack("{s:s,s:s,s:i,s:o}", "type", "about:blank", "title", weir_http_reason(status), "status", status,
                     "detail", weir_json_text(detail));
}

static void put_newest(json_t *json, uint64_t newest)
{
    (void)json_object_set_new(json, "newest", json_integer((json_int_t)newest));
}

/* What the store said; its fault names the place. */
static void put_error(struct weir_rules_answer *answer, int error, const struct weir_fault *fault)
{
    char detail[sizeof(fault->field) + sizeof(fault->text) + 64];
    const bool absent = error == WEIR_ENOENT &&
                        (strcmp(fault->field, "version") == 0 || strcmp(fault->field, "limit") == 0 ||
                         strcmp(fault->field, "level") == 0 || strcmp(fault->field, "key") == 0);
    const bool wrong = error == WEIR_EINVAL || error == WEIR_ERANGE;
    int status = absent ? 404 : error == WEIR_EUNKNOWN ? 504 : wrong ? 400 : error == WEIR_ELIMIT ? 409 : 503;
    (void)snprintf(detail, sizeof(detail), "%s%s%s%s", fault->field, fault->field[0] ? ": " : "",
                   fault->text[0] ? fault->text : weir_error_text(error),
                   error == WEIR_EUNKNOWN ? "; it is not known whether it was stored: ask for the versions" : "");
    if (status == 503)
        (void)snprintf(answer->fields, sizeof(answer->fields), "Retry-After: 1\r\n");
    put_json(answer, status, PROBLEM, problem(status, detail));
}

/* ---- reading ---- */

static int newest_of(const struct weir_rule_editor *editor, uint64_t *number, struct weir_fault *fault)
{
    struct weir_rule_head head;
    if (*number > 0)
        return 0;
    int error = weir_rule_store_head(editor->store, weir_rule_editor_deadline(editor), &head, fault);
    if (error)
        return error;
    *number = head.number;
    (void)snprintf(fault->field, sizeof(fault->field), "version");
    (void)snprintf(fault->text, sizeof(fault->text), "there is none yet");
    return head.number > 0 ? 0 : WEIR_ENOENT;
}

static int read_version(const struct weir_rule_editor *editor, uint64_t number, char **ret_text, size_t *ret_size,
                        bool *ret_proposed, struct weir_fault *fault)
{
    struct weir_rule_version version;
    int error = weir_rule_store_read(editor->store, number, weir_rule_editor_deadline(editor), &version, ret_text,
                                     fault);
    if (error)
        return error;
    *ret_size = version.text_size;
    *ret_proposed = version.kind == WEIR_RULE_PROPOSED;
    return 0;
}

/* As `weir rules show` prints it. */
static int read_rules(const struct weir_rule_editor *editor, uint64_t number, struct weir_rules_answer *answer,
                      struct weir_fault *fault)
{
    char *text = NULL;
    size_t size = 0;
    bool proposed = false;
    int error = newest_of(editor, &number, fault);
    if (!error)
        error = read_version(editor, number, &text, &size, &proposed, fault);
    if (error)
        return error;
    uint8_t *body = malloc(WEIR_RULE_FROM_SIZE + size);
    if (body) {
        int head = snprintf((char *)body, WEIR_RULE_FROM_SIZE, WEIR_RULE_FROM_FORMAT, number,
                            proposed ? WEIR_RULE_FROM_PROPOSED : "");
        memcpy(body + head, text, size);
        answer->size = (size_t)head + size;
    }
    free(text);
    answer->status = 200;
    answer->type = YAML;
    answer->body = body;
    (void)snprintf(answer->fields, sizeof(answer->fields), "ETag: \"%" PRIu64 "\"\r\n%s", number,
                   proposed ? "Weir-Proposed: ?1\r\n" : "");
    return 0;
}

static int read_versions(const struct weir_rule_editor *editor, const struct weir_rules_question *question,
                         struct weir_rules_answer *answer, struct weir_fault *fault)
{
    json_t *list = NULL;
    int error = weir_rule_history(editor, question->version, question->count, &list, fault);
    if (error)
        return error;
    json_t *json = json_pack("{s:s,s:o}", "store", weir_rule_store_name(editor->store), "versions", list);
    if (fault->text[0]) /* what is damaged hides no other */
        (void)json_object_set_new(json, "damaged", weir_json_text(fault->text));
    put_json(answer, 200, JSON, json);
    return 0;
}

static int read_diff(const struct weir_rule_editor *editor, const struct weir_rules_question *question,
                     struct weir_rules_answer *answer, struct weir_fault *fault)
{
    struct weir_rule_changes changes;
    uint64_t number = question->version;
    char *before = NULL, *after = NULL;
    bool proposed; /* it may be: that is what people compare */
    size_t before_size = 0, after_size = 0;
    int error = newest_of(editor, &number, fault);
    if (!error)
        error = read_version(editor, question->before, &before, &before_size, &proposed, fault);
    if (!error)
        error = read_version(editor, number, &after, &after_size, &proposed, fault);
    if (!error) {
        weir_rule_editor_compare(editor, (struct weir_slice){ before, before_size },
                                 (struct weir_slice){ after, after_size }, &changes);
        put_json(answer, 200, JSON,
                 json_pack("{s:I,s:I,s:s}", "from", (json_int_t)question->before, "to", (json_int_t)number, "changes",
                           changes.text));
    }
    free(before);
    free(after);
    return error;
}

/* ---- changing ---- */

static json_t *errors_of(const struct weir_config_faults *faults)
{
    json_t *list = json_array();
    for (size_t i = 0; i < faults->count; i++)
        (void)json_array_append_new(list, json_pack("{s:i,s:i,s:o}", "line", (int)faults->list[i].mark.line, "column",
                                                    (int)faults->list[i].mark.column, "message",
                                                    weir_json_text(faults->list[i].text)));
    return list;
}

static void put_stale(struct weir_rules_answer *answer, const struct weir_rule_edited *edited)
{
    char detail[160];
    const bool unnamed = edited->outcome == WEIR_RULE_UNNAMED;
    const int status = unnamed ? 428 : 412;
    if (unnamed)
        (void)snprintf(detail, sizeof(detail),
                       "say which version this was made from: If-Match: \"%" PRIu64 "\" is the "
                       "newest, or leave the first line that GET /v1/rules gave",
                       edited->newest);
    else
        (void)snprintf(detail, sizeof(detail),
                       "nothing was stored: version %" PRIu64 " is the newest, and this was made "
                       "from %" PRIu64,
                       edited->newest, edited->from);
    json_t *json = problem(status, detail);
    put_newest(json, edited->newest);
    put_json(answer, status, PROBLEM, json);
}

static void put_edited(struct weir_rules_answer *answer, const struct weir_rule_edited *edited, bool rolls)
{
    json_t *json;
    switch (edited->outcome) {
    case WEIR_RULE_STORED:
    case WEIR_RULE_SAME:
    case WEIR_RULE_WOULD:
        json = json_pack("{s:b,s:I,s:s}", "stored", edited->outcome == WEIR_RULE_STORED, "version",
                         (json_int_t)(edited->outcome == WEIR_RULE_STORED ? edited->number : edited->newest), "changes",
                         edited->changes.text);
        put_json(answer, 200, JSON, json);
        break;
    case WEIR_RULE_STALE:
    case WEIR_RULE_UNNAMED:
        put_stale(answer, edited);
        break;
    case WEIR_RULE_ALONE:
        put_json(answer, 403, PROBLEM, problem(403, edited->faults.list[0].text));
        break;
    case WEIR_RULE_WRONG:
    default:
        json = problem(400, rolls ? "nothing was stored: this cannot be rolled out; errors says where and why"
                                  : "nothing was stored: these are no rules; errors says where and why");
        (void)json_object_set_new(json, "errors", errors_of(&edited->faults));
        put_json(answer, 400, PROBLEM, json);
    }
}

static int change(const struct weir_rule_editor *editor, const struct weir_rules_question *question,
                  struct weir_rules_answer *answer, struct weir_fault *fault)
{
    const enum weir_rule_kind kind = question->call == WEIR_RULES_ROLLBACK  ? WEIR_RULE_ROLLBACK
                                     : question->call == WEIR_RULES_APPROVE ? WEIR_RULE_APPROVED
                                     : question->propose                    ? WEIR_RULE_PROPOSED
                                                                            : WEIR_RULE_APPLIED;
    const struct weir_rule_edit edit = { .kind = kind,
                                         .expected = question->expected,
                                         .first_only = !question->any,
                                         .of = weir_rule_kind_copies(kind) ? question->version : 0,
                                         .text = question->text,
                                         .author = question->author,
                                         .comment = question->comment,
                                         .dry_run = question->dry_run,
                                         .wall_ns = question->wall_ns };
    struct weir_rule_edited *edited = calloc(1, sizeof(*edited));
    const bool rolls = question->call == WEIR_RULES_ROLLOUT;
    int error = !edited ? WEIR_ENOMEM
                : rolls ? weir_rule_editor_roll_out(editor, &edit, question->share, edited, fault)
                        : weir_rule_editor_put(editor, &edit, edited, fault);
    if (!error)
        put_edited(answer, edited, rolls);
    free(edited);
    return error;
}

/* ---- trying ---- */

static void put_wrong(struct weir_rules_answer *answer, const struct weir_config_faults *faults, const char *detail)
{
    json_t *json = problem(400, detail);
    (void)json_object_set_new(json, "errors", errors_of(faults));
    put_json(answer, 400, PROBLEM, json);
}

/* What this node decides by: the newest may be for others, or be none that it can use. Where the store has lost it, the
 * newest that nodes may decide by. */
static int read_in_force(const struct weir_rule_editor *editor, uint64_t number, struct weir_rule_version *ret_version,
                         char **ret_text, struct weir_fault *fault)
{
    int error = number > 0 ? weir_rule_editor_decided(editor, number, ret_version, ret_text, fault) : WEIR_ENOENT;
    if (error != WEIR_ENOENT)
        return error;
    number = 0;
    error = newest_of(editor, &number, fault);
    return error ? error : weir_rule_editor_decided(editor, number, ret_version, ret_text, fault);
}

/* On the last hour of this node, against the version by which it decides. */
static int replay(const struct weir_rule_editor *editor, const struct weir_rules_question *question,
                  struct weir_rules_answer *answer, struct weir_fault *fault)
{
    struct weir_rule_version version;
    struct weir_config_faults *faults = calloc(1, sizeof(*faults));
    char *in_force = NULL;
    json_t *json = NULL;
    int error = faults ? read_in_force(editor, question->version, &version, &in_force, fault) : WEIR_ENOMEM;
    if (!error && !weir_rule_editor_judge(editor, question->text, faults)) {
        put_wrong(answer, faults, "nothing was replayed: these are no rules; errors says where and why");
    } else if (!error) {
        const struct weir_slice none = { "limits: []\n", 11 };
        const struct weir_replay_of of = { .past = question->past,
                                           .metrics = question->metrics,
                                           .config = editor->config,
                                           .in_force = in_force ? (struct weir_slice){ in_force, version.text_size }
                                                                : none,
                                           .text = question->text,
                                           .stop = editor->stop,
                                           .now = weir_time_read() };
        *fault = (struct weir_fault){ 0 };
        error = weir_rules_replay(&of, &json, faults);
        if (!error)
            put_json(answer, 200, JSON, json);
        else
            (void)snprintf(fault->text, sizeof(fault->text), "%.150s", faults->list[0].text);
    }
    free(in_force);
    free(faults);
    return error;
}

static int ask_exceptions(const struct weir_rule_editor *editor, const struct weir_rules_question *question,
                          struct weir_rules_answer *answer, struct weir_fault *fault)
{
    json_t *json = NULL;
    int error = weir_exceptions_answer(editor, question, &json, fault);
    if (!error)
        put_json(answer, 200, JSON, json);
    return error;
}

static int ask(const struct weir_rule_editor *editor, const struct weir_rules_question *question,
               struct weir_rules_answer *answer, struct weir_fault *fault)
{
    switch (question->call) {
    case WEIR_RULES_READ:
        return read_rules(editor, question->version, answer, fault);
    case WEIR_RULES_VERSIONS:
        return read_versions(editor, question, answer, fault);
    case WEIR_RULES_DIFF:
        return read_diff(editor, question, answer, fault);
    case WEIR_RULES_REPLAY:
        return replay(editor, question, answer, fault);
    case WEIR_RULES_EXCEPTIONS:
    case WEIR_RULES_BAN:
    case WEIR_RULES_LEVEL:
    case WEIR_RULES_RESET:
    case WEIR_RULES_UNBAN:
        return ask_exceptions(editor, question, answer, fault);
    case WEIR_RULES_PUT:
    case WEIR_RULES_ROLLBACK:
    case WEIR_RULES_APPROVE:
    case WEIR_RULES_ROLLOUT:
    default:
        return change(editor, question, answer, fault);
    }
}

void weir_rules_answer(const struct weir_config *config, const struct weir_rules_question *question,
                       const atomic_bool *stop, struct weir_rules_answer *ret_answer)
{
    const struct weir_rule_store_options options = { .spec = config->rules.store.data, .table = config->rules.table };
    struct weir_rule_editor editor = { .config = config, .timeout_ns = config->rules.timeout_ns, .stop = stop };
    struct weir_fault fault = { 0 };
    *ret_answer = (struct weir_rules_answer){ 0 };
    editor.until_ns = weir_rule_editor_deadline(&editor) + (WEIR_RULES_TIMEOUTS - 1) * editor.timeout_ns;
    int error = weir_rule_store_open(&options, &editor.store, &fault);
    if (!error)
        error = ask(&editor, question, ret_answer, &fault);
    if (error)
        put_error(ret_answer, error, &fault);
    weir_rule_store_close(editor.store);
}
