/* SPDX-License-Identifier: Apache-2.0
 *
 * Inside a server: between server.c, which runs it, and server_begin.c, which makes its parts. */
#pragma once

#include "serve/gossip.h"
#include "serve/server.h"
#include "serve/successor.h"
#include "serve/supervisor.h"
#include "serve/takeover.h"
#include "serve/watch.h"

struct weir_server {
    struct weir_common common;
    struct weir_server_options options;
    struct weir_opened opened[WEIR_LISTENERS_MAX];
    struct weir_supervisor supervisor;
    uv_loop_t uv;
    uv_signal_t hup, term, interrupt;
    uv_timer_t maintain, look;
    uv_async_t moved;
    struct weir_logger logger;
    struct weir_watch *watch;
    struct weir_gossip_server *gossip; /* NULL: none */
    struct weir_setup *setup;          /* in force */
    struct weir_setup *retired;        /* loops may still look at it */
    enum weir_reload wanted;           /* came before it served, or while loops were moving to the one before */
    uint64_t generation;               /* of the revisions in `setup` */
    bool untold;                       /* there was no memory to tell other nodes of its limits: it tries again */
    bool unrevised;                    /* others have newer definitions, of which no setup could be made */
    uint64_t again_ns;                 /* before then a setup that failed is not made again */
    _Atomic bool asked;                /* by weir_server_new_rules */
    struct weir_takeover *takeover;    /* NULL: it cannot be taken over */
    struct weir_successor successor;
};

int weir_server_make_loops(struct weir_server *server, struct weir_fault *ret_fault);
int weir_server_open_listeners(struct weir_server *server, struct weir_fault *ret_fault);

/* Whoever comes to take over, from now on; `server` is what the callbacks of the takeover get. */
int weir_server_be_taken_over(struct weir_server *server, struct weir_fault *ret_fault);
