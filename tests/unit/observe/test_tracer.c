/* SPDX-License-Identifier: Apache-2.0
 *
 * The tracer with a post of the test's own: each record is sent once, or counted as dropped, whatever the receiver
 * answers and whenever it ends. Loops add while it sends. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <pthread.h>
#include <time.h>

#include "observe/tracer.h"
#include "random.h"

#define LOOPS 3
#define SECOND UINT64_C(1000000000)

/* ---- a receiver ---- */

/* What it answers, and what it has got. One test at a time. */
struct receiver {
    struct weir_post post;
    _Atomic int status; /* 0: nothing comes back */
    _Atomic uint64_t retry_after_ns;
    _Atomic bool holds; /* no answer yet */
    _Atomic unsigned opened, closed, asked;
    _Atomic uint64_t taken;
    uint64_t next[LOOPS]; /* the tracer's thread's: which record of each loop comes next */
    bool all_come;        /* none is missing */
};

static struct receiver *receiver;

static uint64_t varint(const uint8_t **at)
{
    uint64_t value = 0;
    for (unsigned shift = 0;; shift += 7) {
        value |= (uint64_t)(**at & 127) << shift;
        if (*(*at)++ < 128)
            return value;
    }
}

/* Each record has its loop in the first byte of its trace's id, and its number in the last eight. */
static void take_span(const uint8_t *span)
{
    uint64_t number;
    assert_int_equal(span[0], 0x0a);
    assert_int_equal(span[1], 16);
    memcpy(&number, span + 10, sizeof(number));
    uint64_t *next = &receiver->next[span[2] - 1];
    assert_true(receiver->all_come ? number == *next : number >= *next);
    *next = number + 1;
}

/* Into resource_spans (1), then scope_spans (2), whose spans are 2. */
static size_t take_message(const uint8_t *at, size_t size, unsigned depth)
{
    const uint8_t *end = at + size;
    size_t count = 0;
    while (at < end) {
        uint64_t tag = varint(&at), length = varint(&at);
        assert_int_equal(tag & 7, 2);
        if (depth < 2 && tag >> 3 == (depth == 0 ? 1 : 2))
            count += take_message(at, (size_t)length, depth + 1);
        if (depth == 2 && tag >> 3 == 2) {
            take_span(at);
            count++;
        }
        at += length;
    }
    return count;
}

static void rest(void)
{
    nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
}

static int post_send(struct weir_post *post, const void *body, size_t size, uint64_t timeout_ns,
                     struct weir_post_answer *ret_answer, struct weir_fault *ret_fault)
{
    assert_ptr_equal(post, &receiver->post);
    assert_true(timeout_ns > 0 && timeout_ns <= 10 * SECOND);
    receiver->asked++;
    while (receiver->holds)
        rest();
    const int status = receiver->status;
    if (status == 0) {
        strcpy(ret_fault->text, "nobody is there");
        return WEIR_EDOWN;
    }
    ret_answer->status = status;
    ret_answer->retry_after_ns = receiver->retry_after_ns;
    ret_answer->size = 0;
    if (status == 200) {
        size_t count = take_message(body, size, 0);
        assert_true(count > 0 && count <= WEIR_TRACER_BATCH);
        receiver->taken += count;
    }
    return 0;
}

static void post_close(struct weir_post *post)
{
    assert_ptr_equal(post, &receiver->post);
    receiver->closed++;
}

static const struct weir_post_ops post_ops = { post_send, post_close };

/* Instead of net/post.c. */
int weir_post_open(const char *url, const char *content_type, struct weir_post **ret_post, struct weir_fault *ret_fault)
{
    (void)ret_fault;
    assert_string_equal(content_type, "application/x-protobuf");
    if (strcmp(url, "wrong") == 0)
        return WEIR_EINVAL;
    receiver->opened++;
    *ret_post = &receiver->post;
    return 0;
}

/* ---- the tracer ---- */

static struct weir_tracer *begin(struct receiver *one, int status)
{
    struct weir_tracer *tracer = NULL;
    *one = (struct receiver){ .post = { &post_ops }, .all_come = true };
    one->status = status;
    receiver = one;
    assert_int_equal(weir_tracer_create(LOOPS, &tracer), 0);
    return tracer;
}

static void aim(struct weir_tracer *tracer, const char *url, uint64_t timeout_ns)
{
    struct weir_tracer_target *target = NULL;
    if (url)
        assert_int_equal(weir_tracer_target_create(url, "weir", NULL, timeout_ns, &target, NULL), 0);
    weir_tracer_aim(tracer, target);
}

static void add(struct weir_tracer *tracer, size_t loop, uint64_t number)
{
    struct weir_trace trace = { .unmatched = true, .status = 200 };
    trace.parent.trace_id[0] = (uint8_t)(loop + 1);
    memcpy(trace.parent.trace_id + 8, &number, sizeof(number));
    weir_tracer_add(tracer, loop, &trace);
}

static struct weir_tracer_view view(struct weir_tracer *tracer)
{
    struct weir_tracer_view seen;
    weir_tracer_view(tracer, &seen);
    return seen;
}

#define WAIT_FOR(condition)                                                                                            \
    do {                                                                                                               \
        while (!(condition))                                                                                           \
            rest();                                                                                                    \
    } while (0)

/* ---- tests ---- */

static void tracer__sends_each_once(void **state)
{
    (void)state;
    struct receiver one;
    struct weir_tracer *tracer = begin(&one, 200);
    aim(tracer, "here", SECOND);
    for (uint64_t i = 0; i < 1000; i++)
        for (size_t loop = 0; loop < LOOPS; loop++)
            add(tracer, loop, i);
    WAIT_FOR(view(tracer).sent == 1000 * LOOPS);
    add(tracer, 1, 1000);
    assert_int_equal(weir_tracer_finish(tracer), 0);
    assert_int_equal(view(tracer).sent, 1000 * LOOPS + 1);
    assert_int_equal(one.taken, 1000 * LOOPS + 1);
    assert_int_equal(view(tracer).sampled, 1000 * LOOPS + 1);
    assert_int_equal(view(tracer).full + view(tracer).lost + view(tracer).refused, 0);
    assert_false(view(tracer).failing);
    weir_tracer_destroy(tracer);
    assert_int_equal(one.closed, 1);
}

static void tracer__drops_what_finds_no_place(void **state)
{
    (void)state;
    struct receiver one;
    struct weir_tracer *tracer = begin(&one, 200);
    one.holds = true;
    aim(tracer, "here", SECOND);
    add(tracer, 0, 0);
    WAIT_FOR(one.asked == 1);
    for (uint64_t i = 1; i < 5000; i++)
        add(tracer, 0, i);
    add(tracer, 1, 0); /* another loop has room */
    assert_int_equal(view(tracer).full, 5000 - 1 - WEIR_TRACER_RING);
    one.holds = false;
    WAIT_FOR(view(tracer).sent == 1 + WEIR_TRACER_RING + 1);
    weir_tracer_destroy(tracer);
    assert_int_equal(one.taken, 1 + WEIR_TRACER_RING + 1);
}

static void tracer__tries_again_what_is_not_taken_now(void **state)
{
    (void)state;
    static const int statuses[] = { 0, 429, 502, 503, 504 };
    struct receiver one;
    struct weir_tracer *tracer = begin(&one, 0);
    aim(tracer, "here", SECOND);
    for (size_t i = 0; i < 3; i++) {
        one.status = statuses[i];
        const unsigned asked = one.asked;
        if (i == 0)
            add(tracer, 2, 0);
        WAIT_FOR(one.asked > asked);
        WAIT_FOR(view(tracer).failing);
    }
    assert_non_null(strstr(view(tracer).fault, "50"));
    one.status = 200;
    WAIT_FOR(view(tracer).sent == 1);
    assert_false(view(tracer).failing);
    weir_tracer_destroy(tracer);
    assert_int_equal(one.taken, 1);
}

static void tracer__gives_up_what_is_never_taken(void **state)
{
    (void)state;
    struct receiver one;
    struct weir_tracer *tracer = begin(&one, 503);
    one.retry_after_ns = 3600 * SECOND; /* nobody waits for so long */
    one.all_come = false;
    aim(tracer, "here", SECOND);
    add(tracer, 0, 0);
    WAIT_FOR(view(tracer).lost == 1);
    assert_true(view(tracer).failing);
    add(tracer, 0, 1); /* waits for its turn, and the end does not */
    assert_int_equal(one.asked, 1);
    one.status = 200;
    assert_int_equal(weir_tracer_finish(tracer), 0);
    assert_int_equal(view(tracer).sent, 1);
    weir_tracer_destroy(tracer);
}

static void tracer__does_not_repeat_what_is_refused(void **state)
{
    (void)state;
    static const int statuses[] = { 100, 302, 400, 401, 404, 413, 500, 501 };
    for (size_t i = 0; i < sizeof(statuses) / sizeof(statuses[0]); i++) {
        struct receiver one;
        struct weir_tracer *tracer = begin(&one, statuses[i]);
        aim(tracer, "here", SECOND);
        add(tracer, 0, 0);
        assert_int_equal(weir_tracer_finish(tracer), 0);
        assert_int_equal(view(tracer).refused, 1);
        assert_int_equal(one.asked, 1);
        weir_tracer_destroy(tracer);
    }
}

static void tracer__ends_in_time(void **state)
{
    (void)state;
    struct receiver one;
    struct weir_tracer *tracer = begin(&one, 0);
    aim(tracer, "here", SECOND / 10);
    for (uint64_t i = 0; i < 700; i++)
        add(tracer, 0, i);
    assert_int_equal(weir_tracer_finish(tracer), 700);
    assert_int_equal(view(tracer).lost, 700);
    assert_int_equal(one.taken, 0);
    weir_tracer_destroy(tracer);
}

static void tracer__keeps_a_target_that_is_the_same(void **state)
{
    (void)state;
    struct receiver one;
    struct weir_tracer *tracer = begin(&one, 200);
    struct weir_tracer_target *none = NULL;
    assert_int_equal(weir_tracer_target_create("wrong", "weir", NULL, SECOND, &none, NULL), WEIR_EINVAL);
    assert_null(none);
    aim(tracer, NULL, 0);
    assert_false(view(tracer).on);
    aim(tracer, "here", SECOND);
    one.holds = true;
    add(tracer, 0, 0);
    WAIT_FOR(one.asked == 1);
    aim(tracer, "here", SECOND); /* closed at once, and the thread, which is busy, hears nothing of it */
    aim(tracer, "here", SECOND);
    assert_int_equal(one.closed, 2);
    assert_true(view(tracer).on);
    one.holds = false;
    WAIT_FOR(view(tracer).sent == 1);
    assert_int_equal(one.closed, 2);
    aim(tracer, "there", SECOND);
    aim(tracer, "here", SECOND);
    add(tracer, 0, 1);
    aim(tracer, NULL, 0); /* what was written down goes first */
    WAIT_FOR(one.closed == one.opened);
    assert_int_equal(view(tracer).sent, 2);
    assert_false(view(tracer).on);
    add(tracer, 0, 2); /* of a loop that has not heard of it */
    aim(tracer, "here", SECOND);
    WAIT_FOR(view(tracer).sent == 3);
    weir_tracer_destroy(tracer);
    assert_int_equal(one.closed, one.opened);
}

/* ---- threads ---- */

struct adding {
    pthread_t thread;
    struct weir_tracer *tracer;
    size_t loop;
    uint64_t count;
};

static void *adding_main(void *argument)
{
    struct adding *adding = argument;
    for (uint64_t i = 0; i < adding->count; i++)
        add(adding->tracer, adding->loop, i);
    return NULL;
}

/* Of what the loops add, each is sent or counted, while the receiver is moody and targets change. */
static void tracer__loses_count_of_none(void **state)
{
    (void)state;
    static const int moods[] = { 200, 200, 0, 400, 503 };
    struct test_random random = { test_random_seed() };
    struct receiver one;
    struct weir_tracer *tracer = begin(&one, 200);
    struct adding adding[LOOPS];
    const uint64_t count = test_effort(5000, 20000, 2000000);
    one.all_come = false;
    aim(tracer, "here", SECOND / 5);
    for (size_t i = 0; i < LOOPS; i++) {
        adding[i] = (struct adding){ .tracer = tracer, .loop = i, .count = count };
        assert_int_equal(pthread_create(&adding[i].thread, NULL, adding_main, &adding[i]), 0);
    }
    for (int i = 0; i < 30; i++) {
        one.status = moods[test_random_below(&random, 5)];
        const uint64_t which = test_random_below(&random, 4);
        aim(tracer, which == 0 ? NULL : which == 1 ? "there" : "here", SECOND / 5);
        nanosleep(&(struct timespec){ .tv_nsec = (long)test_random_below(&random, 20000000) }, NULL);
    }
    for (size_t i = 0; i < LOOPS; i++)
        pthread_join(adding[i].thread, NULL);
    aim(tracer, "here", SECOND / 5);
    (void)weir_tracer_finish(tracer);
    const struct weir_tracer_view seen = view(tracer);
    assert_int_equal(seen.sampled, LOOPS * count);
    assert_int_equal(seen.sent + seen.full + seen.lost + seen.refused, seen.sampled);
    assert_int_equal(seen.sent, one.taken);
    weir_tracer_destroy(tracer);
    assert_int_equal(one.closed, one.opened);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tracer__sends_each_once),
        cmocka_unit_test(tracer__drops_what_finds_no_place),
        cmocka_unit_test(tracer__tries_again_what_is_not_taken_now),
        cmocka_unit_test(tracer__gives_up_what_is_never_taken),
        cmocka_unit_test(tracer__does_not_repeat_what_is_refused),
        cmocka_unit_test(tracer__ends_in_time),
        cmocka_unit_test(tracer__keeps_a_target_that_is_the_same),
        cmocka_unit_test(tracer__loses_count_of_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
