/* SPDX-License-Identifier: Apache-2.0
 *
 * One libcurl easy handle, which keeps its connection between two requests. In weir-traces.so; the program has
 * modules/late.c in its place. */
#include "net/post.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <curl/curl.h>

#include "base/fault_format.h"
#include "weir/version.h"

#define NS_PER_MS UINT64_C(1000000)
#define RETRY_AFTER_MAX_S 3600

struct curl_post {
    struct weir_post post; /* first */
    CURL *easy;
    struct curl_slist *headers;
    struct weir_post_answer *answer; /* of the request under way */
};

static struct curl_post *curl_post_of(struct weir_post *post)
{
    return (struct curl_post *)(void *)post;
}

static size_t receive(char *data, size_t one, size_t count, void *context)
{
    struct weir_post_answer *answer = ((struct curl_post *)context)->answer;
    size_t size = one * count, room = sizeof(answer->body) - answer->size;
    size_t taken = size < room ? size : room;
    memcpy(answer->body + answer->size, data, taken);
    answer->size += taken;
    return size;
}

static int send_body(struct weir_post *post, const void *body, size_t size, uint64_t timeout_ns,
                     struct weir_post_answer *ret_answer, struct weir_fault *ret_fault)
{
    struct curl_post *self = curl_post_of(post);
    long timeout_ms = (long)(timeout_ns / NS_PER_MS);
    long status = 0;
    curl_off_t retry_after_s = 0;
    self->answer = ret_answer;
    ret_answer->size = 0;
    curl_easy_setopt(self->easy, CURLOPT_TIMEOUT_MS, timeout_ms > 0 ? timeout_ms : 1);
    curl_easy_setopt(self->easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)size);
    curl_easy_setopt(self->easy, CURLOPT_POSTFIELDS, body);
    CURLcode code = curl_easy_perform(self->easy);
    curl_easy_setopt(self->easy, CURLOPT_POSTFIELDS, NULL); /* the caller's memory may go now */
    if (code != CURLE_OK)
        return weir_fault_format(ret_fault, code == CURLE_OUT_OF_MEMORY ? WEIR_ENOMEM : WEIR_EDOWN, "endpoint", "%s",
                                 curl_easy_strerror(code));
    curl_easy_getinfo(self->easy, CURLINFO_RESPONSE_CODE, &status);
    curl_easy_getinfo(self->easy, CURLINFO_RETRY_AFTER, &retry_after_s);
    if (retry_after_s < 0 || retry_after_s > RETRY_AFTER_MAX_S)
        retry_after_s = retry_after_s < 0 ? 0 : RETRY_AFTER_MAX_S;
    ret_answer->status = (int)status;
    ret_answer->retry_after_ns = (uint64_t)retry_after_s * 1000 * NS_PER_MS;
    return 0;
}

static void close_post(struct weir_post *post)
{
    struct curl_post *self = curl_post_of(post);
    if (!self)
        return;
    if (self->easy) {
        curl_easy_cleanup(self->easy);
        curl_global_cleanup(); /* counted by libcurl */
    }
    curl_slist_free_all(self->headers);
    free(self);
}

static const struct weir_post_ops post_ops = { send_body, close_post };

static bool add_header(struct curl_post *self, const char *name, const char *value)
{
    char line[160];
    (void)snprintf(line, sizeof(line), "%s: %s", name, value);
    struct curl_slist *more = curl_slist_append(self->headers, line);
    self->headers = more ? more : self->headers;
    return more != NULL;
}

/* No request waits for "100 Continue". */
static bool set_up(struct curl_post *self, const char *content_type)
{
    if (!self->easy || !add_header(self, "Content-Type", content_type) || !add_header(self, "Expect", ""))
        return false;
    curl_easy_setopt(self->easy, CURLOPT_HTTPHEADER, self->headers);
    curl_easy_setopt(self->easy, CURLOPT_USERAGENT, "weir/" WEIR_VERSION);
    curl_easy_setopt(self->easy, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(self->easy, CURLOPT_PROXY, "");
    curl_easy_setopt(self->easy, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(self->easy, CURLOPT_WRITEFUNCTION, receive);
    curl_easy_setopt(self->easy, CURLOPT_WRITEDATA, self);
#if LIBCURL_VERSION_NUM >= 0x075700
    curl_easy_setopt(self->easy, CURLOPT_QUICK_EXIT, 1L); /* a name server that is silent keeps nobody from ending */
#endif
    return true;
}

/* libcurl says at a request only what is no URL: it is asked now. */
static bool is_url(const char *url)
{
    CURLU *parsed = curl_url();
    bool is = parsed && curl_url_set(parsed, CURLUPART_URL, url, 0) == CURLUE_OK;
    curl_url_cleanup(parsed);
    return is;
}

int weir_post_open(const char *url, const char *content_type, struct weir_post **ret_post, struct weir_fault *ret_fault)
{
    struct curl_post *self = calloc(1, sizeof(*self));
    if (!self)
        return weir_fault_format(ret_fault, WEIR_ENOMEM, "endpoint", "out of memory");
    self->post.ops = &post_ops;
    if (!is_url(url)) {
        free(self);
        return weir_fault_format(ret_fault, WEIR_EINVAL, "endpoint", "is no URL: it must be http://HOST:PORT/PATH");
    }
    curl_global_init(CURL_GLOBAL_DEFAULT); /* counted by libcurl */
    self->easy = curl_easy_init();
    if (!self->easy)
        curl_global_cleanup();
    if (!set_up(self, content_type) || curl_easy_setopt(self->easy, CURLOPT_URL, url) != CURLE_OK) {
        close_post(&self->post);
        return weir_fault_format(ret_fault, WEIR_ENOMEM, "endpoint", "out of memory");
    }
    *ret_post = &self->post;
    return 0;
}
