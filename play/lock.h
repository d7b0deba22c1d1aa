/* SPDX-License-Identifier: Apache-2.0
 *
 * The paused lock holder: one lock, three clients, and a number that they add to, step by step. */
#pragma once

#include "play/play.h"

#define PLAY_CLIENTS 3

enum play_act {
    PLAY_ACQUIRE,
    PLAY_INSTALL, /* its token at the resource */
    PLAY_READ,
    PLAY_LOOK, /* at its own clock: is the lease still mine? A client that knows it is not, ends here */
    PLAY_WRITE,
    PLAY_RENEW,
    PLAY_RELEASE,
    PLAY_PAUSE,
    PLAY_WAKE,
    PLAY_ACTS
};

#define PLAY_NOT_NOW 1 /* no step of this client's program at this point */

enum play_world {
    PLAY_WORLD_NOW_NS,
    PLAY_WORLD_VALUE,
    PLAY_WORLD_ACKNOWLEDGED, /* what all additions come to whose clients were told that they are done */
    PLAY_WORLD_LOST,         /* of them, what is not in the value */
    PLAY_WORLD_MARK,         /* the number of the token that is installed; 0: none */
    PLAY_WORLD_HOLDER,       /* client + 1; 0: nobody */
    PLAY_WORLD_LEASE_NS,     /* until the holder's lease ends, at the service */
    PLAY_WORLDS
};

enum play_of_client {
    PLAY_CLIENT_TOKEN, /* number; 0: none */
    PLAY_CLIENT_PAUSED,
    PLAY_CLIENT_SHOWN, /* what it read; -1: nothing yet */
    PLAY_CLIENT_INSTALLED,
    PLAY_CLIENT_LOOKED,  /* it looked since it read, and the lease was its own */
    PLAY_CLIENT_LEFT_NS, /* for how long it may believe that the lock is its own, by its own clock */
    PLAY_CLIENT_ADDS,
    PLAY_OF_CLIENTS
};

/* `checked`: the resource looks at tokens. `late`: clients read first and install then; else they must install
 * first. */
PLAY_EXPORT(play_lock_begin) void play_lock_begin(bool checked, bool late, double lease_ns);
/* 0, an error of weir/error.h, or PLAY_NOT_NOW: then nothing happened. */
PLAY_EXPORT(play_lock_do) int play_lock_do(uint32_t client, uint32_t act);
PLAY_EXPORT(play_lock_may) bool play_lock_may(uint32_t client, uint32_t act);
PLAY_EXPORT(play_lock_wait) void play_lock_wait(double ns);
PLAY_EXPORT(play_lock_world) double play_lock_world(uint32_t what);
PLAY_EXPORT(play_lock_client) double play_lock_client(uint32_t client, uint32_t what);
/* The text of an error. */
PLAY_EXPORT(play_error) const char *play_error(int error);
