/* SPDX-License-Identifier: Apache-2.0
 *
 * The definitions of limits that nodes of different rule sets share: of each limit the newest one that this node knows
 * of (core/share/revision.h), as text, and the bytes in which nodes tell it to each other. What a definition says is
 * the business of rules/.
 *
 * Bytes are signed with the cluster's secret, and named by a hash with it: a cluster with another secret on the same
 * engine neither meets nor believes them.
 *
 * Thread rule: any thread. Bounds: as many limits as were given with weir_revisions_own last, and
 * WEIR_REVISIONS_GONE_MAX that were given before: should one come back, what others know of it is known here.
 * WEIR_REVISION_TEXT_MAX bytes of a definition: of a limit whose definition is longer a node goes by its own file. */
#pragma once

#include "core/share/revision.h"
#include "weir/limiter.h"

#define WEIR_REVISION_TEXT_MAX ((size_t)512 << 10)
#define WEIR_REVISIONS_GONE_MAX 64
#define WEIR_REVISION_NODE_MAX 64                               /* bytes of a node's name */
#define WEIR_REVISION_HEAD 28                                   /* so many of a definition's bytes tell which it is */
#define WEIR_REVISION_BYTES_MAX (WEIR_REVISION_TEXT_MAX + 1024) /* of a definition as it is told */

struct weir_revisions;

/* The name of the limit that a definition says it is of. False: it says none that is understood here. */
typedef bool weir_revision_name_fn(const char *text, size_t size, char ret_name[WEIR_LIMIT_NAME_MAX + 1]);

/* Set before anything is heard: from then on a definition of another limit's name is corrupt. Its signature does not
 * tell of which limit it is, and whoever may write at the engine can copy it to where another's stands. */
void weir_revisions_check_names(struct weir_revisions *revisions, weir_revision_name_fn *name_of);

/* `secret`: 16 bytes; `node`: of this node's name at most WEIR_REVISION_NODE_MAX bytes are told. WEIR_ENOMEM. */
int weir_revisions_create(const uint8_t *secret, const char *node, struct weir_revisions **ret_revisions);
void weir_revisions_destroy(struct weir_revisions *revisions); /* NULL is allowed */

/* A limit as this node's file has it. */
struct weir_revision_own {
    const char *name;
    struct weir_slice text;
    uint64_t given; /* `revision:` of the file; 0 = none */
};

/* What is to be in force where the file says `own`. */
struct weir_revision_found {
    uint64_t number;                       /* 0: nothing is known of the others yet; it is the file's */
    uint64_t passed;                       /* the number that it had before it passed what keys said; 0: none */
    char node[WEIR_REVISION_NODE_MAX + 1]; /* that made it the newest; "" = none */
    char *text;                            /* NULL: what the file says; else of the caller, to free */
    size_t size;
};

/* Looks, and changes nothing: as if `own` had been given with weir_revisions_own. WEIR_ENOMEM. */
int weir_revisions_find(struct weir_revisions *revisions, const struct weir_revision_own *own, uint64_t wall_ns,
                        struct weir_revision_found *ret_found);

/* The file's limits, all of them, each name once, after a start or a reload: which may make some of them the newest.
 * WEIR_ENOMEM: nothing has changed. */
int weir_revisions_own(struct weir_revisions *revisions, const struct weir_revision_own *own, size_t count,
                       uint64_t wall_ns);

/* Grows with every limit whose newest definition becomes another one. */
uint64_t weir_revisions_generation(const struct weir_revisions *revisions);

/* ---- telling others, and hearing from them ---- */

/* One of 0 to count - 1, in an order that changes only with weir_revisions_own. */
struct weir_revision_brief {
    uint64_t id[2];                   /* what its bytes are called */
    bool known;                       /* there is a newest definition, */
    uint8_t head[WEIR_REVISION_HEAD]; /* and its bytes begin so */
};
size_t weir_revisions_count(const struct weir_revisions *revisions);
bool weir_revisions_brief(const struct weir_revisions *revisions, size_t index, struct weir_revision_brief *ret_brief);

enum weir_revision_say {
    WEIR_REVISION_SAME,    /* both know the same, or this node knows no such limit */
    WEIR_REVISION_NEWER,   /* they know a newer one: get all of its bytes */
    WEIR_REVISION_OLDER,   /* they do not know the newest: tell them */
    WEIR_REVISION_CORRUPT, /* that is not ours */
};

/* The first WEIR_REVISION_HEAD bytes of what others have under `id`, or all of them (`whole`); size 0: they have
 * nothing. Only what is whole is believed. */
enum weir_revision_say weir_revisions_hear(struct weir_revisions *revisions, const uint64_t id[2], const void *bytes,
                                           size_t size, bool whole, uint64_t wall_ns);

/* Nobody else is there to tell, or to be told: what this node's file says is the newest where nothing is known, and
 * what a reload changed counts as told. */
void weir_revisions_alone(struct weir_revisions *revisions, uint64_t wall_ns);

/* A key at the engine was written under revision `number` of the limit, which this node has not heard of. True: it is
 * so high that it is not passed, and this is new. */
bool weir_revisions_met(struct weir_revisions *revisions, const char *name, uint64_t number);

/* The engine has said WEIR_REVISION_SAME. True: the newest has a number above one that only keys say
 * (core/share/revision.h), and is to be told. */
bool weir_revisions_pass(struct weir_revisions *revisions, const uint64_t id[2], uint64_t wall_ns);

/* The bytes of the newest definition, to free, and its number. WEIR_ENOENT: there is none. WEIR_ENOMEM. */
int weir_revisions_bytes(struct weir_revisions *revisions, const uint64_t id[2], uint8_t **ret_bytes, size_t *ret_size,
                         uint64_t *ret_number);

/* The engine has said WEIR_REVISION_SAME, and these are the bytes there, WEIR_REVISION_HEAD or more. */
void weir_revisions_lies_there(struct weir_revisions *revisions, const uint64_t id[2], const void *bytes);

/* The next limit, from place *at on, of which the engine was never seen to know the newest definition. *at is 0 at
 * first; false: there is none any more. */
bool weir_revisions_untold(const struct weir_revisions *revisions, size_t *at, uint64_t ret_id[2]);

/* The others have been told of revision `number`, by the engine. */
void weir_revisions_told(struct weir_revisions *revisions, const uint64_t id[2], uint64_t number);
