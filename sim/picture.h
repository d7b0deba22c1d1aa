/* SPDX-License-Identifier: Apache-2.0
 *
 * A run as a picture, SVG: what each node and all together had admitted by when, the line of the limit, and the faults.
 * Readable on light and dark. */
#pragma once

#include <stdio.h>

#include "sim/run.h"

void weir_sim_picture_write(const struct weir_sim_plan *plan, const struct weir_sim_trace *trace, FILE *out);
