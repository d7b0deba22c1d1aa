/* SPDX-License-Identifier: Apache-2.0
 *
 * A line is built in one buffer and written by one write(), after poll() has said that the descriptor takes it. A
 * message that is too long is cut; in JSON it is shortened until its escaped form fits. Called by serve/watch.c and
 * serve/server.c, and by cli/serve_warn.c. */
#include "observe/logger.h"

#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/plural.h"
#include "wire/text.h"

#define MESSAGE_MAX 600 /* of one that says how many were dropped too */
#define ELLIPSIS "..."

const char *weir_log_level_name(enum weir_log_level level)
{
    static const char *const names[] = { "error", "warn", "info" };
    return names[level];
}

/* As it is, but for bytes below a space, DEL and the escape's own backslash; other bytes are UTF-8 or nobody's. */
static void write_plain(struct weir_text *line, const char *message)
{
    for (const unsigned char *byte = (const unsigned char *)message; *byte; byte++) {
        char escaped[8];
        bool plain = *byte >= ' ' && *byte != 127 && *byte != '\\';
        int size = plain ? snprintf(escaped, sizeof(escaped), "%c", *byte)
                         : snprintf(escaped, sizeof(escaped), "\\x%02x", *byte);
        if (line->room - line->size < sizeof(ELLIPSIS) + (size_t)size) {
            weir_text_lit(line, ELLIPSIS);
            return;
        }
        weir_text_bytes(line, escaped, (size_t)size);
    }
}

/* A message whose longest spelling may not fit is cut before, so that the line stays JSON. */
static void write_json(struct weir_text *line, const char *message)
{
    size_t size = strlen(message);
    size_t room = line->room - line->size - sizeof("\"}");
    bool cut = false;
    uint8_t copy[WEIR_LOGGER_LINE_MAX * 6 + 2];
    struct weir_text text;
    size = size < WEIR_LOGGER_LINE_MAX ? size : WEIR_LOGGER_LINE_MAX;
    do {
        text = weir_text_init(copy, sizeof(copy));
        weir_text_json(&text, message, size);
        cut = text.size > room;
        size = cut ? size - 1 - size / 16 : size;
    } while (cut && size > 0);
    weir_text_bytes(line, text.data, text.size);
}

static bool would_wait(int fd)
{
    struct pollfd ready = { .fd = fd, .events = POLLOUT };
    return poll(&ready, 1, 0) != 1 || !(ready.revents & POLLOUT);
}

static bool too_many(struct weir_logger *logger, uint64_t wall_ns)
{
    uint64_t second = wall_ns / WEIR_NS_PER_SECOND;
    if (second != logger->second) {
        logger->second = second;
        logger->lines = 0;
    }
    return logger->lines >= WEIR_LOGGER_LINES_MAX;
}

static struct weir_text line_of(const struct weir_logger *logger, uint8_t *room, uint64_t wall_ns,
                                enum weir_log_level level, const char *event, const char *message, const char *fields)
{
    struct weir_text line = weir_text_init(room, WEIR_LOGGER_LINE_MAX - 1);
    bool json = logger->format == WEIR_LOG_JSON;
    weir_text_str(&line, json ? "{\"time\":\"" : "");
    weir_text_utc(&line, wall_ns);
    weir_text_str(&line, json ? "\",\"level\":\"" : " ");
    weir_text_str(&line, weir_log_level_name(level));
    weir_text_str(&line, json ? "\",\"event\":\"" : " ");
    weir_text_str(&line, event);
    if (logger->node[0]) {
        weir_text_str(&line, json ? "\",\"node\":\"" : ": node ");
        weir_text_str(&line, logger->node);
    }
    weir_text_str(&line, !json ? ": " : fields[0] ? "\"," : "\",\"message\":");
    if (json && fields[0]) {
        weir_text_str(&line, fields);
        weir_text_lit(&line, ",\"message\":");
    }
    if (json) {
        write_json(&line, message);
        weir_text_lit(&line, "}");
    } else {
        write_plain(&line, message);
    }
    line.room = WEIR_LOGGER_LINE_MAX;
    weir_text_lit(&line, "\n");
    return line;
}

bool weir_logger_write(struct weir_logger *logger, uint64_t wall_ns, enum weir_log_level level, const char *event,
                       const char *message)
{
    return weir_logger_write_fields(logger, wall_ns, level, event, message, "");
}

bool weir_logger_write_fields(struct weir_logger *logger, uint64_t wall_ns, enum weir_log_level level,
                              const char *event, const char *message, const char *fields)
{
    uint8_t room[WEIR_LOGGER_LINE_MAX];
    weir_assert(strlen(fields) <= WEIR_LOGGER_FIELDS_MAX);
    char longer[MESSAGE_MAX];
    if (level > logger->level)
        return true; /* nobody wants it */
    if (logger->dropped > 0) {
        (void)snprintf(longer, sizeof(longer), "%.500s (%" PRIu64 " line%s before this one %s dropped)", message,
                       logger->dropped, weir_s(logger->dropped), logger->dropped == 1 ? "was" : "were");
        message = longer;
    }
    struct weir_text line = line_of(logger, room, wall_ns, level, event, message, fields);
    if (too_many(logger, wall_ns) || would_wait(logger->fd) ||
        write(logger->fd, line.data, line.size) != (ssize_t)line.size) {
        logger->dropped++;
        logger->dropped_total++;
        return false;
    }
    logger->lines++;
    logger->dropped = 0;
    return true;
}
