/* SPDX-License-Identifier: Apache-2.0
 *
 * The checks of tokens, leases and values. Every new grant is kept in an array, in order, with what was acknowledged
 * and shown under it; each event is compared with the grants before or after its own. Called by locks_store.c and
 * locks_client.c. Requests and waits are checked in locks_waits.c. */
#include "sim/locks_inside.h"

void locks_broken(struct locks *locks, const char *what)
{
    if (locks->result->broken)
        return;
    locks->result->broken = what;
    locks->result->broken_ns = locks->now_ns;
}

/* A new grant; one that was kept is none. */
void locks_check_granted(struct locks *locks, uint32_t client, struct weir_token token, uint64_t end_ns)
{
    struct locks_check *check = &locks->check;
    if (check->count > 0 && weir_token_compare(check->grants[check->count - 1].token, token) >= 0)
        locks_broken(locks, "a token is not greater than the one before it");
    if (check->count < LOCKS_GRANTS_MAX)
        check->grants[check->count++] = (struct locks_grant){ .token = token, .client = client };
    check->lease_token = token;
    check->lease_end_ns = end_ns;
}

void locks_check_renewed(struct locks *locks, struct weir_token token, uint64_t now_ns, uint64_t end_ns)
{
    struct locks_check *check = &locks->check;
    if (weir_token_compare(token, check->lease_token) != 0)
        return; /* an older store came back, with an older holder */
    if (now_ns >= check->lease_end_ns)
        locks_broken(locks, "a renewal was accepted after the lease had ended");
    check->lease_end_ns = weir_max_u64(check->lease_end_ns, end_ns);
}

void locks_check_leases_begin_anew(struct locks *locks, uint64_t end_ns)
{
    locks->check.lease_end_ns = weir_max_u64(locks->check.lease_end_ns, end_ns);
}

/* The store went back: it remembers no grant after `last`. */
void locks_check_forgotten(struct locks *locks, struct weir_token last)
{
    struct locks_check *check = &locks->check;
    for (size_t i = 0; i < check->count; i++) {
        bool gone = weir_token_compare(check->grants[i].token, last) > 0 && !check->grants[i].forgotten;
        check->grants[i].forgotten |= gone;
        locks->result->forgotten += gone;
    }
}

/* This client's deadline moved. */
void locks_check_believes(struct locks *locks, uint32_t client)
{
    const struct locks_client *self = &locks->clients[client];
    bool failed_over = locks->result->failovers > 0;
    for (uint32_t i = 0; i < locks->clients_count; i++) {
        const struct locks_client *other = &locks->clients[i];
        if (i == client || !weir_deadline_mine(&self->deadline, locks_clock_ns(locks, &self->clock)) ||
            !weir_deadline_mine(&other->deadline, locks_clock_ns(locks, &other->clock)))
            continue;
        bool excused = failed_over &&
                       (locks->check.grants[self->grant].forgotten || locks->check.grants[other->grant].forgotten);
        if (!excused)
            locks_broken(locks, "two clients believe that they hold the lock");
    }
}

/* Of the grant with this token, the newest if tokens came again. */
size_t locks_check_find(const struct locks *locks, struct weir_token token)
{
    size_t i = locks->check.count;
    while (i > 1 && weir_token_compare(locks->check.grants[i - 1].token, token) != 0)
        i--;
    return i - 1;
}

void locks_check_installed(struct locks *locks, size_t grant)
{
    locks->check.grants[grant].installed = true;
}

bool locks_check_late(const struct locks *locks, size_t grant)
{
    for (size_t i = grant + 1; i < locks->check.count; i++) {
        if (locks->check.grants[i].installed)
            return true;
    }
    return false;
}

void locks_check_shown(struct locks *locks, size_t grant, uint64_t value)
{
    struct locks_grant *grants = locks->check.grants;
    locks->result->shown++;
    for (size_t i = 0; i <= grant; i++) {
        if (grants[i].acknowledged > value)
            locks_broken(locks, "an acknowledged update is missing from what a later holder read");
        if (grants[i].shown > value + 1)
            locks_broken(locks, "a value was seen by one holder, and unseen by a later one");
    }
    grants[grant].shown = value + 1;
}

void locks_check_acknowledged(struct locks *locks, size_t grant, uint64_t value, bool late)
{
    struct locks_grant *grants = locks->check.grants;
    locks->result->acknowledged++;
    if (late)
        locks_broken(locks, "a write begun after a later install was done is acknowledged");
    for (size_t i = grant + 1; i < locks->check.count; i++) {
        if (grants[i].shown > 0 && grants[i].shown - 1 < value)
            locks_broken(locks, "an acknowledged update is overwritten by a later holder, who was not shown it");
    }
    grants[grant].acknowledged = weir_max_u64(grants[grant].acknowledged, value);
}
