/* SPDX-License-Identifier: Apache-2.0
 *
 * One question answered in virtual time, and its numbers by their names. Include it after cmocka. */
#pragma once

#include <stdio.h>
#include <string.h>

#include "sim/lab/lab.h"

static struct weir_lab_report report; /* of the question that was answered last */

static inline void play(unsigned number, uint64_t seed)
{
    const struct weir_lab *lab = weir_lab_find(number);
    assert_non_null(lab);
    memset(&report, 0, sizeof(report));
    weir_lab_simulate(lab, seed, &report);
}

static inline double value(const char *name)
{
    const struct weir_lab_number *number = weir_lab_number_find(&report, name);
    if (!number)
        fail_msg("no number is called \"%s\"", name);
    return number ? number->value : 0;
}

/* Of `format`, with the name of one way in it. */
static inline double value_of(const char *way, const char *what)
{
    char name[WEIR_LAB_NAME_SIZE];
    snprintf(name, sizeof(name), "%s: %s", way, what);
    return value(name);
}

static inline void assert_value(const char *name, double expected)
{
    double found = value(name);
    if (found < expected - 1e-6 || found > expected + 1e-6)
        fail_msg("%s is %.9g and should be %.9g", name, found, expected);
}

static inline void assert_value_of(const char *way, const char *what, double expected)
{
    char name[WEIR_LAB_NAME_SIZE];
    snprintf(name, sizeof(name), "%s: %s", way, what);
    assert_value(name, expected);
}

static inline const struct weir_lab_series *series(const char *name)
{
    for (size_t i = 0; i < report.series_count; i++) {
        if (strcmp(report.series[i].name, name) == 0)
            return &report.series[i];
    }
    fail_msg("no series is called \"%s\"", name);
    return NULL;
}

static inline double last_of(const char *name)
{
    const struct weir_lab_series *line = series(name);
    return line->points[line->count - 1].y;
}
