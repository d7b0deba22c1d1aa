/* SPDX-License-Identifier: Apache-2.0
 *
 * Compares texts; no name is resolved. The port is what stands behind the last colon if it is all digits; where Host
 * has none, it is that of the Origin's scheme. Called by serve/http.c for every request but those for /v1/auth, which a
 * proxy sends. */
#include "wire/origin.h"

#include <arpa/inet.h>
#include <string.h>
#include <strings.h>

#define ADDRESS_MAX 45 /* of an IPv6 address with an IPv4 tail */

/* "host:port" in its two parts; an IPv6 address keeps its brackets. Without a port that is `port_default`. */
static void split(struct weir_slice authority, struct weir_slice port_default, struct weir_slice *ret_host,
                  struct weir_slice *ret_port)
{
    const char *begin = authority.data, *end = begin + authority.size, *colon = end;
    while (colon > begin && colon[-1] >= '0' && colon[-1] <= '9')
        colon--;
    bool ported = colon > begin && colon[-1] == ':';
    *ret_host = (struct weir_slice){ begin, ported ? (size_t)(colon - 1 - begin) : authority.size };
    *ret_port = ported && colon < end ? (struct weir_slice){ colon, (size_t)(end - colon) } : port_default;
}

static bool same(struct weir_slice a, struct weir_slice b)
{
    return a.size == b.size && (a.size == 0 || strncasecmp(a.data, b.data, a.size) == 0);
}

static bool starts_with(struct weir_slice slice, const char *literal)
{
    size_t size = strlen(literal);
    return slice.size >= size && weir_http_is((struct weir_slice){ slice.data, size }, literal);
}

/* Host has no scheme: its missing port is that of the Origin's. */
static bool origin_is_host(struct weir_slice origin, struct weir_slice host_field)
{
    bool secure = starts_with(origin, "https://");
    if (!secure && !starts_with(origin, "http://"))
        return false;
    size_t scheme = secure ? 8 : 7;
    const struct weir_slice usual = secure ? (struct weir_slice){ "443", 3 } : (struct weir_slice){ "80", 2 };
    const struct weir_slice authority = { (const char *)origin.data + scheme, origin.size - scheme };
    struct weir_slice host, port, our_host, our_port;
    split(authority, usual, &host, &port);
    split(host_field, usual, &our_host, &our_port);
    return host.size > 0 && same(host, our_host) && same(port, our_port);
}

bool weir_origin_foreign(const struct weir_http_request *request)
{
    const struct weir_http_header *host = weir_http_find(request, "host");
    for (size_t i = 0; i < request->header_count; i++) {
        const struct weir_http_header *header = &request->headers[i];
        if (weir_http_is(header->name, "origin") && !(host && origin_is_host(header->value, host->value)))
            return true;
        if (weir_http_is(header->name, "sec-fetch-site") &&
            (weir_http_is(header->value, "cross-site") || weir_http_is(header->value, "same-site")))
            return true;
    }
    return false;
}

static bool is_address(struct weir_slice host)
{
    char text[ADDRESS_MAX + 1];
    const char *at = host.data;
    bool bracketed = host.size >= 2 && at[0] == '[' && at[host.size - 1] == ']';
    size_t size = host.size - (bracketed ? 2 : 0);
    if (size == 0 || size > ADDRESS_MAX)
        return false;
    memcpy(text, at + bracketed, size);
    text[size] = '\0';
    return inet_pton(bracketed ? AF_INET6 : AF_INET, text, &(struct in6_addr){ 0 }) == 1;
}

bool weir_origin_host_ours(const struct weir_http_request *request, const char *const *names, size_t count)
{
    const struct weir_http_header *field = weir_http_find(request, "host");
    struct weir_slice host, port;
    if (!field)
        return true;
    split(field->value, (struct weir_slice){ 0 }, &host, &port);
    if (is_address(host) || weir_http_is(host, "localhost"))
        return true;
    for (size_t i = 0; i < count; i++) {
        if (same(host, (struct weir_slice){ names[i], strlen(names[i]) }))
            return true;
    }
    return false;
}
