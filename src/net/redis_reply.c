/* SPDX-License-Identifier: Apache-2.0
 *
 * Parses with hiredis, and bounds what it takes. hiredis trusts the count in the header of an array, so during each
 * parse its function that makes arrays is replaced by one that first counts the elements. The bytes of an incomplete
 * reply are bounded, too. Called by redis_conn.c and sessions/users_redis_link.c; what the script's reply says is read
 * in limits/redis/script_decode.c. */
#include "net/redis_reply.h"

#include <string.h>

#include "weir/error.h"

/* hiredis trusts the count of an array's header: ours are counted before memory is taken for them. */
static void *create_array(const redisReadTask *task, int elements)
{
    struct weir_redis_reader *reader = task->privdata;
    size_t count = elements > 0 ? (size_t)elements : 0;
    if (count > WEIR_REDIS_ELEMENTS_MAX - reader->elements)
        return NULL;
    reader->elements += count;
    return reader->functions->createArray(task, elements);
}

int weir_redis_reader_init(struct weir_redis_reader *reader)
{
    redisReader *made = redisReaderCreate();
    if (!made)
        return WEIR_ENOMEM;
    *reader = (struct weir_redis_reader){ .reader = made, .functions = made->fn };
    return 0;
}

void weir_redis_reader_deinit(struct weir_redis_reader *reader)
{
    if (reader->reader)
        redisReaderFree(reader->reader);
    *reader = (struct weir_redis_reader){ 0 };
}

int weir_redis_reader_feed(struct weir_redis_reader *reader, const char *data, size_t size)
{
    return redisReaderFeed(reader->reader, data, size) == REDIS_OK ? 0 : WEIR_ENOMEM;
}

int weir_redis_reader_next(struct weir_redis_reader *reader, redisReply **ret_reply)
{
    redisReplyObjectFunctions checked = *reader->functions;
    void *reply = NULL;
    checked.createArray = create_array;
    /* Set for the time of the call alone: the reader may have moved since. */
    reader->reader->fn = &checked;
    reader->reader->privdata = reader;
    int result = redisReaderGetReply(reader->reader, &reply);
    reader->reader->fn = reader->functions;
    if (result != REDIS_OK)
        return reader->reader->err == REDIS_ERR_OOM ? WEIR_ELIMIT : WEIR_EPROTO;
    if (!reply)
        return reader->reader->len - reader->reader->pos > WEIR_REDIS_REPLY_MAX ? WEIR_ELIMIT : WEIR_EAGAIN;
    reader->elements = 0;
    *ret_reply = reply;
    return 0;
}

bool weir_redis_is_error(const redisReply *reply, const char *code)
{
    size_t size = strlen(code);
    return reply->type == REDIS_REPLY_ERROR && (size_t)reply->len >= size && memcmp(reply->str, code, size) == 0 &&
           ((size_t)reply->len == size || reply->str[size] == ' ');
}

bool weir_redis_is_text(const redisReply *reply, const char *text)
{
    return (reply->type == REDIS_REPLY_STATUS || reply->type == REDIS_REPLY_STRING) &&
           (size_t)reply->len == strlen(text) && memcmp(reply->str, text, strlen(text)) == 0;
}

const redisReply *weir_redis_element(const redisReply *reply, size_t index, int type)
{
    if (reply->type != REDIS_REPLY_ARRAY || index >= reply->elements || reply->element[index]->type != type)
        return NULL;
    return reply->element[index];
}

const redisReply *weir_redis_field(const redisReply *reply, const char *name)
{
    for (size_t i = 0; i + 1 < reply->elements; i += 2) {
        const redisReply *key = weir_redis_element(reply, i, REDIS_REPLY_STRING);
        const redisReply *value = weir_redis_element(reply, i + 1, REDIS_REPLY_STRING);
        if (key && value && weir_redis_is_text(key, name))
            return value;
    }
    return NULL;
}
