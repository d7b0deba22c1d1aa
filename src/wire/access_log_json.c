/* SPDX-License-Identifier: Apache-2.0
 *
 * One JSON object of a log, read where it stands: nothing is allocated, and members that mean nothing are passed over.
 * Members of members have names with dots (request.remote_ip). It is stricter than it need be about what ends a line,
 * so that a line that was cut is seen, and takes no offence at a value that it passes over. Called by access_log.c;
 * what the names mean is found in access_log_format.c. */
#include "wire/access_log.h"

#include "base/hex.h"

#define CUT "it ends within the JSON"
#define WRONG "it is no JSON object"

struct reader {
    struct weir_access_format *format;
    struct weir_access_line *line;
    const char *at, *end;
    size_t name_size; /* of the members around this one, with a dot behind each */
    char name[WEIR_ACCESS_NAME_MAX];
};

static void spaces(struct reader *reader)
{
    while (reader->at < reader->end && (*reader->at == ' ' || *reader->at == '\t'))
        reader->at++;
}

static bool byte(struct reader *reader, char expected)
{
    spaces(reader);
    if (reader->at == reader->end || *reader->at != expected)
        return false;
    reader->at++;
    return true;
}

/* What stands between the quotes, as it stands. */
static const char *string(struct reader *reader, struct weir_slice *ret_raw)
{
    const char *begin = reader->at;
    for (;;) {
        const char *quote = memchr(reader->at, '"', (size_t)(reader->end - reader->at));
        size_t slashes = 0;
        if (!quote)
            return CUT;
        while (quote - slashes > begin && quote[-1 - (ptrdiff_t)slashes] == '\\')
            slashes++;
        reader->at = quote + 1;
        if (slashes % 2 == 0) {
            *ret_raw = (struct weir_slice){ begin, (size_t)(quote - begin) };
            return NULL;
        }
    }
}

static bool four(const char *at, const char *end, unsigned *ret_code)
{
    *ret_code = 0;
    if (end - at < 4)
        return false;
    for (int i = 0; i < 4; i++) {
        int digit = weir_hex_digit(at[i]);
        if (digit < 0)
            return false;
        *ret_code = *ret_code << 4 | (unsigned)digit;
    }
    return true;
}

static void utf8_write(struct weir_text *text, unsigned code)
{
    uint8_t bytes[4] = { (uint8_t)code };
    size_t size = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    for (size_t i = size; i-- > 1; code >>= 6)
        bytes[i] = (uint8_t)(0x80 | (code & 0x3f));
    if (size > 1)
        bytes[0] = (uint8_t)((0xf00 >> size) | code);
    weir_text_bytes(text, bytes, size);
}

/* \uXXXX, and the second of a pair. False: it is none, or half a pair. */
static bool unicode(struct weir_text *text, const char **cursor, const char *end)
{
    unsigned code = 0, low = 0;
    if (!four(*cursor, end, &code))
        return false;
    *cursor += 4;
    if (code >= 0xdc00 && code < 0xe000)
        return false;
    if (code >= 0xd800 && code < 0xdc00) {
        const char *at = *cursor;
        if (end - at < 6 || at[0] != '\\' || at[1] != 'u' || !four(at + 2, end, &low) || low < 0xdc00 || low > 0xdfff)
            return false;
        *cursor += 6;
        code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
    }
    utf8_write(text, code);
    return true;
}

static bool decode(struct weir_text *text, struct weir_slice *value)
{
    static const char letters[] = "\"\\/bfnrt", meant[] = "\"\\/\b\f\n\r\t";
    const char *at = value->data, *end = at + value->size;
    if (value->size == 0 || !memchr(at, '\\', value->size))
        return true;
    const size_t begin = text->size;
    while (at < end) {
        if (*at != '\\') {
            weir_text_bytes(text, at++, 1);
            continue;
        }
        if (end - at < 2)
            return false;
        const char *letter = at[1] ? strchr(letters, at[1]) : NULL;
        bool code = at[1] == 'u';
        at += 2;
        if (letter)
            weir_text_bytes(text, &meant[letter - letters], 1);
        else if (!code || !unicode(text, &at, end))
            return false;
    }
    *value = (struct weir_slice){ text->data + begin, text->size - begin };
    return true;
}

/* Passes over an object or a list, whose first bracket is behind the cursor. */
static const char *nested_skip(struct reader *reader)
{
    struct weir_slice ignored;
    for (unsigned depth = 1; depth > 0;) {
        if (reader->at == reader->end)
            return CUT;
        char c = *reader->at++;
        if (c == '"') {
            const char *wrong = string(reader, &ignored);
            if (wrong)
                return wrong;
        } else if (c == '{' || c == '[') {
            if (++depth > WEIR_ACCESS_DEPTH_MAX)
                return "its JSON is nested too deep";
        } else if (c == '}' || c == ']') {
            depth--;
        }
    }
    return NULL;
}

/* A number, true, false or null. */
static struct weir_slice word(struct reader *reader)
{
    const char *begin = reader->at;
    while (reader->at < reader->end && *reader->at != ',' && *reader->at != '}' && *reader->at != ' ' &&
           *reader->at != '\t')
        reader->at++;
    return (struct weir_slice){ begin, (size_t)(reader->at - begin) };
}

static bool is_word(struct weir_slice value)
{
    const char *at = value.data;
    if (value.size == 4 && (memcmp(at, "true", 4) == 0 || memcmp(at, "null", 4) == 0))
        return true;
    if (value.size == 5 && memcmp(at, "false", 5) == 0)
        return true;
    for (size_t i = 0; i < value.size; i++)
        if (!(at[i] >= '0' && at[i] <= '9') && !memchr("+-.eE", at[i], 5))
            return false;
    return value.size > 0;
}

/* A fraction has many texts: as a part of a key it would be several keys. */
static bool is_fraction(struct weir_slice value)
{
    for (size_t i = 0; i < value.size; i++)
        if (memchr(".eE+", ((const char *)value.data)[i], 4))
            return true;
    return false;
}

static const char *value_take(struct reader *reader, const struct weir_access_member *member)
{
    struct weir_slice value;
    bool quoted = byte(reader, '"');
    if (quoted) {
        const char *wrong = string(reader, &value);
        if (wrong)
            return wrong;
        if (!member)
            return NULL;
        if (!decode(&reader->line->text, &value))
            return "a string has an escape that is none";
    } else {
        value = word(reader);
        if (!is_word(value))
            return reader->at == reader->end ? CUT : WRONG;
        if (!member || *(const char *)value.data == 'n')
            return NULL;
        bool is_number = *(const char *)value.data != 't' && *(const char *)value.data != 'f';
        if (member->kind == WEIR_ACCESS_VALUE && is_number && is_fraction(value))
            return "an attribute of its key is a fraction";
    }
    if (quoted && value.size == 1 && *(const char *)value.data == '-')
        return NULL;
    return weir_access_take(reader->format, (enum weir_access_kind)member->kind, member->wanted, value, reader->line);
}

/* The member's whole name, behind those around it; NULL: too long for one that anybody wants. */
static const struct weir_access_member *member_find(struct reader *reader, struct weir_slice name)
{
    if (reader->name_size == 0)
        return weir_access_member_find(reader->format, name.data, name.size);
    if (name.size > sizeof(reader->name) - reader->name_size)
        return NULL;
    memcpy(reader->name + reader->name_size, name.data, name.size);
    return weir_access_member_find(reader->format, reader->name, reader->name_size + name.size);
}

/* Goes into an object: its members' names begin with this one's. False: too deep for a name; it is passed over. */
static bool object_enter(struct reader *reader, struct weir_slice name, size_t *ret_before)
{
    *ret_before = reader->name_size;
    if (name.size + 1 > sizeof(reader->name) - reader->name_size)
        return false;
    memcpy(reader->name + reader->name_size, name.data, name.size);
    reader->name_size += name.size + 1;
    reader->name[reader->name_size - 1] = '.';
    return true;
}

const char *weir_access_read_json(struct weir_access_format *format, const char *data, size_t size,
                                  struct weir_access_line *line)
{
    struct reader reader = { .format = format, .line = line, .at = data, .end = data + size };
    size_t before[WEIR_ACCESS_DEPTH_MAX], depth = 1; /* name_size outside of each object that is open */
    bool first = true;
    if (!byte(&reader, '{'))
        return WRONG;
    while (depth > 0) {
        struct weir_slice name;
        if (byte(&reader, '}')) {
            reader.name_size = --depth > 0 ? before[depth] : 0;
            first = false;
            continue;
        }
        if (!first && !byte(&reader, ','))
            return reader.at == reader.end ? CUT : WRONG;
        if (!byte(&reader, '"'))
            return reader.at == reader.end ? CUT : WRONG;
        const char *wrong = string(&reader, &name);
        if (!wrong && !byte(&reader, ':'))
            wrong = reader.at == reader.end ? CUT : WRONG;
        if (wrong)
            return wrong;
        first = false;
        if (byte(&reader, '{')) {
            first = depth < WEIR_ACCESS_DEPTH_MAX && object_enter(&reader, name, &before[depth]);
            depth += first;
            wrong = first ? NULL : nested_skip(&reader);
        } else {
            wrong = byte(&reader, '[') ? nested_skip(&reader) : value_take(&reader, member_find(&reader, name));
        }
        if (wrong)
            return wrong;
    }
    spaces(&reader);
    return reader.at == reader.end ? NULL : "something stands behind the JSON";
}
