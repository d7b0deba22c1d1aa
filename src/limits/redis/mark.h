/* SPDX-License-Identifier: Apache-2.0
 *
 * Whether a server has lost what it had answered: a flush, a restart with older data, a failover to a replica that had
 * not heard the newest.
 *
 * Each batch of decisions ends with SET PREFIX:mark:{N}:CLIENT:NUMBER number EX day GET: N is a number whose slot the
 * server has, NUMBER tells the connection. A server replicates and saves its writes in order, so one that shows a
 * number has everything that was answered before that number was written; and one that shows an older number than it
 * once confirmed has lost something: one loss is counted. The first thing a new connection does is to look at the
 * number of the one before (each has a key of its own, because a command of the old connection may still be run after
 * those of the new). Decisions that were answered after the last confirmed number and before a connection broke cannot
 * be told from lost ones if the number is still that: counted as a loss.
 *
 * In a cluster each primary has a mark in a slot of its own, which moves to the next primary with the slot. */
#pragma once

#include "limits/redis/server.h"

#define WEIR_REDIS_MARK_TTL_S 86400

/* Gives the primary of `slot` the mark of that slot, old or new, and has it looked up. */
void weir_redis_mark_assign(struct weir_redis_server *server, uint16_t slot);
/* The server no longer stands for its mark, which waits for the next that has its slot. */
void weir_redis_mark_release(struct weir_redis_server *server);
struct weir_redis_mark *weir_redis_mark_find(struct weir_redis_engine *engine, uint16_t slot); /* NULL: no such */

void weir_redis_mark_connected(struct weir_redis_server *server);                    /* a new connection is ready */
void weir_redis_mark_batch_end(struct weir_redis_server *server);                    /* decisions were written */
void weir_redis_mark_answered(struct weir_redis_server *server);                     /* a decision was answered */
bool weir_redis_mark_breathe(struct weir_redis_server *server, uint64_t generation); /* SET as a sign of life */
