/* SPDX-License-Identifier: Apache-2.0
 *
 * What `weir sim --locks` and `weir sim --sessions` are asked: a seed or a range of seeds, and a mistake to plant. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct weir_sim_flags {
    uint64_t seed;
    uint64_t from, to; /* to 0: no range was given */
    unsigned plant;    /* 0: none */
    bool help;
};

/* `kind`: the option that comes first, "locks" or "sessions". `plant_name`: of each number up to one that has none. On
 * false stderr says where to look. */
bool weir_sim_flags_read(int argc, char **argv, const char *kind, const char *(*plant_name)(unsigned plant),
                         struct weir_sim_flags *ret_flags);

int weir_cli_sim_locks(int argc, char **argv);
int weir_cli_sim_sessions(int argc, char **argv);
