/* SPDX-License-Identifier: Apache-2.0
 *
 * One key under one limit, in each lane: events in chunks, verdicts out. core/limit decides all of it, called as its
 * header says. Windows of fixed_window are those of the calendar, of exactly a period each: where the run begins, one
 * does. Called by the page; tests/play holds it against the library. */
#include <string.h>

#include "base/checked.h"
#include "core/limit/algorithm.h"
#include "core/limit/limit.h"
#include "play/play.h"
#include "weir/version.h"

#define ROOM 65536 /* of a log: the most that a limit may have */
#define YEARS_40_NS (40 * 365 * 86400 * WEIR_NS_PER_SECOND)

struct lane {
    struct weir_limit limit;
    struct weir_state state;
    uint64_t origin_ns;
    uint64_t times[ROOM];
};

static struct lane lanes[PLAY_LANES];
static struct weir_fault fault;
static double chunk_times[PLAY_CHUNK], chunk_waits[PLAY_CHUNK];
static uint32_t chunk_costs[PLAY_CHUNK], chunk_used[PLAY_CHUNK];
static uint8_t chunk_said[PLAY_CHUNK];
static double looks[PLAY_LOOKS];

/* A state, and the log behind it, oldest first. */
static struct {
    struct weir_state state;
    uint64_t times[ROOM];
} copy;

uint64_t play_origin_ns(uint64_t period_ns)
{
    return (YEARS_40_NS / period_ns + 1) * period_ns;
}

int play_lane_begin(uint32_t lane, uint32_t algorithm, double count, double period_ns, double burst, uint32_t align)
{
    struct lane *self = &lanes[lane % PLAY_LANES];
    struct weir_limit_spec spec = { .algorithm = (enum weir_algorithm)algorithm,
                                    .count = (uint64_t)count,
                                    .period_ns = (uint64_t)period_ns,
                                    .burst = (uint64_t)burst,
                                    .align = (enum weir_align)align };
    int error = weir_limit_init(&self->limit, &spec, 0, &fault);
    if (error != 0)
        return error;
    self->origin_ns = play_origin_ns(spec.period_ns);
    self->state = weir_state_fresh(&self->limit, self->origin_ns);
    self->state.log = (struct weir_log){ .times = self->times, .room = ROOM };
    return 0;
}

static struct weir_event event_at(const struct lane *self, double at_ns, uint64_t cost)
{
    struct weir_event event = { .now_ns = self->origin_ns + (uint64_t)at_ns, .cost = cost };
    if (self->limit.calendar) {
        event.window.id = event.now_ns / self->limit.period_ns;
        event.window.end_after_ns = self->limit.period_ns - event.now_ns % self->limit.period_ns;
    }
    return event;
}

static double ns_of(uint64_t ns)
{
    return ns == WEIR_NEVER ? __builtin_inf() : (double)ns;
}

static void decide(struct lane *self, uint32_t i)
{
    const struct weir_event event = event_at(self, chunk_times[i], chunk_costs[i]);
    struct weir_verdict verdict = { 0 };
    bool admitted = weir_limit_judge(&self->limit, &self->state, &event, &verdict);
    if (admitted)
        weir_limit_charge(&self->limit, &self->state, &event, &verdict);
    else if (weir_limit_jumped(&self->limit, &self->state, event.now_ns))
        weir_limit_settle(&self->limit, &self->state, &event);
    chunk_said[i] = !admitted ? PLAY_REFUSED : verdict.delay_ns > 0 ? PLAY_DELAYED : PLAY_ADMITTED;
    chunk_waits[i] = ns_of(admitted ? verdict.delay_ns : verdict.retry_after_ns);
    chunk_used[i] = (uint32_t)weir_min_u64(verdict.capacity - verdict.remaining, UINT32_MAX);
}

void play_lane_decide(uint32_t lane, uint32_t count)
{
    for (uint32_t i = 0; i < count && i < PLAY_CHUNK; i++)
        decide(&lanes[lane % PLAY_LANES], i);
}

/* Of a log: those of the last period. What has left it is dropped with the next charge. */
static void look_log(const struct lane *self, const struct weir_event *event)
{
    const struct weir_log *log = &self->state.log;
    uint32_t gone = 0;
    while (gone < log->used &&
           log->times[(log->head + gone) & (log->room - 1)] + self->limit.period_ns <= event->now_ns)
        gone++;
    looks[PLAY_LOOK_ENTRIES] = log->used - gone;
    looks[PLAY_LOOK_OLDEST_NS] = gone < log->used
                                     ? (double)(event->now_ns - log->times[(log->head + gone) & (log->room - 1)])
                                     : 0;
}

/* What core keeps of the key: the words of its state that this algorithm uses, and a log as large as it must be, which
 * grows by doubling from 64 bytes (weir/limiter.h). */
static double bytes_of(const struct lane *self)
{
    if (weir_limit_is_bucket(&self->limit))
        return sizeof self->state.fresh_at;
    if (self->limit.algorithm == WEIR_FIXED_WINDOW || self->limit.algorithm == WEIR_SLIDING_COUNTER)
        return 3 * sizeof self->state.count;
    uint32_t room = 8;
    while (room < self->state.log.used)
        room *= 2;
    return sizeof self->state.fresh_at + (double)room * sizeof self->state.log.times[0];
}

const double *play_lane_look(uint32_t lane, double at_ns)
{
    const struct lane *self = &lanes[lane % PLAY_LANES];
    const struct weir_event event = event_at(self, at_ns, 1);
    struct weir_verdict verdict = { 0 };
    bool admitted = weir_limit_judge(&self->limit, &self->state, &event, &verdict);
    memset(looks, 0, sizeof looks);
    looks[PLAY_LOOK_USED] = (double)weir_limit_used(&self->limit, &self->state, &event);
    looks[PLAY_LOOK_CAPACITY] = (double)verdict.capacity;
    looks[PLAY_LOOK_REMAINING] = (double)verdict.remaining;
    looks[PLAY_LOOK_RETRY_NS] = admitted ? 0 : ns_of(verdict.retry_after_ns);
    looks[PLAY_LOOK_DELAY_NS] = ns_of(verdict.delay_ns);
    looks[PLAY_LOOK_RESET_NS] = ns_of(verdict.reset_after_ns);
    looks[PLAY_LOOK_NEXT_NS] = ns_of(verdict.next_after_ns);
    looks[PLAY_LOOK_BYTES] = bytes_of(self);
    if (self->limit.algorithm == WEIR_FIXED_WINDOW) {
        looks[PLAY_LOOK_CURRENT] = looks[PLAY_LOOK_USED];
        looks[PLAY_LOOK_WINDOW_END_NS] = (double)event.window.end_after_ns;
    } else if (self->limit.algorithm == WEIR_SLIDING_COUNTER) {
        const struct weir_counter_window window = weir_counter_window(&self->limit, &self->state, &event);
        looks[PLAY_LOOK_CURRENT] = (double)window.count;
        looks[PLAY_LOOK_WINDOW_END_NS] = (double)window.end_after_ns;
    } else if (self->limit.algorithm == WEIR_SLIDING_LOG) {
        look_log(self, &event);
    }
    return looks;
}

uint32_t play_lane_save(uint32_t lane)
{
    const struct lane *self = &lanes[lane % PLAY_LANES];
    copy.state = self->state;
    weir_log_move(&copy.state.log, copy.times, ROOM);
    return (uint32_t)(offsetof(__typeof__(copy), times) + copy.state.log.used * sizeof copy.times[0]);
}

void play_lane_restore(uint32_t lane)
{
    struct lane *self = &lanes[lane % PLAY_LANES];
    self->state = copy.state;
    self->state.log.times = copy.times;
    weir_log_move(&self->state.log, self->times, ROOM);
}

double *play_times(void)
{
    return chunk_times;
}

uint32_t *play_costs(void)
{
    return chunk_costs;
}

uint8_t *play_said(void)
{
    return chunk_said;
}

double *play_waits(void)
{
    return chunk_waits;
}

uint32_t *play_used(void)
{
    return chunk_used;
}

uint8_t *play_copy(void)
{
    return (uint8_t *)&copy;
}

const char *play_fault(void)
{
    return fault.text;
}

const char *play_version(void)
{
    return weir_version();
}
