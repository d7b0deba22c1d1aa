/* SPDX-License-Identifier: Apache-2.0
 *
 * `weir rules ban`, `level`, `reset`, `unban` and `exceptions`: reads the arguments, has rules/exception_edit.c make
 * the change or read the log, and prints what came of it. Called by rules.c. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/option.h"
#include "cli/plain.h"
#include "cli/verbs.h"
#include "cli/versions.h"
#include "rules/exception_edit.h"
#include "wire/text.h"

static const char help[] =
    "Usage: weir rules ban --config FILE --comment WHY [OPTION ...] LIMIT [ATTRIBUTE=VALUE ...]\n"
    "       weir rules level --config FILE --comment WHY [OPTION ...] LIMIT LEVEL [ATTRIBUTE=VALUE ...]\n"
    "       weir rules reset --config FILE --comment WHY [OPTION ...] LIMIT [ATTRIBUTE[=VALUE] ...]\n"
    "       weir rules unban --config FILE --comment WHY [OPTION ...] LIMIT [ATTRIBUTE=VALUE ...]\n"
    "       weir rules exceptions --config FILE [--all] [--count N] [--json] [LIMIT [ATTRIBUTE[=VALUE] ...]]\n"
    "\n"
    "For one key of one limit, without a new version of the rules (docs/exceptions.md). The rules must\n"
    "stand in a store, which rules: in FILE names. Every weir that serves from it follows at once.\n"
    "LIMIT is the name of a limit, and ATTRIBUTE=VALUE stands for each attribute of its key: of one with\n"
    "key: [user] it is user=ada.\n"
    "\n"
    "  ban              refuses everything under this key, until then or for good\n"
    "  level            gives this key one of the levels: that LIMIT has in the rules, until then or for good\n"
    "  unban            ends whichever of these holds; what the key had used before stays used\n"
    "  reset            this key is fresh, once, on every node: what it had used is forgotten. Beside a ban or\n"
    "                   a level it ends neither. Not of a limit that gives permits. ATTRIBUTE without =VALUE is the\n"
    "                   counter of requests that lack it (missing: share)\n"
    "  exceptions       who is banned, has a level or was reset, why, since when and until when, and by whom:\n"
    "                   the newest first\n"
    "\n"
    "A key has a ban or a level, one at a time: the newest takes the place of the one before.\n"
    "\n"
    "  --config FILE    the configuration that names the store\n"
    "  --comment WHY    of the change, for who looks at it later\n"
    "  --author WHO     of the change (by default the name of who is logged in)\n"
    "  --for DURATION   so long, from now on by this machine's clock: 90s, 6hour, 7day\n"
    "  --until TIME     until then: 2026-11-28T18:00:00Z, or with an offset, 2026-11-28T19:00:00+01:00\n"
    "  --all            all changes, also those that hold no more\n"
    "  --count N        so many (100), 1 to 10000\n"
    "  --json           for programs: a list\n"
    "\n"
    "Exit code: 0 done; 1 there was nothing to end; 2 it could not be done.\n"
    "\n"
    "Examples:\n"
    "  weir rules ban --config weir.yaml --comment 'scrapes the catalogue' --for 6hour api-per-user user=ada\n"
    "  weir rules ban --config weir.yaml --comment abuse api-per-address ip=2001:db8::1\n"
    "  weir rules level --config weir.yaml --comment 'has paid' --for 30day api-per-user plus user=ada\n"
    "  weir rules reset --config weir.yaml --comment 'our mistake' api-per-user user=ada\n"
    "  weir rules unban --config weir.yaml --comment 'has stopped' api-per-user user=ada\n"
    "  weir rules exceptions --config weir.yaml\n"
    "  weir rules exceptions --config weir.yaml --all api-per-user user=ada\n";

#define COUNT 100

struct asked {
    struct weir_versions versions;
    const char *until, *length; /* of --until and --for; both NULL: for good */
    bool all;
    const char *level; /* NULL: none */
    struct weir_exception_named named;
};

/* ---- changing ---- */

static void print_named(const struct weir_exception_named *named)
{
    char plain[WEIR_PLAIN_SIZE(WEIR_KEY_BYTES_MAX)];
    printf("%s", weir_plain(named->limit, plain, sizeof(plain)));
    for (size_t i = 0; i < named->count; i++) /* each is what was typed: NAME=VALUE or NAME, and a NUL */
        printf(" %s%s", weir_plain(named->attributes[i].name.data, plain, sizeof(plain)),
               named->attributes[i].value.size == WEIR_VALUE_ABSENT ? " (absent)" : "");
}

static void print_done(const struct asked *asked, const struct weir_exception_edit *edit, uint64_t number)
{
    char until[WEIR_TEXT_UTC_SIZE + 1] = "";
    struct weir_text text = weir_text_init(until, sizeof(until) - 1);
    if (asked->versions.json) {
        printf("{\"change\":%" PRIu64 "}\n", number);
        return;
    }
    printf("change %" PRIu64 ": ", number);
    print_named(&asked->named);
    if (edit->until_ns > 0)
        weir_text_utc(&text, edit->until_ns);
    if (edit->kind == WEIR_EXCEPTION_UNBAN)
        printf(" has no exception any more\n");
    else if (edit->kind == WEIR_EXCEPTION_RESET)
        printf(" is fresh\n");
    else
        printf(" %s%s %s%s\n", edit->level ? "has level " : "is banned", edit->level ? edit->level : "",
               edit->until_ns > 0 ? "until " : "for good", until);
}

static int change(const struct asked *asked, enum weir_exception_kind kind)
{
    const struct weir_rule_editor editor = weir_versions_editor(&asked->versions);
    struct weir_fault fault = { 0 };
    struct weir_exception_edit edit = { .kind = kind,
                                        .named = &asked->named,
                                        .level = asked->level,
                                        .wall_ns = weir_time_read().wall_ns,
                                        .author = asked->versions.author,
                                        .comment = asked->versions.comment };
    uint64_t number = 0;
    const char *until = asked->until ? asked->until : asked->length;
    int error = until ? weir_exception_until(until, edit.wall_ns, &edit.until_ns, &fault) : 0;
    if (!error)
        error = weir_exception_put(&editor, &edit, &number, &fault);
    if (!error) {
        print_done(asked, &edit, number);
        return WEIR_EXIT_OK;
    }
    if (error == WEIR_EUNKNOWN)
        fprintf(stderr, "weir: it is not known whether it was stored: weir rules exceptions --all says\n");
    (void)weir_versions_complain(&asked->versions, error, &fault);
    return error == WEIR_ENOENT && strcmp(fault.field, "key") == 0 ? WEIR_EXIT_REFUSED : WEIR_EXIT_ERROR;
}

/* ---- listing ---- */

static void print_list(const json_t *list)
{
    json_t *one, *value;
    size_t i;
    json_array_foreach(list, i, one)
    {
        const char *until = json_string_value(json_object_get(one, "until")), *name;
        const char *what = json_string_value(json_object_get(one, "what"));
        const char *level = json_string_value(json_object_get(one, "level"));
        printf("change %" JSON_INTEGER_FORMAT, json_integer_value(json_object_get(one, "change")));
        if (!what) {
            printf("  is damaged\n");
            continue;
        }
        printf("  %s  %s  %s%s%s  %s", json_string_value(json_object_get(one, "when")),
               json_string_value(json_object_get(one, "author")), what, level ? " " : "", level ? level : "",
               json_string_value(json_object_get(one, "limit")));
        json_object_foreach(json_object_get(one, "key"), name, value)
            printf(json_is_null(value) ? " %s%s" : " %s=%s", name,
                   json_is_null(value) ? " (absent)" : json_string_value(value));
        if (strcmp(what, "unban") != 0 && strcmp(what, "reset") != 0)
            printf("  %s%s", until ? "until " : "for good", until ? until : "");
        if (json_is_true(json_object_get(one, "unknown")))
            printf("  (does nothing: the newest version of the rules has no such level)");
        printf("\n  why:   %s\n", json_string_value(json_object_get(one, "comment")));
    }
}

static int list(const struct asked *asked)
{
    const struct weir_rule_editor editor = weir_versions_editor(&asked->versions);
    struct weir_fault fault = { 0 };
    struct weir_exception_key *key = malloc(sizeof(*key));
    json_t *found = NULL;
    struct weir_exception_query query = { .newest_first = true,
                                          .limit = asked->named.limit,
                                          .count_max = (size_t)asked->versions.count };
    query.holding_at_ns = asked->all ? 0 : weir_time_read().wall_ns;
    int error = key ? 0 : WEIR_ENOMEM;
    if (!error && asked->named.count > 0) {
        error = weir_exception_find_key(&editor, &asked->named, true, key, &fault);
        query.key = (struct weir_slice){ key->bytes, key->size };
    }
    if (!error)
        error = weir_exception_list(&editor, &query, &found, &fault);
    free(key);
    if (error) {
        (void)weir_versions_complain(&asked->versions, error, &fault);
        return WEIR_EXIT_ERROR;
    }
    bool done = true;
    if (asked->versions.json) {
        (void)json_dumpf(found, stdout, JSON_COMPACT);
        putchar('\n');
    } else if (json_array_size(found) == 0) {
        printf("%s\n", asked->all ? "there was no change" : "nobody is banned, has a level or was reset");
    } else {
        done = weir_plain_json(found);
        if (done)
            print_list(found);
    }
    json_decref(found);
    return done ? WEIR_EXIT_OK : WEIR_EXIT_ERROR;
}

/* ---- arguments ---- */

static int complain(const char *verb, const char *what)
{
    fprintf(stderr, "weir: rules %s: %s; try weir rules %s --help\n", verb, what, verb);
    return WEIR_EXIT_ERROR;
}

/* An attribute may be absent where `lacks` says so. False: said on standard error. */
static bool name_key(struct asked *asked, const char *verb, bool lacks, int count, char **rest)
{
    char plain[WEIR_PLAIN_SIZE(64)];
    asked->named.limit = count > 0 ? rest[0] : NULL;
    for (int i = 1; i < count; i++) {
        const char *equals = strchr(rest[i], '=');
        if ((!equals && !lacks) || equals == rest[i] || !rest[i][0]) {
            fprintf(stderr, "weir: rules %s: \"%s\" must be ATTRIBUTE=VALUE\n", verb,
                    weir_plain(rest[i], plain, sizeof(plain)));
            return false;
        }
        if (asked->named.count == WEIR_KEY_VALUES_MAX) {
            fprintf(stderr, "weir: rules %s: a key has at most %d attributes\n", verb, WEIR_KEY_VALUES_MAX);
            return false;
        }
        asked->named.attributes[asked->named.count++] = (struct weir_attribute){
            .name = { rest[i], equals ? (size_t)(equals - rest[i]) : strlen(rest[i]) },
            .value = { equals ? equals + 1 : NULL, equals ? strlen(equals + 1) : WEIR_VALUE_ABSENT }
        };
    }
    return true;
}

static int run(struct asked *asked, const char *verb, int count, char **rest)
{
    const bool lists = strcmp(verb, "exceptions") == 0, levels = strcmp(verb, "level") == 0;
    const enum weir_exception_kind kind = levels                       ? WEIR_EXCEPTION_LEVEL
                                          : strcmp(verb, "ban") == 0   ? WEIR_EXCEPTION_BAN
                                          : strcmp(verb, "reset") == 0 ? WEIR_EXCEPTION_RESET
                                                                       : WEIR_EXCEPTION_UNBAN;
    if (!asked->versions.config_file)
        return complain(verb, "say which configuration: --config FILE");
    if (!lists && count == 0)
        return complain(verb, "say which limit, and which key of it");
    if (!lists && !asked->versions.comment)
        return complain(verb, "say why: --comment WHY");
    if (kind != WEIR_EXCEPTION_BAN && !levels && (asked->until || asked->length))
        return complain(verb, "--for and --until are a ban's or a level's");
    if (asked->until && asked->length)
        return complain(verb, "--for and --until say both when it ends: give one of them");
    if (levels && count < 2)
        return complain(verb, "say which level: LIMIT LEVEL ATTRIBUTE=VALUE");
    if (levels) { /* LIMIT LEVEL */
        asked->level = rest[1];
        rest[1] = rest[0];
        rest++;
        count--;
    }
    if (!name_key(asked, verb, lists || kind == WEIR_EXCEPTION_RESET, count, rest) ||
        !weir_versions_open(&asked->versions, false))
        return WEIR_EXIT_ERROR;
    return lists ? list(asked) : change(asked, kind);
}

int weir_cli_exceptions(int argc, char **argv)
{
    struct asked asked = { .versions = { .author = weir_versions_author(), .count = COUNT } };
    struct weir_versions *versions = &asked.versions;
    const struct weir_option options[] = {
        { "config", .text = &versions->config_file },
        { "comment", .text = &versions->comment },
        { "author", .text = &versions->author },
        { "until", .text = &asked.until },
        { "for", .text = &asked.length },
        { "all", .given = &asked.all },
        { "count", .number = &versions->count, .least = 1, .most = WEIR_EXCEPTION_LIST_MAX, .unshown = true },
        { "json", .given = &versions->json },
        WEIR_OPTIONS_HELP,
    };
    const int read = weir_options_read(argc, argv, options, NULL, help, NULL);
    if (read != WEIR_OPTIONS_READ)
        return read;
    int code = run(&asked, argv[0], argc - optind, argv + optind);
    weir_rule_store_close(asked.versions.store);
    weir_config_destroy(asked.versions.config);
    return code;
}
