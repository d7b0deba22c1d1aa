/* SPDX-License-Identifier: Apache-2.0
 *
 * Refuses requests whose key is banned (docs/exceptions.md), before a limit or an engine is asked. Where nothing is
 * banned that costs two loads. */
#pragma once

#include "serve/decide.h"

/* True: refused, and counted; nothing is charged. Of several limits whose key is banned, the one that is for longest.
 * A limit in shadow refuses nobody, and what costs nothing is not refused. */
bool weir_banned(struct weir_loop *loop, const struct weir_question *question, const struct weir_time *time,
                 struct weir_outcome *outcome);
