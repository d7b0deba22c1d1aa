/* SPDX-License-Identifier: Apache-2.0
 *
 * The HTTP calls run on one libcurl multi handle, which weir_etcd_http_next drives. This file decides what a failure
 * means: a call was certainly not done if no byte of it was sent, if etcd does not know its lease, or if etcd does not
 * let the user in; after any other failure it may have been done. Called by etcd.c and etcd_op.c, which say what to
 * ask, on the manager's thread. */
#include "locks/etcd_http.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <curl/curl.h>
#include <openssl/evp.h>

#include "base/fault.h"
#include "base/fault_format.h"
#include "base/regular.h"
#include "base/timing.h"

#define CONNECTIONS_MAX 32L
#define CONNECT_TIMEOUT_MS 1000L
#define GRPC_NOT_FOUND 5
#define GRPC_FAILED_PRECONDITION 9
#define GRPC_UNAUTHENTICATED 16

struct weir_etcd_http {
    CURLM *multi;
    char **endpoints;
    size_t endpoints_count;
    size_t endpoint; /* that answered last */
    char *username, *password, *ca_file;
    char *token; /* "Authorization: …", once authenticated */
    struct curl_slist *headers;
    size_t under_way;
    char fault[128];
};

/* ---- values ---- */

json_t *weir_etcd_bytes(const void *data, size_t size)
{
    unsigned char *text = malloc(size / 3 * 4 + 5);
    if (!text)
        return NULL;
    int length = EVP_EncodeBlock(text, data, (int)size);
    json_t *value = json_stringn((const char *)text, (size_t)length);
    free(text);
    return value;
}

size_t weir_etcd_bytes_get(const json_t *value, char *buffer, size_t room)
{
    size_t length = json_string_length(value);
    const char *text = json_string_value(value);
    if (!text || length % 4 != 0 || length / 4 * 3 > room + 2)
        return SIZE_MAX;
    unsigned char *bytes = malloc(length / 4 * 3 + 1);
    if (!bytes)
        return SIZE_MAX;
    int decoded = EVP_DecodeBlock(bytes, (const unsigned char *)text, (int)length);
    size_t size = decoded < 0 ? SIZE_MAX : (size_t)decoded;
    for (size_t i = length; size != SIZE_MAX && i > 0 && i + 2 > length && text[i - 1] == '='; i--)
        size--; /* DecodeBlock counts the padding in */
    if (size != SIZE_MAX && size <= room)
        memcpy(buffer, bytes, size);
    else
        size = SIZE_MAX;
    free(bytes);
    return size;
}

int64_t weir_etcd_integer(const json_t *object, const char *name)
{
    const json_t *value = json_object_get(object, name);
    if (json_is_integer(value))
        return json_integer_value(value);
    return json_is_string(value) ? strtoll(json_string_value(value), NULL, 10) : 0;
}

/* ---- one call ---- */

static size_t receive(char *data, size_t one, size_t count, void *context)
{
    struct weir_etcd_call *call = context;
    size_t size = one * count;
    if (size > WEIR_ETCD_ANSWER_MAX - call->text_size)
        return 0;
    char *text = realloc(call->text, call->text_size + size + 1);
    if (!text)
        return 0;
    memcpy(text + call->text_size, data, size);
    call->text = text;
    call->text_size += size;
    return size;
}

static void complain(struct weir_etcd_http *http, size_t endpoint, const char *what)
{
    snprintf(http->fault, sizeof http->fault, "%s: %s", http->endpoints[endpoint], what);
}

/* Of an answer that is no success: what etcd says of it. A lease it does not know was not touched, nor was anything by
 * a caller that it does not let in. Anything else may come after the request was proposed. */
static void judge_refusal(struct weir_etcd_http *http, struct weir_etcd_call *call, json_t *answer)
{
    int64_t code = weir_etcd_integer(answer, "code");
    const char *text = json_string_value(json_object_get(answer, "error"));
    call->not_found = code == GRPC_NOT_FOUND;
    call->not_now = code == GRPC_FAILED_PRECONDITION;
    call->status = code == GRPC_NOT_FOUND || code == GRPC_UNAUTHENTICATED ? WEIR_EDOWN : WEIR_EUNKNOWN;
    if (code == GRPC_UNAUTHENTICATED) {
        free(http->token);
        http->token = NULL; /* the next call asks for another */
    }
    if (!call->not_found)
        complain(http, call->endpoint, text ? text : "no JSON came back");
}

/* Of calls under way together only the first that fails moves on: the others failed at the same endpoint. */
static void leave_endpoint(struct weir_etcd_http *http, const struct weir_etcd_call *call)
{
    if (http->endpoint == call->endpoint)
        http->endpoint = (http->endpoint + 1) % http->endpoints_count;
}

static long left_ms(const struct weir_etcd_call *call)
{
    uint64_t now = weir_timing_now(CLOCK_MONOTONIC);
    return call->deadline_ns > now ? (long)((call->deadline_ns - now) / 1000000) + 1 : 1;
}

/* To the endpoint of now. */
static bool send_call(struct weir_etcd_http *http, struct weir_etcd_call *call)
{
    char url[512];
    CURL *easy = call->easy;
    call->endpoint = http->endpoint;
    snprintf(url, sizeof url, "%s%s", http->endpoints[call->endpoint], call->path);
    curl_easy_setopt(easy, CURLOPT_URL, url);
    curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, left_ms(call));
    return curl_multi_add_handle(http->multi, easy) == CURLM_OK;
}

/* Nothing was sent, and there are endpoints that this call has not tried. */
static bool try_next(struct weir_etcd_http *http, struct weir_etcd_call *call)
{
    if (++call->tried >= http->endpoints_count || weir_timing_now(CLOCK_MONOTONIC) >= call->deadline_ns)
        return false;
    curl_multi_remove_handle(http->multi, call->easy);
    return send_call(http, call);
}

/* False: it goes on at another endpoint. */
static bool finish(struct weir_etcd_http *http, struct weir_etcd_call *call, CURLcode result)
{
    long code = 0;
    curl_easy_getinfo(call->easy, CURLINFO_RESPONSE_CODE, &code);
    if (result == CURLE_OK) {
        json_t *answer = json_loadb(call->text ? call->text : "", call->text_size, 0, NULL);
        call->status = 0;
        if (code == 200 && json_is_object(answer) && !json_object_get(answer, "error"))
            call->answer = json_incref(answer);
        else
            judge_refusal(http, call, answer);
        json_decref(answer);
    } else {
        long sent = 0;
        curl_easy_getinfo(call->easy, CURLINFO_REQUEST_SIZE, &sent);
        complain(http, call->endpoint, curl_easy_strerror(result));
        call->status = sent > 0 ? WEIR_EUNKNOWN : WEIR_EDOWN;
        leave_endpoint(http, call);
        if (sent == 0 && try_next(http, call))
            return false;
    }
    curl_multi_remove_handle(http->multi, call->easy);
    curl_easy_cleanup(call->easy);
    free(call->body);
    free(call->text);
    call->easy = call->body = call->text = NULL;
    call->text_size = 0;
    call->busy = false;
    http->under_way--;
    return true;
}

static bool set_up(struct weir_etcd_http *http, struct weir_etcd_call *call)
{
    CURL *easy = call->easy;
    curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(easy, CURLOPT_PROXY, "");
    curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, CONNECT_TIMEOUT_MS);
    curl_easy_setopt(easy, CURLOPT_POSTFIELDS, call->body);
    curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)call->body_size);
    curl_easy_setopt(easy, CURLOPT_HTTPHEADER, http->headers);
    curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, receive);
    curl_easy_setopt(easy, CURLOPT_WRITEDATA, call);
    curl_easy_setopt(easy, CURLOPT_PRIVATE, call);
    if (http->ca_file)
        curl_easy_setopt(easy, CURLOPT_CAINFO, http->ca_file);
    return send_call(http, call);
}

static void begin(struct weir_etcd_http *http, struct weir_etcd_call *call, const char *path, json_t *body,
                  uint64_t deadline_ns)
{
    bool in_time = deadline_ns > weir_timing_now(CLOCK_MONOTONIC);
    call->status = WEIR_EDOWN;
    call->not_found = call->not_now = false;
    call->answer = NULL;
    call->path = path;
    call->deadline_ns = deadline_ns;
    call->tried = 0;
    call->endpoint = http->endpoint;
    call->body = body && in_time ? json_dumps(body, JSON_COMPACT) : NULL;
    call->easy = call->body ? curl_easy_init() : NULL;
    json_decref(body);
    if (call->easy) {
        call->body_size = strlen(call->body);
        if (set_up(http, call)) {
            call->busy = true;
            http->under_way++;
            return;
        }
        curl_easy_cleanup(call->easy);
    }
    complain(http, call->endpoint, in_time ? "out of memory" : "the deadline has passed");
    free(call->body);
    call->easy = call->body = NULL;
}

/* ---- authentication ---- */

static void set_headers(struct weir_etcd_http *http)
{
    curl_slist_free_all(http->headers);
    http->headers = curl_slist_append(NULL, "Content-Type: application/json");
    if (http->token)
        http->headers = curl_slist_append(http->headers, http->token);
}

/* False: no token, and `fault` says why. A server that asks for none is fine. */
static bool authenticate(struct weir_etcd_http *http, uint64_t deadline_ns)
{
    struct weir_etcd_call call = { 0 };
    if (!http->username || http->token || http->under_way > 0)
        return true;
    set_headers(http);
    begin(http, &call, "/v3/auth/authenticate",
          json_pack("{s:s,s:s}", "name", http->username, "password", http->password ? http->password : ""),
          deadline_ns);
    while (call.busy)
        weir_etcd_http_next(http);
    const char *token = json_string_value(json_object_get(call.answer, "token"));
    size_t size = token ? strlen(token) + sizeof "Authorization: " : 0;
    http->token = token ? malloc(size) : NULL;
    if (http->token)
        snprintf(http->token, size, "Authorization: %s", token);
    json_decref(call.answer);
    set_headers(http);
    return http->token || call.not_now;
}

void weir_etcd_http_start(struct weir_etcd_http *http, struct weir_etcd_call *call, const char *path, json_t *body,
                          uint64_t deadline_ns)
{
    if (authenticate(http, deadline_ns)) {
        begin(http, call, path, body, deadline_ns);
        return;
    }
    json_decref(body);
    call->status = WEIR_EDOWN;
    call->not_found = false;
    call->answer = NULL;
}

struct weir_etcd_call *weir_etcd_http_next(struct weir_etcd_http *http)
{
    while (http->under_way > 0) {
        int running, left;
        curl_multi_perform(http->multi, &running);
        CURLMsg *message = curl_multi_info_read(http->multi, &left);
        if (message && message->msg == CURLMSG_DONE) {
            char *call = NULL;
            CURLcode result = message->data.result;
            curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &call);
            if (finish(http, (void *)call, result))
                return (void *)call;
            continue;
        }
        curl_multi_poll(http->multi, NULL, 0, 1000, NULL);
    }
    return NULL;
}

const char *weir_etcd_http_fault(const struct weir_etcd_http *http)
{
    return http->fault;
}

/* ---- creation ---- */

static bool copy(const char *text, char **ret_copy)
{
    *ret_copy = text ? strdup(text) : NULL;
    return !text || *ret_copy;
}

static int set_endpoints(struct weir_etcd_http *http, const struct weir_lock_etcd_options *options,
                         struct weir_fault *ret_fault)
{
    http->endpoints = calloc(options->endpoints_count + 1, sizeof *http->endpoints);
    if (!http->endpoints)
        return WEIR_ENOMEM;
    for (size_t i = 0; i < options->endpoints_count; i++) {
        const char *text = options->endpoints[i];
        bool http_scheme = strncmp(text, "http://", 7) == 0 || strncmp(text, "https://", 8) == 0;
        if (!http_scheme || strlen(text) > 255 || strpbrk(text, " \t\r\n@"))
            return weir_fault_set(ret_fault, WEIR_EINVAL, "endpoints",
                                  "must be http://HOST:PORT or https://HOST:PORT, at most 255 bytes");
        if (!copy(text, &http->endpoints[i]))
            return WEIR_ENOMEM;
        size_t length = strlen(http->endpoints[i]);
        if (http->endpoints[i][length - 1] == '/')
            http->endpoints[i][length - 1] = '\0';
        http->endpoints_count++;
    }
    return http->endpoints_count > 0 ? 0 : WEIR_EINVAL;
}

/* libcurl opens it for each connection, and would wait with a FIFO for whoever writes to it. */
static int ca_check(const char *file, struct weir_fault *ret_fault)
{
    const char *why = file ? weir_regular_fault(file) : NULL;
    return why ? weir_fault_format(ret_fault, WEIR_EINVAL, "ca_file", "%.70s: %s", file, why) : 0;
}

int weir_etcd_http_create(const struct weir_lock_etcd_options *options, struct weir_etcd_http **ret_http,
                          struct weir_fault *ret_fault)
{
    struct weir_etcd_http *http = calloc(1, sizeof *http);
    if (!http)
        return WEIR_ENOMEM;
    int error = set_endpoints(http, options, ret_fault);
    if (error == 0)
        error = ca_check(options->ca_file, ret_fault);
    if (error == 0 && (!copy(options->username, &http->username) || !copy(options->password, &http->password) ||
                       !copy(options->ca_file, &http->ca_file)))
        error = WEIR_ENOMEM;
    if (error == 0) {
        curl_global_init(CURL_GLOBAL_DEFAULT); /* counted by libcurl */
        http->multi = curl_multi_init();
        error = http->multi ? 0 : WEIR_ENOMEM;
    }
    if (error != 0) {
        weir_etcd_http_destroy(http);
        return error;
    }
    curl_multi_setopt(http->multi, CURLMOPT_MAX_HOST_CONNECTIONS, CONNECTIONS_MAX);
    set_headers(http);
    *ret_http = http;
    return 0;
}

static void wipe(char *secret)
{
    if (secret)
        explicit_bzero(secret, strlen(secret));
    free(secret);
}

void weir_etcd_http_destroy(struct weir_etcd_http *http)
{
    if (!http)
        return;
    while (weir_etcd_http_next(http))
        ;
    if (http->multi) {
        curl_multi_cleanup(http->multi);
        curl_global_cleanup();
    }
    for (size_t i = 0; i < http->endpoints_count; i++)
        free(http->endpoints[i]);
    free(http->endpoints);
    free(http->username);
    free(http->ca_file);
    wipe(http->password);
    wipe(http->token);
    curl_slist_free_all(http->headers);
    free(http);
}
