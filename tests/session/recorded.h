/* SPDX-License-Identifier: Apache-2.0
 *
 * A recorded history of sessions, as JSON lines (README.md has the format), and what the judge says of it. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "core/session/judge.h"

struct recorded_names {
    char **names; /* the first has number 1 */
    size_t count;
};

struct recorded {
    struct weir_judge_event *events; /* in the order of their starts; id: the line, from 1; server: from 0 */
    size_t count, room;
    struct recorded_names sessions, keys, servers;
    char about[200];             /* the header's: why it is good or bad */
    unsigned broken;             /* the header's: 1 << weir_guarantee each */
    uint64_t line;               /* the header's: the one line that broke them */
    uint64_t lost, without_need; /* the header's */
    char fault[200];             /* what was wrong with the file */
    unsigned faulty_line;        /* and where; 0: the file itself */
};

/* 0; WEIR_EIO; WEIR_EPROTO: not as README.md has it; WEIR_ENOMEM. On failure `fault` is set and nothing is to be freed.
 */
int recorded_load(const char *path, struct recorded *ret_recorded);
void recorded_free(struct recorded *recorded);

struct recorded_verdict {
    struct weir_judge judge;                 /* its slots are gone */
    struct weir_judge_server *servers;       /* by number - 1 */
    struct weir_judge_violation *violations; /* judge.counts.violated of them */
    size_t room;
};

/* 0; WEIR_ENOMEM; the judge's errors: judge.fault says which, and line. slot_count 0: as many as it can need. */
int recorded_judge(const struct recorded *recorded, size_t slot_count, struct recorded_verdict *ret_verdict,
                   uint64_t *ret_line);
void recorded_verdict_free(struct recorded_verdict *verdict);
