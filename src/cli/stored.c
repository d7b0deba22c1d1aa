/* SPDX-License-Identifier: Apache-2.0
 *
 * The file is loaded; if it names a store, the version is read there and takes the place of the file's rules, and if it
 * names a folder of envoyproxy/ratelimit's files, what they say; then both are compiled as a server would
 * (rules/ruleset.c). Called by explain.c and rules.c. */
#include "cli/stored.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fault_format.h"
#include "modules/module.h"
#include "rules/editor.h"
#include "rules/envoy_rules.h"

/* Number 0: the newest that nodes decide by. */
static int read_version(const struct weir_rule_editor *editor, uint64_t number, struct weir_rule_version *ret_version,
                        char **ret_text, struct weir_fault *ret_fault)
{
    struct weir_rule_head head = { 0 };
    if (number > 0)
        return weir_rule_store_read(editor->store, number, weir_rule_editor_deadline(editor), ret_version, ret_text,
                                    ret_fault);
    int error = weir_rule_store_head(editor->store, weir_rule_editor_deadline(editor), &head, ret_fault);
    if (!error)
        error = weir_rule_editor_decided(editor, head.number, ret_version, ret_text, ret_fault);
    if (error || ret_version->number > 0)
        return error;
    (void)snprintf(ret_fault->text, sizeof(ret_fault->text), "has no version yet");
    return WEIR_ENOENT;
}

/* The text of the version, to be freed; NULL: `untold` says why. */
static char *ask(const struct weir_config *config, uint64_t number, size_t *ret_size, struct weir_stored *stored)
{
    const struct weir_rule_store_options options = { .spec = config->rules.store.data, .table = config->rules.table };
    struct weir_rule_editor editor = { .config = config, .timeout_ns = config->rules.timeout_ns };
    struct weir_rule_version version;
    struct weir_fault fault = { 0 };
    const struct weir_module *module;
    char *text = NULL, lacks[WEIR_MODULE_SAID_SIZE];
    if (strncmp(options.spec, "sqlite:", 7) != 0 && weir_module_load(WEIR_MODULE_POSTGRES, &module, lacks)) {
        (void)snprintf(stored->untold, sizeof(stored->untold), "rules in postgres need %.300s", lacks);
        return NULL;
    }
    int error = weir_rule_store_open(&options, &editor.store, &fault);
    if (!error)
        error = read_version(&editor, number, &version, &text, &fault);
    const char *name = editor.store ? weir_rule_store_name(editor.store) : "the store of rules";
    if (error)
        (void)snprintf(stored->untold, sizeof(stored->untold), "%.120s: %s%s%s", name, weir_fault_subject(&fault),
                       weir_fault_subject(&fault)[0] ? " " : "", fault.text[0] ? fault.text : weir_error_text(error));
    else
        (void)snprintf(stored->name, sizeof(stored->name), "version %" PRIu64 " of %.120s", version.number, name);
    *ret_size = error ? 0 : version.text_size;
    weir_rule_store_close(editor.store);
    return text;
}

/* Takes the place of *config. */
static int put_version(struct weir_config **config, uint64_t number, struct weir_config_faults *ret_faults,
                       struct weir_stored *stored)
{
    struct weir_config *with = NULL;
    size_t size = 0;
    char *text = ask(*config, number, &size, stored);
    int error = text ? weir_config_with_rules(*config, (struct weir_slice){ text, size }, &with, ret_faults) : 0;
    free(text);
    if (with) {
        weir_config_destroy(*config);
        *config = with;
    }
    return error;
}

static int told(struct weir_config_fault *fault, int error, const struct weir_envoy_rules_fault *placed)
{
    fault->mark = (struct weir_mark){ 0, 0 };
    (void)snprintf(fault->text, sizeof(fault->text), "%.399s", placed->text);
    return error;
}

/* Takes the place of *config. Faults are told of the folder's files; marks are of the text that is printed of them. */
static int put_folder(struct weir_config **config, struct weir_config_faults *ret_faults, struct weir_stored *stored)
{
    struct weir_config *with = NULL;
    struct weir_envoy_rules *rules = NULL;
    struct weir_envoy_rules_fault placed;
    const char *folder = (*config)->envoy_folder;
    int error = weir_envoy_rules_load(folder, (*config)->envoy_count_all, &rules, &placed);
    ret_faults->count = 1;
    if (error)
        return told(&ret_faults->list[0], error, &placed);
    error = weir_config_with_rules(*config, rules->text, &with, ret_faults);
    for (size_t i = 0; error && i < ret_faults->count; i++) {
        weir_envoy_rules_place(rules, &ret_faults->list[i], &placed);
        (void)told(&ret_faults->list[i], error, &placed);
    }
    (void)snprintf(stored->name, sizeof(stored->name), error ? "%.0s" : "weir rules import ratelimit %.120s", folder);
    if (!error) {
        weir_config_destroy(*config);
        *config = with;
    }
    weir_envoy_rules_destroy(rules);
    return error;
}

int weir_stored_ruleset(const char *file, const char *node, uint64_t version, struct weir_ruleset *ret_ruleset,
                        struct weir_config_faults *ret_faults, struct weir_stored *ret_stored)
{
    struct weir_config *config = NULL;
    *ret_stored = (struct weir_stored){ 0 };
    if (!file)
        return weir_ruleset_init(ret_ruleset, file, node, ret_faults);
    int error = weir_config_load_telling(file, &config, ret_faults);
    if (!error && config->rules.store.size > 0)
        error = put_version(&config, version, ret_faults, ret_stored);
    if (!error && config->envoy_folder)
        error = put_folder(&config, ret_faults, ret_stored);
    if (!error && node) {
        ret_faults->count = 1;
        error = weir_config_be(config, node, &ret_faults->list[0]);
    }
    if (!error)
        return weir_ruleset_of(config, ret_ruleset, ret_faults);
    weir_config_destroy(config);
    return error;
}
