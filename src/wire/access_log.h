/* SPDX-License-Identifier: Apache-2.0
 *
 * One line of an access log: when, by whom, and what was asked for. nginx's and Apache's combined and common formats,
 * Envoy's default one, JSON, and what a format string describes.
 *
 * What it decides: which bytes of a line are its time, its duration, and each attribute that somebody wants. What it
 * does not: where lines come from (cli/replay_read.c), and which limits they meet (rules/rules.h).
 *
 * A format string is literal text and fields, as in the server's own configuration: $name or ${name} of nginx, %h or
 * %{User-Agent}i of Apache, %START_TIME% or %REQ(:METHOD)% of Envoy. Between two fields there must be text, which ends
 * the first. A field that means nothing to us is passed over. What stands behind the last field that is wanted is not
 * looked at: a common line is a combined one that ends sooner.
 *
 * Values are as the server escaped them (\x22, \"; in JSON as JSON does) and are given back as they were. "-" and null
 * are absent. The route is the path of the request in one spelling, as /v1/auth reads it (wire/path.h). An address
 * loses its port, and of a list (X-Forwarded-For) the last one counts.
 *
 * Bounds: WEIR_ACCESS_LINE_MAX bytes of a line, WEIR_ACCESS_FIELDS_MAX fields of a format string, JSON nested at most
 * WEIR_ACCESS_DEPTH_MAX deep. Times are from 1971 to 2261. Thread rule: plain values; reading a line changes only the
 * line and the format's memory of its last second. */
#pragma once

#include "wire/path.h"

#define WEIR_ACCESS_LINE_MAX ((size_t)64 << 10)
#define WEIR_ACCESS_FIELDS_MAX 64
#define WEIR_ACCESS_FORMAT_MAX 4096 /* bytes of a format string */
#define WEIR_ACCESS_WANTED_MAX 64
#define WEIR_ACCESS_MAPS_MAX 64
#define WEIR_ACCESS_NAME_MAX 128 /* bytes of the name of a field; of a nested one with its dots */
#define WEIR_ACCESS_DEPTH_MAX 32

/* What a field means. */
enum weir_access_kind {
    WEIR_ACCESS_SKIPPED,
    WEIR_ACCESS_TIME,
    WEIR_ACCESS_SECONDS, /* durations, in these units */
    WEIR_ACCESS_MILLIS,
    WEIR_ACCESS_MICROS,
    WEIR_ACCESS_REQUEST, /* "GET /path HTTP/1.1" */
    WEIR_ACCESS_ROUTE,   /* a request target */
    WEIR_ACCESS_IP,
    WEIR_ACCESS_VALUE,
};

/* FIELD of the log is MEANING: an attribute, or "time", "request", "duration", "duration_ms", "duration_us". */
struct weir_access_map {
    const char *field;
    const char *meaning;
};

struct weir_access_options {
    const char *const *wanted; /* names of attributes; they outlive the format */
    size_t wanted_count;       /* at most WEIR_ACCESS_WANTED_MAX */
    const struct weir_access_map *maps;
    size_t maps_count; /* at most WEIR_ACCESS_MAPS_MAX */
    enum weir_path_rule path;
};

/* A field and the text that ends it. */
struct weir_access_field {
    uint8_t kind;   /* enum weir_access_kind */
    uint8_t wanted; /* IP, VALUE: of the options' */
    bool quoted;    /* it stands in quotes: an escaped one does not end it */
    uint16_t text_begin, text_size;
};

/* What a JSON member of this name means. */
struct weir_access_member {
    char name[WEIR_ACCESS_NAME_MAX];
    uint8_t name_size;
    uint8_t kind, wanted;
    uint8_t next; /* of the same hash; 0 = none */
};

#define WEIR_ACCESS_MEMBERS_MAX 200

/* Treat as opaque. */
struct weir_access_format {
    bool json;
    bool has_duration; /* a line of it may tell how long a request took; of JSON: always */
    enum weir_path_rule path;
    size_t wanted_count;
    uint8_t route, method;            /* of the wanted ones; wanted_count = nobody wants it */
    size_t field_count, field_needed; /* those before it are all that is looked at */
    struct weir_access_field fields[WEIR_ACCESS_FIELDS_MAX];
    uint16_t head_size; /* of the text before the first field */
    char text[WEIR_ACCESS_FORMAT_MAX];
    size_t member_count; /* of JSON; member 0 is none */
    struct weir_access_member members[WEIR_ACCESS_MEMBERS_MAX];
    uint8_t heads[256];
    char last_time[32]; /* the text of a time, and what it is: the next line often has the same */
    size_t last_time_size;
    uint64_t last_time_ns;
};

struct weir_access_line {
    uint64_t time_ns; /* since 1970 */
    bool fraction;    /* the time has more than whole seconds */
    bool has_duration;
    uint64_t duration_ns;
    bool path_refused; /* the reason is the path: /v1/auth answers 400 */
    /* By the number of the wanted one; data NULL: absent. They point into the line or into `text`. */
    struct weir_slice values[WEIR_ACCESS_WANTED_MAX];
    struct weir_text text;
    uint8_t room[2 * WEIR_ACCESS_LINE_MAX];
};

/* "combined" (common too), "envoy", "json", or a format string. WEIR_EINVAL, WEIR_ERANGE and the fault. */
int weir_access_format_init(struct weir_access_format *format, const char *text,
                            const struct weir_access_options *options, struct weir_fault *ret_fault);

/* The name of the format that a first line looks like: "json", "envoy" or "combined". */
const char *weir_access_format_guess(const char *line, size_t size);

/* NULL, or why it is none: a text of ours that stays. `data` is without the end of the line. */
const char *weir_access_read(struct weir_access_format *format, const char *data, size_t size,
                             struct weir_access_line *ret_line);

/* ---- between the files of this codec ---- */

/* A date and time: 10/Oct/2000:13:55:36 -0700, ISO 8601, or a number since 1970 in s, ms, us or ns. */
bool weir_access_time(const char *text, size_t size, uint64_t *ret_ns, bool *ret_fraction);
/* A decimal number of units of `unit_ns`: "0.004". */
bool weir_access_duration(const char *text, size_t size, uint64_t unit_ns, uint64_t *ret_ns);
/* \xHH, \" and \n of nginx and Apache; what is no escape stays. */
struct weir_slice weir_access_unescape(struct weir_slice value, struct weir_text *text);
/* Puts one value where it belongs. NULL, or what is wrong. */
const char *weir_access_take(struct weir_access_format *format, enum weir_access_kind kind, uint8_t wanted,
                             struct weir_slice value, struct weir_access_line *line);
const char *weir_access_read_json(struct weir_access_format *format, const char *data, size_t size,
                                  struct weir_access_line *line);
/* What the name of a field means; SKIPPED: nothing. */
enum weir_access_kind weir_access_meaning(const struct weir_access_options *options, const char *name, size_t size,
                                          uint8_t *ret_wanted);
/* Every name that means something, as members of JSON. */
int weir_access_members_init(struct weir_access_format *format, const struct weir_access_options *options,
                             struct weir_fault *ret_fault);
const struct weir_access_member *weir_access_member_find(const struct weir_access_format *format, const char *name,
                                                         size_t size);
