/* SPDX-License-Identifier: Apache-2.0
 *
 * The main thread's own loop: signals, reloads and newer revisions, which it hands to the loops (loop.c) as a setup,
 * the table's upkeep, and the look at what the log tells of (watch_look.c). Run by src/cli/serve.c. */
#include "serve/server_inside.h"

#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/checked.h"
#include "base/plural.h"
#include "observe/metrics.h"
#include "observe/tracer.h"
#include "rules/revise.h"
#include "serve/locks.h"
#include "serve/marks.h"
#include "serve/permit.h"
#include "serve/refusal_lines.h"
#include "serve/reserve.h"
#include "serve/sampler.h"
#include "serve/sessions.h"
#include "serve/watch_look.h"
#include "weir/version.h"

#define MAINTAIN_PERIOD_MS 10
#define MAINTAIN_LINES 4096

static void wake_loops(struct weir_server *server)
{
    for (size_t i = 0; i < server->common.loop_count; i++)
        uv_async_send(&server->common.loops[i].wake);
}

__attribute__((format(printf, 4, 5))) static void say(struct weir_server *server, enum weir_log_level level,
                                                      const char *event, const char *format, ...)
{
    char message[WEIR_LOGGER_LINE_MAX];
    va_list list;
    va_start(list, format);
    (void)vsnprintf(message, sizeof(message), format, list);
    va_end(list);
    weir_logger_write(&server->logger, weir_time_read().wall_ns, level, event, message);
}

/* ---- reload ---- */

static void note_reload(struct weir_reloads *reloads, bool failed, const char *said)
{
    pthread_mutex_lock(&reloads->lock);
    *(failed ? &reloads->failed : &reloads->done) += 1;
    reloads->last_failed = failed;
    reloads->last_wall_ns = weir_time_read().wall_ns;
    (void)snprintf(reloads->last_said, sizeof(reloads->last_said), "%s", said);
    pthread_mutex_unlock(&reloads->lock);
}

/* In force from now on. */
static void put_setup(struct weir_server *server, struct weir_setup *setup)
{
    if (!setup->origin.wall_ns)
        setup->origin.wall_ns = weir_time_read().wall_ns;
    server->setup = setup;
    server->logger.format = setup->config->log_format;
    server->logger.level = setup->config->log_level;
    weir_tracer_aim(server->common.tracer, setup->traces);
    setup->traces = NULL;
}

static void move_to(struct weir_server *server, struct weir_setup *next)
{
    server->retired = server->setup;
    put_setup(server, next);
    weir_gossip_server_limits(server->gossip, next->rules);
    atomic_store(&server->common.setup_pending, server->common.loop_count);
    atomic_store(&server->common.setup, next);
    wake_loops(server);
}

static void reload(struct weir_server *server, enum weir_reload what)
{
    char said[sizeof(server->common.reloads.last_said)] = "";
    if (!server->options.reload || atomic_load(&server->common.draining))
        return;
    /* Two sets of rules may be in use at a time, not three; before it serves, or hands over, none may change. */
    if (server->retired || !server->setup || weir_takeover_is_active(server->takeover)) {
        server->wanted = what > server->wanted ? what : server->wanted;
        return;
    }
    server->wanted = WEIR_RELOAD_NONE;
    struct weir_revisions *revisions = server->common.revisor.revisions;
    server->generation = weir_revisions_generation(revisions);
    struct weir_setup *next = server->options.reload(server->options.context, revisions, server->setup, what, said,
                                                     sizeof(said));
    note_reload(&server->common.reloads, !next, said);
    if (!next) {
        say(server, WEIR_LOG_ERROR, "reload_failed", "the old limits stay in force: %s", said);
        weir_supervisor_status(&server->supervisor, "the last reload failed, and the old limits are in force");
        weir_supervisor_settled(&server->supervisor);
        return;
    }
    weir_supervisor_status(&server->supervisor, said);
    server->untold = weir_own_limits_reload(&server->common.revisor, next->config) != 0;
    move_to(server, next);
    say(server, WEIR_LOG_INFO, "reloaded", "%s", said);
}

/* Names three of them: GET /v1/limits tells all. `changed` says what is otherwise than before, "" nothing. */
static void say_replaced(struct weir_server *server, const struct weir_config *config, const char *changed)
{
    char names[512] = "";
    size_t count = 0, used = 0;
    for (size_t i = 0; i < config->limits_count; i++) {
        const struct weir_config_limit *limit = &config->limits[i];
        if (!limit->replaced && !limit->undecidable)
            continue;
        if (count++ < 3 && used < sizeof(names))
            used += (size_t)snprintf(names + used, sizeof(names) - used, "%s%s", count > 1 ? ", " : "", limit->name);
    }
    if (count > 0)
        say(server, WEIR_LOG_INFO, "revised",
            "%zu shared limit%s defined by other nodes, not by this one's file: %s%s%s%s", count,
            count == 1 ? " is" : "s are", names, count > 3 ? ", ..." : "", changed[0] ? "; " : "", changed);
    else if (changed[0])
        say(server, WEIR_LOG_INFO, "revised", "this node's file defines its shared limits again; %s", changed);
}

/* Other nodes have newer definitions, or those of this one have got their numbers. */
static void revise(struct weir_server *server)
{
    char said[sizeof(server->common.reloads.last_said)] = "";
    struct weir_revisions *revisions = server->common.revisor.revisions;
    uint64_t generation = weir_revisions_generation(revisions), now_ns = uv_hrtime();
    if (generation == server->generation || !server->setup || server->retired || !server->options.reload ||
        atomic_load(&server->common.draining) || now_ns < server->again_ns || weir_takeover_is_active(server->takeover))
        return;
    struct weir_setup *next = NULL;
    if (!weir_config_is_newest(server->setup->config, revisions, weir_time_read().wall_ns)) {
        next = server->options.reload(server->options.context, revisions, server->setup, WEIR_RELOAD_REVISIONS, said,
                                      sizeof(said));
        if (!next) {
            server->again_ns = now_ns + WEIR_NS_PER_SECOND;
            if (!server->unrevised)
                say(server, WEIR_LOG_ERROR, "revise_failed",
                    "other nodes have newer definitions, which this one cannot take; it tries each second: %s", said);
            server->unrevised = true;
            return;
        }
    }
    server->unrevised = false;
    server->generation = generation;
    if (next) {
        say_replaced(server, next->config, said);
        move_to(server, next);
    }
}

static void close_handles(struct weir_server *server)
{
    /* It ends anyway: who asks once more shall not make a failure of it. No other thread takes signals. */
    sigset_t asked;
    sigemptyset(&asked);
    sigaddset(&asked, SIGTERM);
    sigaddset(&asked, SIGINT);
    pthread_sigmask(SIG_BLOCK, &asked, NULL);
    uv_close((uv_handle_t *)&server->hup, NULL);
    uv_close((uv_handle_t *)&server->term, NULL);
    uv_close((uv_handle_t *)&server->interrupt, NULL);
    uv_close((uv_handle_t *)&server->maintain, NULL);
    uv_close((uv_handle_t *)&server->look, NULL);
    uv_close((uv_handle_t *)&server->moved, NULL);
    weir_supervisor_close(&server->supervisor);
    weir_successor_close(&server->successor);
    weir_takeover_close(server->takeover);
    weir_takeover_join_close(server->options.join);
    weir_gossip_server_close(server->gossip);
}

static void on_moved(uv_async_t *moved)
{
    struct weir_server *server = moved->data;
    if (server->retired && atomic_load(&server->common.setup_pending) == 0) {
        weir_setup_destroy(server->retired);
        server->retired = NULL;
        server->options.moved(server->options.context, server->setup);
        if (server->wanted)
            reload(server, server->wanted);
        else
            weir_supervisor_settled(&server->supervisor);
    }
    if (atomic_load(&server->common.running) == 0 && !uv_is_closing((uv_handle_t *)moved))
        close_handles(server);
}

void weir_server_new_rules(struct weir_server *server)
{
    atomic_store(&server->asked, true);
}

/* ---- signals, maintenance ---- */

static void on_hup(uv_signal_t *handle, int number)
{
    struct weir_server *server = handle->data;
    if (weir_successor_pass_on(&server->successor, number))
        return;
    if (server->setup && server->options.reload && !atomic_load(&server->common.draining))
        weir_supervisor_reloading(&server->supervisor);
    reload(server, WEIR_RELOAD_FILE);
}

static void on_term(uv_signal_t *handle, int number)
{
    struct weir_server *server = handle->data;
    const char *name = number == SIGINT ? "SIGINT" : "SIGTERM";
    const struct weir_setup *setup = server->setup ? server->setup : server->options.setup; /* it may wait to start */
    char longest[WEIR_DURATION_SIZE];
    weir_duration_format(setup->config->server.drain_timeout_ns / (WEIR_NS_PER_SECOND / 1000), longest,
                         sizeof(longest));
    if (atomic_load(&server->common.draining)) {
        if (!atomic_exchange(&server->common.hurry, true))
            say(server, WEIR_LOG_WARN, "hurry", "%s again: what is under way is cut off", name);
    } else {
        say(server, WEIR_LOG_INFO, "draining", "%s: what is under way is answered, for %s at most", name, longest);
        weir_supervisor_stopping(&server->supervisor);
    }
    const bool alone = weir_takeover_cancel(server->takeover);
    if (alone)
        weir_opened_remove(server->opened);
    weir_successor_cancel(&server->successor, alone);
    atomic_store(&server->common.draining, true);
    wake_loops(server);
}

static void on_maintain(uv_timer_t *timer)
{
    struct weir_server *server = timer->data;
    weir_limiter_maintain(server->common.limiter, NULL, MAINTAIN_LINES);
    const struct weir_time time = weir_time_read();
    weir_reservations_sweep(server->common.reservations, server->common.limiter, &time);
    if (atomic_exchange(&server->asked, false))
        reload(server, WEIR_RELOAD_RULES);
    if (server->untold)
        server->untold = weir_own_limits_reload(&server->common.revisor, server->setup->config) != 0;
    if (server->wanted && !server->retired && !weir_takeover_is_active(server->takeover))
        reload(server, server->wanted); /* it came while it was being taken over */
    revise(server);
}

static void on_look(uv_timer_t *timer)
{
    struct weir_server *server = timer->data;
    const struct weir_time time = weir_time_read();
    weir_sampler_look(&server->common, &time);
    if (weir_takeover_is_active(server->takeover)) /* what stands still is no trouble */
        return;
    if (server->options.rules_changed && server->options.rules_changed(server->options.context))
        reload(server, WEIR_RELOAD_RULES);
    weir_watch_look(server->watch, time.now_ns, time.wall_ns);
    weir_watch_server(server->watch, &server->common, server->setup);
    weir_marks_look(&server->common, server->setup);
}

static int init_handles(struct weir_server *server)
{
    if (uv_loop_init(&server->uv))
        return WEIR_ENOMEM;
    if (uv_async_init(&server->uv, &server->moved, on_moved)) {
        uv_loop_close(&server->uv);
        return WEIR_EIO;
    }
    uv_signal_init(&server->uv, &server->hup);
    uv_signal_init(&server->uv, &server->term);
    uv_signal_init(&server->uv, &server->interrupt);
    uv_timer_init(&server->uv, &server->maintain);
    uv_timer_init(&server->uv, &server->look);
    server->hup.data = server->term.data = server->interrupt.data = server->maintain.data = server->look.data =
        server->moved.data = server;
    server->common.moved = &server->moved;
    weir_supervisor_init(&server->supervisor, server->options.systemd, &server->uv, &server->common, &server->logger);
    weir_successor_init(&server->successor, &server->uv, server->options.takeover_path ? server->options.command : NULL,
                        &server->logger);
    return 0;
}

static int start_handles(struct weir_server *server)
{
    signal(SIGPIPE, SIG_IGN); /* OpenSSL writes with write() */
    if (uv_signal_start(&server->hup, on_hup, SIGHUP) || uv_signal_start(&server->term, on_term, SIGTERM) ||
        uv_signal_start(&server->interrupt, on_term, SIGINT))
        return WEIR_EIO;
    return weir_successor_start(&server->successor);
}

/* ---- life ---- */

int weir_server_create(const struct weir_server_options *options, struct weir_server **ret_server,
                       struct weir_fault *ret_fault)
{
    weir_assert(options->listen_count <= WEIR_LISTENERS_MAX);
    struct weir_server *server = calloc(1, sizeof(*server));
    *ret_fault = (struct weir_fault){ 0 };
    if (server)
        server->options = *options;
    int error = server ? init_handles(server) : WEIR_ENOMEM;
    if (error) {
        if (options->locks)
            options->locks->ops->destroy(options->locks);
        free(server);
        return error;
    }
    server->logger = (struct weir_logger){ .fd = STDERR_FILENO, .level = WEIR_LOG_INFO };
    if (options->setup->config->node_name) /* a reload does not change who this is */
        (void)snprintf(server->logger.node, sizeof(server->logger.node), "%s", options->setup->config->node_name);
    pthread_mutex_init(&server->common.reloads.lock, NULL);
    server->common.started_ns = weir_time_read().now_ns;
    server->common.limiter = options->limiter;
    server->common.saver = options->saver;
    server->common.grpc = options->grpc;
    server->common.site = options->site;
    server->common.follower = options->follower;
    server->common.excepted = options->follower ? weir_follower_excepted(options->follower) : NULL;
    atomic_init(&server->common.setup, options->setup);
    error = weir_watch_create(&server->logger, &server->watch);
    if (!error)
        error = start_handles(server); /* before anybody is told that we are ready, and may send a signal */
    if (!error)
        error = weir_own_limits_init(&server->common.revisor, options->before, options->setup->config);
    server->options.before = NULL; /* the caller's, who destroys it */
    if (!error)
        error = weir_gossip_server_create(options->setup->config, options->setup->rules,
                                          server->common.revisor.revisions, &server->uv, &server->gossip, ret_fault);
    server->common.gossip = weir_gossip_server_host(server->gossip);
    if (!error)
        error = weir_server_make_loops(server, ret_fault);
    if (!error) /* not before there is what it maintains: gossip that cannot begin runs what is due */
        uv_timer_start(&server->maintain, on_maintain, MAINTAIN_PERIOD_MS, MAINTAIN_PERIOD_MS);
    if (!error)
        error = weir_server_open_listeners(server, ret_fault);
    if (!error)
        error = weir_server_be_taken_over(server, ret_fault);
    if (error) {
        weir_server_destroy(server);
        return error;
    }
    put_setup(server, options->setup);
    *ret_server = server;
    return 0;
}

const char *weir_server_listens_on(const struct weir_server *server, size_t index)
{
    const struct weir_listening *listening = &server->opened[index].listening;
    return listening->name[0] ? listening->name : NULL;
}

size_t weir_server_connections_max(const struct weir_server *server)
{
    size_t wanted = server->setup->config->server.connections_max;
    return wanted < server->common.connections_room ? wanted : server->common.connections_room;
}

static void say_started(struct weir_server *server, size_t loops)
{
    char status[256];
    size_t count = weir_rules_count(server->setup->rules);
    const char *source = server->setup->origin.source ? server->setup->origin.source : "the built-in example";
    say(server, WEIR_LOG_INFO, "started", "weir %s, %zu limit%s of %s, %zu loop%s", WEIR_VERSION, count, weir_s(count),
        source, loops, weir_s(loops));
    (void)snprintf(status, sizeof(status), "%zu limit%s of %s", count, weir_s(count), source);
    weir_supervisor_status(&server->supervisor, status);
    weir_supervisor_ready(&server->supervisor);
}

/* It decides in the place of another: its files and connections are this one's. */
static void begin_with(struct weir_server *server, struct weir_takeover_join *join)
{
    weir_opened_own(server->opened);
    weir_takeover_own(server->takeover);
    weir_supervisor_takes_over(&server->supervisor);
    weir_takeover_join_adopt(join, &server->common);
    (void)weir_takeover_join_follow(join, &server->common, &server->uv); /* without memory: what comes later ends */
}

int weir_server_run(struct weir_server *server)
{
    size_t started = 0;
    int error = 0;
    if (server->options.join)
        begin_with(server, server->options.join);
    for (; !error && started < server->common.loop_count; started += !error)
        error = weir_loop_start(&server->common.loops[started]);
    if (error) {
        atomic_store(&server->common.draining, true);
        wake_loops(server);
    }
    if (server->wanted)
        reload(server, server->wanted);
    if (started > 0) {
        server->options.moved(server->options.context, server->setup);
        if (!atomic_load(&server->common.draining)) /* while it waited for others */
            say_started(server, started);
        uv_timer_start(&server->look, on_look, WEIR_WATCH_PERIOD_MS, WEIR_WATCH_PERIOD_MS);
        uv_run(&server->uv, UV_RUN_DEFAULT);
        char spans[48] = "";
        const uint64_t unsent = weir_tracer_finish(server->common.tracer);
        if (unsent > 0)
            (void)snprintf(spans, sizeof(spans), "; spans unsent: %" PRIu64, unsent);
        say(server, WEIR_LOG_INFO, "stopped", "units unconfirmed: %" PRIu64 "%s",
            weir_sharer_unconfirmed(&server->common), spans);
    }
    for (size_t i = 0; i < started; i++)
        weir_loop_join(&server->common.loops[i]);
    return error;
}

void weir_server_destroy(struct weir_server *server)
{
    if (!server)
        return;
    for (size_t i = 0; i < server->common.loop_count; i++)
        weir_loop_deinit(&server->common.loops[i]);
    free(server->common.loops);
    weir_lock_service_destroy(server->common.locks);
    weir_session_service_destroy(server->common.sessions);
    if (server->options.locks)
        server->options.locks->ops->destroy(server->options.locks);
    weir_common_deinit(&server->common);
    weir_refusal_lines_destroy(server->common.refusal_lines);
    weir_own_limits_deinit(&server->common.revisor);
    if (!uv_is_closing((uv_handle_t *)&server->moved))
        close_handles(server);
    uv_run(&server->uv, UV_RUN_DEFAULT);
    uv_loop_close(&server->uv);
    weir_takeover_destroy(server->takeover);
    weir_gossip_server_destroy(server->gossip);
    weir_opened_remove(server->opened);
    weir_watch_destroy(server->watch);
    pthread_mutex_destroy(&server->common.reloads.lock);
    weir_setup_destroy(server->retired);
    weir_setup_destroy(server->setup);
    free(server);
}
