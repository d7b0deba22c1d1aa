/* SPDX-License-Identifier: Apache-2.0
 *
 * GET /v1/nodes: what this node sees of the engine and of the other nodes. */
#include <stdlib.h>

#include "serve/http_call.h"
#include "serve/nodes.h"

void weir_http_nodes(struct weir_http_call *call)
{
    struct weir_loop *loop = call->conn->loop;
    struct weir_nodes_view *view = NULL;
    uint8_t *body = NULL;
    size_t size = 0;
    weir_sharer_draw(&loop->sharer);
    if (weir_nodes_view_create(loop->common, loop->setup->config, &view) == 0) {
        const struct weir_nodes *nodes = weir_nodes_view_of(view);
        size_t room = weir_nodes_json_max(nodes);
        body = malloc(room);
        struct weir_text text = weir_text_init(body, body ? room : 0);
        if (body)
            weir_nodes_json(&text, nodes);
        size = text.size;
    }
    weir_nodes_view_destroy(view);
    if (body)
        weir_http_reply_long(call, WEIR_HTTP_JSON, "", body, size);
    else
        weir_http_reply_problem(call, 503, "", "out of memory");
}
