/* SPDX-License-Identifier: Apache-2.0
 *
 * The RESP commands with a clock of our own and no socket: what goes in as bytes comes out as bytes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "observe/metrics.h"
#include "serve/hold.h"
#include "serve/locks.h"
#include "serve/loop.h"
#include "serve/resp.h"

#define MS UINT64_C(1000000)

static const char config_text[] = "auth:\n"
                                  "  tokens:\n"
                                  "    - { name: reader, secret: reader-0123456789, rights: [check] }\n"
                                  "limits:\n"
                                  "  - { name: per-user, key: [user], rate: 10/s, burst: 5 }\n"
                                  "  - { name: per-site, match: { site: '*' }, rate: 100/s }\n";

/* A connection that nothing is connected to. */
struct bench {
    struct weir_common common;
    struct weir_loop loop;
    struct weir_limiter *limiter;
    struct weir_setup *setup;
    struct weir_conn *conn;
    struct weir_time time;
};

static int begin(void **state)
{
    struct bench *bench = calloc(1, sizeof(*bench));
    struct weir_config *config = NULL;
    struct weir_config_fault config_fault;
    struct weir_fault fault;
    const struct weir_limiter_options options = { .memory_max = (size_t)1 << 20 };
    assert_int_equal(weir_limiter_create(&options, &bench->limiter, &fault), 0);
    assert_int_equal(weir_config_parse(config_text, sizeof(config_text) - 1, &config, &config_fault), 0);
    assert_int_equal(weir_setup_create(config, bench->limiter, NULL, &bench->setup, &config_fault), 0);
    bench->time = weir_time_read(); /* the setup was defined at the limiter's own time */
    assert_int_equal(weir_metrics_create(1, &bench->common.metrics), 0);
    assert_int_equal(weir_holds_create(&bench->common.holds), 0);
    assert_int_equal(weir_guesses_init(&bench->common.guesses), 0);
    bench->common.loop_count = 1;
    bench->common.loops = &bench->loop;
    bench->loop.common = &bench->common;
    bench->loop.limiter = bench->limiter;
    bench->loop.setup = bench->setup;

    bench->conn = calloc(1, sizeof(*bench->conn) + weir_resp_protocol.state_size);
    bench->conn->loop = &bench->loop;
    bench->conn->protocol = &weir_resp_protocol;
    bench->conn->loop_state = calloc(1, weir_resp_protocol.loop_state_size);
    bench->conn->rights = WEIR_RIGHT_ALL;
    bench->conn->input_max = bench->conn->output_max = (size_t)1 << 20;
    weir_resp_protocol.on_open(bench->conn);
    *state = bench;
    return 0;
}

static int end(void **state)
{
    struct bench *bench = *state;
    weir_resp_protocol.on_close(bench->conn);
    weir_buffer_release(&bench->conn->out, &bench->loop.pool);
    weir_piece_pool_deinit(&bench->loop.pool);
    free(bench->conn->loop_state);
    free(bench->conn);
    weir_setup_destroy(bench->setup);
    weir_limiter_destroy(bench->limiter);
    weir_holds_destroy(bench->common.holds);
    weir_metrics_destroy(bench->common.metrics);
    free(bench);
    return 0;
}

/* Sends `commands`, all of which must be taken, and expects exactly `answers`, in which ' ' stands for CRLF where an
 * answer has no blanks of its own. */
static void expect_bytes(struct bench *bench, const char *commands, const char *answers)
{
    struct weir_conn *conn = bench->conn;
    size_t size = strlen(commands);
    size_t taken = weir_resp_protocol.on_input(conn, (const uint8_t *)commands, size, &bench->time);
    assert_int_equal(taken, size);
    assert_true(weir_conn_reserve(conn, 1) != NULL);
    conn->out.data[conn->out.size] = '\0';
    assert_string_equal((const char *)conn->out.data, answers);
    weir_buffer_release(&conn->out, &bench->loop.pool);
}

/* CL.THROTTLE with these arguments answers with these five numbers. */
static void expect_throttle(struct bench *bench, const char *arguments, const char *numbers)
{
    char command[256];
    char answer[256];
    int values[5];
    snprintf(command, sizeof(command), "CL.THROTTLE %s\r\n", arguments);
    assert_int_equal(sscanf(numbers, "%d %d %d %d %d", &values[0], &values[1], &values[2], &values[3], &values[4]), 5);
    snprintf(answer, sizeof(answer), "*5\r\n:%d\r\n:%d\r\n:%d\r\n:%d\r\n:%d\r\n", values[0], values[1], values[2],
             values[3], values[4]);
    expect_bytes(bench, command, answer);
}

static void throttle_as_redis_cell(void **state)
{
    struct bench *bench = *state;
    expect_throttle(bench, "user123 15 30 60", "0 16 15 -1 2");
    expect_throttle(bench, "e2e 0 1 2 1", "0 1 0 -1 2");
    expect_throttle(bench, "e2e 0 1 2 1", "1 1 0 2 2");
    bench->time.now_ns += 2000 * MS;
    expect_throttle(bench, "e2e 0 1 2 1", "0 1 0 -1 2");
}

static void throttle_rounds_seconds_up(void **state)
{
    struct bench *bench = *state;
    expect_throttle(bench, "r 0 1 2", "0 1 0 -1 2");
    bench->time.now_ns += 1;
    expect_throttle(bench, "r 0 1 2", "1 1 0 2 2");
    bench->time.now_ns += 999 * MS;
    expect_throttle(bench, "r 0 1 2", "1 1 0 2 2");
    bench->time.now_ns += 1 * MS;
    expect_throttle(bench, "r 0 1 2", "1 1 0 1 1");
    bench->time.now_ns += 1000 * MS - 2;
    expect_throttle(bench, "r 0 1 2", "1 1 0 1 1");
    bench->time.now_ns += 1;
    expect_throttle(bench, "r 0 1 2", "0 1 0 -1 2");
}

static void throttle_quantities(void **state)
{
    struct bench *bench = *state;
    expect_throttle(bench, "q 9 10 10 0", "0 10 10 -1 0");
    expect_throttle(bench, "q 9 10 10 7", "0 10 3 -1 7");
    expect_throttle(bench, "q 9 10 10 4", "1 10 3 1 7");
    expect_throttle(bench, "q 9 10 10 11", "1 10 3 -1 7");
    expect_throttle(bench, "q 9 10 10 9223372036854775807", "1 10 3 -1 7");
    expect_throttle(bench, "q 9 10 10 3", "0 10 0 -1 10");
    expect_throttle(bench, "q 9 10 10 0", "0 10 0 -1 10");
}

static void throttle_keeps_its_time_under_new_parameters(void **state)
{
    struct bench *bench = *state;
    expect_throttle(bench, "p 9 10 10 10", "0 10 0 -1 10");
    expect_throttle(bench, "p 19 10 10 5", "0 20 5 -1 15");
}

#define ARRAY(burst, count, period) "*5\r\n$11\r\nCL.THROTTLE\r\n$1\r\ns\r\n" burst count period

/* As clients write them: parameters that repeat are known by their bytes, and only those that repeat. */
static void throttle_parameters_seen_before(void **state)
{
    struct bench *bench = *state;
    for (int i = 0; i < 3; i++)
        expect_bytes(bench, ARRAY("$1\r\n9\r\n", "$2\r\n10\r\n", "$2\r\n10\r\n"),
                     i == 0   ? "*5\r\n:0\r\n:10\r\n:9\r\n:-1\r\n:1\r\n"
                     : i == 1 ? "*5\r\n:0\r\n:10\r\n:8\r\n:-1\r\n:2\r\n"
                              : "*5\r\n:0\r\n:10\r\n:7\r\n:-1\r\n:3\r\n");
    expect_bytes(bench, ARRAY("$1\r\n8\r\n", "$2\r\n10\r\n", "$2\r\n10\r\n"), "*5\r\n:0\r\n:9\r\n:5\r\n:-1\r\n:4\r\n");
    expect_bytes(bench, ARRAY("$1\r\n9\r\n", "$2\r\n10\r\n", "$2\r\n10\r\n"), "*5\r\n:0\r\n:10\r\n:5\r\n:-1\r\n:5\r\n");
    expect_bytes(bench, ARRAY("$1\r\n9\r\n", "$2\r\n10\r\n", "$2\r\nx0\r\n"),
                 "-ERR value is not an integer or out of range\r\n");
    expect_bytes(bench, "*6\r\n$11\r\ncl.throttle\r\n$1\r\ns\r\n$1\r\n9\r\n$2\r\n10\r\n$2\r\n10\r\n$1\r\n3\r\n",
                 "*5\r\n:0\r\n:10\r\n:2\r\n:-1\r\n:8\r\n");
    /* The first parameter holds the bytes of the first two of the call that is remembered, and of RESP between them. */
    expect_bytes(bench, ARRAY("$9\r\n9\r\n$2\r\n10\r\n", "$2\r\n10\r\n", "$2\r\n10\r\n"),
                 "-ERR value is not an integer or out of range\r\n");
    expect_bytes(bench, ARRAY("$1\r\n9\r\n", "$2\r\n10\r\n", "$2\r\n10\r\n"), "*5\r\n:0\r\n:10\r\n:1\r\n:-1\r\n:9\r\n");
}

static void throttle_errors(void **state)
{
    struct bench *bench = *state;
    static const struct {
        const char *arguments, *answer;
    } cases[] = {
        { "k", "ERR Usage: CL.THROTTLE <key> <max_burst> <count per period> <period> [<quantity>]" },
        { "k 1 2 3 4 5", "ERR Usage: CL.THROTTLE <key> <max_burst> <count per period> <period> [<quantity>]" },
        { "k x 1 1", "ERR value is not an integer or out of range" },
        { "k 9223372036854775808 1 1", "ERR value is not an integer or out of range" },
        { "k -1 1 1", "ERR max_burst must be an integer from 0 to 999999999999" },
        { "k 9223372036854775807 1 1", "ERR max_burst must be an integer from 0 to 999999999999" },
        { "k 1 0 1", "ERR Zero rates are not supported" },
        { "k 1 1 0", "ERR Zero rates are not supported" },
        { "k 1 -1 1", "ERR count per period must be an integer from 1 to 9223372036854775807" },
        { "k 1 1 -1", "ERR period must be an integer from 1 to 315360000 seconds" },
        { "k 1 1 9223372036854775807", "ERR period must be an integer from 1 to 315360000 seconds" },
        { "k 1 1 1 -1", "ERR quantity must be an integer from 0 to 9223372036854775807" },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char command[256];
        char answer[256];
        snprintf(command, sizeof(command), "CL.THROTTLE %s\r\n", cases[i].arguments);
        snprintf(answer, sizeof(answer), "-%s\r\n", cases[i].answer);
        expect_bytes(bench, command, answer);
    }
}

/* More than one batch of them, with other commands and errors in between. */
static void batches_keep_the_order(void **state)
{
    struct bench *bench = *state;
    static char commands[40000];
    static char answers[40000];
    size_t in = 0;
    size_t out = 0;
    for (int i = 0; i < 200; i++) {
        in += (size_t)sprintf(commands + in, "CL.THROTTLE same 299 1 1\r\n");
        out += (size_t)sprintf(answers + out, "*5\r\n:0\r\n:300\r\n:%d\r\n:-1\r\n:%d\r\n", 299 - i, i + 1);
        if (i % 50 == 20) {
            in += (size_t)sprintf(commands + in, "PING %d\r\n", i);
            out += (size_t)sprintf(answers + out, "$%d\r\n%d\r\n", i < 100 ? 2 : 3, i);
        }
        if (i % 50 == 30) {
            in += (size_t)sprintf(commands + in, "CL.THROTTLE same 1 0 1\r\n");
            out += (size_t)sprintf(answers + out, "-ERR Zero rates are not supported\r\n");
        }
    }
    expect_bytes(bench, commands, answers);
}

static void checks_and_refunds(void **state)
{
    struct bench *bench = *state;
    expect_bytes(bench, "WEIR.CHECK 5 user ada\r\n", "*7\r\n:1\r\n$8\r\nper-user\r\n:5\r\n:0\r\n:0\r\n:500\r\n:0\r\n");
    expect_bytes(bench, "weir.check 1 user ada site x\r\n",
                 "*7\r\n:0\r\n$8\r\nper-user\r\n:5\r\n:0\r\n:100\r\n:500\r\n:0\r\n");
    expect_bytes(bench, "WEIR.CHECK 6 user ada\r\n", "*7\r\n:0\r\n$8\r\nper-user\r\n:5\r\n:0\r\n:-1\r\n:500\r\n:0\r\n");
    expect_bytes(bench, "WEIR.REFUND 2 user ada\r\n", "*1\r\n*2\r\n$8\r\nper-user\r\n:2\r\n");
    expect_bytes(bench, "WEIR.PEEK 2 user ada\r\nWEIR.PEEK 2 user ada\r\n",
                 "*7\r\n:1\r\n$8\r\nper-user\r\n:5\r\n:2\r\n:0\r\n:300\r\n:0\r\n"
                 "*7\r\n:1\r\n$8\r\nper-user\r\n:5\r\n:2\r\n:0\r\n:300\r\n:0\r\n");
    expect_bytes(bench, "WEIR.CHECK 1 nobody x\r\n", "*7\r\n:1\r\n$0\r\n\r\n:-1\r\n:-1\r\n:0\r\n:0\r\n:0\r\n");
#define USAGE " Usage: WEIR.CHECK <cost> [<attribute> <value> ...]\r\n"
    expect_bytes(bench, "WEIR.CHECK -1 user ada\r\nWEIR.CHECK user ada 1\r\n",
                 "-ERR cost must be an integer from 0 to 9223372036854775807." USAGE
                 "-ERR cost must be an integer from 0 to 9223372036854775807." USAGE);
    expect_bytes(bench, "WEIR.CHECK 1 user\r\n", "-ERR the last attribute has no value." USAGE);
    expect_bytes(bench, "WEIR.CHECK user ada\r\n", "-ERR cost is missing: it comes before the attributes." USAGE);
    expect_bytes(bench, "WEIR.LEASE a b 1000\r\n", "-ERR unknown command 'WEIR.LEASE'\r\n");
    expect_bytes(bench, "\xff\x1b[2J\r\n", "-ERR unknown command '??[2J'\r\n");
}

static void lock_arguments_are_named_with_their_range(void **state)
{
    struct bench *bench = *state;
    char long_name[WEIR_LOCK_NAME_MAX + 32];
    expect_bytes(bench, "WEIR.LOCK a b 1999\r\n", "-ERR ttl_ms must be an integer from 2000 to 86400000\r\n");
    expect_bytes(bench, "WEIR.LOCK a b 86400001\r\n", "-ERR ttl_ms must be an integer from 2000 to 86400000\r\n");
    expect_bytes(bench, "WEIR.RELOCK a b -1\r\n", "-ERR ttl_ms must be an integer from 2000 to 86400000\r\n");
    expect_bytes(bench, "WEIR.LOCK a b 2000 WAIT 86400001\r\n", "-ERR WAIT must be an integer from 0 to 86400000\r\n");
    expect_bytes(bench, "WEIR.LOCK a b 2000 SEEN 4611686018427387905\r\n",
                 "-ERR SEEN must be an integer from 0 to 4611686018427387904\r\n");
    static const char *const misused[] = { "WAIT", "SEEN 1 SEEN 1", "WAIT 1 WAIT 1", "WAIT 1 SEEN", "FOR 1" };
    for (size_t i = 0; i < sizeof(misused) / sizeof(misused[0]); i++) {
        char command[64];
        snprintf(command, sizeof(command), "WEIR.LOCK a b 2000 %s\r\n", misused[i]);
        expect_bytes(bench, command,
                     "-ERR Usage: WEIR.LOCK <name> <owner> <ttl_ms> [WAIT <ms>] [SEEN <incarnation>]\r\n");
    }
    expect_bytes(bench, "WEIR.UNLOCK \"\" b\r\n", "-ERR name must be 1 to 1024 bytes\r\n");
    expect_bytes(bench, "WEIR.UNLOCK a \"\"\r\n", "-ERR owner must be 1 to 256 bytes\r\n");
    snprintf(long_name, sizeof(long_name), "WEIR.LOCKS %0*d\r\n", WEIR_LOCK_NAME_MAX + 1, 7);
    expect_bytes(bench, long_name, "-ERR name must be 1 to 1024 bytes\r\n");
    expect_bytes(bench, "WEIR.LOCK a b\r\n", "-ERR wrong number of arguments for 'weir.lock' command\r\n");
    expect_bytes(bench, "WEIR.LOCK a b 2000\r\nWEIR.LOCKS a\r\n",
                 "-NOLOCKS " WEIR_LOCKS_ABSENT "\r\n-NOLOCKS " WEIR_LOCKS_ABSENT "\r\n");
}

static void del_resets(void **state)
{
    struct bench *bench = *state;
    expect_throttle(bench, "d 0 1 60", "0 1 0 -1 60");
    expect_bytes(bench, "DEL d never d\r\n", ":1\r\n");
    expect_throttle(bench, "d 0 1 60", "0 1 0 -1 60");
}

static void transactions(void **state)
{
    struct bench *bench = *state;
    expect_bytes(bench, "MULTI\r\nCL.THROTTLE m 0 1 60\r\nECHO \"\"\r\nCL.THROTTLE m 0 1 60\r\nEXEC\r\n",
                 "+OK\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n"
                 "*3\r\n*5\r\n:0\r\n:1\r\n:0\r\n:-1\r\n:60\r\n$0\r\n\r\n*5\r\n:1\r\n:1\r\n:0\r\n:60\r\n:60\r\n");
    expect_bytes(bench, "MULTI\r\nPING a b\r\nEXEC\r\nPING\r\n",
                 "+OK\r\n-ERR wrong number of arguments for 'ping' command\r\n"
                 "-EXECABORT Transaction discarded because of previous errors.\r\n+PONG\r\n");
    expect_bytes(bench, "MULTI\r\nPING\r\nDISCARD\r\nMULTI\r\nEXEC\r\nDISCARD\r\n",
                 "+OK\r\n+QUEUED\r\n+OK\r\n+OK\r\n*0\r\n-ERR DISCARD without MULTI\r\n");
}

static void rights(void **state)
{
    struct bench *bench = *state;
    bench->conn->rights = 0;
    expect_bytes(
        bench, "PING\r\nAUTH wrong\r\nAUTH default reader-0123456789\r\nPING\r\nDEL x\r\n",
        "-NOAUTH Authentication required.\r\n-WRONGPASS invalid username-password pair or user is disabled.\r\n"
        "+OK\r\n+PONG\r\n-NOPERM this token has no right to 'del': that is reset, of rights in auth: tokens\r\n");
    expect_bytes(bench, "RESET\r\nPING\r\n", "+RESET\r\n-NOAUTH Authentication required.\r\n"); /* not loopback */
    static const char no_users[] =
        "-WRONGPASS tokens have no user names here: say AUTH TOKEN, or give the name 'default'\r\n";
    expect_bytes(bench, "AUTH reader reader-0123456789\r\n", no_users); /* and the same of a wrong one */
    expect_bytes(bench, "AUTH reader wrong\r\n", no_users);
    expect_bytes(bench, "HELLO 3 AUTH reader reader-0123456789\r\n", no_users);
}

static void stops_where_the_stream_ends(void **state)
{
    struct bench *bench = *state;
    const char text[] = "PING\r\n*1\r\n$x\r\nPING\r\n";
    size_t taken = weir_resp_protocol.on_input(bench->conn, (const uint8_t *)text, sizeof(text) - 1, &bench->time);
    assert_int_equal(taken, 6);
    assert_int_equal(bench->conn->phase, WEIR_CONN_FINISHING);
    const char answer[] = "+PONG\r\n-ERR Protocol error: invalid bulk length\r\n";
    assert_int_equal(bench->conn->out.size, sizeof(answer) - 1);
    assert_memory_equal(bench->conn->out.data, answer, sizeof(answer) - 1);
}

static void yields_after_pipeline_max(void **state)
{
    struct bench *bench = *state;
    static char text[20000];
    for (int i = 0; i < 2000; i++)
        memcpy(text + (size_t)i * 6, "PING\r\n", 6);
    uint32_t commands_max = bench->setup->config->server.pipeline_max;
    size_t taken = weir_resp_protocol.on_input(bench->conn, (const uint8_t *)text, 12000, &bench->time);
    assert_int_equal(taken, (size_t)commands_max * 6);
    assert_true(bench->conn->yielded);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(throttle_as_redis_cell),
        CASE(throttle_rounds_seconds_up),
        CASE(throttle_quantities),
        CASE(throttle_keeps_its_time_under_new_parameters),
        CASE(throttle_parameters_seen_before),
        CASE(throttle_errors),
        CASE(batches_keep_the_order),
        CASE(checks_and_refunds),
        CASE(lock_arguments_are_named_with_their_range),
        CASE(del_resets),
        CASE(transactions),
        CASE(rights),
        CASE(stops_where_the_stream_ends),
        CASE(yields_after_pipeline_max),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
