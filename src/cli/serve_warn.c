/* SPDX-License-Identifier: Apache-2.0
 *
 * A warning is written at once: as a line of the log (observe/logger.c) where the log is JSON, else, and always for
 * --check, as text on standard error. Nothing is looked for here: the warnings of a file are found when it is read
 * (rules/config.c has warnings.c, overlaps.c, sharing_decode.c and attribute_warnings.c look). Called by serve.c,
 * serve_config.c and serve_sessions.c. */
#include "cli/serve_warn.h"

#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include "base/plural.h"
#include "cli/plain.h"
#include "observe/logger.h"
#include "weir/limiter.h"

static struct weir_logger logger_of(const struct weir_config *config)
{
    struct weir_logger logger = { .fd = STDERR_FILENO, .format = config->log_format, .level = config->log_level };
    if (config->nodes_count > 0 && config->node_name)
        (void)snprintf(logger.node, sizeof(logger.node), "%s", config->node_name);
    return logger;
}

void weir_serve_warn(const struct weir_config *config, const char *format, ...)
{
    char text[WEIR_LOGGER_LINE_MAX];
    va_list list;
    va_start(list, format);
    (void)vsnprintf(text, sizeof(text), format, list);
    va_end(list);
    struct weir_logger logger = logger_of(config);
    if (config->log_format == WEIR_LOG_JSON)
        weir_logger_write(&logger, weir_time_read().wall_ns, WEIR_LOG_WARN, "start_warning", text);
    else
        fprintf(stderr, "weir: warning: %s\n", text);
}

static void write_warning(struct weir_logger *logger, const char *file, struct weir_mark mark, const char *text)
{
    char message[WEIR_LOGGER_LINE_MAX];
    (void)snprintf(message, sizeof(message), "%s:%u:%u: %s", file, mark.line, mark.column, text);
    weir_logger_write(logger, weir_time_read().wall_ns, WEIR_LOG_WARN, "config_warning", message);
}

void weir_serve_warn_config(const struct weir_config *config, const char *file, bool always_text)
{
    char text[WEIR_PLAIN_SIZE(1024)];
    struct weir_logger logger = logger_of(config);
    bool as_json = config->log_format == WEIR_LOG_JSON && !always_text;
    for (size_t i = 0; i < config->warnings_count; i++) {
        struct weir_mark mark = config->warnings[i].mark;
        if (as_json)
            write_warning(&logger, file, mark, config->warnings[i].text);
        else
            fprintf(stderr, "%s:%u:%u: warning: %s\n", file, mark.line, mark.column,
                    weir_plain(config->warnings[i].text, text, sizeof(text)));
    }
    if (config->warnings_dropped > 0 && as_json)
        weir_serve_warn(config, "%s: %zu more warning%s", file, config->warnings_dropped,
                        weir_s(config->warnings_dropped));
    else if (config->warnings_dropped > 0)
        fprintf(stderr, "%s: %zu more warning%s\n", file, config->warnings_dropped, weir_s(config->warnings_dropped));
}
