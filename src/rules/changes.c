/* SPDX-License-Identifier: Apache-2.0
 *
 * Both lists of limits are sorted by name, and each limit is looked up in the other list. A limit has changed if the
 * hash of its definition has (rules/yaml_text.h), or if only one of the two is understood here. Only then rate, burst,
 * mode, sharing and overrides are compared, to find words for the change. Called by cli/serve.c at each reload. */
#include "rules/changes.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rules/rollout.h"
#include "rules/rollout_set.h"
#include "rules/sharing_decode.h"

#define ITEM_MAX 600 /* one limit's: a name of 128 bytes, and three times its numbers */
#define MORE_MAX 32  /* " and 32000 more" */

/* ---- a list that says how many it left out ---- */

struct list {
    char *at;
    size_t size, used, named, more;
};

static void list_add(struct list *list, const char *item)
{
    size_t length = strlen(item);
    if (list->more > 0 || list->named == WEIR_CHANGES_NAMED_MAX || list->used + length + 2 + MORE_MAX > list->size) {
        list->more++;
        return;
    }
    list->used += (size_t)snprintf(list->at + list->used, list->size - list->used, "%s%s", list->named ? ", " : "",
                                   item);
    list->named++;
}

static void list_end(const struct list *list)
{
    if (list->more > 0)
        (void)snprintf(list->at + list->used, list->size - list->used, list->named ? " and %zu more" : "%zu limits",
                       list->more);
}

/* ---- one limit, in the words of its file ---- */

struct words {
    char text[128];
};

static struct words words_of(const struct weir_limit_spec *spec, bool algorithm)
{
    static const char *const modes[] = {
        [WEIR_MODE_ENFORCE] = "", [WEIR_MODE_SHADOW] = " in shadow", [WEIR_MODE_OFF] = " off"
    };
    char rate[64], burst[32] = "";
    struct words words;
    weir_rate_format(spec, rate, sizeof(rate));
    if (spec->burst)
        (void)snprintf(burst, sizeof(burst), " burst %" PRIu64, spec->burst);
    (void)snprintf(words.text, sizeof(words.text), "%s%s%s%s%s%s",
                   algorithm ? weir_algorithm_name(spec->algorithm) : "", algorithm ? " " : "", rate,
                   spec->algorithm == WEIR_CONCURRENCY ? " at once" : "", burst, modes[spec->mode]);
    return words;
}

static bool specs_differ(const struct weir_limit_spec *one, const struct weir_limit_spec *other)
{
    return one->count != other->count || one->period_ns != other->period_ns || one->burst != other->burst ||
           one->mode != other->mode;
}

/* Those that name values: levels and a rollout are told by themselves. */
static size_t named(const struct weir_config_limit *limit)
{
    return limit->overrides_count - limit->levels_count - (limit->rollout > 0);
}

static bool lists_differ(const struct weir_config_override *a, size_t a_count, const struct weir_config_override *b,
                         size_t b_count)
{
    bool differ = a_count != b_count;
    for (size_t i = 0; i < a_count && !differ; i++)
        differ = strcmp(a[i].variant, b[i].variant) != 0 || specs_differ(&a[i].spec, &b[i].spec);
    return differ;
}

static bool overrides_differ(const struct weir_config_limit *a, const struct weir_config_limit *b)
{
    return lists_differ(a->overrides, named(a), b->overrides, named(b));
}

/* In whatever order. */
static bool levels_differ(const struct weir_config_limit *a, const struct weir_config_limit *b)
{
    bool differ = a->levels_count != b->levels_count;
    for (size_t i = named(a); i < named(a) + a->levels_count && !differ; i++) {
        differ = true;
        for (size_t j = named(b); j < named(b) + b->levels_count && differ; j++)
            differ = lists_differ(&a->overrides[i], 1, &b->overrides[j], 1);
    }
    return differ;
}

/* ", 200/min for 10 % -> 50 % of its keys". False: nothing to tell. */
static bool add_rollout(char *item, const struct weir_config_limit *was, const struct weir_config_limit *is,
                        const char *comma)
{
    const struct weir_limit_spec *before = weir_rollout_spec(was), *now = weir_rollout_spec(is);
    char from[WEIR_ROLLOUT_SIZE], to[WEIR_ROLLOUT_SIZE];
    size_t used = strlen(item);
    weir_rollout_format(was->rollout, from, sizeof(from));
    weir_rollout_format(is->rollout, to, sizeof(to));
    if (was->rollout == is->rollout && (!now || !specs_differ(before, now)))
        return false;
    if (now && before)
        (void)snprintf(item + used, ITEM_MAX - used, "%s %s for %s %% -> %s %% of its keys", comma,
                       words_of(now, false).text, from, to);
    else if (now)
        (void)snprintf(item + used, ITEM_MAX - used, "%s %s for %s %% of its keys", comma, words_of(now, false).text,
                       to);
    else
        (void)snprintf(item + used, ITEM_MAX - used, " (the rollout to %s %% of its keys ended)", from);
    return true;
}

/* What changed besides the numbers, as far as it has a name. */
static void add_rest(char *item, const struct weir_config_limit *was, const struct weir_config_limit *is, bool numbers)
{
    bool sharing = was->sharing != is->sharing;
    bool overrides = overrides_differ(was, is), levels = levels_differ(was, is);
    const char *parts = overrides && levels ? "overrides, levels" : overrides ? "overrides" : levels ? "levels" : "";
    size_t used = strlen(item);
    if (is->undecidable)
        (void)snprintf(item + used, ITEM_MAX - used, " (a definition that is not understood here)");
    else if (sharing)
        (void)snprintf(item + used, ITEM_MAX - used, " (sharing %s -> %s%s%s)", weir_sharing_words[was->sharing],
                       weir_sharing_words[is->sharing], parts[0] ? ", " : "", parts);
    else if (parts[0])
        (void)snprintf(item + used, ITEM_MAX - used, " (%s)", parts);
    else if (!numbers)
        (void)snprintf(item + used, ITEM_MAX - used, " (other settings)");
}

static void change_format(const struct weir_config_limit *was, const struct weir_config_limit *is, char *item)
{
    bool algorithm = was->spec.algorithm != is->spec.algorithm;
    const struct words before = words_of(&was->spec, algorithm), after = words_of(&is->spec, algorithm);
    bool numbers = strcmp(before.text, after.text) != 0;
    (void)snprintf(item, ITEM_MAX, "%.128s", is->name);
    if (numbers)
        (void)snprintf(item + strlen(item), ITEM_MAX - strlen(item), " %s -> %s", before.text, after.text);
    numbers = add_rollout(item, was, is, numbers ? "," : "") || numbers;
    add_rest(item, was, is, numbers);
}

/* ---- all of them ---- */

static int by_name(const void *a, const void *b)
{
    const struct weir_config_limit *const *one = a, *const *other = b;
    return strcmp((*one)->name, (*other)->name);
}

static const struct weir_config_limit **sorted(const struct weir_config *config)
{
    const struct weir_config_limit **list = calloc(config->limits_count + 1, sizeof(list[0]));
    for (size_t i = 0; list && i < config->limits_count; i++)
        list[i] = &config->limits[i];
    if (list)
        qsort(list, config->limits_count, sizeof(list[0]), by_name);
    return list;
}

static const struct weir_config_limit *find(const struct weir_config_limit *const *list, size_t count,
                                            const struct weir_config_limit *like)
{
    const struct weir_config_limit *const *found = bsearch(&like, list, count, sizeof(list[0]), by_name);
    return found ? *found : NULL;
}

struct changes {
    struct list text, alone;
    size_t count;
    bool others; /* there are other nodes, which hear of it by a reload of their own alone */
};

/* Of what comes and goes nodes do not tell each other, nor of what has no channel (rules/revise.h). */
static void note(struct changes *changes, const struct weir_config_limit *limit, const char *item, bool told)
{
    changes->count++;
    list_add(&changes->text, item);
    if (changes->others && !told)
        list_add(&changes->alone, limit->name);
}

static void compare(struct changes *changes, const struct weir_config_limit *was, struct weir_config_limit *is,
                    uint64_t before_wall_ns, uint64_t now_wall_ns)
{
    char item[ITEM_MAX];
    bool same = was && was->definition == is->definition && was->undecidable == is->undecidable;
    is->since_wall_ns = !same ? now_wall_ns : was->since_wall_ns ? was->since_wall_ns : before_wall_ns;
    if (same)
        return;
    if (was)
        change_format(was, is, item);
    else
        (void)snprintf(item, sizeof(item), "%.128s came (%s)", is->name, words_of(&is->spec, false).text);
    note(changes, is, item, was && was->owned && is->owned);
}

int weir_config_changes(const struct weir_config *before, uint64_t before_wall_ns, struct weir_config *now,
                        uint64_t now_wall_ns, struct weir_changes *ret_changes)
{
    struct changes changes = { .text = { ret_changes->text, sizeof(ret_changes->text), 0, 0, 0 },
                               .alone = { ret_changes->alone, sizeof(ret_changes->alone), 0, 0, 0 },
                               .others = weir_config_nodes(now) > 1 && now->rules.store.size == 0 };
    const struct weir_config_limit **old = sorted(before), **new = sorted(now);
    ret_changes->text[0] = ret_changes->alone[0] = '\0';
    for (size_t i = 0; old && new &&i < now->limits_count; i++)
        compare(&changes, find(old, before->limits_count, &now->limits[i]), &now->limits[i], before_wall_ns,
                now_wall_ns);
    for (size_t i = 0; old && new &&i < before->limits_count; i++) {
        const struct weir_config_limit *was = &before->limits[i];
        char item[ITEM_MAX];
        if (find(new, now->limits_count, was))
            continue;
        (void)snprintf(item, sizeof(item), "%.128s went (%s)", was->name, words_of(&was->spec, false).text);
        note(&changes, was, item, false);
    }
    int error = old && new ? 0 : WEIR_ENOMEM;
    free(old);
    free(new);
    list_end(&changes.text);
    list_end(&changes.alone);
    ret_changes->count = changes.count;
    return error;
}
