/* SPDX-License-Identifier: Apache-2.0
 *
 * Makes nodes of the events of libyaml, recursively. What is not allowed, such as anchors or a key that stands twice,
 * is refused at the event where it comes, with its place. Called by config.c for a file and by revise.c for a
 * definition from another node. weir_config_fail, by which src/rules reports a fault, is here too. */
#include "rules/yaml_node.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <yaml.h>

struct reader {
    yaml_parser_t parser;
    const char *text;
    size_t size;
    struct weir_arena *arena;
    struct weir_config_fault *fault;
    size_t nodes;
};

int weir_config_fail(struct weir_config_fault *fault, int error, struct weir_mark mark, const char *format, ...)
{
    if (!fault)
        return error;
    va_list list;
    va_start(list, format);
    fault->mark = mark;
    (void)vsnprintf(fault->text, sizeof(fault->text), format, list);
    va_end(list);
    return error;
}

const char *weir_yaml_kind_name(enum weir_yaml_kind kind)
{
    return kind == WEIR_YAML_SCALAR ? "text" : kind == WEIR_YAML_LIST ? "a list" : "a mapping";
}

static struct weir_mark mark_of(const yaml_mark_t *mark)
{
    return (struct weir_mark){ (unsigned)mark->line + 1, (unsigned)mark->column + 1 };
}

/* The reader (bytes to characters) knows only offsets. */
static struct weir_mark mark_of_offset(const struct reader *reader, size_t offset)
{
    struct weir_mark mark = { 1, 1 };
    for (size_t i = 0; i < offset && i < reader->size; i++) {
        mark.column++;
        if (reader->text[i] == '\n')
            mark = (struct weir_mark){ mark.line + 1, 1 };
    }
    return mark;
}

/* Whether a tab is at the place, which counts characters: in an indentation these are bytes. */
static bool is_tab(const struct reader *reader, struct weir_mark mark)
{
    size_t at = 0;
    for (unsigned line = 1; at < reader->size && line < mark.line; at++)
        line += reader->text[at] == '\n';
    return mark.column <= reader->size - at && reader->text[at + mark.column - 1] == '\t';
}

#define QUOTE_STAR ": what begins with * is written in quotes, \"*.png\""

static int event_next(struct reader *reader, yaml_event_t *ret_event)
{
    const yaml_parser_t *parser = &reader->parser;
    if (yaml_parser_parse(&reader->parser, ret_event))
        return 0;
    if (parser->error == YAML_MEMORY_ERROR)
        return weir_config_fail(reader->fault, WEIR_ENOMEM, (struct weir_mark){ 0, 0 }, "out of memory");
    if (parser->error == YAML_READER_ERROR)
        return weir_config_fail(reader->fault, WEIR_EPROTO, mark_of_offset(reader, parser->problem_offset),
                                "not YAML: %s (byte 0x%02x)", parser->problem, (unsigned)parser->problem_value & 0xff);
    struct weir_mark mark = mark_of(&parser->problem_mark);
    const char *hint = "";
    if (is_tab(reader, mark) && !strstr(parser->problem, "tab"))
        hint = ": a tab, where YAML wants spaces";
    else if (parser->context && strstr(parser->context, "alias"))
        hint = QUOTE_STAR;
    return weir_config_fail(reader->fault, WEIR_EPROTO, mark, "not YAML: %s%s%s%s",
                            parser->context ? parser->context : "", parser->context ? ", " : "", parser->problem, hint);
}

static int extras_refuse(struct reader *reader, struct weir_mark mark, const yaml_char_t *anchor,
                         const yaml_char_t *tag)
{
    if (anchor)
        return weir_config_fail(reader->fault, WEIR_EPROTO, mark, "anchors (&%.40s) are not allowed: write it out",
                                (const char *)anchor);
    if (tag)
        return weir_config_fail(reader->fault, WEIR_EPROTO, mark, "tags (%.40s) are not allowed: leave it out",
                                (const char *)tag);
    return 0;
}

static int event_check(struct reader *reader, const yaml_event_t *event)
{
    struct weir_mark mark = mark_of(&event->start_mark);
    switch (event->type) {
    case YAML_ALIAS_EVENT:
        return weir_config_fail(reader->fault, WEIR_EPROTO, mark,
                                "aliases (*%.40s) are not allowed: write it out, or "
                                "put quotes around text that starts with *",
                                (const char *)event->data.alias.anchor);
    case YAML_SCALAR_EVENT:
        return extras_refuse(reader, mark, event->data.scalar.anchor, event->data.scalar.tag);
    case YAML_SEQUENCE_START_EVENT:
        return extras_refuse(reader, mark, event->data.sequence_start.anchor, event->data.sequence_start.tag);
    case YAML_MAPPING_START_EVENT:
        return extras_refuse(reader, mark, event->data.mapping_start.anchor, event->data.mapping_start.tag);
    default:
        return 0;
    }
}

static int node_add(struct reader *reader, const yaml_event_t *event, struct weir_yaml_node **ret_node)
{
    struct weir_mark mark = mark_of(&event->start_mark);
    if (++reader->nodes > WEIR_YAML_NODES_MAX)
        return weir_config_fail(reader->fault, WEIR_ELIMIT, mark, "more than %d values in one file",
                                WEIR_YAML_NODES_MAX);
    struct weir_yaml_node *node = weir_arena_alloc(reader->arena, 1, sizeof(*node));
    if (!node)
        return weir_config_fail(reader->fault, WEIR_ENOMEM, mark, "out of memory");
    node->mark = mark;
    if (event->type == YAML_SCALAR_EVENT) {
        size_t size = event->data.scalar.length;
        node->kind = WEIR_YAML_SCALAR;
        node->plain = event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
        node->text = (struct weir_slice){ weir_arena_copy(reader->arena, event->data.scalar.value, size), size };
        if (!node->text.data)
            return weir_config_fail(reader->fault, WEIR_ENOMEM, mark, "out of memory");
    } else {
        node->kind = event->type == YAML_MAPPING_START_EVENT ? WEIR_YAML_MAP : WEIR_YAML_LIST;
    }
    *ret_node = node;
    return 0;
}

static int node_read(struct reader *reader, const yaml_event_t *event, unsigned depth,
                     struct weir_yaml_node **ret_node);

/* Reads the next event, and the node that it starts; *ret_node is NULL at the end of the parent. */
static int child_read(struct reader *reader, unsigned depth, struct weir_yaml_node **ret_node)
{
    yaml_event_t event;
    int error = event_next(reader, &event);
    if (error)
        return error;
    *ret_node = NULL;
    if (event.type != YAML_SEQUENCE_END_EVENT && event.type != YAML_MAPPING_END_EVENT)
        error = node_read(reader, &event, depth, ret_node);
    yaml_event_delete(&event);
    return error;
}

static int key_check(struct reader *reader, const struct weir_yaml_node *map, const struct weir_yaml_node *key)
{
    if (key->kind != WEIR_YAML_SCALAR)
        return weir_config_fail(reader->fault, WEIR_EPROTO, key->mark, "a key must be text, not %s",
                                weir_yaml_kind_name(key->kind));
    if (map->count >= WEIR_YAML_KEYS_MAX)
        return weir_config_fail(reader->fault, WEIR_ELIMIT, key->mark, "more than %d keys in one mapping",
                                WEIR_YAML_KEYS_MAX);
    for (const struct weir_yaml_node *other = map->first; other; other = other->next)
        if (other->text.size == key->text.size && memcmp(other->text.data, key->text.data, key->text.size) == 0)
            return weir_config_fail(reader->fault, WEIR_EPROTO, key->mark,
                                    "duplicate key \"%.64s\": it stands already at line %u",
                                    (const char *)key->text.data, other->mark.line);
    return 0;
}

static int children_read(struct reader *reader, struct weir_yaml_node *parent, unsigned depth)
{
    struct weir_yaml_node *last = NULL;
    for (;;) {
        struct weir_yaml_node *child;
        int error = child_read(reader, depth, &child);
        if (error || !child)
            return error;
        if (parent->kind == WEIR_YAML_MAP) {
            error = key_check(reader, parent, child);
            if (!error)
                error = child_read(reader, depth, &child->value);
            if (error)
                return error;
        }
        if (last)
            last->next = child;
        else
            parent->first = child;
        last = child;
        parent->count++;
    }
}

static int node_read(struct reader *reader, const yaml_event_t *event, unsigned depth, struct weir_yaml_node **ret_node)
{
    struct weir_yaml_node *node = NULL;
    int error = event_check(reader, event);
    if (!error)
        error = node_add(reader, event, &node);
    if (error)
        return error;
    if (node->kind != WEIR_YAML_SCALAR && depth >= WEIR_YAML_DEPTH_MAX)
        return weir_config_fail(reader->fault, WEIR_ELIMIT, node->mark, "nested deeper than %d levels",
                                WEIR_YAML_DEPTH_MAX);
    if (node->kind != WEIR_YAML_SCALAR)
        error = children_read(reader, node, depth + 1);
    if (!error)
        *ret_node = node;
    return error;
}

/* One step of the frame around the tree: the next event must be `expected`. */
static int frame_read(struct reader *reader, yaml_event_type_t expected, const char *otherwise)
{
    yaml_event_t event;
    int error = event_next(reader, &event);
    if (error)
        return error;
    if (event.type != expected)
        error = weir_config_fail(reader->fault, WEIR_EPROTO, mark_of(&event.start_mark), "%s", otherwise);
    yaml_event_delete(&event);
    return error;
}

static int stream_read(struct reader *reader, struct weir_yaml_node **ret_root)
{
    struct weir_yaml_node *root = NULL;
    int error = frame_read(reader, YAML_STREAM_START_EVENT, "not YAML");
    if (!error)
        error = frame_read(reader, YAML_DOCUMENT_START_EVENT, "the file is empty: it must be a mapping with limits:");
    if (!error)
        error = child_read(reader, 0, &root);
    if (!error)
        error = frame_read(reader, YAML_DOCUMENT_END_EVENT, "not YAML");
    if (!error)
        error = frame_read(reader, YAML_STREAM_END_EVENT, "a second document: a file must be one");
    if (!error)
        *ret_root = root;
    return error;
}

int weir_yaml_parse(const char *text, size_t size, struct weir_arena *arena, struct weir_yaml_node **ret_root,
                    struct weir_config_fault *ret_fault)
{
    struct reader reader = { .text = text, .size = size, .arena = arena, .fault = ret_fault };
    struct weir_mark nowhere = { 0, 0 };
    if (size > WEIR_CONFIG_BYTES_MAX)
        return weir_config_fail(ret_fault, WEIR_ELIMIT, nowhere, "larger than 16 MiB");
    if (!yaml_parser_initialize(&reader.parser))
        return weir_config_fail(ret_fault, WEIR_ENOMEM, nowhere, "out of memory");
    yaml_parser_set_encoding(&reader.parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&reader.parser, (const unsigned char *)text, size);
    int error = stream_read(&reader, ret_root);
    yaml_parser_delete(&reader.parser);
    return error;
}

const struct weir_yaml_node *weir_yaml_find(const struct weir_yaml_node *map, const char *name)
{
    size_t size = strlen(name);
    for (const struct weir_yaml_node *key = map->first; key; key = key->next)
        if (key->text.size == size && memcmp(key->text.data, name, size) == 0)
            return key;
    return NULL;
}
