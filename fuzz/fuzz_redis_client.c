/* SPDX-License-Identifier: Apache-2.0
 *
 * Any bytes as the replies of a Redis server, a cluster's node or a sentinel: whatever the redis engine is told, every
 * request is done once, and nothing is left behind. The sockets are this file's: what the engine sends goes nowhere,
 * and what it hears is the input, cut into pieces. */
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "limits/redis/cluster.h"
#include "limits/redis/roll_back.h"
#include "limits/redis/sentinel.h"

#define LINKS_MAX 8
#define REQUESTS 4

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct weir_redis_link {
    struct weir_redis_link_owner owner;
    bool opened;
};

/* libFuzzer calls one function and no other: what it works on can only be reached from here. */
static struct weir_redis_link *links[LINKS_MAX];

int weir_redis_link_open(uv_loop_t *loop, const struct weir_redis_place *place,
                         const struct weir_redis_link_owner *owner, struct weir_redis_link **ret_link)
{
    (void)loop;
    (void)place;
    for (size_t i = 0; i < LINKS_MAX; i++) {
        if (links[i])
            continue;
        links[i] = calloc(1, sizeof *links[i]);
        links[i]->owner = *owner;
        *ret_link = links[i];
        return 0;
    }
    return WEIR_ENOMEM;
}

size_t weir_redis_link_send(struct weir_redis_link *link, const char *data, size_t size)
{
    (void)link;
    (void)data;
    return size;
}

bool weir_redis_link_shakes_hands(const struct weir_redis_link *link)
{
    (void)link;
    return false;
}

void weir_redis_link_close(struct weir_redis_link *link)
{
    for (size_t i = 0; i < LINKS_MAX; i++) {
        if (links[i] == link)
            links[i] = NULL;
    }
    free(link);
}

static void on_done(struct weir_remote_request *request)
{
    weir_assert(request->context == NULL);
    request->context = request; /* once */
}

static void init_requests(struct weir_remote_request *requests, struct weir_remote_op *ops,
                          const struct weir_remote_limit *limit)
{
    for (size_t i = 0; i < REQUESTS; i++) {
        requests[i] = (struct weir_remote_request){ .verb = (enum weir_remote_verb)(i % 3),
                                                    .ops = &ops[2 * i],
                                                    .count = 2,
                                                    .deadline_ns = uv_hrtime() + 60 * WEIR_NS_PER_SECOND,
                                                    .done = on_done };
        for (size_t j = 0; j < 2; j++)
            ops[2 * i + j] = (struct weir_remote_op){ .limit = limit, .units = 1, .key = { .id = { i, j }, .tag = j } };
    }
}

/* A piece of input: who hears it, how long it is, its bytes. */
static void hear(struct weir_redis_engine *engine, const uint8_t **data, size_t *size)
{
    if (*size < 2) {
        *size = 0;
        return;
    }
    struct weir_redis_link *link = links[(*data)[0] % LINKS_MAX];
    size_t length = (*data)[1];
    *data += 2;
    *size -= 2;
    length = length < *size ? length : *size;
    if (link && !link->opened) {
        link->opened = true;
        link->owner.opened(link->owner.context);
    } else if (link) {
        link->owner.heard(link->owner.context, (const char *)*data, length);
    }
    *data += length;
    *size -= length;
    uint64_t later_ns = uv_hrtime() + WEIR_NS_PER_SECOND;
    if (engine->settings.topology == WEIR_REDIS_CLUSTER)
        weir_redis_cluster_tick(engine, later_ns);
    else if (engine->settings.topology == WEIR_REDIS_SENTINEL)
        weir_redis_sentinel_tick(engine, later_ns);
    weir_redis_roll_back_tick(engine, later_ns);
    uv_run(engine->loop, UV_RUN_NOWAIT);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct weir_redis_address server = { .host = "127.0.0.1", .port = 1 };
    const struct weir_limit_spec spec = { .count = 100, .period_ns = WEIR_NS_PER_SECOND };
    struct weir_remote_request requests[REQUESTS];
    struct weir_remote_op ops[2 * REQUESTS];
    struct weir_remote_limit limit;
    struct weir_remote *remote;
    bool taken[REQUESTS] = { false };
    uv_loop_t loop;
    if (size == 0)
        return 0;
    const struct weir_redis_options options = { .topology = (enum weir_redis_topology)(data[0] % 3),
                                                .servers = &server,
                                                .servers_count = 1,
                                                .sentinel_name = "main",
                                                .seed = 1 };
    uv_loop_init(&loop);
    int error = weir_remote_limit_init(&limit, "a", &spec, NULL);
    weir_assert(error == 0);
    error = weir_redis_create(&loop, &options, &remote, NULL);
    weir_assert(error == 0);
    init_requests(requests, ops, &limit);
    data++;
    size--;
    for (size_t turn = 0; size > 0; turn++) {
        if (turn % 4 == 2 && turn / 4 < REQUESTS)
            taken[turn / 4] = remote->ops->submit(remote, &requests[turn / 4]) == 0;
        hear((struct weir_redis_engine *)remote, &data, &size);
    }
    remote->ops->close(remote);
    uv_run(&loop, UV_RUN_DEFAULT);
    for (size_t i = 0; i < REQUESTS; i++)
        weir_assert(taken[i] == (requests[i].context != NULL));
    error = uv_loop_close(&loop);
    weir_assert(error == 0);
    weir_remote_limit_deinit(&limit);
    return 0;
}
