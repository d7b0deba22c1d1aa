/* SPDX-License-Identifier: Apache-2.0
 *
 * Replies of a Redis server, parsed by hiredis within bounds: what a broken or hostile server sends costs at most
 * WEIR_REDIS_REPLY_MAX bytes and WEIR_REDIS_ELEMENTS_MAX elements, then an error. */
#pragma once

#include <hiredis/hiredis.h>
#include <stdbool.h>
#include <stddef.h>

/* A log of 65,536 entries comes whole where its limit was changed, with as much room again. */
#define WEIR_REDIS_REPLY_MAX ((size_t)4 << 20)
#define WEIR_REDIS_ELEMENTS_MAX ((size_t)65536) /* of one reply, nested ones included */

struct weir_redis_reader {
    redisReader *reader;
    redisReplyObjectFunctions *functions; /* hiredis's, which ours call after the check */
    size_t elements;                      /* of the reply that is being read */
};

int weir_redis_reader_init(struct weir_redis_reader *reader); /* WEIR_ENOMEM */
void weir_redis_reader_deinit(struct weir_redis_reader *reader);

int weir_redis_reader_feed(struct weir_redis_reader *reader, const char *data, size_t size); /* WEIR_ENOMEM */

/* The next complete reply, freed with freeReplyObject. WEIR_EAGAIN: more bytes are needed; WEIR_ELIMIT: a bound is
 * passed; WEIR_EPROTO: no RESP. After the last two the reader is of no more use. */
int weir_redis_reader_next(struct weir_redis_reader *reader, redisReply **ret_reply);

/* Small questions about a reply; none takes more than the reply holds. */
bool weir_redis_is_error(const redisReply *reply, const char *code); /* "-CODE …" */
bool weir_redis_is_text(const redisReply *reply, const char *text);  /* a status or string of exactly these bytes */
const redisReply *weir_redis_element(const redisReply *reply, size_t index, int type); /* NULL: there is none such */
/* Of a flat list [name, value, …] of strings: the value of the name; NULL: it is not there. */
const redisReply *weir_redis_field(const redisReply *reply, const char *name);
