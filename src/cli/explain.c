/* SPDX-License-Identifier: Apache-2.0 */
#include <getopt.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/attributes.h"
#include "cli/ruleset.h"
#include "cli/verbs.h"

static const char help[] =
    "Usage: weir explain [OPTION ...] [ATTRIBUTE=VALUE ...]\n"
    "\n"
    "Says which limits a request with these attributes would meet, which override of them applies, and why the others\n"
    "do not apply. Asks no server: it reads the configuration.\n"
    "\n"
    "  --config FILE   the limits (without it the example limits of weir serve)\n"
    "  --json          a list of {\"limit\",\"applies\",\"reason\",\"override\",\"line\",...}\n"
    "\n"
    "Exit code: 0, or 2 if the configuration or an argument is wrong.\n"
    "\n"
    "Examples:\n"
    "  weir explain user=ada route=/api/x\n"
    "  weir explain --config weir.yaml user=ada ip=2001:db8::1\n";

static const char *reason_name(enum weir_reason reason)
{
    static const char *const names[] = { "applies", "missing", "mismatch", "off" };
    return names[reason];
}

/* "100/min", "5/250ms": in the largest unit that divides the period. */
static void rate_format(const struct weir_limit_spec *spec, char *buffer, size_t size)
{
    static const struct {
        const char *name;
        uint64_t ns;
    } units[] = { { "year", 365 * 86400 * WEIR_NS_PER_SECOND },
                  { "month", 30 * 86400 * WEIR_NS_PER_SECOND },
                  { "week", 7 * 86400 * WEIR_NS_PER_SECOND },
                  { "day", 86400 * WEIR_NS_PER_SECOND },
                  { "hour", 3600 * WEIR_NS_PER_SECOND },
                  { "min", 60 * WEIR_NS_PER_SECOND },
                  { "s", WEIR_NS_PER_SECOND },
                  { "ms", WEIR_NS_PER_SECOND / 1000 } };
    size_t i = 0;
    while (i < sizeof(units) / sizeof(units[0]) - 1 && spec->period_ns % units[i].ns != 0)
        i++;
    uint64_t number = spec->period_ns / units[i].ns;
    if (number == 1)
        (void)snprintf(buffer, size, "%" PRIu64 "/%s", spec->count, units[i].name);
    else
        (void)snprintf(buffer, size, "%" PRIu64 "/%" PRIu64 "%s", spec->count, number, units[i].name);
}

/* Of "user=ada#0123456789abcdef" what people wrote. */
static int variant_length(const struct weir_rule *rule)
{
    const char *hash = strrchr(rule->variant, '#');
    return hash ? (int)(hash - rule->variant) : 0;
}

static void applies_print(const struct weir_explanation *explanation)
{
    const struct weir_limit_spec *spec = &explanation->rule->spec;
    char rate[64];
    rate_format(spec, rate, sizeof(rate));
    printf("applies: %s %s", weir_algorithm_name(spec->algorithm), rate);
    if (spec->algorithm == WEIR_TOKEN_BUCKET || spec->algorithm == WEIR_LEAKY_BUCKET)
        printf(" burst %" PRIu64, weir_limit_capacity(spec));
    if (spec->mode == WEIR_MODE_SHADOW)
        printf(", in shadow");
}

static void explanation_print(const struct weir_explanation *explanation, const char *name, int width)
{
    const struct weir_rule *rule = explanation->rule;
    printf("%-*s  ", width, name);
    switch (explanation->reason) {
    case WEIR_REASON_APPLIES:
        applies_print(explanation);
        break;
    case WEIR_REASON_MISSING:
        printf("no: the request lacks \"%s\"", explanation->attribute);
        break;
    case WEIR_REASON_MISMATCH:
        printf("no: \"%s\" does not match \"%.*s\"", explanation->attribute, (int)explanation->pattern.size,
               (const char *)explanation->pattern.data);
        break;
    case WEIR_REASON_OFF:
        printf("no: its mode is off");
        break;
    }
    if (rule->variant[0])
        printf(" (override %.*s, line %u)", variant_length(rule), rule->variant, explanation->mark.line);
    else
        printf(" (line %u)", explanation->mark.line);
    putchar('\n');
}

static json_t *explanation_json(const struct weir_explanation *explanation, const char *name)
{
    const struct weir_rule *rule = explanation->rule;
    char rate[64];
    rate_format(&rule->spec, rate, sizeof(rate));
    json_t *object = json_pack("{s:s,s:b,s:s,s:I}", "limit", name, "applies",
                               explanation->reason == WEIR_REASON_APPLIES, "reason", reason_name(explanation->reason),
                               "line", (json_int_t)explanation->mark.line);
    (void)json_object_set_new(object, "rate", json_string(rate));
    (void)json_object_set_new(object, "capacity", json_integer((json_int_t)weir_limit_capacity(&rule->spec)));
    (void)json_object_set_new(
        object, "override", rule->variant[0] ? json_stringn(rule->variant, (size_t)variant_length(rule)) : json_null());
    if (explanation->attribute[0])
        (void)json_object_set_new(object, "attribute", json_string(explanation->attribute));
    if (explanation->reason == WEIR_REASON_MISMATCH)
        (void)json_object_set_new(object, "pattern",
                                  json_stringn(explanation->pattern.data, explanation->pattern.size));
    return object;
}

/* What no single limit shows: a request that would be answered with an error. */
static void errors_note(const struct weir_rules *rules, const struct weir_cli_attributes *attributes)
{
    struct weir_match match;
    struct weir_fault fault;
    if (weir_rules_match(rules, attributes->list, attributes->count, 1, &match, &fault) != 0)
        fprintf(stderr, "weir: such a request would be an error: %s %s\n", fault.field, fault.text);
}

static int explain_all(const struct weir_rules *rules, const struct weir_cli_attributes *attributes, bool json)
{
    json_t *list = json_array();
    int width = 0;
    int error = 0;
    for (size_t i = 0; i < weir_rules_count(rules); i++) {
        int length = (int)strlen(weir_rules_limit(rules, i)->name);
        width = length > width ? length : width;
    }
    for (size_t i = 0; i < weir_rules_count(rules) && !error; i++) {
        const char *name = weir_rules_limit(rules, i)->name;
        struct weir_explanation explanation;
        struct weir_fault fault;
        error = weir_rules_explain(rules, i, attributes->list, attributes->count, &explanation, &fault);
        if (error)
            fprintf(stderr, "weir: %s %s\n", fault.field, fault.text);
        else if (json)
            (void)json_array_append_new(list, explanation_json(&explanation, name));
        else
            explanation_print(&explanation, name, width);
    }
    char *text = json && !error ? json_dumps(list, JSON_COMPACT) : NULL;
    if (text)
        puts(text);
    free(text);
    json_decref(list);
    return error ? WEIR_EXIT_ERROR : WEIR_EXIT_OK;
}

int weir_cli_explain(int argc, char **argv)
{
    static const struct option options[] = {
        { "config", required_argument, NULL, 'c' },
        { "json", no_argument, NULL, 'j' },
        { "help", no_argument, NULL, 'h' },
        { NULL, 0, NULL, 0 },
    };
    struct weir_ruleset ruleset = { 0 };
    struct weir_config_fault fault = { { 0, 0 }, "" };
    struct weir_cli_attributes attributes;
    const char *file = NULL;
    bool json = false;
    for (int option; (option = getopt_long(argc, argv, "h", options, NULL)) != -1;) {
        if (option == 'h') {
            fputs(help, stdout);
            return WEIR_EXIT_OK;
        }
        if (option == 'c')
            file = optarg;
        else if (option == 'j')
            json = true;
        else
            return WEIR_EXIT_ERROR;
    }
    if (weir_cli_attributes_read(argc - optind, argv + optind, &attributes) != 0)
        return WEIR_EXIT_ERROR;
    if (weir_ruleset_init(&ruleset, file, &fault) != 0) {
        char text[1024];
        weir_config_fault_format(&fault, file ? file : "weir: the example limits", text, sizeof(text));
        fprintf(stderr, "%s\n", text);
        return WEIR_EXIT_ERROR;
    }
    int code = explain_all(ruleset.rules, &attributes, json);
    if (code == WEIR_EXIT_OK)
        errors_note(ruleset.rules, &attributes);
    weir_ruleset_deinit(&ruleset);
    return code;
}
