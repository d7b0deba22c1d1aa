/* SPDX-License-Identifier: Apache-2.0
 *
 * What HTTP keeps of a connection between two requests, for a successor: whether the client of the request that is not
 * whole was told to go on (100 Continue). Its bytes are read anew from the first. Called by conn_hand.c. */
#include <stdlib.h>

#include "serve/http_call.h"

bool weir_http_hand(struct weir_conn *conn, uint8_t **ret_state, size_t *ret_size)
{
    const struct weir_http_session *session = weir_conn_state(conn);
    weir_http_send_rest(conn);
    if (session->rest || session->lock || session->sessions || session->rules || session->pending || session->envoy ||
        session->live || session->closes)
        return false;
    uint8_t *state = malloc(1);
    if (!state)
        return false;
    state[0] = session->codec.continue_told;
    *ret_state = state;
    *ret_size = 1;
    return true;
}

int weir_http_take(struct weir_conn *conn, const uint8_t *state, size_t size)
{
    struct weir_http_session *session = weir_conn_state(conn);
    if (size != 1 || state[0] > 1)
        return WEIR_EPROTO;
    session->codec.continue_told = state[0];
    return 0;
}
