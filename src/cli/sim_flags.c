/* SPDX-License-Identifier: Apache-2.0
 *
 * The options that `--locks` and `--sessions` have in common. Which mistakes can be planted is not known here: the
 * caller gives a function that names each. Called by sim_locks.c and sim_sessions.c; sim.c has options of its own, and
 * uses only weir_sim_number_read. */
#include "cli/sim_flags.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/option.h"
#include "cli/verbs.h"

int weir_sim_number_read(const char *option, const char *text, uint64_t low, uint64_t high, uint64_t *ret_number)
{
    char *end = NULL;
    errno = 0;
    unsigned long long value = strtoull(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || *end != '\0' || errno != 0 || value < low || value > high) {
        fprintf(stderr, "weir: --%s %s: must be a whole number, %" PRIu64 " to %" PRIu64 "\n", option, text, low, high);
        return WEIR_EXIT_ERROR;
    }
    *ret_number = value;
    return 0;
}

static bool plant_read(const char *text, const char *(*plant_name)(unsigned plant), unsigned *ret_plant)
{
    unsigned plant = 0;
    const char *name;
    while ((name = plant_name(plant)) && strcmp(name, text) != 0)
        plant++;
    *ret_plant = plant;
    if (!name)
        fprintf(stderr, "weir: --plant %s: there is no such mistake\n", text);
    return name;
}

bool weir_sim_flags_read(int argc, char **argv, const char *kind, const char *(*plant_name)(unsigned plant),
                         struct weir_sim_flags *ret_flags)
{
    const struct option options[] = {
        { kind, no_argument, NULL, 'k' },
        { "seed", required_argument, NULL, 's' },
        { "from", required_argument, NULL, 'f' },
        { "to", required_argument, NULL, 't' },
        { "plant", required_argument, NULL, 'p' },
        { "help", no_argument, NULL, 'h' },
        { NULL, 0, NULL, 0 },
    };
    struct weir_sim_flags flags = { .seed = 1 };
    bool good = true;
    for (int option; good && (option = weir_option_next(argc, argv, "", options, NULL)) != -1;) {
        switch (option) {
        case 'k':
            break;
        case 's':
            good = weir_sim_number_read("seed", optarg, 0, UINT64_MAX, &flags.seed) == 0;
            break;
        case 'f':
            good = weir_sim_number_read("from", optarg, 0, UINT64_MAX, &flags.from) == 0;
            break;
        case 't':
            good = weir_sim_number_read("to", optarg, 0, UINT64_MAX, &flags.to) == 0;
            break;
        case 'p':
            good = plant_read(optarg, plant_name, &flags.plant);
            break;
        case 'h':
            flags.help = true;
            break;
        default:
            good = false;
        }
    }
    if (good && (flags.from > 0 || flags.to > 0) && flags.from >= flags.to) {
        fprintf(stderr, "weir: --to %" PRIu64 ": must be above --from\n", flags.to);
        good = false;
    }
    if (good && optind < argc) {
        fprintf(stderr, "weir: %s: not an option\n", argv[optind]);
        good = false;
    }
    if (!good)
        fprintf(stderr, "weir: try weir sim --%s --help\n", kind);
    *ret_flags = flags;
    return good;
}
