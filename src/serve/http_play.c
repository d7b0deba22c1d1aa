/* SPDX-License-Identifier: Apache-2.0
 *
 * GET /play and /learn, and what they load: /play.css, /play.js, /learn.js and /play.wasm. The files are the same for
 * everybody and say nothing about this server. One demonstration asks it, as any client would (page/ask.mjs). Called
 * by http.c. */
#include "serve/http_play.h"

#include <string.h>

#include "serve/http_call.h"

/* As the dashboard's (http_page.c), and what the module needs: to be compiled. */
#define FIELDS                                                                                                         \
    "Content-Security-Policy: default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; style-src 'self'; img-src "    \
    "data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'\r\n"                       \
    "X-Content-Type-Options: nosniff\r\n"                                                                              \
    "Referrer-Policy: no-referrer\r\n"                                                                                 \
    "Cross-Origin-Opener-Policy: same-origin\r\n"                                                                      \
    "Cross-Origin-Resource-Policy: same-origin\r\n"                                                                    \
    "Vary: Accept-Encoding\r\n"

static void reply(struct weir_http_call *call, const char *kind, const char *type)
{
    size_t i = 0;
    while (i < weir_play_files_count && strcmp(weir_play_files[i].kind, kind) != 0)
        i++;
    if (i == weir_play_files_count) {
        weir_http_reply_problem(call, 404, "", "this weir was built without its playground; /play says why");
        return;
    }
    const struct weir_play_file *file = &weir_play_files[i];
    if (weir_http_takes_gzip(call->request))
        weir_http_reply_shared(call, type, FIELDS "Content-Encoding: gzip\r\n", file->packed, file->packed_size);
    else
        weir_http_reply_shared(call, type, FIELDS, file->bytes, file->size);
}

void weir_http_play(struct weir_http_call *call)
{
    reply(call, "html", "text/html; charset=utf-8");
}

void weir_http_play_css(struct weir_http_call *call)
{
    reply(call, "css", "text/css; charset=utf-8");
}

void weir_http_play_js(struct weir_http_call *call)
{
    reply(call, "js", "text/javascript; charset=utf-8");
}

void weir_http_play_wasm(struct weir_http_call *call)
{
    reply(call, "wasm", "application/wasm");
}

void weir_http_learn(struct weir_http_call *call)
{
    reply(call, "learn", "text/html; charset=utf-8");
}

void weir_http_learn_js(struct weir_http_call *call)
{
    reply(call, "learn.js", "text/javascript; charset=utf-8");
}
