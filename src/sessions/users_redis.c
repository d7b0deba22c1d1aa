/* SPDX-License-Identifier: Apache-2.0
 *
 * The redis store. weir:session:epoch holds "EPOCH RUN:REPLICATION": the server that the epoch began at, by its run id
 * (another one after a restart) and its replication id (another one after it was promoted, or was a replica for a
 * while). weir:session:user:NAME holds a value. Each command is one script, which looks at both ids first: so that a
 * server never answers from a state of which it cannot know that nothing was lost. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/decimal.h"
#include "base/fault.h"
#include "sessions/users_redis_link.h"
#include "sessions/users_remote.h"

#define EPOCH_KEY "weir:session:epoch"
#define USER_KEY "weir:session:user:"
#define TEXT_OF(x) #x
#define TEXT(x) TEXT_OF(x)
#define VALUE_MAX 499 /* in the script, and checked below */
_Static_assert(VALUE_MAX == WEIR_USERS_VALUE_MAX, "the script's bound is the codec's");

/* KEYS: epoch, user. ARGV: run id; a new epoch's name; ttl in ms; and to swap: the epoch that was fetched, what was
 * said (0 absent, 1 value, 2 odd), the value then, the value now; the evictions and the ms of then: what was absent
 * then and is now may have come and gone meanwhile, by eviction or by its ttl, and it is not known what it said.
 * A fetch answers epoch, said, value, evictions, seconds, microseconds; a swap 1 or 0. PEXPIRE prolongs, and, being a
 * write, is refused by a replica even where there is no such key. */
static const char script[] =
    "local here = ARGV[1] .. ':' .. string.match(redis.call('INFO', 'replication'), 'master_replid:(%x+)')\n"
    "local mark = redis.pcall('GET', KEYS[1])\n"
    "local epoch\n"
    "if type(mark) == 'string' and string.sub(mark, 17) == ' ' .. here and string.match(mark, '^[0-9a-f]+ ') then\n"
    "  epoch = string.sub(mark, 1, 16)\n"
    "else\n"
    "  epoch = ARGV[2]\n"
    "  redis.call('SET', KEYS[1], epoch .. ' ' .. here)\n"
    "end\n"
    "local value = redis.pcall('GET', KEYS[2])\n"
    "local said = '1'\n"
    "if not value then said = '0'\n"
    "elseif type(value) ~= 'string' or #value > " TEXT(
        VALUE_MAX) " then said = '2' end\n"
                   "if #ARGV > 3 then\n"
                   "  if epoch ~= ARGV[4] or said ~= ARGV[5] or (said == '1' and value ~= ARGV[6]) then return 0 end\n"
                   "  if said == '0' then\n"
                   "    local now = redis.call('TIME')\n"
                   "    local past = 1000 * now[1] + now[2] / 1000 - ARGV[9]\n"
                   "    if past < 0 or past >= ARGV[3] - 1 or ARGV[8] ~=\n"
                   "      string.match(redis.call('INFO', 'stats'), 'evicted_keys:(%d+)') then return 0 end\n"
                   "  end\n"
                   "  redis.call('SET', KEYS[2], ARGV[7], 'PX', ARGV[3])\n"
                   "  return 1\n"
                   "end\n"
                   "redis.call('PEXPIRE', KEYS[2], ARGV[3])\n"
                   "local now = redis.call('TIME')\n"
                   "local evictions = '0'\n"
                   "if said ~= '1' then\n"
                   "  value = ''\n"
                   "  evictions = string.match(redis.call('INFO', 'stats'), 'evicted_keys:(%d+)')\n"
                   "end\n"
                   "return {epoch, said, value, evictions, now[1], now[2]}\n";

struct redis {
    struct weir_users_remote remote; /* first */
    struct weir_users_redis_url url;
    char ttl_ms[24];
};

static void *link_create(struct weir_users_remote *remote)
{
    struct redis *redis = (struct redis *)(void *)remote;
    struct weir_users_redis_link *link = malloc(sizeof(*link));
    if (link)
        weir_users_redis_link_init(link, &redis->url, script);
    return link;
}

static void link_destroy(void *link)
{
    weir_users_redis_link_close(link);
    free(link);
}

static void destroy(struct weir_users_remote *remote)
{
    weir_users_remote_deinit(remote);
    explicit_bzero(&((struct redis *)(void *)remote)->url, sizeof(struct weir_users_redis_url));
    free(remote);
}

/* ---- the script ---- */

#define ARGUMENTS_MAX 14

struct command {
    char key[sizeof USER_KEY + WEIR_SESSION_ID_MAX];
    char epoch[WEIR_USERS_EPOCH_SIZE + 1];
    int argc;
    const char *argv[ARGUMENTS_MAX];
    size_t sizes[ARGUMENTS_MAX];
};

static void add_bytes(struct command *command, const char *data, size_t size)
{
    command->argv[command->argc] = data;
    command->sizes[command->argc++] = size;
}

static void add_word(struct command *command, const char *word)
{
    add_bytes(command, word, strlen(word));
}

static void command_begin(struct command *command, const struct redis *redis, const struct weir_users_redis_link *link,
                          struct weir_users_name name)
{
    size_t head = strlen(USER_KEY);
    command->argc = 0;
    memcpy(command->key, USER_KEY, head);
    memcpy(command->key + head, name.data, name.size);
    weir_users_epoch_make(command->epoch);
    add_word(command, "EVALSHA");
    add_word(command, link->script_sha1);
    add_word(command, "2");
    add_word(command, EPOCH_KEY);
    add_bytes(command, command->key, head + name.size);
    add_word(command, link->run);
    add_word(command, command->epoch);
    add_word(command, redis->ttl_ms);
}

/* An error of the server's. It is forgotten who it was where that may have changed. */
static int refused(struct redis *redis, struct weir_users_redis_link *link, const redisReply *reply)
{
    weir_users_remote_fault(&redis->remote, "%.64s:%s: %.80s", redis->url.hosts[link->first].name,
                            redis->url.hosts[link->first].port, reply->str);
    bool again = weir_redis_is_error(reply, "READONLY") || weir_redis_is_error(reply, "NOSCRIPT") ||
                 strstr(reply->str, "READONLY") != NULL;
    weir_users_redis_link_close(link);
    return again ? WEIR_EIO : WEIR_EDOWN;
}

static int run(struct redis *redis, struct weir_users_redis_link *link, const struct command *command,
               uint64_t deadline_ns, redisReply **ret_reply)
{
    if (!weir_users_redis_link_ask(link, command->argc, command->argv, command->sizes, deadline_ns, ret_reply)) {
        weir_users_remote_fault(&redis->remote, "%s", link->fault);
        return WEIR_EIO;
    }
    if ((*ret_reply)->type != REDIS_REPLY_ERROR)
        return 0;
    int error = refused(redis, link, *ret_reply);
    freeReplyObject(*ret_reply);
    return error;
}

static int opened(struct redis *redis, struct weir_users_redis_link *link, uint64_t deadline_ns)
{
    if (link->fd >= 0 || weir_users_redis_link_open(link, deadline_ns))
        return 0;
    weir_users_remote_fault(&redis->remote, "%s", link->fault);
    return WEIR_EDOWN;
}

/* ---- replies ---- */

static bool read_number(const redisReply *reply, size_t index, uint64_t *ret_number)
{
    const redisReply *element = weir_redis_element(reply, index, REDIS_REPLY_STRING);
    return element && weir_decimal_read(element->str, ret_number);
}

static bool read_fetched(const redisReply *reply, struct weir_users_fetched *ret_fetched)
{
    const redisReply *epoch = weir_redis_element(reply, 0, REDIS_REPLY_STRING);
    const redisReply *value = weir_redis_element(reply, 2, REDIS_REPLY_STRING);
    uint64_t said, seconds, microseconds;
    if (!epoch || (size_t)epoch->len != WEIR_USERS_EPOCH_SIZE || !weir_users_epoch_valid(epoch->str) || !value ||
        (size_t)value->len > WEIR_USERS_VALUE_MAX || !read_number(reply, 1, &said) || said > WEIR_USERS_ODD ||
        !read_number(reply, 3, &ret_fetched->evictions) || !read_number(reply, 4, &seconds) ||
        !read_number(reply, 5, &microseconds))
        return false;
    memcpy(ret_fetched->epoch, epoch->str, sizeof ret_fetched->epoch);
    ret_fetched->said = (enum weir_users_said)said;
    ret_fetched->wall_ns = seconds * UINT64_C(1000000000) + microseconds * 1000;
    ret_fetched->size = (size_t)value->len;
    memcpy(ret_fetched->value, value->str, (size_t)value->len);
    return true;
}

static int redis_fetch(struct weir_users_remote *remote, void *context, struct weir_users_name name,
                       uint64_t deadline_ns, struct weir_users_fetched *ret_fetched)
{
    struct redis *redis = (struct redis *)(void *)remote;
    struct weir_users_redis_link *link = context;
    struct command command;
    redisReply *reply;
    int error = opened(redis, link, deadline_ns);
    if (error)
        return error;
    command_begin(&command, redis, link, name);
    error = run(redis, link, &command, deadline_ns, &reply);
    if (error)
        return error;
    *ret_fetched = (struct weir_users_fetched){ .evicts = link->evicts };
    if (!read_fetched(reply, ret_fetched)) {
        weir_users_remote_fault(remote, "the script answers what is none of ours");
        weir_users_redis_link_close(link);
        error = WEIR_EDOWN;
    }
    freeReplyObject(reply);
    return error;
}

static int redis_swap(struct weir_users_remote *remote, void *context, struct weir_users_name name,
                      const struct weir_users_fetched *before, const char *value, size_t size, uint64_t deadline_ns)
{
    static const char *const saids[] = { "0", "1", "2" };
    struct redis *redis = (struct redis *)(void *)remote;
    struct weir_users_redis_link *link = context;
    struct command command;
    redisReply *reply;
    int error = opened(redis, link, deadline_ns);
    if (error)
        return error;
    command_begin(&command, redis, link, name);
    add_word(&command, before->epoch);
    add_word(&command, saids[before->said]);
    add_bytes(&command, before->value, before->size);
    add_bytes(&command, value, size);
    char evictions[24], then_ms[24];
    snprintf(evictions, sizeof(evictions), "%" PRIu64, before->evictions);
    snprintf(then_ms, sizeof(then_ms), "%" PRIu64, before->wall_ns / UINT64_C(1000000));
    add_word(&command, evictions);
    add_word(&command, then_ms);
    error = run(redis, link, &command, deadline_ns, &reply);
    if (error)
        return error;
    bool done = reply->type == REDIS_REPLY_INTEGER && reply->integer == 1;
    freeReplyObject(reply);
    return done ? 0 : WEIR_EBUSY;
}

static const struct weir_users_remote_ops redis_ops = {
    .link_create = link_create,
    .link_destroy = link_destroy,
    .fetch = redis_fetch,
    .swap = redis_swap,
    .destroy = destroy,
};

int weir_users_redis_open(const struct weir_users_options *options, struct weir_users **ret_users,
                          struct weir_fault *ret_fault)
{
    const char *why = "";
    struct redis *redis = calloc(1, sizeof(*redis));
    if (!redis)
        return WEIR_ENOMEM;
    int error = weir_users_redis_url_read(options->url, &redis->url, &why);
    if (error) {
        weir_fault_set(ret_fault, error, "url", why);
    } else {
        snprintf(redis->ttl_ms, sizeof redis->ttl_ms, "%" PRIu64, weir_div_ceil(options->ttl_ns, 1000000));
        error = weir_users_remote_init(&redis->remote, &redis_ops, options);
    }
    if (error) {
        free(redis);
        return error;
    }
    *ret_users = &redis->remote.users;
    return 0;
}
