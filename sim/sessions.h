/* SPDX-License-Identifier: Apache-2.0
 *
 * Sessions in virtual time: a replicated database, several weirs whose pollers watch it, and sessions that read and
 * write by what core/session/policy.h says, over core/session/health.h. The database has a primary and standbys that
 * lag, failovers (two standbys may be promoted one after the other to one timeline number), former primaries that live
 * on, restarts, crashes that lose what was not flushed, and copies made anew. Connections break, pollers are slow and
 * cannot reach a server, weirs start anew. All of it follows from the seed.
 *
 * What is checked knows nothing of positions, timelines or tokens: the log is a tree of records, what a server shows is
 * one record with all before it, and what a session saw is a set of records.
 *     no read shows less than the session has seen, unless it is marked stale or the session was told LOST
 *     no request is under way beyond the time that it gave
 *     where nothing can be lost, and in the calm at the end of what was seen there, nobody is told LOST
 *     in the calm at the end who saw what is lost is told so, and all others are served */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* A mistake that the checks must find. */
enum weir_sim_sessions_plant {
    WEIR_SIM_SESSIONS_NONE,
    WEIR_SIM_SESSIONS_NO_TOKEN,       /* the token is not looked at */
    WEIR_SIM_SESSIONS_NO_MOVE,        /* reads do not move it */
    WEIR_SIM_SESSIONS_NO_CHECK,       /* nothing is asked on the connection that reads */
    WEIR_SIM_SESSIONS_NO_TIMELINE,    /* positions are compared, whatever the timelines */
    WEIR_SIM_SESSIONS_NO_BRANCH,      /* a timeline's number is taken for its identity */
    WEIR_SIM_SESSIONS_NO_HALF,        /* what a standby has in flight counts as not seen */
    WEIR_SIM_SESSIONS_NO_RUN,         /* what was not flushed counts as if it were */
    WEIR_SIM_SESSIONS_NO_SETTLING,    /* a primary counts as settled always */
    WEIR_SIM_SESSIONS_FORMER,         /* a former primary is taken for the primary */
    WEIR_SIM_SESSIONS_FOR_EVER,       /* give_up is ignored */
    WEIR_SIM_SESSIONS_NO_LOSS,        /* LOST is told as BEHIND */
    WEIR_SIM_SESSIONS_LOSS_AT_ONCE,   /* and BEHIND as LOST */
    WEIR_SIM_SESSIONS_OLD_CONNECTION, /* a new start of the server ends no connection */
    /* No mistake of the plan: what docs/soak.md tells of. A standby follows the second of two that were promoted to one
     * number while the first lives, or before all have heard of the second. */
    WEIR_SIM_SESSIONS_KNOWN_HOLE,
    WEIR_SIM_SESSIONS_PLANTS
};
const char *weir_sim_sessions_plant_name(enum weir_sim_sessions_plant plant); /* NULL: no such one */

struct weir_sim_sessions_result {
    const char *broken; /* what, in words; NULL: nothing */
    uint64_t broken_ns; /* virtual time */
    uint64_t duration_ns;
    uint32_t servers, weirs, sessions;
    bool calm;  /* nothing can be lost */
    bool twins; /* several promotions may take one number */
    uint64_t reads, at_primary, stale, writes, told_lost, behind, down, retries, merged;
    uint64_t failovers, crashes, restarts, copies, weir_starts, breaks;
};

/* The same seed and plant always give the same run. */
void weir_sim_sessions_run(uint64_t seed, enum weir_sim_sessions_plant plant,
                           struct weir_sim_sessions_result *ret_result);
