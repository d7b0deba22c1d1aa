/* SPDX-License-Identifier: Apache-2.0
 *
 * Question 2 in virtual time, over the replicas of replicated.h, and the counting that the experiment with PostgreSQL
 * has in common with it. */
#include "sim/lab/phone.h"

#include <stdlib.h>

#include "sim/lab/labs.h"
#include "sim/lab/replicated.h"

void lab_phone_count(struct lab_phone_found *found, uint64_t written, uint64_t before, uint64_t value, bool primary,
                     uint64_t waited_ns)
{
    weir_assert(found->rounds < LAB_PHONE_ROUNDS);
    found->missed += value < written;
    found->back += value < before;
    found->primary += primary;
    found->waited_ns += waited_ns;
    found->missed_by[found->rounds++] = (double)found->missed;
}

void lab_phone_report(const struct lab_phone_found found[LAB_PHONE_WAYS], struct weir_lab_report *report)
{
    report->x = "rounds: a write on the phone, a read on the laptop";
    report->y = "reads that missed the write";
    for (unsigned way = 0; way < LAB_PHONE_WAYS; way++) {
        const struct lab_phone_found *one = &found[way];
        size_t series = weir_lab_begin(report, "%s", lab_phone_ways[way]);
        weir_lab_point(report, series, 0, 0);
        for (uint64_t i = 0; i < one->rounds; i++)
            weir_lab_point(report, series, (double)(i + 1), one->missed_by[i]);
        weir_lab_number(report, (double)one->rounds, "reads", "%s: reads on the laptop", lab_phone_ways[way]);
        weir_lab_number(report, (double)one->missed, "reads", "%s: missed the write", lab_phone_ways[way]);
        weir_lab_number(report, (double)one->back, "reads", "%s: older than read there before", lab_phone_ways[way]);
        weir_lab_number(report, (double)one->primary, "reads", "%s: at the primary", lab_phone_ways[way]);
        weir_lab_number(report, (double)one->waited_ns / (double)one->rounds / 1e6, "ms", "%s: mean time of a read",
                        lab_phone_ways[way]);
    }
}

/* ---- in virtual time ---- */

struct user {
    struct lab_world world; /* one row, and the log of it alone: what others write moves no token of this user */
    struct weir_session_token phone, laptop;
    uint64_t read; /* on the laptop, last */
};

/* The server at which the laptop reads, the world being at that time then. */
static uint32_t laptop_route(struct user *user, unsigned number, enum lab_phone_way way,
                             const struct lab_phone_round *round)
{
    enum weir_session_strategy strategy = way == LAB_PHONE_STICKY ? WEIR_SESSION_STICKY : WEIR_SESSION_TRACKED;
    uint64_t end_ns = user->world.now_ns + LAB_PHONE_WAIT_MS * LAB_MS;
    if (way == LAB_PHONE_ANY)
        return round->replica;
    if (way == LAB_PHONE_SHARED && weir_session_token_merge(&user->laptop, &user->phone, &user->world.known) != 0)
        abort(); /* places of one timeline always merge */
    for (;; user->world.now_ns += LAB_MS) {
        uint64_t left_ns = end_ns > user->world.now_ns ? end_ns - user->world.now_ns : 0;
        struct weir_route route = lab_world_route(&user->world, &user->laptop, number + 1, strategy, left_ns);
        if (!route.wait)
            return route.server;
    }
}

static void play_round(struct user *users, enum lab_phone_way way, const struct lab_phone_round *round,
                       struct lab_phone_found *found)
{
    struct user *user = &users[round->user];
    lab_world_commit(&user->world);
    lab_world_saw(&user->world, 0, &user->phone);
    user->world.now_ns += round->moment_ms * LAB_MS;
    uint64_t begin_ns = user->world.now_ns;
    uint32_t server = laptop_route(user, round->user, way, round);
    weir_assert(server < LAB_SERVERS);
    uint64_t value = lab_world_value(&user->world, server), waited_ns = user->world.now_ns - begin_ns;
    lab_world_saw(&user->world, server, &user->laptop);
    lab_phone_count(found, user->world.commits, user->read, value, server == 0, waited_ns);
    user->read = value;
    for (unsigned i = 0; i < LAB_PHONE_USERS; i++) /* the others' time goes on as well */
        users[i].world.now_ns = users[i].world.now_ns > user->world.now_ns ? users[i].world.now_ns : user->world.now_ns;
}

static void run(uint64_t seed, struct weir_lab_report *report)
{
    static const uint64_t lag_ms[LAB_SERVERS] = LAB_PHONE_LAG_MS;
    struct lab_phone_found *found = calloc(LAB_PHONE_WAYS, sizeof(*found));
    struct user *users = malloc(LAB_PHONE_USERS * sizeof(*users));
    weir_assert(found && users);
    report->source = WEIR_LAB_SIMULATED;
    for (unsigned way = 0; way < LAB_PHONE_WAYS; way++) {
        struct weir_sim_random random = { .state = seed };
        for (unsigned i = 0; i < LAB_PHONE_USERS; i++) {
            users[i] = (struct user){ .world.now_ns = WEIR_NS_PER_SECOND };
            for (uint32_t k = 0; k < LAB_SERVERS; k++)
                users[i].world.lag_ns[k] = lag_ms[k] * LAB_MS;
        }
        for (unsigned i = 0; i < LAB_PHONE_ROUNDS; i++) {
            struct lab_phone_round round = lab_phone_draw(&random, i);
            play_round(users, (enum lab_phone_way)way, &round, &found[way]);
        }
    }
    lab_phone_report(found, report);
    free(users);
    free(found);
}

const struct weir_lab weir_lab_phone = {
    .number = 2,
    .title = "write on the phone, read on the laptop",
    .question =
        "A user writes on the phone and, up to 400 ms later, reads on the laptop. Reads go to two replicas, which "
        "are 50 and 250 ms behind the primary. How often does the laptop not show what the phone wrote?",
    .shows =
        "Whether a read misses the write is a matter of luck: is the replica that it meets further behind than the "
        "moment is long? Keeping a user at one replica only makes that luck the user's own. A token does not help "
        "while each device has its own: what the laptop has not seen it does not wait for. With a token of the user, "
        "which the phone moves and the laptop brings, no read misses a write; it waits for a replica that shows it.",
    .shows_not =
        "Replicas that are behind by as much all the time, as here, are the easy case; docs/reads.md measures lag "
        "that comes and goes, with servers that leave. How the token gets from the phone to the laptop is the "
        "application's business, or the service's, which keeps one for each user (docs/sessions-http.md).",
    .drawn = true,
    .run = run,
};
