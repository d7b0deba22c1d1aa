/* SPDX-License-Identifier: Apache-2.0
 *
 * One walk over the servers, survey(), finds the best standby that is OK, the furthest that is behind, one that stands
 * still, and why the others refuse; choose_behind() decides where none is OK. Sticky, window and writes have functions
 * of their own. Called by policy.c; serve/ and sessions call it for the leader too. */
#include "core/session/route.h"

#include "base/assert.h"
#include "base/bytes.h"
#include "base/checked.h"
#include "base/siphash.h"
#include "weir/error.h"

/* The key is no secret: whoever picks its session's id picks its own server, and no other's. */
uint64_t weir_route_score(uint64_t server, uint64_t session)
{
    static const struct weir_sip_key key = { 0, 0 };
    uint8_t pair[16];
    weir_little_put(weir_little_put(pair, server, 8), session, 8);
    return weir_siphash(&key, pair, sizeof pair);
}

int weir_lamport_after(uint64_t own, uint64_t seen, uint64_t *ret_clock)
{
    uint64_t clock = weir_max_u64(own, seen);
    if (clock == UINT64_MAX)
        return WEIR_ERANGE;
    weir_assert(clock >= own && clock >= seen);
    *ret_clock = clock + 1;
    return 0;
}

static bool is_cut_off(const struct weir_route_server *servers, unsigned count, const struct weir_shown *primary)
{
    for (unsigned i = 0; i < count; i++)
        if (servers[i].shown.system == primary->system && servers[i].shown.timeline > primary->timeline)
            return true;
    return false;
}

uint32_t weir_route_leader(const struct weir_route_server *servers, unsigned count)
{
    uint32_t leader = WEIR_ROUTE_NONE;
    weir_assert(count <= WEIR_ROUTE_SERVERS_MAX);
    for (uint32_t i = 0; i < count; i++) {
        const struct weir_shown *shown = &servers[i].shown;
        if (!servers[i].usable || !shown->primary || is_cut_off(servers, count, shown))
            continue;
        if (leader == WEIR_ROUTE_NONE)
            leader = i;
        else if (servers[leader].shown.system != shown->system || servers[leader].shown.run != shown->run ||
                 servers[leader].shown.started != shown->started)
            return WEIR_ROUTE_NONE;
    }
    weir_assert(leader == WEIR_ROUTE_NONE || (servers[leader].usable && servers[leader].shown.primary));
    return leader;
}

/* ---- what the strategies say of one server ---- */

/* The server on the highest timeline of a system, the leader before others: what its history has not is cut off. */
static const struct weir_shown *truth_of(const struct weir_route_request *request, uint32_t leader, uint64_t system)
{
    const struct weir_shown *truth = NULL;
    if (leader != WEIR_ROUTE_NONE && request->servers[leader].shown.system == system)
        truth = &request->servers[leader].shown;
    for (unsigned i = 0; i < request->server_count; i++) {
        const struct weir_shown *shown = &request->servers[i].shown;
        if (shown->system == system && (!truth || shown->timeline > truth->timeline))
            truth = shown;
    }
    weir_assert(!truth || truth->system == system);
    return truth;
}

/* Has the standby replayed what is not in the true history? */
static bool is_astray(const struct weir_shown *standby, const struct weir_shown *truth, const struct weir_known *known)
{
    weir_assert(standby->system == truth->system && standby->timeline <= truth->timeline);
    if (standby->timeline == truth->timeline) /* by the leader's word only: others know no more than this one */
        return truth->primary && !weir_known_is_same(known, truth->timeline, standby->branch, truth->branch);
    struct weir_place place = {
        .system = standby->system,
        .position = standby->position,
        .timeline = standby->timeline,
        .branch = standby->branch,
    };
    struct weir_shown end = {
        .system = truth->system,
        .position = UINT64_MAX,
        .timeline = truth->timeline,
        .branch = truth->branch,
        .primary = true,
    };
    return weir_place_compare(&place, &end, known) == WEIR_PLACE_LOST;
}

/* What a primary showed before the token came tells its history only: it has gone on since. A run that is over shows
 * when it is asked. */
static enum weir_place_verdict leader_history(const struct weir_route_request *request, const struct weir_shown *shown)
{
    weir_assert(request->token->count <= WEIR_SESSION_PLACES_MAX);
    struct weir_session_token one = { .count = 1 };
    enum weir_place_verdict worst = WEIR_PLACE_OK;
    bool foreign = request->token->count > 0;
    for (unsigned i = 0; i < request->token->count; i++) {
        struct weir_shown since = *shown;
        one.places[0] = request->token->places[i];
        if (one.places[0].system != shown->system)
            continue;
        since.position = UINT64_MAX;
        if (one.places[0].timeline == shown->timeline)
            since.run = one.places[0].run;
        worst = weir_place_worse(worst, weir_session_token_compare(&one, &since, request->known));
        foreign = false;
    }
    return foreign ? WEIR_PLACE_FOREIGN : worst;
}

static bool asked_since(const struct weir_route_request *request, const struct weir_route_server *server)
{
    return request->came_ns != 0 && server->asked_ns > request->came_ns;
}

static bool answers(const struct weir_route_server *server)
{
    return server->usable || server->frozen;
}

/* Somebody who was not asked since may have been promoted, and know better. */
static bool all_asked_since(const struct weir_route_request *request)
{
    for (unsigned i = 0; i < request->server_count; i++)
        if (answers(&request->servers[i]) && !asked_since(request, &request->servers[i]))
            return false;
    return true;
}

/* `settled` is for the check: only a connection that is asked after the token came can tell. */
static enum weir_place_verdict judge_leader(const struct weir_route_request *request,
                                            const struct weir_route_server *server)
{
    struct weir_shown shown = server->shown;
    shown.settled = true;
    shown.told = shown.told && all_asked_since(request);
    if (asked_since(request, server))
        return weir_session_token_compare(request->token, &shown, request->known);
    return leader_history(request, &shown);
}

static enum weir_place_verdict judge(const struct weir_route_request *request, uint32_t index)
{
    weir_assert(index < request->server_count);
    const struct weir_route_server *server = &request->servers[index];
    if (request->strategy == WEIR_SESSION_TRACKED)
        return server->shown.primary ? judge_leader(request, server)
                                     : weir_session_token_compare(request->token, &server->shown, request->known);
    bool reached = request->strategy == WEIR_SESSION_PHYSICAL ? server->replayed_ns >= request->token->stamp_ns
                                                              : server->clock >= request->token->clock;
    return reached || server->shown.primary ? WEIR_PLACE_OK : WEIR_PLACE_BEHIND;
}

/* ---- the choice ---- */

/* The first in a session's order, of those that were offered. */
struct favourite {
    uint32_t index;
    uint64_t score;
};

/* What there is for a read. */
struct field {
    uint32_t leader;
    enum weir_place_verdict of_leader; /* if there is one */
    struct favourite best;             /* a standby that is OK: the one that the session is at, else by rendezvous */
    uint32_t nearest;                  /* one that is behind, the furthest of them; or one of which nothing is proven */
    enum weir_place_verdict of_nearest;
    enum weir_place_verdict refusal; /* of the standbys, where all of them refuse */
    uint32_t frozen;                 /* one that stands still, the furthest of them */
};

static bool serves_reads(const struct weir_route_server *server)
{
    return server->usable && !server->shown.primary;
}

static void offer(struct favourite *favourite, const struct weir_route_server *servers, uint32_t index,
                  uint64_t session)
{
    uint64_t score = weir_route_score(servers[index].id, session);
    bool first = favourite->index == WEIR_ROUTE_NONE || score > favourite->score ||
                 (score == favourite->score && servers[index].id < servers[favourite->index].id);
    if (first)
        *favourite = (struct favourite){ index, score };
}

static void add_near(struct field *field, const struct weir_route_request *request, uint32_t index,
                     enum weir_place_verdict verdict)
{
    const struct weir_route_server *servers = request->servers;
    weir_assert(verdict == WEIR_PLACE_BEHIND || verdict == WEIR_PLACE_UNPROVEN);
    weir_assert(serves_reads(&servers[index]));
    bool nearer = field->nearest == WEIR_ROUTE_NONE ||
                  (verdict == field->of_nearest ? servers[index].shown.position > servers[field->nearest].shown.position
                                                : verdict == WEIR_PLACE_BEHIND);
    if (!nearer)
        return;
    field->nearest = index;
    field->of_nearest = verdict;
}

/* Nobody waits for it. */
static void add_frozen(struct field *field, const struct weir_route_request *request, uint32_t index,
                       enum weir_place_verdict verdict)
{
    const struct weir_route_server *servers = request->servers;
    weir_assert(servers[index].frozen);
    bool refuses = verdict != WEIR_PLACE_OK && verdict != WEIR_PLACE_BEHIND && verdict != WEIR_PLACE_UNPROVEN;
    if (!refuses &&
        (field->frozen == WEIR_ROUTE_NONE || servers[index].shown.position > servers[field->frozen].shown.position))
        field->frozen = index;
}

static struct field survey(const struct weir_route_request *request)
{
    const struct weir_shown *truth = NULL;
    struct field field = {
        .best = { .index = WEIR_ROUTE_NONE },
        .nearest = WEIR_ROUTE_NONE,
        .of_nearest = WEIR_PLACE_BEHIND,
        .refusal = WEIR_PLACE_OK,
        .frozen = WEIR_ROUTE_NONE,
    };
    field.leader = weir_route_leader(request->servers, request->server_count);
    field.of_leader = field.leader == WEIR_ROUTE_NONE ? WEIR_PLACE_BEHIND : judge(request, field.leader);
    for (uint32_t i = 0; i < request->server_count; i++) {
        const struct weir_shown *shown = &request->servers[i].shown;
        if (!serves_reads(&request->servers[i]) && !request->servers[i].frozen)
            continue;
        if (!truth || truth->system != shown->system)
            truth = truth_of(request, field.leader, shown->system);
        enum weir_place_verdict verdict = is_astray(shown, truth, request->known) ? WEIR_PLACE_DIVERGED
                                                                                  : judge(request, i);
        if (request->servers[i].frozen) {
            add_frozen(&field, request, i, verdict);
        } else if (verdict == WEIR_PLACE_OK) {
            if (i == request->stay)
                field.best = (struct favourite){ i, UINT64_MAX };
            else if (field.best.index == WEIR_ROUTE_NONE || field.best.index != request->stay)
                offer(&field.best, request->servers, i, request->session);
        } else if (verdict == WEIR_PLACE_BEHIND || verdict == WEIR_PLACE_UNPROVEN) {
            add_near(&field, request, i, verdict);
        } else {
            field.refusal = weir_place_worse(field.refusal, verdict);
        }
    }
    weir_assert(field.best.index == WEIR_ROUTE_NONE || serves_reads(&request->servers[field.best.index]));
    weir_assert(field.refusal == WEIR_PLACE_OK || field.refusal >= WEIR_PLACE_LOST);
    return field;
}

static struct weir_route refuse(enum weir_place_verdict verdict)
{
    weir_assert(verdict != WEIR_PLACE_OK); /* a reason is told */
    return (struct weir_route){ .server = WEIR_ROUTE_NONE, .verdict = verdict };
}

static struct weir_route go(uint32_t server, enum weir_place_verdict verdict, bool leader)
{
    weir_assert(server != WEIR_ROUTE_NONE);
    return (struct weir_route){ .server = server, .verdict = verdict, .leader = leader };
}

/* What is refused everywhere is told at once: by the leader if there is one, else by all the standbys. */
static bool is_hopeless(const struct field *field, enum weir_place_verdict *ret_verdict)
{
    enum weir_place_verdict verdict = field->refusal;
    if (field->leader != WEIR_ROUTE_NONE)
        verdict = field->of_leader;
    else if (field->nearest != WEIR_ROUTE_NONE)
        return false;
    weir_assert((unsigned)verdict <= WEIR_PLACE_UNPROVEN);
    *ret_verdict = verdict;
    return verdict == WEIR_PLACE_LOST || verdict == WEIR_PLACE_FOREIGN;
}

/* Nobody shows enough, and somebody may come to. */
static struct weir_route choose_behind(const struct weir_route_request *request, const struct field *field)
{
    bool led = field->leader != WEIR_ROUTE_NONE && field->of_leader == WEIR_PLACE_OK;
    enum weir_place_verdict why = field->of_nearest; /* BEHIND where there is none: the leader shows it, say */
    if (field->nearest == WEIR_ROUTE_NONE && !led && field->leader != WEIR_ROUTE_NONE)
        why = field->of_leader;
    else if (field->nearest == WEIR_ROUTE_NONE && !led && field->refusal != WEIR_PLACE_OK)
        why = field->refusal;
    weir_assert(why != WEIR_PLACE_OK);
    bool may_lead = request->behind == WEIR_BEHIND_LEADER || request->behind == WEIR_BEHIND_OTHER;
    /* A server that is alone is no primary to be kept free of reads. */
    if (led && (request->behind == WEIR_BEHIND_OTHER || request->server_count == 1 ||
                (may_lead && field->nearest == WEIR_ROUTE_NONE)))
        return go(field->leader, WEIR_PLACE_OK, true);
    if (request->behind == WEIR_BEHIND_OTHER || request->behind == WEIR_BEHIND_ERROR)
        return refuse(why);
    if (request->wait_left_ns > 0)
        return (struct weir_route){ .server = field->nearest, .verdict = why, .wait = true };
    if (request->behind == WEIR_BEHIND_LEADER && led)
        return go(field->leader, WEIR_PLACE_OK, true);
    uint32_t there = field->nearest != WEIR_ROUTE_NONE ? field->nearest : field->frozen;
    if (request->behind == WEIR_BEHIND_STALE && there != WEIR_ROUTE_NONE)
        return (struct weir_route){ .server = there, .verdict = why, .stale = true };
    return refuse(why);
}

static struct weir_route choose_read(const struct weir_route_request *request)
{
    enum weir_place_verdict verdict;
    struct field field = survey(request);
    if (field.best.index != WEIR_ROUTE_NONE)
        return go(field.best.index, WEIR_PLACE_OK, false);
    if (is_hopeless(&field, &verdict))
        return refuse(verdict);
    return choose_behind(request, &field);
}

/* Whoever is first in the session's order, whatever it shows. */
static struct weir_route choose_sticky(const struct weir_route_request *request)
{
    struct favourite own = { .index = WEIR_ROUTE_NONE };
    for (uint32_t i = 0; i < request->server_count; i++)
        if (serves_reads(&request->servers[i]))
            offer(&own, request->servers, i, request->session);
    uint32_t best = own.index;
    bool leader = best == WEIR_ROUTE_NONE;
    if (leader)
        best = weir_route_leader(request->servers, request->server_count);
    if (best == WEIR_ROUTE_NONE)
        return refuse(WEIR_PLACE_BEHIND);
    return go(best, weir_session_token_compare(request->token, &request->servers[best].shown, request->known), leader);
}

static struct weir_route choose_window(const struct weir_route_request *request)
{
    uint64_t wrote = request->token->wrote_ns;
    if (wrote != 0 && request->wall_ns < weir_add_sat(wrote, request->window_ns)) {
        uint32_t leader = weir_route_leader(request->servers, request->server_count);
        if (leader != WEIR_ROUTE_NONE)
            return go(leader, judge_leader(request, &request->servers[leader]), true);
    }
    return choose_sticky(request);
}

static struct weir_route choose_write(const struct weir_route_request *request)
{
    uint32_t leader = weir_route_leader(request->servers, request->server_count);
    weir_assert(leader == WEIR_ROUTE_NONE || leader < request->server_count);
    bool may_wait = request->wait_left_ns > 0 && request->behind != WEIR_BEHIND_ERROR;
    enum weir_place_verdict verdict = WEIR_PLACE_BEHIND;
    if (leader != WEIR_ROUTE_NONE) {
        verdict = judge_leader(request, &request->servers[leader]);
        if (verdict == WEIR_PLACE_OK)
            return go(leader, verdict, true);
        if (verdict == WEIR_PLACE_LOST || verdict == WEIR_PLACE_FOREIGN)
            return refuse(verdict);
    }
    if (may_wait)
        return (struct weir_route){ .server = leader, .verdict = verdict, .wait = true };
    return refuse(verdict);
}

struct weir_route weir_route_choose(const struct weir_route_request *request)
{
    weir_assert(request->server_count <= WEIR_ROUTE_SERVERS_MAX);
    if (request->write)
        return choose_write(request);
    switch (request->strategy) {
    case WEIR_SESSION_STICKY:
        return choose_sticky(request);
    case WEIR_SESSION_WINDOW:
        return choose_window(request);
    case WEIR_SESSION_TRACKED:
    case WEIR_SESSION_PHYSICAL:
    case WEIR_SESSION_LAMPORT:
        break;
    }
    return choose_read(request);
}

/* ---- when the time is over ---- */

uint32_t weir_route_timeline(const struct weir_known *known, const struct weir_route_server *servers, unsigned count)
{
    uint32_t highest = 0;
    for (unsigned i = 0; known && i < known->history_count; i++)
        highest = known->histories[i].timeline > highest ? known->histories[i].timeline : highest;
    for (unsigned i = 0; i < count; i++)
        highest = servers[i].shown.timeline > highest ? servers[i].shown.timeline : highest;
    weir_assert(count == 0 || highest >= servers[0].shown.timeline);
    return highest;
}

bool weir_route_may_learn(const struct weir_route_request *request)
{
    uint32_t highest = weir_route_timeline(request->known, request->servers, request->server_count);
    bool higher = false;
    for (unsigned i = 0; i < request->token->count; i++)
        higher = higher || request->token->places[i].timeline > highest;
    for (unsigned i = 0; i < request->server_count; i++)
        if (higher && (!answers(&request->servers[i]) || !asked_since(request, &request->servers[i])))
            return true;
    return false;
}

bool weir_route_is_any_usable(const struct weir_route_request *request)
{
    for (unsigned i = 0; i < request->server_count; i++)
        if (request->servers[i].usable)
            return true;
    return false;
}

enum weir_route_end weir_route_end(const struct weir_route_request *request, enum weir_place_verdict verdict)
{
    bool led = weir_route_leader(request->servers, request->server_count) != WEIR_ROUTE_NONE;
    if (verdict == WEIR_PLACE_FOREIGN)
        return WEIR_ROUTE_FOREIGN;
    if (verdict == WEIR_PLACE_LOST || (verdict == WEIR_PLACE_UNPROVEN && led && !weir_route_may_learn(request)))
        return WEIR_ROUTE_LOST;
    return weir_route_is_any_usable(request) && (led || !request->write) ? WEIR_ROUTE_BEHIND : WEIR_ROUTE_DOWN;
}
