/* SPDX-License-Identifier: Apache-2.0
 *
 * What the verbs of `weir rules` on a store have in common: questions to the store with their complaints. Called by
 * versions_verbs.c, versions_history.c and versions_apply.c. */
#include "cli/versions.h"

#include <stdio.h>

#include "base/fault_format.h"
#include "cli/plain.h"

struct weir_rule_editor weir_versions_editor(const struct weir_versions *versions)
{
    return (struct weir_rule_editor){ .store = versions->store,
                                      .config = versions->config,
                                      .timeout_ns = versions->config->rules.timeout_ns };
}

static uint64_t deadline_of(const struct weir_versions *versions)
{
    const struct weir_rule_editor editor = weir_versions_editor(versions);
    return weir_rule_editor_deadline(&editor);
}

bool weir_versions_complain(const struct weir_versions *versions, int error, const struct weir_fault *fault)
{
    const char *name = versions->store ? weir_rule_store_name(versions->store) : versions->config_file;
    char plain[WEIR_PLAIN_SIZE(256)];
    const char *field = weir_fault_subject(fault);
    fprintf(stderr, "weir: %s: %s%s%s\n", weir_plain(name, plain, sizeof(plain)), field, field[0] ? " " : "",
            fault->text[0] ? fault->text : weir_error_text(error));
    return false;
}

bool weir_versions_head(const struct weir_versions *versions, struct weir_rule_head *ret_head)
{
    struct weir_fault fault = { 0 };
    int error = weir_rule_store_head(versions->store, deadline_of(versions), ret_head, &fault);
    return error ? weir_versions_complain(versions, error, &fault) : true;
}

bool weir_versions_read(const struct weir_versions *versions, uint64_t number, struct weir_rule_version *ret_version,
                        char **ret_text)
{
    struct weir_fault fault = { 0 };
    int error = weir_rule_store_read(versions->store, number, deadline_of(versions), ret_version, ret_text, &fault);
    return error ? weir_versions_complain(versions, error, &fault) : true;
}
