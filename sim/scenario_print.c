/* SPDX-License-Identifier: Apache-2.0
 *
 * Prints the rows of a scenario as a table, or draws them (chart.c). Called by cli/sim.c. */
#include <inttypes.h>

#include "sim/chart.h"
#include "sim/scenario.h"

static void print_row(const struct weir_scenario_way *way, const struct weir_scenario_row *row, FILE *out)
{
    char bound[24] = "none";
    if (!row->naive)
        snprintf(bound, sizeof(bound), "%" PRIu64, row->bound);
    double factor = row->limit ? (double)row->admitted / (double)row->limit : 0;
    double mean_ms = row->asked ? (double)row->wait_total_ns / (double)row->asked / 1e6 : 0;
    fprintf(out, "%-36s %9" PRIu64 " %9" PRIu64 " %9" PRIu64 " %6.2fx %9s %9" PRIu64 " %6.1f ms %6.1f ms%s%s\n",
            way->label, row->asked, row->admitted, row->limit, factor, bound, row->to_engine, mean_ms,
            (double)row->wait_max_ns / 1e6, row->kept || row->naive ? "" : "  BROKEN: ", row->naive ? "" : row->why);
}

void weir_scenario_print(const struct weir_scenario *scenario, const struct weir_scenario_row *rows, FILE *out)
{
    fprintf(out, "%s\n\n%-36s %9s %9s %9s %7s %9s %9s %9s %9s\n", scenario->title, "", "asked", "admitted", "limit",
            "factor", "bound", "engine", "mean", "longest");
    for (uint32_t i = 0; i < scenario->ways_count; i++)
        print_row(&scenario->ways[i], &rows[i], out);
    fputc('\n', out);
    for (uint32_t i = 0; i < scenario->says_count; i++)
        fprintf(out, "%s\n", scenario->says[i]);
}

void weir_scenario_draw(const struct weir_scenario *scenario, const struct weir_scenario_row *rows, FILE *out)
{
    struct weir_chart chart = { .title = scenario->title,
                                .span_ns = scenario->plan.duration_ns,
                                .limit = rows[0].limit };
    for (uint32_t i = 0; i < scenario->ways_count && i < WEIR_CHART_SERIES_MAX; i++)
        chart.series[chart.series_count++] = (struct weir_chart_series){ .name = scenario->ways[i].label,
                                                                         .times_ns = rows[i].times_ns,
                                                                         .count = rows[i].times_count };
    weir_chart_write(&chart, out);
}
