/* SPDX-License-Identifier: Apache-2.0
 *
 * Where an experiment with real servers stands: a folder of its own, processes of its own on free ports of the
 * loopback, and an end. The experiment runs in a child process; whatever becomes of it, the processes that it started
 * end with it, and its parent takes the folder away. */
#pragma once

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "sim/lab/lab.h"

#define WEIR_LAB_SECONDS_MAX 120 /* an experiment that takes longer is ended */
#define WEIR_LAB_READY_NS (30 * UINT64_C(1000000000))
#define WEIR_LAB_PATH_SIZE 256

/* Shared by the experiment's process and its parent. */
struct weir_lab_stand {
    struct weir_lab_report report;
    uint64_t seed;
    char folder[WEIR_LAB_PATH_SIZE];
    char error[512]; /* why there is no report */
};

/* Runs the experiment in a process of its own. False: stderr says why there is no report. */
bool weir_lab_stand_run(bool (*run)(struct weir_lab_stand *stand), uint64_t seed, struct weir_lab_report *ret_report);

/* "redis-server", "postgres": from PATH, else where Debian keeps those of PostgreSQL. False: it is nowhere. */
bool weir_lab_program_find(const char *name, char ret_path[PATH_MAX]);

/* The program weir that goes with this one: beside it, where make install puts it, or in PATH. */
bool weir_lab_weir_find(char ret_path[PATH_MAX]);

/* ---- for experiments ---- */

/* Says why, and is false. */
__attribute__((format(printf, 2, 3))) bool weir_lab_fail(struct weir_lab_stand *stand, const char *why, ...);

/* Monotonic. */
uint64_t weir_lab_now_ns(void);
void weir_lab_sleep_ns(uint64_t ns);

/* A port of the loopback that nobody has just now. 0: there is none. */
uint16_t weir_lab_port(void);

/* Starts a program, looked for as above unless its name has a '/'; the words end with NULL. What it prints goes to
 * `name`.log in the folder. It dies with this process. 0: the stand says why not. */
pid_t weir_lab_start(struct weir_lab_stand *stand, const char *name, const char *const *words);
/* Kills it, and returns when it is gone. */
void weir_lab_kill(pid_t pid);
/* Whether it still runs; buries it if it does not. */
bool weir_lab_runs(pid_t pid);
/* Runs a program to its end; false if that was not good, or not within WEIR_LAB_READY_NS. */
bool weir_lab_complete(struct weir_lab_stand *stand, const char *name, const char *const *words);
/* A child of this process that runs `work` and ends; it has no stderr. 0: the stand says why not. */
pid_t weir_lab_fork(struct weir_lab_stand *stand, int (*work)(void *context), void *context);
