/* SPDX-License-Identifier: Apache-2.0
 *
 * What is yet to happen, in the order of virtual time; what is due at the same instant, in the order it was pushed.
 * A heap of four children a node, so that a node's children share a cache line, over a pool: no malloc per event once
 * the pool has grown. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum weir_sim_event_kind {
    WEIR_SIM_EVENT_ARRIVE,  /* a load's next request */
    WEIR_SIM_EVENT_FINISH,  /* a request held at a node is committed or cancelled */
    WEIR_SIM_EVENT_MESSAGE, /* a message comes to a place */
    WEIR_SIM_EVENT_TIMER,   /* a node's wake time */
    WEIR_SIM_EVENT_FAULT,   /* a fault begins, or ends (more) */
};

/* Of a node true time, of the engine the time that the check has. */
struct weir_sim_decision {
    uint64_t at_ns, window;
    bool older; /* by a definition that others left behind, asked by who may not have heard of theirs yet */
};

struct weir_sim_event {
    enum weir_sim_event_kind kind;
    uint32_t place;                    /* where it happens; for ARRIVE and FAULT, which one */
    uint32_t from;                     /* MESSAGE: who sent it */
    uint32_t life;                     /* of the node, when it was pushed: a node that crashed has another */
    uint64_t number;                   /* FINISH: the cost; TIMER: which of the node's */
    struct weir_sim_decision decision; /* FINISH */
    uint32_t size;                     /* of `data`; 0 = none */
    uint32_t slot;                     /* of `data`, in the pool */
};

/* `order` tells apart what is due at the same instant: its low bits are enough. */
struct weir_sim_entry {
    uint64_t at_ns;
    uint32_t order, event;
};

struct weir_sim_queue {
    struct weir_sim_entry *heap;
    struct weir_sim_event *events;
    uint32_t *free;
    uint32_t count, room, free_count, order;
};

void weir_sim_queue_init(struct weir_sim_queue *queue);
void weir_sim_queue_deinit(struct weir_sim_queue *queue);
/* Memory that cannot be had ends the program: a simulation cannot go on without. */
void weir_sim_queue_push(struct weir_sim_queue *queue, uint64_t at_ns, const struct weir_sim_event *event);
bool weir_sim_queue_pop(struct weir_sim_queue *queue, uint64_t *ret_at_ns, struct weir_sim_event *ret_event);
