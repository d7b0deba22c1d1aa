/* SPDX-License-Identifier: Apache-2.0
 *
 * Requests that wait for the first connection to a Redis, which answers here in the same loop; and the first round of
 * one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>
#include <uv.h>

#include "limits/redis/layout.h"
#include "limits/redis/server.h"

#define SECOND UINT64_C(1000000000)
#define COUNT 10
#define SHA1 "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa" /* the script's name there */
#define OTHERS 4 /* commands behind the first: the greeting's, the request and the mark behind it */

static uv_loop_t loop;
static uv_tcp_t listener, client;
static char heard[1 << 18]; /* greetings and requests */
static size_t heard_size;

static void on_alloc(uv_handle_t *handle, size_t size, uv_buf_t *ret_buffer)
{
    (void)handle, (void)size;
    assert_true(heard_size < sizeof heard);
    *ret_buffer = uv_buf_init(heard + heard_size, (unsigned)(sizeof heard - heard_size));
}

static void on_read(uv_stream_t *stream, ssize_t got, const uv_buf_t *buffer)
{
    (void)stream, (void)buffer;
    heard_size += got > 0 ? (size_t)got : 0;
}

static void on_connection(uv_stream_t *stream, int status)
{
    assert_int_equal(status, 0);
    uv_tcp_init(&loop, &client);
    assert_int_equal(uv_accept(stream, (uv_stream_t *)&client), 0);
    uv_read_start((uv_stream_t *)&client, on_alloc, on_read);
}

static size_t times_heard(const char *word)
{
    size_t times = 0, size = strlen(word);
    for (size_t i = 0; i + size <= heard_size; i++)
        times += memcmp(heard + i, word, size) == 0;
    return times;
}

static void say_bytes(const char *bytes, size_t size)
{
    uv_buf_t buffer = uv_buf_init((char *)(uintptr_t)bytes, (unsigned)size);
    assert_int_equal(uv_try_write((uv_stream_t *)&client, &buffer, 1), (int)buffer.len);
}

static void say(const char *text)
{
    say_bytes(text, strlen(text));
}

static void await(const char *word, size_t times)
{
    while (times_heard(word) < times)
        uv_run(&loop, UV_RUN_ONCE);
}

static void on_done(struct weir_remote_request *request)
{
    request->verb = WEIR_REMOTE_FORGET; /* it was told */
}

static struct weir_redis_engine *start(void)
{
    struct sockaddr_in address;
    int size = sizeof address;
    heard_size = 0;
    uv_loop_init(&loop);
    uv_tcp_init(&loop, &listener);
    uv_ip4_addr("127.0.0.1", 0, &address);
    assert_int_equal(uv_tcp_bind(&listener, (const struct sockaddr *)&address, 0), 0);
    assert_int_equal(uv_listen((uv_stream_t *)&listener, 1, on_connection), 0);
    uv_tcp_getsockname(&listener, (struct sockaddr *)&address, &size);
    const struct weir_redis_address server = { .host = "127.0.0.1", .port = ntohs(address.sin_port) };
    const struct weir_redis_options options = {
        .servers = &server, .servers_count = 1, .connect_timeout_ns = 600 * SECOND, .seed = 1
    };
    struct weir_remote *remote = NULL;
    struct weir_fault fault;
    assert_int_equal(weir_redis_create(&loop, &options, &remote, &fault), 0);
    struct weir_redis_engine *engine = (struct weir_redis_engine *)remote;
    uv_timer_stop(&engine->tick); /* what is left without an answer here breaks no connection */
    return engine;
}

static void end(struct weir_redis_engine *engine)
{
    engine->remote.ops->close(&engine->remote);
    uv_close((uv_handle_t *)&client, NULL);
    uv_close((uv_handle_t *)&listener, NULL);
    uv_run(&loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&loop), 0);
}

static void greet(void)
{
    await("ROLE", 1);
    say("+OK\r\n*3\r\n$6\r\nmaster\r\n:0\r\n*0\r\n");
    await("SCRIPT", 1);
    say("$40\r\n" SHA1 "\r\n");
}

/* All that miss their deadline at one moment have met one stall, which does not open the breaker. A moment is as long
 * as their time to answer, so that of those who waited for the connection must be known. */
static void first__deadlines_missed_at_one_moment_are_one_failure(void **state)
{
    (void)state;
    struct weir_redis_engine *engine = start();
    struct weir_redis_server *redis = engine->servers[0];
    const struct weir_limit_spec spec = { .count = 100, .period_ns = 3600 * SECOND };
    const struct weir_slice value = { "x", 1 };
    struct weir_remote_request requests[COUNT];
    struct weir_remote_op ops[COUNT];
    struct weir_remote_limit limit;
    struct weir_fault fault;
    assert_int_equal(weir_remote_limit_init(&limit, "a", &spec, &fault), 0);
    for (size_t i = 0; i < COUNT; i++) {
        ops[i] = (struct weir_remote_op){ .limit = &limit, .units = 1 };
        assert_int_equal(weir_remote_key_init(NULL, "a", &value, 1, &ops[i].key), 0);
        requests[i] = (struct weir_remote_request){
            .verb = WEIR_REMOTE_DECIDE, .ops = &ops[i], .count = 1, .deadline_ns = uv_hrtime() + 600 * SECOND
        };
        requests[i].done = on_done;
        assert_int_equal(engine->remote.ops->submit(&engine->remote, &requests[i]), 0);
    }
    greet();
    await("EVALSHA", COUNT);
    assert_int_equal(redis->state, WEIR_REDIS_READY);
    for (size_t i = 0; i < COUNT; i++)
        weir_redis_server_missed(redis, redis->breaker.generation);
    assert_int_equal(redis->breaker.state, WEIR_BREAKER_CLOSED);
    assert_int_equal(redis->breaker.failures, 1);
    end(engine);
    for (size_t i = 0; i < COUNT; i++)
        assert_int_equal(requests[i].verb, WEIR_REMOTE_FORGET);
    weir_remote_limit_deinit(&limit);
}

/* A window that is not the server's own costs a second round. Where the second always comes after the deadline, the
 * first must have told the time: else this node would be late for as long as its clock and the server's differ. */
static void first__a_first_round_tells_the_servers_time(void **state)
{
    (void)state;
    struct weir_redis_engine *engine = start();
    const uint64_t day_ns = 24 * 3600 * SECOND, now_ns = 100 * 365 * day_ns; /* in 2069: no clock of this machine's */
    const struct weir_limit_spec spec = { .algorithm = WEIR_FIXED_WINDOW, .count = 100, .period_ns = 60 * SECOND };
    const struct weir_slice value = { "x", 1 };
    struct weir_remote_limit limit;
    struct weir_fault fault;
    assert_int_equal(weir_remote_limit_init(&limit, "a", &spec, &fault), 0);
    struct weir_remote_op op = { .limit = &limit, .units = 1 };
    assert_int_equal(weir_remote_key_init(NULL, "a", &value, 1, &op.key), 0);
    struct weir_remote_request request = {
        .verb = WEIR_REMOTE_DECIDE, .ops = &op, .count = 1, .deadline_ns = uv_hrtime() + 600 * SECOND
    };
    request.done = on_done;
    assert_int_equal(engine->remote.ops->submit(&engine->remote, &request), 0);
    greet();
    await(SHA1, 1);
    for (size_t asked = times_heard("\r\n*"); asked > OTHERS; asked--)
        say("+OK\r\n"); /* before the request the client looks what it may do there */
    uint8_t reply[13];
    char bytes[32] = "$13\r\n";
    struct layout_writer w = { reply, reply + sizeof reply };
    layout_put(&w, 1, 'A');
    layout_put(&w, 8, now_ns);
    layout_put(&w, 4, 0); /* there is no such key */
    memcpy(bytes + 5, reply, sizeof reply);
    memcpy(bytes + 5 + sizeof reply, "\r\n", 2);
    say_bytes(bytes, 5 + sizeof reply + 2);
    await(SHA1, 2);
    uint64_t guess_ns = weir_script_clock_guess(&engine->clock, uv_hrtime(), 0);
    assert_in_range(guess_ns, now_ns, now_ns + 600 * SECOND);
    end(engine);
    assert_int_equal(request.verb, WEIR_REMOTE_FORGET);
    weir_remote_limit_deinit(&limit);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(first__deadlines_missed_at_one_moment_are_one_failure),
        cmocka_unit_test(first__a_first_round_tells_the_servers_time),
    };
    return cmocka_run_group_tests_name("redis, first", tests, NULL, NULL);
}
