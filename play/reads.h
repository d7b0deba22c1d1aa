/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads going back: a primary, replicas that follow later, and users who write and read rows, by several strategies at
 * the same time. */
#pragma once

#include "play/play.h"

#define PLAY_REPLICAS_MAX 4
#define PLAY_SERVERS_MAX (PLAY_REPLICAS_MAX + 1)
#define PLAY_USERS_MAX 16
#define PLAY_VIOLATIONS_MAX 200
#define PLAY_READ_COLUMNS 300

enum play_strategy { PLAY_PLAIN, PLAY_STICKY, PLAY_WINDOW, PLAY_PHYSICAL, PLAY_TRACKED, PLAY_STRATEGIES };

enum play_reads {
    PLAY_READS_SEED,
    PLAY_READS_REPLICAS,
    PLAY_READS_USERS,
    PLAY_READS_RATE, /* requests a second of each user */
    PLAY_READS_WRITES_PERCENT,
    PLAY_READS_DURATION_MS,
    PLAY_READS_WINDOW_MS,
    PLAY_READS_WAIT_MS,
    PLAY_READS_POLL_MS,
    PLAY_READS_LAG_MS, /* + replica: how much later it has what the primary committed */
    PLAY_READS_SETTINGS = PLAY_READS_LAG_MS + PLAY_REPLICAS_MAX
};

enum play_reads_fault {
    PLAY_READS_STALL,   /* a server stands still; from, until */
    PLAY_READS_AWAY,    /* it cannot be reached */
    PLAY_READS_FAIL,    /* the primary dies; `server` is promoted at `until`, and lacks what it had not received */
    PLAY_READS_CLOCK,   /* the primary's clock is set back, by until - from */
    PLAY_READS_RESTART, /* a replica starts anew, and shows until then what it had as long before */
    PLAY_READS_FAULT_KINDS
};

/* Of each strategy. */
enum play_reads_sum {
    PLAY_READS_READS,
    PLAY_READS_WRITES,
    PLAY_READS_AT_PRIMARY,
    PLAY_READS_WENT_BACK,  /* reads that broke monotonic reads */
    PLAY_READS_MISSED,     /* reads that broke read your writes */
    PLAY_READS_WROTE_BACK, /* writes that did not come after what the user had written or read */
    PLAY_READS_VIOLATED,   /* requests that broke anything */
    PLAY_READS_LOST,       /* told to users */
    PLAY_READS_LOST_WITHOUT_NEED,
    PLAY_READS_FAILED, /* ended with an answer that is none: nobody shows enough, or no primary */
    PLAY_READS_WAITED, /* requests */
    PLAY_READS_WAIT_TOTAL_MS,
    PLAY_READS_WAIT_MAX_MS,
    PLAY_READS_SUMS
};

enum play_violation {
    PLAY_VIOLATION_STRATEGY,
    PLAY_VIOLATION_AT_MS,
    PLAY_VIOLATION_USER,
    PLAY_VIOLATION_ROW,
    PLAY_VIOLATION_SAW,
    PLAY_VIOLATION_EXPECTED, /* the least version that would have been right */
    PLAY_VIOLATION_SERVER,
    PLAY_VIOLATION_BROKEN, /* 1 << enum weir_guarantee */
    PLAY_VIOLATION_WORDS
};

PLAY_EXPORT(play_reads_begin) void play_reads_begin(void);
PLAY_EXPORT(play_reads_set) void play_reads_set(uint32_t what, double value);
PLAY_EXPORT(play_reads_fault) bool play_reads_fault(uint32_t kind, uint32_t server, double from_ms, double until_ms);
/* 0; or a negative error: the judge could not follow. */
PLAY_EXPORT(play_reads_run) int play_reads_run(void);
PLAY_EXPORT(play_strategy_name) const char *play_strategy_name(uint32_t strategy);
PLAY_EXPORT(play_reads_sum) double play_reads_sum(uint32_t strategy, uint32_t what);
/* In each column of the time: requests that broke a promise, or users who were told LOST; a server's lag in ms, -1:
 * away. */
PLAY_EXPORT(play_reads_broken) const double *play_reads_broken(uint32_t strategy);
PLAY_EXPORT(play_reads_told) const double *play_reads_told(uint32_t strategy);
PLAY_EXPORT(play_reads_lag) const double *play_reads_lag(uint32_t server);
PLAY_EXPORT(play_violations) uint32_t play_violations(void); /* that are kept */
PLAY_EXPORT(play_violation) double play_violation(uint32_t index, uint32_t word);
