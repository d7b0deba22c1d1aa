/* SPDX-License-Identifier: Apache-2.0
 *
 * Follows a store of rule sets (rules/store.h) for a server. A thread of its own waits for newer versions, keeps the
 * one in force on this machine's disk (rules/kept.h), and tells the store which version this node decides by, since
 * when. It follows the exceptions of the store, too (exception_follower.h), which are in force once read.
 *
 * What it does not: it reads no rules, but for which nodes they are (rules/addressed.h). Who asks for the newest text
 * compiles it, and says afterwards what is in force.
 *
 * Which version is followed: the newest that is for this node and no proposal, if its number is above that in force, or
 * the store is another one. A store that was restored from a backup may be behind: that is told (`behind`), and taken
 * only when the server reads its file again. A start is no other: what is kept here is the version in force then.
 *
 * Thread rule: one thread opens, starts and ends it; the others from any thread. */
#pragma once

#include "rules/excepted_keys.h"
#include "rules/store.h"

struct weir_follower;

struct weir_follower_options {
    const char *spec;    /* as weir_rule_store_options */
    const char *table;   /* the same */
    const char *kept;    /* path; NULL: nothing is kept on this machine. Exceptions are kept at PATH.exceptions */
    uint64_t poll_ns;    /* as weir_rule_store_options */
    uint64_t timeout_ns; /* for one question to the store */
    const char *node;    /* this one's name: who tells the store; 1 to WEIR_RULE_NODE_MAX bytes */
    struct weir_fault *kept_fault; /* NULL, or told what is wrong with what is kept here, where neither can be used */
};

/* Opens the store, which must be there (who adds a version makes it: a node that starts must not bring a store to a
 * later schema, which older nodes cannot read), and reads its newest version that is for this node; if it cannot be
 * asked, or is behind it, the one that is kept here. Blocks for timeout_ns, once for each version that is for others.
 * WEIR_ENOENT: there is no version for it (follower_seek.h). Else any error of rules/store.h and rules/kept.h; the
 * fault says what is wrong with the store. */
int weir_follower_open(const struct weir_follower_options *options, struct weir_follower **ret_follower,
                       struct weir_fault *ret_fault);

/* The newest version for this node that was read: its bytes and a NUL; free() them. WEIR_ENOMEM. */
int weir_follower_newest(struct weir_follower *follower, struct weir_rule_head *ret_head, char **ret_text,
                         size_t *ret_size);

/* What is banned or has a level; as long as the follower. Loops ask it. */
const struct weir_excepted_keys *weir_follower_excepted(const struct weir_follower *follower);

/* Before the start, where the newest cannot be used: what is kept here takes its place, or, if it is that, what the
 * store has, which is behind it. WEIR_ENOENT: there is none. */
int weir_follower_go_back(struct weir_follower *follower, struct weir_fault *ret_fault);

/* By what this node decided last, if that is kept here, and is a version of the store: a text as long as the follower.
 * What the newest version has otherwise came while this node did not run. NULL: not known. */
struct weir_slice weir_follower_before(const struct weir_follower *follower);

/* Before the start, where one takes over: what was banned since this was opened, which the predecessor knows. It asks
 * only shortly, for nobody decides meanwhile; the thread asks again in any case. */
void weir_follower_catch_up(struct weir_follower *follower);

/* From now on `changed` is called, on its own thread, when there is a version to follow. WEIR_ENOMEM. */
int weir_follower_start(struct weir_follower *follower, void (*changed)(void *context), void *context);

/* This node decides by it, which has this text, since then. Kept and told soon, by the thread: a newer version may have
 * been read by then. */
void weir_follower_in_force(struct weir_follower *follower, const struct weir_rule_head *head, struct weir_slice text,
                            uint64_t wall_ns);

/* Another process decides in the place of this one: it keeps and tells from now on, and this one follows only. */
void weir_follower_leave(struct weir_follower *follower);

/* Ends the thread: what it was to keep and to tell it tries once more. Waits for a question that is under way, at most
 * timeout_ns. NULL is allowed. */
void weir_follower_finish(struct weir_follower *follower);
void weir_follower_destroy(struct weir_follower *follower);

struct weir_follower_view {
    const char *store;       /* its name, without secrets */
    uint64_t newest;         /* version for this node that was read last */
    uint64_t others;         /* the newest that is for other nodes; 0: none was read */
    uint64_t looked;         /* so far the store was read: what lies behind `newest` is for others, or a proposal */
    uint64_t in_force;       /* 0: none yet */
    uint64_t delay_ns;       /* from when that was made, by its maker's clock, until it decided here, by this one's */
    bool delay_known;        /* else it was there before the start, or came from this machine's disk */
    bool failing;            /* the store cannot be asked; `fault` says why */
    bool behind;             /* its newest is one before that in force, or of the same number and another text */
    bool from_kept;          /* what was started with is from this machine's disk; not `failing`: the store is behind */
    bool keep_failing;       /* it cannot be kept here; `keep_fault` says why */
    bool tell_failing;       /* the store cannot be told what is in force here; `tell_fault` says why */
    bool exceptions_failing; /* they cannot be read; `exceptions_fault` says why */
    bool exceptions_unkept;  /* they cannot be kept here; `exceptions_keep_fault` says why */
    uint64_t exceptions_change; /* the newest that was read */
    uint64_t exceptions_count;  /* bans and levels that hold; some may have ended */
    uint64_t exceptions_levels; /* of them */
    uint64_t exceptions_resets;
    uint64_t exceptions_damaged;   /* changes that nobody can read */
    uint64_t exceptions_unknown;   /* of a kind that only a later weir knows */
    uint64_t exceptions_gone_back; /* times that the store had lost some that were read, or was another one */
    uint64_t exceptions_over;      /* for which there was no room */
    char fault[200], keep_fault[200], tell_fault[200], exceptions_keep_fault[200];
    char exceptions_fault[400]; /* of the store, and of what is kept here */
};
void weir_follower_view(struct weir_follower *follower, struct weir_follower_view *ret_view);
