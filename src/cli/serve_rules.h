/* SPDX-License-Identifier: Apache-2.0
 *
 * Where the rules of `weir serve` come from: the configuration file itself, or the store that its section `rules`
 * names, and never both. */
#pragma once

#include "cli/serve_config.h"
#include "serve/follower.h"
#include "serve/server.h"

/* All zeros: nothing was loaded yet. */
struct weir_serve_rules {
    struct weir_follower *follower; /* NULL: the file has the rules */
    struct weir_rule_head head;     /* of the version that was loaded last */
    bool started;                   /* it serves: where rules come from is settled */
};

/* Where the file names a store: takes the place of *config, with the newest version in it. The first time it opens the
 * store; should the newest be wrong then, the version that is kept on this machine is taken, with a warning. `node`:
 * this node's name, if the flag --node says it. False: ret_said says why; *config stays. */
bool weir_serve_rules_put(struct weir_serve_rules *rules, struct weir_config **config, const char *node,
                          struct weir_serve_said *ret_said);

/* What is wrong with a limit of the version that was loaded last: "version 42 of the rules:7:3: ...". */
void weir_serve_rules_say(const struct weir_serve_rules *rules, const struct weir_config_fault *fault,
                          struct weir_serve_said *ret_said);

/* ", version 42 of sqlite:/var/lib/weir/rules.db"; "" where the file has the rules. */
void weir_serve_rules_format(const struct weir_serve_rules *rules, char *buffer, size_t size);

/* Of a start: which version is served, and whether the store could be asked. */
void weir_serve_rules_print(const struct weir_serve_rules *rules, const struct weir_config *config);

/* The configuration with what this node decided by last, as far as that is kept here and `config` allows it; else NULL.
 * weir_config_destroy it. */
struct weir_config *weir_serve_rules_before(const struct weir_serve_rules *rules, const struct weir_config *config);

/* Of one that takes over: whom the weir before it may have heard is banned meanwhile. */
void weir_serve_rules_catch_up(const struct weir_serve_rules *rules);

/* Follows the store from now on: each version to follow asks the server to reload. False: there was no memory, which
 * is said. */
bool weir_serve_rules_start(struct weir_serve_rules *rules, struct weir_server *server);
/* Every loop decides by it. */
void weir_serve_rules_in_force(struct weir_serve_rules *rules, const struct weir_setup *setup);
/* Before the server is destroyed: nothing asks it any more. */
void weir_serve_rules_stop(struct weir_serve_rules *rules);
void weir_serve_rules_deinit(struct weir_serve_rules *rules);
