/* SPDX-License-Identifier: Apache-2.0
 *
 * A number for each part of what the dashboard shows and that changes now and then: another number, and the part is
 * worth asking for again. So readers of GET /v1/live (http_live.c) need not ask for all of it all the time. */
#pragma once

#include "serve/loop.h"

/* Looks at all parts, while somebody reads; on the server's own thread. */
void weir_marks_look(struct weir_common *common, const struct weir_setup *setup);
