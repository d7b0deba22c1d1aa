/* SPDX-License-Identifier: Apache-2.0
 *
 * IP addresses written as text. One address has many spellings (2001:DB8::1, 2001:db8:0::1), and ::ffff:192.0.2.1 is
 * 192.0.2.1: without one canonical form each spelling would have its own counter. Thread rule: pure functions.
 * Source: RFC 5952 for the form, RFC 4291 section 2.5.5.2 for mapped addresses. */
#pragma once

#include "weir/limiter.h"

#define WEIR_LITERAL_TEXT_MAX 46 /* INET6_ADDRSTRLEN */

struct weir_literal {
    bool six;          /* an IPv6 address that is not a mapped one */
    uint8_t bytes[16]; /* of that */
    char text[WEIR_LITERAL_TEXT_MAX];
};

/* True when `value` is an IPv6 literal (mapped or not): ret_literal has its canonical text. Anything else, an IPv4
 * address included, is its own canonical form: false, ret_literal untouched. */
bool weir_literal_parse(struct weir_slice value, struct weir_literal *ret_literal);

/* The canonical text of the address with only the first `prefix` bits kept; returns its length. */
size_t weir_literal_cut(const struct weir_literal *literal, unsigned prefix, char buffer[WEIR_LITERAL_TEXT_MAX]);

/* A value in the form in which it is counted: an IPv6 address canonical, and cut to `prefix` bits; anything else as it
 * is. */
struct weir_slice weir_literal_canonical(struct weir_slice value, unsigned prefix, char text[WEIR_LITERAL_TEXT_MAX]);
