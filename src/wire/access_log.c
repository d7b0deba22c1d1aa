/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads a line by a compiled format: for each field, finds the text that ends it, and takes the value if somebody wants
 * it (access_log_value.c). Formats are compiled in access_log_format.c, JSON is read in access_log_json.c. Called by
 * cli/replay_read.c. */
#include "wire/access_log.h"

#define ROUTE_NONE "there is no path in the request"

/* Where the text that ends a field begins; NULL: nowhere. */
static const char *text_find(const char *at, const char *end, const char *text, size_t size, bool quoted)
{
    for (const char *begin = at; (size_t)(end - at) >= size; at++) {
        at = memchr(at, text[0], (size_t)(end - at));
        if (!at || (size_t)(end - at) < size)
            return NULL;
        size_t slashes = 0;
        while (quoted && at - slashes > begin && at[-1 - (ptrdiff_t)slashes] == '\\')
            slashes++;
        if (slashes % 2 == 0 && memcmp(at, text, size) == 0)
            return at;
    }
    return NULL;
}

/* "10/Oct/2000:13:55:36 -0700" has a space of its own: what ends the time comes after it. */
static const char *zone_of(const char *at, const char *end)
{
    const char *space = end - at > 2 && at[2] == '/' ? memchr(at, ' ', (size_t)(end - at)) : NULL;
    bool zone = space && end - space > 1 && (space[1] == '+' || space[1] == '-');
    return zone ? space + 1 : at;
}

static const char *read_fields(struct weir_access_format *format, const char *at, const char *end,
                               struct weir_access_line *line)
{
    if ((size_t)(end - at) < format->head_size || memcmp(at, format->text, format->head_size) != 0)
        return "it does not begin as the format does";
    at += format->head_size;
    for (size_t i = 0; i < format->field_needed; i++) {
        const struct weir_access_field *field = &format->fields[i];
        const char *text = format->text + field->text_begin;
        const char *from = field->kind == WEIR_ACCESS_TIME ? zone_of(at, end) : at;
        const char *stop = field->text_size ? text_find(from, end, text, field->text_size, field->quoted) : end;
        if (!stop)
            return "it ends within what the format expects";
        struct weir_slice value = { at, (size_t)(stop - at) };
        at = stop + field->text_size;
        if (field->kind == WEIR_ACCESS_SKIPPED || (value.size == 1 && *(const char *)value.data == '-'))
            continue;
        value = weir_access_unescape(value, &line->text);
        const char *wrong = weir_access_take(format, (enum weir_access_kind)field->kind, field->wanted, value, line);
        if (wrong)
            return wrong;
    }
    return NULL;
}

const char *weir_access_read(struct weir_access_format *format, const char *data, size_t size,
                             struct weir_access_line *line)
{
    if (size > 0 && data[size - 1] == '\r')
        size--;
    line->time_ns = line->duration_ns = 0;
    line->fraction = line->has_duration = line->path_refused = false;
    line->text = weir_text_init(line->room, sizeof(line->room));
    memset(line->values, 0, format->wanted_count * sizeof(line->values[0]));
    if (size > WEIR_ACCESS_LINE_MAX)
        return "it is longer than 64 KiB";
    const char *wrong = format->json ? weir_access_read_json(format, data, size, line)
                                     : read_fields(format, data, data + size, line);
    if (wrong)
        return wrong;
    if (line->text.overflow)
        return "it has too much to decode";
    if (!line->time_ns)
        return "it has no time";
    bool routed = format->route == format->wanted_count || line->values[format->route].data;
    return routed ? NULL : ROUTE_NONE;
}
