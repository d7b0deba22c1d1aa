/* SPDX-License-Identifier: Apache-2.0
 *
 * A list of rows, searched from the front. weir_branches_learn turns them into what timeline.h keeps: the runs of a row
 * are one branch, and the ancestors of a server's history get their branches. Called by health_branch.c;
 * sessions/branch_table.c reads the table from PostgreSQL and fills the rows. */
#include "core/session/branches.h"

#include "base/assert.h"
#include "weir/error.h"

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* The length of the name at the beginning of the text; 0: none, or too long a one. */
static size_t name_size(const char *text, size_t size)
{
    size_t length = 0;
    while (length < size && (is_letter(text[length]) || (length > 0 && is_digit(text[length]))))
        length++;
    return length <= WEIR_BRANCH_NAME_MAX ? length : 0;
}

bool weir_branches_is_name(const char *text, size_t size)
{
    size_t schema = name_size(text, size);
    if (schema == 0 || schema == size || text[schema] != '.')
        return false;
    weir_assert(schema <= WEIR_BRANCH_NAME_MAX && schema < size);
    size_t rest = size - schema - 1;
    return rest > 0 && name_size(text + schema + 1, rest) == rest;
}

int weir_branches_add(struct weir_branches *branches, uint64_t timeline, const char *runs, size_t size)
{
    struct weir_branch_row row = { .timeline = (uint32_t)timeline };
    size_t at = 0;
    if (timeline <= 1 || timeline > UINT32_MAX)
        return WEIR_EPROTO;
    while (at < size) {
        uint64_t run = 0;
        size_t begin = at;
        for (; at < size && is_digit(runs[at]); at++) {
            if (run > (UINT64_MAX - 9) / 10)
                return WEIR_EPROTO;
            run = 10 * run + (uint64_t)(runs[at] - '0');
        }
        if (at == begin || run == 0 || (at < size && (runs[at] != ' ' || at + 1 == size)))
            return WEIR_EPROTO;
        at++;
        if (row.count < WEIR_BRANCH_RUNS_MAX)
            row.runs[row.count++] = run;
    }
    if (row.count == 0)
        return WEIR_EPROTO;
    weir_assert(row.count <= WEIR_BRANCH_RUNS_MAX && row.runs[0] != 0);
    weir_assert(branches->count <= WEIR_HISTORIES_MAX);
    if (branches->count < WEIR_HISTORIES_MAX)
        branches->rows[branches->count++] = row;
    return 0;
}

const struct weir_branch_row *weir_branches_find(const struct weir_branches *branches, uint32_t timeline)
{
    for (unsigned i = 0; i < branches->count; i++)
        if (branches->rows[i].timeline == timeline)
            return &branches->rows[i];
    return NULL;
}

bool weir_branches_has(const struct weir_branches *branches, uint32_t timeline, uint64_t run)
{
    const struct weir_branch_row *row = weir_branches_find(branches, timeline);
    for (unsigned i = 0; row && i < row->count; i++)
        if (row->runs[i] == run)
            return true;
    return false;
}

uint32_t weir_branches_number(const struct weir_branches *branches, uint64_t system, uint32_t timeline)
{
    const struct weir_branch_row *row = weir_branches_find(branches, timeline);
    return row ? weir_branch_of(system, timeline, row->runs[0]) : 0;
}

static void learn_ancestors(const struct weir_branches *branches, uint32_t timeline, uint32_t branch,
                            struct weir_known *known)
{
    const struct weir_history *there = weir_known_find(known, timeline, branch);
    if (timeline <= 1 || !there)
        return;
    struct weir_history history = *there;
    for (unsigned i = 0; i < history.count; i++) {
        struct weir_ancestor *ancestor = &history.ancestors[i];
        uint32_t number = weir_branches_number(branches, known->system, ancestor->timeline);
        if (number)
            ancestor->branch = number;
    }
    weir_assert(history.timeline == timeline && history.count <= WEIR_ANCESTORS_MAX);
    weir_known_history(known, known->system, &history);
}

void weir_branches_learn(const struct weir_branches *branches, uint32_t timeline, uint32_t branch,
                         struct weir_known *known)
{
    for (unsigned i = 0; i < branches->count; i++) {
        const struct weir_branch_row *row = &branches->rows[i];
        weir_assert(row->timeline > 1 && row->count > 0);
        uint32_t newest = weir_branch_of(known->system, row->timeline, row->runs[0]);
        for (unsigned j = 1; j < row->count; j++)
            weir_known_same(known, row->timeline, weir_branch_of(known->system, row->timeline, row->runs[j]), newest);
    }
    learn_ancestors(branches, timeline, branch, known);
}
