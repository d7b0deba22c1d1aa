/* SPDX-License-Identifier: Apache-2.0
 *
 * Behind rules/store.h: what each store does, and what both share.
 *
 *     store.c                 opens by its spec; arguments; deadlines; waiting
 *     store_check.c           what a change, a version and a note may be
 *     store_sqlite.c          asks the database; store_sqlite_file.c: opens it, whose it is, its schema
 *     store_postgres.c        asks the server; store_postgres_table.c: connects, whose the tables are, their schema
 *     store_postgres_text.c   the SQL
 *     store_postgres_row.c    what is answered
 *     exception.c             exceptions per key (rules/exception.h): what both stores share; store_sqlite_exceptions.c
 *                             and store_postgres_exceptions.c: their log */
#pragma once

#include "rules/exception.h"

#define WEIR_RULE_PATH_MAX 4000 /* bytes */

/* How the tables get from one schema to the next, and back. steps[0] leads from 1 to 2. In SQLite's texts @ stands for
 * nothing, in PostgreSQL's it is the table. */
struct weir_rule_step {
    const char *up, *down;
};

struct weir_rule_versions {
    struct weir_rule_version *list; /* room for as many as were asked for */
    size_t count, room;
};

struct weir_rule_notes {
    struct weir_rule_told *list; /* grows */
    size_t count, room;
};

/* A question for exceptions, completed: `from` is a number. */
struct weir_exception_select {
    struct weir_exception_query query;
    bool one_key;
    uint8_t digest[WEIR_EXCEPTION_DIGEST_SIZE], reset_digest[WEIR_EXCEPTION_DIGEST_SIZE]; /* of it, both */
    weir_exception_take *take;
    void *context;
};

/* What a change of a key meets. */
struct weir_exception_state {
    uint64_t newest;  /* number; 0: there is none */
    uint64_t holding; /* exceptions; some may have expired */
    bool held_before; /* for this key something holds, by the clock of who makes the change */
    uint64_t levels;  /* of a LEVEL: how many other names of levels there are */
};
/* It needs a place, and as far as is known there is none. */
bool weir_exception_is_full(const struct weir_rule_store *store, const struct weir_exception_change *change,
                            const struct weir_exception_state *state);
/* 0: the change may be stored. WEIR_ENOENT, WEIR_ELIMIT. */
int weir_exception_bound(const struct weir_rule_store *store, const struct weir_exception_change *change,
                         const struct weir_exception_state *state, struct weir_fault *ret_fault);

/* Arguments have been checked, and there is time left. */
struct weir_rule_store_ops {
    int (*head)(struct weir_rule_store *store, uint64_t deadline_ns, struct weir_rule_head *ret_head,
                struct weir_fault *ret_fault);
    int (*read)(struct weir_rule_store *store, uint64_t number, uint64_t deadline_ns,
                struct weir_rule_version *ret_version, char **ret_text, struct weir_fault *ret_fault);
    int (*list)(struct weir_rule_store *store, uint64_t from, uint64_t deadline_ns, struct weir_rule_versions *versions,
                struct weir_fault *ret_fault);
    /* `checksum`: of its text; of a rollback nothing. */
    int (*append)(struct weir_rule_store *store, const struct weir_rule_change *change, const uint8_t *checksum,
                  uint64_t deadline_ns, struct weir_rule_appended *ret_appended, struct weir_fault *ret_fault);
    int (*tell)(struct weir_rule_store *store, const struct weir_rule_told *told, uint64_t deadline_ns,
                struct weir_fault *ret_fault);
    int (*told)(struct weir_rule_store *store, bool newest_only, uint64_t deadline_ns, struct weir_rule_notes *notes,
                struct weir_fault *ret_fault);
    int (*except)(struct weir_rule_store *store, const struct weir_exception_change *change, const uint8_t *digest,
                  uint64_t deadline_ns, uint64_t *ret_number, struct weir_fault *ret_fault);
    int (*exceptions)(struct weir_rule_store *store, const struct weir_exception_select *select, uint64_t deadline_ns,
                      struct weir_fault *ret_fault);
    int (*migrate)(struct weir_rule_store *store, unsigned to, uint64_t deadline_ns, struct weir_fault *ret_fault);
    /* Until then: false; or true, when something says that there may be a new version. */
    bool (*pause)(struct weir_rule_store *store, uint64_t until_ns);
    void (*close)(struct weir_rule_store *store);
};

/* A store's first member. */
struct weir_rule_store {
    const struct weir_rule_store_ops *ops;
    bool create;
    uint64_t poll_ns;
    uint64_t look_ns;                     /* when `wait` wants the head to be asked for */
    unsigned schema;                      /* WEIR_RULE_SCHEMA; a test adds to both */
    const struct weir_rule_step *steps;   /* schema - 1 of them */
    uint64_t exceptions_max, changes_max; /* a test has less */
    char name[256];
};

/* With what is checked of the options. `path`: what follows "sqlite:". */
int weir_rule_sqlite_open(const char *path, struct weir_rule_store **ret_store, struct weir_fault *ret_fault);
int weir_rule_postgres_open(const char *url, const char *table, struct weir_rule_store **ret_store,
                            struct weir_fault *ret_fault);

/* ---- store_check.c ---- */

uint64_t weir_rule_now_ns(void); /* CLOCK_MONOTONIC */
void weir_rule_sleep_until(uint64_t until_ns);

bool weir_rule_author_valid(const void *data, size_t size);
bool weir_rule_comment_valid(const void *data, size_t size);
bool weir_rule_node_valid(const void *data, size_t size);

/* Of what a row said: could weir have written it? Its texts have been copied. */
bool weir_rule_version_valid(const struct weir_rule_version *version);
bool weir_rule_told_valid(const struct weir_rule_told *told);

/* Was it made by this change? When does not count: who asks again may have looked at the clock again. `checksum`: as
 * for append. */
bool weir_rule_is_of(const struct weir_rule_version *version, const struct weir_rule_change *change,
                     const uint8_t *checksum);

/* WEIR_ENOMEM. */
int weir_rule_notes_add(struct weir_rule_notes *notes, const struct weir_rule_told *told);

int weir_rule_schema_fault(unsigned found, unsigned known, struct weir_fault *ret_fault); /* WEIR_ERANGE */
