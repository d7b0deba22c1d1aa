/* SPDX-License-Identifier: Apache-2.0
 *
 * What the WebAssembly module exports: the stream. A module's memory belongs to one instance, so the stream in it
 * does. */
#include "stream.h"

#define EXPORT(name) __attribute__((export_name(name), visibility("default")))

static struct weir_stream instance;

EXPORT("stream_init") void weir_module_init(uint64_t seed);
EXPORT("stream_run") uint64_t weir_module_run(uint64_t operations);
EXPORT("stream_count") uint64_t weir_module_count(uint32_t index);

void weir_module_init(uint64_t seed)
{
    weir_stream_init(&instance, seed);
}

uint64_t weir_module_run(uint64_t operations)
{
    return weir_stream_run(&instance, operations);
}

uint64_t weir_module_count(uint32_t index)
{
    return index < STREAM_COUNTS ? instance.counts[index] : 0;
}
