/* SPDX-License-Identifier: Apache-2.0
 *
 * Everything that a reload replaces, as one immutable thing: a loop holds one pointer to it and moves to the next one
 * between two turns, so no request ever sees half of a reload. The old one is destroyed when every loop has moved on.
 */
#pragma once

#include <openssl/ssl.h>

#include "observe/tracer.h"
#include "rules/config.h"
#include "rules/rules.h"
#include "rules/store.h"
#include "serve/auth.h"

/* Where a setup came from. */
struct weir_setup_origin {
    const char *source; /* the file's path, as long as the setup; NULL = the built-in example */
    const char *by;     /* "start", "SIGHUP", "rules": its store has a newer version, or "revision": another node has
                           newer definitions */
    uint64_t wall_ns;   /* when it came into force; 0: the server sets it */
    struct weir_rule_head rules; /* number 0: they stand in the file */
};

struct weir_setup {
    struct weir_setup_origin origin;
    struct weir_config *config;
    struct weir_rules *rules;
    struct weir_auth auth;
    SSL_CTX *tls;                      /* NULL = plain */
    struct weir_tracer_target *traces; /* NULL: there is none, or the tracer has it */
};

/* Makes a setup of `config`, which it takes over on success. Compiles the rules and defines the limits in `limiter` as
 * the last step, when nothing else can fail: on failure `limiter` is as it was. `before`: one of the same file, whose
 * certificate and key are not read again; NULL: there is none. */
int weir_setup_create(struct weir_config *config, struct weir_limiter *limiter, const struct weir_setup *before,
                      struct weir_setup **ret_setup, struct weir_config_fault *ret_fault);
void weir_setup_destroy(struct weir_setup *setup); /* NULL is allowed */
