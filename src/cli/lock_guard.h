/* SPDX-License-Identifier: Apache-2.0
 *
 * The guard of `weir lock`: a process of its own that kills the command's process group at the holder's deadline, and
 * at once when `weir lock` dies. `weir lock` itself may be stopped (SIGSTOP, ^Z) or starved at that moment.
 *
 * The deadline lies in memory that the two share; the command's group comes through a pipe, written by the command
 * itself before it runs anything, so that there is no moment in which it runs unguarded. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct weir_guard {
    struct weir_guard_shared *shared;
    int pipe;  /* the end to write to; the guard sees it close when all who have it are gone */
    pid_t pid; /* -1: there is none */
};

/* The lease as the guard is to know it: ns of client/clock.h, the holder's own deadline. WEIR_EIO and errno. */
int weir_guard_start(struct weir_guard *guard, uint64_t end_ns);

/* From `weir lock`, as often as the deadline moves. */
void weir_guard_extend(struct weir_guard *guard, uint64_t end_ns);

/* From the command's process, which is the leader of its group, before it runs the command; only what is safe between
 * fork and exec. False: the lease has ended, or the guard is gone; it must not run. */
bool weir_guard_enter(const struct weir_guard *guard);

/* If the guard has died (somebody killed it, the machine had no memory) or is stopped, another takes its place for the
 * command's group. False: none can be started, and nothing guards the command. */
bool weir_guard_keep(struct weir_guard *guard, pid_t group, uint64_t end_ns, bool *ret_replaced);

/* Before the command's process is reaped: after that its number may be another's. */
void weir_guard_stop(struct weir_guard *guard);
