/* SPDX-License-Identifier: Apache-2.0
 *
 * What a predecessor hands over comes in the place of what a start would read or open: its sockets instead of new ones,
 * its counters instead of the file's. Called by serve.c, in the order of the header. */
#include "cli/serve_takeover.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/plural.h"
#include "cli/plain.h"
#include "cli/serve_warn.h"
#include "limits/snapshot_fd.h"

static bool complain(const struct weir_fault *fault, int error)
{
    char text[WEIR_PLAIN_SIZE(sizeof(fault->text))];
    fprintf(stderr, "weir: --take-over: %s\n",
            weir_plain(fault->text[0] ? fault->text : weir_error_text(error), text, sizeof(text)));
    return false;
}

/* A socket that was passed to the predecessor stays one, whatever the file says of its listener. */
static void keep_passed(const struct weir_handed_listener *handed, struct weir_systemd *systemd)
{
    struct weir_systemd_socket socket = { .fd = -1 };
    struct weir_fault fault;
    if (!handed->passed || handed->count == 0 || systemd->sockets_count == WEIR_SYSTEMD_SOCKETS_MAX)
        return;
    (void)snprintf(socket.name, sizeof(socket.name), "%s", handed->protocol);
    if (weir_listen_passed(handed->fds[0], &socket.address, &fault))
        return;
    socket.fd = fcntl(handed->fds[0], F_DUPFD_CLOEXEC, 0);
    if (socket.fd > 0)
        systemd->sockets[systemd->sockets_count++] = socket;
}

bool weir_serve_takeover_begin(const struct weir_serve_flags *flags, struct weir_systemd *systemd,
                               struct weir_takeover_join **ret_join)
{
    struct weir_fault fault = { 0 };
    *ret_join = NULL;
    if (!flags->take_over)
        return true;
    int error = weir_takeover_join_create(flags->take_over, ret_join, &fault);
    if (error == WEIR_ENOENT)
        return true;
    if (error)
        return complain(&fault, error);
    char version[WEIR_PLAIN_SIZE(64)];
    printf("weir: taking over from process %" PRId32 ", weir %s\n", weir_takeover_join_pid(*ret_join),
           weir_plain(weir_takeover_join_version(*ret_join), version, sizeof(version)));
    fflush(stdout);
    weir_takeover_join_tell(*ret_join, systemd);
    const bool has_own = systemd->sockets_count > 0;
    for (size_t i = 0; !has_own && i < WEIR_LISTENERS_MAX; i++)
        if (weir_takeover_join_listener(*ret_join, i))
            keep_passed(weir_takeover_join_listener(*ret_join, i), systemd);
    return true;
}

/* Everything that a start would find wrong, with a table of its own that is thrown away. */
static bool rehearse(const struct weir_serve_flags *flags, struct weir_config *config)
{
    struct weir_limiter *limiter = NULL;
    struct weir_setup *setup = NULL;
    struct weir_config_fault fault = { 0 };
    char text[512];
    if (!weir_serve_state_check(flags, config) || !weir_serve_limiter_make(flags, config, NULL, &limiter))
        return false;
    int error = weir_setup_create(config, limiter, NULL, &setup, &fault);
    if (error) {
        weir_config_fault_format(&fault, flags->config_file ? flags->config_file : "weir: the example limits", text,
                                 sizeof(text));
        weir_plain_print(stderr, (struct weir_slice){ text, strlen(text) });
        fputc('\n', stderr);
    } else {
        setup->config = NULL; /* stays the caller's */
        weir_setup_destroy(setup);
    }
    weir_limiter_destroy(limiter);
    return error == 0;
}

bool weir_serve_takeover_ready(const struct weir_serve_flags *flags, struct weir_config *config,
                               struct weir_takeover_join *join)
{
    struct weir_fault fault = { 0 };
    if (!rehearse(flags, config))
        return false;
    int error = weir_takeover_join_ready(join, &fault);
    return error ? complain(&fault, error) : true;
}

static bool restore(const struct weir_serve_flags *flags, const struct weir_config *config,
                    struct weir_snapshot_reader *reader, struct weir_serve_state *state)
{
    struct weir_moment moment;
    struct weir_snapshot_stats stats;
    struct weir_fault fault = { 0 };
    if (!weir_serve_limiter_make(flags, config, weir_snapshot_secret(reader), &state->limiter))
        return false;
    weir_moment_read(&moment);
    int error = weir_snapshot_restore(reader, state->limiter, &moment, &stats, &fault);
    if (error)
        return complain(&fault, error);
    memcpy(&state->permit_secret, weir_snapshot_note(reader), sizeof(state->permit_secret));
    printf("weir: counters of %" PRIu64 " key%s from the weir before this one\n", stats.keys, weir_s(stats.keys));
    if (stats.lost > 0)
        weir_serve_warn(config, "%" PRIu64 " more key%s found no place: table.memory is smaller than it was",
                        stats.lost, weir_s(stats.lost));
    return true;
}

bool weir_serve_takeover_state(const struct weir_serve_flags *flags, const struct weir_config *config,
                               struct weir_takeover_join *join, struct weir_serve_state *ret_state)
{
    struct weir_serve_state state = { 0 };
    struct weir_snapshot_reader *reader = NULL;
    struct weir_fault fault = { 0 };
    int error = weir_snapshot_open_fd(weir_takeover_join_take_counters(join), &reader, &fault);
    bool done = error ? complain(&fault, error) : restore(flags, config, reader, &state);
    weir_snapshot_close(reader);
    if (done && config->snapshot_path) {
        error = weir_saver_open_handed(config->snapshot_path, config->snapshot_every_ns, weir_takeover_join_lock(join),
                                       &state.saver, &fault);
        done = error ? complain(&fault, error) : true;
    }
    if (!done) {
        (void)weir_serve_state_end(&state);
        return false;
    }
    *ret_state = state;
    return true;
}

void weir_serve_takeover_listens(const struct weir_takeover_join *join, struct weir_server_listen *listens,
                                 size_t count)
{
    char name[WEIR_LISTEN_NAME_MAX];
    for (size_t i = 0; i < count; i++) {
        if (listens[i].address.kind == WEIR_ADDRESS_OFF || listens[i].fd > 0)
            continue;
        weir_listen_name(&listens[i].address, name);
        for (size_t k = 0; k < WEIR_LISTENERS_MAX; k++) {
            const struct weir_handed_listener *handed = weir_takeover_join_listener(join, k);
            if (handed && handed->count > 0 && strcmp(handed->protocol, listens[i].protocol->name) == 0 &&
                (strcmp(handed->configured, name) == 0 || strcmp(handed->listening.name, name) == 0))
                listens[i].handed = handed;
        }
    }
}

bool weir_serve_takeover_decide(struct weir_takeover_join *join)
{
    struct weir_fault fault = { 0 };
    int error = weir_takeover_join_begin_deciding(join, &fault);
    return error ? complain(&fault, error) : true;
}
