/* SPDX-License-Identifier: Apache-2.0
 *
 * Plans by seed. Adversarial: demand comes at the moments at which a bound is nearest, when units were saved up and as
 * soon as nodes lose sight of each other or of the engine. */
#include "base/checked.h"
#include "core/share/split.h"
#include "sim/modes.h"
#include "sim/random.h"

#define MS (WEIR_NS_PER_SECOND / 1000)
#define FAULTS_FROM_NS (500 * MS)
#define FAULTS_UNTIL_NS (6000 * MS)
#define BURST_MAX 20000 /* of a load: more would only take longer */
#define SLOWER 600
#define GOSSIP_HOSTS_MAX 16
#define HOUR_NS (3600 * WEIR_NS_PER_SECOND)
#define LONGEST_NS HOUR_NS
#define QUOTA_REQUESTS 2000 /* from its morning on, at least */
#define DAY_HOURS_MAX 24
#define DAY_HOSTS_HOURS_MAX 8 /* nodes of hosts ask for definitions five times a second, all the time */
#define DOZEN_LONGEST_NS (60 * WEIR_NS_PER_SECOND)
#define CALM_NS (2500 * MS) /* the tail that liveness is judged by, at least */

static bool is_host(const struct weir_sim_mode *mode)
{
    return mode == &weir_sim_leased_host || mode == &weir_sim_batched_host || mode == &weir_sim_gossip_host ||
           mode == &weir_sim_exact_host;
}

/* 0 to bound - 1, or none, or a multiple. Two draws in one expression would come in the compiler's order. */
static uint64_t some(struct weir_sim_random *random, uint64_t factors, uint64_t bound)
{
    uint64_t factor = weir_sim_random_below(random, factors);
    return factor * weir_sim_random_below(random, bound);
}

static uint32_t nodes_draw(struct weir_sim_random *random)
{
    uint64_t dice = weir_sim_random_below(random, 100);
    if (dice < 80)
        return (uint32_t)weir_sim_random_in(random, 3, 10);
    return (uint32_t)(dice < 96 ? weir_sim_random_in(random, 11, 20) : weir_sim_random_in(random, 21, 50));
}

/* What the nodes of gossip tell each other grows with the square of their number, and a host signs each word of it: a
 * run of 40 takes as long as 100 others. `gossip` has them all. */
static uint32_t nodes_of(const struct weir_sim_mode *mode, uint32_t drawn)
{
    return mode == &weir_sim_gossip_host && drawn > GOSSIP_HOSTS_MAX ? drawn % GOSSIP_HOSTS_MAX + 3 : drawn;
}

static struct weir_limit_spec limit_draw(struct weir_sim_random *random, const struct weir_sim_mode *mode)
{
    uint64_t dice = weir_sim_random_below(random, 100);
    struct weir_limit_spec limit = { .algorithm = WEIR_TOKEN_BUCKET, .period_ns = WEIR_NS_PER_SECOND };
    limit.count = weir_sim_random_in(random, 100, 300);
    if (dice >= 60) {
        limit.algorithm = dice >= 80 && !mode->no_log ? WEIR_SLIDING_LOG : WEIR_FIXED_WINDOW;
        limit.period_ns = weir_sim_random_in(random, 5, 20) * 100 * MS;
        limit.count = weir_mul_div(limit.count, limit.period_ns, WEIR_NS_PER_SECOND) + 1;
        return limit;
    }
    if (dice < 20) { /* the same in a longer period */
        limit.period_ns *= 30;
        limit.count *= 30;
    }
    limit.burst = weir_sim_random_in(random, weir_mul_div(limit.count, WEIR_NS_PER_SECOND / 8, limit.period_ns) + 1,
                                     weir_mul_div(limit.count, 2 * WEIR_NS_PER_SECOND, limit.period_ns));
    return limit;
}

/* The kin of a drawn algorithm, by bits of the seed that nothing else is drawn by: so plans are else what they were. */
static void vary(struct weir_sim_plan *plan)
{
    if (plan->limit.algorithm == WEIR_FIXED_WINDOW && (plan->seed & 1))
        plan->limit.algorithm = WEIR_SLIDING_COUNTER;
    else if (plan->limit.algorithm == WEIR_TOKEN_BUCKET && (plan->seed & 3) == 0)
        plan->limit.algorithm = WEIR_LEAKY_BUCKET;
    bool bucket = plan->limit.algorithm == WEIR_TOKEN_BUCKET || plan->limit.algorithm == WEIR_LEAKY_BUCKET;
    if (bucket && !plan->mode->engineless && (plan->seed >> 2 & 15) == 0) /* fills within minutes: what blocks lasts */
        plan->limit.period_ns *= SLOWER;
}

/* A quota that fills within hours, up to a day, in one run of 32; few nodes, so that the run stays short. */
static bool quota(struct weir_sim_plan *plan)
{
    uint64_t hours_max = is_host(plan->mode) ? DAY_HOSTS_HOURS_MAX : DAY_HOURS_MAX;
    bool bucket = plan->limit.algorithm == WEIR_TOKEN_BUCKET || plan->limit.algorithm == WEIR_LEAKY_BUCKET;
    if (!bucket || plan->mode->engineless || (plan->seed >> 6 & 31) > 0)
        return false;
    plan->limit.count = plan->limit.burst = 100 + (plan->seed >> 11) % 200;
    plan->limit.period_ns = (1 + (plan->seed >> 19) % hours_max) * HOUR_NS;
    plan->nodes = 3 + plan->nodes % 3;
    return true;
}

/* Another limit, of the algorithm that is asked for. Of what the mode cannot share the run says so. */
static void draw_until(struct weir_sim_plan *plan, uint64_t seed, enum weir_algorithm wanted)
{
    struct weir_sim_random random = { ~seed };
    bool none = wanted == WEIR_CONCURRENCY || (wanted == WEIR_SLIDING_LOG && plan->mode->no_log);
    while (!none && plan->limit.algorithm != wanted) {
        plan->limit = limit_draw(&random, plan->mode);
        if ((plan->limit.algorithm == WEIR_TOKEN_BUCKET && wanted == WEIR_LEAKY_BUCKET) ||
            (plan->limit.algorithm == WEIR_FIXED_WINDOW && wanted == WEIR_SLIDING_COUNTER))
            plan->limit.algorithm = wanted;
    }
    plan->limit.algorithm = wanted;
}

static uint64_t mask_draw(struct weir_sim_random *random, uint32_t nodes)
{
    uint64_t all = (UINT64_C(1) << nodes) - 1;
    uint64_t dice = weir_sim_random_below(random, 4);
    if (dice == 0)
        return all;
    uint64_t mask = weir_sim_random_u64(random) & all;
    if (dice == 1)
        mask &= weir_sim_random_u64(random);
    return mask ? mask : UINT64_C(1) << weir_sim_random_below(random, nodes);
}

static void fault_draw(struct weir_sim_random *random, const struct weir_sim_plan *plan, struct weir_sim_fault *fault)
{
    static const enum weir_sim_fault_kind with_engine[] = { WEIR_SIM_CUT,   WEIR_SIM_CUT,       WEIR_SIM_CUT,
                                                            WEIR_SIM_PAUSE, WEIR_SIM_CRASH,     WEIR_SIM_CRASH,
                                                            WEIR_SIM_STEP,  WEIR_SIM_LOSE,      WEIR_SIM_SLOW,
                                                            WEIR_SIM_DROP,  WEIR_SIM_DUPLICATE, WEIR_SIM_DUPLICATE };
    static const enum weir_sim_fault_kind without[] = { WEIR_SIM_SPLIT, WEIR_SIM_SPLIT, WEIR_SIM_SPLIT,
                                                        WEIR_SIM_PAUSE, WEIR_SIM_CRASH, WEIR_SIM_CRASH,
                                                        WEIR_SIM_SLOW,  WEIR_SIM_DROP,  WEIR_SIM_DUPLICATE };
    uint64_t engine_kinds = sizeof with_engine / sizeof with_engine[0], kinds = sizeof without / sizeof without[0];
    *fault = (struct weir_sim_fault){ .nodes = mask_draw(random, plan->nodes) };
    fault->kind = plan->mode->engine_size > 0 ? with_engine[weir_sim_random_below(random, engine_kinds)]
                                              : without[weir_sim_random_below(random, kinds)];
    fault->from_ns = weir_sim_random_in(random, FAULTS_FROM_NS, FAULTS_UNTIL_NS - 50 * MS);
    uint64_t length_ns = weir_sim_random_in(random, 20 * MS, weir_sim_random_in(random, 50 * MS, 3000 * MS));
    fault->until_ns = weir_min_u64(fault->from_ns + length_ns, FAULTS_UNTIL_NS);
    fault->one_way = weir_sim_random_below(random, 4) == 0;
    if (fault->kind == WEIR_SIM_PAUSE && plan->mode->engine_size > 0 && weir_sim_random_below(random, 3) == 0)
        fault->nodes = 0;
    if (fault->kind == WEIR_SIM_STEP)
        fault->step_ns = (int64_t)weir_sim_random_below(random, 3000 * MS) - (int64_t)(900 * MS);
    else if (fault->kind == WEIR_SIM_LOSE)
        fault->step_ns = (int64_t)some(random, 2, 400 * MS);
    else if (fault->kind == WEIR_SIM_SLOW || fault->kind == WEIR_SIM_DUPLICATE)
        fault->step_ns = (int64_t)weir_sim_random_in(random, 5 * MS, 800 * MS);
}

static void load_add(struct weir_sim_plan *plan, const struct weir_sim_load *load)
{
    if (plan->loads_count == WEIR_SIM_LOADS_MAX)
        return;
    struct weir_sim_load *added = &plan->loads[plan->loads_count++];
    *added = *load;
    added->burst = weir_min_u64(load->burst, BURST_MAX);
}

/* Units per second that the limit allows. */
static uint64_t rate_of(const struct weir_sim_plan *plan)
{
    return weir_max_u64(1, weir_mul_div(plan->limit.count, WEIR_NS_PER_SECOND, plan->limit.period_ns));
}

/* At the start of faults all nodes at once get more than they may admit unasked; sometimes it was quiet before. */
static void bursts_draw(struct weir_sim_random *random, struct weir_sim_plan *plan)
{
    for (uint32_t i = 0; i < plan->faults_count; i++) {
        if (weir_sim_random_below(random, 3) == 0)
            continue;
        const struct weir_sim_fault *fault = &plan->faults[i];
        uint64_t share = weir_limit_capacity(&plan->limit) / plan->nodes + 1;
        struct weir_sim_load burst = { .nodes = WEIR_SIM_ALL, .cost_max = 1 };
        burst.from_ns = fault->from_ns + some(random, 3, 40 * MS);
        burst.until_ns = weir_sim_random_below(random, 2) ? fault->until_ns + 1 : burst.from_ns + 1;
        burst.burst = weir_sim_random_in(random, plan->slack + 1, 2 * plan->slack + share);
        burst.every_ns = weir_sim_random_in(random, 20 * MS, 200 * MS);
        load_add(plan, &burst);
    }
}

/* Demand comes and goes: some nodes save up while it is quiet, the others take all that is left when those have given
 * back what they did not need, and then the first ones are asked again. */
static void tide_draw(struct weir_sim_random *random, struct weir_sim_plan *plan)
{
    uint64_t ttl_ns = plan->chunk_ttl_ns, capacity = weir_limit_capacity(&plan->limit);
    uint64_t few = mask_draw(random, plan->nodes), begin_ns = weir_sim_random_below(random, ttl_ns);
    uint64_t fill_ns = weir_mul_div(plan->limit.period_ns, capacity, plan->limit.count);
    struct weir_sim_load load = { .nodes = few, .until_ns = FAULTS_UNTIL_NS, .every_ns = 2 * ttl_ns + fill_ns };
    load.from_ns = begin_ns;
    load.burst = weir_sim_random_in(random, 1, capacity / plan->nodes + 1);
    load_add(plan, &load);
    load.nodes = ~few;
    load.from_ns = begin_ns + weir_sim_random_in(random, 55, 75) * ttl_ns / 100;
    load.burst = capacity;
    load_add(plan, &load);
    load.nodes = few;
    load.from_ns += weir_sim_random_in(random, 2, 50) * ttl_ns / 100;
    load_add(plan, &load);
}

static void loads_draw(struct weir_sim_random *random, struct weir_sim_plan *plan)
{
    uint64_t rate = rate_of(plan), even = rate / plan->nodes + 1;
    uint64_t quiet_ns = some(random, 3, FAULTS_UNTIL_NS / 2);
    struct weir_sim_load steady = { .nodes = WEIR_SIM_ALL, .from_ns = quiet_ns, .until_ns = FAULTS_UNTIL_NS };
    steady.rate_per_s = weir_sim_random_in(random, even / 4 + 1, 2 * even);
    steady.cost_max = weir_sim_random_below(random, 8) == 0 ? 3 : 1;
    if (weir_sim_random_below(random, 3) == 0) { /* some nodes are asked only now and then, the others all the time */
        struct weir_sim_load seldom = { .nodes = mask_draw(random, plan->nodes), .until_ns = FAULTS_UNTIL_NS };
        seldom.from_ns = weir_sim_random_below(random, plan->chunk_ttl_ns);
        seldom.every_ns = weir_sim_random_in(random, plan->chunk_ttl_ns / 2, 2 * plan->chunk_ttl_ns);
        seldom.burst = weir_sim_random_in(random, 1, weir_limit_capacity(&plan->limit) / plan->nodes + 1);
        load_add(plan, &seldom);
        steady.nodes &= ~seldom.nodes;
    } else if (plan->mode->step_forgets && weir_sim_random_below(random, 4) == 0) {
        tide_draw(random, plan);
        steady.until_ns = steady.from_ns;
    }
    uint32_t steady_at = plan->loads_count;
    load_add(plan, &steady);
    if (weir_sim_random_below(random, 2)) { /* demand that is somewhere else than it was */
        struct weir_sim_load moved = { .nodes = mask_draw(random, plan->nodes), .until_ns = FAULTS_UNTIL_NS };
        moved.from_ns = weir_sim_random_below(random, FAULTS_UNTIL_NS);
        moved.rate_per_s = weir_sim_random_in(random, even, 3 * even);
        load_add(plan, &moved);
    }
    if (plan->mode->bound && weir_sim_random_below(random, 2)) { /* all at once, each time that a little was saved up */
        uint64_t units = plan->slack + 1 + weir_sim_random_below(random, plan->slack + 1);
        struct weir_sim_load pulse = { .nodes = WEIR_SIM_ALL, .until_ns = FAULTS_UNTIL_NS, .burst = plan->slack + 1 };
        pulse.every_ns = units * WEIR_NS_PER_SECOND / rate + weir_sim_random_below(random, 2 * plan->interval_ns);
        pulse.from_ns = pulse.every_ns;
        plan->loads[steady_at].until_ns = steady.from_ns + FAULTS_UNTIL_NS / 4;
        load_add(plan, &pulse);
    }
    struct weir_sim_load calm = { .nodes = WEIR_SIM_ALL, .from_ns = FAULTS_UNTIL_NS, .until_ns = plan->duration_ns };
    calm.rate_per_s = 3 * even;
    load_add(plan, &calm);
    bursts_draw(random, plan);
}

/* After the faults it is quiet until the morning, when all that came back is asked for at once; from then on there is
 * more than enough. Nodes of hosts stand still meanwhile. */
static void quota_draw(struct weir_sim_plan *plan)
{
    struct weir_sim_random random = { plan->seed + 3 };
    uint64_t morning_ns = weir_sim_random_in(&random, FAULTS_UNTIL_NS + WEIR_NS_PER_SECOND, plan->calm_ns);
    uint64_t emission_ns = plan->limit.period_ns / plan->limit.count;
    struct weir_sim_load *calm = &plan->loads[0];
    while (calm->from_ns != FAULTS_UNTIL_NS || calm->until_ns != plan->duration_ns)
        calm++;
    *calm = (struct weir_sim_load){ .nodes = WEIR_SIM_ALL, .from_ns = morning_ns, .until_ns = plan->duration_ns };
    calm->burst = 1;
    calm->every_ns = weir_min_u64(emission_ns * plan->nodes / 3,
                                  (plan->duration_ns - morning_ns) * plan->nodes / QUOTA_REQUESTS);
    struct weir_sim_load burst = *calm;
    burst.burst = weir_limit_capacity(&plan->limit) / plan->nodes + 1;
    burst.every_ns = 0;
    load_add(plan, &burst);
    if (is_host(plan->mode) && plan->faults_count < WEIR_SIM_FAULTS_MAX)
        plan->faults[plan->faults_count++] = (struct weir_sim_fault){ .kind = WEIR_SIM_PAUSE,
                                                                      .nodes = WEIR_SIM_ALL,
                                                                      .from_ns = FAULTS_UNTIL_NS + WEIR_NS_PER_SECOND,
                                                                      .until_ns = morning_ns };
}

static void network_draw(struct weir_sim_random *random, struct weir_sim_plan *plan)
{
    plan->latency_min_ns = weir_sim_random_in(random, MS / 10, 2 * MS);
    plan->latency_max_ns = plan->latency_min_ns + weir_sim_random_below(random, 8 * MS);
    plan->deadline_ns = weir_sim_random_in(random, 20 * MS, 60 * MS);
    plan->interval_ns = weir_sim_random_in(random, 20 * MS, 200 * MS);
    plan->chunk_ttl_ns = weir_sim_random_in(random, 300 * MS, 2000 * MS);
    plan->loss_ppm = (uint32_t)some(random, 2, 50000);
    plan->duplicate_ppm = (uint32_t)some(random, 2, 50000);
    plan->reorder_ppm = (uint32_t)some(random, 2, 100000);
    plan->drift_ppm = (uint32_t)weir_sim_random_below(random, 1000);
    plan->skew_ns = some(random, 2, 500 * MS);
    plan->hold_ppm = (uint32_t)some(random, 2, 300000);
}

/* From a stream of its own, so that plans are else what they were, but for bursts at reloads. After each raise that is
 * taken back a key owes the difference of the two capacities, and what lies ahead may refill at the lower rate. */
static void reloads_draw(struct weir_sim_plan *plan)
{
    struct weir_sim_random random = { ~plan->seed };
    if (!plan->mode->reload || plan->calm_ns == 0 || weir_sim_random_below(&random, 2))
        return;
    struct weir_sim_random files = { random.state + 1 };
    plan->numbered = weir_sim_random_below(&files, 2) > 0;
    plan->partial = plan->mode->engine_size > 0 && weir_sim_random_below(&files, 2);
    plan->changed = plan->limit;
    plan->changed.count = plan->limit.count * weir_sim_random_in(&random, 25, 200) / 100 + 1;
    if (plan->limit.burst > 0)
        plan->changed.burst = plan->limit.burst * weir_sim_random_in(&random, 25, 200) / 100 + 1;
    uint64_t most = weir_max_u64(weir_limit_capacity(&plan->limit), weir_limit_capacity(&plan->changed));
    uint64_t least = weir_min_u64(plan->limit.count, plan->changed.count);
    uint64_t longest_ns = weir_mul_div(plan->limit.period_ns, most, least);
    /* A file that is as it was tells nothing: who took none of the reloads does not take back what others took. */
    bool any = false;
    uint64_t most_reloads = plan->partial && !plan->numbered ? 1 : 4;
    for (uint64_t count = weir_sim_random_in(&random, 1, most_reloads);
         count > 0 && plan->duration_ns + longest_ns < LONGEST_NS; count--) {
        struct weir_sim_fault *fault = &plan->faults[plan->faults_count++];
        *fault = (struct weir_sim_fault){ .kind = WEIR_SIM_RELOAD, .nodes = mask_draw(&random, plan->nodes) };
        fault->from_ns = weir_sim_random_in(&random, FAULTS_FROM_NS, FAULTS_UNTIL_NS - 1000 * MS);
        fault->until_ns = fault->from_ns + weir_sim_random_in(&random, MS, 1000 * MS);
        plan->calm_ns += longest_ns;
        plan->duration_ns += longest_ns;
        any = true;
    }
    if (!any)
        plan->changed.period_ns = plan->changed.count = plan->changed.burst = 0;
}

/* Of hosts whose nodes share an engine. Revisions are looked for all the time: a dozen of them only in runs that are
 * short. */
static void kin_draw(struct weir_sim_plan *plan)
{
    struct weir_sim_random random = { plan->seed + 2 };
    if (!is_host(plan->mode) || plan->mode->engine_size == 0)
        return;
    plan->twins = weir_sim_random_below(&random, 4) == 0;
    plan->dozen = weir_sim_random_below(&random, 4) == 0 && plan->duration_ns < DOZEN_LONGEST_NS;
}

static void crash_add(struct weir_sim_plan *plan, uint64_t nodes, uint64_t from_ns, uint64_t until_ns)
{
    if (until_ns > FAULTS_UNTIL_NS || plan->faults_count == WEIR_SIM_FAULTS_MAX)
        return;
    struct weir_sim_fault *fault = &plan->faults[plan->faults_count++];
    *fault =
        (struct weir_sim_fault){ .kind = WEIR_SIM_CRASH, .nodes = nodes, .from_ns = from_ns, .until_ns = until_ns };
}

/* What hosts meet besides, in half of their runs, from a stream of its own: requests in the ticks of their timers,
 * clients at the door of a node that starts, nodes that crash again and again, and all of it started anew, the engine
 * empty. */
static void hard_draw(struct weir_sim_plan *plan)
{
    struct weir_sim_random random = { plan->seed + 1 };
    if (!is_host(plan->mode) || weir_sim_random_below(&random, 2))
        return;
    plan->tick_ppm = (uint32_t)weir_sim_random_below(&random, 50000);
    plan->door = weir_sim_random_below(&random, 2);
    uint64_t nodes = mask_draw(&random, plan->nodes), loops = weir_sim_random_below(&random, 2) * 8;
    uint64_t from_ns = weir_sim_random_in(&random, FAULTS_FROM_NS, FAULTS_UNTIL_NS - 1000 * MS);
    for (uint64_t count = weir_sim_random_below(&random, loops + 1); count > 0; count--) {
        uint64_t until_ns = from_ns + weir_sim_random_in(&random, MS, 100 * MS);
        crash_add(plan, nodes, from_ns, until_ns);
        from_ns = until_ns + weir_sim_random_in(&random, MS, 300 * MS);
    }
    if (plan->mode->engine_size == 0 || weir_sim_random_below(&random, 4) > 0)
        return;
    from_ns = weir_sim_random_in(&random, FAULTS_FROM_NS, FAULTS_UNTIL_NS - 500 * MS);
    crash_add(plan, WEIR_SIM_ALL, from_ns, from_ns + weir_sim_random_in(&random, MS, 500 * MS));
    struct weir_sim_fault *lost = &plan->faults[plan->faults_count++];
    *lost = (struct weir_sim_fault){ .kind = WEIR_SIM_LOSE, .from_ns = from_ns, .until_ns = from_ns };
}

void weir_sim_plan_seeded(struct weir_sim_plan *plan, const struct weir_sim_mode *mode, uint64_t seed,
                          const struct weir_sim_fixed *fixed)
{
    struct weir_sim_random random = { seed };
    weir_sim_plan_init(plan, mode);
    plan->seed = weir_sim_random_u64(&random);
    plan->nodes = nodes_of(mode, nodes_draw(&random));
    plan->limit = limit_draw(&random, mode);
    vary(plan);
    bool slow = !(fixed && (fixed->limit.period_ns > 0 || fixed->algorithm)) && quota(plan);
    if (fixed && fixed->nodes > 0)
        plan->nodes = fixed->nodes;
    if (fixed && fixed->limit.period_ns > 0)
        plan->limit = fixed->limit;
    else if (fixed && fixed->algorithm)
        draw_until(plan, seed, fixed->limit.algorithm);
    plan->slack = weir_split_slack(rate_of(plan), plan->nodes) *
                  weir_sim_random_in(&random, 1, weir_sim_random_below(&random, 3) ? 3 : 10);
    if (fixed && fixed->slack > 0)
        plan->slack = fixed->slack;
    network_draw(&random, plan);
    /* What was forfeited in the last fault has been refilled when the tail begins. */
    uint64_t fill_ns = weir_mul_div(plan->limit.period_ns, weir_limit_capacity(&plan->limit), plan->limit.count);
    plan->calm_ns = FAULTS_UNTIL_NS + plan->chunk_ttl_ns + fill_ns + WEIR_NS_PER_SECOND;
    if (mode->engineless && mode->bound) /* what a crash may have hidden is charged in advance */
        plan->calm_ns += 2 * fill_ns;
    /* A unit that comes free is admitted by each node that hears of it, and then none for as long as that takes to
     * refill: the tail holds four of the largest such gulps. */
    uint64_t gulp = mode->bound ? mode->bound(plan) : plan->nodes;
    uint64_t tail_ns = weir_max_u64(CALM_NS, weir_mul_div(plan->limit.period_ns, 4 * gulp, plan->limit.count));
    plan->duration_ns = weir_max_u64(plan->calm_ns + tail_ns, 10 * WEIR_NS_PER_SECOND);
    if ((plan->duration_ns > LONGEST_NS && !slow) ||
        (mode->engineless && fill_ns > 60 * WEIR_NS_PER_SECOND)) { /* too long */
        plan->calm_ns = 0;
        plan->duration_ns = 12 * WEIR_NS_PER_SECOND;
    }
    plan->faults_count = (uint32_t)weir_sim_random_in(&random, 3, 8);
    for (uint32_t i = 0; i < plan->faults_count; i++)
        fault_draw(&random, plan, &plan->faults[i]);
    if (!fixed || fixed->limit.period_ns == 0)
        reloads_draw(plan);
    loads_draw(&random, plan);
    if (slow)
        quota_draw(plan);
    hard_draw(plan);
    kin_draw(plan);
}
