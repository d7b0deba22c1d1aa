/* SPDX-License-Identifier: Apache-2.0
 *
 * A tick looks at each node. One that is quiet for probe_ns is pinged; without an answer others are asked to ping it
 * after half of probe_ns, and after all of it it is suspected. A mask says which nodes asked to be told. Called by
 * limits/gossip_host.c and gossip_talk.c, which put pings into what they send; deciding by gossip is gossip.c. */
#include "core/share/membership.h"

#include <string.h>

#include "base/checked.h"

void weir_membership_init(struct weir_membership *members, uint32_t nodes, uint32_t self, uint64_t probe_ns,
                          uint64_t suspect_ns, uint64_t now_ns)
{
    weir_assert(nodes <= WEIR_MEMBERSHIP_MAX && self < nodes && probe_ns > 0);
    memset(members, 0, sizeof *members);
    members->nodes = nodes;
    members->self = self;
    members->probe_ns = probe_ns;
    members->suspect_ns = suspect_ns;
    for (uint32_t j = 0; j < nodes; j++)
        members->node[j].since_ns = now_ns;
    members->node[self].state = WEIR_MEMBERSHIP_SELF;
}

static void enter(struct weir_membership_node *node, enum weir_membership_state state, uint64_t now_ns)
{
    if (node->state == state)
        return;
    weir_assert(state != WEIR_MEMBERSHIP_SUSPECT || node->state == WEIR_MEMBERSHIP_ALIVE);
    weir_assert(state != WEIR_MEMBERSHIP_DEAD || node->state == WEIR_MEMBERSHIP_SUSPECT);
    weir_assert(state != WEIR_MEMBERSHIP_SELF && node->state != WEIR_MEMBERSHIP_SELF);
    node->state = state;
    node->since_ns = now_ns;
}

void weir_membership_told(struct weir_membership *members, uint32_t node, uint64_t now_ns)
{
    if (node >= members->nodes || node == members->self)
        return;
    struct weir_membership_node *heard = &members->node[node];
    heard->heard_ns = now_ns;
    heard->pinged_ns = 0;
    enter(heard, WEIR_MEMBERSHIP_ALIVE, now_ns);
}

uint64_t weir_membership_heard(struct weir_membership *members, uint32_t node, uint64_t now_ns)
{
    weir_assert(node < members->nodes);
    weir_membership_told(members, node, now_ns);
    struct weir_membership_node *heard = &members->node[node];
    uint64_t askers = now_ns - heard->asked_ns <= members->probe_ns ? heard->askers : 0;
    heard->askers = 0;
    return askers;
}

void weir_membership_asked(struct weir_membership *members, uint32_t asker, uint32_t node, uint64_t now_ns)
{
    if (node >= members->nodes || node == members->self || asker >= members->nodes || asker == node)
        return;
    members->node[node].askers |= UINT64_C(1) << asker;
    members->node[node].asked_ns = now_ns;
}

/* Asks up to k others that are alive to ping `about`. */
static size_t ask_helpers(struct weir_membership *members, uint32_t about, struct weir_membership_send *ret_sends,
                          size_t room)
{
    size_t count = 0;
    for (uint32_t tried = 0; tried < members->nodes && count < WEIR_MEMBERSHIP_HELPERS && count < room; tried++) {
        members->helper = (members->helper + 1) % members->nodes;
        if (members->helper == about || members->node[members->helper].state != WEIR_MEMBERSHIP_ALIVE)
            continue;
        ret_sends[count++] =
            (struct weir_membership_send){ .to = members->helper, .ask = about, .told = WEIR_MEMBERSHIP_NOBODY };
        weir_assert(members->helper != members->self);
    }
    return count;
}

static size_t tick_node(struct weir_membership *members, uint32_t j, uint64_t now_ns,
                        struct weir_membership_send *ret_sends, size_t room)
{
    struct weir_membership_node *node = &members->node[j];
    weir_assert(j != members->self && room > 0);
    uint64_t quiet_ns = now_ns - weir_max_u64(node->heard_ns, node->pinged_ns);
    if (node->state == WEIR_MEMBERSHIP_SUSPECT && now_ns - node->since_ns >= members->suspect_ns)
        enter(node, WEIR_MEMBERSHIP_DEAD, now_ns);
    if (node->pinged_ns > 0 && !node->helped && quiet_ns >= members->probe_ns / 2) {
        node->helped = true;
        return ask_helpers(members, j, ret_sends, room);
    }
    if (quiet_ns < members->probe_ns)
        return 0;
    if (node->pinged_ns > 0 && node->state == WEIR_MEMBERSHIP_ALIVE) /* nor did others hear it */
        enter(node, WEIR_MEMBERSHIP_SUSPECT, now_ns);
    node->pinged_ns = now_ns;
    node->helped = false;
    ret_sends[0] = (struct weir_membership_send){ j, true, WEIR_MEMBERSHIP_NOBODY, WEIR_MEMBERSHIP_NOBODY };
    return 1;
}

size_t weir_membership_tick(struct weir_membership *members, uint64_t now_ns,
                            struct weir_membership_send ret_sends[WEIR_MEMBERSHIP_SENDS])
{
    size_t count = 0;
    for (uint32_t j = 0; j < members->nodes && count + WEIR_MEMBERSHIP_HELPERS <= WEIR_MEMBERSHIP_SENDS; j++)
        if (j != members->self)
            count += tick_node(members, j, now_ns, &ret_sends[count], WEIR_MEMBERSHIP_SENDS - count);
    weir_assert(count <= WEIR_MEMBERSHIP_SENDS);
    return count;
}

const char *weir_membership_name(enum weir_membership_state state)
{
    static const char *const names[] = { "unknown", "alive", "suspect", "dead", "self" };
    weir_assert((unsigned)state < sizeof names / sizeof names[0]);
    return names[state];
}
