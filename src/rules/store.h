/* SPDX-License-Identifier: Apache-2.0
 *
 * Where rule sets are kept: numbered versions of a whole configuration text, and which node has enforced which of them
 * since when. In SQLite (one machine) or PostgreSQL (nodes of many). docs/rule-stores.md is the page for people.
 *
 * A version never changes and is never removed. The first is 1, each next one is one more, without gaps: a change names
 * the version that it was made from, and is stored only if that still is the newest (compare and set). So the parent of
 * version N is N - 1, and needs no field; `of` says which version a rollback brought back.
 *
 * What it does not: it never reads the text. Whoever appends has checked it as a configuration before; whoever reads
 * checks it again, since another weir may have written it.
 *
 * A change has an id of 128 random bits. Asked again with the same id, the store says which number the change got. That
 * is how to find out after WEIR_EUNKNOWN, and makes it harmless to ask twice.
 *
 * What survives: a version of which 0 was returned survives a kill -9 of anybody, and a crash of the machine as far as
 * its disk, and a PostgreSQL with fsync, keep what they have synced. A store that was restored from a backup goes back:
 * compare the whole weir_rule_head, not its number alone.
 *
 * Errors of all calls, beside those that stand with them. The fault says more, for people; it never has a password.
 *   WEIR_EDOWN     it cannot be asked now, or it refuses (locked, no rights, read only, disk full): nothing was done.
 *                  Ask again later.
 *   WEIR_EUNKNOWN  of what writes: it was asked and did not answer. Done, not done, or done a little later.
 *   WEIR_ECORRUPT  what is there is no store of weir's, or is damaged. Nothing was written to it.
 *   WEIR_ERANGE    with field "schema": it was written by a later weir. Else an argument, which the fault names.
 *   WEIR_ENOENT    with field "store": there is none, and `create` was not asked for.
 *   WEIR_ENOMEM
 *
 * Thread rule: calls block, until their deadline (CLOCK_MONOTONIC, in ns): never from an event loop. A deadline that
 * has passed asks nothing. One thread at a time for one store; open another one for another thread, as many as wanted,
 * also of one file. SQLite: an fsync that the disk does not finish cannot be ended early. PostgreSQL: looking up a
 * host's name is libpq's, and may block longer. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "weir/error.h"
#include "weir/limiter.h"

#define WEIR_RULE_AUTHOR_MAX 128              /* bytes of UTF-8, at least 1, without control characters */
#define WEIR_RULE_COMMENT_MAX 4096            /* the same */
#define WEIR_RULE_TEXT_MAX ((size_t)16 << 20) /* bytes, at least 1: what a configuration may have */
#define WEIR_RULE_NODE_MAX 64                 /* bytes: A-Z a-z 0-9 _ - . as cluster.node has it, at least 1 */
#define WEIR_RULE_VERSIONS_MAX 1000000        /* then WEIR_ELIMIT: begin a new store with the newest text */
#define WEIR_RULE_NODES_MAX 1024              /* then whoever told something least recently is forgotten */
#define WEIR_RULE_TOLD_MAX 64                 /* of one node; then its oldest is forgotten */
#define WEIR_RULE_LIST_MAX 1000               /* versions in one call */
#define WEIR_RULE_CHECKSUM_SIZE 32
#define WEIR_RULE_CHANGE_SIZE 16

struct weir_rule_store;

/* ---- opening ---- */

struct weir_rule_store_options {
    /* "sqlite:PATH", the rest as it stands, 1 to 4,000 bytes; or a URL that begins with "postgresql://" or
     * "postgres://", as libpq takes it. */
    const char *spec;
    /* PostgreSQL: NAME or SCHEMA.NAME of a-z, 0-9 and _, each at most 50 bytes; NULL = "weir_rules", where the search
     * path leads. The tables are NAME, NAME_meta and NAME_nodes. */
    const char *table;
    /* Makes what is not there (the file, of mode 0600; the tables), and brings an older schema up to date. Without it
     * neither, and what is older is refused with WEIR_ERANGE. */
    bool create;
    uint64_t poll_ns; /* how long `wait` waits without a word: 10 ms to 60 s; 0 = SQLite 50 ms, PostgreSQL 1 s */
};

/* Looks at the options only: a store that cannot be reached is no error yet, the first call finds it. WEIR_EINVAL,
 * WEIR_ERANGE: an option, named by the fault, or a library or module that this build has not (field "needs");
 * WEIR_ENOMEM. */
int weir_rule_store_open(const struct weir_rule_store_options *options, struct weir_rule_store **ret_store,
                         struct weir_fault *ret_fault);
void weir_rule_store_close(struct weir_rule_store *store); /* NULL is allowed */

/* For logs: "sqlite:/var/lib/weir/rules.db", "postgresql 10.0.0.7:5432/db weir_rules": without user and password. As
 * long as the store. */
const char *weir_rule_store_name(const struct weir_rule_store *store);

/* ---- versions ---- */

/* Written to the store as numbers: never renumber. */
enum weir_rule_kind {
    WEIR_RULE_APPLIED = 1,
    WEIR_RULE_ROLLBACK = 2, /* the text of an older version, `of`, again */
    WEIR_RULE_IMPORT = 3,   /* brought in from a file */
    WEIR_RULE_PROPOSED = 4, /* nobody decides by it until somebody else approves */
    WEIR_RULE_APPROVED = 5, /* the text of a proposal, `of`, which is the version before */
};
const char *weir_rule_kind_name(enum weir_rule_kind kind); /* "applied", "rollback", "proposed" */
/* Its text is that of version `of`: the store copies it, so that the history cannot say it and mean another. */
bool weir_rule_kind_copies(enum weir_rule_kind kind);

/* The newest version. Two heads are the same if all of it is. */
struct weir_rule_head {
    uint64_t number;                           /* 0: there is none yet */
    uint8_t checksum[WEIR_RULE_CHECKSUM_SIZE]; /* of its text; zeros if there is none */
    uint8_t store[WEIR_RULE_CHANGE_SIZE];      /* random, of the store: another one after it was made anew */
};

struct weir_rule_version {
    uint64_t number;
    enum weir_rule_kind kind;
    uint64_t of;        /* rollback, approved: which version's text; else 0 */
    uint64_t wall_ns;   /* when it was made, by the clock of whoever did: clocks differ, so it may go back */
    uint64_t text_size; /* bytes */
    uint8_t checksum[WEIR_RULE_CHECKSUM_SIZE]; /* SHA-256 of the text */
    uint8_t change[WEIR_RULE_CHANGE_SIZE];
    char author[WEIR_RULE_AUTHOR_MAX + 1];
    char comment[WEIR_RULE_COMMENT_MAX + 1];
};

bool weir_rule_head_same(const struct weir_rule_head *one, const struct weir_rule_head *other);

/* Cheap enough for each second: one row. */
int weir_rule_store_head(struct weir_rule_store *store, uint64_t deadline_ns, struct weir_rule_head *ret_head,
                         struct weir_fault *ret_fault);

/* One version whole. *ret_text: its bytes, as they were given, with a NUL behind them; free() it. WEIR_ENOENT with
 * field "version": there is no such number. WEIR_ECORRUPT: the text is not the one of the checksum, or it is missing
 * among others. */
int weir_rule_store_read(struct weir_rule_store *store, uint64_t number, uint64_t deadline_ns,
                         struct weir_rule_version *ret_version, char **ret_text, struct weir_fault *ret_fault);

/* What versions there are, without their texts: the newest first, from number `from` (0 = the newest) downwards, at
 * most `count_max` (1 to WEIR_RULE_LIST_MAX). `take` is called for each once all are there; false ends it. Nothing is
 * taken if it fails. */
typedef bool weir_rule_take_version(void *context, const struct weir_rule_version *version);
int weir_rule_store_list(struct weir_rule_store *store, uint64_t from, size_t count_max, uint64_t deadline_ns,
                         weir_rule_take_version *take, void *context, struct weir_fault *ret_fault);

/* The newest version that is no proposal, from number `from` downwards; *ret_number 0: there is none. */
int weir_rule_store_decided(struct weir_rule_store *store, uint64_t from, uint64_t deadline_ns, uint64_t *ret_number,
                            struct weir_fault *ret_fault);

struct weir_rule_change {
    uint64_t expected;                     /* the version that it was made from; 0 = there was none */
    uint8_t change[WEIR_RULE_CHANGE_SIZE]; /* weir_rule_change_id */
    enum weir_rule_kind kind;
    uint64_t of;            /* rollback: 1 to `expected`; approved: `expected`; else 0 */
    const char *author;     /* 1 to WEIR_RULE_AUTHOR_MAX bytes */
    const char *comment;    /* 1 to WEIR_RULE_COMMENT_MAX bytes */
    struct weir_slice text; /* 1 to WEIR_RULE_TEXT_MAX bytes. Of a kind that copies: none */
    uint64_t wall_ns;       /* at most 2^63 - 1 */
};

enum weir_rule_said {
    WEIR_RULE_APPENDED, /* it is version head.number: stored now, or by an earlier call with this id (`again`) */
    WEIR_RULE_CONFLICT, /* another version is the newest: nothing was stored */
};

struct weir_rule_appended {
    enum weir_rule_said said;
    bool again;
    uint64_t number;            /* appended: its own */
    struct weir_rule_head head; /* the newest now; of `again` it may be a later one */
};

/* Stores a new version, if `expected` is the newest. WEIR_EUNKNOWN: ask again with the same id. WEIR_ELIMIT:
 * WEIR_RULE_VERSIONS_MAX. WEIR_EINVAL with field "change": the id was used for another change (of other texts; the
 * time may differ). WEIR_EINVAL, WEIR_ERANGE: an argument. */
int weir_rule_store_append(struct weir_rule_store *store, const struct weir_rule_change *change, uint64_t deadline_ns,
                           struct weir_rule_appended *ret_appended, struct weir_fault *ret_fault);

/* WEIR_EIO: the system gives no random bytes. */
int weir_rule_change_id(uint8_t ret_change[WEIR_RULE_CHANGE_SIZE]);
/* SHA-256 of a text: what weir_rule_version has. WEIR_ENOMEM. */
int weir_rule_checksum(struct weir_slice text, uint8_t ret_checksum[WEIR_RULE_CHECKSUM_SIZE]);
/* What append would say of a change without asking a store: WEIR_EINVAL, WEIR_ERANGE. */
int weir_rule_change_check(const struct weir_rule_change *change, struct weir_fault *ret_fault);

/* ---- who enforces what ---- */

struct weir_rule_told {
    char node[WEIR_RULE_NODE_MAX + 1];
    uint64_t version;  /* 1 to WEIR_RULE_VERSIONS_MAX; need not be in the store, which may have been restored */
    uint64_t since_ns; /* wall, by the node's clock: that it decides by this version; at most 2^63 - 1 */
};

/* Notes that a node enforces a version. The same as its newest note again does nothing, so after WEIR_EUNKNOWN simply
 * ask again. */
int weir_rule_store_tell(struct weir_rule_store *store, const struct weir_rule_told *told, uint64_t deadline_ns,
                         struct weir_fault *ret_fault);

/* What nodes have told, by node's name, of each the newest first; with `newest_only` one of each. In the order in which
 * it was told, whatever clocks said. As weir_rule_store_list. */
typedef bool weir_rule_take_told(void *context, const struct weir_rule_told *told);
int weir_rule_store_told(struct weir_rule_store *store, bool newest_only, uint64_t deadline_ns,
                         weir_rule_take_told *take, void *context, struct weir_fault *ret_fault);

/* ---- waiting ---- */

/* True as soon as it is time to ask for the head: nobody has yet, or poll_ns have gone by since (after one that failed,
 * a second at most), or the store says that there may be another one. Else false, at until_ns. PostgreSQL: a
 * notification (LISTEN, NOTIFY) says so, within a round trip of the commit; notifications get lost where a connection
 * breaks, and behind a pooler in transaction mode. Those that come between two calls are kept. Nothing else ends it
 * early: a host that must stop soon waits in slices, which cost nothing. */
bool weir_rule_store_wait(struct weir_rule_store *store, uint64_t until_ns);

/* ---- the schema ---- */

#define WEIR_RULE_SCHEMA 1 /* the tables, as this weir uses them */

/* Brings the tables to schema `to`, up or down, in one transaction; a down step loses what only the later schema has.
 * That is how to go back to an older weir; `create` goes up by itself. WEIR_ERANGE with field "schema": this weir knows
 * no way to or from it. */
int weir_rule_store_migrate(struct weir_rule_store *store, unsigned to, uint64_t deadline_ns,
                            struct weir_fault *ret_fault);
