/* SPDX-License-Identifier: Apache-2.0
 *
 * Any bytes, cut anywhere, to a gRPC connection that may do everything: the methods stay inside their memory and
 * bounds. */
#include "serve/grpc.h"
#include "serve_alone.h"
#include "wire/grpc_library.h"

static struct serve_alone alone;

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc, (void)argv;
    serve_alone_init(&alone, &weir_grpc_protocol, "");
    alone.common.grpc = &weir_grpc_library;
    weir_assert(!weir_timers_init(&alone.loop->timers, &alone.loop->uv));
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size > 0)
        serve_alone_run(&alone, &weir_grpc_protocol, data, size);
    return 0;
}
