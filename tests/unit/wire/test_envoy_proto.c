/* SPDX-License-Identifier: Apache-2.0
 *
 * Envoy's questions and answers, byte by byte: the published field numbers, what is passed over, what is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "wire/envoy_proto.h"

#define BYTES(text) (const uint8_t *)(text), sizeof(text) - 1

static _Alignas(max_align_t) uint8_t block[WEIR_ENVOY_BLOCK_SIZE];
static struct weir_envoy_request request;
static struct weir_fault fault;

static bool is(struct weir_slice slice, const char *text)
{
    return slice.size == strlen(text) && memcmp(slice.data, text, slice.size) == 0;
}

static void question__has_all_its_fields(void **state)
{
    (void)state;
    assert_int_equal(weir_envoy_read(BYTES("\x0a\x04"
                                           "edge"
                                           "\x12\x1c"
                                           "\x0a\x06\x0a\x01"
                                           "a"
                                           "\x12\x01"
                                           "b"
                                           "\x0a\x06\x0a\x01"
                                           "c"
                                           "\x12\x01"
                                           "d"
                                           "\x12\x04\x08\x05\x10\x02"
                                           "\x1a\x02\x08\x07"
                                           "\x20\x01"
                                           "\x12\x08\x0a\x06\x0a\x01"
                                           "e"
                                           "\x12\x01"
                                           "f"
                                           "\x18\x09"),
                                     block, &request, &fault),
                     0);
    assert_true(is(request.domain, "edge"));
    assert_int_equal(request.hits, 9);
    assert_int_equal(request.count, 2);
    assert_int_equal(request.entries_count, 3);
    const struct weir_envoy_descriptor *one = &request.descriptors[0];
    assert_int_equal(one->count, 2);
    assert_true(is(request.entries[1].key, "c") && is(request.entries[1].value, "d"));
    assert_true(one->has_limit && one->has_hits && one->negative);
    assert_int_equal(one->limit_requests, 5);
    assert_int_equal(one->limit_unit, WEIR_ENVOY_MINUTE);
    assert_int_equal(one->hits, 7);
    assert_int_equal(weir_envoy_hits(&request, 0), 7);
    assert_false(request.descriptors[1].has_limit || request.descriptors[1].has_hits ||
                 request.descriptors[1].negative);
    assert_int_equal(weir_envoy_hits(&request, 1), 9);
    assert_true(is(request.entries[request.descriptors[1].first].key, "e"));
}

static void hits__have_defaults_and_a_bound(void **state)
{
    (void)state;
    assert_int_equal(weir_envoy_read(BYTES("\x0a\x01x\x12\x0a\x0a\x06\x0a\x01"
                                           "a"
                                           "\x12\x01"
                                           "b"
                                           "\x1a\x00"
                                           "\x12\x08\x0a\x06\x0a\x01"
                                           "a"
                                           "\x12\x01"
                                           "b"),
                                     block, &request, &fault),
                     0);
    assert_int_equal(weir_envoy_hits(&request, 0), 0); /* it says so */
    assert_int_equal(weir_envoy_hits(&request, 1), 1); /* nobody says anything */
    request.descriptors[0].hits = UINT64_MAX;
    assert_int_equal(weir_envoy_hits(&request, 0), WEIR_COST_MAX);
}

static void question__that_is_none(void **state)
{
    (void)state;
    static const struct {
        const char *bytes;
        size_t size;
        int error;
        const char *field;
    } cases[] = {
        { "\xff", 1, WEIR_EPROTO, "RateLimitRequest" },
        { "\x0a\x05x", 3, WEIR_EPROTO, "RateLimitRequest" },
        { "", 0, WEIR_EINVAL, "domain" },
        { "\x0a\x01x", 3, WEIR_EINVAL, "descriptors" },
        { "\x0a\x01\xff\x12\x08\x0a\x06\x0a\x01"
          "a"
          "\x12\x01"
          "b",
          13, WEIR_EINVAL, "domain" },
        { "\x0a\x01x\x12\x00", 5, WEIR_EINVAL, "descriptors" },
        { "\x0a\x01x\x12\x05\x0a\x03\x12\x01"
          "b",
          10, WEIR_EINVAL, "entries.key" },
        { "\x0a\x01x\x12\x08\x0a\x06\x0a\x01\xc0\x12\x01"
          "b",
          13, WEIR_EINVAL, "entries" },
        { "\x0a\x01x\x12\x08\x0a\x06\x0a\x01"
          "a"
          "\x12\x01\x80",
          13, WEIR_EINVAL, "entries" },
        { "\x0a\x01x\x12\x0a\x0a\x08\x0a\x06"
          "domain",
          15, WEIR_EINVAL, "entries.key" },
        { "\x0a\x01x\x12\x0a\x0a\x06\x0a\x01"
          "a"
          "\x12\x01"
          "b"
          "\x12\x00",
          15, WEIR_EINVAL, "limit.unit" },
        { "\x0a\x01x\x12\x0c\x0a\x06\x0a\x01"
          "a"
          "\x12\x01"
          "b"
          "\x12\x02\x10\x08",
          17, WEIR_EINVAL, "limit.unit" },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        fault = (struct weir_fault){ 0 };
        assert_int_equal(weir_envoy_read((const uint8_t *)cases[i].bytes, cases[i].size, block, &request, &fault),
                         cases[i].error);
        assert_string_equal(fault.field, cases[i].field);
    }
}

/* The first that is too many of each kind, and many more. */
static void question__with_too_many_parts(void **state)
{
    (void)state;
    static const uint8_t descriptor[] = "\x12\x06\x0a\x04\x0a\x02"
                                        "ab";
    const size_t size = sizeof(descriptor) - 1;
    uint8_t *bytes = malloc(60000 + 3);
    memcpy(bytes, "\x0a\x01x", 3);
    for (size_t i = 0; i < 60000 / size; i++)
        memcpy(bytes + 3 + i * size, descriptor, size);
    assert_int_equal(weir_envoy_read(bytes, 3 + 64 * size, block, &request, &fault), 0);
    assert_int_equal(weir_envoy_read(bytes, 3 + 65 * size, block, &request, &fault), WEIR_ELIMIT);
    assert_string_equal(fault.field, "descriptors");
    assert_int_equal(weir_envoy_read(bytes, 3 + 60000 / size * size, block, &request, &fault), WEIR_ELIMIT);
    assert_string_equal(fault.field, "RateLimitRequest");
    static const uint8_t entry[] = "\x0a\x04\x0a\x02"
                                   "ab";
    for (size_t entries = 63; entries <= 64; entries++) {
        bytes[3] = 0x12;
        bytes[4] = (uint8_t)(entries * 6 % 128 | 128);
        bytes[5] = (uint8_t)(entries * 6 / 128);
        for (size_t i = 0; i < entries; i++)
            memcpy(bytes + 6 + i * 6, entry, 6);
        assert_int_equal(weir_envoy_read(bytes, 6 + entries * 6, block, &request, &fault),
                         entries == 63 ? 0 : WEIR_ELIMIT);
    }
    free(bytes);
}

static void question__passes_over_what_it_does_not_know(void **state)
{
    (void)state;
    assert_int_equal(weir_envoy_read(BYTES("\x0a\x01x\x7a\x02yy\x12\x0c\x0a\x06\x0a\x01"
                                           "a"
                                           "\x12\x01"
                                           "b"
                                           "\xf8\x06\x07"
                                           "\x28\x01\xa0\x06\x01"),
                                     block, &request, &fault),
                     WEIR_EPROTO); /* the length of the descriptor does not fit what is in it */
    assert_int_equal(weir_envoy_read(BYTES("\x0a\x01x\x7a\x02yy\x12\x0d\x0a\x06\x0a\x01"
                                           "a"
                                           "\x12\x01"
                                           "b"
                                           "\xf8\x06\x07"
                                           "\x28\x01\xa0\x06\x01"),
                                     block, &request, &fault),
                     0);
    assert_int_equal(request.count, 1);
}

static void answer__has_all_its_fields(void **state)
{
    (void)state;
    static struct weir_envoy_answer answer;
    uint8_t buffer[128];
    answer.code = WEIR_ENVOY_OVER_LIMIT;
    answer.count = 2;
    answer.statuses[0] = (struct weir_envoy_status){ .code = WEIR_ENVOY_OVER_LIMIT,
                                                     .name = "name",
                                                     .requests_per_unit = 10,
                                                     .unit = WEIR_ENVOY_MINUTE,
                                                     .remaining = 3,
                                                     .has_reset = true,
                                                     .reset_ns = WEIR_NS_PER_SECOND + 5 };
    answer.statuses[1] = (struct weir_envoy_status){ .code = WEIR_ENVOY_OK };
    weir_envoy_take_headers(&answer, (struct weir_slice){ "k: v\r\n", 6 });
    const size_t size = weir_envoy_write(&answer, NULL);
    assert_true(size <= sizeof(buffer));
    assert_int_equal(weir_envoy_write(&answer, buffer), size);
    /* status: code 2, limit (10 bytes: name, 10 per minute), remaining 3, duration 1 s and 5 ns */
    assert_non_null(memmem(buffer, size, "\x08\x0a\x10\x02\x1a\x04name", 10));
    assert_non_null(memmem(buffer, size, "\x18\x03\x22\x04\x08\x01\x10\x05", 8));
    assert_memory_equal(buffer, "\x08\x02", 2);
    assert_memory_equal(buffer + size - 12, "\x12\x02\x08\x01\x1a\x06\x0a\x01k\x12\x01v", 12);
}

static void units__are_those_of_the_service(void **state)
{
    (void)state;
    assert_int_equal(weir_envoy_unit_of(60 * WEIR_NS_PER_SECOND), WEIR_ENVOY_MINUTE);
    assert_int_equal(weir_envoy_unit_of(7 * 86400 * WEIR_NS_PER_SECOND), 7);
    assert_int_equal(weir_envoy_unit_of(30 * 86400 * WEIR_NS_PER_SECOND), 5);
    assert_int_equal(weir_envoy_unit_of(90 * WEIR_NS_PER_SECOND), WEIR_ENVOY_UNIT_UNKNOWN);
    assert_string_equal(weir_envoy_unit_name(WEIR_ENVOY_YEAR), "YEAR");
    assert_string_equal(weir_envoy_code_name(WEIR_ENVOY_OVER_LIMIT), "OVER_LIMIT");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(question__has_all_its_fields),
        cmocka_unit_test(hits__have_defaults_and_a_bound),
        cmocka_unit_test(question__that_is_none),
        cmocka_unit_test(question__with_too_many_parts),
        cmocka_unit_test(question__passes_over_what_it_does_not_know),
        cmocka_unit_test(answer__has_all_its_fields),
        cmocka_unit_test(units__are_those_of_the_service),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
