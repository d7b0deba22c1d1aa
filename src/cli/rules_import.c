/* SPDX-License-Identifier: Apache-2.0
 *
 * An export goes to versions_import.c. Files of envoyproxy/ratelimit are printed as the text by which `weir serve
 * --ratelimit-config` would decide, after limits could be made of it. With --count-all it is a whole configuration,
 * which says so to Envoy's questions; without, it is a set of rules for a store, too. Called by rules.c. */
#include "cli/rules_import.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/option.h"
#include "cli/plain.h"
#include "cli/verbs.h"
#include "cli/versions.h"
#include "rules/envoy_rules.h"
#include "rules/ruleset.h"

static const char help[] =
    "Usage: weir rules import --config FILE [--dry-run] EXPORT\n"
    "       weir rules import ratelimit [--count-all] FOLDER\n"
    "\n"
    "The first puts all versions and exceptions of an export into a store without versions, as they were\n"
    "(docs/rule-stores.md). The second prints the configuration files of envoyproxy/ratelimit, all *.yaml\n"
    "of FOLDER, as limits of weir, which weir serve --ratelimit-config FOLDER decides by: a file to go on\n"
    "from, or a version of the rules. What weir cannot do exactly is told as FILE:LINE:COLUMN: message\n"
    "(docs/envoy.md).\n"
    "\n"
    "  --config FILE    the configuration that names the store\n"
    "  --dry-run        checks, says what would change, and stores nothing\n"
    "  --count-all      limits that count each descriptor of a question by itself, and what is refused\n"
    "                   too, as that service does\n"
    "\n"
    "Exit code: 0 done; 2 it is not good, or could not be done.\n"
    "\n"
    "Examples:\n"
    "  weir rules import --config other.yaml rules.jsonl\n"
    "  weir rules import ratelimit /srv/runtime_data/current/config > weir.yaml\n";

#define BASE "unmatched: admit\n" /* as where nothing is said */

static int complain(const char *text)
{
    weir_plain_print(stderr, (struct weir_slice){ text, strlen(text) });
    fputc('\n', stderr);
    return WEIR_EXIT_ERROR;
}

/* As a start would. */
static int judge(const struct weir_envoy_rules *rules, struct weir_config_faults *faults)
{
    struct weir_config *base = NULL, *config = NULL;
    struct weir_ruleset ruleset = { NULL };
    struct weir_envoy_rules_fault placed;
    int error = weir_config_parse(BASE, strlen(BASE), &base, &faults->list[0]);
    faults->count = 1;
    if (!error)
        error = weir_config_with_rules(base, rules->text, &config, faults);
    if (!error)
        error = weir_ruleset_of(config, &ruleset, faults);
    for (size_t i = 0; error && i < faults->count; i++) {
        weir_envoy_rules_place(rules, &faults->list[i], &placed);
        (void)complain(placed.text);
    }
    weir_config_destroy(base);
    weir_ruleset_deinit(&ruleset);
    return error;
}

static int print(const char *folder, bool count_all)
{
    struct weir_envoy_rules *rules = NULL;
    struct weir_envoy_rules_fault fault;
    struct weir_config_faults *faults = calloc(1, sizeof(*faults));
    int code = WEIR_EXIT_ERROR;
    if (!faults)
        code = complain("weir: out of memory");
    else if (weir_envoy_rules_load(folder, count_all, &rules, &fault))
        code = complain(fault.text);
    else if (judge(rules, faults) == 0)
        code = WEIR_EXIT_OK;
    if (code == WEIR_EXIT_OK) {
        (void)fwrite(rules->text.data, 1, rules->text.size, stdout);
        (void)fputs(count_all ? "envoy: { count_all: true }\n" : "", stdout);
        if (fflush(stdout) != 0 || ferror(stdout))
            code = complain("weir: the limits could not be written");
    }
    weir_envoy_rules_destroy(rules);
    free(faults);
    return code;
}

int weir_cli_rules_import(int argc, char **argv)
{
    bool count_all = false;
    const struct weir_option options[] = { { "count-all", .given = &count_all }, WEIR_OPTIONS_HELP };
    if (argc < 2 || strcmp(argv[1], "ratelimit") != 0)
        return weir_cli_versions(argc, argv, help);
    const int read = weir_options_read(argc - 1, argv + 1, options, NULL, help, NULL);
    if (read != WEIR_OPTIONS_READ)
        return read;
    if (optind + 2 != argc)
        return complain("weir: rules import ratelimit takes one FOLDER; try weir rules import --help");
    return print(argv[optind + 1], count_all);
}
