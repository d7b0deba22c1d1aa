/* SPDX-License-Identifier: Apache-2.0
 *
 * The history of a store of rules as JSON: who changed what, when and why, and which node decides by it since when.
 * `weir rules history` prints it, GET /v1/rules/versions answers it.
 *
 * Thread rule: as the store's: calls block. */
#pragma once

#include <jansson.h>

#include "rules/editor.h"

/* A list, the newest first, from version `from` (0 = the newest) downwards, at most `count_max` (1 to
 * WEIR_RULE_LIST_MAX): {"version":42,"when":"…","kind":"applied","author":"…","comment":"…","changes":"api 10/min ->
 * 20/min","nodes":[{"node":"a","since":"…"}]}, and "of" of a rollback. Reads the texts of all of them. What is damaged
 * hides nothing else: the list is there, and ret_fault->text says what is; else that is empty. An error of
 * rules/store.h with its fault, or WEIR_ENOMEM. */
int weir_rule_history(const struct weir_rule_editor *editor, uint64_t from, size_t count_max, json_t **ret_list,
                      struct weir_fault *ret_fault);
