/* SPDX-License-Identifier: Apache-2.0
 *
 * One process of a fault run (tests/live/session_faults.py): actors, a thread each, who read and write a few rows in
 * sessions, hand each other what these have seen, and record it. */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "random.h"
#include "weir/session.h"

#define DRIVE_KEYS_MAX 8
#define DRIVE_NAME_SIZE 24

struct drive {
    const char *folder; /* of the run: history-N, and board/, where tokens lie */
    unsigned number;    /* of the process */
    unsigned users, keys;
    uint64_t seed;
    struct weir_replicas *replicas;
    atomic_bool over, calm; /* calm: nobody writes */
    pthread_mutex_t mutex;
    FILE *history;
};

/* A version of a key, and who made it. */
struct drive_version {
    uint64_t version;
    char tag[DRIVE_NAME_SIZE];
};

struct actor {
    struct drive *drive;
    char name[DRIVE_NAME_SIZE];
    unsigned user;
    struct test_random random;
    struct weir_session *session;
    struct drive_version seen[DRIVE_KEYS_MAX]; /* that its session has to remember */
    unsigned serial;                           /* of its writes */
    uint64_t accepting_ns; /* of what it does now it spent so much waiting for a primary to go on from */
    pthread_t thread;
};

uint64_t drive_now_ns(void);

/* A line of the history: {"op":…, what is said by `format`, "start_ns":…, "end_ns":…}. */
__attribute__((format(printf, 4, 5))) void drive_record(struct drive *drive, const char *op, uint64_t start_ns,
                                                        const char *format, ...);

/* Until drive->over. `argument` is a struct actor, all but its session and its thread filled. */
void *actor_main(void *argument);

/* `count` tokens that are not what they seem, each to a session of its own: none may be shown anything. */
void drive_forge(struct drive *drive, unsigned count);

/* The keys that all processes of a run sign with. */
const struct weir_session_key *drive_keys(unsigned *ret_count);
