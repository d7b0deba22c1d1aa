/* SPDX-License-Identifier: Apache-2.0
 *
 * The script's clock: whose it is, and what the script makes of one that steps back, or went far ahead.
 *
 *     redis_clocks SOCKET */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/limit/ticks.h"
#include "limits/calendar.h"
#include "single.h"

#define YEARS_NS (9 * 365 * 86400 * WEIR_NS_PER_SECOND)

/* A log's entries stay in order under a clock that steps back by less than a tick, which of so long a window is some
 * ns: what joins the newest ends with it. */
static void log_of_a_clock_that_steps_back(struct server *server)
{
    const struct weir_remote_limit *limit = limit_of(
        (struct weir_limit_spec){ .algorithm = WEIR_SLIDING_LOG, .count = 10, .period_ns = YEARS_NS });
    struct weir_remote_op op = op_of(limit, "steps back", 2);
    clock_ns = NOW_NS + 1;
    check(limit->limit.shift < 0 && decide(server, &op) == 0 && op.verdict.remaining == 8, "two entries");
    clock_ns = NOW_NS;
    check(decide(server, &op) == 0 && op.verdict.remaining == 6, "two more of an earlier time");
    clock_ns = NOW_NS + YEARS_NS;
    op.units = 0;
    check(decide(server, &op) == 0 && op.verdict.remaining == 6, "all four count until the newest has expired");
    check(command(server, "PEXPIRE", &op, "5000", 4) == 1, "a key about to go");
    op.units = 1;
    check(decide(server, &op) == 0 && command(server, "PTTL", &op, NULL, 0) > 60000, "lives on with another entry");
    clock_ns = NOW_NS;
    weir_remote_limit_drop(limit);
}

/* Ticks are modulo 2^59: a clock that went ahead by so much and came back shows the same ones, whatever they are. */
static void ticks_that_wrapped(struct server *server, enum weir_count mode)
{
    const struct weir_remote_limit *limit = limit_of(
        (struct weir_limit_spec){ .count_mode = mode, .count = 1000000000, .period_ns = WEIR_NS_PER_SECOND });
    const int shift = limit->limit.shift;
    bool good = shift > 0;
    for (uint64_t i = 0; i < 16; i++) {
        char name[24];
        snprintf(name, sizeof name, "wrapped %d %d", mode, (int)i);
        struct weir_remote_op op = op_of(limit, name, 1000);
        const uint64_t now_ns = NOW_NS + i * UINT64_C(123456789012345);
        clock_ns = now_ns + ((UINT64_C(1) << 59) >> shift);
        good = decide(server, &op) == 0 && op.verdict.admitted && good; /* by a clock that is ahead */
        clock_ns = now_ns;
        good = decide(server, &op) == 0 && !op.verdict.admitted && op.verdict.remaining == 0 && good;
    }
    check(good, "a charge of a clock that is ahead is none of now: the key becomes empty");
    clock_ns = NOW_NS;
    weir_remote_limit_drop(limit);
}

/* A window of years has ticks of more than 1 ns. */
static void window_of_years(struct server *server)
{
    const struct weir_remote_limit *limit = limit_of((struct weir_limit_spec){ .algorithm = WEIR_FIXED_WINDOW,
                                                                               .calendar = WEIR_CALENDAR_YEAR,
                                                                               .calendar_count = 9,
                                                                               .count = 10,
                                                                               .period_ns = YEARS_NS });
    struct weir_remote_op op = op_of(limit, "years", 4);
    check(limit->limit.shift < 0 && decide(server, &op) == 0 && op.verdict.remaining == 6,
          "4 of 10 in a window of years");
    uint64_t reset_ns = op.verdict.reset_after_ns;
    const struct weir_calendar_window window = weir_calendar_at(&limit->rule, 0, clock_ns);
    const uint64_t end_ns = window.end_wall_ns;
    check(reset_ns >= end_ns - clock_ns && reset_ns - (end_ns - clock_ns) < 64, "which ends by the calendar");
    op.units = 1;
    clock_ns = NOW_NS + 4321; /* of no whole tick */
    check(decide(server, &op) == 0 && op.verdict.remaining == 5, "one more");
    op.units = 0;
    clock_ns = window.start_wall_ns - WEIR_NS_PER_SECOND;
    check(decide(server, &op) == 0 && op.verdict.remaining == 5 && op.verdict.reset_after_ns >= end_ns - clock_ns &&
              op.verdict.reset_after_ns - (end_ns - clock_ns) < UINT64_C(1) << -limit->limit.shift,
          "and the end is kept, for a clock that steps back");
    op.units = 1;
    clock_ns = NOW_NS + reset_ns - WEIR_NS_PER_SECOND;
    check(decide(server, &op) == 0 && op.verdict.remaining == 4 && op.verdict.reset_after_ns >= WEIR_NS_PER_SECOND,
          "and counts on in its last second");
    clock_ns += 2 * WEIR_NS_PER_SECOND;
    check(decide(server, &op) == 0 && op.verdict.remaining == 9, "and no longer");
    clock_ns = NOW_NS;
    weir_remote_limit_drop(limit);
}

/* With `spread` it may end between two ticks: it counts on until then. */
static void window_of_years_between_ticks(struct server *server)
{
    const struct weir_remote_limit *limit = limit_of((struct weir_limit_spec){ .algorithm = WEIR_FIXED_WINDOW,
                                                                               .calendar = WEIR_CALENDAR_YEAR,
                                                                               .calendar_count = 9,
                                                                               .count = 10,
                                                                               .period_ns = YEARS_NS,
                                                                               .spread_ns = YEARS_NS / 2 });
    struct weir_remote_op op = op_of(limit, "between ticks", 1);
    const uint64_t tick_ns = UINT64_C(1) << -limit->limit.shift;
    bool good = limit->limit.shift < 0;
    for (uint64_t i = 0; i < tick_ns * tick_ns && good; i++) {
        char name[32];
        snprintf(name, sizeof name, "between ticks %d", (int)i);
        op = op_of(limit, name, 4);
        op.key.phase += i / tick_ns * (UINT64_MAX / (YEARS_NS / 2)); /* a nanosecond each */
        uint64_t phase_ns = (uint64_t)((__extension__(unsigned __int128) op.key.phase * (YEARS_NS / 2)) >> 64);
        clock_ns = NOW_NS + i % tick_ns;
        const uint64_t end_ns = weir_calendar_at(&limit->rule, phase_ns, clock_ns).end_wall_ns;
        good = decide(server, &op) == 0 && op.verdict.remaining == 6;
        op.units = 7;
        clock_ns = end_ns - 1;
        good = good && decide(server, &op) == 0 && !op.verdict.admitted && op.verdict.remaining == 6;
        op.units = 0;
        clock_ns = end_ns;
        good = good && decide(server, &op) == 0 && op.verdict.remaining == 10;
    }
    check(good, "a window that ends between ticks counts until its last nanosecond");
    clock_ns = NOW_NS;
    weir_remote_limit_drop(limit);
}

/* A node tells that it spent `spent`, and takes `want`. */
static void tell(struct server *server, struct weir_remote_op *op, uint64_t stint, uint64_t spent, uint64_t want)
{
    struct weir_script_call call;
    op->ask = (struct weir_share_ask){
        .stint = stint, .seq = 1, .spent = spent, .want = want, .ttl_ns = 60 * WEIR_NS_PER_SECOND
    };
    check(ask(server, WEIR_REMOTE_ASK, op, 1, NULL, &call) == 0 && op->answer.granted == want, "a node asks");
}

/* `after` of the step back by `back` a unit is due, and 0.2 s earlier none is. */
static void due_after(struct server *server, struct weir_remote_op *op, uint64_t back_ns, uint64_t after_ns)
{
    clock_ns -= back_ns;
    check(decide(server, op) == 0 && !op->verdict.admitted, "the clock comes back: refused");
    clock_ns += after_ns - WEIR_NS_PER_SECOND / 5;
    check(decide(server, op) == 0 && !op->verdict.admitted, "what is owed is owed still");
    clock_ns += WEIR_NS_PER_SECOND / 5;
    check(decide(server, op) == 0 && op->verdict.admitted, "and no longer than that");
    clock_ns = NOW_NS;
}

/* A key in debt becomes empty, as any other, and its debt stays: 45 units, of which 10 refill in a second. */
static void debt_of_a_clock_that_steps_back(struct server *server)
{
    const uint64_t second = WEIR_NS_PER_SECOND;
    struct weir_limit_spec spec = { .count = 10, .period_ns = second, .burst = 20 };
    const struct weir_remote_limit *limit = limit_of(spec);
    struct weir_remote_op op = op_of(limit, "owes", 1);
    tell(server, &op, 7, 65, 0);
    due_after(server, &op, 2 * second, 4600 * second / 1000);

    op = op_of(limit, "owes all that can be owed", 1);
    tell(server, &op, 7, UINT64_C(1) << 61, 0);
    clock_ns -= 30 * second;
    check(limit->limit.shift == 0 && decide(server, &op) == 0 && !op.verdict.admitted &&
              op.verdict.reset_after_ns == WEIR_TICKS_DEBT_MAX,
          "and no more than that");
    clock_ns = NOW_NS;

    op = op_of(limit, "owes, and a unit is held", 1);
    tell(server, &op, 8, 0, 1);
    tell(server, &op, 7, 65, 0);
    due_after(server, &op, 30 * second, 4700 * second / 1000);
    weir_remote_limit_drop(limit);

    struct weir_limit_spec counter = { .algorithm = WEIR_SLIDING_COUNTER, .count = 10, .period_ns = second };
    limit = limit_of(counter);
    op = op_of(limit, "owes in a window", 1);
    clock_ns = NOW_NS / second * second + second / 2;
    tell(server, &op, 7, 20, 0);
    clock_ns -= second * 6 / 10;
    check(decide(server, &op) == 0 && !op.verdict.admitted, "the clock comes back into the window before");
    clock_ns += second * 6 / 10;
    check(decide(server, &op) == 0 && !op.verdict.admitted, "half of 20 is used half a window later");
    clock_ns = NOW_NS;
    weir_remote_limit_drop(limit);
}

/* Nor does a reload in that very moment forgive it: 65 are used of 20 before and of 40 after. */
static void debt_reloaded_as_the_clock_steps_back(struct server *server)
{
    const uint64_t second = WEIR_NS_PER_SECOND;
    struct weir_limit_spec spec = { .count = 10, .period_ns = second, .burst = 20 };
    const struct weir_remote_limit *before = limit_of(spec), *after;
    struct weir_remote_op op = op_of(before, "owes, and is reloaded", 1);
    tell(server, &op, 7, 65, 0);
    spec.burst = 40;
    after = limit_of(spec);
    op.limit = after;
    due_after(server, &op, 2 * second, 2600 * second / 1000);
    weir_remote_limit_drop(before);
    weir_remote_limit_drop(after);
}

/* What the server's clock shows, in whole microseconds. */
static uint64_t server_ns(struct server *server)
{
    redisReply *reply = redisCommand(server->context, "TIME");
    uint64_t s = strtoull(reply->element[0]->str, NULL, 10), us = strtoull(reply->element[1]->str, NULL, 10);
    freeReplyObject(reply);
    return s * WEIR_NS_PER_SECOND + us * 1000;
}

/* Production's text takes no time from anybody; and by it a key goes a second after it is fresh again, in both parts of
 * the script that write. */
static void test_time(struct server *server, enum weir_algorithm algorithm)
{
    const struct weir_remote_limit *limit = limit_of(
        (struct weir_limit_spec){ .algorithm = algorithm, .count = 10, .period_ns = 60 * WEIR_NS_PER_SECOND });
    const long long fresh_ms = algorithm == WEIR_TOKEN_BUCKET ? 6000 : 60000;
    struct weir_remote_op op = op_of(limit, algorithm == WEIR_TOKEN_BUCKET ? "time" : "time of a log", 1);
    struct weir_remote_request request = { .verb = WEIR_REMOTE_DECIDE, .ops = &op, .count = 1, .test_now_ns = NOW_NS };
    struct weir_script_call call;
    redisReply *reply = redisCommand(server->context, "SCRIPT LOAD %b", weir_script_text, weir_script_text_size);
    check(reply->type == REDIS_REPLY_STRING && strcmp(reply->str, weir_script_sha1) == 0, "the SHA1 is the text's");
    freeReplyObject(reply);
    weir_script_call_init(&call, &request, "faults", NOW_NS);
    weir_script_call_add(&call, 0);
    for (int i = 0; i < 2; i++) {
        const uint64_t before_ns = server_ns(server);
        weir_script_call_encode(&call, weir_script_sha1);
        reply = redisCommandArgv(server->context, call.argc, call.argv, call.sizes);
        if (i == 0)
            check(reply->type == REDIS_REPLY_ERROR, "a test's time is refused outside tests");
        else
            check(reply->type == REDIS_REPLY_STRING &&
                      weir_script_call_decode(&call, reply->str, (size_t)reply->len) == 0 &&
                      request.engine_now_ns >= before_ns && request.engine_now_ns <= server_ns(server) &&
                      request.engine_now_ns % 1000 == 0,
                  "the server's own is taken");
        freeReplyObject(reply);
        request.test_now_ns = 0;
    }
    weir_script_call_deinit(&call);
    long long ttl_ms = command(server, "PTTL", &op, NULL, 0);
    check(ttl_ms > fresh_ms && ttl_ms <= fresh_ms + 1001, "the key goes when it is fresh, and a second later");
    weir_remote_limit_drop(limit);
}

static redisReply *send_call(struct server *server, struct weir_script_call *call)
{
    weir_script_call_encode(call, weir_script_sha1);
    return redisCommandArgv(server->context, call->argc, call->argv, call->sizes);
}

/* The clock may go back between the two rounds of a call: then what a node computed is of a time to come. */
static void clock_back_between_rounds(struct server *server)
{
    struct weir_limit_spec spec = { .count = 10, .period_ns = 600 * WEIR_NS_PER_SECOND };
    const struct weir_remote_limit *before = limit_of(spec);
    spec.count = 20;
    const struct weir_remote_limit *after = limit_of(spec);
    struct weir_remote_op op = op_of(before, "between rounds", 10);
    struct weir_remote_request request = { .verb = WEIR_REMOTE_DECIDE, .ops = &op, .count = 1 };
    struct weir_script_call call;
    weir_script_call_init(&call, &request, "faults", NOW_NS);
    weir_script_call_add(&call, 0);
    redisReply *reply = send_call(server, &call);
    check(weir_script_call_decode(&call, reply->str, (size_t)reply->len) == 0 && op.verdict.admitted, "all is taken");
    freeReplyObject(reply);
    weir_script_call_deinit(&call);
    op = op_of(after, "between rounds", 1);
    weir_script_call_init(&call, &request, "faults", NOW_NS);
    weir_script_call_add(&call, 0);
    for (int round = 0; round < 3; round++) {
        reply = send_call(server, &call);
        check(reply->str[0] == (round < 2 ? 'A' : 'D'), "a time to come is not written, what is now is");
        int status = weir_script_call_decode(&call, reply->str, (size_t)reply->len);
        check(status == (round < 2 ? WEIR_EAGAIN : 0), "until then it is asked again");
        call.now_ns += round == 0 ? 1000 * WEIR_NS_PER_SECOND : 0;
        freeReplyObject(reply);
    }
    check(!op.verdict.admitted && op.verdict.remaining == 0, "and nothing was forgotten");
    weir_script_call_deinit(&call);
    weir_remote_limit_drop(before);
    weir_remote_limit_drop(after);
}

int main(int argc, char **argv)
{
    struct server server;
    if (argc != 2) {
        fprintf(stderr, "usage: redis_clocks SOCKET\n");
        return 2;
    }
    server_open(&server, argv[1]);
    log_of_a_clock_that_steps_back(&server);
    ticks_that_wrapped(&server, WEIR_COUNT_ADMITTED);
    ticks_that_wrapped(&server, WEIR_COUNT_ATTEMPTS);
    window_of_years(&server);
    window_of_years_between_ticks(&server);
    debt_of_a_clock_that_steps_back(&server);
    debt_reloaded_as_the_clock_steps_back(&server);
    test_time(&server, WEIR_TOKEN_BUCKET);
    test_time(&server, WEIR_SLIDING_LOG);
    clock_back_between_rounds(&server);
    server_close(&server);
    return failures > 0;
}
