/* SPDX-License-Identifier: Apache-2.0
 *
 * One loop without its thread, and a connection without its socket: a target that feeds bytes to a protocol. Its file
 * says which. */
#pragma once

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "serve/loop.h"

#define SERVE_ALONE_BOUND ((size_t)1 << 20)

struct serve_alone {
    struct weir_common common;
    struct weir_loop *loop;
    void *loop_state;
};

static inline void serve_alone_init(struct serve_alone *alone, const struct weir_protocol *protocol, const char *listen)
{
    static const char limits[] = "limits:\n"
                                 "  - { name: a, key: [user], rate: 10/s }\n"
                                 "  - { name: b, key: [user], rate: 5/min, algorithm: sliding_log }\n"
                                 "  - { name: c, match: { site: 'x*' }, rate: 3/hour, algorithm: fixed_window }\n"
                                 "  - { name: d, key: [job], rate: 2, algorithm: concurrency }\n"
                                 "  - { name: e, match: { tokens: '1' }, key: [user], rate: 9000/min, cost: amount,\n"
                                 "      estimate: p90, estimate_first: 7 }\n";
    char config_text[sizeof(limits) + 128];
    struct weir_config *config = NULL;
    struct weir_config_fault config_fault;
    struct weir_fault fault;
    struct weir_setup *setup = NULL;
    const struct weir_limiter_options options = { .memory_max = (size_t)1 << 18 };
    struct weir_common *common = &alone->common;
    struct weir_loop *loop = alone->loop = calloc(1, sizeof(*loop));
    alone->loop_state = calloc(1, protocol->loop_state_size);
    weir_assert((size_t)snprintf(config_text, sizeof(config_text), "%s%s", listen, limits) < sizeof(config_text));
    weir_assert(!weir_limiter_create(&options, &common->limiter, &fault));
    weir_assert(!weir_config_parse(config_text, strlen(config_text), &config, &config_fault));
    weir_assert(!weir_setup_create(config, common->limiter, &setup, &config_fault));
    setup->origin.by = "start";
    pthread_mutex_init(&common->reloads.lock, NULL);
    atomic_store(&common->setup, setup);
    common->loops = loop;
    common->loop_count = 1;
    weir_assert(!weir_common_init(common, 1) && !weir_loop_init(loop, common, &fault));
}

/* As a connection's turns do: what was not taken is shown again with more behind it, in memory of its own. */
static inline void serve_alone_feed(struct weir_conn *conn, const uint8_t *data, size_t size, size_t piece)
{
    static const struct weir_time time = { .now_ns = UINT64_C(1) << 50, .wall_ns = UINT64_C(1) << 60 };
    size_t start = 0;
    size_t end = 0;
    while (end < size && !weir_conn_blocked(conn)) {
        end = size - end < piece ? size : end + piece;
        uint8_t *copy = malloc(end - start);
        memcpy(copy, data + start, end - start);
        conn->yielded = false;
        size_t taken = conn->protocol->on_input(conn, copy, end - start, &time);
        weir_assert(taken <= end - start);
        free(copy);
        start += taken;
        weir_assert(conn->out.size <= 2 * SERVE_ALONE_BOUND);
        weir_buffer_release(&conn->out, &conn->loop->pool);
    }
}

/* A connection that may do everything, from its beginning to its end. The input's first byte says in which pieces. */
static inline void serve_alone_run(struct serve_alone *alone, const struct weir_protocol *protocol, const uint8_t *data,
                                   size_t size)
{
    struct weir_conn *conn = calloc(1, sizeof(*conn) + protocol->state_size);
    conn->loop = alone->loop;
    conn->protocol = protocol;
    conn->loop_state = alone->loop_state;
    conn->rights = WEIR_RIGHT_ALL;
    conn->loopback = true;
    conn->input_max = conn->output_max = SERVE_ALONE_BOUND;
    if (protocol->on_open)
        protocol->on_open(conn);
    serve_alone_feed(conn, data + 1, size - 1, (size_t)data[0] + 1);
    if (protocol->on_close)
        protocol->on_close(conn);
    weir_loop_ready_remove(alone->loop, conn);
    weir_buffer_release(&conn->out, &alone->loop->pool);
    free(conn);
}

/* The target itself. */
#define SERVE_ALONE_TARGET(protocol, listen)                                                                           \
    int LLVMFuzzerInitialize(int *argc, char ***argv);                                                                 \
    int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);                                                      \
    static struct serve_alone alone;                                                                                   \
    int LLVMFuzzerInitialize(int *argc, char ***argv)                                                                  \
    {                                                                                                                  \
        (void)argc, (void)argv;                                                                                        \
        serve_alone_init(&alone, &(protocol), listen);                                                                 \
        return 0;                                                                                                      \
    }                                                                                                                  \
    int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)                                                       \
    {                                                                                                                  \
        if (size > 0)                                                                                                  \
            serve_alone_run(&alone, &(protocol), data, size);                                                          \
        return 0;                                                                                                      \
    }
