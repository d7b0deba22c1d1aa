/* SPDX-License-Identifier: Apache-2.0
 *
 * Text from outside (names, owners, what a server says) may be any bytes, and a terminal obeys some of them. All of it
 * that `weir` prints for people goes through here; JSON escapes by itself. */
#pragma once

#include <jansson.h>
#include <stdio.h>

#include "weir/limiter.h"

#define WEIR_PLAIN_SIZE(size) (4 * (size) + 1) /* room for text of that many bytes at its longest, and a NUL */

/* UTF-8 stays as it is, but for control characters and what is not seen or turns the direction of writing. Of those and
 * of what is no UTF-8 each byte becomes \xNN. */
void weir_plain_print(FILE *out, struct weir_slice text);
/* A line, made of names that somebody else may have chosen (files, say); its end is added. */
__attribute__((format(printf, 2, 3))) void weir_plain_line(FILE *out, const char *format, ...);

/* The same into memory, of text that ends at a NUL; cut to fit. Returns `buffer`. */
const char *weir_plain(const char *text, char *buffer, size_t size);
/* Of a JSON string, which may have NULs in it. */
const char *weir_plain_json_string(const json_t *string, char *buffer, size_t size);

/* Of a JSON value every string so, in place: before they are printed as text. False without memory. */
bool weir_plain_json(json_t *value);

/* Names as text of an SVG. */
void weir_plain_svg(const char *text, FILE *out);
