/* SPDX-License-Identifier: Apache-2.0
 *
 * Question 7 in virtual time, over the replicas of replicated.h, and the counting that the experiment with PostgreSQL
 * has in common with it. */
#include "sim/lab/sticky.h"

#include <stdlib.h>
#include <string.h>

#include "sim/lab/labs.h"
#include "sim/lab/replicated.h"

/* As core/session/route.h has it: the highest score wins. */
unsigned lab_sticky_prefers(unsigned user)
{
    return weir_route_score(2, user + 1) >= weir_route_score(3, user + 1) ? 1 : 2;
}

void lab_sticky_count(struct lab_sticky_user *user, uint64_t value, bool primary, uint64_t time_ns)
{
    user->reads++;
    user->primary += primary;
    user->time_ns += time_ns;
    user->longest_ns = time_ns > user->longest_ns ? time_ns : user->longest_ns;
    if (value < user->seen) {
        user->back++;
        user->step = user->seen - value > user->step ? user->seen - value : user->step;
    }
    user->seen = value > user->seen ? value : user->seen;
}

void lab_sticky_sample(const struct lab_sticky_board *board, double at_s, struct weir_lab_report *report)
{
    for (unsigned way = 0; way < LAB_STICKY_WAYS; way++) {
        uint64_t back = 0;
        if (report->series_count == way)
            (void)weir_lab_begin(report, "%s", lab_sticky_ways[way]);
        for (unsigned i = 0; i < LAB_STICKY_USERS; i++)
            back += board->users[way][i].back;
        weir_lab_point(report, way, at_s, (double)back);
    }
}

void lab_sticky_report(const struct lab_sticky_board *board, struct weir_lab_report *report)
{
    report->x = LAB_STICKY_X;
    report->y = LAB_STICKY_Y;
    for (unsigned way = 0; way < LAB_STICKY_WAYS; way++) {
        struct lab_sticky_user sum = { .reads = 0 };
        uint64_t touched = 0;
        for (unsigned i = 0; i < LAB_STICKY_USERS; i++) {
            const struct lab_sticky_user *user = &board->users[way][i];
            sum.reads += user->reads;
            sum.back += user->back;
            sum.failed += user->failed;
            sum.primary += user->primary;
            sum.step = user->step > sum.step ? user->step : sum.step;
            sum.time_ns += user->time_ns;
            sum.longest_ns = user->longest_ns > sum.longest_ns ? user->longest_ns : sum.longest_ns;
            touched += user->back > 0;
        }
        const char *name = lab_sticky_ways[way];
        weir_lab_number(report, (double)sum.reads, "reads", "%s: reads", name);
        weir_lab_number(report, (double)sum.back, "reads", "%s: went back", name);
        weir_lab_number(report, (double)touched, "users", "%s: users who went back, of %d", name, LAB_STICKY_USERS);
        weir_lab_number(report, (double)sum.step * LAB_STICKY_WRITE_MS, "ms", "%s: furthest step back", name);
        weir_lab_number(report, (double)sum.primary, "reads", "%s: at the primary", name);
        weir_lab_number(report, (double)sum.failed, "reads", "%s: failed and were tried again", name);
        weir_lab_number(report, (double)sum.time_ns / (double)sum.reads / 1e6, "ms", "%s: mean time of a read", name);
        weir_lab_number(report, (double)sum.longest_ns / 1e6, "ms", "%s: longest time of a read", name);
    }
}

/* ---- in virtual time ---- */

struct reader {
    struct weir_session_token token;
    uint64_t due_ns; /* of the next read, or of the one that waits */
};

static void reader_tick(struct lab_world *world, struct reader *reader, unsigned number, enum lab_sticky_way way,
                        struct lab_sticky_user *user)
{
    enum weir_session_strategy strategy = way == LAB_STICKY_PLAIN ? WEIR_SESSION_STICKY : WEIR_SESSION_TRACKED;
    uint64_t end_ns = reader->due_ns + LAB_STICKY_WAIT_MS * LAB_MS;
    if (world->now_ns < reader->due_ns)
        return;
    struct weir_route route = lab_world_route(world, &reader->token, number + 1, strategy,
                                              end_ns > world->now_ns ? end_ns - world->now_ns : 0);
    if (route.wait)
        return;
    weir_assert(route.server < LAB_SERVERS && !world->down[route.server]);
    lab_sticky_count(user, lab_world_value(world, route.server), route.server == 0, world->now_ns - reader->due_ns);
    lab_world_saw(world, route.server, &reader->token);
    while (reader->due_ns <= world->now_ns)
        reader->due_ns += LAB_STICKY_READ_MS * LAB_MS;
}

static void way_play(enum lab_sticky_way way, struct lab_sticky_board *board, struct lab_world *world,
                     struct reader readers[LAB_STICKY_USERS], uint64_t ms)
{
    static const uint64_t lag_ms[LAB_SERVERS] = LAB_STICKY_LAG_MS;
    for (uint32_t i = 0; i < LAB_SERVERS; i++)
        world->lag_ns[i] = lag_ms[i] * LAB_MS;
    world->now_ns = (1000 + ms) * LAB_MS;
    world->down[LAB_STICKY_NEAR] = ms >= LAB_STICKY_FAILS_MS && ms < LAB_STICKY_BACK_MS;
    if (ms % LAB_STICKY_WRITE_MS == 0)
        lab_world_commit(world);
    for (unsigned i = 0; i < LAB_STICKY_USERS; i++)
        reader_tick(world, &readers[i], i, way, &board->users[way][i]);
}

static void run(uint64_t seed, struct weir_lab_report *report)
{
    struct lab_world *worlds = calloc(LAB_STICKY_WAYS, sizeof(*worlds));
    struct reader readers[LAB_STICKY_WAYS][LAB_STICKY_USERS];
    struct lab_sticky_board board;
    (void)seed;
    weir_assert(worlds);
    memset(&board, 0, sizeof(board));
    for (unsigned i = 0; i < LAB_STICKY_WAYS * LAB_STICKY_USERS; i++) {
        unsigned user = i % LAB_STICKY_USERS;
        /* Not all in the same ms; and after the first second, in which nothing was written. */
        readers[i / LAB_STICKY_USERS][user] = (struct reader){ .due_ns = (1000 + 400 + 7 * user) * LAB_MS };
    }
    report->source = WEIR_LAB_SIMULATED;
    for (uint64_t ms = 0; ms < LAB_STICKY_END_MS; ms++) {
        for (unsigned way = 0; way < LAB_STICKY_WAYS; way++)
            way_play((enum lab_sticky_way)way, &board, &worlds[way], readers[way], ms);
        if (ms % LAB_STICKY_WRITE_MS == 0)
            lab_sticky_sample(&board, (double)ms / 1000, report);
    }
    lab_sticky_sample(&board, LAB_STICKY_END_MS / 1000.0, report);
    lab_sticky_report(&board, report);
    free(worlds);
}

const struct weir_lab weir_lab_sticky = {
    .number = 7,
    .title = "sticky sessions when a replica fails",
    .question =
        "Each user reads at one replica, always the same. One is 20 ms behind the primary, the other 300 ms. The "
        "near one fails for two seconds. What do its users see?",
    .shows =
        "As long as nothing fails a sticky user never goes back, however far behind the replica is. When the near one "
        "fails its users are sent to the far one, which is older by 280 ms than what they have just seen: their next "
        "reads go back. A session that carries what it has seen waits once, until the far one has caught up, and "
        "goes back never.",
    .shows_not =
        "Own writes: a sticky user misses them all the time while the replica is behind (question 2). In the "
        "simulator the replica comes back as far as it would have been. A real one comes back as it was when it "
        "failed, and whoever is sent to it before it has caught up goes back once more; after two seconds of a "
        "few writes that is over before it can be reached. Nothing here fails over.",
    .run = run,
};
