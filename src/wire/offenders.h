/* SPDX-License-Identifier: Apache-2.0
 *
 * Whom limits refuse most: the question and the body of GET /v1/top (docs/http.md). Filled by serve/http_top.c.
 *
 * Thread rule: plain values. */
#pragma once

#include "wire/text.h"

#define WEIR_OFFENDERS_ROWS 10 /* unless the question says otherwise */
#define WEIR_OFFENDERS_ROWS_MAX 100

/* What is asked: ?by=refused&n=10&limit=api. */
struct weir_offenders_ask {
    bool early; /* by=early */
    size_t rows;
    size_t limit_size; /* 0: of all limits */
    char limit[WEIR_LIMIT_NAME_MAX + 1];
};

/* WEIR_EINVAL, WEIR_ERANGE or WEIR_EDUP, and the fault says what is wrong with which parameter. */
int weir_offenders_read(struct weir_slice query, struct weir_offenders_ask *ret_ask, struct weir_fault *ret_fault);

struct weir_offenders_row {
    const char *limit;
    uint64_t hash;
    uint64_t count, error;
    bool known; /* else what the key is called is not told */
    bool cut;
    size_t values_count;
    struct weir_slice values[WEIR_KEY_VALUES_MAX]; /* size WEIR_VALUE_ABSENT: the request lacked it */
};

struct weir_offenders {
    const char *node;       /* NULL where the configuration names none */
    const char *by;         /* "refused", "early" */
    const char *keys;       /* "text", "hash", "off" */
    uint64_t since_wall_ns; /* 0 with "off" */
    uint64_t total, unlisted_max;
    uint32_t one_in;
};

/* The body without its rows, each row, and the end. At most weir_offenders_head_max, weir_offenders_row_max and 2
 * bytes. */
void weir_offenders_head(struct weir_text *text, const struct weir_offenders *offenders);
size_t weir_offenders_head_max(const struct weir_offenders *offenders);
void weir_offenders_row(struct weir_text *text, const struct weir_offenders_row *row, bool first);
size_t weir_offenders_row_max(const struct weir_offenders_row *row);
void weir_offenders_end(struct weir_text *text);
