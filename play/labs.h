/* SPDX-License-Identifier: Apache-2.0
 *
 * The questions of sim/lab, one experiment at a time. The same seed gives the same report wherever it runs. */
#pragma once

#include "play/play.h"

enum play_lab_text { PLAY_LAB_TITLE, PLAY_LAB_QUESTION, PLAY_LAB_SHOWS, PLAY_LAB_SHOWS_NOT };

/* NULL: there is no such question. */
PLAY_EXPORT(play_lab_text) const char *play_lab_text(uint32_t number, uint32_t what);
PLAY_EXPORT(play_lab_drawn) bool play_lab_drawn(uint32_t number); /* the run depends on the seed */
PLAY_EXPORT(play_lab_run) bool play_lab_run(uint32_t number, double seed);

/* Of the last run. The three that count are NULL beyond the last. */
enum play_lab_word {
    PLAY_LAB_SOURCE, /* "core" or "simulated" */
    PLAY_LAB_X,
    PLAY_LAB_Y,
    PLAY_LAB_SERIES,
    PLAY_LAB_NUMBER,
    PLAY_LAB_UNIT,
};
PLAY_EXPORT(play_lab_word) const char *play_lab_word(uint32_t what, uint32_t index);
PLAY_EXPORT(play_lab_value) double play_lab_value(uint32_t number);
/* x and y of each point in turn. */
PLAY_EXPORT(play_lab_points) const double *play_lab_points(uint32_t series);
PLAY_EXPORT(play_lab_points_count) uint32_t play_lab_points_count(uint32_t series);
