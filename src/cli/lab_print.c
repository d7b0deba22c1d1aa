/* SPDX-License-Identifier: Apache-2.0
 *
 * Prints a report as text, with a plot of characters, or as JSON. The plot is a grid of cells: each series has a
 * letter, and stands in each column where it was last at or before that column's end. Called by lab.c. */
#include "cli/lab_print.h"

#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define TEXT_WIDTH 100
#define COLUMNS 72
#define ROWS 16

static const char letters[] = "abcdefgh";
_Static_assert(sizeof(letters) > WEIR_LAB_SERIES_MAX && WEIR_LAB_SERIES_MAX <= 8, "a letter and a bit for each");

/* Broken at blanks. */
static void paragraph_print(const char *head, const char *text)
{
    size_t column = strlen(head), size = 0;
    fputs(head, stdout);
    for (const char *word = text; *word; word += size + (word[size] == ' ')) {
        size = strcspn(word, " ");
        if (column + size + 1 > TEXT_WIDTH) {
            putchar('\n');
            column = 0;
        } else if (column > 0) {
            putchar(' ');
            column++;
        }
        (void)fwrite(word, 1, size, stdout);
        column += size;
    }
    putchar('\n');
}

/* ---- the plot ---- */

struct range {
    double x_least, x_most, y_most;
};

static struct range range_of(const struct weir_lab_report *report)
{
    struct range range = { HUGE_VAL, -HUGE_VAL, 0 };
    for (size_t i = 0; i < report->series_count; i++) {
        const struct weir_lab_series *series = &report->series[i];
        for (size_t k = 0; k < series->count; k++) {
            range.x_least = fmin(range.x_least, series->points[k].x);
            range.x_most = fmax(range.x_most, series->points[k].x);
            range.y_most = fmax(range.y_most, series->points[k].y);
        }
    }
    range.y_most = range.y_most > 0 ? range.y_most : 1;
    return range;
}

/* A cell has a bit for each series that stands in it. */
static void series_draw(const struct weir_lab_series *series, const struct range *range, unsigned number,
                        uint8_t cells[ROWS][COLUMNS])
{
    for (size_t column = 0, next = 0; column < COLUMNS; column++) {
        double end = range->x_least + (range->x_most - range->x_least) * (double)(column + 1) / COLUMNS;
        while (next < series->count && (series->points[next].x <= end || column + 1 == COLUMNS))
            next++;
        if (next == 0)
            continue;
        double y = fmax(series->points[next - 1].y, 0);
        size_t row = (size_t)lround((ROWS - 1) * y / range->y_most);
        cells[ROWS - 1 - row][column] |= (uint8_t)(1U << number);
    }
}

/* Of several in one cell each is seen in its turn, from column to column. */
static char letter_of(unsigned cell, int column)
{
    int count = __builtin_popcount(cell), turn = count ? column % count : 0;
    for (unsigned i = 0; i < WEIR_LAB_SERIES_MAX; i++) {
        if ((cell >> i & 1) && turn-- == 0)
            return letters[i];
    }
    return ' ';
}

static void plot_print(const struct weir_lab_report *report)
{
    struct range range = range_of(report);
    uint8_t cells[ROWS][COLUMNS] = { { 0 } };
    char most[32], end[32];
    if (!(range.x_least < range.x_most))
        return;
    for (size_t i = 0; i < report->series_count; i++)
        series_draw(&report->series[i], &range, (unsigned)i, cells);
    (void)snprintf(most, sizeof(most), "%.6g", range.y_most);
    printf("\n%8s  %s\n", "", report->y);
    for (int row = 0; row < ROWS; row++) {
        printf("%8s |", row == 0 ? most : row == ROWS - 1 ? "0" : "");
        for (int column = 0; column < COLUMNS; column++)
            putchar(letter_of(cells[row][column], column));
        putchar('\n');
    }
    (void)snprintf(end, sizeof(end), "%.6g", range.x_most);
    printf("%8s +", "");
    for (int i = 0; i < COLUMNS; i++)
        putchar('-');
    printf("\n%8s  %-*.6g%s\n%8s  %s\n\n", "", COLUMNS - (int)strlen(end), range.x_least, end, "", report->x);
    for (size_t i = 0; i < report->series_count; i++) {
        const struct weir_lab_series *series = &report->series[i];
        printf("  %c  %s", letters[i], series->name);
        if (series->count > 0)
            printf(", %.6g at the end", series->points[series->count - 1].y);
        putchar('\n');
    }
}

/* ---- text ---- */

static void source_print(const struct weir_lab_report *report)
{
    static const char *const said[] = { "Answered by the code of core/, the time being an argument.",
                                        "Answered in the simulator: the code of core/ and sim/, in virtual time.",
                                        "Answered by real processes, just now." };
    printf("%s", said[report->source]);
    if (report->seed > 0)
        printf(" Seed %" PRIu64 ".", report->seed);
    putchar('\n');
}

/* Digits behind the point that the values of this unit are shown with. */
static int digits_of(const struct weir_lab_number *number)
{
    double whole = nearbyint(number->value);
    if (fabs(number->value - whole) < 1e-9)
        return 0;
    return fabs(number->value) < 100 ? 2 : 1;
}

static void numbers_print(const struct weir_lab_report *report)
{
    int widest = 0;
    for (size_t i = 0; i < report->numbers_count; i++)
        widest = (int)fmax(widest, (double)strlen(report->numbers[i].name));
    putchar('\n');
    for (size_t i = 0; i < report->numbers_count; i++) {
        const struct weir_lab_number *number = &report->numbers[i];
        char text[48];
        int digits = digits_of(number), size = snprintf(text, sizeof(text), "%.*f", digits, number->value);
        /* The points below each other: of a whole number three columns stay empty. */
        int room = digits == 0 ? 3 : 2 - digits;
        printf("  %-*s  %*s%*s  %s\n", widest, number->name, 12 - room, size > 0 ? text : "?", room, "", number->unit);
    }
}

void weir_lab_print(const struct weir_lab *lab, const struct weir_lab_report *report)
{
    char head[32];
    (void)snprintf(head, sizeof(head), "%u.", lab->number);
    paragraph_print(head, lab->question);
    putchar('\n');
    source_print(report);
    plot_print(report);
    numbers_print(report);
    putchar('\n');
    paragraph_print("What it shows:", lab->shows);
    putchar('\n');
    paragraph_print("What it does not:", lab->shows_not);
}

/* ---- JSON ---- */

static json_t *value_json(double value)
{
    return value == nearbyint(value) && fabs(value) < 1e15 ? json_integer((json_int_t)value) : json_real(value);
}

static json_t *series_json(const struct weir_lab_series *series)
{
    json_t *points = json_array();
    for (size_t i = 0; i < series->count; i++) {
        (void)json_array_append_new(
            points, json_pack("[o, o]", value_json(series->points[i].x), value_json(series->points[i].y)));
    }
    return json_pack("{s:s, s:o}", "name", series->name, "points", points);
}

bool weir_lab_print_json(const struct weir_lab *lab, const struct weir_lab_report *report, FILE *out)
{
    json_t *series = json_array(), *numbers = json_array();
    for (size_t i = 0; i < report->series_count; i++)
        (void)json_array_append_new(series, series_json(&report->series[i]));
    for (size_t i = 0; i < report->numbers_count; i++) {
        const struct weir_lab_number *number = &report->numbers[i];
        (void)json_array_append_new(numbers, json_pack("{s:s, s:o, s:s}", "name", number->name, "value",
                                                       value_json(number->value), "unit", number->unit));
    }
    json_t *all = json_pack("{s:i, s:s, s:s, s:s, s:o, s:s, s:s, s:o, s:o, s:s, s:s}", "lab", (int)lab->number, "title",
                            lab->title, "question", lab->question, "source", weir_lab_source_name(report->source),
                            "seed", lab->drawn ? json_integer((json_int_t)report->seed) : json_null(), "x", report->x,
                            "y", report->y, "series", series, "numbers", numbers, "shows", lab->shows, "shows_not",
                            lab->shows_not);
    bool written = all && json_dumpf(all, out, JSON_REAL_PRECISION(12)) == 0 && fputc('\n', out) != EOF;
    json_decref(all);
    return written;
}
