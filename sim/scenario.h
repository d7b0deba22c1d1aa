/* SPDX-License-Identifier: Apache-2.0
 *
 * A scenario: one limit, one load, and several ways of sharing it, side by side. A file of lines; # begins a comment:
 *
 *     title  Three nodes that decide by a cache
 *     set    algorithm=sliding_log rate=300/min nodes=3 span=1500ms latency=1ms
 *     load   nodes=all from=0 until=1500ms every=5ms burst=1
 *     way    naive-cache interval=400ms : a cache 400 ms old
 *     way    exact : exact
 *     say    What this shows, in a sentence below the table.
 *
 * `set` and a way's own words take the same settings: algorithm rate burst nodes span seed latency slack interval
 * chunk_ttl deadline skew drift_ppm loss_ppm far far_by; what a seed draws besides: calm latency_min latency_max
 * duplicate_ppm reorder_ppm hold_ppm tick_ppm changed changed_burst, and with =1 numbered partial door twins dozen
 * (sim/plan.h). A load has nodes, from, until, cost, and either rate (per second and node, random gaps) or every and
 * burst. A fault has its kind first, then nodes, from, until, step, one_way. Nodes are `all`, `none`, or numbers and
 * ranges with commas: 0,3-5. `weir sim --mode gossip --seed 7 --write FILE` writes the plan of a seed so.
 *
 * `group NAME KEYS` begins a group of so many keys: loads after it are those of each of its keys, and a way then names
 * a mode for each group, joined by +. Without groups there is one key.
 *
 * Everything a run depends on is in the file: it always prints the same. */
#pragma once

#include <stdio.h>

#include "sim/world.h"

#define WEIR_SCENARIO_GROUPS_MAX 4
#define WEIR_SCENARIO_WAYS_MAX 8
#define WEIR_SCENARIO_SAYS_MAX 8
#define WEIR_SCENARIO_LINE_MAX 256

struct weir_scenario_group {
    char name[32];
    uint32_t keys;
    struct weir_sim_load loads[WEIR_SIM_LOADS_MAX];
    uint32_t loads_count;
};

struct weir_scenario_way {
    char label[64];
    struct weir_sim_plan plan; /* loads and mode are filled in by group */
    const struct weir_sim_mode *modes[WEIR_SCENARIO_GROUPS_MAX];
};

struct weir_scenario {
    char title[128];
    struct weir_sim_plan plan;
    struct weir_scenario_group groups[WEIR_SCENARIO_GROUPS_MAX];
    struct weir_scenario_way ways[WEIR_SCENARIO_WAYS_MAX];
    char says[WEIR_SCENARIO_SAYS_MAX][WEIR_SCENARIO_LINE_MAX];
    uint32_t groups_count, ways_count, says_count;
};

/* 0; or WEIR_EIO, WEIR_EPROTO, WEIR_ERANGE, and `error` says what and in which line. */
int weir_scenario_load(const char *path, struct weir_scenario *ret_scenario, char *error, size_t error_size);

/* What one way did, all keys of all groups together. */
struct weir_scenario_row {
    bool naive;        /* states no bound */
    uint64_t asked;    /* requests, those that a crash swallowed included */
    uint64_t admitted; /* units */
    uint64_t limit;    /* what the limit allows while there are requests */
    uint64_t bound;    /* the most that may be admitted in that time */
    uint64_t over;     /* units over the limit, at most, of one key */
    bool kept;         /* the mode's bound was kept after every admission, and what else it promises; */
    char why[160];     /* or why not */
    uint64_t to_engine;
    uint64_t wait_total_ns, wait_max_ns;
    uint64_t *times_ns; /* of each unit admitted, in order */
    size_t times_count, times_room;
};

/* One row for each way: ret_rows has room for ways_count. Errors: WEIR_ERANGE for a limit that is none. */
int weir_scenario_run(const struct weir_scenario *scenario, struct weir_scenario_row *ret_rows,
                      struct weir_fault *ret_fault);
void weir_scenario_rows_deinit(struct weir_scenario_row *rows, uint32_t count);

/* As a file: one way, one key. */
void weir_scenario_write_plan(const struct weir_sim_plan *plan, const char *title, FILE *out);

/* The table, and what there is to say. */
void weir_scenario_print(const struct weir_scenario *scenario, const struct weir_scenario_row *rows, FILE *out);
/* The picture, SVG. */
void weir_scenario_draw(const struct weir_scenario *scenario, const struct weir_scenario_row *rows, FILE *out);
