/* SPDX-License-Identifier: Apache-2.0
 *
 * Changes the rules that stand in a store (rules/store.h), as people do: a text is judged as a start would judge it,
 * compared with the newest version, and stored if that still is the one it was made from. Where nobody answers, the
 * store is asked again with the change's own id. `weir rules` (cli/versions.h) and PUT /v1/rules (serve/rules_job.h) do
 * it by this.
 *
 * Thread rule: as the store's: calls block, and one thread at a time has it. */
#pragma once

#include <inttypes.h>
#include <stdatomic.h>

#include "rules/config.h"
#include "rules/store.h"

#define WEIR_RULE_FROM_ANY UINT64_MAX /* `expected` of an edit: whatever is the newest */

struct weir_rule_editor {
    struct weir_rule_store *store;
    const struct weir_config *config; /* that names the store: what a text is judged with */
    uint64_t timeout_ns;              /* for one question to the store */
    uint64_t until_ns;                /* CLOCK_MONOTONIC: when all questions are over; 0: each has its time */
    const atomic_bool *stop;          /* true: no more is asked, for nobody waits for it; NULL: never */
};

/* The line that stands before a text which people are given to change: "# from version 42"; of a proposal another one
 * follows. Reads them off `text`, if they are there; else *ret_from stays. An editor may have put a byte order mark
 * before it, and a carriage return behind. */
#define WEIR_RULE_FROM_FORMAT "# from version %" PRIu64 "\n%s"
#define WEIR_RULE_FROM_PROPOSED "# proposed: no weir decides by it until somebody else approves\n"
#define WEIR_RULE_FROM_SIZE 120
void weir_rule_from_take(struct weir_slice *text, uint64_t *ret_from);

/* Of a question that is asked now; 0, which asks nothing, once `stop` is true. */
uint64_t weir_rule_editor_deadline(const struct weir_rule_editor *editor);

/* Whether a server of this configuration would start with a text as its rules. False: *ret_faults says why not. */
bool weir_rule_editor_judge(const struct weir_rule_editor *editor, struct weir_slice text,
                            struct weir_config_faults *ret_faults);

/* What `after` says otherwise than `before` ("" = there was none), limit by limit: "api 10/min -> 20/min"; "" where no
 * limit has other numbers; "not known: ..." where one of them is no set of rules for this configuration. */
struct weir_rule_changes {
    char text[600];
};
void weir_rule_editor_compare(const struct weir_rule_editor *editor, struct weir_slice before, struct weir_slice after,
                              struct weir_rule_changes *ret_changes);

struct weir_rule_edit {
    enum weir_rule_kind kind;
    uint64_t expected;      /* the version that it was made from, 0: there was none; or WEIR_RULE_FROM_ANY */
    bool first_only;        /* with WEIR_RULE_FROM_ANY: only where there is no version yet */
    uint64_t of;            /* rollback: the version whose text comes back; approved: the proposal */
    struct weir_slice text; /* else */
    const char *author, *comment;
    bool dry_run;
    uint64_t wall_ns;
};

enum weir_rule_outcome {
    WEIR_RULE_STORED,  /* it is version `number` */
    WEIR_RULE_SAME,    /* version `newest`, which is in force, says the same, byte by byte: nothing to do */
    WEIR_RULE_WOULD,   /* dry_run: it would be stored */
    WEIR_RULE_STALE,   /* `newest` is not `expected` */
    WEIR_RULE_UNNAMED, /* first_only: there are versions, and the newest is `newest` */
    WEIR_RULE_WRONG,   /* `faults` says what is wrong with the text */
    WEIR_RULE_ALONE,   /* it takes a second person: the first of `faults` says what to do */
};

/* What became of it; plain values. */
struct weir_rule_edited {
    enum weir_rule_outcome outcome;
    uint64_t number, newest;
    uint64_t from; /* the version that it was made from: `expected`, or what the newest was then */
    struct weir_rule_changes changes;
    struct weir_config_faults faults;
};

/* Where the configuration says `approval`, what is applied must be proposed first, and approved by somebody else. To
 * roll back needs nobody: what comes back was approved. Who somebody is: the name, or what stands in
 * parentheses at its end, where /v1/rules has the token. A proposal is compared with what is in force, and so is its
 * approval.
 *
 * 0: *ret_edited says what became of it. WEIR_EINVAL with field "version": that is no proposal. Else an error of
 * rules/store.h with its fault: nothing was stored, but for WEIR_EUNKNOWN. A first version with `create` makes the
 * store; with `dry_run` what is no store yet has no version. */
int weir_rule_editor_put(const struct weir_rule_editor *editor, const struct weir_rule_edit *edit,
                         struct weir_rule_edited *ret_edited, struct weir_fault *ret_fault);

/* The version, or the newest one before it, that nodes may decide by: proposals are passed over. Number 0: there is
 * none. *ret_bytes: its text, to be freed; NULL of number 0. */
int weir_rule_editor_decided(const struct weir_rule_editor *editor, uint64_t number,
                             struct weir_rule_version *ret_version, char **ret_bytes, struct weir_fault *ret_fault);

/* A step of a rollout (rules/rollout_text.h): `edit->text` is what the rules are to be at last, and `share` of the
 * keys are given the numbers that change. `edit->expected` is the version that the text was made from; between it and
 * the newest there may be nothing but steps to this text. As weir_rule_editor_put, whose WEIR_RULE_WRONG also says
 * what cannot be rolled out. WEIR_ENOENT with field "version": there is no version yet. */
int weir_rule_editor_roll_out(const struct weir_rule_editor *editor, const struct weir_rule_edit *edit, uint32_t share,
                              struct weir_rule_edited *ret_edited, struct weir_fault *ret_fault);
