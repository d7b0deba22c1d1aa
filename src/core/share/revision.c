/* SPDX-License-Identifier: Apache-2.0
 *
 * A revision carries the checksums of those that it superseded. By them a node tells a definition that was left
 * behind from one that nobody has had (is_due()), and sees whether another node's revision was made by one who knew
 * its own (builds_on()). Called by limits/revisions.c and revisions_own.c; revisor.c and revision_talk.c tell the
 * other nodes. */
#include "core/share/revision.h"

#include "base/checked.h"

/* Where a number that only keys said was passed, there stands among the superseded (their former number | PASSED): it
 * is no checksum, but for one in 2^32, of which a node may then want too much. Nodes of before take it for a definition
 * that nobody has. */
#define PASSED (UINT64_MAX - UINT32_MAX)

bool weir_revision_newer(const struct weir_revision *a, const struct weir_revision *b)
{
    return a->number != b->number ? a->number > b->number : a->checksum > b->checksum;
}

void weir_revised_own(struct weir_revised *revised, uint64_t checksum, uint64_t given, bool is_reload)
{
    struct weir_revision *newest = &revised->newest;
    bool had = revised->owned;
    bool changed = is_reload && (!had || revised->own != checksum || revised->own_given != given);
    if (changed && had && newest->number == 0 && newest->superseded_count < WEIR_SUPERSEDED_MAX)
        newest->superseded[newest->superseded_count++] = revised->own; /* who starts with it is late */
    revised->own = checksum;
    revised->own_given = given;
    revised->owned = true;
    if (changed)
        revised->wanted = newest->checksum != checksum || newest->given != given;
}

static bool is_superseded(const struct weir_revision *newest, uint64_t checksum)
{
    for (size_t i = 0; i < newest->superseded_count; i++) {
        if (newest->superseded[i] == checksum)
            return true;
    }
    return false;
}

/* The first of the superseded from `at` on that is a definition. */
static size_t skip_passed(const struct weir_revision *revision, size_t at)
{
    while (at < revision->superseded_count && revision->superseded[at] >= PASSED)
        at++;
    return at;
}

/* Whether whoever made `told` knew `ours`: in its list ours is followed by what ours superseded, as far as the list
 * goes. That ours stands there alone is not enough, for a definition may be brought back. */
static bool builds_on(const struct weir_revision *told, const struct weir_revision *ours)
{
    size_t at = 0;
    while (at < told->superseded_count && told->superseded[at] != ours->checksum)
        at++;
    if (at == told->superseded_count)
        return false;
    at = skip_passed(told, at + 1);
    size_t next = skip_passed(ours, 0);
    if (next < ours->superseded_count && ours->superseded[next] == told->checksum) /* brought back */
        next = skip_passed(ours, next + 1);
    bool ends = next == ours->superseded_count;
    if (at == told->superseded_count)
        return ends || at == WEIR_SUPERSEDED_MAX;
    return !ends && told->superseded[at] == ours->superseded[next];
}

uint64_t weir_revision_passed(const struct weir_revision *revision)
{
    bool passed = revision->superseded_count > 0 && revision->superseded[0] >= PASSED;
    return passed ? revision->superseded[0] - PASSED : 0;
}

/* The number under which a definition became the newest; a higher one that it was given to pass what keys say does not
 * tell that anybody wanted it. */
static uint64_t made_under(const struct weir_revision *revision)
{
    uint64_t passed = weir_revision_passed(revision);
    return passed > 0 ? passed : revision->number;
}

bool weir_revised_hear(struct weir_revised *revised, const struct weir_revision *told)
{
    revised->heard = true;
    if (!told || !weir_revision_newer(told, &revised->newest))
        return false;
    const struct weir_revision before = revised->newest;
    struct weir_revision *newest = &revised->newest;
    *newest = *told;
    /* Who told it may not have known what was the newest here. */
    if (before.number > 0 && before.checksum != told->checksum && !is_superseded(told, before.checksum)) {
        newest->superseded_count += newest->superseded_count < WEIR_SUPERSEDED_MAX;
        newest->superseded[newest->superseded_count - 1] = before.checksum;
    }
    weir_assert(newest->superseded_count <= WEIR_SUPERSEDED_MAX);
    weir_assert(weir_revision_newer(newest, &before)); /* it never goes back */
    bool ours = before.number > 0 && before.checksum == revised->own;
    bool same = told->checksum == revised->own;
    if (!same && ours && made_under(told) < made_under(&before))
        revised->wanted = true; /* who passed its number did not know it, and may have written over it */
    else if (same || (ours && builds_on(told, &before)))
        revised->wanted = false; /* the others know */
    return true;
}

static bool is_due(const struct weir_revised *revised)
{
    const struct weir_revision *newest = &revised->newest;
    if (!revised->owned || !revised->heard || newest->number >= WEIR_REVISION_MAX)
        return false;
    if (newest->number == 0 || revised->own_given != newest->given)
        return newest->number == 0 || revised->own_given > newest->given;
    return revised->own != newest->checksum && (revised->wanted || !is_superseded(newest, revised->own));
}

bool weir_revised_settle(struct weir_revised *revised, uint64_t now_s)
{
    if (!is_due(revised)) {
        if (revised->own_given < revised->newest.given)
            revised->wanted = false; /* its file says itself that it is older */
        return false;
    }
    const struct weir_revision before = revised->newest;
    struct weir_revision next = {
        .number = before.number == 0 && !revised->wanted
                      ? 1
                      : weir_min_u64(weir_max_u64(before.number + 1, weir_min_u64(now_s, WEIR_REVISION_CLOCK_MAX)),
                                     WEIR_REVISION_MAX),
        .given = revised->own_given,
        .checksum = revised->own,
    };
    if (before.number > 0 && before.checksum != next.checksum)
        next.superseded[next.superseded_count++] = before.checksum;
    for (size_t i = 0; i < before.superseded_count && next.superseded_count < WEIR_SUPERSEDED_MAX; i++) {
        if (before.superseded[i] != next.checksum)
            next.superseded[next.superseded_count++] = before.superseded[i];
    }
    weir_assert(next.number > before.number && next.number <= WEIR_REVISION_MAX);
    weir_assert(next.superseded_count <= WEIR_SUPERSEDED_MAX);
    weir_assert(!is_superseded(&next, next.checksum));
    revised->newest = next;
    return true;
}

bool weir_revised_met(struct weir_revised *revised, uint64_t number)
{
    if (number <= revised->newest.number)
        return false;
    /* The last million are left to reloads: what keys say is not signed. */
    bool beyond = number > WEIR_REVISION_CLOCK_MAX;
    if (beyond && number > revised->beyond) {
        revised->beyond = number;
        return true;
    }
    if (!beyond && number > revised->met) {
        revised->met = number;
        revised->met_looks = 0;
    }
    return false;
}

bool weir_revised_passes(struct weir_revised *revised, uint64_t now_s)
{
    struct weir_revision *newest = &revised->newest;
    if (newest->number == 0 || revised->met <= newest->number || ++revised->met_looks < WEIR_REVISION_LOOKS)
        return false;
    if (weir_revision_passed(newest) == 0) { /* else the mark is there */
        newest->superseded_count += newest->superseded_count < WEIR_SUPERSEDED_MAX;
        for (size_t i = newest->superseded_count - 1; i > 0; i--)
            newest->superseded[i] = newest->superseded[i - 1];
        newest->superseded[0] = PASSED | newest->number;
    }
    newest->number = weir_max_u64(revised->met + 1, weir_min_u64(now_s, WEIR_REVISION_CLOCK_MAX));
    weir_assert(newest->number <= WEIR_REVISION_MAX);
    return true;
}
