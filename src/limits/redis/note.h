/* SPDX-License-Identifier: Apache-2.0
 *
 * Notes (limits/remote.h): values that are no counters, read and written with GETRANGE and SET. No script, for
 * whoever writes last is corrected by whoever knows better. */
#pragma once

#include "limits/remote.h"

#define WEIR_REDIS_NOTE_TTL_S "31622400" /* 366 days */

int weir_redis_note(struct weir_remote *remote, struct weir_remote_note *note);
