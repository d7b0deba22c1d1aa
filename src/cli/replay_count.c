/* SPDX-License-Identifier: Apache-2.0
 *
 * Counts by key, route and minute, each in a table with a bound; what finds no place is counted as such. And the time:
 * a line that goes back is decided at the highest time so far. Which lines are refused is decided in replay_set.c, and
 * the tables are shown by replay_print.c, replay_json.c and replay_plot.c. */
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/checked.h"
#include "cli/replay.h"

#define ROUTE_PLACES ((size_t)2 * WEIR_REPLAY_ROUTES_MAX)
#define KEY_ROOM_FIRST 1024
#define MINUTE_NS (60 * WEIR_NS_PER_SECOND)

bool weir_replay_counts_init(struct weir_replay_counts *counts)
{
    *counts = (struct weir_replay_counts){ .lines = 0 };
    counts->routes = calloc(ROUTE_PLACES + 1, sizeof(counts->routes[0]));
    counts->keys.room = KEY_ROOM_FIRST;
    counts->keys.list = calloc(counts->keys.room, sizeof(counts->keys.list[0]));
    bool good = counts->routes && counts->keys.list &&
                getrandom(&counts->secret, sizeof(counts->secret), 0) == (ssize_t)sizeof(counts->secret);
    if (good)
        memcpy(counts->routes[ROUTE_PLACES].pattern, "(others)", 9);
    else
        weir_replay_counts_deinit(counts);
    return good;
}

void weir_replay_counts_deinit(struct weir_replay_counts *counts)
{
    free(counts->routes);
    free(counts->keys.list);
    free(counts->minutes);
    *counts = (struct weir_replay_counts){ .lines = 0 };
}

uint64_t weir_replay_counts_time(struct weir_replay_counts *counts, const struct weir_replay_read *read)
{
    uint64_t time_ns = read->line->time_ns;
    counts->fraction = counts->fraction || read->line->fraction;
    if (counts->lines++ == 0)
        counts->first_ns = counts->last_ns = time_ns;
    if (time_ns < counts->last_ns) {
        uint64_t back_ns = counts->last_ns - time_ns;
        counts->went_back++;
        if (back_ns > counts->back_max_ns) {
            counts->back_max_ns = back_ns;
            counts->back_file = read->file;
            counts->back_number = read->number;
            counts->ahead_file = counts->last_file;
            counts->ahead_number = counts->last_number;
        }
        return counts->last_ns;
    }
    counts->last_ns = time_ns;
    counts->last_file = read->file;
    counts->last_number = read->number;
    return time_ns;
}

/* ---- routes ---- */

/* How much of the path names the route: whole segments, `depth` of them. */
static size_t route_size(const char *path, size_t size, unsigned depth, bool *ret_below)
{
    size_t at = 0;
    *ret_below = false;
    for (unsigned i = 0; i < depth; i++) {
        const char *slash = at + 1 < size ? memchr(path + at + 1, '/', size - at - 1) : NULL;
        if (!slash)
            return size;
        at = (size_t)(slash - path);
    }
    *ret_below = true;
    return at + 1;
}

/* What a rule's match can say in quotes, and a terminal shows as it is. */
static bool is_plain(const char *text, size_t size)
{
    for (size_t i = 0; i < size; i++)
        if (text[i] <= ' ' || text[i] > '~' || text[i] == '*' || text[i] == '"' || text[i] == '\\')
            return false;
    return true;
}

struct weir_replay_route *weir_replay_route_find(struct weir_replay_counts *counts, struct weir_slice path,
                                                 unsigned depth)
{
    struct weir_replay_route *others = &counts->routes[ROUTE_PLACES];
    bool below = false;
    size_t size = route_size(path.data, path.size, depth, &below);
    if (size + 2 > WEIR_REPLAY_ROUTE_TEXT || !is_plain(path.data, size))
        return others;
    uint64_t hash = weir_siphash(&counts->secret, path.data, size) * 2 + below;
    hash += hash == 0 ? 2 : 0;
    for (size_t at = hash / 2 % ROUTE_PLACES;; at = (at + 1) % ROUTE_PLACES) {
        struct weir_replay_route *route = &counts->routes[at];
        if (route->hash == hash)
            return route;
        if (route->hash)
            continue;
        if (counts->routes_count == WEIR_REPLAY_ROUTES_MAX)
            return others;
        counts->routes_count++;
        route->hash = hash;
        memcpy(route->pattern, path.data, size);
        memcpy(route->pattern + size, "*", below);
        return route;
    }
}

/* ---- minutes ---- */

struct weir_replay_minute *weir_replay_minute_find(struct weir_replay_counts *counts, uint64_t now_ns)
{
    uint64_t number = now_ns / MINUTE_NS - counts->first_ns / MINUTE_NS;
    if (number >= WEIR_REPLAY_MINUTES_MAX) {
        counts->minutes_dropped++;
        return NULL;
    }
    if (number >= counts->minutes_room) {
        size_t room = (size_t)weir_min_u64(weir_max_u64(2 * number, 1440), WEIR_REPLAY_MINUTES_MAX);
        room = room > number ? room : number + 1;
        struct weir_replay_minute *minutes = realloc(counts->minutes, room * sizeof(minutes[0]));
        if (!minutes) {
            counts->minutes_dropped++;
            return NULL;
        }
        memset(minutes + counts->minutes_room, 0, (room - counts->minutes_room) * sizeof(minutes[0]));
        counts->minutes = minutes;
        counts->minutes_room = room;
    }
    counts->minutes_count = number + 1 > counts->minutes_count ? number + 1 : counts->minutes_count;
    return &counts->minutes[number];
}

/* ---- keys ---- */

struct weir_slice weir_replay_value(struct weir_slice value, unsigned prefix, char buffer[WEIR_LITERAL_TEXT_MAX])
{
    struct weir_literal literal;
    if (!value.data || !memchr(value.data, ':', value.size) || !weir_literal_parse(value, &literal))
        return value;
    if (!literal.six || prefix >= 128) {
        memcpy(buffer, literal.text, sizeof(literal.text));
        return (struct weir_slice){ buffer, strlen(buffer) };
    }
    return (struct weir_slice){ buffer, weir_literal_cut(&literal, prefix, buffer) };
}

/* The place of a key; NULL: there is none. */
static struct weir_replay_key *key_place(const struct weir_replay_keys *keys, uint64_t hash)
{
    size_t at = hash & (keys->room - 1);
    while (keys->list[at].hash && keys->list[at].hash != hash)
        at = (at + 1) & (keys->room - 1);
    return &keys->list[at];
}

static bool keys_grow(struct weir_replay_keys *keys)
{
    struct weir_replay_keys wider = { .room = 2 * keys->room, .count = keys->count, .dropped = keys->dropped };
    wider.list = calloc(wider.room, sizeof(wider.list[0]));
    if (!wider.list)
        return false;
    for (size_t i = 0; i < keys->room; i++)
        if (keys->list[i].hash)
            *key_place(&wider, keys->list[i].hash) = keys->list[i];
    free(keys->list);
    *keys = wider;
    return true;
}

/* "user=ada ip=192.0.2.1", or what is missing; with the limit's name before it for the hash. */
static void key_write(const struct weir_config_limit *limit, const struct weir_replay_names *names,
                      const struct weir_access_line *line, struct weir_text *text)
{
    char cut[WEIR_LITERAL_TEXT_MAX];
    for (size_t i = 0; i < limit->key_count; i++) {
        size_t number = 0;
        while (number < names->count && strcmp(names->list[number], limit->key[i]) != 0)
            number++;
        struct weir_slice value = number < names->count ? line->values[number] : (struct weir_slice){ NULL, 0 };
        value = weir_replay_value(value, limit->ipv6_prefix, cut);
        weir_text_str(text, i ? " " : "");
        weir_text_str(text, value.data ? "" : "without ");
        weir_text_str(text, limit->key[i]);
        if (!value.data)
            continue;
        weir_text_str(text, "=");
        weir_text_slice(text, value);
    }
    if (limit->key_count == 0)
        weir_text_str(text, "(all)");
}

static void key_count(struct weir_replay_counts *counts, struct weir_replay_limit *limit, enum weir_replay_side side,
                      const struct weir_text *text)
{
    struct weir_replay_keys *keys = &counts->keys;
    uint64_t hash = weir_siphash_joined(&counts->secret, limit->name, strlen(limit->name) + 1, text->data, text->size);
    hash += hash == 0;
    struct weir_replay_key *key = key_place(keys, hash);
    if (!key->hash) {
        bool full = keys->count == WEIR_REPLAY_KEYS_MAX;
        if (full || (4 * keys->count >= 3 * keys->room && !keys_grow(keys))) {
            keys->dropped++;
            return;
        }
        key = key_place(keys, hash);
        *key = (struct weir_replay_key){ .hash = hash };
        (void)snprintf(key->limit, sizeof(key->limit), "%s", limit->name);
        size_t size = text->size < sizeof(key->text) ? text->size : sizeof(key->text) - 1;
        memcpy(key->text, text->data, size);
        keys->count++;
    }
    limit->keys_refused += key->refused[side] == 0;
    key->refused[side]++;
}

void weir_replay_refusal_count(struct weir_replay_counts *counts, struct weir_replay_set *set,
                               enum weir_replay_side side, const struct weir_replay_names *names,
                               const struct weir_access_line *line)
{
    static const struct weir_config_limit nobody = { .key_count = 0 };
    uint8_t room[WEIR_KEY_BYTES_MAX + WEIR_KEY_VALUES_MAX * (WEIR_ATTRIBUTE_NAME_MAX + 16)];
    for (size_t i = 0; i < set->match.count; i++) {
        if (set->verdicts[i].admitted || set->verdicts[i].shadow)
            continue;
        struct weir_text text = weir_text_init(room, sizeof(room));
        uint32_t index = set->match.rules[i]->index;
        key_write(&set->config->limits[index], names, line, &text);
        key_count(counts, &set->limits[index], side, &text);
    }
    if (set->match.count > 0)
        return;
    struct weir_text text = weir_text_init(room, sizeof(room));
    key_write(&nobody, names, line, &text);
    key_count(counts, &set->limits[set->limits_count], side, &text);
}

/* ---- in order ---- */

static uint64_t most(const uint64_t refused[WEIR_REPLAY_SIDES])
{
    return weir_max_u64(refused[WEIR_REPLAY_NEW], refused[WEIR_REPLAY_BESIDE]);
}

static int by_refused(const uint64_t a[WEIR_REPLAY_SIDES], const uint64_t b[WEIR_REPLAY_SIDES])
{
    if (a[WEIR_REPLAY_NEW] != b[WEIR_REPLAY_NEW])
        return a[WEIR_REPLAY_NEW] > b[WEIR_REPLAY_NEW] ? -1 : 1;
    return (a[WEIR_REPLAY_BESIDE] < b[WEIR_REPLAY_BESIDE]) - (a[WEIR_REPLAY_BESIDE] > b[WEIR_REPLAY_BESIDE]);
}

static int by_keys(const void *a, const void *b)
{
    const struct weir_replay_key *left = *(const struct weir_replay_key *const *)a;
    const struct weir_replay_key *right = *(const struct weir_replay_key *const *)b;
    int order = by_refused(left->refused, right->refused);
    order = order ? order : strcmp(left->limit, right->limit);
    return order ? order : strcmp(left->text, right->text);
}

static int by_routes(const void *a, const void *b)
{
    const struct weir_replay_route *left = *(const struct weir_replay_route *const *)a;
    const struct weir_replay_route *right = *(const struct weir_replay_route *const *)b;
    int order = by_refused(left->refused, right->refused);
    if (!order && left->asked != right->asked)
        order = left->asked > right->asked ? -1 : 1;
    return order ? order : strcmp(left->pattern, right->pattern);
}

static int by_minutes(const void *a, const void *b)
{
    const struct weir_replay_minute *left = *(const struct weir_replay_minute *const *)a;
    const struct weir_replay_minute *right = *(const struct weir_replay_minute *const *)b;
    int order = by_refused(left->refused, right->refused);
    return order ? order : (left > right) - (left < right);
}

const struct weir_replay_key **weir_replay_keys_sorted(const struct weir_replay_counts *counts, size_t *ret_count)
{
    const struct weir_replay_key **list = calloc(counts->keys.count + 1, sizeof(*list));
    *ret_count = 0;
    for (size_t i = 0; i < counts->keys.room && list; i++)
        if (counts->keys.list[i].hash)
            list[(*ret_count)++] = &counts->keys.list[i];
    if (list)
        qsort(list, *ret_count, sizeof(*list), by_keys);
    return list;
}

const struct weir_replay_route **weir_replay_routes_sorted(const struct weir_replay_counts *counts, size_t *ret_count)
{
    const struct weir_replay_route **list = calloc(counts->routes_count + 2, sizeof(*list));
    *ret_count = 0;
    for (size_t i = 0; i <= ROUTE_PLACES && list; i++)
        if (counts->routes[i].asked)
            list[(*ret_count)++] = &counts->routes[i];
    if (list)
        qsort(list, *ret_count, sizeof(*list), by_routes);
    return list;
}

const struct weir_replay_minute **weir_replay_minutes_sorted(const struct weir_replay_counts *counts, size_t *ret_count)
{
    const struct weir_replay_minute **list = calloc(counts->minutes_count + 1, sizeof(*list));
    *ret_count = 0;
    for (size_t i = 0; i < counts->minutes_count && list; i++)
        if (most(counts->minutes[i].refused) > 0)
            list[(*ret_count)++] = &counts->minutes[i];
    if (list)
        qsort(list, *ret_count, sizeof(*list), by_minutes);
    return list;
}
