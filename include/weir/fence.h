/* SPDX-License-Identifier: Apache-2.0
 *
 * Fencing: the resource's half of a lock. "Am I still the one who may write?"
 *
 * A lock service alone protects nothing: its client may pause after it was granted and wake up after it was replaced.
 * So each grant carries a token that only grows, and the resource remembers the highest it has seen, its mark.
 *
 * The order that makes it safe, per holder:
 *     1. acquire the lock                         the grant carries the token
 *     2. install the token at the resource        before the first read: from here on, older holders are fenced
 *     3. read
 *     4. write, with the token: check and write in one atomic step
 * A write with a token that was never installed is refused (WEIR_ENOTINSTALLED), so that step 2 is hard to forget:
 * reading first and installing later loses acknowledged updates (proofs/, docs/locks.md).
 *
 * Tokens protect against holders that are slow or paused, not against liars: whoever can reach the resource can make up
 * a token.
 *
 * Source: Kleppmann, "How to do distributed locking", 2016; Gray and Cheriton, "Leases", SOSP 1989; the fencing of
 * Apache BookKeeper's ledgers. */
#ifndef WEIR_FENCE_H
#define WEIR_FENCE_H

#include <stddef.h>
#include <stdint.h>

#include "weir/error.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Of one grant. Tokens of one lock are ordered by incarnation, then by number; {0, 0} is before every grant. */
struct weir_token {
    uint64_t incarnation; /* of the service's memory: raised at each start, and whenever its store may have gone back */
    uint64_t number;      /* of the grant within the incarnation */
};

/* Below 0, 0 or above 0, as a is before, equal to or after b. */
static inline int weir_token_compare(struct weir_token a, struct weir_token b)
{
    if (a.incarnation != b.incarnation)
        return a.incarnation < b.incarnation ? -1 : 1;
    return (a.number > b.number) - (a.number < b.number);
}

#if defined(__GNUC__) && !defined(WEIR_CORE_BUILD)
#pragma GCC visibility push(default)
#endif

/* ---- as text ----
 *
 * "INCARNATION.NUMBER": WEIR_FENCE of `weir lock`, the header Weir-Fence of HTTP, the tokens of deploy/fence. Canonical
 * decimals (no sign, no space, no leading zero) from 1 to 2^63 - 1, so that every resource can keep them. */
#define WEIR_TOKEN_PART_MAX ((uint64_t)INT64_MAX)
#define WEIR_TOKEN_TEXT_SIZE 40 /* with its 0 */

/* A token that a grant can carry: both parts 1 to WEIR_TOKEN_PART_MAX. */
static inline int weir_token_valid(struct weir_token token)
{
    return token.incarnation >= 1 && token.incarnation <= WEIR_TOKEN_PART_MAX && token.number >= 1 &&
           token.number <= WEIR_TOKEN_PART_MAX;
}

/* WEIR_EPROTO: it is not exactly that. */
WEIR_MUST_CHECK int weir_token_parse(const void *text, size_t size, struct weir_token *ret_token);
/* WEIR_ERANGE: not a valid one. */
int weir_token_format(struct weir_token token, char ret_text[WEIR_TOKEN_TEXT_SIZE]);

/* ---- the rule, for a store of your own ----
 *
 * Pure: `mark` is where you keep it, durable if the resource is. Both must run in one atomic step with what they
 * protect (a transaction, a mutex). Each returns 0 or an error and leaves the mark alone on error. */

/* Raises the mark. WEIR_EFENCED: a later token is installed. The same token again is 0. */
WEIR_MUST_CHECK int weir_mark_install(struct weir_token *mark, struct weir_token token);

/* May a write with this token go on? WEIR_EFENCED: a later token is installed. WEIR_ENOTINSTALLED: this one is not. */
WEIR_MUST_CHECK int weir_mark_check(const struct weir_token *mark, struct weir_token token);

/* ---- marks by name, for people who write their own store ----
 *
 * Thread rule: any thread. Bounds: `names_max` names; one more is WEIR_ELIMIT, and nothing that is there is lost. */
struct weir_fence;

struct weir_fence_options {
    const char *path; /* marks are kept in this file and survive restarts; NULL = in memory only. Beside it PATH.lock
                         is made, and PATH.new for a moment. A symbolic link is followed; do not use hard links. */
    size_t names_max; /* 0 = WEIR_FENCE_NAMES_DEFAULT */
    uint64_t reserved[WEIR_RESERVED]; /* 0 */
};

#define WEIR_FENCE_NAMES_DEFAULT 65536
#define WEIR_FENCE_NAME_MAX 1024 /* bytes, any; at least 1 */

/* WEIR_EIO (the file cannot be opened, locked, read), WEIR_ECORRUPT (it is not ours; a torn last record is dropped),
 * WEIR_EBUSY (another process has it open), WEIR_ENOMEM. */
WEIR_MUST_CHECK int weir_fence_open(const struct weir_fence_options *options, struct weir_fence **ret_fence,
                                    struct weir_fault *ret_fault);
void weir_fence_close(struct weir_fence *fence); /* NULL is allowed */

/* Durable before it returns 0, where there is a path. WEIR_EFENCED, WEIR_ERANGE (the name, or no valid token),
 * WEIR_ELIMIT, WEIR_ENOMEM, WEIR_EIO: then the mark may or may not be durable, and nothing may be read under this
 * token. */
WEIR_MUST_CHECK int weir_fence_install(struct weir_fence *fence, const void *name, size_t name_size,
                                       struct weir_token token);

/* Runs `write(context)` under the name's mark if the token is the one installed: no other token of this name can be
 * installed meanwhile, and no other write of this name runs. `write` must not call back for the same name. Returns what
 * `write` returned (0 or a negative error), WEIR_EFENCED, WEIR_ENOTINSTALLED, WEIR_ERANGE. Writes under other names go
 * on beside it. */
WEIR_MUST_CHECK int weir_fence_write(struct weir_fence *fence, const void *name, size_t name_size,
                                     struct weir_token token, int (*write)(void *context), void *context);

/* The name's mark; {0, 0} where there is none. What a client reports to the service when it was fenced. */
struct weir_token weir_fence_mark(struct weir_fence *fence, const void *name, size_t name_size);

#if defined(__GNUC__) && !defined(WEIR_CORE_BUILD)
#pragma GCC visibility pop
#endif

#ifdef __cplusplus
}
#endif
#endif
