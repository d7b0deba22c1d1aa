/* SPDX-License-Identifier: Apache-2.0
 *
 * Spans as OTLP has them, looked at with a slow reader of protobuf that knows nothing of the writer; and answers. That
 * others read it so, tests/live/test_traces.py shows. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "observe/trace.h"

static uint8_t memory[1 << 20];

/* ---- a slow reader ---- */

struct piece {
    const uint8_t *data;
    size_t size;
    uint64_t number;
};

static uint64_t read_varint(const uint8_t **at, const uint8_t *end)
{
    uint64_t value = 0;
    for (unsigned shift = 0;; shift += 7) {
        assert_true(*at < end && shift < 64);
        uint8_t byte = *(*at)++;
        value += (uint64_t)(byte & 127) << shift;
        if (byte < 128) {
            assert_true(byte > 0 || shift == 0); /* as short as it can be */
            return value;
        }
    }
}

/* Occurrence number `index` of a field; false: there are not so many. The whole message must be well formed. */
static bool find(struct piece message, unsigned field, size_t index, struct piece *ret_piece)
{
    const uint8_t *at = message.data, *end = at + message.size;
    bool found = false;
    while (at < end) {
        uint64_t tag = read_varint(&at, end);
        struct piece piece = { .data = at };
        if ((tag & 7) == 0)
            piece.number = read_varint(&at, end);
        else if ((tag & 7) == 2) {
            piece.size = (size_t)read_varint(&at, end);
            piece.data = at;
            at += piece.size;
        } else {
            assert_true((tag & 7) == 1 || (tag & 7) == 5);
            piece.size = (tag & 7) == 1 ? 8 : 4;
            at += piece.size;
            for (size_t i = piece.size; i > 0; i--)
                piece.number = piece.number * 256 + piece.data[i - 1];
        }
        assert_true(at <= end);
        if (tag >> 3 == field && index-- == 0) {
            *ret_piece = piece;
            found = true;
        }
    }
    return found;
}

static struct piece get(struct piece message, unsigned field)
{
    struct piece piece = { 0 }, second;
    assert_true(find(message, field, 0, &piece));
    assert_false(find(message, field, 1, &second));
    return piece;
}

static bool is_text(struct piece piece, const char *text)
{
    return piece.size == strlen(text) && memcmp(piece.data, text, piece.size) == 0;
}

/* The value of an attribute; field 1: text, 2: truth, 3: integer. False: there is none of that name. */
static bool attribute(struct piece message, unsigned list, const char *name, unsigned kind, struct piece *ret_value)
{
    struct piece pair;
    for (size_t i = 0; find(message, list, i, &pair); i++)
        if (is_text(get(pair, 1), name)) {
            *ret_value = get(get(pair, 2), kind);
            return true;
        }
    return false;
}

static struct piece span_of(size_t size, size_t index)
{
    struct piece span, whole = { .data = memory, .size = size };
    assert_true(find(get(get(whole, 1), 2), 2, index, &span));
    return span;
}

/* ---- tests ---- */

static void begin(struct weir_otlp *otlp, size_t room)
{
    static const struct weir_otlp_attribute resource[] = {
        { .name = "service.name", .kind = WEIR_OTLP_TEXT, .text = "front" },
        { .name = "left.out", .kind = WEIR_OTLP_NONE },
    };
    assert_true(weir_otlp_begin(otlp, memory, room, resource, 2, "weir", "1.2.3"));
}

static struct weir_trace trace_of(uint8_t number)
{
    struct weir_trace trace = { .has_parent = true,
                                .parent.flags = 1,
                                .call = WEIR_TRACE_AUTH,
                                .verdict = WEIR_METRICS_REFUSED,
                                .algorithm = WEIR_SLIDING_LOG,
                                .status = 429,
                                .start_wall_ns = UINT64_C(1790000000000000001),
                                .took_ns = 250000,
                                .limit = "api",
                                .limits = 2,
                                .cost = 3,
                                .capacity = UINT64_C(1) << 40,
                                .remaining = 300,
                                .retry_after_ns = 1000001 };
    memset(trace.parent.trace_id, number, sizeof(trace.parent.trace_id));
    memset(trace.parent.parent_id, number + 1, sizeof(trace.parent.parent_id));
    memset(trace.span_id, number + 2, sizeof(trace.span_id));
    return trace;
}

static void otlp__of_one_span(void **state)
{
    (void)state;
    struct weir_otlp otlp;
    struct piece value, whole = { .data = memory };
    const struct weir_trace trace = trace_of(7);
    begin(&otlp, sizeof(memory));
    assert_true(weir_trace_encode(&trace, &otlp));
    whole.size = weir_otlp_end(&otlp);
    assert_true(attribute(get(get(whole, 1), 1), 1, "service.name", 1, &value) && is_text(value, "front"));
    assert_false(attribute(get(get(whole, 1), 1), 1, "left.out", 1, &value));
    assert_true(is_text(get(get(get(get(whole, 1), 2), 1), 1), "weir"));
    assert_true(is_text(get(get(get(get(whole, 1), 2), 1), 2), "1.2.3"));
    const struct piece span = span_of(whole.size, 0);
    assert_memory_equal(get(span, 1).data, trace.parent.trace_id, 16);
    assert_int_equal(get(span, 1).size, 16);
    assert_memory_equal(get(span, 2).data, trace.span_id, 8);
    assert_memory_equal(get(span, 4).data, trace.parent.parent_id, 8);
    assert_true(is_text(get(span, 5), "auth"));
    assert_int_equal(get(span, 6).number, 2);
    assert_int_equal(get(span, 7).number, UINT64_C(1790000000000000001));
    assert_int_equal(get(span, 8).number, UINT64_C(1790000000000250001));
    assert_int_equal(get(span, 16).number, 0x301);
    assert_false(find(span, 15, 0, &value));
    assert_true(attribute(span, 9, "weir.limit", 1, &value) && is_text(value, "api"));
    assert_true(attribute(span, 9, "weir.algorithm", 1, &value) && is_text(value, "sliding_log"));
    assert_true(attribute(span, 9, "weir.verdict", 1, &value) && is_text(value, "refused"));
    assert_true(attribute(span, 9, "weir.capacity", 3, &value) && value.number == UINT64_C(1) << 40);
    assert_true(attribute(span, 9, "weir.remaining", 3, &value) && value.number == 300);
    assert_true(attribute(span, 9, "weir.retry_after_ms", 3, &value) && value.number == 2);
    assert_true(attribute(span, 9, "weir.rules_checksum", 1, &value) && is_text(value, "0000000000000000"));
    assert_false(attribute(span, 9, "weir.engine_round_trips", 3, &value));
    assert_false(attribute(span, 9, "weir.rules_version", 3, &value));
}

static void otlp__of_a_root_that_failed(void **state)
{
    (void)state;
    struct weir_otlp otlp;
    struct piece value;
    struct weir_trace trace = trace_of(7);
    trace.has_parent = false;
    trace.shared = trace.has_breaker = trace.peek = true;
    trace.fallback = WEIR_FALLBACK_CLOSED;
    trace.breaker = WEIR_BREAKER_OPEN;
    trace.round_trips = 2;
    trace.status = 503;
    trace.retry_after_ns = WEIR_NEVER;
    begin(&otlp, sizeof(memory));
    assert_true(weir_trace_encode(&trace, &otlp));
    const struct piece span = span_of(weir_otlp_end(&otlp), 0);
    assert_false(find(span, 4, 0, &value));
    assert_int_equal(get(span, 16).number, 0x101);
    assert_int_equal(get(get(span, 15), 3).number, 2);
    assert_true(attribute(span, 9, "weir.engine_round_trips", 3, &value) && value.number == 2);
    assert_true(attribute(span, 9, "weir.fallback", 1, &value) && is_text(value, "closed"));
    assert_true(attribute(span, 9, "weir.breaker", 1, &value) && is_text(value, "open"));
    assert_true(attribute(span, 9, "weir.peek", 2, &value) && value.number == 1);
    assert_true(attribute(span, 9, "weir.retry_after_ms", 3, &value) && value.number == UINT64_MAX); /* -1 */
}

/* Whatever the room, a span is there as a whole or not at all. */
static void otlp__in_too_little_room_has_fewer_spans(void **state)
{
    (void)state;
    struct weir_otlp otlp;
    for (size_t room = 100; room < 1500; room++) {
        const struct weir_trace trace = trace_of(1);
        struct piece span;
        size_t added = 0;
        begin(&otlp, room);
        while (weir_trace_encode(&trace, &otlp))
            added++;
        const struct piece whole = { .data = memory, .size = weir_otlp_end(&otlp) };
        assert_true(whole.size <= room);
        assert_int_equal(find(get(get(whole, 1), 2), 2, added, &span), false);
        for (size_t i = 0; i < added; i++)
            assert_true(is_text(get(span_of(whole.size, i), 5), "auth"));
    }
    assert_false(weir_otlp_begin(&otlp, memory, 30, NULL, 0, "weir", "1.2.3"));
}

/* What the tracer relies on (observe/tracer.c). */
static void otlp__of_the_largest_record_is_bounded(void **state)
{
    (void)state;
    struct weir_otlp otlp;
    struct weir_trace trace = trace_of(1);
    memset(trace.limit, 'x', sizeof(trace.limit) - 1);
    trace.shared = trace.has_breaker = trace.peek = true;
    trace.verdict = WEIR_METRICS_SHADOW_REFUSED;
    trace.algorithm = WEIR_SLIDING_COUNTER;
    trace.fallback = WEIR_FALLBACK_CLOSED;
    trace.breaker = WEIR_BREAKER_HALF_OPEN;
    trace.status = 503;
    trace.limits = trace.shadow_refused = trace.round_trips = UINT32_MAX;
    trace.cost = trace.capacity = trace.remaining = trace.rules_version = UINT64_MAX;
    trace.retry_after_ns = WEIR_NEVER;
    trace.wait_ns = UINT64_MAX - 1;
    trace.rules_checksum = UINT64_MAX;
    begin(&otlp, sizeof(memory));
    const size_t before = otlp.size;
    assert_true(weir_trace_encode(&trace, &otlp));
    print_message("the largest span takes %zu bytes\n", otlp.size - before);
    assert_true(otlp.size - before <= WEIR_TRACE_ENCODED_MAX);
}

static void otlp__answers(void **state)
{
    (void)state;
    static const struct {
        const char *bytes;
        size_t size;
        bool is;
        uint64_t rejected;
    } cases[] = {
        { "", 0, true, 0 },
        { "\x0a\x00", 2, true, 0 },
        { "\x0a\x03\x08\xac\x02", 5, true, 300 },
        { "\x0a\x07\x08\x05\x12\x03why", 9, true, 5 },
        { "\x0a\x07\x12\x03why\x08\x05", 9, true, 5 },
        { "\x0a\x0b\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 13, true, 0 }, /* -1 */
        { "\x10\x01\x19"
          "12345678"
          "\x25"
          "1234"
          "\x2a\x01x\x0a\x02\x08\x01",
          23, true, 1 },            /* fields that came later */
        { "\x08\x05", 2, true, 0 }, /* of another type */
        { "\x0a", 1, false, 0 },
        { "\x0a\x05\x08\x05", 4, false, 0 },
        { "\x0a\x02\x08\x80", 4, false, 0 },
        { "\x0a\x02\x12\x05", 4, false, 0 },
        { "\x0b", 1, false, 0 },
        { "{}", 2, false, 0 },
        { "\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01", 11, false, 0 },
        { "\x19\x01", 2, false, 0 },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        uint64_t rejected = 77;
        print_message("answer %zu\n", i);
        assert_int_equal(weir_otlp_answer_read(cases[i].bytes, cases[i].size, &rejected), cases[i].is);
        assert_int_equal(rejected, cases[i].is ? cases[i].rejected : 77);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(otlp__of_one_span),
        cmocka_unit_test(otlp__of_a_root_that_failed),
        cmocka_unit_test(otlp__in_too_little_room_has_fewer_spans),
        cmocka_unit_test(otlp__of_the_largest_record_is_bounded),
        cmocka_unit_test(otlp__answers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
