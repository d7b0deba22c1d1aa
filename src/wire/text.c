/* SPDX-License-Identifier: Apache-2.0
 *
 * What text.h does not inline: numbers, JSON strings, checks of UTF-8, percent-decoding, dates. The date of HTTP is
 * computed from the days since 1970, without the C library. Called by the writers of wire/, observe/ and serve/. */
#include "wire/text.h"

#include <stdio.h>
#include <time.h>

#include "base/hex.h"

void weir_text_u64(struct weir_text *text, uint64_t value)
{
    char digits[20];
    size_t at = sizeof(digits);
    do {
        digits[--at] = (char)('0' + value % 10);
        value /= 10;
    } while (value);
    weir_text_bytes(text, digits + at, sizeof(digits) - at);
}

void weir_text_i64(struct weir_text *text, int64_t value)
{
    if (value < 0)
        weir_text_lit(text, "-");
    weir_text_u64(text, value < 0 ? -(uint64_t)value : (uint64_t)value);
}

static const char hex[] = "0123456789ABCDEF";

static void json_escape(struct weir_text *text, uint8_t byte)
{
    static const char shorts[] = "\"\"\\\\\bb\ff\nn\rr\tt";
    for (const char *at = shorts; *at; at += 2) {
        if ((uint8_t)*at == byte) {
            weir_text_bytes(text, (char[]){ '\\', at[1] }, 2);
            return;
        }
    }
    weir_text_bytes(text, (char[]){ '\\', 'u', '0', '0', hex[byte >> 4], hex[byte & 15] }, 6);
}

/* Length of the UTF-8 sequence at the front (RFC 3629: no surrogates, nothing overlong, at most U+10FFFF), or 0. */
static size_t utf8_length(const uint8_t *at, size_t size)
{
    uint8_t lead = at[0], low = 0x80, high = 0xBF;
    size_t length = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
    if (lead < 0xC2 || lead > 0xF4 || length > size)
        return 0;
    if (lead == 0xE0)
        low = 0xA0;
    else if (lead == 0xED)
        high = 0x9F;
    else if (lead == 0xF0)
        low = 0x90;
    else if (lead == 0xF4)
        high = 0x8F;
    if (at[1] < low || at[1] > high)
        return 0;
    for (size_t i = 2; i < length; i++) {
        if ((at[i] & 0xC0) != 0x80)
            return 0;
    }
    return length;
}

void weir_text_json(struct weir_text *text, const void *data, size_t size)
{
    const uint8_t *at = data;
    weir_text_lit(text, "\"");
    for (size_t i = 0; i < size;) {
        size_t length = 1;
        if (at[i] < 0x20 || at[i] == '"' || at[i] == '\\' || at[i] == 0x7F) {
            json_escape(text, at[i]);
        } else if (at[i] < 0x80) {
            weir_text_bytes(text, at + i, 1);
        } else {
            length = utf8_length(at + i, size - i);
            if (length)
                weir_text_bytes(text, at + i, length);
            else
                weir_text_lit(text, "\xEF\xBF\xBD");
            length += length == 0;
        }
        i += length;
    }
    weir_text_lit(text, "\"");
}

void weir_text_json_or_null(struct weir_text *text, const char *string)
{
    if (string)
        weir_text_json(text, string, strlen(string));
    else
        weir_text_lit(text, "null");
}

bool weir_text_is_utf8(const void *data, size_t size)
{
    const uint8_t *at = data;
    for (size_t i = 0; i < size;) {
        size_t length = at[i] < 0x80 ? 1 : utf8_length(at + i, size - i);
        if (length == 0)
            return false;
        i += length;
    }
    return true;
}

bool weir_text_percent(struct weir_text *text, struct weir_slice slice, bool plus_is_space)
{
    const uint8_t *at = slice.data;
    for (size_t i = 0; i < slice.size; i++) {
        uint8_t byte = at[i];
        if (byte == '%') {
            int high = i + 2 < slice.size ? weir_hex_digit((char)at[i + 1]) : -1;
            int low = i + 2 < slice.size ? weir_hex_digit((char)at[i + 2]) : -1;
            if (high < 0 || low < 0)
                return false;
            byte = (uint8_t)(high << 4 | low);
            i += 2;
        } else if (byte == '+' && plus_is_space) {
            byte = ' ';
        }
        weir_text_bytes(text, &byte, 1);
    }
    return true;
}

void weir_text_sf_string(struct weir_text *text, const char *string)
{
    weir_text_lit(text, "\"");
    for (const uint8_t *at = (const uint8_t *)string; *at; at++) {
        if (*at < 0x20 || *at > 0x7E || *at == '%')
            weir_text_bytes(text, (char[]){ '%', hex[*at >> 4], hex[*at & 15] }, 3);
        else if (*at == '"' || *at == '\\')
            weir_text_bytes(text, (char[]){ '\\', (char)*at }, 2);
        else
            weir_text_bytes(text, at, 1);
    }
    weir_text_lit(text, "\"");
}

static void two_digits(struct weir_text *text, uint64_t value)
{
    weir_text_bytes(text, (char[]){ (char)('0' + value / 10 % 10), (char)('0' + value % 10) }, 2);
}

void weir_text_http_date(struct weir_text *text, uint64_t wall_ns)
{
    uint64_t seconds = wall_ns / WEIR_NS_PER_SECOND, days = seconds / 86400, of_day = seconds % 86400;
    /* Days to civil date, counting years from March (H. Hinnant, "chrono-compatible low-level date algorithms"). */
    uint64_t shifted = days + 719468, era = shifted / 146097, of_era = shifted % 146097;
    uint64_t year = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146096) / 365;
    uint64_t of_year = of_era - (365 * year + year / 4 - year / 100);
    uint64_t month = (5 * of_year + 2) / 153, day = of_year - (153 * month + 2) / 5 + 1;
    month = month < 10 ? month + 2 : month - 10; /* from 0 = January */
    year += era * 400 + (month < 2);
    weir_text_bytes(text, &"ThuFriSatSunMonTueWed"[days % 7 * 3], 3);
    weir_text_lit(text, ", ");
    two_digits(text, day);
    weir_text_lit(text, " ");
    weir_text_bytes(text, &"JanFebMarAprMayJunJulAugSepOctNovDec"[month * 3], 3);
    weir_text_lit(text, " ");
    two_digits(text, year / 100);
    two_digits(text, year);
    weir_text_lit(text, " ");
    two_digits(text, of_day / 3600);
    weir_text_lit(text, ":");
    two_digits(text, of_day / 60 % 60);
    weir_text_lit(text, ":");
    two_digits(text, of_day % 60);
    weir_text_lit(text, " GMT");
}

void weir_text_utc(struct weir_text *text, uint64_t wall_ns)
{
    char copy[48];
    time_t seconds = (time_t)(wall_ns / WEIR_NS_PER_SECOND);
    unsigned ms = (unsigned)(wall_ns % WEIR_NS_PER_SECOND / 1000000);
    struct tm utc;
    if (!gmtime_r(&seconds, &utc))
        return;
    size_t size = strftime(copy, sizeof(copy), "%Y-%m-%dT%H:%M:%S", &utc);
    (void)snprintf(copy + size, sizeof(copy) - size, ".%03uZ", ms);
    weir_text_str(text, copy);
}

void weir_text_member_utc(struct weir_text *text, const char *member, uint64_t wall_ns)
{
    weir_text_str(text, member);
    weir_text_str(text, wall_ns ? "\"" : "null");
    if (wall_ns == 0)
        return;
    weir_text_utc(text, wall_ns);
    weir_text_lit(text, "\"");
}
