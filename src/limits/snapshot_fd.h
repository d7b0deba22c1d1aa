/* SPDX-License-Identifier: Apache-2.0
 *
 * Snapshots (weir/snapshot.h) that go from one process to another and not to a file: in a descriptor of the caller's,
 * of memory (memfd_create), which the other process gets. A weir that is taken over hands its counters over by it
 * (serve/takeover.h). Thread rule: as there. */
#pragma once

#include "weir/snapshot.h"

/* As weir_snapshot_begin, into `fd`, an empty file that stays the caller's. The last step sets it to its beginning. */
int weir_snapshot_begin_fd(struct weir_limiter *limiter, int fd, const void *note, size_t note_size,
                           struct weir_snapshot_writer **ret_writer, struct weir_fault *ret_fault);

/* As weir_snapshot_open, of what is in `fd`, from its place on; it is closed with the reader, and after an error. */
int weir_snapshot_open_fd(int fd, struct weir_snapshot_reader **ret_reader, struct weir_fault *ret_fault);
