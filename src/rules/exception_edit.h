/* SPDX-License-Identifier: Apache-2.0
 *
 * Bans, levels, their ends and resets as people make them, and the log of them as JSON: the limit, its key and the
 * level are judged by the newest version of the rules, values are brought to the form in which they are counted, and
 * where nobody answers the store is asked again with the change's own id. `weir rules ban` (cli/exceptions.c) and POST
 * /v1/rules/ban (serve/exceptions_answer.c) do it by this.
 *
 * Thread rule: as rules/editor.h. */
#pragma once

#include <jansson.h>

#include "rules/editor.h"
#include "rules/exception.h"
#include "rules/rules.h"

/* "2026-11-28T18:00:00Z" or "2026-11-28T18:00Z" (RFC 3339, in UTC or with an offset), or from `wall_ns` on for as long
 * as "6hour" says. WEIR_EINVAL, WEIR_ERANGE: the fault names the field "until". */
int weir_exception_until(const char *text, uint64_t wall_ns, uint64_t *ret_until_ns, struct weir_fault *ret_fault);

/* A limit's key, as people name it: each attribute of it once, in whatever order. A value of size WEIR_VALUE_ABSENT:
 * the key of requests that lack the attribute. */
struct weir_exception_named {
    const char *limit;
    struct weir_attribute attributes[WEIR_KEY_VALUES_MAX];
    size_t count;
};

/* The key in the form that is stored. WEIR_ENOENT with field "limit": the newest version has no such limit; it names
 * some. WEIR_EINVAL with field "key": the attributes are not those of the limit's key, which the fault names.
 * WEIR_ERANGE: too long. `lenient`: of a limit that there is not (any more) the attributes are taken as they are
 * named. */
struct weir_exception_key {
    char bytes[WEIR_EXCEPTION_KEY_MAX];
    size_t size, values_size; /* without names and marks */
};
int weir_exception_find_key(const struct weir_rule_editor *editor, const struct weir_exception_named *named,
                            bool lenient, struct weir_exception_key *ret_key, struct weir_fault *ret_fault);

struct weir_exception_edit {
    enum weir_exception_kind kind;
    const struct weir_exception_named *named;
    const char *level; /* of a LEVEL; else NULL */
    uint64_t until_ns, wall_ns;
    const char *author, *comment;
};
/* *ret_number: of the change. WEIR_ENOENT with field "level": the newest version's limit has none of this name.
 * WEIR_EINVAL with field "limit": a RESET, and it gives permits; with field "key": an attribute is absent, and it is no
 * RESET, or the limit has no counter for that. Errors as weir_exception_find_key and weir_rule_store_except. */
int weir_exception_put(const struct weir_rule_editor *editor, const struct weir_exception_edit *edit,
                       uint64_t *ret_number, struct weir_fault *ret_fault);

/* A list, the newest first: {"change":7,"what":"ban","limit":"api","key":{"user":"ada"},"until":"…" or null,
 * "when":"…","author":"…","comment":"…"}, with null for a value that is absent; of one that is damaged
 * {"change":7,"damaged":true}. Of a level also "level", and "unknown":true where the newest version's limit has no such
 * level (any more). */
int weir_exception_list(const struct weir_rule_editor *editor, const struct weir_exception_query *query,
                        json_t **ret_list, struct weir_fault *ret_fault);
