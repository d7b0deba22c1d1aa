/* SPDX-License-Identifier: Apache-2.0
 *
 * A command under a lock: in a process group of its own, with the token in its environment, ended before the lease. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "weir/lock.h"

enum weir_lock_exit {
    WEIR_LOCK_EXIT_UNKNOWN = 69, /* EX_UNAVAILABLE: no answer, so the command was not run */
    WEIR_LOCK_EXIT_LOST = 70,    /* the lock was lost, or could not be renewed, while the command ran */
    WEIR_LOCK_EXIT_HELD = 75,    /* EX_TEMPFAIL: another holds it, so the command was not run */
    WEIR_LOCK_EXIT_CANNOT_RUN = 126,
    WEIR_LOCK_EXIT_NOT_FOUND = 127,
};

struct weir_lock_run {
    const char *name;
    char **command; /* ended by NULL */
    uint64_t ttl_ns;
    bool progress; /* the command says that it advances, by writing to the descriptor WEIR_PROGRESS_FD */
};

/* The command's exit code, 128 + the signal that ended it, or one of the above. The lock is released. */
int weir_lock_run(struct weir_lock *lock, const struct weir_lock_run *given);
