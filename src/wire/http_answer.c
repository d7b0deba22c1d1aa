/* SPDX-License-Identifier: Apache-2.0
 *
 * The statuses are made from WEIR_HTTP_STATUS_LIST; a new one is added to the list and nowhere else. Called by
 * serve/http_reply.c, and by lock.c and session.c beside this file, which add members to a problem detail. Requests are
 * read by http.c. */
#include "wire/http_answer.h"

enum weir_http_status weir_http_status_of(int status)
{
    switch (status) {
#define STATUS_CASE(status, reason)                                                                                    \
    case status:                                                                                                       \
        return WEIR_HTTP_STATUS_##status;
        WEIR_HTTP_STATUS_LIST(STATUS_CASE)
#undef STATUS_CASE
    default:
        return WEIR_HTTP_STATUSES;
    }
}

int weir_http_status_code(enum weir_http_status status)
{
    static const int codes[] = {
#define STATUS_CODE(status, reason) status,
        WEIR_HTTP_STATUS_LIST(STATUS_CODE)
#undef STATUS_CODE
    };
    return codes[status];
}

const char *weir_http_reason(int status)
{
    static const char *const reasons[] = {
#define STATUS_REASON(status, reason) reason,
        WEIR_HTTP_STATUS_LIST(STATUS_REASON)
#undef STATUS_REASON
    };
    enum weir_http_status index = weir_http_status_of(status);
    return index < WEIR_HTTP_STATUSES ? reasons[index] : "Unknown";
}

void weir_http_answer_head(struct weir_text *text, const struct weir_http_answer *answer)
{
    weir_text_lit(text, "HTTP/1.1 ");
    weir_text_i64(text, answer->status);
    weir_text_lit(text, " ");
    weir_text_str(text, weir_http_reason(answer->status));
    weir_text_lit(text, "\r\nDate: ");
    weir_text_http_date(text, answer->wall_ns);
    weir_text_lit(text, "\r\nCache-Control: ");
    if (answer->max_age_s > 0) {
        weir_text_lit(text, "max-age=");
        weir_text_u64(text, answer->max_age_s);
    } else {
        weir_text_lit(text, "no-store");
    }
    if (!answer->streams)
        weir_text_member_u64(text, "\r\nContent-Length: ", answer->content_length);
    if (answer->content_type) {
        weir_text_lit(text, "\r\nContent-Type: ");
        weir_text_str(text, answer->content_type);
    }
    if (!answer->keep_alive)
        weir_text_lit(text, "\r\nConnection: close");
    else if (answer->version_10)
        weir_text_lit(text, "\r\nConnection: keep-alive");
    weir_text_lit(text, "\r\n");
}

void weir_http_problem(struct weir_text *text, int status, const char *detail)
{
    weir_text_lit(text, "{\"type\":\"about:blank\",\"title\":");
    const char *reason = weir_http_reason(status);
    weir_text_json(text, reason, strlen(reason));
    weir_text_lit(text, ",\"status\":");
    weir_text_i64(text, status);
    weir_text_member(text, ",\"detail\":", detail);
    weir_text_lit(text, "}");
}
