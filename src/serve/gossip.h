/* SPDX-License-Identifier: Apache-2.0
 *
 * The UDP socket of gossip, on the server's own loop: datagrams to limits/gossip_host.h and back, and its turns. The
 * loops that serve only decide at the host.
 *
 * Thread rule: the thread of the server's loop; the host: any. */
#pragma once

#include <uv.h>

#include "limits/gossip_host.h"
#include "limits/revision_talk.h"
#include "rules/rules.h"

struct weir_gossip_server;

/* Opens the socket of config->nodes[config->node]. *ret_gossip is NULL where no limit of `rules` is gossiped and none
 * could be: without nodes, addresses of all of them, and a secret. Who the nodes are is fixed from then on. */
int weir_gossip_server_create(const struct weir_config *config, const struct weir_rules *rules,
                              struct weir_revisions *revisions, uv_loop_t *loop, struct weir_gossip_server **ret_gossip,
                              struct weir_fault *ret_fault);

struct weir_gossip_host *weir_gossip_server_host(struct weir_gossip_server *gossip); /* NULL: NULL */

/* Whether any limit is gossiped. */
bool weir_gossip_is_used(const struct weir_rules *rules);

/* This node knows what the others know, or no limit of `rules` is gossiped. `host` may be NULL. Any thread. */
bool weir_gossip_server_synced(struct weir_gossip_host *host, const struct weir_rules *rules);

/* A reload: the limits as they are now. */
void weir_gossip_server_limits(struct weir_gossip_server *gossip, const struct weir_rules *rules);

/* Says no more and hears nothing. The host stays, for decisions still under way; destroy after the loop has run on. */
void weir_gossip_server_close(struct weir_gossip_server *gossip);
void weir_gossip_server_destroy(struct weir_gossip_server *gossip); /* NULL is allowed */
