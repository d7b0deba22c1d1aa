/* SPDX-License-Identifier: Apache-2.0
 *
 * Users behind a server: a server of the test's own that loses, evicts, expires, jumps and breaks, two processes on it,
 * and the oracle that nothing was forgotten. And the values that the stores read. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "sessions/users_remote.h"
#include "users_world.h"

#define MS UINT64_C(1000000)
#define USERS 12
#define PROCESSES 2
#define THREADS_EACH 2
#define TTL_NS (40 * MS)
#define STORM_DONE_MIN 2000 /* of fewer, on a busy machine, a share of failures says little */

/* ---- the server ---- */

struct kept_value {
    enum weir_users_said said;
    char value[WEIR_USERS_VALUE_MAX];
    size_t size;
    uint64_t heard_ns; /* by its wall clock */
};

struct server {
    pthread_mutex_t lock;
    struct test_random random;
    char epoch[WEIR_USERS_EPOCH_SIZE + 1];
    struct kept_value users[USERS], copy[USERS];
    uint64_t evictions, ahead_ns;
    unsigned calm; /* of this many things that may go wrong, one does; 0: none */
    unsigned losses, jumps, evicted, corrupted, expired;
};

struct process {
    struct weir_users_remote remote; /* first */
    struct server *server;
};

static bool happens(struct server *server, unsigned in)
{
    return server->calm > 0 && test_random_below(&server->random, (uint64_t)server->calm * in) == 0;
}

static uint64_t wall_ns(const struct server *server)
{
    return weir_users_now_ns() + server->ahead_ns;
}

static void expire(struct server *server)
{
    for (unsigned i = 0; i < USERS; i++) {
        struct kept_value *user = &server->users[i];
        if (user->said != WEIR_USERS_ABSENT && wall_ns(server) > user->heard_ns + TTL_NS) {
            user->said = WEIR_USERS_ABSENT;
            server->expired++;
        }
    }
}

static void misfortune(struct server *server)
{
    if (happens(server, 40)) { /* a failover to what was saved a while ago */
        memcpy(server->users, server->copy, sizeof server->users);
        weir_users_epoch_make(server->epoch);
        server->losses++;
    }
    if (happens(server, 20))
        memcpy(server->copy, server->users, sizeof server->copy);
    if (happens(server, 10)) {
        server->users[test_random_below(&server->random, USERS)].said = WEIR_USERS_ABSENT;
        server->evictions++;
        server->evicted++;
    }
    if (happens(server, 60)) {
        server->ahead_ns += TTL_NS / 4 + test_random_below(&server->random, TTL_NS);
        server->jumps++;
    }
    if (happens(server, 10)) {
        struct kept_value *user = &server->users[test_random_below(&server->random, USERS)];
        user->said = test_random_below(&server->random, 2) ? WEIR_USERS_ODD : WEIR_USERS_VALUE;
        user->size = test_random_below(&server->random, 30);
        user->heard_ns = wall_ns(server);
        memset(user->value, '1', user->size);
        server->corrupted++;
    }
    expire(server);
}

static void *link_create(struct weir_users_remote *remote)
{
    return remote;
}

static void link_destroy(void *link)
{
    (void)link;
}

static struct kept_value *user_of(struct server *server, struct weir_users_name name)
{
    return &server->users[*(const uint32_t *)name.data];
}

static int fetch(struct weir_users_remote *remote, void *link, struct weir_users_name name, uint64_t deadline_ns,
                 struct weir_users_fetched *ret_fetched)
{
    struct server *server = ((struct process *)(void *)remote)->server;
    (void)link, (void)deadline_ns;
    pthread_mutex_lock(&server->lock);
    misfortune(server);
    const struct kept_value *user = user_of(server, name);
    *ret_fetched = (struct weir_users_fetched){ .said = user->said,
                                                .size = user->said == WEIR_USERS_VALUE ? user->size : 0,
                                                .evictions = user->said == WEIR_USERS_VALUE ? 0 : server->evictions,
                                                .wall_ns = wall_ns(server) };
    memcpy(ret_fetched->epoch, server->epoch, sizeof server->epoch);
    memcpy(ret_fetched->value, user->value, ret_fetched->size);
    bool broken = happens(server, 5);
    pthread_mutex_unlock(&server->lock);
    return broken ? WEIR_EIO : 0;
}

static int swap(struct weir_users_remote *remote, void *link, struct weir_users_name name,
                const struct weir_users_fetched *before, const char *value, size_t size, uint64_t deadline_ns)
{
    struct server *server = ((struct process *)(void *)remote)->server;
    int error = 0;
    (void)link, (void)deadline_ns;
    pthread_mutex_lock(&server->lock);
    misfortune(server);
    struct kept_value *user = user_of(server, name);
    if (happens(server, 5)) {
        error = WEIR_EIO;
    } else if (strcmp(server->epoch, before->epoch) != 0 || user->said != before->said ||
               (user->said == WEIR_USERS_ABSENT &&
                (server->evictions != before->evictions || wall_ns(server) - before->wall_ns >= TTL_NS)) ||
               (user->said == WEIR_USERS_VALUE &&
                (user->size != before->size || memcmp(user->value, before->value, user->size) != 0))) {
        error = WEIR_EBUSY;
    } else {
        user->said = WEIR_USERS_VALUE;
        user->size = size;
        user->heard_ns = wall_ns(server);
        memcpy(user->value, value, size);
        error = happens(server, 5) ? WEIR_EIO : 0; /* done, and nobody hears of it */
    }
    pthread_mutex_unlock(&server->lock);
    return error;
}

static void destroy(struct weir_users_remote *remote)
{
    weir_users_remote_deinit(remote);
}

static const struct weir_users_remote_ops fake_ops = {
    .link_create = link_create, .link_destroy = link_destroy, .fetch = fetch, .swap = swap, .destroy = destroy
};

static void server_init(struct server *server, uint64_t seed, unsigned calm)
{
    *server = (struct server){ .random = { seed }, .calm = calm };
    pthread_mutex_init(&server->lock, NULL);
    weir_users_epoch_make(server->epoch);
}

static void process_init(struct process *process, struct server *server, struct world *world)
{
    struct weir_users_options options = {
        .ttl_ns = TTL_NS, .timeout_ns = 2000 * MS, .newest = world_newest, .context = world
    };
    memset(process, 0, sizeof *process);
    process->server = server;
    assert_int_equal(weir_users_remote_init(&process->remote, &fake_ops, &options), 0);
}

/* ---- one thing at a time ---- */

struct alone {
    struct world world;
    struct server server;
    struct process process;
    struct weir_users *users;
};

static void alone_init(struct alone *alone)
{
    world_init(&alone->world);
    server_init(&alone->server, 1, 0);
    process_init(&alone->process, &alone->server, &alone->world);
    alone->users = &alone->process.remote.users;
}

static struct weir_session_token at(uint64_t position)
{
    struct weir_session_token token = { .count = 1 };
    token.places[0] = (struct weir_place){ .system = WORLD_SYSTEM, .position = position, .timeline = 1 };
    return token;
}

static uint64_t position_of(struct alone *alone, uint32_t user)
{
    struct weir_session_token token;
    assert_int_equal(weir_users_get(alone->users, &user, sizeof user, NULL, &token), 0);
    return token.places[0].position;
}

static void add(struct alone *alone, uint32_t user, uint64_t position)
{
    struct weir_session_token seen = at(position);
    assert_int_equal(weir_users_add(alone->users, &user, sizeof user, NULL, &seen, NULL), 0);
}

static void remote__a_lost_state_is_covered_by_a_floor_of_after_it(void **state)
{
    struct alone alone;
    struct weir_users_stats stats;
    (void)state;
    alone_init(&alone);
    add(&alone, 1, 1400);
    assert_int_equal(position_of(&alone, 1), 1400);
    memset(alone.server.users, 0, sizeof alone.server.users);
    weir_users_epoch_make(alone.server.epoch);
    alone.world.position = 2000;
    assert_int_equal(position_of(&alone, 1), 2000);
    weir_users_stats(alone.users, &stats);
    assert_int_equal(stats.losses, 1);
    weir_users_close(alone.users);
}

static void remote__values_of_an_older_epoch_are_forgotten(void **state)
{
    struct alone alone;
    (void)state;
    alone_init(&alone);
    add(&alone, 1, 1400);
    weir_users_epoch_make(alone.server.epoch); /* the value stays: it may be an old one */
    alone.world.position = 2000;
    assert_int_equal(position_of(&alone, 1), 2000);
    add(&alone, 1, 1500);
    assert_int_equal(position_of(&alone, 1), 2000);
    weir_users_close(alone.users);
}

static void remote__a_value_that_is_not_ours_is_no_token_and_is_overwritten(void **state)
{
    struct alone alone;
    struct weir_users_stats stats;
    (void)state;
    alone_init(&alone);
    add(&alone, 1, 1400);
    for (unsigned i = 0; i < 3; i++) {
        struct kept_value *value = &alone.server.users[1];
        alone.world.position = 2000 + 1000 * i;
        value->said = i == 0 ? WEIR_USERS_ODD : WEIR_USERS_VALUE;
        value->size = i == 1 ? 0 : value->size - 1;
        assert_int_equal(position_of(&alone, 1), 2000 + 1000 * i);
        add(&alone, 1, 100);
        assert_int_equal(position_of(&alone, 1), 2000 + 1000 * i);
    }
    weir_users_stats(alone.users, &stats);
    assert_int_equal(stats.corrupt, 6);
    weir_users_close(alone.users);
}

/* While the primary is asked, another process stores what the user has seen, and then a stranger's value is back. */
struct intruder {
    struct alone alone;
    struct process other;
};

static int intrude(void *context, uint64_t deadline_ns, struct weir_session_token *ret_token, uint64_t *ret_changes)
{
    struct intruder *intruder = context;
    struct kept_value *value = &intruder->alone.server.users[1], before = *value;
    struct weir_session_token seen = at(1900); /* after it was asked */
    uint32_t user = 1;
    int error = world_newest(&intruder->alone.world, deadline_ns, ret_token, ret_changes);
    if (intruder->alone.world.questions > 1)
        return error;
    intruder->alone.world.position = 2000;
    assert_int_equal(weir_users_add(&intruder->other.remote.users, &user, sizeof user, NULL, &seen, NULL), 0);
    *value = before;
    return error;
}

static void remote__a_strange_value_that_came_twice_hides_no_message(void **state)
{
    struct intruder intruder;
    (void)state;
    for (unsigned odd = 0; odd < 2; odd++) {
        alone_init(&intruder.alone);
        process_init(&intruder.other, &intruder.alone.server, &intruder.alone.world);
        struct kept_value *value = &intruder.alone.server.users[1];
        value->said = odd ? WEIR_USERS_ODD : WEIR_USERS_VALUE;
        value->size = 3;
        value->heard_ns = UINT64_MAX / 2; /* it does not expire */
        intruder.alone.process.remote.users.floor.newest = intrude;
        intruder.alone.process.remote.users.floor.context = &intruder;
        add(&intruder.alone, 1, 100);
        assert_true(position_of(&intruder.alone, 1) >= 1900);
        weir_users_close(&intruder.other.remote.users);
        weir_users_close(intruder.alone.users);
    }
}

static void remote__a_floor_is_younger_than_what_can_have_expired(void **state)
{
    struct alone alone;
    (void)state;
    alone_init(&alone);
    assert_int_equal(position_of(&alone, 2), 1000);
    alone.world.position = 1400;
    assert_int_equal(position_of(&alone, 2), 1000); /* nothing can have been forgotten meanwhile */
    add(&alone, 1, 1400);
    uint64_t begun_ns = weir_users_now_ns();
    while (weir_users_now_ns() - begun_ns < TTL_NS + MS)
        continue;
    assert_true(position_of(&alone, 1) >= 1400);
    weir_users_close(alone.users);
}

static void remote__evictions_and_jumps_of_the_clock_ask_for_a_new_floor(void **state)
{
    struct alone alone;
    (void)state;
    alone_init(&alone);
    add(&alone, 1, 1400);
    alone.world.position = 1500;
    alone.server.users[1].said = WEIR_USERS_ABSENT;
    alone.server.evictions++;
    assert_int_equal(position_of(&alone, 1), 1500);
    add(&alone, 1, 1600);
    alone.world.position = 1700;
    alone.server.ahead_ns += 2 * TTL_NS;
    assert_int_equal(position_of(&alone, 1), 1700);
    weir_users_close(alone.users);
}

static void remote__accept_replaces_only_what_it_was_shown(void **state)
{
    struct alone alone;
    struct weir_session_token before, after = at(1100);
    uint32_t user = 3;
    (void)state;
    alone_init(&alone);
    add(&alone, user, 1400);
    assert_int_equal(weir_users_get(alone.users, &user, sizeof user, NULL, &before), 0);
    add(&alone, user, 1500);
    assert_int_equal(weir_users_accept(alone.users, &user, sizeof user, &before, &after), WEIR_EBUSY);
    assert_int_equal(position_of(&alone, user), 1500);
    assert_int_equal(weir_users_get(alone.users, &user, sizeof user, NULL, &before), 0);
    assert_int_equal(weir_users_accept(alone.users, &user, sizeof user, &before, &after), 0);
    assert_int_equal(position_of(&alone, user), 1100);
    /* Gone since: what the primary shows goes with what is accepted. */
    alone.server.users[user].said = WEIR_USERS_ABSENT;
    alone.world.position = 1800;
    assert_int_equal(weir_users_accept(alone.users, &user, sizeof user, &before, &after), 0);
    assert_int_equal(position_of(&alone, user), 1800);
    weir_users_close(alone.users);
}

/* ---- everything at once ---- */

struct storm {
    struct world world;
    struct server server;
    struct process processes[PROCESSES];
    struct seen_list lists[USERS];
    _Atomic unsigned wrong, done, failed;
    uint64_t until_ns;
};

struct storm_thread {
    struct storm *storm;
    struct weir_users *users;
    struct test_random random;
    pthread_t thread;
};

static void storm_step(struct storm_thread *self)
{
    struct storm *storm = self->storm;
    uint32_t user = (uint32_t)test_random_below(&self->random, USERS);
    struct weir_session_token seen = world_see(&storm->world, &self->random), token;
    struct weir_known known = world_known(&storm->world);
    size_t count = seen_count(&storm->lists[user]);
    int error;
    if (test_random_below(&self->random, 2) == 0) {
        error = weir_users_add(self->users, &user, sizeof user, &known, &seen, &token);
        if (error == 0)
            seen_add(&storm->lists[user], &seen);
    } else {
        error = weir_users_get(self->users, &user, sizeof user, &known, &token);
    }
    known = world_known(&storm->world);
    if (error == 0)
        storm->wrong += (unsigned)seen_missing(&storm->lists[user], count, &token, &known);
    storm->done += error == 0;
    storm->failed += error != 0;
}

static void *storm_run(void *context)
{
    struct storm_thread *self = context;
    while (weir_users_now_ns() < self->storm->until_ns || self->storm->done < STORM_DONE_MIN)
        storm_step(self);
    return NULL;
}

static void storm_round(uint64_t seed, unsigned calm)
{
    static struct storm storm;
    struct storm_thread threads[PROCESSES * THREADS_EACH];
    memset(&storm, 0, sizeof storm);
    world_init(&storm.world);
    server_init(&storm.server, seed, calm);
    storm.until_ns = weir_users_now_ns() + 250 * MS;
    for (unsigned i = 0; i < USERS; i++)
        pthread_mutex_init(&storm.lists[i].lock, NULL);
    for (unsigned i = 0; i < PROCESSES; i++)
        process_init(&storm.processes[i], &storm.server, &storm.world);
    for (unsigned i = 0; i < PROCESSES * THREADS_EACH; i++) {
        threads[i] = (struct storm_thread){ .storm = &storm,
                                            .users = &storm.processes[i % PROCESSES].remote.users,
                                            .random = { seed + i + 1 } };
        assert_int_equal(pthread_create(&threads[i].thread, NULL, storm_run, &threads[i]), 0);
    }
    for (unsigned i = 0; i < PROCESSES * THREADS_EACH; i++)
        pthread_join(threads[i].thread, NULL);
    for (unsigned i = 0; i < PROCESSES; i++)
        weir_users_close(&storm.processes[i].remote.users);
    printf("calm %u: %u done, %u failed; losses %u, evicted %u, jumps %u, corrupt %u, expired %u\n", calm, storm.done,
           storm.failed, storm.server.losses, storm.server.evicted, storm.server.jumps, storm.server.corrupted,
           storm.server.expired);
    assert_int_equal(storm.wrong, 0);
    assert_true(storm.done > 10 * storm.failed);
    for (unsigned i = 0; i < USERS; i++)
        free(storm.lists[i].places);
}

static void remote__a_storm_forgets_nothing(void **state)
{
    uint64_t seed = test_random_seed();
    (void)state;
    storm_round(seed, 1);
    storm_round(seed + 100, 5);
    storm_round(seed + 200, 30);
    storm_round(seed + 300, 200);
}

/* ---- values ---- */

static void value__what_was_written_is_read(void **state)
{
    struct weir_session_token token = at(123456), read;
    char value[WEIR_USERS_VALUE_MAX], epoch[WEIR_USERS_EPOCH_SIZE + 1];
    size_t size;
    (void)state;
    token.wrote_ns = 5;
    for (unsigned i = 0; i < WEIR_SESSION_PLACES_MAX; i++) {
        token.places[i] = (struct weir_place){ UINT64_MAX - i, UINT64_MAX - i, UINT64_MAX, UINT32_MAX, true, 7 };
        token.count = i + 1;
        assert_int_equal(weir_users_value_write("0123456789abcdef", &token, value, &size), 0);
        assert_int_equal(weir_users_value_read(value, size, epoch, &read), 0);
        assert_string_equal(epoch, "0123456789abcdef");
        assert_true(weir_users_within(&token, &read) && weir_users_within(&read, &token));
        for (size_t cut = 0; cut < size; cut++)
            assert_int_equal(weir_users_value_read(value, cut, epoch, &read), WEIR_ECORRUPT);
    }
    for (size_t i = 0; i < WEIR_USERS_VALUE_HEAD; i++) {
        char kept = value[i];
        value[i] = 'G';
        assert_int_equal(weir_users_value_read(value, size, epoch, &read), WEIR_ECORRUPT);
        value[i] = kept;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(remote__a_lost_state_is_covered_by_a_floor_of_after_it),
        cmocka_unit_test(remote__values_of_an_older_epoch_are_forgotten),
        cmocka_unit_test(remote__a_value_that_is_not_ours_is_no_token_and_is_overwritten),
        cmocka_unit_test(remote__a_strange_value_that_came_twice_hides_no_message),
        cmocka_unit_test(remote__a_floor_is_younger_than_what_can_have_expired),
        cmocka_unit_test(remote__evictions_and_jumps_of_the_clock_ask_for_a_new_floor),
        cmocka_unit_test(remote__accept_replaces_only_what_it_was_shown),
        cmocka_unit_test(remote__a_storm_forgets_nothing),
        cmocka_unit_test(value__what_was_written_is_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
