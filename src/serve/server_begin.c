/* SPDX-License-Identifier: Apache-2.0
 *
 * The parts of a server: locks, sessions, loops, listeners, and whoever may take it over. Called by server.c. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "serve/await.h"
#include "serve/follower.h"
#include "serve/listen.h"
#include "serve/locks.h"
#include "serve/server_inside.h"
#include "serve/sessions.h"

static int init_locks(struct weir_server *server, size_t loops)
{
    const struct weir_config_locks *config = &server->options.setup->config->locks;
    const struct weir_lock_service_options options = { .engine = server->options.locks,
                                                       .loops = loops,
                                                       .waiters_max = config->waiters_max,
                                                       .timeout_ns = config->timeout_ns };
    if (!server->options.locks)
        return 0;
    server->options.locks = NULL;
    return weir_lock_service_create(&options, &server->common.locks);
}

static int init_sessions(struct weir_server *server, size_t loops, struct weir_fault *ret_fault)
{
    const struct weir_config_sessions *config = &server->options.setup->config->sessions;
    if (config->servers_count == 0)
        return 0;
    struct weir_fault fault = { 0 };
    int error = weir_session_service_create(config, loops, &server->common.sessions, &fault);
    if (error && fault.text[0])
        (void)snprintf(ret_fault->text, sizeof(ret_fault->text), "sessions: %.31s %.90s", fault.field, fault.text);
    return error;
}

int weir_server_make_loops(struct weir_server *server, struct weir_fault *ret_fault)
{
    size_t wanted = server->options.threads ? server->options.threads : uv_available_parallelism();
    wanted = wanted < WEIR_SERVER_THREADS_MAX ? wanted : WEIR_SERVER_THREADS_MAX;
    server->common.connections_room = weir_listen_room(wanted);
    server->common.permit_secret = server->options.permit_secret;
    int error = weir_common_init(&server->common, wanted);
    if (!error)
        error = init_locks(server, wanted);
    if (!error)
        error = init_sessions(server, wanted, ret_fault);
    if (error)
        return error;
    server->common.loops = aligned_alloc(_Alignof(struct weir_loop), wanted * sizeof(struct weir_loop));
    if (!server->common.loops)
        return WEIR_ENOMEM;
    for (size_t i = 0; !error && i < wanted; i++) {
        error = weir_loop_init(&server->common.loops[i], &server->common, ret_fault);
        server->common.loop_count += error ? 0 : 1;
    }
    return error;
}

int weir_server_open_listeners(struct weir_server *server, struct weir_fault *ret_fault)
{
    int error = 0;
    weir_await_others(&server->common, &server->uv, server->options.setup, server->options.join);
    for (size_t i = 0; !error && !atomic_load(&server->common.draining) && i < server->options.listen_count; i++)
        error = weir_opened_init(&server->opened[i], i, &server->options.listens[i], &server->common, ret_fault);
    return error;
}

/* ---- taken over ---- */

static enum weir_takeover_may may_be_taken(void *context, int32_t pid, char *ret_why, size_t why_size)
{
    const struct weir_server *server = context;
    const char *why = NULL;
    enum weir_takeover_may may = WEIR_TAKEOVER_NEVER;
    if (atomic_load(&server->common.draining)) {
        why = "this weir ends";
    } else if (server->gossip) {
        why = "this node gossips: what it counted lives in it and its neighbours; restart it, one node after the other";
    } else if (pid > 0 && getpid() == 1) { /* of a container: the kernel kills the others when it ends */
        why = "this weir is process 1: everything here ends with it, the successor too";
    } else if (weir_takeover_join_is_open(server->options.join)) {
        why = "the weir before this one has not ended yet: try again";
        may = WEIR_TAKEOVER_LATER;
    } else if (!server->setup || server->retired) {
        why = "this weir is reading its configuration: try again";
        may = WEIR_TAKEOVER_LATER;
    }
    (void)snprintf(ret_why, why_size, "%s", why ? why : "");
    return why ? may : WEIR_TAKEOVER_MAY;
}

static int reopen_locks(void *context, struct weir_lock_engine **ret_engine)
{
    struct weir_server *server = context;
    return server->options.reopen_locks(server->options.context, ret_engine);
}

static void ended(void *context, bool gone, int32_t pid, int pid_fd)
{
    struct weir_server *server = context;
    if (!gone)
        return;
    weir_supervisor_leaves(&server->supervisor, pid);
    weir_successor_decides(&server->successor, pid_fd);
    if (server->wanted == WEIR_RELOAD_FILE) /* it may have read its file before that was changed */
        (void)weir_successor_pass_on(&server->successor, SIGHUP);
    if (server->common.follower)
        weir_follower_leave(server->common.follower);
    atomic_store(&server->common.draining, true);
}

int weir_server_be_taken_over(struct weir_server *server, struct weir_fault *ret_fault)
{
    struct weir_takeover_join *join = server->options.join;
    const struct weir_takeover_options options = { .path = server->options.takeover_path,
                                                   .listen_fd = join ? weir_takeover_join_take_socket(join) : -1,
                                                   .uv = &server->uv,
                                                   .common = &server->common,
                                                   .opened = server->opened,
                                                   .logger = &server->logger,
                                                   .systemd = server->options.systemd,
                                                   .may = may_be_taken,
                                                   .reopen_locks = reopen_locks,
                                                   .ended = ended,
                                                   .context = server };
    return options.path ? weir_takeover_create(&options, &server->takeover, ret_fault) : 0;
}
