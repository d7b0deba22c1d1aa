/* SPDX-License-Identifier: Apache-2.0
 *
 * What this node's file says of limits that have revisions (limits/revisor.h). Thread rule: the server's thread;
 * met: that of the first loop. */
#pragma once

#include "limits/revisor.h"
#include "rules/config.h"
#include "rules/rules.h"

/* A revisor with the limits that the node starts with. `before`: those by which it decided when it ended, NULL: not
 * known; then what is otherwise now has come since, as by a reload. WEIR_ENOMEM. */
int weir_own_limits_init(struct weir_revisor *revisor, const struct weir_config *before,
                         const struct weir_config *config);
void weir_own_limits_deinit(struct weir_revisor *revisor);

/* The limits of a file that was reloaded, which may be the newest now. WEIR_ENOMEM: those before count, and it is to be
 * called again. */
int weir_own_limits_reload(struct weir_revisor *revisor, const struct weir_config *config);

/* What the keys of these say of revisions that nobody told; of some of them, at the next call of the next. */
void weir_own_limits_met(struct weir_revisor *revisor, const struct weir_rules *rules);
