/* SPDX-License-Identifier: Apache-2.0
 *
 * One server's questions, on connections of the poller's own: how far it is, its times, and by the replication protocol
 * the timeline that it replays and the histories of timelines. */
#include <libpq-fe.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "sessions/branch_table.h"
#include "sessions/servers_inside.h"
#include "weir/error.h"

#define SENDER_RETRY_NS UINT64_C(1000000000)
#define TABLE_RETRY_NS UINT64_C(1000000000)
#define TABLE_AGAIN_NS UINT64_C(10000000000)
#define NUDGE_AFTER_NS UINT64_C(10000000)
#define NUDGE_EVERY_NS UINT64_C(100000000)

/* The time of the last commit that was replayed is its writer's; a primary's own is now. */
static const char times[] = "SELECT coalesce((extract(epoch FROM CASE WHEN pg_catalog.pg_is_in_recovery()"
                            " THEN pg_catalog.pg_last_xact_replay_timestamp() ELSE pg_catalog.clock_timestamp() END)"
                            " OPERATOR(pg_catalog.*) 1000000::numeric)::bigint, 0)";

/* A transaction of its own, flushed at once and not waiting for standbys. */
static const char nudge[] = "SET LOCAL synchronous_commit = local;"
                            " SELECT pg_catalog.pg_logical_emit_message(true, 'weir', '')";

static void say(char ret_text[WEIR_ASK_TEXT_SIZE], const char *text)
{
    (void)snprintf(ret_text, WEIR_ASK_TEXT_SIZE, "%s", text);
}

void weir_poller_drop(struct weir_poller *poller)
{
    PQfinish(poller->conn); /* does not block: the connection does not */
    PQfinish(poller->sender);
    poller->conn = poller->sender = NULL;
    weir_settling_end(&poller->settling);
}

static int connect_to(struct weir_poller *poller, uint64_t deadline_ns, char ret_fault[WEIR_ASK_TEXT_SIZE])
{
    int error = weir_ask_connect(poller->conninfo->text, NULL, deadline_ns, &poller->conn, ret_fault);
    if (error)
        return error;
    error = weir_shown_fixed(poller->conn, deadline_ns, &poller->fixed);
    if (error) {
        say(ret_fault, weir_shown_why_not(error));
        weir_poller_drop(poller);
        return error;
    }
    poller->generation = 0; /* a new one is to be drawn */
    return 0;
}

/* ---- the replication protocol ---- */

/* A connection for a database: what pg_hba.conf says of that counts, and commands of the protocol are understood. */
static bool have_sender(struct weir_poller *poller, uint64_t deadline_ns)
{
    static const char *const extra[] = { "replication", "database", NULL };
    if (poller->sender)
        return true;
    if (weir_ask_now_ns() < poller->sender_not_before_ns)
        return false;
    poller->sender_not_before_ns = weir_ask_now_ns() + SENDER_RETRY_NS;
    return weir_ask_connect(poller->conninfo->text, extra, deadline_ns, &poller->sender, poller->sender_fault) == 0;
}

/* NULL: not to be had. */
static PGresult *command(struct weir_poller *poller, const char *text, uint64_t deadline_ns,
                         struct weir_poll_result *answer)
{
    PGresult *result = NULL;
    if (!have_sender(poller, deadline_ns)) {
        result = NULL;
    } else if (weir_ask(poller->sender, text, deadline_ns, &result) != 0) {
        say(poller->sender_fault, "the connection for replication broke");
        PQfinish(poller->sender);
        poller->sender = NULL;
    } else if (PQresultStatus(result) == PGRES_TUPLES_OK && PQntuples(result) == 1 && PQnfields(result) >= 2) {
        return result;
    } else {
        const char *message = PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);
        say(poller->sender_fault, message ? message : "an answer of replication that is none of ours");
        PQclear(result);
    }
    answer->remark.alone = true;
    say(answer->remark.fault, poller->sender_fault);
    return NULL;
}

/* On a standby: the timeline that it replays. Asked after its position, which lies in that one's history. */
static void ask_timeline(struct weir_poller *poller, uint64_t deadline_ns, struct weir_poll_result *answer)
{
    PGresult *result = command(poller, "IDENTIFY_SYSTEM", deadline_ns, answer);
    if (!result)
        return;
    answer->reply.shown.timeline = (uint32_t)strtoul(PQgetvalue(result, 0, 1), NULL, 10);
    PQclear(result);
}

static void ask_history(struct weir_poller *poller, uint64_t deadline_ns, struct weir_poll_result *answer)
{
    char text[64];
    if (weir_ask_now_ns() < poller->history_not_before_ns) {
        answer->remark.alone = true;
        say(answer->remark.fault, poller->sender_fault);
        return;
    }
    (void)snprintf(text, sizeof text, "TIMELINE_HISTORY %u", (unsigned)answer->reply.shown.timeline);
    PGresult *result = command(poller, text, deadline_ns, answer);
    poller->history_not_before_ns = result ? 0 : weir_ask_now_ns() + SENDER_RETRY_NS;
    if (!result)
        return;
    answer->reply.with_history = weir_history_parse(answer->reply.shown.timeline, PQgetvalue(result, 0, 1),
                                                    (size_t)PQgetlength(result, 0, 1), &answer->reply.history) == 0;
    PQclear(result);
}

/* ---- the branch table ---- */

static bool is_looked_up(const struct weir_shown *looked, const struct weir_shown *now)
{
    return looked->system == now->system && looked->started == now->started && looked->timeline == now->timeline &&
           looked->primary == now->primary;
}

static int look_up(struct weir_poller *poller, uint64_t deadline_ns, struct weir_poll_result *answer)
{
    const struct weir_shown *shown = &answer->reply.shown;
    struct weir_branches branches;
    poller->table_fault[0] = '\0';
    int error = weir_branch_table_look(poller->conn, poller->servers->options.branch_table, shown, deadline_ns,
                                       &branches, poller->table_fault);
    poller->table_not_before_ns = weir_ask_now_ns() + (error ? TABLE_RETRY_NS : TABLE_AGAIN_NS);
    if (error)
        return error == WEIR_EIO ? error : 0;
    answer->reply.looked = true;
    answer->reply.branches = branches;
    if (weir_branches_find(&branches, shown->timeline)) {
        poller->looked = *shown;
        poller->branches = branches;
    }
    return 0;
}

/* A row does not change what it says of a standby. A primary's run is looked for again now and then: somebody may have
 * emptied the table, or put another in its place. What is not there yet, as at a standby that has not replayed its row,
 * is looked for with every poll; a table that cannot be had, each second. A primary on timeline 1 needs no row: whether
 * there is a table that will do is looked at all the same, so that who forgot it hears of it before the failover. */
static int ask_table(struct weir_poller *poller, uint64_t deadline_ns, struct weir_poll_result *answer)
{
    const struct weir_shown *shown = &answer->reply.shown;
    bool first = shown->timeline <= 1;
    if (!poller->servers->options.branch_table || (first && !shown->primary))
        return 0;
    bool found = is_looked_up(&poller->looked, shown);
    bool rests = (found || first || poller->table_fault[0]) && weir_ask_now_ns() < poller->table_not_before_ns;
    if (found)
        answer->reply.branches = poller->branches;
    int error = rests || (found && !shown->primary) ? 0 : look_up(poller, deadline_ns, answer);
    say(answer->remark.table_fault, poller->table_fault);
    return error;
}

/* ---- the rest ---- */

/* A statement of one number; 0 where there is none. */
static int ask_number(struct weir_poller *poller, const char *text, uint64_t deadline_ns, uint64_t *ret_number)
{
    PGresult *result;
    int error = weir_ask(poller->conn, text, deadline_ns, &result);
    if (error)
        return error;
    bool one = PQresultStatus(result) == PGRES_TUPLES_OK && PQntuples(result) == 1 && !PQgetisnull(result, 0, 0) &&
               PQgetvalue(result, 0, 0)[0] != '-';
    *ret_number = one ? strtoull(PQgetvalue(result, 0, 0), NULL, 10) : 0;
    PQclear(result);
    return 0;
}

/* A record that no commit follows (what a read tidied up, a transaction that was rolled back) may stay unflushed for a
 * quarter of a minute, and a token that was taken beyond it is shown by no standby for as long. Where somebody waits,
 * a commit of nothing takes it along. What it answers does not matter. */
static int flush_for_waiters(struct weir_poller *poller, const struct weir_shown *shown, bool waited,
                             uint64_t deadline_ns)
{
    PGresult *result;
    uint64_t now_ns = weir_ask_now_ns();
    if (!shown->primary || shown->flushed >= shown->position) {
        poller->unflushed_ns = 0;
        return 0;
    }
    if (!poller->unflushed_ns)
        poller->unflushed_ns = now_ns;
    if (!waited || now_ns - poller->unflushed_ns < NUDGE_AFTER_NS || now_ns - poller->nudged_ns < NUDGE_EVERY_NS)
        return 0;
    poller->nudged_ns = now_ns;
    int error = weir_ask(poller->conn, nudge, deadline_ns, &result);
    if (!error)
        PQclear(result);
    return error;
}

/* Where the numbers say that nobody runs, that is all. Else it takes a look at who runs, or several, for who waits.
 * When those of the first look are gone those are awaited that run then: under writers that never pause it goes on. */
static int ask_settled(struct weir_poller *poller, bool waited, uint64_t deadline_ns, struct weir_poll_result *answer)
{
    bool settled = false;
    if (!answer->reply.shown.primary || answer->reply.shown.settled) {
        weir_settling_end(&poller->settling);
        answer->reply.settled_ns = answer->reply.shown.settled ? answer->reply.begun_ns : 0;
        return 0;
    }
    if (!waited)
        return 0;
    int error = weir_settling_look(&poller->settling, poller->conn, deadline_ns, &settled);
    if (settled) {
        answer->reply.settled_ns = poller->settling.begun_ns;
        weir_settling_end(&poller->settling);
    }
    return error == WEIR_EIO ? error : 0; /* refused this time: the rest of the answer is good */
}

static int ask_round(struct weir_poller *poller, const struct weir_known *known, bool waited,
                     struct weir_poll_result *answer)
{
    const struct weir_servers_options *options = &poller->servers->options;
    uint64_t deadline_ns = answer->reply.begun_ns + options->timeout_ns;
    int error = weir_shown_ask(poller->conn, &poller->fixed, deadline_ns, &answer->reply.shown);
    if (error)
        return error;
    if (!answer->reply.shown.timeline)
        ask_timeline(poller, deadline_ns, answer);
    uint32_t branch = weir_health_branch(&poller->health, &answer->reply.shown);
    if (branch && !weir_known_find(known, answer->reply.shown.timeline, branch))
        ask_history(poller, deadline_ns, answer);
    error = ask_table(poller, deadline_ns, answer);
    if (error)
        return error;
    uint64_t replayed_us = 0;
    error = ask_number(poller, times, deadline_ns, &replayed_us);
    answer->reply.replayed_ns = weir_mul_sat(replayed_us, 1000);
    if (!error && options->clock_query)
        error = ask_number(poller, options->clock_query, deadline_ns, &answer->reply.clock);
    if (!error)
        error = flush_for_waiters(poller, &answer->reply.shown, waited, deadline_ns);
    if (!error)
        error = ask_settled(poller, waited, deadline_ns, answer);
    return error;
}

/* A connection that was ended between two rounds is no reason to call the server down: it is asked once more. */
int weir_poller_ask(struct weir_poller *poller, const struct weir_known *known, bool waited,
                    struct weir_poll_result *ret_answer, char ret_fault[WEIR_ASK_TEXT_SIZE])
{
    uint64_t timeout_ns = poller->servers->options.timeout_ns;
    uint64_t deadline_ns = weir_ask_now_ns() + timeout_ns;
    int error = WEIR_EIO;
    for (int attempt = 0; attempt < 2 && error == WEIR_EIO && weir_ask_now_ns() < deadline_ns; attempt++) {
        if (!poller->conn) {
            attempt++;
            error = connect_to(poller, deadline_ns, ret_fault);
            if (error)
                return error;
        }
        *ret_answer = (struct weir_poll_result){
            .reply = { .begun_ns = weir_ask_now_ns(), .page_size = poller->fixed.page_size },
            .remark = { .segment_size = poller->fixed.segment_size },
        };
        error = ask_round(poller, known, waited, ret_answer);
        if (error == WEIR_EIO)
            weir_poller_drop(poller);
    }
    if (error)
        say(ret_fault, error == WEIR_EIO ? "it does not answer, or ended the connection" : "it refused the question");
    return error;
}
