/* SPDX-License-Identifier: Apache-2.0
 *
 * The server's end of an HTTP/2 connection that carries gRPC calls: bytes in, calls and messages out, and back. HTTP/2
 * (RFC 9113) and HPACK are libnghttp2's; what is decided here is which calls there may be, how much of them is kept,
 * and what ends a call or the connection.
 *
 * Bounds. A call that exceeds one ends with a status: more or longer header fields than headers_max and
 * header_bytes_max, RESOURCE_EXHAUSTED and HTTP status 431; a message longer than message_max, or more than kept_max of
 * all calls' unfinished messages and answers that the client does not take, RESOURCE_EXHAUSTED; a compressed message,
 * UNIMPLEMENTED. More calls than streams_max at once are refused by HTTP/2 (REFUSED_STREAM, or PROTOCOL_ERROR of a
 * client that has acknowledged our settings). The connection ends with ENHANCE_YOUR_CALM where a client sends more
 * frames that ask for nothing (PING, SETTINGS, PRIORITY, RST_STREAM, WINDOW_UPDATE, empty DATA) than
 * WEIR_H2_IDLE_FRAMES at once, WEIR_H2_IDLE_FRAMES_PER_CALL more for each call and WEIR_H2_IDLE_FRAMES_PER_SECOND; more
 * than libnghttp2's bounds on resets (1,000 at once, 100 a second) and on CONTINUATION frames (8 of a header list); or
 * four times header_bytes_max in one header list.
 *
 * Thread rule: one connection, one thread. The functions of an owner are called from within weir_h2_take,
 * weir_h2_output (on_gone alone) and weir_h2_destroy; they may call weir_h2_send and weir_h2_finish, and nothing else
 * of what follows. */
#pragma once

#include "weir/limiter.h"
#include "wire/grpc.h"

struct weir_h2;

#define WEIR_H2_STREAMS_MAX 256
#define WEIR_H2_PATH_MAX 128  /* no method has a longer one */
#define WEIR_H2_TOKEN_MAX 512 /* nor a token more bytes */

#define WEIR_H2_IDLE_FRAMES 10000
#define WEIR_H2_IDLE_FRAMES_PER_CALL 16
#define WEIR_H2_IDLE_FRAMES_PER_SECOND 1000

/* The first bytes of every client's connection. */
#define WEIR_H2_PREFACE "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

struct weir_h2_bounds {
    uint32_t streams_max;
    uint32_t headers_max, header_bytes_max; /* a field counts 32 bytes more than its name and value have (RFC 9113) */
    uint32_t message_max;
    size_t kept_max;
};

/* One call. The slices are as long as it lives. */
struct weir_h2_call {
    struct weir_slice path;  /* "/package.Service/Method" */
    struct weir_slice token; /* of `authorization: Bearer TOKEN` or `x-weir-token: TOKEN`; size 0: none was shown */
    uint64_t timeout_ns;     /* WEIR_NEVER: none was said */
    bool half;               /* the client has said that it sends no more */
    bool finished;           /* weir_h2_finish was called */
    void *state;             /* the owner's */
};

struct weir_h2_owner {
    void (*on_call)(void *context, struct weir_h2_call *call);
    /* A whole message, as long as the call of this function. Not of a call that is finished. */
    void (*on_message)(void *context, struct weir_h2_call *call, const uint8_t *message, size_t size);
    /* The client sends no more; the call is not finished. */
    void (*on_half)(void *context, struct weir_h2_call *call);
    /* It is over, or was reset, and its memory is about to go. Of each call that on_call told of, once. */
    void (*on_gone)(void *context, struct weir_h2_call *call);
};

/* WEIR_ENOMEM. */
int weir_h2_create(const struct weir_h2_bounds *bounds, const struct weir_h2_owner *owner, void *context,
                   struct weir_h2 **ret_h2);
void weir_h2_destroy(struct weir_h2 *h2); /* NULL is allowed */

/* Takes all the bytes. WEIR_EPROTO: the connection ends; what is still to be sent says why. */
int weir_h2_take(struct weir_h2 *h2, const uint8_t *data, size_t size, uint64_t now_ns);

/* The next bytes to send, as long as nothing else is called; 0: there are none now. */
size_t weir_h2_output(struct weir_h2 *h2, const uint8_t **ret_data);

/* Nothing is to be sent or received any more. */
bool weir_h2_is_over(const struct weir_h2 *h2);

size_t weir_h2_calls(const struct weir_h2 *h2); /* under way */
size_t weir_h2_kept(const struct weir_h2 *h2);  /* bytes */

/* GOAWAY. First, that there will be no more calls, for all that the client has sent already; `last`: and that none
 * after those that have come will be taken. Each is sent once. */
void weir_h2_leave(struct weir_h2 *h2, bool last);

/* Sends a message, or ends the call. Without memory the call is reset. */
void weir_h2_send(struct weir_h2_call *call, const void *message, size_t size);
void weir_h2_finish(struct weir_h2_call *call, enum weir_grpc_status status, const char *text);
