/* SPDX-License-Identifier: Apache-2.0
 *
 * `weir reads check`: what sessions would see on somebody's own primary and replicas, by strategy. What was asked for,
 * what its sessions did, and what was sampled meanwhile; the files beside fill and show it. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/session/judge.h"

#define WEIR_READS_TABLE "weir_reads_check"
#define WEIR_READS_REPLICAS_MAX 16
#define WEIR_READS_SERVERS_MAX (1 + WEIR_READS_REPLICAS_MAX)
#define WEIR_READS_SESSIONS_MAX 64 /* of each strategy */
#define WEIR_READS_RATE_MAX 1000   /* requests a second, of each session */
#define WEIR_READS_OPS_MAX 2000000 /* reads and writes of a run: 96 MiB */
#define WEIR_READS_DURATION_MAX_S 3600
#define WEIR_READS_EXIT_SIGNAL 130
#define WEIR_READS_TEXT_SIZE 256
#define WEIR_READS_SAMPLE_NS UINT64_C(50000000)
#define WEIR_READS_UNKNOWN UINT32_MAX /* a lag that nobody knows: the server did not answer, or does not follow */

/* What is compared: a replica at random for each read, and the strategies of weir/session.h. */
enum weir_reads_mode {
    WEIR_READS_PLAIN,
    WEIR_READS_STICKY,
    WEIR_READS_WINDOW,
    WEIR_READS_PHYSICAL,
    WEIR_READS_LAMPORT,
    WEIR_READS_TRACKED,
    WEIR_READS_MODES
};

/* "plain", "sticky", ... */
const char *weir_reads_mode_name(enum weir_reads_mode mode);

/* Server 0 is the primary. */
struct weir_reads_plan {
    const char *conninfos[WEIR_READS_SERVERS_MAX];
    char names[WEIR_READS_SERVERS_MAX][64]; /* for people: host:port, never a password */
    unsigned server_count;
    uint64_t duration_ns;
    unsigned sessions; /* of each strategy */
    unsigned rate;     /* requests a second, of each session */
    unsigned writes_percent;
    unsigned wait_ms, window_ms;
    bool modes[WEIR_READS_MODES];
    bool json, keep;
    const char *plot; /* a file, or NULL */
};

unsigned weir_reads_mode_count(const struct weir_reads_plan *plan);

enum weir_reads_outcome {
    WEIR_READS_DONE,
    WEIR_READS_LOST,   /* the session was told that what it had seen is cut off */
    WEIR_READS_FAILED, /* no answer that a reader could have seen; a write may have been done */
};

/* One read or write of one session, with all that it took: the choice, the waiting, the check, the token. */
struct weir_reads_op {
    uint64_t begin_ns, end_ns; /* since the run began */
    uint64_t version;          /* read or made */
    uint32_t waited_us;
    uint32_t key;     /* 1 to sessions: that of the session which writes it */
    uint16_t session; /* 1 to sessions */
    uint8_t server;   /* an index */
    uint8_t outcome;
    bool write, stale;
};

/* Ops of one mode: each session's in its order, one session after the other. */
struct weir_reads_ops {
    struct weir_reads_op *ops;
    size_t count;
};

/* How far each server was behind, every WEIR_READS_SAMPLE_NS: µs, or WEIR_READS_UNKNOWN. */
struct weir_reads_lag {
    uint32_t *samples; /* sample i of server s: [i * server_count + s] */
    uint8_t *out;      /* of the same index: 1 = not in use then */
    size_t count, max;
};

/* What came of one mode. */
struct weir_reads_result {
    struct weir_judge_counts judged;
    uint64_t reads, writes, failed, waits;
    uint64_t by_server[WEIR_READS_SERVERS_MAX];      /* reads */
    uint64_t violated_by[WEIR_READS_SERVERS_MAX];    /* of them */
    uint64_t wait_p50_ns, wait_p99_ns, wait_max_ns;  /* of the reads that waited */
    uint64_t read_p50_ns, read_p99_ns, write_p50_ns; /* of all */
    uint32_t *timeline;                              /* violations, by WEIR_READS_BUCKETS parts of the run */
    const char *fault;                               /* what failed last, for people; empty */
};

#define WEIR_READS_BUCKETS 120

struct weir_reads_report {
    const struct weir_reads_plan *plan;
    uint64_t ran_ns;
    int version; /* of the primary: 150004 */
    struct weir_reads_result results[WEIR_READS_MODES];
    struct weir_reads_lag *lag;
    struct weir_reads_behind {
        uint64_t p50_us, p99_us, max_us; /* of known samples */
        double unknown, out;             /* shares of all samples */
    } behind[WEIR_READS_SERVERS_MAX];
};

/* Fills results[mode]; the judge is core/session/judge.h. WEIR_ENOMEM, or the judge's error, which is a bug of ours. */
int weir_reads_judge(struct weir_reads_report *report, enum weir_reads_mode mode, const struct weir_reads_ops *ops);
/* Reads that showed less than they should have. */
uint64_t weir_reads_violated(const struct weir_reads_result *result);
int weir_reads_behind_fill(struct weir_reads_report *report);
void weir_reads_report_deinit(struct weir_reads_report *report);

void weir_reads_print(const struct weir_reads_report *report);
int weir_reads_print_json(const struct weir_reads_report *report);
/* An SVG, to the plan's file. 0 or WEIR_EIO: errno says. */
int weir_reads_plot(const struct weir_reads_report *report);

/* Makes the table, lets the sessions work, drops it and prints; the exit code. */
int weir_reads_run(const struct weir_reads_plan *plan);
