/* SPDX-License-Identifier: Apache-2.0
 *
 * One small SVG: what each way of sharing had admitted by when, beside what it may admit. Steps, not slopes: units are
 * whole. The lines are also in the table that is printed, for those who cannot see the picture. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define WEIR_CHART_SERIES_MAX 6
#define WEIR_CHART_POINTS_MAX 240 /* of one series: as many as can be told apart */

struct weir_chart_series {
    const char *name;
    const uint64_t *times_ns; /* of each unit admitted, in order */
    size_t count;
};

struct weir_chart {
    const char *title;
    uint64_t span_ns;
    uint64_t limit, bound; /* drawn across; bound 0 or equal to the limit is not drawn */
    struct weir_chart_series series[WEIR_CHART_SERIES_MAX];
    size_t series_count;
};

void weir_chart_write(const struct weir_chart *chart, FILE *out);
