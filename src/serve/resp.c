/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of commands, and what is done with each: check its arguments and the caller's rights; wait where earlier
 * replies must come first; decide the CL.THROTTLE batch, unless it joins that; queue it (MULTI) or run it (resp_*.c).
 * Called by conn.c through weir_resp_protocol, which cli/serve.c gives to the server, and by resp_queue.c for EXEC;
 * wire/resp.c parses. */
#include "serve/resp.h"

#include "observe/metrics.h"
#include "serve/loop.h"
#include "serve/resp_call.h"

/* A caller that has not said who it is gets no more room than AUTH and HELLO need. */
#define STRANGER_ARGS_MAX 10
#define STRANGER_BYTES_MAX ((size_t)16 << 10)

enum flags {
    ANYBODY = 1, /* before AUTH, too */
    AT_ONCE = 2, /* not queued by MULTI */
    BATCHED = 4, /* its answer waits in the batch, so it needs not wait for the batch */
    ASKS = 8,    /* may be under way together with others like it */
    LOCKS = 16,  /* the same, of locks */
    WAITS = 32,  /* and may wait for other clients: WEIR.LOCK */
    CELL = 64,   /* ASKS, where the counters of CL.THROTTLE are at the engine */
};

struct command {
    const char *name;
    unsigned args_min, args_max; /* the name included; args_max 0 = any number */
    unsigned right;
    unsigned flags;
    void (*run)(const struct weir_resp_call *call);
};

static const struct command commands[] = {
    { "cl.throttle", 5, 6, WEIR_RIGHT_CHECK, BATCHED | CELL, weir_resp_throttle },
    { "ping", 1, 2, 0, 0, weir_resp_ping },
    { "weir.check", 2, 0, WEIR_RIGHT_CHECK, ASKS, weir_resp_check },
    { "weir.peek", 2, 0, WEIR_RIGHT_CHECK, ASKS, weir_resp_peek },
    { "weir.refund", 2, 0, WEIR_RIGHT_REFUND, ASKS, weir_resp_refund },
    { "weir.lock", 4, 8, WEIR_RIGHT_LOCK, LOCKS | WAITS, weir_resp_lock },
    { "weir.relock", 4, 4, WEIR_RIGHT_LOCK, LOCKS, weir_resp_relock },
    { "weir.unlock", 3, 3, WEIR_RIGHT_LOCK, LOCKS, weir_resp_unlock },
    { "weir.locks", 2, 2, WEIR_RIGHT_LOCK, LOCKS, weir_resp_locks },
    { "weir.release", 2, 2, WEIR_RIGHT_CHECK, 0, weir_resp_release },
    { "weir.renew", 2, 2, WEIR_RIGHT_CHECK, 0, weir_resp_renew },
    { "weir.reserve", 3, 0, WEIR_RIGHT_CHECK, 0, weir_resp_reserve },
    { "weir.settle", 3, 3, WEIR_RIGHT_CHECK, 0, weir_resp_settle },
    { "weir.extend", 3, 4, WEIR_RIGHT_CHECK, 0, weir_resp_extend },
    { "del", 2, 0, WEIR_RIGHT_RESET, CELL, weir_resp_del },
    { "multi", 1, 1, 0, AT_ONCE, weir_resp_multi },
    { "exec", 1, 1, 0, AT_ONCE, weir_resp_exec },
    { "discard", 1, 1, 0, AT_ONCE, weir_resp_discard },
    { "echo", 2, 2, 0, 0, weir_resp_echo },
    { "hello", 1, 0, 0, ANYBODY, weir_resp_hello },
    { "auth", 2, 3, 0, ANYBODY, weir_resp_auth },
    { "select", 2, 2, 0, 0, weir_resp_select },
    { "client", 2, 0, 0, 0, weir_resp_client },
    { "command", 1, 0, 0, 0, weir_resp_command_info },
    { "config", 2, 0, 0, 0, weir_resp_config },
    { "info", 1, 0, 0, 0, weir_resp_info },
    { "quit", 1, 0, 0, ANYBODY | AT_ONCE, weir_resp_quit },
    { "reset", 1, 1, 0, ANYBODY | AT_ONCE, weir_resp_reset },
};

/* The first is what most callers send, in one of two ways to write it. */
static const struct command *find(struct weir_slice name)
{
    if (name.size == 11 && (memcmp(name.data, "CL.THROTTLE", 11) == 0 || memcmp(name.data, "cl.throttle", 11) == 0))
        return &commands[0];
    for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
        if (weir_resp_is(name, commands[i].name))
            return &commands[i];
    }
    return NULL;
}

/* Says what is wrong with a call that is not fine. */
static void refuse(const struct weir_resp_call *call, const struct command *command)
{
    const struct weir_conn *conn = call->conn;
    struct weir_resp_shown shown;
    if (!command)
        weir_resp_reply_error(call, "ERR unknown command '%s'", weir_resp_show(call->args[0], &shown));
    else if (call->conn->rights == 0 && !(command->flags & ANYBODY))
        weir_resp_reply_error(call, "NOAUTH Authentication required.");
    else if ((conn->rights & command->right) != command->right)
        weir_resp_reply_error(call, "NOPERM this token has no right to '%s': that is %s, of rights in auth: tokens",
                              command->name, weir_right_name(command->right));
    else if (command == &commands[0])
        weir_resp_reply_error(call,
                              "ERR Usage: CL.THROTTLE <key> <max_burst> <count per period> <period> [<quantity>]");
    else
        weir_resp_reply_error(call, "ERR wrong number of arguments for '%s' command", command->name);
}

static bool is_fine(const struct weir_resp_call *call, const struct command *command)
{
    const struct weir_conn *conn = call->conn;
    return command && call->count >= command->args_min &&
           (command->args_max == 0 || call->count <= command->args_max) &&
           (conn->rights & command->right) == command->right && (conn->rights != 0 || (command->flags & ANYBODY));
}

/* Answers keep the order of their commands, and AUTH, say, is not taken before what came before it was answered. */
static bool must_wait(const struct weir_resp_call *call, const struct command *command, bool fine)
{
    const struct weir_resp_session *session = call->session;
    if (session->later_count == 0)
        return false;
    if (!fine || session->queueing)
        return true;
    if (command->flags & LOCKS)
        return !weir_resp_later_takes_lock(call, command->flags & WAITS);
    bool asks = (command->flags & ASKS) || ((command->flags & CELL) && weir_resp_cell_is_shared(call));
    return !asks || session->later_locks > 0 || session->later_count >= WEIR_RESP_LATER_MAX;
}

bool weir_resp_run(const struct weir_resp_call *call)
{
    const struct command *command = find(call->args[0]);
    bool fine = is_fine(call, command);
    if (must_wait(call, command, fine)) {
        weir_conn_gate(call->conn);
        return false;
    }
    if (!fine || call->session->queueing || !(command->flags & BATCHED))
        weir_resp_batch_flush(call);
    if (!fine) {
        weir_resp_queue_fail(call->session);
        refuse(call, command);
    } else if (call->session->queueing && !(command->flags & AT_ONCE)) {
        weir_resp_queue_add(call);
    } else {
        command->run(call);
    }
    return true;
}

/* A web page can make a browser send us HTTP; its lines must not be taken for commands. */
static bool is_http(const struct weir_resp_command *command)
{
    return command->line && (weir_resp_is(command->args[0], "post") || weir_resp_is(command->args[0], "host:"));
}

static void end_in_error(const struct weir_resp_call *call)
{
    weir_resp_batch_flush(call);
    weir_resp_reply_error(call, "ERR Protocol error: %s", call->work->command.error);
    weir_count(&call->conn->loop->counters.protocol_errors, 1);
    weir_conn_close_after_flush(call->conn);
}

static struct weir_resp_bounds bounds_for(const struct weir_conn *conn)
{
    bool stranger = conn->rights == 0;
    size_t size_max = conn->loop->setup->config->server.command_bytes_max;
    if (stranger && STRANGER_BYTES_MAX < size_max)
        size_max = STRANGER_BYTES_MAX;
    return (struct weir_resp_bounds){ .args_max = stranger ? STRANGER_ARGS_MAX : WEIR_RESP_ARGS_MAX,
                                      .size_max = size_max };
}

/* Takes one command; false when there is none to take, or when taking must stop. */
static bool take_one(struct weir_resp_call *call, const uint8_t *data, size_t size, size_t *ret_taken)
{
    struct weir_resp_command *command = &call->work->command;
    const struct weir_resp_bounds bounds = bounds_for(call->conn);
    int error = weir_resp_parse(&call->session->progress, data, size, &bounds, command);
    if (error == WEIR_EPROTO && call->session->later_count > 0)
        weir_conn_gate(call->conn); /* and it is found again */
    else if (error == WEIR_EPROTO)
        end_in_error(call);
    if (error)
        return false;
    *ret_taken = command->size;
    if (command->count == 0)
        return true;
    if (is_http(command)) {
        weir_conn_abort(call->conn);
        return false;
    }
    call->args = command->args;
    call->count = command->count;
    return weir_resp_run(call);
}

static size_t on_input(struct weir_conn *conn, const uint8_t *data, size_t size, const struct weir_time *time)
{
    struct weir_resp_call call = {
        .conn = conn, .session = weir_conn_state(conn), .work = weir_conn_loop_state(conn), .time = time
    };
    const size_t commands_max = conn->loop->setup->config->server.pipeline_max;
    size_t at = 0;
    size_t taken = 0;
    size_t one = 0;
    weir_resp_later_flush(conn);
    if (weir_conn_blocked(conn) || !weir_resp_exec_go_on(&call))
        return 0;
    while (at < size && !weir_conn_blocked(conn)) {
        if (taken == commands_max) {
            weir_conn_yield(conn);
            break;
        }
        if (!take_one(&call, data + at, size - at, &one))
            break;
        at += one;
        taken++;
    }
    weir_resp_batch_flush(&call);
    if (taken > 0) {
        struct weir_metrics_loop *metrics = weir_metrics_of_loop(conn->loop->common->metrics, conn->loop->number);
        weir_count(&conn->loop->counters.commands, taken);
        weir_histogram_add(&metrics->turn_ns[WEIR_METRICS_RESP], uv_hrtime() - time->now_ns, taken);
    }
    return at;
}

static void on_open(struct weir_conn *conn)
{
    struct weir_resp_session *session = weir_conn_state(conn);
    const struct weir_loop *loop = conn->loop;
    size_t opened = atomic_load_explicit(&loop->counters.connections_opened, memory_order_relaxed);
    session->id = opened * loop->common->loop_count + (size_t)(loop - loop->common->loops);
}

static void on_overdue(struct weir_conn *conn, bool too_large)
{
    static const char large[] = "-ERR Protocol error: the command is too large\r\n";
    static const char slow[] = "-ERR Protocol error: the command was not completed in time\r\n";
    weir_conn_write(conn, too_large ? large : slow, too_large ? sizeof(large) - 1 : sizeof(slow) - 1);
}

static size_t kept(struct weir_conn *conn)
{
    const struct weir_resp_session *session = weir_conn_state(conn);
    return session->queue.capacity + session->exec.capacity;
}

static void on_hold_lost(struct weir_conn *conn)
{
    static const char text[] = "-ERR the permit was over before the turn of its answer came: ask again\r\n";
    weir_conn_write(conn, text, sizeof(text) - 1);
}

static void on_close(struct weir_conn *conn)
{
    weir_resp_later_drop(conn);
    weir_resp_exec_drop(weir_conn_state(conn));
    weir_resp_queue_reset(weir_conn_state(conn));
}

static size_t input_max(const struct weir_config_server *server)
{
    return server->command_bytes_max;
}

static const char full_text[] = "-ERR max number of clients reached\r\n";

const struct weir_protocol weir_resp_protocol = {
    .name = "resp",
    .state_size = sizeof(struct weir_resp_session),
    .loop_state_size = sizeof(struct weir_resp_work),
    .full = { full_text, sizeof(full_text) - 1 },
    .input_max = input_max,
    .on_open = on_open,
    .on_input = on_input,
    .on_overdue = on_overdue,
    .on_hold_lost = on_hold_lost,
    .kept = kept,
    .hand = weir_resp_hand,
    .take = weir_resp_take,
    .on_close = on_close,
};
