/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes the picture of --plot, one SVG element after another: above, the lag of each replica over time on a
 * logarithmic scale; below, for each strategy its violations over time and its share of reads at the primary. Names are
 * escaped, since they come from the command line. The numbers are made in reads_count.c; called by reads_run.c. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "base/checked.h"
#include "cli/plain.h"
#include "cli/reads.h"
#include "weir/error.h"

#define LEFT 90
#define WIDTH 560 /* of what is over time */
#define LAG_TOP 46
#define LAG_HEIGHT 150
#define STRIPS_TOP (LAG_TOP + LAG_HEIGHT + 66)
#define STRIP 30
#define SHARE_LEFT (LEFT + WIDTH + 120)
#define SHARE_WIDTH 110
#define TOTAL_WIDTH (SHARE_LEFT + SHARE_WIDTH + 80)
#define LAG_MIN_MS 0.5 /* the foot of the scale, which is logarithmic */
#define COLUMNS 190    /* of a line: the worst of each */
#define COLOURS 6

static double lag_y(double ms, double most_ms)
{
    double share = log(fmax(ms, LAG_MIN_MS) / LAG_MIN_MS) / log(most_ms / LAG_MIN_MS);
    return LAG_TOP + LAG_HEIGHT * (1 - fmin(share, 1));
}

/* The scale ends at a power of ten. */
static double lag_most_ms(const struct weir_reads_report *report)
{
    double most_ms = 10;
    for (unsigned i = 1; i < report->plan->server_count; i++) {
        while (most_ms < (double)report->behind[i].max_us / 1e3)
            most_ms *= 10;
    }
    return most_ms;
}

static void frame_write(const struct weir_reads_report *report, int height, FILE *out)
{
    fprintf(out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" role=\"img\" font-family=\"sans-serif\" "
            "font-size=\"11\">\n<title>Reads of %u replicas by strategy: lag, violations, share of the "
            "primary</title>\n<style>\n",
            TOTAL_WIDTH, height, report->plan->server_count - 1);
    fputs("svg { color: #1b1f24; background: #ffffff; }\n"
          "text { fill: currentColor; }\n"
          ".head { font-size: 13px; font-weight: bold; }\n"
          ".axis { stroke: currentColor; stroke-opacity: .4; fill: none; }\n"
          ".grid { stroke: currentColor; stroke-opacity: .12; fill: none; }\n"
          ".bad { fill: #cf222e; }\n"
          ".share { fill: #0969da; }\n"
          ".room { fill: currentColor; fill-opacity: .06; }\n"
          ".lag { fill: none; stroke-width: 1.5; }\n"
          ".s1 { stroke: #0969da; } .s2 { stroke: #1a7f37; } .s3 { stroke: #bc4c00; }\n"
          ".s4 { stroke: #8250df; } .s5 { stroke: #9a6700; } .s6 { stroke: #bf3989; }\n"
          "@media (prefers-color-scheme: dark) {\n"
          "svg { color: #e6edf3; background: #0d1117; }\n"
          ".bad { fill: #f85149; }\n"
          ".share { fill: #58a6ff; }\n"
          ".s1 { stroke: #58a6ff; } .s2 { stroke: #3fb950; } .s3 { stroke: #f0883e; }\n"
          ".s4 { stroke: #bc8cff; } .s5 { stroke: #d29922; } .s6 { stroke: #f778ba; }\n"
          "}\n</style>\n",
          out);
}

static void seconds_write(const struct weir_reads_report *report, int y, FILE *out)
{
    for (int i = 0; i <= 4; i++)
        fprintf(out, "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">%.0f s</text>\n", LEFT + WIDTH * i / 4, y,
                (double)report->ran_ns * i / 4 / 1e9);
}

/* ---- lag ---- */

static void lag_axes_write(const struct weir_reads_report *report, double most_ms, FILE *out)
{
    fprintf(out, "<text class=\"head\" x=\"%d\" y=\"20\">How far each replica was behind, ms</text>\n", LEFT);
    for (unsigned ms = 1; ms <= most_ms; ms *= 10) {
        fprintf(out, "<path class=\"grid\" d=\"M%d %.1f h%d\"/>\n", LEFT, lag_y(ms, most_ms), WIDTH);
        fprintf(out, "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%u</text>\n", LEFT - 6, lag_y(ms, most_ms) + 4, ms);
    }
    fprintf(out, "<path class=\"axis\" d=\"M%d %d v%d h%d\"/>\n", LEFT, LAG_TOP, LAG_HEIGHT, WIDTH);
    seconds_write(report, LAG_TOP + LAG_HEIGHT + 16, out);
}

/* The worst lag of the samples from one column to the next; no line where none is known. */
static void lag_line_write(const struct weir_reads_report *report, unsigned server, double most_ms, FILE *out)
{
    const struct weir_reads_lag *lag = report->lag;
    unsigned columns = (unsigned)weir_min_u64(lag->count, COLUMNS);
    bool drawing = false;
    fprintf(out, "<path class=\"lag s%u\" d=\"", (server - 1) % COLOURS + 1);
    for (unsigned column = 0; column < columns; column++) {
        uint32_t most = 0;
        bool known = false;
        for (size_t i = column * lag->count / columns; i < (column + 1) * lag->count / columns; i++) {
            uint32_t sample = lag->samples[i * report->plan->server_count + server];
            known = known || sample != WEIR_READS_UNKNOWN;
            most = sample != WEIR_READS_UNKNOWN && sample > most ? sample : most;
        }
        if (known)
            fprintf(out, "%c%.1f %.1f", drawing ? 'L' : 'M', LEFT + (double)WIDTH * (column + 1) / columns,
                    lag_y((double)most / 1e3, most_ms));
        drawing = known;
    }
    fputs("\"/>\n", out);
}

static void lag_key_write(const struct weir_reads_report *report, unsigned server, FILE *out)
{
    int y = LAG_TOP + 10 + 16 * (int)(server - 1);
    const struct weir_reads_behind *behind = &report->behind[server];
    fprintf(out, "<path class=\"lag s%u\" d=\"M%d %d h16\"/>\n<text x=\"%d\" y=\"%d\">", (server - 1) % COLOURS + 1,
            LEFT + WIDTH + 12, y - 4, LEFT + WIDTH + 34, y);
    weir_plain_svg(report->plan->names[server], out);
    fprintf(out, ", p50 %.0f ms", (double)behind->p50_us / 1e3);
    if (behind->out > 0)
        fprintf(out, ", %.0f %% not in use", 100 * behind->out);
    fputs("</text>\n", out);
}

/* ---- strategies ---- */

static uint32_t timeline_most(const struct weir_reads_report *report)
{
    uint32_t most = 1;
    for (int mode = 0; mode < WEIR_READS_MODES; mode++) {
        for (unsigned i = 0; report->plan->modes[mode] && i < WEIR_READS_BUCKETS; i++) {
            uint32_t count = report->results[mode].timeline[i];
            most = count > most ? count : most;
        }
    }
    return most;
}

/* A bar is at least two high: one violation is to be seen beside a hundred. */
static void strip_write(const struct weir_reads_report *report, enum weir_reads_mode mode, int top, uint32_t most,
                        FILE *out)
{
    const struct weir_reads_result *result = &report->results[mode];
    const double width = (double)WIDTH / WEIR_READS_BUCKETS;
    double reads = result->reads > 0 ? (double)result->reads : 1;
    double primary = (double)result->by_server[0] / reads;
    uint64_t violated = weir_reads_violated(result);
    int height = STRIP - 8, foot = top + height;
    fprintf(out, "<text x=\"%d\" y=\"%d\" text-anchor=\"end\">%s</text>\n", LEFT - 8, foot - 7,
            weir_reads_mode_name(mode));
    fprintf(out, "<rect class=\"room\" x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\"/>\n", LEFT, top, WIDTH, height);
    for (unsigned i = 0; i < WEIR_READS_BUCKETS; i++) {
        if (result->timeline[i] == 0)
            continue;
        double bar = fmax((double)height * result->timeline[i] / most, 2);
        fprintf(out, "<rect class=\"bad\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\"/>\n", LEFT + width * i,
                foot - bar, width - 0.5, bar);
    }
    fprintf(out, "<text x=\"%d\" y=\"%d\">%" PRIu64 " (%.1f %%)</text>\n", LEFT + WIDTH + 12, foot - 7, violated,
            100 * (double)violated / reads);
    fprintf(out, "<rect class=\"room\" x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\"/>\n", SHARE_LEFT, top, SHARE_WIDTH,
            height);
    fprintf(out, "<rect class=\"share\" x=\"%d\" y=\"%d\" width=\"%.1f\" height=\"%d\"/>\n", SHARE_LEFT, top,
            SHARE_WIDTH * primary, height);
    fprintf(out, "<text x=\"%d\" y=\"%d\">%.1f %%</text>\n", SHARE_LEFT + SHARE_WIDTH + 6, foot - 7, 100 * primary);
}

static void strips_write(const struct weir_reads_report *report, FILE *out)
{
    uint32_t most = timeline_most(report);
    int top = STRIPS_TOP;
    fprintf(
        out,
        "<text class=\"head\" x=\"%d\" y=\"%d\">Reads that showed less than their session had seen or written</text>\n",
        LEFT, top - 12);
    fprintf(out, "<text class=\"head\" x=\"%d\" y=\"%d\">Reads at the primary</text>\n", SHARE_LEFT, top - 12);
    for (int mode = 0; mode < WEIR_READS_MODES; mode++) {
        if (!report->plan->modes[mode])
            continue;
        strip_write(report, (enum weir_reads_mode)mode, top, most, out);
        top += STRIP;
    }
    seconds_write(report, top + 10, out);
}

int weir_reads_plot(const struct weir_reads_report *report)
{
    FILE *out = fopen(report->plan->plot, "w");
    double most_ms = lag_most_ms(report);
    if (!out)
        return WEIR_EIO;
    frame_write(report, STRIPS_TOP + STRIP * (int)weir_reads_mode_count(report->plan) + 24, out);
    lag_axes_write(report, most_ms, out);
    for (unsigned i = 1; i < report->plan->server_count; i++) {
        lag_line_write(report, i, most_ms, out);
        lag_key_write(report, i, out);
    }
    strips_write(report, out);
    fputs("</svg>\n", out);
    bool bad = ferror(out) != 0;
    return fclose(out) != 0 || bad ? WEIR_EIO : 0;
}
