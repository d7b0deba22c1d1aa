/* SPDX-License-Identifier: Apache-2.0
 *
 * The first half of --suggest: of each key on each route its busiest minute and its busiest ten seconds, and from these
 * a rate and a burst that the percentile of keys stays within. What the proposal would refuse is not computed here: it
 * is written as a configuration, by which replay_run.c decides the same lines once more. Windows are those of the
 * clock, so a key's busiest minute may be busier than is seen; the second reading shows what came of it. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/replay.h"

#define ROOM_FIRST 4096
#define PEAK_MAX UINT32_MAX

/* One key on one route. */
struct demand {
    uint64_t hash; /* 0: the place is free */
    uint32_t route;
    uint32_t ten_number, ten_count, ten_most;          /* of ten seconds: since 1970, now, at most */
    uint32_t minute_number, minute_count, minute_most; /* of a minute */
};

struct weir_replay_demands {
    struct demand *list;
    size_t count, room;
    uint64_t dropped;
};

struct weir_replay_demands *weir_replay_demands_create(void)
{
    struct weir_replay_demands *demands = calloc(1, sizeof(*demands));
    if (!demands)
        return NULL;
    demands->room = ROOM_FIRST;
    demands->list = calloc(demands->room, sizeof(demands->list[0]));
    if (demands->list)
        return demands;
    free(demands);
    return NULL;
}

void weir_replay_demands_destroy(struct weir_replay_demands *demands)
{
    if (demands)
        free(demands->list);
    free(demands);
}

static struct demand *place(const struct weir_replay_demands *demands, uint64_t hash)
{
    size_t at = hash & (demands->room - 1);
    while (demands->list[at].hash && demands->list[at].hash != hash)
        at = (at + 1) & (demands->room - 1);
    return &demands->list[at];
}

static bool grow(struct weir_replay_demands *demands)
{
    struct weir_replay_demands wider = *demands;
    wider.room = 2 * demands->room;
    wider.list = calloc(wider.room, sizeof(wider.list[0]));
    if (!wider.list)
        return false;
    for (size_t i = 0; i < demands->room; i++)
        if (demands->list[i].hash)
            *place(&wider, demands->list[i].hash) = demands->list[i];
    free(demands->list);
    *demands = wider;
    return true;
}

/* The key's hash; 0: the request lacks one of its attributes, so the limit would skip it. */
static uint64_t key_hash(const struct weir_replay_plan *plan, const struct weir_replay_names *names,
                         const struct weir_access_line *line, const struct weir_replay_counts *counts, uint32_t route)
{
    struct weir_siphash_state state;
    char cut[WEIR_LITERAL_TEXT_MAX];
    weir_siphash_start(&state, &counts->secret);
    weir_siphash_add(&state, &route, sizeof(route));
    for (size_t i = 0; i < plan->keys_count; i++) {
        size_t number = 0;
        while (number < names->count && strcmp(names->list[number], plan->keys[i]) != 0)
            number++;
        if (number == names->count || !line->values[number].data)
            return 0;
        const struct weir_slice value = weir_replay_value(line->values[number], 64, cut);
        weir_siphash_add(&state, &value.size, sizeof(value.size));
        weir_siphash_add(&state, value.data, value.size);
    }
    uint64_t hash = weir_siphash_end(&state);
    return hash ? hash : 1;
}

static void window_count(uint32_t number, uint32_t *own_number, uint32_t *count, uint32_t *highest)
{
    if (*own_number != number)
        *count = 0;
    *own_number = number;
    *count += *count < PEAK_MAX;
    *highest = *count > *highest ? *count : *highest;
}

void weir_replay_demand_count(struct weir_replay_demands *demands, const struct weir_replay_plan *plan,
                              const struct weir_replay_names *names, const struct weir_access_line *line,
                              const struct weir_replay_counts *counts, const struct weir_replay_route *route,
                              uint64_t now_ns)
{
    uint32_t number = (uint32_t)(route - counts->routes);
    uint64_t hash = key_hash(plan, names, line, counts, number);
    if (!route->hash || !hash)
        return; /* no rule can name the other routes */
    struct demand *demand = place(demands, hash);
    if (!demand->hash) {
        bool full = demands->count == WEIR_REPLAY_DEMANDS_MAX;
        if (full || (4 * demands->count >= 3 * demands->room && !grow(demands))) {
            demands->dropped++;
            return;
        }
        demand = place(demands, hash);
        *demand = (struct demand){ .hash = hash, .route = number };
        demands->count++;
    }
    uint64_t seconds = now_ns / WEIR_NS_PER_SECOND;
    window_count((uint32_t)(seconds / 10), &demand->ten_number, &demand->ten_count, &demand->ten_most);
    window_count((uint32_t)(seconds / 60), &demand->minute_number, &demand->minute_count, &demand->minute_most);
}

/* ---- proposals ---- */

static int by_number(const void *a, const void *b)
{
    uint32_t left = *(const uint32_t *)a, right = *(const uint32_t *)b;
    return (left > right) - (left < right);
}

static int by_asked(const void *a, const void *b)
{
    const struct weir_replay_proposal *left = a, *right = b;
    if (left->asked != right->asked)
        return left->asked > right->asked ? -1 : 1;
    return strcmp(left->pattern, right->pattern);
}

/* The least of the sorted numbers that so many per cent of them do not exceed. */
static uint64_t percentile_of(const uint32_t *sorted, size_t count, double percentile)
{
    size_t rank = (size_t)ceil(percentile / 100 * (double)count);
    return sorted[rank > 0 ? rank - 1 : 0];
}

/* Of the keys of each route, which stand together: begin[r] to begin[r + 1]. */
struct peaks {
    size_t *begin;
    uint32_t *minutes, *tens;
};

static bool peaks_init(struct peaks *peaks, const struct weir_replay_demands *demands, size_t routes)
{
    *peaks = (struct peaks){ calloc(routes + 2, sizeof(peaks->begin[0])),
                             calloc(demands->count + 1, sizeof(peaks->minutes[0])),
                             calloc(demands->count + 1, sizeof(peaks->tens[0])) };
    if (!peaks->begin || !peaks->minutes || !peaks->tens)
        return false;
    for (size_t i = 0; i < demands->room; i++)
        if (demands->list[i].hash)
            peaks->begin[demands->list[i].route + 2]++;
    for (size_t i = 2; i <= routes + 1; i++)
        peaks->begin[i] += peaks->begin[i - 1];
    for (size_t i = 0; i < demands->room; i++) {
        const struct demand *demand = &demands->list[i];
        if (!demand->hash)
            continue;
        size_t at = peaks->begin[demand->route + 1]++;
        peaks->minutes[at] = demand->minute_most;
        peaks->tens[at] = demand->ten_most;
    }
    return true;
}

static void peaks_deinit(struct peaks *peaks)
{
    free(peaks->begin);
    free(peaks->minutes);
    free(peaks->tens);
}

static void propose(struct peaks *peaks, size_t route, double percentile, struct weir_replay_proposal *ret_proposal)
{
    size_t count = peaks->begin[route + 1] - peaks->begin[route];
    uint32_t *minutes = peaks->minutes + peaks->begin[route], *tens = peaks->tens + peaks->begin[route];
    qsort(minutes, count, sizeof(minutes[0]), by_number);
    qsort(tens, count, sizeof(tens[0]), by_number);
    ret_proposal->keys = count;
    ret_proposal->median = percentile_of(minutes, count, 50);
    ret_proposal->high = percentile_of(minutes, count, percentile);
    ret_proposal->most = minutes[count - 1];
    ret_proposal->rate = ret_proposal->high;
    ret_proposal->burst = percentile_of(tens, count, percentile);
}

/* ---- the configuration ---- */

static void name_make(struct weir_replay_advice *advice, size_t index)
{
    struct weir_replay_proposal *proposal = &advice->list[index];
    char safe[WEIR_REPLAY_ROUTE_TEXT];
    size_t size = strcspn(proposal->pattern, "*");
    for (size_t i = 0; i < size; i++) {
        char byte = proposal->pattern[i];
        bool letter = (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') || (byte >= '0' && byte <= '9');
        safe[i] = letter || strchr("._:/@-", byte) ? byte : '-';
    }
    safe[size] = '\0';
    (void)snprintf(proposal->name, sizeof(proposal->name), "route-%zu:%s", index + 1, safe);
}

static bool yaml_write(struct weir_replay_advice *advice, const struct weir_replay_plan *plan)
{
    FILE *out = open_memstream(&advice->yaml, &advice->yaml_size);
    if (!out)
        return false;
    fputs(advice->count ? "limits:\n" : "limits: []\n", out);
    for (size_t i = 0; i < advice->count; i++) {
        const struct weir_replay_proposal *proposal = &advice->list[i];
        fprintf(out, "  - name: %s\n    match: { route: \"%s\" }\n    key: [", proposal->name, proposal->pattern);
        for (size_t j = 0; j < plan->keys_count; j++)
            fprintf(out, "%s\"%s\"", j ? ", " : "", plan->keys[j]);
        fprintf(out, "]\n    rate: %" PRIu64 "/min\n    burst: %" PRIu64 "\n", proposal->rate, proposal->burst);
    }
    bool bad = ferror(out) != 0;
    return fclose(out) == 0 && !bad;
}

bool weir_replay_advise(const struct weir_replay_demands *demands, const struct weir_replay_plan *plan,
                        const struct weir_replay_counts *counts, struct weir_replay_advice *ret_advice)
{
    const size_t places = (size_t)2 * WEIR_REPLAY_ROUTES_MAX;
    struct peaks peaks;
    *ret_advice = (struct weir_replay_advice){ .dropped = demands->dropped };
    bool good = peaks_init(&peaks, demands, places);
    ret_advice->list = good ? calloc(counts->routes_count + 1, sizeof(ret_advice->list[0])) : NULL;
    for (size_t i = 0; i < places && ret_advice->list; i++) {
        if (peaks.begin[i + 1] == peaks.begin[i])
            continue;
        struct weir_replay_proposal *proposal = &ret_advice->list[ret_advice->count++];
        proposal->pattern = counts->routes[i].pattern;
        proposal->asked = counts->routes[i].asked;
        propose(&peaks, i, plan->percentile, proposal);
    }
    if (ret_advice->list)
        qsort(ret_advice->list, ret_advice->count, sizeof(ret_advice->list[0]), by_asked);
    for (size_t i = 0; i < ret_advice->count; i++)
        name_make(ret_advice, i);
    peaks_deinit(&peaks);
    good = ret_advice->list && yaml_write(ret_advice, plan);
    if (!good)
        weir_replay_advice_deinit(ret_advice);
    return good;
}

void weir_replay_advice_deinit(struct weir_replay_advice *advice)
{
    free(advice->list);
    free(advice->yaml);
    *advice = (struct weir_replay_advice){ 0 };
}
