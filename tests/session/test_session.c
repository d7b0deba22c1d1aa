/* SPDX-License-Identifier: Apache-2.0
 *
 * The judge accepts what sessions may record and refuses what they may not: histories made by hand, each with a reason
 * of its own in its header. */
#include "recorded.h"

#include <glob.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "weir/error.h"

#define HAND_MADE_MIN 10

static void verdict_check(const char *path, const struct recorded *recorded)
{
    struct recorded_verdict verdict;
    uint64_t line;
    int failed = recorded_judge(recorded, 0, &verdict, &line);
    if (failed != 0)
        fail_msg("%s:%llu: %s", path, (unsigned long long)line, verdict.judge.fault);
    const struct weir_judge_counts *counts = &verdict.judge.counts;
    if (counts->violated != (recorded->line != 0))
        fail_msg("%s: %llu violations: %s", path, (unsigned long long)counts->violated, recorded->about);
    if (counts->violated == 1 &&
        (verdict.violations[0].event.id != recorded->line || verdict.violations[0].broken != recorded->broken))
        fail_msg("%s: line %llu broke %u, not line %llu %u", path, (unsigned long long)verdict.violations[0].event.id,
                 verdict.violations[0].broken, (unsigned long long)recorded->line, recorded->broken);
    if (counts->lost != recorded->lost || counts->lost_without_need != recorded->without_need)
        fail_msg("%s: %llu lost, %llu without need", path, (unsigned long long)counts->lost,
                 (unsigned long long)counts->lost_without_need);
    recorded_verdict_free(&verdict);
}

static void each_is_as_its_header_says(const char *pattern, bool bad)
{
    glob_t found;
    assert_int_equal(glob(pattern, 0, NULL, &found), 0);
    assert_true(found.gl_pathc >= HAND_MADE_MIN);
    char(*abouts)[200] = calloc(found.gl_pathc, sizeof(*abouts));
    assert_non_null(abouts);
    for (size_t i = 0; i < found.gl_pathc; i++) {
        struct recorded recorded;
        if (recorded_load(found.gl_pathv[i], &recorded) != 0)
            fail_msg("%s:%u: %s", found.gl_pathv[i], recorded.faulty_line, recorded.fault);
        assert_int_equal(recorded.line != 0 && recorded.broken != 0, bad);
        verdict_check(found.gl_pathv[i], &recorded);
        for (size_t j = 0; j < i; j++)
            assert_string_not_equal(abouts[j], recorded.about);
        memcpy(abouts[i], recorded.about, sizeof(abouts[i]));
        recorded_free(&recorded);
    }
    free(abouts);
    globfree(&found);
}

static void sessions__good_ones_are_accepted(void **state)
{
    (void)state;
    each_is_as_its_header_says(HISTORIES "/good/*.jsonl", false);
}

static void sessions__bad_ones_are_refused_each_at_its_line(void **state)
{
    (void)state;
    each_is_as_its_header_says(HISTORIES "/bad/*.jsonl", true);
}

static void sessions__too_few_slots_are_neither_accepted_nor_refused(void **state)
{
    (void)state;
    struct recorded recorded;
    struct recorded_verdict verdict;
    uint64_t line;
    assert_int_equal(recorded_load(HISTORIES "/bad/read-went-back.jsonl", &recorded), 0);
    assert_int_equal(recorded_judge(&recorded, 1, &verdict, &line), WEIR_ELIMIT);
    assert_int_equal(line, 2);
    recorded_verdict_free(&verdict);
    recorded_free(&recorded);
}

static void refused_file(const char *text, unsigned line)
{
    char path[] = "/tmp/weir-session-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    FILE *file = fdopen(fd, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
    struct recorded recorded;
    assert_int_equal(recorded_load(path, &recorded), WEIR_EPROTO);
    assert_int_equal(recorded.faulty_line, line);
    (void)remove(path);
}

static void sessions__files_that_are_none_are_errors_with_their_line(void **state)
{
    (void)state;
    refused_file("{\"about\":\"\"}\nnonsense\n", 2);
    refused_file("{\"op\":\"lost\",\"session\":\"s\",\"start_ns\":1,\"end_ns\":1}\n{\"about\":\"\"}\n", 2);
    refused_file("{\"op\":\"steal\",\"start_ns\":1,\"end_ns\":2}\n", 1);
    refused_file("{\"op\":\"lost\",\"session\":\"s\",\"start_ns\":-1,\"end_ns\":2}\n", 1);
    refused_file("{\"op\":\"lost\",\"session\":\"s\",\"start_ns\":1}\n", 1);
    refused_file("{\"op\":\"lost\",\"start_ns\":1,\"end_ns\":2}\n", 1);
    refused_file("{\"op\":\"cut\",\"key\":\"k\",\"start_ns\":1,\"end_ns\":2}\n", 1);
    refused_file("{\"op\":\"read\",\"session\":\"s\",\"key\":\"k\",\"version\":1,\"start_ns\":1,\"end_ns\":2}\n", 1);
    refused_file("{\"op\":\"read\",\"session\":\"s\",\"server\":\"a\",\"version\":1,\"start_ns\":1,\"end_ns\":2}\n", 1);
    struct recorded recorded;
    assert_int_equal(recorded_load("/nonexistent/history", &recorded), WEIR_EIO);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sessions__good_ones_are_accepted),
        cmocka_unit_test(sessions__bad_ones_are_refused_each_at_its_line),
        cmocka_unit_test(sessions__too_few_slots_are_neither_accepted_nor_refused),
        cmocka_unit_test(sessions__files_that_are_none_are_errors_with_their_line),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
