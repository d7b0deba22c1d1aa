/* SPDX-License-Identifier: Apache-2.0
 *
 * What holds for the keys of a request (rules/exception.h), where the rules stand in a store: for `weir explain`. */
#pragma once

#include <jansson.h>

#include "cli/attributes.h"
#include "rules/exception.h"
#include "rules/ruleset.h"

struct weir_explain_exceptions {
    struct weir_rule_store *store; /* NULL: there is none, or it cannot be asked */
    const struct weir_ruleset *ruleset;
    const struct weir_cli_attributes *attributes;
    uint64_t timeout_ns, wall_ns;
};

/* Says on standard error if the store cannot be asked. */
void weir_explain_exceptions_init(struct weir_explain_exceptions *exceptions, const struct weir_ruleset *ruleset,
                                  const struct weir_cli_attributes *attributes);
void weir_explain_exceptions_deinit(struct weir_explain_exceptions *exceptions);

/* Of the key of the request under the limit of `explanation`. */
struct weir_explained_exception {
    int kind;  /* enum weir_exception_kind; 0: nothing holds */
    bool idle; /* it does nothing: the limit has no such level, refuses nobody, or has no counter */
    uint64_t change, wall_ns, until_ns;
    char level[WEIR_LEVEL_NAME_MAX + 1], author[WEIR_RULE_AUTHOR_MAX + 1], comment[WEIR_RULE_COMMENT_MAX + 1];
};

struct weir_explained_exceptions {
    struct weir_explained_exception holds; /* a ban or a level */
    struct weir_explained_exception reset; /* the newest */
};

/* Where a level holds, the explanation is of that, from now on. */
void weir_explain_exception(struct weir_explain_exceptions *exceptions, struct weir_explanation *explanation,
                            struct weir_explained_exceptions *ret_exceptions);

/* One line, with what is `before` it; nothing where nothing holds. */
void weir_explained_exception_print(const struct weir_explained_exception *exception, int width);
/* {"what":"ban","change":7,"until":"…","author":"…","comment":"…","level":"plus","idle":true}; null. Of a reset "when"
 * in the place of "until". */
json_t *weir_explained_exception_json(const struct weir_explained_exception *exception);
