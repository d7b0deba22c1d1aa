/* SPDX-License-Identifier: Apache-2.0
 *
 * One question to a PostgreSQL server, under a deadline: libpq without blocking, whatever mode the connection is in, so
 * that a server that stands still or vanishes holds up nobody. Looking up a host's name while connecting is libpq's and
 * may block: give addresses (hostaddr) where that matters.
 *
 * Thread rule: one thread at a time for a connection. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct pg_conn; /* libpq's PGconn and PGresult: its header lies outside the usual path */
struct pg_result;

uint64_t weir_ask_now_ns(void); /* CLOCK_MONOTONIC, of which all deadlines are */

/* `extra`: options that win over those of the conninfo: keyword, value, and so on, NULL; or NULL. WEIR_EIO: none by the
 * deadline, or refused, or not a conninfo: ret_text says why, for people, without the password. WEIR_ENOMEM. */
#define WEIR_ASK_TEXT_SIZE 256
int weir_ask_connect(const char *conninfo, const char *const *extra, uint64_t deadline_ns, struct pg_conn **ret_conn,
                     char ret_text[WEIR_ASK_TEXT_SIZE]);

/* An answer of COPY, which nobody asked for: libpq has one more for ever. The connection is of no use any more. */
bool weir_ask_is_copy(const struct pg_result *result);

/* May something be asked on it? 0; WEIR_EBUSY: a transaction, a COPY, a pipeline or an unread answer is open on it;
 * WEIR_EIO: it is broken. Looks at what libpq knows, sends nothing. */
int weir_ask_idle(const struct pg_conn *conn);

/* One statement, or several that are one transaction, and the last one's result, be it rows or an error of the server
 * (which ends them): see PQresultStatus; PQclear it. WEIR_EBUSY
 * as above; WEIR_EIO: the connection is broken, or the deadline has passed and it must be closed. */
int weir_ask(struct pg_conn *conn, const char *text, uint64_t deadline_ns, struct pg_result **ret_result);

/* COMMIT, after a BEGIN, which leaves the connection not idle. 0, WEIR_EIO. */
int weir_ask_commit(struct pg_conn *conn, uint64_t deadline_ns);

/* The same as weir_ask with what was prepared under `name`. */
int weir_ask_prepared(struct pg_conn *conn, const char *name, uint64_t deadline_ns, struct pg_result **ret_result);

/* Prepares `text` under `name`. *ret_result as of weir_ask. */
int weir_ask_prepare(struct pg_conn *conn, const char *name, const char *text, uint64_t deadline_ns,
                     struct pg_result **ret_result);

/* Waits for `events` of the connection's socket; what happened, 0 at the deadline. */
short weir_ask_wait(const struct pg_conn *conn, short events, uint64_t deadline_ns);

/* A message on one line, in `room` bytes; and not at all if the password (NULL: none) is in it, whoever wrote it
 * there. */
void weir_ask_line(char *ret_line, size_t room, const char *text, const char *password);
