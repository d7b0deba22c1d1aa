/* SPDX-License-Identifier: Apache-2.0
 *
 * Follows the exceptions of a store of rules (rules/exception.h): asks for the changes after the last one that it has,
 * and puts what they say into the table that loops ask (rules/excepted_keys.h).
 *
 * What it has is taken for what the store had as long as the store still has its last change. Else, and where it is
 * another store, all of it is read anew: the table goes on as it was until that is done. So it is where a change finds
 * no room for the first time: a store has no more than a table, so some must have been removed there by hand.
 *
 * Thread rule: one thread at a time; `keys` of it, any. */
#pragma once

#include "rules/excepted_keys.h"
#include "rules/exception.h"

struct weir_exception_follower {
    struct weir_excepted_keys *keys;
    bool known;                            /* it has been read */
    uint8_t store[WEIR_RULE_CHANGE_SIZE];  /* of which store */
    uint64_t number;                       /* of the last change; 0: there was none */
    uint8_t change[WEIR_RULE_CHANGE_SIZE]; /* its id */
    uint64_t damaged, unknown, over; /* changes that were damaged, of a later weir's kind, for which no room was */
    uint64_t expected;               /* before the first look: the last change that is kept on this machine */
    uint64_t gone_back;              /* times that the store had lost what was read, or was another one */
    bool is_full;                    /* no room was found, and it was not read anew since */
    bool changed;                    /* since whoever asks has cleared it */
};

struct weir_follower_view;

int weir_exception_follower_init(struct weir_exception_follower *follower); /* WEIR_ENOMEM, WEIR_EIO */
void weir_exception_follower_deinit(struct weir_exception_follower *follower);

/* What has come meanwhile, of the store with this id. Each question has `timeout_ns`; with a million exceptions there
 * are a hundred of them at first. Any error of weir_rule_store_exceptions: then it has what it had, or some more. */
int weir_exception_follower_look(struct weir_exception_follower *follower, struct weir_rule_store *store,
                                 const uint8_t id[WEIR_RULE_CHANGE_SIZE], uint64_t timeout_ns, uint64_t wall_ns,
                                 struct weir_fault *ret_fault);

void weir_exception_follower_see(const struct weir_exception_follower *follower, struct weir_follower_view *ret_view);

/* ---- on this machine's disk, for a start without the store ---- */

/* Before the first look at the store with this id: so that it is told (`gone_back`) if that has lost what was kept. */
void weir_exception_follower_expect(struct weir_exception_follower *follower, const char *path,
                                    const uint8_t id[WEIR_RULE_CHANGE_SIZE]);

/* What it has, in a file of its own (as rules/kept.h has files): hashes of keys, and the secret they were made with. */
int weir_exception_follower_keep(const struct weir_exception_follower *follower, const char *path,
                                 struct weir_fault *ret_fault);
/* Before the first look: that goes on from there. WEIR_ENOENT: there is none. Errors of weir_rule_kept_read. */
int weir_exception_follower_load(struct weir_exception_follower *follower, const char *path, uint64_t wall_ns,
                                 struct weir_fault *ret_fault);
/* The bytes of such a file, without what rules/kept.c adds: for a test. WEIR_EPROTO, WEIR_ENOMEM. */
int weir_exception_follower_take(struct weir_exception_follower *follower, const uint8_t *bytes, size_t size,
                                 uint64_t wall_ns);
