/* SPDX-License-Identifier: Apache-2.0
 *
 * Limits in the order of the text that was tried, then those that it has no more. Called by rules_replay.c. */
#include "serve/rules_replay_tell.h"

#include <string.h>

#include "base/checked.h"
#include "wire/json.h"
#include "wire/text.h"

static bool same_text(const char *a, const char *b)
{
    return a == b || (a && b && strcmp(a, b) == 0);
}

/* Whether the same requests meet both, under the same keys and at the same cost. */
static bool counts_the_same(const struct weir_config_limit *a, const struct weir_config_limit *b)
{
    bool same = a->key_count == b->key_count && a->match_count == b->match_count && a->missing == b->missing &&
                a->cost == b->cost && same_text(a->cost_attribute, b->cost_attribute) &&
                a->ipv6_prefix == b->ipv6_prefix;
    for (size_t i = 0; same && i < a->key_count; i++)
        same = strcmp(a->key[i], b->key[i]) == 0;
    for (size_t i = 0; same && i < a->match_count; i++) {
        const struct weir_slice left = a->match[i].pattern, right = b->match[i].pattern;
        same = strcmp(a->match[i].attribute, b->match[i].attribute) == 0 && left.size == right.size &&
               memcmp(left.data, right.data, left.size) == 0;
    }
    return same;
}

static const struct weir_config_limit *limit_of(const struct weir_replay *replay, int side, uint32_t slot)
{
    const struct weir_replay_rules *set = &replay->sets[side];
    const uint32_t index = slot < replay->slots ? set->of_slot[slot] : WEIR_REPLAY_NONE;
    return index == WEIR_REPLAY_NONE ? NULL : &set->config->limits[index];
}

/* Why it is not known what it would refuse; NULL: it is. */
static const char *why_unknown(const struct weir_config_limit *limit, const struct weir_config_limit *in_force)
{
    if (!in_force)
        return "it is new: which requests would meet it is not known";
    if (limit && limit->spec.mode == WEIR_MODE_OFF)
        return NULL;
    if (limit && limit->spec.algorithm == WEIR_CONCURRENCY)
        return "how long requests take is not known";
    if (limit && in_force->spec.mode == WEIR_MODE_OFF)
        return "it is off: its requests were not counted";
    if (limit && !counts_the_same(limit, in_force))
        return "its match, key, missing or cost is another one: which requests would meet it is not known";
    return NULL;
}

static void note(json_t *notes, const char *text)
{
    (void)json_array_append_new(notes, json_string(text));
}

static json_t *notes_of(const struct weir_replay *replay, const struct weir_config_limit *limit,
                        const struct weir_config_limit *in_force, const struct weir_replay_tally *tally,
                        const char *unknown)
{
    json_t *notes = json_array();
    if (unknown)
        note(notes, unknown);
    if (in_force && in_force->spec.mode != WEIR_MODE_OFF && tally->keys == 0 && replay->span.halvings > 0)
        note(notes, "none of its keys is in the sample");
    if (!limit)
        note(notes, "it is not in this text");
    if (limit && limit->spec.mode == WEIR_MODE_OFF)
        note(notes, "it is off in this text");
    if (limit && limit->spec.mode == WEIR_MODE_SHADOW)
        note(notes, "it is in shadow in this text: it refuses nobody, and would have refused so many");
    if (tally->varied > 0)
        note(notes, "keys with an override, a level or in a rollout are left out");
    if (limit && limit->overrides_count > limit->levels_count)
        note(notes, "its overrides and its rollout are not tried: each key has the limit's own numbers");
    if (replay->of->config->nodes_count > 1 && limit && limit->sharing != WEIR_SHARING_SPLIT)
        note(notes, "what other nodes decided of it is not known here");
    return notes;
}

static json_t *whole(uint64_t number)
{
    return json_integer((json_int_t)weir_min_u64(number, INT64_MAX));
}

/* `limit`: of the text; NULL: it has none of that name. */
static json_t *row(const struct weir_replay *replay, const struct weir_config_limit *limit, const char *name,
                   uint32_t slot)
{
    static const struct weir_replay_tally none = { .keys = 0 };
    const struct weir_replay_tally *tally = slot < replay->slots ? &replay->tallies[slot] : &none;
    const struct weir_config_limit *in_force = limit_of(replay, WEIR_REPLAY_IN_FORCE, slot);
    const char *unknown = why_unknown(limit, in_force);
    const bool one_counter = tally->one_counter || (in_force && in_force->key_count == 0);
    const unsigned halvings = one_counter ? replay->span.halvings_one_counter : replay->span.halvings;
    const bool replayed = in_force && in_force->spec.algorithm != WEIR_CONCURRENCY;
    return json_pack("{s:o,s:I,s:o,s:o,s:o,s:o,s:o,s:o,s:o}", "limit", weir_json_text(name), "one_in",
                     (json_int_t)(UINT64_C(1) << halvings), "keys", whole(tally->keys), "asked",
                     whole(tally->asked - tally->varied), "refused", whole(tally->refused - tally->varied_refused),
                     "in_force", replayed ? whole(tally->would[WEIR_REPLAY_IN_FORCE]) : json_null(), "text",
                     unknown ? json_null() : whole(tally->would[WEIR_REPLAY_TEXT]), "left_out", whole(tally->varied),
                     "notes", notes_of(replay, limit, in_force, tally, unknown));
}

static json_t *rows(const struct weir_replay *replay)
{
    json_t *list = json_array();
    const struct weir_replay_rules *text = &replay->sets[WEIR_REPLAY_TEXT];
    const struct weir_replay_rules *in_force = &replay->sets[WEIR_REPLAY_IN_FORCE];
    for (size_t i = 0; i < text->config->limits_count; i++)
        (void)json_array_append_new(
            list, row(replay, &text->config->limits[i], text->config->limits[i].name, text->slot_of[i]));
    for (size_t i = 0; i < in_force->config->limits_count; i++) {
        const uint32_t slot = in_force->slot_of[i];
        if (slot < replay->slots && !limit_of(replay, WEIR_REPLAY_TEXT, slot))
            (void)json_array_append_new(list, row(replay, NULL, in_force->config->limits[i].name, slot));
    }
    return list;
}

static json_t *utc(const struct weir_replay *replay, uint64_t second)
{
    char text[WEIR_TEXT_UTC_SIZE + 1] = "";
    struct weir_text out = weir_text_init(text, sizeof(text) - 1);
    weir_text_utc(&out, replay->of->now.wall_ns - replay->of->now.now_ns + second * WEIR_NS_PER_SECOND);
    return json_string(text);
}

json_t *weir_rules_replay_tell(const struct weir_replay *replay)
{
    const struct weir_past_span *span = &replay->span;
    const uint64_t end_s = replay->cut ? span->to_s : span->to_s + UINT64_C(1);
    return json_pack("{s:{s:o,s:o,s:I,s:I,s:I,s:b},s:o}", "sample", "from", utc(replay, span->from_s), "to",
                     utc(replay, end_s), "seconds", (json_int_t)weir_sub_sat(end_s, span->from_s), "one_in",
                     (json_int_t)(UINT64_C(1) << span->halvings), "records", (json_int_t)replay->count, "cut",
                     replay->cut, "limits", rows(replay));
}
