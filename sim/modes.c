/* SPDX-License-Identifier: Apache-2.0
 *
 * The list of modes: a new one is added here and to modes.h. Called by cli/sim.c for --mode, by scenario.c, and by
 * tests/sim. The bounds that several of them state are in stated.c; the naive modes, which only scenarios know, in
 * naive/. */
#include "sim/modes.h"

#include <string.h>

const struct weir_sim_mode *weir_sim_mode_at(size_t index)
{
    static const struct weir_sim_mode *const modes[] = {
        &weir_sim_exact,       &weir_sim_leased,       &weir_sim_batched,     &weir_sim_split,     &weir_sim_gossip,
        &weir_sim_leased_host, &weir_sim_batched_host, &weir_sim_gossip_host, &weir_sim_exact_host
    };
    return index < sizeof modes / sizeof modes[0] ? modes[index] : NULL;
}

const struct weir_sim_mode *weir_sim_mode_find(const char *name)
{
    const struct weir_sim_mode *mode;
    for (size_t i = 0; (mode = weir_sim_mode_at(i)) && strcmp(mode->name, name) != 0;)
        i++;
    return mode;
}
