/* SPDX-License-Identifier: Apache-2.0 */
#include "real.h"

#include <inttypes.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "limits/redis/layout.h"

#define MS_NS UINT64_C(1000000)
#define OFFSET_MS UINT64_C(4000000000000) /* as clock.lua has it */
#define KEY_SIZE 24

static const char *wrong(struct real *real, const char *what, const char *more)
{
    real->failed = true;
    (void)snprintf(real->wrong, sizeof real->wrong, "%s%s%s", what, more ? ": " : "", more ? more : "");
    return real->wrong;
}

/* Of one slot, as those of a request are. */
static size_t key_of(uint32_t number, char ret_key[KEY_SIZE])
{
    return (size_t)snprintf(ret_key, KEY_SIZE, "weir:{1}:%" PRIu32, number);
}

/* ---- what Redis keeps ---- */

/* A key goes when the clock is beyond the millisecond that it is kept until. */
static uint64_t until_ms(const struct weir_sim_script_value *value)
{
    return value->until_ns / MS_NS - 1;
}

static bool same(const struct weir_sim_script_value *a, const struct weir_sim_script_value *b)
{
    return a->size == b->size && (a->size == 0 || a->until_ns == b->until_ns) &&
           memcmp(a->bytes, b->bytes, a->size) == 0;
}

static void copy(struct weir_sim_script_value *to, const struct weir_sim_script_value *from)
{
    to->size = from->size;
    to->until_ns = from->until_ns;
    memcpy(to->bytes, from->bytes, from->size);
}

/* Sends what brings Redis to this state; returns how many answers it will give. */
static unsigned restore(struct real *real, struct weir_sim_script *script, uint64_t now_ns)
{
    unsigned sent = 0;
    for (uint32_t i = 0; i < WEIR_SIM_SCRIPT_KEYS; i++) {
        struct weir_sim_script_value *value = &script->values[i];
        char key[KEY_SIZE];
        key_of(i, key);
        real->restored += !same(value, &real->held.values[i]);
        if (value->until_ns <= now_ns)
            value->size = 0;
        if (same(value, &real->held.values[i]))
            continue;
        if (value->size > 0)
            redisAppendCommand(real->redis.context, "SET %s %b PXAT %llu", key, value->bytes, (size_t)value->size,
                               (unsigned long long)(until_ms(value) + OFFSET_MS));
        else
            redisAppendCommand(real->redis.context, "DEL %s", key);
        copy(&real->held.values[i], value);
        sent++;
    }
    return sent;
}

static redisReply *receive(struct real *real)
{
    redisReply *reply = NULL;
    if (redisGetReply(real->redis.context, (void **)&reply) != REDIS_OK)
        server_die("Redis", real->redis.context->errstr);
    return reply;
}

/* What stands under a key now: GET, and PEXPIRETIME. */
static const char *hear_value(struct real *real, struct weir_sim_script_value *value)
{
    redisReply *bytes = receive(real), *until = receive(real);
    const char *why = NULL;
    value->size = 0;
    if (bytes->type == REDIS_REPLY_STRING && (size_t)bytes->len > sizeof value->bytes) {
        why = wrong(real, "a value is larger than any may be", NULL);
    } else if (bytes->type == REDIS_REPLY_STRING && (until->type != REDIS_REPLY_INTEGER || until->integer < 0)) {
        why = wrong(real, "a key is immortal", NULL);
    } else if (bytes->type == REDIS_REPLY_STRING) {
        value->size = (uint32_t)bytes->len;
        memcpy(value->bytes, bytes->str, value->size);
        value->until_ns = ((uint64_t)until->integer - OFFSET_MS + 1) * MS_NS;
    } else if (bytes->type != REDIS_REPLY_NIL) {
        why = wrong(real, "GET", bytes->str);
    }
    freeReplyObject(bytes);
    freeReplyObject(until);
    return why;
}

/* ---- the call ---- */

static void send_call(struct real *real, const struct weir_sim_script_call *call)
{
    char keys[WEIR_SIM_SCRIPT_OPS][KEY_SIZE], count[4], seconds[24], us[8];
    const char *argv[6 + WEIR_SIM_SCRIPT_OPS] = { "EVALSHA", real->redis.sha1, count };
    size_t sizes[6 + WEIR_SIM_SCRIPT_OPS] = { 7, 40, (size_t)snprintf(count, sizeof count, "%u", call->count & 15) };
    int argc = 3;
    for (uint32_t i = 0; i < call->count; i++) {
        sizes[argc] = key_of(call->keys[i], keys[i]);
        argv[argc++] = keys[i];
    }
    argv[argc] = (const char *)call->argument;
    sizes[argc++] = call->size;
    sizes[argc] = (size_t)snprintf(seconds, sizeof seconds, "%" PRIu64, call->now_ns / WEIR_NS_PER_SECOND);
    argv[argc++] = seconds;
    sizes[argc] = (size_t)snprintf(us, sizeof us, "%u", (unsigned)(call->now_ns / 1000 % 1000000) & 0xfffff);
    argv[argc++] = us;
    redisAppendCommandArgv(real->redis.context, argc, argv, sizes);
    for (uint32_t i = 0; i < call->count; i++) {
        redisAppendCommand(real->redis.context, "GET %s", keys[i]);
        redisAppendCommand(real->redis.context, "PEXPIRETIME %s", keys[i]);
    }
    real->redis.calls++;
}

/* The bytes of the script's answer. Without one, those of a value that is not ours. */
static const char *hear_answer(struct real *real, const struct weir_sim_script_call *call,
                               struct weir_sim_script_reply *ret_reply)
{
    redisReply *reply = receive(real);
    const char *why = NULL;
    if (reply->type != REDIS_REPLY_STRING)
        why = wrong(real, "the script fails", reply->str);
    else if (reply->len < 9 || (size_t)reply->len > WEIR_SIM_SCRIPT_REPLY_MAX)
        why = wrong(real, "the script's answer has a size that none has", NULL);
    if (why) {
        struct layout_writer w = { ret_reply->bytes, ret_reply->bytes + WEIR_SIM_SCRIPT_REPLY_MAX };
        layout_put(&w, 1, 'C');
        layout_put(&w, 8, call->now_ns);
        ret_reply->size = 9;
    } else {
        memcpy(ret_reply->bytes, reply->str, (size_t)reply->len);
        ret_reply->size = (size_t)reply->len;
    }
    freeReplyObject(reply);
    return why;
}

struct asked {
    unsigned verb, flags;
    struct {
        bool log, counter;
        uint8_t *seen; /* in the argument; NULL: no value is replaced, or none was seen */
        uint64_t units;
    } ops[WEIR_SIM_SCRIPT_OPS];
};

/* What is asked, from a copy of the argument. */
static struct asked asked_of(const struct weir_sim_script_call *call, uint8_t *argument)
{
    struct layout_reader r = { argument, argument + call->size, false };
    struct asked asked = { 0 };
    asked.verb = (unsigned)layout_get(&r, 1);
    asked.flags = (unsigned)layout_get(&r, 1);
    (void)layout_take(&r, LAYOUT_CALL - 2);
    for (uint32_t i = 0; i < call->count; i++) {
        const uint8_t *parameters = layout_take(&r, LAYOUT_PARAMETERS);
        bool replaces = (layout_get(&r, 1) & LAYOUT_OP_REPLACE) != 0;
        (void)layout_take(&r, 3 + 8 + 8);
        asked.ops[i].log = parameters[4] == WEIR_SLIDING_LOG;
        asked.ops[i].counter = parameters[4] == WEIR_SLIDING_COUNTER;
        asked.ops[i].units = layout_get(&r, 8);
        (void)layout_take(&r, 8 + 3 * 8);
        size_t seen = layout_get(&r, 4), written = layout_get(&r, 4);
        (void)layout_take(&r, 8);
        if (replaces && seen == LAYOUT_SEEN)
            asked.ops[i].seen = argument + (r.at - argument);
        if (replaces)
            (void)layout_take(&r, seen + written);
        weir_assert(!r.short_of_bytes);
    }
    return asked;
}

/* What was charged, by the answer's own word. */
static void read_charged(const struct weir_sim_script_call *call, const struct asked *asked,
                         struct weir_sim_script_reply *reply)
{
    struct layout_reader r = { reply->bytes + 9, reply->bytes + reply->size, false };
    bool computed = reply->bytes[0] == 'S' && asked->verb == WEIR_REMOTE_DECIDE && asked->flags & LAYOUT_CALL_CHARGES;
    memset(reply->charged, 0, sizeof reply->charged);
    for (uint32_t i = 0; i < call->count; i++) {
        bool charged = computed;
        if (reply->bytes[0] == 'D') {
            charged = (layout_get(&r, 1) & LAYOUT_DONE_CHARGED) != 0;
            (void)layout_take(&r, asked->ops[i].log ? 72 : 32);
        }
        reply->charged[call->keys[i]] = charged ? asked->ops[i].units : 0;
    }
}

/* ---- the double, beside ---- */

static void sha1(const struct weir_sim_script_value *value, uint8_t ret_name[LAYOUT_SEEN])
{
    uint8_t digest[EVP_MAX_MD_SIZE];
    int done = EVP_Digest(value->bytes, value->size, digest, NULL, EVP_sha1(), NULL);
    weir_assert(done == 1);
    for (size_t i = 0; i < LAYOUT_SEEN; i++)
        ret_name[i] = (uint8_t) "0123456789abcdef"[digest[i / 2] >> (i % 2 ? 0 : 4) & 15];
}

/* Values have other names there: where one is named that stands in Redis, the double is told its own name of it. */
static void rename_seen(const struct real *real, const struct weir_sim_script_call *call, struct asked *asked)
{
    for (uint32_t i = 0; i < call->count; i++) {
        const struct weir_sim_script_value *value = &real->held.values[call->keys[i]];
        uint8_t name[LAYOUT_SEEN];
        sha1(value, name);
        if (asked->ops[i].seen && value->size > 0 && memcmp(name, asked->ops[i].seen, LAYOUT_SEEN) == 0)
            weir_sim_script_name(value, asked->ops[i].seen);
    }
}

/* Every value has its name in the answer: it is put in the place of the double's. */
static void rename_told(const struct weir_sim_script_call *call, struct weir_sim_script_reply *reply)
{
    struct layout_reader r = { reply->bytes + 9, reply->bytes + reply->size, false };
    struct weir_sim_script_value value;
    for (uint32_t i = 0; i < call->count && reply->bytes[0] == 'A'; i++) {
        value.size = (uint32_t)layout_get(&r, 4);
        uint8_t *name = reply->bytes + (r.at - reply->bytes);
        if (value.size == 0)
            continue;
        (void)layout_take(&r, LAYOUT_SEEN);
        memcpy(value.bytes, layout_take(&r, value.size), value.size);
        sha1(&value, name);
    }
}

/* What nodes do not read: of a log the units of runs that were dropped, and the newest entry where none counts. */
static void blank(const struct weir_sim_script_call *call, const struct asked *asked,
                  const struct weir_sim_script_reply *reply)
{
    uint8_t *bytes = reply->bytes;
    struct layout_reader r = { bytes + 9, bytes + reply->size, false };
    for (uint32_t i = 0; i < call->count && bytes[0] == 'D'; i++) {
        uint8_t *state = bytes + (r.at - bytes), *log = state + 33;
        if (!layout_take(&r, asked->ops[i].log ? 73 : 33) || !asked->ops[i].log)
            continue;
        memset(state + 9, 0, 8);
        struct layout_reader live = { log, log + 8, false };
        if (layout_get(&live, 8) == 0)
            memset(log + 16, 0, 8);
    }
}

/* The script moves a counter into its window before it answers, core as it judges: what core makes of both counts. */
static bool judged_alike(const struct weir_sim_script_call *call, const struct asked *asked,
                         const struct weir_sim_script_reply *a, const struct weir_sim_script_reply *b)
{
    struct weir_verdict of_a[WEIR_SIM_SCRIPT_OPS], of_b[WEIR_SIM_SCRIPT_OPS];
    size_t at = 9;
    if (a->size != b->size || memcmp(a->bytes, b->bytes, at) != 0 || a->bytes[0] != 'D')
        return false;
    weir_sim_script_judge(call, a, of_a);
    weir_sim_script_judge(call, b, of_b);
    for (uint32_t i = 0; i < call->count; i++) {
        const struct weir_verdict *v = &of_a[i], *w = &of_b[i];
        size_t size = asked->ops[i].log ? 73 : 33;
        bool alike = v->admitted == w->admitted && v->remaining == w->remaining &&
                     v->retry_after_ns == w->retry_after_ns && v->reset_after_ns == w->reset_after_ns &&
                     v->next_after_ns == w->next_after_ns && v->delay_ns == w->delay_ns;
        bool counter = asked->ops[i].counter && a->bytes[at] == b->bytes[at];
        if (!alike || (!counter && memcmp(a->bytes + at, b->bytes + at, size) != 0))
            return false;
        at += size;
    }
    return true;
}

static const char *compare_answers(struct real *real, const struct weir_sim_script_call *call,
                                   const struct asked *asked, const struct weir_sim_script_reply *heard,
                                   const struct weir_sim_script_reply *twin)
{
    char text[64];
    uint8_t bytes[WEIR_SIM_SCRIPT_REPLY_MAX];
    struct weir_sim_script_reply answer = { bytes, heard->size, { 0 } };
    size_t at = 0;
    memcpy(bytes, heard->bytes, heard->size);
    blank(call, asked, &answer);
    blank(call, asked, twin);
    while (at < answer.size && at < twin->size && bytes[at] == twin->bytes[at])
        at++;
    if ((at == answer.size && at == twin->size) || judged_alike(call, asked, &answer, twin))
        return NULL;
    (void)snprintf(text, sizeof text, "%c of %zu bytes, %c of %zu; byte %zu", bytes[0], answer.size, twin->bytes[0],
                   twin->size, at);
    return wrong(real, "the script answers otherwise than the double", text);
}

/* The script's key goes with the last millisecond of its state; one whose state was kept for longer may stay. */
static const char *compare_values(struct real *real, const struct weir_sim_script_call *call, const uint64_t *before_ns)
{
    for (uint32_t i = 0; i < call->count; i++) {
        const struct weir_sim_script_value *is = &real->held.values[call->keys[i]],
                                           *due = &real->beside.values[call->keys[i]];
        if ((is->size > 0) != (due->size > 0))
            return wrong(real,
                         is->size > 0 ? "the script writes what the double does not"
                                      : "the script writes nothing, and the double does",
                         NULL);
        if (is->size == 0)
            continue;
        if (!weir_sim_script_alike(is, due, call->now_ns))
            return wrong(real, "the script writes otherwise than the double", NULL);
        if (is->until_ns + 2 * MS_NS < due->until_ns)
            return wrong(real, "a key goes before its state does", NULL);
        if (is->until_ns > weir_max_u64(due->until_ns, before_ns[i]) + 2 * MS_NS)
            return wrong(real, "a key is kept for longer than its state", NULL);
    }
    return NULL;
}

/* ---- one call ---- */

static bool is_empty(const struct weir_sim_script *script)
{
    uint32_t used = 0;
    for (uint32_t i = 0; i < WEIR_SIM_SCRIPT_KEYS; i++)
        used |= script->values[i].size;
    return used == 0;
}

/* Another run, after one that was broken: what Redis keeps is not known. */
static void begin_again(struct real *real)
{
    freeReplyObject(redisCommand(real->redis.context, "FLUSHALL"));
    for (uint32_t i = 0; i < WEIR_SIM_SCRIPT_KEYS; i++)
        real->held.values[i].size = 0;
    real->failed = false;
}

static void count(struct real *real, const struct weir_sim_script_call *call, const struct weir_sim_script_reply *reply)
{
    if (reply->bytes[0] >= 'A' && reply->bytes[0] <= 'Z')
        real->letters[reply->bytes[0] - 'A']++;
    real->both += call->count > 1;
}

static const char *run(struct weir_sim_script_server *server, struct weir_sim_script *script,
                       const struct weir_sim_script_call *call, struct weir_sim_script_reply *ret_reply)
{
    struct real *real = (struct real *)server;
    uint8_t argument[UINT16_MAX], bytes[WEIR_SIM_SCRIPT_REPLY_MAX];
    struct weir_sim_script_reply twin = { bytes, 0, { 0 } };
    uint64_t before_ns[WEIR_SIM_SCRIPT_OPS] = { 0 };
    weir_assert(call->size <= sizeof argument && call->count <= WEIR_SIM_SCRIPT_OPS);
    if (real->failed && !is_empty(script)) { /* the run is judged already */
        weir_sim_script_run(script, call, ret_reply);
        return NULL;
    }
    if (real->failed)
        begin_again(real);
    memcpy(argument, call->argument, call->size);
    struct asked asked = asked_of(call, argument);
    unsigned restored = restore(real, script, call->now_ns);
    rename_seen(real, call, &asked);
    send_call(real, call);
    while (restored-- > 0)
        freeReplyObject(receive(real));
    const char *why = hear_answer(real, call, ret_reply);
    for (uint32_t i = 0; i < call->count; i++) {
        copy(&real->beside.values[call->keys[i]], &real->held.values[call->keys[i]]);
        before_ns[i] = real->held.values[call->keys[i]].size > 0 ? real->held.values[call->keys[i]].until_ns : 0;
        const char *whether = hear_value(real, &real->held.values[call->keys[i]]);
        why = why ? why : whether;
        copy(&script->values[call->keys[i]], &real->held.values[call->keys[i]]);
    }
    read_charged(call, &asked, ret_reply);
    count(real, call, ret_reply);
    if (why || real->alone)
        return why;
    struct weir_sim_script_call again = *call;
    again.argument = argument;
    weir_sim_script_run(&real->beside, &again, &twin);
    rename_told(call, &twin);
    why = compare_answers(real, call, &asked, ret_reply, &twin);
    return why ? why : compare_values(real, call, before_ns);
}

void real_open(struct real *real, const char *socket, const char *clock, const char *script)
{
    char *text;
    memset(real, 0, sizeof *real);
    real->server.run = run;
    if (asprintf(&text, "%s\n%s", clock, script) < 0)
        server_die("the script", "no memory");
    server_open_with(&real->redis, socket, text);
    free(text);
}

void real_close(struct real *real)
{
    server_close(&real->redis);
}
