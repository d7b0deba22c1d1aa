/* SPDX-License-Identifier: Apache-2.0
 *
 * Stored values: what is written is read, under whatever limit, and takes the memory of its own algorithm. What
 * versions before revisions wrote is read, and written so again. */
#include "limits/redis/script.h"
#include "limits/redis/value.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <setjmp.h>

#include <cmocka.h>

#include "core/limit/ticks.h"

#define NOW_NS (1000 * WEIR_NS_PER_SECOND)

static struct weir_limit limit_of(enum weir_algorithm algorithm)
{
    const struct weir_limit_spec spec = { .algorithm = algorithm, .count = 100, .period_ns = 60 * WEIR_NS_PER_SECOND };
    struct weir_limit limit;
    struct weir_fault fault;
    assert_int_equal(weir_limit_init(&limit, &spec, 0, &fault), 0);
    return limit;
}

static struct weir_value read_value(const struct weir_limit *limit, const uint8_t *bytes, size_t size)
{
    struct weir_value value;
    const struct weir_remote_limit remote = { .limit = *limit };
    assert_int_equal(weir_value_read(&remote, WEIR_REVISION_FIRST, NOW_NS, bytes, size, &value), 0);
    return value;
}

/* A megabyte of room for times, of each key of each decision, is what only a log can need. */
static void only_a_log_has_room_for_times(void **state)
{
    (void)state;
    for (int from = WEIR_TOKEN_BUCKET; from <= WEIR_SLIDING_COUNTER; from++) {
        const struct weir_limit limit = limit_of((enum weir_algorithm)from);
        struct weir_value value = read_value(&limit, NULL, 0);
        const struct weir_event event = { .now_ns = NOW_NS, .cost = 1, .window = { .id = 1, .end_after_ns = 1 } };
        struct weir_verdict verdict;
        uint8_t *bytes;
        size_t size;
        uint64_t ttl_ms;
        assert_int_equal(value.ledger.state.log.room > 0, from == WEIR_SLIDING_LOG);
        assert_true(weir_ledger_decide(&limit, &value.ledger, &event, false, &verdict));
        assert_int_equal(weir_value_write(&value, NOW_NS, &bytes, &size, &ttl_ms), 0);
        weir_value_deinit(&value);
        for (int to = WEIR_TOKEN_BUCKET; to <= WEIR_SLIDING_COUNTER; to++) {
            const struct weir_limit other = limit_of((enum weir_algorithm)to);
            value = read_value(&other, bytes, size);
            assert_int_equal(value.ledger.state.log.room > 0, from == WEIR_SLIDING_LOG || to == WEIR_SLIDING_LOG);
            assert_int_equal(value.ledger.state.log.used, from == WEIR_SLIDING_LOG ? 1 : 0);
            weir_value_deinit(&value);
        }
        free(bytes);
    }
}

/* ---- beside versions before revisions ---- */

#define MINUTE_NS (60 * WEIR_NS_PER_SECOND)
#define ZEROS_24 "000000000000000000000000000000000000000000000000"

/* What such a version had at its server after three units of 100 a minute, or of 100 a calendar day in Berlin. */
static const struct golden {
    struct weir_limit_spec spec;
    uint64_t now_ns; /* as of it */
    const char *bytes;
} golden[] = {
    { { .algorithm = WEIR_TOKEN_BUCKET, .count = 100, .burst = 40, .period_ns = MINUTE_NS },
      UINT64_C(0x18ea839d90000000),
      "574549310000400000000000000000280000000023c34600000000059682f000000000059682f0000000000df84758000000000000000000"
      "18ea839d903451c000ea839d903451c0" ZEROS_24 ZEROS_24 },
    { { .algorithm = WEIR_LEAKY_BUCKET, .count = 100, .burst = 10, .period_ns = MINUTE_NS },
      UINT64_C(0x18ea839d90000000),
      "5745493101004000000000000000000a0000000023c346000000000165a0bc000000000165a0bc000000000df84758000000000000000000"
      "18ea839d9c5452c000ea839d9c5452c0" ZEROS_24 ZEROS_24 },
    { { .algorithm = WEIR_FIXED_WINDOW,
        .count = 100,
        .period_ns = 1440 * MINUTE_NS,
        .tz = "Europe/Berlin",
        .calendar = WEIR_CALENDAR_DAY },
      UINT64_C(0x18ea839d90000000),
      "57454931020140000000000000000064000000000000000100004e94914f00000000537dda63f00100004e94914f0000f631bb4303d9eceb"
      "18eaced1592a604000eaced1592a6000000000000000512f0000000000000003" ZEROS_24 "0000000000000000" },
    { { .algorithm = WEIR_FIXED_WINDOW, .align = WEIR_ALIGN_FIRST, .count = 100, .period_ns = MINUTE_NS },
      UINT64_C(0x18ea839d90000000),
      "5745493102004000000000000000006400000000000000010000000df84758000000000df84758000000000df84758000000000000000000"
      "18ea83ab3204747800ea83ab3204747800000000000000000000000000000003" ZEROS_24 "0000000000000000" },
    { { .algorithm = WEIR_SLIDING_LOG, .count = 100, .period_ns = MINUTE_NS },
      UINT64_C(0x18ea839d90000000),
      "5745493103004000000000000000006400000000000000010000000df84758000000000df84758000000000df84758000000000000000000"
      "18ea83ab4212d64800ea83ab4212d648" ZEROS_24 "00000000000000000000000000000000"
      "00000003"
      "00000000"
      "18ea839d49b0bea0"
      "0000000000000001"
      "18ea839d49c33148"
      "0000000000000002"
      "18ea839d49cb7e48"
      "0000000000000003" },
    { { .algorithm = WEIR_SLIDING_COUNTER, .count = 100, .period_ns = MINUTE_NS },
      UINT64_C(0x18ea839d90000000),
      "5745493104004000000000000000006400000000000000010000000df84758000000001bf08eb0000000000df84758000000000000000000"
      "18ea83ace16a080000ea83ace16a080000000000000000000000000000000003" ZEROS_24 "0000000000000000" },
};

static size_t from_hex(const char *text, uint8_t *ret_bytes)
{
    size_t size = strlen(text) / 2;
    for (size_t i = 0; i < size; i++) {
        const char digits[3] = { text[2 * i], text[2 * i + 1], 0 };
        ret_bytes[i] = (uint8_t)strtoul(digits, NULL, 16);
    }
    return size;
}

/* Byte by byte, or each of two versions would take the other's values for those of a changed limit at each turn. */
static void values_are_those_of_versions_before_revisions(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(golden) / sizeof(golden[0]); i++) {
        const struct golden *g = &golden[i];
        const struct weir_remote_limit *limit;
        struct weir_value value;
        uint8_t bytes[256], ours[LAYOUT_PARAMETERS], *written;
        size_t size = from_hex(g->bytes, bytes), written_size;
        uint64_t ttl_ms;
        assert_int_equal(weir_remote_limit_create("api", 0, WEIR_REVISION_FIRST, &g->spec, &limit, NULL), 0);
        weir_value_parameters(&limit->limit, limit->calendar_hash, WEIR_REVISION_FIRST, ours);
        assert_memory_equal(ours, bytes, sizeof(ours));
        assert_int_equal(weir_value_read(limit, 0, g->now_ns, bytes, size, &value), 0);
        assert_int_equal(value.revision, WEIR_REVISION_FIRST);
        assert_true(weir_value_alike(&value, limit));
        assert_int_equal(weir_value_write(&value, g->now_ns, &written, &written_size, &ttl_ms), 0);
        assert_int_equal(written_size, size);
        assert_memory_equal(written, bytes, size);
        free(written);
        weir_value_deinit(&value);
        weir_remote_limit_drop(limit);
    }
}

/* They would take it for what it was before. */
static void a_change_shows_in_values_for_good(void **state)
{
    (void)state;
    const struct golden *g = &golden[2];
    const struct weir_remote_limit *limit;
    uint8_t golden_bytes[256], bytes[LAYOUT_PARAMETERS];
    from_hex(g->bytes, golden_bytes);
    assert_int_equal(weir_remote_limit_create("api", 0, WEIR_REVISION_FIRST, &g->spec, &limit, NULL), 0);
    for (uint32_t revision = WEIR_REVISION_FIRST; revision < 4; revision++) {
        weir_value_parameters(&limit->limit, limit->calendar_hash, revision, bytes);
        assert_int_equal(memcmp(bytes, golden_bytes, sizeof(bytes)) == 0, revision == WEIR_REVISION_FIRST);
    }
    weir_remote_limit_drop(limit);
}

/* A debt as far ahead as any may lie, seen from a clock that stepped back, lies beyond it. */
static void a_bucket_far_ahead_is_charged(void **state)
{
    (void)state;
    const struct weir_limit limit = limit_of(WEIR_TOKEN_BUCKET);
    const uint64_t now = weir_ticks_at(NOW_NS, limit.shift), minute_ns = 60 * WEIR_NS_PER_SECOND;
    for (int i = -1; i <= 1; i++) {
        struct weir_ledger_stint stint = { .stint = 1, .seq = 1, .until_ns = NOW_NS + minute_ns };
        struct weir_ledger ledger = { .debt = UINT64_MAX, .stints = &stint, .stints_count = 1, .stints_max = 1 };
        const struct weir_event event = { .now_ns = NOW_NS };
        const struct weir_share_ask ask = { .stint = 1, .seq = 2, .spent = 5, .ttl_ns = minute_ns };
        struct weir_share_answer answer;
        uint64_t ahead = WEIR_TICKS_DEBT_MAX + (uint64_t)i;
        ledger.state.fresh_at = (now + ahead) & WEIR_TICKS_MASK;
        weir_ledger_ask(&limit, &ledger, &event, &ask, &answer);
        assert_int_equal(answer.granted, 0);
        assert_int_equal(weir_ticks_until(ledger.state.fresh_at, now),
                         i < 0 ? WEIR_TICKS_DEBT_MAX : WEIR_TICKS_DEBT_MAX + (uint64_t)i);
    }
}

/* ---- a node that has not heard of the newest definition ---- */

/* The answer of an ask by `limit` to a key that was written by `stored`. */
static struct weir_share_answer ask_by(const struct weir_remote_limit *limit, const struct weir_remote_limit *stored)
{
    struct weir_value value;
    struct weir_remote_op op = { .limit = limit, .ask = { .stint = 1, .seq = 1, .want = 1, .ttl_ns = MINUTE_NS } };
    struct weir_remote_request request = { .verb = WEIR_REMOTE_ASK, .ops = &op, .count = 1 };
    struct weir_script_call call;
    const struct weir_event event = { .now_ns = NOW_NS, .cost = 5 };
    struct weir_verdict verdict;
    uint8_t reply[512], *bytes;
    size_t size;
    uint64_t ttl_ms;
    assert_int_equal(weir_value_read(stored, stored->revision, NOW_NS, NULL, 0, &value), 0);
    assert_true(weir_ledger_decide(&stored->limit, &value.ledger, &event, false, &verdict));
    assert_int_equal(weir_value_write(&value, NOW_NS, &bytes, &size, &ttl_ms), 0);
    weir_value_deinit(&value);
    struct layout_writer to = { reply, reply + sizeof(reply) };
    layout_put(&to, 1, 'A');
    layout_put(&to, 8, NOW_NS);
    layout_put(&to, 4, size);
    layout_put_bytes(&to, (const uint8_t[LAYOUT_SEEN]){ 0 }, LAYOUT_SEEN);
    layout_put_bytes(&to, bytes, size);
    free(bytes);
    weir_script_call_init(&call, &request, "weir", NOW_NS);
    weir_script_call_add(&call, 0);
    assert_int_equal(weir_script_call_decode(&call, reply, (size_t)(to.at - reply)), WEIR_EAGAIN);
    const struct weir_share_answer answer = call.ops[0].answer;
    weir_script_call_deinit(&call);
    return answer;
}

/* An older node must not spend by its own numbers what a newer definition counts as used. */
static void an_answer_tells_of_a_newer_definition(void **state)
{
    (void)state;
    const struct weir_remote_limit *of[4];
    const uint64_t counts[] = { 100, 60, 60, 100 };
    for (uint32_t i = 0; i < 4; i++) {
        const struct weir_limit_spec spec = { .count = counts[i], .period_ns = MINUTE_NS };
        assert_int_equal(weir_remote_limit_create("api", 0, WEIR_REVISION_FIRST + i, &spec, &of[i], NULL), 0);
    }
    for (size_t node = 0; node < 4; node++) {
        for (size_t key = 0; key < 4; key++) {
            const struct weir_share_answer answer = ask_by(of[node], of[key]);
            assert_int_equal(answer.newer, key > node && counts[key] != counts[node]);
            assert_int_equal(answer.capacity, counts[key > node ? key : node]);
            assert_int_equal(answer.granted, 1);
        }
    }
    for (size_t i = 0; i < 4; i++)
        weir_remote_limit_drop(of[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_a_log_has_room_for_times),
        cmocka_unit_test(values_are_those_of_versions_before_revisions),
        cmocka_unit_test(a_change_shows_in_values_for_good),
        cmocka_unit_test(a_bucket_far_ahead_is_charged),
        cmocka_unit_test(an_answer_tells_of_a_newer_definition),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
