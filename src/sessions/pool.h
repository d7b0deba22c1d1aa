/* SPDX-License-Identifier: Apache-2.0
 *
 * Open connections to the servers, lent to sessions. Bounded per server; idle ones are kept, the last one given back is
 * lent first.
 *
 * A connection goes back as it is: without an open transaction, else it is closed. Settings that a session of the
 * application's made on it (SET, LISTEN, temporary tables, prepared statements) stay: as with any pool, make none, or
 * make them in the conninfo.
 *
 * Thread rule: any thread; a link is its borrower's. */
#pragma once

#include "sessions/link.h"

struct weir_pool;

/* connections_max: per server. */
int weir_pool_create(unsigned connections_max, uint64_t timeout_ns, struct weir_pool **ret_pool);
void weir_pool_destroy(struct weir_pool *pool); /* after all were given back; NULL is allowed */

/* To server `server`, named and reached so; another conninfo than before closes the idle connections to it. Waits for
 * one to be given back until `until_ns`: WEIR_ELIMIT. WEIR_EDOWN: it cannot be reached within the pool's timeout;
 * WEIR_EPROTO: no PostgreSQL that we know; WEIR_ENOMEM. *ret_fault is set on failure. */
int weir_pool_take(struct weir_pool *pool, uint64_t server, const char *name, const char *conninfo, uint64_t until_ns,
                   struct weir_link **ret_link, struct weir_fault *ret_fault);

/* Gives it back; one that is broken, or in a transaction, is closed. */
void weir_pool_give(struct weir_pool *pool, struct weir_link *link);

/* Closes it: it is broken, or did not answer in time. */
void weir_pool_drop(struct weir_pool *pool, struct weir_link *link);

/* The server is not one of ours any more: idle connections are closed, lent ones when they come back. */
void weir_pool_forget(struct weir_pool *pool, uint64_t server);
