/* SPDX-License-Identifier: Apache-2.0
 *
 * The versions are listed, then who told of them, then each text is compared with the one before. Called by
 * cli/versions_history.c and serve/rules_answer.c. */
#include "rules/history.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/fault_format.h"
#include "wire/text.h"

static bool take_version(void *context, const struct weir_rule_version *version)
{
    char when[40];
    struct weir_text text = weir_text_init(when, sizeof(when) - 1);
    weir_text_utc(&text, version->wall_ns);
    json_t *one = json_pack("{s:I,s:s%,s:s,s:s,s:s,s:o}", "version", (json_int_t)version->number, "when", when,
                            text.size, "kind", weir_rule_kind_name(version->kind), "author", version->author, "comment",
                            version->comment, "nodes", json_array());
    if (one && version->of > 0)
        (void)json_object_set_new(one, "of", json_integer((json_int_t)version->of));
    return one && json_array_append_new(context, one) == 0;
}

static json_t *version_of(json_t *list, uint64_t number)
{
    json_t *one;
    size_t i;
    json_array_foreach(list, i, one)
    {
        if (json_integer_value(json_object_get(one, "version")) == (json_int_t)number)
            return one;
    }
    return NULL;
}

static bool take_told(void *context, const struct weir_rule_told *told)
{
    char when[40];
    struct weir_text text = weir_text_init(when, sizeof(when) - 1);
    json_t *one = version_of(context, told->version);
    weir_text_utc(&text, told->since_ns);
    if (one)
        (void)json_array_append_new(json_object_get(one, "nodes"),
                                    json_pack("{s:s,s:s%}", "node", told->node, "since", when, text.size));
    return true;
}

struct text {
    char *bytes; /* NULL: nothing is known of it */
    size_t size;
    uint64_t number; /* 0: there was none, which is known */
};

/* The version, or with `decided` that by which nodes decided then. One that is damaged is told in `damaged`, which
 * keeps the first, and is no error. */
static int read_text(const struct weir_rule_editor *editor, uint64_t number, bool decided, struct text *ret_text,
                     struct weir_fault *damaged, struct weir_fault *ret_fault)
{
    struct weir_rule_version version = { 0 };
    char *bytes = NULL;
    int error = decided ? weir_rule_editor_decided(editor, number, &version, &bytes, ret_fault)
                        : weir_rule_store_read(editor->store, number, weir_rule_editor_deadline(editor), &version,
                                               &bytes, ret_fault);
    *ret_text = (struct text){ NULL, 0, number };
    if (!error)
        *ret_text = (struct text){ bytes, version.text_size, version.number };
    if (error == WEIR_ECORRUPT && !damaged->text[0])
        *damaged = *ret_fault;
    return error == WEIR_ECORRUPT ? 0 : error;
}

/* Fills "changes" of each: against what nodes decided by before it. */
static int compare(const struct weir_rule_editor *editor, json_t *list, struct weir_fault *damaged,
                   struct weir_fault *ret_fault)
{
    struct weir_rule_changes changes;
    struct text now = { NULL, 0, 0 }, before = { NULL, 0, 0 };
    int error = 0;
    for (size_t i = 0; !error && i < json_array_size(list); i++) {
        json_t *one = json_array_get(list, i);
        uint64_t number = (uint64_t)json_integer_value(json_object_get(one, "version"));
        if (now.number != number) {
            free(now.bytes);
            error = read_text(editor, number, false, &now, damaged, ret_fault);
        }
        if (!error)
            error = read_text(editor, number - 1, true, &before, damaged, ret_fault);
        if (!now.bytes || (before.number > 0 && !before.bytes))
            (void)snprintf(changes.text, sizeof(changes.text), "not known: %s is damaged",
                           now.bytes ? "the text of the version before" : "its text");
        else
            weir_rule_editor_compare(editor, (struct weir_slice){ before.bytes, before.size },
                                     (struct weir_slice){ now.bytes, now.size }, &changes);
        (void)json_object_set_new(one, "changes", json_string(changes.text));
        free(now.bytes);
        now = before;
        before = (struct text){ NULL, 0, 0 };
    }
    free(now.bytes);
    return error;
}

int weir_rule_history(const struct weir_rule_editor *editor, uint64_t from, size_t count_max, json_t **ret_list,
                      struct weir_fault *ret_fault)
{
    struct weir_fault damaged = { 0 };
    json_t *list = json_array();
    if (!list)
        return weir_fault_format(ret_fault, WEIR_ENOMEM, "", "out of memory");
    int error = weir_rule_store_list(editor->store, from, count_max, weir_rule_editor_deadline(editor), take_version,
                                     list, ret_fault);
    if (!error) {
        error = weir_rule_store_told(editor->store, false, weir_rule_editor_deadline(editor), take_told, list,
                                     ret_fault);
        if (error == WEIR_ECORRUPT) { /* notes of nodes, which more may write than versions */
            damaged = *ret_fault;
            error = 0;
        }
    }
    if (!error)
        error = compare(editor, list, &damaged, ret_fault);
    if (error) {
        json_decref(list);
    } else {
        *ret_list = list;
        *ret_fault = damaged;
    }
    return error;
}
