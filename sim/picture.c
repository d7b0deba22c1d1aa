/* SPDX-License-Identifier: Apache-2.0
 *
 * Admissions are summed up in 240 columns of time, once for all nodes and once for each node; each fault is a bar
 * below. Called by cli/sim.c for --plot. Scenarios are drawn by chart.c. */
#include "sim/picture.h"

#include <inttypes.h>
#include <string.h>

#include "base/checked.h"

#define LEFT 64
#define TOP 40
#define WIDTH 720
#define HEIGHT 360
#define BAND 12 /* of one fault, below */
#define COLUMNS 240

struct axes {
    uint64_t span_ns, units;
};

static double x_of(const struct axes *axes, uint64_t at_ns)
{
    return LEFT + (double)WIDTH * (double)at_ns / (double)axes->span_ns;
}

static double y_of(const struct axes *axes, uint64_t units)
{
    return TOP + HEIGHT - (double)HEIGHT * (double)units / (double)axes->units;
}

/* Units admitted up to the end of each column, by one node or by all (UINT32_MAX). */
static void sum(const struct weir_sim_plan *plan, const struct weir_sim_trace *trace, uint32_t node,
                uint64_t ret_units[COLUMNS])
{
    memset(ret_units, 0, COLUMNS * sizeof ret_units[0]);
    for (size_t i = 0; i < trace->count; i++) {
        const struct weir_sim_mark *mark = &trace->marks[i];
        uint64_t column = weir_min_u64(mark->at_ns * COLUMNS / plan->duration_ns, COLUMNS - 1);
        if (node == UINT32_MAX || mark->node == node)
            ret_units[column] += mark->units;
    }
    for (int i = 1; i < COLUMNS; i++)
        ret_units[i] += ret_units[i - 1];
}

static void line_write(const struct axes *axes, const uint64_t units[COLUMNS], const char *class, FILE *out)
{
    fprintf(out, "<polyline class=\"%s\" points=\"%.1f,%.1f", class, x_of(axes, 0), y_of(axes, 0));
    for (uint64_t i = 0; i < COLUMNS; i++)
        fprintf(out, " %.1f,%.1f", x_of(axes, (i + 1) * axes->span_ns / COLUMNS), y_of(axes, units[i]));
    fprintf(out, "\"/>\n");
}

static void faults_write(const struct weir_sim_plan *plan, const struct axes *axes, FILE *out)
{
    for (uint32_t i = 0; i < plan->faults_count; i++) {
        const struct weir_sim_fault *fault = &plan->faults[i];
        bool at_once = fault->kind == WEIR_SIM_STEP || fault->kind == WEIR_SIM_LOSE;
        double x = x_of(axes, fault->from_ns), width = at_once ? 2 : x_of(axes, fault->until_ns) - x;
        double y = TOP + HEIGHT + 24 + BAND * (double)i;
        fprintf(out, "<rect class=\"during\" x=\"%.1f\" y=\"%d\" width=\"%.1f\" height=\"%d\"/>\n", x, TOP, width,
                HEIGHT);
        fprintf(out, "<rect class=\"fault\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%d\"/>\n", x, y, width,
                BAND - 4);
        fprintf(out, "<text x=\"%.1f\" y=\"%.1f\">%s</text>\n", x + width + 4, y + BAND - 4,
                weir_sim_fault_name(fault->kind));
    }
}

static void frame_write(const struct weir_sim_plan *plan, const struct axes *axes, FILE *out)
{
    int bottom = TOP + HEIGHT, total = bottom + 40 + BAND * (int)plan->faults_count;
    fprintf(out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" role=\"img\" font-family=\"sans-serif\" "
            "font-size=\"11\">\n<title>%s, %u nodes: units admitted over time</title>\n",
            LEFT + WIDTH + 96, total, plan->mode->name, plan->nodes);
    fprintf(out, "<style>\n"
                 "svg { color: #1b1f24; background: #ffffff; }\n"
                 "text { fill: currentColor; }\n"
                 ".axis { stroke: currentColor; stroke-opacity: .4; fill: none; }\n"
                 ".all { stroke: #0969da; stroke-width: 2; fill: none; }\n"
                 ".node { stroke: currentColor; stroke-opacity: .35; fill: none; }\n"
                 ".limit { stroke: #bc4c00; stroke-width: 2; stroke-dasharray: 6 4; fill: none; }\n"
                 ".during { fill: #bc4c00; fill-opacity: .07; }\n"
                 ".fault { fill: #bc4c00; fill-opacity: .7; }\n"
                 "@media (prefers-color-scheme: dark) {\n"
                 "svg { color: #e6edf3; background: #0d1117; }\n"
                 ".all { stroke: #58a6ff; }\n"
                 ".limit { stroke: #f0883e; }\n"
                 ".during, .fault { fill: #f0883e; }\n"
                 "}\n</style>\n");
    fprintf(out, "<text x=\"%d\" y=\"20\" font-size=\"14\">%s: %u nodes, units admitted</text>\n", LEFT,
            plan->mode->name, plan->nodes);
    fprintf(out, "<path class=\"axis\" d=\"M%d %d V%d H%d\"/>\n", LEFT, TOP, bottom, LEFT + WIDTH);
    for (int i = 0; i <= 4; i++) {
        uint64_t units = axes->units * (uint64_t)i / 4, at_ns = axes->span_ns * (uint64_t)i / 4;
        fprintf(out, "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%" PRIu64 "</text>\n", LEFT - 6,
                y_of(axes, units) + 4, units);
        fprintf(out, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%.1f s</text>\n", x_of(axes, at_ns), bottom + 16,
                (double)at_ns / 1e9);
    }
}

void weir_sim_picture_write(const struct weir_sim_plan *plan, const struct weir_sim_trace *trace, FILE *out)
{
    uint64_t units[COLUMNS], capacity = weir_limit_capacity(&plan->limit);
    uint64_t allowed = capacity + weir_mul_div(plan->duration_ns, plan->limit.count, plan->limit.period_ns);
    sum(plan, trace, UINT32_MAX, units);
    struct axes axes = { plan->duration_ns, weir_max_u64(weir_max_u64(allowed, units[COLUMNS - 1]), 1) };
    frame_write(plan, &axes, out);
    faults_write(plan, &axes, out);
    fprintf(out, "<path class=\"limit\" d=\"M%.1f %.1f L%.1f %.1f\"/>\n", x_of(&axes, 0), y_of(&axes, capacity),
            x_of(&axes, axes.span_ns), y_of(&axes, allowed));
    fprintf(out, "<text x=\"%d\" y=\"%.1f\">the limit</text>\n", LEFT + WIDTH + 6, y_of(&axes, allowed) + 4);
    line_write(&axes, units, "all", out);
    double label = y_of(&axes, units[COLUMNS - 1]), below = y_of(&axes, allowed) + 14;
    fprintf(out, "<text x=\"%d\" y=\"%.1f\">all nodes</text>\n", LEFT + WIDTH + 6, (label > below ? label : below) + 4);
    for (uint32_t node = 0; node < plan->nodes; node++) {
        sum(plan, trace, node, units);
        line_write(&axes, units, "node", out);
    }
    fprintf(out, "</svg>\n");
}
