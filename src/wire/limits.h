/* SPDX-License-Identifier: Apache-2.0
 *
 * What is in force on a node: the body of GET /v1/limits (docs/http.md). One value, filled by the server.
 *
 * Thread rule: plain values. */
#pragma once

#include "wire/ratelimit.h"
#include "wire/text.h"

struct weir_limits_level {
    const char *name, *mode, *rate;
    uint64_t capacity;
};

/* What a request must be like to meet the limit. */
struct weir_limits_condition {
    const char *attribute;
    struct weir_slice pattern; /* data NULL: more than one pattern says it, and it is not told */
};

struct weir_limits_limit {
    const char *name;
    const char *algorithm; /* "token_bucket" */
    const char *mode;      /* "enforce", "shadow", "off" */
    const char *rate;      /* "100/min" */
    const char *missing;   /* "skip", "share", "refuse" */
    uint64_t capacity;
    const char *const *key; /* the attributes by which it counts */
    size_t key_count;
    const struct weir_limits_condition *match;
    size_t match_count;
    uint64_t count, period_ns, cost;
    const char *cost_attribute; /* that carries the cost; NULL: none does */
    const char *window;         /* fixed_window: "calendar", "first"; else NULL */
    bool attempts;              /* what it refuses is charged, too */
    bool holds;                 /* throttle: hold */
    size_t overrides;
    const struct weir_limits_level *levels;
    size_t levels_count;
    uint32_t rollout; /* not 0: these numbers are for so many tenths of a percent of its keys */
    const char *rollout_mode, *rollout_rate;
    uint64_t rollout_capacity;
    uint64_t since_wall_ns;                  /* it has decided in this form */
    bool replaced;                           /* its definition is another node's, not the file's */
    bool undecidable;                        /* the newest definition is not understood here: on_failure decides */
    const struct weir_told_sharing *sharing; /* NULL: this process alone keeps it */
    uint64_t overshoot_added;                /* as struct weir_told */
    bool overshoot_override;                 /* that is an override's, which is larger than the limit's own */
    const char *on_failure;                  /* NULL: no engine elsewhere is asked */
    uint64_t fallbacks;                      /* verdicts that the engine did not give, since the start */
    const char *hour;                        /* the name under which it is counted in the last hour; NULL: its own */
};

struct weir_limits {
    const char *node;         /* NULL where the configuration names none */
    const char *source;       /* the file's path; NULL: the built-in example */
    const char *by;           /* "start", "SIGHUP", "rules", "revision" */
    const char *store;        /* of the rules; NULL: they stand in the file */
    uint64_t version, newest; /* of the rules: that decides; of those for this node, that it has read last */
    uint64_t others;          /* the newest that is for other nodes; 0: none was read */
    uint64_t delay_ms;        /* what the former took to come here */
    bool delay_known;
    uint64_t checksum; /* of the text */
    uint64_t since_wall_ns;
    const char *unmatched; /* "admit", "refuse" */
    uint64_t reloads_done, reloads_failed;
    bool last_failed;
    uint64_t last_wall_ns; /* of the last reload; 0: there was none */
    const char *last_said;
    size_t count; /* of limits */
};

/* The body without its limits, each limit, and the end: at most weir_limits_head_max, weir_limits_limit_max and 2
 * bytes. */
void weir_limits_head(struct weir_text *text, const struct weir_limits *limits);
size_t weir_limits_head_max(const struct weir_limits *limits);
void weir_limits_limit(struct weir_text *text, const struct weir_limits_limit *limit, bool first);
size_t weir_limits_limit_max(const struct weir_limits_limit *limit);
void weir_limits_end(struct weir_text *text);

/* The checksum as it is shown: 16 hexadecimal digits and a NUL. */
#define WEIR_LIMITS_CHECKSUM_SIZE 17
void weir_limits_checksum(uint64_t checksum, char ret_text[WEIR_LIMITS_CHECKSUM_SIZE]);
