/* SPDX-License-Identifier: Apache-2.0
 *
 * Any bytes as HTTP/1.1, shown whole and cut in two at a place that the input chooses: the same requests, or a refusal
 * both times; no slice outside of what was shown. */
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "wire/forwarded.h"
#include "wire/lock.h"
#include "wire/origin.h"
#include "wire/query.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct weir_http_bounds bounds = {
    .target_max = 256, .headers_max = 16, .header_bytes_max = 1024, .body_max = 256
};

static void check_slice(struct weir_slice slice, const uint8_t *data, size_t size)
{
    const uint8_t *at = slice.data;
    weir_assert(slice.size == 0 || (at >= data && at + slice.size <= data + size));
}

static void check_request(const struct weir_http_request *request, const uint8_t *data, size_t size, bool chunked)
{
    weir_assert(request->size > 0 && request->size <= size);
    weir_assert(request->header_count <= bounds.headers_max);
    weir_assert(request->body.size <= bounds.body_max);
    check_slice(request->path, data, size);
    check_slice(request->query, data, size);
    if (!chunked)
        check_slice(request->body, data, size);
    for (size_t i = 0; i < request->header_count; i++) {
        weir_assert(request->headers[i].name.size > 0);
        check_slice(request->headers[i].name, data, size);
        check_slice(request->headers[i].value, data, size);
    }
}

static uint8_t sum_of(const void *data, size_t size)
{
    volatile uint8_t sum = 0; /* every byte of it can be read */
    for (size_t i = 0; i < size; i++)
        sum = (uint8_t)(sum + ((const uint8_t *)data)[i]);
    return sum;
}

/* The path is one that reading again leaves as it is: no second spelling of it is left. */
static void check_route(struct weir_slice path)
{
    static uint8_t room[1 << 12];
    const char *at = path.data;
    weir_assert(path.size > 0 && path.size < sizeof(room) && (at[0] == '/' || (at[0] == '*' && path.size == 1)));
    for (size_t i = 0; i < path.size; i++) {
        size_t left = path.size - i;
        weir_assert(left < 2 || memcmp(at + i, "//", 2) != 0);
        weir_assert(left < 3 || memcmp(at + i, "/./", 3) != 0);
        weir_assert(left < 4 || memcmp(at + i, "/../", 4) != 0);
    }
    weir_assert(path.size < 3 || memcmp(at + path.size - 3, "/..", 3) != 0);
    weir_assert(path.size < 2 || memcmp(at + path.size - 2, "/.", 2) != 0);
}

/* What /v1/auth would make of it. */
static void check_forwarded(const struct weir_http_request *request, const struct weir_forwarded_options *options)
{
    static struct weir_forwarded forwarded;
    struct weir_http_refusal refusal;
    if (!weir_forwarded_read(request, options, &forwarded, &refusal)) {
        weir_assert(refusal.status >= 400 && refusal.text[0]);
        return;
    }
    weir_assert(forwarded.count <= WEIR_FORWARDED_MAX && (forwarded.refused == 429 || forwarded.refused == 403));
    size_t routes = 0;
    for (size_t i = 0; i < forwarded.count; i++) {
        const struct weir_slice name = forwarded.attributes[i].name, value = forwarded.attributes[i].value;
        (void)sum_of(name.data, name.size);
        (void)sum_of(value.data, value.size);
        weir_assert(name.size != 4 || memcmp(name.data, "cost", 4) != 0);
        if (name.size == 5 && memcmp(name.data, "route", 5) == 0) {
            check_route(value);
            routes++;
        }
    }
    weir_assert(routes == 1);
}

/* What /v1/locks would make of it, and what it would show of it. */
static void check_lock(const struct weir_http_request *request)
{
    static struct weir_lock_path path;
    static struct weir_lock_question question;
    static uint8_t room[WEIR_LOCK_JSON_MAX + 6 * (WEIR_LOCK_NAME_MAX + WEIR_LOCK_OWNER_MAX)];
    struct weir_fault fault = { { 0 }, { 0 } };
    int error = weir_lock_path_read(request->path, request->method == WEIR_HTTP_POST, &path, &fault);
    enum weir_lock_call call = error ? WEIR_LOCK_CALL_ACQUIRE : path.call;
    weir_assert(!error || error == WEIR_ENOENT || fault.text[0]);
    if (!error && call != WEIR_LOCK_CALL_RESTORED)
        weir_assert(path.name_size >= 1 && path.name_size <= WEIR_LOCK_NAME_MAX);
    error = weir_lock_question_parse(call, request->body.data, request->body.size, &question, &fault);
    if (error) {
        weir_assert(fault.field[0] && fault.text[0]);
        return;
    }
    weir_assert(question.owner.size <= WEIR_LOCK_OWNER_MAX && question.wait_ms <= WEIR_LOCK_WAIT_MAX_MS);
    (void)sum_of(question.owner.data, question.owner.size);
    struct weir_text text = weir_text_init(room, sizeof(room));
    weir_lock_json_shown(&text,
                         &(struct weir_lock_shown){ .name = request->path, .held = true, .holder = question.owner });
    weir_assert(!text.overflow);
    weir_lock_question_deinit(&question);
}

/* What calls that take parameters would make of it. */
static void check_query(const struct weir_http_request *request)
{
    char value[16], other[16] = "";
    struct weir_query_field fields[] = { { "n", value, sizeof(value), false }, { "x", other, sizeof(other), false } };
    struct weir_fault fault = { { 0 }, { 0 } };
    uint64_t number = 0;
    int error = weir_query_read(request->query, fields, 2, &fault);
    weir_assert(!error || (fault.field[0] && fault.text[0]));
    if (error)
        return;
    weir_assert(fields[1].given || !other[0]);
    if (fields[0].given && weir_query_number(&fields[0], 3, 77, &number, &fault) == 0)
        weir_assert(number >= 3 && number <= 77);
}

/* Who is no browser is never foreign, and a server that knows no names knows no more than one that does. */
static void check_origin(const struct weir_http_request *request)
{
    static const char *const names[] = { "a", "weir.internal" };
    bool says = weir_http_find(request, "origin") || weir_http_find(request, "sec-fetch-site");
    weir_assert(says || !weir_origin_foreign(request));
    weir_assert(weir_origin_host_ours(request, names, 2) || !weir_origin_host_ours(request, NULL, 0));
}

/* Shows the first `cut` bytes, then all; returns how many bytes were taken as requests. */
static size_t run(const uint8_t *data, size_t size, size_t cut, size_t *ret_requests)
{
    struct weir_http http = { 0 };
    struct weir_http_request request;
    struct weir_http_refusal refusal;
    size_t used = 0, shown = cut;
    *ret_requests = 0;
    for (;;) {
        /* exactly as many bytes as are shown, so that ASan sees a look beyond them */
        size_t come = shown - used;
        uint8_t *copy = malloc(come ? come : 1);
        weir_assert(copy);
        memcpy(copy, data + used, come);
        enum weir_http_event event = weir_http_parse(&http, &bounds, copy, come, &request, &refusal);
        if (event == WEIR_HTTP_REQUEST) {
            check_request(&request, copy, come, http.chunked != NULL);
            check_lock(&request);
            check_query(&request);
            check_origin(&request);
            for (int i = 0; i < 4; i++) {
                const struct weir_forwarded_options options = {
                    .source = i & 1 ? WEIR_FORWARDED_CADDY : WEIR_FORWARDED_NGINX,
                    .path = i & 2 ? WEIR_PATH_REFUSE : WEIR_PATH_NORMALISE,
                };
                check_forwarded(&request, &options);
            }
            used += request.size;
            ++*ret_requests;
            weir_http_next(&http);
        }
        weir_assert(event != WEIR_HTTP_REFUSED || (refusal.status >= 400 && refusal.text[0]));
        free(copy);
        if (event == WEIR_HTTP_REFUSED || (event != WEIR_HTTP_REQUEST && shown == size))
            break;
        if (event != WEIR_HTTP_REQUEST)
            shown = size;
        else if (shown < used)
            shown = used;
    }
    weir_http_next(&http);
    return used;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    size_t cut = 0;
    if (size > 0) {
        cut = data[0] < size ? data[0] : size - 1;
        data++;
        size--;
    }
    size_t whole_requests, cut_requests;
    size_t whole = run(data, size, size, &whole_requests);
    size_t in_two = run(data, size, cut, &cut_requests);
    weir_assert(whole == in_two && whole_requests == cut_requests);
    return 0;
}
