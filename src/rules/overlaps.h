/* SPDX-License-Identifier: Apache-2.0
 *
 * What of a configuration gets in the way of something else in it: two limits of one name (an error), names that differ
 * only in case, limits that can never decide because a stricter one sees the same requests, overrides of the same keys
 * (warnings). O(n log n) in limits and overrides. */
#pragma once

#include "rules/decode.h"

/* WEIR_EEXIST and the fault for the error; marks the overrides that are shadowed. */
int weir_overlaps_find(struct weir_decode *decode);
