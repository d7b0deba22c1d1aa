/* SPDX-License-Identifier: Apache-2.0
 *
 * One function for each type of RESP reply: it reserves room in the connection's output, encodes with
 * wire/resp_write.c, and commits; to a connection that is gone nothing is written. Of arrays and maps only the header
 * is written here: the elements follow as replies of their own. Called by the commands (resp*.c). */
#include <stdarg.h>
#include <stdio.h>

#include "serve/resp_call.h"
#include "wire/resp_write.h"

#define ERROR_MAX 256

static uint8_t *reserve(const struct weir_resp_call *call, size_t size)
{
    return weir_conn_reserve(call->conn, size);
}

static void commit(const struct weir_resp_call *call, const uint8_t *start, const uint8_t *end)
{
    weir_conn_commit(call->conn, (size_t)(end - start));
}

const char *weir_resp_show(struct weir_slice text, struct weir_resp_shown *ret_shown)
{
    const uint8_t *bytes = text.data;
    size_t size = text.size < sizeof(ret_shown->text) - 1 ? text.size : sizeof(ret_shown->text) - 1;
    for (size_t i = 0; i < size; i++)
        ret_shown->text[i] = (char)(bytes[i] >= ' ' && bytes[i] <= '~' ? bytes[i] : '?');
    ret_shown->text[size] = '\0';
    return ret_shown->text;
}

void weir_resp_reply_simple(const struct weir_resp_call *call, const char *text)
{
    size_t size = strlen(text);
    uint8_t *at = reserve(call, size + 3);
    if (at)
        commit(call, at, weir_resp_put_simple(at, text, size));
}

void weir_resp_reply_error(const struct weir_resp_call *call, const char *format, ...)
{
    char text[ERROR_MAX];
    va_list arguments;
    va_start(arguments, format);
    int size = vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    size_t used = size < 0 ? 0 : (size_t)size < sizeof(text) ? (size_t)size : sizeof(text) - 1;

    uint8_t *at = reserve(call, used + 3);
    if (at)
        commit(call, at, weir_resp_put_error(at, text, used));
}

void weir_resp_reply_integer(const struct weir_resp_call *call, int64_t value)
{
    uint8_t *at = reserve(call, WEIR_RESP_HEADER_MAX);
    if (at)
        commit(call, at, weir_resp_put_integer(at, value));
}

void weir_resp_reply_bulk(const struct weir_resp_call *call, const void *data, size_t size)
{
    uint8_t *at = reserve(call, WEIR_RESP_HEADER_MAX + size + 2);
    if (at)
        commit(call, at, weir_resp_put_bulk(at, data, size));
}

void weir_resp_reply_text(const struct weir_resp_call *call, const char *text)
{
    weir_resp_reply_bulk(call, text, strlen(text));
}

void weir_resp_reply_array(const struct weir_resp_call *call, size_t count)
{
    uint8_t *at = reserve(call, WEIR_RESP_HEADER_MAX);
    if (at)
        commit(call, at, weir_resp_put_array(at, count));
}

void weir_resp_reply_map(const struct weir_resp_call *call, size_t pairs)
{
    uint8_t *at = reserve(call, WEIR_RESP_HEADER_MAX);
    if (at)
        commit(call, at, weir_resp_put_map(at, pairs, call->session->resp3));
}

void weir_resp_reply_null(const struct weir_resp_call *call)
{
    uint8_t *at = reserve(call, WEIR_RESP_HEADER_MAX);
    if (at)
        commit(call, at, weir_resp_put_null(at, call->session->resp3));
}

void weir_resp_reply_fault(const struct weir_resp_call *call, int error, const struct weir_fault *fault)
{
    if (fault && fault->text[0])
        weir_resp_reply_error(call, "ERR %s%s%s", fault->field, fault->field[0] ? " " : "", fault->text);
    else
        weir_resp_reply_error(call, "ERR %s", weir_error_text(error));
}
