/* SPDX-License-Identifier: Apache-2.0
 *
 * The header field `traceparent`: which trace a request belongs to, which span of it asks, and whether that trace is
 * recorded.
 *
 * What is not exactly a traceparent is none: digits in upper case, ids that are all zero, version ff, and version 00
 * with anything behind it. Of a later version the first four parts count, and the rest is ignored if a '-' parts it
 * off; of its flags only `sampled` is known.
 *
 * Thread rule: plain values. Source: W3C Trace Context, level 1, section 3.2. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "weir/limiter.h"

#define WEIR_TRACE_ID_SIZE 16
#define WEIR_SPAN_ID_SIZE 8
#define WEIR_TRACE_SAMPLED 1

struct weir_traceparent {
    uint8_t trace_id[WEIR_TRACE_ID_SIZE];
    uint8_t parent_id[WEIR_SPAN_ID_SIZE]; /* the caller's span */
    uint8_t flags;                        /* WEIR_TRACE_SAMPLED; of version 00 the others too */
};

/* A field's value, without space around it. False: it is none, and *ret_parent is as it was. */
bool weir_traceparent_read(struct weir_slice value, struct weir_traceparent *ret_parent);
