/* SPDX-License-Identifier: Apache-2.0
 *
 * A node of exact-host (sim/exact_host.c) and its parts: what its file says and which definitions are in force
 * (sim/exact_limits.c), and its requests. */
#ifndef WEIR_SIM_EXACT_NODE_H
#define WEIR_SIM_EXACT_NODE_H

#include "engine/fallback.h"
#include "engine/redis/script.h"
#include "engine/revisor.h"
#include "sim/script_double.h"
#include "sim/world.h"

#define EXACT_LIMITS WEIR_SIM_SCRIPT_KEYS /* the first is checked */
#define EXACT_NOTES (2 * EXACT_LIMITS)

enum exact_kind { EXACT_CALL, EXACT_READ, EXACT_WRITE };

/* The head of a message; what it carries comes behind it. */
struct exact_head {
    uint32_t id;
    uint8_t kind;
    bool charged; /* the engine's own word on what it did, and on when it was asked first, for the check: no node */
    struct weir_sim_decision decision; /* decides by them */
    uint16_t keys;                     /* CALL: how many, */
    uint8_t key[EXACT_LIMITS];
    uint64_t note[2]; /* READ, WRITE */
    uint32_t size;    /* of what comes behind; READ: how much is wanted */
};

/* A note under way. */
struct exact_note {
    struct weir_remote_note *note; /* NULL: none */
    uint32_t id;
    uint64_t lost_ns;
};

/* A request under way at the engine. */
struct exact_pending {
    struct exact_pending *next;
    uint32_t id;
    uint32_t client;                   /* the request that waits, */
    bool waits;                        /* if one does */
    struct weir_sim_decision decision; /* of the first round: the second is computed for its time */
    uint64_t generation;
    struct weir_remote_request request;
    struct weir_remote_op ops[EXACT_LIMITS];
    struct weir_script_call call; /* last: touched only as far as it has ops */
};

struct exact_node {
    struct weir_remote remote; /* first */
    struct weir_sim *sim;
    uint32_t number;
    bool down;
    uint32_t ids;
    struct weir_breaker breaker;
    struct weir_fallback *fallback;
    struct weir_revisor revisor;
    uint64_t generation; /* of the revisions that are in force */
    const struct weir_remote_limit *limits[EXACT_LIMITS];
    struct weir_limit_spec shares[EXACT_LIMITS];
    uint64_t reloads; /* of any of them */
    struct exact_note notes[EXACT_NOTES];
    struct exact_pending *first, *last; /* by deadline */
    uint64_t turn_ns;                   /* of the revisor */
};

extern const struct weir_breaker_options exact_breaker;

/* What the file says: at the start, and after a reload. */
void exact_limits_own(struct exact_node *self);
/* Puts the newest definitions in force, where they are others than before. */
void exact_limits_follow(struct exact_node *self);

/* One of remote's functions: a definition at the engine is read or written. */
int exact_note(struct weir_remote *remote, struct weir_remote_note *note);
void exact_note_heard(struct exact_node *self, const struct exact_head *head, const uint8_t *bytes);
/* Those that were sent before this are lost; all: WEIR_NEVER. */
void exact_notes_expire(struct exact_node *self, uint64_t now_ns);

/* Sends the head and what comes behind it. */
void exact_send(struct weir_sim *sim, uint32_t from, uint32_t to, struct exact_head *head, const void *bytes,
                size_t size);

#endif
