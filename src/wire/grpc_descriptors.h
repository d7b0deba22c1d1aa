/* SPDX-License-Identifier: Apache-2.0
 *
 * What reflection knows: the files of proto/, as descriptors that protoc-c made of them (proto/compile.py). */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* A file. It names the files that it needs, itself first, so that one answer tells all of a symbol. */
struct weir_grpc_descriptor {
    const char *name; /* NULL: the end of the list */
    const uint8_t *bytes;
    size_t size;
    const char *const *symbols; /* full names of its messages, enums, services and methods; NULL at the end */
    const int8_t *needed;       /* indexes of the list; -1 at the end */
};

extern const struct weir_grpc_descriptor weir_grpc_descriptors[];
extern const char *const weir_grpc_services[]; /* NULL at the end */
