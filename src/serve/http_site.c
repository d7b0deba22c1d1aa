/* SPDX-License-Identifier: Apache-2.0
 *
 * GET /docs and what lies below: the documentation (site.c), the same for everybody. A path is compared as it was sent.
 * Called by http.c. */
#include <string.h>

#include "serve/http_call.h"
#include "serve/loop.h"
#include "serve/site.h"

#define PREFIX "/docs"
#define KEPT_S 600 /* by browsers and caches: a newer site is seen that much later */
#define NAME_MAX_BYTES 256

static const char absent[] =
    "There is no documentation here: this weir was installed, or built, without it.\n\n"
    "In the source of weir, `make site` writes build/site, which build/weir serves from its next start on. What was\n"
    "installed serves it once `make site` and `make install` have put it into share/weir/site.\n"
    "The pages themselves are the Markdown in docs/.\n";
static const char unread[] = "The documentation is being read. Ask again in a second.\n"; /* weir has just started */
static const char missing[] = "There is no such page. They begin at /docs/\n";

bool weir_http_docs_path(struct weir_slice path)
{
    const size_t size = sizeof(PREFIX) - 1;
    return path.size >= size && memcmp(path.data, PREFIX, size) == 0 &&
           (path.size == size || ((const char *)path.data)[size] == '/');
}

/* The same file as `make site` has packed it; NULL: it has not. */
static const struct weir_site_file *packed(const struct weir_site *site, struct weir_slice name)
{
    char longer[NAME_MAX_BYTES + 3];
    if (name.size > NAME_MAX_BYTES)
        return NULL;
    memcpy(longer, name.data, name.size);
    memcpy(longer + name.size, ".gz", 3);
    return weir_site_find(site, (struct weir_slice){ longer, name.size + 3 });
}

static void reply_text(const struct weir_http_call *call, int status, const char *fields, const char *text)
{
    char copy[512];
    struct weir_text body = weir_text_init(copy, sizeof(copy));
    weir_text_str(&body, text);
    weir_http_reply_body(call, status, WEIR_HTTP_PLAIN, fields, &body);
}

static void reply_file(struct weir_http_call *call, const struct weir_site *site, const struct weir_site_file *file)
{
    char fields[WEIR_SITE_FIELDS_MAX + 32];
    struct weir_text text = weir_text_init(fields, sizeof(fields) - 1);
    const struct weir_site_file *small = weir_http_takes_gzip(call->request)
                                             ? packed(site, (struct weir_slice){ file->name, strlen(file->name) })
                                             : NULL;
    weir_text_str(&text, weir_site_fields(site));
    if (small)
        weir_text_lit(&text, "Content-Encoding: gzip\r\n");
    fields[text.size] = '\0';
    call->max_age_s = KEPT_S;
    weir_http_reply_shared(call, file->type, fields, small ? small->bytes : file->bytes,
                           small ? small->size : file->size);
}

void weir_http_docs(struct weir_http_call *call)
{
    const struct weir_site_place *place = call->conn->loop->common->site;
    const bool is_read = !place || atomic_load(&place->is_read);
    const struct weir_site *site = place ? atomic_load(&place->site) : NULL;
    struct weir_slice path = call->request->path, name = { "index.html", sizeof("index.html") - 1 };
    if (!site) {
        reply_text(call, is_read ? 404 : 503, is_read ? "" : "Retry-After: 1\r\n", is_read ? absent : unread);
        return;
    }
    if (path.size == sizeof(PREFIX) - 1) { /* links in pages are relative */
        reply_text(call, 308, "Location: " PREFIX "/\r\n", "The pages begin at " PREFIX "/\n");
        return;
    }
    if (path.size > sizeof(PREFIX))
        name = (struct weir_slice){ (const char *)path.data + sizeof(PREFIX), path.size - sizeof(PREFIX) };
    const struct weir_site_file *file = weir_site_find(site, name);
    if (file)
        reply_file(call, site, file);
    else
        reply_text(call, 404, "", missing);
}
