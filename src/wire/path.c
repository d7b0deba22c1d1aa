/* SPDX-License-Identifier: Apache-2.0
 *
 * Three passes: the path is cut out of the target, decoded once, and simplified in place (slashes, dot segments). What
 * WEIR_PATH_REFUSE refuses is looked for before decoding, but for dot segments, which show after it. Called by
 * forwarded.c for /v1/auth. */
#include "wire/path.h"

#include <ctype.h>

#include "base/hex.h"

/* The byte that the three at `at` encode, or -1. */
static int encoded(const char *at, const char *end)
{
    if (end - at < 3 || at[0] != '%' || weir_hex_digit(at[1]) < 0 || weir_hex_digit(at[2]) < 0)
        return -1;
    return weir_hex_digit(at[1]) << 4 | weir_hex_digit(at[2]);
}

/* Without "http://host" in front and "?query" behind; NULL data where it is no path. */
static struct weir_slice path_of(struct weir_slice target)
{
    const char *at = target.data, *end = at + target.size;
    const char *question = target.size ? memchr(at, '?', target.size) : NULL;
    end = question ? question : end;
    if (end - at == 1 && *at == '*')
        return (struct weir_slice){ at, 1 };
    if (at < end && *at != '/') {
        const char *scheme = at;
        while (at < end && (isalnum((unsigned char)*at) || memchr("+-.", *at, 3)))
            at++;
        if (at == scheme || end - at < 3 || memcmp(at, "://", 3) != 0)
            return (struct weir_slice){ 0 };
        for (at += 3; at < end && *at != '/';)
            at++;
        if (at == end)
            return (struct weir_slice){ "/", 1 };
    }
    return at < end ? (struct weir_slice){ at, (size_t)(end - at) } : (struct weir_slice){ 0 };
}

/* What backends read differently, as far as it shows before decoding. */
static const char *ambiguity(struct weir_slice path)
{
    const char *begin = path.data, *end = begin + path.size;
    for (const char *at = begin; at < end; at++) {
        int byte = encoded(at, end);
        if (*at == '%' && byte < 0)
            return "the path has a % that encodes nothing";
        if (*at == '\\' || byte == '\\' || byte == '/')
            return "the path has a backslash, %5C or %2F";
        if (*at == ';')
            return "the path has a ;";
        if (byte == '\0' || *at == '\0')
            return "the path has %00";
        if (byte == '%' && end - at >= 5 && weir_hex_digit(at[3]) >= 0 && weir_hex_digit(at[4]) >= 0)
            return "the path is encoded twice";
        if (*at == '/' && at > begin && at[-1] == '/')
            return "the path has //";
    }
    return NULL;
}

/* Once; a '%' that encodes nothing stays. */
static void decode(struct weir_text *text, struct weir_slice path)
{
    const char *at = path.data, *end = at + path.size;
    for (; at < end; at++) {
        int byte = encoded(at, end);
        uint8_t decoded = (uint8_t)(byte < 0 ? *at : byte);
        weir_text_bytes(text, &decoded, 1);
        at += byte < 0 ? 0 : 2;
    }
}

/* Merges slashes and removes dot segments, in place: what is written never overtakes what is read. */
static size_t simplify(char *path, size_t size, bool *ret_dots)
{
    size_t out = 0;    /* the segments so far, each after its '/' */
    bool open = false; /* the last segment names a folder: a '/' follows it */
    *ret_dots = false;
    for (size_t at = 0; at < size;) { /* at a '/' */
        size_t begin = ++at;
        while (at < size && path[at] != '/')
            at++;
        size_t length = at - begin;
        bool parent = length == 2 && path[begin] == '.' && path[begin + 1] == '.';
        bool self = length == 1 && path[begin] == '.';
        open = length == 0 || parent || self;
        *ret_dots = *ret_dots || parent || self;
        if (!open) {
            path[out++] = '/';
            memmove(path + out, path + begin, length);
            out += length;
        }
        while (parent && out > 0 && path[--out] != '/')
            ;
    }
    if (open || out == 0)
        path[out++] = '/';
    return out;
}

const char *weir_path_read(enum weir_path_rule rule, struct weir_slice target, struct weir_text *text,
                           struct weir_slice *ret_path)
{
    const struct weir_slice path = path_of(target);
    if (!path.data)
        return "what should be the path of a request is none";
    if (memchr(path.data, '#', path.size)) /* no client sends one; servers cut there, or do not */
        return "the path has a #";
    const char *wrong = rule == WEIR_PATH_REFUSE ? ambiguity(path) : NULL;
    if (wrong)
        return wrong;
    const size_t begin = text->size;
    decode(text, path);
    if (text->overflow || *(const char *)path.data == '*') {
        *ret_path = (struct weir_slice){ text->data + begin, text->size - begin };
        return NULL;
    }
    bool dots;
    text->size = begin + simplify((char *)text->data + begin, text->size - begin, &dots);
    if (dots && rule == WEIR_PATH_REFUSE)
        return "the path has a dot segment";
    *ret_path = (struct weir_slice){ text->data + begin, text->size - begin };
    return NULL;
}
