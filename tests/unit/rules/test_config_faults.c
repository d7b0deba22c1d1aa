/* SPDX-License-Identifier: Apache-2.0
 *
 * The configuration: what is not legal names its place and its range. */
#include <unistd.h>

#include "config_bad.h"

#define L                                                                                                              \
    "limits:\n  - name: a\n    rate: 10/s\n    burst: 10\n" /* ends in line 4; more of it goes to line 5, column 5 */

#define P "limits: [{name: a, algorithm: concurrency, " /* a concurrency limit: goes on in column 44 */

static const struct bad bad_yaml[] = {
    { "", 1, 1, WEIR_EPROTO, "empty" },
    { "# only a comment\n", 2, 1, WEIR_EPROTO, "empty" },
    { "[]", 1, 1, WEIR_EPROTO, "must be a mapping, not a list" },
    { "limits", 1, 1, WEIR_EPROTO, "the configuration must be a mapping, not text: write limits: [ ... ]" },
    { "limits: [\n", 2, 1, WEIR_EPROTO, "not YAML" },
    { "limits: {a: b\n  c", 3, 1, WEIR_EPROTO, "not YAML" },
    { "a:\tb: c", 1, 5, WEIR_EPROTO, "not YAML" },
    { "limit: []", 1, 1, WEIR_EPROTO,
      "unknown key \"limit\" in the configuration; did you mean \"limits\"? It must be one of listen table" },
    { "laws: []", 1, 1, WEIR_EPROTO, "unknown key \"laws\" in the configuration: must be one of listen table" },
    { "threads: 1\nthreads: 2\n", 2, 1, WEIR_EPROTO, "duplicate key \"threads\": it stands already at line 1" },
    { "threads: &x 1\n", 1, 10, WEIR_EPROTO, "anchors (&x) are not allowed" },
    { "threads: *x\n", 1, 10, WEIR_EPROTO, "aliases (*x) are not allowed" },
    { "limits: &x []\n", 1, 9, WEIR_EPROTO, "anchors" },
    { "listen: &x {}\n", 1, 9, WEIR_EPROTO, "anchors" },
    { "threads: !!int 1\n", 1, 10, WEIR_EPROTO, "tags (tag:yaml.org,2002:int) are not allowed" },
    { "threads: ! 1\n", 1, 10, WEIR_EPROTO, "tags" },
    { "limits: !x []\n", 1, 9, WEIR_EPROTO, "tags" },
    { "<<: {}\n", 1, 1, WEIR_EPROTO, "unknown key \"<<\"" },
    { "? [a]\n: b\n", 1, 3, WEIR_EPROTO, "a key must be text, not a list" },
    { "threads: 1\n---\nthreads: 2\n", 2, 1, WEIR_EPROTO, "a second document" },
    { "threads: \"\\uD8\"\n", 1, 13, WEIR_EPROTO, "not YAML" },
    { "threads: \x01\n", 1, 10, WEIR_EPROTO, "control characters are not allowed (byte 0x01)" },
    { "threads: \xff\n", 1, 10, WEIR_EPROTO, "byte 0xff" },
    { "a\n: \xc3\n", 2, 4, WEIR_EPROTO, "byte 0x" },
    { "limits: [[]]", 1, 10, WEIR_EPROTO,
      "a limit must be a mapping, not a list: write { name: ..., rate: ... }; its keys are name match key" },
    { "limits: 3", 1, 9, WEIR_EPROTO, "limits must be a list, not text: write [ ... ]" },
    { "auth: { tokens: [{ rights: check }] }", 1, 28, WEIR_EPROTO, "rights must be a list, not text: write [ ... ]" },
    { "limits:\n", 1, 8, WEIR_EPROTO, "limits must be a list, not nothing: write [ ... ]" },
    { "threads: [1]", 1, 10, WEIR_EPROTO, "threads must be a whole number, 1 to 256, not a list" },
    { "unmatched: { a: b }", 1, 12, WEIR_EPROTO, "unmatched must be one of admit, refuse, not a mapping" },
    { "table: { memory: [] }", 1, 18, WEIR_EPROTO, "memory must be a size, such as 64MiB, not a list" },
    { "server: { idle_timeout: {} }", 1, 25, WEIR_EPROTO, "must be a duration, such as 250ms or 10s, not a mapping" },
    { "listen: { resp: [] }", 1, 17, WEIR_EPROTO, "must be an address, such as 127.0.0.1:8080, not a list" },
    { "auth:\ntokens: []\n", 1, 6, WEIR_EPROTO,
      "auth must be a mapping, not nothing: write { tokens: [{ name: NAME, secret: SECRET }] }" },
    { "auth: { tokens: [x] }", 1, 18, WEIR_EPROTO, "a token must be a mapping, not text: write { name: ... }" },
    { "log: debug", 1, 6, WEIR_EPROTO,
      "log must be a mapping, not text: write { format: ... }; its keys are format level" },
    { "traces: on", 1, 9, WEIR_EPROTO,
      "traces must be a mapping, not text: write { endpoint: \"http://127.0.0.1:4318/v1/traces\" }" },
    { "traces: { sample: 1/2 }", 1, 9, WEIR_EPROTO, "traces lacks the key \"endpoint\"" },
    { "traces: { endpoint: [] }", 1, 21, WEIR_EPROTO, "endpoint must be text, not a list" },
    { "traces: { endpoint: \"127.0.0.1:4318\" }", 1, 21, WEIR_EINVAL, "endpoint must be http://HOST:PORT/PATH" },
    { "traces: { endpoint: \"http://\" }", 1, 21, WEIR_EINVAL, "endpoint must be http://HOST:PORT/PATH" },
    { "traces: { endpoint: \"http:///v1\" }", 1, 21, WEIR_EINVAL, "endpoint must be http://HOST:PORT/PATH" },
    { "traces: { endpoint: \"http://a:b@c/\" }", 1, 21, WEIR_EINVAL, "without a user" },
    { "traces: { endpoint: \"http://a/ b\" }", 1, 21, WEIR_EINVAL, "endpoint must be http://HOST:PORT/PATH" },
    { "traces: { endpoint: \"http://\xc3\xa9/\" }", 1, 21, WEIR_EINVAL, "endpoint must be http://HOST:PORT/PATH" },
    { "traces: { endpoint: \"http://a/\", sample: all }", 1, 42, WEIR_EINVAL,
      "sample \"all\" must be parent, or 1/N with N from 1 to 1000000000, as in 1/1000" },
    { "traces: { endpoint: \"http://a/\", sample: 2/3 }", 1, 42, WEIR_EINVAL, "must be parent, or 1/N" },
    { "traces: { endpoint: \"http://a/\", sample: 1/0 }", 1, 42, WEIR_EINVAL, "must be parent, or 1/N" },
    { "traces: { endpoint: \"http://a/\", sample: 1/ }", 1, 42, WEIR_EINVAL, "must be parent, or 1/N" },
    { "traces: { endpoint: \"http://a/\", sample: 1/1000000001 }", 1, 42, WEIR_EINVAL, "must be parent, or 1/N" },
    { "traces: { endpoint: \"http://a/\", sample: [1] }", 1, 42, WEIR_EPROTO, "sample must be" },
    { "traces: { endpoint: \"http://a/\", service: \"\" }", 1, 43, WEIR_ERANGE, "service must be 1 to 127 bytes" },
    { "traces: { endpoint: \"http://a/\", service: \"a\\nb\" }", 1, 43, WEIR_EINVAL, "one line of text" },
    { "traces: { endpoint: \"http://a/\", timeout: 99ms }", 1, 43, WEIR_ERANGE, "must be 100ms to 10s" },
    { "locks: sqlite", 1, 8, WEIR_EPROTO, "locks must be a mapping, not text: write { engine: ... }; its keys are" },
    { "cluster: [a, b]", 1, 10, WEIR_EPROTO, "cluster must be a mapping, not a list: write {" },
    { "a: {b: {c: {d: {e: {f: {g: {h: {i: {j: {k: {l: {m: {}}}}}}}}}}}}}", 1, 48, WEIR_ELIMIT, "deeper than 12" },
};

static const struct bad bad_limits[] = {
    { "limits: [{rate: 1/s}]", 1, 10, WEIR_EPROTO, "a limit lacks the key \"name\"" },
    { "limits: [{name: a}]", 1, 10, WEIR_EPROTO, "a limit lacks the key \"rate\"" },
    { "limits: [{name: \"\", rate: 1/s}]", 1, 17, WEIR_ERANGE, "name must be 1 to 128 bytes" },
    { "limits: [{name: \"a b\", rate: 1/s}]", 1, 17, WEIR_EINVAL, "must be made of letters" },
    { "limits: [{name: \"a\\0b\", rate: 1/s}]", 1, 17, WEIR_EPROTO, "must not contain a NUL" },
    { "limits: [{name: a, rate: 1/s, foo: 1}]", 1, 31, WEIR_EPROTO, "unknown key \"foo\" in a limit" },
    { "limits: [{name: a, rate: 1/s}, {name: a, rate: 2/s}]", 1, 32, WEIR_EEXIST, "is taken by the limit at line 1" },
    { "limits: [{name: a, rate: [1]}]", 1, 26, WEIR_EPROTO, "rate must be COUNT/PERIOD, such as 100/min" },
    { "limits: [{name: a, rate: 1/s, cost: []}]", 1, 37, WEIR_EPROTO, "must be a whole number or the name of" },
    { L "    rate: 5/s\n", 5, 5, WEIR_EPROTO, "duplicate key \"rate\"" },
    { L "    algorithm: gcra\n", 5, 16, WEIR_EINVAL, "must be one of token_bucket, leaky_bucket" },
    { L "    algorithm: concurrency\n", 3, 11, WEIR_EINVAL, "rate \"10/s\" must be a COUNT, such as 50" },
    { "limits: [{name: a, rate: 50}]", 1, 26, WEIR_EINVAL, "rate \"50\" must be COUNT/PERIOD" },
    { "limits: [{name: a, rate: 50, algorithm: fixed_window}]", 1, 26, WEIR_EINVAL, "must be COUNT/PERIOD" },
    { P "rate: 32769}]", 1, 50, WEIR_ERANGE, "must be 0 to 32768 for concurrency" },
    { P "rate: 5, lease: 999ms}]", 1, 60, WEIR_ERANGE, "must be 1s to 366day" },
    { P "rate: 5, lease: 367day}]", 1, 60, WEIR_ERANGE, "must be 1s to 366day" },
    { P "rate: 5, burst: 5}]", 1, 53, WEIR_EINVAL, "\"burst\" is only for token_bucket" },
    { P "rate: 5, count: attempts}]", 1, 60, WEIR_EINVAL, "a refused request holds nothing" },
    { P "rate: 5, on_change: proportional}]", 1, 64, WEIR_EINVAL, "must be keep or reset for concurrency" },
    { P "rate: 5, key: [u], overrides: [{u: x, rate: 5/s}]}]", 1, 88, WEIR_EINVAL, "must be a COUNT" },
    { "limits: [{name: a, rate: 5/s, key: [u], overrides: [{u: x, rate: 5}]}]", 1, 66, WEIR_EINVAL, "COUNT/PERIOD" },
    { L "    algorithm: fixed_window\n", 4, 5, WEIR_EINVAL, "\"burst\" is only for token_bucket" },
    { L "    lease: 30s\n", 5, 5, WEIR_EINVAL, "\"lease\" is only for algorithm: concurrency" },
    { L "    mode: on\n", 5, 11, WEIR_EINVAL, "must be one of enforce, shadow, off" },
    { L "    count: all\n", 5, 12, WEIR_EINVAL, "must be one of admitted, attempts" },
    { L "    on_full: drop\n", 5, 14, WEIR_EINVAL, "must be one of evict, refuse" },
    { L "    on_change: x\n", 5, 16, WEIR_EINVAL, "must be one of keep, proportional, reset" },
    { L "    align: first\n", 5, 5, WEIR_EINVAL, "\"align\" is only for algorithm: fixed_window" },
    { L "    tz: UTC\n", 5, 5, WEIR_EINVAL, "\"tz\" is only for" },
    { L "    throttle: hold\n", 5, 5, WEIR_EINVAL, "\"throttle\" is only for algorithm: leaky_bucket" },
    { L "    hold_max: 0\n", 5, 15, WEIR_ERANGE, "hold_max 0 is out of range: must be 1 to 1000000" },
    { L "    ipv6_prefix: 0\n", 5, 18, WEIR_ERANGE, "must be 1 to 128" },
    { L "    ipv6_prefix: 129\n", 5, 18, WEIR_ERANGE, "must be 1 to 128" },
    { L "    cost: 0\n", 5, 11, WEIR_ERANGE, "cost 0 is out of range: must be 1 to 1000000000000" },
    { L "    cost: -1\n", 5, 11, WEIR_EINVAL, "cost \"-1\" must be a whole number, 1 to 1000000000000" },
    { L "    cost: 9223372036854775808\n", 5, 11, WEIR_ERANGE, "must be 1 to 1000000000000" },
    { L "    cost: 1.5\n", 5, 11, WEIR_EINVAL, "must be a whole number" },
    { L "    match: /x\n", 5, 12, WEIR_EPROTO, "match must be a mapping, not text: write { route: /x }" },
    { L "    match: { route: *.png }\n", 5, 22, WEIR_EPROTO, "what begins with * is written in quotes" },
    { L "    overrides: { user: a }\n", 5, 16, WEIR_EPROTO, "overrides must be a list, not a mapping: write [ ... ]" },
    { L "    key: user\n", 5, 10, WEIR_EPROTO, "key must be a list, not text: write [user]" },
    { L "    key: [user, user]\n", 5, 17, WEIR_EPROTO, "\"user\" stands twice in key" },
    { L "    key: [\"\"]\n", 5, 11, WEIR_ERANGE, "an attribute's name must be 1 to 64 bytes" },
    { L "    key: [a,b,c,d,e,f,g,h,i,j,k,l,m,n,o,p,q]\n", 5, 10, WEIR_ELIMIT, "at most 16" },
    { L "    missing: skip\n", 5, 5, WEIR_EINVAL, "\"missing\" is only for limits that have a key" },
    { L "    key: [user]\n    missing: drop\n", 6, 14, WEIR_EINVAL, "must be one of skip, share, refuse" },
    { "unmatched: drop\nlimits: []", 1, 12, WEIR_EINVAL, "must be one of admit, refuse" },
    { L "    match: { user: }\n", 5, 20, WEIR_EPROTO, "write \"\" for the empty one" },
    { L "    match: { user: [] }\n", 5, 20, WEIR_EINVAL, "\"user\" has an empty list of values" },
    { L "    match: { user: [a, [b]] }\n", 5, 24, WEIR_EPROTO, "must be text, not a list" },
    { L "    match: { user: [a, ] }\n    key: [user]\n    match: {}\n", 7, 5, WEIR_EPROTO, "duplicate key" },
    { L "    match: { user: [a, ~, ''] }\n    x: 1\n", 6, 5, WEIR_EPROTO, "unknown key \"x\"" },
    { L "    match: { user: { nor: a } }\n", 5, 22, WEIR_EPROTO, "unknown key \"nor\" in the condition on \"user\"" },
    { L "    match: { user: { is: a } }\n", 5, 20, WEIR_EPROTO, "on \"user\" lacks the key \"not\"" },
    { L "    match: { user: { not: {} } }\n", 5, 27, WEIR_EPROTO, "must be text, not a mapping" },
    { L "    match: { user: { not: } }\n", 5, 27, WEIR_EPROTO, "write \"\" for the empty one" },
    { L "    match: { ip: 10.0.0.0/33 }\n", 5, 18, WEIR_ERANGE, "too long a prefix: must be 0 to 32 bits for IPv4" },
    { L "    match: { ip: [x, '::/129'] }\n", 5, 22, WEIR_ERANGE, "too long a prefix" },
    { L "    match: { ip: { not: 10.0.0.1/8 } }\n", 5, 25, WEIR_EINVAL, "write 10.0.0.0/8, or the address alone" },
    { L "    match: { ip: '2001:DB8::1/32' }\n", 5, 18, WEIR_EINVAL, "write 2001:db8::/32" },
    { L "    match: { user: a, user: b }\n", 5, 23, WEIR_EPROTO, "duplicate key \"user\"" },
};

static const struct bad bad_rates[] = {
    { "limits: [{name: a, rate: 100}]", 1, 26, WEIR_EINVAL, "must be COUNT/PERIOD, such as 100/min" },
    { "limits: [{name: a, rate: 100/}]", 1, 26, WEIR_EINVAL, "must be one of ms s sec min hour day week month year" },
    { "limits: [{name: a, rate: 100/minute}]", 1, 26, WEIR_EINVAL, "no unit that is known" },
    { "limits: [{name: a, rate: 100/m}]", 1, 26, WEIR_EINVAL, "no unit that is known" },
    { "limits: [{name: a, rate: /s}]", 1, 26, WEIR_EINVAL, "must be COUNT/PERIOD" },
    { "limits: [{name: a, rate: -1/s}]", 1, 26, WEIR_EINVAL, "must be COUNT/PERIOD" },
    { "limits: [{name: a, rate: 1.5/s}]", 1, 26, WEIR_EINVAL, "must be COUNT/PERIOD" },
    { "limits: [{name: a, rate: 1/0s}]", 1, 26, WEIR_ERANGE, "must be 1ms to 3650day" },
    { "limits: [{name: a, rate: 1/0month}]", 1, 26, WEIR_ERANGE, "must be 1ms to 3650day" },
    { "limits: [{name: a, rate: 18446744073709551616/s}]", 1, 26, WEIR_ERANGE, "must be 0 to 18446744073709551615" },
    { "limits: [{name: a, rate: 1/18446744073709551616s}]", 1, 26, WEIR_ERANGE, "too long" },
    { "limits: [{name: a, rate: 1/18446744073709551615year}]", 1, 26, WEIR_ERANGE, "too long" },
    { "limits: [{name: a, rate: 1/11year}]", 1, 26, WEIR_ERANGE, "too long: must be at most 3650day" },
    { "limits: [{name: a, rate: 1/s, replaces: b}]", 1, 41, WEIR_EPROTO, "replaces must be a list" },
    { "limits: [{name: a, rate: 1/s, replaces: []}]", 1, 41, WEIR_ELIMIT, "replaces must be 1 to 1000" },
    { "limits: [{name: a, rate: 1/s, replaces: [b]}]", 1, 41, WEIR_ENOENT,
      "limit \"a\" replaces \"b\", and there is none" },
    { "limits: [{name: a, rate: 1/s, replaces: [a]}]", 1, 41, WEIR_EINVAL, "limit \"a\" replaces itself" },
    { "limits: [{name: a, rate: 1000000001/s}]", 1, 26, WEIR_ERANGE, "rate must be at most 1000000000 per second" },
    { "limits: [{name: a, rate: 1/367day}]", 1, 26, WEIR_ERANGE, "rate must be at least 1 per 366 days" },
    { "limits: [{name: a, rate: 65537/s, algorithm: sliding_log}]", 1, 26, WEIR_ERANGE, "0 to 65536 for sliding_log" },
    { "limits: [{name: a, rate: 1/s, burst: 0}]", 1, 38, WEIR_ERANGE, "burst 0 is out of range: must be 1 to 10000" },
    { "limits: [{name: a, rate: 1/s, burst: 1000000000001}]", 1, 38, WEIR_ERANGE, "must be 1 to 1000000000000" },
    { "limits: [{name: a, rate: 1/s, burst: 99999999999999999999}]", 1, 38, WEIR_ERANGE, "out of range" },
    { "limits: [{name: a, rate: 1/s, burst: 1e3}]", 1, 38, WEIR_EINVAL, "must be a whole number" },
    { "limits: [{name: a, rate: 1/day, burst: 100000}]", 1, 40, WEIR_ERANGE, "at most 3650 days" },
    { "limits: [{name: a, rate: 1/hour, algorithm: fixed_window, spread: 31min}]", 1, 67, WEIR_ERANGE,
      "spread must be 0 to half the period" },
    { "limits: [{name: a, rate: 1/day, algorithm: fixed_window, tz: Mars/Base}]", 1, 62, WEIR_EINVAL,
      "tz \"Mars/Base\" is not a time zone" },
    { "limits: [{name: a, rate: 1/day, algorithm: fixed_window, align: first, tz: UTC}]", 1, 72, WEIR_EINVAL,
      "only for algorithm: fixed_window with align: calendar" },
};

#define O "limits:\n  - name: a\n    rate: 10/s\n    key: [user]\n    overrides:\n" /* goes on in line 6, column 7 */

#define ROLLOUT                                                                                                        \
    "limits:\n  - name: a\n    rate: 10/s\n    key: [user]\n    rollout: " /* goes on in line 5, column 14 */

static const struct bad bad_rollouts[] = {
    { ROLLOUT "10\n", 5, 14, WEIR_EPROTO, "must be a mapping, not text: write { percent: 10, rate: 200/min }" },
    { ROLLOUT "{ rate: 5/s }\n", 5, 14, WEIR_EPROTO, "a rollout lacks the key \"percent\"" },
    { ROLLOUT "{ percent: 10 }\n", 5, 14, WEIR_EPROTO, "a rollout must have rate, burst or mode" },
    { ROLLOUT "{ percent: 0, rate: 5/s }\n", 5, 25, WEIR_ERANGE,
      "percent \"0\" must be 0.1 to 100 (of the keys), with one decimal at most" },
    { ROLLOUT "{ percent: 100.1, rate: 5/s }\n", 5, 25, WEIR_ERANGE, "must be 0.1 to 100" },
    { ROLLOUT "{ percent: 12.55, rate: 5/s }\n", 5, 25, WEIR_EINVAL, "with one decimal at most" },
    { ROLLOUT "{ percent: 10%, rate: 5/s }\n", 5, 25, WEIR_EINVAL, "must be 0.1 to 100" },
    { ROLLOUT "{ percent: [10], rate: 5/s }\n", 5, 25, WEIR_EPROTO, "percent must be text, not a list" },
    { ROLLOUT "{ percent: 10, rate: 5 }\n", 5, 35, WEIR_EINVAL, "must be COUNT/PERIOD" },
    { ROLLOUT "{ percent: 10, burst: 0 }\n", 5, 36, WEIR_ERANGE, "burst 0 is out of range" },
    { ROLLOUT "{ percent: 10, user: x, rate: 5/s }\n", 5, 29, WEIR_EPROTO,
      "unknown key \"user\" in a rollout: must be one of percent rate burst mode" },
    { ROLLOUT "{ percent: 10, burst: 2 }\n    algorithm: sliding_log\n", 5, 29, WEIR_EINVAL,
      "only for token_bucket and leaky_bucket" },
    { "limits: [{name: a, rate: 1/s, rollout: { percent: 10, rate: 5/s }}]", 1, 31, WEIR_EINVAL,
      "\"rollout\" is only for limits that have a key: one counter has no share of keys" },
};

static const struct bad bad_overrides[] = {
    { O "      - { user: { not: x }, burst: 1 }\n", 6, 17, WEIR_EPROTO, "must be text, not a mapping" },
    { O "      - 3\n", 6, 9, WEIR_EPROTO,
      "an override must be a mapping, not text: write { user: VALUE, rate: 100/min }" },
    { O "      - { user: x }\n", 6, 9, WEIR_EPROTO, "must have rate, burst or mode" },
    { O "      - { rate: 1/s }\n", 6, 9, WEIR_EPROTO, "must have a value for an attribute of the limit's key" },
    { O "      - { usr: x, rate: 1/s }\n", 6, 11, WEIR_EPROTO,
      "\"usr\" is neither rate, burst, mode nor an attribute of limit \"a\", whose key is [user]" },
    { O "      - { user: x, rate: 1/0s }\n", 6, 26, WEIR_ERANGE, "must be 1ms to 3650day" },
    { O "      - { user: x, burst: 0 }\n", 6, 27, WEIR_ERANGE, "burst 0 is out of range" },
    { O "      - { user: x, mode: on }\n", 6, 26, WEIR_EINVAL, "must be one of enforce, shadow, off" },
    { O "      - { user: x, key: { user: y }, mode: off }\n", 6, 27, WEIR_EPROTO, "\"user\" stands twice" },
    { O "      - { user: x, user: y, mode: off }\n", 6, 20, WEIR_EPROTO, "duplicate key" },
};

static const struct bad bad_sections[] = {
    { "listen: { resp: 6380 }", 1, 17, WEIR_EINVAL, "resp \"6380\": must be HOST:PORT" },
    { "listen: { http: \"::1:80\" }", 1, 17, WEIR_EINVAL, "must be HOST:PORT" },
    { "listen: { http: example.org:80 }", 1, 17, WEIR_EINVAL, "must be HOST:PORT with an IP address or localhost" },
    { "listen: { http: 127.0.0.1:65536 }", 1, 17, WEIR_ERANGE, "the port must be 0 to 65535" },
    { "listen: { http: \"unix:\" }", 1, 17, WEIR_EINVAL, "a path" },
    { "listen: { http: [] }", 1, 17, WEIR_EPROTO, "http" },
    { "listen: { http: { adress: off } }", 1, 19, WEIR_EPROTO, "address forwarded path hosts" },
    { "listen: { http: { forwarded: apache } }", 1, 30, WEIR_EINVAL, "none, nginx, traefik, caddy, haproxy" },
    { "listen: { http: { path: keep } }", 1, 25, WEIR_EINVAL, "normalise, refuse" },
    { "listen: { http: { hosts: weir } }", 1, 26, WEIR_EPROTO, "hosts" },
    { "listen: { http: { hosts: [\"weir:80\"] } }", 1, 27, WEIR_EINVAL, "without a port" },
    { "listen: { http: { hosts: [\"\"] } }", 1, 27, WEIR_EINVAL, "1 to 253" },
    { "listen: { gopher: 127.0.0.1:1 }", 1, 11, WEIR_EPROTO, "must be one of resp http" },
    { "limits:\n\t- name: a\n", 2, 1, WEIR_EPROTO, ": a tab, where YAML wants spaces" },
    { "limits: [{ name: a, rate: 1,000/day }]", 1, 29, WEIR_EPROTO, "a number has no commas" },
    { "limits:\n  - name: a\n    rate: 1,000/day\n", 3, 11, WEIR_EINVAL, "a number has no commas" },
    { "table: { memory: 256MB }", 1, 18, WEIR_EINVAL, "must be B, KiB, MiB, GiB or TiB" },
    { "table: { memory: 1KiB }", 1, 18, WEIR_ERANGE, "must be 65536 to" },
    { "table: { memory: 99999999TiB }", 1, 18, WEIR_ERANGE, "must be 65536 to" },
    { "table: { memory: 1MiB, log_memory: 2MiB }", 1, 8, WEIR_ERANGE, "log_memory must be at most half of memory" },
    { "table: { skew_max: 2hour }", 1, 20, WEIR_ERANGE, "must be 1ms to 1hour" },
    { "threads: 0", 1, 10, WEIR_ERANGE, "must be 1 to 256" },
    { "log: { refusals: 21 }", 1, 18, WEIR_ERANGE, "refusals 21 is out of range: must be 0 to 20" },
    { "log: { level: warn, refusals: 1 }", 1, 21, WEIR_EINVAL, "refusals are lines of the level info" },
    { "tls: { cert: a.pem }", 1, 6, WEIR_EPROTO, "tls lacks the key \"key\"" },
    { "auth: { required: always }", 1, 7, WEIR_EINVAL, "would let nobody in" },
    { "auth: { tokens: [{ name: a }] }", 1, 18, WEIR_EPROTO, "must have secret or secret_file" },
    { "auth: { tokens: [{ name: a, secret: short }] }", 1, 37, WEIR_ERANGE, "16 to 512 printable" },
    { "auth: { tokens: [{ name: a, secret_file: /no/such }] }", 1, 42, WEIR_EIO, "cannot be read" },
    { "auth: { tokens: [{ name: a, secret: 0123456789abcdef, rights: [root] }] }", 1, 64, WEIR_EINVAL,
      "must be one of check, refund, reset, metrics, lock, session, all" },
    { "auth: { tokens: [{ name: a, secret: 0123456789abcdef }, { name: b, secret: 0123456789abcdef }] }", 1, 57,
      WEIR_EEXIST, "has the name or the secret of another" },
    { "server: { connections_max: 0 }", 1, 28, WEIR_ERANGE, "must be 1 to 1000000" },
    { "server: { idle_timeout: 10 }", 1, 25, WEIR_EINVAL, "no unit that is known" },
    { "server: { idle_timeout: soon }", 1, 25, WEIR_EINVAL, "such as 10s" },
    { "locks: { path: /x }", 1, 8, WEIR_EPROTO, "locks lacks the key \"engine\"" },
    { "locks: { engine: mysql }", 1, 18, WEIR_EINVAL, "must be one of sqlite, postgres, etcd" },
    { "locks: { engine: sqlite }", 1, 8, WEIR_EPROTO, "engine: sqlite lacks the key \"path\"" },
    { "locks: { engine: sqlite, path: /x, conninfo: hunter2 }", 1, 36, WEIR_EINVAL,
      "conninfo is for engine: postgres, not for sqlite" },
    { "locks: { engine: postgres, conninfo: a=b }", 1, 8, WEIR_EPROTO, "engine: postgres lacks the key \"witness\"" },
    { "locks: { engine: postgres, witness: /w }", 1, 8, WEIR_EPROTO, "engine: postgres lacks the key \"conninfo\"" },
    { "locks: { engine: postgres, witness: /w, conninfo: a=b, table: \"a;b\" }", 1, 63, WEIR_EINVAL,
      "must be NAME or SCHEMA.NAME" },
    { "locks: { engine: postgres, witness: /w, conninfo: a=b, table: a.1b }", 1, 63, WEIR_EINVAL,
      "\"a.1b\" must be NAME or SCHEMA.NAME" },
    { "locks: { engine: postgres, witness: /w, conninfo: a=b, table: a.b.c }", 1, 63, WEIR_EINVAL, "NAME or SCHEMA" },
    { "locks: { engine: postgres, witness: /w, conninfo: a=b, table: a. }", 1, 63, WEIR_EINVAL, "NAME or SCHEMA.NAME" },
    { "locks: { engine: postgres, witness: /w, conninfo: a=b, table: "
      "l23456789012345678901234567890123456789012345678901 }",
      1, 63, WEIR_EINVAL, "made of at most 50" },
    { "locks: { engine: etcd, witness: /w }", 1, 8, WEIR_EPROTO, "engine: etcd lacks the key \"endpoints\"" },
    { "locks: { engine: etcd, witness: /w, endpoints: [] }", 1, 48, WEIR_ELIMIT, "endpoints must be 1 to 16" },
    { "locks: { engine: etcd, witness: /w, endpoints: [\"http://u:hunter2@h\"] }", 1, 49, WEIR_EINVAL,
      "an endpoint must be http://HOST:PORT or https://HOST:PORT, without a user" },
    { "locks: { engine: etcd, witness: /w, endpoints: [\"http://h:1\"], username: u }", 1, 8, WEIR_EINVAL,
      "username and password_file need each other" },
    { "locks: { engine: sqlite, path: /x, waiters_max: 0 }", 1, 49, WEIR_ERANGE, "must be 1 to 1000000" },
    { "locks: { engine: sqlite, path: /x, timeout: 1ms }", 1, 45, WEIR_ERANGE, "must be 100ms to 1min" },
    { "headers: { ratelimit: maybe }", 1, 23, WEIR_EINVAL, "must be one of off, on, false, true" },
    { "cluster_secret: abc", 1, 17, WEIR_EINVAL, "must be 32 hexadecimal digits" },
    { "cluster_secret: 000102030405060708090a0b0c0d0e0f0", 1, 17, WEIR_EINVAL, "must be 32 hexadecimal digits" },
    { "cluster_secret: 000102030405060708090a0b0c0d0e0g", 1, 17, WEIR_EINVAL, "must be 32 hexadecimal digits" },
};

static void test_bad_yaml_is_refused_with_its_place(void **state)
{
    (void)state;
    EXPECT_BAD(bad_yaml);
}

static void test_bad_limits_are_refused_with_their_place(void **state)
{
    (void)state;
    EXPECT_BAD(bad_limits);
}

static void test_bad_rates_are_refused_with_their_range(void **state)
{
    (void)state;
    EXPECT_BAD(bad_rates);
}

static void test_bad_overrides_are_refused_with_their_place(void **state)
{
    (void)state;
    EXPECT_BAD(bad_overrides);
}

static void test_bad_rollouts_are_refused_with_their_place(void **state)
{
    (void)state;
    EXPECT_BAD(bad_rollouts);
}

static void test_bad_sections_are_refused_with_their_range(void **state)
{
    (void)state;
    EXPECT_BAD(bad_sections);
}

/* One line, one value, one key of just under and just over the bound; and what a gigabyte of it would be refused by. */
static void test_huge_input_is_bounded(void **state)
{
    (void)state;
    size_t size = WEIR_CONFIG_BYTES_MAX + 1;
    char *text = malloc(size);
    struct weir_config *config = NULL;
    struct weir_config_fault fault;
    if (!text)
        abort();
    memset(text, 'x', size);
    assert_int_equal(weir_config_parse(text, size, &config, &fault), WEIR_ELIMIT);
    assert_string_equal(fault.text, "larger than 16 MiB");
    assert_int_equal(weir_config_parse(text, size - 1, &config, &fault), WEIR_EPROTO);
    memset(text, '[', size);
    assert_int_equal(weir_config_parse(text, size - 1, &config, &fault), WEIR_ELIMIT);
    memcpy(text, "limits:", 7);
    assert_int_equal(weir_config_parse(text, size - 1, &config, &fault), WEIR_EPROTO);
    for (size_t i = 0; i < size; i++)
        text[i] = i % 2 ? ' ' : '-';
    assert_int_equal(weir_config_parse(text, size - 1, &config, &fault), WEIR_ELIMIT);
    for (size_t i = 0; i < size; i++)
        text[i] = i == 0 ? '[' : i % 2 ? 'a' : ',';
    assert_int_equal(weir_config_parse(text, size - 1, &config, &fault), WEIR_ELIMIT);
    assert_non_null(strstr(fault.text, "more than 1000000 values"));
    memset(text, '\0', size);
    assert_int_equal(weir_config_parse(text, 8, &config, &fault), WEIR_EPROTO);
    free(text);
}

/* A file of a gigabyte, and one without end, are read no further than the bound. */
static void test_huge_files_are_bounded(void **state)
{
    (void)state;
    char path[] = "/tmp/weir-config-XXXXXX";
    struct weir_config *config = NULL;
    struct weir_config_fault fault;
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, (off_t)1 << 30), 0);
    assert_int_equal(weir_config_load(path, &config, &fault), WEIR_ELIMIT);
    assert_string_equal(fault.text, "larger than 16 MiB");
    assert_int_equal(weir_config_load("/dev/zero", &config, &fault), WEIR_ELIMIT);
    close(fd);
    remove(path);
}

static void test_too_many_limits_are_refused(void **state)
{
    (void)state;
    size_t size = 0;
    char *text = malloc((WEIR_LIMITS_MAX + 2) * 40);
    if (!text)
        abort();
    size += (size_t)sprintf(text, "limits:\n");
    for (int i = 0; i <= WEIR_LIMITS_MAX; i++)
        size += (size_t)sprintf(text + size, "- {name: l%d, key: [u], rate: 1/s}\n", i);
    struct weir_config *config = NULL;
    struct weir_config_fault fault;
    assert_int_equal(weir_config_parse(text, size, &config, &fault), WEIR_ELIMIT);
    assert_non_null(strstr(fault.text, "more than 32000 limits"));
    assert_int_equal(fault.mark.line, WEIR_LIMITS_MAX + 2);
    size = (size_t)sprintf(text, "limits:\n");
    for (int i = 0; i <= WEIR_CHARGES_MAX; i++) /* no request could be answered */
        size += (size_t)sprintf(text + size, "- {name: l%d, rate: 1/s}\n", i);
    assert_int_equal(weir_config_parse(text, size, &config, &fault), WEIR_ELIMIT);
    assert_string_equal(fault.text, "more than 64 limits match every request");
    assert_int_equal(fault.mark.line, WEIR_CHARGES_MAX + 2);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bad_yaml_is_refused_with_its_place),
        cmocka_unit_test(test_bad_limits_are_refused_with_their_place),
        cmocka_unit_test(test_bad_rates_are_refused_with_their_range),
        cmocka_unit_test(test_bad_overrides_are_refused_with_their_place),
        cmocka_unit_test(test_bad_rollouts_are_refused_with_their_place),
        cmocka_unit_test(test_bad_sections_are_refused_with_their_range),
        cmocka_unit_test(test_huge_input_is_bounded),
        cmocka_unit_test(test_huge_files_are_bounded),
        cmocka_unit_test(test_too_many_limits_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
