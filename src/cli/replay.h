/* SPDX-License-Identifier: Apache-2.0
 *
 * `weir replay`: what limits would have done to the requests of an access log. What was asked for, the sets of rules
 * that decide, and what is counted; the files beside read, decide, count and show it.
 *
 * Bounds: WEIR_REPLAY_FILES_MAX files, WEIR_REPLAY_KEYS_MAX refused keys, WEIR_REPLAY_ROUTES_MAX routes,
 * WEIR_REPLAY_MINUTES_MAX minutes, WEIR_REPLAY_PERMITS_MAX permits that are out, WEIR_REPLAY_DEMANDS_MAX keys of
 * --suggest. What is above is counted and told, not shown one by one. */
#pragma once

#include <stdio.h>

#include "base/siphash.h"
#include "rules/literal.h"
#include "rules/rules.h"
#include "wire/access_log.h"

#define WEIR_REPLAY_FILES_MAX 256
#define WEIR_REPLAY_KEYS_MAX (1u << 18)
#define WEIR_REPLAY_KEY_TEXT 120 /* bytes of a key that are shown */
#define WEIR_REPLAY_ROUTES_MAX 4096
#define WEIR_REPLAY_ROUTE_TEXT 112
#define WEIR_REPLAY_MINUTES_MAX (527040u) /* 366 days */
#define WEIR_REPLAY_PERMITS_MAX (1u << 22)
#define WEIR_REPLAY_DEMANDS_MAX (1u << 24)
#define WEIR_REPLAY_BAD_SHOWN 5

/* The set that --config names, and the one beside it. */
enum weir_replay_side { WEIR_REPLAY_NEW, WEIR_REPLAY_BESIDE, WEIR_REPLAY_SIDES };

struct weir_replay_plan {
    const char *files[WEIR_REPLAY_FILES_MAX]; /* "-" is standard input */
    size_t files_count;
    const char *config, *beside; /* NULL: none */
    const char *node;
    const char *format; /* NULL: by the first line */
    struct weir_access_map maps[WEIR_ACCESS_MAPS_MAX];
    size_t maps_count;
    bool json, suggest;
    const char *keys[WEIR_KEY_VALUES_MAX]; /* of --suggest: attributes */
    size_t keys_count;
    double percentile;
    unsigned depth, rows; /* of routes; of each table */
    const char *plot, *out;
};

/* ---- reading (replay_read.c) ---- */

/* One line of the log. Valid until the next one is asked for. */
struct weir_replay_read {
    const char *file;
    uint64_t number; /* of the line in its file, from 1 */
    const struct weir_access_line *line;
};

/* A file that was not read to its end, or of which no line could be read. */
struct weir_replay_broken {
    const char *file, *why;
    uint64_t lines, bytes, size; /* what came before; bytes as they stand in the file; size 0: it is no regular file */
};

/* What could not be used. */
struct weir_replay_bad {
    uint64_t count;
    uint64_t too_long;      /* of them */
    uint64_t paths_refused; /* of them: /v1/auth answers 400 */
    size_t shown_count;
    struct {
        const char *file;
        uint64_t number;
        const char *why;
    } shown[WEIR_REPLAY_BAD_SHOWN];
    size_t broken_count;
    struct weir_replay_broken broken[WEIR_REPLAY_FILES_MAX];
};

struct weir_replay_source;

/* Opens the files and reads the first line of each; complains on standard error. */
struct weir_replay_source *weir_replay_source_open(const struct weir_replay_plan *plan,
                                                   const struct weir_access_options *options, bool spool);
/* The same lines once more. False after a complaint. */
bool weir_replay_source_rewind(struct weir_replay_source *source);
/* The line with the least time of all files; of equal times the file that was named first. False: there are no more,
 * or reading failed (weir_replay_source_failed). */
bool weir_replay_source_next(struct weir_replay_source *source, struct weir_replay_read *ret_read);
bool weir_replay_source_failed(const struct weir_replay_source *source);
const struct weir_replay_bad *weir_replay_source_bad(const struct weir_replay_source *source);
/* Bytes that were read and that there are, as far as is known: 0 of what is no file. */
void weir_replay_source_progress(const struct weir_replay_source *source, uint64_t *ret_read, uint64_t *ret_size);
/* Whether every line may tell how long its request took; the name of the format. */
bool weir_replay_source_durations(const struct weir_replay_source *source);
const char *weir_replay_source_format(const struct weir_replay_source *source);
void weir_replay_source_close(struct weir_replay_source *source); /* NULL is allowed */

/* ---- one set of rules (replay_set.c) ---- */

/* The attributes that are looked at, by number: of all sets, and the route. */
struct weir_replay_names {
    const char *list[WEIR_ACCESS_WANTED_MAX];
    size_t count;
    size_t route;
};

struct weir_replay_limit {
    const char *name;
    uint64_t asked, refused, shadow_refused, keys_refused; /* refused: by itself, others may have too */
};

struct weir_replay_permits;

/* A configuration, and the limiter that a server would have. */
struct weir_replay_set {
    const char *file;
    struct weir_config *config;
    struct weir_limiter *limiter;
    struct weir_rules *rules;
    struct weir_replay_limit *limits; /* by index; the last one stands for `unmatched` */
    size_t limits_count;
    uint8_t attributes[WEIR_ACCESS_WANTED_MAX]; /* that it looks at, of the names */
    size_t attributes_count;
    struct weir_replay_permits *permits; /* NULL: no limit is of concurrency */
    bool concurrency_skipped, shared, held;
    uint64_t decided, refused, errors, unmatched, permits_lost;
    uint64_t maintain_ns;                                    /* when that is due */
    char error[sizeof(((struct weir_fault *)0)->text) + 64]; /* of the first */
    struct weir_match match;
    struct weir_decision decision;
    struct weir_verdict verdicts[WEIR_CHARGES_MAX];
};

/* Loads a file (or takes a text), adds the names that it looks at. Complains on standard error. */
bool weir_replay_set_load(struct weir_replay_set *set, const char *file, const char *node,
                          struct weir_replay_names *names);
bool weir_replay_set_parse(struct weir_replay_set *set, const char *name, struct weir_slice text,
                           struct weir_replay_names *names);
/* Compiles it as one process would that has all counters: what nodes share is kept exactly, here. Without durations
 * limits of concurrency are off. */
bool weir_replay_set_begin(struct weir_replay_set *set, bool durations);
/* Decides one request; the verdicts are in the set until the next one. False: refused. */
bool weir_replay_set_decide(struct weir_replay_set *set, const struct weir_replay_names *names,
                            const struct weir_access_line *line, uint64_t now_ns);
void weir_replay_set_deinit(struct weir_replay_set *set); /* zeroed is fine */

/* ---- counting (replay_count.c) ---- */

struct weir_replay_key {
    uint64_t hash; /* 0: the place is free */
    char limit[WEIR_LIMIT_NAME_MAX + 1];
    uint64_t refused[WEIR_REPLAY_SIDES];
    char text[WEIR_REPLAY_KEY_TEXT];
};

struct weir_replay_route {
    uint64_t hash;
    uint64_t asked, refused[WEIR_REPLAY_SIDES];
    char pattern[WEIR_REPLAY_ROUTE_TEXT]; /* for a rule's match */
};

struct weir_replay_minute {
    uint64_t asked, refused[WEIR_REPLAY_SIDES];
};

/* A table of keys that grows to its bound. */
struct weir_replay_keys {
    struct weir_replay_key *list;
    size_t count, room; /* a power of two */
    uint64_t dropped;   /* refusals of keys that found no place */
};

struct weir_replay_counts {
    struct weir_sip_key secret;
    uint64_t lines;
    uint64_t first_ns, last_ns; /* the first and the highest time */
    uint64_t went_back, back_max_ns;
    const char *back_file, *ahead_file; /* of the longest way back: that line, and the one before which it went */
    uint64_t back_number, ahead_number;
    const char *last_file;
    uint64_t last_number;
    bool fraction; /* some time had more than whole seconds */
    uint64_t without_duration;
    uint64_t only[WEIR_REPLAY_SIDES]; /* refused by this set alone */
    struct weir_replay_keys keys;
    struct weir_replay_route *routes; /* 2 * WEIR_REPLAY_ROUTES_MAX places, and one for the others */
    size_t routes_count;
    struct weir_replay_minute *minutes;
    size_t minutes_count, minutes_room;
    uint64_t minutes_dropped;
};

bool weir_replay_counts_init(struct weir_replay_counts *counts);
void weir_replay_counts_deinit(struct weir_replay_counts *counts); /* zeroed is fine */
/* The time to decide at: never before that of a line that was read. */
uint64_t weir_replay_counts_time(struct weir_replay_counts *counts, const struct weir_replay_read *read);
/* A value as a key has it: an IPv6 address in one form, cut to the prefix. */
struct weir_slice weir_replay_value(struct weir_slice value, unsigned prefix, char buffer[WEIR_LITERAL_TEXT_MAX]);
/* The route of a path to `depth` segments: "/a", or what is below, "/a/" and an asterisk. The last one: the others. */
struct weir_replay_route *weir_replay_route_find(struct weir_replay_counts *counts, struct weir_slice path,
                                                 unsigned depth);
struct weir_replay_minute *weir_replay_minute_find(struct weir_replay_counts *counts, uint64_t now_ns);
/* Counts what the set's last decision refused, by limit and key. */
void weir_replay_refusal_count(struct weir_replay_counts *counts, struct weir_replay_set *set,
                               enum weir_replay_side side, const struct weir_replay_names *names,
                               const struct weir_access_line *line);

/* ---- advice (replay_suggest.c) ---- */

struct weir_replay_demands;

/* What was proposed, and what it would have done. */
struct weir_replay_proposal {
    const char *pattern;
    char name[WEIR_REPLAY_ROUTE_TEXT + 32]; /* at most 121 bytes: shorter than WEIR_LIMIT_NAME_MAX */
    uint64_t keys, asked, rate, burst;      /* rate: a minute */
    uint64_t median, high, most;            /* of the busiest minute of each key: half, the percentile, the most */
    uint64_t refused, keys_hit;             /* in the second reading */
};

struct weir_replay_advice {
    struct weir_replay_proposal *list;
    size_t count;
    uint64_t dropped; /* requests of keys that found no place */
    uint64_t evicted; /* in the second reading: keys that lost their place in the table */
    char *yaml;
    size_t yaml_size;
};

struct weir_replay_demands *weir_replay_demands_create(void);
void weir_replay_demands_destroy(struct weir_replay_demands *demands); /* NULL is allowed */
/* One request of a key on a route. */
void weir_replay_demand_count(struct weir_replay_demands *demands, const struct weir_replay_plan *plan,
                              const struct weir_replay_names *names, const struct weir_access_line *line,
                              const struct weir_replay_counts *counts, const struct weir_replay_route *route,
                              uint64_t now_ns);
/* Makes the proposals and their configuration. False: out of memory. */
bool weir_replay_advise(const struct weir_replay_demands *demands, const struct weir_replay_plan *plan,
                        const struct weir_replay_counts *counts, struct weir_replay_advice *ret_advice);
void weir_replay_advice_deinit(struct weir_replay_advice *advice); /* zeroed is fine */

/* ---- showing ---- */

struct weir_replay_report {
    const struct weir_replay_plan *plan;
    struct weir_replay_set *sets;              /* by side; `file` NULL: there is none */
    struct weir_replay_counts *counts, *tried; /* the second: of the proposal */
    const struct weir_replay_bad *bad;
    const char *format;
    const struct weir_replay_advice *advice; /* NULL: none was asked for */
    bool durations;
    double seconds; /* that the first reading took */
};

/* Limits of both sets by their names, in the order of the first. */
struct weir_replay_pair {
    const char *name;
    const struct weir_replay_limit *of[WEIR_REPLAY_SIDES]; /* NULL: that set has none of this name */
};
/* Free the result; NULL: out of memory. */
struct weir_replay_pair *weir_replay_pairs(const struct weir_replay_report *report, size_t *ret_count);
/* Pointers, the most refused first. */
const struct weir_replay_key **weir_replay_keys_sorted(const struct weir_replay_counts *counts, size_t *ret_count);
const struct weir_replay_route **weir_replay_routes_sorted(const struct weir_replay_counts *counts, size_t *ret_count);
const struct weir_replay_minute **weir_replay_minutes_sorted(const struct weir_replay_counts *counts,
                                                             size_t *ret_count);

/* A line for each file that was not read to its end. */
void weir_replay_broken_print(FILE *out, const char *before, const struct weir_replay_bad *bad);
bool weir_replay_print(const struct weir_replay_report *report);
bool weir_replay_print_json(const struct weir_replay_report *report);
/* An SVG, to the plan's file. 0 or WEIR_EIO: errno says. */
int weir_replay_plot(const struct weir_replay_report *report);

/* Reads, decides, counts and shows; the exit code. */
int weir_replay_run(const struct weir_replay_plan *plan);
