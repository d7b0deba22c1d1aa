/* SPDX-License-Identifier: Apache-2.0
 *
 * What /v1/rules/exceptions, ban, level, reset and unban ask the store of rules (docs/http.md): the body of the answer,
 * or an error with its fault. Thread rule: as serve/rules_answer.h, a part of which it is. */
#pragma once

#include <jansson.h>

#include "serve/rules_answer.h"

#define WEIR_EXCEPTIONS_COUNT 100 /* in one answer, unless the question says otherwise */
#define WEIR_EXCEPTIONS_COUNT_MAX 1000

int weir_exceptions_answer(const struct weir_rule_editor *editor, const struct weir_rules_question *question,
                           json_t **ret_json, struct weir_fault *ret_fault);
