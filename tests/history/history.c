/* SPDX-License-Identifier: Apache-2.0 */
#include "history.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FIELDS_MAX 20

static const char *const verb_names[HISTORY_VERBS] = { "acquire", "renew",   "release", "install", "read",
                                                       "write",   "restart", "restore", "rewind" };
static const char *const result_names[HISTORY_RESULTS] = { "granted", "held",        "lost",   "ok",
                                                           "fenced",  "uninstalled", "unknown" };
/* Which results an operation may have, by bits. */
static const unsigned results_of[HISTORY_VERBS] = {
    [HISTORY_ACQUIRE] = 1 << HISTORY_GRANTED | 1 << HISTORY_HELD | 1 << HISTORY_UNKNOWN,
    [HISTORY_RENEW] = 1 << HISTORY_GRANTED | 1 << HISTORY_LOST | 1 << HISTORY_UNKNOWN,
    [HISTORY_RELEASE] = 1 << HISTORY_OK | 1 << HISTORY_LOST | 1 << HISTORY_UNKNOWN,
    [HISTORY_INSTALL] = 1 << HISTORY_OK | 1 << HISTORY_FENCED | 1 << HISTORY_UNKNOWN,
    [HISTORY_READ] = 1 << HISTORY_OK | 1 << HISTORY_UNKNOWN,
    [HISTORY_WRITE] = 1 << HISTORY_OK | 1 << HISTORY_FENCED | 1 << HISTORY_UNINSTALLED | 1 << HISTORY_UNKNOWN,
    [HISTORY_RESTART] = 1 << HISTORY_OK,
    [HISTORY_RESTORE] = 1 << HISTORY_OK,
    [HISTORY_REWIND] = 1 << HISTORY_OK,
};

const char *history_verb_name(enum history_verb verb)
{
    return verb_names[verb];
}

const char *history_result_name(enum history_result result)
{
    return result_names[result];
}

static int fail(struct history *history, unsigned line, const char *what, const char *detail)
{
    (void)snprintf(history->fault, sizeof(history->fault), "%s%s", what, detail);
    history->faulty_line = line;
    return WEIR_EPROTO;
}

/* The number of a name, from 1; 0 without memory. */
static size_t name_number(struct history_names *names, const char *name)
{
    for (size_t i = 0; i < names->count; i++) {
        if (strcmp(names->names[i], name) == 0)
            return i + 1;
    }
    char **grown = realloc(names->names, (names->count + 1) * sizeof(*grown));
    if (!grown)
        return 0;
    names->names = grown;
    grown[names->count] = strdup(name);
    return grown[names->count] ? ++names->count : 0;
}

static int word_find(const char *word, const char *const *words, int count)
{
    int at = 0;
    while (at < count && strcmp(words[at], word) != 0)
        at++;
    return at;
}

static int header_read(struct history *history, const json_t *object, unsigned line)
{
    const char *model = json_string_value(json_object_get(object, "model"));
    const char *about = json_string_value(json_object_get(object, "about"));
    if (line != 1 || !model)
        return fail(history, line, "neither an operation nor a header", "");
    (void)snprintf(history->model, sizeof(history->model), "%s", model);
    (void)snprintf(history->about, sizeof(history->about), "%s", about ? about : "");
    history->stuck = (unsigned)json_integer_value(json_object_get(object, "stuck"));
    return 0;
}

/* A whole number of 0 or more; absent is 0. */
static int number_read(struct history *history, const json_t *object, unsigned line, const char *key,
                       uint64_t *ret_number)
{
    const json_t *value = json_object_get(object, key);
    if (value && (!json_is_integer(value) || json_integer_value(value) < 0))
        return fail(history, line, key, ": must be a whole number of 0 or more");
    *ret_number = (uint64_t)json_integer_value(value);
    return 0;
}

static int numbers_read(struct history *history, const json_t *object, struct history_op *op)
{
    struct {
        const char *key;
        uint64_t *number;
    } const fields[] = {
        { "start_ns", &op->start_ns },
        { "end_ns", &op->end_ns },
        { "number", &op->token.number },
        { "incarnation", &op->token.incarnation },
        { "seen", &op->seen },
        { "lease_ns", &op->lease_ns },
        { "lease_max_ns", &op->lease_max_ns },
    };
    for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
        int failed = number_read(history, object, op->line, fields[i].key, fields[i].number);
        if (failed != 0)
            return failed;
    }
    op->has_token = json_object_get(object, "number") != NULL;
    op->has_from = json_object_get(object, "from") != NULL;
    op->value = json_integer_value(json_object_get(object, "value"));
    op->from = json_integer_value(json_object_get(object, "from"));
    return 0;
}

static int op_check(struct history *history, const struct history_op *op)
{
    bool event = op->verb >= HISTORY_RESTART;
    if (!(results_of[op->verb] >> op->result & 1))
        return fail(history, op->line, "this operation has no such result: ", result_names[op->result]);
    if (op->end_ns < op->start_ns)
        return fail(history, op->line, "ends before it starts", "");
    if (op->lock == 0 && !event)
        return fail(history, op->line, "no lock", "");
    if (op->verb <= HISTORY_RELEASE && op->owner == 0)
        return fail(history, op->line, "no owner", "");
    if ((op->verb == HISTORY_INSTALL || op->verb == HISTORY_WRITE) && !op->has_token)
        return fail(history, op->line, "no number", "");
    return 0;
}

static int op_read(struct history *history, const json_t *object, unsigned line)
{
    struct history_op op = { .line = line };
    const char *verb = json_string_value(json_object_get(object, "op"));
    const char *result = json_string_value(json_object_get(object, "result"));
    const char *lock = json_string_value(json_object_get(object, "lock"));
    const char *owner = json_string_value(json_object_get(object, "owner"));
    if (!verb)
        return header_read(history, object, line);
    op.verb = (enum history_verb)word_find(verb, verb_names, HISTORY_VERBS);
    if (op.verb == HISTORY_VERBS)
        return fail(history, line, "there is no operation ", verb);
    /* Certainly not done: nothing that others could see. */
    if (result && strcmp(result, "down") == 0)
        return 0;
    op.result = (enum history_result)word_find(result ? result : "", result_names, HISTORY_RESULTS);
    if (op.result == HISTORY_RESULTS)
        return fail(history, line, "there is no result ", result ? result : "");
    int failed = numbers_read(history, object, &op);
    if (failed != 0)
        return failed;
    if (op.result == HISTORY_UNKNOWN)
        op.end_ns = HISTORY_NEVER;
    if ((lock && (op.lock = name_number(&history->locks, lock)) == 0) ||
        (owner && (op.owner = name_number(&history->owners, owner)) == 0))
        return WEIR_ENOMEM;
    failed = op_check(history, &op);
    if (failed != 0)
        return failed;
    struct history_op *ops = realloc(history->ops, (history->count + 1) * sizeof(*ops));
    if (!ops)
        return WEIR_ENOMEM;
    history->ops = ops;
    ops[history->count++] = op;
    return 0;
}

static int line_read(struct history *history, const char *text, unsigned line)
{
    json_error_t error;
    json_t *object = json_loads(text, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &error);
    if (!object)
        return fail(history, line, "not JSON: ", error.text);
    int failed = json_is_object(object) && json_object_size(object) <= FIELDS_MAX
                     ? op_read(history, object, line)
                     : fail(history, line, "not an object", "");
    json_decref(object);
    return failed;
}

/* A token that comes again after a restore is only the old grant of whoever had it before. */
static void echoes_mark(struct history *history)
{
    for (size_t i = 0; i < history->count; i++) {
        struct history_op *op = &history->ops[i];
        for (size_t j = 0; op->has_token && !op->echo && j < history->count; j++) {
            const struct history_op *first = &history->ops[j];
            op->echo = first->verb == HISTORY_ACQUIRE && first->result == HISTORY_GRANTED && first->has_token &&
                       first->lock == op->lock && first->owner == op->owner && first->end_ns <= op->start_ns &&
                       weir_token_compare(first->token, op->token) == 0;
        }
    }
}

int history_load(const char *path, struct history *ret_history)
{
    struct history history = { .count = 0 };
    FILE *file = fopen(path, "r");
    int failed = file ? 0 : WEIR_EIO;
    char *text = NULL;
    size_t room = 0;
    for (unsigned line = 1; failed == 0 && getline(&text, &room, file) != -1; line++) {
        if (text[strspn(text, " \t\r\n")] != '\0')
            failed = line_read(&history, text, line);
    }
    if (failed == 0 && ferror(file))
        failed = WEIR_EIO;
    if (file)
        (void)fclose(file);
    free(text);
    if (failed == 0)
        echoes_mark(&history);
    else
        history_free(&history);
    if (failed != 0 && history.fault[0] == '\0')
        (void)snprintf(history.fault, sizeof(history.fault), "%s", weir_error_text(failed));
    *ret_history = history;
    return failed;
}

static void names_free(struct history_names *names)
{
    for (size_t i = 0; i < names->count; i++)
        free(names->names[i]);
    free(names->names);
    *names = (struct history_names){ .count = 0 };
}

void history_free(struct history *history)
{
    free(history->ops);
    history->ops = NULL;
    history->count = 0;
    names_free(&history->locks);
    names_free(&history->owners);
}
