/* SPDX-License-Identifier: Apache-2.0
 *
 * Spans for a receiver of OTLP, the protocol of OpenTelemetry: the message ExportTraceServiceRequest, and what is told
 * of its answer, ExportTraceServiceResponse, in protobuf's binary form.
 *
 * What it does: one resource, one scope, any number of spans, written into memory of the caller. What it does not:
 * events, links, lists as values. Texts must be UTF-8.
 *
 * Thread rule: plain values. Sources: opentelemetry-proto 1.x (trace_service.proto, trace.proto, common.proto,
 * resource.proto); Protocol Buffers, "Encoding". */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire/traceparent.h"

#define WEIR_OTLP_CONTENT_TYPE "application/x-protobuf"

enum weir_otlp_kind {
    WEIR_OTLP_NONE, /* left out */
    WEIR_OTLP_TEXT,
    WEIR_OTLP_INTEGER,
    WEIR_OTLP_TRUTH,
};

struct weir_otlp_attribute {
    const char *name;
    enum weir_otlp_kind kind;
    const char *text;
    int64_t number; /* INTEGER; TRUTH: 0 or 1 */
};

/* Of kind SERVER: it answers another program. */
struct weir_otlp_span {
    const uint8_t *trace_id;  /* WEIR_TRACE_ID_SIZE */
    const uint8_t *span_id;   /* WEIR_SPAN_ID_SIZE */
    const uint8_t *parent_id; /* NULL: it is the first of its trace; else it is another program's */
    uint8_t flags;            /* of traceparent */
    bool failed;              /* its status is an error */
    const char *name;
    uint64_t start_wall_ns, end_wall_ns;
    const struct weir_otlp_attribute *attributes;
    size_t count;
};

/* A message being written. */
struct weir_otlp {
    uint8_t *data;
    size_t size, room;
    bool full;
    size_t resource_at, scope_at; /* where the two messages begin that spans lie in */
};

/* Begins one. False: the room is too small. */
bool weir_otlp_begin(struct weir_otlp *otlp, void *data, size_t room, const struct weir_otlp_attribute *resource,
                     size_t count, const char *scope, const char *version);
/* Adds a span, or nothing, where it does not fit any more. */
bool weir_otlp_add(struct weir_otlp *otlp, const struct weir_otlp_span *span);
/* The message is the first `size` bytes of the memory. Nothing can be added any more. */
size_t weir_otlp_end(struct weir_otlp *otlp);

/* How many spans of a message the receiver did not take, though it took the others. False: this is no answer. */
bool weir_otlp_answer_read(const void *data, size_t size, uint64_t *ret_rejected);
