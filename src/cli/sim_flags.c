/* SPDX-License-Identifier: Apache-2.0
 *
 * The options that `--locks` and `--sessions` have in common. Which mistakes can be planted is not known here: the
 * caller gives a function that names each. Called by sim_locks.c and sim_sessions.c; sim.c has options of its own. */
#include "cli/sim_flags.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cli/option.h"
#include "cli/verbs.h"

/* What --plant reads with. */
struct planting {
    const char *(*name)(unsigned plant);
    unsigned *plant;
};

static int plant_read(void *planting, const char *option, char *value)
{
    const struct planting *with = planting;
    const char *name;
    for (*with->plant = 0; (name = with->name(*with->plant)); ++*with->plant)
        if (strcmp(name, value) == 0)
            return 0;
    fprintf(stderr, "weir: --%s %s: there is no such mistake\n", option, value);
    return WEIR_EXIT_ERROR;
}

bool weir_sim_flags_read(int argc, char **argv, const char *kind, const char *(*plant_name)(unsigned plant),
                         struct weir_sim_flags *ret_flags)
{
    struct weir_sim_flags flags = { .seed = 1 };
    struct planting planting = { plant_name, &flags.plant };
    bool kind_given;
    const struct weir_option options[] = {
        { kind, .given = &kind_given },
        { "seed", .number = &flags.seed, .most = UINT64_MAX },
        { "from", .number = &flags.from, .most = UINT64_MAX },
        { "to", .number = &flags.to, .most = UINT64_MAX },
        { "plant", .read = plant_read },
        { "help", .given = &flags.help },
        { .name = NULL },
    };
    bool good = weir_options_read(argc, argv, options, &planting, NULL, NULL) == WEIR_OPTIONS_READ;
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
