/* SPDX-License-Identifier: Apache-2.0
 *
 * The inside of a zone, and how a TZif file becomes one. Only zone.c and this module look at it.
 *
 * The footer's rule is written out into changes up to WEIR_ZONE_YEAR_MAX when the zone is read, so that a look-up is
 * one binary search: uint64 nanoseconds end in 2554. */
#pragma once

#include "limits/zone.h"
#include "limits/zone_rule.h"

#define WEIR_ZONE_YEAR_MIN 1900 /* rules of files without transitions are written out from here */
#define WEIR_ZONE_YEAR_MAX 2600

struct weir_zone {
    int32_t first_offset_s; /* before changes[0] */
    size_t count;
    struct weir_zone_change changes[]; /* at_s strictly rising */
};

/* As weir_zone_create_from. */
int weir_zone_tzif_parse(const void *tzif, size_t size, struct weir_zone **ret_zone);
