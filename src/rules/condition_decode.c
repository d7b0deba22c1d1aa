/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads `match:` and the conditions of overrides, declared in limit_decode.h. Equal conditions get equal bytes here:
 * addresses are written in canonical form, several stars in a row become one, and lists are sorted and have each value
 * once. A list or a `not` also gets a text that no other condition has. Called by limit_decode.c and
 * override_decode.c. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rules/limit_decode.h"
#include "rules/literal.h"
#include "rules/pattern.h"

int weir_attribute_decode(struct weir_decode *decode, const struct weir_yaml_node *node, const char **ret_attribute)
{
    struct weir_field field = { .name = "an attribute's name", .max = WEIR_ATTRIBUTE_NAME_MAX };
    return weir_decode_text(decode, node, &field, ret_attribute);
}

/* An address is written as matching sees it: in its canonical form. */
static int pattern_make(struct weir_decode *decode, struct weir_slice text, struct weir_slice *ret_pattern)
{
    struct weir_literal literal;
    if (weir_literal_parse(text, &literal))
        text = (struct weir_slice){ literal.text, strlen(literal.text) };
    char *copy = weir_arena_copy(decode->arena, text.data, text.size);
    if (!copy)
        return weir_decode_nomem(decode);
    size_t size = weir_pattern_fold(copy, text.size);
    copy[size] = '\0';
    *ret_pattern = (struct weir_slice){ copy, size };
    return 0;
}

static int block_make(struct weir_decode *decode, const struct weir_yaml_node *value,
                      struct weir_condition_value *ret_term, bool *ret_is_block)
{
    const char *text = value->text.data;
    char canonical[WEIR_BLOCK_TEXT_MAX];
    enum weir_block_text kind = weir_block_parse(value->text, &ret_term->block);
    *ret_is_block = kind == WEIR_BLOCK_GOOD;
    switch (kind) {
    case WEIR_BLOCK_NONE:
        return 0;
    case WEIR_BLOCK_SHORT:
        return weir_decode_warn(decode, value->mark,
                                "\"%.64s\" is compared as text: a block of addresses is written whole, as 10.0.0.0/8",
                                text);
    case WEIR_BLOCK_TOO_LONG:
        return weir_config_fail(decode->fault, WEIR_ERANGE, value->mark,
                                "\"%.64s\" has too long a prefix: must be 0 to 32 bits for IPv4, 0 to 128 for IPv6",
                                text);
    case WEIR_BLOCK_LOOSE:
        weir_block_format(&ret_term->block, canonical);
        return weir_config_fail(decode->fault, WEIR_EINVAL, value->mark,
                                "\"%.64s\" has bits behind its prefix: write %s, or the address alone", text,
                                canonical);
    case WEIR_BLOCK_GOOD:
        break;
    }
    weir_block_format(&ret_term->block, canonical);
    ret_term->is_block = true;
    return pattern_make(decode, (struct weir_slice){ canonical, strlen(canonical) }, &ret_term->text);
}

static int term_decode(struct weir_decode *decode, const struct weir_yaml_node *value, const char *attribute,
                       struct weir_condition_value *ret_term)
{
    struct weir_condition_value term = { .is_block = false };
    bool is_block = false;
    int error = weir_decode_kind(decode, value, WEIR_YAML_SCALAR, "the value of an attribute");
    if (error)
        return error;
    if (value->plain && value->text.size == 0)
        return weir_config_fail(decode->fault, WEIR_EPROTO, value->mark,
                                "\"%s\" has no value: write \"\" for the empty one, \"*\" for any", attribute);
    if (value->text.size > WEIR_PATTERN_MAX)
        return weir_config_fail(decode->fault, WEIR_ERANGE, value->mark, "a pattern must be 0 to %d bytes long",
                                WEIR_PATTERN_MAX);
    error = block_make(decode, value, &term, &is_block);
    if (!error && !is_block)
        error = pattern_make(decode, value->text, &term.text);
    if (!error)
        *ret_term = term;
    return error;
}

/* ---- several values ---- */

static int by_text(const void *a, const void *b)
{
    const struct weir_condition_value *left = a;
    const struct weir_condition_value *right = b;
    int order = (int)left->is_block - (int)right->is_block;
    return order ? order : weir_slice_compare(left->text, right->text);
}

/* In an order of their own and each once, so that equal sets are one. */
static void terms_sort(struct weir_condition_values *terms)
{
    size_t kept = 0;
    qsort(terms->list, terms->count, sizeof(terms->list[0]), by_text);
    for (size_t i = 0; i < terms->count; i++)
        if (kept == 0 || by_text(&terms->list[kept - 1], &terms->list[i]) != 0)
            terms->list[kept++] = terms->list[i];
    terms->count = kept;
}

static bool is_plain(struct weir_slice text)
{
    const char *bytes = text.data;
    for (size_t i = 0; i < text.size; i++)
        if ((unsigned char)bytes[i] <= ' ' || bytes[i] == 0x7f || strchr("\"\\,[]", bytes[i]))
            return false;
    return text.size > 0;
}

/* "[GET, HEAD]", "not 10.0.0.0/8": no two sets have one text. */
static int terms_format(struct weir_decode *decode, const struct weir_condition_values *terms,
                        struct weir_slice *ret_text)
{
    size_t room = sizeof("not []");
    for (size_t i = 0; i < terms->count; i++)
        room += 2 * terms->list[i].text.size + sizeof("\"\", ");
    char *text = weir_arena_alloc(decode->arena, room, 1);
    if (!text)
        return weir_decode_nomem(decode);
    char *at = text + sprintf(text, "%s%s", terms->negated ? "not " : "", terms->count > 1 ? "[" : "");
    for (size_t i = 0; i < terms->count; i++) {
        struct weir_slice own = terms->list[i].text;
        const char *bytes = own.data;
        bool plain = is_plain(own);
        at += sprintf(at, "%s%s", i ? ", " : "", plain ? "" : "\"");
        for (size_t j = 0; j < own.size; j++) {
            if (bytes[j] == '"' || bytes[j] == '\\')
                *at++ = '\\';
            *at++ = bytes[j];
        }
        at += sprintf(at, "%s", plain ? "" : "\"");
    }
    at += sprintf(at, "%s", terms->count > 1 ? "]" : "");
    *ret_text = (struct weir_slice){ text, (size_t)(at - text) };
    return 0;
}

static int terms_decode(struct weir_decode *decode, const struct weir_yaml_node *value, const char *attribute,
                        struct weir_condition_values *terms)
{
    const struct weir_yaml_node *item = value;
    if (value->kind != WEIR_YAML_LIST) {
        terms->count = 1;
        return term_decode(decode, value, attribute, &terms->list[0]);
    }
    int error = 0;
    for (item = value->first; item && !error; item = item->next)
        error = term_decode(decode, item, attribute, &terms->list[terms->count++]);
    return error;
}

/* A value, or a list of them. */
static int values_decode(struct weir_decode *decode, const struct weir_yaml_node *value, bool negated,
                         struct weir_condition *condition)
{
    size_t count = value->kind == WEIR_YAML_LIST ? value->count : 1;
    if (count == 0)
        return weir_config_fail(decode->fault, WEIR_EINVAL, value->mark, "\"%s\" has an empty list of values",
                                condition->attribute);
    if (count > WEIR_TERMS_MAX)
        return weir_config_fail(decode->fault, WEIR_ELIMIT, value->mark, "\"%s\" must have at most %d values",
                                condition->attribute, WEIR_TERMS_MAX);
    struct weir_condition_values *terms = weir_arena_alloc(decode->arena, 1,
                                                           sizeof(*terms) + count * sizeof(terms->list[0]));
    if (!terms)
        return weir_decode_nomem(decode);
    terms->negated = negated;
    int error = terms_decode(decode, value, condition->attribute, terms);
    if (error)
        return error;
    terms_sort(terms);
    condition->pattern = terms->list[0].text;
    if (terms->count == 1 && !negated && !terms->list[0].is_block)
        return 0;
    condition->terms = terms;
    return terms_format(decode, terms, &condition->pattern);
}

int weir_condition_decode(struct weir_decode *decode, const struct weir_yaml_node *key,
                          struct weir_condition *ret_condition)
{
    struct weir_condition condition = { .mark = key->mark };
    int error = weir_attribute_decode(decode, key, &condition.attribute);
    if (!error)
        error = values_decode(decode, key->value, false, &condition);
    if (!error)
        *ret_condition = condition;
    return error;
}

/* `{ not: … }`, or `{ is: …, not: … }`. */
static int exclusion_decode(struct weir_decode *decode, const struct weir_yaml_node *key, const char *attribute,
                            struct weir_condition *conditions, size_t *count)
{
    const struct weir_yaml_node *map = key->value;
    bool excludes = false;
    int error = 0;
    for (const struct weir_yaml_node *part = map->first; part && !error; part = part->next) {
        bool negated = strcmp(part->text.data, "not") == 0;
        if (!negated && strcmp(part->text.data, "is") != 0)
            return weir_config_fail(decode->fault, WEIR_EPROTO, part->mark,
                                    "unknown key \"%.40s\" in the condition on \"%s\": must be one of not is",
                                    (const char *)part->text.data, attribute);
        excludes = excludes || negated;
        conditions[*count] = (struct weir_condition){ .mark = key->mark, .attribute = attribute };
        error = values_decode(decode, part->value, negated, &conditions[*count]);
        ++*count;
    }
    if (!error && !excludes)
        error = weir_config_fail(decode->fault, WEIR_EPROTO, map->mark, "the condition on \"%s\" lacks the key \"not\"",
                                 attribute);
    return error;
}

static int by_attribute(const void *a, const void *b)
{
    const struct weir_condition *left = a;
    const struct weir_condition *right = b;
    int order = strcmp(left->attribute, right->attribute);
    return order ? order : weir_slice_compare(left->pattern, right->pattern);
}

int weir_match_decode(struct weir_decode *decode, const struct weir_yaml_node *value, const struct weir_field *field,
                      void *target)
{
    struct weir_config_limit *limit = target;
    const char *attribute = NULL;
    int error = weir_decode_kind_shown(decode, value, WEIR_YAML_MAP, field->name, "{ route: /x }");
    if (error)
        return error;
    size_t count = 0;
    for (const struct weir_yaml_node *key = value->first; key; key = key->next)
        count += key->value->kind == WEIR_YAML_MAP ? key->value->count : 1;
    if (count > WEIR_MATCH_MAX)
        return weir_config_fail(decode->fault, WEIR_ELIMIT, value->mark, "match must have at most %d conditions",
                                WEIR_MATCH_MAX);
    int first = 0;
    for (const struct weir_yaml_node *key = value->first; key; key = key->next) {
        bool excludes = key->value->kind == WEIR_YAML_MAP;
        error = excludes ? weir_attribute_decode(decode, key, &attribute)
                         : weir_condition_decode(decode, key, &limit->match[limit->match_count++]);
        if (excludes && !error)
            error = exclusion_decode(decode, key, attribute, limit->match, &limit->match_count);
        if (!weir_decode_goes_on(decode, error, &first))
            return first;
    }
    if (!first)
        qsort(limit->match, limit->match_count, sizeof(limit->match[0]), by_attribute);
    return first;
}
