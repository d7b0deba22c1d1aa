/* SPDX-License-Identifier: Apache-2.0
 *
 * The steps in order: load the configuration, say which node this is, create a limiter, compile the rules into it. At
 * the first error everything is freed again. Called by cli/explain.c, cli/rules.c and editor.c; `weir serve` loads in
 * cli/serve_config.c and compiles in serve/setup.c. */
#include "rules/ruleset.h"

#include <stdio.h>

int weir_ruleset_of(struct weir_config *config, struct weir_ruleset *ret_ruleset, struct weir_config_faults *ret_faults)
{
    struct weir_config_fault *ret_fault = &ret_faults->list[0];
    struct weir_ruleset ruleset = { .config = config };
    struct weir_fault fault = { "", "" };
    const struct weir_limiter_options options = { .memory_max = WEIR_MEMORY_MIN, .clock = WEIR_CLOCK_MONOTONIC };
    ret_faults->count = 1;
    int error = weir_limiter_create(&options, &ruleset.limiter, &fault);
    if (error) {
        *ret_fault = (struct weir_config_fault){ { 0, 0 }, "" };
        (void)snprintf(ret_fault->text, sizeof(ret_fault->text), "%s %s", fault.field,
                       fault.text[0] ? fault.text : weir_error_text(error));
    } else {
        error = weir_rules_create(ruleset.limiter, config, &ruleset.rules, ret_fault);
    }
    if (error)
        weir_ruleset_deinit(&ruleset);
    else
        *ret_ruleset = ruleset;
    return error;
}

int weir_ruleset_init(struct weir_ruleset *ret_ruleset, const char *file, const char *node,
                      struct weir_config_faults *ret_faults)
{
    struct weir_config *config = NULL;
    ret_faults->count = 1;
    int error = file ? weir_config_load_telling(file, &config, ret_faults)
                     : weir_config_example(&config, &ret_faults->list[0]);
    if (!error && node)
        error = weir_config_be(config, node, &ret_faults->list[0]);
    if (!error)
        return weir_ruleset_of(config, ret_ruleset, ret_faults);
    weir_config_destroy(config);
    return error;
}

void weir_ruleset_deinit(struct weir_ruleset *ruleset)
{
    weir_rules_destroy(ruleset->rules);
    weir_limiter_destroy(ruleset->limiter);
    weir_config_destroy(ruleset->config);
}
