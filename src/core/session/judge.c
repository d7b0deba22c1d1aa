/* SPDX-License-Identifier: Apache-2.0
 *
 * It judges a recording of reads and writes afterwards; it does not choose servers (that is route.c). A hash table in
 * the caller's slots. For each session and key it keeps, of reads and of writes, the highest version of what ended
 * before the last start, and the operations that may overlap still. A violation is a suspect until no LOST can overlap
 * it any more. Called by cli/reads_count.c (`weir reads`) and by tests/session/recorded.c. */
#include "core/session/judge.h"

#include "base/checked.h"
#include "weir/error.h"

void weir_judge_init(struct weir_judge *judge, struct weir_judge_slot *slots, size_t slot_count,
                     struct weir_judge_server *servers, uint32_t server_count)
{
    weir_assert(slots && slot_count > 0 && servers && server_count > 0);
    *judge = (struct weir_judge){
        .slots = slots, .slot_count = slot_count, .servers = servers, .server_count = server_count
    };
}

static int fail(struct weir_judge *judge, int error, const char *fault)
{
    weir_assert(error < 0 && judge->failed == 0);
    judge->fault = fault;
    return judge->failed = error;
}

/* ---- slots ---- */

/* The slot of the two, or the free one where it belongs; NULL: neither. */
static struct weir_judge_slot *slot_find(const struct weir_judge *judge, uint64_t session, uint64_t key)
{
    weir_assert(session != 0 || key != 0);
    uint64_t hash = session * UINT64_C(0x9e3779b97f4a7c15) + key; /* as SplitMix64 mixes its counter */
    hash = (hash ^ (hash >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    hash = (hash ^ (hash >> 27)) * UINT64_C(0x94d049bb133111eb);
    hash ^= hash >> 31;
    for (size_t i = 0; i < judge->slot_count; i++) {
        struct weir_judge_slot *slot = &judge->slots[(hash % judge->slot_count + i) % judge->slot_count];
        if ((slot->session == session && slot->key == key) || (slot->session == 0 && slot->key == 0))
            return slot;
    }
    return NULL;
}

static struct weir_judge_slot *slot_take(struct weir_judge *judge, uint64_t session, uint64_t key)
{
    struct weir_judge_slot *slot = slot_find(judge, session, key);
    if (!slot) {
        (void)fail(judge, WEIR_ELIMIT, "no room for another session and key");
        return NULL;
    }
    slot->session = session;
    slot->key = key;
    return slot;
}

/* ---- what is expected ---- */

static void track_raise(struct weir_judge_track *track, const struct weir_judge_open *open)
{
    if (open->version > track->version) {
        track->version = open->version;
        track->id = open->id;
    }
}

/* What ended before start_ns counts from now on. */
static void track_settle(struct weir_judge_track *track, uint64_t start_ns)
{
    unsigned kept = 0;
    for (unsigned i = 0; i < track->count; i++) {
        if (track->open[i].end_ns < start_ns)
            track_raise(track, &track->open[i]);
        else
            track->open[kept++] = track->open[i];
    }
    weir_assert(kept <= track->count && track->count <= WEIR_JUDGE_OVERLAP_MAX);
    track->count = kept;
}

static uint64_t highest(const struct weir_judge_slot *cell)
{
    uint64_t version = 0;
    for (unsigned i = 0; i < 2; i++) {
        struct weir_judge_track track = cell->u.cell.tracks[i];
        track_settle(&track, UINT64_MAX);
        version = weir_max_u64(version, track.version);
    }
    return version;
}

/* ---- violations ---- */

static void convict(struct weir_judge *judge, const struct weir_judge_violation *violation)
{
    weir_assert(violation->broken != 0 && violation->broken < 1U << WEIR_GUARANTEES);
    weir_assert(violation->event.server < judge->server_count);
    weir_assert(violation->expected > violation->event.version || violation->event.kind == WEIR_JUDGE_WRITE);
    judge->counts.violated++;
    for (unsigned i = 0; i < WEIR_GUARANTEES; i++)
        judge->counts.broken[i] += violation->broken >> i & 1;
    if (violation->event.kind == WEIR_JUDGE_READ)
        judge->servers[violation->event.server].violated++;
    if (judge->tell)
        judge->tell(judge->context, violation);
}

/* Those that ended before start_ns: no LOST can be found any more that overlaps them. */
static void suspects_convict(struct weir_judge *judge, struct weir_judge_slot *session, uint64_t start_ns)
{
    unsigned kept = 0;
    for (unsigned i = 0; i < session->u.session.suspects; i++) {
        const struct weir_judge_violation *suspect = &session->u.session.suspect[i];
        if (suspect->event.end_ns < start_ns)
            convict(judge, suspect);
        else
            session->u.session.suspect[kept++] = *suspect;
    }
    weir_assert(kept <= session->u.session.suspects);
    weir_assert(session->u.session.suspects <= WEIR_JUDGE_OVERLAP_MAX);
    session->u.session.suspects = kept;
}

/* Each guarantee is of a read or a write after a read or a write. */
static struct weir_judge_violation compare(const struct weir_judge_slot *cell, const struct weir_judge_event *event)
{
    _Static_assert(WEIR_JUDGE_READ == 0 && WEIR_JUDGE_WRITE == 1, "tracks are numbered by kind");
    _Static_assert(WEIR_READ_YOUR_WRITES == 1 && WEIR_WRITES_FOLLOW_READS == 2, "guarantees: later, earlier");
    struct weir_judge_violation violation = { .event = *event };
    weir_assert(event->kind == WEIR_JUDGE_READ || event->kind == WEIR_JUDGE_WRITE);
    for (unsigned earlier = 0; earlier < 2; earlier++) {
        const struct weir_judge_track *track = &cell->u.cell.tracks[earlier];
        uint64_t expected = weir_add_sat(track->version, event->kind == WEIR_JUDGE_WRITE);
        if (event->version >= expected)
            continue;
        violation.broken |= 1U << (2 * (unsigned)event->kind + earlier);
        if (expected > violation.expected) {
            violation.expected = expected;
            violation.earlier = track->id;
        }
    }
    return violation;
}

/* ---- events ---- */

/* What it saw or wrote, though it may have been cut off before this was fed. */
static void mark_if_cut(struct weir_judge *judge, struct weir_judge_slot *session, const struct weir_judge_event *event)
{
    const struct weir_judge_slot *cut = slot_find(judge, 0, event->key);
    if (cut && cut->key != 0 && event->start_ns <= cut->u.cut.end_ns && event->version > cut->u.cut.survived)
        session->u.session.cut_off = true;
}

static int feed_operation(struct weir_judge *judge, struct weir_judge_slot *session,
                          const struct weir_judge_event *event)
{
    struct weir_judge_slot *cell = slot_take(judge, event->session, event->key);
    if (!cell)
        return judge->failed;
    struct weir_judge_track *tracks = cell->u.cell.tracks, *own = &tracks[event->kind];
    if (cell->u.cell.losts != session->u.session.losts)
        tracks[0] = tracks[1] = (struct weir_judge_track){ .count = 0 };
    cell->u.cell.losts = session->u.session.losts;
    track_settle(&tracks[0], event->start_ns);
    track_settle(&tracks[1], event->start_ns);
    struct weir_judge_violation violation = compare(cell, event);
    if (own->count == WEIR_JUDGE_OVERLAP_MAX ||
        (violation.broken != 0 && session->u.session.suspects == WEIR_JUDGE_OVERLAP_MAX))
        return fail(judge, WEIR_ELIMIT, "too many operations of one session overlap");
    if (violation.broken != 0)
        session->u.session.suspect[session->u.session.suspects++] = violation;
    if (session->u.session.losts > 0 && event->start_ns <= session->u.session.lost_end_ns)
        return 0;
    own->open[own->count++] =
        (struct weir_judge_open){ .version = event->version, .id = event->id, .end_ns = event->end_ns };
    weir_assert(own->count <= WEIR_JUDGE_OVERLAP_MAX);
    weir_assert(event->version > 0 || event->kind == WEIR_JUDGE_READ);
    mark_if_cut(judge, session, event);
    return 0;
}

static void feed_lost(struct weir_judge *judge, struct weir_judge_slot *session, const struct weir_judge_event *event)
{
    if (!session->u.session.cut_off)
        judge->counts.lost_without_need++;
    session->u.session.cut_off = false;
    session->u.session.suspects = 0; /* those left overlap this */
    weir_assert(event->kind == WEIR_JUDGE_LOST);
    session->u.session.losts++;
    session->u.session.lost_end_ns = weir_max_u64(session->u.session.lost_end_ns, event->end_ns);
}

static int feed_cut(struct weir_judge *judge, const struct weir_judge_event *event)
{
    struct weir_judge_slot *cut = slot_take(judge, 0, event->key);
    if (!cut)
        return judge->failed;
    if (cut->u.cut.end_ns > 0 && event->start_ns <= cut->u.cut.end_ns)
        return fail(judge, WEIR_EINVAL, "two cuts of one key overlap");
    weir_assert(event->end_ns >= event->start_ns && cut->session == 0);
    cut->u.cut.survived = event->version;
    cut->u.cut.end_ns = event->end_ns;
    for (size_t i = 0; i < judge->slot_count; i++) {
        struct weir_judge_slot *cell = &judge->slots[i];
        if (cell->key != event->key || cell->session == 0 || highest(cell) <= event->version)
            continue;
        struct weir_judge_slot *session = slot_find(judge, cell->session, 0);
        if (session->u.session.losts == cell->u.cell.losts)
            session->u.session.cut_off = true;
    }
    return 0;
}

static int feed_session(struct weir_judge *judge, const struct weir_judge_event *event)
{
    struct weir_judge_slot *session = slot_take(judge, event->session, 0);
    if (!session)
        return judge->failed;
    if (event->start_ns < session->u.session.start_ns)
        return fail(judge, WEIR_EINVAL, "events of a session are not in the order of their starts");
    weir_assert(session->session == event->session && session->key == 0);
    session->u.session.start_ns = event->start_ns;
    suspects_convict(judge, session, event->start_ns);
    if (event->kind == WEIR_JUDGE_LOST)
        feed_lost(judge, session, event);
    if (event->kind == WEIR_JUDGE_READ || event->kind == WEIR_JUDGE_WRITE)
        return feed_operation(judge, session, event);
    return 0;
}

static void count(struct weir_judge *judge, const struct weir_judge_event *event)
{
    struct weir_judge_counts *counts = &judge->counts;
    uint64_t *const by_kind[WEIR_JUDGE_KINDS] = { &counts->reads,   &counts->writes, &counts->stale,
                                                  &counts->unknown, &counts->lost,   &counts->cuts };
    weir_assert((unsigned)event->kind < WEIR_JUDGE_KINDS);
    weir_assert(event->server < judge->server_count);
    ++*by_kind[event->kind];
    if (event->kind == WEIR_JUDGE_READ)
        judge->servers[event->server].reads++;
    if (event->kind == WEIR_JUDGE_STALE)
        judge->servers[event->server].stale++;
}

static const char *fault_of(const struct weir_judge *judge, const struct weir_judge_event *event)
{
    if (event->kind >= WEIR_JUDGE_KINDS)
        return "no such kind of event";
    if (event->start_ns > event->end_ns)
        return "ends before it starts";
    if ((event->session == 0) != (event->kind == WEIR_JUDGE_CUT))
        return "a cut is of no session, all else of one";
    if ((event->key == 0) != (event->kind == WEIR_JUDGE_LOST))
        return "lost is of no key, all else of one";
    if (event->kind == WEIR_JUDGE_WRITE && event->version == 0)
        return "a write's version is 0: that is what a read shows where there is no row";
    if (event->server >= judge->server_count)
        return "no such server";
    if ((judge->counts.cuts > 0 || event->kind == WEIR_JUDGE_CUT) && event->start_ns < judge->start_ns)
        return "events are not in the order of their starts, and there are cuts";
    return NULL;
}

int weir_judge_feed(struct weir_judge *judge, struct weir_judge_event event)
{
    if (judge->failed != 0)
        return judge->failed;
    const char *fault = fault_of(judge, &event);
    if (fault)
        return fail(judge, WEIR_EINVAL, fault);
    judge->start_ns = weir_max_u64(judge->start_ns, event.start_ns);
    count(judge, &event);
    return event.kind == WEIR_JUDGE_CUT ? feed_cut(judge, &event) : feed_session(judge, &event);
}

int weir_judge_finish(struct weir_judge *judge)
{
    for (size_t i = 0; judge->failed == 0 && i < judge->slot_count; i++) {
        struct weir_judge_slot *slot = &judge->slots[i];
        if (slot->session == 0 || slot->key != 0)
            continue;
        for (unsigned j = 0; j < slot->u.session.suspects; j++)
            convict(judge, &slot->u.session.suspect[j]);
        slot->u.session.suspects = 0;
    }
    return judge->failed;
}

const char *weir_guarantee_name(enum weir_guarantee guarantee)
{
    static const char *const names[WEIR_GUARANTEES] = { "monotonic reads", "read your writes", "writes follow reads",
                                                        "monotonic writes" };
    weir_assert(guarantee < WEIR_GUARANTEES);
    return names[guarantee];
}
