/* SPDX-License-Identifier: Apache-2.0
 *
 * A ring of rows behind a mutex. Looked at by serve/sampler.c, read by serve/http_hour.c. */
#include "observe/hour.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/assert.h"
#include "base/checked.h"

struct weir_hour {
    pthread_mutex_t lock; /* of `rows` and `newest` */
    uint64_t newest;
    uint64_t began_ns;
    uint64_t looked_ns;
    struct weir_hour_totals before;            /* at the last look */
    struct weir_hour_row rows[WEIR_HOUR_ROWS]; /* number n at n % WEIR_HOUR_ROWS */
};

int weir_hour_create(uint64_t now_ns, struct weir_hour **ret_hour)
{
    struct weir_hour *hour = calloc(1, sizeof(*hour));
    if (!hour)
        return WEIR_ENOMEM;
    pthread_mutex_init(&hour->lock, NULL);
    hour->began_ns = hour->looked_ns = now_ns;
    *ret_hour = hour;
    return 0;
}

void weir_hour_destroy(struct weir_hour *hour)
{
    if (!hour)
        return;
    pthread_mutex_destroy(&hour->lock);
    free(hour);
}

uint64_t weir_hour_process(const struct weir_hour *hour)
{
    return hour->began_ns / 1000; /* 2^53, which every reader of JSON takes, are 285 years */
}

/* What `per_mille` of 1,000 events did not exceed. */
static uint64_t quantile(const uint64_t counts[WEIR_HISTOGRAM_BUCKETS], uint64_t total, uint64_t per_mille)
{
    const uint64_t wanted = total - weir_mul_div(total, 1000 - per_mille, 1000);
    uint64_t seen = counts[0];
    size_t i = 0;
    if (total == 0)
        return 0;
    while (seen < wanted)
        seen += counts[++i];
    return weir_histogram_bound_ns(i);
}

static void add_turns(struct weir_hour_row *row, const uint64_t before[WEIR_HISTOGRAM_BUCKETS],
                      const uint64_t now[WEIR_HISTOGRAM_BUCKETS])
{
    uint64_t counts[WEIR_HISTOGRAM_BUCKETS], total = 0;
    for (size_t i = 0; i < WEIR_HISTOGRAM_BUCKETS; i++)
        total += counts[i] = weir_sub_sat(now[i], before[i]);
    row->p50_ns = quantile(counts, total, 500);
    row->p99_ns = quantile(counts, total, 990);
    row->p999_ns = quantile(counts, total, 999);
}

static uint32_t at_most_u32(uint64_t value)
{
    return (uint32_t)weir_min_u64(value, UINT32_MAX);
}

static void add_counts(struct weir_hour_row *row, const struct weir_hour_totals *before,
                       const struct weir_hour_totals *now)
{
    for (size_t i = 0; i < WEIR_METRICS_VERDICTS; i++)
        row->verdicts[i] = weir_sub_sat(now->verdicts[i], before->verdicts[i]);
    row->requests = weir_sub_sat(now->requests, before->requests);
    row->unmatched = weir_sub_sat(now->unmatched, before->unmatched);
    row->fallbacks = weir_sub_sat(now->fallbacks, before->fallbacks);
    row->connections = now->connections;
    row->keys = now->keys;
    for (size_t i = 0; i < WEIR_HOUR_LIMITS; i++) {
        const struct weir_hour_limit *old = &before->limits[i], *new = &now->limits[i];
        row->limits[i].admitted = at_most_u32(weir_sub_sat(new->admitted, old->admitted));
        row->limits[i].refused = at_most_u32(weir_sub_sat(new->refused, old->refused));
    }
}

bool weir_hour_is_due(const struct weir_hour *hour, uint64_t now_ns)
{
    return now_ns - hour->looked_ns >= WEIR_NS_PER_SECOND / 8 * 7;
}

void weir_hour_look(struct weir_hour *hour, const struct weir_hour_totals *totals, uint64_t now_ns, uint64_t wall_ns)
{
    weir_assert(now_ns >= hour->looked_ns);
    pthread_mutex_lock(&hour->lock);
    struct weir_hour_row *row = &hour->rows[++hour->newest % WEIR_HOUR_ROWS];
    row->number = hour->newest;
    row->wall_ns = wall_ns;
    row->span_ns = weir_max_u64(now_ns - hour->looked_ns, 1);
    add_counts(row, &hour->before, totals);
    add_turns(row, hour->before.turns, totals->turns);
    pthread_mutex_unlock(&hour->lock);
    hour->looked_ns = now_ns;
    hour->before = *totals;
}

size_t weir_hour_read(struct weir_hour *hour, uint64_t after, struct weir_hour_row *ret_rows, size_t room)
{
    size_t count = 0;
    pthread_mutex_lock(&hour->lock);
    const uint64_t oldest = weir_sub_sat(hour->newest, WEIR_HOUR_ROWS);
    for (uint64_t n = weir_max_u64(after, oldest); n < hour->newest && count < room; n++)
        ret_rows[count++] = hour->rows[(n + 1) % WEIR_HOUR_ROWS];
    pthread_mutex_unlock(&hour->lock);
    return count;
}

uint64_t weir_hour_newest(struct weir_hour *hour)
{
    pthread_mutex_lock(&hour->lock);
    const uint64_t newest = hour->newest;
    pthread_mutex_unlock(&hour->lock);
    return newest;
}
