/* SPDX-License-Identifier: Apache-2.0
 *
 * From trees to the text of limits. That service goes down level by level and never back: of the descriptors of one
 * level the one with the entry's very value is taken, else the first whose pattern fits, else the one without a value.
 * So on each level of a limit's way the condition is: this value; or this pattern, and none of the values and earlier
 * patterns beside it that it could be taken for; or none of the values and patterns beside it. Called by
 * envoy_rules.c. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/siphash.h"
#include "rules/envoy_rules_tree.h"
#include "rules/literal.h"
#include "rules/pattern.h"

struct level {
    const struct weir_envoy_node *siblings; /* the first */
    const struct weir_envoy_node *node;
    char attribute[WEIR_ATTRIBUTE_NAME_MAX + 1];
};

struct writer {
    FILE *file;
    struct weir_envoy_rules *rules;
    struct weir_map names; /* of limits, to the line where each stands */
    const struct weir_envoy_domain *domain;
    bool attempts;
    bool naming; /* limits get their names, so that others can say them; else they are written */
    size_t room; /* of rules->origins */
    size_t depth;
    struct level levels[WEIR_ENVOY_DEPTH_MAX];
    const char **ret_file;
    struct weir_config_fault *fault;
};

static const struct weir_sip_key fixed = { 0, 0 }; /* a file's author is no attacker of his own file */

static int nomem(struct writer *writer)
{
    return weir_config_fail(writer->fault, WEIR_ENOMEM, (struct weir_mark){ 0, 0 }, "out of memory");
}

/* ---- texts ---- */

static bool is_plain(struct weir_slice text)
{
    const char *bytes = text.data;
    for (size_t i = 0; i < text.size; i++)
        if (!(bytes[i] >= 'a' && bytes[i] <= 'z') && !(bytes[i] >= 'A' && bytes[i] <= 'Z') &&
            !(bytes[i] >= '0' && bytes[i] <= '9') && bytes[i] != '_' && bytes[i] != '/' && bytes[i] != '.' &&
            !(bytes[i] == '-' && i > 0))
            return false;
    return text.size > 0;
}

/* The code point at *at, which is moved behind it; the parser has seen that it is UTF-8. */
static unsigned take(const unsigned char **at, const unsigned char *end)
{
    const unsigned char first = *(*at)++;
    unsigned more = first < 0x80 ? 0 : first < 0xe0 ? 1 : first < 0xf0 ? 2 : 3;
    unsigned value = more == 0 ? first : first & (0x3fU >> more);
    for (; more > 0 && *at < end; more--)
        value = value << 6 | (*(*at)++ & 0x3fU);
    return value;
}

static void put_text(FILE *file, struct weir_slice text)
{
    const unsigned char *at = text.data, *const end = at + text.size;
    if (is_plain(text)) {
        (void)fwrite(text.data, 1, text.size, file);
        return;
    }
    (void)fputc('"', file);
    while (at < end) {
        const unsigned value = take(&at, end);
        if (value >= ' ' && value < 0x7f && value != '"' && value != '\\')
            (void)fputc((int)value, file);
        else
            (void)fprintf(file, "\\U%08x", value);
    }
    (void)fputc('"', file);
}

static void put_string(FILE *file, const char *text)
{
    put_text(file, (struct weir_slice){ text, strlen(text) });
}

/* ---- conditions ---- */

static bool is_exact(const struct weir_envoy_node *node)
{
    return node->value.text.size > 0 && !node->wildcard;
}

static bool is_of_same_key(const struct weir_envoy_node *a, const struct weir_envoy_node *b)
{
    return a != b && weir_slice_equal(a->key.text, b->key.text);
}

/* Whether some value may look like both patterns: they begin and end alike as far as both say how. */
static bool may_meet(struct weir_slice a, struct weir_slice b)
{
    const struct weir_slice starts[] = { weir_pattern_prefix(a), weir_pattern_prefix(b) };
    const struct weir_slice ends[] = { weir_pattern_suffix(a), weir_pattern_suffix(b) };
    return (weir_slice_starts_with(starts[0], starts[1]) || weir_slice_starts_with(starts[1], starts[0])) &&
           (weir_slice_ends_with(ends[0], ends[1]) || weir_slice_ends_with(ends[1], ends[0]));
}

/* Whether the sibling is taken before `node` for some value that `node` is there for. `earlier`: it stands first. */
static bool goes_before(const struct weir_envoy_node *sibling, const struct weir_envoy_node *node, bool earlier)
{
    char canonical[WEIR_LITERAL_TEXT_MAX];
    if (!is_of_same_key(sibling, node) || sibling->value.text.size == 0 || is_exact(node))
        return false;
    if (node->value.text.size == 0)
        return true;
    if (sibling->wildcard)
        return earlier && may_meet(sibling->value.text, node->value.text);
    return weir_pattern_matches(node->value.text, weir_literal_canonical(sibling->value.text, 128, canonical));
}

static size_t put_before(FILE *file, const struct level *level)
{
    size_t count = 0;
    bool earlier = true;
    for (const struct weir_envoy_node *sibling = level->siblings; sibling; sibling = sibling->next) {
        earlier = earlier && sibling != level->node;
        if (!goes_before(sibling, level->node, earlier))
            continue;
        if (file) {
            (void)fputs(count > 0 ? ", " : "", file);
            put_text(file, sibling->value.text);
        }
        count++;
    }
    return count;
}

/* Nothing where any value does: that the attribute is there, the limit's key says. */
static void put_condition(FILE *file, const struct level *level)
{
    const struct weir_slice value = level->node->value.text;
    const bool before = put_before(NULL, level) > 0;
    if (value.size == 0 && !before)
        return;
    (void)fputs(", ", file);
    put_string(file, level->attribute);
    (void)fputs(before ? ": { " : ": ", file);
    if (value.size > 0) {
        (void)fputs(before ? "is: " : "", file);
        put_text(file, value);
        (void)fputs(before ? ", " : "", file);
    }
    if (before) {
        (void)fputs("not: [", file);
        (void)put_before(file, level);
        (void)fputs("] }", file);
    }
}

/* Whether values have a counter each. */
static bool is_counted(const struct weir_envoy_node *node)
{
    return !is_exact(node) && !(node->wildcard && node->shares);
}

/* ---- names ---- */

/* What the attribute of this level is called: the key, and where it has stood before on the way its number. */
static int attribute_name(struct writer *writer)
{
    struct level *level = &writer->levels[writer->depth - 1];
    const char *key = level->node->key.text.data;
    unsigned number = 1;
    for (size_t i = 0; i + 1 < writer->depth; i++)
        number += is_of_same_key(writer->levels[i].node, level->node);
    if (number == 1)
        (void)snprintf(level->attribute, sizeof(level->attribute), "%s", key);
    else
        (void)snprintf(level->attribute, sizeof(level->attribute), "%s#%u", key, number);
    for (size_t i = 0; i + 1 < writer->depth; i++)
        if (strcmp(writer->levels[i].attribute, level->attribute) == 0)
            return weir_config_fail(writer->fault, WEIR_EINVAL, level->node->key.mark,
                                    "\"%s\" is what weir calls the entry of a descriptor whose key has stood there "
                                    "before: rename it",
                                    level->attribute);
    return 0;
}

static char legal(char letter)
{
    static const char others[] = "._:/@-";
    const bool good = (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z') ||
                      (letter >= '0' && letter <= '9') || (letter && strchr(others, letter));
    return good ? letter : '-';
}

/* "edge.tenant.path_/api/-": as the path of that service's statistics, of what a name may be made of; and where that is
 * cut or taken, with a hash of all of it. */
static int name_limit(struct writer *writer, struct weir_envoy_node *node)
{
    char own[WEIR_LIMIT_NAME_MAX + 1];
    struct weir_siphash_state state;
    char whole[WEIR_LIMIT_NAME_MAX + 2] = "";
    size_t used = (size_t)snprintf(whole, sizeof(whole), "%s", (const char *)writer->domain->name.text.data);
    weir_siphash_start(&state, &fixed);
    weir_siphash_add(&state, writer->domain->name.text.data, writer->domain->name.text.size + 1);
    for (size_t i = 0; i < writer->depth; i++) {
        const struct weir_envoy_node *at_level = writer->levels[i].node;
        weir_siphash_add(&state, at_level->key.text.data, at_level->key.text.size + 1);
        weir_siphash_add(&state, at_level->value.text.data, at_level->value.text.size);
        weir_siphash_add(&state, "", 1);
        if (used < sizeof(whole))
            used += (size_t)snprintf(whole + used, sizeof(whole) - used, ".%s%s%s",
                                     (const char *)at_level->key.text.data, at_level->value.text.size > 0 ? "_" : "",
                                     (const char *)at_level->value.text.data);
    }
    for (char *at = whole; *at; at++)
        *at = legal(*at);
    const unsigned hash = (unsigned)weir_siphash_end(&state);
    const bool cut = used > WEIR_LIMIT_NAME_MAX;
    (void)snprintf(own, sizeof(own), "%s", whole);
    if (cut || weir_map_find(&writer->names, 0, (struct weir_slice){ own, strlen(own) }))
        (void)snprintf(own, sizeof(own), "%.100s@%08x", whole, hash);
    const char *copy = weir_arena_copy(writer->rules->arena, own, strlen(own));
    if (!copy)
        return nomem(writer);
    const struct weir_slice name = { copy, strlen(copy) };
    if (weir_map_find(&writer->names, 0, name))
        return weir_config_fail(writer->fault, WEIR_EINVAL, node->mark,
                                "the name of its limit, \"%s\", is that of another", own);
    node->limit_name = copy;
    return weir_map_insert(&writer->names, 0, name, 1) ? nomem(writer) : 0;
}

/* ---- limits ---- */

static int note_origin(struct writer *writer, const struct weir_envoy_node *node)
{
    struct weir_envoy_rules *rules = writer->rules;
    if (rules->limits_count == writer->room) {
        const size_t room = writer->room > 0 ? 2 * writer->room : 64;
        struct weir_envoy_rules_origin *more = weir_arena_alloc(rules->arena, room, sizeof(*more));
        if (!more)
            return nomem(writer);
        if (writer->room > 0)
            memcpy(more, rules->origins, writer->room * sizeof(*more));
        rules->origins = more;
        writer->room = room;
    }
    rules->origins[rules->limits_count++] = (struct weir_envoy_rules_origin){ writer->domain->file, node->mark };
    return 0;
}

static void put_match(struct writer *writer)
{
    FILE *file = writer->file;
    char keys[WEIR_ENVOY_DEPTH_MAX * (WEIR_ATTRIBUTE_NAME_MAX + 1)] = "";
    for (size_t i = 0, used = 0; i < writer->depth; i++)
        used += (size_t)snprintf(keys + used, sizeof(keys) - used, "%s%s", i > 0 ? "," : "",
                                 (const char *)writer->levels[i].node->key.text.data);
    (void)fputs(", match: { domain: ", file);
    put_text(file, writer->domain->name.text);
    (void)fputs(", " WEIR_ENVOY_DESCRIPTOR ": ", file);
    put_string(file, keys);
    for (size_t i = 0; i < writer->depth; i++)
        put_condition(file, &writer->levels[i]);
    (void)fputs(" }", file);
}

static void put_key(struct writer *writer)
{
    size_t count = 0;
    for (size_t i = 0; i < writer->depth; i++) {
        if (!is_counted(writer->levels[i].node))
            continue;
        (void)fputs(count++ > 0 ? ", " : ", key: [", writer->file);
        put_string(writer->file, writer->levels[i].attribute);
    }
    if (count > 0) /* addresses are texts there, too, and not cut */
        (void)fputs("], ipv6_prefix: 128", writer->file);
}

/* The limits of this name, in the list and below it. */
static size_t put_named(struct writer *writer, const struct weir_envoy_node *first, struct weir_slice name,
                        size_t written)
{
    for (const struct weir_envoy_node *node = first; node; node = node->next) {
        if (node->has_limit && weir_slice_equal(node->name.text, name)) {
            (void)fputs(written++ > 0 ? ", " : ", replaces: [", writer->file);
            put_string(writer->file, node->limit_name);
        }
        written = put_named(writer, node->first, name, written);
    }
    return written;
}

/* A name that no limit of the domain has replaces none. */
static void put_replaces(struct writer *writer, const struct weir_envoy_node *node)
{
    size_t written = 0;
    for (size_t i = 0; i < node->replaces_count; i++)
        written = put_named(writer, writer->domain->first, node->replaces[i].text, written);
    (void)fputs(written > 0 ? "]" : "", writer->file);
}

static int put_limit(struct writer *writer, const struct weir_envoy_node *node)
{
    int error = note_origin(writer, node);
    if (error)
        return error;
    (void)fputs("  - { name: ", writer->file);
    put_string(writer->file, node->limit_name);
    put_match(writer);
    put_key(writer);
    if (node->unlimited)
        (void)fputs(", rate: 1/s, mode: off", writer->file);
    else
        (void)fprintf(writer->file, ", rate: %llu/%s", (unsigned long long)node->requests,
                      weir_envoy_units[node->unit].period);
    (void)fputs(", algorithm: fixed_window", writer->file);
    if (writer->attempts && !node->unlimited)
        (void)fputs(", count: attempts", writer->file);
    if (node->shadow && !node->unlimited)
        (void)fputs(", mode: shadow", writer->file);
    put_replaces(writer, node);
    (void)fputs(" }\n", writer->file);
    return 0;
}

static int put_list(struct writer *writer, struct weir_envoy_node *first)
{
    int error = 0;
    for (struct weir_envoy_node *node = first; node && !error; node = node->next) {
        writer->levels[writer->depth++] = (struct level){ .siblings = first, .node = node };
        error = attribute_name(writer);
        if (!error && node->has_limit)
            error = writer->naming ? name_limit(writer, node) : put_limit(writer, node);
        if (!error && ftello(writer->file) > (off_t)WEIR_CONFIG_BYTES_MAX)
            error = weir_config_fail(writer->fault, WEIR_ELIMIT, node->mark,
                                     "the limits, with the values beside each that go before it, are longer than 16 "
                                     "MiB");
        if (!error)
            error = put_list(writer, node->first);
        writer->depth--;
    }
    return error;
}

static int put_domains(struct writer *writer, const struct weir_envoy_domain *domains)
{
    int error = 0;
    for (writer->domain = domains; writer->domain && !error; writer->domain = writer->domain->next) {
        *writer->ret_file = writer->domain->file;
        writer->naming = true;
        error = put_list(writer, writer->domain->first);
        writer->naming = false;
        if (!error)
            error = put_list(writer, writer->domain->first);
    }
    return error;
}

int weir_envoy_rules_write(struct weir_envoy_rules *rules, const struct weir_envoy_domain *domains, bool attempts,
                           const char **ret_file, struct weir_config_fault *ret_fault)
{
    char *text = NULL;
    size_t size = 0;
    struct writer writer = { .file = open_memstream(&text, &size),
                             .rules = rules,
                             .attempts = attempts,
                             .ret_file = ret_file,
                             .fault = ret_fault };
    int error = !writer.file || weir_map_init(&writer.names, &fixed) ? nomem(&writer) : 0;
    if (!error) {
        (void)fputs("limits:\n", writer.file);
        rules->first_line = 2;
        error = put_domains(&writer, domains);
    }
    if (!error && rules->limits_count == 0)
        (void)fputs("  []\n", writer.file);
    const bool failed = writer.file && (fflush(writer.file) != 0 || ferror(writer.file));
    if (writer.file)
        (void)fclose(writer.file);
    const char *copy = !error && !failed ? weir_arena_copy(rules->arena, text, size) : NULL;
    if (!error && !copy)
        error = nomem(&writer);
    if (!error)
        rules->text = (struct weir_slice){ copy, size };
    free(text);
    weir_map_deinit(&writer.names);
    return error;
}
