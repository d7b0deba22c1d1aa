/* SPDX-License-Identifier: Apache-2.0
 *
 * Stores behind a server: what is there is fetched, merged here, and put back if it is unchanged. So nobody holds a
 * lock of the server's while it waits for another process.
 *
 * When may a user be missing who was added in this epoch? When its ttl is over. So a floor is good that was asked for
 * after this process first saw the epoch, and that is younger than the ttl, with room for clocks. Is the server's clock
 * seen to jump, or does the server say that it threw values out before their time, then a new one is needed. */
#pragma once

#include "sessions/users_inside.h"
#include "sessions/users_value.h"

#define WEIR_USERS_LINKS_MAX 4 /* connections at once; more callers wait for one */

enum weir_users_said {
    WEIR_USERS_ABSENT,
    WEIR_USERS_VALUE,
    WEIR_USERS_ODD, /* something is there that cannot be a value of ours */
};

struct weir_users_fetched {
    char epoch[WEIR_USERS_EPOCH_SIZE + 1]; /* the server's, of the same moment */
    enum weir_users_said said;
    bool evicts;        /* it may throw values out before their time */
    bool old;           /* to be written again for its ttl's sake, though nothing has changed */
    uint64_t evictions; /* so far; not with WEIR_USERS_VALUE */
    uint64_t wall_ns;   /* by the server's clock */
    size_t size;
    char value[WEIR_USERS_VALUE_MAX]; /* with WEIR_USERS_VALUE */
};

struct weir_users_remote;

struct weir_users_remote_ops {
    void *(*link_create)(struct weir_users_remote *remote); /* NULL: no memory. Not connected yet */
    void (*link_destroy)(void *link);
    /* By deadline_ns. Begins a new epoch where there is none, or one of another server. WEIR_EIO: the connection broke
     * or was not good for this any more: another try may do. WEIR_EDOWN: none would. */
    int (*fetch)(struct weir_users_remote *remote, void *link, struct weir_users_name name, uint64_t deadline_ns,
                 struct weir_users_fetched *ret_fetched);
    /* Stores the value if the epoch and what is there are as they were fetched; else WEIR_EBUSY. WEIR_EIO: perhaps. */
    int (*swap)(struct weir_users_remote *remote, void *link, struct weir_users_name name,
                const struct weir_users_fetched *before, const char *value, size_t size, uint64_t deadline_ns);
    void (*destroy)(struct weir_users_remote *remote);
};

struct weir_users_remote {
    struct weir_users users; /* first */
    const struct weir_users_remote_ops *ops;
    pthread_mutex_t lock; /* of all below */
    pthread_cond_t freed;
    struct weir_users_link {
        void *link; /* NULL: not made yet */
        bool busy;
    } links[WEIR_USERS_LINKS_MAX];
    char epoch[WEIR_USERS_EPOCH_SIZE + 1]; /* "": none seen yet */
    uint64_t evictions;
    uint64_t ahead_ns; /* of the server's wall clock, of ours: mod 2^64 */
    uint64_t since_ns; /* from when on these three are as they are */
    uint64_t losses, corrupt;
    char fault[160];
};

int weir_users_remote_init(struct weir_users_remote *remote, const struct weir_users_remote_ops *ops,
                           const struct weir_users_options *options);
void weir_users_remote_deinit(struct weir_users_remote *remote); /* with its links */

/* Keeps it for people. */
void weir_users_remote_fault(struct weir_users_remote *remote, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* A new epoch's name. */
void weir_users_epoch_make(char ret_epoch[WEIR_USERS_EPOCH_SIZE + 1]);
