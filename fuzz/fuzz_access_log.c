/* SPDX-License-Identifier: Apache-2.0
 *
 * Any bytes as lines of an access log, by each format; and as a format string, whose line follows after a NUL. Each is
 * read or refused, with a reason; what is read lies in the line or in its room, has a time of ours, a route that is one
 * spelling, and comes out the same when it is read once more. */
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "wire/access_log.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *const wanted[] = { "route", "ip", "method", "user", "user-agent" };
#define WANTED (sizeof(wanted) / sizeof(wanted[0]))

static struct weir_access_format format;
static struct weir_access_line line, again;

static void check_value(struct weir_slice value, const char *data, size_t size)
{
    const char *at = value.data;
    const char *room = (const char *)line.room;
    bool in_line = at >= data && at + value.size <= data + size;
    bool in_room = at >= room && at + value.size <= room + line.text.size;
    weir_assert(!at || in_line || in_room);
}

static void check_route(struct weir_slice route)
{
    const char *at = route.data;
    weir_assert(at && route.size > 0 && (at[0] == '/' || (at[0] == '*' && route.size == 1)));
    for (size_t i = 0; i + 1 < route.size; i++)
        weir_assert(at[i] != '/' || at[i + 1] != '/');
}

static void read_line(const uint8_t *data, size_t size)
{
    char *copy = malloc(size ? size : 1); /* so that ASan sees a look beyond it */
    weir_assert(copy);
    memcpy(copy, data, size);
    const char *why = weir_access_read(&format, copy, size, &line);
    const char *why_again = weir_access_read(&format, copy, size, &again);
    weir_assert(why == why_again && (!why || why[0]));
    if (!why) {
        weir_assert(line.time_ns >= UINT64_C(365) * 86400 * WEIR_NS_PER_SECOND && line.time_ns == again.time_ns);
        for (size_t i = 0; i < WANTED; i++) {
            check_value(line.values[i], copy, size);
            weir_assert(line.values[i].size == again.values[i].size);
        }
        check_route(line.values[0]);
    }
    free(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const names[] = { "combined", "envoy", "json" };
    struct weir_access_options options = { wanted, WANTED, NULL, 0, WEIR_PATH_NORMALISE };
    if (size > 0)
        options.path = data[0] & 1 ? WEIR_PATH_REFUSE : WEIR_PATH_NORMALISE;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        weir_assert(weir_access_format_init(&format, names[i], &options, NULL) == 0);
        read_line(data, size);
    }
    const uint8_t *end = size ? memchr(data, '\0', size) : NULL;
    struct weir_fault fault = { "", "" };
    if (!end)
        return 0;
    int error = weir_access_format_init(&format, (const char *)data, &options, &fault);
    weir_assert(!error || fault.text[0]);
    if (!error)
        read_line(end + 1, size - (size_t)(end + 1 - data));
    return 0;
}
