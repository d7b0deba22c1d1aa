/* SPDX-License-Identifier: Apache-2.0
 *
 * The canonical form is what inet_ntop() writes of what inet_pton() reads. condition_decode.c brings the configuration
 * to it and request.c each value of a request, so that both compare the same text; match.c cuts the addresses in keys.
 * Blocks of addresses are in block.c. */
#include "rules/literal.h"

#include <arpa/inet.h>
#include <string.h>

#include "base/assert.h"

bool weir_literal_parse(struct weir_slice value, struct weir_literal *ret_literal)
{
    char text[WEIR_LITERAL_TEXT_MAX];
    struct in6_addr address;
    if (value.size < 2 || value.size >= sizeof(text) || !memchr(value.data, ':', value.size) ||
        memchr(value.data, '\0', value.size))
        return false;
    memcpy(text, value.data, value.size);
    text[value.size] = '\0';
    if (inet_pton(AF_INET6, text, &address) != 1)
        return false;
    bool mapped = IN6_IS_ADDR_V4MAPPED(&address);
    ret_literal->six = !mapped;
    memcpy(ret_literal->bytes, &address, sizeof(ret_literal->bytes));
    const char *written = inet_ntop(mapped ? AF_INET : AF_INET6, mapped ? &address.s6_addr[12] : address.s6_addr,
                                    ret_literal->text, sizeof(ret_literal->text));
    weir_assert(written);
    return true;
}

size_t weir_literal_cut(const struct weir_literal *literal, unsigned prefix, char buffer[WEIR_LITERAL_TEXT_MAX])
{
    weir_assert(literal->six && prefix >= 1 && prefix <= 128);
    uint8_t bytes[16] = { 0 };
    memcpy(bytes, literal->bytes, prefix / 8);
    if (prefix % 8)
        bytes[prefix / 8] = literal->bytes[prefix / 8] & (uint8_t)(0xff00U >> prefix % 8);
    const char *written = inet_ntop(AF_INET6, bytes, buffer, WEIR_LITERAL_TEXT_MAX);
    weir_assert(written);
    return strlen(buffer);
}

struct weir_slice weir_literal_canonical(struct weir_slice value, unsigned prefix, char text[WEIR_LITERAL_TEXT_MAX])
{
    struct weir_literal literal;
    if (!weir_literal_parse(value, &literal))
        return value;
    if (literal.six && prefix < 128)
        return (struct weir_slice){ text, weir_literal_cut(&literal, prefix, text) };
    size_t size = strlen(literal.text);
    memcpy(text, literal.text, size);
    return (struct weir_slice){ text, size };
}
