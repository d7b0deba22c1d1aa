/* SPDX-License-Identifier: Apache-2.0
 *
 * Users instead of tokens: each user's newest token, merged and never lowered by a late message.
 *
 * What was forgotten must not look like "has seen nothing". One rule for all stores: a user that is found has seen
 * what is stored, and that contains everything that was ever added for it; a user that is not found is taken to have
 * seen the floor: what the primary showed at a moment after the last message that may have been forgotten, which is at
 * least what anybody can have seen by then. So a store that loses all it has makes reads stricter for a moment and
 * none wrong. The floor is no part of what is stored: each process asks for its own (options.newest), keeps it as long
 * as nothing was forgotten since, and answers WEIR_EDOWN while it needs one and the primary cannot be asked.
 *
 * memory: at most users_max; whoever was least recently heard of goes, and its token is merged into the floor. 96
 * bytes per user of one place, up to 450 with several, taken when used; names are not kept, only 128 bits of their
 * keyed hash.
 *
 * redis, postgres: one value per user, forgotten ttl after its last message, merged here and put back if it is
 * unchanged (compare and set). Each value names the epoch that it was written in. The epoch stands beside the values,
 * together with the identity of the server that it began at; whoever finds it missing, or another server than it names
 * (a flush, a restart, a failover, a restored copy), begins a new one in the same atomic step, and values of older
 * epochs are of users not found. So are values that are not ours, which the next message overwrites.
 * docs/reads-users.md: which fault is noticed how, and which is not.
 *
 * Not covered: a loss at the database itself (what weir calls WEIR_ECUTOFF) is not told to users that a store has
 * forgotten; they read what there is now. The memory store tells it all the same to those that it evicted within the
 * last ttl, and with them for so long to every user that is not found.
 *
 * What is added must be believable: the tokens of evicted users are in the floor of all. Check the places that clients
 * bring against what the primary shows before they are added.
 *
 * Calls block (redis, postgres; memory while the floor is asked for): up to timeout_ns each. Any thread. */
#pragma once

#include "core/session/token.h"

struct weir_users;

#define WEIR_USERS_MAX 100000000

struct weir_users_options {
    /* NULL = memory. redis://[user[:password]@]host[:port][,host[:port]…][/database]: the primary among them is used;
     * no TLS, no cluster. postgresql://… as libpq takes it. */
    const char *url;
    uint64_t users_max;  /* memory: 1 to WEIR_USERS_MAX; 0 = 1,000,000 */
    uint64_t ttl_ns;     /* 1 s to 366 days; 0 = 1 day. memory: only how long a loss is told for the evicted */
    uint64_t timeout_ns; /* 1 ms to 60 s; 0 = 1 s */
    /* What the primary shows now, as a token: asked of it after the call began, not remembered; and weir_known.changes
     * of that moment, which says which primary it was. By deadline_ns (CLOCK_MONOTONIC). WEIR_EDOWN: nobody knows.
     * Called by one thread at a time, with no lock held. */
    int (*newest)(void *context, uint64_t deadline_ns, struct weir_session_token *ret_token, uint64_t *ret_changes);
    void *context;
};

/* WEIR_EINVAL, WEIR_ERANGE: an option, named by the fault (never with the url in it); WEIR_ENOMEM. A store that cannot
 * be reached, and a primary that does not answer, are no error yet. */
int weir_users_open(const struct weir_users_options *options, struct weir_users **ret_users,
                    struct weir_fault *ret_fault);
void weir_users_close(struct weir_users *users); /* NULL is allowed */

/* What the user has seen: its token, or the floor. `user`: 1 to WEIR_SESSION_ID_MAX bytes, else WEIR_ERANGE. `known`
 * may be NULL: nothing known. WEIR_EDOWN: the store, or the primary for the floor, cannot be asked: answer that, not an
 * empty token. WEIR_EBUSY: as add. */
int weir_users_get(struct weir_users *users, const void *user, size_t user_size, const struct weir_known *known,
                   struct weir_session_token *ret_token);

/* Merges `seen` into it. *ret_token (may be NULL): what is stored now. With any error it may have been stored or not:
 * add it again, it does no harm. WEIR_EDOWN; WEIR_EBUSY: others changed the same user first, again and again, until the
 * time was over; WEIR_ELIMIT: it has seen WEIR_SESSION_PLACES_MAX places that cannot be merged; WEIR_ENOMEM. */
int weir_users_add(struct weir_users *users, const void *user, size_t user_size, const struct weir_known *known,
                   const struct weir_session_token *seen, struct weir_session_token *ret_token);

/* The user accepted a loss: `token` replaces what is stored, if that still is `before`; else WEIR_EBUSY: get it and
 * accept again. Of a user that is not found (any more) it is stored, merged with what the primary shows now. */
int weir_users_accept(struct weir_users *users, const void *user, size_t user_size,
                      const struct weir_session_token *before, const struct weir_session_token *token);

struct weir_users_stats {
    uint64_t found;     /* users that were */
    uint64_t not_found; /* users that were not: they had the floor */
    uint64_t floors;    /* times the primary was asked for one, with success */
    uint64_t losses;    /* redis, postgres: epochs that ended while this process looked on */
    uint64_t corrupt;   /* values that were not ours */
    uint64_t failures;  /* calls that ended with an error */
    uint64_t evicted;   /* memory */
    uint64_t users;     /* memory: now */
    uint64_t bytes;     /* memory: at most, with the tokens of several places that there are now */
    char fault[160];    /* redis, postgres: what was wrong last, for people; without secrets */
};
void weir_users_stats(struct weir_users *users, struct weir_users_stats *ret_stats);
