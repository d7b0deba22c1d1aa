/* SPDX-License-Identifier: Apache-2.0
 *
 * What a PostgreSQL server is asked to show, as text, and what it answers, as text: shown.c asks. Pure. */
#pragma once

#include "sessions/shown.h"

struct weir_shown_statement {
    const char *name; /* when it is prepared; carries its version */
    const char *text;
};

enum {
    WEIR_SHOWN_FIXED = 4,   /* columns that weir_shown_read_fixed reads */
    WEIR_SHOWN_COLUMNS = 6, /* and weir_shown_read */
};

extern const struct weir_shown_statement weir_shown_full;          /* WEIR_SHOWN_COLUMNS */
extern const struct weir_shown_statement weir_shown_brief_primary; /* position, flushed */
extern const struct weir_shown_statement weir_shown_brief_standby; /* receiver, received, replayed, receiver again */
/* The first question: WEIR_SHOWN_FIXED, then whether all that was replayed is shown, and the process that answers. */
extern const char weir_shown_first[];

bool weir_shown_read_position(const char *text, uint64_t *ret_position);

/* WEIR_EPROTO: no server says so. */
int weir_shown_read(const char *const *columns, const struct weir_shown_fixed *fixed, struct weir_shown *ret);
int weir_shown_read_fixed(const char *const *columns, struct weir_shown_fixed *fixed);
