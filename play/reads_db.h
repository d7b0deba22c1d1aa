/* SPDX-License-Identifier: Apache-2.0
 *
 * The database of the readers' demonstration, and what weir's health makes of its servers: what reads.c asks. */
#pragma once

#include "core/session/health.h"
#include "core/session/token.h"
#include "play/reads.h"

#define PLAY_MS UINT64_C(1000000)
#define PLAY_ROWS (PLAY_STRATEGIES * PLAY_USERS_MAX)
#define PLAY_WALL_NS (UINT64_C(1700000000) * 1000 * PLAY_MS)
#define PLAY_READS_FAULTS_MAX 16

struct play_reads_plan {
    double settings[PLAY_READS_SETTINGS];
    uint32_t faults_count;
    struct {
        enum play_reads_fault kind;
        uint32_t server;
        uint64_t from_ms, until_ms;
    } faults[PLAY_READS_FAULTS_MAX];
};

/* ---- the database: time goes on by a millisecond ---- */

void play_db_begin(const struct play_reads_plan *plan);
/* True: a standby was promoted in this millisecond. play_db_survived says what it has. */
bool play_db_advance(uint64_t now_ms);
uint32_t play_db_survived(uint32_t row);

uint32_t play_db_servers(void);
bool play_db_is_reachable(uint32_t server);
bool play_db_is_primary(uint32_t server);
/* The version of a row there; 0: no such row. */
uint32_t play_db_version(uint32_t server, uint32_t row);
/* At a primary: the next version. 0: it can take no more. */
uint32_t play_db_write(uint32_t server, uint32_t row);
/* By its clock, the time of the newest commit that it shows. */
uint64_t play_db_stamp_ns(uint32_t server);
uint64_t play_db_wall_ns(void); /* by the primary's clock */
double play_db_lag_ms(uint32_t server);

/* ---- what weir knows ---- */

/* As a connection to the server says it, with the branch that health knows of; false: nobody knows that yet. */
bool play_db_shown(uint32_t server, struct weir_shown *ret_shown);
void play_db_ask(uint32_t server); /* before its turn */
const struct weir_known *play_db_known(void);
void play_db_look(struct weir_route_server ret_servers[PLAY_SERVERS_MAX]);
