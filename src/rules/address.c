/* SPDX-License-Identifier: Apache-2.0
 *
 * Parses the addresses of config.h. Where weir listens, the host must be an IP address or localhost, so that it is
 * known whether other machines can connect; the host of a server to connect to may be any name. Names are not resolved
 * here. Called by decode.c and engine_decode.c for the configuration, and by cli/serve.c for its flags; sockets are
 * opened in serve/listen.c. */
#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#include "rules/config.h"
#include "rules/number.h"

#define LOOKS_LIKE                                                                                                     \
    "must be HOST:PORT with an IP address or localhost, such as 127.0.0.1:8080 or [::1]:8080, "                        \
    "unix:/path, or off"
#define SERVER_LOOKS_LIKE                                                                                              \
    "must be HOST:PORT, such as 127.0.0.1:6379, redis.example.org:6379 or [::1]:6379, or unix:/path"

static int fail(int error, struct weir_fault *fault, const char *text)
{
    if (fault) {
        (void)snprintf(fault->field, sizeof(fault->field), "address");
        (void)snprintf(fault->text, sizeof(fault->text), "%s", text);
    }
    return error;
}

static int unix_parse(const char *path, struct weir_address *ret_address, struct weir_fault *ret_fault)
{
    size_t size = strlen(path);
    if (size == 0)
        return fail(WEIR_EINVAL, ret_fault, "unix: must be followed by a path");
    if (size >= sizeof(ret_address->path)) /* what sockaddr_un holds; the kernel would not complain, but cut */
        return fail(WEIR_ERANGE, ret_fault, "the path of a Unix socket must be at most 107 bytes");
    *ret_address = (struct weir_address){ .kind = WEIR_ADDRESS_UNIX, .loopback = true };
    memcpy(ret_address->path, path, size + 1);
    return 0;
}

/* What getaddrinfo may be asked: letters, digits, hyphens, dots and underscores, beginning with none of the signs. */
static bool host_is_name(const char *host)
{
    static const char legal[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._";
    size_t size = strlen(host);
    return strspn(host, legal) == size && !strchr("-._", host[0]) && strspn(host, "0123456789.") < size;
}

static bool host_is_known(const char *host, bool *ret_loopback)
{
    struct in_addr four;
    struct in6_addr six;
    if (inet_pton(AF_INET, host, &four) == 1) {
        *ret_loopback = (ntohl(four.s_addr) >> 24) == 127;
        return true;
    }
    if (inet_pton(AF_INET6, host, &six) == 1) {
        *ret_loopback = IN6_IS_ADDR_LOOPBACK(&six) != 0;
        return true;
    }
    *ret_loopback = strcmp(host, "localhost") == 0;
    return *ret_loopback;
}

/* `names`: a host may be a name that somebody else resolves. */
static int tcp_parse(const char *text, bool names, struct weir_address *ret_address, struct weir_fault *ret_fault)
{
    const char *looks_like = names ? SERVER_LOOKS_LIKE : LOOKS_LIKE;
    struct weir_address address = { .kind = WEIR_ADDRESS_TCP };
    const char *colon = strrchr(text, ':');
    uint64_t port;
    if (!colon)
        return fail(WEIR_EINVAL, ret_fault, looks_like);
    size_t size = (size_t)(colon - text);
    bool bracketed = size >= 2 && text[0] == '[' && colon[-1] == ']';
    const char *host = bracketed ? text + 1 : text;
    size -= bracketed ? 2 : 0;
    if (size == 0 || size >= sizeof(address.host) || (!bracketed && memchr(host, ':', size)))
        return fail(WEIR_EINVAL, ret_fault, looks_like);
    memcpy(address.host, host, size);
    bool known = host_is_known(address.host, &address.loopback) || (names && host_is_name(address.host));
    if (!known || bracketed != (strchr(address.host, ':') != NULL))
        return fail(WEIR_EINVAL, ret_fault, looks_like);
    int error = weir_number_parse(colon + 1, strlen(colon + 1), &port);
    if (error == WEIR_EINVAL)
        return fail(error, ret_fault, looks_like);
    if (error || port > UINT16_MAX)
        return fail(WEIR_ERANGE, ret_fault, "the port must be 0 to 65535");
    address.port = (uint16_t)port;
    *ret_address = address;
    return 0;
}

int weir_address_parse(const char *text, struct weir_address *ret_address, struct weir_fault *ret_fault)
{
    if (strcmp(text, "off") == 0) {
        *ret_address = (struct weir_address){ .kind = WEIR_ADDRESS_OFF, .loopback = true };
        return 0;
    }
    if (strncmp(text, "unix:", 5) == 0)
        return unix_parse(text + 5, ret_address, ret_fault);
    return tcp_parse(text, false, ret_address, ret_fault);
}

int weir_address_parse_server(const char *text, struct weir_address *ret_address, struct weir_fault *ret_fault)
{
    struct weir_address address;
    if (strncmp(text, "unix:", 5) == 0)
        return unix_parse(text + 5, ret_address, ret_fault);
    int error = tcp_parse(text, true, &address, ret_fault);
    if (!error && address.port == 0)
        error = fail(WEIR_ERANGE, ret_fault, "the port must be 1 to 65535");
    if (!error)
        *ret_address = address;
    return error;
}
