/* SPDX-License-Identifier: Apache-2.0
 *
 * The options of a verb as a table, and what was typed and is not known: complaints that name what may have been
 * meant. */
#pragma once

#include <getopt.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/nearest.h"

/* One option and what becomes of its value. One with nothing but `given` takes no value; one with nothing at all asks
 * for help. */
struct weir_option {
    const char *name;
    char letter;           /* its short form; '\0': none */
    bool *given;           /* becomes true */
    const char **text;     /* becomes the value */
    uint64_t *duration_ns; /* becomes the value, read by weir_duration_parse() */
    uint64_t *number;      /* becomes the value, a whole number from `least` to `most` */
    unsigned *count;       /* the same */
    uint64_t least, most;
    bool unshown; /* the complaint of a number does not repeat what was typed */
    /* Reads the value: 0, or the exit code after a complaint. `name` is what complaints call it. */
    int (*read)(void *flags, const char *name, char *value);
};

/* How a table ends: with --help and -h. */
#define WEIR_OPTIONS_HELP                                                                                              \
    { .name = "help", .letter = 'h' },                                                                                 \
    {                                                                                                                  \
        .name = NULL                                                                                                   \
    }

enum {
    WEIR_OPTIONS_READ = -1, /* all of them, up to argv[optind] */
    WEIR_OPTIONS_HELP_WANTED = -2,
    WEIR_OPTIONS_WRONG = -3, /* said on standard error */
};

/* getopt_long() with complaints that say "did you mean": which of the table comes next, its value in `optarg`; or one
 * of the above. */
int weir_option_next(int argc, char **argv, const struct weir_option *options);

/* Does with the value what the table says: 0, or the exit code after a complaint, which calls the option `name`. */
int weir_option_take(const struct weir_option *option, void *flags, const char *name, char *value);

/* "weir: --NAME TEXT" on standard error; the exit code. */
int weir_option_wrong(const char *name, const char *text);

/* All of them. WEIR_OPTIONS_READ, or the exit code: of `help`, which is printed, or after a complaint. `hint` is where
 * to look after one that is not known, NULL: nowhere. */
int weir_options_read(int argc, char **argv, const struct weir_option *options, void *flags, const char *help,
                      const char *hint);

/* `weir VERB WORD` has no such word: one line on standard error. Nothing was typed: nothing is said. */
void weir_word_unknown(const char *verb, const char *typed, const char *const *words);

/* The exit code of a `weir VERB WORD` that has no such word: prints `help`, unasked with what was wrong. */
int weir_word_none(const char *verb, const char *typed, const char *const *words, const char *help);

/* "; did you mean 'WORD'?", or "" where none is near. Cut to fit. */
const char *weir_nearest_format(const struct weir_nearest *nearest, const char *dashes, char *buffer, size_t size);
