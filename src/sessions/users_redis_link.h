/* SPDX-License-Identifier: Apache-2.0
 *
 * One connection to the primary among some Redis servers: plain TCP, without blocking, whole replies under a deadline
 * (CLOCK_MONOTONIC). Looking up a host's name is the resolver's and may block: give addresses where that matters.
 *
 * Thread rule: one thread. Faults are for people and never carry the password. */
#pragma once

#include "net/redis_reply.h"
#include "sessions/users_redis_url.h"

#define WEIR_USERS_REDIS_RUN_MAX 64
#define WEIR_USERS_REDIS_FAULT_SIZE 160

struct weir_users_redis_link {
    const struct weir_users_redis_url *url;
    const char *script;
    int fd;         /* -1: there is none */
    unsigned first; /* of the hosts: the one that was the primary */
    bool evicts;    /* its policy is to throw values out */
    char run[WEIR_USERS_REDIS_RUN_MAX + 1];
    char script_sha1[41];
    struct weir_redis_reader reader;
    char fault[WEIR_USERS_REDIS_FAULT_SIZE];
};

void weir_users_redis_link_init(struct weir_users_redis_link *link, const struct weir_users_redis_url *url,
                                const char *script);
void weir_users_redis_link_close(struct weir_users_redis_link *link); /* may be opened again */

/* To the primary among the hosts, greeted, with the script loaded. False: none by the deadline; see fault. */
bool weir_users_redis_link_open(struct weir_users_redis_link *link, uint64_t deadline_ns);

/* One command and its reply (freeReplyObject). False: it broke or was late, and is closed; see fault. */
bool weir_users_redis_link_ask(struct weir_users_redis_link *link, int argc, const char *const *argv,
                               const size_t *sizes, uint64_t deadline_ns, redisReply **ret_reply);
