/* SPDX-License-Identifier: Apache-2.0
 *
 * What the bodies of requests have in common: JSON (RFC 8259) by jansson, and faults that name a member.
 * Thread rule: plain values. */
#pragma once

#include <jansson.h>
#include <stddef.h>

#include "weir/limiter.h"

/* NULL where it is none, with the fault: WEIR_EPROTO, WEIR_ERANGE (a number), WEIR_ENOMEM, in `ret_error`. Names that
 * stand twice are refused. Strings may hold NULs. */
json_t *weir_json_parse(const void *data, size_t size, int *ret_error, struct weir_fault *ret_fault);

/* A new string. Bytes that are not UTF-8 become U+FFFD: a text for people that was cut within a character is told all
 * the same. NULL: out of memory. */
json_t *weir_json_text(const char *text);

/* Sets the fault (NULL is allowed) and returns `error`. An empty name is shown as "". */
__attribute__((format(printf, 4, 5))) int weir_json_fail(struct weir_fault *fault, int error, const char *member,
                                                         const char *format, ...);

/* An integer of `min` to `max`; else WEIR_EPROTO or WEIR_ERANGE with the fault. */
int weir_json_integer(const json_t *value, const char *member, uint64_t min, uint64_t max, uint64_t *ret_number,
                      struct weir_fault *fault);
