/* SPDX-License-Identifier: Apache-2.0
 *
 * Prints SVG elements with fprintf, at fixed sizes. Each series is a line of steps; points that are closer than
 * 1/WEIR_CHART_POINTS_MAX of the span become one step. Called by scenario_print.c; the picture of a single run is
 * picture.c. */
#include "sim/chart.h"

#include <assert.h>
#include <inttypes.h>

enum { WIDTH = 640, HEIGHT = 240, LEFT = 56, RIGHT = 26, TOP = 60, BOTTOM = 26, LEGEND_COLUMNS = 3 };

static const char *const colours[WEIR_CHART_SERIES_MAX] = { "#cf222e", "#1f6feb", "#1a7f37",
                                                            "#8250df", "#bc4c00", "#0a7b83" };

/* The least of 1, 2, 5 times a power of ten that is at least a fifth of `most`. */
static uint64_t step_of(uint64_t most)
{
    for (uint64_t ten = 1;; ten *= 10) {
        for (unsigned i = 0; i < 3; i++) {
            uint64_t step = ten * (uint64_t[]){ 1, 2, 5 }[i];
            if (step * 5 >= most || ten >= UINT64_C(1000000000000000))
                return step;
        }
    }
}

static double x_of(const struct weir_chart *chart, uint64_t ns)
{
    return LEFT + (double)(WIDTH - LEFT - RIGHT) * (double)ns / (double)chart->span_ns;
}

static double y_of(uint64_t most, uint64_t units)
{
    return HEIGHT - BOTTOM - (double)(HEIGHT - TOP - BOTTOM) * (double)units / (double)most;
}

static uint64_t most_of(const struct weir_chart *chart)
{
    uint64_t most = chart->limit > chart->bound ? chart->limit : chart->bound;
    for (size_t i = 0; i < chart->series_count; i++) {
        if (chart->series[i].count > most)
            most = chart->series[i].count;
    }
    return most + most / 12 + 1;
}

static void write_across(FILE *out, uint64_t most, uint64_t units, const char *name, const char *dash)
{
    double y = y_of(most, units);
    fprintf(out, "<path d=\"M%d %.1fH%d\" stroke=\"#24292f\" stroke-dasharray=\"%s\"/>\n", LEFT, y, WIDTH - RIGHT,
            dash);
    fprintf(out, "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%s %" PRIu64 "</text>\n", WIDTH - RIGHT - 2, y - 3,
            name, units);
}

static void write_scales(const struct weir_chart *chart, uint64_t most, FILE *out)
{
    fprintf(out, "<path d=\"M%d %dV%dH%d\" fill=\"none\" stroke=\"#8c959f\"/>\n", LEFT, TOP, HEIGHT - BOTTOM,
            WIDTH - RIGHT);
    uint64_t step = step_of(most);
    for (uint64_t units = 0; units <= most; units += step)
        fprintf(out, "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%" PRIu64 "</text>\n", LEFT - 5,
                y_of(most, units) + 4, units);
    uint64_t span_ms = chart->span_ns / 1000000;
    uint64_t step_ms = step_of(span_ms);
    for (uint64_t ms = 0; ms <= span_ms; ms += step_ms)
        fprintf(out, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%g %s</text>\n", x_of(chart, ms * 1000000),
                HEIGHT - BOTTOM + 15, step_ms >= 1000 ? (double)ms / 1000 : (double)ms, step_ms >= 1000 ? "s" : "ms");
    write_across(out, most, chart->limit, "limit", "4 3");
    if (chart->bound > chart->limit)
        write_across(out, most, chart->bound, "bound", "1 3");
}

/* A step for each point that can be told from the one before. */
static void write_series(const struct weir_chart *chart, uint64_t most, size_t number, FILE *out)
{
    const struct weir_chart_series *series = &chart->series[number];
    fprintf(out, "<path fill=\"none\" stroke-width=\"1.6\" stroke=\"%s\" d=\"M%d %d", colours[number], LEFT,
            HEIGHT - BOTTOM);
    uint64_t grain_ns = chart->span_ns / WEIR_CHART_POINTS_MAX;
    for (size_t i = 0; i < series->count;) {
        uint64_t begin_ns = series->times_ns[i];
        while (i < series->count && series->times_ns[i] <= begin_ns + grain_ns)
            i++;
        fprintf(out, "H%.1fV%.1f", x_of(chart, begin_ns), y_of(most, i));
    }
    fprintf(out, "H%d\"/>\n", WIDTH - RIGHT);
    int column = (int)number % LEGEND_COLUMNS, row = (int)number / LEGEND_COLUMNS;
    fprintf(out, "<text x=\"%d\" y=\"%d\" fill=\"%s\">%s: %zu</text>\n",
            LEFT + column * (WIDTH - LEFT) / LEGEND_COLUMNS, 34 + 15 * row, colours[number], series->name,
            series->count);
}

void weir_chart_write(const struct weir_chart *chart, FILE *out)
{
    assert(chart->series_count <= WEIR_CHART_SERIES_MAX && chart->span_ns > 0);
    uint64_t most = most_of(chart);
    fprintf(out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" role=\"img\" font-family=\"sans-serif\" "
            "font-size=\"11\" fill=\"#24292f\">\n<title>%s</title>\n<path fill=\"#fff\" d=\"M0 0H%dV%dH0z\"/>\n"
            "<text x=\"%d\" y=\"16\" font-size=\"13\" font-weight=\"bold\">%s</text>\n",
            WIDTH, HEIGHT, chart->title, WIDTH, HEIGHT, LEFT, chart->title);
    write_scales(chart, most, out);
    for (size_t i = 0; i < chart->series_count; i++)
        write_series(chart, most, i, out);
    fputs("</svg>\n", out);
}
