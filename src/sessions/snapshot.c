/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds the branch of a server in a snapshot, by its system, start and timeline. It is apart from servers.c because
 * that needs libpq: the service has servers.c only in a module (modules/late.c), but links this file. Called by
 * session_pinned.c and serve/sessions_work.c. */
#include "sessions/servers.h"

uint32_t weir_snapshot_branch(const struct weir_snapshot *snapshot, const struct weir_shown *shown)
{
    for (unsigned i = 0; i < snapshot->count; i++) {
        const struct weir_shown *now = &snapshot->servers[i].shown;
        if (now->system == shown->system && now->started == shown->started && now->timeline == shown->timeline)
            return now->branch;
    }
    return 0;
}
