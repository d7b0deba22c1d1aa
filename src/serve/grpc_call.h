/* SPDX-License-Identifier: Apache-2.0
 *
 * What the methods share: a connection's session, and one call. */
#pragma once

#include "serve/conn.h"
#include "serve/envoy.h"
#include "serve/loop.h"
#include "wire/grpc_library.h"

struct weir_grpc_call;

/* A method. One that does not stream is run with the call's one message, once, and finishes the call, then or later. */
struct weir_grpc_method {
    const char *path;
    unsigned right; /* that a caller needs; 0: none */
    bool streams;   /* the client may send many messages; the call ends when the client has said so, or by itself */
    void (*run)(struct weir_grpc_call *call, const uint8_t *message, size_t size, const struct weir_time *time);
    void (*on_half)(struct weir_grpc_call *call);  /* of one that streams: no more messages; NULL: it ends well */
    void (*on_leave)(struct weir_grpc_call *call); /* the connection is about to close; NULL: it is answered first */
};

/* Of one connection. */
struct weir_grpc_session {
    struct weir_h2 *h2;           /* NULL: nothing has come yet */
    const struct weir_time *time; /* of the batch of input being taken; NULL: none is */
    struct weir_grpc_call *calls; /* all, newest first */
    size_t unsettled;             /* calls that came with this batch, and may need a timer */
    size_t taken;                 /* messages that were taken in this batch */
    bool leaves, left;            /* which word of the end the client has */
    bool quiet;                   /* answers are written later: a call ends, and is freed, when its answer is written */
};

/* Of one loop. */
struct weir_grpc_work {
    _Alignas(max_align_t) uint8_t block[WEIR_ENVOY_BLOCK_SIZE]; /* of the message that is read */
    struct weir_envoy_work envoy;
    uint8_t bytes[128 << 10]; /* of the answer */
};

struct weir_grpc_call {
    struct weir_conn *conn;
    struct weir_h2_call *h2;
    const struct weir_grpc_method *method;
    struct weir_grpc_call *next, *prev;
    unsigned rights; /* of who calls */
    bool settled;    /* it has a timer, or needs none */
    bool run;        /* the message of one that does not stream has come */
    uint64_t due_ns; /* of its timeout; WEIR_NEVER: none */
    struct weir_timer timer;
    void *state;                                  /* the method's; */
    void (*on_gone)(struct weir_grpc_call *call); /* and who frees it; NULL: nobody needs to */
};

static inline const struct weir_grpc_library *weir_grpc_library_of(const struct weir_conn *conn)
{
    return conn->loop->common->grpc;
}

/* ---- answers: grpc_reply.c ---- */

/* What HTTP/2 has to send, as far as the connection takes it; and the same of what did not come with a batch of
 * input, which goes now. */
void weir_grpc_put_output(struct weir_conn *conn);
void weir_grpc_push(struct weir_conn *conn);

/* A message to the client, or the end. Both may be called at any time until on_gone. */
void weir_grpc_send(struct weir_grpc_call *call, const void *message, size_t size);
void weir_grpc_finish(struct weir_grpc_call *call, enum weir_grpc_status status, const char *text);

/* An error of a codec or of a decision: INVALID_ARGUMENT, RESOURCE_EXHAUSTED where memory or a bound is at its end. */
void weir_grpc_finish_fault(struct weir_grpc_call *call, int error, const struct weir_fault *fault);

/* Whether this server should be asked. */
bool weir_grpc_is_serving(const struct weir_loop *loop);

/* ---- methods: grpc_envoy.c, grpc_health.c, grpc_reflection.c ---- */

void weir_grpc_should_rate_limit(struct weir_grpc_call *call, const uint8_t *message, size_t size,
                                 const struct weir_time *time);

void weir_grpc_health_check(struct weir_grpc_call *call, const uint8_t *message, size_t size,
                            const struct weir_time *time);
void weir_grpc_health_watch(struct weir_grpc_call *call, const uint8_t *message, size_t size,
                            const struct weir_time *time);
void weir_grpc_health_half(struct weir_grpc_call *call);
void weir_grpc_health_leave(struct weir_grpc_call *call);
void weir_grpc_reflection(struct weir_grpc_call *call, const uint8_t *message, size_t size,
                          const struct weir_time *time);
