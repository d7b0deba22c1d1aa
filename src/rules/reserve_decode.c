/* SPDX-License-Identifier: Apache-2.0
 *
 * Readers of reserve_max, on_expiry and estimate, and which limits may have these keys: those whose cost is the
 * attribute `amount`. Called by limit_decode.c. */
#include "rules/reserve_decode.h"

#include <string.h>

#include "base/nearest.h"
#include "rules/limit_decode.h"

static const char *const expiry_words[] = { "release", "keep", NULL };

static const char *text_of(const struct weir_yaml_node *value)
{
    return value->text.data;
}

/* "0.25" in thousandths; false: it is no such number, or has a fourth decimal. */
static bool thousandths_parse(const char *text, uint32_t *ret_share)
{
    uint32_t share = 0, digits = 0, unit = 100;
    for (; *text >= '0' && *text <= '9' && digits < 2; text++, digits++)
        share = 10 * share + (uint32_t)(*text - '0');
    if (digits == 0)
        return false;
    share *= WEIR_RESERVE_SHARE_WHOLE;
    if (*text == '.' && text[1] == '\0')
        return false;
    if (*text == '.')
        for (text++; *text >= '0' && *text <= '9' && unit > 0; text++, unit /= 10)
            share += unit * (uint32_t)(*text - '0');
    *ret_share = share;
    return *text == '\0';
}

int weir_reserve_share_decode(struct weir_decode *decode, const struct weir_yaml_node *value,
                              const struct weir_field *field, void *target)
{
    uint32_t share;
    int error = weir_decode_kind(decode, value, WEIR_YAML_SCALAR, field->name);
    if (error)
        return error;
    if (strlen(text_of(value)) != value->text.size || !thousandths_parse(text_of(value), &share) || share == 0 ||
        share > WEIR_RESERVE_SHARE_WHOLE)
        return weir_config_fail(decode->fault, WEIR_ERANGE, value->mark,
                                "%s \"%.40s\" must be 0.001 to 1 (of the capacity), with three decimals at most",
                                field->name, text_of(value));
    memcpy(target, &share, sizeof(share));
    return 0;
}

int weir_reserve_expiry_decode(struct weir_decode *decode, const struct weir_yaml_node *value,
                               const struct weir_field *field, void *target)
{
    const struct weir_field word = { .name = field->name, .names = expiry_words };
    struct weir_nearest nearest = { .text = text_of(value), .size = value->text.size };
    int error = weir_decode_word(decode, value, &word, target);
    for (const char *const *known = expiry_words; *known; known++)
        weir_nearest_offer(&nearest, *known);
    if (error != WEIR_EINVAL || !nearest.word)
        return error;
    return weir_config_fail(decode->fault, error, value->mark,
                            "%s \"%.40s\": did you mean \"%s\"? It must be one of release, keep", field->name,
                            text_of(value), nearest.word);
}

int weir_reserve_estimate_decode(struct weir_decode *decode, const struct weir_yaml_node *value,
                                 const struct weir_field *field, void *target)
{
    int error = weir_decode_kind(decode, value, WEIR_YAML_SCALAR, field->name);
    if (error)
        return error;
    const char *text = text_of(value);
    const uint32_t percent = value->text.size == 3 && text[0] == 'p' && text[1] >= '5' && text[1] <= '9' &&
                                     text[2] >= '0' && text[2] <= '9'
                                 ? (uint32_t)(10 * (text[1] - '0') + text[2] - '0')
                                 : 0;
    if (percent == 0)
        return weir_config_fail(decode->fault, WEIR_ERANGE, value->mark,
                                "%s \"%.40s\" must be p50 to p99: the quantile of what was settled lately", field->name,
                                text);
    memcpy(target, &percent, sizeof(percent));
    return 0;
}

bool weir_reserve_is_of(const struct weir_config_limit *limit)
{
    return limit->cost_attribute && strcmp(limit->cost_attribute, WEIR_RESERVE_ATTRIBUTE) == 0 &&
           limit->spec.algorithm != WEIR_CONCURRENCY;
}

int weir_reserve_check(struct weir_decode *decode, const struct weir_yaml_node *node,
                       const struct weir_config_limit *limit)
{
    static const char needs_amount[] = "limits with cost: amount, and not algorithm: concurrency";
    const bool of_amount = weir_reserve_is_of(limit);
    const struct weir_key_need needs[] = {
        { "reserve_max", of_amount, needs_amount },
        { "reserve_ttl_max", of_amount, needs_amount },
        { "on_expiry", of_amount, needs_amount },
        { "estimate", of_amount, needs_amount },
        { "estimate_first", limit->reserve.estimate > 0, "limits with estimate" },
    };
    int error = weir_keys_need(decode, node, needs, WEIR_COUNT_OF(needs));
    if (!error && limit->reserve.estimate > 0 && limit->reserve.estimate_first == 0)
        error = weir_config_fail(decode->fault, WEIR_EPROTO, weir_yaml_find(node, "estimate")->value->mark,
                                 "estimate needs estimate_first: the units that amount: auto reserves while little is "
                                 "known");
    return error;
}
