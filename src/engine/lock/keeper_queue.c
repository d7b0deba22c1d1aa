/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "engine/lock/keeper_inside.h"

static bool same(struct weir_slice a, struct weir_slice b)
{
    return a.size == b.size && memcmp(a.data, b.data, a.size) == 0;
}

static struct weir_slice name_of(const struct weir_keeper_queue *queue)
{
    return (struct weir_slice){ queue->name, queue->name_size };
}

struct weir_keeper_request *weir_keeper_request_of(struct weir_waiter *waiter)
{
    char *own = (char *)waiter - offsetof(struct weir_keeper_own, waiter);
    return (struct weir_keeper_request *)(void *)(own - offsetof(struct weir_keeper_request, own));
}

static struct weir_keeper_request *request_of_node(struct weir_hash_node *node)
{
    char *own = (char *)node - offsetof(struct weir_keeper_own, by_owner);
    return (struct weir_keeper_request *)(void *)(own - offsetof(struct weir_keeper_request, own));
}

struct weir_keeper_queue *weir_keeper_queue_find(const struct weir_keeper *keeper, struct weir_slice name)
{
    if (keeper->queues.count == 0)
        return NULL;
    struct weir_hash_node *node = weir_hash_first(&keeper->queues, weir_siphash(&keeper->key, name.data, name.size));
    for (; node; node = weir_hash_next(node))
        if (same(name_of((struct weir_keeper_queue *)node), name))
            return (struct weir_keeper_queue *)node;
    return NULL;
}

struct weir_keeper_queue *weir_keeper_queue_add(struct weir_keeper *keeper, struct weir_slice name)
{
    struct weir_keeper_queue *queue = malloc(sizeof *queue + name.size);
    if (!queue)
        return NULL;
    memset(queue, 0, offsetof(struct weir_keeper_queue, holder));
    queue->holder_size = 0;
    queue->name_size = name.size;
    memcpy(queue->name, name.data, name.size);
    weir_hash_add(&keeper->queues, &queue->node, weir_siphash(&keeper->key, name.data, name.size));
    return queue;
}

struct weir_keeper_request *weir_keeper_queue_first(const struct weir_keeper_queue *queue)
{
    return queue->waiting.first ? weir_keeper_request_of(queue->waiting.first) : NULL;
}

struct weir_keeper_request *weir_keeper_queue_owner(const struct weir_keeper *keeper,
                                                    const struct weir_keeper_queue *queue, struct weir_slice owner)
{
    uint64_t hash = weir_siphash_joined(&keeper->key, queue->name, queue->name_size, owner.data, owner.size);
    for (struct weir_hash_node *node = weir_hash_first(&keeper->owners, hash); node; node = weir_hash_next(node)) {
        struct weir_keeper_request *request = request_of_node(node);
        if (request->own.queue == queue && same(request->op.owner, owner))
            return request;
    }
    return NULL;
}

static void add_behind(struct weir_waiting *waiting, struct weir_waiter *before, struct weir_waiter *waiter)
{
    if (!before || !before->next) {
        weir_waiting_add(waiting, waiter);
        return;
    }
    waiter->queued = true;
    waiter->previous = before;
    waiter->next = before->next;
    before->next->previous = waiter;
    before->next = waiter;
    waiting->count++;
}

void weir_keeper_queue_join(struct weir_keeper *keeper, struct weir_keeper_queue *queue,
                            struct weir_keeper_request *request)
{
    struct weir_slice owner = request->op.owner;
    struct weir_keeper_request *twin = weir_keeper_queue_owner(keeper, queue, owner);
    request->own.queue = queue;
    queue->untimed++;
    uint64_t hash = weir_siphash_joined(&keeper->key, queue->name, queue->name_size, owner.data, owner.size);
    request->own.waiter.holder = hash;
    weir_hash_add(&keeper->owners, &request->own.by_owner, hash);
    add_behind(&queue->waiting, twin ? &twin->own.waiter : NULL, &request->own.waiter);
    if (queue->due.place == 0 && !queue->in_flight)
        weir_due_set(&keeper->queues_due, &queue->due, 0);
}

void weir_keeper_queue_leave(struct weir_keeper *keeper, struct weir_keeper_request *request)
{
    struct weir_keeper_queue *queue = request->own.queue;
    if (!queue)
        return;
    request->own.queue = NULL;
    queue->untimed -= request->own.timed ? 0 : 1;
    weir_due_remove(&keeper->waits_due, &request->own.due);
    weir_hash_remove(&keeper->owners, &request->own.by_owner);
    weir_waiting_remove(&queue->waiting, &request->own.waiter);
    if (queue->waiting.count > 0)
        return;
    weir_due_remove(&keeper->queues_due, &queue->due);
    weir_hash_remove(&keeper->queues, &queue->node);
    free(queue);
}

bool weir_keeper_queue_holds(const struct weir_keeper_queue *queue, struct weir_slice owner)
{
    return queue->held && same((struct weir_slice){ queue->holder, queue->holder_size }, owner);
}

void weir_keeper_queue_learn(struct weir_keeper *keeper, struct weir_keeper_queue *queue, struct weir_slice holder,
                             const struct weir_lock_op *op)
{
    queue->status = 0;
    queue->asked = queue->held = true;
    queue->known_ns = keeper->now_ns;
    queue->held_until_ns = weir_add_sat(keeper->now_ns, op->lease_ns);
    queue->token = op->token;
    memcpy(queue->holder, holder.data, holder.size);
    queue->holder_size = holder.size;
}

void weir_keeper_queue_say(const struct weir_keeper *keeper, const struct weir_keeper_queue *queue,
                           struct weir_lock_op *op)
{
    op->status = queue->status ? WEIR_EDOWN : 0;
    op->said = WEIR_LOCK_HELD;
    op->token = queue->token;
    op->lease_ns = weir_sub_sat(queue->held_until_ns, keeper->now_ns);
    memcpy(op->holder, queue->holder, queue->holder_size);
    op->holder_size = queue->holder_size;
}
