/* SPDX-License-Identifier: Apache-2.0
 *
 * A wrapper of getopt_long(), whose own messages are turned off. A colon before the letters makes it tell a missing
 * value from an unknown option; the word that may have been meant is found by base/nearest.c. Used by main.c and by the
 * verbs that have options, those of weir-sim, weir-replay and weir-reads too. */
#include "cli/option.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "cli/verbs.h"

const char *weir_nearest_format(const struct weir_nearest *nearest, const char *dashes, char *buffer, size_t size)
{
    buffer[0] = '\0';
    if (nearest->word)
        (void)snprintf(buffer, size, "; did you mean '%s%s'?", dashes, nearest->word);
    return buffer;
}

void weir_word_unknown(const char *verb, const char *typed, const char *const *words)
{
    struct weir_nearest nearest = { .text = typed, .size = strlen(typed) };
    char hint[80];
    for (; *words; words++)
        weir_nearest_offer(&nearest, *words);
    if (typed[0])
        fprintf(stderr, "weir: %s has no '%s'%s\n", verb, typed, weir_nearest_format(&nearest, "", hint, sizeof(hint)));
}

int weir_word_none(const char *verb, const char *typed, const char *const *words, const char *help)
{
    bool wants_help = strcmp(typed, "--help") == 0 || strcmp(typed, "-h") == 0;
    if (!wants_help)
        weir_word_unknown(verb, typed, words);
    fputs(help, wants_help ? stdout : stderr);
    return wants_help ? WEIR_EXIT_OK : WEIR_EXIT_ERROR;
}

/* "--nam=value" is the option "nam". */
static void long_unknown(const char *verb, const char *typed, const struct option *options)
{
    struct weir_nearest nearest = { .text = typed + 2, .size = strcspn(typed + 2, "=") };
    char hint[80];
    for (; options->name; options++)
        weir_nearest_offer(&nearest, options->name);
    fprintf(stderr, "weir: %s has no option '--%.*s'%s\n", verb, (int)nearest.size, nearest.text,
            weir_nearest_format(&nearest, "--", hint, sizeof(hint)));
}

int weir_option_next(int argc, char **argv, const char *letters, const struct option *options, int *ret_index)
{
    char own[16];
    opterr = 0;
    (void)snprintf(own, sizeof(own), ":%s", letters); /* ':' tells a value that is missing apart */
    int option = getopt_long(argc, argv, own, options, ret_index);
    const char *typed = optind > 0 && optind <= argc ? argv[optind - 1] : "";
    bool is_long = strncmp(typed, "--", 2) == 0;
    if (option == ':')
        fprintf(stderr, "weir: %s: option '%s' needs a value\n", argv[0], typed);
    else if (option == '?' && is_long && optopt)
        fprintf(stderr, "weir: %s: option '%.*s' takes no value\n", argv[0], (int)strcspn(typed, "="), typed);
    else if (option == '?' && is_long)
        long_unknown(argv[0], typed, options);
    else if (option == '?')
        fprintf(stderr, "weir: %s has no option '-%c'\n", argv[0], optopt);
    return option == ':' ? '?' : option;
}
