/* SPDX-License-Identifier: Apache-2.0
 *
 * The section `rules`: in which store the set of rules is kept (rules/store.h) that this file then does not have.
 * Called by config.c through the table of sections. No store is opened here. */
#include <limits.h>
#include <string.h>

#include "base/units.h"
#include "rules/secret_decode.h"
#include "rules/section_decode.h"

#define MS WEIR_NS_PER_MS
#define OF(member) offsetof(struct weir_config_rules, member)
#define TABLE_MAX 101

static const struct weir_field rules_fields[] = {
    { "store", weir_password_decode, OF(store), false, 0, 0, NULL },
    { "store_file", weir_password_file_decode, OF(store), false, 0, 0, NULL },
    { "table", weir_decode_text, OF(table), false, 1, TABLE_MAX, NULL },
    { "kept", weir_decode_text, OF(kept), false, 1, PATH_MAX - 100, NULL },
    { "poll", weir_decode_duration, OF(poll_ns), false, 10 * MS, 60000 * MS, NULL },
    { "timeout", weir_decode_duration, OF(timeout_ns), false, 100 * MS, 60000 * MS, NULL },
    { "approval", weir_decode_switch, OF(approval), false, 0, 0, NULL },
};

int weir_rules_decode(struct weir_decode *decode, const struct weir_yaml_node *value, const struct weir_field *field,
                      void *target)
{
    struct weir_config_rules *rules = &((struct weir_config *)target)->rules;
    int error = weir_decode_map(decode, value, field->name, rules_fields, WEIR_COUNT_OF(rules_fields), rules);
    if (error)
        return error;
    const struct weir_yaml_node *file = weir_yaml_find(value, "store_file");
    if (file && weir_yaml_find(value, "store"))
        return weir_config_fail(decode->fault, WEIR_EINVAL, file->mark, "store and store_file exclude each other");
    if (rules->store.size == 0)
        return weir_config_fail(decode->fault, WEIR_EPROTO, value->mark, "rules lacks the key \"store\"");
    if (strncmp(rules->store.data, "sqlite:", 7) != 0 && strncmp(rules->store.data, "postgres://", 11) != 0 &&
        strncmp(rules->store.data, "postgresql://", 13) != 0) /* not shown: it may hold a password */
        return weir_config_fail(decode->fault, WEIR_EINVAL, value->mark,
                                "the store of rules must be sqlite:PATH or postgresql://...");
    return 0;
}
