/* SPDX-License-Identifier: Apache-2.0
 *
 * The check before a read as a text of SQL, for those whose connections are their own: one statement, to be run by
 * itself on the connection that will read, outside of a transaction. It answers one row with one text: "ok", or the
 * name of another verdict (core/session/place.h), which means: ask again where to read.
 *
 * It says "ok" only where weir_place_compare would of what that server shows at that moment, whatever has become of the
 * server since it was chosen: it may have been promoted, or follow another timeline. What one statement cannot prove is
 * "unproven": a standby's timeline where there is no WAL receiver or the role may not see it (pg_read_all_stats), a
 * timeline whose history was not known when the text was made, several places of one system.
 *
 * Nothing but numbers goes into it. Source: docs/reads.md on what of PostgreSQL this rests. Thread rule: pure. */
#pragma once

#include "core/session/token.h"

#define WEIR_CHECK_TEXT_MAX 8192

struct weir_check_wish {
    const struct weir_session_token *token;
    const struct weir_known *known;
    uint64_t system; /* of the servers; 0 = not known: the token's own */
    /* Where it will be run. On a timeline above 1 it says ok there only, and only in that run of its postmaster,
     * because no server says which promotion its timeline comes from. NULL: timelines are taken for what their numbers
     * say. */
    const struct weir_shown *server;
    uint64_t settled_run; /* the run of a primary that was seen settled after the token was made; 0 = none was */
};

/* text: WEIR_CHECK_TEXT_MAX bytes, terminated. Returns its length. */
size_t weir_check_text(const struct weir_check_wish *wish, char *text);
