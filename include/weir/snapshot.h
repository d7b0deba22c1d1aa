/* SPDX-License-Identifier: Apache-2.0
 *
 * Snapshots: what a limiter's keys have used, in a file, so that a restart does not forget it.
 *
 *     struct weir_moment moment;                           before the first weir_limiter_define:
 *     weir_moment_read(&moment);
 *     if (weir_snapshot_open(path, &reader, &fault) == 0) {
 *         memcpy(secret, weir_snapshot_secret(reader), 16);
 *         weir_limiter_create(&(struct weir_limiter_options){ .secret = secret }, &limiter, &fault);
 *         weir_snapshot_restore(reader, limiter, &moment, &stats, &fault);
 *         weir_snapshot_close(reader);
 *     }
 *     weir_limiter_define(limiter, defs, ...);             keys are carried over to it as by any reload
 *
 *     weir_snapshot_begin(limiter, path, NULL, 0, &writer, &fault);          every 10 s, by a thread of its own
 *     do {
 *         weir_moment_read(&moment);
 *     } while (weir_snapshot_step(writer, 4096, &moment, &stats, &fault) == WEIR_EAGAIN);
 *     weir_snapshot_end(writer);
 *
 * In it: the states of keys under every algorithm, with their logs and permits; the definitions that they go by; the
 * secret that places keys; the clocks. Not in it: counters of refusals, limits that an engine or other nodes keep.
 *
 * What it promises. After a restart from a snapshot a key has used at least what it had used when the writing began. A
 * process that is killed forgives no more of any key than was admitted since the last snapshot began, and one that
 * writes its last after its last decision forgives nothing. Of a request under several limits one may be in it without
 * the other; each by itself keeps that promise. What was given back or forgotten (weir_limiter_forget) after it was
 * read comes back as used.
 *
 * Time goes on while nobody decides: by the boot clock within one boot of the machine, else by the wall clock, and
 * never backwards. Under sliding_log a unit from before a reboot counts as of the boot at the earliest, since nothing
 * is older than the clock: it counts for longer than it should, by less than a period.
 *
 * Deciding goes on while a snapshot is written. One entry at a time is held, and only under algorithms other than
 * buckets; for a log that is as long as it takes to copy it. Replacing the limits meanwhile begins the writing anew.
 *
 * The file: mode 0600, for it holds the secret; written beside its place as PATH.new, synced, then renamed, so that
 * PATH is always a whole one. Whoever writes PATH must be alone: two writers of one PATH undo each other (`weir serve`
 * locks PATH.lock). Every block is authenticated by its secret against damage, not against who can write it.
 *
 * Thread rule: a writer or a reader is used by one thread at a time. Writing may go on beside everything else that is
 * done with the limiter; one writer at a time. Restoring: nobody else uses the limiter. */
#ifndef WEIR_SNAPSHOT_H
#define WEIR_SNAPSHOT_H

#include "weir/limiter.h"

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#pragma GCC visibility push(default)
#endif

#define WEIR_SNAPSHOT_SECRET_BYTES 16
#define WEIR_SNAPSHOT_NOTE_MAX 64

/* The clocks at one moment. now_ns and wall_ns as in struct weir_time, of which now_ns is what decisions are given. */
struct weir_moment {
    uint64_t now_ns;
    uint64_t wall_ns;
    uint64_t boot_ns;    /* since the machine started, suspended or not: CLOCK_BOOTTIME */
    uint8_t boot_id[16]; /* which start that was; zeros: not known, the wall clock tells */
};

/* CLOCK_MONOTONIC, CLOCK_REALTIME, CLOCK_BOOTTIME, and Linux's boot_id. */
void weir_moment_read(struct weir_moment *ret_moment);

struct weir_snapshot_stats {
    uint64_t keys;    /* written, or restored */
    uint64_t fresh;   /* restored: keys that had become fresh meanwhile, and were left out */
    uint64_t lost;    /* restored: keys that found no place, as the memory is smaller: what they used is forgiven */
    uint64_t bytes;   /* of the file */
    uint64_t away_ns; /* restored: how much time had passed since it was written */
    uint64_t reserved[WEIR_RESERVED];
};

/* ---- writing ---- */

struct weir_snapshot_writer;

/* Begins a snapshot of `limiter` at `path`. `note`: up to WEIR_SNAPSHOT_NOTE_MAX bytes of the caller's own, for
 * weir_snapshot_note. Errors: WEIR_ERANGE (the note, a path of no or more than 4,000 bytes), WEIR_EIO (PATH.new cannot
 * be made; the fault says why), WEIR_ENOMEM. */
WEIR_MUST_CHECK int weir_snapshot_begin(struct weir_limiter *limiter, const char *path, const void *note,
                                        size_t note_size, struct weir_snapshot_writer **ret_writer,
                                        struct weir_fault *ret_fault);

/* Writes up to `lines_max` lines of 64 bytes more. WEIR_EAGAIN: more is to be done. 0: PATH is the snapshot, and
 * *ret_stats tells of it. WEIR_EIO: what was there before stays; but where the fault says that the folder could not be
 * synced, PATH is the new one, and what was there before may be again after a crash of the machine. Either is a whole
 * snapshot. After either of the last two only weir_snapshot_end may follow. */
WEIR_MUST_CHECK int weir_snapshot_step(struct weir_snapshot_writer *writer, size_t lines_max,
                                       const struct weir_moment *moment, struct weir_snapshot_stats *ret_stats,
                                       struct weir_fault *ret_fault);

/* NULL is allowed. Before the end: gives it up, and PATH stays as it was. */
void weir_snapshot_end(struct weir_snapshot_writer *writer);

/* ---- restoring ---- */

struct weir_snapshot_reader;

/* Opens the snapshot at `path` and looks through all of it. Errors: WEIR_ENOENT (there is none), WEIR_EIO (it cannot be
 * read), WEIR_EPROTO (it is no snapshot), WEIR_ERANGE (of a later version), WEIR_ECORRUPT (damaged or cut off; the
 * fault says where), WEIR_ENOMEM. */
WEIR_MUST_CHECK int weir_snapshot_open(const char *path, struct weir_snapshot_reader **ret_reader,
                                       struct weir_fault *ret_fault);

/* What the limiter must be made with (struct weir_limiter_options). WEIR_SNAPSHOT_SECRET_BYTES. */
const uint8_t *weir_snapshot_secret(const struct weir_snapshot_reader *reader);
/* WEIR_SNAPSHOT_NOTE_MAX bytes, zeros behind what was noted. */
const uint8_t *weir_snapshot_note(const struct weir_snapshot_reader *reader);

/* Defines the limits of the snapshot in a limiter that has had none yet, and puts the keys there. Errors: WEIR_EINVAL
 * (another secret, or the limiter has limits), WEIR_ERANGE (memory_max was below 1 MiB and is more now: keys cannot be
 * placed by what is known of them), WEIR_ECORRUPT (it contradicts itself), those of weir_limiter_define, WEIR_EIO.
 * After an error some keys may be there: make a new limiter. */
WEIR_MUST_CHECK int weir_snapshot_restore(struct weir_snapshot_reader *reader, struct weir_limiter *limiter,
                                          const struct weir_moment *moment, struct weir_snapshot_stats *ret_stats,
                                          struct weir_fault *ret_fault);

void weir_snapshot_close(struct weir_snapshot_reader *reader); /* NULL is allowed */

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif

#ifdef __cplusplus
}
#endif
#endif
