/* SPDX-License-Identifier: Apache-2.0
 *
 * labs: the questions of sim/lab, built for this machine. Reads lines of "NUMBER SEED", answers each with the report as
 * JSON, in one line; 17 digits name a double exactly. */
#include <stdio.h>
#include <stdlib.h>

#include "sim/lab/lab.h"

static void print(const struct weir_lab_report *report)
{
    printf("{\"source\":\"%s\",\"x\":\"%s\",\"y\":\"%s\",\"series\":[", weir_lab_source_name(report->source), report->x,
           report->y);
    for (size_t i = 0; i < report->series_count; i++) {
        const struct weir_lab_series *series = &report->series[i];
        printf("%s{\"name\":\"%s\",\"points\":[", i ? "," : "", series->name);
        for (size_t k = 0; k < series->count; k++)
            printf("%s[%.17g,%.17g]", k ? "," : "", series->points[k].x, series->points[k].y);
        fputs("]}", stdout);
    }
    fputs("],\"numbers\":[", stdout);
    for (size_t i = 0; i < report->numbers_count; i++) {
        const struct weir_lab_number *number = &report->numbers[i];
        printf("%s{\"name\":\"%s\",\"value\":%.17g,\"unit\":\"%s\"}", i ? "," : "", number->name, number->value,
               number->unit);
    }
    puts("]}");
}

int main(void)
{
    char line[64];
    while (fgets(line, sizeof line, stdin)) {
        static const struct weir_lab_report empty;
        static struct weir_lab_report report;
        char *rest = NULL;
        const struct weir_lab *lab = weir_lab_find(strtoull(line, &rest, 10));
        uint64_t seed = strtoull(rest, NULL, 10);
        report = empty;
        if (!lab)
            return 1;
        weir_lab_simulate(lab, seed, &report);
        print(&report);
    }
    return 0;
}
