/* SPDX-License-Identifier: Apache-2.0
 *
 * The key comes as a JSON object of strings, {"user":"ada"}, and of null for an attribute that is absent. Called by
 * rules_answer.c, on a thread that may block. */
#include "serve/exceptions_answer.h"

#include <stdlib.h>
#include <string.h>

#include "base/fault_format.h"
#include "rules/exception_edit.h"
#include "wire/json.h"

/* The names and values are the object's. */
static int name_key(json_t *object, struct weir_exception_named *named, struct weir_fault *ret_fault)
{
    const char *name;
    json_t *value;
    json_object_foreach(object, name, value)
    {
        if (named->count == WEIR_KEY_VALUES_MAX)
            return weir_fault_format(ret_fault, WEIR_EINVAL, "key", "has at most %d attributes", WEIR_KEY_VALUES_MAX);
        struct weir_slice text = { json_string_value(value), json_string_length(value) };
        if (json_is_null(value))
            text.size = WEIR_VALUE_ABSENT;
        else if (!json_is_string(value))
            return weir_fault_format(ret_fault, WEIR_EINVAL, "key",
                                     "%.60s must be a string, or null where it is absent", name);
        named->attributes[named->count++] = (struct weir_attribute){ .name = { name, strlen(name) }, .value = text };
    }
    return 0;
}

static int read_key(const struct weir_rules_question *question, json_t **ret_object, struct weir_exception_named *named,
                    struct weir_fault *ret_fault)
{
    int error = 0;
    if (question->text.size == 0)
        return 0;
    *ret_object = weir_json_parse(question->text.data, question->text.size, &error, ret_fault);
    if (!*ret_object || !json_is_object(*ret_object))
        return error == WEIR_ENOMEM ? error
                                    : weir_fault_format(ret_fault, WEIR_EINVAL, "key",
                                                        "must be a JSON object of strings, {\"user\":\"ada\"}");
    return name_key(*ret_object, named, ret_fault);
}

static enum weir_exception_kind kind_of(enum weir_rules_call call)
{
    return call == WEIR_RULES_BAN     ? WEIR_EXCEPTION_BAN
           : call == WEIR_RULES_LEVEL ? WEIR_EXCEPTION_LEVEL
           : call == WEIR_RULES_RESET ? WEIR_EXCEPTION_RESET
                                      : WEIR_EXCEPTION_UNBAN;
}

static int change(const struct weir_rule_editor *editor, const struct weir_rules_question *question,
                  const struct weir_exception_named *named, json_t **ret_json, struct weir_fault *ret_fault)
{
    struct weir_exception_edit edit = { .kind = kind_of(question->call),
                                        .named = named,
                                        .level = question->call == WEIR_RULES_LEVEL ? question->level : NULL,
                                        .wall_ns = question->wall_ns,
                                        .author = question->author,
                                        .comment = question->comment };
    uint64_t number = 0;
    int error = question->until[0] ? weir_exception_until(question->until, edit.wall_ns, &edit.until_ns, ret_fault) : 0;
    if (!error)
        error = weir_exception_put(editor, &edit, &number, ret_fault);
    if (!error)
        *ret_json = json_pack("{s:I}", "change", (json_int_t)number);
    return error;
}

static int list(const struct weir_rule_editor *editor, const struct weir_rules_question *question,
                const struct weir_exception_named *named, bool one_key, json_t **ret_json, struct weir_fault *ret_fault)
{
    struct weir_exception_query query = { .newest_first = true,
                                          .from = question->version,
                                          .holding_at_ns = question->all ? 0 : question->wall_ns,
                                          .limit = named->limit,
                                          .count_max = question->count };
    struct weir_exception_key *key = malloc(sizeof(*key));
    json_t *found = NULL;
    int error = key ? 0 : WEIR_ENOMEM;
    if (!error && one_key) {
        error = weir_exception_find_key(editor, named, true, key, ret_fault);
        query.key = (struct weir_slice){ key->bytes, key->size };
    }
    if (!error)
        error = weir_exception_list(editor, &query, &found, ret_fault);
    if (!error)
        *ret_json = json_pack("{s:s,s:o}", "store", weir_rule_store_name(editor->store), "exceptions", found);
    free(key);
    return error;
}

int weir_exceptions_answer(const struct weir_rule_editor *editor, const struct weir_rules_question *question,
                           json_t **ret_json, struct weir_fault *ret_fault)
{
    struct weir_exception_named named = { .limit = question->limit[0] ? question->limit : NULL };
    json_t *object = NULL;
    int error = read_key(question, &object, &named, ret_fault);
    if (!error && question->call != WEIR_RULES_EXCEPTIONS)
        error = change(editor, question, &named, ret_json, ret_fault);
    else if (!error)
        error = list(editor, question, &named, object != NULL, ret_json, ret_fault);
    json_decref(object);
    return error;
}
