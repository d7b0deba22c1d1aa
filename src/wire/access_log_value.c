/* SPDX-License-Identifier: Apache-2.0
 *
 * What becomes of one value of a line: a time, a duration, an address, a request, a path. A value is unescaped only if
 * it has a backslash, and a path goes through path.c only if it is not in its one spelling already. Which bytes are the
 * value is found by access_log.c and access_log_json.c, which call this. */
#include "wire/access_log.h"

#include <ctype.h>

#include "base/hex.h"

#define REQUEST_NONE "the request is none: \"METHOD /path HTTP/1.1\" is expected"

/* \xHH, \" and \n of nginx and Apache; what is no escape stays. At most as long as the value. */
struct weir_slice weir_access_unescape(struct weir_slice value, struct weir_text *text)
{
    static const char letters[] = "nrtbfv", meant[] = "\n\r\t\b\f\v";
    const char *at = value.data, *end = at + value.size;
    if (value.size == 0 || !memchr(at, '\\', value.size))
        return value;
    const size_t begin = text->size;
    for (; at < end; at++) {
        char byte = *at;
        size_t left = (size_t)(end - at);
        if (byte == '\\' && left >= 4 && at[1] == 'x' && weir_hex_digit(at[2]) >= 0 && weir_hex_digit(at[3]) >= 0) {
            byte = (char)(weir_hex_digit(at[2]) << 4 | weir_hex_digit(at[3]));
            at += 3;
        } else if (byte == '\\' && left >= 2 && at[1] != 'x') {
            const char *letter = at[1] ? strchr(letters, at[1]) : NULL;
            byte = letter ? meant[letter - letters] : at[1];
            at++;
        }
        weir_text_bytes(text, &byte, 1);
    }
    return (struct weir_slice){ text->data + begin, text->size - begin };
}

/* Whether the target is its own path: nothing to decode, to merge, or to refuse. */
static bool is_tidy(struct weir_slice target)
{
    const char *at = target.data;
    if (target.size == 0 || at[0] != '/')
        return false;
    for (size_t i = 0; i < target.size; i++) {
        char byte = at[i];
        if (byte == '%' || byte == '#' || byte == ';' || byte == '\\' || byte == '\0' || byte == '?')
            return false;
        if (byte == '/' && i + 1 < target.size && (at[i + 1] == '/' || at[i + 1] == '.'))
            return false;
    }
    return true;
}

static const char *route_take(const struct weir_access_format *format, struct weir_slice target,
                              struct weir_access_line *line)
{
    struct weir_slice *route = &line->values[format->route];
    if (route->data)
        return NULL;
    const char *question = target.size ? memchr(target.data, '?', target.size) : NULL;
    if (question)
        target.size = (size_t)(question - (const char *)target.data);
    if (is_tidy(target)) {
        *route = target;
        return NULL;
    }
    const char *wrong = weir_path_read(format->path, target, &line->text, route);
    line->path_refused = wrong != NULL;
    return wrong;
}

/* Without its port; of a list, the last. "unix:" stays as it is. */
static struct weir_slice address_of(struct weir_slice value)
{
    const char *begin = value.data, *end = begin + value.size;
    for (const char *at = end; at > begin; at--)
        if (at[-1] == ',') {
            begin = at;
            break;
        }
    while (begin < end && *begin == ' ')
        begin++;
    while (begin < end && end[-1] == ' ')
        end--;
    const char *closing = begin < end && *begin == '[' ? memchr(begin, ']', (size_t)(end - begin)) : NULL;
    if (closing)
        return (struct weir_slice){ begin + 1, (size_t)(closing - begin - 1) };
    const char *colon = begin < end ? memchr(begin, ':', (size_t)(end - begin)) : NULL;
    bool port = colon && memchr(begin, '.', (size_t)(colon - begin)) &&
                !memchr(colon + 1, ':', (size_t)(end - colon - 1));
    return (struct weir_slice){ begin, (size_t)((port ? colon : end) - begin) };
}

static const char *request_take(struct weir_access_format *format, struct weir_slice request,
                                struct weir_access_line *line)
{
    const char *begin = request.data, *end = begin + request.size;
    const char *space = request.size ? memchr(begin, ' ', request.size) : NULL;
    const char *last = end;
    if (!space || space == begin)
        return REQUEST_NONE;
    for (const char *at = begin; at < space; at++)
        if (!isalpha((unsigned char)*at) && *at != '-' && *at != '_')
            return REQUEST_NONE;
    while (last > space + 1 && last[-1] != ' ')
        last--;
    bool protocol = last > space + 1 && end - last >= 5 && memcmp(last, "HTTP/", 5) == 0;
    const struct weir_slice method = { begin, (size_t)(space - begin) };
    const struct weir_slice target = { space + 1, (size_t)((protocol ? last - 1 : end) - (space + 1)) };
    if (target.size == 0)
        return REQUEST_NONE;
    if (format->method < format->wanted_count && !line->values[format->method].data)
        line->values[format->method] = method;
    return format->route < format->wanted_count ? route_take(format, target, line) : NULL;
}

static const char *time_take(struct weir_access_format *format, struct weir_slice value, struct weir_access_line *line)
{
    bool fraction = false;
    if (line->time_ns)
        return NULL;
    if (value.size == format->last_time_size && value.size > 0 &&
        memcmp(value.data, format->last_time, value.size) == 0) {
        line->time_ns = format->last_time_ns;
        return NULL;
    }
    if (!weir_access_time(value.data, value.size, &line->time_ns, &fraction))
        return "there is no time that can be read";
    line->fraction = fraction;
    format->last_time_size = 0;
    if (!fraction && value.size <= sizeof(format->last_time)) {
        memcpy(format->last_time, value.data, value.size);
        format->last_time_size = value.size;
        format->last_time_ns = line->time_ns;
    }
    return NULL;
}

/* "-" of some upstream that was not asked is no duration; nor is what cannot be read. */
static void duration_take(enum weir_access_kind kind, struct weir_slice value, struct weir_access_line *line)
{
    uint64_t unit_ns = kind == WEIR_ACCESS_SECONDS  ? WEIR_NS_PER_SECOND
                       : kind == WEIR_ACCESS_MILLIS ? WEIR_NS_PER_SECOND / 1000
                                                    : WEIR_NS_PER_SECOND / 1000000;
    if (!line->has_duration)
        line->has_duration = weir_access_duration(value.data, value.size, unit_ns, &line->duration_ns);
}

const char *weir_access_take(struct weir_access_format *format, enum weir_access_kind kind, uint8_t wanted,
                             struct weir_slice value, struct weir_access_line *line)
{
    switch (kind) {
    case WEIR_ACCESS_SKIPPED:
        break;
    case WEIR_ACCESS_TIME:
        return time_take(format, value, line);
    case WEIR_ACCESS_SECONDS:
    case WEIR_ACCESS_MILLIS:
    case WEIR_ACCESS_MICROS:
        duration_take(kind, value, line);
        break;
    case WEIR_ACCESS_REQUEST:
        return request_take(format, value, line);
    case WEIR_ACCESS_ROUTE:
        return format->route < format->wanted_count ? route_take(format, value, line) : NULL;
    case WEIR_ACCESS_IP:
        value = address_of(value);
        if (!line->values[wanted].data && value.size > 0)
            line->values[wanted] = value;
        break;
    case WEIR_ACCESS_VALUE:
        if (!line->values[wanted].data)
            line->values[wanted] = value;
        break;
    }
    return NULL;
}
