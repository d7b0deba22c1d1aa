/* SPDX-License-Identifier: Apache-2.0
 *
 * One text stands for all permits that a request took: they have the same number, and those of limits in shadow come
 * last. The server keeps no list of them: the text (wire/permit.c) has the keys, and the limiter has the leases. Called
 * by http_check.c, http_permit.c and resp_check.c, and by hold_wait.c, when a held request is answered. */
#include "serve/permit.h"

#include <sys/random.h>

#include "serve/hold.h"

int weir_permit_secret_init(struct weir_permit_secret *secret)
{
    return getrandom(secret, sizeof(*secret), 0) == (ssize_t)sizeof(*secret) ? 0 : WEIR_EIO;
}

static bool is_permits(const struct weir_outcome *outcome, size_t i)
{
    return outcome->match.rules[i]->limit.spec.algorithm == WEIR_CONCURRENCY;
}

/* Those limits in shadow, or the others, that took a permit. */
static void add_keys(const struct weir_outcome *outcome, bool shadow, struct weir_permit_id *id)
{
    for (size_t i = 0; i < outcome->match.count; i++) {
        const struct weir_verdict *verdict = &outcome->verdicts[i];
        if (!is_permits(outcome, i) || verdict->ticket == 0 || verdict->shadow != shadow)
            continue;
        id->number = verdict->ticket; /* the same of all */
        id->keys[id->count++] = outcome->match.charges[i].key;
    }
}

uint64_t weir_permit_begin(const struct weir_loop *loop, const struct weir_permit_id *id, const struct weir_time *time)
{
    uint64_t lease_ns = 0, shadow_ns = 0;
    if (id->counting > 0 &&
        (weir_limiter_renew(loop->limiter, id->keys, id->counting, id->number, time, &lease_ns) || lease_ns == 0))
        return 0;
    for (size_t i = id->counting; i < id->count; i++) { /* each by itself: they refuse nobody */
        uint64_t left_ns;
        if (weir_limiter_renew(loop->limiter, &id->keys[i], 1, id->number, time, &left_ns))
            continue;
        shadow_ns = left_ns > 0 && (shadow_ns == 0 || left_ns < shadow_ns) ? left_ns : shadow_ns;
    }
    return id->counting > 0 ? lease_ns : shadow_ns;
}

void weir_permit_tell(const struct weir_loop *loop, const struct weir_outcome *outcome, const struct weir_time *time,
                      struct weir_permit_told *ret_told)
{
    struct weir_permit_id id;
    ret_told->asked = false;
    ret_told->size = 0;
    ret_told->lease_ns = 0;
    for (size_t i = 0; i < outcome->match.count; i++)
        ret_told->asked = ret_told->asked || is_permits(outcome, i);
    if (!ret_told->asked || !outcome->decision.admitted)
        return;
    id.count = 0;
    add_keys(outcome, false, &id);
    id.counting = id.count;
    add_keys(outcome, true, &id);
    if (id.count == 0)
        return;
    /* The limiter may be a reload ahead of our rules: it knows the lease. */
    ret_told->lease_ns = weir_permit_begin(loop, &id, time);
    if (outcome->waiter) /* it begins again when the answer goes */
        weir_hold_tells_lease(outcome->waiter, ret_told->lease_ns);
    ret_told->size = weir_permit_write(&loop->common->permit_secret, &id, ret_told->text);
}

bool weir_permit_release(struct weir_loop *loop, struct weir_slice text, const struct weir_time *time)
{
    struct weir_permit_id id;
    uint64_t units = 0;
    if (!weir_permit_read(&loop->common->permit_secret, text, &id)) {
        weir_count(&loop->counters.releases_foreign, 1);
        return false;
    }
    if (weir_limiter_release(loop->limiter, id.keys, id.count, id.number, time, &units) == 0 && units > 0)
        return true;
    weir_count(&loop->counters.releases_ended, 1);
    return false;
}

uint64_t weir_permit_renew(const struct weir_loop *loop, struct weir_slice text, const struct weir_time *time)
{
    struct weir_permit_id id;
    return weir_permit_read(&loop->common->permit_secret, text, &id) ? weir_permit_begin(loop, &id, time) : 0;
}
