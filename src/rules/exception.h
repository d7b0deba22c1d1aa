/* SPDX-License-Identifier: Apache-2.0
 *
 * Exceptions per key, as a store of rules (rules/store.h) keeps them: one key of one limit is banned, or has one of the
 * limit's levels, until a moment or for good; or it was reset, and is counted at a fresh counter since; without a new
 * version of the rules. docs/exceptions.md is the page for people.
 *
 * The store has a log of changes, numbered 1, 2, 3 and so on: who, when, why, which key, what. Nothing in it is changed
 * or removed by weir. What holds for a key is what the newest change of that key says. So a node follows by asking for
 * what came after the last number that it has; and rows of a key that are not its newest may be removed by hand.
 *
 * A reset lies beside a ban or a level of its key: it is stored under the key with WEIR_EXCEPTION_RESET_PAIR behind it,
 * which no key has by itself, so a digest of its own finds it, and a weir that does not know of resets ends nothing by
 * one. Only the stores see that; elsewhere the key is the key.
 *
 * A limit with missing: share counts the requests that lack an attribute of its key at one counter, which may be reset
 * too. In such a key there stands, where the attribute would, one without a name whose value is "!" and the attribute's
 * name: "0:,5:!user,".
 *
 * The log is a table of its own, made by the first change. A weir that does not know of it never looks at it, so the
 * store's schema stays what it was. Its column for names of levels is made by the first change that has one.
 *
 * Thread rule, deadlines and errors: as rules/store.h. */
#pragma once

#include "rules/config.h"
#include "rules/level_name.h"
#include "rules/store.h"

#define WEIR_EXCEPTIONS_MAX 1000000             /* that hold at once; then WEIR_ELIMIT */
#define WEIR_EXCEPTION_CHANGES_MAX 10000000     /* in one store; then WEIR_ELIMIT */
#define WEIR_EXCEPTION_LEVELS_MAX 255           /* different names of levels in one store; then WEIR_ELIMIT */
#define WEIR_EXCEPTION_KEY_MAX 8192             /* bytes of a key as it is stored */
#define WEIR_EXCEPTION_LIST_MAX 10000           /* changes in one call */
#define WEIR_EXCEPTION_RESET_PAIR "0:,5:reset," /* an attribute without a name */
#define WEIR_EXCEPTION_ABSENT_MAX (1 + WEIR_ATTRIBUTE_NAME_MAX)
#define WEIR_EXCEPTION_STORED_MAX (WEIR_EXCEPTION_KEY_MAX + sizeof(WEIR_EXCEPTION_RESET_PAIR) - 1)

/* Written to the store as numbers: never renumber. A later weir may write others. */
enum weir_exception_kind {
    WEIR_EXCEPTION_BAN = 1,   /* refuses everything, until `until_ns` */
    WEIR_EXCEPTION_UNBAN = 2, /* ends whatever held for the key */
    WEIR_EXCEPTION_LEVEL = 3, /* it has a level of its limit, until `until_ns` */
    WEIR_EXCEPTION_RESET = 4, /* it is counted at the counter of this change (weir_exception_mark), for good */
};
const char *weir_exception_kind_name(enum weir_exception_kind kind); /* "ban", "unban", "level", "reset"; "unknown" */

/* What a reset's key is counted under, at least 2: of the change's id and not of its number, for a store that went back
 * to a backup gives a number again, and one that was moved gives others. */
uint64_t weir_exception_mark(const uint8_t change[WEIR_RULE_CHANGE_SIZE]);

/* ---- a key, as it is stored: name and value of each attribute, "4:user,3:ada," ---- */

/* Adds one to the NUL-less text at *size of `room` bytes. False: it does not fit. */
bool weir_exception_key_add(char *key, size_t room, size_t *size, struct weir_slice part);
/* The value of the attribute without a name that says that `name` is absent. What is longer than a name is cut. */
struct weir_slice weir_exception_absent(struct weir_slice name, char room[WEIR_EXCEPTION_ABSENT_MAX]);
/* Whether a pair of a key says so; of which attribute. */
bool weir_exception_is_absent(struct weir_slice name, struct weir_slice value, struct weir_slice *ret_name);
/* Takes the next one off. False: there is none, or it is damaged. */
bool weir_exception_key_next(struct weir_slice *rest, struct weir_slice *ret_part);
/* Pairs, as many as a key of a limit may have, and nothing behind them. */
bool weir_exception_key_valid(struct weir_slice key);

/* ---- changes ---- */

struct weir_exception_change {
    enum weir_exception_kind kind;
    uint8_t change[WEIR_RULE_CHANGE_SIZE]; /* weir_rule_change_id */
    const char *limit;                     /* its name */
    const char *level;                     /* LEVEL: its name. Else NULL */
    struct weir_slice key;
    uint64_t until_ns;            /* wall; 0: for good. Of an unban and a reset 0. At most 2^63 - 1 */
    uint64_t wall_ns;             /* at most 2^63 - 1 */
    const char *author, *comment; /* as weir_rule_change */
};

/* What except would say of a change without asking a store: WEIR_EINVAL, WEIR_ERANGE. */
int weir_exception_check(const struct weir_exception_change *change, struct weir_fault *ret_fault);

/* Stores a change; *ret_number is its number, also where an earlier call with this id stored it. WEIR_EUNKNOWN: ask
 * again with the same id. WEIR_ENOENT with field "key": there is nothing that an unban could end. WEIR_ELIMIT: one of
 * the bounds, named by the fault. WEIR_EINVAL with field "change": the id was used for another change. */
int weir_rule_store_except(struct weir_rule_store *store, const struct weir_exception_change *change,
                           uint64_t deadline_ns, uint64_t *ret_number, struct weir_fault *ret_fault);

/* ---- reading ---- */

struct weir_exception_query {
    bool newest_first;
    uint64_t from;          /* number, itself included; newest_first: downwards, and 0 = the newest */
    uint64_t holding_at_ns; /* wall; only what holds then; 0: all changes */
    const char *limit;      /* NULL: of all limits */
    struct weir_slice key;  /* with `limit`; data NULL: of all keys. Its reset is one of its changes */
    size_t count_max;       /* 1 to WEIR_EXCEPTION_LIST_MAX */
};

/* Borrowed until the call returns. */
struct weir_exception {
    uint64_t number;
    bool damaged; /* weir did not write it so: nothing below is set */
    int kind;     /* an enum weir_exception_kind, or a later weir's */
    uint64_t wall_ns, until_ns;
    uint8_t change[WEIR_RULE_CHANGE_SIZE];
    const char *limit, *author, *comment;
    const char *level; /* of a LEVEL its name; else "" */
    struct weir_slice key;
};

/* Both of a key as it is stored. The change of this id is this one, up to when it was asked for. */
bool weir_exception_valid(const struct weir_exception *exception);
bool weir_exception_is_of(const struct weir_exception *exception, const struct weir_exception_change *change);

/* False ends it. Where the call fails, some may have been taken. */
typedef bool weir_exception_take(void *context, const struct weir_exception *exception);
/* None where there never was a change. WEIR_ERANGE: count_max. */
int weir_rule_store_exceptions(struct weir_rule_store *store, const struct weir_exception_query *query,
                               uint64_t deadline_ns, weir_exception_take *take, void *context,
                               struct weir_fault *ret_fault);

/* Of a limit's name and a key: what a key is found by. WEIR_ENOMEM. */
#define WEIR_EXCEPTION_DIGEST_SIZE 16
int weir_exception_digest(const char *limit, struct weir_slice key, uint8_t ret_digest[WEIR_EXCEPTION_DIGEST_SIZE]);
