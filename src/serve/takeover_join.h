/* SPDX-License-Identifier: Apache-2.0
 *
 * The other side of takeover.h: a process that takes over from the weir that listens at a path. It connects, gets the
 * listeners, reads its configuration, and says that it is ready; gets counters and connections, puts a server together
 * and says so; and decides when it is told to. Until then its end changes nothing for the predecessor, so whatever goes
 * wrong, it just ends.
 *
 * Thread rule: the main thread's; weir_takeover_join_adopt and _follow hand connections to loops. */
#pragma once

#include "serve/loop.h"
#include "serve/opened.h"
#include "serve/systemd.h"

struct weir_takeover_join;

/* WEIR_ENOENT: nobody listens at `path`, and there is nothing to take over. WEIR_EHELD: it refuses, or is somebody
 * else's; the fault's text says why. WEIR_EPROTO, WEIR_EIO (it does not answer), WEIR_ENOMEM. */
int weir_takeover_join_create(const char *path, struct weir_takeover_join **ret_join, struct weir_fault *ret_fault);
void weir_takeover_join_destroy(struct weir_takeover_join *join); /* NULL is allowed */

/* The predecessor's version, its process, and the socket at which successors come; that is the join's until taken. */
const char *weir_takeover_join_version(const struct weir_takeover_join *join);
int32_t weir_takeover_join_pid(const struct weir_takeover_join *join);
int weir_takeover_join_take_socket(struct weir_takeover_join *join);

/* Number 0 to WEIR_LISTENERS_MAX - 1, until it decides; NULL: there is none of this number. */
const struct weir_handed_listener *weir_takeover_join_listener(const struct weir_takeover_join *join, size_t index);

/* Where there is nobody to be told how it goes: whom the predecessor told. */
void weir_takeover_join_tell(const struct weir_takeover_join *join, struct weir_systemd *systemd);

/* Says READY, and waits for the counters and the connections. Errors as above. */
int weir_takeover_join_ready(struct weir_takeover_join *join, struct weir_fault *ret_fault);
int weir_takeover_join_take_counters(struct weir_takeover_join *join); /* the descriptor of a snapshot; once */
int weir_takeover_join_lock(const struct weir_takeover_join *join);    /* of table.snapshot; -1: none. The join's */
size_t weir_takeover_join_connections(const struct weir_takeover_join *join);

/* Says TAKEN, waits for GO and says DECIDING. 0: this process decides, and the other does not. */
int weir_takeover_join_begin_deciding(struct weir_takeover_join *join, struct weir_fault *ret_fault);

/* Hands the connections to the loops: before they start, or later. */
void weir_takeover_join_adopt(struct weir_takeover_join *join, struct weir_common *common);

/* Goes on to take connections that the predecessor was not done with, until it has ended. */
int weir_takeover_join_follow(struct weir_takeover_join *join, struct weir_common *common, uv_loop_t *uv);
/* There may be more to come. NULL: false. */
bool weir_takeover_join_is_open(const struct weir_takeover_join *join);
void weir_takeover_join_close(struct weir_takeover_join *join); /* its handle; NULL is allowed */
