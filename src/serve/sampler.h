/* SPDX-License-Identifier: Apache-2.0
 *
 * Once a second what all loops have counted goes into the last hour (observe/hour.h).
 *
 * Thread rule: that of the server. */
#pragma once

#include "serve/loop.h"

/* Whenever there is a moment; it does nothing where a second has not gone by. */
void weir_sampler_look(struct weir_common *common, const struct weir_time *time);
