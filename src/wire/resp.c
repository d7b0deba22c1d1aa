/* SPDX-License-Identifier: Apache-2.0
 *
 * A command that is whole is read in one go. One that comes in pieces is read twice: skip_known() goes on where it
 * stopped, and keeps no arguments, because the bytes may move; once all is there read_array() reads it from the front.
 * Called by serve/resp.c. Answers are written by resp_write.c, and read by a client with resp_answer.c. */
#include "wire/resp.h"

#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/hex.h"

#define HEADER_MAX 32 /* "*1024\r\n" and "$1048576\r\n" are far below; what has no end by then is no number */

/* ---- numbers ---- */

static bool read_integer(const uint8_t *text, size_t size, int64_t *ret_value)
{
    bool negative = size > 0 && text[0] == '-';
    size_t at = negative ? 1 : 0;
    if (at == size || size - at > 19)
        return false;
    if (text[at] == '0' && (negative || size - at > 1))
        return false;

    uint64_t value = 0; /* 19 digits fit in 64 bits */
    for (; at < size; at++) {
        unsigned digit = (unsigned)text[at] - '0';
        if (digit > 9)
            return false;
        value = value * 10 + digit;
    }
    if (value > (uint64_t)INT64_MAX + (negative ? 1 : 0))
        return false;
    *ret_value = negative ? (int64_t)(0 - value) : (int64_t)value;
    return true;
}

bool weir_resp_integer(struct weir_slice text, int64_t *ret_value)
{
    return read_integer(text.data, text.size, ret_value);
}

bool weir_resp_is(struct weir_slice text, const char *name)
{
    const uint8_t *bytes = text.data;
    size_t size = strlen(name);
    if (text.size != size)
        return false;
    for (size_t i = 0; i < size; i++) {
        uint8_t lower = (uint8_t)(bytes[i] >= 'A' && bytes[i] <= 'Z' ? bytes[i] + ('a' - 'A') : bytes[i]);
        if (lower != (uint8_t)name[i])
            return false;
    }
    return true;
}

static int refuse(struct weir_resp_command *command, const char *why)
{
    snprintf(command->error, sizeof(command->error), "%s", why);
    return WEIR_EPROTO;
}

/* ---- arrays ---- */

struct header_texts {
    const char *invalid;
    const char *too_long;
};
static const struct header_texts array_texts = { "invalid multibulk length", "too big mbulk count string" };
static const struct header_texts bulk_texts = { "invalid bulk length", "too big bulk count string" };

/* Out of line: what is not one or two plain digits and CRLF. */
static int read_long_header(const uint8_t *data, size_t size, const struct header_texts *texts, int64_t *ret_value,
                            size_t *ret_size, struct weir_resp_command *command)
{
    size_t looked = size < HEADER_MAX ? size : HEADER_MAX;
    const uint8_t *end = memchr(data, '\r', looked);
    if (!end)
        return looked == HEADER_MAX ? refuse(command, texts->too_long) : WEIR_EAGAIN;
    size_t length = (size_t)(end - data);
    if (length + 1 >= size)
        return WEIR_EAGAIN;
    if (end[1] != '\n' || !read_integer(data + 1, length - 1, ret_value))
        return refuse(command, texts->invalid);
    *ret_size = length + 2;
    return 0;
}

/* The number behind the type byte at data[0], and how long its line is. */
static inline int read_header(const uint8_t *data, size_t size, const struct header_texts *texts, int64_t *ret_value,
                              size_t *ret_size, struct weir_resp_command *command)
{
    if (size >= 5) {
        unsigned first = (unsigned)data[1] - '0';
        unsigned second = (unsigned)data[2] - '0';
        if (first <= 9 && data[2] == '\r' && data[3] == '\n') {
            *ret_value = first;
            *ret_size = 4;
            return 0;
        }
        if (first - 1 <= 8 && second <= 9 && data[3] == '\r' && data[4] == '\n') {
            *ret_value = first * 10 + second;
            *ret_size = 5;
            return 0;
        }
    }
    return read_long_header(data, size, texts, ret_value, ret_size, command);
}

static int refuse_type(struct weir_resp_command *command, uint8_t got)
{
    bool printable = got > 0x20 && got < 0x7f;
    snprintf(command->error, sizeof(command->error), "expected '$', got '%c'", printable ? got : '?');
    return WEIR_EPROTO;
}

/* The bulk string at `*at`: its bytes, and `*at` behind it. */
static inline int read_bulk(const uint8_t *data, size_t size, size_t size_max, size_t *at, struct weir_slice *ret_arg,
                            struct weir_resp_command *command)
{
    int64_t length = 0;
    size_t header = 0;
    if (*at == size)
        return WEIR_EAGAIN;
    if (data[*at] != '$')
        return refuse_type(command, data[*at]);
    int error = read_header(data + *at, size - *at, &bulk_texts, &length, &header, command);
    if (error)
        return error;
    size_t start = *at + header;
    if (length < 0 || (uint64_t)length > size_max || start + (size_t)length + 2 > size_max)
        return refuse(command, bulk_texts.invalid);
    size_t end = start + (size_t)length;
    if (end + 2 > size)
        return WEIR_EAGAIN;
    if (data[end] != '\r' || data[end + 1] != '\n')
        return refuse(command, "bulk string is longer than its length");
    *ret_arg = (struct weir_slice){ data + start, (size_t)length };
    *at = end + 2;
    return 0;
}

/* Looks on from where the last look ended; the arguments are not kept, because the bytes may have moved since. */
static int skip_known(struct weir_resp_progress *progress, const uint8_t *data, size_t size, size_t size_max,
                      struct weir_resp_command *command)
{
    struct weir_slice ignored;
    while (progress->left > 0) {
        int error = read_bulk(data, size, size_max, &progress->at, &ignored, command);
        if (error)
            return error;
        progress->left--;
    }
    *progress = (struct weir_resp_progress){ 0 };
    return 0;
}

static int read_array(struct weir_resp_progress *progress, const uint8_t *data, size_t size,
                      const struct weir_resp_bounds *bounds, struct weir_resp_command *command)
{
    int64_t count = 0;
    size_t at = 0;
    int error = read_header(data, size, &array_texts, &count, &at, command);
    if (error)
        return error;
    if (count > (int64_t)bounds->args_max || count < -1)
        return refuse(command, array_texts.invalid);

    size_t expected = count > 0 ? (size_t)count : 0;
    for (size_t i = 0; i < expected; i++) {
        error = read_bulk(data, size, bounds->size_max, &at, &command->args[i], command);
        if (error) {
            *progress = (struct weir_resp_progress){ .at = at, .left = expected - i };
            return error;
        }
    }
    command->count = expected;
    command->size = at;
    return 0;
}

/* ---- lines ---- */

static bool is_blank(uint8_t byte)
{
    return byte == ' ' || (byte >= '\t' && byte <= '\r') || byte == '\0';
}

struct words {
    const uint8_t *at, *end; /* what is still to be read */
    uint8_t *out;            /* where unquoted bytes go; never outruns what was read */
};

/* One escape of a double-quoted part; at[0] is the backslash and at least one byte follows. */
static uint8_t read_escape(struct words *words)
{
    const uint8_t *at = words->at;
    int high = words->end - at >= 4 && at[1] == 'x' ? weir_hex_digit((char)at[2]) : -1;
    int low = high >= 0 ? weir_hex_digit((char)at[3]) : -1;
    if (low >= 0) {
        words->at += 4;
        return (uint8_t)(high << 4 | low);
    }
    words->at += 2;
    switch (at[1]) {
    case 'n':
        return '\n';
    case 'r':
        return '\r';
    case 't':
        return '\t';
    case 'b':
        return '\b';
    case 'a':
        return '\a';
    default:
        return at[1];
    }
}

/* A quoted part up to its closing quote, behind which a blank or the end must come. */
static bool read_quoted(struct words *words, uint8_t quote)
{
    words->at++;
    while (words->at < words->end) {
        uint8_t byte = *words->at;
        bool more = words->end - words->at >= 2;
        if (byte == quote) {
            words->at++;
            return words->at == words->end || is_blank(*words->at);
        }
        if (byte == '\\' && quote == '"' && more) {
            *words->out++ = read_escape(words);
        } else if (byte == '\\' && quote == '\'' && more && words->at[1] == '\'') {
            *words->out++ = '\'';
            words->at += 2;
        } else {
            *words->out++ = byte;
            words->at++;
        }
    }
    return false;
}

static bool read_word(struct words *words, struct weir_slice *ret_word)
{
    uint8_t *start = words->out;
    while (words->at < words->end && !is_blank(*words->at)) {
        if (*words->at == '"' || *words->at == '\'') {
            if (!read_quoted(words, *words->at))
                return false;
            break;
        }
        *words->out++ = *words->at++;
    }
    *ret_word = (struct weir_slice){ start, (size_t)(words->out - start) };
    return true;
}

static int read_words(const uint8_t *line, size_t size, size_t args_max, struct weir_resp_command *command)
{
    struct words words = { .at = line, .end = line + size, .out = command->unquoted };
    command->count = 0;
    for (;;) {
        while (words.at < words.end && is_blank(*words.at))
            words.at++;
        if (words.at == words.end)
            return 0;
        if (command->count == args_max)
            return refuse(command, array_texts.invalid);
        if (!read_word(&words, &command->args[command->count]))
            return refuse(command, "unbalanced quotes in request");
        command->count++;
    }
}

static int read_line(struct weir_resp_progress *progress, const uint8_t *data, size_t size,
                     const struct weir_resp_bounds *bounds, struct weir_resp_command *command)
{
    size_t looked = size < WEIR_RESP_LINE_MAX ? size : WEIR_RESP_LINE_MAX;
    const uint8_t *end = memchr(data + progress->at, '\n', looked - progress->at);
    if (!end) {
        progress->at = looked;
        return looked == WEIR_RESP_LINE_MAX ? refuse(command, "too big inline request") : WEIR_EAGAIN;
    }
    *progress = (struct weir_resp_progress){ 0 };
    command->line = true;
    command->size = (size_t)(end - data) + 1;
    return read_words(data, (size_t)(end - data), bounds->args_max, command);
}

int weir_resp_parse(struct weir_resp_progress *progress, const uint8_t *data, size_t size,
                    const struct weir_resp_bounds *bounds, struct weir_resp_command *ret_command)
{
    weir_assert(bounds->args_max <= WEIR_RESP_ARGS_MAX);
    if (size == 0)
        return WEIR_EAGAIN;
    ret_command->line = false;
    if (data[0] != '*')
        return read_line(progress, data, size, bounds, ret_command);
    if (progress->left > 0) {
        int error = skip_known(progress, data, size, bounds->size_max, ret_command);
        if (error)
            return error;
    }
    return read_array(progress, data, size, bounds, ret_command);
}
