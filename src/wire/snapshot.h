/* SPDX-License-Identifier: Apache-2.0
 *
 * The bytes of a limiter's snapshot (weir/snapshot.h): bytes in, struct out, and back. No file, no limiter: those are
 * limits/snapshot_write.c and limits/snapshot_read.c.
 *
 *     head    256 bytes: "weirsnap", version, secret, clocks, note, digest
 *     blocks  kind (4), size (4), size bytes of records, digest (8): of definitions, then of entries, last the end
 *
 * Numbers are little endian. A digest is SipHash-1-3 under the secret, of a block's place, its kind and size and its
 * records: so blocks that are damaged, missing, doubled or of another file are found. Thread rule: plain values. */
#pragma once

#include <stdbool.h>

#include "base/siphash.h"
#include "weir/snapshot.h"

#define WEIR_SNAPSHOT_VERSION 1
#define WEIR_SNAPSHOT_HEAD_BYTES 256
#define WEIR_SNAPSHOT_FRAME_BYTES 8  /* before a block's records */
#define WEIR_SNAPSHOT_DIGEST_BYTES 8 /* behind them */
#define WEIR_SNAPSHOT_WORDS_MAX 65536
/* A block is full when it has so much, but has room for the longest records of one line of the table in any case. */
#define WEIR_SNAPSHOT_BLOCK_FULL ((size_t)64 << 10)
#define WEIR_SNAPSHOT_RECORD_MAX (64 + 8 * (size_t)WEIR_SNAPSHOT_WORDS_MAX)
#define WEIR_SNAPSHOT_BLOCK_MAX (WEIR_SNAPSHOT_BLOCK_FULL + 4 * WEIR_SNAPSHOT_RECORD_MAX)

struct weir_snapshot_head {
    uint8_t secret[WEIR_SNAPSHOT_SECRET_BYTES];
    struct weir_moment moment;
    uint64_t wall_high_ns;                 /* the highest wall time that decisions were given, since it last fell */
    uint64_t fallen_from_ns, fallen_at_ns; /* limits/wall.h */
    uint64_t permits;                      /* the number of the last permit granted */
    uint32_t shard_bits; /* of the table: how many of the 12 bits of a hash that name its shard are known */
    uint8_t note[WEIR_SNAPSHOT_NOTE_MAX];
};

enum weir_snapshot_kind {
    WEIR_SNAPSHOT_DEFINITIONS = 1,
    WEIR_SNAPSHOT_ENTRIES = 2,
    WEIR_SNAPSHOT_END = 3, /* two words: how many definitions and entries there are */
};

/* A limit. `def` points into the block, its texts end with a NUL. */
struct weir_snapshot_definition {
    struct weir_limit_def def;
    uint64_t debt_units, debt_until_ns; /* core/limit/limit.h */
};

enum weir_snapshot_shape {
    WEIR_SNAPSHOT_NARROW, /* fresh_at */
    WEIR_SNAPSHOT_WIDE,   /* fresh_at, a, b */
    WEIR_SNAPSHOT_LOG,    /* words */
};

struct weir_snapshot_entry {
    enum weir_snapshot_shape shape;
    uint32_t number; /* below WEIR_SNAPSHOT_FIRST: a bucket without a definition, of that tick; else of a definition */
    uint64_t hash, fresh_at, a, b;
    const uint8_t *words; /* of a log, 8 bytes each, little endian */
    uint32_t words_count;
};

#define WEIR_SNAPSHOT_FIRST 32u /* the number of the first definition; they are numbered in the order of the file */

void weir_snapshot_head_write(const struct weir_snapshot_head *head, uint8_t bytes[WEIR_SNAPSHOT_HEAD_BYTES]);
/* Whether a snapshot may begin with these bytes, few as they may be. */
bool weir_snapshot_may_begin(const uint8_t *bytes, size_t size);
/* WEIR_EPROTO: no snapshot. WEIR_ERANGE: of a later version. WEIR_ECORRUPT. */
int weir_snapshot_head_read(const uint8_t bytes[WEIR_SNAPSHOT_HEAD_BYTES], struct weir_snapshot_head *ret_head);

/* ---- blocks ---- */

/* `bytes`: WEIR_SNAPSHOT_FRAME_BYTES, then records, then room for the digest. */
struct weir_snapshot_block {
    uint8_t *bytes;
    size_t size; /* of the records */
};

void weir_snapshot_put_definition(struct weir_snapshot_block *block, const struct weir_snapshot_definition *definition);
void weir_snapshot_put_entry(struct weir_snapshot_block *block, const struct weir_snapshot_entry *entry);
/* The words of a log that wraps: from head on, `used` of a ring of `room`. */
void weir_snapshot_put_log(struct weir_snapshot_block *block, const struct weir_snapshot_entry *entry,
                           const uint64_t *ring, uint32_t room, uint32_t head);
void weir_snapshot_put_end(struct weir_snapshot_block *block, uint64_t definitions, uint64_t entries);
/* Returns how many bytes there are to be written, from block->bytes on. `place`: 0, 1, 2, ... */
size_t weir_snapshot_seal(struct weir_snapshot_block *block, enum weir_snapshot_kind kind, uint64_t place,
                          const struct weir_sip_key *key);

/* What follows a frame: its kind, and how many bytes of records. False: no block begins like that. */
bool weir_snapshot_frame_read(const uint8_t frame[WEIR_SNAPSHOT_FRAME_BYTES], enum weir_snapshot_kind *ret_kind,
                              size_t *ret_size);
/* Whether a whole block is as it was sealed. */
bool weir_snapshot_block_is_sound(const struct weir_snapshot_block *block, uint64_t place,
                                  const struct weir_sip_key *key);

/* Records that have not been read yet. */
struct weir_snapshot_rest {
    const uint8_t *at;
    size_t size;
};

/* Each takes one record, and returns 1; 0: there are none left; WEIR_ECORRUPT. */
int weir_snapshot_take_definition(struct weir_snapshot_rest *rest, struct weir_snapshot_definition *ret_definition);
int weir_snapshot_take_entry(struct weir_snapshot_rest *rest, struct weir_snapshot_entry *ret_entry);
int weir_snapshot_take_end(struct weir_snapshot_rest *rest, uint64_t *ret_definitions, uint64_t *ret_entries);

/* Word `i` of a log. */
uint64_t weir_snapshot_word(const struct weir_snapshot_entry *entry, uint32_t i);
