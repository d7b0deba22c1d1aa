/* SPDX-License-Identifier: Apache-2.0
 *
 * A session's life, its token, its writes and the acceptance of a loss. Before a token is given out, each connection
 * that was used since is asked for its place or clock, and the gaps are filled. A tracked session is given a connection
 * for writing only if the log of its server provably goes on from what the session has seen. Called by applications
 * (weir/session.h) and by cli/reads_work.c. Reads are in session_read.c. */
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/reserved.h"
#include "base/siphash.h"
#include "base/units.h"
#include "net/postgres_ask.h"
#include "sessions/session_inside.h"

#define WAIT_MS 500
#define WINDOW_MS 1000

/* The same one for the same user in every process: the key is no secret. */
static int hash_id(const struct weir_session_options *options, uint64_t *ret_id)
{
    static const struct weir_sip_key key = { 0, 0 };
    if (!options->id)
        return getrandom(ret_id, sizeof *ret_id, 0) == (ssize_t)sizeof *ret_id ? 0 : WEIR_EIO;
    *ret_id = weir_siphash(&key, options->id, options->id_size);
    return 0;
}

int weir_session_open(struct weir_replicas *replicas, const struct weir_session_options *options,
                      struct weir_session **ret_session)
{
    uint64_t id;
    if (!replicas || !options || (unsigned)options->strategy > WEIR_SESSION_LAMPORT ||
        (unsigned)options->behind > WEIR_BEHIND_ERROR ||
        (options->strategy == WEIR_SESSION_LAMPORT && !replicas->clock_query) ||
        weir_reserved_used(options->reserved, sizeof options->reserved))
        return WEIR_EINVAL;
    if (options->id_size > WEIR_SESSION_ID_MAX || options->wait_ms > WEIR_SESSION_WAIT_MAX_MS)
        return WEIR_ERANGE;
    int error = hash_id(options, &id);
    struct weir_session *session = error == 0 ? calloc(1, sizeof *session) : NULL;
    if (!session)
        return error ? error : WEIR_ENOMEM;
    session->replicas = replicas;
    session->id = id;
    session->strategy = options->strategy;
    session->behind = options->behind;
    session->wait_ns = (options->wait_ms ? options->wait_ms : WAIT_MS) * WEIR_NS_PER_MS;
    session->window_ns = (options->window_ms ? options->window_ms : WINDOW_MS) * WEIR_NS_PER_MS;
    session->reads_do_not_move = options->reads_do_not_move;
    session->version = 1;
    session->gained_ns = weir_ask_now_ns();
    *ret_session = session;
    return 0;
}

static void leave_pinned(struct weir_session *session)
{
    for (unsigned i = 0; i < WEIR_PINNED_COUNT; i++)
        weir_pinned_leave(session, &session->pins[i]);
}

void weir_session_close(struct weir_session *session)
{
    if (!session)
        return;
    leave_pinned(session);
    free(session);
}

void weir_session_fault(const struct weir_session *session, struct weir_fault *ret_fault)
{
    *ret_fault = session->fault;
}

/* ---- tokens ---- */

static const struct weir_session_signer *signer_of(const struct weir_session *session)
{
    return session->replicas->signer ? weir_signer_of(session->replicas->signer) : NULL;
}

int weir_session_join(struct weir_session *session, const char *token, size_t size)
{
    struct weir_servers *servers = session->replicas->servers;
    struct weir_session_token read, merged = session->token;
    int error = weir_session_token_read(token, size, signer_of(session), &read);
    if (error != 0)
        return weir_session_say(session, error, "token", weir_error_text(error));
    const struct weir_snapshot *snapshot = weir_servers_look(servers);
    error = weir_session_token_merge(&merged, &read, &snapshot->known);
    weir_servers_release(servers, snapshot);
    if (error != 0)
        return weir_session_say(session, error, "token", "has seen too many histories that went apart");
    bool same = weir_session_token_same(&merged, &session->token);
    session->token = merged;
    if (!same)
        weir_session_gained(session, NULL);
    return 0;
}

/* All that was seen, into the token. */
static int take_places(struct weir_call *call)
{
    struct weir_session *session = call->session;
    for (unsigned i = 0; i < WEIR_PINNED_COUNT; i++) {
        int error = weir_pinned_settle(call, &session->pins[i]);
        if (error != 0 && error != WEIR_EUNKNOWN)
            return error;
    }
    int error = weir_session_fill(call);
    return error == WEIR_EBEHIND ? WEIR_EUNKNOWN : error;
}

static int settle_all(struct weir_session *session)
{
    struct weir_call call;
    int error = weir_session_back(session);
    if (error != 0)
        return error;
    weir_call_begin(&call, session);
    error = take_places(&call);
    weir_call_end(&call);
    return error;
}

int weir_session_token(struct weir_session *session, char *token, size_t *ret_size)
{
    int error = settle_all(session);
    return error ? error : weir_session_token_write(&session->token, signer_of(session), token, ret_size);
}

int weir_session_rest(struct weir_session *session)
{
    int error = settle_all(session);
    if (error == 0)
        leave_pinned(session);
    return error;
}

/* ---- writing ---- */

/* Does the log that the leader's connection writes to go on from what was seen? How far it is is no matter. */
static enum weir_place_verdict compare_log(const struct weir_call *call)
{
    const struct weir_session *session = call->session;
    struct weir_shown end = session->pins[WEIR_PINNED_LEADER].link->shown;
    end.position = UINT64_MAX;
    end.settled = true;
    return weir_session_token_compare(&session->token, &end, call->known);
}

/* The choice was made before what the last connection showed was known, and by what the pollers knew: since then a
 * server may have been promoted, or have crashed. WEIR_EAGAIN: look for another. */
static int check_leader(struct weir_call *call)
{
    const struct weir_link *link = call->session->pins[WEIR_PINNED_LEADER].link;
    enum weir_place_verdict verdict = compare_log(call);
    if (verdict == WEIR_PLACE_UNPROVEN) { /* a history that its poller has yet to learn */
        (void)weir_call_ask(call, link->server);
        verdict = compare_log(call);
    }
    if (verdict == WEIR_PLACE_OK)
        return 0;
    if (verdict == WEIR_PLACE_FOREIGN)
        return weir_session_say(call->session, WEIR_EFOREIGN, link->name, "is of another system than the token");
    const struct weir_route_request request = weir_call_request(call, true);
    if (verdict == WEIR_PLACE_LOST || (verdict == WEIR_PLACE_UNPROVEN && !weir_route_may_learn(&request)))
        return weir_session_lost(call, link->name);
    (void)weir_session_say(call->session, 0, link->name, weir_place_verdict_name(verdict));
    weir_call_shun(call, link->server);
    return WEIR_EAGAIN;
}

static int lead(struct weir_call *call)
{
    struct weir_route route;
    int error = weir_session_fill(call);
    if (error == 0)
        error = weir_session_find(call, true, &route);
    if (error == 0)
        error = weir_session_lead(call);
    return error == 0 && weir_session_is_tracked(call->session) ? check_leader(call) : error;
}

int weir_session_write(struct weir_session *session, struct pg_conn **ret_conn)
{
    struct weir_call call;
    struct weir_pinned *pinned = &session->pins[WEIR_PINNED_LEADER];
    int error = weir_session_back(session);
    if (error != 0)
        return error;
    weir_call_begin(&call, session);
    do
        error = lead(&call);
    while (error == WEIR_EAGAIN);
    weir_call_end(&call);
    if (error != 0)
        return error;
    pinned->used = pinned->wrote = true;
    session->handed = pinned;
    session->fault = (struct weir_fault){ 0 };
    *ret_conn = pinned->link->conn;
    return 0;
}

/* ---- accepting a loss ---- */

/* Drops what the primary does not show, and adds what it does. */
static int accept(struct weir_call *call, const struct weir_shown *leader)
{
    struct weir_session *session = call->session;
    struct weir_session_token token = session->token;
    struct weir_shown shown = *leader;
    struct weir_place place;
    shown.settled = true;
    token.count = 0;
    for (unsigned i = 0; i < session->token.count; i++) {
        struct weir_session_token one = { .count = 1, .places = { session->token.places[i] } };
        enum weir_place_verdict verdict = weir_session_token_compare(&one, &shown, call->known);
        if (verdict == WEIR_PLACE_OK || verdict == WEIR_PLACE_FOREIGN)
            token.places[token.count++] = one.places[0];
    }
    int error = weir_place_seen(leader, &place);
    if (error == 0)
        error = weir_session_token_add(&token, &place, call->known);
    if (error == 0)
        session->token = token;
    return error;
}

/* It may yet fail, and then nothing is forgotten. A token that is full of what was lost is what it is for. */
static int take_what_there_is(struct weir_call *call)
{
    for (unsigned i = 0; i < WEIR_PINNED_COUNT; i++) {
        struct weir_pinned *pinned = &call->session->pins[i];
        int error = weir_pinned_settle(call, pinned);
        if (error == WEIR_EBUSY)
            return error;
        if (error == WEIR_ELIMIT)
            pinned->used = pinned->wrote = false;
    }
    return 0;
}

int weir_session_accept(struct weir_session *session)
{
    struct weir_call call;
    struct weir_pinned *pinned = &session->pins[WEIR_PINNED_LEADER];
    int error = weir_session_back(session);
    if (error != 0)
        return error;
    weir_call_begin(&call, session);
    error = take_what_there_is(&call);
    if (error == 0)
        weir_pinned_leave(session, &session->pins[WEIR_PINNED_REPLICA]);
    if (error == 0)
        error = weir_session_lead(&call);
    if (error == 0)
        error = weir_session_has_places(session) ? weir_pinned_ask(&call, pinned) : 0;
    if (error == 0 && weir_session_has_places(session))
        error = accept(&call, &pinned->link->shown);
    weir_call_end(&call);
    if (error == WEIR_EAGAIN)
        return weir_session_say(session, WEIR_EDOWN, "", "no primary answers");
    if (error != 0)
        return error;
    if (!weir_session_has_places(session))
        session->token.clock = session->token.stamp_ns = 0;
    for (unsigned i = 0; i < WEIR_PINNED_COUNT; i++)
        session->gaps[i].open = false;
    weir_session_gained(session, NULL);
    return 0;
}
