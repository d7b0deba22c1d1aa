/* SPDX-License-Identifier: Apache-2.0
 *
 * One mutex guards the floor; it is given up while the primary is asked, and those who need the reply wait. A floor is
 * the base, which the primary's last reply gave, merged with the tokens of evicted users; where these do not fit into
 * one token, they are dropped and a newer base is needed. Called by the stores: users_memory.c and users_remote.c. The
 * option `newest`, which asks the primary, is weir_session_newest in serve/sessions_work.c. */
#include "sessions/users_floor.h"

#include "base/checked.h"
#include "base/timing.h"

#define SECOND_NS UINT64_C(1000000000)
#define PAUSE_NS (SECOND_NS / 50) /* between two questions, where the first was not answered */

uint64_t weir_users_now_ns(void)
{
    return weir_timing_now(CLOCK_MONOTONIC);
}

int weir_users_floor_init(struct weir_users_floor *floor, const struct weir_users_options *options)
{
    *floor = (struct weir_users_floor){ .newest = options->newest,
                                        .context = options->context,
                                        .ttl_ns = options->ttl_ns,
                                        .turned_ns = weir_users_now_ns(),
                                        .generation = 2 };
    if (weir_timing_cond_init(&floor->told) != 0)
        return WEIR_ENOMEM;
    if (pthread_mutex_init(&floor->lock, NULL) != 0) {
        pthread_cond_destroy(&floor->told);
        return WEIR_ENOMEM;
    }
    return 0;
}

void weir_users_floor_deinit(struct weir_users_floor *floor)
{
    pthread_cond_destroy(&floor->told);
    pthread_mutex_destroy(&floor->lock);
}

/* ---- under the lock ---- */

static void drop_kept(struct weir_users_floor *floor)
{
    floor->kept[0] = floor->kept[1] = (struct weir_session_token){ 0 };
    floor->needed_ns = weir_users_now_ns();
}

/* What is known may be older than what another caller knew. */
static void note_primary(struct weir_users_floor *floor, const struct weir_known *known)
{
    if (known)
        floor->changes = weir_max_u64(floor->changes, known->changes);
}

static bool generation_over(const struct weir_users_floor *floor, uint64_t now_ns)
{
    return floor->kept[0].count + floor->kept[1].count > 0 && now_ns - floor->turned_ns >= floor->ttl_ns;
}

static bool enough(const struct weir_users_floor *floor, uint64_t after_ns)
{
    return floor->base_ns > 0 && floor->base_ns >= weir_max_u64(after_ns, floor->needed_ns) &&
           floor->base_changes >= floor->changes;
}

/* The base with the evicted. Where they do not fit beside each other, their places give way to a newer base. */
static int join(struct weir_users_floor *floor, const struct weir_known *known, struct weir_session_token *ret_token)
{
    struct weir_session_token token = floor->base;
    if (weir_session_token_merge(&token, &floor->kept[1], known) != 0 ||
        weir_session_token_merge(&token, &floor->kept[0], known) != 0) {
        drop_kept(floor);
        return WEIR_EDOWN;
    }
    *ret_token = token;
    return 0;
}

/* Its base, as of asked_ns. */
static void lift(struct weir_users_floor *floor, const struct weir_session_token *newest, uint64_t changes,
                 uint64_t asked_ns)
{
    floor->base = *newest;
    floor->base_changes = changes;
    for (unsigned i = 0; i < floor->base.count; i++)
        floor->base.places[i].standby = true;
    floor->base_ns = asked_ns;
    floor->answers++;
    if (asked_ns - floor->turned_ns < floor->ttl_ns)
        return;
    floor->kept[1] = floor->kept[0];
    floor->kept[0] = (struct weir_session_token){ 0 };
    floor->turned_ns = asked_ns;
    floor->generation++;
}

/* Can it be told that the one contains the other? Then nothing of it stands beside what the primary shows. */
static bool goes_with_base(const struct weir_users_floor *floor, const struct weir_place *place,
                           const struct weir_known *known)
{
    struct weir_place unused;
    for (unsigned i = 0; i < floor->base.count; i++) {
        if (weir_place_merge(&floor->base.places[i], place, known, &unused) == 0)
            return true;
    }
    return false;
}

/* Asks, with the lock given up meanwhile. */
static int ask(struct weir_users_floor *floor, uint64_t deadline_ns)
{
    struct weir_session_token newest = { 0 };
    uint64_t changes = 0, asked_ns = weir_users_now_ns();
    floor->asking = true;
    pthread_mutex_unlock(&floor->lock);
    int error = floor->newest(floor->context, deadline_ns, &newest, &changes);
    pthread_mutex_lock(&floor->lock);
    floor->asking = false;
    /* An empty token would say that nobody has seen anything. */
    if (error == 0 && newest.count > 0)
        lift(floor, &newest, changes, asked_ns);
    else
        error = WEIR_EDOWN;
    floor->failed_ns = error ? weir_users_now_ns() : 0;
    pthread_cond_broadcast(&floor->told);
    return error;
}

/* Until the base is one that was asked for at after_ns or later. */
static int wait_for(struct weir_users_floor *floor, uint64_t after_ns, uint64_t deadline_ns)
{
    while (!enough(floor, after_ns)) {
        uint64_t now_ns = weir_users_now_ns();
        if (now_ns >= deadline_ns)
            return WEIR_EDOWN;
        if (floor->asking)
            (void)weir_timing_wait(&floor->told, &floor->lock, deadline_ns);
        else if (floor->failed_ns + PAUSE_NS > now_ns)
            (void)weir_timing_wait(&floor->told, &floor->lock, weir_min_u64(deadline_ns, floor->failed_ns + PAUSE_NS));
        else
            (void)ask(floor, deadline_ns);
    }
    return 0;
}

/* ---- from outside ---- */

int weir_users_floor_take(struct weir_users_floor *floor, const struct weir_known *known,
                          struct weir_session_token *ret_token, uint32_t *ret_owes)
{
    struct weir_session_token all;
    pthread_mutex_lock(&floor->lock);
    note_primary(floor, known);
    int error = enough(floor, 0) ? join(floor, known, &all) : WEIR_EDOWN;
    if (error == 0) {
        *ret_token = all;
        ret_token->count = 0;
        for (unsigned i = 0; i < all.count; i++) {
            if (goes_with_base(floor, &all.places[i], known))
                ret_token->places[ret_token->count++] = all.places[i];
        }
        *ret_owes = ret_token->count < all.count ? floor->generation : 0;
    }
    pthread_mutex_unlock(&floor->lock);
    return error;
}

void weir_users_floor_owe(struct weir_users_floor *floor, uint32_t owes, const struct weir_known *known,
                          struct weir_session_token *token)
{
    if (owes == 0)
        return;
    pthread_mutex_lock(&floor->lock);
    /* All of it: what stood beside the base when it came may be found to go with the base since, and be newer. One that
     * has no room for more is told that it lost something by its own. */
    if (floor->generation <= owes)
        (void)weir_session_token_merge(token, &floor->kept[0], known);
    if (floor->generation <= owes + 1)
        (void)weir_session_token_merge(token, &floor->kept[1], known);
    pthread_mutex_unlock(&floor->lock);
}

int weir_users_floor_get(struct weir_users_floor *floor, uint64_t after_ns, uint64_t deadline_ns,
                         const struct weir_known *known, struct weir_session_token *ret_token)
{
    pthread_mutex_lock(&floor->lock);
    note_primary(floor, known);
    int error;
    do
        error = wait_for(floor, after_ns, deadline_ns);
    while (error == 0 && join(floor, known, ret_token) != 0);
    pthread_mutex_unlock(&floor->lock);
    return error;
}

int weir_users_floor_newest(struct weir_users_floor *floor, uint64_t deadline_ns, struct weir_session_token *ret_token)
{
    pthread_mutex_lock(&floor->lock);
    int error = wait_for(floor, weir_users_now_ns(), deadline_ns);
    if (error == 0)
        *ret_token = floor->base;
    pthread_mutex_unlock(&floor->lock);
    return error;
}

void weir_users_floor_keep(struct weir_users_floor *floor, const struct weir_session_token *token,
                           const struct weir_known *known)
{
    pthread_mutex_lock(&floor->lock);
    if (weir_session_token_merge(&floor->kept[0], token, known) != 0)
        drop_kept(floor);
    pthread_mutex_unlock(&floor->lock);
}

void weir_users_floor_tend(struct weir_users_floor *floor, uint64_t before_ns, uint64_t deadline_ns)
{
    pthread_mutex_lock(&floor->lock);
    uint64_t now_ns = weir_users_now_ns();
    bool due = floor->base_ns > 0 && (floor->base_ns < before_ns || generation_over(floor, now_ns));
    if (due && !floor->asking && now_ns - floor->tended_ns >= SECOND_NS) {
        floor->tended_ns = now_ns;
        (void)ask(floor, deadline_ns);
    }
    pthread_mutex_unlock(&floor->lock);
}
