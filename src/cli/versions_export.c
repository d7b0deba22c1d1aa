/* SPDX-License-Identifier: Apache-2.0
 *
 * `weir rules export`: all that a store of rules holds but what nodes told, a line of JSON each: the versions, then the
 * changes of exceptions, then a line that says that it is whole. docs/rule-stores.md has the format; versions_import.c
 * reads it. Called by versions_verbs.c. */
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hex.h"
#include "cli/verbs.h"
#include "cli/versions.h"
#include "rules/exception.h"
#include "rules/exception_edit.h"
#include "wire/text.h"

#define PAGE 1000

struct export
{
    uint64_t exceptions, next; /* how many were written, and which number is the next */
    const char *failed;        /* why; NULL: it did not */
};

static json_t *time_of(uint64_t wall_ns)
{
    char utc[WEIR_TEXT_UTC_SIZE];
    struct weir_text text = weir_text_init(utc, sizeof(utc));
    weir_text_utc(&text, wall_ns);
    return json_stringn(utc, text.size);
}

static json_t *hex_of(const void *bytes, size_t size)
{
    char digits[2 * WEIR_RULE_CHECKSUM_SIZE];
    (void)weir_hex_write(digits, bytes, size);
    return json_stringn(digits, 2 * size);
}

/* One line; it takes `line` over. False: it is no JSON (bytes that are no UTF-8), or cannot be written. */
static bool put(json_t *line)
{
    const bool done = line && json_dumpf(line, stdout, JSON_COMPACT) == 0 && putchar('\n') != EOF;
    json_decref(line);
    return done;
}

/* What was put is written. False: said on standard error. */
static bool is_written(void)
{
    if (fflush(stdout) == 0 && !ferror(stdout))
        return true;
    perror("weir: standard output");
    return false;
}

static bool put_version(const struct weir_rule_version *version, const char *text)
{
    json_t *line = json_pack("{s:I,s:s,s:I,s:o,s:I,s:s,s:s,s:o,s:o}", "version", (json_int_t)version->number, "kind",
                             weir_rule_kind_name(version->kind), "of", (json_int_t)version->of, "when",
                             time_of(version->wall_ns), "when_ns", (json_int_t)version->wall_ns, "author",
                             version->author, "comment", version->comment, "change",
                             hex_of(version->change, sizeof(version->change)), "sha256",
                             hex_of(version->checksum, sizeof(version->checksum)));
    bool done = line != NULL;
    if (done && !weir_rule_kind_copies(version->kind))
        done = json_object_set_new(line, "text", json_stringn(text, version->text_size)) == 0;
    if (done)
        return put(line);
    json_decref(line);
    return false;
}

static bool take_exception(void *context, const struct weir_exception *exception)
{
    struct export *export = context;
    if (exception->damaged || strcmp(weir_exception_kind_name(exception->kind), "unknown") == 0) {
        export->failed = exception->damaged ? "a change of an exception is damaged"
                                            : "a change of an exception is of a kind that a later weir made";
        return false;
    }
    json_t *key = weir_text_is_utf8(exception->key.data, exception->key.size)
                      ? json_stringn(exception->key.data, exception->key.size)
                      : NULL;
    if (!key) {
        export->failed = "the key of an exception is no UTF-8, which JSON cannot hold";
        return false;
    }
    export->next = exception->number + 1;
    export->exceptions++;
    json_t *one = json_pack("{s:I,s:s,s:s,s:o,s:I,s:o,s:I,s:s,s:s,s:o}", "exception", (json_int_t)exception->number,
                            "kind", weir_exception_kind_name(exception->kind), "limit", exception->limit, "key", key,
                            "until_ns", (json_int_t)exception->until_ns, "when", time_of(exception->wall_ns), "when_ns",
                            (json_int_t)exception->wall_ns, "author", exception->author, "comment", exception->comment,
                            "change", hex_of(exception->change, sizeof(exception->change)));
    if (one && exception->level[0])
        (void)json_object_set_new(one, "level", json_string(exception->level));
    if (!put(one))
        export->failed = weir_error_text(WEIR_ENOMEM);
    return !export->failed;
}

static bool put_exceptions(const struct weir_versions *versions, struct export *export)
{
    const struct weir_rule_editor editor = weir_versions_editor(versions);
    struct weir_fault fault = { 0 };
    export->next = 1;
    for (uint64_t before = 0; before != export->next;) {
        const struct weir_exception_query query = { .from = export->next, .count_max = PAGE };
        before = export->next;
        int error = weir_rule_store_exceptions(versions->store, &query, weir_rule_editor_deadline(&editor),
                                               take_exception, export, &fault);
        if (error)
            return weir_versions_complain(versions, error, &fault);
        if (export->failed && is_written()) {
            fprintf(stderr, "weir: %s (after number %" PRIu64 ")\n", export->failed, export->next - 1);
        }
        if (export->failed)
            return false;
    }
    return true;
}

static bool put_versions(const struct weir_versions *versions, uint64_t newest)
{
    struct weir_rule_version version;
    for (uint64_t number = 1; number <= newest; number++) {
        char *text = NULL;
        if (!weir_versions_read(versions, number, &version, &text))
            return false;
        const bool done = put_version(&version, text);
        free(text);
        if (!done && is_written())
            fprintf(stderr, "weir: version %" PRIu64 " is no UTF-8, which JSON cannot hold\n", number);
        if (!done)
            return false;
    }
    return true;
}

int weir_versions_export(const struct weir_versions *versions)
{
    struct weir_rule_head head;
    struct export export = { 0 };
    if (!weir_versions_head(versions, &head))
        return WEIR_EXIT_ERROR;
    (void)put(json_pack("{s:i}", "weir_rules", WEIR_VERSIONS_FORMAT)); /* what follows would not be written either */
    if (!put_versions(versions, head.number) || !put_exceptions(versions, &export))
        return WEIR_EXIT_ERROR;
    (void)put(json_pack("{s:b,s:I,s:I}", "end", 1, "versions", (json_int_t)head.number, "exceptions",
                        (json_int_t) export.exceptions));
    return is_written() ? WEIR_EXIT_OK : WEIR_EXIT_ERROR;
}
