/* SPDX-License-Identifier: Apache-2.0
 *
 * The configuration as a value: what the YAML of docs/rules.md says, checked, before anything acts on it.
 *
 * What it decides: whether a text is a configuration, key by key, with the place and the range of what is wrong. What
 * it does not: which limits a request meets (rules/rules.h), and whether a file, port or certificate named in it works.
 *
 * Bounds: 16 MiB of text, 12 levels, 64 keys in one mapping, WEIR_LIMITS_MAX limits and overrides; more is an error.
 *
 * Thread rule: immutable once loaded. Secrets stay in memory until destroy, which wipes them. */
#ifndef WEIR_RULES_CONFIG_H
#define WEIR_RULES_CONFIG_H

#include "weir/limiter.h"

#define WEIR_CONFIG_BYTES_MAX ((size_t)16 << 20)
#define WEIR_CONFIG_WARNINGS_MAX 1000 /* more are counted, not kept */
#define WEIR_ATTRIBUTE_NAME_MAX 64
#define WEIR_PATTERN_MAX 1024
#define WEIR_MATCH_MAX 16 /* attributes one limit may ask for */
#define WEIR_TOKENS_MAX 1000

/* Line and column count from 1; 0 where the fault has no place (a file that cannot be read, no memory). */
struct weir_mark {
    unsigned line;
    unsigned column;
};

/* What is wrong, and where. */
struct weir_config_fault {
    struct weir_mark mark;
    char text[400];
};

struct weir_config_warning {
    struct weir_mark mark;
    const char *text;
};

/* ---- addresses ---- */

enum weir_address_kind {
    WEIR_ADDRESS_OFF,
    WEIR_ADDRESS_TCP,
    WEIR_ADDRESS_UNIX,
};

/* "HOST:PORT" (an IPv4 address, [IPv6 address] or "localhost"), "unix:/path" (at most 107 bytes), or "off". */
struct weir_address {
    enum weir_address_kind kind;
    bool loopback; /* 127.0.0.0/8, ::1, localhost, or a Unix socket: nobody else's machine can connect */
    uint16_t port; /* 0: any free one */
    char host[64]; /* without brackets */
    char path[108];
};

/* WEIR_EINVAL or WEIR_ERANGE, and the fault says what an address looks like. */
int weir_address_parse(const char *text, struct weir_address *ret_address, struct weir_fault *ret_fault);

/* ---- small texts, for flags too ---- */

/* "256MiB": a number and B, KiB, MiB, GiB or TiB (a bare number is bytes). WEIR_EINVAL, WEIR_ERANGE. */
int weir_size_parse(const char *text, uint64_t *ret_bytes, struct weir_fault *ret_fault);

/* "10s", "250ms": a number and ms, s, sec, min, hour, day, week, month (30 days) or year (365 days). */
int weir_duration_parse(const char *text, uint64_t *ret_ns, struct weir_fault *ret_fault);

/* "100/min", "100/90s", "5/250ms" into count, period_ns, and the calendar unit with its count (WEIR_CALENDAR_FIXED for
 * units below a day); nothing else of the spec is touched. */
int weir_rate_parse(const char *text, struct weir_limit_spec *ret_spec, struct weir_fault *ret_fault);

/* ---- callers ---- */

enum weir_right {
    WEIR_RIGHT_CHECK = 1,   /* check, peek, CL.THROTTLE */
    WEIR_RIGHT_REFUND = 2,  /* WEIR.REFUND */
    WEIR_RIGHT_RESET = 4,   /* DEL */
    WEIR_RIGHT_METRICS = 8, /* /metrics, INFO */
    WEIR_RIGHT_ALL = 15,
};

struct weir_config_token {
    const char *name;         /* who it is, for logs and metrics */
    struct weir_slice secret; /* 16 to 512 bytes; compare in constant time */
    unsigned rights;          /* of enum weir_right */
};

enum weir_auth_required {
    WEIR_AUTH_AUTO,   /* asked for on listeners that are not loopback; without tokens such a listener is refused */
    WEIR_AUTH_ALWAYS, /* on loopback too */
    WEIR_AUTH_NEVER,  /* said explicitly: anybody who can connect may ask */
};

/* ---- one limit ---- */

enum weir_throttle {
    WEIR_THROTTLE_DELAY, /* the verdict carries the delay */
    WEIR_THROTTLE_HOLD,  /* the answer waits for its turn */
};

/* An attribute and what its value must look like; `*` stands for any bytes, also none. */
struct weir_condition {
    struct weir_mark mark;
    const char *attribute;
    struct weir_slice pattern;
};

/* Settings for some keys of a limit; they share the limit's counters. */
struct weir_config_override {
    struct weir_mark mark;
    const char *variant; /* canonical text of its conditions, cut to WEIR_LIMIT_NAME_MAX: the same after every reload */
    struct weir_condition conditions[WEIR_KEY_VALUES_MAX];
    size_t conditions_count;
    struct weir_limit_spec spec; /* the limit's, with rate, burst or mode replaced */
    bool shadowed;               /* an earlier one has the same conditions: this one never applies */
};

struct weir_config_limit {
    struct weir_mark mark;
    struct weir_mark mark_rate, mark_burst,
        mark_tz; /* where the key stands; the limit's own place where it is absent */
    const char *name;
    struct weir_condition match[WEIR_MATCH_MAX]; /* by attribute */
    size_t match_count;
    const char *key[WEIR_KEY_VALUES_MAX];
    size_t key_count;
    struct weir_limit_spec spec;
    enum weir_throttle throttle;
    uint32_t hold_max;
    uint64_t hold_timeout_ns;
    uint64_t cost;              /* units per unit of the request's cost */
    const char *cost_attribute; /* the attribute that carries it; NULL = `cost` */
    unsigned ipv6_prefix;
    struct weir_config_override *overrides;
    size_t overrides_count;
};

/* ---- all of it ---- */

struct weir_config_server {
    uint32_t connections_max;    /* open at once; one more is closed at once */
    uint32_t pipeline_max;       /* requests answered per turn of the loop for one connection */
    uint32_t headers_max;        /* header fields of one HTTP request */
    uint32_t header_bytes_max;   /* their bytes, request line included */
    uint32_t body_bytes_max;     /* HTTP body */
    uint32_t command_bytes_max;  /* one RESP command */
    uint32_t output_bytes_max;   /* answers a client has not read; at it nothing more is read, at twice it the end */
    uint64_t idle_timeout_ns;    /* no request for so long closes the connection */
    uint64_t request_timeout_ns; /* a request that takes longer to arrive closes it */
    uint64_t drain_timeout_ns;   /* after SIGTERM, for what is under way */
};

struct weir_config {
    /* listen: */
    struct weir_address resp;
    struct weir_address http;
    /* table: */
    size_t memory_max;
    size_t log_memory_max; /* 0 = the limiter's default */
    uint64_t skew_max_ns;
    /* threads: 0 = one per core */
    uint32_t threads;
    /* tls: NULL = plain text */
    const char *tls_cert_file;
    const char *tls_key_file;
    /* auth: */
    enum weir_auth_required auth_required;
    struct weir_config_token *tokens;
    size_t tokens_count;
    /* server: */
    struct weir_config_server server;
    /* headers: */
    bool headers_ratelimit;   /* RateLimit and RateLimit-Policy */
    bool headers_x_ratelimit; /* X-RateLimit-Limit, -Remaining, -Reset */
    /* cluster_secret: */
    bool cluster_secret_set;
    uint8_t cluster_secret[16];
    /* limits: */
    struct weir_config_limit *limits;
    size_t limits_count;

    struct weir_config_warning *warnings; /* in the order of their place in the text */
    size_t warnings_count;
    size_t warnings_dropped;
    struct weir_arena *arena; /* owns everything above */
};

/* Parses and checks `size` bytes of YAML. Errors: WEIR_EPROTO (not YAML, or not the schema), WEIR_ERANGE and
 * WEIR_EINVAL (a value), WEIR_ELIMIT (a stated bound), WEIR_ENOMEM; the fault has the place. */
int weir_config_parse(const char *text, size_t size, struct weir_config **ret_config,
                      struct weir_config_fault *ret_fault);

/* The same from a file; WEIR_EIO where it cannot be read. Files named in it (secret_file) are read too. */
int weir_config_load(const char *path, struct weir_config **ret_config, struct weir_config_fault *ret_fault);

/* What `weir serve` runs without --config: examples/weir.yaml, as it was when this was built. */
int weir_config_example(struct weir_config **ret_config, struct weir_config_fault *ret_fault);
struct weir_slice weir_config_example_text(void);

void weir_config_destroy(struct weir_config *config); /* NULL is allowed */

/* "FILE:LINE:COLUMN: text", or "FILE: text" where there is no place; cut to fit, always terminated. */
void weir_config_fault_format(const struct weir_config_fault *fault, const char *file, char *buffer, size_t size);

#endif
