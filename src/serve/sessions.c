/* SPDX-License-Identifier: Apache-2.0
 *
 * Moves asks between queues under one mutex: to the workers, to the watcher, and to the inbox of the loop that asked,
 * which is woken by uv_async. Only who has an ask touches it, but for the flag `abandoned`: a thread that finds it set
 * frees the ask. What a thread does with an ask is in sessions_work.c. Called by http_sessions.c, loop.c and
 * server.c. */
#include "serve/sessions.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/assert.h"
#include "serve/loop.h"
#include "serve/sessions_inside.h"

#define WATCH_NS (10 * WEIR_NS_PER_SECOND / 1000) /* how late a route that waits may learn that its time is over */
#define RANDOM_KEY_SIZE 32

/* ---- queues ---- */

static void push(struct weir_session_queue *queue, struct weir_session_ask *ask)
{
    ask->next = NULL;
    if (queue->last)
        queue->last->next = ask;
    else
        queue->first = ask;
    queue->last = ask;
}

static struct weir_session_ask *pop(struct weir_session_queue *queue)
{
    struct weir_session_ask *ask = queue->first;
    if (ask) {
        queue->first = ask->next;
        queue->last = queue->first ? queue->last : NULL;
    }
    return ask;
}

/* It is in it: a rare walk. */
static void take_out(struct weir_session_queue *queue, const struct weir_session_ask *ask)
{
    struct weir_session_ask *before = NULL, *at = queue->first;
    for (; at != ask; at = at->next)
        before = at;
    if (before)
        before->next = ask->next;
    else
        queue->first = ask->next;
    if (queue->last == ask)
        queue->last = before;
}

/* ---- the inbox ---- */

static void ask_free(struct weir_session_ask *ask)
{
    atomic_fetch_sub(&ask->service->waiting, 1);
    free(ask);
}

static struct weir_session_inbox *inbox_of(const struct weir_session_ask *ask)
{
    return &ask->service->inboxes[ask->loop->number];
}

/* Of a worker or the watcher, whose ask it was. */
static void arrive(struct weir_session_ask *ask)
{
    struct weir_session_service *service = ask->service;
    pthread_mutex_lock(&service->lock);
    bool abandoned = ask->abandoned;
    if (!abandoned) {
        struct weir_session_inbox *inbox = inbox_of(ask);
        weir_assert(inbox->open);
        ask->stage = WEIR_SESSION_ARRIVED;
        push(&inbox->arrived, ask);
        if (inbox->arrived.first == ask)
            uv_async_send(&inbox->async);
    }
    pthread_mutex_unlock(&service->lock);
    if (abandoned)
        ask_free(ask);
}

static void on_arrived(uv_async_t *async)
{
    struct weir_loop *loop = async->data;
    struct weir_session_service *service = loop->common->sessions;
    for (;;) {
        pthread_mutex_lock(&service->lock);
        struct weir_session_ask *ask = pop(&service->inboxes[loop->number].arrived);
        if (ask)
            ask->stage = WEIR_SESSION_TOLD;
        pthread_mutex_unlock(&service->lock);
        if (!ask)
            return;
        weir_session_work_count(ask);
        ask->then(ask, ask->context);
    }
}

/* ---- threads ---- */

static void watch(struct weir_session_ask *ask)
{
    struct weir_session_service *service = ask->service;
    weir_sessions_count(&service->counters.waits, 1);
    pthread_mutex_lock(&service->lock);
    push(&service->watch, ask);
    pthread_cond_signal(&service->watched);
    pthread_mutex_unlock(&service->lock);
}

static void *worker(void *argument)
{
    struct weir_session_service *service = argument;
    pthread_mutex_lock(&service->lock);
    while (!service->closing) {
        struct weir_session_ask *ask = pop(&service->work);
        if (!ask) {
            pthread_cond_wait(&service->worked, &service->lock);
            continue;
        }
        bool abandoned = ask->abandoned;
        pthread_mutex_unlock(&service->lock);
        if (!abandoned)
            weir_session_work(ask);
        if (!abandoned && ask->answer.said == WEIR_SESSION_WAITS)
            watch(ask);
        else
            arrive(ask);
        pthread_mutex_lock(&service->lock);
    }
    pthread_mutex_unlock(&service->lock);
    return NULL;
}

/* Decides all that it has by one snapshot; what still waits stays. */
static void look_through(struct weir_session_queue *mine, const struct weir_snapshot *snapshot)
{
    struct weir_session_queue left = { NULL, NULL };
    for (struct weir_session_ask *ask; (ask = pop(mine)) != NULL;) {
        weir_session_work_decide(ask, snapshot);
        if (ask->answer.said == WEIR_SESSION_WAITS) {
            push(&left, ask);
            continue;
        }
        weir_sessions_count(&ask->service->counters.waited_ns, uv_hrtime() - ask->route.came_ns);
        arrive(ask);
    }
    *mine = left;
}

/* Takes over what has come, and lets go what nobody asks for any more, which may be all. False: it is the end. */
static bool watcher_collect(struct weir_session_service *service, struct weir_session_queue *mine)
{
    struct weir_session_queue all = { NULL, NULL }, gone = { NULL, NULL };
    pthread_mutex_lock(&service->lock);
    while (!mine->first && !service->watch.first && !service->closing)
        pthread_cond_wait(&service->watched, &service->lock);
    for (struct weir_session_ask *ask; (ask = pop(mine)) || (ask = pop(&service->watch));)
        push(ask->abandoned || service->closing ? &gone : &all, ask);
    bool goes_on = !service->closing;
    pthread_mutex_unlock(&service->lock);
    for (struct weir_session_ask *ask; (ask = pop(&gone)) != NULL;)
        ask_free(ask);
    *mine = all;
    return goes_on;
}

static void *watcher(void *argument)
{
    struct weir_session_service *service = argument;
    struct weir_session_queue mine = { NULL, NULL };
    while (watcher_collect(service, &mine)) {
        if (!mine.first)
            continue;
        const struct weir_snapshot *snapshot = weir_servers_look(service->servers);
        uint64_t number = snapshot->number;
        look_through(&mine, snapshot);
        weir_servers_release(service->servers, snapshot);
        if (mine.first)
            (void)weir_servers_wait(service->servers, number, uv_hrtime() + WATCH_NS);
    }
    return NULL;
}

/* ---- asks ---- */

static struct weir_session_ask *ask_alloc(struct weir_session_service *service)
{
    struct weir_session_ask *ask = malloc(sizeof(*ask));
    if (!ask)
        return NULL;
    memset(ask, 0, offsetof(struct weir_session_ask, answer)); /* the answer is filled in where it counts */
    ask->service = service;
    ask->answer.said = WEIR_SESSION_WAITS;
    ask->answer.avoided[0] = ask->answer.mute[0] = ask->answer.stale_reads[0] = '\0';
    return ask;
}

static void hand_over(struct weir_session_ask *ask, bool to_worker)
{
    struct weir_session_service *service = ask->service;
    if (!to_worker) {
        watch(ask);
        return;
    }
    pthread_mutex_lock(&service->lock);
    push(&service->work, ask);
    pthread_cond_signal(&service->worked);
    pthread_mutex_unlock(&service->lock);
}

int weir_session_ask_create(struct weir_loop *loop, enum weir_session_call call,
                            const struct weir_session_question *question,
                            void (*then)(struct weir_session_ask *ask, void *context), void *context,
                            struct weir_session_answer *ret_answer, struct weir_session_ask **ret_ask)
{
    struct weir_session_service *service = loop->common->sessions;
    if (!service)
        return WEIR_ENOENT;
    struct weir_session_ask *ask = ask_alloc(service);
    if (!ask)
        return WEIR_ENOMEM;
    ask->loop = loop;
    ask->call = call;
    ask->then = then;
    ask->context = context;
    bool wrong = weir_session_work_read(ask, question) != 0;
    bool to_worker = !wrong && !weir_session_work_at_once(ask);
    if (!to_worker && ask->answer.said != WEIR_SESSION_WAITS) {
        weir_session_work_count(ask);
        *ret_answer = ask->answer;
        *ret_ask = NULL;
        free(ask);
        return 0;
    }
    if (atomic_fetch_add(&service->waiting, 1) >= service->waiters_max) {
        weir_sessions_count(&service->counters.refused[WEIR_SESSIONS_FULL], 1);
        ask_free(ask);
        return WEIR_ELIMIT;
    }
    service->inboxes[loop->number].asks++;
    *ret_ask = ask;
    hand_over(ask, to_worker);
    return 0;
}

bool weir_session_ask_waits(const struct weir_session_ask *ask)
{
    return ask->call == WEIR_SESSION_CALL_ROUTE;
}

const struct weir_session_answer *weir_session_ask_answer(const struct weir_session_ask *ask)
{
    return &ask->answer;
}

void weir_session_ask_end(struct weir_session_ask *ask)
{
    weir_assert(ask->stage == WEIR_SESSION_TOLD);
    inbox_of(ask)->asks--;
    ask_free(ask);
}

void weir_session_ask_abandon(struct weir_session_ask *ask)
{
    struct weir_session_service *service = ask->service;
    pthread_mutex_lock(&service->lock);
    enum weir_session_stage stage = ask->stage;
    inbox_of(ask)->asks--;
    ask->abandoned = true;
    if (stage == WEIR_SESSION_ARRIVED)
        take_out(&inbox_of(ask)->arrived, ask);
    pthread_mutex_unlock(&service->lock);
    if (stage != WEIR_SESSION_PENDING)
        ask_free(ask);
}

/* ---- of a loop ---- */

int weir_session_inbox_open(struct weir_loop *loop)
{
    if (!loop->common->sessions)
        return 0;
    struct weir_session_inbox *inbox = &loop->common->sessions->inboxes[loop->number];
    if (uv_async_init(&loop->uv, &inbox->async, on_arrived))
        return WEIR_EIO;
    inbox->async.data = loop;
    inbox->open = true;
    return 0;
}

void weir_session_inbox_drain(struct weir_loop *loop)
{
    if (loop->common->sessions)
        atomic_store(&loop->common->sessions->draining, true);
}

void weir_session_inbox_close(struct weir_loop *loop)
{
    if (!loop->common->sessions)
        return;
    struct weir_session_inbox *inbox = &loop->common->sessions->inboxes[loop->number];
    weir_assert(inbox->asks == 0);
    if (inbox->open)
        uv_close((uv_handle_t *)&inbox->async, NULL);
    inbox->open = false;
}

/* ---- life ---- */

static int open_signer(struct weir_session_service *service, const struct weir_config_sessions *config,
                       struct weir_fault *fault)
{
    uint8_t random[RANDOM_KEY_SIZE];
    struct weir_session_key keys[WEIR_SESSION_KEYS_MAX] = { { .key = random, .key_size = sizeof(random) } };
    if (getrandom(random, sizeof(random), 0) != (ssize_t)sizeof(random))
        return WEIR_EIO;
    for (size_t i = 0; i < config->keys_count; i++)
        keys[i] = (struct weir_session_key){ (uint8_t)config->keys[i].id, config->keys[i].key.data,
                                             config->keys[i].key.size };
    unsigned count = config->keys_count ? (unsigned)config->keys_count : 1;
    int error = weir_signer_create(keys, count, &service->signer, fault);
    explicit_bzero(random, sizeof(random));
    return error;
}

static int open_servers(struct weir_session_service *service, const struct weir_config_sessions *config,
                        struct weir_fault *fault)
{
    struct weir_replicas_server servers[WEIR_ROUTE_SERVERS_MAX];
    _Static_assert(WEIR_SERVERS_MAX <= WEIR_ROUTE_SERVERS_MAX, "the configuration allows more than can be chosen from");
    _Static_assert(WEIR_SERVERS_MAX <= WEIR_SESSIONS_SERVERS_MAX, "the configuration allows more than is counted");
    for (size_t i = 0; i < config->servers_count; i++) {
        servers[i] = (struct weir_replicas_server){ config->servers[i].name, config->servers[i].url.data };
        memcpy(service->routes[i].name, servers[i].name, strlen(servers[i].name));
    }
    service->routes_count = config->servers_count;
    return weir_servers_open(&(struct weir_servers_options){ .servers = servers,
                                                             .server_count = (unsigned)config->servers_count,
                                                             .poll_ns = config->poll_ns,
                                                             .freeze_ns = config->freeze_ns,
                                                             .timeout_ns = config->timeout_ns,
                                                             .branch_table = config->branch_table },
                             &service->servers, fault);
}

static int open_users(struct weir_session_service *service, const struct weir_config_sessions *config,
                      struct weir_fault *fault)
{
    return weir_users_open(&(struct weir_users_options){ .url = config->users.size ? config->users.data : NULL,
                                                         .users_max = config->users_max,
                                                         .ttl_ns = config->ttl_ns,
                                                         .timeout_ns = config->timeout_ns,
                                                         .newest = weir_session_newest,
                                                         .context = service },
                           &service->users, fault);
}

/* Signals are the server's thread's business. */
static int start_threads(struct weir_session_service *service)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    service->watcher_runs = pthread_create(&service->watcher, NULL, watcher, service) == 0;
    while (service->watcher_runs && service->workers_count < WEIR_SESSION_WORKERS &&
           pthread_create(&service->workers[service->workers_count], NULL, worker, service) == 0)
        service->workers_count++;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return service->workers_count > 0 ? 0 : WEIR_ENOMEM;
}

int weir_session_service_create(const struct weir_config_sessions *config, size_t loops,
                                struct weir_session_service **ret_service, struct weir_fault *ret_fault)
{
    struct weir_session_service *service = calloc(1, sizeof(*service) + loops * sizeof(service->inboxes[0]));
    if (!service)
        return WEIR_ENOMEM;
    pthread_mutex_init(&service->lock, NULL);
    pthread_cond_init(&service->worked, NULL);
    pthread_cond_init(&service->watched, NULL);
    service->inbox_count = loops;
    service->timeout_ns = config->timeout_ns;
    service->window_ns = config->window_ns;
    service->freeze_ns = config->freeze_ns;
    service->poll_ns = config->poll_ns;
    service->waiters_max = config->waiters_max;
    int error = open_signer(service, config, ret_fault);
    if (!error)
        error = open_servers(service, config, ret_fault);
    if (!error)
        error = open_users(service, config, ret_fault);
    if (!error)
        error = start_threads(service);
    if (error) {
        weir_session_service_destroy(service);
        return error;
    }
    *ret_service = service;
    return 0;
}

/* Nobody asks any more: what is still pending was abandoned. */
void weir_session_service_destroy(struct weir_session_service *service)
{
    if (!service)
        return;
    pthread_mutex_lock(&service->lock);
    service->closing = true;
    pthread_cond_broadcast(&service->worked);
    pthread_cond_broadcast(&service->watched);
    pthread_mutex_unlock(&service->lock);
    for (size_t i = 0; i < service->workers_count; i++)
        pthread_join(service->workers[i], NULL);
    if (service->watcher_runs)
        pthread_join(service->watcher, NULL);
    for (struct weir_session_ask *ask; (ask = pop(&service->work)) || (ask = pop(&service->watch));)
        ask_free(ask);
    weir_users_close(service->users);
    if (service->servers)
        weir_servers_close(service->servers);
    weir_signer_destroy(service->signer);
    pthread_cond_destroy(&service->worked);
    pthread_cond_destroy(&service->watched);
    pthread_mutex_destroy(&service->lock);
    free(service);
}
