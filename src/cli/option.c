/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of a verb's options is handed to getopt_long(), whose own messages are turned off. A colon before the
 * letters makes it tell a missing value from an unknown option; the word that may have been meant is found by
 * base/nearest.c. Used by main.c and by the verbs that have options, those of weir-sim, weir-replay and weir-reads
 * too. */
#include "cli/option.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "cli/verbs.h"
#include "rules/config.h"
#include "rules/number.h"

#define OPTIONS_MAX 32
#define LONG 256 /* what getopt_long() answers for one without a letter: this and its place */

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
static void long_unknown(const char *verb, const char *typed, const struct weir_option *options)
{
    struct weir_nearest nearest = { .text = typed + 2, .size = strcspn(typed + 2, "=") };
    char hint[80];
    for (; options->name; options++)
        weir_nearest_offer(&nearest, options->name);
    fprintf(stderr, "weir: %s has no option '--%.*s'%s\n", verb, (int)nearest.size, nearest.text,
            weir_nearest_format(&nearest, "--", hint, sizeof(hint)));
}

static void complain(const char *verb, int option, const char *typed, const struct weir_option *options)
{
    bool is_long = strncmp(typed, "--", 2) == 0;
    if (option == ':')
        fprintf(stderr, "weir: %s: option '%s' needs a value\n", verb, typed);
    else if (is_long && optopt)
        fprintf(stderr, "weir: %s: option '%.*s' takes no value\n", verb, (int)strcspn(typed, "="), typed);
    else if (is_long)
        long_unknown(verb, typed, options);
    else
        fprintf(stderr, "weir: %s has no option '-%c'\n", verb, optopt);
}

static bool takes_value(const struct weir_option *option)
{
    return option->text || option->duration_ns || option->number || option->count || option->read;
}

int weir_option_next(int argc, char **argv, const struct weir_option *options)
{
    struct option list[OPTIONS_MAX + 1] = { 0 };
    char letters[2 * OPTIONS_MAX + 2] = ":"; /* tells a value that is missing apart */
    int count = 0;
    for (; options[count].name; count++) {
        const struct weir_option *option = &options[count];
        const char letter[] = { option->letter, takes_value(option) ? ':' : '\0', '\0' };
        weir_assert(count < OPTIONS_MAX);
        list[count] = (struct option){ option->name, takes_value(option), NULL, letter[0] ? letter[0] : LONG + count };
        strcat(letters, letter);
    }
    opterr = 0;
    const int found = getopt_long(argc, argv, letters, list, NULL);
    if (found == -1)
        return WEIR_OPTIONS_READ;
    if (found == ':' || found == '?') {
        complain(argv[0], found, optind > 0 && optind <= argc ? argv[optind - 1] : "", options);
        return WEIR_OPTIONS_WRONG;
    }
    int index = 0;
    while (list[index].val != found)
        index++;
    return options[index].given || takes_value(&options[index]) ? index : WEIR_OPTIONS_HELP_WANTED;
}

int weir_option_wrong(const char *name, const char *text)
{
    fprintf(stderr, "weir: --%s %s\n", name, text);
    return WEIR_EXIT_ERROR;
}

static int number_take(const struct weir_option *option, const char *name, const char *value, uint64_t *ret_number)
{
    if (weir_number_parse(value, strlen(value), ret_number) == 0 && *ret_number >= option->least &&
        *ret_number <= option->most)
        return 0;
    fprintf(stderr, "weir: --%s%s%s%s must be a whole number, %" PRIu64 " to %" PRIu64 "\n", name,
            option->unshown ? "" : " ", option->unshown ? "" : value, option->unshown ? "" : ":", option->least,
            option->most);
    return WEIR_EXIT_ERROR;
}

int weir_option_take(const struct weir_option *option, void *flags, const char *name, char *value)
{
    struct weir_fault fault;
    uint64_t number = 0;
    int failed = option->number || option->count ? number_take(option, name, value, &number) : 0;
    if (option->given)
        *option->given = true;
    if (option->text)
        *option->text = value;
    if (option->number && !failed)
        *option->number = number;
    if (option->count && !failed)
        *option->count = (unsigned)number;
    if (option->duration_ns && weir_duration_parse(value, option->duration_ns, &fault) != 0)
        failed = weir_option_wrong(name, fault.text);
    return option->read ? option->read(flags, name, value) : failed;
}

int weir_options_read(int argc, char **argv, const struct weir_option *options, void *flags, const char *help,
                      const char *hint)
{
    int next, failed = 0;
    while (!failed && (next = weir_option_next(argc, argv, options)) >= 0)
        failed = weir_option_take(&options[next], flags, options[next].name, optarg);
    if (failed)
        return failed;
    if (next == WEIR_OPTIONS_HELP_WANTED)
        fputs(help, stdout);
    if (next == WEIR_OPTIONS_WRONG && hint)
        fprintf(stderr, "weir: try %s\n", hint);
    return next == WEIR_OPTIONS_READ ? next : next == WEIR_OPTIONS_HELP_WANTED ? WEIR_EXIT_OK : WEIR_EXIT_ERROR;
}
