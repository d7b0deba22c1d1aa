/* SPDX-License-Identifier: Apache-2.0
 *
 * What one loop has for limits that nodes share: its connection to the engine, its host of leased and batched keys, and
 * the requests under way. Without an engine in the configuration there is no connection and no host. The requests are
 * there all the same: those under gossiped limits. */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <uv.h>

#include "limits/transaction.h"
#include "rules/config.h"
#include "serve/timer.h"

struct weir_loop;
struct weir_common;

#define WEIR_SHARER_SERVERS_MAX 256
#define WEIR_SHARER_LOSSES 16

/* What other threads may read: a picture, up to 100 ms old. */
struct weir_sharer_picture {
    bool ready;
    struct weir_remote_stats remote;
    struct weir_share_host_stats host;
    size_t servers_count;
    struct weir_remote_server servers[WEIR_SHARER_SERVERS_MAX];
};

/* Of one loop. */
struct weir_sharer {
    struct weir_transactions transactions; /* and what they need: the engine, the host */
    struct weir_timer turn;                /* of the host */
    uv_timer_t picture_timer;
    bool closing;            /* as soon as no request is under way */
    uint64_t tells_since_ns; /* of the first loop: what the engine does not know yet; 0: it is not closing */
    bool settling;           /* the host gives back what it holds */
    pthread_mutex_t lock;    /* of the picture */
    struct weir_sharer_picture *picture;
    _Atomic bool alone;                   /* as the picture has it */
    uint64_t losses;                      /* of state, that were seen */
    uint64_t loss_ns[WEIR_SHARER_LOSSES]; /* when number k was, at k % WEIR_SHARER_LOSSES */
};

/* Starts to connect. The fault says what is wrong with the configuration of the engine. */
int weir_sharer_init(struct weir_loop *loop, const struct weir_config *config, struct weir_fault *ret_fault);

/* The loop drains and its connections have gone: tells the engine what it does not know yet of the newest definitions
 * of limits, settles and gives back what is held, then weir_loop_shared_closed is called. */
void weir_sharer_close(struct weir_loop *loop);
void weir_sharer_deinit(struct weir_loop *loop); /* the loop has ended */

/* The loop has moved to another setup: keys of limits that are no more settle. */
void weir_sharer_retire(struct weir_loop *loop);

/* There is an engine, and when the picture was drawn this loop could not ask it, or some server of it withheld a right
 * that weir needs. From any thread. */
bool weir_sharer_alone(struct weir_sharer *sharer);

/* Draws the picture anew. The loop's thread. */
void weir_sharer_draw(struct weir_sharer *sharer);

/* How often the engine lost state in the last `within_ns`; WEIR_SHARER_LOSSES: so often, or more. The loop's thread. */
size_t weir_sharer_losses(const struct weir_sharer *sharer, uint64_t within_ns, uint64_t now_ns);

/* Batched units that the engine has not confirmed, of all loops together. Once they have ended. */
uint64_t weir_sharer_unconfirmed(const struct weir_common *common);

/* From any thread. False: there is no engine. */
bool weir_sharer_look(struct weir_sharer *sharer, struct weir_sharer_picture *ret_picture);
