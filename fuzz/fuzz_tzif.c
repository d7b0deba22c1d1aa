/* SPDX-License-Identifier: Apache-2.0
 *
 * Any bytes as a TZif file: an error, or a zone whose answers keep their promises. */
#include <stdint.h>
#include <stdlib.h>

#include "limits/calendar.h"
#include "limits/zone.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_day(const struct weir_zone *zone, uint64_t wall_ns)
{
    struct weir_calendar_rule rule = { .unit = WEIR_CALENDAR_DAY, .count = 1, .zone = zone };
    struct weir_calendar_window day = weir_calendar_at(&rule, 0, wall_ns);
    if (day.start_wall_ns > wall_ns || (day.end_wall_ns <= wall_ns && wall_ns != UINT64_MAX)) {
        abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct weir_zone *zone = NULL;
    if (weir_zone_create_from(data, size, &zone) != 0) {
        return 0;
    }
    int64_t before = INT64_MIN;
    for (int64_t local = -INT64_C(4000000000); local < INT64_C(20000000000); local += 39999999) {
        int64_t first = weir_zone_first_s(zone, local);
        if (first < before || first + weir_zone_offset_s(zone, first) < local ||
            first - 1 + weir_zone_offset_s(zone, first - 1) >= local) {
            abort();
        }
        before = first;
        if (local >= 0) {
            check_day(zone, (uint64_t)local * WEIR_NS_PER_SECOND);
        }
    }
    weir_zone_destroy(zone);
    return 0;
}
