/* SPDX-License-Identifier: Apache-2.0 */
#include <getopt.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/limit_text.h"
#include "cli/ruleset.h"
#include "cli/verbs.h"

static const char help[] =
    "Usage: weir rules check [--node NAME] [--json] FILE\n"
    "\n"
    "Says whether FILE is a good configuration, as FILE:LINE:COLUMN: message, and warns of what\n"
    "is legal and yet hardly meant. Of each limit that nodes share it says how, this node's share,\n"
    "and the bound on what it may stray. docs/rules.md describes every key.\n"
    "\n"
    "  --node NAME   as which of the nodes in cluster: (as node: there says, else the first)\n"
    "  --json        {\"file\":...,\"ok\":...,\"limits\":...,\"errors\":[...],\"warnings\":[...],\"sharing\":[...]}\n"
    "\n"
    "Exit code: 0 it is good (also with warnings), 2 it is not.\n"
    "\n"
    "Examples:\n"
    "  weir rules check weir.yaml\n"
    "  weir rules check --json weir.yaml | jq .warnings\n"
    "  weir rules check --node b examples/cluster.yaml\n";

static json_t *message_make(struct weir_mark mark, const char *text)
{
    return json_pack("{s:I,s:I,s:s}", "line", (json_int_t)mark.line, "column", (json_int_t)mark.column, "message",
                     text);
}

/* How each limit is shared. */
static json_t *sharing_make(const struct weir_ruleset *ruleset)
{
    json_t *list = json_array();
    for (size_t i = 0; ruleset->rules && i < weir_rules_count(ruleset->rules); i++) {
        const struct weir_rule *rule = weir_rules_limit(ruleset->rules, i);
        json_t *sharing = weir_sharing_json(rule, ruleset->config);
        (void)json_object_set_new(sharing, "limit", json_string(rule->name));
        (void)json_array_append_new(list, sharing);
    }
    return list;
}

static void json_print(const char *file, const struct weir_ruleset *ruleset, const struct weir_config_fault *fault)
{
    json_t *errors = json_array();
    json_t *warnings = json_array();
    const struct weir_config *config = ruleset->config;
    if (!config)
        (void)json_array_append_new(errors, message_make(fault->mark, fault->text));
    for (size_t i = 0; config && i < config->warnings_count; i++)
        (void)json_array_append_new(warnings, message_make(config->warnings[i].mark, config->warnings[i].text));
    json_t *report = json_pack("{s:s%,s:b,s:I,s:o,s:o,s:o}", "file", file, strlen(file), "ok", config != NULL, "limits",
                               (json_int_t)(config ? config->limits_count : 0), "errors", errors, "warnings", warnings,
                               "sharing", sharing_make(ruleset));
    char *text = report ? json_dumps(report, JSON_COMPACT) : NULL;
    if (text)
        puts(text);
    else
        fputs("weir: cannot be written as JSON\n", stderr);
    free(text);
    json_decref(report);
}

static void text_print(const char *file, const struct weir_ruleset *ruleset, const struct weir_config_fault *fault)
{
    const struct weir_config *config = ruleset->config;
    char text[1024];
    if (!config) {
        weir_config_fault_format(fault, file, text, sizeof(text));
        fprintf(stderr, "%s\n", text);
        return;
    }
    for (size_t i = 0; i < config->warnings_count; i++)
        printf("%s:%u:%u: warning: %s\n", file, config->warnings[i].mark.line, config->warnings[i].mark.column,
               config->warnings[i].text);
    if (config->warnings_dropped)
        printf("%s: %zu more warnings\n", file, config->warnings_dropped);
    for (size_t i = 0; i < config->limits_count; i++) {
        weir_sharing_format(weir_rules_limit(ruleset->rules, i), config, text, sizeof(text));
        if (text[0] && config->limits[i].spec.mode != WEIR_MODE_OFF)
            printf("%s:%u:%u: limit \"%s\": %s\n", file, config->limits[i].mark.line, config->limits[i].mark.column,
                   config->limits[i].name, text);
    }
    if (config->http.kind != WEIR_ADDRESS_OFF)
        printf("%s: /v1/auth is served to: %s\n", file, weir_forwarded_source_name(config->http_rules.forwarded));
    size_t warnings = config->warnings_count + config->warnings_dropped;
    printf("%s: %zu limit%s, %zu warning%s\n", file, config->limits_count, config->limits_count == 1 ? "" : "s",
           warnings, warnings == 1 ? "" : "s");
}

static int check(int argc, char **argv)
{
    static const struct option options[] = {
        { "node", required_argument, NULL, 'n' },
        { "json", no_argument, NULL, 'j' },
        { "help", no_argument, NULL, 'h' },
        { NULL, 0, NULL, 0 },
    };
    struct weir_ruleset ruleset = { 0 };
    struct weir_config_fault fault = { { 0, 0 }, "" };
    const char *node = NULL;
    bool json = false;
    for (int option; (option = getopt_long(argc, argv, "h", options, NULL)) != -1;) {
        if (option == 'h') {
            fputs(help, stdout);
            return WEIR_EXIT_OK;
        }
        if (option != 'j' && option != 'n')
            return WEIR_EXIT_ERROR;
        json = json || option == 'j';
        node = option == 'n' ? optarg : node;
    }
    if (optind + 1 != argc) {
        fputs("weir: rules check takes one FILE; try weir rules --help\n", stderr);
        return WEIR_EXIT_ERROR;
    }
    int error = weir_ruleset_init(&ruleset, argv[optind], node, &fault);
    (json ? json_print : text_print)(argv[optind], &ruleset, &fault);
    weir_ruleset_deinit(&ruleset);
    return error ? WEIR_EXIT_ERROR : WEIR_EXIT_OK;
}

int weir_cli_rules(int argc, char **argv)
{
    const char *verb = argc > 1 ? argv[1] : "";
    if (strcmp(verb, "check") == 0)
        return check(argc - 1, argv + 1);
    bool wants_help = strcmp(verb, "--help") == 0 || strcmp(verb, "-h") == 0;
    fputs(help, wants_help ? stdout : stderr);
    return wants_help ? WEIR_EXIT_OK : WEIR_EXIT_ERROR;
}
