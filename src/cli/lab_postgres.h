/* SPDX-License-Identifier: Apache-2.0
 *
 * A PostgreSQL primary and two replicas of an experiment, which show each commit so long after it was made. */
#pragma once

#include "cli/lab_stand.h"

#define WEIR_LAB_POSTGRES_SERVERS 3 /* the primary first */
#define WEIR_LAB_POSTGRES_CONNINFO 96

struct weir_lab_postgres {
    uint16_t ports[WEIR_LAB_POSTGRES_SERVERS];
    pid_t pids[WEIR_LAB_POSTGRES_SERVERS];
    char conninfos[WEIR_LAB_POSTGRES_SERVERS][WEIR_LAB_POSTGRES_CONNINFO];
};

/* All answer when it returns, and the replicas show what `sql` has made at the primary. */
bool weir_lab_postgres_start(struct weir_lab_stand *stand, const uint64_t lag_ms[WEIR_LAB_POSTGRES_SERVERS],
                             const char *sql, struct weir_lab_postgres *ret_group);
/* At once, as a crash does; and again, upon its files. */
void weir_lab_postgres_crash(struct weir_lab_postgres *group, unsigned server);
bool weir_lab_postgres_again(struct weir_lab_stand *stand, struct weir_lab_postgres *group, unsigned server);
/* All of them. */
void weir_lab_postgres_stop(struct weir_lab_postgres *group);
