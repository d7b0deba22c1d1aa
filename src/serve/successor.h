/* SPDX-License-Identifier: Apache-2.0
 *
 * SIGUSR2: this process starts the one that is to take over from it (docs/takeover.md): the same command once more,
 * which by then may be another program. So the successor is a child of the server, in its cgroup and under its limits,
 * and needs nobody with a shell. What it does then is handled as of any successor (takeover.h).
 *
 * One at a time. Its environment is this one's without what a service manager told this one alone.
 *
 * Thread rule: the main thread's, like the server. */
#pragma once

#include <uv.h>

#include "observe/logger.h"
#include "weir/error.h"

struct weir_successor {
    uv_signal_t asked;
    uv_process_t *process; /* NULL: none runs */
    char **command;        /* NULL: it cannot be taken over */
    bool over;             /* this process ends, and starts none any more */
    int decides_fd;        /* of the one that has taken over; -1: none, or unknown */
    struct weir_logger *logger;
};

/* `command`: the program, by its path or looked for in PATH, and its arguments, with NULL at the end; as long as this.
 * NULL: the log says that weir was started without --take-over. */
void weir_successor_init(struct weir_successor *successor, uv_loop_t *uv, char **command, struct weir_logger *logger);

/* From now on SIGUSR2 starts one. WEIR_EIO. */
WEIR_MUST_CHECK int weir_successor_start(struct weir_successor *successor);

/* The server ends, so nobody is started any more. `alone`: nor does anybody take over, and the successor, which would
 * find nobody and start by itself, ends too. */
void weir_successor_cancel(struct weir_successor *successor, bool alone);

/* One has taken over, whoever started it, and this process ends. `pid_fd` is the caller's. */
void weir_successor_decides(struct weir_successor *successor, int pid_fd);

/* Sends a signal that was meant for who decides. False: nobody has taken over. */
bool weir_successor_pass_on(const struct weir_successor *successor, int number);

void weir_successor_close(struct weir_successor *successor); /* its handles; one that runs goes on */
