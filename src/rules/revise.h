/* SPDX-License-Identifier: Apache-2.0
 *
 * Nodes of different rule sets: a configuration as its file has it, with those limits in it whose newest definition
 * (limits/revisions.h) is another node's. docs/reload.md says why. */
#pragma once

#include "limits/revisions.h"
#include "rules/config.h"

/* As weir_revision_name_fn has it. */
bool weir_revise_name_of(const char *text, size_t size, char ret_name[WEIR_LIMIT_NAME_MAX + 1]);

/* The limits of the file that have a channel by which nodes can learn of others: those shared through an engine or by
 * gossip. Not split. `config` keeps what they point to. Returns how many; `ret_own` has room for all limits. */
size_t weir_config_owned(const struct weir_config *config, struct weir_revision_own *ret_own);

/* Replaces their definitions by the newest ones, and says which they are (`revision`, `revision_node`). A newest
 * definition that this weir does not understand leaves the file's and sets `undecidable`. Call it before
 * weir_rules_create. WEIR_ENOMEM. */
int weir_config_revise(struct weir_config *config, struct weir_revisions *revisions, uint64_t wall_ns);

/* Whether that would change nothing. */
bool weir_config_is_newest(const struct weir_config *config, struct weir_revisions *revisions, uint64_t wall_ns);
