/* SPDX-License-Identifier: Apache-2.0
 *
 * POST /v1/reservations, and settle, extend, GET and DELETE of one: bodies are read by wire/reservation.c, the rest is
 * done by reserve_ask.c and reserve.c. A refusal is that of /v1/check. Called by http.c. */
#include <stdlib.h>

#include "serve/http_call.h"
#include "serve/reserve.h"

static const char prefix[] = "/v1/reservations/", settle_end[] = "/settle", extend_end[] = "/extend";

static bool ends_with(struct weir_slice text, const char *end)
{
    const size_t size = strlen(end);
    return text.size > size && memcmp((const char *)text.data + text.size - size, end, size) == 0;
}

/* What follows the prefix, without an end like this; size 0: none. */
static struct weir_slice id_of(struct weir_slice path, const char *end)
{
    const size_t head = sizeof(prefix) - 1;
    const size_t tail = strlen(end);
    if (path.size <= head + tail || memcmp(path.data, prefix, head) != 0 || (tail > 0 && !ends_with(path, end)))
        return (struct weir_slice){ 0 };
    return (struct weir_slice){ (const char *)path.data + head, path.size - head - tail };
}

bool weir_http_reservations_path(const struct weir_http_call *call, const char **ret_allow)
{
    const struct weir_slice path = call->request->path;
    const enum weir_http_method method = call->request->method;
    const bool posts = id_of(path, settle_end).size > 0 || id_of(path, extend_end).size > 0;
    if (id_of(path, "").size == 0)
        return false;
    *ret_allow = NULL;
    if (posts && method != WEIR_HTTP_POST)
        *ret_allow = "Allow: POST\r\n";
    else if (!posts && method != WEIR_HTTP_GET && method != WEIR_HTTP_HEAD && method != WEIR_HTTP_DELETE)
        *ret_allow = "Allow: GET, HEAD, DELETE\r\n";
    return true;
}

/* ---- answers ---- */

static void reply_error(const struct weir_http_call *call, int error, const struct weir_fault *fault)
{
    switch (error) {
    case WEIR_ENOENT:
        weir_http_reply_problem(call, 404, "", "this reservation is not one of ours, or is remembered no more");
        break;
    case WEIR_ELOST:
        weir_http_reply_problem(call, 409, "", "this reservation has ended: reserve anew");
        break;
    case WEIR_ELIMIT:
        if (fault->text[0])
            weir_http_reply_fault(call, error, fault);
        else
            weir_http_reply_problem(call, 409, "",
                                    "full: this reservation was extended seven times: settle it, and reserve anew");
        break;
    case WEIR_ESTALE:
        weir_http_reply_problem(call, 409, "", "the limits of this reservation were replaced: settle it");
        break;
    case WEIR_EBUSY:
        weir_http_reply_problem(call, 503, "Retry-After: 1\r\n", "full: too many reservations are open");
        break;
    default:
        weir_http_reply_fault(call, error, fault);
    }
}

/* As a check's answer, with what was reserved in front. */
static void reply_reserved(struct weir_http_call *call, const struct weir_reserve_ask *ask)
{
    const struct weir_config *config = call->conn->loop->setup->config;
    const struct weir_ratelimit_options options = { config->headers_ratelimit, config->headers_x_ratelimit };
    const struct weir_answer answer = weir_http_told(call);
    if (!answer.decision->admitted) {
        weir_http_reply_verdict(call, 429, &answer, true);
        return;
    }
    const size_t fields_max = weir_ratelimit_fields_max(&answer) + 1;
    const size_t body_max = weir_check_answer_max(&answer) + 256;
    char *room = malloc(fields_max + 2 * body_max);
    if (!room) {
        weir_http_reply_fault(call, WEIR_ENOMEM, &(struct weir_fault){ 0 });
        return;
    }
    struct weir_text fields = weir_text_init(room, fields_max - 1);
    struct weir_text check = weir_text_init(room + fields_max, body_max);
    struct weir_text body = weir_text_init(room + fields_max + body_max, body_max);
    weir_ratelimit_fields(&fields, &answer, &options);
    room[fields.size] = '\0';
    weir_check_answer(&check, &answer);
    weir_text_lit(&body, "{\"id\":");
    weir_text_json(&body, ask->id, sizeof(ask->id));
    weir_text_member_u64(&body, ",\"held\":", ask->held);
    weir_text_member_bool(&body, ",\"cut\":", ask->cut);
    weir_text_member_u64(&body, ",\"expires_in_ms\":", ask->ends_after_ns / 1000000);
    weir_text_lit(&body, ",");
    weir_text_bytes(&body, room + fields_max + 1, check.size - 1);
    weir_http_reply_body(call, 200, WEIR_HTTP_JSON, room, &body);
    free(room);
}

static void reply_told(const struct weir_http_call *call, const struct weir_reserve_told *told, bool shows)
{
    char room[512 + WEIR_RESERVE_LIMITS_MAX * (6 * WEIR_LIMIT_NAME_MAX + 64)];
    struct weir_text body = weir_text_init(room, sizeof(room));
    if (shows) {
        weir_text_member(&body, "{\"state\":", told->state);
        weir_text_member_u64(&body, ",\"held\":", told->held);
        weir_text_member_u64(&body, ",\"expires_in_ms\":", told->ends_after_ns / 1000000);
        weir_text_lit(&body, ",");
    } else {
        weir_text_lit(&body, "{");
    }
    weir_text_member_u64(&body, "\"given_back\":", told->given_back);
    weir_text_member_u64(&body, ",\"under_estimated\":", told->under_estimated);
    weir_text_member_u64(&body, ",\"uncharged\":", told->uncharged);
    weir_text_member_bool(&body, ",\"late\":", told->late);
    weir_text_lit(&body, ",\"limits\":[");
    for (size_t i = 0; i < told->count; i++) {
        weir_text_member(&body, i > 0 ? ",{\"limit\":" : "{\"limit\":", told->limits[i].name);
        weir_text_member_u64(&body, ",\"given_back\":", told->limits[i].given_back);
        weir_text_lit(&body, "}");
    }
    weir_text_lit(&body, "]}");
    weir_http_reply_body(call, 200, WEIR_HTTP_JSON, "", &body);
}

/* ---- calls ---- */

/* In ns; what is too long stays so. */
static uint64_t ns_of(uint64_t ms)
{
    return ms > UINT64_MAX / 1000000 ? UINT64_MAX : ms * 1000000;
}

void weir_http_reserve(struct weir_http_call *call)
{
    struct weir_http_work *work = call->work;
    struct weir_reserve_request *request = &work->reserve;
    struct weir_fault fault = { 0 };
    struct weir_transaction *pending = NULL;
    int error = weir_reserve_parse(call->request->body.data, call->request->body.size, request, &fault);
    if (error) {
        weir_http_reply_fault(call, error, &fault);
        return;
    }
    for (size_t i = 0; i < request->check.count; i++)
        work->attributes[i] = (struct weir_attribute){ request->check.attributes[i].name,
                                                       request->check.attributes[i].value };
    struct weir_reserve_ask ask = { .amount = request->amount, .ttl_ns = ns_of(request->ttl_ms) };
    struct weir_question question = {
        .attributes = work->attributes, .count = request->check.count, .cost = 1, .reserve = &ask
    };
    struct weir_reserve_amount amount;
    error = weir_reserve_question(&question, work->attributes, &amount, &fault);
    if (!error)
        error = weir_decide(call->conn->loop, &question, call->time, &work->outcome, &fault, &pending);
    weir_check_deinit(&request->check);
    if (error)
        reply_error(call, error, &fault);
    else
        reply_reserved(call, &ask);
}

static void settle(struct weir_http_call *call, struct weir_slice id)
{
    struct weir_reserve_told told;
    struct weir_fault fault = { 0 };
    uint64_t actual;
    int error = weir_settle_parse(call->request->body.data, call->request->body.size, &actual, &fault);
    if (error) {
        weir_http_reply_fault(call, error, &fault);
        return;
    }
    error = weir_reserve_settle(call->conn->loop, id, actual, false, call->time, &told);
    if (error)
        reply_error(call, error, &fault);
    else
        reply_told(call, &told, false);
}

static void extend(struct weir_http_call *call, struct weir_slice id)
{
    struct weir_reserve_ask ask = { 0 };
    struct weir_fault fault = { 0 };
    uint64_t more;
    uint64_t ttl_ms;
    int error = weir_extend_parse(call->request->body.data, call->request->body.size, &more, &ttl_ms, &fault);
    if (error) {
        weir_http_reply_fault(call, error, &fault);
        return;
    }
    ask.ttl_ns = ns_of(ttl_ms);
    call->work->outcome.banned = false;
    error = weir_reserve_extend(call->conn->loop, id, more, call->time, &ask, &call->work->outcome, &fault);
    if (error)
        reply_error(call, error, &fault);
    else
        reply_reserved(call, &ask);
}

void weir_http_reservations(struct weir_http_call *call)
{
    const struct weir_slice path = call->request->path;
    struct weir_reserve_told told;
    if (id_of(path, settle_end).size > 0) {
        settle(call, id_of(path, settle_end));
        return;
    }
    if (id_of(path, extend_end).size > 0) {
        extend(call, id_of(path, extend_end));
        return;
    }
    const struct weir_slice id = id_of(path, "");
    const bool cancels = call->request->method == WEIR_HTTP_DELETE;
    const int error = cancels ? weir_reserve_settle(call->conn->loop, id, 0, true, call->time, &told)
                              : weir_reserve_show(call->conn->loop, id, call->time, &told);
    if (error)
        reply_error(call, error, &(struct weir_fault){ 0 });
    else
        reply_told(call, &told, !cancels);
}
