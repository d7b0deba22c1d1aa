/* SPDX-License-Identifier: Apache-2.0
 *
 * Tokens as text: weir/fence.h. The number is counted by each engine (locks/), how far the incarnation rises is in
 * incarnation.c. */
#include "base/assert.h"
#include "weir/fence.h"

/* A canonical decimal, 1 to WEIR_TOKEN_PART_MAX; NULL if there is none, else where it ends. */
static const char *part_parse(const char *at, const char *end, uint64_t *ret_part)
{
    uint64_t part = 0;
    if (at == end || *at < '1' || *at > '9')
        return NULL;
    for (; at < end && *at >= '0' && *at <= '9'; at++) {
        uint64_t digit = (uint64_t)(*at - '0');
        if (part > (WEIR_TOKEN_PART_MAX - digit) / 10)
            return NULL;
        part = part * 10 + digit;
    }
    weir_assert(part > 0 && part <= WEIR_TOKEN_PART_MAX);
    *ret_part = part;
    return at;
}

int weir_token_parse(const void *text, size_t size, struct weir_token *ret_token)
{
    struct weir_token token;
    const char *at = text, *end = size > 0 ? at + size : at;
    at = part_parse(at, end, &token.incarnation);
    if (!at || at == end || *at != '.')
        return WEIR_EPROTO;
    at = part_parse(at + 1, end, &token.number);
    if (at != end)
        return WEIR_EPROTO;
    weir_assert(weir_token_valid(token));
    *ret_token = token;
    return 0;
}

static char *part_format(uint64_t part, char *at)
{
    char digits[20];
    size_t count = 0;
    do
        digits[count++] = (char)('0' + part % 10);
    while ((part /= 10) > 0);
    weir_assert(count <= sizeof digits);
    while (count > 0)
        *at++ = digits[--count];
    return at;
}

int weir_token_format(struct weir_token token, char ret_text[WEIR_TOKEN_TEXT_SIZE])
{
    if (!weir_token_valid(token))
        return WEIR_ERANGE;
    char *at = part_format(token.incarnation, ret_text);
    *at++ = '.';
    at = part_format(token.number, at);
    *at++ = '\0';
    weir_assert((size_t)(at - ret_text) <= WEIR_TOKEN_TEXT_SIZE);
    return 0;
}
