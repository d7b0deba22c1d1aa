/* SPDX-License-Identifier: Apache-2.0 */
#include "exact.h"

#include <string.h>

#include "base/assert.h"

static bool is_bucket(const struct exact *e)
{
    return e->spec.algorithm == WEIR_TOKEN_BUCKET || e->spec.algorithm == WEIR_LEAKY_BUCKET;
}

static wide wide_max(wide a, wide b)
{
    return a > b ? a : b;
}

static uint64_t clamp(wide value, uint64_t max)
{
    return value <= 0 ? 0 : value > (wide)max ? max : (uint64_t)value;
}

void exact_init(struct exact *e, const struct weir_limit_spec *spec, uint64_t tick_ns, struct exact_hit *hits,
                size_t room)
{
    *e = (struct exact){ .spec = *spec, .tick_ns = tick_ns, .hits = hits, .room = room };
    e->capacity = spec->count > 0 && spec->burst > 0 ? spec->burst : spec->count;
}

/* ---- buckets: units that fit into what is full at `tight` or `loose` ---- */

static uint64_t bucket_most(const struct exact *e, uint64_t now_ns)
{
    wide n = e->spec.count, p = e->spec.period_ns;
    wide ahead = wide_max(0, e->tight - (wide)now_ns * n);
    return clamp(((wide)e->capacity * p - ahead) / p, e->capacity);
}

static uint64_t bucket_least(const struct exact *e, uint64_t now_ns)
{
    wide n = (wide)e->spec.count * 1000, p = (wide)e->spec.period_ns * 1001;
    wide ahead = wide_max(0, e->loose - ((wide)now_ns - e->tick_ns) * n);
    return clamp(((wide)e->capacity * p - ahead) / p, e->capacity);
}

static void bucket_add(struct exact *e, uint64_t now_ns, wide units)
{
    wide n = e->spec.count, p = e->spec.period_ns;
    e->newest_ns = now_ns > e->newest_ns ? now_ns : e->newest_ns;
    e->tight = wide_max(e->tight, (wide)now_ns * n) + units * p;
    e->loose = wide_max(e->loose, (wide)now_ns * n * 1000) + units * p * 1001;
}

/* ---- windows: hits in a stretch of time ---- */

/* Hits at or after an instant: those a stale clock cannot know of count too. */
static wide hits_since(const struct exact *e, wide from_ns)
{
    wide units = 0;
    for (size_t i = e->used; i > 0 && (wide)e->hits[i - 1].at_ns >= from_ns; i--) {
        units += e->hits[i - 1].units;
    }
    return units;
}

/* In whole ticks: where these are longer than 1 ns, a window is longer by up to two. */
static wide counter_used(const struct exact *e, wide now_ns, wide slack_ns)
{
    wide tick = e->tick_ns > 0 ? e->tick_ns : 1;
    wide p = (e->spec.period_ns + tick - 1) / tick * tick + e->tick_ns;
    now_ns = now_ns / tick * tick;
    wide start = wide_max(now_ns, e->newest_ns) / p * p;
    wide current = hits_since(e, start);
    wide previous = hits_since(e, start - p) - current;
    wide left = start + p - wide_max(now_ns, start);
    left = left + slack_ns < p ? left + slack_ns : p;
    return previous * left / p + current;
}

static uint64_t newest_hit(const struct exact *e)
{
    return e->used > 0 ? e->hits[e->used - 1].at_ns : 0;
}

/* `longer`: with every length of time stretched as far as the core may. */
static uint64_t window_left(const struct exact *e, wide now_ns, const struct reference_window *window, bool longer)
{
    wide p = e->spec.period_ns;
    wide slack_ns = longer ? 2 * (wide)e->tick_ns : 0;
    wide used = 0;
    switch (e->spec.algorithm) {
    case WEIR_FIXED_WINDOW:
        if (e->spec.align == WEIR_ALIGN_CALENDAR) {
            used = hits_since(e, wide_max((wide)window->start_ns - slack_ns, e->start_ns));
        } else if (now_ns < e->start_ns + p + slack_ns) {
            used = hits_since(e, e->start_ns);
        }
        break;
    case WEIR_SLIDING_LOG:
        used = hits_since(e, wide_max(now_ns, longer ? newest_hit(e) : e->newest_ns) - p - slack_ns + 1);
        break;
    case WEIR_SLIDING_COUNTER:
        used = counter_used(e, now_ns, slack_ns);
        break;
    case WEIR_TOKEN_BUCKET:
    case WEIR_LEAKY_BUCKET:
    case WEIR_CONCURRENCY: /* test_permits.c */
        weir_assert(false);
    }
    return clamp((wide)e->capacity - used, e->capacity);
}

uint64_t exact_most(const struct exact *e, uint64_t now_ns, const struct reference_window *window)
{
    if (e->spec.count == 0) {
        return 0;
    }
    return is_bucket(e) ? bucket_most(e, now_ns) : window_left(e, now_ns, window, false);
}

uint64_t exact_least(const struct exact *e, uint64_t now_ns, const struct reference_window *window)
{
    if (e->spec.count == 0) {
        return 0;
    }
    return is_bucket(e) ? bucket_least(e, now_ns) : window_left(e, now_ns, window, true);
}

/* Half of the hits go when the room is full: the oldest, which no window reaches any more. */
static void append(struct exact *e, uint64_t at_ns, uint64_t units)
{
    if (e->used == e->room) {
        e->used = e->room / 2;
        memmove(e->hits, e->hits + e->room - e->used, e->used * sizeof(*e->hits));
    }
    e->hits[e->used++] = (struct exact_hit){ at_ns, units };
}

void exact_charge(struct exact *e, uint64_t now_ns, const struct reference_window *window, uint64_t units)
{
    if (units == 0) {
        return;
    }
    if (is_bucket(e)) {
        bucket_add(e, now_ns, units);
        return;
    }
    if (e->spec.align == WEIR_ALIGN_CALENDAR) {
        e->start_ns = window->start_ns > e->start_ns ? window->start_ns : e->start_ns;
    } else if (hits_since(e, e->start_ns) == 0 || (wide)now_ns >= (wide)e->start_ns + e->spec.period_ns) {
        e->start_ns = now_ns;
    }
    e->newest_ns = now_ns > e->newest_ns ? now_ns : e->newest_ns;
    bool log = e->spec.algorithm == WEIR_SLIDING_LOG; /* a stale hit is taken for as new as the newest */
    append(e, !log ? e->newest_ns : now_ns > newest_hit(e) ? now_ns : newest_hit(e), units);
}

void exact_drain(struct exact *e, uint64_t now_ns, const struct reference_window *window, uint64_t cost, uint64_t units)
{
    if (!is_bucket(e)) {
        exact_charge(e, now_ns, window, units);
        return;
    }
    wide tight_empty = (wide)now_ns * e->spec.count + (wide)e->capacity * e->spec.period_ns;
    wide loose_empty = (wide)now_ns * e->spec.count * 1000 + (wide)e->capacity * e->spec.period_ns * 1001;
    wide tight = e->tight, loose = e->loose;
    bucket_add(e, now_ns, cost);
    e->tight = e->tight < tight_empty ? e->tight : wide_max(tight, tight_empty);
    e->loose = e->loose < loose_empty ? e->loose : wide_max(loose, loose_empty);
}

static void remove_newest(struct exact *e, uint64_t units)
{
    while (units > 0 && e->used > 0) {
        struct exact_hit *last = &e->hits[e->used - 1];
        uint64_t given = units < last->units ? units : last->units;
        last->units -= given;
        units -= given;
        e->used -= last->units == 0;
    }
}

/* A counter's units of the window before count in part: the fewest hits are removed that give so many units back. */
static void refund_counter(struct exact *e, uint64_t now_ns, uint64_t units)
{
    wide wanted = counter_used(e, now_ns, 0) - units;
    while (e->used > 0 && counter_used(e, now_ns, 0) > wanted) {
        struct exact_hit *last = &e->hits[e->used - 1];
        uint64_t enough = last->units, none = 0;
        e->used--;
        if (counter_used(e, now_ns, 0) > wanted) {
            continue;
        }
        e->used++;
        while (enough - none > 1) {
            uint64_t middle = none + (enough - none) / 2;
            last->units -= middle;
            *(counter_used(e, now_ns, 0) <= wanted ? &enough : &none) = middle;
            last->units += middle;
        }
        remove_newest(e, enough);
    }
}

void exact_refund(struct exact *e, uint64_t now_ns, uint64_t units)
{
    wide n = e->spec.count, p = e->spec.period_ns;
    if (units == 0) {
        return;
    }
    if (is_bucket(e)) {
        e->tight = wide_max(e->tight - units * p, (wide)now_ns * n);
        e->loose = wide_max(e->loose - units * p * 1001, (wide)now_ns * n * 1000);
        return;
    }
    e->newest_ns = now_ns > e->newest_ns ? now_ns : e->newest_ns;
    if (e->spec.algorithm == WEIR_SLIDING_COUNTER) {
        refund_counter(e, now_ns, units);
    } else {
        remove_newest(e, units);
    }
}

void exact_restart(struct exact *e, uint64_t now_ns, const struct reference_window *window, uint64_t units)
{
    e->used = 0;
    e->newest_ns = e->start_ns = 0;
    e->tight = (wide)now_ns * e->spec.count;
    e->loose = e->tight * 1000;
    exact_charge(e, now_ns, window, units);
}

void exact_reload(struct exact *e, const struct weir_limit_spec *spec, uint64_t tick_ns, uint64_t now_ns,
                  const struct reference_window *window, uint64_t used, uint64_t units)
{
    struct exact old = *e;
    exact_init(e, spec, tick_ns, old.hits, old.room);
    if (is_bucket(e)) {
        exact_restart(e, now_ns, window, units);
        /* A started unit is carried as the part that it is. */
        e->tight -= units > 0 ? (wide)spec->period_ns : 0;
    } else if (spec->period_ns != old.spec.period_ns || spec->align != old.spec.align ||
               (spec->algorithm == WEIR_FIXED_WINDOW && spec->align == WEIR_ALIGN_CALENDAR)) {
        exact_restart(e, now_ns, window, units);
    } else {
        /* The same windows: what lies in them stays, the difference comes now or is taken from the newest. */
        e->start_ns = old.start_ns;
        e->newest_ns = old.newest_ns;
        e->used = old.used;
        if (units > used) {
            exact_charge(e, now_ns, window, units - used);
        } else {
            exact_refund(e, now_ns, used - units);
        }
    }
}
