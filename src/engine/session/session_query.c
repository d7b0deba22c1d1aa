/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/session/session_inside.h"

/* What came with the answer spares weir_session_token its question. Where it says too little, that asks. */
static int take_place(struct weir_session *session, struct weir_seat *seat)
{
    struct weir_servers *servers = session->replicas->servers;
    struct weir_place place;
    if (!weir_seat_is_told(seat) || weir_place_seen(&seat->link->shown, &place) != 0)
        return 0;
    const struct weir_snapshot *snapshot = weir_servers_look(servers);
    int error = weir_session_add(session, &snapshot->known, seat, &place);
    weir_servers_release(servers, snapshot);
    if (error == 0)
        seat->used = false;
    return error;
}

int weir_session_query(struct weir_session *session, const struct weir_query *query, struct pg_result **ret_result,
                       struct weir_read *ret_read)
{
    struct weir_read read;
    bool placed;
    if (!query || !query->text || !ret_result)
        return WEIR_EINVAL;
    int error = weir_session_read(session, &read);
    if (error != 0)
        return error;
    struct weir_seat *seat = session->handed;
    bool wants_place = seat->used && !seat->wrote && weir_session_has_places(session);
    error = weir_link_query(seat->link, query, wants_place, ret_result, &placed);
    if (error != 0) {
        (void)weir_session_say(session, 0, seat->link->name, "its connection broke before the answer");
        weir_seat_lose(session, seat);
        return error;
    }
    if (placed)
        (void)take_place(session, seat); /* a token that is full is told where it is asked for */
    if (ret_read)
        *ret_read = read;
    return 0;
}
