/* SPDX-License-Identifier: Apache-2.0
 *
 * Ids of reservations: what was written is read, and nothing else is; and the JSON of /v1/reservations. */
#include "wire/reservation.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static const struct weir_permit_secret secret = { { 1, 2 }, { 3, 4 } };

static bool reads(const char *text, size_t size, struct weir_reservation_id *ret)
{
    return weir_reservation_read(&secret, (struct weir_slice){ text, size }, ret);
}

static void an_id_is_read_and_nothing_else_is(void **state)
{
    (void)state;
    const struct weir_reservation_id id = { .number = UINT64_C(0x0123456789abcdef), .place = 65535 };
    const struct weir_permit_secret other = { { 1, 2 }, { 3, 5 } };
    char text[WEIR_RESERVATION_TEXT], changed[WEIR_RESERVATION_TEXT + 1];
    struct weir_reservation_id read;
    weir_reservation_write(&secret, &id, text);
    assert_true(reads(text, sizeof text, &read));
    assert_int_equal(read.number, id.number);
    assert_int_equal(read.place, id.place);
    for (size_t i = 0; i < sizeof text; i++) {
        memcpy(changed, text, sizeof text);
        changed[i] = changed[i] == '0' ? '1' : '0';
        assert_false(reads(changed, sizeof text, &read));
        changed[i] = 'G';
        assert_false(reads(changed, sizeof text, &read));
        assert_false(reads(text, i, &read));
    }
    memcpy(changed, text, sizeof text);
    changed[sizeof text] = '0';
    assert_false(reads(changed, sizeof changed, &read));
    assert_false(weir_reservation_read(&other, (struct weir_slice){ text, sizeof text }, &read));
}

static void a_permit_is_no_reservation(void **state)
{
    (void)state;
    struct weir_permit_id permit = { .number = 1, .count = 1, .counting = 1, .keys = { { .hash = 5 } } };
    char text[WEIR_PERMIT_TEXT_MAX];
    struct weir_reservation_id read;
    const size_t size = weir_permit_write(&secret, &permit, text);
    assert_false(reads(text, size, &read));
    assert_false(reads(text, WEIR_RESERVATION_TEXT, &read));
}

static int parse(const char *text, struct weir_reserve_request *ret)
{
    struct weir_fault fault;
    return weir_reserve_parse(text, strlen(text), ret, &fault);
}

static void a_body_is_read_and_what_is_out_of_range_is_refused(void **state)
{
    (void)state;
    static struct weir_reserve_request request;
    uint64_t first, second;
    assert_int_equal(parse("{\"attributes\":{\"a\":1},\"amount\":9223372036854775807,\"ttl_ms\":5}", &request), 0);
    assert_int_equal(request.amount, INT64_MAX);
    assert_int_equal(request.ttl_ms, 5);
    assert_int_equal(request.check.count, 1);
    weir_check_deinit(&request.check);
    assert_int_equal(parse("{\"amount\":\"auto\"}", &request), 0);
    assert_int_equal(request.amount, 0);
    assert_int_equal(request.ttl_ms, 0);
    weir_check_deinit(&request.check);
    const char *const bad[] = {
        "{\"amount\":9223372036854775808}", "{\"amount\":0}",         "{\"amount\":\"all\"}",       "{}", "[]",
        "{\"amount\":1,\"ttl_ms\":-1}",     "{\"amount\":1,\"x\":1}", "{\"amount\":1,\"amount\":2}"
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_true(parse(bad[i], &request) == WEIR_EPROTO || parse(bad[i], &request) == WEIR_ERANGE);
    struct weir_fault fault;
    assert_int_equal(weir_settle_parse("{\"actual\":0}", 12, &first, &fault), 0);
    assert_int_equal(first, 0);
    assert_int_equal(weir_settle_parse("{}", 2, &first, &fault), WEIR_EPROTO);
    assert_int_equal(weir_settle_parse("{\"actual\":-1}", 13, &first, &fault), WEIR_ERANGE);
    assert_int_equal(weir_extend_parse("{\"more\":7}", 10, &first, &second, &fault), 0);
    assert_int_equal(first + second, 7);
    assert_int_equal(weir_extend_parse("{\"more\":0}", 10, &first, &second, &fault), WEIR_ERANGE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_id_is_read_and_nothing_else_is),
        cmocka_unit_test(a_permit_is_no_reservation),
        cmocka_unit_test(a_body_is_read_and_what_is_out_of_range_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
