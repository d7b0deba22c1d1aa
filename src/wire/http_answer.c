/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/http_answer.h"

static const struct {
    int status;
    const char *reason;
} reasons[] = {
    { 200, "OK" },
    { 400, "Bad Request" },
    { 401, "Unauthorized" },
    { 403, "Forbidden" },
    { 404, "Not Found" },
    { 405, "Method Not Allowed" },
    { 408, "Request Timeout" },
    { 409, "Conflict" },
    { 413, "Content Too Large" },
    { 414, "URI Too Long" },
    { 417, "Expectation Failed" },
    { 429, "Too Many Requests" },
    { 431, "Request Header Fields Too Large" },
    { 500, "Internal Server Error" },
    { 503, "Service Unavailable" },
    { 504, "Gateway Timeout" },
    { 505, "HTTP Version Not Supported" },
};

const char *weir_http_reason(int status)
{
    for (size_t i = 0; i < sizeof(reasons) / sizeof(reasons[0]); i++) {
        if (reasons[i].status == status)
            return reasons[i].reason;
    }
    return "Unknown";
}

void weir_http_answer_head(struct weir_text *text, const struct weir_http_answer *answer)
{
    weir_text_lit(text, "HTTP/1.1 ");
    weir_text_i64(text, answer->status);
    weir_text_lit(text, " ");
    weir_text_str(text, weir_http_reason(answer->status));
    weir_text_lit(text, "\r\nDate: ");
    weir_text_http_date(text, answer->wall_ns);
    weir_text_lit(text, "\r\nCache-Control: no-store\r\nContent-Length: ");
    weir_text_u64(text, answer->content_length);
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
    weir_text_lit(text, ",\"detail\":");
    weir_text_json(text, detail, strlen(detail));
    weir_text_lit(text, "}");
}
