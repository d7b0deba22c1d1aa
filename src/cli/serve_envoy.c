/* SPDX-License-Identifier: Apache-2.0
 *
 * The folder's files become one text of limits (rules/envoy_rules.c), which is put to the configuration as a set of
 * rules from a store is: so `weir serve` decides by just what `weir rules import ratelimit` prints. The folder is
 * looked at by its files' names, sizes and times; whether it was swapped, as a mounted ConfigMap is, shows in these
 * too. Called by serve_config.c for each load, and by serve.c. */
#include "cli/serve_envoy.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/serve_warn.h"
#include "rules/arena.h"
#include "rules/yaml_node.h"

static bool say(struct weir_serve_said *ret_said, const char *text)
{
    (void)snprintf(ret_said->text, sizeof(ret_said->text), "weir: %.590s", text);
    return false;
}

void weir_serve_envoy_say(const struct weir_serve_envoy *envoy, const struct weir_config_fault *fault,
                          struct weir_serve_said *ret_said)
{
    struct weir_envoy_rules_fault placed;
    weir_envoy_rules_place(envoy->rules, fault, &placed);
    (void)snprintf(ret_said->text, sizeof(ret_said->text), "%.599s", placed.text);
}

/* Whether the file has limits as well: of the two, one decides. */
static bool is_alone(const struct weir_serve_flags *flags, const struct weir_config *config,
                     struct weir_serve_said *ret_said)
{
    struct weir_config_fault fault;
    if (config->rules.store.size > 0)
        return say(ret_said, "rules: names a store, and --ratelimit-config a folder: the limits are in one of them");
    if (config->stored.size > 0 || config->limits_count == 0)
        return true;
    (void)weir_config_fail(&fault, WEIR_EINVAL, config->limits[0].mark,
                           "with --ratelimit-config all limits are in the files of its folder, and none in this one");
    weir_config_fault_format(&fault, flags->config_file, ret_said->text, sizeof(ret_said->text));
    return false;
}

static bool load(struct weir_serve_envoy *envoy, const char *folder, bool attempts, struct weir_serve_said *ret_said)
{
    struct weir_envoy_rules *rules = NULL;
    struct weir_envoy_rules_fault fault;
    char *name = strdup(folder);
    free(envoy->folder);
    envoy->folder = name;
    if (!name)
        return say(ret_said, "out of memory");
    envoy->loaded = weir_envoy_rules_mark(folder); /* before it is read: what is written meanwhile is read again */
    if (weir_envoy_rules_load(folder, attempts, &rules, &fault)) {
        (void)snprintf(ret_said->text, sizeof(ret_said->text), "%.599s", fault.text);
        return false;
    }
    weir_envoy_rules_destroy(envoy->rules);
    envoy->rules = rules;
    return true;
}

/* All that is wrong is too long for one line: the first, and whether there is more. */
static bool put(const struct weir_serve_envoy *envoy, struct weir_config **config, struct weir_serve_said *ret_said)
{
    struct weir_config *with = NULL;
    struct weir_config_faults *faults = calloc(1, sizeof(*faults));
    if (!faults)
        return say(ret_said, "out of memory");
    int error = weir_config_with_rules(*config, envoy->rules->text, &with, faults);
    if (error) {
        weir_serve_envoy_say(envoy, &faults->list[0], ret_said);
        const size_t size = strlen(ret_said->text);
        (void)snprintf(ret_said->text + size, sizeof(ret_said->text) - size, "%s",
                       faults->count > 1 ? " (and more)" : "");
    } else {
        weir_config_destroy(*config);
        *config = with;
    }
    free(faults);
    return error == 0;
}

bool weir_serve_envoy_put(struct weir_serve_envoy *envoy, const struct weir_serve_flags *flags, bool anew,
                          struct weir_config **config, struct weir_serve_said *ret_said)
{
    const char *folder = flags->ratelimit_config ? flags->ratelimit_config : (*config)->envoy_folder;
    if (!folder) {
        weir_serve_envoy_deinit(envoy); /* it was taken out of the file */
        return true;
    }
    if (anew && (!is_alone(flags, *config, ret_said) || !load(envoy, folder, (*config)->envoy_count_all, ret_said) ||
                 !put(envoy, config, ret_said)))
        return false;
    (*config)->envoy_folder = weir_arena_copy((*config)->arena, envoy->folder, strlen(envoy->folder));
    return (*config)->envoy_folder ? true : say(ret_said, "out of memory");
}

void weir_serve_envoy_warn(const struct weir_serve_envoy *envoy, const struct weir_config *config)
{
    struct weir_envoy_rules_fault placed;
    for (size_t i = 0; i < config->warnings_count; i++) {
        struct weir_config_fault warning = { .mark = config->warnings[i].mark };
        (void)snprintf(warning.text, sizeof(warning.text), "%s", config->warnings[i].text);
        weir_envoy_rules_place(envoy->rules, &warning, &placed);
        weir_serve_warn(config, "%s", placed.text);
    }
}

bool weir_serve_envoy_changed(struct weir_serve_envoy *envoy)
{
    if (!envoy->folder)
        return false;
    const uint64_t mark = weir_envoy_rules_mark(envoy->folder);
    const bool settled = mark == envoy->seen;
    envoy->seen = mark;
    return settled && mark != envoy->loaded;
}

void weir_serve_envoy_deinit(struct weir_serve_envoy *envoy)
{
    weir_envoy_rules_destroy(envoy->rules);
    free(envoy->folder);
    *envoy = (struct weir_serve_envoy){ NULL };
}
