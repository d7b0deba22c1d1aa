/* SPDX-License-Identifier: Apache-2.0
 *
 * Parses the text of TIMELINE_HISTORY, and keeps what is known of a system in sorted arrays of fixed size. `same`
 * leads from each number of a branch to its first one; a number is a SipHash of system, timeline and start. Called by
 * health.c, health_branch.c, branches.c, place.c and route.c; the text comes from sessions/poller.c. Which branch goes
 * on with which is decided in place.c. */
#include "core/session/timeline.h"

#include <string.h>

#include "base/assert.h"
#include "base/checked.h"
#include "base/siphash.h"
#include "core/session/place.h"
#include "weir/error.h"

struct cursor {
    const char *at, *end;
};

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\f' || c == '\v';
}

static void skip_blanks(struct cursor *line)
{
    while (line->at < line->end && is_blank(*line->at))
        line->at++;
}

/* Cuts the next line off `text`. */
static struct cursor next_line(struct cursor *text)
{
    struct cursor line = { text->at, text->at };
    while (line.end < text->end && *line.end != '\n')
        line.end++;
    text->at = line.end < text->end ? line.end + 1 : line.end;
    weir_assert(line.at <= line.end && text->at <= text->end);
    return line;
}

static bool read_timeline(struct cursor *line, uint32_t *ret_timeline)
{
    uint64_t value = 0;
    const char *begin = line->at;
    while (line->at < line->end && *line->at >= '0' && *line->at <= '9') {
        value = 10 * value + (uint64_t)(*line->at++ - '0');
        if (value > UINT32_MAX)
            return false;
    }
    if (line->at == begin || value == 0)
        return false;
    weir_assert(value > 0 && value <= UINT32_MAX);
    *ret_timeline = (uint32_t)value;
    return true;
}

/* "timeline <blanks> position", then a blank and whatever or nothing. */
static bool read_ancestor(struct cursor line, struct weir_ancestor *ret_ancestor)
{
    if (!read_timeline(&line, &ret_ancestor->timeline) || line.at == line.end || !is_blank(*line.at))
        return false;
    skip_blanks(&line);
    const char *begin = line.at;
    while (line.at < line.end && !is_blank(*line.at))
        line.at++;
    return weir_position_parse(begin, (size_t)(line.at - begin), &ret_ancestor->end) == 0;
}

static void add_ancestor(struct weir_history *history, const struct weir_ancestor *ancestor)
{
    if (history->count == WEIR_ANCESTORS_MAX) {
        memmove(history->ancestors, history->ancestors + 1, (WEIR_ANCESTORS_MAX - 1) * sizeof *ancestor);
        history->count--;
        history->cut = true;
    }
    weir_assert(history->count < WEIR_ANCESTORS_MAX);
    weir_assert(history->count == 0 || history->ancestors[history->count - 1].timeline < ancestor->timeline);
    history->ancestors[history->count++] = *ancestor;
}

int weir_history_parse(uint32_t timeline, const char *text, size_t size, struct weir_history *ret_history)
{
    struct weir_history history = { .timeline = timeline };
    struct cursor rest = { text, text + size };
    uint32_t last = 0;
    if (timeline == 0)
        return WEIR_EPROTO;
    while (rest.at < rest.end) {
        struct weir_ancestor ancestor = { 0 };
        struct cursor line = next_line(&rest);
        skip_blanks(&line);
        if (line.at == line.end || *line.at == '#')
            continue;
        if (!read_ancestor(line, &ancestor) || ancestor.timeline <= last || ancestor.timeline >= timeline)
            return WEIR_EPROTO;
        last = ancestor.timeline;
        add_ancestor(&history, &ancestor);
    }
    weir_assert(history.count == 0 || last < timeline);
    *ret_history = history;
    return 0;
}

/* Is it of the system that `known` is of, or the first? */
static bool take_system(struct weir_known *known, uint64_t system)
{
    if (known->system == 0)
        known->system = system;
    return system != 0 && known->system == system;
}

static bool history_before(const struct weir_history *a, const struct weir_history *b)
{
    return a->timeline < b->timeline || (a->timeline == b->timeline && a->branch < b->branch);
}

void weir_known_history(struct weir_known *known, uint64_t system, const struct weir_history *history)
{
    weir_assert(history->count <= WEIR_ANCESTORS_MAX);
    if (!take_system(known, system) || history->timeline <= 1)
        return;
    unsigned at = 0, count = known->history_count;
    while (at < count && history_before(&known->histories[at], history))
        at++;
    if (at < count && known->histories[at].timeline == history->timeline &&
        known->histories[at].branch == history->branch) {
        known->histories[at] = *history;
        return;
    }
    if (count == WEIR_HISTORIES_MAX) {
        if (at == 0)
            return;
        memmove(known->histories, known->histories + 1, --at * sizeof *history);
    } else {
        memmove(known->histories + at + 1, known->histories + at, (count - at) * sizeof *history);
        known->history_count++;
    }
    weir_assert(known->history_count <= WEIR_HISTORIES_MAX && at < known->history_count);
    weir_assert(at == 0 || history_before(&known->histories[at - 1], history));
    weir_assert(at + 1 == known->history_count || history_before(history, &known->histories[at + 1]));
    known->histories[at] = *history;
}

static bool run_before(const struct weir_run *run, const struct weir_run *other)
{
    if (run->timeline != other->timeline)
        return run->timeline < other->timeline;
    return run->run != other->run ? run->run < other->run : run->branch < other->branch;
}

void weir_known_run(struct weir_known *known, uint64_t system, uint32_t timeline, uint32_t branch, uint64_t run,
                    uint64_t flushed)
{
    const struct weir_run told = { timeline, timeline == 1 ? 0 : branch, run, flushed };
    if (!take_system(known, system) || timeline == 0 || run == 0)
        return;
    unsigned at = 0, count = known->run_count;
    while (at < count && run_before(&known->runs[at], &told))
        at++;
    struct weir_run *there = &known->runs[at];
    if (at < count && !run_before(&told, there)) {
        there->flushed = weir_max_u64(there->flushed, flushed);
        return;
    }
    if (count == WEIR_RUNS_MAX) {
        if (at == 0)
            return;
        memmove(known->runs, known->runs + 1, --at * sizeof *there);
    } else {
        memmove(known->runs + at + 1, known->runs + at, (count - at) * sizeof *there);
        known->run_count++;
    }
    weir_assert(known->run_count <= WEIR_RUNS_MAX && at < known->run_count);
    weir_assert(at == 0 || run_before(&known->runs[at - 1], &told));
    weir_assert(at + 1 == known->run_count || run_before(&told, &known->runs[at + 1]));
    known->runs[at] = told;
}

void weir_known_primary(struct weir_known *known, uint64_t system, uint32_t timeline, uint64_t run, uint64_t started)
{
    const struct weir_leading *before = &known->leading;
    if (!take_system(known, system) ||
        (before->timeline == timeline && before->run == run && before->started == started))
        return;
    known->leading = (struct weir_leading){ timeline, run, started };
    weir_assert(known->system == system && system != 0);
    known->changes++;
}

/* ---- branches ---- */

uint32_t weir_branch_of(uint64_t system, uint32_t timeline, uint64_t started)
{
    static const struct weir_sip_key key = { 0, 0 };
    const uint64_t words[] = { system, timeline, started };
    uint8_t bytes[sizeof words];
    for (unsigned i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)(words[i / 8] >> 8 * (i % 8));
    uint32_t branch = (uint32_t)weir_siphash(&key, bytes, sizeof bytes);
    return timeline <= 1 ? 0 : branch ? branch : 1;
}

static uint32_t first_of(const struct weir_known *known, uint32_t timeline, uint32_t branch)
{
    for (unsigned i = 0; known && i < known->same_count; i++)
        if (known->same[i].timeline == timeline && known->same[i].branch == branch)
            return known->same[i].first;
    return branch;
}

bool weir_known_is_same(const struct weir_known *known, uint32_t timeline, uint32_t a, uint32_t b)
{
    return timeline == 1 || a == b || first_of(known, timeline, a) == first_of(known, timeline, b);
}

void weir_known_same(struct weir_known *known, uint32_t timeline, uint32_t branch, uint32_t before)
{
    uint32_t first = first_of(known, timeline, before), other = first_of(known, timeline, branch);
    if (!branch || !before || timeline <= 1 || first == other)
        return;
    for (unsigned i = 0; i < known->same_count; i++)
        if (known->same[i].timeline == timeline && known->same[i].first == other)
            known->same[i].first = first;
    if (known->same_count == WEIR_SAME_MAX)
        memmove(known->same, known->same + 1, --known->same_count * sizeof known->same[0]);
    weir_assert(known->same_count < WEIR_SAME_MAX && first != other);
    known->same[known->same_count++] = (struct weir_same){ timeline, other, first };
}

const struct weir_history *weir_known_find(const struct weir_known *known, uint32_t timeline, uint32_t branch)
{
    static const struct weir_history first = { .timeline = 1 };
    if (timeline == 1)
        return &first;
    for (unsigned i = 0; known && i < known->history_count; i++)
        if (known->histories[i].timeline == timeline &&
            weir_known_is_same(known, timeline, known->histories[i].branch, branch))
            return &known->histories[i];
    return NULL;
}
