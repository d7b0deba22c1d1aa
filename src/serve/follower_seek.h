/* SPDX-License-Identifier: Apache-2.0
 *
 * Which version of the rules a node decides by: the newest one that is no proposal and that is for this node. Called by
 * follower.c.
 *
 * Thread rule: as the store's (rules/store.h): calls block, and one thread at a time has it. */
#pragma once

#include "rules/store.h"

/* Versions in a row that are for other nodes; more: there is none for this one. Proposals do not count. */
#define WEIR_FOLLOWER_BACK_MAX 100

struct weir_follower_seeker {
    struct weir_rule_store *store;
    const char *node;
    uint64_t timeout_ns; /* for one question to the store */
};

struct weir_follower_found {
    struct weir_rule_head head;
    char *text; /* to be freed; NULL: there is none */
    size_t size;
    uint64_t made_ns; /* by the clock of whoever made it */
    uint64_t others;  /* the newest on the way that is for other nodes; 0: none was met */
};

/* From *from on, which is the head of the store, back to `down_to`, which is not asked for any more. Any error of
 * rules/store.h; then nothing is found. */
int weir_follower_seek(const struct weir_follower_seeker *seeker, const struct weir_rule_head *from, uint64_t down_to,
                       struct weir_follower_found *ret_found, struct weir_fault *ret_fault);

/* Whether the store, of which *newest is that for this node and `looked` the newest of all, is behind what is kept on
 * this machine: it has no version of that number, or another one. Of another store nothing is known. */
bool weir_follower_is_behind(const struct weir_rule_head *newest, uint64_t looked, const struct weir_rule_head *kept);
