/* SPDX-License-Identifier: Apache-2.0
 *
 * Reading RESP, the protocol of Redis clients: bytes in, one command's arguments out. No copy, no allocation, no I/O.
 *
 * A command is an array of bulk strings, or a line of words (with Redis's quotes). Anything else a client may not send:
 * nested arrays, RESP3's other types and lengths out of range are refused with the text Redis uses.
 *
 * Incremental: while a command is not whole, `progress` remembers how far it has been looked at, so that a client that
 * sends a byte at a time costs no more than one that sends all at once. The verdict does not depend on how the bytes
 * were cut. The arguments point into `data` (or, for a line with quotes, into the command itself). */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "weir/error.h"
#include "weir/limiter.h"

#define WEIR_RESP_ARGS_MAX 1024
#define WEIR_RESP_LINE_MAX 4096 /* an inline command; more is an error */

struct weir_resp_bounds {
    size_t args_max; /* at most WEIR_RESP_ARGS_MAX */
    size_t size_max; /* bytes of one command, all included */
};

/* Zero-initialise per connection. */
struct weir_resp_progress {
    size_t at;   /* bytes of the front that are known to be well-formed */
    size_t left; /* arguments still to come behind them */
};

struct weir_resp_command {
    size_t count; /* arguments; 0: an empty line or array, to be skipped without an answer */
    size_t size;  /* bytes of input it took */
    bool line;    /* it came as an inline command */
    struct weir_slice args[WEIR_RESP_ARGS_MAX];
    char error[64]; /* after WEIR_EPROTO: "invalid bulk length" */
    uint8_t unquoted[WEIR_RESP_LINE_MAX];
};

/* The first command in `data`: 0, WEIR_EAGAIN (not whole yet: call again with the same bytes and more), or WEIR_EPROTO
 * (ret->error says why; the stream cannot be followed any further). */
int weir_resp_parse(struct weir_resp_progress *progress, const uint8_t *data, size_t size,
                    const struct weir_resp_bounds *bounds, struct weir_resp_command *ret_command);

/* A whole argument as an integer as Redis reads one: an optional minus and digits, no leading zeros, no blanks. */
bool weir_resp_integer(struct weir_slice text, int64_t *ret_value);

/* Does the argument say `name` (given in lower case), in any case? */
bool weir_resp_is(struct weir_slice text, const char *name);
