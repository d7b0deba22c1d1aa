/* SPDX-License-Identifier: Apache-2.0
 *
 * Goes through the keys of a mapping and calls the reader of each key's field with the place in the struct that it
 * sets. A fault is written to the current place in a list, and weir_decode_goes_on moves on to the next place, so that
 * several faults of one file are reported. Sizes and durations are parsed in units.c, addresses in address.c. Called by
 * config.c and by the files whose names end in "_decode". */
#include "rules/decode.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/nearest.h"
#include "rules/number.h"

_Static_assert(sizeof(enum weir_algorithm) == sizeof(unsigned), "weir_decode_word writes enums as unsigned");

static const char *text_of(const struct weir_yaml_node *node)
{
    return node->text.data;
}

int weir_decode_nomem(struct weir_decode *decode)
{
    return weir_config_fail(decode->fault, WEIR_ENOMEM, (struct weir_mark){ 0, 0 }, "out of memory");
}

/* What stands there: after `auth:` and a line break, nothing. */
static const char *kind_met(const struct weir_yaml_node *node)
{
    bool nothing = node->kind == WEIR_YAML_SCALAR && node->plain && node->text.size == 0;
    return nothing ? "nothing" : weir_yaml_kind_name(node->kind);
}

static int kind_fail(struct weir_decode *decode, const struct weir_yaml_node *node, const char *what, const char *form)
{
    return weir_config_fail(decode->fault, WEIR_EPROTO, node->mark, "%s must be %s, not %s", what, form,
                            kind_met(node));
}

int weir_decode_kind(struct weir_decode *decode, const struct weir_yaml_node *node, enum weir_yaml_kind kind,
                     const char *what)
{
    if (node->kind == kind)
        return 0;
    if (kind == WEIR_YAML_LIST)
        return weir_decode_kind_shown(decode, node, kind, what, "[ ... ]");
    return kind_fail(decode, node, what, weir_yaml_kind_name(kind));
}

int weir_decode_kind_shown(struct weir_decode *decode, const struct weir_yaml_node *node, enum weir_yaml_kind kind,
                           const char *what, const char *shown)
{
    if (node->kind == kind)
        return 0;
    return weir_config_fail(decode->fault, WEIR_EPROTO, node->mark, "%s must be %s, not %s: write %s", what,
                            weir_yaml_kind_name(kind), kind_met(node), shown);
}

int weir_decode_list(struct weir_decode *decode, const struct weir_yaml_node *list, const char *what, size_t min,
                     size_t max, size_t size, void *ret_items)
{
    int error = weir_decode_kind(decode, list, WEIR_YAML_LIST, what);
    if (error)
        return error;
    if (list->count > max && min == 0)
        return weir_config_fail(decode->fault, WEIR_ELIMIT, list->mark, "%s must be at most %zu", what, max);
    if (list->count < min || list->count > max)
        return weir_config_fail(decode->fault, WEIR_ELIMIT, list->mark, "%s must be %zu to %zu", what, min, max);
    void *items = weir_arena_alloc(decode->arena, list->count, size);
    if (list->count && !items)
        return weir_decode_nomem(decode);
    memcpy(ret_items, &items, sizeof(items));
    return 0;
}

/* "name match key rate", cut to fit. */
static void names_join(const struct weir_field *fields, size_t count, char *buffer, size_t size)
{
    size_t used = 0;
    buffer[0] = '\0';
    for (size_t i = 0; i < count && used < size; i++)
        used += (size_t)snprintf(buffer + used, size - used, "%s%s", i ? " " : "", fields[i].name);
}

static int unknown_fail(struct weir_decode *decode, const struct weir_yaml_node *key, const char *what,
                        const struct weir_field *fields, size_t count)
{
    struct weir_nearest nearest = { .text = text_of(key), .size = key->text.size };
    char names[320];
    names_join(fields, count, names, sizeof(names));
    for (size_t i = 0; i < count; i++)
        weir_nearest_offer(&nearest, fields[i].name);
    if (*text_of(key) >= '0' && *text_of(key) <= '9') /* what is left of { rate: 1,000/day } */
        return weir_config_fail(decode->fault, WEIR_EPROTO, key->mark,
                                "unknown key \"%.40s\" in %s: a number has no commas, 1,000 is written 1000",
                                text_of(key), what);
    if (nearest.word)
        return weir_config_fail(decode->fault, WEIR_EPROTO, key->mark,
                                "unknown key \"%.40s\" in %s; did you mean \"%s\"? It must be one of %s", text_of(key),
                                what, nearest.word, names);
    return weir_config_fail(decode->fault, WEIR_EPROTO, key->mark, "unknown key \"%.40s\" in %s: must be one of %s",
                            text_of(key), what, names);
}

static const struct weir_field *field_find(const struct weir_yaml_node *key, const struct weir_field *fields,
                                           size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (strlen(fields[i].name) == key->text.size && memcmp(fields[i].name, key->text.data, key->text.size) == 0)
            return &fields[i];
    return NULL;
}

/* A list or a mapping around parts that were told has none of its own to tell. */
bool weir_decode_goes_on(struct weir_decode *decode, int error, int *first)
{
    if (!error)
        return true;
    if (!*first)
        *first = error;
    bool told = decode->fault->text[0] != '\0';
    if (error == WEIR_ENOMEM || (told && decode->fault == decode->fault_last))
        return false;
    if (told)
        (++decode->fault)->text[0] = '\0';
    return true;
}

/* A mapping shows how it is written: with what it must have, or its first key; and which keys there are. */
static int map_check(struct weir_decode *decode, const struct weir_yaml_node *map, const char *what,
                     const struct weir_field *fields, size_t count)
{
    if (map->kind == WEIR_YAML_MAP)
        return 0;
    char names[320], shown[100] = "";
    size_t used = 0;
    names_join(fields, count, names, sizeof(names));
    for (size_t i = 0; i < count && used < sizeof(shown); i++)
        if (fields[i].required)
            used += (size_t)snprintf(shown + used, sizeof(shown) - used, "%s%s: ...", used ? ", " : "", fields[i].name);
    if (used == 0)
        (void)snprintf(shown, sizeof(shown), "%s: ...", fields[0].name);
    return weir_config_fail(decode->fault, WEIR_EPROTO, map->mark,
                            "%s must be a mapping, not %s: write { %s }; its keys are %s", what, kind_met(map), shown,
                            names);
}

int weir_decode_map(struct weir_decode *decode, const struct weir_yaml_node *map, const char *what,
                    const struct weir_field *fields, size_t count, void *target)
{
    int first = map_check(decode, map, what, fields, count);
    if (first)
        return first;
    for (const struct weir_yaml_node *key = map->first; key; key = key->next) {
        const struct weir_field *field = field_find(key, fields, count);
        int error = field ? field->read(decode, key->value, field, (char *)target + field->offset)
                          : unknown_fail(decode, key, what, fields, count);
        if (!weir_decode_goes_on(decode, error, &first))
            return first;
    }
    for (size_t i = 0; i < count; i++) {
        if (!fields[i].required || weir_yaml_find(map, fields[i].name))
            continue;
        int error = weir_config_fail(decode->fault, WEIR_EPROTO, map->mark, "%s lacks the key \"%s\"", what,
                                     fields[i].name);
        if (!weir_decode_goes_on(decode, error, &first))
            break;
    }
    return first;
}

/* `form`: what it must be instead of a list or a mapping. */
static int scalar_check(struct weir_decode *decode, const struct weir_yaml_node *value, const struct weir_field *field,
                        const char *form)
{
    if (value->kind != WEIR_YAML_SCALAR)
        return kind_fail(decode, value, field->name, form);
    if (memchr(value->text.data, '\0', value->text.size))
        return weir_config_fail(decode->fault, WEIR_EPROTO, value->mark, "%s must not contain a NUL", field->name);
    return 0;
}

int weir_decode_text(struct weir_decode *decode, const struct weir_yaml_node *value, const struct weir_field *field,
                     void *target)
{
    int error = scalar_check(decode, value, field, "text");
    if (error)
        return error;
    if (value->text.size == 0 || value->text.size > field->max)
        return weir_config_fail(decode->fault, WEIR_ERANGE, value->mark, "%s must be 1 to %" PRIu64 " bytes long",
                                field->name, field->max);
    const char *copy = weir_arena_copy(decode->arena, value->text.data, value->text.size);
    if (!copy)
        return weir_decode_nomem(decode);
    memcpy(target, &copy, sizeof(copy));
    return 0;
}

int weir_decode_word(struct weir_decode *decode, const struct weir_yaml_node *value, const struct weir_field *field,
                     void *target)
{
    char form[200];
    size_t used = (size_t)snprintf(form, sizeof(form), "one of ");
    for (unsigned i = 0; field->names[i] && used < sizeof(form); i++)
        used += (size_t)snprintf(form + used, sizeof(form) - used, "%s%s", i ? ", " : "", field->names[i]);
    int error = scalar_check(decode, value, field, form);
    for (unsigned i = 0; field->names[i] && !error; i++)
        if (strcmp(field->names[i], text_of(value)) == 0) {
            memcpy(target, &i, sizeof(i));
            return 0;
        }
    return error ? error
                 : weir_config_fail(decode->fault, WEIR_EINVAL, value->mark, "%s \"%.40s\" must be %s", field->name,
                                    text_of(value), form);
}

int weir_decode_switch(struct weir_decode *decode, const struct weir_yaml_node *value, const struct weir_field *field,
                       void *target)
{
    static const char *const words[] = { "off", "on", "false", "true", NULL };
    struct weir_field word = { .name = field->name, .names = words };
    unsigned index;
    int error = weir_decode_word(decode, value, &word, &index);
    if (error)
        return error;
    bool on = index % 2 == 1;
    memcpy(target, &on, sizeof(on));
    return 0;
}

static int number_read(struct weir_decode *decode, const struct weir_yaml_node *value, const struct weir_field *field,
                       uint64_t *ret_number)
{
    uint64_t number = 0;
    char form[80];
    (void)snprintf(form, sizeof(form), "a whole number, %" PRIu64 " to %" PRIu64, field->min, field->max);
    int error = scalar_check(decode, value, field, form);
    if (error)
        return error;
    error = weir_number_parse(value->text.data, value->text.size, &number);
    if (error == WEIR_EINVAL)
        return weir_config_fail(decode->fault, error, value->mark, "%s \"%.40s\" must be %s", field->name,
                                text_of(value), form);
    if (error || number < field->min || number > field->max)
        return weir_config_fail(decode->fault, WEIR_ERANGE, value->mark,
                                "%s %.40s is out of range: must be %" PRIu64 " to %" PRIu64, field->name,
                                text_of(value), field->min, field->max);
    *ret_number = number;
    return 0;
}

int weir_decode_u64(struct weir_decode *decode, const struct weir_yaml_node *value, const struct weir_field *field,
                    void *target)
{
    uint64_t number = 0;
    int error = number_read(decode, value, field, &number);
    if (!error)
        memcpy(target, &number, sizeof(number));
    return error;
}

int weir_decode_u32(struct weir_decode *decode, const struct weir_yaml_node *value, const struct weir_field *field,
                    void *target)
{
    uint64_t number = 0;
    int error = number_read(decode, value, field, &number);
    uint32_t small = error ? 0 : (uint32_t)number; /* field->max is at most UINT32_MAX */
    if (!error)
        memcpy(target, &small, sizeof(small));
    return error;
}

/* What the parsers of units.c say, with the field's own name and place. */
static int fault_pass(struct weir_decode *decode, int error, const struct weir_yaml_node *value,
                      const struct weir_field *field, const struct weir_fault *fault)
{
    return weir_config_fail(decode->fault, error, value->mark, "%s %s", field->name, fault->text);
}

static int size_read(struct weir_decode *decode, const struct weir_yaml_node *value, const struct weir_field *field,
                     uint64_t *ret_bytes)
{
    struct weir_fault fault;
    uint64_t bytes = 0;
    int error = scalar_check(decode, value, field, "a size, such as 64MiB");
    if (error)
        return error;
    error = weir_size_parse(text_of(value), &bytes, &fault);
    if (error == WEIR_EINVAL)
        return fault_pass(decode, error, value, field, &fault);
    if (error || bytes < field->min || bytes > field->max)
        return weir_config_fail(decode->fault, WEIR_ERANGE, value->mark,
                                "%s %.40s is out of range: must be %" PRIu64 " to %" PRIu64 " bytes", field->name,
                                text_of(value), field->min, field->max);
    *ret_bytes = bytes;
    return 0;
}

int weir_decode_size(struct weir_decode *decode, const struct weir_yaml_node *value, const struct weir_field *field,
                     void *target)
{
    uint64_t bytes = 0;
    int error = size_read(decode, value, field, &bytes);
    size_t size = error ? 0 : (size_t)bytes;
    if (!error)
        memcpy(target, &size, sizeof(size));
    return error;
}

int weir_decode_size32(struct weir_decode *decode, const struct weir_yaml_node *value, const struct weir_field *field,
                       void *target)
{
    uint64_t bytes = 0;
    int error = size_read(decode, value, field, &bytes);
    uint32_t size = error ? 0 : (uint32_t)bytes;
    if (!error)
        memcpy(target, &size, sizeof(size));
    return error;
}

int weir_decode_duration(struct weir_decode *decode, const struct weir_yaml_node *value, const struct weir_field *field,
                         void *target)
{
    struct weir_fault fault;
    uint64_t ns = 0;
    int error = scalar_check(decode, value, field, "a duration, such as 250ms or 10s");
    if (error)
        return error;
    error = weir_duration_parse(text_of(value), &ns, &fault);
    if (error)
        return fault_pass(decode, error, value, field, &fault);
    char min[WEIR_DURATION_SIZE], max[WEIR_DURATION_SIZE];
    weir_period_format(field->min, min, sizeof(min));
    weir_period_format(field->max, max, sizeof(max));
    if (ns < field->min || ns > field->max)
        return weir_config_fail(decode->fault, WEIR_ERANGE, value->mark, "%s %.40s is out of range: must be %s to %s",
                                field->name, text_of(value), min, max);
    memcpy(target, &ns, sizeof(ns));
    return 0;
}

int weir_decode_address(struct weir_decode *decode, const struct weir_yaml_node *value, const struct weir_field *field,
                        void *target)
{
    struct weir_fault fault;
    struct weir_address address;
    int error = scalar_check(decode, value, field, "an address, such as 127.0.0.1:8080");
    if (error)
        return error;
    error = weir_address_parse(text_of(value), &address, &fault);
    if (error)
        return weir_config_fail(decode->fault, error, value->mark, "%s \"%.40s\": %s", field->name, text_of(value),
                                fault.text);
    memcpy(target, &address, sizeof(address));
    return 0;
}

int weir_decode_warn(struct weir_decode *decode, struct weir_mark mark, const char *format, ...)
{
    struct weir_config *config = decode->config;
    char text[400];
    if (config->warnings_count >= WEIR_CONFIG_WARNINGS_MAX) {
        config->warnings_dropped++;
        return 0;
    }
    va_list list;
    va_start(list, format);
    (void)vsnprintf(text, sizeof(text), format, list);
    va_end(list);
    if (!config->warnings)
        config->warnings = weir_arena_alloc(decode->arena, WEIR_CONFIG_WARNINGS_MAX, sizeof(*config->warnings));
    const char *copy = weir_arena_copy(decode->arena, text, strlen(text));
    if (!config->warnings || !copy)
        return weir_decode_nomem(decode);
    config->warnings[config->warnings_count++] = (struct weir_config_warning){ mark, copy };
    return 0;
}
