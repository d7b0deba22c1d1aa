/* SPDX-License-Identifier: Apache-2.0
 *
 * What a client that left was granted, and the one rule for giving it back, before `done` as after it. All of it is
 * called with the mutex held. Called by manager.c and manager_turn.c. */
#include "locks/manager_inside.h"

static bool is_same(const struct weir_lock_manager_request *a, const struct weir_lock_manager_request *b)
{
    return weir_lock_slice_same(a->op.name, b->op.name) && weir_owner_equal(a->own.waiter.owner, b->own.waiter.owner);
}

/* Its owner counts on what those before it are granted. `relies` false takes that back; a second time nothing
 * happens. */
static void rely(struct weir_lock_manager *manager, struct weir_lock_manager_request *request, bool relies)
{
    struct weir_hash_node *node = weir_hash_first(&manager->claims, request->own.claim.hash);
    for (; node; node = weir_hash_next(node)) {
        struct weir_lock_manager_request *other = weir_container(node, struct weir_lock_manager_request, own.claim);
        if (other->own.order >= request->own.order || !is_same(other, request))
            continue;
        weir_assert(relies || other->own.relied_on > 0);
        if (relies)
            other->own.relied_on++;
        else
            other->own.relied_on--;
    }
    request->own.order = relies ? request->own.order : 0;
}

static bool is_granted(const struct weir_lock_manager_request *request)
{
    return request->op.status == 0 && request->op.said == WEIR_LOCK_GRANTED;
}

void weir_lock_manager_claim(struct weir_lock_manager *manager, struct weir_lock_manager_request *request)
{
    struct weir_lock_manager_own *own = &request->own;
    if (request->op.verb != WEIR_LOCK_ACQUIRE && request->op.verb != WEIR_LOCK_RENEW)
        return;
    weir_assert(own->order == 0);
    own->order = ++manager->orders;
    rely(manager, request, true);
    own->claims = request->op.verb == WEIR_LOCK_ACQUIRE && !own->finished;
    if (own->claims)
        weir_hash_add(&manager->claims, &own->claim, own->claim.hash);
}

void weir_lock_manager_unclaim(struct weir_lock_manager *manager, struct weir_lock_manager_request *request)
{
    if (request->own.claims)
        weir_hash_remove(&manager->claims, &request->own.claim);
    request->own.claims = false;
}

/* Whatever else its owner asked for before this grant is not granted anew by it. One that was put off is in no queue to
 * hear of it (weir_waiting_hear). */
static void no_longer_behind(struct weir_lock_manager *manager, const struct weir_lock_manager_request *granted)
{
    struct weir_hash_node *node = weir_hash_first(&manager->claims, granted->own.claim.hash);
    for (; node; node = weir_hash_next(node)) {
        struct weir_lock_manager_request *other = weir_container(node, struct weir_lock_manager_request, own.claim);
        if (other != granted && is_same(other, granted))
            other->own.waiter.behind = (struct weir_token){ 0 };
    }
}

void weir_lock_manager_claim_decided(struct weir_lock_manager *manager, struct weir_lock_manager_request *request)
{
    bool granted = is_granted(request);
    if (granted)
        no_longer_behind(manager, request);
    if (!granted && request->op.status != WEIR_EUNKNOWN)
        rely(manager, request, false);
    if (!granted || !request->waited)
        weir_lock_manager_unclaim(manager, request);
}

/* A grant that nobody knows of keeps others waiting for a whole lease. One that was given without a wait may be the
 * owner's from before, and is no claim any more; and what the owner has asked for since, it may have. */
bool weir_lock_manager_forgoes(const struct weir_lock_manager_request *request)
{
    return request->own.claims && request->own.relied_on == 0;
}

void weir_lock_manager_forget(struct weir_lock_manager *manager, struct weir_lock_manager_request *request)
{
    if (is_granted(request))
        rely(manager, request, false);
    weir_lock_manager_unclaim(manager, request);
}
