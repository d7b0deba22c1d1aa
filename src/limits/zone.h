/* SPDX-License-Identifier: Apache-2.0
 *
 * IANA time zones: what a clock on the wall shows at an instant, and when it first shows a given time.
 *
 * A zone is read once, from the system's TZif file (version 2 or later), and never changes: libc's own time zone
 * functions share one zone per process. Times after the file's last transition follow its footer (a POSIX TZ rule).
 *
 * What it does not: notice that the system's tzdata was updated (create the zone again), abbreviations, leap seconds
 * (files that count them are refused: ours is POSIX time).
 *
 * Times are seconds since 1970-01-01T00:00Z. `local_s` is what the wall shows, written as if it were UTC: local_s =
 * utc_s + offset. Any int64 within +-2^60 is legal; rules are followed to the year 2600, after that the last offset
 * stays.
 *
 * Thread rule: a zone is immutable; read it from any thread. About 20 KB each. O(log transitions) a call.
 * Source: RFC 9636 (TZif), POSIX.1-2017 chapter 8 (TZ). */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "weir/error.h"

struct weir_zone;

#define WEIR_ZONE_NAME_MAX 64              /* bytes */
#define WEIR_ZONE_FILE_MAX ((size_t)65536) /* bytes; the longest of tzdata is under 4,000 */
#define WEIR_ZONE_OFFSET_MAX_S (26 * 3600) /* every offset lies strictly between -this and this */

/* "Europe/Berlin". NULL and "UTC" need no file. Names are made of letters, digits, "_", "-", "+" and single "/" between
 * them, so that none leaves the zoneinfo folder.
 * Errors: WEIR_EINVAL (no legal name, no such zone), WEIR_EPROTO (a malformed file), WEIR_EIO, WEIR_ENOMEM. */
int weir_zone_create(const char *name, struct weir_zone **ret_zone);

/* The same from a TZif file's bytes; what follows its footer is ignored. WEIR_EPROTO, WEIR_ENOMEM. */
int weir_zone_create_from(const void *tzif, size_t size, struct weir_zone **ret_zone);

void weir_zone_destroy(struct weir_zone *zone); /* NULL is allowed */

/* East of Greenwich is positive. A NULL zone is UTC, here and below. */
int32_t weir_zone_offset_s(const struct weir_zone *zone, int64_t utc_s);

/* By how much its wall clocks are put back at most at one time, since 2000: a day is so much longer. */
uint64_t weir_zone_back_ns(const struct weir_zone *zone);

/* The first instant at which the wall shows `local_s` or later: in a gap (spring) the first instant after it, in an
 * overlap (autumn) the first of the two. Never falls while local_s rises. */
int64_t weir_zone_first_s(const struct weir_zone *zone, int64_t local_s);
