/* SPDX-License-Identifier: Apache-2.0
 *
 * Question 1 with processes: the lock is in a redis-server; each client is a process that stops itself (SIGSTOP) after
 * its read and is continued later; the store is a process too, with the counter in a file and its mark in a fence of
 * libweir (weir/fence.h), in memory or on disk. The store's socket listens in this process, so that a store that was
 * killed and started anew answers at the same place. In virtual time it is sim/lab/pauses.c. */
#include <arpa/inet.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/units.h"
#include "base/whole.h"
#include "cli/lab_real.h"
#include "cli/lab_redis.h"
#include "sim/lab/pauses.h"
#include "weir/fence.h"

#define COUNTER "counter"

/* ---- the store ---- */

enum verb { INSTALL, READ, WRITE };

struct request {
    enum verb verb;
    struct weir_token token;
    uint64_t counter;
};

struct reply {
    int error;
    uint64_t counter;
};

struct store {
    const struct lab_pauses_way *way;
    int listens, file;
    uint16_t port;
    pid_t pid;
    char marks[WEIR_LAB_PATH_SIZE + 64];
};

struct writing {
    int file;
    uint64_t counter;
};

static int counter_write(void *context)
{
    const struct writing *writing = context;
    bool written = pwrite(writing->file, &writing->counter, sizeof(writing->counter), 0) == sizeof(writing->counter) &&
                   fdatasync(writing->file) == 0;
    return written ? 0 : WEIR_EIO;
}

static int write_guarded(const struct store *store, struct weir_fence *fence, const struct request *request)
{
    struct writing writing = { store->file, request->counter };
    if (!store->way->checked)
        return counter_write(&writing);
    /* Compared at the write only, and raised by it. */
    int error = store->way->installs ? 0 : weir_fence_install(fence, COUNTER, strlen(COUNTER), request->token);
    return error ? error : weir_fence_write(fence, COUNTER, strlen(COUNTER), request->token, counter_write, &writing);
}

static struct reply store_answer(const struct store *store, struct weir_fence *fence, const struct request *request)
{
    struct reply reply = { .error = 0 };
    switch (request->verb) {
    case INSTALL:
        reply.error = weir_fence_install(fence, COUNTER, strlen(COUNTER), request->token);
        break;
    case READ:
        if (pread(store->file, &reply.counter, sizeof(reply.counter), 0) != sizeof(reply.counter))
            reply.error = WEIR_EIO;
        break;
    case WRITE:
        reply.error = write_guarded(store, fence, request);
        break;
    }
    return reply;
}

static int store_work(void *context)
{
    const struct store *store = context;
    const struct weir_fence_options options = { .path = store->way->durable ? store->marks : NULL };
    struct weir_fence *fence;
    struct weir_fault fault;
    if (weir_fence_open(&options, &fence, &fault) != 0)
        return 1;
    for (;;) {
        struct request request;
        int fd = accept(store->listens, NULL, NULL);
        if (fd < 0)
            return 1;
        if (weir_whole_read(fd, &request, sizeof(request)) == sizeof(request)) {
            struct reply reply = store_answer(store, fence, &request);
            (void)weir_whole_write(fd, &reply, sizeof(reply));
        }
        (void)close(fd);
    }
}

static bool store_start(struct weir_lab_stand *stand, struct store *store)
{
    store->pid = weir_lab_fork(stand, store_work, store);
    return store->pid != 0;
}

/* At 0, and without marks. */
static bool store_open(struct weir_lab_stand *stand, const struct lab_pauses_way *way, unsigned number,
                       struct store *store)
{
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t size = sizeof(address);
    char path[WEIR_LAB_PATH_SIZE + 64];
    struct writing nothing;
    (void)snprintf(path, sizeof(path), "%s/counter-%u", stand->folder, number);
    *store = (struct store){ .way = way, .listens = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0) };
    (void)snprintf(store->marks, sizeof(store->marks), "%s/marks-%u", stand->folder, number);
    store->file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    nothing = (struct writing){ store->file, 0 };
    if (store->file < 0 || counter_write(&nothing) != 0 || store->listens < 0 ||
        bind(store->listens, (const struct sockaddr *)&address, size) != 0 || listen(store->listens, 16) != 0 ||
        getsockname(store->listens, (struct sockaddr *)&address, &size) != 0)
        return weir_lab_fail(stand, "no store could be opened in %s", stand->folder);
    store->port = ntohs(address.sin_port);
    return store_start(stand, store);
}

static void store_close(struct store *store)
{
    if (store->pid)
        weir_lab_kill(store->pid);
    (void)close(store->listens);
    (void)close(store->file);
}

static struct reply store_ask(const struct store *store, const struct request *request)
{
    struct weir_lab_stand nobody;
    struct weir_lab_client client;
    struct reply reply = { .error = WEIR_EDOWN };
    if (weir_lab_client_open(&nobody, store->port, &client) && weir_whole_write(client.fd, request, sizeof(*request)) &&
        weir_whole_read(client.fd, &reply, sizeof(reply)) != sizeof(reply))
        reply.error = WEIR_EUNKNOWN;
    weir_lab_client_close(&client);
    return reply;
}

/* ---- a client ---- */

enum { ACKNOWLEDGED, REFUSED, BROKEN }; /* how its process ends */

struct waking {
    const struct store *store;
    uint16_t redis;
    uint32_t number;
};

static bool lock_take(const struct waking *waking, struct weir_lab_client *redis)
{
    char owner[16], lease[16];
    (void)snprintf(owner, sizeof(owner), "client-%u", waking->number);
    (void)snprintf(lease, sizeof(lease), "%d", LAB_PAUSES_LEASE_MS);
    for (uint64_t end_ns = weir_lab_now_ns() + WEIR_LAB_READY_NS; weir_lab_now_ns() < end_ns;) {
        if (!WEIR_LAB_ASK(redis, "SET", "lock", owner, "NX", "PX", lease))
            return false;
        if (weir_lab_said(redis, "OK"))
            return true;
        weir_lab_sleep_ns(2 * WEIR_NS_PER_MS);
    }
    return false;
}

static int client_work(void *context)
{
    const struct waking *waking = context;
    struct weir_lab_stand nobody;
    struct weir_lab_client redis;
    if (!weir_lab_client_open(&nobody, waking->redis, &redis) || !lock_take(waking, &redis) ||
        !WEIR_LAB_ASK(&redis, "INCR", "token") || weir_lab_said_number(&redis) < 1)
        return BROKEN;
    struct request request = { .verb = INSTALL, .token = { 1, (uint64_t)weir_lab_said_number(&redis) } };
    if (waking->store->way->installs && store_ask(waking->store, &request).error != 0)
        return BROKEN;
    request.verb = READ;
    struct reply reply = store_ask(waking->store, &request);
    if (reply.error != 0 || raise(SIGSTOP) != 0)
        return BROKEN;
    request.verb = WRITE;
    request.counter = reply.counter + 1;
    reply = store_ask(waking->store, &request);
    if (reply.error == 0)
        return ACKNOWLEDGED;
    return reply.error == WEIR_EFENCED || reply.error == WEIR_ENOTINSTALLED ? REFUSED : BROKEN;
}

/* ---- one way, one order ---- */

static bool clients_pause(struct weir_lab_stand *stand, const struct store *store, uint16_t redis,
                          pid_t ret_pids[LAB_PAUSES_CLIENTS])
{
    for (uint32_t i = 0; i < LAB_PAUSES_CLIENTS; i++) {
        struct waking waking = { store, redis, i };
        int status = 0;
        ret_pids[i] = weir_lab_fork(stand, client_work, &waking);
        if (ret_pids[i] == 0)
            return false;
        if (waitpid(ret_pids[i], &status, WUNTRACED) != ret_pids[i] || !WIFSTOPPED(status))
            return weir_lab_fail(stand, "client %u did not come to its pause", i + 1);
    }
    return true;
}

static bool clients_wake(struct weir_lab_stand *stand, struct store *store, const struct lab_pauses_order *order,
                         const pid_t pids[LAB_PAUSES_CLIENTS], struct lab_pauses_run *run)
{
    for (uint32_t i = 0; i < LAB_PAUSES_CLIENTS; i++) {
        pid_t pid = pids[order->wakes[i]];
        int status = 0;
        if (i == 1 && order->restarts) {
            weir_lab_kill(store->pid);
            if (!store_start(stand, store))
                return false;
        }
        (void)kill(pid, SIGCONT);
        if (waitpid(pid, &status, 0) != pid || !WIFEXITED(status) || WEXITSTATUS(status) == BROKEN)
            return weir_lab_fail(stand, "client %u could not write", order->wakes[i] + 1);
        run->acknowledged[i] = WEXITSTATUS(status) == ACKNOWLEDGED;
        struct reply reply = store_ask(store, &(struct request){ .verb = READ });
        if (reply.error != 0)
            return weir_lab_fail(stand, "the store gives no answer");
        run->counter[i] = reply.counter;
    }
    return true;
}

static bool play(struct weir_lab_stand *stand, uint16_t redis, unsigned number)
{
    const struct lab_pauses_order *order = &lab_pauses_orders[number / LAB_PAUSES_WAYS];
    const struct lab_pauses_way *way = &lab_pauses_ways[number % LAB_PAUSES_WAYS];
    struct lab_pauses_run run = { .counter = { 0 } };
    struct weir_lab_client client;
    struct store store;
    pid_t pids[LAB_PAUSES_CLIENTS];
    if (!weir_lab_client_open(stand, redis, &client))
        return false;
    bool good = WEIR_LAB_ASK(&client, "FLUSHALL") && store_open(stand, way, number, &store);
    weir_lab_client_close(&client);
    if (!good)
        return false;
    good = clients_pause(stand, &store, redis, pids) && clients_wake(stand, &store, order, pids, &run);
    store_close(&store);
    if (good)
        lab_pauses_report(way, order, &run, &stand->report);
    return good;
}

bool weir_lab_pauses_real(struct weir_lab_stand *stand)
{
    struct weir_lab_redis redis;
    stand->report.x = LAB_PAUSES_X;
    stand->report.y = "updates that were acknowledged and are lost";
    if (!weir_lab_redis_start(stand, "redis", false, &redis))
        return false;
    uint64_t begin_ns = weir_lab_now_ns();
    for (unsigned i = 0; i < LAB_PAUSES_WAYS * LAB_PAUSES_ORDERS; i++) {
        if (!play(stand, redis.port, i))
            return false;
    }
    weir_lab_number(&stand->report, (double)(weir_lab_now_ns() - begin_ns) / 1e6, "ms", "all eight runs took");
    weir_lab_kill(redis.pid);
    return true;
}
