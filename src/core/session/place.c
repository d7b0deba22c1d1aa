/* SPDX-License-Identifier: Apache-2.0
 *
 * A comparison has two steps. branch_of(): by the known histories, is what was seen part of the server's? Then the
 * position decides, and what became of log that was not flushed (tail_at()). Called by token.c, route.c and
 * sessions; positions as text are position.c. */
#include "core/session/place.h"

#include "base/assert.h"
#include "base/checked.h"
#include "weir/error.h"

/* Is what one timeline wrote up to a position part of another's history? */
enum branch {
    BRANCH_HOLDS,   /* it is */
    BRANCH_LEFT,    /* no: the other left before, at `fork` */
    BRANCH_OTHER,   /* of the same number, and not known to be the same */
    BRANCH_UNKNOWN, /* a history is missing */
};

const char *weir_place_verdict_name(enum weir_place_verdict verdict)
{
    static const char *const names[] = {
        [WEIR_PLACE_OK] = "ok",           [WEIR_PLACE_BEHIND] = "behind",
        [WEIR_PLACE_LOST] = "lost",       [WEIR_PLACE_DIVERGED] = "diverged",
        [WEIR_PLACE_FOREIGN] = "foreign", [WEIR_PLACE_UNPROVEN] = "unproven",
    };
    return (unsigned)verdict < sizeof names / sizeof names[0] ? names[verdict] : "unknown";
}

/* The greater, the worse. */
static unsigned badness(enum weir_place_verdict verdict)
{
    static const unsigned char of[] = {
        [WEIR_PLACE_OK] = 0,       [WEIR_PLACE_BEHIND] = 1, [WEIR_PLACE_UNPROVEN] = 2,
        [WEIR_PLACE_DIVERGED] = 3, [WEIR_PLACE_LOST] = 4,   [WEIR_PLACE_FOREIGN] = 5,
    };
    weir_assert((unsigned)verdict < sizeof of);
    return of[verdict];
}

enum weir_place_verdict weir_place_worse(enum weir_place_verdict a, enum weir_place_verdict b)
{
    return badness(a) < badness(b) ? b : a;
}

/* A timeline's ancestors, oldest first. */
struct chain {
    const struct weir_ancestor *ancestors;
    unsigned count;
};

/* One timeline of a number, and where on it. */
struct spot {
    uint32_t timeline, branch;
    uint64_t position;
};

static bool is_ancestor(const struct weir_history *history, const struct spot *spot, const struct weir_known *known,
                        unsigned *ret_index)
{
    weir_assert(history->count <= WEIR_ANCESTORS_MAX);
    for (unsigned i = history->count; i-- > 0;)
        if (history->ancestors[i].timeline == spot->timeline &&
            weir_known_is_same(known, spot->timeline, history->ancestors[i].branch, spot->branch)) {
            *ret_index = i;
            return true;
        }
    return false;
}

/* A history begins with its parent's: so the one of a descendant will do. */
static bool chain_of(const struct weir_known *known, const struct spot *spot, struct chain *ret_chain)
{
    const struct weir_history *history = weir_known_find(known, spot->timeline, spot->branch);
    unsigned count = history ? history->count : 0;
    for (unsigned i = 0; known && !history && i < known->history_count; i++)
        if (is_ancestor(&known->histories[i], spot, known, &count))
            history = &known->histories[i];
    if (!history)
        return false;
    *ret_chain = (struct chain){ history->ancestors, count };
    return true;
}

/* Where a timeline of that number ended on the way down the chain; NULL: none of it. Ends that fall cut off what was
 * before (weir_history). */
static const struct weir_ancestor *ended_at(const struct chain *chain, uint32_t timeline, uint64_t *ret_end)
{
    uint64_t end = UINT64_MAX;
    for (unsigned i = chain->count; i-- > 0;) {
        end = weir_min_u64(end, chain->ancestors[i].end);
        if (chain->ancestors[i].timeline == timeline) {
            *ret_end = end;
            return &chain->ancestors[i];
        }
    }
    return NULL;
}

/* Where two chains, of which neither contains the other's timeline, part: 0 if they have no ancestor in common. Of
 * ancestors of one number that may be two, only what was before is in common. */
static uint64_t parting(const struct chain *a, const struct chain *b, const struct weir_known *known)
{
    uint64_t end = UINT64_MAX, other;
    for (unsigned i = a->count; i-- > 0;) {
        end = weir_min_u64(end, a->ancestors[i].end);
        const struct weir_ancestor *ancestor = ended_at(b, a->ancestors[i].timeline, &other);
        if (ancestor && weir_known_is_same(known, ancestor->timeline, ancestor->branch, a->ancestors[i].branch))
            return weir_min_u64(end, other);
    }
    return 0;
}

/* Of two of one number. 0: nobody knows which it is. */
static enum branch differ(uint32_t a, uint32_t b)
{
    return a && b ? BRANCH_OTHER : BRANCH_UNKNOWN;
}

/* Is `from`, reached on its timeline or an ancestor of it, part of the history of `to`? */
static enum branch branch_of(const struct spot *from, const struct spot *to, const struct weir_known *known,
                             uint64_t *ret_fork)
{
    struct chain higher, lower;
    uint64_t fork;
    const struct spot *high = from->timeline > to->timeline ? from : to, *low = high == from ? to : from;
    weir_assert(high->timeline >= low->timeline && (high == from) != (high == to));
    if (from->timeline == to->timeline)
        return weir_known_is_same(known, to->timeline, from->branch, to->branch) ? BRANCH_HOLDS
                                                                                 : differ(from->branch, to->branch);
    if (!chain_of(known, high, &higher))
        return BRANCH_UNKNOWN;
    const struct weir_ancestor *ancestor = ended_at(&higher, low->timeline, &fork);
    if (ancestor && !weir_known_is_same(known, low->timeline, ancestor->branch, low->branch))
        return differ(ancestor->branch, low->branch);
    if (!ancestor) {
        if (!chain_of(known, low, &lower))
            return BRANCH_UNKNOWN;
        fork = parting(&lower, &higher, known);
    }
    weir_assert(higher.count <= WEIR_ANCESTORS_MAX);
    *ret_fork = fork;
    return from->position <= fork ? BRANCH_HOLDS : BRANCH_LEFT;
}

static struct spot spot_of(const struct weir_place *place)
{
    return (struct spot){ place->timeline, place->branch, place->position };
}

static const struct weir_known *known_of(const struct weir_known *known, uint64_t system)
{
    return known && known->system == system ? known : NULL;
}

/* What became of the end of a log that was not flushed when it was seen. */
enum tail {
    TAIL_KEPT,    /* flushed, or still where it was seen */
    TAIL_OPEN,    /* the run goes on: it may be flushed yet */
    TAIL_OVER,    /* the run ended, and is not known to have flushed it */
    TAIL_UNKNOWN, /* nothing is known of the run */
};

/* The run that it was seen in? Of copies of one server the branch alone tells which. */
static bool is_run_of(const struct weir_place *seen, const struct weir_run *run, const struct weir_known *known)
{
    return run->timeline == seen->timeline && run->run == seen->run &&
           weir_known_is_same(known, run->timeline, run->branch, seen->branch);
}

/* Runs are in order: what comes before the last of them is over. */
static enum tail tail_known(const struct weir_place *seen, const struct weir_known *known)
{
    if (seen->run == 0)
        return TAIL_KEPT;
    if (!known || known->run_count == 0)
        return TAIL_UNKNOWN;
    weir_assert(known->run_count <= WEIR_RUNS_MAX);
    for (unsigned i = 0; i < known->run_count; i++)
        if (is_run_of(seen, &known->runs[i], known) && known->runs[i].flushed >= seen->position)
            return TAIL_KEPT;
    const struct weir_run *last = &known->runs[known->run_count - 1];
    if (last->timeline == seen->timeline && last->run == seen->run)
        return TAIL_OPEN;
    bool later = last->timeline > seen->timeline || (last->timeline == seen->timeline && last->run > seen->run);
    return later ? TAIL_OVER : TAIL_UNKNOWN;
}

static enum tail tail_at(const struct weir_place *seen, const struct weir_shown *shown, const struct weir_known *known)
{
    enum tail tail = tail_known(seen, known);
    if (tail == TAIL_KEPT)
        return tail;
    if (shown->primary && shown->timeline == seen->timeline)
        return shown->run == seen->run ? TAIL_KEPT : TAIL_OVER;
    return shown->timeline > seen->timeline ? TAIL_OVER : tail;
}

/* A primary goes on, and does not take over what others wrote: what it does not have it never will. */
static enum weir_place_verdict compare_primary(const struct weir_place *seen, const struct weir_shown *shown,
                                               enum tail tail)
{
    if (tail != TAIL_KEPT || (shown->position | WEIR_POSITION_NEXT) < seen->position)
        return shown->timeline < seen->timeline ? WEIR_PLACE_DIVERGED : WEIR_PLACE_LOST;
    bool elsewhere = seen->standby || seen->timeline > shown->timeline;
    return elsewhere && !shown->settled ? WEIR_PLACE_BEHIND : WEIR_PLACE_OK;
}

static enum weir_place_verdict compare_standby(const struct weir_place *seen, const struct weir_shown *shown,
                                               enum tail tail)
{
    if (tail == TAIL_OVER)
        return WEIR_PLACE_LOST;
    if (tail == TAIL_OPEN || shown->position < seen->position)
        return WEIR_PLACE_BEHIND;
    return tail == TAIL_KEPT ? WEIR_PLACE_OK : WEIR_PLACE_UNPROVEN;
}

/* The server's chain left what was seen at `fork`. */
static enum weir_place_verdict compare_left(const struct weir_place *seen, const struct weir_shown *shown,
                                            uint64_t fork, enum tail tail)
{
    if (shown->timeline > seen->timeline)
        return WEIR_PLACE_LOST;
    weir_assert(seen->position > fork && shown->timeline != seen->timeline);
    if (shown->primary || shown->position > fork)
        return WEIR_PLACE_DIVERGED;
    return tail == TAIL_OVER ? WEIR_PLACE_LOST : WEIR_PLACE_BEHIND;
}

enum weir_place_verdict weir_place_compare(const struct weir_place *seen, const struct weir_shown *shown,
                                           const struct weir_known *known)
{
    if (seen->system != shown->system)
        return WEIR_PLACE_FOREIGN;
    if (shown->timeline == 0)
        return WEIR_PLACE_UNPROVEN;
    uint64_t fork = 0;
    known = known_of(known, seen->system);
    enum tail tail = tail_at(seen, shown, known);
    const struct spot from = spot_of(seen), to = { shown->timeline, shown->branch, shown->position };
    switch (branch_of(&from, &to, known, &fork)) {
    case BRANCH_HOLDS:
        return shown->primary ? compare_primary(seen, shown, tail) : compare_standby(seen, shown, tail);
    case BRANCH_LEFT:
        return compare_left(seen, shown, fork, tail);
    case BRANCH_OTHER:
        return shown->told && shown->timeline >= seen->timeline ? WEIR_PLACE_LOST : WEIR_PLACE_UNPROVEN;
    case BRANCH_UNKNOWN:
        break;
    }
    return WEIR_PLACE_UNPROVEN;
}

int weir_place_seen(const struct weir_shown *shown, struct weir_place *ret_place)
{
    if (shown->system == 0 || shown->timeline == 0 || shown->position == 0 || (shown->primary && shown->run == 0) ||
        (shown->position & WEIR_POSITION_NEXT) != 0)
        return WEIR_EINVAL;
    struct weir_place place = {
        .system = shown->system,
        .position = shown->position,
        .timeline = shown->timeline,
        .standby = !shown->primary,
        .branch = shown->timeline > 1 ? shown->branch : 0,
    };
    if (shown->primary && shown->position > shown->flushed)
        place.run = shown->run;
    if (!shown->primary && shown->received != shown->position)
        place.position |= WEIR_POSITION_NEXT;
    weir_assert(place.run == 0 || !place.standby); /* only what a primary shows may be lost with its run */
    weir_assert(place.position >= shown->position);
    *ret_place = place;
    return 0;
}

/* The end of a place's log is safe by now: it needs its run no more. */
static struct weir_place without_run(const struct weir_place *place, const struct weir_known *known)
{
    struct weir_place result = *place;
    if (tail_known(place, known) == TAIL_KEPT)
        result.run = 0;
    return result;
}

static bool is_later(const struct weir_place *a, const struct weir_place *b)
{
    return a->position != b->position ? a->position > b->position : a->run > b->run;
}

int weir_place_merge(const struct weir_place *a, const struct weir_place *b, const struct weir_known *known,
                     struct weir_place *ret_merged)
{
    if (a->system != b->system)
        return WEIR_EAGAIN;
    known = known_of(known, a->system);
    uint64_t fork = 0;
    struct weir_place lower = without_run(a->timeline < b->timeline ? a : b, known);
    struct weir_place higher = without_run(a->timeline < b->timeline ? b : a, known);
    struct weir_place later = is_later(&lower, &higher) ? lower : higher;
    struct weir_place earlier = is_later(&lower, &higher) ? higher : lower;
    const struct spot from = spot_of(&lower), to = spot_of(&higher);
    switch (branch_of(&from, &to, known, &fork)) {
    case BRANCH_HOLDS:
        if (later.run == 0) {
            later.timeline = higher.timeline;
            later.branch = higher.branch;
        }
        break;
    case BRANCH_LEFT: /* what the higher one saw may lie before the fork, and so be part of the lower one's */
        if (higher.position > fork)
            return WEIR_EAGAIN;
        break;
    case BRANCH_OTHER:
    case BRANCH_UNKNOWN:
        return WEIR_EAGAIN;
    }
    if (earlier.run != 0 && (earlier.run != later.run || earlier.timeline != later.timeline))
        return WEIR_EAGAIN;
    later.standby = lower.standby || higher.standby || later.timeline < higher.timeline;
    /* A session never goes back by a merge. */
    weir_assert(later.position >= a->position && later.position >= b->position);
    weir_assert(later.system == a->system && later.timeline <= higher.timeline);
    weir_assert(lower.timeline <= higher.timeline);
    *ret_merged = later;
    return 0;
}
