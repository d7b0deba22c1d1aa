/* SPDX-License-Identifier: Apache-2.0
 *
 * POST /v1/permits/{id}/release and /v1/permits/{id}/renew: the permit in the path is read by wire/permit.c, and the
 * limiter says whether it is still out. Called by http.c. */
#include "serve/http_call.h"
#include "wire/text.h"

static const char prefix[] = "/v1/permits/", release_end[] = "/release", renew_end[] = "/renew";

/* The id of a path that ends so; size 0: none. */
static struct weir_slice id_of(struct weir_slice path, const char *end)
{
    const char *data = path.data;
    size_t head = sizeof(prefix) - 1, tail = strlen(end);
    if (path.size <= head + tail || memcmp(data, prefix, head) != 0 || memcmp(data + path.size - tail, end, tail) != 0)
        return (struct weir_slice){ 0 };
    return (struct weir_slice){ data + head, path.size - head - tail };
}

bool weir_http_permits_path(const struct weir_http_call *call)
{
    return id_of(call->request->path, release_end).size > 0 || id_of(call->request->path, renew_end).size > 0;
}

static void refuse(struct weir_http_call *call)
{
    weir_http_reply_problem(call, 404, "", "this permit has ended, was given back, or is not one of ours");
}

void weir_http_permits(struct weir_http_call *call)
{
    struct weir_loop *loop = call->conn->loop;
    const struct weir_slice released = id_of(call->request->path, release_end);
    if (released.size > 0) {
        if (weir_permit_release(loop, released, call->time))
            weir_http_reply(call, 200, WEIR_HTTP_JSON, "", "{\"released\":true}");
        else
            refuse(call);
        return;
    }
    uint64_t lease_ns = weir_permit_renew(loop, id_of(call->request->path, renew_end), call->time);
    if (lease_ns == 0) {
        refuse(call);
        return;
    }
    char body[64];
    struct weir_text text = weir_text_init(body, sizeof(body) - 1);
    weir_text_lit(&text, "{\"renewed\":true,\"lease_ms\":");
    weir_text_i64(&text, weir_permit_told_ms(lease_ns));
    weir_text_lit(&text, "}");
    body[text.size] = '\0';
    weir_http_reply(call, 200, WEIR_HTTP_JSON, "", body);
}
