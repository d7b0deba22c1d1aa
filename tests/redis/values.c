/* SPDX-License-Identifier: Apache-2.0
 *
 * What the script leaves in a key: where a log's runs stand, what is packed and what is joined, what nobody owes; and
 * what it keeps of a request.
 *
 *     redis_values SOCKET */
#include <stdio.h>
#include <string.h>

#include "single.h"

#define HEADER 120
#define STINT 48
#define RUN 16
#define SECOND WEIR_NS_PER_SECOND

/* ---- logs ---- */

#define LOG_COUNT 1000
#define STEP (WEIR_NS_PER_SECOND / 10)
#define LOG_PERIOD_NS (100 * STEP)

/* What was charged, and when. */
struct charged {
    uint64_t at_ns[200], units[200];
    size_t count;
};

static uint64_t log_left(const struct charged *charged)
{
    uint64_t left = LOG_COUNT;
    for (size_t i = 0; i < charged->count; i++)
        left -= charged->at_ns[i] + LOG_PERIOD_NS > clock_ns ? charged->units[i] : 0;
    return left;
}

/* Charges, and whether the log then shows what it should and has so many runs, with their room. */
static bool log_charge(struct server *server, struct weir_remote_op *op, struct charged *charged, uint64_t units,
                       long long size)
{
    op->units = units;
    charged->at_ns[charged->count] = clock_ns;
    charged->units[charged->count++] = units;
    return decide(server, op) == 0 && op->verdict.admitted && op->verdict.remaining == log_left(charged) &&
           op->verdict.reset_after_ns == LOG_PERIOD_NS && command(server, "STRLEN", op, NULL, 0) == size;
}

/* A node tells that it spent `spent`. */
static bool log_told(struct server *server, struct weir_remote_op *op, uint64_t seq, uint64_t spent)
{
    struct weir_script_call call;
    op->ask = (struct weir_share_ask){ .stint = 7, .seq = seq, .spent = spent, .ttl_ns = 60 * SECOND };
    return ask(server, WEIR_REMOTE_ASK, op, 1, NULL, &call) == 0;
}

/* Runs are appended, and joined where they are of one time. What has expired stays in front until it is as much as what
 * lives, and 64 at least; then what lives moves to the front. Stints are left where they are. */
static void log_is_packed(struct server *server, bool told)
{
    enum { MANY = 70 };
    const struct weir_remote_limit *limit = limit_of(
        (struct weir_limit_spec){ .algorithm = WEIR_SLIDING_LOG, .count = LOG_COUNT, .period_ns = LOG_PERIOD_NS });
    struct weir_remote_op op = op_of(limit, told ? "packed beside a stint" : "packed", 1);
    struct charged charged = { .count = 0 };
    long long size = HEADER;
    bool good = true;
    clock_ns = NOW_NS - STEP;
    if (told) {
        good = log_told(server, &op, 1, 1);
        charged = (struct charged){ { clock_ns }, { 1 }, 1 };
        size += STINT + RUN;
    }
    for (uint64_t i = 0; i < MANY; i++) {
        clock_ns = NOW_NS + i * STEP;
        good = log_charge(server, &op, &charged, 1 + i % 3, size += RUN) && good;
    }
    good = log_charge(server, &op, &charged, 2, size) && good;
    check(good, "a log's charges are appended, and those of one time joined");

    clock_ns = NOW_NS + 105 * STEP;
    good = log_charge(server, &op, &charged, 1, size += RUN);
    clock_ns = NOW_NS + 162 * STEP - told * STEP; /* 63 runs have expired, */
    good = log_charge(server, &op, &charged, 1, size += RUN) && good;
    check(good, "what has expired stays in front of a log,");
    clock_ns += STEP; /* and 64 */
    good = log_charge(server, &op, &charged, 1, HEADER + told * STINT + (9 + told) * RUN);
    check(good, "and no longer than until it is 64 runs");
    op.units = 0;
    if (told) {
        good = log_told(server, &op, 2, 1) && decide(server, &op) == 0 && op.verdict.remaining == log_left(&charged);
        charged.at_ns[charged.count] = clock_ns;
        charged.units[charged.count++] = 1;
        good = log_told(server, &op, 3, 2) && decide(server, &op) == 0 && good;
        check(good && op.verdict.remaining == log_left(&charged), "and what a node told once is known");
    }
    for (uint64_t i = 0; i < 105; i++, clock_ns += STEP)
        good = decide(server, &op) == 0 && op.verdict.remaining == log_left(&charged) && good;
    check(good, "what was moved expires as before");
    clock_ns = NOW_NS;
    weir_remote_limit_drop(limit);
}

/* What is given back is the newest; its runs' room is written again. */
static void log_gives_back(struct server *server)
{
    const struct weir_remote_limit *limit = limit_of(
        (struct weir_limit_spec){ .algorithm = WEIR_SLIDING_LOG, .count = LOG_COUNT, .period_ns = LOG_PERIOD_NS });
    struct weir_remote_op op = op_of(limit, "given back", 1);
    struct weir_script_call call;
    struct charged charged = { .count = 0 };
    bool good = true;
    for (uint64_t i = 0; i < 6; i++, clock_ns += STEP)
        good = log_charge(server, &op, &charged, 3, HEADER + RUN * (long long)(i + 1)) && good;
    op.units = 7; /* the two newest, and one of the next */
    good = ask(server, WEIR_REMOTE_REFUND, &op, 1, NULL, &call) == 0 && op.units == 7 && good;
    charged.count = 4;
    charged.units[3] = 2;
    good = log_charge(server, &op, &charged, 4, HEADER + RUN * 6) && good;
    op.units = 0;
    for (uint64_t i = 0; i < 105; i++, clock_ns += STEP)
        good = decide(server, &op) == 0 && op.verdict.remaining == log_left(&charged) && good;
    check(good, "what is given back of a log is what was charged last");
    clock_ns = NOW_NS;
    weir_remote_limit_drop(limit);
}

/* Sums of units grow for as long as a log lives: beyond 2^32, too. */
static void log_of_many_units(struct server *server)
{
    enum { PREVIOUS_HIGH = 75, RUNS = 5, UNITS_HIGH = HEADER + 11 };
    const struct weir_remote_limit *limit = limit_of(
        (struct weir_limit_spec){ .algorithm = WEIR_SLIDING_LOG, .count = LOG_COUNT, .period_ns = LOG_PERIOD_NS });
    struct weir_remote_op op = op_of(limit, "many units", 1);
    struct charged charged = { .count = 0 };
    char key[WEIR_SCRIPT_KEY_MAX];
    size_t size = weir_script_key("faults", &op, key);
    bool good = true;
    for (int i = 0; i < RUNS; i++, clock_ns += STEP)
        good = log_charge(server, &op, &charged, 3, HEADER + RUN * (i + 1)) && good;
    redisReply *value = redisCommand(server->context, "GET %b", key, size);
    value->str[PREVIOUS_HIGH] = 1; /* as if 2^32 had been charged before, */
    for (int i = 0; i < RUNS; i++)
        value->str[UNITS_HIGH + RUN * i] = 1; /* and are in each sum */
    command(server, "SET", &op, value->str, (size_t)value->len);
    freeReplyObject(value);
    command(server, "PEXPIRE", &op, "60000", 5);
    good = log_charge(server, &op, &charged, 2, HEADER + RUN * (RUNS + 1)) && good;
    clock_ns = NOW_NS + LOG_PERIOD_NS + STEP;         /* two runs have expired */
    for (int i = 2; i < 4; i++, clock_ns += STEP / 2) /* and no more */
        good = log_charge(server, &op, &charged, 2, HEADER + RUN * (RUNS + i)) && good;
    op.units = 0;
    for (uint64_t i = 0; i < 105; i++, clock_ns += STEP)
        good = decide(server, &op) == 0 && op.verdict.remaining == log_left(&charged) && good;
    check(good, "a log's units are counted beyond 2^32");
    clock_ns = NOW_NS;
    weir_remote_limit_drop(limit);
}

/* A log of a clock that jumped and came back is one run, which is all there may be. */
static void log_of_a_jumped_clock(struct server *server)
{
    const struct weir_remote_limit *limit = limit_of(
        (struct weir_limit_spec){ .algorithm = WEIR_SLIDING_LOG, .count = LOG_COUNT, .period_ns = LOG_PERIOD_NS });
    struct weir_remote_op op = op_of(limit, "jumped", 1);
    struct charged charged = { .count = 0 };
    bool good = true;
    clock_ns = NOW_NS + 10 * LOG_PERIOD_NS;
    for (uint64_t i = 0; i < 5; i++, clock_ns += STEP)
        good = log_charge(server, &op, &charged, 1, HEADER + RUN * (long long)(i + 1)) && good;
    clock_ns = NOW_NS;
    good = good && decide(server, &op) == 0 && !op.verdict.admitted && op.verdict.remaining == 0 &&
           op.verdict.retry_after_ns == LOG_PERIOD_NS;
    check(good, "a log of a clock that jumped is empty,");
    check(command(server, "STRLEN", &op, NULL, 0) == HEADER + RUN, "and has one run");
    clock_ns += LOG_PERIOD_NS;
    check(decide(server, &op) == 0 && op.verdict.remaining == LOG_COUNT - 1, "for one period");
    clock_ns = NOW_NS;
    weir_remote_limit_drop(limit);
}

/* ---- other values ---- */

/* Where one of several refuses, attempts are charged to the others: they owe nothing, and nobody holds anything. */
static void drained(struct server *server, enum weir_algorithm algorithm)
{
    enum { PREVIOUS = 72, DEBT = 88, STINTS = 104, RUNS = 112, HELD = 116 };
    static const char nothing[64];
    const struct weir_remote_limit *full = limit_of((struct weir_limit_spec){ .count = 10, .period_ns = 60 * SECOND }),
                                   *limit = limit_of((struct weir_limit_spec){ .algorithm = algorithm,
                                                                               .count_mode = WEIR_COUNT_ATTEMPTS,
                                                                               .count = 10,
                                                                               .period_ns = 60 * SECOND });
    struct weir_remote_op ops[2] = { op_of(full, "full", 10), op_of(limit, "drained", 3) };
    struct weir_script_call call;
    char key[WEIR_SCRIPT_KEY_MAX];
    ops[1].key.tag = ops[0].key.tag;
    command(server, "DEL", &ops[0], NULL, 0);
    bool good = decide(server, &ops[0]) == 0 && ops[0].verdict.admitted;
    size_t size = weir_script_key("faults", &ops[1], key);
    command(server, "DEL", &ops[1], NULL, 0);
    good = good && ask(server, WEIR_REMOTE_DECIDE, ops, 2, NULL, &call) == 0 && !ops[0].verdict.admitted;
    redisReply *value = redisCommand(server->context, "GET %b", key, size);
    good = good && value->type == REDIS_REPLY_STRING && value->len >= HEADER;
    if (good && algorithm <= WEIR_LEAKY_BUCKET)
        good = memcmp(value->str + PREVIOUS, nothing, DEBT - PREVIOUS) == 0;
    if (good && algorithm == WEIR_SLIDING_COUNTER) /* nothing before, and 3 now */
        good = memcmp(value->str + PREVIOUS, nothing, 15) == 0 && value->str[DEBT - 1] == 3;
    if (good && algorithm == WEIR_SLIDING_LOG)
        good = memcmp(value->str + PREVIOUS, nothing, DEBT - PREVIOUS) == 0 && value->str[RUNS + 3] == 1;
    good = good && memcmp(value->str + DEBT, nothing, STINTS - DEBT) == 0 &&
           memcmp(value->str + STINTS, nothing, RUNS - STINTS) == 0 && memcmp(value->str + HELD, nothing, 4) == 0;
    freeReplyObject(value);
    ops[1].units = 0;
    good = good && decide(server, &ops[1]) == 0 && ops[1].verdict.remaining == 7;
    char what[80];
    snprintf(what, sizeof what, "an attempt is charged to a fresh key of algorithm %d, and nothing is owed", algorithm);
    check(good, what);
    weir_remote_limit_drop(full);
    weir_remote_limit_drop(limit);
}

/* A look, and what is refused, write nothing. */
static void nothing_is_written(struct server *server, enum weir_algorithm algorithm)
{
    const struct weir_remote_limit *limit = limit_of(
        (struct weir_limit_spec){ .algorithm = algorithm, .count = 10, .period_ns = 60 * SECOND });
    struct weir_remote_op op = op_of(limit, "looked at", 11);
    struct weir_script_call call;
    char key[WEIR_SCRIPT_KEY_MAX], what[80];
    size_t size = weir_script_key("faults", &op, key);
    const uint64_t id[2] = { 51, (uint64_t)algorithm }; /* so that it is not the plain part's */
    command(server, "DEL", &op, NULL, 0);
    bool good = ask(server, WEIR_REMOTE_DECIDE, &op, 1, id, &call) == 0 && !op.verdict.admitted;
    op.units = 1;
    good = good && ask(server, WEIR_REMOTE_PEEK, &op, 1, id, &call) == 0 && op.verdict.admitted;
    good = good && command(server, "EXISTS", &op, NULL, 0) == 0;
    good = good && ask(server, WEIR_REMOTE_DECIDE, &op, 1, id, &call) == 0 && op.verdict.admitted;
    redisReply *before = redisCommand(server->context, "GET %b", key, size);
    good = good && before->type == REDIS_REPLY_STRING && command(server, "PEXPIRE", &op, "5000", 4) == 1;
    clock_ns += SECOND;
    const uint64_t other[2] = { 52, (uint64_t)algorithm };
    op.units = 10;
    good = good && ask(server, WEIR_REMOTE_DECIDE, &op, 1, other, &call) == 0 && !op.verdict.admitted;
    op.units = 1;
    good = good && ask(server, WEIR_REMOTE_PEEK, &op, 1, other, &call) == 0 && op.verdict.admitted;
    op.units = 0;
    good = good && ask(server, WEIR_REMOTE_DECIDE, &op, 1, other, &call) == 0 && op.verdict.admitted;
    redisReply *after = redisCommand(server->context, "GET %b", key, size);
    good = good && after->type == REDIS_REPLY_STRING && after->len == before->len &&
           memcmp(after->str, before->str, (size_t)before->len) == 0 && command(server, "PTTL", &op, NULL, 0) <= 5000;
    freeReplyObject(before);
    freeReplyObject(after);
    snprintf(what, sizeof what, "who looks, is refused or asks for nothing writes nothing, algorithm %d", algorithm);
    check(good, what);
    clock_ns = NOW_NS;
    weir_remote_limit_drop(limit);
}

/* A clock that steps back over midnight finds the new day's count, and does not end it. */
static void day_of_a_clock_that_steps_back(struct server *server)
{
    const uint64_t day_ns = 86400 * SECOND, midnight_ns = NOW_NS / day_ns * day_ns;
    const struct weir_remote_limit *limit = limit_of((struct weir_limit_spec){ .algorithm = WEIR_FIXED_WINDOW,
                                                                               .calendar = WEIR_CALENDAR_DAY,
                                                                               .calendar_count = 1,
                                                                               .count = 10,
                                                                               .period_ns = day_ns });
    struct weir_remote_op op = op_of(limit, "midnight", 4);
    clock_ns = midnight_ns + 3600 * SECOND;
    check(decide(server, &op) == 0 && op.verdict.remaining == 6, "4 of 10 of a day");
    op.units = 1;
    clock_ns = midnight_ns - 3600 * SECOND;
    check(decide(server, &op) == 0 && op.verdict.remaining == 5 &&
              op.verdict.reset_after_ns == midnight_ns + day_ns - clock_ns,
          "count for a clock that steps back before it");
    clock_ns = midnight_ns + 7200 * SECOND;
    check(decide(server, &op) == 0 && op.verdict.remaining == 4, "and so does what was charged there");
    clock_ns = midnight_ns + day_ns;
    check(decide(server, &op) == 0 && op.verdict.remaining == 9, "until the day is over");
    clock_ns = NOW_NS;
    weir_remote_limit_drop(limit);
}

/* ---- requests ---- */

/* What lies under a request's key and is not ours. */
static void foreign_request(struct server *server)
{
    const struct weir_remote_limit *limit = limit_of((struct weir_limit_spec){ .count = 10, .period_ns = 60 * SECOND });
    struct weir_remote_op op = op_of(limit, "foreign request", 3);
    struct weir_remote_request request = { .ops = &op, .count = 1, .test_now_ns = NOW_NS };
    struct weir_script_call call;
    const uint64_t id[2] = { 21, 22 };
    weir_script_call_init(&call, &request, "faults", NOW_NS);
    memcpy(call.id, id, sizeof id);
    weir_script_call_add(&call, 0);
    check(weir_script_call_encode(&call, server->sha1) == 0 && call.argc == 6, "a call with two keys");
    freeReplyObject(redisCommand(server->context, "SET %b other", call.argv[4], call.sizes[4]));
    check(ask(server, WEIR_REMOTE_DECIDE, &op, 1, id, &(struct weir_script_call){ 0 }) == WEIR_ECORRUPT,
          "a string under a request's key");
    freeReplyObject(redisCommand(server->context, "DEL %b", call.argv[4], call.sizes[4]));
    freeReplyObject(redisCommand(server->context, "RPUSH %b x", call.argv[4], call.sizes[4]));
    check(ask(server, WEIR_REMOTE_DECIDE, &op, 1, id, &(struct weir_script_call){ 0 }) == WEIR_ECORRUPT,
          "and a list are not ours");
    check(command(server, "EXISTS", &op, NULL, 0) == 0, "and nothing is charged");
    weir_script_call_deinit(&call);
    weir_remote_limit_drop(limit);
}

/* A request of which core computes what becomes of the key, for its limit has changed, comes twice as well. */
static void request_of_a_changed_limit(struct server *server)
{
    struct weir_limit_spec spec = { .count = 10, .period_ns = 600 * SECOND };
    const struct weir_remote_limit *before = limit_of(spec);
    spec.count = 20;
    const struct weir_remote_limit *after = limit_of(spec);
    struct weir_remote_op op = op_of(before, "changed, by request", 4);
    struct weir_script_call call;
    const uint64_t id[2] = { 31, 32 }, other[2] = { 33, 34 };
    bool good = decide(server, &op) == 0 && op.verdict.remaining == 6;
    op.limit = after;
    good = good && ask(server, WEIR_REMOTE_DECIDE, &op, 1, id, &call) == 0 && op.verdict.admitted && !call.again;
    const uint64_t left = op.verdict.remaining;
    good = good && ask(server, WEIR_REMOTE_DECIDE, &op, 1, id, &call) == 0 && op.verdict.admitted && call.again &&
           op.verdict.remaining == left;
    check(good, "a request of a changed limit is charged once");

    op = op_of(before, "changed, and refused", 10);
    good = decide(server, &op) == 0 && op.verdict.remaining == 0;
    op.limit = after;
    good = good && ask(server, WEIR_REMOTE_DECIDE, &op, 1, other, &call) == 0 && !op.verdict.admitted;
    good = good && ask(server, WEIR_REMOTE_REFUND, &op, 1, NULL, &call) == 0 && op.units == 10;
    good = good && ask(server, WEIR_REMOTE_DECIDE, &op, 1, other, &call) == 0 && op.verdict.admitted && !call.again;
    check(good, "and one that was refused is decided anew");
    weir_remote_limit_drop(before);
    weir_remote_limit_drop(after);
}

/* Nor is it otherwise where a node holds units of the key, so that core decides. */
static void request_beside_a_hold(struct server *server)
{
    const struct weir_remote_limit *limit = limit_of((struct weir_limit_spec){
        .count_mode = WEIR_COUNT_ATTEMPTS, .count = 10, .period_ns = 600 * WEIR_NS_PER_SECOND });
    struct weir_remote_op op = op_of(limit, "held, and requested", 4);
    struct weir_script_call call;
    const uint64_t id[2] = { 35, 36 }, other[2] = { 37, 38 };
    op.ask = (struct weir_share_ask){ .stint = 7, .seq = 1, .want = 2, .ttl_ns = 60 * SECOND };
    bool good = ask(server, WEIR_REMOTE_ASK, &op, 1, NULL, &call) == 0 && op.answer.granted == 2;
    for (int i = 0; i < 2; i++)
        good = good && ask(server, WEIR_REMOTE_DECIDE, &op, 1, id, &call) == 0 && op.verdict.admitted &&
               call.again == (i > 0) && op.verdict.remaining == 4;
    check(good, "a request beside what a node holds is charged once");
    op.units = 5;
    good = good && ask(server, WEIR_REMOTE_DECIDE, &op, 1, other, &call) == 0 && !op.verdict.admitted &&
           op.verdict.remaining == 0;
    good = good && ask(server, WEIR_REMOTE_REFUND, &op, 1, NULL, &call) == 0 && op.units == 5;
    good = good && ask(server, WEIR_REMOTE_DECIDE, &op, 1, other, &call) == 0 && op.verdict.admitted && !call.again;
    check(good && op.verdict.remaining == 0, "and one that was refused there is decided anew");
    weir_remote_limit_drop(limit);
}

/* What is given back of a key that another limit has carried over since is left to it; and nobody asks again. */
static void give_back_of_a_changed_limit(struct server *server)
{
    struct weir_limit_spec spec = { .count = 10, .period_ns = 600 * SECOND };
    const struct weir_remote_limit *before = limit_of(spec);
    spec.count = 20;
    const struct weir_remote_limit *after = limit_of(spec);
    struct weir_remote_op op = op_of(before, "changed, and given back", 4);
    struct weir_remote_request request = { .ops = &op, .count = 1, .test_now_ns = NOW_NS };
    struct weir_script_call call, back, *calls = &back;
    const uint64_t id[2] = { 61, 62 };
    int status;
    bool good = ask(server, WEIR_REMOTE_DECIDE, &op, 1, id, &call) == 0 && op.verdict.remaining == 6;
    op.limit = after;
    op.units = 0;
    const struct weir_remote_op other = op;
    good = good && decide(server, &op) == 0;
    const uint64_t left = op.verdict.remaining;
    op.limit = before;
    op.units = 4;
    weir_script_call_init(&back, &request, "faults", NOW_NS);
    memcpy(back.id, id, sizeof id);
    weir_script_call_add(&back, 0);
    weir_script_call_roll_back(&back, server->sha1, false);
    const uint64_t asked = server->calls;
    server_run(server, &calls, 1, &status);
    weir_script_call_deinit(&back);
    good = good && status == 0 && server->calls == asked + 1;
    op = other;
    good = good && decide(server, &op) == 0 && op.verdict.remaining == left;
    check(good, "what is given back to a changed limit is left to decay");
    weir_remote_limit_drop(before);
    weir_remote_limit_drop(after);
}

/* The first part of the script decides alone what is plain: how long a call takes depends on it. */
static void plain_alone(struct server *server)
{
    const struct weir_remote_limit *limit = limit_of(
        (struct weir_limit_spec){ .count = 10, .period_ns = 600 * SECOND });
    struct weir_remote_op op = op_of(limit, "plain alone", 1);
    struct weir_remote_request request = { .ops = &op, .count = 1 };
    struct weir_script_call call;
    const char *second = strstr(weir_script_text + 1, "-- SPDX");
    bool good = second != NULL;
    redisReply *reply = redisCommand(server->context, "SCRIPT LOAD %b", weir_script_text,
                                     good ? (size_t)(second - weir_script_text) : 0);
    good = good && reply->type == REDIS_REPLY_STRING;
    weir_script_call_init(&call, &request, "faults", NOW_NS);
    weir_script_call_add(&call, 0);
    for (uint64_t i = 0; i < 11 && good; i++) {
        weir_script_call_encode(&call, reply->str);
        redisReply *answer = redisCommandArgv(server->context, call.argc, call.argv, call.sizes);
        good = answer->type == REDIS_REPLY_STRING && answer->str[0] == 'D' &&
               weir_script_call_decode(&call, answer->str, (size_t)answer->len) == 0 &&
               op.verdict.admitted == (i < 10) && op.verdict.remaining == (i < 10 ? 9 - i : 0);
        freeReplyObject(answer);
    }
    weir_script_call_deinit(&call);
    freeReplyObject(reply);
    check(good, "the script's first part decides alone what is plain");
    weir_remote_limit_drop(limit);
}

/* Production's text knows a request again too. */
static void request_in_production(struct server *server)
{
    const struct weir_remote_limit *limit = limit_of(
        (struct weir_limit_spec){ .count = 10, .period_ns = 600 * SECOND });
    struct weir_remote_op op = op_of(limit, "in production", 4);
    struct weir_remote_request request = { .ops = &op, .count = 1 };
    struct weir_script_call call;
    const uint64_t id[2] = { 41, 42 };
    freeReplyObject(redisCommand(server->context, "SCRIPT LOAD %b", weir_script_text, weir_script_text_size));
    weir_script_call_init(&call, &request, "faults", NOW_NS);
    memcpy(call.id, id, sizeof id);
    weir_script_call_add(&call, 0);
    for (int i = 0; i < 2; i++) {
        weir_script_call_encode(&call, weir_script_sha1);
        redisReply *reply = redisCommandArgv(server->context, call.argc, call.argv, call.sizes);
        check(reply->type == REDIS_REPLY_STRING && reply->str[0] == "DR"[i], "a request is charged once in production");
        freeReplyObject(reply);
    }
    redisReply *reply = redisCommand(server->context, "PTTL %b", call.argv[4], call.sizes[4]);
    check(reply->type == REDIS_REPLY_INTEGER && reply->integer > 50000 && reply->integer <= 60000,
          "and known for a minute");
    freeReplyObject(reply);
    weir_script_call_deinit(&call);
    weir_remote_limit_drop(limit);
}

int main(int argc, char **argv)
{
    struct server server;
    if (argc != 2) {
        fprintf(stderr, "usage: redis_values SOCKET\n");
        return 2;
    }
    server_open(&server, argv[1]);
    log_is_packed(&server, false);
    log_is_packed(&server, true);
    log_gives_back(&server);
    log_of_many_units(&server);
    log_of_a_jumped_clock(&server);
    for (int i = WEIR_TOKEN_BUCKET; i <= WEIR_SLIDING_COUNTER; i++)
        drained(&server, (enum weir_algorithm)i);
    for (int i = WEIR_TOKEN_BUCKET; i <= WEIR_SLIDING_COUNTER; i++)
        nothing_is_written(&server, (enum weir_algorithm)i);
    day_of_a_clock_that_steps_back(&server);
    foreign_request(&server);
    request_of_a_changed_limit(&server);
    request_beside_a_hold(&server);
    give_back_of_a_changed_limit(&server);
    request_in_production(&server);
    plain_alone(&server);
    server_close(&server);
    return failures > 0;
}
