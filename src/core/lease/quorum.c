/* SPDX-License-Identifier: Apache-2.0
 *
 * A round is two masks of replicas, those that said yes and those that refused or failed, so that an answer that comes
 * twice counts once; its state follows from the two masks. Besides the tests only the simulator calls it (sim/locks.c,
 * sim/locks_client.c). */
#include "core/lease/quorum.h"

#include <string.h>

#include "base/assert.h"
#include "base/fault.h"

static bool counts(unsigned value, unsigned replicas)
{
    return value >= 1 && value <= replicas;
}

int weir_quorum_check(const struct weir_quorum *quorum, struct weir_fault *ret_fault)
{
    unsigned n = quorum->replicas;
    if (!counts(n, WEIR_QUORUM_REPLICAS_MAX))
        return weir_fault_set(ret_fault, WEIR_ERANGE, "replicas", "must be 1 to 64");
    if (!counts(quorum->install, n))
        return weir_fault_set(ret_fault, WEIR_ERANGE, "install", "must be 1 to the number of replicas");
    if (!counts(quorum->read, n))
        return weir_fault_set(ret_fault, WEIR_ERANGE, "read", "must be 1 to the number of replicas");
    if (!counts(quorum->write, n))
        return weir_fault_set(ret_fault, WEIR_ERANGE, "write", "must be 1 to the number of replicas");
    if (quorum->install + quorum->write <= n)
        return weir_fault_set(
            ret_fault, WEIR_EINVAL, "install",
            "install + write must be above the number of replicas: an older holder's write could miss the fence");
    if (quorum->read + quorum->write <= n)
        return weir_fault_set(ret_fault, WEIR_EINVAL, "read",
                              "read + write must be above the number of replicas: a read could miss the last write");
    return 0;
}

int weir_version_compare(struct weir_version a, struct weir_version b)
{
    int order = weir_token_compare(a.token, b.token);
    return order != 0 ? order : (a.sequence > b.sequence) - (a.sequence < b.sequence);
}

void weir_round_begin(struct weir_round *round, const struct weir_quorum *quorum, unsigned need)
{
    weir_assert(quorum->replicas >= 1 && quorum->replicas <= WEIR_QUORUM_REPLICAS_MAX);
    weir_assert(need >= 1 && need <= quorum->replicas);
    *round = (struct weir_round){ .need = need, .replicas = quorum->replicas };
}

static unsigned bits(uint64_t set)
{
    return (unsigned)__builtin_popcountll(set);
}

/* Can `need` still say yes? */
static enum weir_round_state state_of(const struct weir_round *round, bool ended)
{
    weir_assert((round->yes & round->no) == 0);
    weir_assert(bits(round->yes | round->no) <= round->replicas);
    weir_assert(!round->fenced || round->no != 0);
    if (bits(round->yes) >= round->need)
        return WEIR_ROUND_DONE;
    unsigned silent = round->replicas - bits(round->yes | round->no);
    if (!ended && bits(round->yes) + silent >= round->need)
        return WEIR_ROUND_OPEN;
    return round->fenced ? WEIR_ROUND_FENCED : WEIR_ROUND_UNKNOWN;
}

enum weir_round_state weir_round_hear(struct weir_round *round, unsigned replica, int result)
{
    weir_assert(replica < round->replicas);
    uint64_t bit = UINT64_C(1) << replica;
    if (((round->yes | round->no) & bit) == 0) {
        *(result == 0 ? &round->yes : &round->no) |= bit;
        round->fenced |= result == WEIR_EFENCED;
    }
    return state_of(round, false);
}

enum weir_round_state weir_round_end(const struct weir_round *round)
{
    return state_of(round, true);
}

unsigned weir_takeover_need(const struct weir_quorum *quorum, enum weir_takeover step)
{
    weir_assert((unsigned)step <= WEIR_TAKEOVER_READY);
    switch (step) {
    case WEIR_TAKEOVER_INSTALL:
        return quorum->install;
    case WEIR_TAKEOVER_READ:
        return quorum->read;
    case WEIR_TAKEOVER_WRITE_BACK:
    case WEIR_TAKEOVER_READY:
        break;
    }
    return quorum->write;
}
