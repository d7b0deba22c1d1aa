/* SPDX-License-Identifier: Apache-2.0
 *
 * Any bytes as what another weir hands over of a RESP connection: refused, or a state that is handed on as it came. */
#include <stdlib.h>

#include "base/assert.h"
#include "serve/resp_call.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct weir_conn *make(void)
{
    struct weir_conn *conn = calloc(1, sizeof(*conn) + sizeof(struct weir_resp_session));
    weir_assert(conn);
    return conn;
}

static void end(struct weir_conn *conn)
{
    weir_resp_exec_drop(weir_conn_state(conn));
    weir_resp_queue_reset(weir_conn_state(conn));
    free(conn);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct weir_conn *conn = make(), *next = make();
    uint8_t *state = NULL, *again = NULL, *copy = malloc(size ? size : 1);
    size_t state_size = 0, again_size = 0;
    weir_assert(copy);
    memcpy(copy, data, size); /* exactly as many, so that ASan sees a look beyond them */
    int error = weir_resp_take(conn, copy, size);
    free(copy);
    weir_assert(error == 0 || error == WEIR_EPROTO);
    if (!error) {
        weir_assert(weir_resp_hand(conn, &state, &state_size) && state_size == size);
        weir_assert(weir_resp_take(next, state, state_size) == 0);
        weir_assert(weir_resp_hand(next, &again, &again_size));
        weir_assert(again_size == state_size && memcmp(again, state, state_size) == 0);
    }
    free(state);
    free(again);
    end(conn);
    end(next);
    return 0;
}
