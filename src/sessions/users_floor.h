/* SPDX-License-Identifier: Apache-2.0
 *
 * The floor: what a user that is not found is taken to have seen. What the primary showed when it was asked last, and
 * the tokens of those that were evicted since.
 *
 * Who uses it says from when on it must have been asked (after_ns). One thread asks at a time; those that come while it
 * does wait for it, or for the next one, where the one under way was sent too early for them.
 *
 * What the primary shows may be visible at a standby before it is at the primary: its places are marked so.
 *
 * A primary that takes over, or crashes, may have cut off what the last answer showed. It is asked anew, so that who
 * was never heard of is not told of a loss.
 *
 * The evicted are kept in two generations of at least ttl each: a place that was lost stands beside what the primary
 * shows in each token made of them, and must not do so for ever. A generation goes only when the primary was asked
 * after it. So that they end with it, such places are not stored for the users that come back meanwhile, who would
 * carry them on into the next: these owe them, and are shown them when they are asked for.
 *
 * Times are of CLOCK_MONOTONIC. Any thread. */
#pragma once

#include <pthread.h>

#include "sessions/users.h"

struct weir_users_floor {
    int (*newest)(void *context, uint64_t deadline_ns, struct weir_session_token *ret_token, uint64_t *ret_changes);
    void *context;
    uint64_t ttl_ns;
    pthread_mutex_t lock;
    pthread_cond_t told;
    bool asking;
    uint64_t base_ns;   /* when the base was asked for; 0: it never was */
    uint64_t needed_ns; /* one that was asked before is not enough: something was forgotten that is not kept */
    uint64_t turned_ns; /* when the present generation began */
    uint64_t failed_ns; /* when the last question ended without an answer; 0: it had one */
    uint64_t tended_ns; /* when it was asked for without need */
    struct weir_session_token base, kept[2];
    uint32_t generation; /* of kept[0]; from 2 on: kept[1] is of the one before */
    uint64_t answers;
    uint64_t changes;      /* of the primary, that were known */
    uint64_t base_changes; /* those that were when the base was shown: fewer, and it is another primary's */
};

int weir_users_floor_init(struct weir_users_floor *floor, const struct weir_users_options *options);
void weir_users_floor_deinit(struct weir_users_floor *floor);

/* To be stored for a user that comes (back), without asking: what goes with that which the primary shows. *ret_owes:
 * the generation up to which it owes the rest; 0: there is none. WEIR_EDOWN: it must be asked for. */
int weir_users_floor_take(struct weir_users_floor *floor, const struct weir_known *known,
                          struct weir_session_token *ret_token, uint32_t *ret_owes);

/* Adds what a user owes, as long as it is kept. */
void weir_users_floor_owe(struct weir_users_floor *floor, uint32_t owes, const struct weir_known *known,
                          struct weir_session_token *token);

/* Asks if need be, again and again until deadline_ns: then WEIR_EDOWN. */
int weir_users_floor_get(struct weir_users_floor *floor, uint64_t after_ns, uint64_t deadline_ns,
                         const struct weir_known *known, struct weir_session_token *ret_token);

/* What the primary shows now, without the evicted. */
int weir_users_floor_newest(struct weir_users_floor *floor, uint64_t deadline_ns, struct weir_session_token *ret_token);

/* Somebody's token is forgotten. Where it cannot be kept, a new floor is needed, and losses before are told no more. */
void weir_users_floor_keep(struct weir_users_floor *floor, const struct weir_session_token *token,
                           const struct weir_known *known);

/* Asks, if nobody else does, for a floor that is not needed yet and soon will be: it is older than before_ns, or a
 * generation is over. Once a second at most; what goes wrong is tried again by those that need it. */
void weir_users_floor_tend(struct weir_users_floor *floor, uint64_t before_ns, uint64_t deadline_ns);

uint64_t weir_users_now_ns(void); /* CLOCK_MONOTONIC */
