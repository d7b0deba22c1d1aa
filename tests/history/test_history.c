/* SPDX-License-Identifier: Apache-2.0
 *
 * The checker accepts what correct locks may record and refuses what they may not: histories made by hand, and runs of
 * a correct lock drawn by a seed. */
#include "search.h"

#include <glob.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "random.h"

#define HAND_MADE_MIN 10
#define MEMORY_MAX ((size_t)64 << 20)

static enum search_verdict verdict_of(const char *path, struct history *history, unsigned *ret_stuck)
{
    if (history_load(path, history) != 0)
        fail_msg("%s:%u: %s", path, history->faulty_line, history->fault);
    const struct model *model = model_find(history->model);
    if (!model)
        fail_msg("%s: the header names no model", path);
    size_t lock;
    struct search_result result;
    enum search_verdict verdict = search_all(history, model, MEMORY_MAX, &lock, &result);
    *ret_stuck = result.stuck;
    return verdict;
}

static void each_is(const char *pattern, enum search_verdict expected)
{
    glob_t found;
    assert_int_equal(glob(pattern, 0, NULL, &found), 0);
    assert_true(found.gl_pathc >= HAND_MADE_MIN);
    char(*abouts)[200] = calloc(found.gl_pathc, sizeof(*abouts));
    assert_non_null(abouts);
    for (size_t i = 0; i < found.gl_pathc; i++) {
        struct history history;
        unsigned stuck;
        if (verdict_of(found.gl_pathv[i], &history, &stuck) != expected)
            fail_msg("%s: not as expected (stuck at line %u): %s", found.gl_pathv[i], stuck, history.about);
        if (expected == SEARCH_REFUSED && stuck != history.stuck)
            fail_msg("%s: stuck at line %u, not %u", found.gl_pathv[i], stuck, history.stuck);
        for (size_t j = 0; j < i; j++)
            assert_string_not_equal(abouts[j], history.about);
        memcpy(abouts[i], history.about, sizeof(abouts[i]));
        history_free(&history);
    }
    free(abouts);
    globfree(&found);
}

static void history__good_ones_are_accepted(void **state)
{
    (void)state;
    each_is(HISTORIES "/good/*.jsonl", SEARCH_ACCEPTED);
}

static void history__bad_ones_are_refused_each_at_its_line(void **state)
{
    (void)state;
    each_is(HISTORIES "/bad/*.jsonl", SEARCH_REFUSED);
}

/* ---- runs of a correct lock, drawn by a seed ---- */

#define OPS 80
#define OWNERS 4
#define LEASE_NS 1000

struct lock_run {
    struct test_random random;
    uint64_t now_ns, end_ns, number, tokens[OWNERS + 1];
    size_t holder;
};

static void op_grant(struct lock_run *run, struct history_op *op)
{
    op->result = HISTORY_GRANTED;
    op->lease_ns = op->lease_max_ns = LEASE_NS;
    op->has_token = true;
    op->token = (struct weir_token){ 1, run->tokens[op->owner] };
    run->holder = op->owner;
    run->end_ns = run->now_ns + LEASE_NS;
}

/* One operation, decided at run->now_ns; recorded around that instant, so that neighbours overlap. */
static struct history_op op_draw(struct lock_run *run, unsigned line)
{
    run->now_ns += 1 + test_random_below(&run->random, line % 20 == 0 ? 2 * LEASE_NS : LEASE_NS / 5);
    if (run->now_ns >= run->end_ns)
        run->holder = 0;
    struct history_op op = { .line = line,
                             .verb = (enum history_verb)test_random_below(&run->random, 3),
                             .start_ns = run->now_ns - 1 - test_random_below(&run->random, LEASE_NS / 4),
                             .end_ns = run->now_ns + test_random_below(&run->random, LEASE_NS / 4),
                             .lock = 1,
                             .owner = 1 + test_random_below(&run->random, OWNERS) };
    bool own = run->holder == op.owner;
    if (op.verb == HISTORY_ACQUIRE && (own || run->holder == 0)) {
        run->tokens[op.owner] = own ? run->tokens[op.owner] : ++run->number;
        op_grant(run, &op);
    } else if (op.verb == HISTORY_RENEW && own) {
        op_grant(run, &op);
    } else if (op.verb == HISTORY_RELEASE && own) {
        op.result = HISTORY_OK;
        run->holder = 0;
    } else {
        op.result = op.verb == HISTORY_ACQUIRE ? HISTORY_HELD : HISTORY_LOST;
    }
    if (test_random_below(&run->random, 20) == 0) {
        op.result = HISTORY_UNKNOWN;
        op.end_ns = HISTORY_NEVER;
        op.has_token = false;
        op.lease_ns = LEASE_NS;
    }
    return op;
}

static enum search_verdict run_check(uint64_t seed, size_t memory_max, bool forgets)
{
    static struct history_op ops[OPS];
    struct history history = { .ops = ops, .count = OPS, .locks.count = 1 };
    struct lock_run run = { .random = { seed }, .now_ns = 1000000 };
    for (unsigned i = 0; i < OPS; i++) {
        ops[i] = op_draw(&run, i + 1);
        if (forgets && i == OPS / 4)
            run.number = 0; /* those after it come again */
    }
    size_t lock;
    struct search_result result;
    return search_all(&history, model_find("fenced"), memory_max, &lock, &result);
}

static void history__runs_of_a_correct_lock_are_accepted(void **state)
{
    (void)state;
    uint64_t seed = test_random_seed();
    unsigned gave_up = 0;
    for (uint64_t i = 0; i < 200; i++) {
        enum search_verdict verdict = run_check(seed + i, MEMORY_MAX, false);
        if (verdict == SEARCH_REFUSED)
            fail_msg("run %llu is refused", (unsigned long long)(seed + i));
        gave_up += verdict == SEARCH_GAVE_UP;
    }
    assert_true(gave_up <= 4);
}

static void history__runs_of_a_forgetful_lock_are_refused(void **state)
{
    (void)state;
    uint64_t seed = test_random_seed();
    unsigned refused = 0;
    for (uint64_t i = 0; i < 50; i++)
        refused += run_check(seed + i, MEMORY_MAX, true) == SEARCH_REFUSED;
    assert_true(refused >= 25); /* where too little was granted after it, nobody can tell */
}

static void history__too_little_memory_is_neither_accepted_nor_refused(void **state)
{
    (void)state;
    assert_int_equal(run_check(1, 1024, false), SEARCH_GAVE_UP);
    assert_int_equal(run_check(1, 1024, true), SEARCH_GAVE_UP);
}

/* ---- files that are none ---- */

static void refused_file(const char *text, unsigned line)
{
    char path[] = "/tmp/weir-history-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    FILE *file = fdopen(fd, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
    struct history history;
    assert_int_equal(history_load(path, &history), WEIR_EPROTO);
    assert_int_equal(history.faulty_line, line);
    (void)remove(path);
}

static void history__files_that_are_none_are_errors_with_their_line(void **state)
{
    (void)state;
    refused_file("{\"model\":\"fenced\"}\nnonsense\n", 2);
    refused_file("{\"op\":\"steal\",\"lock\":\"a\"}\n", 1);
    refused_file("{\"op\":\"renew\",\"lock\":\"a\",\"owner\":\"A\",\"start_ns\":1,\"end_ns\":2,\"result\":\"held\"}\n",
                 1);
    refused_file("{\"op\":\"renew\",\"lock\":\"a\",\"owner\":\"A\",\"start_ns\":3,\"end_ns\":2,\"result\":\"lost\"}\n",
                 1);
    refused_file("{\"op\":\"renew\",\"lock\":\"a\",\"start_ns\":1,\"end_ns\":2,\"result\":\"lost\"}\n", 1);
    refused_file("{\"op\":\"install\",\"lock\":\"a\",\"start_ns\":1,\"end_ns\":2,\"result\":\"ok\"}\n", 1);
    refused_file("{\"op\":\"read\",\"lock\":\"a\",\"start_ns\":-1,\"end_ns\":2,\"result\":\"ok\"}\n", 1);
    struct history history;
    assert_int_equal(history_load("/nonexistent/history", &history), WEIR_EIO);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(history__good_ones_are_accepted),
        cmocka_unit_test(history__bad_ones_are_refused_each_at_its_line),
        cmocka_unit_test(history__runs_of_a_correct_lock_are_accepted),
        cmocka_unit_test(history__runs_of_a_forgetful_lock_are_refused),
        cmocka_unit_test(history__too_little_memory_is_neither_accepted_nor_refused),
        cmocka_unit_test(history__files_that_are_none_are_errors_with_their_line),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
