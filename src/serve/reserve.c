/* SPDX-License-Identifier: Apache-2.0
 *
 * Records in an array, their free places, and two heaps: of the open ones by when they end, and of those that have
 * ended by when they are forgotten. The limiter has the arithmetic (weir/reserve.h). Called by reserve_ask.c, by
 * server.c for the sweep, and by http_metrics_reserve.c. */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/container.h"
#include "base/timing.h"
#include "serve/reserve_inside.h"

#define SWEEP_MOST 1024 /* of each kind, a hundred times a second */
#define MEMORY_LEAST_NS (60 * WEIR_NS_PER_SECOND)

const char *const weir_reserve_ratios[WEIR_RESERVE_RATIOS + 1] = { "0.1", "0.25", "0.5", "0.75", "1",
                                                                   "1.5", "2",    "4",   "+Inf" };
static const uint64_t ratio_hundredths[WEIR_RESERVE_RATIOS] = { 10, 25, 50, 75, 100, 150, 200, 400 };

int weir_reservations_create(struct weir_reservations **ret_reservations)
{
    struct weir_reservations *r = calloc(1, sizeof(*r));
    if (!r)
        return WEIR_ENOMEM;
    pthread_mutex_init(&r->lock, NULL);
    r->records = calloc(WEIR_RESERVATIONS_MAX, sizeof(*r->records)); /* pages come as they are needed */
    r->limits = calloc(WEIR_METRICS_LIMITS_MAX, sizeof(struct weir_reserve_limit *));
    r->open.members = calloc(WEIR_RESERVATIONS_MAX + 1, sizeof(struct weir_due *));
    r->ended.members = calloc(WEIR_RESERVATIONS_MAX + 1, sizeof(struct weir_due *));
    r->open.max = r->ended.max = WEIR_RESERVATIONS_MAX;
    /* A number is never given twice by those who have one secret, one after the other: nobody reserves faster than a
     * wall clock counts nanoseconds. */
    r->newest = weir_timing_now(CLOCK_REALTIME);
    if (!r->records || !r->limits || !r->open.members || !r->ended.members) {
        weir_reservations_destroy(r);
        return WEIR_ENOMEM;
    }
    *ret_reservations = r;
    return 0;
}

void weir_reservations_destroy(struct weir_reservations *reservations)
{
    struct weir_reservations *r = reservations;
    if (!r)
        return;
    for (uint32_t i = 0; r->records && i < r->used; i++)
        free(r->records[i].ticket);
    for (size_t i = 0; r->limits && i < WEIR_METRICS_LIMITS_MAX; i++)
        free(r->limits[i]);
    pthread_mutex_destroy(&r->lock);
    free(r->records);
    free(r->limits);
    free(r->open.members);
    free(r->ended.members);
    free(r);
}

/* ---- places ---- */

static struct weir_reserve_record *record_of(struct weir_due *due)
{
    return due ? weir_container(due, struct weir_reserve_record, due) : NULL;
}

static void forget(struct weir_reservations *r, struct weir_reserve_record *record)
{
    const uint32_t place = record->place;
    weir_due_remove(&r->ended, &record->due);
    free(record->ticket);
    *record = (struct weir_reserve_record){ .place = place, .next_free = r->free };
    r->free = place + 1;
}

struct weir_reserve_record *weir_reserve_place(struct weir_reservations *r)
{
    if (r->free == 0 && r->used < WEIR_RESERVATIONS_MAX) {
        r->records[r->used].place = r->used;
        return &r->records[r->used++];
    }
    if (r->free == 0 && r->ended.count > 0)
        forget(r, record_of(weir_due_first(&r->ended)));
    if (r->free == 0)
        return NULL;
    struct weir_reserve_record *record = &r->records[r->free - 1];
    r->free = record->next_free;
    return record;
}

static size_t size_of(uint64_t limits)
{
    return offsetof(struct weir_reservation, limits) + (size_t)limits * sizeof(struct weir_reserved);
}

int weir_reserve_keep(struct weir_reservations *r, struct weir_reserve_record *record,
                      const struct weir_reservation *ticket, const uint32_t *slots, bool keep)
{
    record->ticket = malloc(size_of(ticket->count));
    if (!record->ticket) {
        record->next_free = r->free;
        r->free = record->place + 1;
        return WEIR_ENOMEM;
    }
    record->ticket->held = 0;
    record->number = ++r->newest;
    record->keep = keep;
    record->count = (uint8_t)ticket->count;
    memcpy(record->slots, slots, ticket->count * sizeof(*slots));
    weir_reserve_store(r, record, ticket);
    return 0;
}

void weir_reserve_load(const struct weir_reserve_record *record, struct weir_reservation *ret_ticket)
{
    memcpy(ret_ticket, record->ticket, size_of(record->count));
}

void weir_reserve_store(struct weir_reservations *r, struct weir_reserve_record *record,
                        const struct weir_reservation *ticket)
{
    const bool was_open = record->ticket->held > 0;
    memcpy(record->ticket, ticket, size_of(record->count));
    if (ticket->held > 0)
        weir_due_set(&r->open, &record->due, ticket->end_ns);
    else if (was_open)
        weir_due_remove(&r->open, &record->due);
}

struct weir_reserve_record *weir_reserve_find(struct weir_loop *loop, struct weir_slice text)
{
    struct weir_reservations *r = loop->common->reservations;
    struct weir_reservation_id id;
    if (weir_reservation_read(&loop->common->permit_secret, text, &id) && id.place < r->used &&
        r->records[id.place].number == id.number)
        return &r->records[id.place];
    r->ends.unknown++;
    return NULL;
}

struct weir_reserve_limit *weir_reserve_limit_of(struct weir_reservations *r, uint32_t slot)
{
    if (!r->limits[slot])
        r->limits[slot] = calloc(1, sizeof(struct weir_reserve_limit));
    return r->limits[slot];
}

/* ---- the end ---- */

static void count_ended(struct weir_reservations *r, const struct weir_reserve_record *record, uint64_t held,
                        const struct weir_settled *settled)
{
    for (uint32_t i = 0; i < record->count; i++) {
        struct weir_reserve_limit *limit = weir_reserve_limit_of(r, record->slots[i]);
        const struct weir_reservation_due due = { .back = settled->given[i] < held ? settled->given[i] : held };
        if (limit && limit->book.outstanding >= held && limit->book.open > 0)
            weir_reservation_book_end(&limit->book, held, true, &due);
    }
}

void weir_reserve_end_one(struct weir_reservations *r, struct weir_limiter *limiter, struct weir_reserve_record *record,
                          const struct weir_time *time)
{
    struct weir_reservation ticket;
    struct weir_settled settled;
    weir_reserve_load(record, &ticket);
    const uint64_t held = ticket.held;
    if (!weir_limiter_expire(limiter, &ticket, time, &settled))
        return;
    weir_reserve_store(r, record, &ticket);
    count_ended(r, record, held, &settled);
    if (record->keep)
        r->ends.kept++;
    else
        r->ends.released++;
    const uint64_t memory_ns = record->ttl_ns > MEMORY_LEAST_NS ? record->ttl_ns : MEMORY_LEAST_NS;
    weir_due_set(&r->ended, &record->due, time->now_ns + memory_ns);
}

void weir_reservations_sweep(struct weir_reservations *reservations, struct weir_limiter *limiter,
                             const struct weir_time *time)
{
    struct weir_reservations *r = reservations;
    pthread_mutex_lock(&r->lock);
    for (unsigned i = 0; i < SWEEP_MOST && weir_due_next_ns(&r->open) <= time->now_ns; i++)
        weir_reserve_end_one(r, limiter, record_of(weir_due_first(&r->open)), time);
    for (unsigned i = 0; i < SWEEP_MOST && weir_due_next_ns(&r->ended) <= time->now_ns; i++)
        forget(r, record_of(weir_due_first(&r->ended)));
    pthread_mutex_unlock(&r->lock);
}

/* ---- settling ---- */

static void count_ratio(struct weir_reserve_limit *limit, uint64_t actual, uint64_t held)
{
    unsigned i = 0;
    while (i < WEIR_RESERVE_RATIOS && (double)actual * 100 > (double)ratio_hundredths[i] * (double)held)
        i++;
    limit->ratios[i]++;
    weir_estimate_tell(&limit->estimate, actual);
}

static void count_settled(struct weir_reservations *r, const struct weir_reserve_record *record, uint64_t held,
                          uint64_t actual, bool cancels, const struct weir_settled *settled)
{
    for (uint32_t i = 0; i < record->count; i++) {
        struct weir_reserve_limit *limit = weir_reserve_limit_of(r, record->slots[i]);
        struct weir_reservation_due due = { .back = settled->given[i] < held ? settled->given[i] : held,
                                            .more = settled->under_estimated - settled->uncharged };
        if (!limit || limit->book.outstanding < held || (held > 0 && limit->book.open == 0))
            continue;
        weir_reservation_book_end(&limit->book, held, held > 0, &due);
        limit->uncharged += settled->uncharged;
        if (held > 0 && !cancels)
            count_ratio(limit, actual, held);
    }
    if (settled->late)
        r->ends.late++;
    else if (cancels)
        r->ends.cancelled++;
    else
        r->ends.settled++;
}

static const char *state_of(const struct weir_reservation *ticket)
{
    struct weir_reservation_life life;
    memcpy(&life, ticket->life, sizeof(life));
    return life.state == WEIR_RESERVATION_OPEN       ? "open"
           : life.state == WEIR_RESERVATION_RELEASED ? "released"
           : life.state == WEIR_RESERVATION_KEPT     ? "kept"
                                                     : "settled";
}

static void tell(struct weir_loop *loop, const struct weir_reserve_record *record,
                 const struct weir_reservation *ticket, const struct weir_time *time, struct weir_reserve_told *told)
{
    const struct weir_settled *settled = &record->settled;
    *told = (struct weir_reserve_told){
        .state = state_of(ticket),
        .held = ticket->held,
        .ends_after_ns = ticket->held > 0 && ticket->end_ns > time->now_ns ? ticket->end_ns - time->now_ns : 0,
        .given_back = settled->given_back,
        .under_estimated = settled->under_estimated,
        .uncharged = settled->uncharged,
        .late = settled->late,
        .count = record->count,
    };
    for (uint32_t i = 0; i < record->count; i++) {
        told->limits[i].name = weir_metrics_name(loop->common->metrics, record->slots[i]);
        told->limits[i].given_back = settled->given[i];
    }
}

int weir_reserve_settle(struct weir_loop *loop, struct weir_slice id, uint64_t actual, bool cancels,
                        const struct weir_time *time, struct weir_reserve_told *ret_told)
{
    struct weir_reservations *r = loop->common->reservations;
    struct weir_reservation ticket;
    struct weir_settled settled;
    pthread_mutex_lock(&r->lock);
    struct weir_reserve_record *record = weir_reserve_find(loop, id);
    if (!record) {
        pthread_mutex_unlock(&r->lock);
        return WEIR_ENOENT;
    }
    weir_reserve_end_one(r, loop->limiter, record, time);
    weir_reserve_load(record, &ticket);
    const uint64_t held = ticket.held;
    int error = weir_limiter_settle(loop->limiter, &ticket, actual, time, &settled);
    if (!error && !settled.again) {
        weir_reserve_store(r, record, &ticket);
        record->settled = settled;
        count_settled(r, record, held, actual, cancels, &settled);
        const uint64_t memory_ns = record->ttl_ns > MEMORY_LEAST_NS ? record->ttl_ns : MEMORY_LEAST_NS;
        weir_due_set(&r->ended, &record->due, time->now_ns + memory_ns);
    }
    tell(loop, record, &ticket, time, ret_told);
    ret_told->again = !error && settled.again;
    pthread_mutex_unlock(&r->lock);
    return error;
}

int weir_reserve_show(struct weir_loop *loop, struct weir_slice id, const struct weir_time *time,
                      struct weir_reserve_told *ret_told)
{
    struct weir_reservations *r = loop->common->reservations;
    struct weir_reservation ticket;
    pthread_mutex_lock(&r->lock);
    struct weir_reserve_record *record = weir_reserve_find(loop, id);
    if (record) {
        weir_reserve_end_one(r, loop->limiter, record, time);
        weir_reserve_load(record, &ticket);
        tell(loop, record, &ticket, time, ret_told);
    }
    pthread_mutex_unlock(&r->lock);
    return record ? 0 : WEIR_ENOENT;
}

/* ---- views ---- */

void weir_reservations_view(struct weir_reservations *reservations, struct weir_reserve_view *ret_view)
{
    pthread_mutex_lock(&reservations->lock);
    *ret_view = (struct weir_reserve_view){ .open = reservations->open.count,
                                            .remembered = reservations->ended.count,
                                            .ends = reservations->ends };
    pthread_mutex_unlock(&reservations->lock);
}

bool weir_reservations_limit_view(struct weir_reservations *reservations, uint32_t slot, uint32_t percent,
                                  struct weir_reserve_limit_view *ret_view)
{
    pthread_mutex_lock(&reservations->lock);
    const struct weir_reserve_limit *limit = reservations->limits[slot];
    if (limit) {
        *ret_view = (struct weir_reserve_limit_view){ .book = limit->book, .uncharged = limit->uncharged };
        ret_view->estimate = percent > 0 ? weir_estimate_quantile(&limit->estimate, percent) : 0;
        uint64_t sum = 0;
        for (unsigned i = 0; i <= WEIR_RESERVE_RATIOS; i++)
            ret_view->ratios[i] = sum += limit->ratios[i];
    }
    pthread_mutex_unlock(&reservations->lock);
    return limit != NULL;
}
