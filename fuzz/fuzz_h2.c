/* SPDX-License-Identifier: Apache-2.0
 *
 * Any bytes behind a good preface, cut anywhere, to the server's end of an HTTP/2 connection: it stays inside its
 * memory and bounds, tells its owner of each call's end once, and ends what floods it. The owner answers, or lets calls
 * wait, by what their messages say. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "wire/h2.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct owner {
    size_t calls, gone;
};

static void on_call(void *context, struct weir_h2_call *call)
{
    struct owner *owner = context;
    owner->calls++;
    weir_assert(call->path.size <= WEIR_H2_PATH_MAX && call->token.size <= WEIR_H2_TOKEN_MAX + 1);
    if (call->path.size == 1)
        weir_h2_finish(call, WEIR_GRPC_UNIMPLEMENTED, "no \xff such");
}

static void on_message(void *context, struct weir_h2_call *call, const uint8_t *message, size_t size)
{
    (void)context;
    weir_assert(size <= 500 && !call->finished);
    weir_h2_send(call, message, size);
    if (size > 0 && message[0] == 'f')
        weir_h2_finish(call, WEIR_GRPC_OK, NULL);
}

static void on_half(void *context, struct weir_h2_call *call)
{
    (void)context;
    weir_assert(!call->finished);
    if (call->path.size != 2)
        weir_h2_finish(call, WEIR_GRPC_OK, "well");
}

static void on_gone(void *context, struct weir_h2_call *call)
{
    (void)call;
    ((struct owner *)context)->gone++;
}

static void drain(struct weir_h2 *h2)
{
    const uint8_t *out;
    volatile uint8_t last;
    for (size_t size; (size = weir_h2_output(h2, &out)) > 0;)
        last = out[size - 1];
    (void)last;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct weir_h2_bounds bounds = {
        .streams_max = 8, .headers_max = 20, .header_bytes_max = 1000, .message_max = 500, .kept_max = 2000
    };
    static const struct weir_h2_owner calls = { on_call, on_message, on_half, on_gone };
    struct owner owner = { 0 };
    struct weir_h2 *h2;
    if (size == 0 || weir_h2_create(&bounds, &calls, &owner, &h2))
        return 0;
    const size_t piece = (size_t)data[0] + 1;
    int error = weir_h2_take(h2, (const uint8_t *)WEIR_H2_PREFACE, sizeof(WEIR_H2_PREFACE) - 1, 1);
    for (size_t at = 1; at < size && !error && !weir_h2_is_over(h2); at += piece) {
        const size_t more = size - at < piece ? size - at : piece;
        uint8_t *copy = malloc(more);
        memcpy(copy, data + at, more);
        error = weir_h2_take(h2, copy, more, at);
        free(copy);
        weir_assert(weir_h2_kept(h2) <= bounds.kept_max + weir_h2_calls(h2) * 4096);
        if (data[0] & 1)
            drain(h2);
    }
    weir_h2_leave(h2, size & 1);
    drain(h2);
    weir_h2_destroy(h2);
    weir_assert(owner.calls == owner.gone);
    return 0;
}
