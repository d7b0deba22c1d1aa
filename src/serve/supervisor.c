/* SPDX-License-Identifier: Apache-2.0
 *
 * A pulse is a number that grows: the supervisor raises it and wakes the loops, each of which writes it down when it
 * runs (loop.c). A quarter of the watchdog's time later it looks whether all have it. Called by server.c. */
#include "serve/supervisor.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define BEATS_PER_TIMEOUT 4 /* so that one that is late is no death */

static void write_log(struct weir_supervisor *supervisor, enum weir_log_level level, const char *event,
                      const char *message)
{
    weir_logger_write(supervisor->logger, weir_time_read().wall_ns, level, event, message);
}

static void tell(struct weir_supervisor *supervisor, const char *lines)
{
    char message[160];
    if (!supervisor->systemd)
        return;
    if (weir_systemd_tell(supervisor->systemd, lines) == 0) {
        supervisor->unheard = false;
        return;
    }
    if (!supervisor->unheard) {
        (void)snprintf(message, sizeof(message), "NOTIFY_SOCKET does not take what it is told: %s", strerror(errno));
        write_log(supervisor, WEIR_LOG_WARN, "notify_failed", message);
    }
    supervisor->unheard = true;
}

/* ---- the watchdog ---- */

static void ask_loops(struct weir_supervisor *supervisor)
{
    supervisor->asked_ns = uv_hrtime();
    atomic_fetch_add(&supervisor->common->pulse, 1);
    for (size_t i = 0; i < supervisor->common->loop_count; i++)
        uv_async_send(&supervisor->common->loops[i].wake);
}

/* The first loop that has not answered, from 1; 0: all have. */
static size_t silent_loop(const struct weir_common *common)
{
    uint64_t pulse = atomic_load(&common->pulse);
    for (size_t i = 0; i < common->loop_count; i++)
        if (atomic_load(&common->loops[i].pulse) < pulse)
            return i + 1;
    return 0;
}

static void on_beat(uv_timer_t *timer)
{
    struct weir_supervisor *supervisor = timer->data;
    char message[160];
    const size_t silent = silent_loop(supervisor->common);
    const uint64_t waited_ns = uv_hrtime() - supervisor->asked_ns;
    /* Behind a beat that was late, this one may come at once: the loops have had no time to answer. */
    if (silent > 0 && waited_ns < supervisor->systemd->watchdog_ns / BEATS_PER_TIMEOUT / 2)
        return;
    if (silent > 0) {
        if (!supervisor->hung) {
            (void)snprintf(message, sizeof(message),
                           "loop %zu of %zu has stood still for %" PRIu64
                           " ms: the watchdog is not told that all is well",
                           silent, supervisor->common->loop_count, waited_ns / 1000000);
            write_log(supervisor, WEIR_LOG_ERROR, "loop_hung", message);
        }
        supervisor->hung = true;
        return;
    }
    if (supervisor->hung)
        write_log(supervisor, WEIR_LOG_INFO, "loop_back", "all loops turn again");
    supervisor->hung = false;
    tell(supervisor, "WATCHDOG=1");
    ask_loops(supervisor);
}

/* ---- life ---- */

void weir_supervisor_init(struct weir_supervisor *supervisor, const struct weir_systemd *systemd, uv_loop_t *uv,
                          struct weir_common *common, struct weir_logger *logger)
{
    *supervisor = (struct weir_supervisor){ .systemd = systemd, .common = common, .logger = logger };
    uv_timer_init(uv, &supervisor->beat);
    supervisor->beat.data = supervisor;
}

void weir_supervisor_status(struct weir_supervisor *supervisor, const char *status)
{
    int size = snprintf(supervisor->status, sizeof(supervisor->status), "%s", status);
    /* Half a character is not UTF-8, and a manager would throw all of it away: what is cut is cut before one. */
    if (size >= (int)sizeof(supervisor->status)) {
        size_t end = sizeof(supervisor->status) - 1;
        while (end > 0 && (supervisor->status[end - 1] & 0xc0) == 0x80)
            end--;
        supervisor->status[end > 0 ? end - 1 : 0] = '\0';
    }
    for (char *c = supervisor->status; *c; c++) /* what follows a line's end would be a line of its own */
        if ((unsigned char)*c < ' ')
            *c = ' ';
}

static void tell_ready(struct weir_supervisor *supervisor)
{
    char lines[sizeof(supervisor->status) + 64], who[32] = "";
    if (supervisor->is_new)
        (void)snprintf(who, sizeof(who), "MAINPID=%d\n", (int)getpid());
    (void)snprintf(lines, sizeof(lines), "%sREADY=1\nSTATUS=%s", who, supervisor->status);
    tell(supervisor, lines);
    supervisor->is_new = false;
}

void weir_supervisor_ready(struct weir_supervisor *supervisor)
{
    if (!supervisor->systemd)
        return;
    tell_ready(supervisor);
    if (supervisor->systemd->watchdog_ns == 0)
        return;
    uint64_t period_ms = supervisor->systemd->watchdog_ns / BEATS_PER_TIMEOUT / 1000000;
    ask_loops(supervisor);
    uv_timer_start(&supervisor->beat, on_beat, period_ms, period_ms);
}

void weir_supervisor_takes_over(struct weir_supervisor *supervisor)
{
    supervisor->is_new = true;
}

void weir_supervisor_leaves(struct weir_supervisor *supervisor, int32_t pid)
{
    char line[32];
    (void)snprintf(line, sizeof(line), "MAINPID=%" PRId32, pid);
    if (pid > 0)
        tell(supervisor, line);
    supervisor->systemd = NULL;
    uv_timer_stop(&supervisor->beat);
}

void weir_supervisor_reloading(struct weir_supervisor *supervisor)
{
    char lines[64];
    (void)snprintf(lines, sizeof(lines), "RELOADING=1\nMONOTONIC_USEC=%" PRIu64, uv_hrtime() / 1000);
    tell(supervisor, lines);
    supervisor->reloading = true;
}

void weir_supervisor_settled(struct weir_supervisor *supervisor)
{
    if (supervisor->reloading)
        tell_ready(supervisor);
    supervisor->reloading = false;
}

void weir_supervisor_stopping(struct weir_supervisor *supervisor)
{
    supervisor->reloading = false; /* who ends is not ready any more */
    tell(supervisor, "STOPPING=1");
}

void weir_supervisor_close(struct weir_supervisor *supervisor)
{
    uv_close((uv_handle_t *)&supervisor->beat, NULL);
}
