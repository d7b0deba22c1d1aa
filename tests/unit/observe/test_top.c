/* SPDX-License-Identifier: Apache-2.0
 *
 * Who is refused most: labels, early retries, hours, and readers beside the threads that count. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>

#include "observe/retries.h"
#include "observe/top.h"
#include "random.h"

#define START_NS (UINT64_C(5) << 40)
#define SECOND WEIR_NS_PER_SECOND
#define HOUR WEIR_TOP_WINDOW_NS

/* ---- labels ---- */

static struct weir_slice slice(const char *text)
{
    return (struct weir_slice){ text, strlen(text) };
}

static void assert_value(const struct weir_top_label *label, size_t index, const char *expected)
{
    struct weir_slice value = weir_top_label_value(label, index);
    assert_int_equal(value.size, strlen(expected));
    assert_memory_equal(value.data, expected, value.size);
}

static void a_label_has_the_values_that_fit(void **state)
{
    (void)state;
    struct weir_top_label label;
    struct weir_slice values[WEIR_KEY_VALUES_MAX] = {
        slice("ada"), { NULL, WEIR_VALUE_ABSENT }, slice(""), slice("/x")
    };
    weir_top_label_init(&label, values, 4);
    assert_true(label.known && !label.cut && label.count == 4);
    assert_value(&label, 0, "ada");
    assert_true(weir_top_label_value(&label, 1).size == WEIR_VALUE_ABSENT);
    assert_value(&label, 2, "");
    assert_value(&label, 3, "/x");
    weir_top_label_init(&label, values, 0);
    assert_true(label.known && !label.cut && label.count == 0);

    /* One value has 63 bytes. */
    char text[100];
    memset(text, 'a', sizeof(text));
    values[0] = (struct weir_slice){ text, 63 };
    weir_top_label_init(&label, values, 1);
    assert_true(!label.cut && weir_top_label_value(&label, 0).size == 63);
    values[0].size = 64;
    weir_top_label_init(&label, values, 1);
    assert_true(label.cut && weir_top_label_value(&label, 0).size == 63);

    /* A long one leaves room to those behind it. */
    values[0].size = 100;
    values[1] = slice("ada");
    weir_top_label_init(&label, values, 2);
    assert_true(label.cut && weir_top_label_value(&label, 0).size == 31);
    assert_value(&label, 1, "ada");
    for (size_t i = 0; i < WEIR_KEY_VALUES_MAX; i++)
        values[i] = (struct weir_slice){ text, sizeof(text) };
    weir_top_label_init(&label, values, WEIR_KEY_VALUES_MAX);
    assert_true(label.cut && label.size <= WEIR_TOP_TEXT_MAX);
    for (size_t i = 0; i < WEIR_KEY_VALUES_MAX; i++)
        assert_int_equal(weir_top_label_value(&label, i).size, 3);
}

/* Cut before a character, never in it. */
static void a_cut_value_stays_utf8(void **state)
{
    (void)state;
    static const char *const characters[] = { "a", "\u00e9", "\u20ac", "\U0001F600" };
    for (size_t which = 0; which < 4; which++) {
        for (size_t before = 0; before < 4; before++) {
            char text[200] = "";
            struct weir_top_label label;
            memset(text, '.', before);
            while (strlen(text) < 100)
                strcat(text, characters[which]);
            weir_top_label_init(&label, &(struct weir_slice){ text, strlen(text) }, 1);
            size_t size = weir_top_label_value(&label, 0).size, width = strlen(characters[which]);
            assert_int_equal((size - before) % width, 0);
            assert_true(label.cut && size <= 63 && size + width > 63);
        }
    }
    struct weir_top_label label; /* what is no UTF-8 is cut where it must be */
    char text[100];
    memset(text, 0xBF, sizeof(text));
    weir_top_label_init(&label, &(struct weir_slice){ text, sizeof(text) }, 1);
    assert_int_equal(weir_top_label_value(&label, 0).size, 63);
}

/* ---- early retries ---- */

static void a_key_is_early_before_the_time_it_was_told(void **state)
{
    (void)state;
    struct weir_retries *retries = calloc(1, sizeof(*retries));
    const uint64_t ada = UINT64_C(0xaaaaaa0000000010), bob = UINT64_C(0xbbbbbb0000000010);
    assert_false(weir_retries_note(retries, ada, START_NS, SECOND));
    assert_false(weir_retries_note(retries, bob, START_NS, 3 * SECOND)); /* the same pair of places */
    assert_true(weir_retries_note(retries, ada, START_NS + SECOND / 2, SECOND / 2));
    assert_true(weir_retries_note(retries, bob, START_NS + SECOND / 2, 5 * SECOND / 2));
    assert_false(weir_retries_note(retries, ada, START_NS + SECOND, SECOND)); /* as it was told */
    assert_true(weir_retries_note(retries, ada, START_NS + SECOND, WEIR_NEVER));
    assert_true(weir_retries_note(retries, ada, START_NS + 3 * SECOND / 2, WEIR_NEVER)); /* the time told before */
    assert_false(weir_retries_note(retries, ada, START_NS + 2 * SECOND, WEIR_NEVER));
    assert_false(weir_retries_note(retries, ada, START_NS + 2 * SECOND, WEIR_NEVER)); /* never is no time */
    /* A third key takes the place of the one that is due first. */
    const uint64_t eve = UINT64_C(0xeeeeee0000000011);
    assert_false(weir_retries_note(retries, eve, START_NS + 2 * SECOND, SECOND));
    assert_true(weir_retries_note(retries, bob, START_NS + 2 * SECOND, SECOND));
    assert_true(weir_retries_note(retries, eve, START_NS + 2 * SECOND, SECOND));
    free(retries);
}

/* ---- counting ---- */

static struct weir_top *begin(size_t loops, enum weir_top_keys keys)
{
    struct weir_top *top = NULL;
    assert_int_equal(weir_top_create(loops, START_NS, &top), 0);
    for (size_t i = 0; i < loops; i++) {
        assert_int_equal(weir_top_keys(top, i), WEIR_TOP_OFF);
        weir_top_configure(top, i, keys, START_NS);
    }
    return top;
}

/* So often, and told to come back a second later. */
static void refuse(struct weir_top *top, size_t loop, const char *name, uint32_t slot, uint64_t now_ns, size_t times)
{
    uint64_t hash = slot;
    for (const char *at = name; *at; at++)
        hash = (hash ^ (uint8_t)*at) * UINT64_C(0x9e3779b97f4a7c15);
    const struct weir_top_refusal refusal = {
        .hash = hash ^ hash >> 32, .slot = slot, .now_ns = now_ns, .retry_after_ns = SECOND
    };
    for (size_t i = 0; i < times; i++) {
        struct weir_top_label label;
        if (!weir_top_refused(top, loop, &refusal))
            continue;
        assert_int_equal(weir_top_keys(top, loop), WEIR_TOP_TEXT);
        weir_top_label_init(&label, &(struct weir_slice){ name, strlen(name) }, 1);
        weir_top_label(top, loop, &label);
    }
    assert_true(weir_top_is_unshown(top, loop));
    assert_true(weir_top_show(top, loop, now_ns));
    assert_false(weir_top_is_unshown(top, loop));
}

static struct weir_top_read read_top(struct weir_top *top, enum weir_top_by by, uint32_t slot, uint64_t now_ns)
{
    struct weir_top_read read;
    assert_int_equal(weir_top_read(top, by, slot, now_ns, WEIR_TOP_READ_MAX, &read), 0);
    return read;
}

static void assert_row(const struct weir_top_row *row, const char *name, uint32_t slot, uint64_t count)
{
    assert_true(row->label.known);
    assert_value(&row->label, 0, name);
    assert_int_equal(row->label.slot, slot);
    assert_int_equal(row->count, count);
    assert_int_equal(row->error, 0);
}

static void threads_are_added_up(void **state)
{
    (void)state;
    struct weir_top *top = begin(2, WEIR_TOP_TEXT);
    refuse(top, 0, "ada", 7, START_NS, 3);
    refuse(top, 1, "ada", 7, START_NS, 4);
    refuse(top, 1, "bob", 7, START_NS, 5);
    refuse(top, 0, "ada", 8, START_NS, 1);
    struct weir_top_read read = read_top(top, WEIR_TOP_REFUSED, WEIR_TOP_ANY, START_NS);
    assert_int_equal(read.count, 3);
    assert_int_equal(read.total, 13);
    assert_int_equal(read.unlisted_max, 0);
    assert_int_equal(read.since_ns, START_NS);
    assert_row(&read.rows[0], "ada", 7, 7);
    assert_row(&read.rows[1], "bob", 7, 5);
    assert_row(&read.rows[2], "ada", 8, 1);
    assert_true(read.rows[0].shown_hash != read.rows[2].shown_hash);
    /* Of one limit. */
    read = read_top(top, WEIR_TOP_REFUSED, 8, START_NS);
    assert_int_equal(read.count, 1);
    assert_row(&read.rows[0], "ada", 8, 1);
    /* The first of a key is never early, whichever thread it came to: the second thread knows what the first told. */
    read = read_top(top, WEIR_TOP_EARLY, WEIR_TOP_ANY, START_NS);
    assert_int_equal(read.count, 2);
    assert_row(&read.rows[0], "ada", 7, 6);
    assert_row(&read.rows[1], "bob", 7, 4);
    assert_int_equal(weir_top_read(top, WEIR_TOP_REFUSED, WEIR_TOP_ANY, START_NS, 1, &read), 0);
    assert_int_equal(read.count, 1);
    weir_top_destroy(top);
}

static void an_hour_stays_for_one_more(void **state)
{
    (void)state;
    struct weir_top *top = begin(2, WEIR_TOP_TEXT);
    refuse(top, 0, "ada", 7, START_NS + HOUR - 1, 3);
    refuse(top, 0, "ada", 7, START_NS + HOUR, 2);
    refuse(top, 1, "ada", 7, START_NS + SECOND, 10); /* and then it is idle */
    struct weir_top_read read = read_top(top, WEIR_TOP_REFUSED, WEIR_TOP_ANY, START_NS + 2 * HOUR - 1);
    assert_int_equal(read.since_ns, START_NS);
    assert_row(&read.rows[0], "ada", 7, 15);
    read = read_top(top, WEIR_TOP_REFUSED, WEIR_TOP_ANY, START_NS + 2 * HOUR);
    assert_int_equal(read.since_ns, START_NS + HOUR);
    assert_int_equal(read.total, 2);
    assert_row(&read.rows[0], "ada", 7, 2);
    refuse(top, 0, "ada", 7, START_NS + 5 * HOUR / 2, 1);
    read = read_top(top, WEIR_TOP_REFUSED, WEIR_TOP_ANY, START_NS + 5 * HOUR / 2);
    assert_row(&read.rows[0], "ada", 7, 3);
    read = read_top(top, WEIR_TOP_REFUSED, WEIR_TOP_ANY, START_NS + 4 * HOUR);
    assert_int_equal(read.count + read.total, 0);
    refuse(top, 0, "bob", 7, START_NS + 100 * HOUR, 1);
    read = read_top(top, WEIR_TOP_REFUSED, WEIR_TOP_ANY, START_NS + 100 * HOUR);
    assert_int_equal(read.count, 1);
    assert_row(&read.rows[0], "bob", 7, 1);
    assert_int_equal(read.since_ns, START_NS + 99 * HOUR);
    weir_top_destroy(top);
}

static void another_way_of_naming_begins_anew(void **state)
{
    (void)state;
    struct weir_top *top = begin(1, WEIR_TOP_TEXT);
    refuse(top, 0, "ada", 7, START_NS, 3);
    weir_top_configure(top, 0, WEIR_TOP_TEXT, START_NS + SECOND); /* that is none */
    assert_int_equal(read_top(top, WEIR_TOP_REFUSED, WEIR_TOP_ANY, START_NS).total, 3);
    weir_top_configure(top, 0, WEIR_TOP_HASH, START_NS + SECOND);
    struct weir_top_read read = read_top(top, WEIR_TOP_REFUSED, WEIR_TOP_ANY, START_NS + SECOND);
    assert_int_equal(read.count + read.total, 0);
    assert_int_equal(read.since_ns, START_NS + SECOND);
    refuse(top, 0, "ada", 7, START_NS + SECOND, 3);
    read = read_top(top, WEIR_TOP_REFUSED, WEIR_TOP_ANY, START_NS + SECOND);
    assert_int_equal(read.count, 1);
    assert_false(read.rows[0].label.known);
    assert_int_equal(read.rows[0].label.slot, 7);
    weir_top_configure(top, 0, WEIR_TOP_OFF, START_NS + SECOND);
    assert_int_equal(read_top(top, WEIR_TOP_REFUSED, WEIR_TOP_ANY, START_NS + SECOND).count, 0);
    weir_top_destroy(top);
    weir_top_destroy(NULL);
}

/* More keys than there is room for: what is told stays bounded, and true. */
static void many_keys_leave_the_frequent_ones(void **state)
{
    (void)state;
    struct weir_top *top = begin(1, WEIR_TOP_TEXT);
    const size_t keys = test_effort(5000, 100000, 10000000);
    for (size_t i = 0; i < keys; i++) {
        const struct weir_top_refusal refusal = { .hash = (i + 1) * UINT64_C(0x9e3779b97f4a7c15),
                                                  .slot = 9,
                                                  .now_ns = START_NS + i * (SECOND / 5000),
                                                  .retry_after_ns = SECOND };
        struct weir_top_label label;
        weir_top_label_init(&label, &(struct weir_slice){ "x", 1 }, 1);
        if (weir_top_refused(top, 0, &refusal))
            weir_top_label(top, 0, &label);
        if (i % 100 == 0)
            refuse(top, 0, "ada", 7, refusal.now_ns, 1);
    }
    assert_true(weir_top_show(top, 0, START_NS));
    struct weir_top_read read = read_top(top, WEIR_TOP_REFUSED, WEIR_TOP_ANY, START_NS);
    assert_int_equal(read.one_in, 1);
    assert_int_equal(read.count, WEIR_TOP_READ_MAX);
    assert_int_equal(read.total, keys + (keys + 99) / 100);
    assert_true(read.unlisted_max > 0 && read.unlisted_max <= read.total / WEIR_TOP_ROOM);
    assert_value(&read.rows[0].label, 0, "ada");
    assert_true(read.rows[0].count - read.rows[0].error <= keys / 100 && read.rows[0].count >= keys / 100);
    weir_top_destroy(top);
}

/* A million a second: few of them are looked at, and the frequent ones are told all the same, however regular the
 * order is in which they come. */
#define KEYS 4
static void of_very_many_a_part_is_looked_at(void **state)
{
    (void)state;
    struct weir_top *top = begin(1, WEIR_TOP_HASH);
    const uint64_t per_second = 1000000, seconds = test_effort(2, 4, 20);
    uint64_t exact[KEYS + 1] = { 0 };
    for (uint64_t i = 0; i < seconds * per_second; i++) {
        /* Of every 64 events 16 are of key 0, then 12, 8 and 4 of the next; the rest are of 100,000 others. */
        static const uint8_t until[] = { 16, 28, 36, 40 };
        uint64_t key = 0;
        while (key < KEYS && i % 64 >= until[key])
            key++;
        exact[key]++;
        const struct weir_top_refusal refusal = {
            .hash = (key < KEYS ? key + 1 : 100 + i % 100000) * UINT64_C(0x9e3779b97f4a7c15),
            .slot = 7,
            .now_ns = START_NS + i * SECOND / per_second,
            .retry_after_ns = 0,
        };
        assert_false(weir_top_refused(top, 0, &refusal)); /* nobody wants a label */
    }
    assert_true(weir_top_show(top, 0, START_NS + seconds * SECOND));
    struct weir_top_read read = read_top(top, WEIR_TOP_REFUSED, WEIR_TOP_ANY, START_NS);
    assert_int_equal(read.one_in, 128); /* a million by that is less than WEIR_TOP_LOOKS */
    assert_true(read.total > seconds * per_second * 19 / 20 && read.total < seconds * per_second * 21 / 20);
    for (size_t k = 0; k < KEYS; k++) { /* by so much that even six deviations do not turn two of them */
        const struct weir_top_row *row = &read.rows[k], *next = &read.rows[k + 1];
        assert_true(row->count - row->error > next->count - next->error);
        uint64_t count = row->count - row->error, apart = count > exact[k] ? count - exact[k] : exact[k] - count;
        assert_true(apart * apart <= 36 * read.one_in * exact[k]);
    }
    assert_int_equal(read_top(top, WEIR_TOP_EARLY, WEIR_TOP_ANY, START_NS).total, 0);
    /* Once there are few again, each counts. */
    const uint64_t before = read.total;
    for (uint64_t i = 0; i < 1000; i++) {
        const struct weir_top_refusal refusal = { .hash = 1, .slot = 7, .now_ns = START_NS + 99 * SECOND + i };
        weir_top_refused(top, 0, &refusal);
    }
    assert_true(weir_top_show(top, 0, START_NS + 100 * SECOND));
    uint64_t more = read_top(top, WEIR_TOP_REFUSED, WEIR_TOP_ANY, START_NS).total - before;
    assert_true(more + 2 * WEIR_TOP_ONE_IN_MAX > 1000 && more < 1000 + 2 * WEIR_TOP_ONE_IN_MAX);
    weir_top_destroy(top);
}

/* ---- threads ---- */

struct counter {
    struct weir_top *top;
    size_t loop;
    uint64_t rounds;
    pthread_t thread;
};

static void *run_counter(void *argument)
{
    struct counter *counter = argument;
    char name[8];
    for (uint64_t i = 0; i < counter->rounds; i++) {
        (void)snprintf(name, sizeof(name), "k%llu", (unsigned long long)(i % 3000));
        struct weir_top_label label;
        const struct weir_top_refusal refusal = { .hash = (i % 3000 + 1) * UINT64_C(0x9e3779b97f4a7c15),
                                                  .slot = 7,
                                                  .now_ns = START_NS + i * (HOUR / 4 / counter->rounds),
                                                  .retry_after_ns = SECOND };
        if (weir_top_refused(counter->top, counter->loop, &refusal)) {
            weir_top_label_init(&label, &(struct weir_slice){ name, strlen(name) }, 1);
            weir_top_label(counter->top, counter->loop, &label);
        }
        if (i % 1000 == 0)
            weir_top_show(counter->top, counter->loop, refusal.now_ns);
    }
    while (!weir_top_show(counter->top, counter->loop, START_NS + HOUR / 4))
        sched_yield();
    return NULL;
}

static void readers_see_what_was_shown(void **state)
{
    (void)state;
    struct weir_top *top = begin(2, WEIR_TOP_TEXT);
    struct counter counters[2];
    const uint64_t rounds = test_effort(20000, 300000, 3000000);
    for (size_t i = 0; i < 2; i++) {
        counters[i] = (struct counter){ .top = top, .loop = i, .rounds = rounds };
        assert_int_equal(pthread_create(&counters[i].thread, NULL, run_counter, &counters[i]), 0);
    }
    uint64_t before = 0;
    for (int i = 0; i < 200; i++) {
        struct weir_top_read read = read_top(top, i % 2 ? WEIR_TOP_EARLY : WEIR_TOP_REFUSED, WEIR_TOP_ANY, START_NS);
        for (size_t row = 0; row < read.count; row++) {
            assert_true(read.rows[row].label.known && read.rows[row].label.slot == 7);
            assert_true(read.rows[row].count > read.rows[row].error && read.rows[row].count <= read.total);
            assert_true(((const char *)weir_top_label_value(&read.rows[row].label, 0).data)[0] == 'k');
        }
        assert_true(i % 2 || read.total >= before);
        before = i % 2 ? before : read.total;
    }
    for (size_t i = 0; i < 2; i++)
        pthread_join(counters[i].thread, NULL);
    assert_int_equal(read_top(top, WEIR_TOP_REFUSED, WEIR_TOP_ANY, START_NS).total, 2 * rounds);
    weir_top_destroy(top);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_label_has_the_values_that_fit),
        cmocka_unit_test(a_cut_value_stays_utf8),
        cmocka_unit_test(a_key_is_early_before_the_time_it_was_told),
        cmocka_unit_test(threads_are_added_up),
        cmocka_unit_test(an_hour_stays_for_one_more),
        cmocka_unit_test(another_way_of_naming_begins_anew),
        cmocka_unit_test(many_keys_leave_the_frequent_ones),
        cmocka_unit_test(of_very_many_a_part_is_looked_at),
        cmocka_unit_test(readers_see_what_was_shown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
