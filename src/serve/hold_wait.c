/* SPDX-License-Identifier: Apache-2.0
 *
 * Those who wait for their turn: until it comes, or until their clients go. */
#include <stdlib.h>

#include "base/assert.h"
#include "base/checked.h"
#include "observe/metrics.h"
#include "serve/hold_inside.h"
#include "serve/permit.h"

static struct weir_holds *holds_of(const struct weir_hold_waiter *waiter)
{
    return waiter->loop->common->holds;
}

static struct weir_metrics_loop *metrics_of(const struct weir_hold_waiter *waiter)
{
    return weir_metrics_of_loop(waiter->loop->common->metrics, waiter->loop->number);
}

static void count_bytes(struct weir_hold_waiter *waiter, size_t bytes)
{
    atomic_fetch_add(&holds_of(waiter)->bytes, bytes - waiter->bytes); /* modulo: may be less */
    waiter->bytes = bytes;
}

static void leave_places(struct weir_hold_waiter *waiter)
{
    for (size_t i = 0; i < waiter->count; i++) {
        if (waiter->parts[i].holds)
            atomic_fetch_sub(&holds_of(waiter)->waiting[waiter->parts[i].slot], 1);
    }
}

static void free_memory(struct weir_hold_waiter *waiter)
{
    count_bytes(waiter, 0);
    free(waiter->answer);
    free(waiter);
}

void weir_hold_free(struct weir_hold_waiter *waiter)
{
    if (!waiter)
        return;
    leave_places(waiter);
    free_memory(waiter);
}

void weir_hold_tells_lease(struct weir_hold_waiter *waiter, uint64_t lease_ns)
{
    waiter->lease_ns = lease_ns;
}

/* ---- those whose clients have gone ----
 *
 * Their turns stay, for others queued behind them were promised theirs, until those have gone too. Then each turn is
 * given back, the last one first. All under holds->lock. */

static struct weir_hold_part **row_of(struct weir_holds *holds, const struct weir_key *key, uint64_t ticket)
{
    return &holds->rows[(key->hash ^ ticket * UINT64_C(0x9e3779b97f4a7c15)) >> 32 & (WEIR_HOLD_ROWS - 1)];
}

/* Who took the turn that is the newest now; NULL: nobody who has gone. */
static struct weir_hold_part *find_gone(struct weir_holds *holds, const struct weir_key *key, uint64_t ticket)
{
    struct weir_hold_part *part = *row_of(holds, key, ticket);
    while (part && (part->ticket != ticket || part->charge.key.hash != key->hash))
        part = part->next;
    return part;
}

static void unlink_part(struct weir_holds *holds, struct weir_hold_part *part)
{
    struct weir_hold_part **at = row_of(holds, &part->charge.key, part->ticket);
    while (*at && *at != part)
        at = &(*at)->next;
    if (*at)
        *at = part->next;
}

static bool all_turns_back(const struct weir_hold_waiter *waiter)
{
    for (size_t i = 0; i < waiter->count; i++) {
        if (waiter->parts[i].holds && !waiter->parts[i].back)
            return false;
    }
    return true;
}

/* What was charged together with the turns goes back with the last of them. Permits always: nobody has them. */
static void give_back_others(struct weir_hold_waiter *waiter, const struct weir_time *time)
{
    bool all = all_turns_back(waiter);
    for (size_t i = 0; i < waiter->count; i++) {
        struct weir_hold_part *part = &waiter->parts[i];
        if (part->holds || part->back || part->charge.cost == 0 || (!all && part->algorithm != WEIR_CONCURRENCY))
            continue;
        part->back = true;
        weir_charge_undo(waiter->loop->limiter, part->algorithm, &part->charge, part->ticket, time);
    }
}

/* The turn of one part, if it is the newest, and then the turns before it of those who have gone. */
static void give_back_turns(struct weir_holds *holds, struct weir_hold_part *part, const struct weir_time *time)
{
    struct weir_limiter *limiter = part->waiter->loop->limiter;
    while (part) {
        uint64_t newest = 0;
        if (weir_limiter_refund_last(limiter, &part->charge, part->ticket, time, &newest) || newest == 0)
            return;
        unlink_part(holds, part);
        part->back = true;
        give_back_others(part->waiter, time);
        part = find_gone(holds, &part->charge.key, newest);
    }
}

static void add_gone(struct weir_holds *holds, struct weir_hold_waiter *waiter)
{
    waiter->gone_prev = NULL;
    waiter->gone_next = holds->gone;
    if (waiter->gone_next)
        waiter->gone_next->gone_prev = waiter;
    holds->gone = waiter;
    for (size_t i = 0; i < waiter->count; i++) {
        struct weir_hold_part *part = &waiter->parts[i];
        if (!part->holds || part->back)
            continue;
        struct weir_hold_part **row = row_of(holds, &part->charge.key, part->ticket);
        part->next = *row;
        *row = part;
    }
}

/* Its turn has passed. */
static void forget_gone(struct weir_hold_waiter *waiter)
{
    struct weir_holds *holds = holds_of(waiter);
    pthread_mutex_lock(&holds->lock);
    for (size_t i = 0; i < waiter->count; i++) {
        if (waiter->parts[i].holds && !waiter->parts[i].back)
            unlink_part(holds, &waiter->parts[i]);
    }
    if (waiter->gone_next)
        waiter->gone_next->gone_prev = waiter->gone_prev;
    if (waiter->gone_prev)
        waiter->gone_prev->gone_next = waiter->gone_next;
    else
        holds->gone = waiter->gone_next;
    pthread_mutex_unlock(&holds->lock);
    free_memory(waiter);
}

/* ---- the turn ---- */

/* Its answer goes now, or never: the connection goes on. */
static void resume(struct weir_hold_waiter *waiter)
{
    struct weir_conn *conn = waiter->conn;
    conn->waiter = NULL;
    weir_hold_free(waiter);
    weir_conn_resume(conn);
}

static void note_release(const struct weir_hold_waiter *waiter, uint64_t now_ns)
{
    struct weir_metrics_loop *counts = metrics_of(waiter);
    weir_count(&counts->holds_ended, 1);
    weir_count(&counts->hold_late_ns, now_ns - waiter->due_ns);
    weir_histogram_add(&counts->hold_ns, now_ns - waiter->begun_ns, 1);
}

/* Begins the lease of its permit. False: that is over, or shorter by now than the answer says. */
static bool lease_stands(const struct weir_hold_waiter *waiter, const struct weir_time *time)
{
    struct weir_permit_id id = { 0 };
    if (waiter->lease_ns == 0)
        return true;
    for (int shadow = 0; shadow < 2; shadow++) {
        for (size_t i = 0; i < waiter->count; i++) {
            const struct weir_hold_part *part = &waiter->parts[i];
            if (part->algorithm != WEIR_CONCURRENCY || part->ticket == 0 || part->shadow != (shadow == 1))
                continue;
            id.number = part->ticket;
            id.keys[id.count++] = part->charge.key;
            id.counting += !part->shadow;
        }
    }
    return weir_permit_told_ms(weir_permit_begin(waiter->loop, &id, time)) >= weir_permit_told_ms(waiter->lease_ns);
}

/* What can be given back is, and the answer says that there is none. */
static void lose(struct weir_hold_waiter *waiter, const struct weir_time *time)
{
    struct weir_holds *holds = holds_of(waiter);
    struct weir_conn *conn = waiter->conn;
    weir_count(&metrics_of(waiter)->holds_lost, 1);
    pthread_mutex_lock(&holds->lock);
    for (size_t i = 0; i < waiter->count; i++) {
        if (waiter->parts[i].holds)
            give_back_turns(holds, &waiter->parts[i], time);
    }
    give_back_others(waiter, time);
    pthread_mutex_unlock(&holds->lock);
    if (waiter->answer_sent > 0)
        weir_conn_abort(conn); /* it has begun to say something else */
    else
        conn->protocol->on_hold_lost(conn);
    resume(waiter);
}

static void on_due(struct weir_timer *timer, const struct weir_time *time)
{
    struct weir_hold_waiter *waiter = (struct weir_hold_waiter *)timer;
    if (!waiter->conn) {
        forget_gone(waiter);
        return;
    }
    if (!lease_stands(waiter, time)) {
        lose(waiter, time);
        return;
    }
    note_release(waiter, uv_hrtime());
    weir_conn_write(waiter->conn, waiter->answer + waiter->answer_sent, waiter->answer_size - waiter->answer_sent);
    resume(waiter);
}

/* ---- waiting ---- */

/* Moves what was written since then out of the connection's output. */
static bool take_back(struct weir_hold_waiter *waiter, struct weir_conn *conn, size_t pending_before)
{
    size_t pending = weir_conn_pending(conn);
    weir_assert(pending >= pending_before);
    size_t size = pending - pending_before;
    waiter->answer = malloc(size + 1); /* never 0: NULL is out of memory */
    if (!waiter->answer)
        return false;
    if (size > 0) {
        memcpy(waiter->answer, conn->out.data + conn->out.size - size, size);
        conn->out.size -= size;
    }
    waiter->answer_size = size;
    count_bytes(waiter, waiter->bytes + size + 1);
    return true;
}

void weir_hold_begin(struct weir_hold_waiter *waiter, struct weir_conn *conn, size_t pending_before)
{
    weir_assert(!conn->waiter);
    waiter->timer.on_due = on_due;
    waiter->conn = conn;
    conn->waiter = waiter;
    weir_count(&metrics_of(waiter)->holds_begun, 1);
    weir_conn_hold(conn);
    if (!take_back(waiter, conn, pending_before) ||
        weir_timer_start(&waiter->loop->timers, &waiter->timer, waiter->due_ns))
        weir_conn_abort(conn); /* memory is out; weir_hold_leave gives the charge back */
    else if (conn->peer_shut)
        weir_hold_probe(conn);
}

void weir_hold_probe(struct weir_conn *conn)
{
    struct weir_hold_waiter *waiter = conn->waiter;
    if (!waiter || waiter->answer_sent > 0 || waiter->answer_size == 0)
        return;
    weir_conn_write(conn, waiter->answer, 1);
    waiter->answer_sent = 1;
}

bool weir_hold_is_leased(const struct weir_conn *conn)
{
    return conn->waiter && conn->waiter->lease_ns > 0;
}

void weir_hold_leave(struct weir_conn *conn)
{
    struct weir_hold_waiter *waiter = conn->waiter;
    if (!waiter)
        return;
    weir_count(&metrics_of(waiter)->holds_left, 1);
    conn->waiter = NULL;
    weir_hold_drop(waiter);
}

void weir_hold_drop(struct weir_hold_waiter *waiter)
{
    if (!waiter)
        return;
    const struct weir_time time = weir_time_read();
    struct weir_holds *holds = holds_of(waiter);
    waiter->conn = NULL;
    free(waiter->answer);
    waiter->answer = NULL;
    leave_places(waiter);
    pthread_mutex_lock(&holds->lock);
    for (size_t i = 0; i < waiter->count; i++) {
        if (waiter->parts[i].holds)
            give_back_turns(holds, &waiter->parts[i], &time);
    }
    give_back_others(waiter, &time);
    bool stays = !all_turns_back(waiter);
    waiter->timer.on_due = on_due;
    stays = stays && weir_timer_start(&waiter->loop->timers, &waiter->timer, waiter->due_ns) == 0;
    if (stays)
        add_gone(holds, waiter);
    pthread_mutex_unlock(&holds->lock);
    if (stays) {
        count_bytes(waiter, sizeof(*waiter) + waiter->count * sizeof(waiter->parts[0]));
        return;
    }
    weir_timer_stop(&waiter->loop->timers, &waiter->timer);
    free_memory(waiter);
}
