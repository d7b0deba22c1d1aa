/* SPDX-License-Identifier: Apache-2.0
 *
 * GET /, /page.css and /page.js: the dashboard. The files are the same for everybody and say nothing about this server:
 * what they show they ask for at the paths that programs ask too, with the token that they are given. Called by http.c.
 */
#include "serve/http_page.h"

#include <string.h>

#include "base/assert.h"
#include "serve/http_call.h"

/* Nothing from elsewhere is loaded or asked, no markup runs code, and no other page may frame this one. */
#define FIELDS                                                                                                         \
    "Content-Security-Policy: default-src 'none'; script-src 'self'; style-src 'self'; img-src data:; connect-src "    \
    "'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'\r\n"                                          \
    "X-Content-Type-Options: nosniff\r\n"                                                                              \
    "Referrer-Policy: no-referrer\r\n"                                                                                 \
    "Cross-Origin-Opener-Policy: same-origin\r\n"                                                                      \
    "Cross-Origin-Resource-Policy: same-origin\r\n"

static void reply(struct weir_http_call *call, const char *kind, const char *type)
{
    size_t i = 0;
    while (i < weir_page_files_count && strcmp(weir_page_files[i].kind, kind) != 0)
        i++;
    weir_assert(i < weir_page_files_count);
    weir_http_reply_shared(call, type, FIELDS, weir_page_files[i].bytes, weir_page_files[i].size);
}

void weir_http_page(struct weir_http_call *call)
{
    reply(call, "html", "text/html; charset=utf-8");
}

void weir_http_page_css(struct weir_http_call *call)
{
    reply(call, "css", "text/css; charset=utf-8");
}

void weir_http_page_js(struct weir_http_call *call)
{
    reply(call, "js", "text/javascript; charset=utf-8");
}
