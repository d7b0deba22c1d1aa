/* SPDX-License-Identifier: Apache-2.0
 *
 * Text written into memory of the caller, who knows a bound on its length. What does not fit is dropped as a whole and
 * remembered in `overflow`: a caller whose bound was right asserts that it is false. No NUL is written.
 * Thread rule: plain values. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "weir/limiter.h"

struct weir_text {
    uint8_t *data;
    size_t size;
    size_t room;
    bool overflow;
};

static inline struct weir_text weir_text_init(void *data, size_t room)
{
    return (struct weir_text){ .data = data, .room = room };
}

static inline void weir_text_bytes(struct weir_text *text, const void *data, size_t size)
{
    if (size > text->room - text->size) {
        text->overflow = true;
        return;
    }
    if (size)
        memcpy(text->data + text->size, data, size);
    text->size += size;
}

/* A string literal, whose length the compiler knows. */
#define weir_text_lit(text, literal) weir_text_bytes((text), "" literal, sizeof(literal) - 1)

static inline void weir_text_str(struct weir_text *text, const char *string)
{
    weir_text_bytes(text, string, strlen(string));
}

static inline void weir_text_slice(struct weir_text *text, struct weir_slice slice)
{
    weir_text_bytes(text, slice.data, slice.size);
}

void weir_text_u64(struct weir_text *text, uint64_t value);
void weir_text_i64(struct weir_text *text, int64_t value);

/* A JSON string with its quotes. Bytes that are not UTF-8 become U+FFFD. At most 6 times the length plus 2. */
void weir_text_json(struct weir_text *text, const void *data, size_t size);
/* The same of a C string; NULL is null. */
void weir_text_json_or_null(struct weir_text *text, const char *string);
/* Bytes that this takes, at most. */
static inline size_t weir_text_json_max(const char *string)
{
    return string ? 6 * strlen(string) + 2 : sizeof("null") - 1;
}

/* Whether all of it is UTF-8 (RFC 3629). */
bool weir_text_is_utf8(const void *data, size_t size);

/* Percent-decoded: at most the slice's length. False where a '%' is not followed by two hexadecimal digits. */
bool weir_text_percent(struct weir_text *text, struct weir_slice slice, bool plus_is_space);

/* A String of RFC 9651 (section 4.1.6) with its quotes. It can hold printable ASCII only, so any other byte and '%' are
 * percent-encoded: distinct names stay distinct. At most 3 times the length plus 2. */
void weir_text_sf_string(struct weir_text *text, const char *string);

/* An IMF-fixdate of RFC 9110 (section 5.6.7), 29 bytes, of ns since 1970. */
#define WEIR_TEXT_DATE_SIZE 29
void weir_text_http_date(struct weir_text *text, uint64_t wall_ns);

/* RFC 3339 in UTC with milliseconds, 24 bytes: 2026-11-22T20:40:00.123Z. */
#define WEIR_TEXT_UTC_SIZE 24
void weir_text_utc(struct weir_text *text, uint64_t wall_ns);

/* ---- a member of a JSON object ---- */

/* `member` is its name with what stands around it, as it is written: ",\"name\":". NULL is null. */
static inline void weir_text_member(struct weir_text *text, const char *member, const char *string)
{
    weir_text_str(text, member);
    weir_text_json_or_null(text, string);
}

static inline void weir_text_member_u64(struct weir_text *text, const char *member, uint64_t value)
{
    weir_text_str(text, member);
    weir_text_u64(text, value);
}

static inline void weir_text_member_bool(struct weir_text *text, const char *member, bool value)
{
    weir_text_str(text, member);
    weir_text_str(text, value ? "true" : "false");
}

/* A moment as weir_text_utc() writes it; 0 is null. */
void weir_text_member_utc(struct weir_text *text, const char *member, uint64_t wall_ns);
