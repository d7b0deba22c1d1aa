/* SPDX-License-Identifier: Apache-2.0
 *
 * A zone is an array of changes of the offset, sorted by time, which zone_tzif.c makes from the file; a look-up is a
 * binary search. weir_zone_first_s begins so early that the wall cannot show the time yet, and goes on change by
 * change: gaps and overlaps need no case of their own. Zones are made by record.c, remote.c and rules/limit_decode.c
 * (to check a name); calendar.c looks things up in them. */
#include "limits/zone.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/whole.h"
#include "limits/zone_tzif.h"
#include "weir/limit.h"

#define ZONEINFO "/usr/share/zoneinfo/"
#define TIME_LIMIT_S (INT64_C(1) << 60)
#define YEAR_2000_S INT64_C(946684800)

static bool is_name_char(char c)
{
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '-' ||
           c == '+';
}

/* No dots at all, so no "..", and no absolute path: every slash stands between two characters of a name. */
static bool is_name(const char *name)
{
    size_t size = strnlen(name, WEIR_ZONE_NAME_MAX + 1);
    if (size == 0 || size > WEIR_ZONE_NAME_MAX)
        return false;
    for (size_t i = 0; i < size; i++) {
        bool inner_slash = name[i] == '/' && i > 0 && name[i - 1] != '/' && i + 1 < size;
        if (!is_name_char(name[i]) && !inner_slash)
            return false;
    }
    return true;
}

static int create_from_fd(int fd, struct weir_zone **ret_zone)
{
    struct stat status;
    if (fstat(fd, &status) != 0)
        return WEIR_EIO;
    if (!S_ISREG(status.st_mode))
        return WEIR_EINVAL; /* "Europe" */
    uint8_t *bytes = malloc(WEIR_ZONE_FILE_MAX + 1);
    if (!bytes)
        return WEIR_ENOMEM;
    ssize_t size = weir_whole_read(fd, bytes, WEIR_ZONE_FILE_MAX + 1);
    int error = size < 0 ? WEIR_EIO : weir_zone_tzif_parse(bytes, (size_t)size, ret_zone);
    free(bytes);
    return error;
}

static int create_utc(struct weir_zone **ret_zone)
{
    struct weir_zone *zone = calloc(1, sizeof(*zone));
    if (!zone)
        return WEIR_ENOMEM;
    *ret_zone = zone;
    return 0;
}

int weir_zone_create(const char *name, struct weir_zone **ret_zone)
{
    if (!name || strcmp(name, "UTC") == 0)
        return create_utc(ret_zone);
    if (!is_name(name))
        return WEIR_EINVAL;
    char path[sizeof(ZONEINFO) + WEIR_ZONE_NAME_MAX] = ZONEINFO;
    memcpy(path + strlen(path), name, strlen(name) + 1); /* fits: is_name bounds it */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (fd < 0)
        return errno == ENOENT || errno == ENOTDIR ? WEIR_EINVAL : WEIR_EIO;
    int error = create_from_fd(fd, ret_zone);
    close(fd);
    return error;
}

int weir_zone_create_from(const void *tzif, size_t size, struct weir_zone **ret_zone)
{
    return weir_zone_tzif_parse(tzif, size, ret_zone);
}

void weir_zone_destroy(struct weir_zone *zone)
{
    free(zone);
}

uint64_t weir_zone_back_ns(const struct weir_zone *zone)
{
    int32_t most_s = 0, before_s = zone ? zone->first_offset_s : 0;
    for (size_t i = 0; zone && i < zone->count; i++) {
        const struct weir_zone_change *change = &zone->changes[i];
        if (change->at_s >= YEAR_2000_S && before_s - change->offset_s > most_s)
            most_s = before_s - change->offset_s;
        before_s = change->offset_s;
    }
    return (uint64_t)most_s * WEIR_NS_PER_SECOND;
}

/* How many changes lie at or before the instant. */
static size_t changes_until(const struct weir_zone *zone, int64_t utc_s)
{
    size_t low = 0;
    size_t high = zone->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (zone->changes[middle].at_s <= utc_s)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static int32_t offset_after(const struct weir_zone *zone, size_t changes)
{
    return changes == 0 ? zone->first_offset_s : zone->changes[changes - 1].offset_s;
}

int32_t weir_zone_offset_s(const struct weir_zone *zone, int64_t utc_s)
{
    return zone ? offset_after(zone, changes_until(zone, utc_s)) : 0;
}

int64_t weir_zone_first_s(const struct weir_zone *zone, int64_t local_s)
{
    weir_assert(local_s > -TIME_LIMIT_S && local_s < TIME_LIMIT_S);
    if (!zone)
        return local_s;
    /* Offsets are smaller than the maximum, so before this instant the wall shows less than local_s. */
    int64_t from_s = local_s - WEIR_ZONE_OFFSET_MAX_S;
    size_t i = changes_until(zone, from_s);
    for (;; i++) {
        /* Between two changes the wall goes evenly: it reaches local_s there, or has passed it at the start. */
        int64_t reached_s = local_s - offset_after(zone, i);
        if (i > 0 && reached_s < zone->changes[i - 1].at_s)
            reached_s = zone->changes[i - 1].at_s;
        if (i == zone->count || reached_s < zone->changes[i].at_s)
            return reached_s;
    }
}
