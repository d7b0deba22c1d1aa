/* SPDX-License-Identifier: Apache-2.0
 *
 * The verbs of `weir rules` that work on the store of rules (rules/store.h) that a configuration names: its versions
 * are shown, compared, added and rolled back. They ask the store itself, so no weir needs to run. */
#pragma once

#include <stdbool.h>

#include "rules/editor.h"

/* What the verbs were told, and what they opened. */
struct weir_versions {
    const char *config_file, *author, *comment;
    uint64_t from; /* the version that a change was made from; WEIR_RULE_FROM_ANY: not said */
    uint64_t count;
    bool json, dry_run, propose;
    bool progress;              /* somebody watches: long work says how far it is */
    struct weir_config *config; /* without rules */
    struct weir_rule_store *store;
};

/* `weir rules VERB ...`, argv[0] being the verb, with the help of `weir rules`; the exit code. */
int weir_cli_versions(int argc, char **argv, const char *help);

/* One version: its text is to be freed. False: said on standard error. */
bool weir_versions_read(const struct weir_versions *versions, uint64_t number, struct weir_rule_version *ret_version,
                        char **ret_text);
/* The newest; number 0: none. False: said. */
bool weir_versions_head(const struct weir_versions *versions, struct weir_rule_head *ret_head);
bool weir_versions_complain(const struct weir_versions *versions, int error, const struct weir_fault *fault);
/* Reads config_file and opens the store that it names. False: said. */
bool weir_versions_open(struct weir_versions *versions, bool create);
const char *weir_versions_author(void); /* who is logged in, or "unknown" */
struct weir_rule_editor weir_versions_editor(const struct weir_versions *versions);

/* `weir rules ban`, `level`, `unban` and `exceptions`, argv[0] being the verb; the exit code. */
int weir_cli_exceptions(int argc, char **argv);

/* Each in a file of its own name. */
#define WEIR_VERSIONS_FORMAT 1 /* of an export: docs/rule-stores.md */
int weir_versions_export(const struct weir_versions *versions);
int weir_versions_import(const struct weir_versions *versions, const char *path);
int weir_versions_history(const struct weir_versions *versions);
int weir_versions_list(const struct weir_versions *versions, uint64_t number);                   /* 0: the newest */
int weir_versions_apply(const struct weir_versions *versions, const char *file, uint32_t share); /* 0: no rollout */
int weir_versions_approve(const struct weir_versions *versions, uint64_t number);
int weir_versions_roll_back(const struct weir_versions *versions, uint64_t number);
