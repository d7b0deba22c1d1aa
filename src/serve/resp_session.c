/* SPDX-License-Identifier: Apache-2.0
 *
 * What clients say about themselves and ask about the server when they connect; recipes for each client are in
 * docs/resp.md. */
#include <stdio.h>

#include "serve/resp_call.h"
#include "weir/version.h"

void weir_resp_ping(const struct weir_resp_call *call)
{
    if (call->count == 1)
        weir_resp_reply_simple(call, "PONG");
    else
        weir_resp_reply_bulk(call, call->args[1].data, call->args[1].size);
}

void weir_resp_echo(const struct weir_resp_call *call)
{
    weir_resp_reply_bulk(call, call->args[1].data, call->args[1].size);
}

void weir_resp_quit(const struct weir_resp_call *call)
{
    weir_resp_reply_simple(call, "OK");
    weir_conn_close_after_flush(call->conn);
}

void weir_resp_reset(const struct weir_resp_call *call)
{
    struct weir_resp_session *session = call->session;
    weir_resp_queue_reset(session);
    session->resp3 = false;
    session->name[0] = '\0';
    weir_conn_forget_token(call->conn);
    weir_resp_reply_simple(call, "RESET");
}

void weir_resp_select(const struct weir_resp_call *call)
{
    int64_t number;
    if (!weir_resp_integer(call->args[1], &number))
        weir_resp_reply_error(call, "ERR value is not an integer or out of range");
    else if (number != 0)
        weir_resp_reply_error(call, "ERR DB index is out of range");
    else
        weir_resp_reply_simple(call, "OK");
}

/* ---- who are you ---- */

static const char wrong_pass[] = "WRONGPASS invalid username-password pair or user is disabled.";

/* Said without a look at the token, so that it tells nothing of it. */
static const char no_users[] = "WRONGPASS tokens have no user names here: say AUTH TOKEN, or give the name 'default'";

static const char too_many[] = "ERR too many wrong tokens came from this address: none is looked at for some seconds";

/* NULL or what is wrong. A server without tokens takes any for its default user, as Redis without a password does. */
static const char *authenticate(const struct weir_resp_call *call, struct weir_slice user, struct weir_slice token)
{
    const struct weir_auth *auth = &weir_conn_setup(call->conn)->auth;
    if (!weir_resp_is(user, "default"))
        return no_users;
    if (auth->count == 0)
        return NULL;
    uint64_t wait_ns = 0;
    if (weir_conn_authenticate(call->conn, token, call->time, &wait_ns))
        return NULL;
    return wait_ns > 0 ? too_many : wrong_pass;
}

void weir_resp_auth(const struct weir_resp_call *call)
{
    struct weir_slice user = { "default", 7 };
    if (call->count == 2 && weir_conn_setup(call->conn)->auth.count == 0) {
        weir_resp_reply_error(call, "ERR AUTH <password> called without any password configured for the default user. "
                                    "Are you sure your configuration is correct?");
        return;
    }
    const char *wrong = authenticate(call, call->count == 3 ? call->args[1] : user, call->args[call->count - 1]);
    if (wrong)
        weir_resp_reply_error(call, "%s", wrong);
    else
        weir_resp_reply_simple(call, "OK");
}

static bool is_printable(struct weir_slice text)
{
    const uint8_t *bytes = text.data;
    for (size_t i = 0; i < text.size; i++) {
        if (bytes[i] <= ' ' || bytes[i] > '~')
            return false;
    }
    return true;
}

static const char *set_name(struct weir_resp_session *session, struct weir_slice name)
{
    if (name.size >= sizeof(session->name) || !is_printable(name))
        return "ERR Client names cannot contain spaces, newlines or special characters, nor be longer than 63 bytes.";
    memcpy(session->name, name.data, name.size);
    session->name[name.size] = '\0';
    return NULL;
}

/* The options of HELLO, in order; NULL or what is wrong. */
static const char *hello_options(const struct weir_resp_call *call)
{
    const char *wrong = NULL;
    size_t i = 2;
    while (i < call->count && !wrong) {
        if (weir_resp_is(call->args[i], "auth") && call->count - i >= 3) {
            wrong = authenticate(call, call->args[i + 1], call->args[i + 2]);
            i += 3;
        } else if (weir_resp_is(call->args[i], "setname") && call->count - i >= 2) {
            wrong = set_name(call->session, call->args[i + 1]);
            i += 2;
        } else {
            wrong = "ERR Syntax error in HELLO option";
        }
    }
    if (!wrong && call->conn->rights == 0)
        wrong = "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO <proto> AUTH "
                "<user> <pass> option can be used to authenticate the client and select the RESP protocol version at "
                "the same time";
    return wrong;
}

void weir_resp_hello(const struct weir_resp_call *call)
{
    int64_t version = call->session->resp3 ? 3 : 2;
    if (call->count > 1 && (!weir_resp_integer(call->args[1], &version) || version < 2 || version > 3)) {
        weir_resp_reply_error(call, "NOPROTO unsupported protocol version");
        return;
    }
    const char *wrong = hello_options(call);
    if (wrong) {
        weir_resp_reply_error(call, "%s", wrong);
        return;
    }
    call->session->resp3 = version == 3;
    weir_resp_reply_map(call, 7);
    weir_resp_reply_text(call, "server");
    weir_resp_reply_text(call, "weir");
    weir_resp_reply_text(call, "version");
    weir_resp_reply_text(call, WEIR_VERSION);
    weir_resp_reply_text(call, "proto");
    weir_resp_reply_integer(call, version);
    weir_resp_reply_text(call, "id");
    weir_resp_reply_integer(call, (int64_t)call->session->id);
    weir_resp_reply_text(call, "mode");
    weir_resp_reply_text(call, "standalone");
    weir_resp_reply_text(call, "role");
    weir_resp_reply_text(call, "master");
    weir_resp_reply_text(call, "modules");
    weir_resp_reply_array(call, 0);
}

/* ---- CLIENT, COMMAND, CONFIG ---- */

static void unknown_subcommand(const struct weir_resp_call *call, const char *command)
{
    struct weir_resp_shown shown;
    weir_resp_reply_error(call, "ERR unknown subcommand '%s' of %s", weir_resp_show(call->args[1], &shown), command);
}

void weir_resp_client(const struct weir_resp_call *call)
{
    struct weir_slice what = call->args[1];
    const char *wrong = NULL;
    if (weir_resp_is(what, "setinfo") && call->count == 4) {
        weir_resp_reply_simple(call, "OK");
    } else if (weir_resp_is(what, "setname") && call->count == 3) {
        wrong = set_name(call->session, call->args[2]);
        if (wrong)
            weir_resp_reply_error(call, "%s", wrong);
        else
            weir_resp_reply_simple(call, "OK");
    } else if (weir_resp_is(what, "getname") && call->count == 2) {
        if (call->session->name[0])
            weir_resp_reply_text(call, call->session->name);
        else
            weir_resp_reply_null(call);
    } else if (weir_resp_is(what, "id") && call->count == 2) {
        weir_resp_reply_integer(call, (int64_t)call->session->id);
    } else {
        unknown_subcommand(call, "CLIENT");
    }
}

/* Clients that ask for documentation get along without it. */
void weir_resp_command_info(const struct weir_resp_call *call)
{
    if (call->count == 1)
        weir_resp_reply_array(call, 0);
    else if (weir_resp_is(call->args[1], "docs"))
        weir_resp_reply_map(call, 0);
    else if (weir_resp_is(call->args[1], "count"))
        weir_resp_reply_integer(call, 0);
    else
        unknown_subcommand(call, "COMMAND");
}

/* redis-benchmark asks for these two; there is nothing to persist. */
void weir_resp_config(const struct weir_resp_call *call)
{
    if (!weir_resp_is(call->args[1], "get") || call->count != 3) {
        unknown_subcommand(call, "CONFIG");
        return;
    }
    bool save = weir_resp_is(call->args[2], "save");
    if (!save && !weir_resp_is(call->args[2], "appendonly")) {
        weir_resp_reply_map(call, 0);
        return;
    }
    weir_resp_reply_map(call, 1);
    weir_resp_reply_text(call, save ? "save" : "appendonly");
    weir_resp_reply_text(call, save ? "" : "no");
}

/* ---- INFO ---- */

struct totals {
    uint64_t opened, closed, refused, commands, requests;
};

static uint64_t counted(const _Atomic uint64_t *counter)
{
    return atomic_load_explicit(counter, memory_order_relaxed);
}

static struct totals add_up(const struct weir_common *common)
{
    struct totals totals = { 0 };
    for (size_t i = 0; i < common->loop_count; i++) {
        const struct weir_counters *counters = &common->loops[i].counters;
        totals.opened += counted(&counters->connections_opened);
        totals.closed += counted(&counters->connections_closed);
        totals.refused += counted(&counters->connections_refused);
        totals.commands += counted(&counters->commands);
        totals.requests += counted(&counters->requests);
    }
    return totals;
}

/* Anybody may know that we are here and not loading, which some clients insist on; numbers need the right to them. */
void weir_resp_info(const struct weir_resp_call *call)
{
    char text[1024];
    int size = snprintf(text, sizeof(text),
                        "# Server\r\nweir_version:%s\r\nredis_mode:standalone\r\n"
                        "# Persistence\r\nloading:0\r\n# Replication\r\nrole:master\r\n",
                        WEIR_VERSION);
    if (call->conn->rights & WEIR_RIGHT_METRICS) {
        const struct totals totals = add_up(call->conn->loop->common);
        struct weir_limiter_stats stats;
        weir_limiter_stats(call->conn->loop->limiter, &stats);
        size += snprintf(text + size, sizeof(text) - (size_t)size,
                         "# Clients\r\nconnected_clients:%llu\r\n# Memory\r\nused_memory:%llu\r\nmaxmemory:%llu\r\n"
                         "# Stats\r\ntotal_connections_received:%llu\r\nrejected_connections:%llu\r\n"
                         "total_commands_processed:%llu\r\nhttp_requests:%llu\r\nkeys:%llu\r\nevicted_keys:%llu\r\n",
                         (unsigned long long)(totals.opened - totals.closed), (unsigned long long)stats.memory_used,
                         (unsigned long long)stats.memory_max, (unsigned long long)totals.opened,
                         (unsigned long long)totals.refused, (unsigned long long)totals.commands,
                         (unsigned long long)totals.requests, (unsigned long long)stats.keys,
                         (unsigned long long)stats.evicted);
    }
    weir_resp_reply_bulk(call, text, (size_t)size);
}
