/* SPDX-License-Identifier: Apache-2.0
 *
 * The operator's log: what a line looks like, that it is whole or not there, and what storms become; then the watch:
 * which changes become lines. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "random.h"
#include "serve/watch.h"

#define SECOND UINT64_C(1000000000)
#define WALL (UINT64_C(1795000000) * SECOND + 123456789)

struct sink {
    int fds[2];
    struct weir_logger logger;
    struct weir_watch *watch;
    uint64_t now_ns;
    char text[1 << 20];
};

static int sink_up(void **state)
{
    struct sink *sink = calloc(1, sizeof(*sink));
    *state = sink;
    assert_int_equal(pipe2(sink->fds, O_NONBLOCK), 0);
    sink->logger = (struct weir_logger){ .fd = sink->fds[1], .level = WEIR_LOG_INFO };
    sink->now_ns = 1000 * SECOND;
    return weir_watch_create(&sink->logger, &sink->watch);
}

static int sink_down(void **state)
{
    struct sink *sink = *state;
    weir_watch_destroy(sink->watch);
    close(sink->fds[0]);
    close(sink->fds[1]);
    free(sink);
    return 0;
}

/* What came since the last call. */
static const char *heard(struct sink *sink)
{
    size_t size = 0;
    for (ssize_t got; (got = read(sink->fds[0], sink->text + size, sizeof(sink->text) - 1 - size)) > 0;)
        size += (size_t)got;
    sink->text[size] = '\0';
    return sink->text;
}

static size_t lines(const char *text)
{
    size_t count = 0;
    for (; *text; text++)
        count += *text == '\n';
    return count;
}

static void look(struct sink *sink, uint64_t later_ns)
{
    sink->now_ns += later_ns;
    weir_watch_look(sink->watch, sink->now_ns, WALL + sink->now_ns);
}

/* ---- lines ---- */

static void logger__a_line_has_time_level_event_and_message(void **state)
{
    struct sink *sink = *state;
    weir_logger_write(&sink->logger, WALL, WEIR_LOG_WARN, "engine_lost", "it does not answer");
    assert_string_equal(heard(sink), "2026-11-18T11:06:40.123Z warn engine_lost: it does not answer\n");
    sink->logger.format = WEIR_LOG_JSON;
    weir_logger_write(&sink->logger, WALL, WEIR_LOG_ERROR, "engine_lost", "say \"no\"");
    json_t *line = json_loads(heard(sink), 0, NULL);
    assert_string_equal(json_string_value(json_object_get(line, "time")), "2026-11-18T11:06:40.123Z");
    assert_string_equal(json_string_value(json_object_get(line, "level")), "error");
    assert_string_equal(json_string_value(json_object_get(line, "event")), "engine_lost");
    assert_string_equal(json_string_value(json_object_get(line, "message")), "say \"no\"");
    json_decref(line);
}

static void logger__a_line_names_its_node_where_there_are_several(void **state)
{
    struct sink *sink = *state;
    strcpy(sink->logger.node, "a");
    weir_logger_write(&sink->logger, WALL, WEIR_LOG_WARN, "engine_lost", "it does not answer");
    assert_string_equal(heard(sink), "2026-11-18T11:06:40.123Z warn engine_lost: node a: it does not answer\n");
    sink->logger.format = WEIR_LOG_JSON;
    weir_logger_write(&sink->logger, WALL, WEIR_LOG_WARN, "engine_lost", "it does not answer");
    assert_string_equal(heard(sink), "{\"time\":\"2026-11-18T11:06:40.123Z\",\"level\":\"warn\",\"event\":"
                                     "\"engine_lost\",\"node\":\"a\",\"message\":\"it does not answer\"}\n");
}

static void logger__what_is_less_grave_than_asked_for_is_not_written(void **state)
{
    struct sink *sink = *state;
    sink->logger.level = WEIR_LOG_WARN;
    weir_logger_write(&sink->logger, WALL, WEIR_LOG_INFO, "x", "y");
    assert_string_equal(heard(sink), "");
    weir_logger_write(&sink->logger, WALL, WEIR_LOG_WARN, "x", "y");
    assert_int_equal(lines(heard(sink)), 1);
}

/* A server's error text is its own: it writes no second line and drives no terminal. */
static void logger__members_of_its_own_stand_in_json_alone(void **state)
{
    struct sink *sink = *state;
    weir_logger_write_fields(&sink->logger, WALL, WEIR_LOG_INFO, "x", "text", "\"a\":1");
    assert_string_equal(heard(sink), "2026-11-18T11:06:40.123Z info x: text\n");
    sink->logger.format = WEIR_LOG_JSON;
    weir_logger_write_fields(&sink->logger, WALL, WEIR_LOG_INFO, "x", "text", "\"a\":1,\"b\":\"c\"");
    assert_string_equal(heard(sink), "{\"time\":\"2026-11-18T11:06:40.123Z\",\"level\":\"info\",\"event\":\"x\","
                                     "\"a\":1,\"b\":\"c\",\"message\":\"text\"}\n");
    /* The longest leave room for all that weir says itself. */
    char fields[WEIR_LOGGER_FIELDS_MAX + 1], message[600];
    memset(fields, 'f', sizeof(fields));
    memcpy(fields, "\"a\":\"", 5);
    fields[sizeof(fields) - 2] = '"';
    fields[sizeof(fields) - 1] = '\0';
    memset(message, '\n', sizeof(message));
    message[sizeof(message) - 1] = '\0';
    memset(sink->logger.node, 'n', WEIR_LOGGER_NODE_MAX);
    weir_logger_write_fields(&sink->logger, WALL, WEIR_LOG_INFO, "refused", message, fields);
    const char *line = heard(sink);
    json_t *json = json_loads(line, 0, NULL);
    assert_non_null(json);
    assert_int_equal(json_string_length(json_object_get(json, "a")), WEIR_LOGGER_FIELDS_MAX - 6);
    json_decref(json);
}

static void logger__hostile_text_stays_in_its_line(void **state)
{
    struct sink *sink = *state;
    weir_logger_write(&sink->logger, WALL, WEIR_LOG_WARN, "x", "a\nb\x1b[31m\x7f\\n");
    assert_string_equal(heard(sink), "2026-11-18T11:06:40.123Z warn x: a\\x0ab\\x1b[31m\\x7f\\x5cn\n");
    char wild[WEIR_LOGGER_LINE_MAX * 3];
    struct test_random random = { test_random_seed() };
    for (int turn = 0; turn < 2000; turn++) {
        size_t size = (size_t)test_random_below(&random, sizeof(wild));
        for (size_t i = 0; i < size; i++)
            wild[i] = (char)(test_random_below(&random, 255) + 1);
        wild[size ? size - 1 : 0] = '\0';
        sink->logger.format = turn % 2 ? WEIR_LOG_JSON : WEIR_LOG_TEXT;
        weir_logger_write(&sink->logger, WALL + (uint64_t)turn * SECOND, WEIR_LOG_WARN, "x", wild);
        const char *line = heard(sink);
        assert_int_equal(lines(line), 1);
        assert_true(strlen(line) <= WEIR_LOGGER_LINE_MAX && line[strlen(line) - 1] == '\n');
        json_t *json = turn % 2 ? json_loads(line, 0, NULL) : NULL;
        assert_true(turn % 2 == 0 || json);
        json_decref(json);
    }
}

static void logger__a_storm_is_cut_and_the_next_line_says_so(void **state)
{
    struct sink *sink = *state;
    for (int i = 0; i < 1000; i++)
        weir_logger_write(&sink->logger, WALL, WEIR_LOG_WARN, "x", "y");
    assert_int_equal(lines(heard(sink)), WEIR_LOGGER_LINES_MAX);
    weir_logger_write(&sink->logger, WALL + SECOND, WEIR_LOG_WARN, "x", "y");
    assert_non_null(strstr(heard(sink), "x: y (900 lines before this one were dropped)\n"));
}

static void logger__nobody_waits_for_a_reader_that_does_not_read(void **state)
{
    struct sink *sink = *state;
    char page[4096] = { 0 };
    while (write(sink->fds[1], page, sizeof(page)) > 0) {
    }
    assert_int_equal(fcntl(sink->fds[1], F_SETFL, 0), 0); /* from now on a write would wait for ever */
    weir_logger_write(&sink->logger, WALL, WEIR_LOG_WARN, "x", "y");
    assert_int_equal(sink->logger.dropped_total, 1);
    heard(sink);
    weir_logger_write(&sink->logger, WALL, WEIR_LOG_WARN, "x", "z");
    assert_non_null(strstr(heard(sink), "x: z (1 line before this one was dropped)"));
}

/* ---- the watch ---- */

static void state(struct sink *sink, const char *name, bool up)
{
    weir_watch_state(sink->watch, (struct weir_subject){ "thing", name }, up, up, up ? WEIR_LOG_INFO : WEIR_LOG_ERROR,
                     up ? "thing_back" : "thing_lost", "%s", name);
}

static void watch__a_state_is_told_when_it_changes(void **test)
{
    struct sink *sink = *test;
    look(sink, 0);
    state(sink, "a", true);
    state(sink, "b", false);
    const char *text = heard(sink);
    assert_int_equal(lines(text), 1);
    assert_non_null(strstr(text, "error thing_lost: b\n"));
    for (int i = 0; i < 100; i++) {
        look(sink, SECOND);
        state(sink, "a", i < 50);
        state(sink, "b", true);
    }
    text = heard(sink);
    assert_int_equal(lines(text), 2);
    assert_non_null(strstr(text, "info thing_back: b\n"));
    assert_non_null(strstr(text, "error thing_lost: a\n"));
}

static void watch__a_state_that_flutters_is_bounded_and_its_end_is_told(void **test)
{
    struct sink *sink = *test;
    look(sink, 0);
    state(sink, "a", true);
    for (int i = 0; i < 400; i++) { /* 100 s */
        look(sink, SECOND / 4);
        state(sink, "a", i % 2);
    }
    size_t told = lines(heard(sink));
    assert_true(told >= WEIR_WATCH_BURST && told <= WEIR_WATCH_BURST + 11);
    for (int i = 0; i < 80; i++) {
        look(sink, SECOND / 4);
        state(sink, "a", false);
    }
    const char *last = heard(sink);
    /* Whatever was told last, the end is that it is lost. */
    assert_true(lines(last) <= 1);
    look(sink, SECOND);
    state(sink, "a", true);
    look(sink, 20 * SECOND);
    state(sink, "a", true);
    assert_non_null(strstr(heard(sink), "thing_back: a"));
}

static void watch__an_event_is_told_each_time_it_is_counted(void **test)
{
    struct sink *sink = *test;
    const struct weir_subject lost = { "lost", "" };
    look(sink, 0);
    weir_watch_event(sink->watch, lost, 0, WEIR_LOG_ERROR, "gone");
    assert_string_equal(heard(sink), "");
    look(sink, SECOND);
    weir_watch_event(sink->watch, lost, 2, WEIR_LOG_ERROR, "gone");
    assert_non_null(strstr(heard(sink), "error lost: gone (2 since the start)\n"));
    look(sink, SECOND);
    weir_watch_event(sink->watch, lost, 2, WEIR_LOG_ERROR, "gone");
    assert_string_equal(heard(sink), "");
    for (uint64_t i = 3; i < 1000; i++)
        weir_watch_event(sink->watch, lost, i, WEIR_LOG_ERROR, "gone");
    assert_int_equal(lines(heard(sink)), WEIR_WATCH_BURST - 1);
    look(sink, 11 * SECOND);
    weir_watch_event(sink->watch, lost, 999, WEIR_LOG_ERROR, "gone");
    assert_non_null(strstr(heard(sink), "(999 since the start)\n"));
}

static void watch__a_condition_is_told_when_it_begins_and_when_it_is_over(void **test)
{
    struct sink *sink = *test;
    const struct weir_subject skipped = { "skipped", "api" };
    uint64_t total = 5;
    look(sink, 0);
    weir_watch_condition(sink->watch, skipped, total, WEIR_LOG_WARN, "no user");
    assert_non_null(strstr(heard(sink), "warn skipped_begun: api: no user (5 so far)\n"));
    for (int i = 0; i < 1000; i++) {
        look(sink, SECOND);
        weir_watch_condition(sink->watch, skipped, ++total, WEIR_LOG_WARN, "no user");
    }
    assert_string_equal(heard(sink), "");
    look(sink, WEIR_WATCH_QUIET_NS - 1);
    weir_watch_condition(sink->watch, skipped, total, WEIR_LOG_WARN, "no user");
    assert_string_equal(heard(sink), "");
    look(sink, 1);
    weir_watch_condition(sink->watch, skipped, total, WEIR_LOG_WARN, "no user");
    assert_non_null(strstr(heard(sink), "info skipped_over: api: no more for a minute (1005 in all)\n"));
    look(sink, SECOND);
    weir_watch_condition(sink->watch, skipped, total + 1, WEIR_LOG_WARN, "no user");
    assert_non_null(strstr(heard(sink), "skipped_begun: api: no user (1 so far)\n"));
}

static void watch__subjects_without_end_share_one(void **test)
{
    struct sink *sink = *test;
    char name[32];
    sink->logger.level = WEIR_LOG_ERROR; /* only the bound matters here */
    for (unsigned i = 0; i < 100000; i++) {
        look(sink, SECOND);
        (void)snprintf(name, sizeof(name), "%u", i);
        weir_watch_condition(sink->watch, (struct weir_subject){ "skipped", name }, 1, WEIR_LOG_WARN, "x");
    }
    sink->logger.level = WEIR_LOG_INFO;
    look(sink, 100 * SECOND);
    weir_watch_condition(sink->watch, (struct weir_subject){ "skipped", "new" }, 2, WEIR_LOG_WARN, "x");
    assert_non_null(strstr(heard(sink), "skipped_begun: (others): x"));
}

/* What a full pipe or a storm swallowed: the engine is lost, and nobody has read it. */
static void watch__what_the_log_dropped_is_told_once_it_can_be(void **test)
{
    struct sink *sink = *test;
    char page[4096] = { 0 };
    const struct weir_subject subjects[] = { { "gone", "" }, { "skipped", "" } };
    look(sink, 0);
    state(sink, "a", true);
    while (write(sink->fds[1], page, sizeof(page)) > 0) {
    }
    for (int i = 0; i < 60; i++) {
        look(sink, SECOND);
        state(sink, "a", false);
        weir_watch_event(sink->watch, subjects[0], 7, WEIR_LOG_ERROR, "one");
        weir_watch_condition(sink->watch, subjects[1], (uint64_t)i + 1, WEIR_LOG_WARN, "no user");
    }
    heard(sink);
    look(sink, 2 * WEIR_WATCH_REFILL_NS);
    state(sink, "a", false);
    weir_watch_event(sink->watch, subjects[0], 7, WEIR_LOG_ERROR, "one");
    weir_watch_condition(sink->watch, subjects[1], 61, WEIR_LOG_WARN, "no user");
    const char *text = heard(sink);
    assert_int_equal(lines(text), 3);
    assert_non_null(strstr(text, "error thing_lost: a ("));
    assert_non_null(strstr(text, "error gone: one (7 since the start)"));
    assert_non_null(strstr(text, "warn skipped_begun: no user (61 so far)"));
    look(sink, 2 * WEIR_WATCH_REFILL_NS);
    state(sink, "a", false);
    assert_string_equal(heard(sink), "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define CASE(name) cmocka_unit_test_setup_teardown(name, sink_up, sink_down)
        CASE(logger__a_line_has_time_level_event_and_message),
        CASE(logger__a_line_names_its_node_where_there_are_several),
        CASE(logger__what_is_less_grave_than_asked_for_is_not_written),
        CASE(logger__members_of_its_own_stand_in_json_alone),
        CASE(logger__hostile_text_stays_in_its_line),
        CASE(logger__a_storm_is_cut_and_the_next_line_says_so),
        CASE(logger__nobody_waits_for_a_reader_that_does_not_read),
        CASE(watch__a_state_is_told_when_it_changes),
        CASE(watch__a_state_that_flutters_is_bounded_and_its_end_is_told),
        CASE(watch__an_event_is_told_each_time_it_is_counted),
        CASE(watch__a_condition_is_told_when_it_begins_and_when_it_is_over),
        CASE(watch__subjects_without_end_share_one),
        CASE(watch__what_the_log_dropped_is_told_once_it_can_be),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
