/* SPDX-License-Identifier: Apache-2.0
 *
 * The queues, one for each name that an ACQUIRE is under way for: the first to come makes it, the last to leave frees
 * it. One hash table finds a queue by its name, another one a request by name and owner; a heap orders the queues by
 * when they are asked for next. Who is next within a queue is decided in core/lease/waiting.c. Called by
 * manager_batch.c, on the manager's thread. */
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "locks/manager_inside.h"

static struct weir_slice name_of(const struct weir_lock_manager_queue *queue)
{
    return (struct weir_slice){ queue->name, queue->name_size };
}

struct weir_lock_manager_request *weir_lock_manager_request_of(struct weir_waiter *waiter)
{
    return weir_container(waiter, struct weir_lock_manager_request, own.waiter);
}

struct weir_lock_manager_queue *weir_lock_manager_queue_find(const struct weir_lock_manager *manager,
                                                             struct weir_slice name)
{
    if (manager->queues.count == 0)
        return NULL;
    struct weir_hash_node *node = weir_hash_first(&manager->queues, weir_siphash(&manager->key, name.data, name.size));
    for (; node; node = weir_hash_next(node))
        if (weir_lock_slice_same(name_of((struct weir_lock_manager_queue *)node), name))
            return (struct weir_lock_manager_queue *)node;
    return NULL;
}

struct weir_lock_manager_queue *weir_lock_manager_queue_add(struct weir_lock_manager *manager, struct weir_slice name)
{
    struct weir_lock_manager_queue *queue = malloc(sizeof *queue + name.size);
    if (!queue)
        return NULL;
    memset(queue, 0, sizeof *queue);
    queue->waiting.poll_ns = manager->engine->ops->poll_ns;
    queue->name_size = name.size;
    memcpy(queue->name, name.data, name.size);
    weir_hash_add(&manager->queues, &queue->node, weir_siphash(&manager->key, name.data, name.size));
    return queue;
}

struct weir_lock_manager_request *weir_lock_manager_queue_owner(const struct weir_lock_manager *manager,
                                                                const struct weir_lock_manager_queue *queue,
                                                                struct weir_slice owner)
{
    uint64_t hash = weir_siphash_joined(&manager->key, queue->name, queue->name_size, owner.data, owner.size);
    for (struct weir_hash_node *node = weir_hash_first(&manager->owners, hash); node; node = weir_hash_next(node)) {
        struct weir_lock_manager_request *request = weir_container(node, struct weir_lock_manager_request,
                                                                   own.by_owner);
        if (request->own.queue == queue && weir_lock_slice_same(request->op.owner, owner))
            return request;
    }
    return NULL;
}

enum weir_waiting_fate weir_lock_manager_queue_join(struct weir_lock_manager *manager,
                                                    struct weir_lock_manager_queue *queue,
                                                    struct weir_lock_manager_request *request)
{
    struct weir_slice owner = request->op.owner;
    struct weir_lock_manager_request *same_owner = weir_lock_manager_queue_owner(manager, queue, owner);
    request->own.queue = queue;
    weir_hash_add(&manager->owners, &request->own.by_owner, request->own.claim.hash);
    enum weir_waiting_fate fate = weir_waiting_join(&queue->waiting, &request->own.waiter,
                                                    same_owner ? &same_owner->own.waiter : NULL, manager->now_ns);
    weir_lock_manager_queue_sync(manager, queue);
    return fate;
}

void weir_lock_manager_queue_sync(struct weir_lock_manager *manager, struct weir_lock_manager_queue *queue)
{
    if (queue->waiting.ask_ns == UINT64_MAX)
        weir_due_remove(&manager->queues_due, &queue->due);
    else
        weir_due_set(&manager->queues_due, &queue->due, queue->waiting.ask_ns);
}

void weir_lock_manager_queue_leave(struct weir_lock_manager *manager, struct weir_lock_manager_request *request,
                                   enum weir_waiter_phase to)
{
    struct weir_lock_manager_queue *queue = request->own.queue;
    if (!queue) {
        weir_waiter_move(&request->own.waiter, to);
        return;
    }
    request->own.queue = NULL;
    weir_due_remove(&manager->waits_due, &request->own.due);
    weir_hash_remove(&manager->owners, &request->own.by_owner);
    weir_waiting_leave(&queue->waiting, &request->own.waiter, to);
    if (queue->waiting.count > 0)
        return;
    weir_due_remove(&manager->queues_due, &queue->due);
    weir_hash_remove(&manager->queues, &queue->node);
    free(queue);
}

void weir_lock_manager_queue_say(const struct weir_lock_manager *manager, const struct weir_lock_manager_queue *queue,
                                 struct weir_lock_op *op)
{
    const struct weir_waiting *waiting = &queue->waiting;
    op->status = waiting->down ? WEIR_EDOWN : 0;
    op->said = WEIR_LOCK_HELD;
    op->token = waiting->token;
    op->lease_ns = weir_sub_sat(waiting->held_until_ns, manager->now_ns);
    memcpy(op->holder, waiting->holder, waiting->holder_size);
    op->holder_size = waiting->holder_size;
}
