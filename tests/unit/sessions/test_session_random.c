/* SPDX-License-Identifier: Apache-2.0
 *
 * Sessions against a cluster in memory that lags, restarts, crashes and fails over: no read ever shows less than what
 * the session has seen, unless it was told that that was cut off. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "fake_cluster.h"

#define SESSIONS 6
#define SEEN_MAX 32
#define ROUNDS 400
#define MOVES 400

/* One user: its session, and what it really saw. */
struct user {
    struct weir_session *session;
    unsigned count;
    uint32_t seen[SEEN_MAX]; /* none of them contains another */
};

struct tally {
    uint64_t reads, leader, cut, needless, behind, down, moved, stale;
};

static struct fake_cluster cluster;
static uint64_t round_seed;
static struct weir_replicas replicas = { .timeout_ns = 1000000000 };

static void saw(struct user *user, uint32_t record)
{
    unsigned kept = 0;
    for (unsigned i = 0; i < user->count; i++)
        if (!fake_cluster_contains(&cluster, record, user->seen[i]))
            user->seen[kept++] = user->seen[i];
    assert_true(kept < SEEN_MAX);
    user->seen[kept++] = record;
    user->count = kept;
}

static void open_session(struct user *user, const struct weir_session_options *options)
{
    struct weir_session_options own = *options;
    own.id = &cluster.random.state; /* another one for each, and the same one for the same seed */
    own.id_size = sizeof cluster.random.state;
    user->count = 0;
    assert_int_equal(weir_session_open(&replicas, &own, &user->session), 0);
}

/* Is all that the user saw still there, in the true primary's log? */
static bool is_kept(const struct user *user)
{
    unsigned leader = fake_cluster_leader(&cluster);
    for (unsigned i = 0; leader < FAKE_SERVERS && i < user->count; i++)
        if (!fake_cluster_contains(&cluster, cluster.servers[leader].written, user->seen[i]))
            return false;
    return leader < FAKE_SERVERS;
}

/* Counts the error; after a loss the user goes on with what there is. */
static void failed(struct user *user, int error, struct tally *tally)
{
    if (error == WEIR_ECUTOFF) {
        tally->cut++;
        tally->needless += is_kept(user);
        if (weir_session_accept(user->session) == 0)
            user->count = 0;
    } else if (error == WEIR_EBEHIND || error == WEIR_EUNKNOWN) {
        tally->behind++;
    } else {
        assert_int_equal(error, WEIR_EDOWN);
        tally->down++;
    }
}

static void check(struct user *user, const struct weir_read *read, uint32_t record, struct tally *tally)
{
    tally->reads++;
    tally->leader += read->leader;
    tally->stale += read->stale;
    for (unsigned k = 0; k < user->count && !read->stale; k++)
        if (!fake_cluster_contains(&cluster, record, user->seen[k]))
            fail_msg("seed %llu: at %s: %u does not contain %u", (unsigned long long)round_seed, read->server, record,
                     user->seen[k]);
    if (!read->stale)
        saw(user, record);
}

static void query_one(struct user *user, struct tally *tally)
{
    static const struct weir_query query = { .text = "" };
    struct weir_read read;
    struct pg_result *result;
    int error = weir_session_query(user->session, &query, &result, &read);
    if (error == 0)
        check(user, &read, *(const uint32_t *)(const void *)result, tally);
    else if (error != WEIR_EIO)
        failed(user, error, tally);
}

static void read_some(struct user *user, struct tally *tally)
{
    struct weir_read read;
    uint32_t record;
    int error = weir_session_read(user->session, &read);
    if (error != 0) {
        failed(user, error, tally);
        return;
    }
    for (uint64_t i = test_random_below(&cluster.random, 3) + 1; i > 0; i--) {
        if (test_random_below(&cluster.random, 2) == 0)
            fake_cluster_tick(&cluster);
        if (!fake_cluster_read(&cluster, read.conn, &record))
            return;
        check(user, &read, record, tally);
    }
}

static void write_some(struct user *user, struct tally *tally)
{
    struct pg_conn *conn;
    uint32_t record;
    int error = weir_session_write(user->session, &conn);
    if (error != 0) {
        failed(user, error, tally);
        return;
    }
    if (test_random_below(&cluster.random, 2) == 0)
        fake_cluster_tick(&cluster);
    if (fake_cluster_write(&cluster, conn, &record))
        saw(user, record);
}

/* Its token goes to another session of another process, in whatever order. */
static void export(struct user *from, struct user *to, struct tally *tally)
{
    char token[WEIR_SESSION_TOKEN_MAX];
    size_t size;
    int error = weir_session_token(from->session, token, &size);
    if (error != 0) {
        failed(from, error, tally);
        return;
    }
    error = weir_session_join(to->session, token, size);
    if (error != 0) {
        assert_int_equal(error, WEIR_ELIMIT);
        return;
    }
    tally->moved++;
    for (unsigned i = 0; i < from->count; i++)
        saw(to, from->seen[i]);
}

static void move(struct user users[SESSIONS], const struct weir_session_options *options, struct tally *tally)
{
    struct user *user = &users[test_random_below(&cluster.random, SESSIONS)];
    struct user *other = &users[test_random_below(&cluster.random, SESSIONS)];
    switch (test_random_below(&cluster.random, 10)) {
    case 0:
    case 1:
        write_some(user, tally);
        break;
    case 2:
        export(user, other, tally);
        break;
    case 3:
        if (test_random_below(&cluster.random, 4) == 0) {
            weir_session_close(user->session);
            open_session(user, options);
        } else if (weir_session_rest(user->session) == WEIR_ECUTOFF) {
            failed(user, WEIR_ECUTOFF, tally);
        }
        break;
    case 4:
        query_one(user, tally);
        break;
    default:
        read_some(user, tally);
        break;
    }
    fake_cluster_tick(&cluster);
}

static void play(struct fake_faults faults, enum weir_session_behind behind, uint64_t seed, struct tally *tally)
{
    static struct user users[SESSIONS];
    const struct weir_session_options options = { .behind = behind, .wait_ms = 20 };
    round_seed = seed;
    fake_cluster_begin(&cluster, seed, faults);
    for (unsigned i = 0; i < SESSIONS; i++)
        open_session(&users[i], &options);
    for (unsigned i = 0; i < MOVES; i++)
        move(users, &options, tally);
    for (unsigned i = 0; i < SESSIONS; i++)
        weir_session_close(users[i].session);
    fake_cluster_end(&cluster);
}

static void play_all(const char *name, struct fake_faults faults, struct tally *tally)
{
    uint64_t seed = test_random_seed();
    uint64_t rounds = test_effort(ROUNDS / 10, ROUNDS, 20 * ROUNDS);
    *tally = (struct tally){ 0 };
    for (uint64_t i = 0; i < rounds; i++)
        play(faults, (enum weir_session_behind)((seed + i) % 5), seed + i, tally);
    printf("%s: %llu reads (%llu at the primary, %llu stale), %llu tokens moved, %llu cut off (%llu needlessly), "
           "%llu behind, %llu down\n",
           name, (unsigned long long)tally->reads, (unsigned long long)tally->leader, (unsigned long long)tally->stale,
           (unsigned long long)tally->moved, (unsigned long long)tally->cut, (unsigned long long)tally->needless,
           (unsigned long long)tally->behind, (unsigned long long)tally->down);
    assert_true(tally->reads > 10ull * rounds);
}

static void session__lag_alone_never_cuts_off(void **state)
{
    (void)state;
    struct tally tally;
    play_all("lag", (struct fake_faults){ 0 }, &tally);
    assert_int_equal(tally.cut, 0);
    assert_int_equal(tally.down, 0);
}

static void session__restarts_of_standbys_take_nothing_back(void **state)
{
    (void)state;
    struct tally tally;
    play_all("restarts", (struct fake_faults){ .restarts = true }, &tally);
}

static void session__a_crash_of_the_primary_is_no_older_read(void **state)
{
    (void)state;
    struct tally tally;
    play_all("crashes", (struct fake_faults){ .restarts = true, .crashes = true }, &tally);
    assert_true(tally.cut > 0);
}

static void session__a_lossy_failover_is_no_older_read(void **state)
{
    (void)state;
    struct tally tally;
    play_all("failovers", (struct fake_faults){ .restarts = true, .crashes = true, .failovers = true }, &tally);
    assert_true(tally.cut > tally.needless);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(session__lag_alone_never_cuts_off),
        cmocka_unit_test(session__restarts_of_standbys_take_nothing_back),
        cmocka_unit_test(session__a_crash_of_the_primary_is_no_older_read),
        cmocka_unit_test(session__a_lossy_failover_is_no_older_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
