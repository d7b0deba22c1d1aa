/* SPDX-License-Identifier: Apache-2.0
 *
 * The hash is taken modulo the shares there are; 2^64 is so large that no share is favoured. Sizes stand before what
 * they are of, so that no two keys have the same bytes. Called by rollout_decode.c and request.c,
 * and by who tells or changes a rollout (changes.c, rollout_text.c, serve/http_rules.c, cli/explain.c). */
#include "rules/rollout.h"

#include <endian.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/siphash.h"
#include "rules/number.h"

/* Beside what else is hashed with the secret. */
static const char purpose[] = "weir rollout";

int weir_rollout_parse(const char *text, size_t size, uint32_t *ret_share)
{
    const char *point = memchr(text, '.', size);
    const size_t whole_size = point ? (size_t)(point - text) : size;
    uint64_t whole = 0, tenths = 0;
    if (point && whole_size + 2 != size)
        return WEIR_EINVAL;
    int error = weir_number_parse(text, whole_size, &whole);
    if (!error && point)
        error = weir_number_parse(point + 1, 1, &tenths);
    if (error)
        return error;
    if (whole > 100 || whole * 10 + tenths < 1 || whole * 10 + tenths > WEIR_ROLLOUT_ALL)
        return WEIR_ERANGE;
    *ret_share = (uint32_t)(whole * 10 + tenths);
    return 0;
}

void weir_rollout_format(uint32_t share, char *buffer, size_t size)
{
    (void)snprintf(buffer, size, share % 10 ? "%" PRIu32 ".%" PRIu32 : "%" PRIu32, share / 10, share % 10);
}

static void add_slice(struct weir_siphash_state *hash, const void *data, size_t size)
{
    const uint64_t length = htole64(size); /* the same on every machine */
    weir_siphash_add(hash, &length, sizeof(length));
    weir_siphash_add(hash, data, size);
}

bool weir_rollout_has(const uint8_t secret[16], const char *limit, const struct weir_slice *values, size_t count,
                      uint32_t share)
{
    const struct weir_sip_key key = weir_sip_key_load(secret);
    const uint64_t absent = UINT64_MAX;
    struct weir_siphash_state hash;
    weir_assert(share >= 1 && share <= WEIR_ROLLOUT_ALL);
    weir_siphash_start(&hash, &key);
    weir_siphash_add(&hash, purpose, sizeof(purpose));
    add_slice(&hash, limit, strlen(limit));
    for (size_t i = 0; i < count; i++) {
        if (values[i].size == WEIR_VALUE_ABSENT)
            weir_siphash_add(&hash, &absent, sizeof(absent));
        else
            add_slice(&hash, values[i].data, values[i].size);
    }
    return weir_siphash_end(&hash) % WEIR_ROLLOUT_ALL < share;
}
