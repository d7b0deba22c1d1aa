/* SPDX-License-Identifier: Apache-2.0
 *
 * Users of each strategy run the same requests in virtual time, each strategy on rows of its own. core/session/policy
 * says where a request goes, by what core/session/health knows of the servers; a tracked one is checked there by its
 * token (core/session/token). core/session/judge judges every read and write. Only `plain`, any replica, is a choice
 * made here. Called by the page. */
#include "play/reads.h"

#include <string.h>

#include "base/checked.h"
#include "core/session/judge.h"
#include "core/session/policy.h"
#include "play/reads_db.h"
#include "sim/random.h"

#define SLOTS 2048 /* of a judge: sessions, sessions by keys, and keys that are cut */

struct user {
    uint64_t next_ms; /* its next request, or the next try of this one */
    uint64_t due_ms;  /* as drawn: the same for all strategies */
    uint64_t began_ms;
    uint32_t row_of; /* whose row */
    uint64_t avoided;
    bool under_way, write;
    struct weir_sim_random random;
    struct weir_session_token token;
};

struct lane {
    uint32_t strategy;
    struct weir_judge judge;
    struct weir_judge_slot slots[SLOTS];
    struct weir_judge_server servers[PLAY_SERVERS_MAX];
    struct user users[PLAY_USERS_MAX];
    double sums[PLAY_READS_SUMS], broken[PLAY_READ_COLUMNS], told[PLAY_READ_COLUMNS];
};

static struct play_reads_plan plan;
static struct lane lanes[PLAY_STRATEGIES];
static double lags[PLAY_SERVERS_MAX][PLAY_READ_COLUMNS];
static double violations[PLAY_VIOLATIONS_MAX][PLAY_VIOLATION_WORDS];
static uint32_t violations_count;
static uint64_t now_ms;

static uint64_t setting(enum play_reads what)
{
    return (uint64_t)plan.settings[what];
}

void play_reads_begin(void)
{
    static const double defaults[PLAY_READS_LAG_MS] = { 1, 3, 8, 5, 20, 20000, 200, 500, 50 };
    plan = (struct play_reads_plan){ .faults_count = 0 };
    memcpy(plan.settings, defaults, sizeof defaults);
}

void play_reads_set(uint32_t what, double value)
{
    if (what < PLAY_READS_SETTINGS)
        plan.settings[what] = value;
    plan.settings[PLAY_READS_REPLICAS] = (double)weir_min_u64(setting(PLAY_READS_REPLICAS), PLAY_REPLICAS_MAX);
    plan.settings[PLAY_READS_USERS] = (double)weir_min_u64(setting(PLAY_READS_USERS), PLAY_USERS_MAX);
}

bool play_reads_fault(uint32_t kind, uint32_t server, double from_ms, double until_ms)
{
    if (plan.faults_count == PLAY_READS_FAULTS_MAX || kind >= PLAY_READS_FAULT_KINDS ||
        server > setting(PLAY_READS_REPLICAS))
        return false;
    uint32_t i = plan.faults_count++;
    plan.faults[i].kind = (enum play_reads_fault)kind;
    plan.faults[i].server = server;
    plan.faults[i].from_ms = (uint64_t)from_ms;
    plan.faults[i].until_ms = (uint64_t)until_ms;
    return true;
}

const char *play_strategy_name(uint32_t strategy)
{
    static const char *const names[PLAY_STRATEGIES] = { "plain", "sticky", "window", "physical", "tracked" };
    return strategy < PLAY_STRATEGIES ? names[strategy] : NULL;
}

/* ---- what is judged ---- */

static uint32_t column(uint64_t at_ms)
{
    return (uint32_t)weir_min_u64(at_ms * PLAY_READ_COLUMNS / setting(PLAY_READS_DURATION_MS), PLAY_READ_COLUMNS - 1);
}

static void violated(void *context, const struct weir_judge_violation *violation)
{
    struct lane *lane = context;
    uint64_t at_ms = violation->event.start_ns / PLAY_MS;
    lane->broken[column(at_ms)]++;
    lane->sums[PLAY_READS_WROTE_BACK] += violation->event.kind == WEIR_JUDGE_WRITE;
    if (violations_count == PLAY_VIOLATIONS_MAX)
        return;
    double *words = violations[violations_count++];
    words[PLAY_VIOLATION_STRATEGY] = lane->strategy;
    words[PLAY_VIOLATION_AT_MS] = (double)at_ms;
    words[PLAY_VIOLATION_USER] = (double)(violation->event.session - 1);
    words[PLAY_VIOLATION_ROW] = (double)(violation->event.key - 1);
    words[PLAY_VIOLATION_SAW] = (double)violation->event.version;
    words[PLAY_VIOLATION_EXPECTED] = (double)violation->expected;
    words[PLAY_VIOLATION_SERVER] = violation->event.server;
    words[PLAY_VIOLATION_BROKEN] = violation->broken;
}

static void judge(struct lane *lane, uint32_t user, enum weir_judge_kind kind, uint32_t server, uint32_t version)
{
    const struct user *self = &lane->users[user];
    struct weir_judge_event event = { .kind = kind, .server = server, .session = user + 1, .version = version };
    event.key = kind == WEIR_JUDGE_LOST ? 0 : self->row_of + 1;
    event.start_ns = event.end_ns = now_ms * PLAY_MS;
    (void)weir_judge_feed(&lane->judge, event); /* what fails fails at the end, too */
}

static void cut(struct lane *lane)
{
    for (uint32_t user = 0; user < setting(PLAY_READS_USERS); user++) {
        struct weir_judge_event event = { .kind = WEIR_JUDGE_CUT, .key = user + 1 };
        event.version = play_db_survived(lane->strategy * PLAY_USERS_MAX + user);
        event.start_ns = event.end_ns = now_ms * PLAY_MS;
        (void)weir_judge_feed(&lane->judge, event);
    }
}

/* ---- a request ---- */

/* Drawn for the user and its number, whatever the strategy does. */
static void draw(struct user *user, uint32_t number)
{
    uint64_t rate = weir_max_u64(setting(PLAY_READS_RATE), 1);
    user->due_ms += 1 + weir_sim_random_below(&user->random, 2 * 1000 / rate);
    user->next_ms = weir_max_u64(user->due_ms, now_ms + 1);
    user->write = weir_sim_random_below(&user->random, 100) < setting(PLAY_READS_WRITES_PERCENT);
    uint64_t other = weir_sim_random_below(&user->random, 2 * setting(PLAY_READS_USERS));
    user->row_of = user->write || other >= setting(PLAY_READS_USERS) ? number : (uint32_t)other;
    user->under_way = false;
}

static void done(struct lane *lane, uint32_t number)
{
    struct user *user = &lane->users[number];
    uint64_t waited_ms = now_ms - user->began_ms;
    lane->sums[PLAY_READS_WAITED] += waited_ms > 0;
    lane->sums[PLAY_READS_WAIT_TOTAL_MS] += (double)waited_ms;
    if ((double)waited_ms > lane->sums[PLAY_READS_WAIT_MAX_MS])
        lane->sums[PLAY_READS_WAIT_MAX_MS] = (double)waited_ms;
    draw(user, number);
}

static void failed(struct lane *lane, uint32_t number)
{
    lane->sums[PLAY_READS_FAILED]++;
    done(lane, number);
}

/* LOST is told, and the user accepts it: what there is now is what was seen. */
static void lost(struct lane *lane, uint32_t number, const struct weir_route_server *servers)
{
    struct user *user = &lane->users[number];
    uint32_t leader = weir_route_leader(servers, play_db_servers());
    struct weir_shown shown;
    if (leader == WEIR_ROUTE_NONE || !play_db_is_reachable(leader) || !play_db_shown(leader, &shown)) {
        user->next_ms = now_ms + 1; /* nobody to accept from yet */
        return;
    }
    judge(lane, number, WEIR_JUDGE_LOST, 0, 0);
    lane->sums[PLAY_READS_LOST]++;
    lane->told[column(now_ms)]++;
    (void)weir_session_token_accept(&user->token, &shown, play_db_known());
    done(lane, number);
}

static void serve(struct lane *lane, uint32_t number, uint32_t server)
{
    struct user *user = &lane->users[number];
    uint32_t row = lane->strategy * PLAY_USERS_MAX + user->row_of;
    struct weir_shown shown;
    struct weir_place place;
    if (user->write) {
        uint32_t version = play_db_write(server, row);
        if (version == 0) {
            failed(lane, number);
            return;
        }
        judge(lane, number, WEIR_JUDGE_WRITE, server, version);
        user->token.wrote_ns = PLAY_WALL_NS + now_ms * PLAY_MS;
    } else {
        judge(lane, number, WEIR_JUDGE_READ, server, play_db_version(server, row));
        lane->sums[PLAY_READS_AT_PRIMARY] += play_db_is_primary(server);
    }
    lane->sums[user->write ? PLAY_READS_WRITES : PLAY_READS_READS]++;
    user->token.stamp_ns = weir_max_u64(user->token.stamp_ns, play_db_stamp_ns(server));
    if (lane->strategy == PLAY_TRACKED && play_db_shown(server, &shown) && weir_place_seen(&shown, &place) == 0)
        (void)weir_session_token_add(&user->token, &place, play_db_known());
    done(lane, number);
}

static void elsewhere(struct user *user, uint32_t server)
{
    user->avoided |= UINT64_C(1) << server;
    play_db_ask(server);
    user->next_ms = now_ms + 1;
}

/* On the connection: does it show what was seen? */
static void check(struct lane *lane, uint32_t number, const struct weir_policy_request *request, uint32_t server)
{
    struct user *user = &lane->users[number];
    struct weir_shown shown;
    if (!play_db_shown(server, &shown)) { /* nobody knows yet which timeline that is */
        elsewhere(user, server);
        return;
    }
    enum weir_place_verdict verdict = weir_session_token_compare(&user->token, &shown, play_db_known());
    if (verdict == WEIR_PLACE_OK)
        serve(lane, number, server);
    else if (weir_policy_refused(&request->route, &shown, verdict) == WEIR_POLICY_LOST)
        lost(lane, number, request->route.servers);
    else
        elsewhere(user, server);
}

static struct weir_policy_request request_of(const struct lane *lane, uint32_t number,
                                             const struct weir_route_server *servers)
{
    static const enum weir_session_strategy strategies[PLAY_STRATEGIES] = { WEIR_SESSION_STICKY, WEIR_SESSION_STICKY,
                                                                            WEIR_SESSION_WINDOW, WEIR_SESSION_PHYSICAL,
                                                                            WEIR_SESSION_TRACKED };
    const struct user *user = &lane->users[number];
    struct weir_policy_request request = {
        .route = { .token = &user->token,
                   .known = play_db_known(),
                   .servers = servers,
                   .server_count = play_db_servers(),
                   .session = (number + 1) * UINT64_C(0x9e3779b97f4a7c15),
                   .stay = WEIR_ROUTE_NONE,
                   .came_ns = (user->began_ms + 1) * PLAY_MS,
                   .wall_ns = PLAY_WALL_NS + now_ms * PLAY_MS,
                   .window_ns = setting(PLAY_READS_WINDOW_MS) * PLAY_MS,
                   .strategy = strategies[lane->strategy],
                   .behind = WEIR_BEHIND_LEADER,
                   .write = user->write },
        .caller = WEIR_POLICY_CONNECTION,
        .avoided = user->avoided,
        .now_ns = (now_ms + 1) * PLAY_MS,
        .begun_ns = (user->began_ms + 1) * PLAY_MS,
        .looked = now_ms > user->began_ms,
    };
    request.wait_ns = request.give_up_ns = request.begun_ns + setting(PLAY_READS_WAIT_MS) * PLAY_MS;
    return request;
}

/* Any of the replicas, as a load balancer does it. */
static uint32_t plain_choice(struct user *user, const struct weir_route_server *servers)
{
    uint32_t among[PLAY_SERVERS_MAX], count = 0;
    for (uint32_t i = 0; i < play_db_servers(); i++) {
        if (servers[i].usable && !servers[i].shown.primary)
            among[count++] = i;
    }
    struct weir_sim_random random = { user->due_ms * 2654435761u + user->began_ms };
    return count > 0 ? among[weir_sim_random_below(&random, count)] : weir_route_leader(servers, play_db_servers());
}

static void go(struct lane *lane, uint32_t number, const struct weir_policy_request *request, uint32_t server)
{
    struct user *user = &lane->users[number];
    if (server == WEIR_ROUTE_NONE)
        failed(lane, number);
    else if (!play_db_is_reachable(server) || (user->write && !play_db_is_primary(server)))
        elsewhere(user, server);
    else if (lane->strategy == PLAY_TRACKED)
        check(lane, number, request, server);
    else
        serve(lane, number, server);
}

static void try_once(struct lane *lane, uint32_t number)
{
    struct weir_route_server servers[PLAY_SERVERS_MAX];
    struct user *user = &lane->users[number];
    if (!user->under_way) {
        user->under_way = true;
        user->began_ms = now_ms;
        user->avoided = 0;
    }
    play_db_look(servers);
    /* One that failed is asked again by its poller, and then may do. */
    if (now_ms > user->began_ms && (now_ms - user->began_ms) % 10 == 0)
        user->avoided = 0;
    const struct weir_policy_request request = request_of(lane, number, servers);
    if (request.now_ns > request.give_up_ns + PLAY_MS) {
        failed(lane, number);
        return;
    }
    if (lane->strategy == PLAY_PLAIN && !user->write) {
        go(lane, number, &request, plain_choice(user, servers));
        return;
    }
    const struct weir_policy policy = weir_policy_decide(&request);
    user->next_ms = now_ms + 1;
    if (policy.next == WEIR_POLICY_GO)
        go(lane, number, &request, policy.route.server);
    else if (policy.next == WEIR_POLICY_END && policy.end == WEIR_ROUTE_LOST)
        lost(lane, number, servers);
    else if (policy.next == WEIR_POLICY_END)
        failed(lane, number);
    else
        for (uint32_t i = 0; i < play_db_servers(); i++)
            play_db_ask(i);
}

/* ---- a run ---- */

static void lane_begin(struct lane *lane, uint32_t strategy)
{
    memset(lane, 0, sizeof *lane);
    lane->strategy = strategy;
    weir_judge_init(&lane->judge, lane->slots, SLOTS, lane->servers, PLAY_SERVERS_MAX);
    lane->judge.tell = violated;
    lane->judge.context = lane;
    for (uint32_t i = 0; i < setting(PLAY_READS_USERS); i++) {
        lane->users[i].random.state = setting(PLAY_READS_SEED) * 1000 + i;
        lane->users[i].due_ms = 200; /* by then all servers were asked */
        draw(&lane->users[i], i);
    }
}

static void look_at_lags(void)
{
    for (uint32_t i = 0; i < play_db_servers(); i++) {
        double lag = play_db_lag_ms(i), *most = &lags[i][column(now_ms)];
        *most = lag < 0 || *most < 0 ? -1 : lag > *most ? lag : *most;
    }
}

static int lane_end(struct lane *lane)
{
    int error = weir_judge_finish(&lane->judge);
    lane->sums[PLAY_READS_WENT_BACK] = (double)lane->judge.counts.broken[WEIR_MONOTONIC_READS];
    lane->sums[PLAY_READS_MISSED] = (double)lane->judge.counts.broken[WEIR_READ_YOUR_WRITES];
    lane->sums[PLAY_READS_VIOLATED] = (double)lane->judge.counts.violated;
    lane->sums[PLAY_READS_LOST_WITHOUT_NEED] = (double)lane->judge.counts.lost_without_need;
    return error;
}

int play_reads_run(void)
{
    int error = 0;
    now_ms = 0;
    violations_count = 0;
    memset(lags, 0, sizeof lags);
    play_db_begin(&plan);
    for (uint32_t i = 0; i < PLAY_STRATEGIES; i++)
        lane_begin(&lanes[i], i);
    for (now_ms = 1; now_ms < setting(PLAY_READS_DURATION_MS); now_ms++) {
        bool promoted = play_db_advance(now_ms);
        look_at_lags();
        for (uint32_t i = 0; i < PLAY_STRATEGIES; i++) {
            if (promoted)
                cut(&lanes[i]);
            for (uint32_t user = 0; user < setting(PLAY_READS_USERS); user++) {
                if (lanes[i].users[user].next_ms <= now_ms)
                    try_once(&lanes[i], user);
            }
        }
    }
    for (uint32_t i = 0; i < PLAY_STRATEGIES; i++)
        error = error ? error : lane_end(&lanes[i]);
    return error;
}

/* ---- what came of it ---- */

double play_reads_sum(uint32_t strategy, uint32_t what)
{
    return strategy < PLAY_STRATEGIES && what < PLAY_READS_SUMS ? lanes[strategy].sums[what] : 0;
}

const double *play_reads_broken(uint32_t strategy)
{
    return lanes[strategy % PLAY_STRATEGIES].broken;
}

const double *play_reads_told(uint32_t strategy)
{
    return lanes[strategy % PLAY_STRATEGIES].told;
}

const double *play_reads_lag(uint32_t server)
{
    return lags[server % PLAY_SERVERS_MAX];
}

uint32_t play_violations(void)
{
    return violations_count;
}

double play_violation(uint32_t index, uint32_t word)
{
    return index < violations_count && word < PLAY_VIOLATION_WORDS ? violations[index][word] : 0;
}
