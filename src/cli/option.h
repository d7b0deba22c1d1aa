/* SPDX-License-Identifier: Apache-2.0
 *
 * What was typed and is not known: complaints that name what may have been meant. */
#pragma once

#include <getopt.h>

#include "base/nearest.h"

/* getopt_long() with complaints that say "did you mean": '?' after one line on standard error. `ret_index` may be
 * NULL. */
int weir_option_next(int argc, char **argv, const char *letters, const struct option *options, int *ret_index);

/* `weir VERB WORD` has no such word: one line on standard error. Nothing was typed: nothing is said. */
void weir_word_unknown(const char *verb, const char *typed, const char *const *words);

/* The exit code of a `weir VERB WORD` that has no such word: prints `help`, unasked with what was wrong. */
int weir_word_none(const char *verb, const char *typed, const char *const *words, const char *help);

/* "; did you mean 'WORD'?", or "" where none is near. Cut to fit. */
const char *weir_nearest_format(const struct weir_nearest *nearest, const char *dashes, char *buffer, size_t size);
