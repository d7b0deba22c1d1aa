/* SPDX-License-Identifier: Apache-2.0
 *
 * The 32-bit part of the file is skipped. In the 64-bit part all counts, indices and times are checked before memory is
 * taken. The zone receives the file's changes, then those of the footer's rule (zone_rule.c), two a year. Called by
 * zone.c, which reads the file. */
#include "limits/zone_tzif.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/bytes.h"
#include "limits/civil.h"

#define HEADER_SIZE 44
#define TYPE_SIZE 6
#define TIME_LIMIT_S (INT64_C(1) << 60) /* sums with offsets and nearby days cannot overflow */

/* Bytes of the file that were not read yet. */
struct cursor {
    const uint8_t *at;
    size_t left;
};

/* The counts of one header, in its order. */
struct counts {
    size_t isut, isstd, leap, time, type, chars;
};

/* The parts of a version 2 data block that matter to us. */
struct block {
    struct counts counts;
    const uint8_t *times;   /* 8 bytes each */
    const uint8_t *indices; /* 1 byte each */
    const uint8_t *types;   /* TYPE_SIZE bytes each */
};

/* NULL when fewer than `size` bytes are left. */
static const uint8_t *take(struct cursor *cursor, size_t size)
{
    if (cursor->left < size)
        return NULL;
    const uint8_t *start = cursor->at;
    cursor->at += size;
    cursor->left -= size;
    return start;
}

static int64_t load_i64(const uint8_t *bytes)
{
    return (int64_t)weir_big_get(bytes, 8);
}

static int32_t load_i32(const uint8_t *bytes)
{
    return (int32_t)weir_big_get(bytes, 4);
}

/* Section 3.1. A version 1 file has no 64-bit times and no footer: refused. */
static bool read_header(struct cursor *cursor, struct counts *ret_counts)
{
    const uint8_t *header = take(cursor, HEADER_SIZE);
    if (!header || memcmp(header, "TZif", 4) != 0 || header[4] < '2')
        return false;
    *ret_counts = (struct counts){
        .isut = weir_big_get(header + 20, 4),
        .isstd = weir_big_get(header + 24, 4),
        .leap = weir_big_get(header + 28, 4),
        .time = weir_big_get(header + 32, 4),
        .type = weir_big_get(header + 36, 4),
        .chars = weir_big_get(header + 40, 4),
    };
    return true;
}

/* Each count is below 2^32 and each item at most 12 bytes, so the sums fit size_t. */
static bool skip_version_1(struct cursor *cursor)
{
    struct counts c;
    if (!read_header(cursor, &c))
        return false;
    return take(cursor, c.time * 5 + c.type * TYPE_SIZE + c.chars + c.leap * 8 + c.isstd + c.isut) != NULL;
}

static bool types_valid(const struct block *block)
{
    for (size_t i = 0; i < block->counts.type; i++) {
        const uint8_t *type = block->types + i * TYPE_SIZE;
        int32_t offset_s = load_i32(type);
        if (offset_s <= -WEIR_ZONE_OFFSET_MAX_S || offset_s >= WEIR_ZONE_OFFSET_MAX_S || type[4] > 1 ||
            type[5] >= block->counts.chars)
            return false;
    }
    return true;
}

static bool times_valid(const struct block *block)
{
    int64_t last = -TIME_LIMIT_S;
    for (size_t i = 0; i < block->counts.time; i++) {
        int64_t at_s = load_i64(block->times + i * 8);
        if (at_s <= last || at_s >= TIME_LIMIT_S || block->indices[i] >= block->counts.type)
            return false;
        last = at_s;
    }
    return true;
}

/* Section 3.2, with 8-byte times. */
static bool read_version_2(struct cursor *cursor, struct block *ret_block)
{
    struct counts c;
    if (!read_header(cursor, &c) || c.type == 0 || c.chars == 0 || c.leap != 0 || (c.isut != 0 && c.isut != c.type) ||
        (c.isstd != 0 && c.isstd != c.type))
        return false;
    struct block block = { .counts = c };
    block.times = take(cursor, c.time * 8);
    block.indices = take(cursor, c.time);
    block.types = take(cursor, c.type * TYPE_SIZE);
    const uint8_t *rest = take(cursor, c.chars + c.isstd + c.isut);
    if (!block.times || !block.indices || !block.types || !rest || !types_valid(&block) || !times_valid(&block))
        return false;
    *ret_block = block;
    return true;
}

/* Section 3.3: a line feed, the rule, a line feed. An empty rule says nothing about later times. */
static bool read_footer(struct cursor *cursor, struct weir_zone_rule *rule, bool *ret_has_rule)
{
    const uint8_t *start = take(cursor, 1);
    if (!start || *start != '\n')
        return false;
    const uint8_t *text = cursor->at;
    const uint8_t *end = cursor->left > 0 ? memchr(text, '\n', cursor->left) : NULL;
    if (!end)
        return false;
    *ret_has_rule = end > text;
    return !*ret_has_rule || weir_zone_rule_parse(rule, (const char *)text, (size_t)(end - text)) == 0;
}

static int64_t year_of(int64_t utc_s)
{
    return weir_civil_from_days(weir_floor_div(utc_s, WEIR_SECONDS_PER_DAY)).year;
}

/* Writes the rule's changes after the file's last one into the zone. Rules that say nonsense (a change before the
 * previous year's) still leave the times rising: the later rule wins. */
static void write_rule(struct weir_zone *zone, const struct weir_zone_rule *rule, int64_t year_first)
{
    size_t from_file = zone->count;
    for (int64_t year = year_first; year <= WEIR_ZONE_YEAR_MAX; year++) {
        struct weir_zone_change changes[2];
        weir_zone_rule_year(rule, year, changes);
        for (size_t i = 0; i < 2; i++) {
            if (from_file > 0 && changes[i].at_s <= zone->changes[from_file - 1].at_s)
                continue;
            while (zone->count > from_file && zone->changes[zone->count - 1].at_s >= changes[i].at_s)
                zone->count--;
            zone->changes[zone->count++] = changes[i];
        }
    }
}

/* Room for the file's changes and for two a year of its rule. */
static struct weir_zone *allocate(size_t times, int64_t year_first)
{
    size_t years = year_first <= WEIR_ZONE_YEAR_MAX ? (size_t)(WEIR_ZONE_YEAR_MAX - year_first + 1) : 0;
    return calloc(1, sizeof(struct weir_zone) + (times + 2 * years) * sizeof(struct weir_zone_change));
}

static int32_t type_offset_s(const struct block *block, size_t type)
{
    weir_assert(type < block->counts.type);
    return load_i32(block->types + type * TYPE_SIZE);
}

int weir_zone_tzif_parse(const void *tzif, size_t size, struct weir_zone **ret_zone)
{
    struct cursor cursor = { tzif, size };
    struct block block;
    struct weir_zone_rule rule;
    bool has_rule = false;
    if (size > WEIR_ZONE_FILE_MAX || !skip_version_1(&cursor) || !read_version_2(&cursor, &block) ||
        !read_footer(&cursor, &rule, &has_rule))
        return WEIR_EPROTO;
    size_t times = block.counts.time;
    int64_t year_first = WEIR_ZONE_YEAR_MIN;
    if (times > 0) {
        int64_t year_last = year_of(load_i64(block.times + (times - 1) * 8));
        year_first = year_last > year_first ? year_last - 1 : year_first;
    }
    struct weir_zone *zone = allocate(times, year_first);
    if (!zone)
        return WEIR_ENOMEM;
    /* Section 3.2: without transitions the footer holds for all times; else type 0 holds before the first. */
    zone->first_offset_s = times == 0 && has_rule ? rule.standard_s : type_offset_s(&block, 0);
    for (size_t i = 0; i < times; i++) {
        zone->changes[i] = (struct weir_zone_change){ load_i64(block.times + i * 8),
                                                      type_offset_s(&block, block.indices[i]) };
    }
    zone->count = times;
    if (has_rule && rule.has_dst)
        write_rule(zone, &rule, year_first);
    *ret_zone = zone;
    return 0;
}
