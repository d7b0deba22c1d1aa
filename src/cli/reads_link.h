/* SPDX-License-Identifier: Apache-2.0
 *
 * One connection of `weir reads check` to one server, and one value asked of it, each under a deadline. */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct pg_conn; /* libpq's PGconn */

#define WEIR_READS_TIMEOUT_NS UINT64_C(5000000000)
#define WEIR_READS_VALUE_SIZE 192

/* Of which server a conninfo speaks: "db2:5433". WEIR_EINVAL: it is none that libpq understands. */
int weir_reads_name(const char *conninfo, char *ret_name, size_t size);

/* WEIR_EIO: ret_text says why in one line, without a password. */
int weir_reads_connect(const char *conninfo, uint64_t timeout_ns, struct pg_conn **ret_conn,
                       char ret_text[WEIR_READS_VALUE_SIZE]);

/* The first value of the first row; empty where there is none. WEIR_EPROTO: the server refused, and ret_text says
 * SQLSTATE, a blank, and its message; WEIR_EIO: the connection is broken or too slow, and of no use any more. */
int weir_reads_ask(struct pg_conn *conn, const char *statement, uint64_t timeout_ns,
                   char ret_text[WEIR_READS_VALUE_SIZE]);
