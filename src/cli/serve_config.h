/* SPDX-License-Identifier: Apache-2.0
 *
 * From flags and file to what `weir serve` runs, at the start and at each reload. */
#pragma once

#include "rules/config.h"
#include "serve/server.h"
#include "serve/systemd.h"

/* What the command line says; it wins over the file, at each reload too. */
struct weir_serve_flags {
    const char *config_file;
    const char *check_file;
    const char *node;
    const char *locks;            /* NULL = not given */
    const char *take_over;        /* NULL = not given */
    const char *ratelimit_config; /* as well */
    bool insecure;
    bool resp_given, http_given, grpc_given;
    struct weir_address resp, http, grpc;
    uint64_t memory; /* 0 = not given */
    uint32_t threads;
    const struct weir_systemd *systemd; /* whose sockets win over the file; NULL: none were passed */
};

/* Why there is no configuration, and what is to be minded about one that there is; cut to fit. */
struct weir_serve_said {
    char text[600];
};

struct weir_serve_rules; /* cli/serve_rules.h */
struct weir_serve_envoy; /* cli/serve_envoy.h */

/* The file, or the built-in example, with the rules of the store or folder that it names, and the flags over it. `what`
 * of a reload, unless it is the file, takes texts from `in_force`; WEIR_RELOAD_NONE: the start, which has none. NULL:
 * ret_said says why. At the start warnings are printed and the file may be a pipe; a reload counts warnings in
 * ret_said, and reads a regular file only. */
struct weir_config *weir_serve_config_load(const struct weir_serve_flags *flags, struct weir_serve_rules *rules,
                                           struct weir_serve_envoy *envoy, enum weir_reload what,
                                           const struct weir_config *in_force, struct weir_serve_said *ret_said);

/* Whether an address that other machines can reach has no way to tell callers apart, and no word that it needs none:
 * ret_said says which. Such a configuration does not start. */
bool weir_serve_exposed(const struct weir_config *config, struct weir_serve_said *ret_said);

/* Takes over the configuration, which may be NULL: then it says nothing more. `before`: as of weir_setup_create. NULL:
 * ret_said says why. */
struct weir_setup *weir_serve_setup_make(const struct weir_serve_flags *flags, const struct weir_serve_rules *rules,
                                         const struct weir_serve_envoy *envoy, struct weir_limiter *limiter,
                                         const struct weir_setup *before, struct weir_config *config, const char *by,
                                         struct weir_serve_said *ret_said);

/* ---- what a reload does not take ---- */

/* A hash of each key that is read at the start only. */
#define WEIR_SERVE_FIXED_MAX 17
struct weir_serve_fixed {
    uint64_t hashes[WEIR_SERVE_FIXED_MAX];
};

struct weir_serve_fixed weir_serve_fixed_of(const struct weir_config *config);

/* "engine.redis, locks": the keys that differ; "" if none does. */
void weir_serve_fixed_differ(const struct weir_serve_fixed *one, const struct weir_serve_fixed *other, char *buffer,
                             size_t size);
