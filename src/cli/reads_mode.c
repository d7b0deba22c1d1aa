/* SPDX-License-Identifier: Apache-2.0
 *
 * The strategies that `weir reads check` compares: their names, and how many of them a plan has. */
#include "cli/reads.h"

static const char *const mode_names[WEIR_READS_MODES] = {
    [WEIR_READS_PLAIN] = "plain",       [WEIR_READS_STICKY] = "sticky",   [WEIR_READS_WINDOW] = "window",
    [WEIR_READS_PHYSICAL] = "physical", [WEIR_READS_LAMPORT] = "lamport", [WEIR_READS_TRACKED] = "tracked",
};

const char *weir_reads_mode_name(enum weir_reads_mode mode)
{
    return mode_names[mode];
}

unsigned weir_reads_mode_count(const struct weir_reads_plan *plan)
{
    unsigned count = 0;
    for (int mode = 0; mode < WEIR_READS_MODES; mode++)
        count += plan->modes[mode];
    return count;
}
