/* SPDX-License-Identifier: Apache-2.0
 *
 * `weir rules import`: reads what `weir rules export` wrote, three times. First all of it is checked; then the rules
 * that nodes would decide by are looked for, and judged as a start would judge them; only then it is put into the
 * store, version by version, as it was: number, author, time, comment. A store that has the beginning of the file gets
 * the rest, so that an import that was ended is simply run again. Called by versions_verbs.c. */
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hex.h"
#include "base/plural.h"
#include "cli/plain.h"
#include "cli/verbs.h"
#include "cli/versions.h"
#include "rules/exception.h"

#define LINE_MAX_BYTES (6 * WEIR_RULE_TEXT_MAX + 65536) /* a text, each byte escaped; and what stands beside it */
#define TRIES 3

enum pass { CHECKING, FINDING, STORING };

struct import {
    const struct weir_versions *versions;
    const char *path;
    FILE *file;
    char *line;
    uint64_t lines;
    enum pass pass;
    bool ended;                               /* the line that says so was read */
    uint64_t count, exceptions;               /* read so far in this pass */
    uint64_t there;                           /* versions that were in the store already */
    uint8_t (*sums)[WEIR_RULE_CHECKSUM_SIZE]; /* [i]: of the text of version i + 1 */
    size_t sums_room;
    uint64_t decided; /* the version that nodes would decide by; 0: there is none */
    char *text;       /* its text */
    size_t text_size;
};

/* Always false. */
static bool complain(const struct import *import, const char *format, ...) __attribute__((format(printf, 2, 3)));
static bool complain(const struct import *import, const char *format, ...)
{
    char text[512], plain[WEIR_PLAIN_SIZE(sizeof(text))];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    fprintf(stderr, "%s:%" PRIu64 ": %s\n", import->path, import->lines, weir_plain(text, plain, sizeof(plain)));
    return false;
}

/* ---- a line ---- */

/* The next one; NULL: there is none, or it is no JSON (*ret_bad). */
static json_t *line_read(struct import *import, bool *ret_bad)
{
    json_error_t error;
    *ret_bad = false;
    if (!fgets(import->line, LINE_MAX_BYTES, import->file)) {
        *ret_bad = ferror(import->file) && !complain(import, "%s", strerror(errno));
        return NULL;
    }
    import->lines++;
    json_t *json = json_loads(import->line, JSON_REJECT_DUPLICATES, &error);
    *ret_bad = !json && !complain(import, "this is no line of an export: %s", error.text);
    return json;
}

static bool hex_read(const char *text, void *bytes, size_t size)
{
    return strlen(text) == 2 * size && weir_hex_read(text, size, bytes);
}

static bool version_decode(const struct import *import, json_t *json, struct weir_rule_change *ret_change,
                           uint8_t ret_sum[WEIR_RULE_CHECKSUM_SIZE])
{
    json_int_t number = 0, of = 0, wall_ns = 0;
    const char *kind, *author, *comment, *change, *sum, *text = "";
    size_t size = 0;
    json_error_t error;
    struct weir_fault fault = { 0 };
    if (json_unpack_ex(json, &error, JSON_STRICT, "{s:I,s:s,s:I,s?o,s:I,s:s,s:s,s:s,s:s,s?s%}", "version", &number,
                       "kind", &kind, "of", &of, "when", &(json_t *){ NULL }, "when_ns", &wall_ns, "author", &author,
                       "comment", &comment, "change", &change, "sha256", &sum, "text", &text, &size))
        return complain(import, "%s", error.text);
    if ((uint64_t)number != import->count + 1)
        return complain(import, "version %lld stands where version %" PRIu64 " must", (long long)number,
                        import->count + 1);
    *ret_change = (struct weir_rule_change){ .expected = (uint64_t)number - 1,
                                             .of = of < 0 ? UINT64_MAX : (uint64_t)of,
                                             .author = author,
                                             .comment = comment,
                                             .text = { text, size },
                                             .wall_ns = wall_ns < 0 ? UINT64_MAX : (uint64_t)wall_ns };
    for (int i = WEIR_RULE_APPLIED; i <= WEIR_RULE_APPROVED; i++)
        if (strcmp(kind, weir_rule_kind_name((enum weir_rule_kind)i)) == 0)
            ret_change->kind = (enum weir_rule_kind)i;
    if (!hex_read(change, ret_change->change, sizeof(ret_change->change)) ||
        !hex_read(sum, ret_sum, WEIR_RULE_CHECKSUM_SIZE))
        return complain(import, "change and sha256 must be hexadecimal digits, as the export wrote them");
    if (weir_rule_change_check(ret_change, &fault))
        return complain(import, "%s %s", fault.field, fault.text);
    return true;
}

static bool exception_decode(const struct import *import, json_t *json, struct weir_exception_change *ret_change)
{
    json_int_t number = 0, until_ns = 0, wall_ns = 0;
    const char *kind, *limit, *key, *author, *comment, *change, *level = NULL;
    size_t size = 0;
    json_error_t error;
    struct weir_fault fault = { 0 };
    if (json_unpack_ex(json, &error, JSON_STRICT, "{s:I,s:s,s:s,s:s%,s:I,s?o,s:I,s:s,s:s,s:s,s?s}", "exception",
                       &number, "kind", &kind, "limit", &limit, "key", &key, &size, "until_ns", &until_ns, "when",
                       &(json_t *){ NULL }, "when_ns", &wall_ns, "author", &author, "comment", &comment, "change",
                       &change, "level", &level))
        return complain(import, "%s", error.text);
    *ret_change = (struct weir_exception_change){ .limit = limit,
                                                  .level = level,
                                                  .key = { key, size },
                                                  .until_ns = until_ns < 0 ? UINT64_MAX : (uint64_t)until_ns,
                                                  .wall_ns = wall_ns < 0 ? UINT64_MAX : (uint64_t)wall_ns,
                                                  .author = author,
                                                  .comment = comment };
    for (int i = WEIR_EXCEPTION_BAN; i <= WEIR_EXCEPTION_RESET; i++)
        if (strcmp(kind, weir_exception_kind_name((enum weir_exception_kind)i)) == 0)
            ret_change->kind = (enum weir_exception_kind)i;
    if (!hex_read(change, ret_change->change, sizeof(ret_change->change)))
        return complain(import, "change must be hexadecimal digits, as the export wrote them");
    if (weir_exception_check(ret_change, &fault))
        return complain(import, "%s %s", fault.field, fault.text);
    return true;
}

/* ---- checking ---- */

static bool sum_keep(struct import *import, const uint8_t sum[WEIR_RULE_CHECKSUM_SIZE])
{
    if (import->count == import->sums_room) {
        const size_t room = import->sums_room ? 2 * import->sums_room : 64;
        void *more = realloc(import->sums, room * sizeof(*import->sums));
        if (!more)
            return complain(import, "%s", weir_error_text(WEIR_ENOMEM));
        import->sums = more;
        import->sums_room = room;
    }
    memcpy(import->sums[import->count], sum, WEIR_RULE_CHECKSUM_SIZE);
    return true;
}

static bool version_check(struct import *import, const struct weir_rule_change *change,
                          const uint8_t sum[WEIR_RULE_CHECKSUM_SIZE])
{
    const bool copies = weir_rule_kind_copies(change->kind);
    uint8_t own[WEIR_RULE_CHECKSUM_SIZE];
    if (!copies && weir_rule_checksum(change->text, own))
        return complain(import, "%s", weir_error_text(WEIR_ENOMEM));
    if (memcmp(copies ? import->sums[change->of - 1] : own, sum, sizeof(own)) != 0)
        return complain(import, "the text of version %" PRIu64 " is not the one of its sha256", change->expected + 1);
    if (change->kind != WEIR_RULE_PROPOSED)
        import->decided = change->expected + 1;
    return sum_keep(import, sum);
}

/* The decided version may copy one that copies another: its text is the first with its sum. */
static bool text_keep(struct import *import, const struct weir_rule_change *change,
                      const uint8_t sum[WEIR_RULE_CHECKSUM_SIZE])
{
    if (weir_rule_kind_copies(change->kind) ||
        memcmp(sum, import->sums[import->decided - 1], WEIR_RULE_CHECKSUM_SIZE) != 0)
        return true;
    import->text = malloc(change->text.size);
    if (!import->text)
        return complain(import, "%s", weir_error_text(WEIR_ENOMEM));
    memcpy(import->text, change->text.data, change->text.size);
    import->text_size = change->text.size;
    return true;
}

/* ---- storing ---- */

/* Nobody who waits is told of each of a million. */
static void tell_progress(const struct import *import)
{
    if (import->versions->progress && (import->count + import->exceptions) % 1000 == 0)
        fprintf(stderr, "%" PRIu64 " versions, %" PRIu64 " changes of exceptions\n", import->count, import->exceptions);
}

static bool version_store(struct import *import, const struct weir_rule_change *change)
{
    const struct weir_rule_editor editor = weir_versions_editor(import->versions);
    struct weir_rule_appended appended;
    struct weir_fault fault = { 0 };
    int error = WEIR_EUNKNOWN;
    for (int i = 0; i < TRIES && error == WEIR_EUNKNOWN; i++)
        error = weir_rule_store_append(import->versions->store, change, weir_rule_editor_deadline(&editor), &appended,
                                       &fault);
    if (error)
        return weir_versions_complain(import->versions, error, &fault);
    if (appended.said == WEIR_RULE_CONFLICT || appended.number != change->expected + 1)
        return complain(import,
                        "version %" PRIu64 " of the store is another one: it must be empty, or have the beginning of "
                        "this file (it has %" PRIu64 " versions)",
                        change->expected + 1, appended.head.number);
    import->there += appended.again;
    return true;
}

static bool exception_store(struct import *import, const struct weir_exception_change *change)
{
    const struct weir_rule_editor editor = weir_versions_editor(import->versions);
    uint64_t number;
    struct weir_fault fault = { 0 };
    int error = WEIR_EUNKNOWN;
    for (int i = 0; i < TRIES && error == WEIR_EUNKNOWN; i++)
        error = weir_rule_store_except(import->versions->store, change, weir_rule_editor_deadline(&editor), &number,
                                       &fault);
    /* Rows that are no key's newest may have been removed by hand. */
    if (error == WEIR_ENOENT && strcmp(fault.field, "key") == 0)
        return true;
    return error ? weir_versions_complain(import->versions, error, &fault) : true;
}

/* ---- the file ---- */

static bool head_take(const struct import *import, json_t *json)
{
    json_int_t format = 0;
    if (json_unpack(json, "{s:I}", "weir_rules", &format))
        return complain(import, "this is no export of weir rules: its first line must say weir_rules");
    return format == WEIR_VERSIONS_FORMAT ||
           complain(import, "this export is of a later weir (format %lld)", (long long)format);
}

static bool end_take(struct import *import, json_t *json)
{
    json_int_t versions = -1, exceptions = -1;
    (void)json_unpack(json, "{s:I,s:I}", "versions", &versions, "exceptions", &exceptions);
    import->ended = (uint64_t)versions == import->count && (uint64_t)exceptions == import->exceptions;
    return import->ended ||
           complain(import,
                    "%lld versions and %lld changes of exceptions are said; %" PRIu64 " and %" PRIu64 " are there",
                    (long long)versions, (long long)exceptions, import->count, import->exceptions);
}

static bool version_take(struct import *import, json_t *json)
{
    struct weir_rule_change change;
    uint8_t sum[WEIR_RULE_CHECKSUM_SIZE];
    if (import->exceptions > 0)
        return complain(import, "versions stand before exceptions");
    if (!version_decode(import, json, &change, sum))
        return false;
    const bool done = import->pass == CHECKING  ? version_check(import, &change, sum)
                      : import->pass == FINDING ? text_keep(import, &change, sum)
                                                : version_store(import, &change);
    import->count += done;
    return done;
}

static bool exception_take(struct import *import, json_t *json)
{
    struct weir_exception_change change;
    if (!exception_decode(import, json, &change) || (import->pass == STORING && !exception_store(import, &change)))
        return false;
    import->exceptions++;
    return true;
}

static bool line_take(struct import *import, json_t *json)
{
    if (import->ended)
        return complain(import, "nothing may follow the end");
    if (import->lines == 1)
        return head_take(import, json);
    if (json_object_get(json, "end"))
        return end_take(import, json);
    const bool done = json_object_get(json, "exception") ? exception_take(import, json) : version_take(import, json);
    if (done && import->pass == STORING)
        tell_progress(import);
    return done;
}

/* One pass over the file. False: said on standard error. */
static bool read_all(struct import *import, enum pass pass)
{
    bool bad = false, good = true;
    json_t *json;
    import->pass = pass;
    import->lines = import->count = import->exceptions = 0;
    import->ended = false;
    if (fseek(import->file, 0, SEEK_SET) != 0)
        return complain(import, "%s (it is read more than once: a pipe does not do)", strerror(errno));
    while (good && !(pass == FINDING && import->text) && (json = line_read(import, &bad)) != NULL) {
        good = line_take(import, json);
        json_decref(json);
    }
    if (good && !bad && pass == CHECKING && !import->ended)
        return complain(import, "its end is missing: the export was cut off");
    return good && !bad;
}

/* As a start would. */
static bool judge(const struct import *import)
{
    const struct weir_rule_editor editor = weir_versions_editor(import->versions);
    struct weir_config_faults *faults = calloc(1, sizeof(*faults));
    char name[512], line[1024], plain[WEIR_PLAIN_SIZE(sizeof(line))];
    if (!faults)
        return complain(import, "%s", weir_error_text(WEIR_ENOMEM));
    const bool good = weir_rule_editor_judge(&editor, (struct weir_slice){ import->text, import->text_size }, faults);
    (void)snprintf(name, sizeof(name), "version %" PRIu64 " of %s", import->decided, import->path);
    for (size_t i = 0; !good && i < faults->count; i++) {
        weir_config_fault_format(&faults->list[i], name, line, sizeof(line));
        fprintf(stderr, "%s\n", weir_plain(line, plain, sizeof(plain)));
    }
    free(faults);
    return good;
}

static bool run(struct import *import)
{
    const struct weir_versions *versions = import->versions;
    if (!read_all(import, CHECKING))
        return false;
    if (import->decided == 0) {
        fprintf(stderr, "weir: %s has no version that a node could decide by\n", import->path);
        return false;
    }
    const uint64_t count = import->count, exceptions = import->exceptions;
    if (!read_all(import, FINDING) || !judge(import) || (!versions->dry_run && !read_all(import, STORING)))
        return false;
    printf("%s: %" PRIu64 " version%s and %" PRIu64 " change%s of exceptions", versions->dry_run ? "good" : "stored",
           count, weir_s(count), exceptions, weir_s(exceptions));
    if (import->there > 0)
        printf("; %" PRIu64 " of the versions were there", import->there);
    printf("\n");
    return true;
}

int weir_versions_import(const struct weir_versions *versions, const char *path)
{
    const char *from = strcmp(path, "-") == 0 ? "/dev/stdin" : path;
    struct import import = { .versions = versions, .path = path, .file = fopen(from, "rbe") };
    bool done = false;
    if (versions->config->rules.approval)
        fprintf(stderr, "weir: rules.approval is on, and nobody approves an import: turn it off while you import\n");
    else if (!import.file)
        fprintf(stderr, "weir: %s: %s\n", path, strerror(errno));
    else if (!(import.line = malloc(LINE_MAX_BYTES)))
        fprintf(stderr, "weir: %s\n", weir_error_text(WEIR_ENOMEM));
    else
        done = run(&import);
    if (import.file)
        (void)fclose(import.file);
    free(import.line);
    free(import.sums);
    free(import.text);
    return done ? WEIR_EXIT_OK : WEIR_EXIT_ERROR;
}
