/* SPDX-License-Identifier: Apache-2.0
 *
 * Keeps what the limiter's keys have used in a file (table.snapshot), so that a restart does not forget it: opens
 * what is there, restores it, and writes snapshots (weir/snapshot.h) from a thread of its own, again and again after
 * table.snapshot_every, and one at the end. Called by cli/serve_state.c and serve_takeover.c, and by takeover.c; the
 * log and /metrics look at it.
 *
 * Thread rule: weir_saver_view from any thread; all else from the main thread. */
#pragma once

#include "wire/permit.h"

struct weir_saver;

/* Takes PATH.lock, which stays and holds nothing, and opens what is at `path`. What is damaged, or of a later weir, is
 * put aside as PATH.ignored. A link is followed. Errors: WEIR_EHELD (another weir has it), WEIR_EPROTO (it is somebody
 * else's file), WEIR_EIO (nothing can be written there, or read), WEIR_ERANGE, WEIR_ENOMEM. */
int weir_saver_open(const char *path, uint64_t every_ns, struct weir_saver **ret_saver, struct weir_fault *ret_fault);
/* The same in the place of a predecessor, whose lock `lock_fd` is (-1: it had none); what is at `path` is older than
 * what it hands over, and is not looked at. The descriptor stays the caller's. */
int weir_saver_open_handed(const char *path, uint64_t every_ns, int lock_fd, struct weir_saver **ret_saver,
                           struct weir_fault *ret_fault);
/* What of that can be seen without a change: the folder is there, and what is at `path` is ours or nobody's. */
int weir_saver_check(const char *path, struct weir_fault *ret_fault);
void weir_saver_destroy(struct weir_saver *saver); /* NULL is allowed */

/* What the limiter must be made with; NULL: there is nothing to be restored, or it has been. */
const uint8_t *weir_saver_secret(const struct weir_saver *saver);
/* By which permits from before the restart are known; false: there are none. */
bool weir_saver_permits(const struct weir_saver *saver, struct weir_permit_secret *ret_secret);

/* Restores what was opened. After an error it has been put aside as PATH.ignored; the limiter is of no use. */
int weir_saver_restore(struct weir_saver *saver, struct weir_limiter *limiter, struct weir_fault *ret_fault);
/* What was found at the start, for people: "counters of 3 keys ..."; "" until it is known. ret_warns: some of it is
 * forgotten. */
const char *weir_saver_said(const struct weir_saver *saver, bool *ret_warns);

/* Snapshots from now on. WEIR_ENOMEM: no thread. */
int weir_saver_start(struct weir_saver *saver, struct weir_limiter *limiter, const struct weir_permit_secret *permits);
/* No more; and the last one, once nobody decides any more. */
void weir_saver_finish(struct weir_saver *saver);

/* ---- handing over: another process writes the file from then on ---- */

void weir_saver_pause(struct weir_saver *saver);     /* no more, and no last one */
int weir_saver_go_on(struct weir_saver *saver);      /* again: it does not. WEIR_ENOMEM: no thread */
int weir_saver_lock(const struct weir_saver *saver); /* the descriptor of PATH.lock */
void weir_saver_leave(struct weir_saver *saver);     /* it does; there is nothing to be said of the last one */

struct weir_saver_view {
    const char *path;
    uint64_t done, failed; /* snapshots */
    uint64_t keys, bytes;  /* of the last one done */
    uint64_t took_ns;      /* from its begin to its end, pauses included */
    uint64_t wall_ns;      /* when it began, or the one that was restored: what was admitted later, a kill forgives.
                              0: there was none */
    bool failing;          /* the last one failed */
    char fault[160];       /* why */
};
void weir_saver_view(struct weir_saver *saver, struct weir_saver_view *ret_view);
