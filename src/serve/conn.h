/* SPDX-License-Identifier: Apache-2.0
 *
 * One connection: a socket, perhaps TLS on it, bytes that have come and are not yet understood, bytes that wait for
 * the client to take them. One recv and one send per turn; at most one piece (16 KiB) is taken from a connection per
 * turn, so that none starves the others. One loop's thread only. */
#pragma once

#include <openssl/ssl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <uv.h>

#include "base/phase.h"
#include "serve/auth.h"
#include "serve/buffer.h"
#include "serve/protocol.h"

struct weir_loop;
struct weir_listener;
struct weir_setup;
struct weir_hold_waiter;
struct weir_takeover_taken;

enum weir_conn_phase {
    WEIR_CONN_OPEN,
    WEIR_CONN_FINISHING, /* closed when `out` is empty; nothing more is read as a request */
    WEIR_CONN_LINGERING, /* our side is shut: what still comes is dropped until the client closes */
    WEIR_CONN_FAILED,    /* weir_conn_abort: ends with this turn */
    WEIR_CONN_CLOSED,    /* gone; only its handle is still closing */
    WEIR_CONN_PHASES
};

extern const struct weir_phase weir_conn_phases[WEIR_CONN_PHASES];

struct weir_conn {
    struct weir_loop *loop;
    enum weir_conn_phase phase;
    const struct weir_protocol *protocol;
    void *loop_state;                          /* the protocol's, shared by the connections of one listener and loop */
    struct weir_conn *next, *prev;             /* all of the loop */
    struct weir_conn *ready_next, *ready_prev; /* those that go on without waiting for the socket */
    uv_poll_t poll;
    int fd;
    int events; /* what poll waits for now */
    SSL *ssl;   /* NULL = plain */
    struct weir_buffer in, out;
    size_t out_sent; /* of out, from the front */
    unsigned rights; /* what the caller may do (enum weir_right) */
    bool loopback, has_token;
    bool known;                      /* the last token it has shown was one of ours */
    uint8_t wrong_tokens;            /* shown with AUTH */
    struct weir_auth_digest token;   /* that it has shown */
    uint64_t setup_number;           /* that `rights` are of */
    size_t input_max;                /* bytes not yet understood */
    uint64_t active_ns;              /* when a request was last taken, or had been waited for */
    uint64_t partial_ns;             /* when the request that is not yet whole began; 0 = none */
    uint64_t stuck_ns;               /* when the client last took bytes while some waited; 0 = none wait */
    size_t linger_bytes;             /* how many more are dropped */
    size_t output_max;               /* bytes not yet taken: at it no request is taken */
    size_t buffered;                 /* of weir_common.buffered */
    size_t in_taken;                 /* of `in`, by HTTP's on_input so far */
    struct weir_hold_waiter *waiter; /* the request on hold (hold.h) */
    size_t asks;                     /* answers that come later: weir_conn_ask_begin */
    size_t waits;                    /* those of them that wait for other clients: weir_conn_wait_begin */
    bool held;                       /* weir_conn_hold: answers wait for their turn */
    bool gated;                      /* weir_conn_gate */
    bool peer_shut;                  /* the client will send no more: it has gone, or only reads on */
    bool input_ended;                /* and all that it sent has been read */
    bool served;                     /* a request has been taken */
    bool ready;                      /* is in the loop's ready list */
    bool stalled;                    /* was blocked or has yielded: on_input is called when that passes */
    bool yielded;
    bool frozen;                                 /* nothing is taken: the server hands over (loop.h) */
    bool handed;                                 /* a successor has it as well */
    bool mid_request;                            /* weir_conn_request_begin */
    bool tls_wants_write;                        /* TLS must send before it can receive */
    bool tls_more;                               /* TLS may hold bytes that the socket no longer shows */
    _Alignas(max_align_t) unsigned char state[]; /* the protocol's */
};

static inline void *weir_conn_state(struct weir_conn *conn)
{
    return conn->state;
}

static inline void *weir_conn_loop_state(struct weir_conn *conn)
{
    return conn->loop_state;
}

static inline size_t weir_conn_pending(const struct weir_conn *conn)
{
    return conn->out.size - conn->out_sent;
}

/* No answer may be written now that can wait. */
static inline bool weir_conn_is_full(const struct weir_conn *conn)
{
    return conn->held || conn->gated || conn->phase != WEIR_CONN_OPEN || weir_conn_pending(conn) >= conn->output_max;
}

/* No request may be taken now: one is on hold, or must be answered before the next is taken, or the client does not
 * take its answers, or the end is near, or the server hands over. */
static inline bool weir_conn_blocked(const struct weir_conn *conn)
{
    return conn->frozen || weir_conn_is_full(conn);
}

/* Room for `size` bytes of answer (write, then commit what was used). NULL when the connection is gone or memory is
 * out, which ends the connection: the caller may just return. One answer may pass output_max; twice that is the end. */
uint8_t *weir_conn_reserve(struct weir_conn *conn, size_t size);

static inline void weir_conn_commit(struct weir_conn *conn, size_t size)
{
    conn->out.size += size;
}

static inline void weir_conn_write(struct weir_conn *conn, const void *data, size_t size)
{
    uint8_t *room = weir_conn_reserve(conn, size);
    if (room && size) {
        memcpy(room, data, size);
        weir_conn_commit(conn, size);
    }
}

/* No more requests: what was written is sent, then the connection closes, gently enough that the answer arrives. */
void weir_conn_close_after_flush(struct weir_conn *conn);

/* Closes at the end of this turn; what was not sent is lost. */
void weir_conn_abort(struct weir_conn *conn);

/* Throttling: the answer of the request being taken comes later (from a weir_timer, say). on_input must return without
 * taking another one and is not called until weir_conn_resume, after which what was written is sent and on_input is
 * called again. If the client goes away first, on_close is called. */
void weir_conn_hold(struct weir_conn *conn);
void weir_conn_resume(struct weir_conn *conn);

/* The answer of the request being taken comes later, though others may be taken meanwhile: the protocol keeps them in
 * order. `end` after it is written; on_close may be called first. */
void weir_conn_ask_begin(struct weir_conn *conn);
void weir_conn_ask_end(struct weir_conn *conn);

/* The same where the answer may wait for other clients, for long: the client's end is noticed meanwhile, and ends the
 * connection, though answers were still to come. `end` before weir_conn_ask_end. */
static inline void weir_conn_wait_begin(struct weir_conn *conn)
{
    conn->waits++;
}

static inline void weir_conn_wait_end(struct weir_conn *conn)
{
    conn->waits--;
}

/* The next request is not taken before one of the answers that come later has come: on_input returns, and is called
 * again. */
static inline void weir_conn_gate(struct weir_conn *conn)
{
    conn->gated = true;
}

/* on_input stops here though it could go on: it is called again in the next turn, when others have had theirs. */
static inline void weir_conn_yield(struct weir_conn *conn)
{
    conn->yielded = true;
}

/* A protocol that takes bytes before a request is whole (on_input returns them as taken) says where one begins and
 * ends, so that request_timeout can hold. One that leaves them need not. */
static inline void weir_conn_request_begin(struct weir_conn *conn)
{
    conn->mid_request = true;
    conn->partial_ns = 0;
}

static inline void weir_conn_request_end(struct weir_conn *conn)
{
    conn->mid_request = false;
}

/* The caller shows a token for all that follows on this connection (RESP's AUTH): false and nothing changes if it gives
 * no right, or, *ret_wait_ns > 0, was not looked at (guess.h). A reload that takes the token away takes its rights
 * away. A caller that has shown too many wrong ones is to be let go. */
bool weir_conn_authenticate(struct weir_conn *conn, struct weir_slice token, const struct weir_time *time,
                            uint64_t *ret_wait_ns);
void weir_conn_forget_token(struct weir_conn *conn);

/* Whether the buffers of all connections take server.buffer_bytes_max already: nothing more is kept that can wait. */
bool weir_conn_is_crowded(const struct weir_conn *conn);

/* Whether the answer being written is the last one: the server drains, and all that has come is answered. HTTP says so
 * in it. */
bool weir_conn_is_last(const struct weir_conn *conn);

/* The certificate, tokens and bounds in force: see setup.h. */
const struct weir_setup *weir_conn_setup(const struct weir_conn *conn);

/* For the loop. */
int weir_conn_open(struct weir_loop *loop, const struct weir_listener *listener, int fd);
/* One that a predecessor had; it takes over taken->fd, also on failure. */
int weir_conn_adopt(struct weir_loop *loop, const struct weir_listener *listener, struct weir_takeover_taken *taken);
/* It cannot be handed to a successor. */
bool weir_conn_stays(const struct weir_conn *conn);
void weir_conn_freeze(struct weir_conn *conn, bool frozen);
/* Sends it to the successor, by common->handing_fd. WEIR_EAGAIN: it is not between two requests, or stays; WEIR_EIO:
 * the successor does not take it. */
int weir_conn_hand(struct weir_conn *conn);
void weir_conn_go_on(struct weir_conn *conn);                       /* a connection of the ready list */
void weir_conn_check_time(struct weir_conn *conn, uint64_t now_ns); /* closes it if it is overdue */
