/* SPDX-License-Identifier: Apache-2.0
 *
 * One writer walks the tree for three purposes: to count bytes, to write them, to hash them without a buffer. Scalars
 * are in quotes, and what is not printable ASCII is escaped; a key is written as `? key : value`, which allows it to be
 * long. Called by config.c to keep the text of a limit, and by limit_decode.c to hash its definition. */
#include "rules/yaml_text.h"

#include <stdio.h>
#include <string.h>

#include "base/siphash.h"

/* With neither `at` nor `hash` it only counts. */
struct writer {
    char *at;
    size_t size;
    struct weir_siphash_state *hash;
};

static void put(struct writer *writer, const char *bytes, size_t size)
{
    if (writer->at)
        memcpy(writer->at + writer->size, bytes, size);
    if (writer->hash)
        weir_siphash_add(writer->hash, bytes, size);
    writer->size += size;
}

/* The code point at *at, which is moved behind it; the parser has seen that it is UTF-8. */
static unsigned take(const unsigned char **at, const unsigned char *end)
{
    unsigned char first = *(*at)++;
    unsigned more = first < 0x80 ? 0 : first < 0xe0 ? 1 : first < 0xf0 ? 2 : 3;
    unsigned value = more == 0 ? first : first & (0x3fu >> more);
    for (; more > 0 && *at < end; more--)
        value = value << 6 | (*(*at)++ & 0x3fu);
    return value;
}

static void put_scalar(struct writer *writer, const struct weir_yaml_node *node)
{
    const unsigned char *at = node->text.data, *end = at + node->text.size;
    char escape[16];
    put(writer, "\"", 1);
    while (at < end) {
        unsigned value = take(&at, end);
        char plain = (char)value;
        if (value >= ' ' && value < 0x7f && value != '"' && value != '\\')
            put(writer, &plain, 1);
        else
            put(writer, escape, (size_t)snprintf(escape, sizeof(escape), "\\U%08x", value));
    }
    put(writer, "\"", 1);
}

static void put_node(struct writer *writer, const struct weir_yaml_node *node)
{
    bool map = node->kind == WEIR_YAML_MAP;
    if (node->kind == WEIR_YAML_SCALAR) {
        put_scalar(writer, node);
        return;
    }
    put(writer, map ? "{" : "[", 1);
    for (const struct weir_yaml_node *child = node->first; child; child = child->next) {
        if (map)
            put(writer, "? ", 2); /* so that it may be long */
        put_node(writer, child);  /* as deep as the parser allows */
        if (map) {
            put(writer, " : ", 3);
            put_node(writer, child->value);
        }
        if (child->next)
            put(writer, ", ", 2);
    }
    put(writer, map ? "}" : "]", 1);
}

int weir_yaml_text(struct weir_arena *arena, const struct weir_yaml_node *node, struct weir_slice *ret_text)
{
    struct writer writer = { NULL, 0, NULL };
    put_node(&writer, node);
    char *text = weir_arena_alloc(arena, writer.size + 1, 1);
    if (!text)
        return WEIR_ENOMEM;
    writer = (struct writer){ text, 0, NULL };
    put_node(&writer, node);
    *ret_text = (struct weir_slice){ text, writer.size };
    return 0;
}

uint64_t weir_yaml_hash(const struct weir_yaml_node *node)
{
    static const struct weir_sip_key fixed = { 0, 0 }; /* a file's author is no attacker of his own file */
    struct weir_siphash_state hash;
    struct writer writer = { NULL, 0, &hash };
    weir_siphash_start(&hash, &fixed);
    put_node(&writer, node);
    return weir_siphash_end(&hash);
}
