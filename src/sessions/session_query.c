/* SPDX-License-Identifier: Apache-2.0
 *
 * weir_session_query of weir/session.h: session_read.c finds the connection, link_query.c sends the query, and the
 * place that came with its result is added to the token here. A place that did not come is left to weir_session_token,
 * which asks for it. Called by applications. */
#include "base/reserved.h"
#include "sessions/session_inside.h"

/* What came with the answer spares weir_session_token its question. Where it says too little, that asks. */
static int take_place(struct weir_session *session, struct weir_pinned *pinned)
{
    struct weir_servers *servers = session->replicas->servers;
    struct weir_place place;
    if (!weir_pinned_is_told(pinned) || weir_place_seen(&pinned->link->shown, &place) != 0)
        return 0;
    const struct weir_snapshot *snapshot = weir_servers_look(servers);
    int error = weir_session_add(session, &snapshot->known, pinned, &place);
    weir_servers_release(servers, snapshot);
    if (error == 0)
        pinned->used = false;
    return error;
}

int weir_session_query(struct weir_session *session, const struct weir_query *query, struct pg_result **ret_result,
                       struct weir_read *ret_read)
{
    struct weir_read read;
    bool placed;
    if (!query || !query->text || !ret_result)
        return WEIR_EINVAL;
    if (weir_reserved_used(query->reserved, sizeof query->reserved))
        return weir_session_say(session, WEIR_EINVAL, "reserved", WEIR_RESERVED_TEXT);
    int error = weir_session_read(session, &read);
    if (error != 0)
        return error;
    struct weir_pinned *pinned = session->handed;
    bool wants_place = pinned->used && !pinned->wrote && weir_session_has_places(session);
    error = weir_link_query(pinned->link, query, wants_place, ret_result, &placed);
    if (error != 0) {
        (void)weir_session_say(session, 0, pinned->link->name, "its connection broke before the answer");
        weir_pinned_lose(session, pinned);
        return error;
    }
    if (placed)
        (void)take_place(session, pinned); /* a token that is full is told where it is asked for */
    if (ret_read)
        *ret_read = read;
    return 0;
}
