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
#pragma once

#include "limits/shared_limit.h"
#include "observe/logger.h"
#include "observe/top.h"
#include "rules/block.h"
#include "rules/reserve.h"
#include "weir/limiter.h"
#include "weir/session.h"
#include "wire/forwarded.h"

#define WEIR_CONFIG_BYTES_MAX ((size_t)16 << 20)
#define WEIR_CONFIG_WARNINGS_MAX 1000 /* more are counted, not kept */
#define WEIR_ATTRIBUTE_NAME_MAX 64
#define WEIR_PATTERN_MAX 1024
#define WEIR_MATCH_MAX 16         /* conditions of one limit */
#define WEIR_TERMS_MAX 1000       /* values of one condition */
#define WEIR_NOTS_MAX 256         /* different conditions with `not` in one configuration */
#define WEIR_NOTS_OF_ATTRIBUTE 64 /* on one attribute */
#define WEIR_REPLACES_MAX 1000    /* of one limit */
#define WEIR_TOKENS_MAX 1000
#define WEIR_HOSTS_MAX 64
#define WEIR_HOST_NAME_MAX 253

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

#define WEIR_CONFIG_FAULTS_MAX 100 /* of one file; then no more is read */

struct weir_config_faults {
    size_t count;
    struct weir_config_fault list[WEIR_CONFIG_FAULTS_MAX]; /* by place */
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

/* "HOST:PORT" (an IPv4 address, [IPv6 address] or "localhost"), "unix:/path" (at most 107 bytes), or "off". Of servers
 * that we connect to HOST may be any name. */
struct weir_address {
    enum weir_address_kind kind;
    bool loopback;  /* 127.0.0.0/8, ::1, localhost, or a Unix socket: nobody else's machine can connect */
    uint16_t port;  /* 0: any free one */
    char host[128]; /* without brackets */
    char path[108];
};

/* WEIR_EINVAL or WEIR_ERANGE, and the fault says what an address looks like. */
int weir_address_parse(const char *text, struct weir_address *ret_address, struct weir_fault *ret_fault);

/* The same of a server to connect to: never "off", the port is 1 to 65535, and the host may be a name. */
int weir_address_parse_server(const char *text, struct weir_address *ret_address, struct weir_fault *ret_fault);

/* ---- small texts, for flags too ---- */

/* "256MiB": a number and B, KiB, MiB, GiB or TiB (a bare number is bytes). WEIR_EINVAL, WEIR_ERANGE. */
int weir_size_parse(const char *text, uint64_t *ret_bytes, struct weir_fault *ret_fault);

/* "10s", "250ms": a number and ms, s, sec, min, hour, day, week, month (30 days) or year (365 days). */
int weir_duration_parse(const char *text, uint64_t *ret_ns, struct weir_fault *ret_fault);

/* The other way, as a file may have it: "90s", "1hour", "366day". Of less than 1ms "0ms". Cut to fit. */
void weir_period_format(uint64_t ns, char *buffer, size_t size);

/* For people: "250ms", "1min 30s", "8d 1h": rounded up to the second of two neighbours of d, h, min, s and ms, so that
 * nobody comes too early. Cut to fit; WEIR_DURATION_SIZE is always enough. */
#define WEIR_DURATION_SIZE 32
void weir_duration_format(uint64_t ms, char *buffer, size_t size);

/* "100/min", "100/90s", "5/250ms" into count, period_ns, and the calendar unit with its count (WEIR_CALENDAR_FIXED for
 * units below a day); nothing else of the spec is touched. */
int weir_rate_parse(const char *text, struct weir_limit_spec *ret_spec, struct weir_fault *ret_fault);

/* The other way: "100/min", "5/250ms", in the largest unit that divides the period; of `concurrency` the count alone.
 * Cut to fit. */
void weir_rate_format(const struct weir_limit_spec *spec, char *buffer, size_t size);

/* ---- callers ---- */

enum weir_right {
    WEIR_RIGHT_CHECK = 1,    /* check, peek, CL.THROTTLE */
    WEIR_RIGHT_REFUND = 2,   /* WEIR.REFUND */
    WEIR_RIGHT_RESET = 4,    /* DEL; /v1/locks/restored; a `seen` more than a day above the clock */
    WEIR_RIGHT_METRICS = 8,  /* /metrics, INFO */
    WEIR_RIGHT_LOCK = 16,    /* acquire, renew, release and show locks */
    WEIR_RIGHT_SESSION = 32, /* route reads, say what was seen, accept a loss: of any user */
    WEIR_RIGHT_ALL = 63,     /* of whoever needs no token */
    WEIR_RIGHT_ADMIN = 64,   /* /v1/rules: never without a token that says so */
};

const char *weir_right_name(unsigned right); /* "check", as in the file, of one right */

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

/* How nodes share a limit (core/share). */
/* cl_throttle: where the counters of CL.THROTTLE are. */
struct weir_config_throttle {
    enum weir_sharing sharing; /* exact */
    enum weir_throttle_engine {
        WEIR_THROTTLE_MEMORY, /* in this process's */
        WEIR_THROTTLE_REDIS,  /* at the engine: one for all nodes */
    } engine;
    enum weir_on_failure on_failure; /* only at the engine, as `deadline_ns` */
    uint64_t deadline_ns;
};

/* What a limit does with a request that it matches and that lacks an attribute of its key. */
enum weir_missing {
    WEIR_MISSING_SKIP,   /* nothing: the request does not meet it */
    WEIR_MISSING_SHARE,  /* all who lack the same attributes, and agree in the others, have one counter */
    WEIR_MISSING_REFUSE, /* refuses it, for good */
};

/* A request that meets no limit. */
enum weir_unmatched {
    WEIR_UNMATCHED_ADMIT,
    WEIR_UNMATCHED_REFUSE,
};

/* What a value is compared with: itself, a pattern in which `*` stands for any bytes, also none, or a block of
 * addresses, which only an address is in. */
struct weir_condition_value {
    struct weir_slice text;
    bool is_block;
    struct weir_block block;
};

/* Any of these; negated: none of these, as is so of a request that lacks the attribute. */
struct weir_condition_values {
    bool negated;
    size_t count;
    struct weir_condition_value list[]; /* sorted, each once */
};

/* An attribute and what its value must look like. */
struct weir_condition {
    struct weir_mark mark;
    const char *attribute;
    struct weir_slice pattern; /* the value or pattern; where there are terms, all of them for people to read */
    const struct weir_condition_values *terms; /* NULL: `pattern` alone */
};

/* Settings for some keys of a limit; they share the limit's counters. A level and a rollout have no conditions. */
struct weir_config_override {
    struct weir_mark mark;
    const char *level;   /* not NULL: for the keys for which an exception says so (rules/exception.h) */
    const char *variant; /* canonical text of its conditions, cut to WEIR_LIMIT_NAME_MAX: the same after every reload */
    struct weir_condition conditions[WEIR_KEY_VALUES_MAX];
    size_t conditions_count;
    struct weir_limit_spec spec; /* the limit's, with rate, burst or mode replaced */
    bool shadowed;               /* an earlier one has the same conditions: this one never applies */
};

struct weir_config_limit {
    struct weir_mark mark;
    /* Where these keys stand; the limit's own place where one is absent. */
    struct weir_mark mark_rate, mark_burst, mark_tz, mark_key, mark_cost, mark_hold, mark_replaces;
    const char *name;
    struct weir_condition match[WEIR_MATCH_MAX]; /* by attribute */
    size_t match_count;
    const char *key[WEIR_KEY_VALUES_MAX];
    size_t key_count;
    enum weir_missing missing;
    struct weir_limit_spec spec;
    enum weir_throttle throttle;
    uint32_t hold_max;
    uint64_t hold_timeout_ns;
    uint64_t lease_ns;                  /* concurrency: 30 s; 1 s to 366 days. Its specs have it as their period */
    uint64_t cost;                      /* units per unit of the request's cost */
    const char *cost_attribute;         /* the attribute that carries it; NULL = `cost` */
    struct weir_config_reserve reserve; /* only where `cost_attribute` is `amount` */
    unsigned ipv6_prefix;
    const char **replaces; /* names of limits that a question of Envoy's does not meet if it meets this */
    size_t replaces_count;
    enum weir_sharing sharing;
    uint64_t slack;        /* batched, gossip: units per node; 0 = max(1, n / (10 N)) */
    uint64_t interval_ns;  /* batched: 100 ms; 1 ms to 1 min */
    uint64_t chunk_ttl_ns; /* leased: 2 s; 100 ms to 1 hour */
    enum weir_on_failure on_failure;
    uint64_t deadline_ns; /* for the engine's answer: 20 ms; 1 ms to 10 s */
    struct weir_config_override *overrides;
    size_t overrides_count;
    size_t levels_count;    /* of the overrides; they stand behind those that name values */
    uint32_t rollout;       /* not 0: the last of the overrides is for this share of the keys (rules/rollout.h) */
    uint64_t definition;    /* a hash of what defines it (rules/yaml_text.h): two of them differ if that does */
    uint64_t since_wall_ns; /* it decides in this form; 0 = since the whole set does (rules/changes.h) */
    /* Where nodes share it through an engine or by gossip (rules/revise.h): */
    bool owned;
    struct weir_slice text;    /* as the file has it, in one form (rules/yaml_text.h) */
    uint32_t revision;         /* of the definition that stands here; 0 = it is not known which is the newest */
    uint32_t revision_passed;  /* its number before it passed what keys said (core/share/revision.h); 0 = none */
    const char *revision_node; /* which node made it the newest; NULL or "" = none */
    bool replaced;             /* it is not the file's */
    bool undecidable;          /* the newest is not understood here: on_failure decides */
};

/* Every request meets it: of those there may be WEIR_CHARGES_MAX. */
bool weir_config_meets_all(const struct weir_config_limit *limit);

/* ---- the engine that nodes share, and the nodes ---- */

#define WEIR_SERVERS_MAX 64
#define WEIR_NODES_MAX 256

/* engine: { redis: { … } } */
struct weir_config_redis {
    struct weir_address *servers; /* one server; or seeds of a cluster; or sentinels */
    size_t servers_count;         /* 0: there is no engine elsewhere */
    bool cluster;
    const char *sentinel;       /* the primary's name as the sentinels know it; NULL = not through sentinels */
    const char *username;       /* NULL = "default" */
    struct weir_slice password; /* size 0: none */
    struct weir_slice sentinel_password;
    const char *prefix; /* of every key and nothing else: "weir"; 1 to 32 of A-Z a-z 0-9 _ - . : */
    bool tls;
    const char *tls_ca_file;     /* NULL = the system's */
    const char *tls_name;        /* expected in the certificate; NULL = the address */
    uint64_t connect_timeout_ns; /* 1 s */
};

/* cluster: { node: a, nodes: [ { name: a, gossip: 127.0.0.1:7946 }, … ] } */
struct weir_config_node {
    const char *name;           /* 1 to 64 of A-Z a-z 0-9 _ - . */
    struct weir_address gossip; /* kind OFF: takes no part in gossip */
};

/* ---- locks ---- */

#define WEIR_ENDPOINTS_MAX 16

enum weir_config_lock_engine {
    WEIR_LOCKS_NONE, /* there are no locks */
    WEIR_LOCKS_SQLITE,
    WEIR_LOCKS_POSTGRES,
    WEIR_LOCKS_ETCD,
};
const char *weir_config_lock_engine_name(enum weir_config_lock_engine engine); /* "sqlite", as in the file */

/* locks: { engine: sqlite, path: … }. Secrets among these are conninfo and password: never shown, never logged. */
struct weir_config_locks {
    enum weir_config_lock_engine engine;
    const char *path;           /* sqlite: of the database */
    const char *witness;        /* outside the store; sqlite: NULL = path + ".witness" */
    struct weir_slice conninfo; /* postgres, as libpq takes it; a NUL follows it */
    const char *table;          /* postgres; NULL = the engine's default */
    const char **endpoints;     /* etcd: URLs */
    size_t endpoints_count;
    const char *prefix; /* etcd: of every key; NULL = the engine's default */
    const char *username;
    struct weir_slice password; /* etcd; a NUL follows it */
    const char *ca_file;        /* etcd; NULL = the system's */
    uint32_t waiters_max;       /* 65,536; 1 to 1,000,000 */
    uint64_t timeout_ns;        /* for one batch of the engine: 2 s; 100 ms to 1 min */
};

/* ---- sessions ---- */

struct weir_config_session_server {
    const char *name;
    struct weir_slice url; /* as libpq takes it; a NUL follows it. It may hold a password: never shown, never logged */
};

struct weir_config_session_key {
    uint32_t id;           /* 0 to 255 */
    struct weir_slice key; /* WEIR_SESSION_KEY_MIN to _MAX bytes */
};

/* sessions: { servers: [ … ], users: memory, keys: [ … ] } */
struct weir_config_sessions {
    struct weir_config_session_server *servers;
    size_t servers_count;                 /* 0: there are no sessions */
    struct weir_slice users;              /* where they are kept: a URL; a NUL follows it. Size 0 = in memory */
    uint64_t users_max;                   /* in memory: 1,000,000; 1 to 10^8 */
    uint64_t ttl_ns;                      /* elsewhere: 1 day; 1 s to 366 days */
    struct weir_config_session_key *keys; /* the first signs */
    size_t keys_count;                    /* 0: a random one, which ends with the process */
    uint64_t poll_ns;                     /* 50 ms; 10 ms to 10 s */
    uint64_t freeze_ns;                   /* 1 s; at least twice poll */
    uint64_t timeout_ns;                  /* for an answer of a server, or of where users are kept: 1 s */
    uint64_t window_ns;                   /* strategy window: 1 s */
    const char *branch_table;             /* schema.table; NULL: none */
    uint32_t waiters_max;                 /* routes that wait, and users that are asked for: 4096; 1 to 1,000,000 */
};

/* ---- where the rules are ---- */

/* rules: { store: "sqlite:/var/lib/weir/rules.db" }. What limits there are (`limits`, `unmatched`) then does not stand
 * in this file but in a store of numbered versions (rules/store.h), and nowhere else. */
struct weir_config_rules {
    struct weir_slice store; /* as weir_rule_store_open takes it; a NUL follows it. It may hold a password: never shown,
                                never logged. Size 0: the rules stand in the file */
    const char *table;       /* PostgreSQL; NULL = the store's default */
    const char *kept;        /* path: where the newest version is kept on this machine, for a start without the store;
                                NULL = nowhere */
    uint64_t poll_ns;        /* 0 = the store's default; 10 ms to 1 min */
    uint64_t timeout_ns;     /* for one question to the store: 2 s; 100 ms to 1 min */
    bool approval;           /* a change is proposed, and somebody else approves it */
};

/* ---- traces ---- */

/* traces: { endpoint: "http://127.0.0.1:4318/v1/traces" } */
struct weir_config_traces {
    const char *endpoint;   /* NULL: there are none */
    const char *service;    /* service.name: "weir" */
    uint64_t sample_one_in; /* of requests without a traceparent; 0 = none of them; to 1,000,000,000 */
    uint64_t timeout_ns;    /* for one message, and for the last ones at the end: 2 s; 100 ms to 10 s */
};

/* ---- all of it ---- */

struct weir_config_server {
    uint32_t connections_max;    /* open at once; one more is closed at once */
    uint32_t pipeline_max;       /* requests answered per turn of the loop for one connection */
    uint32_t headers_max;        /* header fields of one HTTP request */
    uint32_t header_bytes_max;   /* their bytes, without the request line */
    uint32_t body_bytes_max;     /* HTTP body */
    uint32_t command_bytes_max;  /* one RESP command */
    uint32_t buffer_bytes_max;   /* what all connections have sent and not been answered, or not taken, together */
    uint32_t hold_bytes_max;     /* answers that wait for their turn (throttle: hold), all together */
    uint32_t output_bytes_max;   /* answers a client has not read; at it nothing more is read, at twice it the end */
    uint64_t idle_timeout_ns;    /* no request for so long closes the connection */
    uint64_t request_timeout_ns; /* a request that takes longer to arrive closes it */
    uint64_t drain_timeout_ns;   /* after SIGTERM, for what is under way */
};

/* listen: { http: { address, forwarded, path, hosts } } */
struct weir_config_http {
    enum weir_forwarded_source forwarded; /* whose word on route, method and address /v1/auth takes */
    enum weir_path_rule path;
    const char **hosts; /* names that a Host field may have where no token is asked for */
    size_t hosts_count;
};

struct weir_config {
    /* listen: */
    struct weir_address resp;
    struct weir_address http;
    struct weir_address admin; /* HTTP too; where it is not off, /v1/rules is served there alone */
    struct weir_address grpc;
    struct weir_config_http http_rules;
    /* envoy: descriptors of one question are each decided by themselves, and not all or nothing */
    bool envoy_count_all;
    const char *envoy_folder; /* of the files that have all limits (rules/envoy_rules.h); NULL: there are none */
    /* table: */
    size_t memory_max;
    size_t log_memory_max;      /* 0 = the limiter's default */
    const char *snapshot_path;  /* what keys have used, over restarts; NULL = it is not kept */
    uint64_t snapshot_every_ns; /* 10 s; 1 s to 1 hour */
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
    /* log: */
    enum weir_log_format log_format;
    enum weir_log_level log_level;
    uint32_t log_refusals; /* lines of each limit in a second; 0: none */
    /* top: */
    enum weir_top_keys top_keys;
    /* headers: */
    bool headers_ratelimit;   /* RateLimit and RateLimit-Policy */
    bool headers_x_ratelimit; /* X-RateLimit-Limit, -Remaining, -Reset */
    /* cl_throttle: */
    struct weir_config_throttle cl_throttle;
    /* cluster_secret: */
    bool cluster_secret_set;
    uint8_t cluster_secret[16];
    /* engine: */
    struct weir_config_redis redis;
    /* cluster: nodes in the order of their names, so that every node counts them alike */
    struct weir_config_node *nodes;
    size_t nodes_count;    /* 0 = this node alone: N is 1 */
    size_t node;           /* which of them this one is (weir_config_be); 0 until that is known */
    const char *node_name; /* NULL until it is known, or where there are no nodes */
    struct weir_mark mark_cluster, mark_engine;
    /* Of a set of rules in a store: the nodes that it is for; NULL: all */
    const char **rule_nodes;
    size_t rule_nodes_count;
    struct weir_mark mark_rule_nodes;
    /* locks: */
    struct weir_config_locks locks;
    /* sessions: */
    struct weir_config_sessions sessions;
    /* traces: */
    struct weir_config_traces traces;
    /* revision: 0 = none */
    uint64_t revision;
    /* rules: */
    struct weir_config_rules rules;
    /* limits: of the file, or of `stored` */
    struct weir_config_limit *limits;
    size_t limits_count;
    enum weir_unmatched unmatched;

    uint64_t checksum;        /* of the text, byte by byte: to tell two files apart, not to keep secrets */
    struct weir_slice source; /* the text, and where files named in it are looked for; NULL = the working directory */
    const char *directory;
    const struct weir_secret_read *secrets; /* what files named in it said (secret_decode.h) */
    struct weir_slice stored; /* the set of rules from the store, if any: marks of limits are of this text */
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

/* And tells what else is wrong: with every key, limit, override, condition and token by itself, and with the names of
 * limits. Where YAML itself is broken nothing after it can be read; and how limits are shared is judged once all that
 * stands beside them is right. */
int weir_config_load_telling(const char *path, struct weir_config **ret_config, struct weir_config_faults *ret_faults);

/* The same file with a set of rules from its store, or from envoy_folder: a YAML text with the keys `limits`,
 * `unmatched` and `nodes`, no other. The faults are of that text, for the file was right. */
int weir_config_with_rules(const struct weir_config *config, struct weir_slice stored, struct weir_config **ret_config,
                           struct weir_config_faults *ret_faults);

/* The same text, and the same set of rules, once more, as they were. */
int weir_config_again(const struct weir_config *config, struct weir_config **ret_config,
                      struct weir_config_fault *ret_fault);

/* What `weir serve` runs without --config: examples/weir.yaml, as it was when this was built. */
int weir_config_example(struct weir_config **ret_config, struct weir_config_fault *ret_fault);
struct weir_slice weir_config_example_text(void);

/* Says which of the nodes this one is: `name` (the flag --node), or where that is NULL what `node:` says. One file
 * serves all nodes that way. Call it before weir_rules_create. WEIR_ENOENT: it is none of them; WEIR_EINVAL: nobody
 * said. */
int weir_config_be(struct weir_config *config, const char *name, struct weir_config_fault *ret_fault);

/* Other nodes decide it too, by one definition and one count: through the engine, or by gossip. */
bool weir_config_is_shared(const struct weir_config *config, const struct weir_config_limit *limit);

/* N: at least 1. */
uint32_t weir_config_nodes(const struct weir_config *config);

void weir_config_destroy(struct weir_config *config); /* NULL is allowed */

/* "FILE:LINE:COLUMN: text", or "FILE: text" where there is no place; cut to fit, always terminated. */
void weir_config_fault_format(const struct weir_config_fault *fault, const char *file, char *buffer, size_t size);
