/* SPDX-License-Identifier: Apache-2.0
 *
 * Text is taken apart piece by piece: one character of UTF-8 that may be shown, or one byte, written as \xNN. Which
 * characters are hidden is the table below: control characters, those without width, marks of direction. What is UTF-8
 * is decided in wire/text.c. Called by the verbs on what they print for people. */
#include "cli/plain.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "wire/text.h"

/* Characters that are obeyed, not seen. */
static bool is_hidden(uint32_t character)
{
    static const struct {
        uint32_t first, last;
    } hidden[] = {
        { 0x00, 0x1F },     { 0x7F, 0x9F },     { 0xAD, 0xAD },     { 0x61C, 0x61C },   { 0x200B, 0x200F },
        { 0x2028, 0x202E }, { 0x2060, 0x206F }, { 0xFEFF, 0xFEFF }, { 0xFFF9, 0xFFFB }, { 0xE0000, 0xE007F }
    };
    for (size_t i = 0; i < sizeof(hidden) / sizeof(hidden[0]); i++) {
        if (character >= hidden[i].first && character <= hidden[i].last)
            return true;
    }
    return false;
}

/* How many bytes at the front are one character that may be shown; 0 = the first byte may not. */
static size_t shown_size(const uint8_t *at, size_t left)
{
    if (at[0] < 0x80)
        return is_hidden(at[0]) ? 0 : 1;
    for (size_t size = 2; size <= 4 && size <= left; size++) {
        if (!weir_text_is_utf8(at, size))
            continue;
        uint32_t character = at[0] & (0xFFU >> (size + 1));
        for (size_t i = 1; i < size; i++)
            character = character << 6 | (at[i] & 0x3FU);
        return is_hidden(character) ? 0 : size;
    }
    return 0;
}

/* The next piece of `text`, taken off its front: one character, or \xNN. Returns its size. */
static size_t piece_next(struct weir_slice *text, char ret_piece[5])
{
    const uint8_t *at = text->data;
    size_t taken = shown_size(at, text->size), size = taken;
    if (taken > 0)
        memcpy(ret_piece, at, taken);
    else
        size = (size_t)snprintf(ret_piece, 5, "\\x%02x", at[0]);
    taken += taken == 0;
    *text = (struct weir_slice){ at + taken, text->size - taken };
    return size;
}

void weir_plain_print(FILE *out, struct weir_slice text)
{
    while (text.size > 0) {
        char piece[5];
        size_t size = piece_next(&text, piece);
        (void)fwrite(piece, 1, size, out);
    }
}

void weir_plain_line(FILE *out, const char *format, ...)
{
    char *text = NULL;
    va_list list;
    va_start(list, format);
    int size = vasprintf(&text, format, list);
    va_end(list);
    if (size < 0) { /* out of memory: what it is about, at least */
        fputs(format, out);
    } else {
        weir_plain_print(out, (struct weir_slice){ text, (size_t)size });
        free(text);
    }
    fputc('\n', out);
}

static const char *plain(struct weir_slice rest, char *buffer, size_t size)
{
    size_t used = 0;
    while (rest.size > 0) {
        char piece[5];
        size_t piece_size = piece_next(&rest, piece);
        if (piece_size >= size - used)
            break;
        memcpy(buffer + used, piece, piece_size);
        used += piece_size;
    }
    buffer[used] = '\0';
    return buffer;
}

const char *weir_plain(const char *text, char *buffer, size_t size)
{
    return plain((struct weir_slice){ text, strlen(text) }, buffer, size);
}

const char *weir_plain_json_string(const json_t *string, char *buffer, size_t size)
{
    return plain((struct weir_slice){ json_string_value(string), json_string_length(string) }, buffer, size);
}

static bool string_plain(json_t *string)
{
    size_t size = WEIR_PLAIN_SIZE(json_string_length(string));
    char *buffer = malloc(size);
    bool done = buffer && json_string_set(string, weir_plain_json_string(string, buffer, size)) == 0;
    free(buffer);
    return done;
}

/* The parser lets nothing be nested deeper than 2048. */
bool weir_plain_json(json_t *value)
{
    const char *name;
    json_t *member;
    size_t index;
    bool done = true;
    if (json_is_string(value))
        return string_plain(value);
    json_object_foreach(value, name, member) done = done && weir_plain_json(member);
    json_array_foreach(value, index, member) done = done && weir_plain_json(member);
    return done;
}

void weir_plain_svg(const char *text, FILE *out)
{
    struct weir_slice rest = { text, strlen(text) };
    while (rest.size > 0) {
        char piece[5];
        size_t size = piece_next(&rest, piece);
        if (piece[0] == '<')
            fputs("&lt;", out);
        else if (piece[0] == '&')
            fputs("&amp;", out);
        else
            (void)fwrite(piece, 1, size, out);
    }
}
