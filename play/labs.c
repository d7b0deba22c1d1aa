/* SPDX-License-Identifier: Apache-2.0
 *
 * The last report, for the page to look at. `weir lab` prints the same of the same code. */
#include "play/labs.h"

#include <string.h>

#include "sim/lab/lab.h"

static struct weir_lab_report report;

_Static_assert(sizeof(struct weir_lab_point) == 2 * sizeof(double), "points are pairs of numbers");

const char *play_lab_text(uint32_t number, uint32_t what)
{
    const struct weir_lab *lab = weir_lab_find(number);
    if (!lab)
        return NULL;
    const char *const texts[] = { lab->title, lab->question, lab->shows, lab->shows_not };
    return what < sizeof texts / sizeof texts[0] ? texts[what] : NULL;
}

bool play_lab_drawn(uint32_t number)
{
    const struct weir_lab *lab = weir_lab_find(number);
    return lab && lab->drawn;
}

bool play_lab_run(uint32_t number, double seed)
{
    const struct weir_lab *lab = weir_lab_find(number);
    memset(&report, 0, sizeof report);
    if (lab)
        weir_lab_simulate(lab, (uint64_t)seed, &report);
    return lab;
}

const char *play_lab_word(uint32_t what, uint32_t index)
{
    switch ((enum play_lab_word)what) {
    case PLAY_LAB_SOURCE:
        return weir_lab_source_name(report.source);
    case PLAY_LAB_X:
        return report.x;
    case PLAY_LAB_Y:
        return report.y;
    case PLAY_LAB_SERIES:
        return index < report.series_count ? report.series[index].name : NULL;
    case PLAY_LAB_NUMBER:
        return index < report.numbers_count ? report.numbers[index].name : NULL;
    case PLAY_LAB_UNIT:
        return index < report.numbers_count ? report.numbers[index].unit : NULL;
    }
    return NULL;
}

double play_lab_value(uint32_t number)
{
    return report.numbers[number % WEIR_LAB_NUMBERS_MAX].value;
}

const double *play_lab_points(uint32_t series)
{
    return &report.series[series % WEIR_LAB_SERIES_MAX].points[0].x;
}

uint32_t play_lab_points_count(uint32_t series)
{
    return (uint32_t)report.series[series % WEIR_LAB_SERIES_MAX].count;
}
