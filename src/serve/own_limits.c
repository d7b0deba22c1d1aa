/* SPDX-License-Identifier: Apache-2.0
 *
 * Passes the limits that have revisions from the configuration to limits/revisions.c, under the node's name or, where
 * the configuration has none, the host's; and so the revisions that keys say. Called by server.c at the start and after
 * each reload of the file, and by sharer.c. How the definitions of other nodes get into a configuration is in
 * rules/revise.c. */
#include "serve/own_limits.h"

#include <stdlib.h>
#include <unistd.h>

#include "rules/revise.h"

static uint64_t wall_of(void *context)
{
    (void)context;
    return weir_time_read().wall_ns;
}

int weir_own_limits_init(struct weir_revisor *revisor, const struct weir_config *before,
                         const struct weir_config *config)
{
    char host[WEIR_REVISION_NODE_MAX + 1] = "";
    const char *node = config->node_name;
    if (!node && gethostname(host, sizeof(host) - 1) == 0)
        node = host;
    revisor->wall_ns = wall_of;
    int error = weir_revisions_create(config->cluster_secret, node ? node : "", &revisor->revisions);
    if (error)
        return error;
    weir_revisions_check_names(revisor->revisions, weir_revise_name_of);
    error = before ? weir_own_limits_reload(revisor, before) : 0;
    return error ? error : weir_own_limits_reload(revisor, config);
}

void weir_own_limits_deinit(struct weir_revisor *revisor)
{
    weir_revisions_destroy(revisor->revisions);
}

int weir_own_limits_reload(struct weir_revisor *revisor, const struct weir_config *config)
{
    struct weir_revision_own *owned = calloc(config->limits_count + 1, sizeof(owned[0]));
    if (!owned)
        return WEIR_ENOMEM;
    int error = weir_revisions_own(revisor->revisions, owned, weir_config_owned(config, owned),
                                   weir_time_read().wall_ns);
    free(owned);
    return error;
}

void weir_own_limits_met(struct weir_revisor *revisor, const struct weir_rules *rules)
{
    size_t count = weir_rules_count(rules);
    for (size_t i = 0; i < count && i < WEIR_REVISOR_BATCH; i++) {
        const struct weir_rule *rule = weir_rules_limit(rules, revisor->met_next++ % count);
        if (rule->limit.remote)
            weir_revisor_met(revisor, rule->limit.remote);
    }
}
