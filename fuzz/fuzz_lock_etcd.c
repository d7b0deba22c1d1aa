/* SPDX-License-Identifier: Apache-2.0
 *
 * Any JSON as what etcd answers, call after call: every op comes to an end after a few calls, and tells of a token only
 * when the store said that it is ours. The calls themselves are the fuzzer's (weir_etcd_http_start is wrapped). */
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "locks/etcd_inside.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
void __wrap_weir_etcd_http_start(struct weir_etcd_http *http, struct weir_etcd_call *call, const char *path,
                                 json_t *body, uint64_t deadline_ns);

#define CALLS_MAX 12

/* The call is under way until the fuzzer answers it. */
void __wrap_weir_etcd_http_start(struct weir_etcd_http *http, struct weir_etcd_call *call, const char *path,
                                 json_t *body, uint64_t deadline_ns)
{
    (void)http;
    (void)deadline_ns;
    weir_assert(path[0] == '/' && body && !call->busy);
    json_decref(body);
    call->busy = true;
}

/* A line each: '!' certainly not done, '?' unknown, '-' no such lease; else JSON; after the last one: unknown. */
static void answer(struct weir_etcd_call *call, const char **at, const char *end)
{
    const char *line = *at < end ? memchr(*at, '\n', (size_t)(end - *at)) : end;
    line = line ? line : end;
    size_t length = (size_t)(line - *at);
    call->busy = false;
    call->not_found = length == 1 && **at == '-';
    call->answer = length > 1 ? json_loadb(*at, length, JSON_REJECT_DUPLICATES, NULL) : NULL;
    call->status = call->answer ? 0 : call->not_found || (length == 1 && **at == '!') ? WEIR_EDOWN : WEIR_EUNKNOWN;
    *at = line < end ? line + 1 : end;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static char owner[] = "owner", name[] = "name";
    static struct weir_etcd etcd;
    if (size < 1)
        return 0;
    const char *at = (const char *)data + 1;
    const char *end = (const char *)data + size;
    memset(&etcd, 0, sizeof(etcd));
    memcpy(etcd.prefix, "weir/", 6);
    etcd.witness.incarnation = data[0] & 16 ? 0 : 7;
    struct weir_lock_op op = { .verb = (enum weir_lock_verb)(data[0] % 4),
                               .name = { name, 4 },
                               .owner = { owner, 5 },
                               .ttl_ns = UINT64_C(2000000000),
                               .seen = data[0] & 32 ? 9 : 0,
                               .status = 77 };
    struct weir_etcd_op *step = &etcd.ops[0];
    step->op = &op;
    weir_etcd_op_begin(&etcd, step);
    int calls = 0;
    while (step->step != WEIR_ETCD_DONE) {
        weir_assert(step->call.busy && ++calls <= CALLS_MAX);
        answer(&step->call, &at, end);
        weir_etcd_op_heard(&etcd, step);
    }
    weir_assert(op.status == 0 || op.status == WEIR_EDOWN || op.status == WEIR_EUNKNOWN);
    weir_assert(op.holder_size <= WEIR_LOCK_OWNER_MAX);
    return 0;
}
