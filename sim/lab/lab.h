/* SPDX-License-Identifier: Apache-2.0
 *
 * Questions that an experiment answers: `weir lab` lists them. What an experiment found is a report of series and
 * numbers. The files of this folder make it in virtual time, with the code of core/ and sim/: the same seed always
 * gives the same report. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define WEIR_LAB_SERIES_MAX 8
#define WEIR_LAB_POINTS_MAX 512 /* of one series */
#define WEIR_LAB_NUMBERS_MAX 64
#define WEIR_LAB_NAME_SIZE 80
#define WEIR_LAB_UNIT_SIZE 24

enum weir_lab_source {
    WEIR_LAB_CORE,      /* the code of core/ alone, time being an argument */
    WEIR_LAB_SIMULATED, /* nodes, network, servers and clients in virtual time */
    WEIR_LAB_REAL,      /* real processes */
};

/* "core", "simulated", "real". */
const char *weir_lab_source_name(enum weir_lab_source source);

struct weir_lab_point {
    double x, y;
};

struct weir_lab_series {
    char name[WEIR_LAB_NAME_SIZE];
    struct weir_lab_point points[WEIR_LAB_POINTS_MAX];
    size_t count;
};

struct weir_lab_number {
    char name[WEIR_LAB_NAME_SIZE]; /* none twice in a report */
    double value;
    char unit[WEIR_LAB_UNIT_SIZE];
};

/* Zeroed, it is empty. */
struct weir_lab_report {
    enum weir_lab_source source;
    uint64_t seed; /* 0: nothing is drawn */
    const char *x, *y;
    struct weir_lab_series series[WEIR_LAB_SERIES_MAX];
    struct weir_lab_number numbers[WEIR_LAB_NUMBERS_MAX];
    size_t series_count, numbers_count;
};

struct weir_lab {
    unsigned number;
    const char *title;    /* one line, for the list */
    const char *question; /* in full */
    const char *shows;
    const char *shows_not;
    bool drawn; /* the run depends on the seed */
    void (*run)(uint64_t seed, struct weir_lab_report *report);
};

/* In the order of their numbers; NULL beyond the last. */
const struct weir_lab *weir_lab_at(size_t index);
const struct weir_lab *weir_lab_find(uint64_t number);

/* Into an empty report. */
void weir_lab_simulate(const struct weir_lab *lab, uint64_t seed, struct weir_lab_report *report);

/* ---- for experiments ---- */

/* A new series; its index. */
__attribute__((format(printf, 2, 3))) size_t weir_lab_begin(struct weir_lab_report *report, const char *name, ...);
/* Points come in the order of their x. What does not fit any more replaces the last one. */
void weir_lab_point(struct weir_lab_report *report, size_t series, double x, double y);
__attribute__((format(printf, 4, 5))) void weir_lab_number(struct weir_lab_report *report, double value,
                                                           const char *unit, const char *name, ...);
/* NULL: there is none of that name. */
const struct weir_lab_number *weir_lab_number_find(const struct weir_lab_report *report, const char *name);
