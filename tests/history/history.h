/* SPDX-License-Identifier: Apache-2.0
 *
 * A recorded history of locks and of what they guard, as JSON lines (README.md has the format). Times are of one
 * recorder's clock, in ns. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "weir/fence.h"

#define HISTORY_NEVER UINT64_MAX /* the end of an operation whose answer is not known */

enum history_verb {
    HISTORY_ACQUIRE,
    HISTORY_RENEW,
    HISTORY_RELEASE,
    HISTORY_INSTALL,
    HISTORY_READ,
    HISTORY_WRITE,
    HISTORY_RESTART, /* of the service: leases may begin anew, a release that was not durable may be undone */
    HISTORY_RESTORE, /* of an older store, and the service knows: anybody of before may hold; tokens still increase */
    HISTORY_REWIND,  /* of an older store, and the service cannot know: tokens may come again */
    HISTORY_VERBS
};

enum history_result {
    HISTORY_GRANTED,
    HISTORY_HELD,
    HISTORY_LOST,
    HISTORY_OK,
    HISTORY_FENCED,
    HISTORY_UNINSTALLED,
    HISTORY_UNKNOWN,
    HISTORY_RESULTS
};

struct history_op {
    unsigned line; /* of the file, from 1 */
    enum history_verb verb;
    enum history_result result;
    uint64_t start_ns;
    uint64_t end_ns; /* HISTORY_NEVER: unknown */
    size_t lock;     /* from 1; 0: every lock (restart, restore, rewind) */
    size_t owner;    /* from 1; 0: none */
    bool has_token, has_from;
    struct weir_token token;
    uint64_t seen;         /* acquire: the incarnation at a resource; an own grant from before it is given up */
    uint64_t lease_ns;     /* it does not end sooner than so long after it was decided */
    uint64_t lease_max_ns; /* nor later; 0: nothing is said */
    int64_t value;
    int64_t from; /* write: the value that it was made from */
    bool echo;    /* this owner was granted this token before */
};

struct history_names {
    char **names;
    size_t count;
};

struct history {
    struct history_op *ops;
    size_t count;
    struct history_names locks, owners;
    char model[16];       /* the header's, if there is one */
    char about[200];      /* the same: why it is good or bad */
    unsigned stuck;       /* the same: the line at which a bad one cannot go on */
    char fault[200];      /* what was wrong with the file */
    unsigned faulty_line; /* and where; 0: the file itself */
};

/* 0; WEIR_EIO; WEIR_EPROTO: not as README.md has it; WEIR_ENOMEM. On failure `fault` is set and nothing is to be freed.
 */
int history_load(const char *path, struct history *ret_history);
void history_free(struct history *history);

const char *history_verb_name(enum history_verb verb);
const char *history_result_name(enum history_result result);
