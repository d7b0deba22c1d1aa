/* SPDX-License-Identifier: Apache-2.0
 *
 * Implements weir_rule_editor_roll_out of editor.h: reads the newest version, makes the text of the step from it
 * (rollout_text.c), and has that put in its place, if it still is the newest. So each step begins with what stands in
 * the store, and nobody needs to remember the step before. Called by cli/versions_apply.c and serve/rules_answer.c. */
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/fault_format.h"
#include "rules/editor.h"
#include "rules/rollout_text.h"

struct text {
    char *bytes;
    struct weir_slice slice;
};

static int read_text(const struct weir_rule_editor *editor, uint64_t number, struct text *ret_text,
                     struct weir_fault *ret_fault)
{
    struct weir_rule_version version;
    int error = weir_rule_store_read(editor->store, number, weir_rule_editor_deadline(editor), &version,
                                     &ret_text->bytes, ret_fault);
    if (!error)
        ret_text->slice = (struct weir_slice){ ret_text->bytes, version.text_size };
    return error;
}

static bool same(struct weir_slice one, struct weir_slice other)
{
    return one.size == other.size && memcmp(one.data, other.data, one.size) == 0;
}

struct seen {
    uint64_t down_to, lowest;
    bool rolled_back;
};

static bool take_kind(void *context, const struct weir_rule_version *version)
{
    struct seen *seen = context;
    seen->lowest = version->number;
    seen->rolled_back = version->number > seen->down_to && version->kind == WEIR_RULE_ROLLBACK;
    return !seen->rolled_back;
}

/* Whether somebody has rolled back since: then the steps are over, though the rules may be what they were before. */
static int was_rolled_back(const struct weir_rule_editor *editor, uint64_t from, uint64_t newest, bool *ret_was,
                           struct weir_fault *ret_fault)
{
    struct seen seen = { .down_to = from, .lowest = newest + 1 };
    int error = 0;
    for (uint64_t before = 0; !error && !seen.rolled_back && seen.lowest > from + 1 && seen.lowest != before;) {
        before = seen.lowest;
        error = weir_rule_store_list(editor->store, before - 1, weir_min_u64(before - 1 - from, WEIR_RULE_LIST_MAX),
                                     weir_rule_editor_deadline(editor), take_kind, &seen, ret_fault);
    }
    *ret_was = seen.rolled_back;
    return error;
}

/* Whether nothing but steps to this text came since it was made; else *ret_edited says so. */
static int follows(const struct weir_rule_editor *editor, const struct weir_rule_edit *edit, struct weir_slice newest,
                   struct weir_rule_edited *ret_edited, bool *ret_follows, struct weir_fault *ret_fault)
{
    struct text from = { NULL, { "", 0 } };
    int error = 0;
    *ret_follows = edit->expected == ret_edited->newest || same(newest, edit->text);
    if (*ret_follows)
        return 0;
    if (edit->expected == WEIR_RULE_FROM_ANY) {
        *ret_follows = !edit->first_only;
        ret_edited->outcome = WEIR_RULE_UNNAMED;
        return 0;
    }
    ret_edited->outcome = WEIR_RULE_STALE;
    ret_edited->from = edit->expected;
    if (edit->expected > 0 && edit->expected < ret_edited->newest) {
        error = read_text(editor, edit->expected, &from, ret_fault);
        *ret_follows = !error && weir_rollout_same_base(editor->config, from.slice, newest) &&
                       weir_rollout_leads_to(editor->config, newest, edit->text);
        bool back = false;
        if (*ret_follows)
            error = was_rolled_back(editor, edit->expected, ret_edited->newest, &back, ret_fault);
        *ret_follows = *ret_follows && !error && !back;
    }
    free(from.bytes);
    return error;
}

/* `newest` becomes what the step makes of it. */
static int step(const struct weir_rule_editor *editor, const struct weir_rule_edit *edit, uint32_t share,
                struct weir_slice newest, struct weir_rule_edited *ret_edited, struct weir_fault *ret_fault)
{
    struct weir_rule_edit made = *edit;
    char *text = NULL;
    size_t size = 0;
    made.expected = ret_edited->newest;
    ret_edited->outcome = WEIR_RULE_WRONG;
    int error = weir_rollout_text(editor->config, newest, edit->text, share, &text, &size, &ret_edited->faults);
    if (error)
        return error == WEIR_ENOMEM ? error : 0;
    made.text = (struct weir_slice){ text, size };
    error = weir_rule_editor_put(editor, &made, ret_edited, ret_fault);
    free(text);
    return error;
}

int weir_rule_editor_roll_out(const struct weir_rule_editor *editor, const struct weir_rule_edit *edit, uint32_t share,
                              struct weir_rule_edited *ret_edited, struct weir_fault *ret_fault)
{
    struct weir_rule_head head = { 0 };
    struct weir_rule_version decided;
    struct text newest = { NULL, { "", 0 } };
    bool goes_on = false;
    *ret_edited = (struct weir_rule_edited){ .outcome = WEIR_RULE_WRONG };
    int error = weir_rule_store_head(editor->store, weir_rule_editor_deadline(editor), &head, ret_fault);
    if (!error && head.number == 0)
        return weir_fault_format(ret_fault, WEIR_ENOENT, "version",
                                 "there is none yet, so nothing to roll out from: apply the first");
    if (!error) /* a proposal is no step: the next one begins with what nodes decide by */
        error = weir_rule_editor_decided(editor, head.number, &decided, &newest.bytes, ret_fault);
    if (!error)
        newest.slice = (struct weir_slice){ newest.bytes ? newest.bytes : "", newest.bytes ? decided.text_size : 0 };
    ret_edited->newest = head.number;
    if (!error)
        error = follows(editor, edit, newest.slice, ret_edited, &goes_on, ret_fault);
    if (!error && goes_on)
        error = step(editor, edit, share, newest.slice, ret_edited, ret_fault);
    free(newest.bytes);
    return error;
}
