/* SPDX-License-Identifier: Apache-2.0
 *
 * Question 9: schedules, one after the other, over replicas in memory that keep their marks by core/lease, and the part
 * that the experiment with three Redis has in common with it. A schedule is a number, whose digits say where the newer
 * holder installs and reads, and before which of its steps each message of the older one comes. */
#include "sim/lab/replicas.h"

#include "base/assert.h"
#include "core/lease/quorum.h"
#include "sim/lab/labs.h"
#include "sim/random.h"

#define OLDER 1
#define NEWER 2

/* Where `count` of three replicas are, as masks. */
struct choice {
    unsigned masks[LAB_REPLICAS];
    unsigned count;
};

static struct choice choices_of(unsigned count)
{
    if (count == 0)
        return (struct choice){ { 0 }, 1 };
    if (count == 1)
        return (struct choice){ { 1, 2, 4 }, 3 };
    weir_assert(count == 2);
    return (struct choice){ { 3, 5, 6 }, 3 };
}

static unsigned steps_of(const struct lab_replicas_rule *rule)
{
    return rule->install + rule->read + LAB_REPLICAS;
}

uint64_t lab_replicas_schedules(const struct lab_replicas_rule *rule)
{
    uint64_t places = steps_of(rule) + 1;
    return choices_of(rule->install).count * choices_of(rule->read).count * places * places * places;
}

/* ---- one schedule ---- */

struct play {
    const struct lab_replicas_rule *rule;
    const struct lab_replicas_store *store;
    unsigned installs, reads;     /* masks */
    unsigned comes[LAB_REPLICAS]; /* the older one's message to this replica: before this step */
    unsigned step;
    struct weir_round older, newer;
    struct lab_replicas_value seen; /* of the highest token that the newer one read */
};

static struct play play_of(const struct lab_replicas_rule *rule, uint64_t schedule,
                           const struct lab_replicas_store *store)
{
    const struct weir_quorum quorum = { LAB_REPLICAS, 1, rule->read, LAB_REPLICAS_WRITE };
    struct choice installs = choices_of(rule->install), reads = choices_of(rule->read);
    struct play play = { .rule = rule, .store = store };
    play.installs = installs.masks[schedule % installs.count];
    schedule /= installs.count;
    play.reads = reads.masks[schedule % reads.count];
    schedule /= reads.count;
    for (unsigned i = 0; i < LAB_REPLICAS; i++, schedule /= steps_of(rule) + 1)
        play.comes[i] = (unsigned)(schedule % (steps_of(rule) + 1));
    weir_round_begin(&play.older, &quorum, LAB_REPLICAS_WRITE);
    weir_round_begin(&play.newer, &quorum, LAB_REPLICAS_WRITE);
    return play;
}

static int broken(int error)
{
    return error == WEIR_EFENCED ? 0 : error;
}

/* What the older one sent arrives, as far as it comes before the step that is next; then that is taken. */
static int step_begins(struct play *play)
{
    const struct lab_replicas_value value = { OLDER, 1 };
    int error = 0;
    for (unsigned i = 0; i < LAB_REPLICAS && broken(error) == 0; i++) {
        if (play->comes[i] != play->step)
            continue;
        error = play->store->write(play->store->context, i, &value, play->rule->install > 0);
        (void)weir_round_hear(&play->older, i, error);
    }
    play->step++;
    return broken(error);
}

static int newer_install(struct play *play)
{
    int error = 0;
    for (unsigned i = 0; i < LAB_REPLICAS && error == 0; i++) {
        if (play->installs >> i & 1)
            error = step_begins(play);
        if (error == 0 && (play->installs >> i & 1))
            error = play->store->install(play->store->context, i, NEWER);
    }
    return error;
}

static int newer_read(struct play *play)
{
    int error = 0;
    for (unsigned i = 0; i < LAB_REPLICAS && error == 0; i++) {
        struct lab_replicas_value value;
        if ((play->reads >> i & 1) == 0)
            continue;
        error = step_begins(play);
        if (error == 0 && play->rule->fences)
            error = play->store->install(play->store->context, i, NEWER);
        if (error == 0)
            error = play->store->read(play->store->context, i, &value);
        if (error == 0 && value.token > play->seen.token)
            play->seen = value;
    }
    return error;
}

static int newer_write(struct play *play)
{
    const struct lab_replicas_value value = { NEWER, play->seen.counter + 1 };
    int error = 0;
    for (unsigned i = 0; i < LAB_REPLICAS && broken(error) == 0; i++) {
        error = step_begins(play);
        if (error == 0)
            error = play->store->write(play->store->context, i, &value, play->rule->install > 0);
        (void)weir_round_hear(&play->newer, i, error);
    }
    return broken(error);
}

/* Of all three, that of the highest token. */
static int counter_at_last(const struct lab_replicas_store *store, uint64_t *ret_counter)
{
    struct lab_replicas_value last = { 0, 0 };
    for (unsigned i = 0; i < LAB_REPLICAS; i++) {
        struct lab_replicas_value value;
        int error = store->read(store->context, i, &value);
        if (error != 0)
            return error;
        last = value.token >= last.token ? value : last;
    }
    *ret_counter = last.counter;
    return 0;
}

int lab_replicas_play(const struct lab_replicas_rule *rule, uint64_t schedule, const struct lab_replicas_store *store,
                      struct lab_replicas_outcome *ret_outcome)
{
    struct play play = play_of(rule, schedule, store);
    uint64_t counter = 0;
    int error = 0;
    for (unsigned i = 0; i < LAB_REPLICAS && error == 0; i++)
        error = store->reset(store->context, i);
    error = error ? error : newer_install(&play);
    error = error ? error : newer_read(&play);
    error = error ? error : newer_write(&play);
    error = error ? error : step_begins(&play); /* what comes after all steps */
    error = error ? error : counter_at_last(store, &counter);
    if (error != 0)
        return error;
    bool older = weir_round_end(&play.older) == WEIR_ROUND_DONE, newer = weir_round_end(&play.newer) == WEIR_ROUND_DONE;
    bool late = rule->install > 0;
    for (unsigned i = 0; i < LAB_REPLICAS; i++)
        late = late && play.comes[i] >= rule->install;
    *ret_outcome = (struct lab_replicas_outcome){ older, newer, counter < (uint64_t)older + newer, older && late };
    return 0;
}

int lab_replicas_draw(const struct lab_replicas_rule *rule, uint64_t seed, const struct lab_replicas_store *store,
                      struct weir_lab_report *report)
{
    struct weir_sim_random random = { .state = seed };
    struct lab_replicas_outcome outcome;
    uint64_t lost = 0, older = 0;
    size_t series = weir_lab_begin(report, "%s", rule->name);
    weir_lab_point(report, series, 0, 0);
    for (unsigned i = 0; i < LAB_REPLICAS_DRAWN; i++) {
        uint64_t schedule = weir_sim_random_below(&random, lab_replicas_schedules(rule));
        int error = lab_replicas_play(rule, schedule, store, &outcome);
        if (error != 0)
            return error;
        lost += outcome.lost;
        older += outcome.older;
        weir_lab_point(report, series, i + 1, (double)lost);
    }
    weir_lab_number(report, LAB_REPLICAS_DRAWN, "schedules", "%s: drawn", rule->name);
    weir_lab_number(report, (double)older, "schedules", "%s: drawn, the older holder was acknowledged", rule->name);
    weir_lab_number(report, (double)lost, "schedules", "%s: drawn, an acknowledged update is lost", rule->name);
    return 0;
}

/* ---- replicas in memory ---- */

struct replica {
    struct weir_token mark;
    struct lab_replicas_value value;
};

static int memory_reset(void *context, unsigned replica)
{
    struct replica *replicas = context;
    replicas[replica] = (struct replica){ .mark = { 0, 0 } };
    return 0;
}

static int memory_install(void *context, unsigned replica, uint64_t token)
{
    struct replica *replicas = context;
    return weir_mark_install(&replicas[replica].mark, (struct weir_token){ 1, token });
}

static int memory_read(void *context, unsigned replica, struct lab_replicas_value *ret_value)
{
    const struct replica *replicas = context;
    *ret_value = replicas[replica].value;
    return 0;
}

static int memory_write(void *context, unsigned replica, const struct lab_replicas_value *value, bool marked)
{
    struct replica *replicas = context;
    int error = marked ? memory_install(context, replica, value->token) : 0;
    if (error == 0)
        replicas[replica].value = *value;
    return error;
}

/* Every schedule there is. */
static void play_all(const struct lab_replicas_rule *rule, const struct lab_replicas_store *store,
                     struct weir_lab_report *report)
{
    uint64_t lost = 0, after = 0, count = lab_replicas_schedules(rule);
    for (uint64_t i = 0; i < count; i++) {
        struct lab_replicas_outcome outcome;
        int error = lab_replicas_play(rule, i, store, &outcome);
        weir_assert(error == 0 && outcome.newer);
        lost += outcome.lost;
        after += outcome.after;
    }
    weir_lab_number(report, (double)count, "schedules", "%s: there are", rule->name);
    weir_lab_number(report, (double)lost, "schedules", "%s: an acknowledged update is lost", rule->name);
    if (rule->install > 0) /* without an install nothing comes after it, and 0 would read as if nothing passed */
        weir_lab_number(report, (double)after, "schedules", "%s: sent after the install, and acknowledged", rule->name);
}

static void run(uint64_t seed, struct weir_lab_report *report)
{
    struct replica replicas[LAB_REPLICAS];
    const struct lab_replicas_store store = { replicas, memory_reset, memory_install, memory_read, memory_write };
    report->source = WEIR_LAB_SIMULATED;
    report->x = "schedules that were drawn";
    report->y = "schedules in which an acknowledged update is lost";
    for (unsigned i = 0; i < LAB_REPLICAS_RULES; i++) {
        int error = lab_replicas_draw(&lab_replicas_rules[i], seed, &store, report);
        weir_assert(error == 0);
        play_all(&lab_replicas_rules[i], &store, report);
    }
}

const struct weir_lab weir_lab_replicas = {
    .number = 9,
    .title = "fencing in a store of several replicas",
    .question = "A store has three replicas, and a write counts when two have it. A new holder of a lock installs its "
                "token and reads; messages of the older holder come at any time in between. At how many replicas must "
                "the token be installed, and must a read raise the mark too?",
    .shows =
        "An update is acknowledged and lost wherever the newer holder can read without meeting it and without "
        "stopping it. It is not enough that both numbers overlap with the write (2 + 2 > 3): the install reaches two "
        "replicas, the read another two, and the older holder's write is completed at the one that was read and not "
        "fenced. Nothing is lost in any schedule where each read raises the mark of the replica that it reads. An "
        "install at one replica lets pass what is sent after it, an install at two does not; and one read is too "
        "few, whatever it raises.",
    .shows_not =
        "Replicas that fail, lose their mark, or come back older, and holders of a third token: proofs/quorum.pml "
        "and `weir sim --locks` have those. Schedules are drawn alike here; how often each happens in a network, "
        "nobody knows.",
    .drawn = true,
    .run = run,
};
