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
#include "base/fault_format.h"
#include "rules/addressed.h"
#include "rules/changes.h"
#include "rules/number.h"
#include "rules/ruleset.h"
#include "rules/yaml_node.h"

#define TRIES 3

/* A line, with a carriage return or without. */
static void take_proposed(struct weir_slice *text)
{
    const size_t size = sizeof(WEIR_RULE_FROM_PROPOSED) - 2;
    const char *data = text->data, *end = text->size > 0 ? memchr(data, '\n', text->size) : NULL;
    if (!end || (size_t)(end - data) - (end > data && end[-1] == '\r') != size ||
        memcmp(data, WEIR_RULE_FROM_PROPOSED, size) != 0)
        return;
    *text = (struct weir_slice){ end + 1, text->size - (size_t)(end + 1 - data) };
}

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
    take_proposed(text);
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
    const char *wrong = NULL;
    if (faults && weir_config_with_rules(editor->config, before.size ? before : none, &old, faults))
        wrong = "the text before";
    else if (faults && weir_config_with_rules(editor->config, after, &now, faults))
        wrong = "its text";
    else if (faults && !weir_config_changes(old, 0, now, 0, &changes))
        (void)snprintf(ret_changes->text, sizeof(ret_changes->text), "%s", changes.text);
    if (wrong)
        (void)snprintf(ret_changes->text, sizeof(ret_changes->text),
                       "not known: %s is no set of rules for this configuration: %.480s", wrong, faults->list[0].text);
    weir_config_destroy(old);
    weir_config_destroy(now);
    free(faults);
}

bool weir_rule_editor_judge(const struct weir_rule_editor *editor, struct weir_slice text,
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

/* One version, and its text as a slice of *ret_bytes ("" of number 0). */
static int read_version(const struct weir_rule_editor *editor, uint64_t number, struct weir_rule_version *ret_version,
                        char **ret_bytes, struct weir_slice *ret_text, struct weir_fault *ret_fault)
{
    *ret_bytes = NULL;
    *ret_text = (struct weir_slice){ "", 0 };
    *ret_version = (struct weir_rule_version){ 0 };
    if (number == 0)
        return 0;
    int error = weir_rule_store_read(editor->store, number, weir_rule_editor_deadline(editor), ret_version, ret_bytes,
                                     ret_fault);
    if (!error)
        *ret_text = (struct weir_slice){ *ret_bytes, ret_version->text_size };
    return error;
}

int weir_rule_editor_decided(const struct weir_rule_editor *editor, uint64_t number,
                             struct weir_rule_version *ret_version, char **ret_bytes, struct weir_fault *ret_fault)
{
    struct weir_slice text;
    int error = read_version(editor, number, ret_version, ret_bytes, &text, ret_fault);
    if (error || ret_version->kind != WEIR_RULE_PROPOSED)
        return error;
    free(*ret_bytes);
    *ret_bytes = NULL;
    error = weir_rule_store_decided(editor->store, number - 1, weir_rule_editor_deadline(editor), &number, ret_fault);
    return error ? error : read_version(editor, number, ret_version, ret_bytes, &text, ret_fault);
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

/* Compares it with the version that is in force, and stores it unless that says the same. Who rolls back to what is in
 * force turns down the proposals that came after it. */
static int put_over(const struct weir_rule_editor *editor, const struct weir_rule_edit *edit, uint64_t decided,
                    struct weir_slice before, struct weir_slice text, struct weir_rule_change *change,
                    struct weir_rule_edited *edited, struct weir_fault *ret_fault)
{
    const bool any = edit->expected == WEIR_RULE_FROM_ANY;
    const bool turns_down = edit->kind == WEIR_RULE_ROLLBACK && decided < edited->newest;
    const bool same = before.size > 0 && before.size == text.size && memcmp(before.data, text.data, text.size) == 0;
    edited->from = change->expected = any ? edited->newest : edit->expected;
    weir_rule_editor_compare(editor, before, text, &edited->changes);
    if (any && edit->first_only && edited->newest > 0) {
        edited->outcome = WEIR_RULE_UNNAMED;
    } else if (edit->dry_run) {
        edited->outcome = change->expected == edited->newest ? WEIR_RULE_WOULD : WEIR_RULE_STALE;
    } else if (same && !turns_down) {
        edited->outcome = WEIR_RULE_SAME;
        edited->newest = decided;
    } else {
        return append(editor, change, edited, ret_fault);
    }
    return 0;
}

/* Its id, and whether it can be one at all, before a store is asked or made. */
static int prepare(const struct weir_rule_edit *edit, struct weir_rule_change *ret_change, struct weir_fault *ret_fault)
{
    *ret_change = (struct weir_rule_change){ .expected = edit->of, /* enough to look at it */
                                             .kind = edit->kind,
                                             .of = edit->of,
                                             .author = edit->author,
                                             .comment = edit->comment,
                                             .wall_ns = edit->wall_ns };
    if (!weir_rule_kind_copies(edit->kind))
        ret_change->text = edit->text;
    int error = weir_rule_change_id(ret_change->change);
    return error ? error : weir_rule_change_check(ret_change, ret_fault);
}

/* Whether it is who, or "somebody (who)", as /v1/rules writes a token. */
static bool is_named(const char *author, struct weir_slice who)
{
    const size_t size = strlen(author), behind = who.size + 1; /* its ")" */
    if (size == who.size)
        return memcmp(author, who.data, size) == 0;
    return size >= behind + 2 && author[size - 1] == ')' && memcmp(author + size - behind, who.data, who.size) == 0 &&
           memcmp(author + size - behind - 2, " (", 2) == 0;
}

/* Names of tokens may have parentheses themselves, so each reading counts: rather too few are somebody else. */
static bool same_person(const char *one, const char *other)
{
    const size_t size = strlen(one);
    bool same = is_named(other, (struct weir_slice){ one, size });
    if (size == 0 || one[size - 1] != ')')
        return same;
    for (const char *open = strstr(one, " ("); open && !same; open = strstr(open + 1, " (")) {
        const char *name = open + 2;
        if (name < one + size - 1)
            same = is_named(other, (struct weir_slice){ name, (size_t)(one + size - 1 - name) });
    }
    return same;
}

/* It takes a second person; ret_edited says what to do. */
static bool is_alone(const struct weir_rule_editor *editor, const struct weir_rule_edit *edit,
                     const struct weir_rule_version *copied, struct weir_rule_edited *ret_edited)
{
    const bool applied = edit->kind == WEIR_RULE_APPLIED || edit->kind == WEIR_RULE_IMPORT;
    struct weir_config_fault *say = &ret_edited->faults.list[0];
    *say = (struct weir_config_fault){ { 0, 0 }, "" };
    if (applied && editor->config->rules.approval)
        (void)snprintf(say->text, sizeof(say->text),
                       "rules.approval is on: propose the change, and somebody else approves it");
    if (edit->kind == WEIR_RULE_APPROVED && same_person(copied->author, edit->author))
        (void)snprintf(say->text, sizeof(say->text),
                       "%.128s proposed version %" PRIu64 ": somebody else must approve it", copied->author,
                       copied->number);
    ret_edited->faults.count = 1;
    return say->text[0] != '\0';
}

/* The text of the change: its own, or that of a version. */
static int text_of(const struct weir_rule_editor *editor, const struct weir_rule_edit *edit,
                   struct weir_rule_version *ret_copied, char **ret_bytes, struct weir_slice *ret_text,
                   struct weir_fault *ret_fault)
{
    *ret_bytes = NULL;
    *ret_text = edit->text;
    if (!weir_rule_kind_copies(edit->kind))
        return 0;
    int error = read_version(editor, edit->of, ret_copied, ret_bytes, ret_text, ret_fault);
    const bool proposal = ret_copied->kind == WEIR_RULE_PROPOSED;
    if (!error && proposal != (edit->kind == WEIR_RULE_APPROVED))
        error = weir_fault_format(ret_fault, WEIR_EINVAL, "version", "%" PRIu64 " is %s proposal", edit->of,
                                  proposal ? "still a" : "no");
    return error;
}

int weir_rule_editor_put(const struct weir_rule_editor *editor, const struct weir_rule_edit *edit,
                         struct weir_rule_edited *ret_edited, struct weir_fault *ret_fault)
{
    struct weir_rule_change change;
    struct weir_rule_head head = { 0 };
    struct weir_rule_version decided, copied = { 0 };
    struct weir_slice text;
    char *bytes = NULL, *before_bytes = NULL;
    *ret_edited = (struct weir_rule_edited){ .outcome = WEIR_RULE_WRONG };
    int error = prepare(edit, &change, ret_fault);
    if (!error)
        error = text_of(editor, edit, &copied, &bytes, &text, ret_fault);
    if (!error && is_alone(editor, edit, &copied, ret_edited)) {
        ret_edited->outcome = WEIR_RULE_ALONE;
        free(bytes);
        return 0;
    }
    bool good = !error && weir_rule_editor_judge(editor, text, &ret_edited->faults);
    if (good)
        error = weir_rule_store_head(editor->store, weir_rule_editor_deadline(editor), &head, ret_fault);
    if (error == WEIR_ENOENT && good && edit->dry_run)
        error = 0;
    if (good && !error)
        error = weir_rule_editor_decided(editor, head.number, &decided, &before_bytes, ret_fault);
    const struct weir_slice before = { before_bytes ? before_bytes : "", before_bytes ? decided.text_size : 0 };
    good = good && !error && may_be_for_some(editor, before, text, &ret_edited->faults);
    if (good) {
        ret_edited->newest = head.number;
        error = put_over(editor, edit, decided.number, before, text, &change, ret_edited, ret_fault);
    }
    free(bytes);
    free(before_bytes);
    return error;
}
