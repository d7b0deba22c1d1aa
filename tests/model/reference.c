/* SPDX-License-Identifier: Apache-2.0 */
#include "reference.h"

#include <string.h>

#include "base/assert.h"

#define SPAN_MAX ((wide)1 << 56) /* ticks: the longest time to fill that the core keeps */
#define HOUR ((wide)3600 * WEIR_NS_PER_SECOND)
#define DEBT_MAX ((wide)1 << 57)          /* ticks: what a lowered limit remembers of units used before, at most */
#define UNITS_MAX ((wide)UINT64_MAX)      /* the same in units, in windows */
#define COUNTER_UNITS_MAX ((wide)1 << 62) /* and in a window of a sliding counter, which is kept with the one before */

static wide ceil_div(wide a, wide b)
{
    return (a + b - 1) / b;
}

static wide tick_at(const struct reference *r, wide ns)
{
    return r->shift >= 0 ? ns << r->shift : ns >> -r->shift;
}

/* A length of time, rounded up. */
static wide ticks_of(const struct reference *r, wide ns)
{
    return r->shift >= 0 ? ns << r->shift : ceil_div(ns, (wide)1 << -r->shift);
}

static bool is_bucket(const struct reference *r)
{
    return r->spec.algorithm == WEIR_TOKEN_BUCKET || r->spec.algorithm == WEIR_LEAKY_BUCKET;
}

static bool on_calendar(const struct reference *r)
{
    return r->spec.algorithm == WEIR_FIXED_WINDOW && r->spec.align == WEIR_ALIGN_CALENDAR;
}

/* semantics.md, "Arithmetic": the coarsest tick of at most 1 ns with which a unit takes 1000 ticks; a coarser one only
 * where the time to fill would not fit, and then one more for a unit, because times are rounded down to ticks. */
static void init_grid(struct reference *r)
{
    wide n = r->spec.count, p = r->spec.period_ns;
    r->shift = 0;
    if (is_bucket(r) && n == 0) { /* a rate of 0 forgets what was used before slowly: a unit in 1 hour to 366 days */
        n = 1;
        p = p < HOUR ? HOUR : p > WEIR_EMISSION_MAX_NS ? WEIR_EMISSION_MAX_NS : p;
        r->shift = -6;
    }
    while (is_bucket(r) && r->shift >= 0 && r->shift < 10 && (p << r->shift) < n * 1000) {
        r->shift++;
    }
    for (;; r->shift--) {
        wide exact_period = r->shift >= 0 ? p << r->shift : p;
        wide units = r->shift >= 0 ? n : n << -r->shift;
        r->emission = is_bucket(r) ? ceil_div(exact_period, units) + (r->shift < 0) : 1;
        r->span = is_bucket(r) ? r->emission * (wide)r->capacity : ticks_of(r, p) + (r->shift < 0);
        if (r->span <= SPAN_MAX) {
            return;
        }
    }
}

void reference_init(struct reference *r, const struct weir_limit_spec *spec, uint64_t skew_max_ns, wide *hits)
{
    *r = (struct reference){ .spec = *spec, .hits = hits };
    r->capacity = spec->count > 0 && spec->burst > 0 ? spec->burst : spec->count;
    init_grid(r);
    r->skew_max_ns = skew_max_ns;
    r->skew = ticks_of(r, skew_max_ns);
    r->level = r->span;
}

/* ---- what can be had at a time, if nothing happens until then ---- */

static wide level_at(const struct reference *r, wide now_ns)
{
    wide level = r->level + tick_at(r, now_ns) - r->level_at;
    return level < r->span ? level : r->span;
}

/* A time before the current window sees it at its start. */
static wide counter_units(const struct reference *r, wide now)
{
    if (now >= r->end + r->span) {
        return 0;
    }
    bool in_next = now >= r->end;
    wide previous = in_next ? r->count : r->previous;
    wide left = (in_next ? r->end + r->span : r->end) - now;
    left = left < r->span ? left : r->span;
    return previous * left / r->span + (in_next ? 0 : r->count);
}

/* The times of a log never go back: a stale time is taken for the newest. */
static wide log_units(const struct reference *r, wide now_ns)
{
    wide units = 0;
    wide newest = r->used > 0 ? r->hits[r->used - 1] : 0;
    wide at = now_ns > newest ? now_ns : newest;
    for (size_t i = r->used; i > 0 && r->hits[i - 1] > at - (wide)r->spec.period_ns; i--) {
        units++;
    }
    return units;
}

static bool fixed_is_open(const struct reference *r, wide now_ns)
{
    if (on_calendar(r) && r->window_id <= r->asked.id) {
        return r->window_id == r->asked.id && now_ns < r->asked.end_ns;
    }
    return (on_calendar(r) || r->count > 0) && tick_at(r, now_ns) < r->end;
}

static wide window_units(const struct reference *r, wide now_ns)
{
    switch (r->spec.algorithm) {
    case WEIR_FIXED_WINDOW:
        return fixed_is_open(r, now_ns) ? r->count : 0;
    case WEIR_SLIDING_COUNTER:
        return counter_units(r, tick_at(r, now_ns));
    case WEIR_SLIDING_LOG:
        return log_units(r, now_ns);
    case WEIR_TOKEN_BUCKET:
    case WEIR_LEAKY_BUCKET:
    case WEIR_CONCURRENCY: /* test_permits.c */
        break;
    }
    weir_assert(false);
    return 0;
}

uint64_t reference_remaining(const struct reference *r, wide now_ns)
{
    if (is_bucket(r)) {
        wide level = level_at(r, now_ns);
        return level > 0 ? (uint64_t)(level / r->emission) : 0;
    }
    wide units = window_units(r, now_ns);
    return units < (wide)r->capacity ? (uint64_t)((wide)r->capacity - units) : 0;
}

uint64_t reference_used(const struct reference *r, wide now_ns)
{
    return is_bucket(r) ? (uint64_t)ceil_div(r->span - level_at(r, now_ns), r->emission)
                        : (uint64_t)window_units(r, now_ns);
}

bool reference_is_fresh(const struct reference *r, wide now_ns)
{
    if (is_bucket(r)) {
        return level_at(r, now_ns) == r->span;
    }
    return window_units(r, now_ns) == 0;
}

/* ---- the verdict ---- */

static bool can_take(const struct reference *r, wide now_ns, uint64_t cost)
{
    return is_bucket(r) ? level_at(r, now_ns) >= (wide)cost * r->emission : reference_remaining(r, now_ns) >= cost;
}

static bool is_fresh(const struct reference *r, wide now_ns, uint64_t unused)
{
    (void)unused;
    return reference_is_fresh(r, now_ns);
}

/* The smallest wait after which `holds` does; it must, some day, and go on to. */
static uint64_t smallest_wait(const struct reference *r, uint64_t now_ns,
                              bool (*holds)(const struct reference *, wide, uint64_t), uint64_t units)
{
    if (holds(r, now_ns, units)) {
        return 0;
    }
    wide no = 0, yes = 1;
    while (!holds(r, now_ns + yes, units)) {
        no = yes;
        yes *= 2;
        weir_assert(yes < (wide)1 << 80);
    }
    while (yes - no > 1) {
        wide middle = no + (yes - no) / 2;
        *(holds(r, now_ns + middle, units) ? &yes : &no) = middle;
    }
    return (uint64_t)yes;
}

struct weir_verdict reference_judge(const struct reference *r, uint64_t now_ns, uint64_t cost)
{
    struct weir_verdict v = { .capacity = r->capacity };
    v.remaining = reference_remaining(r, now_ns);
    v.admitted = cost <= v.remaining;
    v.reset_after_ns = smallest_wait(r, now_ns, is_fresh, 0);
    v.next_after_ns = v.remaining == v.capacity ? 0 : smallest_wait(r, now_ns, can_take, v.remaining + 1);
    if (cost > r->capacity) {
        v.retry_after_ns = WEIR_NEVER;
    } else if (!v.admitted) {
        v.retry_after_ns = smallest_wait(r, now_ns, can_take, cost);
    }
    if (v.admitted && r->spec.algorithm == WEIR_LEAKY_BUCKET) {
        v.delay_ns = v.reset_after_ns;
    }
    return v;
}

/* ---- what happens ---- */

static wide tick_end(const struct reference *r, uint64_t now_ns)
{
    if (on_calendar(r)) {
        return tick_at(r, now_ns) + ticks_of(r, r->asked.end_ns - now_ns);
    }
    return tick_at(r, now_ns) + r->span;
}

/* Lets the time of a sliding counter's or a fixed window's state move on to now. */
static void enter_window(struct reference *r, uint64_t now_ns)
{
    wide now = tick_at(r, now_ns);
    bool empty = r->count + r->previous == 0;
    if (r->spec.algorithm == WEIR_SLIDING_COUNTER && (now >= r->end || empty)) {
        r->previous = now < r->end + r->span ? r->count : 0;
        r->count = 0;
        r->end = (now / r->span + 1) * r->span;
    }
    if (r->spec.algorithm == WEIR_FIXED_WINDOW) {
        bool open = fixed_is_open(r, now_ns);
        r->count = open ? r->count : 0;
        if (!open || (on_calendar(r) && r->window_id == r->asked.id)) {
            r->end = tick_end(r, now_ns);
            r->window_id = r->asked.id;
        }
    }
}

static void forget_old_hits(struct reference *r, uint64_t now_ns)
{
    size_t kept = (size_t)log_units(r, now_ns);
    memmove(r->hits, r->hits + r->used - kept, kept * sizeof(*r->hits));
    r->used = kept;
}

static void add_hits(struct reference *r, uint64_t now_ns, uint64_t units)
{
    forget_old_hits(r, now_ns);
    wide newest = r->used > 0 && r->hits[r->used - 1] > (wide)now_ns ? r->hits[r->used - 1] : (wide)now_ns;
    for (uint64_t i = 0; i < units; i++) {
        weir_assert(r->used < REFERENCE_HITS_MAX);
        r->hits[r->used++] = newest;
    }
    r->end = tick_at(r, newest) + r->span;
}

void reference_charge(struct reference *r, uint64_t now_ns, uint64_t units)
{
    if (units == 0) {
        return;
    }
    if (is_bucket(r)) {
        r->level = level_at(r, now_ns) - (wide)units * r->emission;
        r->level_at = tick_at(r, now_ns);
    } else if (r->spec.algorithm == WEIR_SLIDING_LOG) {
        add_hits(r, now_ns, units);
    } else {
        enter_window(r, now_ns);
        wide most = r->spec.algorithm == WEIR_SLIDING_COUNTER ? COUNTER_UNITS_MAX : UNITS_MAX;
        r->count = r->count + units < most ? r->count + units : most;
    }
}

/* At most down to empty, a started unit included. */
void reference_drain(struct reference *r, uint64_t now_ns, uint64_t cost)
{
    uint64_t remaining = reference_remaining(r, now_ns);
    if (!is_bucket(r)) {
        reference_charge(r, now_ns, cost < remaining ? cost : remaining);
        return;
    }
    wide level = level_at(r, now_ns);
    if (level > 0) {
        r->level = level - (wide)cost * r->emission;
        r->level = r->level > 0 ? r->level : 0;
        r->level_at = tick_at(r, now_ns);
    }
}

static wide fresh_at(const struct reference *r)
{
    if (is_bucket(r)) {
        return r->level_at + r->span - r->level;
    }
    return r->spec.algorithm == WEIR_SLIDING_COUNTER && r->end > 0 ? r->end + r->span : r->end;
}

void reference_clear(struct reference *r)
{
    r->level = r->span;
    r->level_at = 0;
    r->end = r->count = r->previous = 0;
    r->window_id = 0;
    r->used = 0;
}

bool reference_fresh_for(const struct reference *r, uint64_t now_ns, uint64_t ns)
{
    return fresh_at(r) <= tick_at(r, (wide)now_ns - ns);
}

/* Further ahead than anything honest could have left it. */
static bool has_jumped(const struct reference *r, uint64_t now_ns)
{
    wide reach = r->spec.algorithm == WEIR_SLIDING_COUNTER ? 2 * r->span : r->span;
    if (on_calendar(r)) {
        reach += r->span / 16 + 1; /* the longest real month or day, against the nominal one */
    }
    wide ahead = fresh_at(r) - tick_at(r, now_ns);
    if (ahead <= reach + r->skew) {
        return false;
    }
    wide debt = now_ns < r->debt_until_ns ? (wide)(r->debt_until_ns - now_ns) + r->skew_max_ns : 0;
    return tick_at(r, (wide)now_ns + debt) < fresh_at(r);
}

void reference_settle(struct reference *r, uint64_t now_ns, const struct reference_window *window)
{
    r->asked = *window;
    if (has_jumped(r, now_ns)) {
        reference_clear(r);
        r->level_at = tick_at(r, now_ns); /* empty as of now, also where the capacity is 0 */
        reference_charge(r, now_ns, r->capacity);
    }
}

/* Newest first: the current window's units, then the fewest of the previous one's that make its share fall so far. */
static void take_back_counted(struct reference *r, uint64_t now_ns, wide units)
{
    wide wanted = counter_units(r, tick_at(r, now_ns)) - units;
    enter_window(r, now_ns);
    if (units <= r->count) {
        r->count -= units;
        return;
    }
    r->count = 0;
    wide low = 0, high = r->previous; /* the largest previous with that share */
    while (low < high) {
        r->previous = low + (high - low + 1) / 2;
        if (counter_units(r, tick_at(r, now_ns)) <= wanted) {
            low = r->previous;
        } else {
            high = r->previous - 1;
        }
    }
    r->previous = low;
}

uint64_t reference_refund(struct reference *r, uint64_t now_ns, uint64_t units)
{
    uint64_t used = reference_used(r, now_ns);
    uint64_t given = units < used ? units : used;
    if (given == 0) {
        return 0;
    }
    if (is_bucket(r)) {
        wide level = level_at(r, now_ns) + (wide)given * r->emission;
        r->level = level < r->span ? level : r->span;
        r->level_at = tick_at(r, now_ns);
    } else if (r->spec.algorithm == WEIR_SLIDING_LOG) {
        forget_old_hits(r, now_ns);
        r->used -= given;
        wide newest = r->used > 0 && r->hits[r->used - 1] > (wide)now_ns ? r->hits[r->used - 1] : (wide)now_ns;
        r->end = tick_at(r, newest) + (r->used > 0 ? r->span : 0);
    } else if (r->spec.algorithm == WEIR_SLIDING_COUNTER) {
        take_back_counted(r, now_ns, given);
    } else {
        r->count -= given;
    }
    return given;
}

/* ---- another limit ---- */

/* What is used under the new limit, in parts of a unit: `scale` parts are one, under both. */
static wide carried_parts(const struct reference *from, const struct reference *to, wide used, wide scale)
{
    wide capacity = from->capacity, new_capacity = to->capacity;
    if (to->spec.on_change == WEIR_ON_CHANGE_PROPORTIONAL) {
        return capacity > 0 ? ceil_div(used * new_capacity, capacity) : new_capacity * scale;
    }
    wide remaining = capacity * scale > used ? capacity * scale - used : 0;
    wide to_keep_remaining = new_capacity * scale > remaining ? new_capacity * scale - remaining : 0;
    return used > to_keep_remaining ? used : to_keep_remaining;
}

/* Buckets carry a started unit as the part that it is: parts of 1 / old emission. */
static void convert_bucket(const struct reference *from, struct reference *to, uint64_t now_ns)
{
    wide ahead = from->span - level_at(from, now_ns);
    to->level_at = tick_at(to, now_ns);
    if (to->spec.on_change == WEIR_ON_CHANGE_PROPORTIONAL) {
        to->level = to->span - (from->span > 0 ? ceil_div(ahead * to->span, from->span) : to->span);
    } else {
        to->level = to->span - ceil_div(carried_parts(from, to, ahead, from->emission) * to->emission, from->emission);
    }
    to->level = to->level < to->span - DEBT_MAX ? to->span - DEBT_MAX : to->level;
}

uint64_t reference_convert(struct reference *r, uint64_t now_ns, const struct weir_limit_spec *spec,
                           const struct reference_window *window, uint64_t skew_max_ns, uint64_t debt_until_ns)
{
    struct reference from = *r;
    uint64_t used = reference_used(&from, now_ns);
    if (on_calendar(&from)) { /* its window counts until its end, whatever the new calendar calls it */
        used = tick_at(&from, now_ns) < from.end ? (uint64_t)from.count : 0;
    }
    reference_init(r, spec, skew_max_ns, from.hits);
    r->asked = *window;
    r->debt_until_ns = debt_until_ns;
    if (is_bucket(r)) {
        convert_bucket(&from, r, now_ns);
        return reference_used(r, now_ns);
    }
    wide carried = carried_parts(&from, r, used, 1);
    uint64_t units = (uint64_t)(carried < UNITS_MAX ? carried : UNITS_MAX);
    units = spec->algorithm == WEIR_SLIDING_LOG && units > WEIR_LOG_MAX ? WEIR_LOG_MAX : units;
    if (spec->period_ns != from.spec.period_ns || on_calendar(r) || on_calendar(&from)) {
        reference_charge(r, now_ns, units);
        return units;
    }
    /* The same windows with another number: what lies in them stays. */
    r->end = from.end;
    r->count = from.count;
    r->previous = from.previous;
    r->window_id = from.window_id;
    r->used = from.used;
    if (units > used) {
        reference_charge(r, now_ns, units - used);
    } else {
        reference_refund(r, now_ns, used - units);
    }
    return units;
}
