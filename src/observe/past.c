/* SPDX-License-Identifier: Apache-2.0
 *
 * A ring of records for each loop. A record is four words; the second says when, of which limit, and how the key came
 * to be in the sample. A key's requests of one second are added to its record, which a small table of places finds; two
 * keys of one place make two records, which does no harm.
 *
 * A reader copies records while they are written. A record that is being overwritten is told by the number of records
 * written so far, read after it: words are stored with release and loaded with acquire, so who has seen a new word sees
 * a number that says so. Of the newest second counts may be torn; it is left out.
 *
 * Called by serve/decide.c and serve/shared.c; read by serve/rules_replay.c. */
#include "observe/past.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "base/checked.h"
#include "weir/limiter.h"

#define PLACES 256
#define HALVINGS_MAX 40
#define ONE_COUNTER_HALVINGS 16         /* such a limit stays so many longer */
#define QUARTERS 4                      /* of a ring, after each of which is looked whether it lasts */
#define LONG_S (QUARTERS * WEIR_PAST_S) /* so keys come back once an hour at most */
#define SOON_S 60
#define RECORDS_MIN 4096

#define SLOT_BITS 24
#define VARIED_BIT (UINT64_C(1) << 31)
#define ONE_COUNTER_BIT (UINT64_C(1) << 30)
#define HALVINGS_SHIFT SLOT_BITS /* six bits, 24 to 29; the second is above bit 31 */

enum { HASH, WHEN, COUNTS, UNITS, WORDS };

struct ring {
    _Alignas(64) _Atomic uint64_t written; /* records so far */
    _Atomic uint32_t halvings;
    _Atomic uint64_t eased; /* when there were last more of them, in seconds, and how many, in the lowest byte */
    uint64_t looked;        /* `written` at the last look whether the ring lasts */
    uint64_t looked_s, due_ns, begun_s;
    uint32_t mask;
    _Atomic uint64_t (*records)[WORDS];
    uint32_t places[PLACES];
};

struct weir_past {
    size_t count;
    uint32_t begun_s;
    struct ring rings[];
};

static uint32_t second_of(uint64_t now_ns)
{
    return (uint32_t)(now_ns / WEIR_NS_PER_SECOND);
}

static unsigned halvings_of(unsigned halvings, bool one_counter)
{
    if (!one_counter)
        return halvings;
    return halvings > ONE_COUNTER_HALVINGS ? halvings - ONE_COUNTER_HALVINGS : 0;
}

/* Whether the key is left after so many. */
static bool is_left(uint64_t hash, unsigned halvings)
{
    return halvings == 0 || hash >> (64 - halvings) == 0;
}

int weir_past_create(size_t loops, uint64_t now_ns, struct weir_past **ret_past)
{
    size_t room = WEIR_PAST_RECORDS;
    while (room > RECORDS_MIN && room * loops > WEIR_PAST_RECORDS_ALL)
        room /= 2;
    struct weir_past *past = aligned_alloc(64, sizeof(*past) + loops * sizeof(past->rings[0]));
    if (!past)
        return WEIR_ENOMEM;
    past->count = loops;
    past->begun_s = second_of(now_ns);
    bool good = true;
    for (size_t i = 0; i < loops; i++) {
        past->rings[i] = (struct ring){ .begun_s = past->begun_s,
                                        .looked_s = past->begun_s,
                                        .due_ns = now_ns + WEIR_PAST_S * WEIR_NS_PER_SECOND,
                                        .mask = (uint32_t)room - 1,
                                        .records = calloc(room, sizeof(past->rings[i].records[0])) };
        good = good && past->rings[i].records;
    }
    if (good)
        *ret_past = past;
    else
        weir_past_destroy(past);
    return good ? 0 : WEIR_ENOMEM;
}

void weir_past_destroy(struct weir_past *past)
{
    for (size_t i = 0; past && i < past->count; i++)
        free(past->rings[i].records);
    free(past);
}

/* ---- writing ---- */

static uint64_t word(const struct ring *ring, uint32_t at, int which)
{
    return atomic_load_explicit(&ring->records[at][which], memory_order_relaxed);
}

static void put(struct ring *ring, uint32_t at, int which, uint64_t value)
{
    atomic_store_explicit(&ring->records[at][which], value, memory_order_release);
}

/* Of a loop that has just begun nobody can ask for an hour, and with more keys it tells more. */
static uint64_t wanted_s(const struct ring *ring, uint64_t now_s)
{
    return weir_min_u64(weir_max_u64(4 * (now_s - ring->begun_s), SOON_S), WEIR_PAST_S);
}

/* Whether records last an hour, as fast as they came since the last look; if not, how often the keys are to be halved
 * for that. At a pace that would last four hours some come back. */
static void look(struct ring *ring, uint64_t now_ns)
{
    const uint64_t room = (uint64_t)ring->mask + 1, now_s = second_of(now_ns);
    const uint64_t written = atomic_load_explicit(&ring->written, memory_order_relaxed);
    const uint64_t since = weir_max_u64(written - ring->looked, 1), elapsed_s = weir_max_u64(now_s - ring->looked_s, 1);
    const unsigned before = atomic_load_explicit(&ring->halvings, memory_order_relaxed);
    unsigned halvings = before;
    uint64_t lasts_s = room * elapsed_s / since;
    for (; lasts_s < wanted_s(ring, now_s) && halvings < HALVINGS_MAX; lasts_s *= 2)
        halvings++;
    for (; lasts_s > LONG_S && halvings > 0; lasts_s /= 2)
        halvings--;
    if (halvings < before)
        atomic_store_explicit(&ring->eased, now_s << 8 | before, memory_order_release);
    atomic_store_explicit(&ring->halvings, halvings, memory_order_release);
    ring->looked = written;
    ring->looked_s = now_s;
    ring->due_ns = now_ns + WEIR_PAST_S * WEIR_NS_PER_SECOND;
}

/* A record of one request. */
static void begin(struct ring *ring, const struct weir_past_event *event, uint64_t when, uint64_t counts,
                  uint32_t *place)
{
    const uint64_t written = atomic_load_explicit(&ring->written, memory_order_relaxed);
    const uint32_t at = (uint32_t)written & ring->mask;
    put(ring, at, HASH, event->hash);
    put(ring, at, WHEN, when);
    put(ring, at, COUNTS, counts);
    put(ring, at, UNITS, event->cost);
    *place = at;
    atomic_store_explicit(&ring->written, written + 1, memory_order_release);
}

void weir_past_note(struct weir_past *past, size_t loop, const struct weir_past_event *event, uint64_t now_ns)
{
    struct ring *ring = &past->rings[loop];
    const unsigned halvings = atomic_load_explicit(&ring->halvings, memory_order_relaxed);
    if (now_ns >= ring->due_ns)
        look(ring, now_ns);
    if (!is_left(event->hash, halvings_of(halvings, event->one_counter)))
        return;
    const uint64_t when = (uint64_t)second_of(now_ns) << 32 | (event->varied ? VARIED_BIT : 0) |
                          (event->one_counter ? ONE_COUNTER_BIT : 0) | (uint64_t)halvings << HALVINGS_SHIFT |
                          (event->slot & ((1U << SLOT_BITS) - 1));
    const uint64_t one = UINT64_C(1) << 32 | event->refused;
    uint32_t *place = &ring->places[(event->hash ^ event->slot) % PLACES];
    if (word(ring, *place, HASH) == event->hash && word(ring, *place, WHEN) == when) {
        put(ring, *place, COUNTS, word(ring, *place, COUNTS) + one);
        put(ring, *place, UNITS, weir_add_sat(word(ring, *place, UNITS), event->cost));
        return;
    }
    begin(ring, event, when, one, place);
    if (atomic_load_explicit(&ring->written, memory_order_relaxed) - ring->looked > ring->mask / QUARTERS)
        look(ring, now_ns);
}

/* ---- reading ---- */

size_t weir_past_room(const struct weir_past *past)
{
    return past->count * ((size_t)past->rings[0].mask + 1);
}

static struct weir_past_record read_one(const struct ring *ring, uint64_t number)
{
    uint64_t words[WORDS];
    for (int i = 0; i < WORDS; i++)
        words[i] = atomic_load_explicit(&ring->records[number & ring->mask][i], memory_order_acquire);
    return (struct weir_past_record){
        .hash = words[HASH],
        .slot = words[WHEN] & ((1U << SLOT_BITS) - 1),
        .second = (uint32_t)(words[WHEN] >> 32),
        .asked = (uint32_t)(words[COUNTS] >> 32),
        .refused = (uint32_t)words[COUNTS],
        .units = words[UNITS],
        .one_counter = words[WHEN] & ONE_COUNTER_BIT,
        .varied = words[WHEN] & VARIED_BIT,
        .halvings = words[WHEN] >> HALVINGS_SHIFT & 63,
    };
}

/* The records of one loop that were not overwritten meanwhile; *from_s rises to where they begin. */
static size_t read_ring(const struct ring *ring, struct weir_past_record *records, uint32_t *from_s)
{
    const uint64_t room = (uint64_t)ring->mask + 1, end = atomic_load_explicit(&ring->written, memory_order_acquire);
    const uint64_t begin = end > room ? end - room : 0;
    for (uint64_t i = begin; i < end; i++)
        records[i - begin] = read_one(ring, i);
    const uint64_t now = atomic_load_explicit(&ring->written, memory_order_acquire);
    const uint64_t first = weir_min_u64(now >= room ? weir_max_u64(now - room + 1, begin) : begin, end);
    size_t count = (size_t)(end - first);
    for (size_t i = 0; i < count; i++)
        records[i] = records[first - begin + i];
    if (first > 0) /* of the second of the first one some may be gone; with none left, all before now */
        *from_s = (uint32_t)weir_max_u64(*from_s, count > 0 ? records[0].second + UINT64_C(1) : UINT32_MAX);
    return count;
}

/* Now, or before keys came back since then. */
static unsigned most_halvings(const struct ring *ring, uint32_t from_s)
{
    const unsigned now = atomic_load_explicit(&ring->halvings, memory_order_acquire);
    const uint64_t eased = atomic_load_explicit(&ring->eased, memory_order_acquire);
    return eased >> 8 >= from_s && (eased & 255) > now ? (unsigned)(eased & 255) : now;
}

size_t weir_past_read(struct weir_past *past, uint64_t now_ns, struct weir_past_record *ret_records,
                      struct weir_past_span *ret_span)
{
    const uint32_t now_s = second_of(now_ns);
    struct weir_past_span span = { .from_s = now_s - past->begun_s > WEIR_PAST_S ? now_s - WEIR_PAST_S : past->begun_s,
                                   .to_s = now_s - 1 };
    size_t count = 0, kept = 0;
    for (size_t i = 0; i < past->count; i++) {
        count += read_ring(&past->rings[i], ret_records + count, &span.from_s);
        span.halvings = (unsigned)weir_max_u64(span.halvings, most_halvings(&past->rings[i], span.from_s));
    }
    for (size_t i = 0; i < count; i++)
        if (ret_records[i].second >= span.from_s)
            span.halvings = (unsigned)weir_max_u64(span.halvings, ret_records[i].halvings);
    span.halvings_one_counter = halvings_of(span.halvings, true);
    for (size_t i = 0; i < count; i++) {
        const struct weir_past_record *one = &ret_records[i];
        if (one->second >= span.from_s && one->second <= span.to_s &&
            is_left(one->hash, halvings_of(span.halvings, one->one_counter)))
            ret_records[kept++] = *one;
    }
    *ret_span = span;
    return kept;
}
