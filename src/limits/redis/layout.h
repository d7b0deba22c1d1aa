/* SPDX-License-Identifier: Apache-2.0
 *
 * The bytes that script.c and the script exchange, and those of a stored value. Numbers are big endian.
 *
 * Parameters (56): magic "WEI1", u8 algorithm, u8 calendar, u8 shift + 64, u8 0, u64 capacity, emission, span,
 * ahead_max, period_ns, hash of the calendar's rule. A value written under other parameters is converted; not to those
 * of an older revision. Once a limit has changed they say which of its definitions they are: u8 1 in place of u8 0, and
 * u32 revision, u32 hash in place of the last. What does not say it is of the first. So versions before revisions, and
 * nodes beside them, agree on each byte of a limit that never changed.
 *
 * Value: parameters; u64 at_ns (from then on the key is as good as fresh), fresh_at, window or previous (of a log: the
 * units of all runs that were dropped at the front), count, debt (core/share/ledger.h), debt in ticks; u32 stints,
 * first (runs that were dropped and still take room), runs, held (1: a stint holds units); the stints, each u64 stint,
 * seq, spent, held, granted, until_ns; the runs, each u64 time_ns, u64 units of all runs up to it. What follows the
 * last run is room.
 *
 * Call, ARGV[1]: u8 verb, u8 flags, u16 ops, u64 test time, or else the time for which core computed what is to be
 * written (by no clock that shows less); the ops, each: parameters, u8 flags, u8 shift + 64, 2 zeros, u64 ticks (units
 * * emission), span (again, with the shift: where plain.lua reads), units, far_ns (beyond which modular times say
 * nothing), window id, start_ns, end_ns, u32 size of what was seen, of what is written, u64 ttl_ms; the bytes of both.
 * KEYS: one per op; the request's.
 *
 * Reply: a letter, u64 now_ns, and
 *     D  done: for each op that is not off u8 flags, u64 fresh_at, window or previous, count, debt in ticks, all as
 *        before the charge; and for a log u64 used, units charged besides (drained), newest_ns, next_ns, retry_ns
 *        (of units in it, by which the waits are computed)
 *        (of a FORGET, for each op u8: there was a key)
 *     A  again: for each op u32 size of its value, 40 hex digits of its SHA1 if the size is not 0, the value
 *     S  what core computed was written       R  this request was charged before       G  it was given back
 *     C  a value that is not ours */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/assert.h"
#include "base/bytes.h"

#define LAYOUT_MAGIC "WEI1"
#define LAYOUT_REVISED 1
#define LAYOUT_PARAMETERS ((size_t)56)
#define LAYOUT_VALUE ((size_t)120)
#define LAYOUT_STINT ((size_t)48)
#define LAYOUT_RUN ((size_t)16)
#define LAYOUT_SEEN ((size_t)40)

#define LAYOUT_CALL ((size_t)12)
#define LAYOUT_CALL_REQUEST 1
#define LAYOUT_CALL_TEST 2
#define LAYOUT_CALL_REPLACE 4  /* some op brings a value that core computed: all are written, or none */
#define LAYOUT_CALL_WHOLE 8    /* and with that the request is done */
#define LAYOUT_CALL_CHARGES 16 /* and charged */
/* plain.lua may try: a DECIDE or PEEK without request id, of buckets alone that are not off, count what they admit, and
 * have ticks of 1 ns or finer and no longer a span than this. */
#define LAYOUT_CALL_PLAIN 32
#define LAYOUT_PLAIN_SPAN_MAX (UINT64_C(1) << 52)

#define LAYOUT_OP ((size_t)132)
#define LAYOUT_OP_SHADOW 1
#define LAYOUT_OP_ATTEMPTS 2
#define LAYOUT_OP_OFF 4
#define LAYOUT_OP_NEVER 8
#define LAYOUT_OP_REPLACE 16

#define LAYOUT_DONE_ADMITTED 1
#define LAYOUT_DONE_CHARGED 2
#define LAYOUT_DONE_DRAINED 4

/* Writes or reads numbers one behind the other; too few bytes are noticed at the end. */
struct layout_writer {
    uint8_t *at, *end;
};

static inline void layout_put(struct layout_writer *w, unsigned size, uint64_t value)
{
    weir_assert((size_t)(w->end - w->at) >= size);
    w->at = weir_big_put(w->at, value, size);
}

static inline void layout_put_bytes(struct layout_writer *w, const void *bytes, size_t size)
{
    weir_assert((size_t)(w->end - w->at) >= size);
    if (size > 0)
        memcpy(w->at, bytes, size);
    w->at += size;
}

struct layout_reader {
    const uint8_t *at, *end;
    bool short_of_bytes;
};

static inline const uint8_t *layout_take(struct layout_reader *r, size_t size)
{
    if ((size_t)(r->end - r->at) < size) {
        r->short_of_bytes = true;
        return NULL;
    }
    r->at += size;
    return r->at - size;
}

/* 0 where bytes are missing. */
static inline uint64_t layout_get(struct layout_reader *r, unsigned size)
{
    const uint8_t *at = layout_take(r, size);
    return at ? weir_big_get(at, size) : 0;
}
