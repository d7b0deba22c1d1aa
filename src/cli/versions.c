/* SPDX-License-Identifier: Apache-2.0
 *
 * What the verbs of `weir rules` on a store have in common: questions to the store with their complaints, and what two
 * texts say otherwise. Called by versions_verbs.c, versions_history.c and versions_apply.c. */
#include "cli/versions.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/units.h"
#include "cli/plain.h"
#include "rules/changes.h"

uint64_t weir_versions_deadline(const struct weir_versions *versions)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * WEIR_NS_PER_SECOND + (uint64_t)now.tv_nsec + versions->config->rules.timeout_ns;
}

bool weir_versions_complain(const struct weir_versions *versions, int error, const struct weir_fault *fault)
{
    const char *name = versions->store ? weir_rule_store_name(versions->store) : versions->config_file;
    char plain[WEIR_PLAIN_SIZE(256)];
    fprintf(stderr, "weir: %s: %s%s%s\n", weir_plain(name, plain, sizeof(plain)), fault->field,
            fault->field[0] ? " " : "", fault->text[0] ? fault->text : weir_error_text(error));
    return false;
}

bool weir_versions_head(const struct weir_versions *versions, struct weir_rule_head *ret_head)
{
    struct weir_fault fault = { 0 };
    int error = weir_rule_store_head(versions->store, weir_versions_deadline(versions), ret_head, &fault);
    return error ? weir_versions_complain(versions, error, &fault) : true;
}

bool weir_versions_read(const struct weir_versions *versions, uint64_t number, struct weir_rule_version *ret_version,
                        char **ret_text)
{
    struct weir_fault fault = { 0 };
    int error = weir_rule_store_read(versions->store, number, weir_versions_deadline(versions), ret_version, ret_text,
                                     &fault);
    return error ? weir_versions_complain(versions, error, &fault) : true;
}

void weir_versions_change(const struct weir_versions *versions, struct weir_slice before, struct weir_slice after,
                          struct weir_versions_changes *ret_changes)
{
    struct weir_config *old = NULL, *now = NULL;
    struct weir_changes changes = { 0 };
    struct weir_config_faults *faults = calloc(1, sizeof(*faults));
    const struct weir_slice none = { "limits: []\n", 11 };
    ret_changes->text[0] = '\0';
    if (faults && !weir_config_with_rules(versions->config, before.size ? before : none, &old, faults) &&
        !weir_config_with_rules(versions->config, after, &now, faults) &&
        !weir_config_changes(old, 0, now, 0, &changes))
        (void)snprintf(ret_changes->text, sizeof(ret_changes->text), "%s", changes.text);
    weir_config_destroy(old);
    weir_config_destroy(now);
    free(faults);
}
