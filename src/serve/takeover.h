/* SPDX-License-Identifier: Apache-2.0
 *
 * A server that can be taken over: it listens for a successor at a path, and hands over to the one that comes, or goes
 * on as if nobody had come (docs/takeover.md). At any time one process decides: this one until it has said GO, and from
 * DECIDING on the successor. In between neither does; if the successor is gone before it said DECIDING, which the
 * kernel tells, this one goes on.
 *
 * What the successor needs is made in this order: connections with TLS are drained, the loops freeze, requests under
 * way are answered, snapshots and the store of locks are left alone, counters go as a snapshot in memory, and
 * connections go.
 *
 * Thread rule: the main thread's, like the server. Loops follow weir_common.handing (loop_hand.c). */
#pragma once

#include "observe/logger.h"
#include "serve/loop.h"
#include "serve/opened.h"
#include "serve/systemd.h"

struct weir_takeover;
struct weir_lock_engine; /* locks/engine.h */

enum weir_takeover_may {
    WEIR_TAKEOVER_MAY,
    WEIR_TAKEOVER_LATER, /* it is asked again, for some seconds */
    WEIR_TAKEOVER_NEVER,
};

struct weir_takeover_options {
    const char *path; /* where successors connect; as long as this */
    int listen_fd;    /* of a predecessor, which it takes over; -1: opens it */
    uv_loop_t *uv;
    struct weir_common *common;
    struct weir_opened *opened; /* WEIR_LISTENERS_MAX */
    struct weir_logger *logger;
    const struct weir_systemd *systemd; /* NULL: nobody is told */

    /* Whether `pid` can take it over now (0: it is in another PID namespace); if not, ret_why says why. */
    enum weir_takeover_may (*may)(void *context, int32_t pid, char *ret_why, size_t why_size);
    /* Opens the store of the locks again. */
    int (*reopen_locks)(void *context, struct weir_lock_engine **ret_engine);
    /* It has ended: the successor, `pid`, decides (`gone`), or this server goes on. pid_fd is of the successor, until
     * weir_takeover_close(); -1: the kernel has none. */
    void (*ended)(void *context, bool gone, int32_t pid, int pid_fd);
    void *context;
};

/* WEIR_EEXIST: another weir listens there; WEIR_EHELD, WEIR_ERANGE, WEIR_EIO, WEIR_ENOMEM. */
int weir_takeover_create(const struct weir_takeover_options *options, struct weir_takeover **ret_takeover,
                         struct weir_fault *ret_fault);

/* This process decides: the file of a predecessor's socket is its own to remove. NULL is allowed. */
void weir_takeover_own(struct weir_takeover *takeover);

/* A successor is being handed over to, or has been: nothing else may change. NULL: false. */
bool weir_takeover_is_active(const struct weir_takeover *takeover);

/* The server ends: it is no longer taken over. False: that is settled already, or being settled, and the files of its
 * sockets may be the successor's. NULL: true. */
bool weir_takeover_cancel(struct weir_takeover *takeover);

void weir_takeover_close(struct weir_takeover *takeover);   /* its handles; NULL is allowed */
void weir_takeover_destroy(struct weir_takeover *takeover); /* after the loop has run on; NULL is allowed */
