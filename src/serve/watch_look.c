/* SPDX-License-Identifier: Apache-2.0
 *
 * The list of what is watched: for each subject its state or count, the level, and the words of its line. Each look
 * tells all of them, changed or not; watch.c decides whether a line is due. (Refusals go by refusal_lines.c.) What
 * may still be connecting is not told in the first 3 s. Called by server.c every 250 ms. */
#include "serve/watch_look.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/siphash.h"
#include "observe/tracer.h"
#include "serve/follower.h"
#include "serve/nodes.h"
#include "serve/refusal_lines.h"
#include "serve/saver.h"
#include "serve/sessions.h"

#define ALONE(kind) ((struct weir_subject){ (kind), "" })
#define CONNECTING_NS (3 * WEIR_NS_PER_SECOND)

#define OF(member) offsetof(struct weir_counters, member)

/* What is down may still be connecting when the server has only begun. */
static bool may_tell(const struct weir_watch *watch, bool up)
{
    return up || weir_watch_age_ns(watch) >= CONNECTING_NS;
}

/* Tells one text from another, as a state; 0: there is none. */
static unsigned state_of(const char *text)
{
    static const struct weir_sip_key fixed = { 0, 0 }; /* the texts are our own */
    return text && text[0] ? (unsigned)weir_siphash(&fixed, text, strlen(text)) | 1 : 0;
}

/* ---- the engine ---- */

static void look_at_server(struct weir_watch *watch, const struct weir_nodes_server *server)
{
    bool closed = weir_nodes_breaker(server) == WEIR_BREAKER_CLOSED;
    bool connected = strcmp(server->state, "connected") == 0;
    if (may_tell(watch, connected))
        weir_watch_state(watch, (struct weir_subject){ "engine_server", server->address }, connected, connected,
                         connected ? WEIR_LOG_INFO : WEIR_LOG_WARN,
                         connected ? "engine_server_back" : "engine_server_lost", "%s is %s", server->address,
                         server->state);
    weir_watch_state(watch, (struct weir_subject){ "breaker", server->address }, closed, closed,
                     closed ? WEIR_LOG_INFO : WEIR_LOG_WARN, closed ? "breaker_closed" : "breaker_open",
                     closed ? "%s is asked again"
                            : "%s is not asked for a while, because it did not answer, or refused to",
                     server->address);
    if (connected && server->role[0])
        weir_watch_state(watch, (struct weir_subject){ "engine_role", server->address }, (unsigned char)server->role[0],
                         true, WEIR_LOG_WARN, "engine_role", "%s is %s now", server->address, server->role);
    weir_watch_state(watch, (struct weir_subject){ "engine_warning", server->address }, state_of(server->warning),
                     !server->warning, server->warning ? WEIR_LOG_WARN : WEIR_LOG_INFO, "engine_warning", "%s: %s",
                     server->address, server->warning ? server->warning : "mended");
}

static void look_at_engine(struct weir_watch *watch, const struct weir_nodes_engine *engine)
{
    if (engine->ready)
        weir_watch_state(watch, ALONE("engine"), true, true, WEIR_LOG_INFO, "engine_back", "%s answers", engine->name);
    else if (may_tell(watch, false))
        weir_watch_state(watch, ALONE("engine"), false, false, WEIR_LOG_ERROR, "engine_lost",
                         "%s cannot be asked, on_failure decides: %s", engine->name,
                         engine->last_error ? engine->last_error : "no answer yet");
    weir_watch_event(watch, ALONE("engine_state_lost"), engine->losses, WEIR_LOG_ERROR,
                     "the engine has lost state: each key may admit one capacity more");
    weir_watch_event(watch, ALONE("engine_primary"), engine->primary_changes, WEIR_LOG_WARN,
                     "another server of the engine is the primary now");
    weir_watch_condition(watch, ALONE("engine_corrupt"), engine->corrupt, WEIR_LOG_ERROR,
                         "values under our keys at the engine are not ours");
    for (size_t i = 0; i < engine->servers_count; i++)
        look_at_server(watch, &engine->servers[i]);
}

static void look_at_fallbacks(struct weir_watch *watch, struct weir_metrics *metrics, uint32_t slot)
{
    static const struct {
        const char *kind;
        enum weir_log_level level;
        const char *text;
    } policies[WEIR_FALLBACK_POLICIES] = {
        [WEIR_FALLBACK_LOCAL] = { "fallback_local", WEIR_LOG_WARN,
                                  "decided by this node's share, because the engine failed" },
        [WEIR_FALLBACK_OPEN] = { "fallback_open", WEIR_LOG_ERROR,
                                 "admitted without any bound, because the engine failed" },
        [WEIR_FALLBACK_CLOSED] = { "fallback_closed", WEIR_LOG_ERROR, "refused, because the engine failed" },
    };
    uint64_t counts[WEIR_FALLBACK_POLICIES];
    weir_metrics_fallbacks(metrics, slot, counts);
    for (size_t i = WEIR_FALLBACK_NONE + 1; i < WEIR_FALLBACK_POLICIES; i++)
        if (counts[i] > 0)
            weir_watch_condition(watch, (struct weir_subject){ policies[i].kind, weir_metrics_name(metrics, slot) },
                                 counts[i], policies[i].level, policies[i].text);
}

/* ---- whom no limit counts ---- */

static void look_at_lacks(struct weir_watch *watch, struct weir_metrics *metrics, uint32_t slot)
{
    static const struct {
        const char *kind, *text;
    } lacks[WEIR_LACKS] = {
        [WEIR_LACK_SKIPPED] = { "missing_skipped",
                                "requests are not limited by it, because they lack an attribute of its key" },
        [WEIR_LACK_SHARED] = { "missing_shared", "requests that lack an attribute of its key are counted together" },
        [WEIR_LACK_SHADOWED] = { "missing_shadow_refused",
                                 "requests that lack an attribute of its key would be refused, but for shadow" },
        [WEIR_LACK_REFUSED] = { "missing_refused", "requests are refused, because they lack an attribute of its key" },
    };
    uint64_t counts[WEIR_LACKS];
    weir_metrics_lacks(metrics, slot, counts);
    for (size_t i = 0; i < WEIR_LACKS; i++)
        if (counts[i] > 0)
            weir_watch_condition(watch, (struct weir_subject){ lacks[i].kind, weir_metrics_name(metrics, slot) },
                                 counts[i], WEIR_LOG_WARN, lacks[i].text);
}

/* What the loops count, of callers that do not get what they ask for, or more. */
static const struct {
    const char *kind;
    size_t offset; /* in struct weir_counters */
    enum weir_log_level level;
    const char *text;
} counted[] = {
    { "unmatched_admitted", OF(unmatched_admitted), WEIR_LOG_WARN, "requests meet no limit and are admitted" },
    { "unmatched_refused", OF(unmatched_refused), WEIR_LOG_WARN,
      "requests meet no limit and are refused (unmatched: refuse)" },
    { "exceptions_level", OF(levels_unknown), WEIR_LOG_WARN,
      "exceptions give keys a level that their limit does not have, and do nothing: weir rules exceptions lists them" },
    { "auth_unserved", OF(auth_unserved), WEIR_LOG_WARN,
      "/v1/auth is asked and not served: say which proxy asks (listen: { http: { forwarded } })" },
    { "claims_ignored", OF(claims_ignored), WEIR_LOG_WARN,
      "/v1/auth: route, method, ip or cost claimed by what does not state them, and ignored" },
    { "releases_foreign", OF(releases_foreign), WEIR_LOG_WARN,
      "permits are released here that this node did not give, or gave before its restart: release at the node that "
      "gave the permit, or it is out until its lease ends" },
    { "releases_ended", OF(releases_ended), WEIR_LOG_WARN,
      "permits are released that are over: their lease had ended, or they had been given back" },
    { "foreign_refused", OF(foreign_refused), WEIR_LOG_WARN, "requests of other sites' web pages are refused" },
    { "hosts_refused", OF(hosts_refused), WEIR_LOG_WARN,
      "requests to a name that is not ours are refused (listen: { http: { hosts } })" },
    { "live_cut", OF(live_cut), WEIR_LOG_WARN,
      "readers of GET /v1/live do not take what they are sent, and are cut off" },
    { "connections_shed", OF(connections_shed), WEIR_LOG_ERROR,
      "connections are closed, because the buffers of all take server.buffer_bytes_max" },
    { "connections_refused", OF(connections_refused), WEIR_LOG_ERROR,
      "connections are refused, because there are too many" },
};

static void look_at_counted(struct weir_watch *watch, const struct weir_common *common)
{
    for (size_t i = 0; i < sizeof(counted) / sizeof(counted[0]); i++)
        weir_watch_condition(watch, ALONE(counted[i].kind), weir_loops_counted(common, counted[i].offset),
                             counted[i].level, counted[i].text);
}

static void look_at_guesses(struct weir_watch *watch, const struct weir_common *common)
{
    char text[WEIR_WATCH_MESSAGE_MAX], from[WEIR_GUESS_FROM_TEXT_MAX];
    uint64_t wrong = weir_loops_counted(common, OF(tokens_wrong)),
             unseen = weir_loops_counted(common, OF(tokens_unseen));
    weir_guess_from_text(atomic_load(&common->guesses.wrong_from), from);
    (void)snprintf(text, sizeof(text), "callers show tokens that are not known here, the last from %s", from);
    weir_watch_condition(watch, ALONE("tokens_wrong"), wrong, WEIR_LOG_WARN, text);
    weir_guess_from_text(atomic_load(&common->guesses.unseen_from), from);
    (void)snprintf(text, sizeof(text),
                   "tokens are guessed: those from an address that showed too many wrong ones are not looked at, "
                   "the last from %s",
                   from);
    weir_watch_condition(watch, ALONE("tokens_unseen"), unseen, WEIR_LOG_ERROR, text);
}

/* Proxies keep the answer to themselves: the log alone says what is wrong. */
static void look_at_auth(struct weir_watch *watch, const struct weir_common *common)
{
    char text[WEIR_WATCH_MESSAGE_MAX];
    const char *why = atomic_load_explicit(&common->auth_refused_why, memory_order_relaxed);
    if (!why)
        return;
    (void)snprintf(text, sizeof(text), "/v1/auth is refused: %s", why);
    weir_watch_condition(watch, ALONE("auth_refused"), weir_loops_counted(common, OF(auth_refused)), WEIR_LOG_WARN,
                         text);
}

static void look_at_limits(struct weir_watch *watch, const struct weir_common *common)
{
    size_t slots = weir_metrics_slots(common->metrics);
    for (uint32_t slot = 0; slot < slots; slot++) {
        look_at_fallbacks(watch, common->metrics, slot);
        look_at_lacks(watch, common->metrics, slot);
    }
}

/* ---- nodes, locks, sessions ---- */

static void look_at_member(struct weir_watch *watch, const struct weir_nodes_member *member)
{
    bool alive = strcmp(member->state, "alive") == 0 || strcmp(member->state, "self") == 0;
    if (may_tell(watch, alive))
        weir_watch_state(watch, (struct weir_subject){ "node", member->name }, (unsigned char)member->state[0], alive,
                         alive ? WEIR_LOG_INFO : WEIR_LOG_WARN, alive ? "node_alive" : "node_gone", "node %s is %s%s",
                         member->name, strcmp(member->state, "unknown") == 0 ? "not heard of" : member->state,
                         strcmp(member->state, "suspect") == 0 ? ": nothing is heard of it" : "");
    if (member->epoch)
        weir_watch_state(watch, (struct weir_subject){ "node_start", member->name },
                         (unsigned)(member->epoch ^ member->epoch >> 32), true, WEIR_LOG_INFO, "node_restarted",
                         "node %s has started anew: what it admitted and had not told is counted as its share",
                         member->name);
}

static void look_at_gossip(struct weir_watch *watch, const struct weir_nodes_gossip *gossip)
{
    for (size_t i = 0; i < gossip->members_count; i++)
        look_at_member(watch, &gossip->members[i]);
    if (may_tell(watch, gossip->synced))
        weir_watch_state(watch, ALONE("gossip"), gossip->synced != 0, gossip->synced != 0,
                         gossip->synced ? WEIR_LOG_INFO : WEIR_LOG_WARN,
                         gossip->synced ? "gossip_synced" : "gossip_unsynced",
                         gossip->synced ? "this node knows what the other nodes know"
                                        : "no other node has told what it knows: gossiped keys count as empty when "
                                          "this node started");
    weir_watch_condition(watch, ALONE("node_twin"), gossip->twins, WEIR_LOG_ERROR,
                         "another node sends under this node's name, or this one was started before with its clock "
                         "ahead");
    weir_watch_condition(watch, ALONE("gossip_full"), gossip->refused_full, WEIR_LOG_ERROR,
                         "gossiped keys find no place at this node and are refused: none that it looked at is fresh");
    weir_watch_condition(watch, ALONE("gossip_forged"), gossip->forged, WEIR_LOG_WARN,
                         "datagrams that nobody with our cluster_secret sent");
    weir_watch_condition(watch, ALONE("gossip_foreign"), gossip->foreign, WEIR_LOG_WARN,
                         "datagrams of nodes that are not in cluster.nodes");
}

static void look_at_locks(struct weir_watch *watch, const struct weir_nodes_locks *locks)
{
    if (locks->up || locks->failures == 0)
        weir_watch_state(watch, ALONE("locks"), true, true, WEIR_LOG_INFO, "locks_back",
                         "locks in %s: the store answers again", locks->name);
    else
        weir_watch_state(watch, ALONE("locks"), false, false, WEIR_LOG_ERROR, "locks_lost",
                         "locks in %s: the store cannot be asked: %s", locks->name,
                         locks->fault ? locks->fault : "it does not say why");
    weir_watch_event(watch, ALONE("locks_incarnation"), locks->raised > 1 ? locks->raised : 0, WEIR_LOG_WARN,
                     "the incarnation was raised: tokens granted before are below all new ones");
}

/* What a server that is read lacks: a right, the branch table. */
static void look_at_session_warning(struct weir_watch *watch, const struct weir_sessions_server *server)
{
    bool warns = server->fault[0];
    weir_watch_state(watch, (struct weir_subject){ "session_server_warning", server->name }, state_of(server->fault),
                     !warns, warns ? WEIR_LOG_WARN : WEIR_LOG_INFO, "session_server_warning", "sessions: %s: %s",
                     server->name, warns ? server->fault : "mended");
}

static void look_at_session_users(struct weir_watch *watch, const struct weir_sessions_view *view)
{
    char text[WEIR_WATCH_MESSAGE_MAX];
    weir_watch_event(watch, ALONE("session_users_lost"), view->users_losses, WEIR_LOG_ERROR,
                     "where users are kept has lost state");
    (void)snprintf(text, sizeof(text),
                   "users cannot be looked up: where they are kept does not answer, or the primary does not, "
                   "which is asked for users not seen before%s%s",
                   view->users_fault[0] ? ". What was wrong last: " : "", view->users_fault);
    weir_watch_condition(watch, ALONE("session_users_failed"), view->users_failures, WEIR_LOG_ERROR, text);
}

static void look_at_sessions(struct weir_watch *watch, struct weir_session_service *service)
{
    struct weir_sessions_view view;
    const char *primary = NULL;
    unsigned number = 0;
    weir_session_service_view(service, &view);
    for (size_t i = 0; i < view.servers_count; i++) {
        const struct weir_sessions_server *server = &view.servers[i];
        if (server->primary && server->usable) {
            primary = server->name;
            number = (unsigned)i + 1;
        }
        if (may_tell(watch, server->usable))
            weir_watch_state(watch, (struct weir_subject){ "session_server", server->name }, server->usable,
                             server->usable, server->usable ? WEIR_LOG_INFO : WEIR_LOG_WARN,
                             server->usable ? "session_server_back" : "session_server_gone",
                             server->usable ? "sessions: %s may be read again%s%s" : "sessions: %s is not read%s%s",
                             server->name, !server->usable && server->fault[0] ? ": " : "",
                             server->usable ? "" : server->fault);
        if (server->usable)
            look_at_session_warning(watch, server);
    }
    if (primary)
        weir_watch_state(watch, ALONE("session_primary"), number, true, WEIR_LOG_WARN, "session_primary",
                         "sessions: the primary is %s now", primary);
    else if (may_tell(watch, false))
        weir_watch_state(
            watch, ALONE("session_primary"), 0, false, WEIR_LOG_ERROR, "session_primary_gone",
            "sessions: there is no primary: nothing can be written, and a standby that receives nothing is read "
            "only with behind: stale, or by who has seen nothing yet");
    look_at_session_users(watch, &view);
}

/* ---- this process ---- */

static void look_at_process(struct weir_watch *watch, const struct weir_common *common)
{
    struct weir_limiter_stats stats;
    weir_limiter_stats(common->limiter, &stats);
    weir_watch_condition(watch, ALONE("table_evicted"), stats.evicted, WEIR_LOG_WARN,
                         "keys lose their place while they are not yet fresh: table.memory is too small");
    weir_watch_condition(watch, ALONE("table_refused"), stats.refused_full, WEIR_LOG_ERROR,
                         "keys find no place and are refused: table.memory is too small");
    weir_watch_event(watch, ALONE("clock_jump"), stats.clock_jumps, WEIR_LOG_WARN,
                     "keys were found too far ahead of the clock and set to empty");
}

/* What a restart would forget. */
static void look_at_saver(struct weir_watch *watch, struct weir_saver *saver)
{
    struct weir_saver_view view;
    weir_saver_view(saver, &view);
    if (view.done + view.failed > 0)
        weir_watch_state(watch, ALONE("snapshot"), view.failing, !view.failing,
                         view.failing ? WEIR_LOG_ERROR : WEIR_LOG_INFO,
                         view.failing ? "snapshot_failed" : "snapshot_again",
                         view.failing ? "a restart forgets what was admitted since the last snapshot: %s"
                                      : "snapshots are written to %s again",
                         view.failing ? view.fault : view.path);
}

/* Where spans are sent. What was switched off is no trouble any more. */
static void look_at_tracer(struct weir_watch *watch, struct weir_tracer *tracer)
{
    struct weir_tracer_view view;
    weir_tracer_view(tracer, &view);
    weir_watch_state(watch, ALONE("traces"), view.failing, !view.failing, view.failing ? WEIR_LOG_WARN : WEIR_LOG_INFO,
                     view.failing ? "traces_lost" : "traces_back", "%s%s",
                     view.failing ? "the receiver of traces does not take them: "
                     : view.on    ? "the receiver of traces takes them again"
                                  : "there are no traces any more",
                     view.failing ? view.fault : "");
}

/* Who is banned or has a level. */
static void look_at_exceptions(struct weir_watch *watch, const struct weir_follower_view *view)
{
    weir_watch_state(watch, ALONE("exceptions"), view->exceptions_failing, !view->exceptions_failing,
                     view->exceptions_failing ? WEIR_LOG_ERROR : WEIR_LOG_INFO,
                     view->exceptions_failing ? "exceptions_lost" : "exceptions_back",
                     view->exceptions_failing ? "exceptions cannot be read from the store of rules, %" PRIu64
                                                " exceptions go on, up to change %" PRIu64 ": %s"
                                              : "exceptions are read again; %" PRIu64 " of them, up to change %" PRIu64
                                                "%s",
                     view->exceptions_count + view->exceptions_resets, view->exceptions_change,
                     view->exceptions_failing ? view->exceptions_fault : "");
    weir_watch_state(watch, ALONE("exceptions_kept"), view->exceptions_unkept, !view->exceptions_unkept,
                     view->exceptions_unkept ? WEIR_LOG_ERROR : WEIR_LOG_INFO,
                     view->exceptions_unkept ? "exceptions_unkept" : "exceptions_kept", "%s%s",
                     view->exceptions_unkept
                         ? "exceptions cannot be kept on this machine, so a start without the store of "
                           "rules forgets them: "
                         : "exceptions are kept on this machine again",
                     view->exceptions_unkept ? view->exceptions_keep_fault : "");
    if (view->exceptions_gone_back > 0)
        weir_watch_event(
            watch, ALONE("exceptions_gone_back"), view->exceptions_gone_back, WEIR_LOG_ERROR,
            "bans, levels or resets that were read are not in the store of rules any more, and end: it was "
            "restored from a backup, or another server answers");
    if (view->exceptions_damaged > 0)
        weir_watch_event(watch, ALONE("exceptions_damaged"), view->exceptions_damaged, WEIR_LOG_ERROR,
                         "changes of exceptions are damaged in the store of rules, and not in force");
    if (view->exceptions_unknown > 0)
        weir_watch_event(watch, ALONE("exceptions_unknown"), view->exceptions_unknown, WEIR_LOG_WARN,
                         "exceptions are of a kind that only a later weir knows, and not in force");
    if (view->exceptions_over > 0)
        weir_watch_event(watch, ALONE("exceptions_over"), view->exceptions_over, WEIR_LOG_ERROR,
                         "exceptions found no room here, and are not in force: end some, docs/exceptions.md");
}

/* Where the rules are. */
static void look_at_follower(struct weir_watch *watch, struct weir_follower *follower)
{
    struct weir_follower_view view;
    weir_follower_view(follower, &view);
    weir_watch_state(watch, ALONE("rules"), view.failing, !view.failing, view.failing ? WEIR_LOG_WARN : WEIR_LOG_INFO,
                     view.failing ? "rules_lost" : "rules_back",
                     view.failing ? "the store of rules cannot be asked, version %" PRIu64 " goes on deciding: %s"
                                  : "the store of rules answers again; version %" PRIu64 " decides%s",
                     view.in_force, view.failing ? view.fault : "");
    weir_watch_state(
        watch, ALONE("rules_told"), view.tell_failing, !view.tell_failing,
        view.tell_failing ? WEIR_LOG_WARN : WEIR_LOG_INFO, view.tell_failing ? "rules_untold" : "rules_told",
        view.tell_failing ? "weir rules history does not hear which version this node decides by, which is "
                            "%" PRIu64 " now: %s"
                          : "weir rules history hears again which version this node decides by: %" PRIu64 "%s",
        view.in_force, view.tell_failing ? view.tell_fault : "");
    weir_watch_state(watch, ALONE("rules_behind"), view.behind, !view.behind, WEIR_LOG_WARN,
                     view.behind ? "rules_behind_begun" : "rules_behind_over",
                     view.behind ? "the newest version in the store is %" PRIu64 " and %" PRIu64
                                   " decides: it was restored from a backup; a reload (SIGHUP) takes what it has"
                                 : "the newest version in the store is %" PRIu64 ", and %" PRIu64 " decides",
                     view.newest, view.in_force);
    weir_watch_state(watch, ALONE("rules_kept"), view.keep_failing, !view.keep_failing,
                     view.keep_failing ? WEIR_LOG_ERROR : WEIR_LOG_INFO,
                     view.keep_failing ? "rules_unkept" : "rules_kept", "%s%s",
                     view.keep_failing ? "the rules in force cannot be kept on this machine, so it does not start "
                                         "without their store: "
                                       : "the rules in force are kept on this machine again",
                     view.keep_failing ? view.keep_fault : "");
    look_at_exceptions(watch, &view);
}

/* A newer definition of a limit that this weir does not understand, or that none of us wrote. */
static void look_at_revisions(struct weir_watch *watch, const struct weir_common *common,
                              const struct weir_rules *rules)
{
    weir_watch_condition(watch, ALONE("revision_corrupt"),
                         atomic_load_explicit(&common->revisor.corrupt, memory_order_relaxed), WEIR_LOG_ERROR,
                         "a definition at the engine is not one that we wrote there: no node hears of a newer one of "
                         "that limit until its key is deleted");
    weir_watch_event(
        watch, ALONE("revision_beyond"), atomic_load_explicit(&common->revisor.beyond, memory_order_relaxed),
        WEIR_LOG_ERROR,
        "keys at the engine say a revision that no definition can have: they are not ours, and are decided "
        "by what they say until they are deleted");
    for (size_t i = 0; i < weir_rules_count(rules); i++) {
        const struct weir_rule *rule = weir_rules_limit(rules, i);
        bool undecidable = rule->limit.undecidable;
        if (rule->terms.revision_passed > 0)
            weir_watch_state(watch, (struct weir_subject){ "revision_passed", rule->name },
                             (unsigned)rule->terms.revision, false, WEIR_LOG_WARN, "revision_passed",
                             "%s: revision %" PRIu64 " has the number %" PRIu64 " now: keys said one up to %" PRIu64
                             ", of which no node knows",
                             rule->name, rule->terms.revision_passed, rule->terms.revision, rule->terms.revision - 1);
        if (rule->terms.mode)
            weir_watch_state(watch, (struct weir_subject){ "limit", rule->name }, undecidable, !undecidable,
                             undecidable ? WEIR_LOG_ERROR : WEIR_LOG_INFO,
                             undecidable ? "limit_undecidable" : "limit_decidable",
                             undecidable ? "%s: its newest definition is not understood here, on_failure decides"
                                         : "%s: its newest definition is understood again",
                             rule->name);
    }
}

/* What the loops have picked is taken, whatever the configuration says now. */
static void look_at_refusals(struct weir_watch *watch, struct weir_common *common, const struct weir_setup *setup)
{
    if (common->refusal_lines || weir_refusal_lines_create(&common->refusal_lines) == 0) /* else the next look */
        weir_refusal_lines_write(common->refusal_lines, common, setup, weir_watch_logger(watch));
}

void weir_watch_server(struct weir_watch *watch, struct weir_common *common, const struct weir_setup *setup)
{
    struct weir_nodes_view *view = NULL;
    look_at_refusals(watch, common, setup);
    look_at_process(watch, common);
    look_at_counted(watch, common);
    look_at_guesses(watch, common);
    look_at_auth(watch, common);
    look_at_limits(watch, common);
    look_at_revisions(watch, common, setup->rules);
    if (common->saver)
        look_at_saver(watch, common->saver);
    if (common->tracer)
        look_at_tracer(watch, common->tracer);
    if (common->follower)
        look_at_follower(watch, common->follower);
    if (common->sessions)
        look_at_sessions(watch, common->sessions);
    if (weir_nodes_view_create(common, setup->config, &view))
        return; /* memory is out: the next look comes soon */
    const struct weir_nodes *nodes = weir_nodes_view_of(view);
    if (nodes->engine)
        look_at_engine(watch, nodes->engine);
    weir_watch_condition(watch, ALONE("sharing_untold"), nodes->sharing.untold, WEIR_LOG_WARN,
                         "batched units of keys that left were admitted, and the engine did not confirm them in time: "
                         "it may not count them");
    if (nodes->gossip)
        look_at_gossip(watch, nodes->gossip);
    if (nodes->locks)
        look_at_locks(watch, nodes->locks);
    weir_nodes_view_destroy(view);
}
