/* SPDX-License-Identifier: Apache-2.0
 *
 * Locks of a weir server, for C: acquire, know your own deadline, renew, release.
 *
 *     struct weir_locks *locks;
 *     struct weir_lock *lock;
 *     weir_locks_connect(&(struct weir_locks_options){ .address = "127.0.0.1:6380" }, &locks, &fault);
 *     weir_lock_acquire(locks, "backup", 6, &(struct weir_lock_options){ .ttl_ms = 15000, .wait_ms = 60000 }, &lock);
 *     install weir_lock_token(lock) at the resource, then read, then write with it (weir/fence.h)
 *     while (more) { if (!weir_lock_mine(lock)) stop; …; weir_lock_advance(lock); }
 *     weir_lock_release(lock);
 *
 * Answers are granted (0), denied (WEIR_EHELD) or unknown (WEIR_EUNKNOWN): the server may have granted it and the
 * answer was lost. Unknown is never shown as one of the others. A lost answer is asked for again with the same owner,
 * which changes nothing that was granted, for as long as timeout_ms allows (and the wait: a waiter whose connection
 * breaks goes on waiting, behind those who came meanwhile; so does one whose server ends). After that, ask again with
 * an owner of your own choosing: whoever holds the lock keeps its token. Owners that are chosen must be chosen once per
 * holder: two processes with one owner are one holder.
 *
 * The holder's own deadline: the time of sending + the lease - max(lease / 10, 500 ms), on CLOCK_BOOTTIME. "Still
 * mine?" asks nobody. A machine paused together with its clocks does not notice: the check at the resource is for that,
 * and without it a lock protects nothing (weir/fence.h). Tokens protect against slow and paused holders, not against
 * liars.
 *
 * Thread rule: any thread may use any function of one weir_locks or weir_lock; release and disconnect must be the last
 * call for their object. Calls to the server block, at most `timeout_ms` (and the wait; and the resolver's own time to
 * look up a host's name). With `renew` a thread of the library renews at a third of the lease; it takes no signals.
 * After fork() the child may ask nothing of either; the token it may use.
 *
 * Needs a POSIX system with threads; no other library. */
#ifndef WEIR_LOCK_H
#define WEIR_LOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "weir/fence.h"

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#pragma GCC visibility push(default)
#endif

#define WEIR_LOCK_NAME_MAX 1024 /* bytes of a name, any; at least 1 */
#define WEIR_LOCK_OWNER_MAX 256 /* bytes of an owner, any; at least 1 */
#define WEIR_LOCK_TTL_MIN_MS 2000
#define WEIR_LOCK_TTL_MAX_MS 86400000  /* one day */
#define WEIR_LOCK_WAIT_MAX_MS 86400000 /* one day */

/* ---- the server ---- */

struct weir_locks;

struct weir_locks_options {
    const char *address;              /* of RESP: "127.0.0.1:6380", "[::1]:6380" or "unix:/path"; NULL = the first */
    const char *token;                /* AUTH, where the server asks for one; NULL = none */
    unsigned timeout_ms;              /* to connect, and for an answer beyond the wait; 0 = 5000 */
    uint64_t reserved[WEIR_RESERVED]; /* 0 */
};

/* WEIR_EINVAL (the address, the token), WEIR_EIO (nobody answers there, or not as weir does), WEIR_ENOMEM. Connections
 * are made anew when they break. */
WEIR_MUST_CHECK int weir_locks_connect(const struct weir_locks_options *options, struct weir_locks **ret_locks,
                                       struct weir_fault *ret_fault);
void weir_locks_disconnect(struct weir_locks *locks); /* NULL is allowed; after its locks were released */

/* What was wrong last, of all calls for this server and its locks, for people: "connection refused", what the server
 * answered. Empty where nothing was. */
void weir_locks_fault(struct weir_locks *locks, struct weir_fault *ret_fault);

/* ---- one lock ---- */

struct weir_lock;

struct weir_lock_options {
    const void *owner; /* who holds it; the same owner acquiring again keeps the token. NULL = a random one */
    size_t owner_size;
    uint64_t ttl_ms;           /* the lease; WEIR_LOCK_TTL_MIN_MS to _MAX_MS; 0 = 15000 */
    uint64_t wait_ms;          /* for the holder to go, in order of arrival; 0 = do not wait */
    bool renew;                /* a thread renews it at a third of the lease, while the work advances: */
    uint64_t progress_ms;      /* weir_lock_advance must be called at least so often, or nothing is renewed until it is;
                             0 = always renew */
    uint64_t seen_incarnation; /* of a mark that fenced you; the service raises its incarnation above it. 0 = none.
                                  More than a day (86400) above the clock takes a token with the right reset */
    uint64_t reserved[WEIR_RESERVED]; /* 0 */
};

/* 0; WEIR_EHELD (by another, after the wait); WEIR_EUNKNOWN; WEIR_EDOWN (the server was not asked, or says that its
 * store fails and nothing was granted); WEIR_ERANGE, WEIR_EINVAL (an argument); WEIR_ELIMIT (too many wait);
 * WEIR_ENOMEM. */
WEIR_MUST_CHECK int weir_lock_acquire(struct weir_locks *locks, const void *name, size_t name_size,
                                      const struct weir_lock_options *options, struct weir_lock **ret_lock);

/* What to install at the resource and to send with each write. It stays the same as long as the lock is held. */
struct weir_token weir_lock_token(const struct weir_lock *lock);

/* Still mine, by my own clock? No network. Once false it stays false. */
WEIR_MUST_CHECK bool weir_lock_mine(const struct weir_lock *lock);

/* ms until my own deadline, rounded down: so 0 in the last one, and when it has passed or the lock is lost. */
uint64_t weir_lock_left_ms(const struct weir_lock *lock);

/* Renews now. 0; WEIR_ELOST: it is not ours any more, nothing may be written; WEIR_EUNKNOWN, WEIR_EDOWN: the deadline
 * stays where it was. */
WEIR_MUST_CHECK int weir_lock_renew(struct weir_lock *lock);

/* The work says that it advances (see progress_ms). */
void weir_lock_advance(struct weir_lock *lock);

/* Gives it back and frees `lock` (NULL is allowed), whatever is returned. 0; WEIR_ELOST: it had been lost before, by
 * the server's word or by its own deadline; WEIR_EUNKNOWN, WEIR_EDOWN: if it is still held, it returns by itself when
 * the lease ends. Waits for an answer at most until the holder's own deadline, or a second after that has passed. */
int weir_lock_release(struct weir_lock *lock);

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif

#ifdef __cplusplus
}
#endif
#endif
