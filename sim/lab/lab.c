/* SPDX-License-Identifier: Apache-2.0
 *
 * What experiments fill their report with: the simulated ones of this folder, and the real ones of cli/lab_*.c. */
#include "sim/lab/lab.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"

const char *weir_lab_source_name(enum weir_lab_source source)
{
    static const char *const names[] = { "core", "simulated", "real" };
    return names[source];
}

size_t weir_lab_begin(struct weir_lab_report *report, const char *name, ...)
{
    va_list arguments;
    weir_assert(report->series_count < WEIR_LAB_SERIES_MAX);
    va_start(arguments, name);
    (void)vsnprintf(report->series[report->series_count].name, WEIR_LAB_NAME_SIZE, name, arguments);
    va_end(arguments);
    return report->series_count++;
}

void weir_lab_point(struct weir_lab_report *report, size_t series, double x, double y)
{
    weir_assert(series < report->series_count);
    struct weir_lab_series *line = &report->series[series];
    line->count -= line->count == WEIR_LAB_POINTS_MAX;
    weir_assert(line->count == 0 || line->points[line->count - 1].x <= x);
    line->points[line->count++] = (struct weir_lab_point){ x, y };
}

void weir_lab_number(struct weir_lab_report *report, double value, const char *unit, const char *name, ...)
{
    char text[WEIR_LAB_NAME_SIZE];
    va_list arguments;
    va_start(arguments, name);
    (void)vsnprintf(text, sizeof(text), name, arguments);
    va_end(arguments);
    weir_assert(report->numbers_count < WEIR_LAB_NUMBERS_MAX && !weir_lab_number_find(report, text));
    struct weir_lab_number *number = &report->numbers[report->numbers_count++];
    number->value = value;
    (void)snprintf(number->name, sizeof(number->name), "%s", text);
    (void)snprintf(number->unit, sizeof(number->unit), "%s", unit);
}

const struct weir_lab_number *weir_lab_number_find(const struct weir_lab_report *report, const char *name)
{
    for (size_t i = 0; i < report->numbers_count; i++) {
        if (strcmp(report->numbers[i].name, name) == 0)
            return &report->numbers[i];
    }
    return NULL;
}
