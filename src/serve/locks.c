/* SPDX-License-Identifier: Apache-2.0
 *
 * The way of an ask: it is submitted to the manager; the manager's thread puts it into the inbox of its loop and wakes
 * the loop (uv_async); the loop calls `on_answer`. What the manager can answer at once skips the inbox. One mutex
 * guards all inboxes and asks. One thing is decided here: whether the caller may say so high a `seen` (seen_allowed).
 * Who is next is decided by core/lease/waiting.c, who gets the lock by the engine (locks/engine.h). Called by
 * resp_later.c, http_locks.c, loop.c and server.c. */
#include "serve/locks.h"

#include <stdlib.h>

#include "base/assert.h"
#include "core/lease/incarnation.h"
#include "locks/manager.h"
#include "serve/loop.h"

/* An answer that has come is in its inbox until the loop takes it. */
enum stage {
    STAGE_ASKED,
    STAGE_ARRIVED, /* in the inbox */
    STAGE_TOLD,    /* `on_answer` was called, or need not be */
};

struct weir_lock_ask {
    struct weir_lock_manager_request request;
    struct weir_lock_service *service;
    struct weir_loop *loop;
    void (*on_answer)(struct weir_lock_ask *ask, void *context);
    void *context;
    struct weir_lock_ask *next, *prev; /* all that have an asker, of one loop */
    struct weir_lock_ask *arrived;     /* the next in the inbox */
    enum stage stage;
    bool at_once; /* decided at once; the loop's thread's, while the stage is anybody's */
    bool abandoned;
    char bytes[]; /* of name and owner */
};

/* Of one loop. */
struct inbox {
    uv_async_t async;
    bool open;
    bool draining;
    struct weir_lock_ask *first, *last; /* arrived, in that order */
    struct weir_lock_ask *asks;
};

struct weir_lock_service {
    struct weir_lock_manager *manager; /* NULL: suspended */
    struct weir_lock_manager_options manages;
    /* Of everything below and of all asks. It is held while an ask is handed to the manager or withdrawn from it, so
     * that what the manager's thread answers is not freed in between; the manager calls `done` without locks held. */
    pthread_mutex_t lock;
    size_t inbox_count;
    struct inbox inboxes[];
};

/* ---- the inbox ---- */

static struct inbox *inbox_of(const struct weir_lock_ask *ask)
{
    return &ask->service->inboxes[ask->loop->number];
}

static void asks_add(struct weir_lock_ask *ask)
{
    struct inbox *inbox = inbox_of(ask);
    ask->next = inbox->asks;
    if (ask->next)
        ask->next->prev = ask;
    inbox->asks = ask;
}

static void asks_remove(struct weir_lock_ask *ask)
{
    if (ask->prev)
        ask->prev->next = ask->next;
    else
        inbox_of(ask)->asks = ask->next;
    if (ask->next)
        ask->next->prev = ask->prev;
}

static void arrive(struct weir_lock_ask *ask)
{
    struct inbox *inbox = inbox_of(ask);
    weir_assert(inbox->open);
    ask->stage = STAGE_ARRIVED;
    ask->arrived = NULL;
    if (inbox->last)
        inbox->last->arrived = ask;
    else
        inbox->first = ask;
    inbox->last = ask;
    if (inbox->first == ask)
        uv_async_send(&inbox->async);
}

/* Its asker went after the answer had come: a rare walk. */
static void unarrive(struct weir_lock_ask *ask)
{
    struct inbox *inbox = inbox_of(ask);
    struct weir_lock_ask *before = NULL, *at = inbox->first;
    for (; at != ask; at = at->arrived)
        before = at;
    if (before)
        before->arrived = ask->arrived;
    else
        inbox->first = ask->arrived;
    if (inbox->last == ask)
        inbox->last = before;
}

static void on_arrived(uv_async_t *async)
{
    struct weir_loop *loop = async->data;
    struct weir_lock_service *service = loop->common->locks;
    struct inbox *inbox = &service->inboxes[loop->number];
    for (;;) {
        pthread_mutex_lock(&service->lock);
        struct weir_lock_ask *ask = inbox->first;
        if (ask) {
            inbox->first = ask->arrived;
            inbox->last = inbox->first ? inbox->last : NULL;
            ask->stage = STAGE_TOLD;
        }
        pthread_mutex_unlock(&service->lock);
        if (!ask)
            return;
        ask->on_answer(ask, ask->context);
    }
}

/* The manager's thread. */
static void on_done(struct weir_lock_manager_request *request)
{
    struct weir_lock_ask *ask = request->context;
    struct weir_lock_service *service = ask->service;
    pthread_mutex_lock(&service->lock);
    bool abandoned = ask->abandoned;
    if (!abandoned)
        arrive(ask);
    pthread_mutex_unlock(&service->lock);
    if (abandoned && !weir_lock_manager_take_back(service->manager, &ask->request))
        free(ask);
}

/* ---- the end of an ask ---- */

void weir_lock_ask_end(struct weir_lock_ask *ask)
{
    struct weir_lock_service *service = ask->service;
    pthread_mutex_lock(&service->lock);
    weir_assert(ask->stage == STAGE_TOLD);
    asks_remove(ask);
    pthread_mutex_unlock(&service->lock);
    weir_lock_manager_told(service->manager, &ask->request);
    free(ask);
}

void weir_lock_ask_abandon(struct weir_lock_ask *ask)
{
    struct weir_lock_service *service = ask->service;
    pthread_mutex_lock(&service->lock);
    ask->abandoned = true;
    asks_remove(ask);
    if (ask->stage == STAGE_ARRIVED)
        unarrive(ask);
    bool kept = ask->stage == STAGE_ASKED;
    if (kept)
        weir_lock_manager_client_gone(service->manager, &ask->request);
    else
        kept = weir_lock_manager_take_back(service->manager, &ask->request);
    pthread_mutex_unlock(&service->lock);
    if (!kept)
        free(ask);
}

/* ---- asking ---- */

static struct weir_lock_ask *ask_alloc(struct weir_loop *loop, const struct weir_lock_wish *wish)
{
    struct weir_lock_ask *ask = malloc(sizeof(*ask) + wish->name.size + wish->owner.size);
    if (!ask)
        return NULL;
    *ask = (struct weir_lock_ask){ .service = loop->common->locks, .loop = loop };
    char *owner = ask->bytes + wish->name.size;
    if (wish->name.size)
        memcpy(ask->bytes, wish->name.data, wish->name.size);
    if (wish->owner.size)
        memcpy(owner, wish->owner.data, wish->owner.size);
    ask->request = (struct weir_lock_manager_request){
        .op = { .verb = wish->verb,
                .name = { ask->bytes, wish->name.size },
                .owner = { owner, wish->owner.size },
                .ttl_ns = wish->ttl_ns,
                .seen = wish->seen },
        .wait_ns = wish->wait_ns,
        .done = on_done,
        .context = ask,
    };
    return ask;
}

static bool is_suspended(struct weir_lock_service *service)
{
    pthread_mutex_lock(&service->lock);
    bool suspended = !service->manager;
    pthread_mutex_unlock(&service->lock);
    return suspended;
}

/* Whoever may hold locks may not burn the incarnations of all of them. */
static bool seen_allowed(const struct weir_lock_service *service, const struct weir_lock_wish *wish)
{
    struct weir_lock_manager_state state;
    uint64_t wall_s = weir_time_read().wall_ns / WEIR_NS_PER_SECOND;
    if (wish->seen == 0 || wish->has_reset || weir_incarnation_within_a_day(0, wall_s, wish->seen))
        return true;
    weir_lock_manager_state(service->manager, &state);
    return weir_incarnation_within_a_day(state.engine.incarnation, wall_s, wish->seen);
}

int weir_lock_ask_create(struct weir_loop *loop, const struct weir_lock_wish *wish,
                         void (*on_answer)(struct weir_lock_ask *ask, void *context), void *context,
                         struct weir_lock_ask **ret_ask)
{
    struct weir_lock_service *service = loop->common->locks;
    if (!service)
        return WEIR_ENOENT;
    if (is_suspended(service))
        return WEIR_ELIMIT;
    if (!seen_allowed(service, wish))
        return WEIR_ERANGE;
    struct weir_lock_ask *ask = ask_alloc(loop, wish);
    if (!ask)
        return WEIR_ENOMEM;
    ask->on_answer = on_answer;
    ask->context = context;
    pthread_mutex_lock(&service->lock);
    if (service->inboxes[loop->number].draining)
        ask->request.wait_ns = 0;
    bool quick = weir_lock_manager_quick(service->manager, &ask->request);
    int error = quick ? 0 : weir_lock_manager_submit(service->manager, &ask->request);
    if (!error)
        asks_add(ask);
    ask->at_once = quick;
    if (quick)
        ask->stage = STAGE_TOLD;
    pthread_mutex_unlock(&service->lock);
    if (error)
        free(ask);
    else
        *ret_ask = ask;
    return error;
}

bool weir_lock_ask_decided_at_once(const struct weir_lock_ask *ask)
{
    return ask->at_once;
}

bool weir_lock_ask_waits(const struct weir_lock_ask *ask)
{
    return ask->request.wait_ns > 0;
}

const struct weir_lock_op *weir_lock_ask_op(const struct weir_lock_ask *ask)
{
    return &ask->request.op;
}

size_t weir_lock_ask_waiters(const struct weir_lock_ask *ask)
{
    return ask->request.waiters;
}

/* ---- of a loop ---- */

int weir_lock_inbox_open(struct weir_loop *loop)
{
    if (!loop->common->locks)
        return 0;
    struct inbox *inbox = &loop->common->locks->inboxes[loop->number];
    if (uv_async_init(&loop->uv, &inbox->async, on_arrived))
        return WEIR_EIO;
    inbox->async.data = loop;
    inbox->open = true;
    return 0;
}

void weir_lock_inbox_drain(struct weir_loop *loop)
{
    struct weir_lock_service *service = loop->common->locks;
    if (!service)
        return;
    struct inbox *inbox = &service->inboxes[loop->number];
    pthread_mutex_lock(&service->lock);
    inbox->draining = true;
    for (struct weir_lock_ask *ask = inbox->asks; ask; ask = ask->next)
        if (ask->stage == STAGE_ASKED && weir_lock_ask_waits(ask))
            weir_lock_manager_client_gone(service->manager, &ask->request);
    pthread_mutex_unlock(&service->lock);
}

bool weir_lock_inbox_is_empty(struct weir_loop *loop)
{
    struct weir_lock_service *service = loop->common->locks;
    if (!service)
        return true;
    pthread_mutex_lock(&service->lock);
    bool empty = !service->inboxes[loop->number].asks;
    pthread_mutex_unlock(&service->lock);
    return empty;
}

void weir_lock_inbox_go_on(struct weir_loop *loop)
{
    struct weir_lock_service *service = loop->common->locks;
    if (!service)
        return;
    pthread_mutex_lock(&service->lock);
    service->inboxes[loop->number].draining = false;
    pthread_mutex_unlock(&service->lock);
}

void weir_lock_inbox_close(struct weir_loop *loop)
{
    if (!loop->common->locks)
        return;
    struct inbox *inbox = &loop->common->locks->inboxes[loop->number];
    weir_assert(!inbox->asks);
    if (inbox->open)
        uv_close((uv_handle_t *)&inbox->async, NULL);
    inbox->open = false;
}

/* ---- life ---- */

int weir_lock_service_create(const struct weir_lock_service_options *options, struct weir_lock_service **ret_service)
{
    struct weir_lock_service *service = calloc(1, sizeof(*service) + options->loops * sizeof(service->inboxes[0]));
    if (!service) {
        options->engine->ops->destroy(options->engine);
        return WEIR_ENOMEM;
    }
    service->manages = (struct weir_lock_manager_options){ .waiters_max = options->waiters_max,
                                                           .timeout_ns = options->timeout_ns };
    int error = weir_lock_manager_create(options->engine, &service->manages, &service->manager);
    if (error) {
        free(service);
        return error;
    }
    pthread_mutex_init(&service->lock, NULL);
    service->inbox_count = options->loops;
    *ret_service = service;
    return 0;
}

void weir_lock_service_suspend(struct weir_lock_service *service)
{
    pthread_mutex_lock(&service->lock);
    struct weir_lock_manager *manager = service->manager;
    service->manager = NULL;
    pthread_mutex_unlock(&service->lock);
    weir_lock_manager_destroy(manager);
}

int weir_lock_service_go_on(struct weir_lock_service *service, struct weir_lock_engine *engine)
{
    struct weir_lock_manager *manager = NULL;
    int error = weir_lock_manager_create(engine, &service->manages, &manager);
    pthread_mutex_lock(&service->lock);
    weir_assert(!service->manager);
    service->manager = manager;
    pthread_mutex_unlock(&service->lock);
    return error;
}

void weir_lock_service_destroy(struct weir_lock_service *service)
{
    if (!service)
        return;
    weir_lock_manager_destroy(service->manager);
    pthread_mutex_destroy(&service->lock);
    free(service);
}

void weir_lock_service_state(struct weir_lock_service *service, struct weir_lock_manager_state *ret_state)
{
    *ret_state = (struct weir_lock_manager_state){ 0 };
    pthread_mutex_lock(&service->lock);
    if (service->manager)
        weir_lock_manager_state(service->manager, ret_state);
    pthread_mutex_unlock(&service->lock);
}
