/* SPDX-License-Identifier: Apache-2.0
 *
 * Requests under way lie in a list by deadline, and one timer is set for the first. At the deadline a group that was
 * not written is taken back (WEIR_EDOWN); one that was written is WEIR_EUNKNOWN, and stays until its late reply.
 * Called through the engine's operations (redis.c) by limits/transaction.c and share_host.c; net/redis_conn.c
 * brings the replies, and script.c writes what is asked. */
#include "limits/redis/request.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/timing.h"
#include "limits/redis/cluster.h"
#include "limits/redis/mark.h"
#include "limits/redis/roll_back.h"
#include "limits/redis/slot.h"

#define HOPS_MAX 5

/* ---- deadlines ---- */

/* libuv counts milliseconds: the timer goes off within the one in which the deadline lies, up to one early. */
static void arm(struct weir_redis_engine *engine)
{
    uint64_t due_ms = engine->first ? engine->first->request->deadline_ns / WEIR_NS_PER_MS : 0;
    if (due_ms == 0 || (engine->armed_ms != 0 && engine->armed_ms <= due_ms))
        return; /* one that goes off early is armed anew then */
    uv_update_time(engine->loop);
    uint64_t now_ms = uv_now(engine->loop);
    engine->armed_ms = due_ms;
    uv_timer_start(&engine->deadline, weir_redis_on_deadline, due_ms > now_ms ? due_ms - now_ms : 0, 0);
}

/* Most have the same time to go, so the place is at the end. */
static void enlist(struct weir_redis_work *work)
{
    struct weir_redis_engine *engine = work->engine;
    struct weir_redis_work *after = engine->last;
    while (after && after->request->deadline_ns > work->request->deadline_ns)
        after = after->prev;
    work->prev = after;
    work->next = after ? after->next : engine->first;
    *(work->next ? &work->next->prev : &engine->last) = work;
    *(after ? &after->next : &engine->first) = work;
    if (!after)
        arm(engine);
}

static void delist(struct weir_redis_work *work)
{
    struct weir_redis_engine *engine = work->engine;
    *(work->prev ? &work->prev->next : &engine->first) = work->next;
    *(work->next ? &work->next->prev : &engine->last) = work->prev;
}

/* ---- the end of a request ---- */

/* Late replies come to groups without a work. */
static void let_go(struct weir_redis_work *work)
{
    while (work->groups) {
        struct weir_redis_group *group = work->groups;
        work->groups = group->next;
        group->next = NULL;
        group->work = NULL;
        if (!group->pending)
            weir_redis_group_free(group);
    }
}

static void finish(struct weir_redis_work *work, int status)
{
    struct weir_redis_engine *engine = work->engine;
    struct weir_remote_request *request = work->request;
    delist(work);
    if (status == 0 && (request->verb == WEIR_REMOTE_DECIDE || request->verb == WEIR_REMOTE_PEEK))
        weir_script_finish(request);
    let_go(work);
    request->status = status;
    engine->stats.answered += status == 0;
    engine->stats.refused += status == WEIR_EDOWN;
    engine->stats.unknown += status == WEIR_EUNKNOWN;
    engine->stats.corrupt += status == WEIR_ECORRUPT;
    work->next = NULL;
    work->prev = engine->finished_last;
    *(engine->finished_last ? &engine->finished_last->next : &engine->finished) = work;
    engine->finished_last = work;
}

void weir_redis_tell_finished(struct weir_redis_engine *engine)
{
    struct weir_redis_work *work = engine->finished;
    engine->finished = engine->finished_last = NULL;
    while (work) {
        struct weir_redis_work *next = work->next;
        struct weir_remote_request *request = work->request;
        free(work);
        request->done(request);
        work = next;
    }
}

/* What several slots said together: what is not known outweighs what failed, which outweighs what was found corrupt.
 * Without a request id what was done in one slot stays done: then a failure in another leaves the whole unknown. */
static int status_of(const struct weir_redis_work *work)
{
    int status = 0;
    bool done = false;
    for (const struct weir_redis_group *group = work->groups; group; group = group->next) {
        done = done || group->status == 0;
        if (group->status == WEIR_EUNKNOWN || status == 0 || (group->status == WEIR_EDOWN && status != WEIR_EUNKNOWN))
            status = group->status;
    }
    bool charges = work->request->verb != WEIR_REMOTE_DECIDE && work->request->verb != WEIR_REMOTE_PEEK;
    return status == WEIR_EDOWN && done && charges ? WEIR_EUNKNOWN : status;
}

static bool says_never(const struct weir_redis_group *group)
{
    for (size_t i = 0; i < group->script.count; i++) {
        const struct weir_verdict *verdict = &group->work->request->ops[group->script.ops[i].index].verdict;
        if (!verdict->admitted && verdict->retry_after_ns == WEIR_NEVER)
            return true;
    }
    return false;
}

/* A DECIDE over several slots: all charged, or what was charged is given back. */
static void settle(struct weir_redis_work *work, int status)
{
    bool refused = status != 0, never = status != 0;
    for (struct weir_redis_group *group = work->groups; group; group = group->next) {
        bool admits = group->status == 0 && weir_script_call_admits(&group->script);
        refused = refused || !admits;
        never = never || (group->status == 0 && !admits && says_never(group));
    }
    for (struct weir_redis_group *group = work->groups; refused && group; group = group->next) {
        bool charged = group->status == 0 && weir_script_call_admits(&group->script);
        if (charged || group->status == WEIR_EUNKNOWN)
            weir_redis_roll_back(group, never);
    }
}

static void complete(struct weir_redis_work *work)
{
    int status = status_of(work);
    if (work->groups_count > 1 && work->request->verb == WEIR_REMOTE_DECIDE)
        settle(work, status);
    finish(work, status);
}

/* ---- groups ---- */

void weir_redis_group_free(struct weir_redis_group *group)
{
    weir_assert(!group->call.queue);
    if (!group->gives_back)
        group->engine->pending--;
    weir_script_call_deinit(&group->script);
    free(group);
}

void weir_redis_group_told(struct weir_redis_group *group, bool success)
{
    if (!group->told)
        weir_redis_server_told(group->server, group->generation, success);
    group->told = true;
}

static void group_done(struct weir_redis_group *group, int status)
{
    group->status = status;
    group->pending = false;
    if (--group->work->outstanding == 0)
        complete(group->work);
}

/* It was held back, which says nothing about the server. */
static void group_shed(struct weir_redis_group *group)
{
    weir_redis_server_unsent(group->server, group->generation);
    group->told = true;
    group->engine->stats.shed++;
}

/* Whether it could only be charged and answered too late, with `ahead` others that go first. */
static bool is_hopeless(const struct weir_redis_group *group, const struct weir_redis_server *server, size_t ahead,
                        uint64_t now_ns)
{
    return weir_flight_hopeless(&server->flight, ahead, weir_sub_sat(group->work->request->deadline_ns, now_ns));
}

static bool group_write(struct weir_redis_call *call, struct weir_redis_output *output)
{
    struct weir_redis_group *group = (struct weir_redis_group *)call;
    const struct weir_script_call *script = &group->script;
    uint64_t now_ns = uv_hrtime();
    if ((call->yields && is_hopeless(group, group->server, 0, now_ns)) ||
        weir_script_call_encode(&group->script, group->engine->sha1) ||
        !weir_redis_output_command(output, script->argc, script->argv, script->sizes))
        return false;
    group->sent_ns = now_ns;
    weir_flight_sent(&group->server->flight);
    return true;
}

struct weir_redis_server *weir_redis_server_of(struct weir_redis_engine *engine, uint16_t slot)
{
    uint16_t index = engine->settings.topology == WEIR_REDIS_CLUSTER ? WEIR_REDIS_NOBODY : engine->primary;
    if (engine->slots)
        index = engine->slots[slot];
    return index == WEIR_REDIS_NOBODY ? NULL : engine->servers[index];
}

static bool send_to(struct weir_redis_group *group, struct weir_redis_server *server)
{
    uint64_t generation;
    group->asked_ns = uv_hrtime();
    const uint64_t deadline_ns = group->work ? group->work->request->deadline_ns : 0;
    const uint64_t left_ns = weir_sub_sat(deadline_ns, group->asked_ns);
    if (!server || !weir_redis_server_allows(server, left_ns, &generation))
        return false;
    /* What the server has begun is not held back, nor what gives back. */
    group->call.yields = group->work && group->hops == 0 && group->script.rounds == 0;
    group->server = server;
    group->generation = generation;
    group->told = false;
    group->pending = true;
    group->call.patience_ns = weir_max_u64(group->asked_ns + WEIR_REDIS_PATIENCE_NS, deadline_ns);
    if (group->call.yields || group->hops > 0) /* a slot that moves may lead all that a server is asked to it so */
        weir_flight_asked(&server->flight, left_ns);
    if (group->call.yields && is_hopeless(group, server, server->conn.waiting.count, group->asked_ns)) {
        group_shed(group);
        group->pending = false;
        return false;
    }
    if (group->hops == 0 && group->script.rounds > 0)
        weir_redis_conn_wait_first(&server->conn, &group->call); /* its second round must not find the value changed */
    else
        weir_redis_conn_wait(&server->conn, &group->call);
    return true;
}

bool weir_redis_group_send(struct weir_redis_group *group)
{
    return send_to(group, weir_redis_server_of(group->engine, group->slot));
}

bool weir_redis_group_again(struct weir_redis_group *group, const redisReply *reply)
{
    static const char *const asking[] = { "ASKING" };
    struct weir_redis_server *server = group->server;
    uint16_t slot;
    bool noscript = weir_redis_is_error(reply, "NOSCRIPT");
    bool moved = weir_redis_is_error(reply, "MOVED"), ask = weir_redis_is_error(reply, "ASK");
    if (!noscript && !moved && !ask)
        return false;
    weir_redis_group_told(group, true);
    if (++group->hops > HOPS_MAX)
        return false;
    if (noscript) {
        weir_redis_server_load_script(server);
        return send_to(group, server);
    }
    group->engine->stats.redirects++;
    server = weir_redis_cluster_named(server, reply, &slot);
    if (!server || group->engine->settings.topology != WEIR_REDIS_CLUSTER)
        return false;
    if (moved)
        weir_redis_cluster_moved(server, slot);
    else if (!weir_redis_server_ask_last(server, 1, asking))
        return false;
    return send_to(group, server);
}

/* A reply that is no answer of the script's. Redis decides before the script's first write whether it may write, so
 * these say that nothing was done; an error that is not among them says nothing. */
static int status_of_error(struct weir_redis_group *group, const redisReply *reply)
{
    static const char *const nothing_done[] = { "NOSCRIPT",   "MOVED",    "ASK",         "TRYAGAIN",
                                                "LOADING",    "READONLY", "OOM",         "MISCONF",
                                                "NOAUTH",     "NOPERM",   "CLUSTERDOWN", "MASTERDOWN",
                                                "NOREPLICAS", "BUSY",     "WRONGPASS",   "CROSSSLOT" };
    bool known = false;
    for (size_t i = 0; i < sizeof nothing_done / sizeof nothing_done[0]; i++)
        known = known || weir_redis_is_error(reply, nothing_done[i]);
    /* Redis 7.2: "NOPERM ACL failure in script: …", of a command that may stand after a write. */
    known = known && !(weir_redis_is_error(reply, "NOPERM") && strstr(reply->str, "in script"));
    /* Keys of one slot that is being moved lie on two servers for a moment. */
    weir_redis_group_told(group, weir_redis_is_error(reply, "TRYAGAIN"));
    if (group->engine->settings.topology == WEIR_REDIS_CLUSTER)
        weir_redis_ask_soon(group->engine);
    weir_redis_server_refused(group->server, reply);
    return known ? WEIR_EDOWN : WEIR_EUNKNOWN;
}

static void take_reply(struct weir_redis_group *group, const redisReply *reply)
{
    struct weir_redis_engine *engine = group->engine;
    if (reply->type == REDIS_REPLY_ERROR) {
        if (!weir_redis_group_again(group, reply))
            group_done(group, status_of_error(group, reply));
        return;
    }
    int status = WEIR_ECORRUPT;
    if (reply->type == REDIS_REPLY_STRING) {
        status = weir_script_call_decode(&group->script, reply->str, (size_t)reply->len);
        weir_script_clock_hear(&engine->clock, &group->script, uv_hrtime());
    }
    weir_redis_group_told(group, true);
    if (status == WEIR_EAGAIN) {
        delist(group->work);
        weir_script_call_next_round(&group->script, uv_hrtime());
        enlist(group->work);
        if (!send_to(group, group->server))
            group_done(group, WEIR_EDOWN);
        return;
    }
    if (status == 0) {
        weir_redis_mark_answered(group->server);
    } else if (status == WEIR_ECORRUPT) {
        weir_redis_error(engine, group->server, "a value under our keys is not ours");
    } else if (status == WEIR_ENOMEM) {
        status = WEIR_EUNKNOWN;
    }
    group_done(group, status);
}

/* Of the window. */
static void take_out(struct weir_redis_group *group, bool answered)
{
    struct weir_redis_server *server = group->server;
    if (group->sent_ns && answered) {
        server->answered_ns = uv_hrtime();
        weir_flight_answered(&server->flight, group->sent_ns, server->answered_ns);
    } else if (group->sent_ns) {
        weir_flight_lost(&server->flight);
    }
    group->sent_ns = 0;
}

static void group_answered(struct weir_redis_call *call, const redisReply *reply, bool sent)
{
    struct weir_redis_group *group = (struct weir_redis_group *)call;
    take_out(group, reply != NULL);
    if (!group->work) {
        weir_redis_group_told(group, false);
        weir_redis_group_free(group);
    } else if (reply) {
        take_reply(group, reply);
    } else if (sent || group->server->state != WEIR_REDIS_READY) {
        weir_redis_group_told(group, false);
        group_done(group, sent ? WEIR_EUNKNOWN : WEIR_EDOWN);
    } else {
        group_shed(group);
        group_done(group, WEIR_EDOWN);
    }
}

/* ---- the deadline ---- */

/* A group that has not been written is taken back, so that it is not sent any more. */
static void overdue(struct weir_redis_work *work)
{
    for (struct weir_redis_group *group = work->groups; group; group = group->next) {
        if (!group->pending)
            continue;
        bool unsent = weir_redis_conn_cancel(&group->server->conn, &group->call);
        if (unsent && group->server->answered_ns >= group->asked_ns)
            group_shed(group); /* others were answered in the meantime */
        else
            weir_redis_server_missed(group->server, group->generation);
        group->told = true;
        if (group->sent_ns)
            weir_flight_missed(&group->server->flight, group->sent_ns, uv_hrtime());
        group->status = unsent ? WEIR_EDOWN : WEIR_EUNKNOWN;
        group->pending = !unsent;
    }
    complete(work);
}

void weir_redis_on_deadline(uv_timer_t *timer)
{
    struct weir_redis_engine *engine = timer->data;
    uint64_t now_ms = uv_now(engine->loop);
    engine->armed_ms = 0;
    while (engine->first && engine->first->request->deadline_ns / WEIR_NS_PER_MS <= now_ms)
        overdue(engine->first);
    arm(engine);
}

void weir_redis_requests_end(struct weir_redis_engine *engine)
{
    while (engine->first)
        overdue(engine->first);
}

/* ---- the start ---- */

/* A guess at the engine's time. */
static uint64_t engine_time(const struct weir_redis_engine *engine)
{
    return weir_script_clock_guess(&engine->clock, uv_hrtime(), weir_timing_now(CLOCK_REALTIME));
}

static struct weir_redis_group *make_group(struct weir_redis_work *work, uint16_t slot, size_t ops_max)
{
    struct weir_redis_engine *engine = work->engine;
    struct weir_redis_group *group = malloc(weir_redis_group_size(ops_max));
    if (!group)
        return NULL;
    memset(group, 0, offsetof(struct weir_redis_group, script));
    group->call.write = group_write;
    group->call.answered = group_answered;
    group->engine = engine;
    group->work = work;
    group->slot = slot;
    weir_script_call_init(&group->script, work->request, engine->settings.prefix, engine_time(engine));
    group->next = work->groups;
    work->groups = group;
    work->groups_count++;
    engine->pending++;
    return group;
}

/* One group a slot; false: no memory. */
static bool split(struct weir_redis_work *work)
{
    const struct weir_remote_request *request = work->request;
    bool cluster = work->engine->settings.topology == WEIR_REDIS_CLUSTER;
    for (size_t i = 0; i < request->count; i++) {
        uint16_t slot = cluster ? weir_redis_slot_of_tag(request->ops[i].key.tag) : 0;
        struct weir_redis_group *group = work->groups;
        while (group && group->slot != slot)
            group = group->next;
        if (!group)
            group = make_group(work, slot, request->count - i);
        if (!group)
            return false;
        weir_script_call_add(&group->script, i);
    }
    if (work->groups_count == 1 || request->verb != WEIR_REMOTE_DECIDE)
        return true;
    uint64_t id[2] = { work->engine->client, weir_redis_random(work->engine) ^ ++work->engine->requests };
    for (struct weir_redis_group *group = work->groups; group; group = group->next)
        memcpy(group->script.id, id, sizeof id);
    return true;
}

/* Sends all groups, or none: a slot that cannot be asked fails the request before anything is charged. */
static void send_all(struct weir_redis_work *work)
{
    struct weir_redis_group *group = work->groups;
    work->outstanding = work->groups_count;
    while (group && weir_redis_group_send(group))
        group = group->next;
    if (!group)
        return;
    for (struct weir_redis_group *sent = work->groups; sent != group; sent = sent->next) {
        bool unsent = weir_redis_conn_cancel(&sent->server->conn, &sent->call);
        weir_assert(unsent);
        sent->pending = false;
        weir_redis_server_unsent(sent->server, sent->generation);
    }
    finish(work, WEIR_EDOWN);
}

int weir_redis_submit(struct weir_remote *remote, struct weir_remote_request *request)
{
    struct weir_redis_engine *engine = (struct weir_redis_engine *)remote;
    if (engine->closing || engine->pending >= WEIR_REMOTE_PENDING_MAX)
        return WEIR_EDOWN;
    int error = weir_script_check(request);
    if (error && error != WEIR_EDUP)
        return error;
    struct weir_redis_work *work = calloc(1, sizeof *work);
    if (!work)
        return WEIR_ENOMEM;
    work->engine = engine;
    work->request = request;
    if (!error && !split(work)) {
        let_go(work);
        free(work);
        return WEIR_ENOMEM;
    }
    engine->stats.asked++;
    request->status = 0;
    request->engine_now_ns = 0;
    enlist(work);
    if (error)
        finish(work, error);
    else
        send_all(work);
    return 0;
}
