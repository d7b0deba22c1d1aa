/* SPDX-License-Identifier: Apache-2.0
 *
 * The steps of a change in order: what is wrong with its author and its comment is found before a store is asked, what
 * is wrong with its text before it is compared. Called by cli/versions_apply.c and serve/rules_answer.c. */
#include "rules/editor.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/checked.h"
#include "base/units.h"
#include "rules/addressed.h"
#include "rules/changes.h"
#include "rules/number.h"
#include "rules/ruleset.h"
#include "rules/yaml_node.h"

#define TRIES 3

void weir_rule_from_take(struct weir_slice *text, uint64_t *ret_from)
{
    static const char begins[] = "# from version ";
    const size_t size = sizeof(begins) - 1;
    const char *data = text->data, *end = text->size > 0 ? memchr(data, '\n', text->size) : NULL;
    const size_t mark = text->size >= 3 && memcmp(data, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
    uint64_t number = 0;
    if (!end || (size_t)(end - data) < mark + size || memcmp(data + mark, begins, size) != 0)
        return;
    const char *digits = data + mark + size;
    const size_t count = (size_t)(end - digits) - (end > digits && end[-1] == '\r');
    if (weir_number_parse(digits, count, &number) || number > WEIR_RULE_VERSIONS_MAX)
        return;
    *ret_from = number;
    *text = (struct weir_slice){ end + 1, text->size - (size_t)(end + 1 - data) };
}

uint64_t weir_rule_editor_deadline(const struct weir_rule_editor *editor)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    if (editor->stop && atomic_load(editor->stop))
        return 0;
    uint64_t deadline_ns = (uint64_t)now.tv_sec * WEIR_NS_PER_SECOND + (uint64_t)now.tv_nsec + editor->timeout_ns;
    return editor->until_ns ? weir_min_u64(deadline_ns, editor->until_ns) : deadline_ns;
}

void weir_rule_editor_compare(const struct weir_rule_editor *editor, struct weir_slice before, struct weir_slice after,
                              struct weir_rule_changes *ret_changes)
{
    struct weir_config *old = NULL, *now = NULL;
    struct weir_changes changes = { 0 };
    struct weir_config_faults *faults = calloc(1, sizeof(*faults));
    const struct weir_slice none = { "limits: []\n", 11 };
    ret_changes->text[0] = '\0';
    if (faults && !weir_config_with_rules(editor->config, before.size ? before : none, &old, faults) &&
        !weir_config_with_rules(editor->config, after, &now, faults) && !weir_config_changes(old, 0, now, 0, &changes))
        (void)snprintf(ret_changes->text, sizeof(ret_changes->text), "%s", changes.text);
    weir_config_destroy(old);
    weir_config_destroy(now);
    free(faults);
}

/* As a server would judge it. */
static bool is_good(const struct weir_rule_editor *editor, struct weir_slice text,
                    struct weir_config_faults *ret_faults)
{
    struct weir_config *config = NULL;
    struct weir_ruleset ruleset = { 0 };
    int error = weir_config_with_rules(editor->config, text, &config, ret_faults);
    if (!error)
        error = weir_ruleset_of(config, &ruleset, ret_faults);
    weir_ruleset_deinit(&ruleset);
    return error == 0;
}

/* Whether it may be for some nodes alone, if it is. */
static bool may_be_for_some(const struct weir_rule_editor *editor, struct weir_slice before, struct weir_slice text,
                            struct weir_config_faults *ret_faults)
{
    struct weir_config *old = NULL, *now = NULL;
    const struct weir_slice none = { "limits: []\n", 11 };
    struct weir_config_fault *fault = &ret_faults->list[0];
    int error = weir_config_with_rules(editor->config, text, &now, ret_faults);
    if (error || now->rule_nodes_count == 0) {
        weir_config_destroy(now);
        return error == 0;
    }
    if (before.size == 0) {
        error = weir_config_fail(fault, WEIR_EINVAL, now->mark_rule_nodes,
                                 "nodes: the first version must be for all nodes, or the others have none");
    } else { /* what another weir stored may be none for this one: then nothing is known of it */
        const bool known = weir_config_with_rules(editor->config, before, &old, ret_faults) == 0 ||
                           weir_config_with_rules(editor->config, none, &old, ret_faults) == 0;
        error = known ? weir_rule_nodes_check(old, now, fault) : WEIR_ENOMEM;
    }
    ret_faults->count = 1;
    weir_config_destroy(old);
    weir_config_destroy(now);
    return error == 0;
}

/* One version's text ("" of number 0). */
static int read_text(const struct weir_rule_editor *editor, uint64_t number, char **ret_bytes,
                     struct weir_slice *ret_text, struct weir_fault *ret_fault)
{
    struct weir_rule_version version;
    *ret_bytes = NULL;
    *ret_text = (struct weir_slice){ "", 0 };
    if (number == 0)
        return 0;
    int error = weir_rule_store_read(editor->store, number, weir_rule_editor_deadline(editor), &version, ret_bytes,
                                     ret_fault);
    if (!error)
        *ret_text = (struct weir_slice){ *ret_bytes, version.text_size };
    return error;
}

/* Stores it. Once it is not known, a store that cannot be asked does not make it known. */
static int append(const struct weir_rule_editor *editor, const struct weir_rule_change *change,
                  struct weir_rule_edited *ret_edited, struct weir_fault *ret_fault)
{
    struct weir_rule_appended appended;
    bool unknown = false;
    int error = WEIR_EUNKNOWN;
    for (int i = 0; i < TRIES && (error == WEIR_EUNKNOWN || (error && unknown)); i++) {
        error = weir_rule_store_append(editor->store, change, weir_rule_editor_deadline(editor), &appended, ret_fault);
        unknown = unknown || error == WEIR_EUNKNOWN;
    }
    if (error)
        return unknown ? WEIR_EUNKNOWN : error;
    ret_edited->outcome = appended.said == WEIR_RULE_CONFLICT ? WEIR_RULE_STALE : WEIR_RULE_STORED;
    ret_edited->number = appended.number;
    ret_edited->newest = appended.head.number;
    return 0;
}

/* Compares it with the newest version, and stores it unless that says the same. */
static int put_over(const struct weir_rule_editor *editor, const struct weir_rule_edit *edit, struct weir_slice before,
                    struct weir_slice text, struct weir_rule_change *change, struct weir_rule_edited *edited,
                    struct weir_fault *ret_fault)
{
    const bool any = edit->expected == WEIR_RULE_FROM_ANY;
    edited->from = change->expected = any ? edited->newest : edit->expected;
    weir_rule_editor_compare(editor, before, text, &edited->changes);
    if (any && edit->first_only && edited->newest > 0)
        edited->outcome = WEIR_RULE_UNNAMED;
    else if (edit->dry_run)
        edited->outcome = change->expected == edited->newest ? WEIR_RULE_WOULD : WEIR_RULE_STALE;
    else if (before.size > 0 && before.size == text.size && memcmp(before.data, text.data, text.size) == 0)
        edited->outcome = WEIR_RULE_SAME;
    else
        return append(editor, change, edited, ret_fault);
    return 0;
}

/* Its id, and whether it can be one at all, before a store is asked or made. */
static int prepare(const struct weir_rule_edit *edit, struct weir_rule_change *ret_change, struct weir_fault *ret_fault)
{
    *ret_change = (struct weir_rule_change){ .expected = edit->of,
                                             .kind = edit->kind,
                                             .of = edit->of,
                                             .author = edit->author,
                                             .comment = edit->comment,
                                             .wall_ns = edit->wall_ns };
    if (edit->kind != WEIR_RULE_ROLLBACK)
        ret_change->text = edit->text;
    int error = weir_rule_change_id(ret_change->change);
    return error ? error : weir_rule_change_check(ret_change, ret_fault);
}

int weir_rule_editor_put(const struct weir_rule_editor *editor, const struct weir_rule_edit *edit,
                         struct weir_rule_edited *ret_edited, struct weir_fault *ret_fault)
{
    const bool back = edit->kind == WEIR_RULE_ROLLBACK;
    struct weir_rule_change change;
    struct weir_rule_head head = { 0 };
    struct weir_slice text = edit->text, before = { "", 0 };
    char *bytes = NULL, *before_bytes = NULL;
    *ret_edited = (struct weir_rule_edited){ .outcome = WEIR_RULE_WRONG };
    int error = prepare(edit, &change, ret_fault);
    if (!error && back)
        error = read_text(editor, edit->of, &bytes, &text, ret_fault);
    bool good = !error && is_good(editor, text, &ret_edited->faults);
    if (good)
        error = weir_rule_store_head(editor->store, weir_rule_editor_deadline(editor), &head, ret_fault);
    if (error == WEIR_ENOENT && good && edit->dry_run)
        error = 0;
    if (good && !error)
        error = read_text(editor, head.number, &before_bytes, &before, ret_fault);
    good = good && !error && may_be_for_some(editor, before, text, &ret_edited->faults);
    if (good) {
        ret_edited->newest = head.number;
        error = put_over(editor, edit, before, text, &change, ret_edited, ret_fault);
    }
    free(bytes);
    free(before_bytes);
    return error;
}
