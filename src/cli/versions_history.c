/* SPDX-License-Identifier: Apache-2.0
 *
 * `weir rules history`: the versions of a store, the newest first, each with what it changed, and which nodes decide by
 * it since when (rules/history.c). Called by versions_verbs.c. */
#include "rules/history.h"

#include <stdio.h>

#include "cli/plain.h"
#include "cli/verbs.h"
#include "cli/versions.h"

static void print(const json_t *list)
{
    json_t *one, *node;
    size_t i, j;
    json_array_foreach(list, i, one)
    {
        json_int_t of = json_integer_value(json_object_get(one, "of"));
        const char *what = json_string_value(json_object_get(one, "changes"));
        printf("version %" JSON_INTEGER_FORMAT "  %s  %s  %s", json_integer_value(json_object_get(one, "version")),
               json_string_value(json_object_get(one, "when")), json_string_value(json_object_get(one, "author")),
               json_string_value(json_object_get(one, "kind")));
        if (of > 0)
            printf(" of %" JSON_INTEGER_FORMAT, of);
        printf("\n  why:   %s\n  what:  %s\n", json_string_value(json_object_get(one, "comment")),
               what && what[0] ? what : "no limit has other numbers");
        json_array_foreach(json_object_get(one, "nodes"), j, node)
            printf("  %s %s since %s\n", j == 0 ? "nodes:" : "      ", json_string_value(json_object_get(node, "node")),
                   json_string_value(json_object_get(node, "since")));
    }
}

int weir_versions_history(const struct weir_versions *versions)
{
    struct weir_fault fault = { 0 };
    const struct weir_rule_editor editor = weir_versions_editor(versions);
    json_t *list = NULL;
    int error = weir_rule_history(&editor, 0, (size_t)versions->count, &list, &fault);
    if (error) {
        (void)weir_versions_complain(versions, error, &fault);
        return WEIR_EXIT_ERROR;
    }
    bool done = !fault.text[0];
    if (!done) /* what is damaged hides no other */
        (void)weir_versions_complain(versions, WEIR_ECORRUPT, &fault);
    if (versions->json) {
        (void)json_dumpf(list, stdout, JSON_COMPACT);
        putchar('\n');
    } else if (json_array_size(list) == 0) {
        printf("%s has no version yet\n", weir_rule_store_name(versions->store));
    } else if (weir_plain_json(list)) {
        print(list);
    } else {
        done = false;
    }
    json_decref(list);
    return done ? WEIR_EXIT_OK : WEIR_EXIT_ERROR;
}
