/* SPDX-License-Identifier: Apache-2.0
 *
 * The script in a real Redis, in the place of the simulator's double (sim/script_double.h): virtual time stands still
 * while it answers, and Redis's clock shows what the plan says (clock.lua). The double is asked the same beside it, of
 * the same values: the answers, what is written, and until when it is kept must be the same.
 *
 * What a failover brings back, or loses, is written into Redis before the next call. */
#pragma once

#include "server.h"
#include "sim/script_double.h"

struct real {
    struct weir_sim_script_server server; /* first */
    struct server redis;
    bool alone;                    /* the double is not asked: what do the simulator's checks find? */
    struct weir_sim_script held;   /* what Redis keeps */
    struct weir_sim_script beside; /* what the double makes of it */
    bool failed;                   /* the script is asked no more, until a state is empty: of the next run */
    char wrong[120];
    uint64_t restored;          /* values that a failover brought back, or took away */
    uint64_t letters[26], both; /* answers, by their letter; of two limits */
};

/* `clock`: the text of clock.lua; `script`: the script's. */
void real_open(struct real *real, const char *socket, const char *clock, const char *script);
void real_close(struct real *real);
