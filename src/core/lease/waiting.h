/* SPDX-License-Identifier: Apache-2.0
 *
 * The wait queue of one lock: who is next, on whose behalf the store is asked, who has gone. Pure: links live in the
 * waiters, which the host owns; time is an argument. The host is the manager (locks/manager.h), on its thread or in
 * the simulator: it asks the store, brings the answers here, and does what is decided.
 *
 * The store is asked on behalf of the first alone, at `ask_ns`, so nobody passes those who wait. But one who needs a
 * raise that is not due yet is left out until it is: he keeps his place, and does not keep a free lock from the others.
 * And of who may hold the lock already the store is asked as of its holder, by a renewal: that grants nothing anew. */
#pragma once

#include "core/lease/waiter.h"
#include "weir/fence.h"

#define WEIR_WAITING_OWNER_MAX 256
#define WEIR_WAITING_AGAIN_MIN_NS UINT64_C(200000)     /* between two questions about one lock */
#define WEIR_WAITING_AGAIN_MAX_NS UINT64_C(5000000000) /* the store's clock may run ahead, or jump as a machine wakes */
#define WEIR_WAITING_AGAIN_DOWN_NS UINT64_C(100000000) /* when the store could not say */

/* All zeros is an empty one, whose first is asked for at once. */
struct weir_waiting {
    struct weir_waiter *first, *last;
    struct weir_waiter *asked; /* for whom the store is being asked; NULL: for nobody */
    size_t count;
    size_t new_count; /* of them: those whose wait has not begun */
    uint64_t poll_ns; /* others may change the store too: look again so often; 0: nobody else does */
    uint64_t ask_ns;  /* when its next is asked for; UINT64_MAX: it is being asked for */
    /* What is known of the lock. */
    bool told; /* the store has answered: who comes now has to wait for somebody */
    bool down; /* the last answer was none */
    bool held; /* by `holder` as of known_ns, until held_until_ns if it does not renew */
    uint64_t known_ns, held_until_ns;
    uint64_t learned; /* so many times a holder was told */
    struct weir_token token;
    char holder[WEIR_WAITING_OWNER_MAX];
    size_t holder_size;
};

/* What becomes of one who is in the queue. */
enum weir_waiting_fate {
    WEIR_WAITING_STAYS,  /* nothing new; of one who comes: let it join */
    WEIR_WAITING_BEGINS, /* it has to wait: `begin`, and `end` when its time has passed */
    WEIR_WAITING_PROBED, /* it may be the holder: probe it, that is, ask for it by a renewal */
    WEIR_WAITING_ENDS,   /* it leaves, and is told what is known */
};

bool weir_waiting_held_by(const struct weir_waiting *waiting, struct weir_owner owner);

/* ---- who comes ---- */

/* PROBED: it may hold the lock that the others wait for. ENDS: it does not wait, and who holds the lock is known.
 * STAYS: let it join. */
enum weir_waiting_fate weir_waiting_come(const struct weir_waiting *waiting, const struct weir_waiter *waiter,
                                         uint64_t now_ns);
/* Behind `before`, one of the same owner who waits already; NULL: behind all. BEGINS or STAYS. */
enum weir_waiting_fate weir_waiting_join(struct weir_waiting *waiting, struct weir_waiter *waiter,
                                         struct weir_waiter *before, uint64_t now_ns);
void weir_waiting_begin(struct weir_waiting *waiting, struct weir_waiter *waiter);

/* ---- who is next ---- */

/* The next, who is being asked for from now on. NULL: it is being probed as the holder, or all are to be asked for
 * later; `ask_ns` was moved on. */
struct weir_waiter *weir_waiting_ask(struct weir_waiting *waiting, uint64_t now_ns);

enum weir_waiting_said {
    WEIR_WAITING_GRANTED, /* to who was asked for, for lease_ns */
    WEIR_WAITING_HELD,    /* by `holder`, for lease_ns more if it does not renew */
    WEIR_WAITING_DOWN,    /* the store could not say */
    WEIR_WAITING_LATER,   /* it needs a raise, not made before due_ns: it is put off. If it waits already it stays, and
                             if the raise is its own (`seen`), the next is asked for meanwhile */
    WEIR_WAITING_UNFIT,   /* it asked for what cannot be */
};

struct weir_waiting_answer {
    enum weir_waiting_said said;
    struct weir_owner holder;
    struct weir_token token;
    uint64_t lease_ns;
    uint64_t due_ns; /* LATER */
};

struct weir_waiting_news {
    enum weir_waiting_fate fate; /* of who was asked for; ENDS for what is its own alone, too: a grant, UNFIT, LATER */
    bool waited;                 /* GRANTED: another held it since it came, so it is no lease from before */
    bool probe;                  /* the holder is another one now: whoever waits under its name may be it */
    bool wake;                   /* those who are new begin to wait */
};

/* What was said of who was asked for. */
struct weir_waiting_news weir_waiting_hear(struct weir_waiting *waiting, const struct weir_waiting_answer *answer,
                                           uint64_t now_ns);

/* ---- what becomes known beside that ---- */

/* Somebody was probed, and is the holder. True: whoever waits under its name may be it, too, and those who are
 * new begin to wait. False: another is being asked for, which tells more. */
bool weir_waiting_found(struct weir_waiting *waiting, const struct weir_waiting_answer *answer, uint64_t now_ns);
/* It was probed, and is not the holder, or the store could not say. */
enum weir_waiting_fate weir_waiting_denied(struct weir_waiting *waiting, struct weir_waiter *waiter, bool stopping);
/* Somebody has renewed. True: those who are new begin to wait. */
bool weir_waiting_renewed(struct weir_waiting *waiting, const struct weir_waiting_answer *answer, uint64_t now_ns);
/* Nobody holds it any more; this owner does not: the first may have it now. */
void weir_waiting_freed(struct weir_waiting *waiting);
void weir_waiting_disowned(struct weir_waiting *waiting, struct weir_owner owner);

/* ---- who leaves ---- */

/* Its time has passed; `stopping`: so has everybody's. STAYS: it is being asked for, or nobody can be said to hold the
 * lock, so that the next answer tells. */
enum weir_waiting_fate weir_waiting_end(struct weir_waiting *waiting, struct weir_waiter *waiter, bool stopping);
/* Its client went away. STAYS: it is being asked for, or is in no queue. */
enum weir_waiting_fate weir_waiting_gone(struct weir_waiter *waiter);
/* Out of it, wherever it stands. */
void weir_waiting_leave(struct weir_waiting *waiting, struct weir_waiter *waiter, enum weir_waiter_phase to);

/* NULL, or what is wrong with it, for checks: a walk. */
const char *weir_waiting_fault(const struct weir_waiting *waiting);
