/* SPDX-License-Identifier: Apache-2.0
 *
 * The id's bytes are the place, the number and a SipHash of both, behind a byte that no permit has there. Called by
 * serve/reserve.c and serve/http_reserve.c. */
#include "wire/reservation.h"

#include <inttypes.h>
#include <string.h>

#include "base/hex.h"
#include "wire/json.h"

#define SAID (4 + 8)
#define BYTES (SAID + 8)

static void put(uint8_t *at, uint64_t value, int bytes)
{
    for (int i = 0; i < bytes; i++)
        at[i] = (uint8_t)(value >> 8 * i);
}

static uint64_t get(const uint8_t *at, int bytes)
{
    uint64_t value = 0;
    for (int i = 0; i < bytes; i++)
        value |= (uint64_t)at[i] << 8 * i;
    return value;
}

static uint64_t authentication(const struct weir_permit_secret *secret, const uint8_t *said)
{
    uint8_t bytes[1 + SAID] = { 'r' }; /* shorter than any permit */
    memcpy(bytes + 1, said, SAID);
    return weir_siphash(&secret->authentication, bytes, sizeof(bytes));
}

void weir_reservation_write(const struct weir_permit_secret *secret, const struct weir_reservation_id *id,
                            char text[WEIR_RESERVATION_TEXT])
{
    uint8_t bytes[BYTES];
    put(bytes, id->place, 4);
    put(bytes + 4, id->number, 8);
    put(bytes + SAID, authentication(secret, bytes), 8);
    (void)weir_hex_write(text, bytes, sizeof(bytes));
}

bool weir_reservation_read(const struct weir_permit_secret *secret, struct weir_slice text,
                           struct weir_reservation_id *ret_id)
{
    uint8_t bytes[BYTES];
    if (text.size != WEIR_RESERVATION_TEXT || !weir_hex_read(text.data, sizeof(bytes), bytes) ||
        get(bytes + SAID, 8) != authentication(secret, bytes))
        return false;
    *ret_id = (struct weir_reservation_id){ .number = get(bytes + 4, 8), .place = (uint32_t)get(bytes, 4) };
    return true;
}

/* ---- JSON ---- */

static int read_member(const char *name, json_t *value, struct weir_reserve_request *request, struct weir_fault *fault)
{
    if (strcmp(name, "attributes") == 0)
        return weir_check_take_attributes(value, &request->check, fault);
    if (strcmp(name, "ttl_ms") == 0)
        return weir_json_integer(value, name, 1, WEIR_COST_MAX, &request->ttl_ms, fault);
    if (strcmp(name, "amount") != 0)
        return weir_json_fail(fault, WEIR_EPROTO, name, "unknown member; known are attributes, amount and ttl_ms");
    if (!json_is_string(value))
        return weir_json_integer(value, name, 1, WEIR_COST_MAX, &request->amount, fault);
    if (strcmp(json_string_value(value), "auto") != 0)
        return weir_json_fail(fault, WEIR_EPROTO, name, "must be 1 to %" PRId64 ", or \"auto\"", WEIR_COST_MAX);
    request->amount = 0;
    return 0;
}

int weir_reserve_parse(const void *data, size_t size, struct weir_reserve_request *ret_request,
                       struct weir_fault *ret_fault)
{
    int error = 0;
    json_t *json = weir_json_parse(data, size, &error, ret_fault);
    if (!json)
        return error;
    ret_request->check.json = json;
    ret_request->check.count = 0;
    ret_request->amount = UINT64_MAX;
    ret_request->ttl_ms = 0;
    if (!json_is_object(json))
        error = weir_json_fail(ret_fault, WEIR_EPROTO, "body", "must be an object");
    for (void *at = json_object_iter(json); at && !error; at = json_object_iter_next(json, at))
        error = read_member(json_object_iter_key(at), json_object_iter_value(at), ret_request, ret_fault);
    if (!error && ret_request->amount == UINT64_MAX)
        error = weir_json_fail(ret_fault, WEIR_EPROTO, "amount", "is missing: 1 to %" PRId64 ", or \"auto\"",
                               WEIR_COST_MAX);
    if (error)
        weir_check_deinit(&ret_request->check);
    return error;
}

/* An object of at most two integers, of which the first must be there. */
static int parse_numbers(const void *data, size_t size, const char *first, uint64_t first_min, const char *second,
                         uint64_t *ret_first, uint64_t *ret_second, struct weir_fault *fault)
{
    int error = 0;
    json_t *json = weir_json_parse(data, size, &error, fault);
    if (!json)
        return error;
    bool there = false;
    *ret_second = 0;
    if (!json_is_object(json))
        error = weir_json_fail(fault, WEIR_EPROTO, "body", "must be an object");
    for (void *at = json_object_iter(json); at && !error; at = json_object_iter_next(json, at)) {
        const char *name = json_object_iter_key(at);
        const bool is_first = strcmp(name, first) == 0;
        there = there || is_first;
        if (is_first)
            error = weir_json_integer(json_object_iter_value(at), name, first_min, WEIR_COST_MAX, ret_first, fault);
        else if (second && strcmp(name, second) == 0)
            error = weir_json_integer(json_object_iter_value(at), name, 1, WEIR_COST_MAX, ret_second, fault);
        else
            error = weir_json_fail(fault, WEIR_EPROTO, name, "unknown member; known: %s%s%s", first,
                                   second ? " and " : "", second ? second : "");
    }
    if (!error && !there)
        error = weir_json_fail(fault, WEIR_EPROTO, first, "is missing: %" PRIu64 " to %" PRId64, first_min,
                               WEIR_COST_MAX);
    json_decref(json);
    return error;
}

int weir_settle_parse(const void *data, size_t size, uint64_t *ret_actual, struct weir_fault *ret_fault)
{
    uint64_t none;
    return parse_numbers(data, size, "actual", 0, NULL, ret_actual, &none, ret_fault);
}

int weir_extend_parse(const void *data, size_t size, uint64_t *ret_more, uint64_t *ret_ttl_ms,
                      struct weir_fault *ret_fault)
{
    return parse_numbers(data, size, "more", 1, "ttl_ms", ret_more, ret_ttl_ms, ret_fault);
}
