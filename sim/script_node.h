/* SPDX-License-Identifier: Apache-2.0
 *
 * What the nodes of a mode have in common whose engine runs weir's script (sim/script_double.h): the messages, and the
 * definitions of their limits: a file, of which the check's limit is reloaded; limits/revisions.h, which knows the
 * newest; and limits/revisor.h, which tells the engine, and hears from it. */
#pragma once

#include "limits/redis/script.h"
#include "limits/revisor.h"
#include "sim/script_double.h"
#include "sim/world.h"

#define WEIR_SIM_TICK_NS (WEIR_NS_PER_SECOND / 40)

enum weir_sim_letter_kind { WEIR_SIM_CALL, WEIR_SIM_READ, WEIR_SIM_WRITE };

/* The head of a message; what it carries comes behind it. */
struct weir_sim_letter {
    uint32_t id;
    uint8_t kind;
    bool charged; /* the engine's own word on what it did, and on when it was asked first, for the check: no node */
    struct weir_sim_decision decision; /* decides by them */
    uint16_t keys;                     /* CALL: how many, */
    uint8_t key[WEIR_SIM_SCRIPT_OPS];
    bool behind;      /* so too: whoever asks may not have heard yet which definition is the newest */
    uint64_t note[2]; /* READ, WRITE */
    uint32_t size;    /* of what comes behind; READ: how much is wanted */
};

/* A note under way. */
struct weir_sim_note {
    struct weir_remote_note *note; /* NULL: none */
    uint32_t id;
    uint64_t lost_ns;
};

struct weir_sim_script_node {
    struct weir_remote remote; /* first */
    struct weir_sim *sim;
    uint32_t number, count; /* count: of limits, of which the first is checked */
    uint32_t absent;        /* mask of limits that its file lacks; they stay as they were until it has them again */
    bool down;
    uint32_t ids;
    struct weir_revisor revisor;
    struct weir_script_clock clock; /* the engine's, as its replies tell it */
    uint64_t turn_ns;               /* of the revisor */
    uint64_t generation;            /* of the revisions that are in force */
    const struct weir_remote_limit *limits[WEIR_SIM_SCRIPT_KEYS];
    struct weir_limit_spec shares[WEIR_SIM_SCRIPT_KEYS];
    uint64_t reloads; /* of any of them */
    /* For the check, of the first one: what the engine has its definition under, how often it told just that which this
     * node has, the highest number after the node's own that a key said, and how often it had been so by then. */
    uint64_t id[2], looks, met_looks;
    uint32_t met;
    struct weir_sim_note notes[2 * WEIR_SIM_SCRIPT_KEYS];
};

/* Its file is read. `note` of the functions is weir_sim_script_node_note. */
void weir_sim_script_node_start(struct weir_sim_script_node *node, struct weir_sim *sim, uint32_t number,
                                uint32_t limits, const struct weir_remote_ops *ops);
void weir_sim_script_node_stop(struct weir_sim_script_node *node);
/* The file is another one. */
void weir_sim_script_node_reload(struct weir_sim_script_node *node);
/* What is due is done; and when something will be. */
void weir_sim_script_node_turn(struct weir_sim_script_node *node);
uint64_t weir_sim_script_node_due_ns(const struct weir_sim_script_node *node);

static inline struct weir_remote_key weir_sim_script_key(uint32_t number)
{
    return (struct weir_remote_key){ .id = { 1, number }, .tag = 1 };
}

/* For the check. Whether the node decides by another definition than that which all decide by who can hear of it; and
 * whether it may decide by an older one: it does, or has just started, or nobody may say yet which is the newest. */
bool weir_sim_script_node_is_left_behind(const struct weir_sim_script_node *node,
                                         const struct weir_remote_limit *limit);
bool weir_sim_script_node_may_be_behind(struct weir_sim_script_node *node, const struct weir_remote_limit *limit);

/* An audit: in the calm all nodes decide by one definition, but for those that are not told yet (NULL: all are). */
const char *weir_sim_script_nodes_agree(struct weir_sim *sim, bool (*is_told)(const struct weir_sim_script_node *node));

/* One of remote's functions: a definition at the engine is read or written. */
int weir_sim_script_node_note(struct weir_remote *remote, struct weir_remote_note *note);
/* READ, WRITE */
void weir_sim_script_node_heard(struct weir_sim_script_node *node, const struct weir_sim_letter *head,
                                const uint8_t *bytes);

/* Sends the head and what comes behind it. */
void weir_sim_letter_send(struct weir_sim *sim, uint32_t from, uint32_t to, struct weir_sim_letter *head,
                          const void *bytes, size_t size);
/* The call of a request is begun; its reply is decoded. */
void weir_sim_letter_begin(struct weir_sim_script_node *node, struct weir_script_call *call,
                           struct weir_remote_request *request);
int weir_sim_letter_decode(struct weir_sim_script_node *node, struct weir_script_call *call,
                           const struct weir_sim_letter *head, const uint8_t *bytes);
/* A call as it is encoded. */
void weir_sim_letter_call(struct weir_sim_script_node *node, struct weir_sim_letter *head,
                          const struct weir_script_call *call);
/* CALL at the engine, by the script itself where the plan brings a server that has it. The engine's clock shows
 * microseconds; returns its time, as the check has it. */
struct weir_sim_decision weir_sim_letter_run(struct weir_sim *sim, struct weir_sim_script *engine,
                                             const struct weir_sim_letter *head, const uint8_t *bytes,
                                             struct weir_sim_script_reply *ret_reply);
/* For the check, behind the run: whether it decided the first key by an older definition, for who may be behind. */
bool weir_sim_letter_is_older(const struct weir_sim *sim, const struct weir_sim_script *engine,
                              const struct weir_sim_letter *head);
/* READ, WRITE at the engine. */
void weir_sim_letter_note(struct weir_sim *sim, struct weir_sim_script *engine, uint32_t from,
                          struct weir_sim_letter *head, const uint8_t *bytes);
