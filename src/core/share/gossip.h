/* SPDX-License-Identifier: Apache-2.0
 *
 * `sharing: gossip`: nodes tell each other what they admitted; no engine. docs/sharing-gossip.md has the argument.
 *
 * Bound, for N nodes: admitted in any [s,t] <= b + n*(t-s)/p + (N-1+crashes)*slack, whatever is lost, repeated,
 * reordered or partitioned (windows: n + (N-1+crashes)*slack per window). Three numbers of a key keep it:
 *
 *     G  the limit's own state, charged with what was admitted here and with what others say they admitted
 *     H  a bucket of `slack` units that refills n/(pN): what was admitted here and not all others are known to know
 *     V  what the others may admit by their share n/(pN) since the time up to which all they admitted is known here
 *
 * An admission of more than nothing needs remaining(G) - V >= cost and, beside other nodes, H >= cost; a superseded
 * node gives none. V of a node unheard for longer than W is written off: the
 * key ages slower by that node's share.
 *
 * Pure: no clock, no memory, no I/O. The host (the server, or the simulator) finds keys by their id, carries messages
 * (whole, or not at all) and gives memory. A message is a head and words, one word per key:
 *
 *     key = weir_gossip_news(&node, to, &since);
 *     weir_gossip_say(&node, to, since, now, &head);                heard:  weir_gossip_hear(&node, &head, now)
 *     for (; key && it fits; key = key->newer)                              for each word: find or init the key,
 *         weir_gossip_word(&node, key, &event, &word)                           weir_gossip_hear_word(...)
 *     weir_gossip_say_end(&node, &head, key);                               weir_gossip_hear_end(...)
 *
 * What a node knows is a log of keys in the order of their last change; a message covers a stretch of it, and the
 * receiver says how far it has it without a gap. Order, loss and repetition of messages do not matter.
 *
 * Thread rule: a node and all its keys belong together; one thread at a time. Times are of this node's own clock, which
 * does not go back (monotonic, and on through a pause). sliding_log, concurrency and fixed_window with
 * align: first are not gossiped: WEIR_EINVAL. */
#pragma once

#include "base/checked.h"
#include "core/limit/limit.h"
#include "core/share/share.h"

#define WEIR_GOSSIP_NODES_MAX 64

/* ---- a limit ---- */

#define WEIR_GOSSIP_LOSSES 16 /* newest remembered; a key that missed more starts empty */

/* Another node started again (or forgot news we did not have): its share since we last knew all of it is charged. */
struct weir_gossip_loss {
    uint64_t from_ns, at_ns;
    uint64_t unheard_ns; /* the limit's sum then */
};

/* A limit as it is gossiped, part of a node (weir_gossip_limit_add). */
struct weir_gossip_limit {
    uint64_t id;             /* a hash of its name, the same on every node */
    struct weir_limit limit; /* knows debts, and no clock that jumped */
    uint64_t count, period_ns;
    uint64_t slack;
    uint64_t fill_ns;    /* what was admitted longer ago than this no longer counts */
    uint64_t written_ns; /* W = fill: V's reach back, for buckets. Shorter would write off what is merely on its way */
    uint64_t unheard_ns; /* sum over others of the time unheard beyond W, closed pieces */
    struct weir_gossip_loss losses[WEIR_GOSSIP_LOSSES]; /* number k at k % WEIR_GOSSIP_LOSSES */
    uint64_t losses_count;
    struct weir_gossip_limit *next;
};

/* Errors: as weir_limit_check; WEIR_EINVAL for what is not gossiped. */
int weir_gossip_limit_init(struct weir_gossip_limit *limit, uint64_t id, const struct weir_limit_spec *spec,
                           uint64_t slack, struct weir_fault *ret_fault);

/* ---- a node ---- */

struct weir_gossip_key;

/* What a node knows about another one. */
struct weir_gossip_peer {
    uint64_t epoch;      /* 0: never heard */
    uint32_t generation; /* of the epoch, counted here */
    bool synced;
    bool met;                     /* it has heard of this start of ours, so what it says is from after it */
    bool known;                   /* known_ns holds */
    uint64_t seq;                 /* the newest heard */
    uint64_t seq_seen;            /* bit k: seq - k was heard */
    uint64_t heard_ns;            /* when the newest came */
    uint64_t sent_ns;             /* its clock, in the newest: echoed */
    uint64_t known_ns;            /* phi: what it admitted up to then is known here, of every key */
    uint64_t known_since_ns;      /* when that was found out */
    uint64_t have;                /* of its log, what is known here without a gap */
    uint64_t cut;                 /* of its log, up to where gaps were charged */
    uint64_t acked;               /* of our log, what it has */
    uint64_t said_seq;            /* of our messages to it, the newest */
    struct weir_gossip_key *news; /* the first of our log that it does not have */
};

/* Requests refused though the limit, as far as it is known here, has room. */
struct weir_gossip_refusals {
    uint64_t unsynced;   /* started lately, and nobody has told yet what was admitted before */
    uint64_t unheard;    /* V: what others may have admitted since they were last heard */
    uint64_t slack;      /* H: too much that not all others know of */
    uint64_t superseded; /* a later start of our name was heard of */
};

struct weir_gossip {
    uint32_t nodes, self; /* N, and which one this is */
    uint64_t epoch;       /* of this start: grows from start to start */
    uint64_t started_ns, synced_ns;
    bool synced;     /* knows what the others know, or started together with all of them: new keys are fresh */
    bool outran;     /* the epoch was raised above one of before that was heard of */
    bool superseded; /* a later start of our name was heard of: nothing more is admitted here */
    uint64_t twins;  /* messages and words that told of another process of our name */
    struct weir_gossip_refusals refused;
    uint64_t change;                /* the newest of the log */
    uint64_t cut;                   /* of the log, the newest that was forgotten before everybody had it */
    uint64_t floor;                 /* no forgotten key had counted further */
    struct weir_gossip_peer *peers; /* `nodes` of them */
    struct weir_gossip_limit *limits;
    struct weir_gossip_key *oldest, *newest; /* the log */
    struct weir_gossip_key *hot, *hot_last;  /* half their slack used or more, the longest so first */
};

/* `nodes` 1 to WEIR_GOSSIP_NODES_MAX, `self` below it, `peers` has room for `nodes`, `epoch` > 0. */
void weir_gossip_init(struct weir_gossip *node, uint32_t nodes, uint32_t self, uint64_t epoch,
                      struct weir_gossip_peer *peers, uint64_t now_ns);
void weir_gossip_limit_add(struct weir_gossip *node, struct weir_gossip_limit *limit);
void weir_gossip_limit_remove(struct weir_gossip *node, struct weir_gossip_limit *limit); /* no key has it any more */

/* ---- a key ---- */

/* What is said about one node's admissions of one key: cumulative within the epoch. */
struct weir_gossip_entry {
    uint64_t epoch; /* 0: nothing known */
    uint64_t count;
    uint64_t base; /* of `count`, what no longer counts: admitted before the current window, or a fill time ago */
};

/* What a node keeps about another one, of one key. */
struct weir_gossip_about {
    struct weir_gossip_entry entry;
    uint64_t ack;            /* of our count, what it is known to know */
    uint32_t ack_generation; /* of the peer, when it said so */
    uint64_t known_ns;       /* as in the peer, of this key; 0 = never */
};

struct weir_gossip_key {
    uint64_t id[2];
    struct weir_gossip_limit *limit;
    struct weir_state state; /* G */
    weir_u128 spent;         /* H: what is missing from it, in units * p * N */
    uint64_t reserved;
    uint64_t born;                   /* our count when the key was new */
    uint64_t mark_count, mark_ns;    /* our count at a time, for the next base */
    uint64_t window;                 /* that the bases are of; calendar only */
    uint64_t at_ns;                  /* the state is aged up to then */
    uint64_t unheard_ns, losses;     /* of the limit's, what is accounted for */
    struct weir_gossip_entry former; /* what an earlier start of this node admitted */
    uint64_t charged;                /* units, since the key is known here */
    bool followed;                   /* another limit, since it is known here */
    bool is_hot;
    uint64_t change;                 /* its place in the log; 0: not in it */
    struct weir_gossip_about *about; /* one per node; about[self].entry is what was admitted here */
    struct weir_gossip_key *older, *newer, *hot_before, *hot_after;
};

/* A key nobody here knew. `about`: room for node->nodes, zeroed here. */
void weir_gossip_key_init(struct weir_gossip *node, struct weir_gossip_key *key, const uint64_t id[2],
                          struct weir_gossip_limit *limit, struct weir_gossip_about *about, uint64_t now_ns);

/* The key goes on under another limit of the same name (an override, a reload). Both events are of now: `before` has
 * the window of the limit that is left, `event` of the new one. */
void weir_gossip_key_follow(struct weir_gossip *node, struct weir_gossip_key *key, struct weir_gossip_limit *limit,
                            const struct weir_event *before, const struct weir_event *event);
/* The same from one level of the limit to another (WEIR_ON_CHANGE_LEVEL). */
void weir_gossip_key_level(struct weir_gossip *node, struct weir_gossip_key *key, struct weir_gossip_limit *limit,
                           const struct weir_event *before, const struct weir_event *event);

/* RESERVE, COMMIT, CANCEL of event->cost units; event->window for calendar windows. WEIR_SHARE_YES or _NO. */
enum weir_share_say weir_gossip_reserve(struct weir_gossip *node, struct weir_gossip_key *key,
                                        const struct weir_event *event, bool peek, struct weir_verdict *ret_verdict);
void weir_gossip_commit(struct weir_gossip *node, struct weir_gossip_key *key, const struct weir_event *event);
void weir_gossip_cancel(struct weir_gossip *node, struct weir_gossip_key *key, const struct weir_event *event);

/* When the window that the event falls into began, at the earliest; of no bucket. */
uint64_t weir_gossip_window_start(const struct weir_gossip_key *key, const struct weir_event *event);

/* Whether the key may be forgotten: fresh, its slack whole, nothing reserved. `ret_acked`: and all others have its
 * news;
 * else they will charge this node's share for it. */
bool weir_gossip_idle(struct weir_gossip *node, struct weir_gossip_key *key, const struct weir_event *event,
                      bool *ret_acked);
void weir_gossip_forget(struct weir_gossip *node, struct weir_gossip_key *key);

/* Units that not all others are known to know, reserved ones included: U. */
uint64_t weir_gossip_unacked(const struct weir_gossip *node, const struct weir_gossip_key *key);

/* ---- messages ---- */

struct weir_gossip_head {
    uint32_t nodes, from, to;
    uint64_t epoch, seq;
    uint64_t sent_ns;             /* of the sender's clock */
    uint64_t echo_epoch, echo_ns; /* of the receiver's: the newest sent_ns heard from it; 0 = none */
    uint64_t have;                /* of echo_epoch's log, what the sender has */
    uint64_t since, until;        /* the words hold every key of the sender's log in (since, until] */
    uint64_t cut;                 /* up to there the log may lack keys that were forgotten */
    bool complete;                /* and that is all of it */
    bool synced;
};

struct weir_gossip_word {
    uint64_t id[2];
    uint64_t limit; /* its id */
    union {
        uint64_t phase; /* of calendar windows, the host's */
        uint64_t count; /* sliding_counter: units in the sender's window */
    };
    union {
        uint64_t window;       /* of the calendar, that the bases are of; 0 = none */
        uint64_t end_after_ns; /* sliding_counter: the rest of the sender's window; 0: not told (older builds) */
    };
    uint64_t used;                                                  /* units used as the sender has it */
    const struct weir_gossip_entry *entries[WEIR_GOSSIP_NODES_MAX]; /* by node; NULL or epoch 0: nothing known */
};

/* The first key of the peer's news, in the order of the log (key->newer), and where they begin. NULL: no news. */
struct weir_gossip_key *weir_gossip_news(const struct weir_gossip *node, uint32_t to, uint64_t *ret_since);
/* A message whose words will be the news after `since`; or, words out of order being welcome in any message (hot keys),
 * none of them: then call no say_end. */
void weir_gossip_say(struct weir_gossip *node, uint32_t to, uint64_t since, uint64_t now_ns,
                     struct weir_gossip_head *ret_head);
/* `next`: the first key that did not fit, NULL: all did. */
void weir_gossip_say_end(const struct weir_gossip *node, struct weir_gossip_head *head,
                         const struct weir_gossip_key *next);
/* The word about a key as it is now. Its entries point into the key. */
void weir_gossip_word(struct weir_gossip *node, struct weir_gossip_key *key, const struct weir_event *event,
                      struct weir_gossip_word *ret_word);

enum weir_gossip_heard {
    WEIR_GOSSIP_NEW,
    WEIR_GOSSIP_REPLAYED, /* heard before, or of an earlier start of the sender */
    WEIR_GOSSIP_FOREIGN,  /* not to us, or of another number of nodes */
    WEIR_GOSSIP_TWIN,     /* from a process of our own name */
};

/* A message came (its sender is who it says: the host has checked). Unless NEW, nothing else is to be done with it. */
enum weir_gossip_heard weir_gossip_hear(struct weir_gossip *node, const struct weir_gossip_head *head, uint64_t now_ns);
/* One of its words. False: not taken (a window that has not begun here). */
bool weir_gossip_hear_word(struct weir_gossip *node, struct weir_gossip_key *key, const struct weir_gossip_head *head,
                           const struct weir_gossip_word *word, const struct weir_event *event);
/* After its words; `whole`: each was taken. */
void weir_gossip_hear_end(struct weir_gossip *node, const struct weir_gossip_head *head, bool whole, uint64_t now_ns);
