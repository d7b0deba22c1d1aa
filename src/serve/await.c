/* SPDX-License-Identifier: Apache-2.0
 *
 * The event loops have no threads yet, so this file runs the server's loop and each of theirs in turn, without
 * blocking, and sleeps 1 ms between two rounds. At the end it draws each loop's picture of the engine (sharer.c), which
 * /readyz reads. Called once, by server.c, before it opens the listeners. */
#include "serve/await.h"

#include "serve/gossip.h"

#define STEP_MS 1
#define GOSSIP_NS WEIR_NS_PER_SECOND
#define FROZEN_NS (WEIR_NS_PER_SECOND / 4)

/* Each loop has its own way to the engine. */
static bool engine_answers(const struct weir_common *common)
{
    for (size_t i = 0; i < common->loop_count; i++) {
        struct weir_remote *remote = common->loops[i].sharer.transactions.remote;
        if (remote && !remote->ops->ready(remote))
            return false;
    }
    return true;
}

static bool others_heard(const struct weir_common *common, const struct weir_setup *setup, uint64_t engine_max_ns,
                         uint64_t waited_ns)
{
    return (engine_answers(common) || waited_ns >= engine_max_ns) &&
           (weir_gossip_server_synced(common->gossip, setup->rules) || waited_ns >= GOSSIP_NS);
}

void weir_await_others(struct weir_common *common, uv_loop_t *server, const struct weir_setup *setup, bool frozen)
{
    const uint64_t timeout_ns = setup->config->redis.connect_timeout_ns;
    const uint64_t engine_max_ns = frozen && timeout_ns > FROZEN_NS ? FROZEN_NS : timeout_ns;
    const uint64_t begun_ns = uv_hrtime();
    while (!others_heard(common, setup, engine_max_ns, uv_hrtime() - begun_ns) && !atomic_load(&common->draining)) {
        uv_run(server, UV_RUN_NOWAIT);
        for (size_t i = 0; i < common->loop_count; i++)
            uv_run(&common->loops[i].uv, UV_RUN_NOWAIT);
        uv_sleep(STEP_MS);
    }
    for (size_t i = 0; i < common->loop_count; i++)
        weir_sharer_draw(&common->loops[i].sharer); /* what /readyz says first */
}
