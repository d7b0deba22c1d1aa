/* SPDX-License-Identifier: Apache-2.0
 *
 * Starts and stops the pollers, one thread per server (poller_thread.c). Their state is under one lock; readers of the
 * current snapshot take no lock (servers_inside.h says why), nor does the count of reads. Snapshots are made in
 * servers_publish.c; core/session/health.c decides what a reply means. Called by the library's sessions (replicas.c and
 * session*.c), by the service (serve/sessions*.c) and by cli/reads_run.c. */
#include "sessions/servers.h"

#include <errno.h>
#include <libpq-fe.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/checked.h"
#include "base/fault.h"
#include "base/siphash.h"
#include "base/timing.h"
#include "sessions/servers_inside.h"
#include "weir/error.h"

#define NAME_MAX_SIZE 63
#define POLL_MIN_NS UINT64_C(1000000)
#define TIME_MAX_NS UINT64_C(86400000000000)

/* The same in every process: it is for choosing, not for keeping strangers out. Never 0. */
static uint64_t id_of(const char *name)
{
    static const struct weir_sip_key key = { 0 };
    uint64_t id = weir_siphash(&key, name, strlen(name));
    return id ? id : 1;
}

/* ---- pollers ---- */

static struct weir_poller *find(const struct weir_servers *servers, uint64_t id)
{
    for (unsigned i = 0; i < servers->count; i++)
        if (servers->pollers[i]->health.id == id)
            return servers->pollers[i];
    return NULL;
}

static int check_server(const struct weir_replicas_server *server, struct weir_fault *ret_fault)
{
    char *message = NULL; /* may quote the conninfo: not for showing */
    if (!server->name || !server->name[0] || strlen(server->name) > NAME_MAX_SIZE)
        return weir_fault_set(ret_fault, WEIR_EINVAL, "name", "must be 1 to 63 bytes");
    PQconninfoOption *options = server->conninfo ? PQconninfoParse(server->conninfo, &message) : NULL;
    PQfreemem(message);
    if (!options)
        return weir_fault_set(ret_fault, WEIR_EINVAL, "conninfo",
                              "must be what libpq takes: \"host=… dbname=…\" or a URL");
    PQconninfoFree(options);
    return 0;
}

static struct weir_poller *poller_create(struct weir_servers *servers, const struct weir_replicas_server *server)
{
    size_t size = strlen(server->conninfo) + 1;
    struct weir_poller *poller = calloc(1, sizeof *poller);
    struct weir_conninfo *conninfo = malloc(sizeof *conninfo + size);
    if (!poller || !conninfo) {
        free(poller);
        free(conninfo);
        return NULL;
    }
    conninfo->references = 1;
    memcpy(conninfo->text, server->conninfo, size);
    poller->servers = servers;
    poller->conninfo = conninfo;
    poller->health.id = id_of(server->name);
    memcpy(poller->name, server->name, strlen(server->name) + 1);
    return poller;
}

/* With the lock, or when nobody else has it any more. */
static void poller_destroy(struct weir_poller *poller)
{
    weir_conninfo_release(poller->conninfo);
    free(poller);
}

/* The program's signals are not for our threads. */
static int start(struct weir_poller *poller)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int failed = pthread_create(&poller->thread, NULL, weir_poller_main, poller);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return failed ? WEIR_ENOMEM : 0;
}

static void take_counter(struct weir_servers *servers, struct weir_poller *poller)
{
    unsigned counter = 0;
    while (atomic_load(&servers->read_counters[counter].id) != 0)
        counter++;
    weir_assert(counter < WEIR_ROUTE_SERVERS_MAX);
    poller->counter = counter;
    poller->counted = atomic_load(&servers->read_counters[counter].reads);
    poller->counted_ns = weir_ask_now_ns();
    atomic_store(&servers->read_counters[counter].id, poller->health.id);
}

/* With the lock. */
static int add(struct weir_servers *servers, const struct weir_replicas_server *server, struct weir_fault *ret_fault)
{
    if (servers->count == WEIR_ROUTE_SERVERS_MAX)
        return weir_fault_set(ret_fault, WEIR_ELIMIT, "servers", "must be 64 at most");
    if (find(servers, id_of(server->name)))
        return weir_fault_set(ret_fault, WEIR_EEXIST, "name", "must be another one for each server");
    struct weir_poller *poller = poller_create(servers, server);
    if (!poller)
        return WEIR_ENOMEM;
    servers->pollers[servers->count] = poller;
    take_counter(servers, poller);
    int error = start(poller);
    if (error) {
        atomic_store(&servers->read_counters[poller->counter].id, 0);
        poller_destroy(poller);
        return weir_fault_set(ret_fault, error, "servers", "no thread could be started");
    }
    servers->count++;
    weir_health_add(&servers->health, &poller->health);
    return 0;
}

int weir_servers_add(struct weir_servers *servers, const struct weir_replicas_server *server,
                     struct weir_fault *ret_fault)
{
    int error = check_server(server, ret_fault);
    if (error)
        return error;
    pthread_mutex_lock(&servers->lock);
    error = add(servers, server, ret_fault);
    if (!error)
        weir_servers_publish(servers);
    pthread_mutex_unlock(&servers->lock);
    return error;
}

int weir_servers_remove(struct weir_servers *servers, const char *name)
{
    pthread_mutex_lock(&servers->lock);
    struct weir_poller *poller = find(servers, id_of(name));
    if (poller) {
        unsigned index = 0;
        while (servers->pollers[index] != poller)
            index++;
        poller->stop = true;
        weir_health_remove(&servers->health, &poller->health);
        servers->count--;
        memmove(&servers->pollers[index], &servers->pollers[index + 1],
                (servers->count - index) * sizeof servers->pollers[0]);
        atomic_store(&servers->read_counters[poller->counter].id, 0);
        weir_servers_publish(servers);
        pthread_cond_broadcast(&servers->wake);
    }
    pthread_mutex_unlock(&servers->lock);
    if (!poller)
        return WEIR_ENOENT;
    pthread_join(poller->thread, NULL);
    pthread_mutex_lock(&servers->lock);
    poller_destroy(poller);
    pthread_mutex_unlock(&servers->lock);
    return 0;
}

/* ---- all of them ---- */

static int check_options(const struct weir_servers_options *options, struct weir_fault *ret_fault)
{
    if (options->server_count == 0 || options->server_count > WEIR_ROUTE_SERVERS_MAX)
        return weir_fault_set(ret_fault, WEIR_ERANGE, "server_count", "must be 1 to 64");
    if (options->poll_ns < POLL_MIN_NS || options->poll_ns > TIME_MAX_NS)
        return weir_fault_set(ret_fault, WEIR_ERANGE, "poll", "must be 1 ms to a day");
    if (options->freeze_ns == 0 || options->freeze_ns > TIME_MAX_NS)
        return weir_fault_set(ret_fault, WEIR_ERANGE, "freeze", "must be up to a day");
    if (options->timeout_ns < POLL_MIN_NS || options->timeout_ns > TIME_MAX_NS)
        return weir_fault_set(ret_fault, WEIR_ERANGE, "timeout", "must be 1 ms to a day");
    if (options->branch_table && !weir_branches_is_name(options->branch_table, strlen(options->branch_table)))
        return weir_fault_set(ret_fault, WEIR_EINVAL, "branch_table", WEIR_BRANCH_NAME_RULE);
    for (unsigned i = 0; i < options->server_count; i++) {
        int error = check_server(&options->servers[i], ret_fault);
        if (error)
            return error;
    }
    return 0;
}

static struct weir_servers *create(const struct weir_servers_options *options)
{
    struct weir_servers *servers = calloc(1, sizeof *servers);
    if (!servers)
        return NULL;
    servers->options = *options;
    servers->health.freeze_ns = options->freeze_ns;
    servers->options.servers = NULL;
    servers->options.clock_query = servers->clock_query = options->clock_query ? strdup(options->clock_query) : NULL;
    servers->options.branch_table = servers->branch_table = options->branch_table ? strdup(options->branch_table)
                                                                                  : NULL;
    if (!servers->clock_query != !options->clock_query || !servers->branch_table != !options->branch_table) {
        free(servers->clock_query);
        free(servers->branch_table);
        free(servers);
        return NULL;
    }
    pthread_mutex_init(&servers->lock, NULL);
    weir_assert(weir_timing_cond_init(&servers->wake) == 0 && weir_timing_cond_init(&servers->news) == 0);
    return servers;
}

int weir_servers_open(const struct weir_servers_options *options, struct weir_servers **ret_servers,
                      struct weir_fault *ret_fault)
{
    int error = check_options(options, ret_fault);
    if (error)
        return error;
    struct weir_servers *servers = create(options);
    if (!servers)
        return WEIR_ENOMEM;
    pthread_mutex_lock(&servers->lock);
    for (unsigned i = 0; !error && i < options->server_count; i++)
        error = add(servers, &options->servers[i], ret_fault);
    weir_servers_publish(servers);
    if (!error && !atomic_load(&servers->current))
        error = WEIR_ENOMEM;
    pthread_mutex_unlock(&servers->lock);
    if (error)
        weir_servers_close(servers);
    else
        *ret_servers = servers;
    return error;
}

void weir_servers_close(struct weir_servers *servers)
{
    if (!servers)
        return;
    pthread_mutex_lock(&servers->lock);
    for (unsigned i = 0; i < servers->count; i++)
        servers->pollers[i]->stop = true;
    pthread_cond_broadcast(&servers->wake);
    pthread_mutex_unlock(&servers->lock);
    for (unsigned i = 0; i < servers->count; i++)
        pthread_join(servers->pollers[i]->thread, NULL);
    for (struct weir_room *room = servers->rooms, *next; room; room = next) {
        weir_assert(atomic_load(&room->readers) == 0);
        for (unsigned i = 0; i < room->snapshot.count; i++)
            weir_conninfo_release(room->conninfos[i]);
        next = room->next;
        free(room);
    }
    for (unsigned i = 0; i < servers->count; i++)
        poller_destroy(servers->pollers[i]);
    pthread_cond_destroy(&servers->news);
    pthread_cond_destroy(&servers->wake);
    pthread_mutex_destroy(&servers->lock);
    free(servers->clock_query);
    free(servers->branch_table);
    free(servers);
}

/* ---- reading ---- */

const struct weir_snapshot *weir_servers_look(struct weir_servers *servers)
{
    for (;;) {
        struct weir_room *room = atomic_load(&servers->current);
        atomic_fetch_add(&room->readers, 1);
        if (atomic_load(&servers->current) == room)
            return &room->snapshot;
        atomic_fetch_sub(&room->readers, 1);
    }
}

void weir_servers_release(struct weir_servers *servers, const struct weir_snapshot *snapshot)
{
    (void)servers;
    struct weir_room *room = (struct weir_room *)((uintptr_t)snapshot - offsetof(struct weir_room, snapshot));
    atomic_fetch_sub(&room->readers, 1);
}

void weir_servers_count(struct weir_servers *servers, uint64_t id)
{
    for (unsigned i = 0; i < WEIR_ROUTE_SERVERS_MAX; i++)
        if (atomic_load_explicit(&servers->read_counters[i].id, memory_order_relaxed) == id) {
            atomic_fetch_add_explicit(&servers->read_counters[i].reads, 1, memory_order_relaxed);
            return;
        }
}

/* ---- waiting ---- */

/* With the lock. False: it is late. */
static bool wait_news(struct weir_servers *servers, uint64_t deadline_ns)
{
    return weir_timing_wait(&servers->news, &servers->lock, deadline_ns) != ETIMEDOUT;
}

int weir_servers_wait(struct weir_servers *servers, uint64_t number, uint64_t deadline_ns)
{
    pthread_mutex_lock(&servers->lock);
    if (servers->waiting++ == 0)
        pthread_cond_broadcast(&servers->wake);
    while (servers->number <= number && wait_news(servers, deadline_ns))
        ;
    servers->waiting--;
    int error = servers->number > number ? 0 : WEIR_EAGAIN;
    pthread_mutex_unlock(&servers->lock);
    return error;
}

int weir_servers_ask(struct weir_servers *servers, uint64_t id, uint64_t deadline_ns)
{
    bool late = false;
    uint64_t asked_ns = weir_ask_now_ns();
    pthread_mutex_lock(&servers->lock);
    struct weir_poller *poller = find(servers, id);
    if (poller) {
        poller->hurry = true;
        pthread_cond_broadcast(&servers->wake);
    }
    while (poller && poller->health.last.begun_ns <= asked_ns && !late) {
        late = !wait_news(servers, deadline_ns);
        poller = find(servers, id);
    }
    int error = !poller ? WEIR_ENOENT : poller->health.last.begun_ns > asked_ns ? 0 : WEIR_EAGAIN;
    pthread_mutex_unlock(&servers->lock);
    return error;
}

void weir_servers_tell(struct weir_servers *servers, const struct weir_shown *shown)
{
    bool ask;
    pthread_mutex_lock(&servers->lock);
    if (weir_health_tell(&servers->health, shown, &ask))
        weir_servers_publish(servers);
    for (unsigned i = 0; ask && i < servers->count; i++)
        servers->pollers[i]->hurry = true;
    if (ask)
        pthread_cond_broadcast(&servers->wake);
    pthread_mutex_unlock(&servers->lock);
}
