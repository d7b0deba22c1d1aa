/* SPDX-License-Identifier: Apache-2.0
 *
 * The verb `weir explain`, called by main.c. It compiles a configuration here (stored.c): that of --config, else
 * the one that a running server says is in force (in_force.c), else the built-in example. Then it prints what
 * weir_rules_explain (rules/explain.c) says of each limit. The attributes are not sent to the server, so nothing is
 * charged. */
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/attributes.h"
#include "cli/explain_exceptions.h"
#include "cli/in_force.h"
#include "cli/limit_text.h"
#include "cli/notes.h"
#include "cli/option.h"
#include "cli/plain.h"
#include "cli/stored.h"
#include "cli/verbs.h"
#include "rules/rollout.h"

static const char help[] =
    "Usage: weir explain [OPTION ...] [ATTRIBUTE=VALUE ...]\n"
    "\n"
    "Says which limits a request with these attributes would meet, which override of them applies, and why the others\n"
    "do not apply; of one that nodes share also how, this node's share, and the bound on what it may stray. Where the\n"
    "rules stand in a store, also whether the key of the request is banned there, or has a level.\n"
    "\n"
    "Without --config it asks the running server which file is in force there, and explains that file; where no "
    "server\n"
    "answers, the built-in example. With --config it reads FILE, and with --server too it says whether FILE is in "
    "force.\n"
    "\n"
    "  --config FILE    the limits, whatever is running\n"
    "  --server ADDR    who is asked (127.0.0.1:8080): HOST:PORT, https://HOST:PORT or unix:/path\n"
    "  --token TOKEN    with the right metrics; better in the environment as WEIR_TOKEN, where ps does not show it\n"
    "  --ca FILE        authorities to trust over https (the system's)\n"
    "  --node NAME      as which of the nodes in cluster: (the server's, as node: says, else the first)\n"
    "  --json           a list of {\"limit\",\"applies\",\"reason\",\"override\",\"line\",\"sharing\",...}; "
    "\"in_force\" is what\n"
    "                   decides at the server where another node's definition does\n"
    "\n"
    "Exit code: 0, or 2 if the configuration or an argument is wrong, or the server does not tell.\n"
    "\n"
    "Examples:\n"
    "  weir explain user=ada route=/api/x\n"
    "  weir explain --config weir.yaml user=ada ip=2001:db8::1\n"
    "  weir explain --config examples/cluster.yaml --node b user=ada\n";

static const char *reason_name(enum weir_reason reason)
{
    static const char *const names[] = { "applies", "missing", "mismatch", "off", "refuses" };
    return names[reason];
}

/* Of "user=ada#0123456789abcdef" what people wrote. */
static int variant_length(const struct weir_rule *rule)
{
    const char *hash = strrchr(rule->variant, '#');
    return hash ? (int)(hash - rule->variant) : 0;
}

/* The text between quotes, with what stands before and after them. */
static void quoted_print(const char *before, struct weir_slice text, const char *after)
{
    printf("%s\"", before);
    weir_plain_print(stdout, text);
    printf("\"%s", after);
}

static struct weir_slice attribute_of(const struct weir_explanation *explanation)
{
    return (struct weir_slice){ explanation->attribute, strlen(explanation->attribute) };
}

/* Whether the file says the same in what is shown: then the other definition is another in name only. */
static bool same_numbers(const json_t *other, const struct weir_rule *rule)
{
    char rate[64];
    const char *other_rate = json_string_value(json_object_get(other, "rate"));
    const char *algorithm = json_string_value(json_object_get(other, "algorithm"));
    weir_rate_format(&rule->whole, rate, sizeof(rate));
    return !rule->variant[0] && other_rate && algorithm && strcmp(other_rate, rate) == 0 &&
           strcmp(algorithm, weir_algorithm_name(rule->whole.algorithm)) == 0 &&
           json_integer_value(json_object_get(other, "capacity")) == (json_int_t)weir_limit_capacity(&rule->whole);
}

/* Whether what decides where the server was asked is not what the file says. */
static bool is_overruled(const json_t *other, const struct weir_rule *rule)
{
    return other && (json_is_true(json_object_get(other, "undecidable")) || !same_numbers(other, rule));
}

static void applies_print(const struct weir_explanation *explanation, bool overruled)
{
    const struct weir_limit_spec *spec = &explanation->rule->whole;
    char rate[64], lease[WEIR_DURATION_SIZE];
    weir_rate_format(spec, rate, sizeof(rate));
    weir_duration_format(spec->period_ns / (WEIR_NS_PER_SECOND / 1000), lease, sizeof(lease));
    printf("%s: %s %s", overruled ? "applies, by the file" : "applies", weir_algorithm_name(spec->algorithm), rate);
    if (spec->algorithm == WEIR_TOKEN_BUCKET || spec->algorithm == WEIR_LEAKY_BUCKET)
        printf(" burst %" PRIu64, weir_limit_capacity(spec));
    if (spec->algorithm == WEIR_CONCURRENCY)
        printf(" at once, lease %s", lease);
    if (spec->mode == WEIR_MODE_SHADOW)
        printf(", in shadow");
    if (explanation->attribute[0])
        quoted_print(", one counter for all without ", attribute_of(explanation), "");
}

static void text_print(const json_t *object, const char *member)
{
    const json_t *text = json_object_get(object, member);
    weir_plain_print(stdout, (struct weir_slice){ json_string_value(text), json_string_length(text) });
}

/* By what of the limit the numbers are, and where that stands. `rollout`: of the limit; NULL: there is none. */
static void place_print(const struct weir_explanation *explanation, const struct weir_rule *rollout)
{
    const struct weir_rule *rule = explanation->rule;
    char percent[WEIR_ROLLOUT_SIZE];
    weir_rollout_format(rollout ? rollout->rollout : 0, percent, sizeof(percent));
    if (rule->level) {
        printf(" (level %s, line %u)\n", rule->level, explanation->mark.line);
        return;
    }
    if (rule->rollout) {
        printf(" (rollout: among %s %% of the keys, line %u)\n", percent, explanation->mark.line);
        return;
    }
    printf(rule->variant[0] ? " (override " : " (");
    weir_plain_print(stdout, (struct weir_slice){ rule->variant, (size_t)variant_length(rule) });
    printf("%sline %u", rule->variant[0] ? ", " : "", explanation->mark.line);
    if (rollout && !rule->variant[0] && explanation->reason == WEIR_REASON_APPLIES)
        printf("; rollout: not among %s %% of the keys", percent);
    printf(")\n");
}

static void explanation_print(const struct weir_explanation *explanation, const struct weir_config *config,
                              const struct weir_rule *rollout, int width, bool overruled)
{
    const struct weir_rule *rule = explanation->rule;
    char sharing[512];
    printf("%-*s  ", width, rule->name);
    switch (explanation->reason) {
    case WEIR_REASON_APPLIES:
        applies_print(explanation, overruled);
        break;
    case WEIR_REASON_MISSING:
        quoted_print("no: the request lacks ", attribute_of(explanation), "");
        break;
    case WEIR_REASON_MISMATCH:
        quoted_print("no: ", attribute_of(explanation), " does not match ");
        quoted_print("", explanation->pattern, "");
        break;
    case WEIR_REASON_OFF:
        printf("no: its mode is off");
        break;
    case WEIR_REASON_REFUSES:
        quoted_print("refuses: the request lacks ", attribute_of(explanation), " (missing: refuse)");
        break;
    }
    place_print(explanation, rollout);
    weir_sharing_format(rule, config, sharing, sizeof(sharing));
    if (explanation->reason == WEIR_REASON_APPLIES && sharing[0])
        printf("%-*s  %s\n", width, "", sharing);
}

/* What decides where the server was asked, if that is not what the file says. */
static void other_print(const json_t *other, const struct weir_rule *rule, int width)
{
    json_int_t revision = json_integer_value(json_object_get(other, "revision"));
    if (!other)
        return;
    bool undecidable = json_is_true(json_object_get(other, "undecidable"));
    bool same = !is_overruled(other, rule);
    printf("%-*s  %s: revision %" JSON_INTEGER_FORMAT " of node ", width, "",
           same ? "there a definition with the same numbers decides" : "NOT what decides there", revision);
    text_print(other, "revision_of");
    if (same) {
        printf("\n");
        return;
    }
    if (undecidable) {
        printf(" does, which is not understood there (on_failure: ");
        text_print(other, "on_failure");
        printf(")\n");
        return;
    }
    printf(" does, ");
    text_print(other, "algorithm");
    printf(" ");
    text_print(other, "rate");
    printf(" capacity %" JSON_INTEGER_FORMAT "\n", json_integer_value(json_object_get(other, "capacity")));
}

static json_t *explanation_json(const struct weir_explanation *explanation, const struct weir_config *config,
                                const struct weir_rule *rollout, const struct weir_explained_exceptions *exceptions,
                                const json_t *other)
{
    const struct weir_rule *rule = explanation->rule;
    char rate[64];
    weir_rate_format(&rule->whole, rate, sizeof(rate));
    json_t *object = json_pack("{s:s,s:b,s:s,s:I}", "limit", rule->name, "applies",
                               explanation->reason == WEIR_REASON_APPLIES, "reason", reason_name(explanation->reason),
                               "line", (json_int_t)explanation->mark.line);
    (void)json_object_set_new(object, "rate", json_string(rate));
    (void)json_object_set_new(object, "capacity", json_integer((json_int_t)weir_limit_capacity(&rule->whole)));
    if (rule->whole.algorithm == WEIR_CONCURRENCY)
        (void)json_object_set_new(object, "lease_ms",
                                  json_integer((json_int_t)(rule->whole.period_ns / (WEIR_NS_PER_SECOND / 1000))));
    (void)json_object_set_new(object, "sharing", weir_sharing_json(rule, config));
    (void)json_object_set_new(object, "override",
                              variant_length(rule) > 0 ? json_stringn(rule->variant, (size_t)variant_length(rule))
                                                       : json_null());
    if (rule->level)
        (void)json_object_set_new(object, "level", json_string(rule->level));
    if (exceptions->holds.kind)
        (void)json_object_set_new(object, "exception", weir_explained_exception_json(&exceptions->holds));
    if (exceptions->reset.kind)
        (void)json_object_set_new(object, "reset", weir_explained_exception_json(&exceptions->reset));
    if (rollout)
        (void)json_object_set_new(object, "rollout", weir_rollout_json(rollout));
    if (rollout)
        (void)json_object_set_new(object, "in_rollout", json_boolean(rule->rollout > 0));
    if (explanation->attribute[0])
        (void)json_object_set_new(object, "attribute", json_string(explanation->attribute));
    if (explanation->reason == WEIR_REASON_MISMATCH)
        (void)json_object_set_new(object, "pattern",
                                  json_stringn(explanation->pattern.data, explanation->pattern.size));
    if (other)
        (void)json_object_set_new(object, "in_force", json_deep_copy(other));
    return object;
}

static void fault_print(const char *before, const struct weir_fault *fault)
{
    char field[WEIR_PLAIN_SIZE(sizeof(fault->field))], text[WEIR_PLAIN_SIZE(sizeof(fault->text))];
    fprintf(stderr, "weir: %s%s %s\n", before, weir_plain(fault->field, field, sizeof(field)),
            weir_plain(fault->text, text, sizeof(text)));
}

/* What no single limit shows: a request that would be answered with an error, or that no limit is for. */
static void request_note(const struct weir_ruleset *ruleset, const struct weir_cli_attributes *attributes, bool json)
{
    struct weir_match match;
    struct weir_fault fault;
    bool refused = ruleset->config->unmatched == WEIR_UNMATCHED_REFUSE;
    if (weir_rules_match(ruleset->rules, attributes->list, attributes->count, 1, &match, &fault) != 0)
        fault_print("such a request would be an error: ", &fault);
    else if (!match.met && !json)
        printf("no limit applies: such a request is %s (unmatched: %s)\n", refused ? "refused" : "admitted",
               refused ? "refuse" : "admit");
}

/* One limit: a line or more, or an element of the list. */
static int explain_one(struct weir_explain_exceptions *exceptions, size_t index, const json_t *other, int width,
                       json_t *list)
{
    const struct weir_config *config = exceptions->ruleset->config;
    const struct weir_rules *rules = exceptions->ruleset->rules;
    const struct weir_rule *rollout = weir_rules_rollout(rules, index);
    struct weir_explanation explanation;
    struct weir_explained_exceptions found;
    struct weir_fault fault;
    int error = weir_rules_explain(rules, index, exceptions->attributes->list, exceptions->attributes->count,
                                   &explanation, &fault);
    if (error) {
        fault_print("", &fault);
        return error;
    }
    weir_explain_exception(exceptions, &explanation, &found);
    if (list) {
        (void)json_array_append_new(list, explanation_json(&explanation, config, rollout, &found, other));
        return 0;
    }
    explanation_print(&explanation, config, rollout, width, is_overruled(other, explanation.rule));
    weir_explained_exception_print(&found.holds, width);
    weir_explained_exception_print(&found.reset, width);
    other_print(other, explanation.rule, width);
    return 0;
}

static int explain_all(const struct weir_ruleset *ruleset, const struct weir_cli_attributes *attributes,
                       const struct weir_in_force *in_force, bool json)
{
    const struct weir_rules *rules = ruleset->rules;
    struct weir_explain_exceptions exceptions;
    json_t *list = json ? json_array() : NULL;
    int width = 0;
    int error = json && !list ? WEIR_ENOMEM : 0;
    weir_explain_exceptions_init(&exceptions, ruleset, attributes);
    for (size_t i = 0; i < weir_rules_count(rules); i++) {
        int length = (int)strlen(weir_rules_limit(rules, i)->name);
        width = length > width ? length : width;
    }
    for (size_t i = 0; i < weir_rules_count(rules) && !error; i++)
        error = explain_one(&exceptions, i, weir_in_force_other(in_force, weir_rules_limit(rules, i)->name), width,
                            list);
    weir_explain_exceptions_deinit(&exceptions);
    const char *uncounted = weir_note_uncounted(ruleset->config);
    if (uncounted && !json && !error)
        printf("%s\n", uncounted);
    char *text = json && !error ? json_dumps(list, JSON_COMPACT) : NULL;
    if (text)
        puts(text);
    free(text);
    json_decref(list);
    return error ? WEIR_EXIT_ERROR : WEIR_EXIT_OK;
}

struct flags {
    const char *file, *node;
    bool json, asks; /* --server was given */
    struct weir_client_options client;
};

/* Asks the server, where nobody said --config, or said --server too. False after a complaint. */
static bool ask(struct flags *flags, struct weir_in_force *ret_in_force)
{
    char problem[256];
    *ret_in_force = (struct weir_in_force){ 0 };
    if (flags->file && !flags->asks)
        return true;
    int error = weir_in_force_ask(&flags->client, ret_in_force, problem, sizeof(problem));
    if (error == WEIR_EIO && !flags->asks)
        return true;
    if (error) {
        char text[WEIR_PLAIN_SIZE(sizeof(problem))];
        fprintf(stderr, "weir: %s: %s%s\n", flags->client.server, weir_plain(problem, text, sizeof(text)),
                flags->file ? "" : "; --config FILE explains a file without asking");
        return false;
    }
    if (!flags->file && ret_in_force->source[0])
        flags->file = ret_in_force->source;
    if (!flags->node && ret_in_force->node[0])
        flags->node = ret_in_force->node;
    return true;
}

int weir_cli_explain(int argc, char **argv)
{
    struct flags flags = {
        .client = { .server = "127.0.0.1:8080", .token = getenv("WEIR_TOKEN"), .timeout_ns = 5 * WEIR_NS_PER_SECOND }
    };
    struct weir_ruleset ruleset = { 0 };
    struct weir_config_faults faults;
    struct weir_cli_attributes attributes;
    struct weir_in_force in_force;
    struct weir_stored stored;
    const struct weir_option options[] = {
        { "config", .text = &flags.file },
        { "server", .text = &flags.client.server, .given = &flags.asks },
        { "token", .text = &flags.client.token },
        { "ca", .text = &flags.client.ca_file },
        { "node", .text = &flags.node },
        { "json", .given = &flags.json },
        WEIR_OPTIONS_HELP,
    };
    const int read = weir_options_read(argc, argv, options, NULL, help, "weir explain --help");
    if (read != WEIR_OPTIONS_READ)
        return read;
    bool offline = flags.file && !flags.asks;
    if (weir_cli_attributes_read(argc - optind, argv + optind, &attributes) != 0 || !ask(&flags, &in_force))
        return WEIR_EXIT_ERROR;
    if (weir_stored_ruleset(flags.file, flags.node, in_force.version, &ruleset, &faults, &stored) != 0) {
        char text[1024], plain[WEIR_PLAIN_SIZE(sizeof(text))];
        const char *file = stored.name[0] ? stored.name : flags.file ? flags.file : "weir: the example limits";
        weir_config_fault_format(faults.list, file, text, sizeof(text));
        fprintf(stderr, "%s\n", weir_plain(text, plain, sizeof(plain)));
        if (flags.file == in_force.source)
            fprintf(stderr, "weir: %s decides by what this file said before; --config FILE explains another file\n",
                    flags.client.server);
        weir_in_force_deinit(&in_force);
        return WEIR_EXIT_ERROR;
    }
    if (stored.untold[0]) {
        char plain[WEIR_PLAIN_SIZE(sizeof(stored.untold))];
        fprintf(stderr, "weir: the rules cannot be read: %s\n", weir_plain(stored.untold, plain, sizeof(plain)));
        weir_ruleset_deinit(&ruleset);
        weir_in_force_deinit(&in_force);
        return WEIR_EXIT_ERROR;
    }
    if (!offline)
        weir_in_force_note(&in_force, flags.client.server, ruleset.config, flags.file);
    int code = explain_all(&ruleset, &attributes, &in_force, flags.json);
    if (code == WEIR_EXIT_OK)
        request_note(&ruleset, &attributes, flags.json);
    weir_ruleset_deinit(&ruleset);
    weir_in_force_deinit(&in_force);
    return code;
}
