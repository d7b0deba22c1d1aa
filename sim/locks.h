/* SPDX-License-Identifier: Apache-2.0
 *
 * Locks in virtual time: clients; one to three weirs, each with the lock manager that weir serve runs (the manager of
 * src/locks, with its queues, its batches and its timers); a store, embedded in one weir or shared by all of
 * them; a resource of 1 to 5 replicas by core/lease/quorum.h. Clients pause, in the middle of a write too, wait for
 * the lock, come again over a new connection, go away, hold too long, and look; messages are late and get lost;
 * clocks run at different rates and wall clocks step; weirs stop, and are killed between commit and answer; the store
 * stalls, fails, answers late or never, and forgets the newest grants. All of it follows from the seed.
 *
 * What is checked, at every step:
 *     tokens of new grants strictly increase, of a name and of all
 *     no renewal is accepted after the lease has ended
 *     two clients never believe at the same time that they hold the lock, unless the store forgot one of them
 *     a holder is shown every value that was acknowledged to one before it, and never overwrites one that it was not
 *     shown
 *     what was shown to one holder is not unseen by a later one
 *     no write that was begun after a later install was done is acknowledged
 * and of the lock manager (locks_waits.c):
 *     each request is answered exactly once, in time, and so that the store bears it out
 *     who was told that it was not granted is not granted later, and does not hold the lock
 *     within one weir the store is asked for those who wait in order of their arrival
 *     after the last fault nobody waits for a lock that is free
 *     the lists and counts of a manager fit, and nothing is left in one that has answered everybody */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* A mistake that the checks must find. */
enum weir_sim_locks_plant {
    WEIR_SIM_LOCKS_NONE,
    WEIR_SIM_LOCKS_INSTALL_LATE,  /* the token is installed after the read */
    WEIR_SIM_LOCKS_NO_RAISE,      /* the incarnation is not raised, at a start nor when the store went back */
    WEIR_SIM_LOCKS_RENEW_LATE,    /* a renewal is accepted after the lease has ended */
    WEIR_SIM_LOCKS_NOT_DURABLE,   /* a grant is answered before it is durable */
    WEIR_SIM_LOCKS_INSTALL_SHORT, /* F + W <= N */
    WEIR_SIM_LOCKS_READ_SHORT,    /* R + W <= N */
    WEIR_SIM_LOCKS_PLAIN_READ,    /* a read does not raise the mark at the replica that it reads */
    WEIR_SIM_LOCKS_NO_WRITE_BACK,
    WEIR_SIM_LOCKS_PLANTS
};
const char *weir_sim_locks_plant_name(enum weir_sim_locks_plant plant);

struct weir_sim_locks_result {
    const char *broken; /* what, in words; NULL: nothing */
    uint64_t broken_ns; /* virtual time */
    uint64_t duration_ns;
    uint32_t clients, replicas, install, read, write;
    uint64_t events, grants, kept, renewals, lost, fenced, unknown, shown, acknowledged;
    uint64_t pauses, restarts, failovers, forgotten; /* forgotten: grants that failovers took back */
    /* of the lock manager */
    uint32_t weirs, visitors;
    bool shared;                                                   /* the store */
    uint64_t requests, batches, waited, gone, forgone, unanswered; /* gone: their client left; unanswered: killed */
};

/* The same seed and plant always give the same run. */
void weir_sim_locks_run(uint64_t seed, enum weir_sim_locks_plant plant, struct weir_sim_locks_result *ret_result);
