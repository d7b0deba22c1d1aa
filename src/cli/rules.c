/* SPDX-License-Identifier: Apache-2.0
 *
 * The verb `weir rules check`, called by main.c. It compiles the file and its rules (stored.c) and prints all its
 * errors; or, if there are none, its warnings, how nodes share each limit (limit_text.c), what each lets pass at once
 * (burst_text.c) and the notes of notes.c. Errors and warnings are found in src/rules, but for an address that anybody
 * can reach: serve_config.c finds that. */
#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/plural.h"
#include "cli/burst_text.h"
#include "cli/limit_text.h"
#include "cli/notes.h"
#include "cli/option.h"
#include "cli/plain.h"
#include "cli/rules_import.h"
#include "cli/serve_config.h"
#include "cli/stored.h"
#include "cli/verbs.h"
#include "cli/versions.h"
#include "wire/json.h"

static const char help[] =
    "Usage: weir rules check [--node NAME] [--connections N] [--json] FILE\n"
    "       weir rules list --config FILE [--json] [VERSION]\n"
    "       weir rules history --config FILE [--count N] [--json]\n"
    "       weir rules show --config FILE [VERSION]\n"
    "       weir rules diff --config FILE VERSION [VERSION]\n"
    "       weir rules apply --config FILE --comment WHY [OPTION ...] RULES\n"
    "       weir rules approve --config FILE --comment WHY [OPTION ...] VERSION\n"
    "       weir rules rollout --config FILE --comment WHY [OPTION ...] PERCENT RULES\n"
    "       weir rules rollback --config FILE --comment WHY [OPTION ...] VERSION\n"
    "       weir rules export --config FILE\n"
    "       weir rules import --config FILE EXPORT | ratelimit FOLDER\n"
    "       weir rules ban | level | reset | unban | exceptions --help\n"
    "\n"
    "check says whether FILE is a good configuration, with the newest version of the rules where it names\n"
    "a store of them: all that is wrong with it, up to 100 errors, as FILE:LINE:COLUMN: message. Where\n"
    "nothing is, it warns of what is legal and yet hardly meant, and says of each limit that nodes share\n"
    "how, this node's share, and the bound on what it may stray; and what each limit lets pass at once.\n"
    "docs/rules.md describes every key.\n"
    "\n"
    "The others are for rules in the store that rules: in FILE names (docs/rule-stores.md).\n"
    "Every weir that serves from it follows by itself. RULES is a file with limits: and\n"
    "unmatched:, or nodes: besides (- is standard input).\n"
    "\n"
    "  list             the limits of a version (the newest), a line each\n"
    "  history          who changed what, when and why, and which node decides by it since when\n"
    "  show             the text of a version (the newest), to edit and to apply\n"
    "  diff             what the second (the newest) says otherwise than the first\n"
    "  apply            checks RULES as a start would, and makes them the newest version\n"
    "  approve          makes a proposal of somebody else the newest version\n"
    "  rollout          gives PERCENT of the keys (0.1 to 100, the same ones on each node and at each step)\n"
    "                   the rate, burst and mode of RULES, where these are other than now. At 100 RULES become\n"
    "                   the newest version. What else RULES have otherwise is told, and nothing is stored\n"
    "  rollback         makes the text of an older version the newest version\n"
    "  export           all versions and exceptions, as lines of JSON\n"
    "  import           puts an export into a store without versions, or prints files of Envoy's service\n"
    "  ban, level       one key of one limit, without a new version; unban ends it, reset makes it fresh\n"
    "\n"
    "  --node NAME      as which of the nodes in cluster: (as node: there says, else the first)\n"
    "  --connections N  of what is behind weir, 1 to 1000000: how many keys they bear that use all at once\n"
    "  --json           for programs. check tells file, ok, limits, errors, warnings, sharing, bursts and\n"
    "                   notes; list the limits; history a list of versions\n"
    "  --config FILE    the configuration that names the store\n"
    "  --count N        so many versions (20), 1 to 1000\n"
    "  --comment WHY    of the change, for the history\n"
    "  --author WHO     of the change (by default the name of who is logged in)\n"
    "  --from VERSION   that RULES were made from. What show printed says it by itself. If there is a newer\n"
    "                   one, nothing is stored: no change of somebody else's is lost\n"
    "  --propose        of apply and rollout: no weir decides by it until somebody else approves\n"
    "  --dry-run        checks, says what would change, and stores nothing\n"
    "\n"
    "Exit code: 0 it is good (also with warnings), or done; 1 there is a newer version, or it\n"
    "takes somebody else's approval; 2 it is not good, or could not be done.\n"
    "\n"
    "Examples:\n"
    "  weir rules check weir.yaml\n"
    "  weir rules check --node b examples/cluster.yaml\n"
    "  weir rules show --config weir.yaml > rules.yaml\n"
    "  weir rules apply --config weir.yaml --comment 'exports: 20 a day' rules.yaml\n"
    "  weir rules rollout --config weir.yaml --comment 'exports: 20 a day' 10 rules.yaml\n"
    "  weir rules rollback --config weir.yaml --comment 'too many exports' 41\n"
    "  weir rules export --config weir.yaml > rules.jsonl\n";

#define WHOLE_FILE ((struct weir_mark){ 1, 1 })
#define BURSTS_TOLD 20

static json_t *message_make(struct weir_mark mark, const char *text)
{
    return json_pack("{s:I,s:I,s:o}", "line", (json_int_t)mark.line, "column", (json_int_t)mark.column, "message",
                     weir_json_text(text));
}

/* How each limit is shared. */
static json_t *sharing_make(const struct weir_ruleset *ruleset)
{
    json_t *list = json_array();
    for (size_t i = 0; ruleset->rules && i < weir_rules_count(ruleset->rules); i++) {
        const struct weir_rule *rule = weir_rules_limit(ruleset->rules, i);
        json_t *sharing = weir_limit_json(ruleset->rules, i, ruleset->config);
        (void)json_object_set_new(sharing, "limit", json_string(rule->name));
        (void)json_array_append_new(list, sharing);
    }
    return list;
}

/* What each limit lets pass at once. */
static json_t *bursts_make(const struct weir_ruleset *ruleset, uint64_t connections)
{
    json_t *list = json_array();
    for (size_t i = 0; ruleset->rules && i < weir_rules_count(ruleset->rules); i++) {
        json_t *burst = weir_burst_json(ruleset->rules, i, ruleset->config, connections);
        if (burst)
            (void)json_array_append_new(list, burst);
    }
    return list;
}

/* All of them; a list that ends with NULL. */
struct notes {
    const char *list[5];
};

static struct notes notes_of(const struct weir_config *config)
{
    const char *(*const find[])(const struct weir_config *config) = { weir_note_uncounted, weir_note_alone,
                                                                      weir_note_unasked, weir_note_admin };
    struct notes notes = { { NULL } };
    for (size_t i = 0, count = 0; i < sizeof(find) / sizeof(find[0]); i++) {
        notes.list[count] = find[i](config);
        count += notes.list[count] != NULL;
    }
    return notes;
}

static json_t *notes_make(const struct weir_config *config)
{
    json_t *list = json_array();
    const struct notes notes = config ? notes_of(config) : (struct notes){ { NULL } };
    for (size_t i = 0; notes.list[i]; i++)
        (void)json_array_append_new(list, json_string(notes.list[i]));
    return list;
}

static void json_print(const char *file, const struct weir_stored *stored, const struct weir_ruleset *ruleset,
                       const struct weir_config_faults *faults, uint64_t connections)
{
    json_t *errors = json_array();
    json_t *warnings = json_array();
    const struct weir_config *config = ruleset->config;
    struct weir_serve_said said;
    for (size_t i = 0; !config && i < faults->count; i++)
        (void)json_array_append_new(errors, message_make(faults->list[i].mark, faults->list[i].text));
    for (size_t i = 0; config && i < config->warnings_count; i++)
        (void)json_array_append_new(warnings, message_make(config->warnings[i].mark, config->warnings[i].text));
    if (config && weir_serve_exposed(config, &said))
        (void)json_array_append_new(warnings, message_make(WHOLE_FILE, said.text));
    json_t *report = json_pack("{s:o,s:b,s:I,s:o,s:o,s:o,s:o,s:o}", "file", weir_json_text(file), "ok", config != NULL,
                               "limits", (json_int_t)(config ? config->limits_count : 0), "errors", errors, "warnings",
                               warnings, "sharing", sharing_make(ruleset), "bursts", bursts_make(ruleset, connections),
                               "notes", notes_make(config));
    if (stored->name[0]) /* whose lines they are */
        (void)json_object_set_new(report, "rules", weir_json_text(stored->name));
    char *text = report ? json_dumps(report, JSON_COMPACT) : NULL;
    if (text)
        puts(text);
    else
        fputs("weir: cannot be written as JSON\n", stderr);
    free(text);
    json_decref(report);
}

static void faults_print(const char *file, const struct weir_config_faults *faults)
{
    char text[1024], plain[WEIR_PLAIN_SIZE(sizeof(text))];
    for (size_t i = 0; i < faults->count; i++) {
        weir_config_fault_format(&faults->list[i], file, text, sizeof(text));
        fprintf(stderr, "%s\n", weir_plain(text, plain, sizeof(plain)));
    }
    if (faults->count == WEIR_CONFIG_FAULTS_MAX)
        fprintf(stderr, "%s: %d errors: what comes after them was not read\n", file, WEIR_CONFIG_FAULTS_MAX);
}

/* In a file of many limits the first of them: the others are in --json. */
static void bursts_print(const char *file, const struct weir_ruleset *ruleset, uint64_t connections)
{
    const struct weir_config *config = ruleset->config;
    char text[512], plain[WEIR_PLAIN_SIZE(WEIR_LIMIT_NAME_MAX)];
    size_t told = 0;
    for (size_t i = 0; i < config->limits_count; i++) {
        weir_burst_format(ruleset->rules, i, config, connections, text, sizeof(text));
        told += text[0] != '\0';
        if (text[0] && told <= BURSTS_TOLD)
            printf("%s:%u:%u: limit \"%s\" %s\n", file, config->limits[i].mark.line, config->limits[i].mark.column,
                   weir_plain(config->limits[i].name, plain, sizeof(plain)), text);
    }
    if (told > BURSTS_TOLD)
        printf("%s: what %zu more limits let pass at once is in --json\n", file, told - BURSTS_TOLD);
}

/* `whose`: the file or, where it names a store, the version of the rules, whose lines they are. */
static void text_print(const char *file, const char *whose, const struct weir_ruleset *ruleset, uint64_t connections)
{
    const struct weir_config *config = ruleset->config;
    char text[1024], plain[WEIR_PLAIN_SIZE(sizeof(text))];
    for (size_t i = 0; i < config->warnings_count; i++)
        printf("%s:%u:%u: warning: %s\n", whose, config->warnings[i].mark.line, config->warnings[i].mark.column,
               weir_plain(config->warnings[i].text, plain, sizeof(plain)));
    if (config->warnings_dropped)
        printf("%s: %zu more warning%s\n", whose, config->warnings_dropped, weir_s(config->warnings_dropped));
    struct weir_serve_said said;
    bool exposed = weir_serve_exposed(config, &said); /* no error: with --insecure, or other addresses, it starts */
    if (exposed)
        printf("%s:%u:%u: warning: %s\n", file, WHOLE_FILE.line, WHOLE_FILE.column,
               weir_plain(said.text, plain, sizeof(plain)));
    for (size_t i = 0; i < config->limits_count; i++) {
        weir_limit_format(ruleset->rules, i, config, text, sizeof(text));
        if (text[0] && config->limits[i].spec.mode != WEIR_MODE_OFF)
            printf("%s:%u:%u: limit \"%s\": %s\n", whose, config->limits[i].mark.line, config->limits[i].mark.column,
                   weir_plain(config->limits[i].name, plain, sizeof(plain)), text);
    }
    bursts_print(whose, ruleset, connections);
    if (config->http.kind != WEIR_ADDRESS_OFF && config->http_rules.forwarded == WEIR_FORWARDED_NONE)
        printf("%s: no proxy can ask at /v1/auth: listen.http.forwarded names none (docs/http.md)\n", file);
    else if (config->http.kind != WEIR_ADDRESS_OFF)
        printf("%s: proxies that can ask at /v1/auth: %s\n", file,
               weir_forwarded_source_name(config->http_rules.forwarded));
    const struct notes notes = notes_of(config);
    for (size_t i = 0; notes.list[i]; i++)
        printf("%s: %s\n", file, notes.list[i]);
    size_t warnings = config->warnings_count + config->warnings_dropped + exposed;
    printf("%s: %zu limit%s, %zu warning%s\n", whose, config->limits_count, weir_s(config->limits_count), warnings,
           weir_s(warnings));
}

static int check(int argc, char **argv)
{
    struct weir_ruleset ruleset = { 0 };
    struct weir_config_faults faults;
    struct weir_stored stored;
    const char *node = NULL;
    uint64_t connections = 0;
    bool json = false;
    const struct weir_option options[] = {
        { "node", .text = &node },
        { "connections", .number = &connections, .least = 1, .most = WEIR_CONNECTIONS_MAX },
        { "json", .given = &json },
        WEIR_OPTIONS_HELP,
    };
    const int read = weir_options_read(argc, argv, options, NULL, help, NULL);
    if (read != WEIR_OPTIONS_READ)
        return read;
    if (optind + 1 != argc) {
        fputs("weir: rules check takes one FILE; try weir rules --help\n", stderr);
        return WEIR_EXIT_ERROR;
    }
    int error = weir_stored_ruleset(argv[optind], node, 0, &ruleset, &faults, &stored);
    char file[WEIR_PLAIN_SIZE(PATH_MAX)], name[WEIR_PLAIN_SIZE(sizeof(stored.name))];
    const char *whose = weir_plain(stored.name, name, sizeof(name));
    whose = whose[0] ? whose : weir_plain(argv[optind], file, sizeof(file));
    if (json)
        json_print(argv[optind], &stored, &ruleset, &faults, connections);
    else if (error)
        faults_print(whose, &faults);
    else
        text_print(weir_plain(argv[optind], file, sizeof(file)), whose, &ruleset, connections);
    if (stored.untold[0]) {
        char plain[WEIR_PLAIN_SIZE(sizeof(stored.untold))];
        fprintf(stderr, "%s: warning: the rules were not checked: %s\n", weir_plain(argv[optind], file, sizeof(file)),
                weir_plain(stored.untold, plain, sizeof(plain)));
    }
    weir_ruleset_deinit(&ruleset);
    return error ? WEIR_EXIT_ERROR : WEIR_EXIT_OK;
}

int weir_cli_rules(int argc, char **argv)
{
    static const char *const words[] = { "check",   "list",    "history",  "show",       "diff",   "apply",
                                         "approve", "rollout", "rollback", "export",     "import", "ban",
                                         "level",   "reset",   "unban",    "exceptions", NULL };
    const char *verb = argc > 1 ? argv[1] : "";
    if (strcmp(verb, "check") == 0)
        return check(argc - 1, argv + 1);
    if (strcmp(verb, "ban") == 0 || strcmp(verb, "level") == 0 || strcmp(verb, "reset") == 0 ||
        strcmp(verb, "unban") == 0 || strcmp(verb, "exceptions") == 0)
        return weir_cli_exceptions(argc - 1, argv + 1);
    if (strcmp(verb, "import") == 0)
        return weir_cli_rules_import(argc - 1, argv + 1);
    for (size_t i = 1; words[i]; i++)
        if (strcmp(verb, words[i]) == 0)
            return weir_cli_versions(argc - 1, argv + 1, help);
    return weir_word_none(argv[0], verb, words, help);
}
