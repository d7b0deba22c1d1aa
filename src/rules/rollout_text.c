/* SPDX-License-Identifier: Apache-2.0
 *
 * Three steps: what the texts say otherwise is checked (`compare`), the base is written anew with the rollouts in their
 * places (`write_limit` for each limit), and what came of it is read and compared (`verify`). The last makes the middle
 * one safe: where a text is written in a way that it does not know, nothing comes of it. A rollout is put in before the
 * key `rate`, which each limit has. Called by editor_rollout.c. */
#include "rules/rollout_text.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rules/limit_decode.h"
#include "rules/rollout.h"
#include "rules/rollout_set.h"

#define LINE_MAX_SIZE 256 /* of a rollout, with its rate and numbers */
#define OLD_LINE_MAX 4096 /* of one that people may have written, with blanks */

__attribute__((format(printf, 3, 4))) static void tell(struct weir_config_faults *faults, struct weir_mark mark,
                                                       const char *format, ...)
{
    va_list list;
    if (faults->count == WEIR_CONFIG_FAULTS_MAX)
        return;
    struct weir_config_fault *fault = &faults->list[faults->count++];
    fault->mark = mark;
    va_start(list, format);
    (void)vsnprintf(fault->text, sizeof(fault->text), format, list);
    va_end(list);
}

/* ---- what they say otherwise ---- */

#define NOWHERE ((struct weir_mark){ 0, 0 })
#define WHOLE "a rollout changes rate, burst and mode alone: apply that whole, by itself"

static void compare_limit(const struct weir_rollout_item *from, const struct weir_rollout_item *to,
                          struct weir_config_faults *faults)
{
    const char *key = weir_rollout_other_key(from->node, to->node, true);
    if (weir_yaml_find(to->node, "rollout"))
        tell(faults, to->limit->mark, "limit \"%s\" has a rollout itself: write what all its keys are to have at last",
             to->limit->name);
    else if (key)
        tell(faults, to->limit->mark, "limit \"%s\" has another \"%.64s\" than now; " WHOLE, to->limit->name, key);
    else if (to->limit->key_count == 0 && !weir_rollout_same_spec(&from->limit->spec, &to->limit->spec))
        tell(faults, to->limit->mark,
             "limit \"%s\" has no key, and one counter has no share of keys: apply its change whole, by itself",
             to->limit->name);
}

/* Whether both are for the same nodes. */
static bool same_nodes(const struct weir_config *one, const struct weir_config *other)
{
    bool same = one->rule_nodes_count == other->rule_nodes_count;
    for (size_t i = 0; same && i < one->rule_nodes_count; i++) {
        same = false; /* each stands there once */
        for (size_t k = 0; !same && k < other->rule_nodes_count; k++)
            same = strcmp(one->rule_nodes[i], other->rule_nodes[k]) == 0;
    }
    return same;
}

static int compare(const struct weir_rollout_set *base, const struct weir_rollout_set *target,
                   struct weir_config_faults *faults)
{
    faults->count = 0;
    for (size_t i = 0; i < base->count; i++)
        if (!weir_rollout_find(target, base->items[i].limit->name))
            tell(faults, NOWHERE, "limit \"%s\" is gone, which is there now; " WHOLE, base->items[i].limit->name);
    for (size_t i = 0; i < target->count; i++) {
        const struct weir_rollout_item *from = weir_rollout_find(base, target->items[i].limit->name);
        if (from)
            compare_limit(from, &target->items[i], faults);
        else
            tell(faults, target->items[i].limit->mark, "limit \"%s\" is not there now; " WHOLE,
                 target->items[i].limit->name);
    }
    if (base->config->unmatched != target->config->unmatched)
        tell(faults, NOWHERE, "\"unmatched\" is another than now; " WHOLE);
    if (!same_nodes(base->config, target->config))
        tell(faults, target->config->mark_rule_nodes, "\"nodes\" are others than now; " WHOLE);
    return faults->count > 0 ? WEIR_EINVAL : 0;
}

/* ---- the line ---- */

/* What the target gives the limit that it has not; "" where that is nothing. */
static void line_make(const struct weir_rollout_item *from, const struct weir_rollout_item *to, uint32_t share,
                      char line[LINE_MAX_SIZE])
{
    const struct weir_limit_spec *a = &from->limit->spec, *b = &to->limit->spec;
    const bool rate = a->count != b->count || a->period_ns != b->period_ns || a->calendar != b->calendar ||
                      a->calendar_count != b->calendar_count;
    const uint64_t burst = a->burst == b->burst ? 0 : b->burst ? b->burst : b->count;
    char percent[WEIR_ROLLOUT_SIZE], burst_text[32] = "", mode[32] = "";
    line[0] = '\0';
    if (weir_rollout_same_spec(a, b))
        return;
    weir_rollout_format(share, percent, sizeof(percent));
    if (burst > 0)
        (void)snprintf(burst_text, sizeof(burst_text), ", burst: %" PRIu64, burst);
    if (a->mode != b->mode)
        (void)snprintf(mode, sizeof(mode), ", mode: %s", weir_mode_words[b->mode]);
    const struct weir_yaml_node *text = weir_yaml_find(to->node, "rate");
    (void)snprintf(line, LINE_MAX_SIZE, "rollout: { percent: %s%s%.100s%s%s }", percent, rate ? ", rate: " : "",
                   rate ? (const char *)text->value->text.data : "", burst_text, mode);
}

/* ---- the text ---- */

/* A place in the text, which goes forward. Columns count characters. */
struct cursor {
    size_t at;
    struct weir_mark mark;
};

static size_t seek(struct cursor *cursor, struct weir_slice text, struct weir_mark to)
{
    const unsigned char *bytes = text.data;
    while (cursor->at < text.size &&
           (cursor->mark.line < to.line || (cursor->mark.line == to.line && cursor->mark.column < to.column))) {
        cursor->mark.column++;
        if (bytes[cursor->at] == '\n')
            cursor->mark = (struct weir_mark){ cursor->mark.line + 1, 1 };
        for (cursor->at++; cursor->at < text.size && (bytes[cursor->at] & 0xc0) == 0x80; cursor->at++) {
        }
    }
    return cursor->at;
}

/* The new text as far as it is written, and how far of the old one is in it. */
struct writer {
    struct weir_slice old;
    char *text;
    size_t size, room, taken;
};

/* The old text up to `at`, then `bytes`; and goes on behind what is left out. */
static void put(struct writer *writer, size_t at, const char *bytes, size_t behind)
{
    const size_t kept = at - writer->taken, size = strlen(bytes);
    if (at < writer->taken || behind < at || writer->room - writer->size <= kept + size)
        return; /* verify sees it */
    memcpy(writer->text + writer->size, (const char *)writer->old.data + writer->taken, kept);
    memcpy(writer->text + writer->size + kept, bytes, size);
    writer->size += kept + size;
    writer->taken = behind;
}

static void put_new(struct writer *writer, struct cursor cursor, const struct weir_yaml_node *limit, const char *line)
{
    char text[LINE_MAX_SIZE + 80];
    const struct weir_yaml_node *rate = weir_yaml_find(limit, "rate");
    const bool flow = cursor.at < writer->old.size && ((const char *)writer->old.data)[cursor.at] == '{';
    const size_t at = seek(&cursor, writer->old, rate->mark);
    const unsigned indent = rate->mark.column - 1;
    if (flow)
        (void)snprintf(text, sizeof(text), "%s, ", line);
    else
        (void)snprintf(text, sizeof(text), "%s\n%*s", line, (int)(indent < 64 ? indent : 64), "");
    put(writer, at, text, at);
}

/* In the place of the one that is there: in one line, { … }. */
static void put_instead(struct writer *writer, struct cursor cursor, const struct weir_yaml_node *key, const char *line)
{
    const char *old = writer->old.data;
    const size_t begin = seek(&cursor, writer->old, key->mark), value = seek(&cursor, writer->old, key->value->mark);
    const size_t rest = writer->old.size - value;
    const char *end = memchr(old + value, '}', rest < OLD_LINE_MAX ? rest : OLD_LINE_MAX);
    size_t behind = end ? (size_t)(end - old) + 1 : begin;
    if (!line[0] && key->next) { /* it goes, with what stands before the next key */
        const size_t next = seek(&cursor, writer->old, key->next->mark);
        while (behind < next && strchr(" ,\r\n", old[behind]))
            behind++;
    }
    put(writer, begin, line, behind);
}

static void write_limit(struct writer *writer, struct cursor *cursor, const struct weir_rollout_item *from,
                        const struct weir_rollout_item *to, uint32_t share)
{
    char line[LINE_MAX_SIZE];
    const struct weir_yaml_node *key = weir_yaml_find(from->node, "rollout");
    line_make(from, to, share, line);
    (void)seek(cursor, writer->old, from->node->mark);
    if (key)
        put_instead(writer, *cursor, key, line);
    else if (line[0])
        put_new(writer, *cursor, from->node, line);
}

static int write_text(const struct weir_rollout_set *base, const struct weir_rollout_set *target, uint32_t share,
                      char **ret_text, size_t *ret_size)
{
    struct writer writer = { .old = base->text, .room = base->text.size + base->count * (LINE_MAX_SIZE + 80) + 1 };
    struct cursor cursor = { 0, { 1, 1 } };
    writer.text = malloc(writer.room);
    if (!writer.text)
        return WEIR_ENOMEM;
    for (size_t i = 0; i < base->count; i++)
        write_limit(&writer, &cursor, &base->items[i], weir_rollout_find(target, base->items[i].limit->name), share);
    put(&writer, base->text.size, "", base->text.size);
    writer.text[writer.size] = '\0';
    *ret_text = writer.text;
    *ret_size = writer.size;
    return 0;
}

/* ---- whether it says what it is to say ---- */

static bool is_meant(const struct weir_rollout_item *from, const struct weir_rollout_item *made,
                     const struct weir_rollout_item *to, uint32_t share)
{
    const struct weir_limit_spec *rollout = weir_rollout_spec(made->limit);
    if (strcmp(from->limit->name, made->limit->name) != 0 || weir_rollout_other_key(from->node, made->node, false))
        return false;
    if (weir_rollout_same_spec(&from->limit->spec, &to->limit->spec))
        return !rollout;
    return rollout && made->limit->rollout == share && weir_rollout_same_spec(rollout, &to->limit->spec);
}

static int verify(const struct weir_config *config, const struct weir_rollout_set *base,
                  const struct weir_rollout_set *target, uint32_t share, struct weir_slice text,
                  struct weir_config_faults *faults)
{
    struct weir_rollout_set made = { .count = 0 };
    const char *name = NULL;
    int error = weir_rollout_set_init(&made, config, text, faults);
    bool meant = !error && made.count == base->count && made.config->unmatched == base->config->unmatched;
    for (size_t i = 0; i < base->count && meant; i++) {
        name = base->items[i].limit->name;
        meant = is_meant(&base->items[i], &made.items[i], weir_rollout_find(target, name), share);
    }
    weir_rollout_set_deinit(&made);
    if (error == WEIR_ENOMEM || meant)
        return error;
    faults->count = 0;
    tell(faults, NOWHERE,
         "the rules as they are now are written in a way that a program cannot put a rollout into%s%s%s: put it there "
         "by hand, { percent: … } in one line, and apply them",
         name ? " (limit \"" : "", name ? name : "", name ? "\")" : "");
    return WEIR_EINVAL;
}

/* Its faults are not of the target's text. */
static int base_init(struct weir_rollout_set *ret_set, const struct weir_config *config, struct weir_slice text,
                     struct weir_config_faults *faults)
{
    int error = weir_rollout_set_init(ret_set, config, text, faults);
    const struct weir_config_fault fault = faults->list[0];
    if (!error || error == WEIR_ENOMEM)
        return error;
    faults->count = 0;
    tell(faults, NOWHERE, "the rules as they are now are not understood here: line %u: %.200s", fault.mark.line,
         fault.text);
    return error;
}

int weir_rollout_text(const struct weir_config *config, struct weir_slice base, struct weir_slice target,
                      uint32_t share, char **ret_text, size_t *ret_size, struct weir_config_faults *ret_faults)
{
    struct weir_rollout_set from = { .count = 0 }, to = { .count = 0 };
    char *text = NULL;
    size_t size = 0;
    int error = weir_rollout_set_init(&to, config, target, ret_faults);
    if (!error)
        error = base_init(&from, config, base, ret_faults);
    if (!error)
        error = compare(&from, &to, ret_faults);
    if (!error && share == WEIR_ROLLOUT_ALL) {
        size = target.size;
        text = strndup(target.data, size);
        error = text ? 0 : WEIR_ENOMEM;
    } else if (!error) {
        error = write_text(&from, &to, share, &text, &size);
        if (!error)
            error = verify(config, &from, &to, share, (struct weir_slice){ text, size }, ret_faults);
    }
    weir_rollout_set_deinit(&from);
    weir_rollout_set_deinit(&to);
    if (error) {
        free(text);
        return error;
    }
    *ret_text = text;
    *ret_size = size;
    return 0;
}

bool weir_rollout_same_base(const struct weir_config *config, struct weir_slice one, struct weir_slice other)
{
    struct weir_rollout_set a = { .count = 0 }, b = { .count = 0 };
    struct weir_config_faults *faults = calloc(1, sizeof(*faults));
    bool same = faults && !weir_rollout_set_init(&a, config, one, faults) &&
                !weir_rollout_set_init(&b, config, other, faults);
    same = same && a.count == b.count && a.config->unmatched == b.config->unmatched && same_nodes(a.config, b.config);
    for (size_t i = 0; i < a.count && same; i++)
        same = strcmp(a.items[i].limit->name, b.items[i].limit->name) == 0 &&
               !weir_rollout_other_key(a.items[i].node, b.items[i].node, false);
    weir_rollout_set_deinit(&a);
    weir_rollout_set_deinit(&b);
    free(faults);
    return same;
}

bool weir_rollout_leads_to(const struct weir_config *config, struct weir_slice text, struct weir_slice target)
{
    struct weir_rollout_set from = { .count = 0 }, to = { .count = 0 };
    struct weir_config_faults *faults = calloc(1, sizeof(*faults));
    bool read = faults && !weir_rollout_set_init(&from, config, text, faults) &&
                !weir_rollout_set_init(&to, config, target, faults);
    bool leads = true;
    for (size_t i = 0; read && leads && i < from.count; i++) {
        const struct weir_limit_spec *spec = weir_rollout_spec(from.items[i].limit);
        const struct weir_rollout_item *goal = weir_rollout_find(&to, from.items[i].limit->name);
        leads = !spec || (goal && weir_rollout_same_spec(spec, &goal->limit->spec));
    }
    weir_rollout_set_deinit(&from);
    weir_rollout_set_deinit(&to);
    free(faults);
    return leads;
}
