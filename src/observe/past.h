/* SPDX-License-Identifier: Apache-2.0
 *
 * What limits were asked in the last hour, in constant space: so that other numbers can be tried on it
 * (serve/rules_replay.h). A sample of the keys: of a key that is in it, every request is, so that what a limit would
 * have said of the key is exact. Of each key and second there is one record: how many requests, how many of them the
 * limit refused, and their units. No text of a key or of a request is kept, but a hash of 64 bits.
 *
 * Which keys are in it: first all. Where a loop's records would not last an hour, half of those, and so on; where they
 * last four hours, twice as many. That is decided by a key's hash alone, so the loops agree on the keys that are left.
 * A limit with one counter for everybody stays in it for 16 halvings more. While a loop is young, its records need to
 * last for four times its age only.
 *
 * What it does not hold: which requests came first within a second, and requests that were charged to no limit.
 *
 * Memory: WEIR_PAST_RECORDS of 32 bytes for each loop, all loops together at most WEIR_PAST_RECORDS_ALL, 2 MiB and
 * 32 MiB, touched as they fill.
 *
 * Thread rule: `note` of one loop by that loop's thread alone, which writes nothing that another loop writes; `read`
 * from any. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define WEIR_PAST_RECORDS ((size_t)1 << 16)
#define WEIR_PAST_RECORDS_ALL ((size_t)1 << 20)
#define WEIR_PAST_S 3600

struct weir_past;

struct weir_past_event {
    uint64_t hash;    /* of the key; uniform */
    uint32_t slot;    /* of the limit (observe/metrics.h); below 2^24 */
    bool one_counter; /* the limit has no key */
    bool varied;      /* an override, a level or a rollout gave the key other numbers than the limit's own */
    bool refused;     /* by this limit, or would have been: it is in shadow */
    uint64_t cost;
};

/* One key's requests of one second. */
struct weir_past_record {
    uint64_t hash;
    uint32_t slot;
    uint32_t second; /* on the clock of now_ns */
    uint32_t asked, refused;
    uint64_t units;
    bool one_counter, varied;
    uint8_t halvings; /* of the keys, of which this one is left */
};

/* What `read` found: records of [from_s, to_s] on the clock of now_ns, of one key in 2^halvings. */
struct weir_past_span {
    uint32_t from_s, to_s;
    unsigned halvings, halvings_one_counter;
};

/* WEIR_ENOMEM. */
int weir_past_create(size_t loops, uint64_t now_ns, struct weir_past **ret_past);
void weir_past_destroy(struct weir_past *past); /* NULL is allowed */

void weir_past_note(struct weir_past *past, size_t loop, const struct weir_past_event *event, uint64_t now_ns);

/* The most that `read` gives. */
size_t weir_past_room(const struct weir_past *past);
/* The records of the last hour, or since the start, of keys that were in all loops' samples for all of that time, in no
 * order; returns how many. The second that `now_ns` is in is not over, and left out. */
size_t weir_past_read(struct weir_past *past, uint64_t now_ns, struct weir_past_record *ret_records,
                      struct weir_past_span *ret_span);
