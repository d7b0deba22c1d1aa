/* SPDX-License-Identifier: Apache-2.0
 *
 * Lines for operators: one event a line, with its time in UTC and its level, as text or as JSON.
 *
 *   2026-11-22T20:40:00.123Z warn engine_lost: the engine cannot be asked: Connection refused
 *   {"time":"2026-11-22T20:40:00.123Z","level":"warn","event":"engine_lost","message":"the engine cannot …"}
 *
 * What it does: writes a line whole, in one piece, without ever waiting for its reader. Bytes that a terminal would act
 * upon are escaped. What it does not: decide what is worth a line (serve/watch.h).
 *
 * At most WEIR_LOGGER_LINES_MAX lines go in a second. Those above that, and lines that a full pipe would not take, are
 * dropped and counted, and the next line that goes says how many.
 *
 * Thread rule: one thread at a time. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define WEIR_LOGGER_LINE_MAX 1024 /* below PIPE_BUF: a pipe takes it whole */
#define WEIR_LOGGER_LINES_MAX 100
#define WEIR_LOGGER_NODE_MAX 64

enum weir_log_level {
    WEIR_LOG_ERROR, /* something that weir is for is not done */
    WEIR_LOG_WARN,  /* it is done, but not as the configuration means it */
    WEIR_LOG_INFO,  /* a change that was asked for, or the end of a trouble */
};

enum weir_log_format {
    WEIR_LOG_TEXT,
    WEIR_LOG_JSON,
};

struct weir_logger {
    int fd; /* nobody closes it */
    enum weir_log_format format;
    enum weir_log_level level;           /* what is less grave is not written */
    char node[WEIR_LOGGER_NODE_MAX + 1]; /* whose lines these are, of several: a name of cluster.nodes; "": of one */
    uint64_t second;                     /* of the last line */
    uint32_t lines;                      /* in that second */
    uint64_t dropped;                    /* since the last line that went */
    uint64_t dropped_total;
};

const char *weir_log_level_name(enum weir_log_level level); /* "error", "warn", "info" */

/* Writes "event: message"; wall_ns counts from 1970. `event` is a word of ours. False: the line was dropped. */
bool weir_logger_write(struct weir_logger *logger, uint64_t wall_ns, enum weir_log_level level, const char *event,
                       const char *message);
/* The same with members of its own in JSON, `fields`, which are JSON already: `"limit":"a","cost":1`. In text they are
 * not written. Too long, with the rest of the line: the message is cut; at most WEIR_LOGGER_FIELDS_MAX bytes. */
#define WEIR_LOGGER_FIELDS_MAX 800
bool weir_logger_write_fields(struct weir_logger *logger, uint64_t wall_ns, enum weir_log_level level,
                              const char *event, const char *message, const char *fields);
