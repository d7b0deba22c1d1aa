/* SPDX-License-Identifier: Apache-2.0
 *
 * A loop whose server hands over to another process (takeover.c): woken, it follows the server from step to step, and
 * says when it has. And one whose server has taken over: it goes on with the connections of its predecessor. Called by
 * loop.c and, to hand connections to a loop, by takeover_join.c. */
#include <string.h>

#include "serve/hold.h"
#include "serve/locks.h"
#include "serve/loop_inside.h"
#include "serve/takeover_channel.h"

/* ---- the predecessor ---- */

/* `each` may end the connection that it is given. */
static void for_all(struct weir_loop *loop, void (*each)(struct weir_conn *conn))
{
    for (struct weir_conn *conn = loop->conns, *next; conn; conn = next) {
        next = conn->next;
        each(conn);
    }
}

static void freeze(struct weir_conn *conn)
{
    weir_conn_freeze(conn, true);
}

static void unfreeze(struct weir_conn *conn)
{
    weir_conn_freeze(conn, false);
}

static void hand(struct weir_conn *conn)
{
    struct weir_loop *loop = conn->loop;
    int error = atomic_load(&loop->handing_failed) ? WEIR_EIO : weir_conn_hand(conn);
    if (error == 0)
        atomic_fetch_add(&loop->handed, 1);
    else if (error != WEIR_EAGAIN)
        atomic_store(&loop->handing_failed, true);
}

static void look_again(struct weir_conn *conn)
{
    weir_loop_ready_add(conn->loop, conn);
}

/* The successor decides. Its connections and listeners are its own; what is still answered here follows. */
static void go(struct weir_loop *loop)
{
    loop->draining = true;
    weir_loop_drain_begins(loop, loop->setup->config->server.drain_timeout_ns);
    weir_loop_close_listeners(loop);
    for_all(loop, look_again);
    if (loop->conn_count == 0)
        weir_sharer_close(loop);
}

static void follow(struct weir_loop *loop, enum weir_handing handing)
{
    loop->handing = handing;
    switch (handing) {
    case WEIR_HANDING_PARTS:
        weir_loop_drain_begins(loop, WEIR_HANDING_PARTS_NS);
        weir_loop_accepts(loop, false);
        for_all(loop, look_again);
        break;
    case WEIR_HANDING_FREEZES:
        weir_loop_accepts(loop, false);
        for_all(loop, freeze);
        weir_lock_inbox_drain(loop);
        break;
    case WEIR_HANDING_HANDS:
        for_all(loop, hand);
        break;
    case WEIR_HANDING_GONE:
        go(loop);
        break;
    case WEIR_HANDING_NONE:
    default:
        atomic_store(&loop->handing_failed, false);
        atomic_store(&loop->handed, 0);
        weir_lock_inbox_go_on(loop);
        weir_loop_accepts(loop, true);
        for_all(loop, unfreeze);
    }
}

/* Of PARTS: nobody is left who cannot be handed over. Of FREEZES: nothing is under way that changes a counter or a
 * lock. */
static bool is_still(struct weir_loop *loop)
{
    bool still = loop->handing != WEIR_HANDING_FREEZES ||
                 (loop->sharer.transactions.under_way == 0 && weir_lock_inbox_is_empty(loop));
    for (struct weir_conn *conn = loop->conns; still && conn; conn = conn->next)
        still = loop->handing == WEIR_HANDING_PARTS ? !weir_conn_stays(conn) : !weir_hold_is_leased(conn);
    return still;
}

void weir_loop_follow(struct weir_loop *loop)
{
    const enum weir_handing wanted = (enum weir_handing)atomic_load(&loop->common->handing);
    if (wanted != loop->handing)
        follow(loop, wanted);
    if (wanted != WEIR_HANDING_NONE && wanted != WEIR_HANDING_GONE)
        atomic_store(&loop->still, is_still(loop));
    atomic_store(&loop->handing_seen, wanted);
}

/* ---- the successor ---- */

/* One that no listener is for any more ends: the configuration says so. */
static void adopt(struct weir_loop *loop, struct weir_takeover_taken *taken)
{
    for (size_t i = 0; i < loop->listener_count && taken->fd >= 0; i++) {
        if (strcmp(loop->listeners[i]->protocol->name, taken->told.protocol) != 0)
            continue;
        atomic_fetch_add(&loop->common->connections, 1);
        if (weir_conn_adopt(loop, loop->listeners[i], taken)) {
            atomic_fetch_sub(&loop->common->connections, 1);
            break;
        }
        weir_loop_checks_times(loop);
    }
    weir_takeover_taken_free(taken);
}

void weir_loop_take_arrivals(struct weir_loop *loop)
{
    struct weir_takeover_taken *first = atomic_exchange(&loop->arrivals, NULL);
    for (struct weir_takeover_taken *next; first; first = next) {
        next = first->next;
        adopt(loop, first);
    }
}

void weir_loop_arrive(struct weir_loop *loop, struct weir_takeover_taken *taken)
{
    taken->next = atomic_load(&loop->arrivals);
    while (!atomic_compare_exchange_weak(&loop->arrivals, &taken->next, taken))
        ;
    uv_async_send(&loop->wake);
}
