/* SPDX-License-Identifier: Apache-2.0
 *
 * Question 1 in virtual time. The lock is what SET NX PX does: a name, and when its lease ends. The store keeps its
 * mark by the rule of core/lease (weir_mark_install, weir_mark_check). */
#include "sim/lab/pauses.h"

#include "base/assert.h"
#include "sim/lab/labs.h"
#include "weir/fence.h"
#include "weir/limit.h"

#define MS (WEIR_NS_PER_SECOND / 1000)

struct world {
    uint64_t now_ns;
    uint64_t held_until_ns; /* the lock */
    uint64_t tokens;        /* INCR */
    struct weir_token mark; /* the store's */
    uint64_t counter;
};

struct client {
    struct weir_token token;
    uint64_t read;
};

static void acquire(struct world *world, const struct lab_pauses_way *way, struct client *client)
{
    if (world->now_ns < world->held_until_ns) /* SET NX is tried until the lease has ended */
        world->now_ns = world->held_until_ns;
    world->held_until_ns = world->now_ns + LAB_PAUSES_LEASE_MS * MS;
    client->token = (struct weir_token){ 1, ++world->tokens };
    int error = way->installs ? weir_mark_install(&world->mark, client->token) : 0;
    weir_assert(error == 0); /* nobody later has come yet */
    client->read = world->counter;
}

static bool write_tried(struct world *world, const struct lab_pauses_way *way, const struct client *client)
{
    int error = 0;
    if (way->installs)
        error = weir_mark_check(&world->mark, client->token);
    else if (way->checked)
        error = weir_mark_install(&world->mark, client->token);
    if (error == 0)
        world->counter = client->read + 1;
    return error == 0;
}

static void play(const struct lab_pauses_way *way, const struct lab_pauses_order *order, struct lab_pauses_run *run)
{
    struct world world = { .now_ns = 0 };
    struct client clients[LAB_PAUSES_CLIENTS];
    for (uint32_t i = 0; i < LAB_PAUSES_CLIENTS; i++)
        acquire(&world, way, &clients[i]);
    for (uint32_t i = 0; i < LAB_PAUSES_CLIENTS; i++) {
        if (i == 1 && order->restarts && !way->durable)
            world.mark = (struct weir_token){ 0, 0 };
        run->acknowledged[i] = write_tried(&world, way, &clients[order->wakes[i]]);
        run->counter[i] = world.counter;
    }
}

void lab_pauses_report(const struct lab_pauses_way *way, const struct lab_pauses_order *order,
                       const struct lab_pauses_run *run, struct weir_lab_report *report)
{
    size_t series = weir_lab_begin(report, "%s; %s", way->name, order->name);
    uint64_t acknowledged = 0, lost = 0;
    weir_lab_point(report, series, 0, 0);
    for (uint32_t i = 0; i < LAB_PAUSES_CLIENTS; i++) {
        acknowledged += run->acknowledged[i];
        lost = acknowledged > run->counter[i] ? acknowledged - run->counter[i] : 0;
        weir_lab_point(report, series, i + 1, (double)lost);
    }
    weir_lab_point(report, series, LAB_PAUSES_CLIENTS + 1, (double)lost);
    weir_lab_number(report, (double)acknowledged, "updates", "%s; %s: acknowledged", way->name, order->name);
    weir_lab_number(report, (double)lost, "updates", "%s; %s: lost of them", way->name, order->name);
}

static void run(uint64_t seed, struct weir_lab_report *report)
{
    (void)seed;
    report->source = WEIR_LAB_SIMULATED;
    report->x = LAB_PAUSES_X;
    report->y = "updates that were acknowledged and are lost";
    for (uint32_t i = 0; i < LAB_PAUSES_ORDERS; i++) {
        for (uint32_t k = 0; k < LAB_PAUSES_WAYS; k++) {
            struct lab_pauses_run found;
            play(&lab_pauses_ways[k], &lab_pauses_orders[i], &found);
            lab_pauses_report(&lab_pauses_ways[k], &lab_pauses_orders[i], &found, report);
        }
    }
}

const struct weir_lab weir_lab_pauses = {
    .number = 1,
    .title = "three clients pause with a lock by SET NX PX, and a store forgets its highest token",
    .question =
        "Three clients add one to a counter, each under a lock in Redis (SET NX PX, with a token from INCR). Each "
        "reads, and pauses until its lease has ended, so that at last all three pause at once and each believes "
        "that it holds the lock. Then they wake, and write. In one order the store restarts after the first "
        "write, and may have forgotten the highest token that it saw. Which updates are lost?",
    .shows =
        "The lock alone loses two of three updates. A store that compares tokens refuses whoever is late, but only "
        "if it has seen the later token: where the clients wake in the order of their tokens each write looks new, "
        "and two are lost all the same. A mark that is kept in memory is gone after a restart, and the old ones go "
        "through. Only where the token is installed before the read, on disk, is nothing lost: the two that are "
        "late are refused, and know it.",
    .shows_not = "How often clients pause for longer than their lease; here all do, each time. Who is refused has to "
                 "begin anew: that costs time, which is not counted. The lock itself is not at fault here, nor could a "
                 "better one help: it cannot see that its client sleeps.",
    .run = run,
};
