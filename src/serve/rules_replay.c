/* SPDX-License-Identifier: Apache-2.0
 *
 * The records of each second are gone through in 64 steps, in each of which a 64th of a record's requests is decided:
 * so time goes forward for all keys, and the requests of one second are spread evenly over it, as nothing more is known
 * of them. The units of a record are divided evenly among its requests.
 *
 * Limits are found by their names, which the slots of the metrics have. Called by rules_answer.c. */
#include "serve/rules_replay.h"

#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "rules/rules.h"
#include "serve/rules_replay_tell.h"

#define STEPS 64
#define LOOK_DECISIONS 4096 /* between two looks at the clock */

/* ---- a set ---- */

/* As one process alone would keep them, as `weir replay` has it (cli/replay_set.c). */
static void make_alone(struct weir_config *config)
{
    for (size_t i = 0; i < config->limits_count; i++) {
        config->limits[i].sharing = WEIR_SHARING_EXACT;
        config->limits[i].owned = false;
    }
    config->redis.servers_count = 0;
    config->nodes_count = 0;
}

static void set_deinit(struct weir_replay_rules *set)
{
    weir_rules_destroy(set->rules);
    weir_limiter_destroy(set->limiter);
    weir_config_destroy(set->config);
    free(set->of_slot);
    free(set->slot_of);
}

struct named {
    const char *name;
    uint32_t index;
};

static int by_name(const void *a, const void *b)
{
    const struct named *left = a, *right = b;
    return strcmp(left->name, right->name);
}

/* Which limit has the name of each slot, and the other way round. A name without a slot gets none: slots stay for ever,
 * and the text may never be in force. */
static int find_slots(struct weir_replay_rules *set, const struct weir_replay *replay)
{
    const size_t count = set->config->limits_count;
    struct named *named = malloc((count + 1) * sizeof(named[0]));
    set->of_slot = malloc((replay->slots + 1) * sizeof(set->of_slot[0]));
    set->slot_of = malloc((count + 1) * sizeof(set->slot_of[0]));
    if (!named || !set->of_slot || !set->slot_of) {
        free(named);
        return WEIR_ENOMEM;
    }
    for (uint32_t i = 0; i < count; i++) {
        named[i] = (struct named){ set->config->limits[i].name, i };
        set->slot_of[i] = WEIR_REPLAY_NONE;
    }
    qsort(named, count, sizeof(named[0]), by_name);
    for (uint32_t slot = 0; slot < replay->slots; slot++) {
        const struct named wanted = { .name = weir_metrics_name(replay->of->metrics, slot) };
        const struct named *found = slot == WEIR_METRICS_OTHER || slot == WEIR_METRICS_THROTTLE
                                        ? NULL
                                        : bsearch(&wanted, named, count, sizeof(named[0]), by_name);
        set->of_slot[slot] = found ? found->index : WEIR_REPLAY_NONE;
        if (found)
            set->slot_of[found->index] = slot;
    }
    free(named);
    return 0;
}

static int set_init(struct weir_replay_rules *set, const struct weir_replay *replay, struct weir_slice text,
                    struct weir_config_faults *faults)
{
    struct weir_fault fault;
    int error = weir_config_with_rules(replay->of->config, text, &set->config, faults);
    if (error)
        return error;
    const struct weir_config *config = set->config;
    const struct weir_limiter_options options = { .memory_max = weir_min_u64(config->memory_max, WEIR_REPLAY_MEMORY),
                                                  .skew_max_ns = config->skew_max_ns,
                                                  .skew_none = config->skew_max_ns == 0,
                                                  .clock = WEIR_CLOCK_MONOTONIC };
    make_alone(set->config);
    error = weir_limiter_create(&options, &set->limiter, &fault);
    faults->count = 1;
    if (!error)
        error = weir_rules_create(set->limiter, config, &set->rules, &faults->list[0]);
    return error ? error : find_slots(set, replay);
}

/* ---- deciding ---- */

/* NULL: this set's limit of that slot has nothing to say of it. */
static const struct weir_rule *rule_of(const struct weir_replay_rules *set, uint32_t slot)
{
    const uint32_t index = set->of_slot[slot];
    const struct weir_rule *rule = index == WEIR_REPLAY_NONE ? NULL : weir_rules_limit(set->rules, index);
    bool decides = rule && rule->whole.mode != WEIR_MODE_OFF && rule->whole.algorithm != WEIR_CONCURRENCY;
    return decides ? rule : NULL;
}

static void decide(const struct weir_replay *replay, const struct weir_past_record *record, uint64_t cost,
                   uint64_t now_ns)
{
    const struct weir_time time = { now_ns, now_ns };
    for (int side = 0; side < WEIR_REPLAY_SETS; side++) {
        const struct weir_replay_rules *set = &replay->sets[side];
        const struct weir_rule *rule = rule_of(set, record->slot);
        struct weir_decision decision;
        struct weir_verdict verdict;
        if (!rule)
            continue;
        const struct weir_charge charge = { .limit = rule->id, .key = { record->hash, 0 }, .cost = cost };
        int error = weir_limiter_decide(set->limiter, &charge, 1, &time, 0, &decision, &verdict);
        replay->tallies[record->slot].second[side] += !error && !verdict.admitted;
    }
}

/* False: nobody waits for it any more, or it has taken long enough. By decisions and not by records, one of which may
 * stand for a million requests. */
static bool may_go_on(struct weir_replay *replay)
{
    if (++replay->decisions % LOOK_DECISIONS > 0)
        return true;
    return !(replay->of->stop && atomic_load(replay->of->stop)) && weir_time_read().now_ns <= replay->until_ns;
}

/* The requests of a record that fall into one step. False: it is to end. */
static bool step(struct weir_replay *replay, const struct weir_past_record *record, uint64_t number, uint64_t now_ns)
{
    const uint64_t from = record->asked * number / STEPS, to = record->asked * (number + 1) / STEPS;
    for (uint64_t i = from; i < to; i++) {
        decide(replay, record, record->units / record->asked + (i < record->units % record->asked), now_ns);
        if (!may_go_on(replay))
            return false;
    }
    return may_go_on(replay);
}

/* Of a second that was gone through to its end. */
static void count(struct weir_replay *replay, const struct weir_past_record *record)
{
    struct weir_replay_tally *tally = &replay->tallies[record->slot];
    for (int side = 0; side < WEIR_REPLAY_SETS; side++) {
        tally->would[side] += tally->second[side];
        tally->second[side] = 0;
    }
    tally->asked += record->asked;
    tally->refused += record->refused;
    tally->one_counter = tally->one_counter || record->one_counter;
    tally->varied += record->varied ? record->asked : 0;
    tally->varied_refused += record->varied ? record->refused : 0;
}

/* The records from `begin` to `end` are of one second. False: it is to end, and nothing of this second counts. */
static bool run_second(struct weir_replay *replay, size_t begin, size_t end, uint64_t second_ns)
{
    for (uint64_t number = 0; number < STEPS; number++) {
        const uint64_t now_ns = second_ns + number * WEIR_NS_PER_SECOND / STEPS;
        for (size_t i = begin; i < end; i++) {
            const struct weir_past_record *record = &replay->records[i];
            if (!(record->varied ? may_go_on(replay) : step(replay, record, number, now_ns)))
                return false;
        }
    }
    for (size_t i = begin; i < end; i++)
        count(replay, &replay->records[i]);
    return true;
}

static void run(struct weir_replay *replay)
{
    /* On the wall clock, so that windows of the calendar are where they were. */
    const uint64_t wall_ns = replay->of->now.wall_ns - replay->of->now.now_ns;
    for (size_t begin = 0, end; begin < replay->count; begin = end) {
        const uint32_t second = replay->records[begin].second;
        for (end = begin; end < replay->count && replay->records[end].second == second;)
            end++;
        if (!run_second(replay, begin, end, wall_ns + second * WEIR_NS_PER_SECOND)) {
            replay->cut = true;
            replay->span.to_s = second;
            break;
        }
    }
}

/* ---- the sample ---- */

static int by_key(const void *a, const void *b)
{
    const struct weir_past_record *left = a, *right = b;
    if (left->slot != right->slot)
        return left->slot < right->slot ? -1 : 1;
    return (left->hash > right->hash) - (left->hash < right->hash);
}

static int by_second(const void *a, const void *b)
{
    const struct weir_past_record *left = a, *right = b;
    return (left->second > right->second) - (left->second < right->second);
}

static int read_sample(struct weir_replay *replay)
{
    struct weir_past *past = replay->of->past;
    replay->records = malloc((weir_past_room(past) + 1) * sizeof(replay->records[0]));
    replay->tallies = calloc(replay->slots + 1, sizeof(replay->tallies[0]));
    if (!replay->records || !replay->tallies)
        return WEIR_ENOMEM;
    size_t kept = 0;
    replay->count = weir_past_read(past, replay->of->now.now_ns, replay->records, &replay->span);
    for (size_t i = 0; i < replay->count; i++)
        if (replay->records[i].slot < replay->slots && replay->records[i].asked > 0)
            replay->records[kept++] = replay->records[i];
    replay->count = kept;
    qsort(replay->records, kept, sizeof(replay->records[0]), by_key);
    for (size_t i = 0; i < kept; i++)
        replay->tallies[replay->records[i].slot].keys += i == 0 ||
                                                         by_key(&replay->records[i - 1], &replay->records[i]) != 0;
    qsort(replay->records, kept, sizeof(replay->records[0]), by_second);
    return 0;
}

int weir_rules_replay(const struct weir_replay_of *of, json_t **ret_json, struct weir_config_faults *ret_faults)
{
    struct weir_replay replay = { .of = of,
                                  .slots = weir_metrics_slots(of->metrics),
                                  .until_ns = weir_time_read().now_ns + WEIR_REPLAY_TIME_NS };
    int error = set_init(&replay.sets[WEIR_REPLAY_TEXT], &replay, of->text, ret_faults);
    if (!error)
        error = set_init(&replay.sets[WEIR_REPLAY_IN_FORCE], &replay, of->in_force, ret_faults);
    if (!error)
        error = read_sample(&replay);
    if (!error) {
        run(&replay);
        *ret_json = weir_rules_replay_tell(&replay);
    }
    for (int side = 0; side < WEIR_REPLAY_SETS; side++)
        set_deinit(&replay.sets[side]);
    free(replay.records);
    free(replay.tallies);
    return error;
}
