/* SPDX-License-Identifier: Apache-2.0
 *
 * GET /v1/live: the rows of GET /v1/hour as they come, and marks (marks.h), as server-sent events, at most two in a
 * second. All streams of a loop go by one timer, and those that are at the same row, which is nearly all of them, are
 * sent the same bytes, which are written once.
 *
 * Bounds: WEIR_LIVE_STREAMS_MAX streams of the process; one more is answered 503. WEIR_LIVE_UNSENT_MAX bytes that one
 * has not taken, and WEIR_LIVE_SOCKET_MAX in the kernel: a reader that is slower is cut off. A stream ends when the
 * configuration changes, for its token may be gone, and when the server drains or hands over. One loop's thread. */
#pragma once

#include "serve/http_call.h"

#define WEIR_LIVE_STREAMS_MAX 64
#define WEIR_LIVE_UNSENT_MAX ((size_t)32 << 10)
#define WEIR_LIVE_SOCKET_MAX (16 << 10) /* the kernel doubles it */
#define WEIR_LIVE_TICK_NS (WEIR_NS_PER_SECOND / 2)
#define WEIR_LIVE_ROWS_MAX 4 /* in one event; who is further behind gets the rest with the next ones */

void weir_http_live(struct weir_http_call *call);
void weir_http_live_drop(struct weir_http_session *session); /* the connection ends */
