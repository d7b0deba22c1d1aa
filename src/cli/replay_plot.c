/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes the picture of --plot, an SVG: above, requests a minute; below, one strip for each set of rules with what it
 * refused. A column is as many minutes as it takes to have at most COLUMNS of them. Names are escaped, since they come
 * from the command line. The numbers are made in replay_count.c; called by replay_run.c. */
#include <inttypes.h>

#include "cli/plain.h"
#include "cli/replay.h"
#include "weir/error.h"

#define LEFT 80
#define WIDTH 720
#define TOP 46
#define HEIGHT 150
#define STRIP 70
#define GAP 44
#define COLUMNS 360
#define TOTAL_WIDTH (LEFT + WIDTH + LEFT)

struct columns {
    size_t count, minutes; /* of each */
    struct weir_replay_minute list[COLUMNS];
    uint64_t asked_most, refused_most;
};

static void columns_make(const struct weir_replay_counts *counts, struct columns *columns)
{
    *columns = (struct columns){ .minutes = counts->minutes_count / COLUMNS + (counts->minutes_count % COLUMNS != 0) };
    columns->minutes += columns->minutes == 0;
    for (size_t i = 0; i < counts->minutes_count; i++) {
        const struct weir_replay_minute *minute = &counts->minutes[i];
        struct weir_replay_minute *column = &columns->list[i / columns->minutes];
        columns->count = i / columns->minutes + 1;
        column->asked += minute->asked;
        columns->asked_most = column->asked > columns->asked_most ? column->asked : columns->asked_most;
        for (int side = 0; side < WEIR_REPLAY_SIDES; side++) {
            uint64_t *refused = &column->refused[side];
            *refused += minute->refused[side];
            columns->refused_most = *refused > columns->refused_most ? *refused : columns->refused_most;
        }
    }
}

static void frame_write(int height, FILE *out)
{
    fprintf(out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" role=\"img\" font-family=\"sans-serif\" "
            "font-size=\"11\">\n<title>Requests of a log, and what limits would have refused, over time</title>\n"
            "<style>\n",
            TOTAL_WIDTH, height);
    fputs("svg { color: #1b1f24; background: #ffffff; }\n"
          "text { fill: currentColor; }\n"
          ".head { font-size: 13px; font-weight: bold; }\n"
          ".axis { stroke: currentColor; stroke-opacity: .4; fill: none; }\n"
          ".asked { fill: #0969da; }\n"
          ".refused { fill: #cf222e; }\n"
          "@media (prefers-color-scheme: dark) {\n"
          "svg { color: #e6edf3; background: #0d1117; }\n"
          ".asked { fill: #58a6ff; }\n"
          ".refused { fill: #f85149; }\n"
          "}\n</style>\n",
          out);
}

static uint64_t value_of(const struct weir_replay_minute *column, int side)
{
    return side < 0 ? column->asked : column->refused[side];
}

/* One strip; side -1: the requests. A bar is at least one high: a single refusal is to be seen. */
static void strip_write(const struct columns *columns, int side, int top, int height, FILE *out)
{
    uint64_t most = side < 0 ? columns->asked_most : columns->refused_most;
    double width = (double)WIDTH / (double)(columns->count ? columns->count : 1);
    fprintf(out, "<text x=\"%d\" y=\"%d\" text-anchor=\"end\">%" PRIu64 "</text>\n", LEFT - 6, top + 8, most);
    fprintf(out, "<text x=\"%d\" y=\"%d\" text-anchor=\"end\">0</text>\n", LEFT - 6, top + height);
    for (size_t i = 0; i < columns->count; i++) {
        uint64_t value = value_of(&columns->list[i], side);
        if (value == 0)
            continue;
        double bar = (double)height * (double)value / (double)most;
        bar = bar < 1 ? 1 : bar;
        fprintf(out, "<rect class=\"%s\" x=\"%.2f\" y=\"%.2f\" width=\"%.2f\" height=\"%.2f\"/>\n",
                side < 0 ? "asked" : "refused", LEFT + width * (double)i, top + height - bar,
                width > 2 ? width - 0.5 : width, bar);
    }
    fprintf(out, "<path class=\"axis\" d=\"M%d %d v%d h%d\"/>\n", LEFT, top, height, WIDTH);
}

static void times_write(const struct weir_replay_counts *counts, const struct columns *columns, int y, FILE *out)
{
    const uint64_t minute_ns = 60 * WEIR_NS_PER_SECOND;
    uint64_t first = counts->first_ns / minute_ns, minutes = (uint64_t)columns->count * columns->minutes;
    for (unsigned i = 0; i <= 4; i++) {
        char room[WEIR_TEXT_UTC_SIZE];
        struct weir_text text = weir_text_init(room, sizeof(room));
        weir_text_utc(&text, (first + minutes * i / 4) * minute_ns);
        fprintf(out, "<text x=\"%u\" y=\"%d\" text-anchor=\"middle\">%.16sZ</text>\n", LEFT + WIDTH * i / 4, y, room);
    }
}

int weir_replay_plot(const struct weir_replay_report *report)
{
    const char *const names[] = { report->plan->config, report->plan->beside };
    struct columns columns;
    FILE *out = fopen(report->plan->plot, "w");
    if (!out)
        return WEIR_EIO;
    columns_make(report->counts, &columns);
    int strips = (report->sets[WEIR_REPLAY_NEW].rules != NULL) + (report->sets[WEIR_REPLAY_BESIDE].rules != NULL);
    int top = TOP;
    frame_write(TOP + HEIGHT + strips * (STRIP + GAP) + 40, out);
    fprintf(out, "<text class=\"head\" x=\"%d\" y=\"20\">Requests in %zu min</text>\n", LEFT, columns.minutes);
    strip_write(&columns, -1, top, HEIGHT, out);
    top += HEIGHT + GAP;
    for (int side = 0; side < WEIR_REPLAY_SIDES; side++) {
        if (!report->sets[side].rules)
            continue;
        fprintf(out, "<text class=\"head\" x=\"%d\" y=\"%d\">Refused by ", LEFT, top - 12);
        weir_plain_svg(names[side], out);
        fprintf(out, ": %" PRIu64 " of %" PRIu64 "</text>\n", report->sets[side].refused, report->sets[side].decided);
        strip_write(&columns, side, top, STRIP, out);
        top += STRIP + GAP;
    }
    times_write(report->counts, &columns, top - GAP + 18, out);
    fputs("</svg>\n", out);
    bool bad = ferror(out) != 0;
    return fclose(out) != 0 || bad ? WEIR_EIO : 0;
}
