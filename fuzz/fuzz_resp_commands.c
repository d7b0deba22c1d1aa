/* SPDX-License-Identifier: Apache-2.0
 *
 * Any bytes, cut anywhere, to a connection that may do everything: the commands stay inside their memory and bounds. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "observe/metrics.h"
#include "serve/hold.h"
#include "serve/loop.h"
#include "serve/resp.h"

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define BOUND ((size_t)1 << 20)

static const char config_text[] = "limits:\n"
                                  "  - { name: a, key: [user], rate: 10/s }\n"
                                  "  - { name: b, key: [user], rate: 5/min, algorithm: sliding_log }\n"
                                  "  - { name: c, match: { site: 'x*' }, rate: 3/hour, algorithm: fixed_window }\n"
                                  "  - { name: d, key: [job], rate: 2, algorithm: concurrency }\n";

static struct weir_shared shared;
static struct weir_loop *loop;
static void *loop_state;

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc;
    (void)argv;
    struct weir_config *config = NULL;
    struct weir_config_fault config_fault;
    struct weir_fault fault;
    struct weir_setup *setup = NULL;
    const struct weir_limiter_options options = { .memory_max = (size_t)1 << 18 };
    loop = calloc(1, sizeof(*loop));
    loop_state = calloc(1, weir_resp_protocol.loop_state_size);
    weir_assert(!weir_limiter_create(&options, &shared.limiter, &fault));
    weir_assert(!weir_config_parse(config_text, sizeof(config_text) - 1, &config, &config_fault));
    weir_assert(!weir_setup_create(config, shared.limiter, &setup, &config_fault));
    weir_assert(!weir_metrics_create(1, &shared.metrics) && !weir_holds_create(&shared.holds));
    weir_assert(!uv_loop_init(&loop->uv) && !uv_idle_init(&loop->uv, &loop->ready));
    loop->ready.data = loop;
    loop->shared = &shared;
    loop->limiter = shared.limiter;
    loop->setup = setup;
    shared.loops = loop;
    shared.loop_count = 1;
    return 0;
}

/* As a connection's turns do: what was not taken is shown again with more behind it, in memory of its own. */
static void feed(struct weir_conn *conn, const uint8_t *data, size_t size, size_t piece)
{
    static const struct weir_time time = { .now_ns = UINT64_C(1) << 50, .wall_ns = UINT64_C(1) << 60 };
    size_t start = 0;
    size_t end = 0;
    while (end < size && !weir_conn_blocked(conn)) {
        end = size - end < piece ? size : end + piece;
        uint8_t *copy = malloc(end - start);
        memcpy(copy, data + start, end - start);
        conn->yielded = false;
        size_t taken = weir_resp_protocol.on_input(conn, copy, end - start, &time);
        weir_assert(taken <= end - start);
        free(copy);
        start += taken;
        weir_assert(conn->out.size <= 2 * BOUND);
        weir_buffer_release(&conn->out, &loop->pool);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1)
        return 0;
    struct weir_conn *conn = calloc(1, sizeof(*conn) + weir_resp_protocol.state_size);
    conn->loop = loop;
    conn->protocol = &weir_resp_protocol;
    conn->loop_state = loop_state;
    conn->rights = WEIR_RIGHT_ALL;
    conn->loopback = true;
    conn->input_max = conn->output_max = BOUND;
    weir_resp_protocol.on_open(conn);
    feed(conn, data + 1, size - 1, (size_t)data[0] + 1);
    weir_resp_protocol.on_close(conn);
    weir_loop_ready_remove(loop, conn);
    weir_buffer_release(&conn->out, &loop->pool);
    free(conn);
    return 0;
}
