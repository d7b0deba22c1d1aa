/* SPDX-License-Identifier: Apache-2.0
 *
 * One connection of a store in PostgreSQL, of locks or of users, and how long one may wait for it: libpq without
 * blocking, under a deadline (CLOCK_MONOTONIC, ns). Looking up a host's name is libpq's and may block: give addresses
 * where that matters.
 *
 * Thread rule: one thread. Faults are for people and never carry the password of the conninfo. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct pg_conn; /* libpq's PGconn and PGresult: its header lies outside the usual path */
struct pg_result;

#define WEIR_PG_FAULT_SIZE 160

struct weir_pg_link {
    struct pg_conn *conn; /* NULL: there is none */
    char *conninfo;
    char *host, *hostaddr, *port, *password; /* of the conninfo; NULL: not in it */
    size_t hosts;                            /* how many it names */
    size_t first;  /* the one to begin with: one that did not answer in time goes to the end */
    bool any;      /* whoever has it may set it: a server that only reads will do */
    bool warned;   /* a WARNING came with the last query */
    char state[6]; /* SQLSTATE of the last query that was refused */
    char fault[WEIR_PG_FAULT_SIZE];
};

/* WEIR_EINVAL: not a conninfo; WEIR_ENOMEM. */
int weir_pg_link_init(struct weir_pg_link *link, const char *conninfo);
void weir_pg_link_deinit(struct weir_pg_link *link);

/* To a server that takes writes, but with `any`. False: none within the time; see fault. */
bool weir_pg_link_connect(struct weir_pg_link *link, uint64_t deadline_ns);
void weir_pg_link_drop(struct weir_pg_link *link);

/* Has the server ended the connection meanwhile? Then it is dropped before anything is sent that might be lost. */
bool weir_pg_link_alive(struct weir_pg_link *link);

enum weir_pg_outcome {
    WEIR_PG_DONE,    /* committed, every result handed over */
    WEIR_PG_REFUSED, /* rolled back; `state` says why; the connection is as good as before */
    WEIR_PG_UNSENT,  /* the server never had all of it: nothing was done. Dropped. */
    WEIR_PG_UNKNOWN, /* it may have been done, now or a little later. Dropped. */
};

/* Called for each statement's result, in order; false: not what was expected, which makes the outcome UNKNOWN. */
typedef bool weir_pg_result_fn(void *context, size_t index, const struct pg_result *result);

/* Sends the text as one simple query (several statements: one transaction) and reads while it writes. */
enum weir_pg_outcome weir_pg_link_run(struct weir_pg_link *link, const char *text, uint64_t deadline_ns,
                                      weir_pg_result_fn *take, void *context);
