/* SPDX-License-Identifier: Apache-2.0
 *
 * `weir rules history`: the versions of a store, the newest first, each with what it changed (the texts of it and of
 * the one before are compared limit by limit), and which nodes decide by it since when. Called by versions_verbs.c. */
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/plain.h"
#include "cli/verbs.h"
#include "cli/versions.h"
#include "wire/text.h"

static bool take_version(void *context, const struct weir_rule_version *version)
{
    char when[40];
    struct weir_text text = weir_text_init(when, sizeof(when) - 1);
    weir_text_utc(&text, version->wall_ns);
    json_t *one = json_pack("{s:I,s:s%,s:s,s:s,s:s,s:o}", "version", (json_int_t)version->number, "when", when,
                            text.size, "kind", weir_rule_kind_name(version->kind), "author", version->author, "comment",
                            version->comment, "nodes", json_array());
    if (one && version->of > 0)
        (void)json_object_set_new(one, "of", json_integer((json_int_t)version->of));
    return one && json_array_append_new(context, one) == 0;
}

static json_t *version_of(json_t *list, uint64_t number)
{
    json_t *one;
    size_t i;
    json_array_foreach(list, i, one)
    {
        if (json_integer_value(json_object_get(one, "version")) == (json_int_t)number)
            return one;
    }
    return NULL;
}

static bool take_told(void *context, const struct weir_rule_told *told)
{
    char when[40];
    struct weir_text text = weir_text_init(when, sizeof(when) - 1);
    json_t *one = version_of(context, told->version);
    weir_text_utc(&text, told->since_ns);
    if (one)
        (void)json_array_append_new(json_object_get(one, "nodes"),
                                    json_pack("{s:s,s:s%}", "node", told->node, "since", when, text.size));
    return true;
}

struct text {
    char *bytes; /* NULL: nothing is known of it */
    size_t size;
};

/* One that is damaged is told, and hides none of the others. */
static bool read_text(const struct weir_versions *versions, uint64_t number, struct text *ret_text, bool *damaged)
{
    struct weir_rule_version version;
    struct weir_fault fault = { 0 };
    int error = weir_rule_store_read(versions->store, number, weir_versions_deadline(versions), &version,
                                     &ret_text->bytes, &fault);
    ret_text->size = error ? 0 : version.text_size;
    if (!error)
        return true;
    (void)weir_versions_complain(versions, error, &fault);
    *damaged |= error == WEIR_ECORRUPT;
    return error == WEIR_ECORRUPT;
}

/* Fills "changes" of each. */
static bool compare(const struct weir_versions *versions, json_t *list, bool *damaged)
{
    struct weir_versions_changes changes;
    struct text now = { NULL, 0 }, before = { NULL, 0 };
    bool read = true;
    for (size_t i = 0; read && i < json_array_size(list); i++) {
        json_t *one = json_array_get(list, i);
        uint64_t number = (uint64_t)json_integer_value(json_object_get(one, "version"));
        if (i == 0)
            read = read_text(versions, number, &now, damaged);
        if (read && number > 1)
            read = read_text(versions, number - 1, &before, damaged);
        if (!now.bytes || (number > 1 && !before.bytes))
            (void)snprintf(changes.text, sizeof(changes.text), "%s",
                           now.bytes ? "not known: the text of the version before is damaged"
                                     : "not known: its text is "
                                       "damaged");
        else
            weir_versions_change(versions, (struct weir_slice){ before.bytes, before.size },
                                 (struct weir_slice){ now.bytes, now.size }, &changes);
        (void)json_object_set_new(one, "changes", json_string(changes.text));
        free(now.bytes);
        now = before;
        before = (struct text){ NULL, 0 };
    }
    free(now.bytes);
    return read;
}

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
    json_t *list = json_array();
    bool damaged = false;
    int error = weir_rule_store_list(versions->store, 0, (size_t)versions->count, weir_versions_deadline(versions),
                                     take_version, list, &fault);
    if (!error)
        error = weir_rule_store_told(versions->store, false, weir_versions_deadline(versions), take_told, list, &fault);
    if (error)
        (void)weir_versions_complain(versions, error, &fault);
    if (error == WEIR_ECORRUPT && json_array_size(list) > 0) { /* notes of nodes, which more may write than versions */
        damaged = true;
        error = 0;
    }
    bool done = !error && compare(versions, list, &damaged);
    if (done && versions->json) {
        (void)json_dumpf(list, stdout, JSON_COMPACT);
        putchar('\n');
    } else if (done && json_array_size(list) == 0) {
        printf("%s has no version yet\n", weir_rule_store_name(versions->store));
    } else if (done && weir_plain_json(list)) {
        print(list);
    }
    json_decref(list);
    return done && !damaged ? WEIR_EXIT_OK : WEIR_EXIT_ERROR;
}
