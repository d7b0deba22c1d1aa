/* SPDX-License-Identifier: Apache-2.0
 *
 * The loops of a server that hands over, all of them: each step is told to them, and they are asked whether they have
 * taken it (loop_hand.c). Thread rule: the main thread's. */
#pragma once

#include "serve/loop.h"

void weir_takeover_step(struct weir_common *common, enum weir_handing handing);

/* All have heard of the last step. */
bool weir_takeover_all_seen(const struct weir_common *common);
/* And nothing is left to be done. Else they are asked again. */
bool weir_takeover_all_still(struct weir_common *common);
