/* SPDX-License-Identifier: Apache-2.0
 *
 * The last good rule set on this machine's disk: what a node goes on with while its store (rules/store.h) cannot be
 * asked, also after a restart. One file: which version it is, its checksum, its text. Whoever has compiled a version
 * and decides by it writes it; whoever starts without a store reads it.
 *
 * The file is replaced whole: written beside as PATH.new, of mode 0600, synced, renamed, its folder synced. A kill at
 * any moment leaves the one before or the new one. It is checked (SHA-256 of all of it) and used only if every byte is
 * as weir wrote it. What is at PATH and is not weir's is never read as one, and never replaced. A link at PATH is
 * followed by neither: it is somebody else's.
 *
 * Thread rule: any thread; one writer for a path at a time. Calls block for the disk. */
#pragma once

#include "rules/store.h"

/* Durable when 0 is returned. WEIR_EPROTO: there is something else at `path`, which stays; WEIR_ERANGE: a later weir's
 * (it stays, too), a path of no or more than 4,000 bytes, a text as weir_rule_change has it, a head without a number;
 * WEIR_EINVAL: the head's checksum is not the text's; WEIR_EIO, WEIR_ENOMEM. What was there before stays after any; but
 * where the fault says that the folder could not be synced, it has been replaced, and may be there again after a crash
 * of the machine. A damaged one of weir's is replaced. */
WEIR_MUST_CHECK int weir_rule_kept_write(const char *path, const struct weir_rule_head *head, struct weir_slice text,
                                         struct weir_fault *ret_fault);

/* *ret_text: `*ret_size` bytes and a NUL; free() it. WEIR_ENOENT: there is none; WEIR_EPROTO: it is not weir's;
 * WEIR_ERANGE: of a later weir; WEIR_ECORRUPT: damaged or cut off; WEIR_EIO, WEIR_ENOMEM. */
WEIR_MUST_CHECK int weir_rule_kept_read(const char *path, struct weir_rule_head *ret_head, char **ret_text,
                                        size_t *ret_size, struct weir_fault *ret_fault);
