/* SPDX-License-Identifier: Apache-2.0
 *
 * Fills in a struct weir_rule by hand, as src/rules compiles one for a limit of the configuration: `sharing: exact`,
 * with on_failure and the deadline of cl_throttle, and this node's share for `on_failure: local`. Called by
 * resp_cell.c, which has the commands; where the reply comes later, shared.c destroys the rule. */
#include "serve/cell.h"

#include <stdlib.h>

#include "core/share/split.h"

#define NAME "(CL.THROTTLE)" /* in the engine's keys */

int weir_cell_create(const struct weir_config *config, const struct weir_limit_spec *spec, struct weir_cell **ret_cell,
                     struct weir_fault *ret_fault)
{
    struct weir_cell *cell = calloc(1, sizeof(*cell));
    if (!cell)
        return WEIR_ENOMEM;
    int error = weir_remote_limit_init(&cell->limit, NAME, spec, ret_fault);
    if (error) {
        free(cell);
        return error;
    }
    uint32_t nodes = weir_config_nodes(config);
    cell->limit.keeps_time = true;
    cell->rule = (struct weir_rule){
        .index = WEIR_RULE_THROTTLE,
        .name = "CL.THROTTLE",
        .variant = "",
        .limit = { .remote = &cell->limit,
                   .spec = *spec,
                   .share = nodes > 1 ? weir_split_spec(spec, nodes, (uint32_t)config->node) : *spec,
                   .sharing = WEIR_SHARING_EXACT,
                   .on_failure = config->cl_throttle.on_failure,
                   .deadline_ns = config->cl_throttle.deadline_ns },
        .whole = *spec,
    };
    *ret_cell = cell;
    return 0;
}

void weir_cell_destroy(struct weir_cell *cell)
{
    if (!cell)
        return;
    weir_remote_limit_deinit(&cell->limit);
    free(cell);
}

int weir_cell_key(const struct weir_config *config, struct weir_slice key, struct weir_remote_key *ret_key)
{
    return weir_remote_key_init(config->cluster_secret, NAME, &key, 1, ret_key);
}
