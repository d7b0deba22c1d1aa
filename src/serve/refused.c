/* SPDX-License-Identifier: Apache-2.0
 *
 * A key is counted by its hash, and only one that is new in the sketch is spelt out. Where the verdict comes when the
 * request has gone, its keys are spelt out before. Once something is counted a timer runs, which shows it to readers
 * and stops. Some are picked for people (observe/refusals.h). Called by decide.c, excepted.c, shared.c,
 * resp_throttle.c and resp_cell.c, and by loop.c where a setup is new. */
#include "serve/refused.h"

#include <stdlib.h>

#include "observe/refusals.h"
#include "serve/decide.h"

#define SHOWN_PER_SECOND 1 /* of each limit and thread */

/* Some are picked for the log, and a few in any case for who looks (observe/last.h), unless nobody is to be counted.
 * Without memory for them there are none. */
static void configure_lines(struct weir_loop *loop)
{
    const struct weir_config *config = loop->setup->config;
    const uint32_t shown = config->top_keys == WEIR_TOP_OFF ? 0 : SHOWN_PER_SECOND;
    const uint32_t per_second = config->log_refusals > 0 ? config->log_refusals : shown;
    struct weir_refusals *refusals = atomic_load_explicit(&loop->refusals, memory_order_relaxed);
    if (!refusals && per_second > 0 && weir_refusals_create(&refusals) == 0)
        atomic_store_explicit(&loop->refusals, refusals, memory_order_release);
    if (refusals)
        weir_refusals_rate(refusals, per_second);
}

void weir_refused_configure(struct weir_loop *loop, uint64_t now_ns)
{
    if (loop->common->top)
        configure_lines(loop);
    if (loop->common->top)
        weir_top_configure(loop->common->top, loop->number, loop->setup->config->top_keys, now_ns);
}

static enum weir_top_keys keys_of(const struct weir_loop *loop)
{
    return loop->common->top ? weir_top_keys(loop->common->top, loop->number) : WEIR_TOP_OFF;
}

/* ---- showing ---- */

static void show_later(struct weir_loop *loop, uint64_t now_ns);

static void on_show(struct weir_timer *timer, const struct weir_time *time)
{
    struct weir_loop *loop = (struct weir_loop *)((uint8_t *)timer - offsetof(struct weir_loop, top_timer));
    loop->top_waits = false;
    if (!weir_top_show(loop->common->top, loop->number, time->now_ns))
        show_later(loop, time->now_ns);
}

/* Without memory for a timer, what comes next tries again. */
static void show_later(struct weir_loop *loop, uint64_t now_ns)
{
    loop->top_timer.on_due = on_show;
    loop->top_waits = weir_timer_start(&loop->timers, &loop->top_timer, now_ns + WEIR_TOP_SHOW_NS) == 0;
}

static void show_soon(struct weir_loop *loop, uint64_t now_ns)
{
    if (!loop->top_waits && !loop->draining)
        show_later(loop, now_ns);
}

/* Whether a label is wanted. */
static bool count(struct weir_loop *loop, const struct weir_top_refusal *refusal)
{
    if (keys_of(loop) == WEIR_TOP_OFF)
        return false;
    bool fresh = weir_top_refused(loop->common->top, loop->number, refusal);
    show_soon(loop, refusal->now_ns);
    return fresh;
}

/* ---- what is refused ---- */

static void spell(const struct weir_loop *loop, const struct weir_question *question, const struct weir_rule *rule,
                  struct weir_top_label *ret_label)
{
    struct weir_rules_key key;
    weir_rules_key(loop->setup->rules, rule, question->attributes, question->count, &key);
    weir_top_label_init(ret_label, key.values, key.count);
}

static bool refuses(const struct weir_verdict *verdict)
{
    return !verdict->admitted && !verdict->shadow;
}

/* A line wants it: `label` is NULL where its text is not known, or not wanted. */
static void put(struct weir_loop *loop, const struct weir_top_refusal *refusal, uint64_t cost, bool banned,
                const struct weir_top_label *label)
{
    struct weir_refusal line = { .hash = refusal->hash,
                                 .now_ns = refusal->now_ns,
                                 .cost = cost,
                                 .retry_after_ns = refusal->retry_after_ns,
                                 .slot = refusal->slot,
                                 .banned = banned };
    if (label)
        line.label = *label;
    weir_refusals_put(atomic_load_explicit(&loop->refusals, memory_order_relaxed), &line);
}

static bool wants_line(const struct weir_loop *loop, const struct weir_top_refusal *refusal)
{
    struct weir_refusals *refusals = atomic_load_explicit(&loop->refusals, memory_order_relaxed);
    return refusals && weir_refusals_wants(refusals, refusal->slot, refusal->now_ns);
}

/* Whether nobody is to hear of refusals. */
static bool is_deaf(const struct weir_loop *loop)
{
    return keys_of(loop) == WEIR_TOP_OFF && !atomic_load_explicit(&loop->refusals, memory_order_relaxed);
}

void weir_refused_charge(struct weir_loop *loop, const struct weir_question *question,
                         const struct weir_outcome *outcome, size_t i, uint64_t now_ns)
{
    const struct weir_rule *rule = outcome->match.rules[i];
    const struct weir_verdict *verdict = &outcome->verdicts[i];
    struct weir_top_label label;
    if (is_deaf(loop) || !refuses(verdict))
        return;
    const struct weir_top_refusal refusal = {
        .hash = rule->limit.remote ? outcome->match.remote_keys[i].id[0] : outcome->match.charges[i].key.hash,
        .slot = weir_loop_slot(loop, rule->index),
        .now_ns = now_ns,
        .retry_after_ns = verdict->retry_after_ns,
    };
    const bool fresh = count(loop, &refusal), line = wants_line(loop, &refusal);
    const bool spelt = fresh || (line && keys_of(loop) == WEIR_TOP_TEXT);
    if (spelt)
        spell(loop, question, rule, &label);
    if (fresh)
        weir_top_label(loop->common->top, loop->number, &label);
    if (line)
        put(loop, &refusal, outcome->match.charges[i].cost, outcome->banned, spelt ? &label : NULL);
}

void weir_refused_outcome(struct weir_loop *loop, const struct weir_question *question,
                          const struct weir_outcome *outcome, uint64_t now_ns)
{
    for (size_t i = 0; i < outcome->match.count && !is_deaf(loop); i++)
        weir_refused_charge(loop, question, outcome, i, now_ns);
}

/* One that is new in the sketch, or that a line wants. */
static void tell_cell(struct weir_loop *loop, const struct weir_refused_cell *cell,
                      const struct weir_top_refusal *refusal, bool fresh, bool line)
{
    struct weir_top_label label;
    const bool spelt = fresh || keys_of(loop) == WEIR_TOP_TEXT;
    if (spelt)
        weir_top_label_init(&label, &cell->key, 1);
    if (fresh)
        weir_top_label(loop->common->top, loop->number, &label);
    if (line)
        put(loop, refusal, cell->cost, false, spelt ? &label : NULL);
}

/* A flood of refusals is what this is for: what is the same for all of them is looked up once. */
void weir_refused_cells(struct weir_loop *loop, const struct weir_refused_cell *cells, size_t count, uint64_t now_ns)
{
    struct weir_top *top = keys_of(loop) == WEIR_TOP_OFF ? NULL : loop->common->top;
    struct weir_refusals *refusals = atomic_load_explicit(&loop->refusals, memory_order_relaxed);
    for (size_t i = 0; top && i < count; i++)
        weir_top_prefetch(top, cells[i].hash);
    for (size_t i = 0; (top || refusals) && i < count; i++) {
        const struct weir_top_refusal refusal = { .hash = cells[i].hash,
                                                  .slot = WEIR_METRICS_THROTTLE,
                                                  .now_ns = now_ns,
                                                  .retry_after_ns = cells[i].retry_after_ns };
        const bool fresh = top && weir_top_refused(top, loop->number, &refusal);
        const bool line = refusals && weir_refusals_wants(refusals, refusal.slot, now_ns);
        if (refusals && !line) {
            weir_refusals_left_out(refusals, refusal.slot, count - i - 1);
            refusals = NULL;
        }
        if (fresh || line)
            tell_cell(loop, &cells[i], &refusal, fresh, line);
    }
    if (top && count > 0)
        show_soon(loop, now_ns);
}

/* ---- what is decided later ---- */

struct weir_top_label *weir_refused_keep(const struct weir_loop *loop, const struct weir_question *question,
                                         const struct weir_match *match)
{
    if (keys_of(loop) != WEIR_TOP_TEXT || question->peek)
        return NULL;
    struct weir_top_label *labels = malloc(match->count * sizeof(labels[0]));
    for (size_t i = 0; labels && i < match->count; i++)
        spell(loop, question, match->rules[i], &labels[i]);
    return labels;
}

struct weir_top_label *weir_refused_keep_each(const struct weir_loop *loop,
                                              const struct weir_question *const *questions,
                                              const struct weir_match *match)
{
    struct weir_top_label *labels = keys_of(loop) == WEIR_TOP_TEXT ? malloc(match->count * sizeof(labels[0])) : NULL;
    for (size_t i = 0; labels && i < match->count; i++)
        spell(loop, questions[i], match->rules[i], &labels[i]);
    return labels;
}

struct weir_top_label *weir_refused_keep_cell(const struct weir_loop *loop, struct weir_slice key)
{
    struct weir_top_label *label = keys_of(loop) == WEIR_TOP_TEXT ? malloc(sizeof(*label)) : NULL;
    if (label)
        weir_top_label_init(label, &key, 1);
    return label;
}

void weir_refused_settled(struct weir_loop *loop, const struct weir_transaction *transaction, uint64_t now_ns)
{
    const struct weir_top_label *labels = transaction->labels;
    if (is_deaf(loop))
        return;
    for (size_t i = 0; i < transaction->count; i++) {
        const struct weir_part *part = &transaction->parts[i];
        if (!refuses(&part->verdict))
            continue;
        const struct weir_top_refusal refusal = {
            .hash = part->limit->remote ? part->key.id[0] : part->charge.key.hash,
            .slot = (uint32_t)part->number,
            .now_ns = now_ns,
            .retry_after_ns = part->verdict.retry_after_ns,
        };
        if (count(loop, &refusal) && labels)
            weir_top_label(loop->common->top, loop->number, &labels[i]);
        if (wants_line(loop, &refusal))
            put(loop, &refusal, part->charge.cost, false, labels ? &labels[i] : NULL);
    }
}
