/* SPDX-License-Identifier: Apache-2.0
 *
 * A connection on its way to the process that takes over: what of it is told, when it can go, and how it is put
 * together there. It goes between two requests, with the bytes of a request that is not whole. Called by conn.c and,
 * for all connections of a loop, by loop_hand.c. */
#include <stdlib.h>

#include "base/checked.h"
#include "serve/conn_inside.h"
#include "serve/loop.h"
#include "serve/takeover_channel.h"

_Static_assert(sizeof(((struct weir_takeover_conn *)0)->token) == sizeof(struct weir_auth_digest), "it is one");

bool weir_conn_stays(const struct weir_conn *conn)
{
    return conn->ssl || conn->protocol->stays;
}

bool weir_conn_drains(const struct weir_conn *conn)
{
    const struct weir_loop *loop = conn->loop;
    switch (loop->handing) {
    case WEIR_HANDING_PARTS:
        return weir_conn_stays(conn);
    case WEIR_HANDING_GONE:
        return false; /* weir_conn_leave */
    case WEIR_HANDING_NONE:
    case WEIR_HANDING_FREEZES:
    case WEIR_HANDING_HANDS:
    default:
        return loop->draining;
    }
}

/* ---- away ---- */

static bool is_idle(const struct weir_conn *conn)
{
    return conn->phase == WEIR_CONN_OPEN && !conn->held && conn->asks == 0 && weir_conn_pending(conn) == 0;
}

static int send_bytes(int fd, const uint8_t *bytes, size_t size)
{
    int error = 0;
    for (size_t at = 0; !error && at < size; at += WEIR_TAKEOVER_BODY_MAX)
        error = weir_takeover_send(fd, WEIR_TAKEOVER_BYTES, bytes + at, weir_min_u64(size - at, WEIR_TAKEOVER_BODY_MAX),
                                   NULL, 0);
    return error;
}

static int send_conn(struct weir_conn *conn, const uint8_t *state, size_t state_size)
{
    struct weir_common *common = conn->loop->common;
    struct weir_takeover_conn told = { .loopback = conn->loopback,
                                       .has_token = conn->has_token,
                                       .known = conn->known,
                                       .served = conn->served,
                                       .wrong_tokens = conn->wrong_tokens,
                                       .state_size = (uint32_t)state_size,
                                       .input_size = (uint32_t)conn->in.size,
                                       .idle_ns = weir_sub_sat(uv_hrtime(), conn->active_ns) };
    (void)snprintf(told.protocol, sizeof(told.protocol), "%s", conn->protocol->name);
    memcpy(told.token, conn->token.bytes, sizeof(told.token));
    pthread_mutex_lock(&common->handing_lock);
    int error = weir_takeover_send(common->handing_fd, WEIR_TAKEOVER_CONN, &told, sizeof(told), &conn->fd, 1);
    if (!error)
        error = send_bytes(common->handing_fd, state, state_size);
    if (!error)
        error = send_bytes(common->handing_fd, conn->in.data, conn->in.size);
    pthread_mutex_unlock(&common->handing_lock);
    return error;
}

int weir_conn_hand(struct weir_conn *conn)
{
    uint8_t *state = NULL;
    size_t size = 0;
    if (weir_conn_stays(conn) || !is_idle(conn) || (conn->protocol->hand && !conn->protocol->hand(conn, &state, &size)))
        return WEIR_EAGAIN;
    int error = is_idle(conn) ? send_conn(conn, state, size) : WEIR_EAGAIN; /* it may have written what it owed */
    free(state);
    conn->handed = error == 0;
    return error;
}

void weir_conn_leave(struct weir_conn *conn)
{
    if (conn->phase != WEIR_CONN_OPEN)
        return;
    int error = conn->handed ? 0 : weir_conn_hand(conn);
    if (error == 0) {
        weir_conn_end(conn); /* the successor's descriptor keeps the socket open */
    } else if (is_idle(conn) && (weir_conn_stays(conn) || error == WEIR_EIO)) {
        if (conn->protocol->on_leave)
            conn->protocol->on_leave(conn, true);
        weir_conn_close_after_flush(conn);
        weir_conn_flush(conn);
    }
}

/* ---- there ---- */

int weir_conn_restore(struct weir_conn *conn, const struct weir_takeover_taken *taken)
{
    const struct weir_takeover_conn *told = &taken->told;
    const uint8_t *input = taken->bytes + told->state_size;
    conn->loopback = told->loopback;
    conn->has_token = told->has_token;
    conn->known = told->known;
    conn->wrong_tokens = told->wrong_tokens;
    memcpy(conn->token.bytes, told->token, sizeof(told->token));
    conn->active_ns = weir_sub_sat(conn->active_ns, told->idle_ns);
    conn->served = told->served;
    if (conn->protocol->take) {
        int error = conn->protocol->take(conn, taken->bytes, told->state_size);
        if (error)
            return error;
    }
    if (told->input_size == 0)
        return 0;
    /* It was within the predecessor's bounds; what is too much for ours is said when it is looked at. */
    if (!weir_buffer_reserve(&conn->in, &conn->loop->pool, told->input_size, told->input_size + WEIR_PIECE_SIZE))
        return WEIR_ENOMEM;
    memcpy(conn->in.data, input, told->input_size);
    conn->in.size = told->input_size;
    return 0;
}
