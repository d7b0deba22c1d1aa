/* SPDX-License-Identifier: Apache-2.0
 *
 * A fenced value in a folder: each write is a new file named by its token, created exclusively and fsynced; the highest
 * name is the value. No lock is held across a write, so a writer may be stopped anywhere, for as long as it likes.
 *
 *     I.N.mark   token I.N is installed             (I, N and S are zero-padded to 19 digits: names sort)
 *     I.N.S      what its holder wrote as its S-th; S = 0 is a hard link to what was the value when it was installed
 *
 * Why no acknowledged write is lost, and none that was refused is ever read:
 *   - install: make the mark, look that none is higher, link the highest older value to I.N.0, look again.
 *   - write: make the file, then look that no mark is higher, then acknowledge. Mark and file are each made before the
 *     maker looks, so either the writer sees the newer mark (and is not acknowledged) or the installer sees the file.
 *   - read: the highest mark's highest file, then look that no mark is higher. A late file of an older token counts for
 *     nobody, because the newer token has a value of its own from its install on.
 *   - removal, in ascending order: only by an install that has looked again (marks of older tokens, then their files)
 *     and by a write that was acknowledged (older files of its own token). So whoever finds its own mark,
 *     or the file that it chose, still there after it has looked cannot have missed a higher one that was there before.
 *
 * Needs a file system where a name that was made before a folder is opened is found in it: local ones. NFS caches
 * folders and is not for this. Each function blocks on the disk. Thread rule: any thread, any process. */
#pragma once

#include "weir/fence.h"

/* The folder must be there. Durable before it returns 0; the same token again is 0. WEIR_EFENCED; WEIR_ERANGE (no valid
 * token); WEIR_EIO (errno says why): installed or not. ret_mark: the one that fenced; NULL is allowed. */
int weir_fence_dir_install(const char *path, struct weir_token token, struct weir_token *ret_mark);

/* Everything that `from` gives until its end becomes the value, durable before it returns 0. WEIR_EFENCED,
 * WEIR_ENOTINSTALLED, WEIR_ERANGE: it never will. WEIR_EUNKNOWN: another token was installed at the same moment; its
 * holder may have found it or not. WEIR_EIO (errno says why): not acknowledged, but it may be found. */
int weir_fence_dir_write(const char *path, struct weir_token token, int from, struct weir_token *ret_mark);

/* The value, as a file open for reading (the caller closes it), and the token under which it stands; before the first
 * install an empty file of token {0, 0}: *ret_file -1. WEIR_EBUSY: an install is under way, or its process died; the
 * next install ends that. WEIR_EIO. */
int weir_fence_dir_read(const char *path, int *ret_file, struct weir_token *ret_token);
