/* SPDX-License-Identifier: Apache-2.0
 *
 * Each record is as long as it says itself, so that a block is read from its front to its end and every length is
 * checked against what is left. What the numbers mean is not looked at here: whoever restores does that. */
#include "wire/snapshot.h"

#include <endian.h>
#include <string.h>

#include "base/assert.h"

#define MAGIC "weirsnap"
#define HASH_NAME "siphash-1-3"
#define TEXT_MAX 4096 /* of a name, a variant, a time zone */
#define ENTRY_BYTES 12
#define DEFINITION_BYTES 72

static void put_16(uint8_t *to, uint16_t value)
{
    value = htole16(value);
    memcpy(to, &value, sizeof value);
}

static void put_32(uint8_t *to, uint32_t value)
{
    value = htole32(value);
    memcpy(to, &value, sizeof value);
}

static void put_64(uint8_t *to, uint64_t value)
{
    value = htole64(value);
    memcpy(to, &value, sizeof value);
}

static uint16_t get_16(const uint8_t *from)
{
    uint16_t value;
    memcpy(&value, from, sizeof value);
    return le16toh(value);
}

static uint32_t get_32(const uint8_t *from)
{
    uint32_t value;
    memcpy(&value, from, sizeof value);
    return le32toh(value);
}

static uint64_t get_64(const uint8_t *from)
{
    uint64_t value;
    memcpy(&value, from, sizeof value);
    return le64toh(value);
}

/* ---- head ---- */

enum head_at {
    AT_MAGIC = 0,
    AT_VERSION = 8,
    AT_SHARD_BITS = 12,
    AT_HASH = 16,
    AT_SECRET = 32,
    AT_BOOT_ID = 48,
    AT_NOW = 64,
    AT_WALL = 72,
    AT_BOOT = 80,
    AT_WALL_HIGH = 88,
    AT_PERMITS = 96,
    AT_NOTE = 104,
    AT_FALLEN_FROM = 168,
    AT_FALLEN_AT = 176,
    AT_DIGEST = WEIR_SNAPSHOT_HEAD_BYTES - 8,
};

static uint64_t head_digest(const uint8_t *bytes)
{
    const struct weir_sip_key key = weir_sip_key_load(bytes + AT_SECRET);
    return weir_siphash(&key, bytes, AT_DIGEST);
}

void weir_snapshot_head_write(const struct weir_snapshot_head *head, uint8_t bytes[WEIR_SNAPSHOT_HEAD_BYTES])
{
    memset(bytes, 0, WEIR_SNAPSHOT_HEAD_BYTES);
    memcpy(bytes + AT_MAGIC, MAGIC, sizeof MAGIC - 1);
    put_32(bytes + AT_VERSION, WEIR_SNAPSHOT_VERSION);
    put_32(bytes + AT_SHARD_BITS, head->shard_bits);
    memcpy(bytes + AT_HASH, HASH_NAME, sizeof HASH_NAME - 1);
    memcpy(bytes + AT_SECRET, head->secret, sizeof head->secret);
    memcpy(bytes + AT_BOOT_ID, head->moment.boot_id, sizeof head->moment.boot_id);
    put_64(bytes + AT_NOW, head->moment.now_ns);
    put_64(bytes + AT_WALL, head->moment.wall_ns);
    put_64(bytes + AT_BOOT, head->moment.boot_ns);
    put_64(bytes + AT_WALL_HIGH, head->wall_high_ns);
    put_64(bytes + AT_PERMITS, head->permits);
    memcpy(bytes + AT_NOTE, head->note, sizeof head->note);
    put_64(bytes + AT_FALLEN_FROM, head->fallen_from_ns);
    put_64(bytes + AT_FALLEN_AT, head->fallen_at_ns);
    put_64(bytes + AT_DIGEST, head_digest(bytes));
}

bool weir_snapshot_may_begin(const uint8_t *bytes, size_t size)
{
    return memcmp(bytes, MAGIC, size < sizeof MAGIC - 1 ? size : sizeof MAGIC - 1) == 0;
}

int weir_snapshot_head_read(const uint8_t bytes[WEIR_SNAPSHOT_HEAD_BYTES], struct weir_snapshot_head *ret_head)
{
    if (!weir_snapshot_may_begin(bytes, WEIR_SNAPSHOT_HEAD_BYTES))
        return WEIR_EPROTO;
    if (get_32(bytes + AT_VERSION) > WEIR_SNAPSHOT_VERSION)
        return WEIR_ERANGE;
    if (get_64(bytes + AT_DIGEST) != head_digest(bytes) || get_32(bytes + AT_VERSION) == 0 ||
        memcmp(bytes + AT_HASH, HASH_NAME, sizeof HASH_NAME) != 0)
        return WEIR_ECORRUPT;
    struct weir_snapshot_head head = {
        .shard_bits = get_32(bytes + AT_SHARD_BITS),
        .moment = { .now_ns = get_64(bytes + AT_NOW),
                    .wall_ns = get_64(bytes + AT_WALL),
                    .boot_ns = get_64(bytes + AT_BOOT) },
        .wall_high_ns = get_64(bytes + AT_WALL_HIGH),
        .permits = get_64(bytes + AT_PERMITS),
        .fallen_from_ns = get_64(bytes + AT_FALLEN_FROM),
        .fallen_at_ns = get_64(bytes + AT_FALLEN_AT),
    };
    memcpy(head.secret, bytes + AT_SECRET, sizeof head.secret);
    memcpy(head.moment.boot_id, bytes + AT_BOOT_ID, sizeof head.moment.boot_id);
    memcpy(head.note, bytes + AT_NOTE, sizeof head.note);
    *ret_head = head;
    return 0;
}

/* ---- writing records ---- */

/* Where the next record begins, which has `size` bytes. */
static uint8_t *take_room(struct weir_snapshot_block *block, size_t size)
{
    weir_assert(size <= WEIR_SNAPSHOT_RECORD_MAX && block->size + size <= WEIR_SNAPSHOT_BLOCK_MAX);
    uint8_t *at = block->bytes + WEIR_SNAPSHOT_FRAME_BYTES + block->size;
    block->size += size;
    return at;
}

void weir_snapshot_put_definition(struct weir_snapshot_block *block, const struct weir_snapshot_definition *definition)
{
    const struct weir_limit_spec *spec = &definition->def.spec;
    const char *texts[] = { definition->def.name, definition->def.variant ? definition->def.variant : "",
                            spec->tz ? spec->tz : "" };
    size_t sizes[3], size = DEFINITION_BYTES;
    for (int i = 0; i < 3; i++) {
        sizes[i] = strlen(texts[i]) + 1;
        weir_assert(sizes[i] <= TEXT_MAX);
        size += sizes[i];
    }
    uint8_t *at = take_room(block, size);
    const uint8_t small[] = { (uint8_t)spec->algorithm,  (uint8_t)spec->align,   (uint8_t)spec->calendar,
                              (uint8_t)spec->count_mode, (uint8_t)spec->mode,    (uint8_t)spec->on_full,
                              (uint8_t)spec->on_change,  (uint8_t)spec->reserves };
    memcpy(at, small, sizeof small);
    put_32(at + 8, spec->calendar_count);
    put_16(at + 12, (uint16_t)sizes[0]);
    put_16(at + 14, (uint16_t)sizes[1]);
    put_16(at + 16, (uint16_t)sizes[2]);
    memset(at + 18, 0, 6);
    put_64(at + 24, spec->count);
    put_64(at + 32, spec->period_ns);
    put_64(at + 40, spec->burst);
    put_64(at + 48, spec->spread_ns);
    put_64(at + 56, definition->debt_units);
    put_64(at + 64, definition->debt_until_ns);
    at += DEFINITION_BYTES;
    for (int i = 0; i < 3; at += sizes[i], i++)
        memcpy(at, texts[i], sizes[i]);
}

/* The number, the shape above it, and the hash. */
static void put_entry_front(uint8_t *at, const struct weir_snapshot_entry *entry)
{
    weir_assert(entry->number < UINT32_C(1) << 24);
    put_32(at, entry->number | (uint32_t)entry->shape << 24);
    put_64(at + 4, entry->hash);
}

void weir_snapshot_put_entry(struct weir_snapshot_block *block, const struct weir_snapshot_entry *entry)
{
    weir_assert(entry->shape != WEIR_SNAPSHOT_LOG);
    bool wide = entry->shape == WEIR_SNAPSHOT_WIDE;
    uint8_t *at = take_room(block, ENTRY_BYTES + 8 + (wide ? 16 : 0));
    put_entry_front(at, entry);
    put_64(at + ENTRY_BYTES, entry->fresh_at);
    if (wide) {
        put_64(at + ENTRY_BYTES + 8, entry->a);
        put_64(at + ENTRY_BYTES + 16, entry->b);
    }
}

void weir_snapshot_put_log(struct weir_snapshot_block *block, const struct weir_snapshot_entry *entry,
                           const uint64_t *ring, uint32_t room, uint32_t head)
{
    weir_assert(entry->shape == WEIR_SNAPSHOT_LOG && entry->words_count <= room);
    weir_assert(entry->words_count <= WEIR_SNAPSHOT_WORDS_MAX);
    uint8_t *at = take_room(block, ENTRY_BYTES + 4 + 8 * (size_t)entry->words_count);
    put_entry_front(at, entry);
    put_32(at + ENTRY_BYTES, entry->words_count);
    at += ENTRY_BYTES + 4;
    for (uint32_t i = 0; i < entry->words_count; i++)
        put_64(at + 8 * (size_t)i, ring[(head + i) & (room - 1)]);
}

void weir_snapshot_put_end(struct weir_snapshot_block *block, uint64_t definitions, uint64_t entries)
{
    uint8_t *at = take_room(block, 16);
    put_64(at, definitions);
    put_64(at + 8, entries);
}

/* ---- blocks ---- */

static uint64_t block_digest(const struct weir_snapshot_block *block, uint64_t place, const struct weir_sip_key *key)
{
    uint8_t front[8 + WEIR_SNAPSHOT_FRAME_BYTES];
    put_64(front, place);
    memcpy(front + 8, block->bytes, WEIR_SNAPSHOT_FRAME_BYTES);
    return weir_siphash_joined(key, front, sizeof front, block->bytes + WEIR_SNAPSHOT_FRAME_BYTES, block->size);
}

size_t weir_snapshot_seal(struct weir_snapshot_block *block, enum weir_snapshot_kind kind, uint64_t place,
                          const struct weir_sip_key *key)
{
    weir_assert(block->size > 0 && block->size <= WEIR_SNAPSHOT_BLOCK_MAX);
    put_32(block->bytes, (uint32_t)kind);
    put_32(block->bytes + 4, (uint32_t)block->size);
    put_64(block->bytes + WEIR_SNAPSHOT_FRAME_BYTES + block->size, block_digest(block, place, key));
    return WEIR_SNAPSHOT_FRAME_BYTES + block->size + WEIR_SNAPSHOT_DIGEST_BYTES;
}

bool weir_snapshot_frame_read(const uint8_t frame[WEIR_SNAPSHOT_FRAME_BYTES], enum weir_snapshot_kind *ret_kind,
                              size_t *ret_size)
{
    uint32_t kind = get_32(frame), size = get_32(frame + 4);
    if (kind < WEIR_SNAPSHOT_DEFINITIONS || kind > WEIR_SNAPSHOT_END || size == 0 || size > WEIR_SNAPSHOT_BLOCK_MAX)
        return false;
    *ret_kind = (enum weir_snapshot_kind)kind;
    *ret_size = size;
    return true;
}

bool weir_snapshot_block_is_sound(const struct weir_snapshot_block *block, uint64_t place,
                                  const struct weir_sip_key *key)
{
    return get_64(block->bytes + WEIR_SNAPSHOT_FRAME_BYTES + block->size) == block_digest(block, place, key);
}

/* ---- reading records ---- */

static const uint8_t *take(struct weir_snapshot_rest *rest, size_t size)
{
    const uint8_t *at = rest->at;
    if (size > rest->size)
        return NULL;
    rest->at += size;
    rest->size -= size;
    return at;
}

static bool read_spec(const uint8_t *at, struct weir_limit_spec *ret_spec)
{
    *ret_spec = (struct weir_limit_spec){
        .algorithm = (enum weir_algorithm)at[0],
        .align = (enum weir_align)at[1],
        .calendar = (enum weir_calendar)at[2],
        .count_mode = (enum weir_count)at[3],
        .mode = (enum weir_mode)at[4],
        .on_full = (enum weir_on_full)at[5],
        .on_change = (enum weir_on_change)at[6],
        .reserves = at[7], /* 0 of an older weir, which had none */
        .calendar_count = get_32(at + 8),
        .count = get_64(at + 24),
        .period_ns = get_64(at + 32),
        .burst = get_64(at + 40),
        .spread_ns = get_64(at + 48),
    };
    return at[7] <= 1;
}

int weir_snapshot_take_definition(struct weir_snapshot_rest *rest, struct weir_snapshot_definition *ret_definition)
{
    if (rest->size == 0)
        return 0;
    const uint8_t *at = take(rest, DEFINITION_BYTES);
    struct weir_snapshot_definition definition = { 0 };
    if (!at || !read_spec(at, &definition.def.spec))
        return WEIR_ECORRUPT;
    const char *texts[3];
    for (int i = 0; i < 3; i++) {
        size_t size = get_16(at + 12 + 2 * i);
        texts[i] = (const char *)take(rest, size);
        if (!texts[i] || size == 0 || size > TEXT_MAX || strnlen(texts[i], size) != size - 1)
            return WEIR_ECORRUPT;
    }
    definition.def.name = texts[0];
    definition.def.variant = texts[1];
    definition.def.spec.tz = texts[2][0] ? texts[2] : NULL;
    definition.debt_units = get_64(at + 56);
    definition.debt_until_ns = get_64(at + 64);
    *ret_definition = definition;
    return 1;
}

int weir_snapshot_take_entry(struct weir_snapshot_rest *rest, struct weir_snapshot_entry *ret_entry)
{
    if (rest->size == 0)
        return 0;
    const uint8_t *at = take(rest, ENTRY_BYTES), *more;
    if (!at || at[3] > WEIR_SNAPSHOT_LOG)
        return WEIR_ECORRUPT;
    struct weir_snapshot_entry entry = { .shape = (enum weir_snapshot_shape)at[3],
                                         .number = get_32(at) & 0xffffff,
                                         .hash = get_64(at + 4) };
    if (entry.shape == WEIR_SNAPSHOT_LOG) {
        more = take(rest, 4);
        entry.words_count = more ? get_32(more) : 0;
        if (!more || entry.words_count > WEIR_SNAPSHOT_WORDS_MAX)
            return WEIR_ECORRUPT;
        entry.words = take(rest, 8 * (size_t)entry.words_count);
        if (!entry.words)
            return WEIR_ECORRUPT;
        *ret_entry = entry;
        return 1;
    }
    more = take(rest, entry.shape == WEIR_SNAPSHOT_WIDE ? 24 : 8);
    if (!more)
        return WEIR_ECORRUPT;
    entry.fresh_at = get_64(more);
    if (entry.shape == WEIR_SNAPSHOT_WIDE) {
        entry.a = get_64(more + 8);
        entry.b = get_64(more + 16);
    }
    *ret_entry = entry;
    return 1;
}

int weir_snapshot_take_end(struct weir_snapshot_rest *rest, uint64_t *ret_definitions, uint64_t *ret_entries)
{
    const uint8_t *at = take(rest, 16);
    if (!at || rest->size > 0)
        return WEIR_ECORRUPT;
    *ret_definitions = get_64(at);
    *ret_entries = get_64(at + 8);
    return 1;
}

uint64_t weir_snapshot_word(const struct weir_snapshot_entry *entry, uint32_t i)
{
    weir_assert(i < entry->words_count);
    return get_64(entry->words + 8 * (size_t)i);
}
