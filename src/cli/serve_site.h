/* SPDX-License-Identifier: Apache-2.0
 *
 * The documentation that `weir serve` serves at /docs, where there is one beside it. A thread of its own reads it, so
 * that a start does not wait for some hundred files. */
#pragma once

#include <pthread.h>

#include "base/beside.h"
#include "observe/logger.h"
#include "rules/config.h"
#include "serve/site.h"

struct weir_serve_site {
    struct weir_site_place place; /* what the server gets */
    struct weir_beside folder;
    pthread_t thread;
    bool is_thread;
    struct weir_config shown; /* how a warning is written, and no more of it */
    char node_name[WEIR_LOGGER_NODE_MAX + 1];
};

/* Where there is none, or HTTP is off, it stays empty. What cannot be used is no reason not to start: it is said. The
 * struct must stay where it is until weir_serve_site_end. */
void weir_serve_site_begin(struct weir_serve_site *site, const struct weir_config *config);
void weir_serve_site_end(struct weir_serve_site *site); /* one that was never begun is all zero */
