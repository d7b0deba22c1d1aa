/* SPDX-License-Identifier: Apache-2.0
 *
 * Counters go as a snapshot (limits/snapshot_fd.h) in memory that both processes have. Called by takeover.c. */
#include "serve/takeover_send.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/fault_format.h"
#include "limits/snapshot_fd.h"
#include "serve/saver.h"
#include "serve/takeover_channel.h"
#include "weir/version.h"

#define STEP_LINES 65536

/* ---- who, and where ---- */

static int send_sockets(int fd, const struct weir_takeover_listener *told, const struct weir_common *common, size_t at,
                        bool shared)
{
    int fds[WEIR_TAKEOVER_FDS_MAX], error = 0;
    size_t count = 0;
    for (size_t i = 0; !error && i < common->loop_count && (!shared || i == 0); i++) {
        const struct weir_loop *loop = &common->loops[i];
        for (size_t k = 0; !error && k < loop->listener_count; k++) {
            if (loop->listeners[k]->number != at || loop->listeners[k]->fd < 0)
                continue;
            fds[count++] = loop->listeners[k]->fd;
            if (count < WEIR_TAKEOVER_FDS_MAX)
                continue;
            error = weir_takeover_send(fd, WEIR_TAKEOVER_LISTENER, told, sizeof(*told), fds, count);
            count = 0;
        }
    }
    return error || count == 0 ? error
                               : weir_takeover_send(fd, WEIR_TAKEOVER_LISTENER, told, sizeof(*told), fds, count);
}

static int send_listener(int fd, const struct weir_common *common, const struct weir_opened *opened, size_t at)
{
    const struct weir_listening *listening = &opened->listening;
    struct weir_takeover_listener told = { .number = (uint32_t)at,
                                           .shared = opened->shared,
                                           .passed = opened->passed,
                                           .file = listening->file,
                                           .device = listening->device,
                                           .inode = listening->inode,
                                           .made_s = listening->made_s,
                                           .made_ns = listening->made_ns };
    _Static_assert(WEIR_TAKEOVER_NAME_MAX == WEIR_LISTEN_NAME_MAX, "a name fits");
    (void)snprintf(told.protocol, sizeof(told.protocol), "%s", opened->protocol->name);
    (void)snprintf(told.bound, sizeof(told.bound), "%s", listening->name);
    weir_listen_name(&opened->address, told.configured);
    return send_sockets(fd, &told, common, at, opened->shared);
}

int weir_takeover_send_welcome(int fd, int listen_fd, const struct weir_systemd *systemd,
                               const struct weir_common *common, const struct weir_opened *opened)
{
    struct weir_takeover_welcome welcome = { .hello = { .protocol = WEIR_TAKEOVER_PROTOCOL, .pid = getpid() } };
    (void)snprintf(welcome.hello.version, sizeof(welcome.hello.version), "%s", WEIR_VERSION);
    _Static_assert(sizeof(welcome.notify) >= sizeof(systemd->notify), "an address fits");
    if (systemd && systemd->notify_fd >= 0) {
        welcome.watchdog_ns = systemd->watchdog_ns;
        welcome.notify_size = systemd->notify_size;
        memcpy(welcome.notify, &systemd->notify, sizeof(systemd->notify));
    }
    int error = weir_takeover_send(fd, WEIR_TAKEOVER_WELCOME, &welcome, sizeof(welcome), &listen_fd, 1);
    for (size_t i = 0; !error && i < WEIR_LISTENERS_MAX; i++)
        if (opened[i].listening.name[0])
            error = send_listener(fd, common, &opened[i], i);
    return error ? error : weir_takeover_send(fd, WEIR_TAKEOVER_LISTENED, NULL, 0, NULL, 0);
}

/* ---- the counters ---- */

static int write_counters(struct weir_common *common, int memory, struct weir_fault *ret_fault)
{
    struct weir_snapshot_writer *writer = NULL;
    struct weir_snapshot_stats stats;
    struct weir_moment moment;
    int error = weir_snapshot_begin_fd(common->limiter, memory, &common->permit_secret, sizeof(common->permit_secret),
                                       &writer, ret_fault);
    if (error)
        return error;
    do {
        weir_moment_read(&moment);
        error = weir_snapshot_step(writer, STEP_LINES, &moment, &stats, ret_fault);
    } while (error == WEIR_EAGAIN);
    weir_snapshot_end(writer);
    return error;
}

int weir_takeover_send_state(int fd, struct weir_common *common, struct weir_fault *ret_fault)
{
    int fds[2] = { memfd_create("weir-counters", MFD_CLOEXEC), -1 };
    if (fds[0] < 0)
        return weir_fault_format(ret_fault, WEIR_EIO, "", "no memory for them: %s", strerror(errno));
    int error = write_counters(common, fds[0], ret_fault);
    if (common->saver)
        fds[1] = weir_saver_lock(common->saver);
    if (!error && weir_takeover_send(fd, WEIR_TAKEOVER_STATE, NULL, 0, fds, common->saver ? 2 : 1))
        error = weir_fault_format(ret_fault, WEIR_EIO, "", "the successor did not take them");
    close(fds[0]);
    return error;
}
