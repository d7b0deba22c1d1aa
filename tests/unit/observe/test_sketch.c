/* SPDX-License-Identifier: Apache-2.0
 *
 * The sketch of the most frequent keys against exact counts: what it promises of any stream, in orders chosen against
 * it, and of several sketches as one. WEIR_TEST_EFFORT=soak counts 10^8 events of 10^7 keys. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>

#include "observe/sketch_sum.h"
#include "random.h"

#define TOP 10
#define PARTS_MAX 8

/* A stream, its exact counts, and the sketches that it is dealt to. Key 0 is the most frequent. */
struct stream {
    uint32_t keys;
    uint64_t total;
    uint64_t *exact;
    struct test_random random;
    uint64_t salt;
    uint32_t room;
    uint32_t parts;
    bool by_key; /* all events of a key go to one sketch, as those of one connection do */
    struct weir_sketch *sketches[PARTS_MAX];
    uint64_t dealt[PARTS_MAX];
};

static uint64_t hash_of(const struct stream *stream, uint32_t key)
{
    struct test_random mix = { stream->salt + key };
    return test_random_u64(&mix);
}

static void *room_for(size_t bytes)
{
    void *memory = aligned_alloc(64, (bytes + 63) & ~(size_t)63);
    assert_non_null(memory);
    return memory;
}

static void begin(struct stream *stream, uint32_t room, uint32_t parts, bool by_key)
{
    stream->room = room;
    stream->parts = parts;
    stream->by_key = by_key;
    stream->salt = test_random_u64(&stream->random);
    stream->exact = calloc(stream->keys, sizeof(stream->exact[0]));
    assert_non_null(stream->exact);
    stream->total = 0;
    for (uint32_t i = 0; i < parts; i++) {
        stream->sketches[i] = weir_sketch_init(room_for(weir_sketch_bytes(room)), room);
        stream->dealt[i] = 0;
    }
}

static void end(struct stream *stream)
{
    free(stream->exact);
    for (uint32_t i = 0; i < stream->parts; i++)
        free(stream->sketches[i]);
}

static void weighed(struct stream *stream, uint32_t key, uint32_t weight)
{
    bool fresh;
    const uint64_t hash = hash_of(stream, key);
    uint32_t part = stream->by_key ? (uint32_t)(hash >> 32) % stream->parts
                                   : (uint32_t)test_random_below(&stream->random, stream->parts);
    struct weir_sketch *sketch = stream->sketches[part];
    uint32_t place = weir_sketch_add(sketch, hash, weight, &fresh);
    assert_true(place < weir_sketch_used(sketch));
    stream->exact[key] += weight;
    stream->total += weight;
    stream->dealt[part] += weight;
}

static void event(struct stream *stream, uint32_t key)
{
    weighed(stream, key, 1);
}

/* ---- what is promised ---- */

/* Of one sketch whose stream is known: nothing is lost, and no error is above N / room. */
static void check_sketch(const struct stream *stream, uint32_t part)
{
    const struct weir_sketch *sketch = stream->sketches[part];
    uint64_t sum = 0, floor = weir_sketch_floor(sketch);
    uint32_t used = weir_sketch_used(sketch);
    for (uint32_t place = 0; place < used; place++) {
        const struct weir_sketch_key key = weir_sketch_key(sketch, place);
        assert_true(key.count > key.error && key.error <= floor && key.count >= floor);
        sum += key.count;
    }
    assert_true(used <= stream->room && (used == stream->room || floor == 0));
    assert_int_equal(sum, stream->dealt[part]);
    assert_int_equal(weir_sketch_total(sketch), stream->dealt[part]);
    assert_true(floor <= stream->dealt[part] / stream->room);
}

static struct weir_sketch_sum sum_of(const struct stream *stream)
{
    struct weir_sketch_sum sum;
    size_t keys = (size_t)stream->parts * stream->room, bytes = weir_sketch_sum_bytes(keys);
    weir_sketch_sum_init(&sum, memset(room_for(bytes), 0, bytes), keys);
    for (uint32_t i = 0; i < stream->parts; i++) {
        const struct weir_sketch *sketch = stream->sketches[i];
        weir_sketch_sum_begin(&sum, weir_sketch_floor(sketch), weir_sketch_total(sketch));
        for (uint32_t place = 0; place < weir_sketch_used(sketch); place++) {
            const struct weir_sketch_key key = weir_sketch_key(sketch, place);
            weir_sketch_sum_add(&sum, &key, weir_sketch_floor(sketch), sketch);
        }
    }
    assert_int_equal(sum.total, stream->total);
    return sum;
}

static const struct weir_sketch_summed *find(const struct weir_sketch_sum *sum, uint64_t hash)
{
    size_t at = hash & sum->mask;
    while (sum->table[at].key.count > 0 && sum->table[at].key.hash != hash)
        at = (at + 1) & sum->mask;
    return sum->table[at].key.count > 0 ? &sum->table[at] : NULL;
}

/* Of all sketches together: every key's exact count is where it is said to be. */
static void check_sum(const struct stream *stream)
{
    const struct weir_sketch_sum sum = sum_of(stream);
    size_t found = 0;
    assert_true(sum.floor <= stream->total / stream->room);
    for (uint32_t key = 0; key < stream->keys; key++) {
        const struct weir_sketch_summed *summed = find(&sum, hash_of(stream, key));
        found += summed != NULL;
        if (!summed) {
            assert_true(stream->exact[key] <= sum.floor);
            continue;
        }
        uint64_t most = summed->key.count + (sum.floor - summed->floors);
        assert_true(summed->floors <= sum.floor && stream->exact[key] <= most);
        assert_true(stream->exact[key] >= summed->key.count - summed->key.error);
    }
    assert_int_equal(found, sum.count); /* and nothing is there that never came */
    free(sum.table);
}

static void check(const struct stream *stream)
{
    for (uint32_t i = 0; i < stream->parts; i++)
        check_sketch(stream, i);
    check_sum(stream);
}

/* Keys 0 to 9 are the most frequent, and are said to be, in that order. */
static void check_top(const struct stream *stream)
{
    struct weir_sketch_summed top[TOP];
    const struct weir_sketch_sum sum = sum_of(stream);
    assert_int_equal(weir_sketch_sum_top(&sum, top, TOP), TOP);
    for (uint32_t i = 0; i < TOP; i++) {
        uint64_t certain = top[i].key.count - top[i].key.error;
        assert_int_equal(top[i].key.hash, hash_of(stream, i));
        assert_true(certain <= stream->exact[i] && stream->exact[i] <= top[i].key.count);
        assert_true(i == 0 || certain <= top[i - 1].key.count - top[i - 1].key.error);
    }
    free(sum.table);
}

/* ---- small ones, event by event ---- */

static void every_event_keeps_the_promises(void **state)
{
    (void)state;
    struct stream stream = { .random = { test_random_seed() } };
    uint64_t rounds = test_effort(50, 500, 5000);
    for (uint64_t round = 0; round < rounds; round++) {
        stream.keys = 1 + (uint32_t)test_random_below(&stream.random, 30);
        begin(&stream, 1 + (uint32_t)test_random_below(&stream.random, 9),
              1 + (uint32_t)test_random_below(&stream.random, 4), round % 2 == 0);
        uint64_t events = 1 + test_random_below(&stream.random, 300);
        for (uint64_t i = 0; i < events; i++) {
            uint64_t below = 1 + test_random_below(&stream.random, stream.keys); /* the low ones more often */
            uint64_t weight = round % 3 ? 1 : 1 + test_random_below(&stream.random, WEIR_SKETCH_WEIGHT_MAX);
            weighed(&stream, (uint32_t)test_random_below(&stream.random, below), (uint32_t)weight);
            check(&stream);
        }
        end(&stream);
    }
}

static void a_cleared_sketch_is_a_new_one(void **state)
{
    (void)state;
    struct weir_sketch *sketch = weir_sketch_init(room_for(weir_sketch_bytes(3)), 3);
    bool fresh;
    for (uint64_t hash = 0; hash < 100; hash++)
        weir_sketch_add(sketch, hash % 7, 1, &fresh);
    weir_sketch_clear(sketch);
    assert_int_equal(weir_sketch_used(sketch) + weir_sketch_total(sketch) + weir_sketch_floor(sketch), 0);
    for (uint64_t hash = 0; hash < 3; hash++) {
        assert_int_equal(weir_sketch_add(sketch, hash, 1, &fresh), hash);
        assert_true(fresh);
    }
    assert_int_equal(weir_sketch_add(sketch, 1, 1, &fresh), 1);
    assert_false(fresh);
    assert_int_equal(weir_sketch_key(sketch, 1).count, 2);
    free(sketch);
}

/* A start has several, and none that anybody was counted in: of each only the heads are written. */
static void a_new_sketch_leaves_its_keys_places_untouched(void **state)
{
    (void)state;
    size_t room = 2048, bytes = weir_sketch_bytes((uint32_t)room), kept = 0;
    uint8_t *memory = memset(room_for(bytes), 0xA5, bytes);
    struct weir_sketch *sketch = weir_sketch_init(memory, (uint32_t)room);
    weir_sketch_clear(sketch);
    for (size_t i = 0; i < bytes; i++)
        kept += memory[i] == 0xA5;
    assert_true(bytes - kept <= 2 * room * sizeof(uint32_t) + 256);
    free(memory);
}

/* One thread's key would be first by what the others might have had of it. */
static void the_certain_ones_come_first(void **state)
{
    (void)state;
    struct weir_sketch_summed top[3];
    struct weir_sketch_sum sum;
    size_t bytes = weir_sketch_sum_bytes(8);
    weir_sketch_sum_init(&sum, memset(room_for(bytes), 0, bytes), 8);
    for (int part = 0; part < 3; part++) {
        const struct weir_sketch_key everywhere = { 1, 50, 0 }, here = { 2, 120, 0 }, late = { 3, 121, 100 };
        weir_sketch_sum_begin(&sum, 40, 300);
        weir_sketch_sum_add(&sum, &everywhere, 40, "e");
        if (part == 1)
            weir_sketch_sum_add(&sum, &here, 40, "h");
        if (part == 2)
            weir_sketch_sum_add(&sum, &late, 40, "l");
    }
    assert_int_equal(weir_sketch_sum_top(&sum, top, 3), 3);
    assert_int_equal(top[0].key.hash, 1);
    assert_int_equal(top[0].key.count, 150);
    assert_int_equal(top[1].key.hash, 2);
    assert_int_equal(top[1].key.count, 200);
    assert_int_equal(top[1].key.error, 80);
    assert_string_equal(top[1].of, "h");
    assert_int_equal(top[2].key.count - top[2].key.error, 21);
    assert_int_equal(weir_sketch_sum_top(&sum, top, 1), 1);
    assert_int_equal(top[0].key.hash, 1);
    assert_int_equal(weir_sketch_sum_top(&sum, top, 0), 0);
    free(sum.table);
}

/* ---- Zipf ---- */

static double power(uint64_t key)
{
    return pow((double)key + 1, -1.1);
}

/* How often each key comes in a stream of about `events`. */
static uint32_t *zipf(uint32_t keys, uint64_t events)
{
    uint32_t *left = calloc(keys, sizeof(left[0]));
    double sum = 0;
    assert_non_null(left);
    for (uint32_t i = 0; i < keys; i++)
        sum += power(i);
    for (uint32_t i = 0; i < keys; i++)
        left[i] = (uint32_t)((double)events * power(i) / sum + 0.999);
    return left;
}

/* Every order is of the same multiset of events, so that all differ in nothing else. */
static void in_rounds(struct stream *stream, uint32_t *left)
{
    for (uint32_t end = stream->keys; end > 0;) { /* the last round is of key 0 alone */
        for (uint32_t key = 0; key < end; key++)
            event(stream, key), left[key]--;
        while (end > 0 && left[end - 1] == 0)
            end--;
    }
}

static void rarest_first(struct stream *stream, uint32_t *left)
{
    for (uint32_t key = stream->keys; key-- > 0;)
        for (; left[key] > 0; left[key]--)
            event(stream, key);
}

static void rarest_last(struct stream *stream, uint32_t *left)
{
    for (uint32_t key = 0; key < stream->keys; key++)
        for (; left[key] > 0; left[key]--)
            event(stream, key);
}

/* Between two events of a frequent key the rare ones push it out, if anything can. */
static void apart(struct stream *stream, uint32_t *left)
{
    uint64_t all = 0;
    for (uint32_t key = TOP; key < stream->keys; key++)
        all += left[key];
    uint32_t top = 0, rare = stream->keys - 1;
    uint64_t frequent = 0;
    for (uint32_t key = 0; key < TOP; key++)
        frequent += left[key];
    for (uint64_t i = 0, due = 0; i < all + frequent; i++) {
        due += frequent;
        if (due >= all + frequent || rare < TOP) {
            due -= due >= all + frequent ? all + frequent : due;
            while (left[top] == 0)
                top = (top + 1) % TOP;
            event(stream, top), left[top]--;
            top = (top + 1) % TOP;
            continue;
        }
        event(stream, rare), left[rare]--;
        while (rare >= TOP && left[rare] == 0)
            rare--;
    }
}

/* Drawn at random, with replacement of none: an event is one of those that are left. */
static void shuffled(struct stream *stream, uint32_t *left)
{
    uint64_t total = 0, at = 0;
    for (uint32_t key = 0; key < stream->keys; key++)
        total += left[key];
    uint32_t *events = malloc(total * sizeof(events[0]));
    assert_non_null(events);
    for (uint32_t key = 0; key < stream->keys; key++)
        for (; left[key] > 0; left[key]--)
            events[at++] = key;
    for (uint64_t i = total; i > 0; i--) {
        uint64_t other = test_random_below(&stream->random, i);
        uint32_t key = events[other];
        events[other] = events[i - 1];
        event(stream, key);
    }
    free(events);
}

static void the_true_top_ten_in_every_order(void **state)
{
    (void)state;
    static void (*const orders[])(struct stream * stream, uint32_t * left) = { shuffled, in_rounds, rarest_first,
                                                                               rarest_last, apart };
    static const struct {
        uint32_t parts;
        bool by_key;
    } deals[] = { { 1, false }, { 4, false }, { 8, true } };
    struct stream stream = { .random = { test_random_seed() } };
    stream.keys = (uint32_t)test_effort(20000, 100000, 10000000);
    const uint64_t events = test_effort(100000, 1000000, 100000000);
    for (size_t order = 0; order < sizeof(orders) / sizeof(orders[0]); order++) {
        for (size_t deal = 0; deal < sizeof(deals) / sizeof(deals[0]); deal++) {
            uint32_t *left = zipf(stream.keys, events);
            begin(&stream, 2048, deals[deal].parts, deals[deal].by_key);
            orders[order](&stream, left);
            check(&stream);
            check_top(&stream);
            end(&stream);
            free(left);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_event_keeps_the_promises),
        cmocka_unit_test(a_cleared_sketch_is_a_new_one),
        cmocka_unit_test(a_new_sketch_leaves_its_keys_places_untouched),
        cmocka_unit_test(the_certain_ones_come_first),
        cmocka_unit_test(the_true_top_ten_in_every_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
