/* SPDX-License-Identifier: Apache-2.0
 *
 * What the postgres lock engine says to the server, and what its answers mean. Bytes in, text out, and back; no I/O.
 *
 * A batch is the text of one simple query: the server reads it whole before it begins, runs it as one transaction, and
 * commits before it answers the last statement. So no lock of the database is ever held while the server waits for
 * weir, however long weir is stopped in the middle of sending; and one round trip does it all. Values are hexadecimal
 * bytea literals and numbers: nothing a client sends is read as SQL. */
#pragma once

#include "locks/engine.h"

struct pg_result; /* libpq's PGresult: its header lies outside the usual path */

#define WEIR_PG_TABLE_MAX 100 /* bytes, with its schema */

/* Grows; a NUL follows it. Zero it to begin; free `data` at the end. */
struct weir_pg_text {
    char *data;
    size_t size, room;
    bool failed; /* no memory: the text is not to be used */
};

void weir_pg_text_clear(struct weir_pg_text *text);
/* Each @ of the template becomes the table's name. */
void weir_pg_text_add(struct weir_pg_text *text, const char *template, const char *table);
void weir_pg_text_number(struct weir_pg_text *text, uint64_t number);
void weir_pg_text_hex(struct weir_pg_text *text, const void *bytes, size_t size); /* two digits for each byte */

/* NAME or SCHEMA.NAME, each of a-z, 0-9 and _, not beginning with a digit, at most 50 bytes: needs no quoting, and
 * NAME_meta still is a name. */
bool weir_pg_table_valid(const char *table);

/* What a batch may rely on; the server refuses the whole batch, with the SQLSTATE below, if one of it is not so, or if
 * the tables have triggers, rules or row security by now: a new connection tells which (weir_pg_judge). */
struct weir_pg_ground {
    uint64_t incarnation; /* of the row of meta */
    uint64_t backend;     /* its process: settings and prepared statements are its own */
    uint64_t file;        /* of the table of locks: another one after TRUNCATE, DROP and CREATE, a restored dump */
};
#define WEIR_PG_GROUND_GONE "22012" /* division by zero: weir_ground divides by the number of matching rows */

/* What a new connection says, in this order, each a query of its own. */
extern const char *const weir_pg_home;     /* a row: the schema, quoted; none: null */
extern const char *const weir_pg_settings; /* no rows */
extern const char *const weir_pg_judge;    /* a row a table that is there: null, or why it is not to be used */
extern const char *const weir_pg_create;
extern const char *const weir_pg_identify; /* a row: see weir_pg_identity_read */
extern const char *const weir_pg_prepare;

/* What an ACQUIRE in a batch may be given; where that is not enough it is FREE, and nothing was done. */
enum weir_pg_tokens {
    WEIR_PG_TOKENS_NEW,
    WEIR_PG_TOKENS_KEPT, /* its own from before */
    WEIR_PG_TOKENS_NONE, /* it is told that another holds the lock */
};

struct weir_pg_identity {
    uint64_t system, timeline, position;
    uint64_t wall_s; /* the server's */
    struct weir_pg_ground ground;
    bool logged; /* both tables are: an unlogged one is empty after a crash */
    bool fsync;
    uint64_t started_us; /* its postmaster, by its clock */
    uint64_t database;   /* another one after DROP and CREATE DATABASE, even with the same files */
};
/* False: not a row of weir_pg_identify. */
bool weir_pg_identity_read(const struct pg_result *result, struct weir_pg_identity *ret_identity);

/* Sets meta from `stored` to `raised`; a row if it did, none if another node was faster. */
void weir_pg_raise_write(struct weir_pg_text *text, const char *table, uint64_t stored, uint64_t raised);

/* The ops order[0 … count) of a batch, in that order; before theirs come WEIR_PG_BATCH_BEFORE results. `durable`
 * false: a crash of the server may undo it. */
#define WEIR_PG_BATCH_BEFORE 2
void weir_pg_batch_write(struct weir_pg_text *text, const struct weir_pg_ground *ground,
                         struct weir_lock_op *const *order, size_t count, bool durable, uint64_t timeout_ms,
                         enum weir_pg_tokens tokens);

/* Fills in what was said; false: no such answer. The status is left alone. */
bool weir_pg_answer_read(const struct pg_result *result, struct weir_lock_op *op);
