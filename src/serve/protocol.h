/* SPDX-License-Identifier: Apache-2.0
 *
 * What a protocol (RESP, HTTP, gRPC) implements to be served. The frame owns sockets, TLS, buffers, bounds and
 * timeouts; the protocol owns what the bytes mean. All calls for one connection come from the one thread of its loop.
 * */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "weir/limiter.h"

struct weir_conn;
struct weir_config_server;

struct weir_protocol {
    const char *name;       /* "resp": for the line that says what listens */
    size_t state_size;      /* bytes of zeroed state that each connection has: weir_conn_state() */
    size_t loop_state_size; /* bytes of zeroed working memory that each loop has: weir_conn_loop_state() */

    bool says_close; /* its answers can say that the connection ends with them */
    bool stays;      /* its connections cannot be handed to a successor: they are drained, as those with TLS are */

    /* What it is called in TLS (RFC 7301), one byte of length before it; NULL: http/1.1, which clients need not ask
     * for. */
    const char *alpn;

    /* Told to a connection that comes when there are as many as are allowed, before it is closed. */
    struct weir_slice full;

    /* Bytes that the largest request takes in the input buffer: whatever is within the bounds fits. */
    size_t (*input_max)(const struct weir_config_server *bounds);

    /* NULL where there is nothing to do. */
    void (*on_open)(struct weir_conn *conn);

    /* Takes complete requests from the front of `data` and writes their answers with weir_conn_write; returns how many
     * bytes it took. What it leaves is shown again, with more behind it, when more has come or, if it stopped because
     * weir_conn_blocked() became true, when that has passed: check it before each request. `time` was read after
     * `data`, once for the whole batch. The answers of one call leave in one send when it returns.
     * May also be called with size 0 (after a hold has ended and nothing more has come). */
    size_t (*on_input)(struct weir_conn *conn, const uint8_t *data, size_t size, const struct weir_time *time);

    /* Bytes that it keeps for a connection besides the buffers. */
    size_t (*kept)(struct weir_conn *conn);

    /* A request has begun and not ended in time, or cannot fit in the input buffer: the last chance to write an answer
     * (408, "-ERR ..."); the connection is closed after it. NULL: closed without a word. */
    void (*on_overdue)(struct weir_conn *conn, bool too_large);

    /* The answer that was held for its turn cannot be given: the permit that it tells of is over. Writes an answer that
     * says so. */
    void (*on_hold_lost)(struct weir_conn *conn);

    /* For a successor (takeover.h): what it keeps of a connection between two answers, from malloc. It may write what
     * it still owes. False: not yet. */
    bool (*hand)(struct weir_conn *conn, uint8_t **ret_state, size_t *ret_size);
    /* In the successor, of a connection that was just opened. WEIR_EPROTO: nothing that it ever hands; WEIR_ENOMEM. */
    int (*take)(struct weir_conn *conn, const uint8_t *state, size_t size);

    /* The server will close the connection: it drains, or the connection is idle. The client may be told. Called more
     * than once; `last`: it is about to close once what was written is sent. NULL: nothing is said. */
    void (*on_leave)(struct weir_conn *conn, bool last);

    /* The connection is about to go, also when a request of it is on hold. weir_conn_write does nothing by now. */
    void (*on_close)(struct weir_conn *conn);
};
