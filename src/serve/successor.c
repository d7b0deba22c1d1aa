/* SPDX-License-Identifier: Apache-2.0
 *
 * A child, started by libuv, which also hears of its end. One that takes over is heard of no more: this process ends
 * first. Called by server.c. */
#include "serve/successor.h"

#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "weir/error.h"
#include "weir/limiter.h"

__attribute__((format(printf, 4, 5))) static void say(struct weir_successor *successor, enum weir_log_level level,
                                                      const char *event, const char *format, ...)
{
    char message[WEIR_LOGGER_LINE_MAX];
    va_list list;
    va_start(list, format);
    (void)vsnprintf(message, sizeof(message), format, list);
    va_end(list);
    weir_logger_write(successor->logger, weir_time_read().wall_ns, level, event, message);
}

static void on_closed(uv_handle_t *process)
{
    free(process);
}

static void on_end(uv_process_t *process, int64_t status, int number)
{
    struct weir_successor *successor = process->data;
    successor->process = NULL;
    uv_close((uv_handle_t *)process, on_closed);
    if (successor->over) /* this one does not go on, and the other has said what became of it */
        return;
    if (number > 0)
        say(successor, WEIR_LOG_ERROR, "successor_failed", "process %d was ended by signal %d, and this one goes on",
            process->pid, number);
    else
        say(successor, WEIR_LOG_ERROR, "successor_failed",
            "process %d ended with code %" PRId64 ", and this one goes on; why, it has said itself", process->pid,
            status);
}

/* The socket and the watchdog it has from whom it takes over; sockets that were passed, too. */
static bool is_for_one(const char *variable)
{
    static const char *const names[] = { "NOTIFY_SOCKET=", "WATCHDOG_USEC=", "WATCHDOG_PID=",
                                         "LISTEN_PID=",    "LISTEN_FDS=",    "LISTEN_FDNAMES=" };
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (strncmp(variable, names[i], strlen(names[i])) == 0)
            return true;
    return false;
}

/* Of pointers into `environ`; NULL without memory. */
static char **environment_of_child(void)
{
    size_t count = 0, kept = 0;
    while (environ[count])
        count++;
    char **variables = calloc(count + 1, sizeof(*variables));
    for (size_t i = 0; variables && i < count; i++)
        if (!is_for_one(environ[i]))
            variables[kept++] = environ[i];
    return variables;
}

/* 0, or an error of libuv. */
static int start(struct weir_successor *successor, uv_loop_t *uv)
{
    char **variables = environment_of_child();
    uv_process_t *process = calloc(1, sizeof(*process));
    uv_stdio_container_t stdio[] = { { .flags = UV_IGNORE },
                                     { .flags = UV_INHERIT_FD, .data.fd = STDOUT_FILENO },
                                     { .flags = UV_INHERIT_FD, .data.fd = STDERR_FILENO } };
    const uv_process_options_t options = {
        .file = successor->command[0],
        .args = successor->command,
        .env = variables,
        .stdio = stdio,
        .stdio_count = 3,
        .exit_cb = on_end,
    };
    int error = UV_ENOMEM;
    if (variables && process) {
        process->data = successor;
        error = uv_spawn(uv, process, &options);
        if (error)
            uv_close((uv_handle_t *)process, on_closed);
        else
            successor->process = process;
    } else {
        free(process);
    }
    free(variables);
    return error;
}

static void on_asked(uv_signal_t *handle, int number)
{
    struct weir_successor *successor = handle->data;
    (void)number;
    if (!successor->command) {
        say(successor, WEIR_LOG_ERROR, "successor_failed", "SIGUSR2: weir was started without --take-over");
        return;
    }
    if (successor->over) {
        say(successor, WEIR_LOG_WARN, "successor_failed", "SIGUSR2: this weir ends");
        return;
    }
    if (successor->process) {
        say(successor, WEIR_LOG_WARN, "successor_failed", "SIGUSR2: process %d has been started for it, and still runs",
            successor->process->pid);
        return;
    }
    int error = start(successor, handle->loop);
    if (error)
        say(successor, WEIR_LOG_ERROR, "successor_failed", "SIGUSR2: %.200s cannot be started: %s",
            successor->command[0], uv_strerror(error));
    else
        say(successor, WEIR_LOG_INFO, "successor_started", "SIGUSR2: process %d, %.200s, is to take over",
            successor->process->pid, successor->command[0]);
}

void weir_successor_init(struct weir_successor *successor, uv_loop_t *uv, char **command, struct weir_logger *logger)
{
    *successor = (struct weir_successor){ .command = command, .decides_fd = -1, .logger = logger };
    uv_signal_init(uv, &successor->asked);
    successor->asked.data = successor;
}

int weir_successor_start(struct weir_successor *successor)
{
    return uv_signal_start(&successor->asked, on_asked, SIGUSR2) ? WEIR_EIO : 0;
}

void weir_successor_cancel(struct weir_successor *successor, bool alone)
{
    successor->over = true;
    if (alone && successor->process)
        (void)uv_process_kill(successor->process, SIGTERM);
}

void weir_successor_decides(struct weir_successor *successor, int pid_fd)
{
    successor->over = true;
    successor->decides_fd = pid_fd;
}

bool weir_successor_pass_on(const struct weir_successor *successor, int number)
{
    return successor->decides_fd >= 0 && syscall(SYS_pidfd_send_signal, successor->decides_fd, number, NULL, 0) == 0;
}

void weir_successor_close(struct weir_successor *successor)
{
    uv_close((uv_handle_t *)&successor->asked, NULL);
    if (successor->process)
        uv_close((uv_handle_t *)successor->process, on_closed);
    successor->process = NULL;
}
