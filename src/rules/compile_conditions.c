/* SPDX-License-Identifier: Apache-2.0
 *
 * Conditions that are equal get one number. A new one is entered where match.c will look for it: a value in a hash map,
 * a pattern with a star for globs.c, a block for block.c. A list or a `not` is a condition of its own, to which its
 * terms lead. Patterns and blocks are only collected until weir_compile_end sorts them. Called by compile.c. */
#include "base/assert.h"
#include "rules/compiler.h"
#include "rules/pattern.h"
#include "rules/yaml_node.h"

int weir_compile_nomem(struct weir_compiler *compiler)
{
    return weir_config_fail(compiler->fault, WEIR_ENOMEM, (struct weir_mark){ 0, 0 }, "out of memory");
}

/* How many conditions there are at most if each is another; 0: none of them is a list or a `not`. */
static size_t terms_room(const struct weir_condition *conditions, size_t count, bool *ret_sets)
{
    size_t room = count;
    for (size_t i = 0; i < count; i++) {
        *ret_sets = *ret_sets || conditions[i].terms;
        room += conditions[i].terms ? conditions[i].terms->count : 0;
    }
    return room;
}

int weir_compile_begin(struct weir_compiler *compiler)
{
    const struct weir_config *config = compiler->config;
    size_t room = 1;
    bool sets = false;
    for (size_t i = 0; i < config->limits_count; i++) {
        const struct weir_config_limit *limit = &config->limits[i];
        room += terms_room(limit->match, limit->match_count, &sets);
        for (size_t j = 0; j < limit->overrides_count; j++)
            room += terms_room(limit->overrides[j].conditions, limit->overrides[j].conditions_count, &sets);
    }
    if (!sets)
        return 0;
    compiler->rules->terms = weir_arena_alloc(compiler->rules->arena, room, sizeof(*compiler->rules->terms));
    return compiler->rules->terms ? 0 : weir_compile_nomem(compiler);
}

static int glob_add(struct weir_compiler *compiler, const struct weir_wanted *wanted)
{
    struct weir_glob_item *item = weir_arena_alloc(compiler->rules->arena, 1, sizeof(*item));
    if (!item)
        return weir_compile_nomem(compiler);
    *item = (struct weir_glob_item){ compiler->globs[wanted->attribute],
                                     { wanted->pattern, wanted->condition, false },
                                     wanted->mark };
    compiler->globs[wanted->attribute] = item;
    return 0;
}

/* Numbers the pattern, and enters a new one where match will look for it. */
static int pattern_intern(struct weir_compiler *compiler, struct weir_wanted *wanted)
{
    struct weir_rules *rules = compiler->rules;
    wanted->condition = weir_map_find(&compiler->patterns, wanted->attribute, wanted->pattern);
    if (wanted->condition)
        return 0;
    wanted->condition = ++compiler->conditions_count;
    if (weir_map_insert(&compiler->patterns, wanted->attribute, wanted->pattern, wanted->condition) != 0)
        return weir_compile_nomem(compiler);
    if (weir_pattern_is_any(wanted->pattern))
        rules->attributes[wanted->attribute].any = wanted->condition;
    else if (!weir_pattern_is_exact(wanted->pattern))
        return glob_add(compiler, wanted);
    else if (weir_map_insert(&rules->exacts, wanted->attribute, wanted->pattern, wanted->condition) != 0)
        return weir_compile_nomem(compiler);
    return 0;
}

static int block_intern(struct weir_compiler *compiler, struct weir_wanted *wanted, const struct weir_block *block)
{
    uint32_t scope = wanted->attribute | WEIR_SCOPE_BLOCKS;
    wanted->condition = weir_map_find(&compiler->patterns, scope, wanted->pattern);
    if (wanted->condition)
        return 0;
    wanted->condition = ++compiler->conditions_count;
    struct weir_block_item *item = weir_arena_alloc(compiler->rules->arena, 1, sizeof(*item));
    if (!item || weir_map_insert(&compiler->patterns, scope, wanted->pattern, wanted->condition) != 0)
        return weir_compile_nomem(compiler);
    *item = (struct weir_block_item){ compiler->blocks[wanted->attribute], *block, wanted->condition };
    compiler->blocks[wanted->attribute] = item;
    return 0;
}

/* A new `not`: which of its attribute's it is. */
static int not_add(struct weir_compiler *compiler, const struct weir_wanted *wanted, unsigned *ret_index)
{
    struct weir_compiled_attribute *attribute = &compiler->rules->attributes[wanted->attribute];
    if (attribute->nots_count == WEIR_NOTS_OF_ATTRIBUTE || compiler->nots_count == WEIR_NOTS_MAX)
        return weir_config_fail(compiler->fault, WEIR_ELIMIT, wanted->mark,
                                "more than %d different conditions with \"not\" on \"%s\", or %d in all",
                                WEIR_NOTS_OF_ATTRIBUTE, attribute->name, WEIR_NOTS_MAX);
    if (!attribute->nots)
        attribute->nots = weir_arena_alloc(compiler->rules->arena, WEIR_NOTS_OF_ATTRIBUTE, sizeof(*attribute->nots));
    if (!attribute->nots)
        return weir_compile_nomem(compiler);
    compiler->nots_count++;
    *ret_index = attribute->nots_count;
    attribute->nots[attribute->nots_count++] = wanted->condition;
    return 0;
}

static int term_enter(struct weir_compiler *compiler, const struct weir_wanted *set,
                      const struct weir_condition_value *term, unsigned index)
{
    struct weir_wanted own = { set->attribute, 0, term->text, NULL, set->mark };
    int error = term->is_block ? block_intern(compiler, &own, &term->block) : pattern_intern(compiler, &own);
    if (error)
        return error;
    struct weir_compiled_term *compiled = &compiler->rules->terms[own.condition];
    if (set->terms->negated) {
        compiled->nots |= UINT64_C(1) << index;
        return 0;
    }
    struct weir_compiled_member *member = weir_arena_alloc(compiler->rules->arena, 1, sizeof(*member));
    if (!member)
        return weir_compile_nomem(compiler);
    *member = (struct weir_compiled_member){ compiled->lists, set->condition };
    compiled->lists = member;
    return 0;
}

/* A list, or a `not`: a condition of its own, which its terms lead to. */
static int set_intern(struct weir_compiler *compiler, struct weir_wanted *wanted)
{
    uint32_t scope = wanted->attribute | WEIR_SCOPE_SETS;
    unsigned index = 0;
    int error = 0;
    wanted->condition = weir_map_find(&compiler->patterns, scope, wanted->pattern);
    if (wanted->condition)
        return 0;
    wanted->condition = ++compiler->conditions_count;
    compiler->rules->attributes[wanted->attribute].has_sets = true;
    if (weir_map_insert(&compiler->patterns, scope, wanted->pattern, wanted->condition) != 0)
        return weir_compile_nomem(compiler);
    if (wanted->terms->negated)
        error = not_add(compiler, wanted, &index);
    for (size_t i = 0; i < wanted->terms->count && !error; i++)
        error = term_enter(compiler, wanted, &wanted->terms->list[i], index);
    return error;
}

int weir_compile_condition(struct weir_compiler *compiler, struct weir_wanted *wanted)
{
    const struct weir_condition_values *terms = wanted->terms;
    bool set = terms && (terms->negated || terms->count > 1);
    int error = set     ? set_intern(compiler, wanted)
                : terms ? block_intern(compiler, wanted, &terms->list[0].block)
                        : pattern_intern(compiler, wanted);
    if (!error && compiler->rules->terms)
        compiler->rules->terms[wanted->condition].alone = true;
    return error;
}

static int excess_fail(struct weir_compiler *compiler, uint32_t attribute, uint32_t condition)
{
    const struct weir_glob_item *item = compiler->globs[attribute];
    while (item && item->glob.id != condition)
        item = item->next;
    weir_assert(item);
    return weir_config_fail(compiler->fault, WEIR_ELIMIT, item->mark,
                            "more than %d patterns for \"%s\" that differ only between their first and last *",
                            WEIR_GLOBS_INNER_MAX, compiler->rules->attributes[attribute].name);
}

static int globs_compile(struct weir_compiler *compiler, uint32_t attribute)
{
    struct weir_arena *arena = compiler->rules->arena;
    size_t count = 0;
    uint32_t excess = 0;
    for (const struct weir_glob_item *item = compiler->globs[attribute]; item; item = item->next)
        count++;
    struct weir_glob *globs = weir_arena_alloc(arena, count, sizeof(*globs));
    if (count && !globs)
        return weir_compile_nomem(compiler);
    count = 0;
    for (const struct weir_glob_item *item = compiler->globs[attribute]; item; item = item->next)
        globs[count++] = item->glob;
    int error = weir_globs_init(&compiler->rules->attributes[attribute].globs, arena, globs, count, &excess);
    if (error == WEIR_ELIMIT)
        return excess_fail(compiler, attribute, excess);
    return error ? weir_compile_nomem(compiler) : 0;
}

static int blocks_compile(struct weir_compiler *compiler, uint32_t attribute)
{
    size_t count = 0;
    for (const struct weir_block_item *item = compiler->blocks[attribute]; item; item = item->next)
        count++;
    struct weir_blocks_item *items = weir_arena_alloc(compiler->rules->arena, count, sizeof(*items));
    if (count && !items)
        return weir_compile_nomem(compiler);
    count = 0;
    for (const struct weir_block_item *item = compiler->blocks[attribute]; item; item = item->next)
        items[count++] = (struct weir_blocks_item){ item->block, item->id, -1 };
    weir_blocks_init(&compiler->rules->attributes[attribute].blocks, items, count);
    return 0;
}

static void absent_compile(struct weir_rules *rules)
{
    uint32_t *at = rules->absent_hold;
    for (uint32_t i = 1; i <= rules->attributes_count; i++)
        if (rules->attributes[i].nots_count > 0)
            *at++ = i;
    *at = 0; /* there is room: it was made for all attributes and one more */
}

int weir_compile_end(struct weir_compiler *compiler)
{
    int error = 0;
    for (uint32_t i = 1; i <= compiler->rules->attributes_count && !error; i++) {
        error = globs_compile(compiler, i);
        if (!error)
            error = blocks_compile(compiler, i);
    }
    if (!error)
        absent_compile(compiler->rules);
    return error;
}
