/* SPDX-License-Identifier: Apache-2.0
 *
 * Servers with their pollers' threads: when they ask, who is waited for, and who comes and goes. The polls are a day
 * apart, so that what is heard was asked for by somebody. */
#include "poller_world.h"

static struct weir_servers *servers;
static struct weir_fault fault;
static const struct weir_replicas_server all[] = { { "a", "host=0" }, { "b", "host=1" }, { "c", "host=2" } };

static struct weir_servers_options usual(unsigned count)
{
    return (struct weir_servers_options){
        .servers = all, .server_count = count, .poll_ns = DAY, .freeze_ns = DAY, .timeout_ns = 60 * SECOND
    };
}

static int begin(void **state)
{
    (void)state;
    memset(world.servers, 0, sizeof world.servers);
    world.now_ns = world.ahead_ns = 0;
    for (unsigned i = 0; i < FAKES; i++) {
        world.servers[i].shown = i ? standby(1, 400) : primary(1, 5, 400);
        world.servers[i].number = "17";
    }
    fault = (struct weir_fault){ 0 };
    servers = NULL;
    return 0;
}

static int end(void **state)
{
    (void)state;
    weir_servers_close(servers);
    return world.open;
}

static void open_some(unsigned count)
{
    const struct weir_servers_options options = usual(count);
    assert_int_equal(weir_servers_open(&options, &servers, &fault), 0);
}

static uint64_t id_of(unsigned index)
{
    const struct weir_snapshot *snapshot = weir_servers_look(servers);
    uint64_t id = snapshot->servers[index].id;
    weir_servers_release(servers, snapshot);
    return id;
}

static uint64_t soon(void)
{
    return real_now_ns() + 60 * SECOND;
}

static unsigned asked(unsigned index)
{
    pthread_mutex_lock(&world.mutex);
    unsigned count = world.servers[index].asked;
    pthread_mutex_unlock(&world.mutex);
    return count;
}

static void nap(void)
{
    nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
}

static void set(unsigned index, struct weir_shown shown)
{
    pthread_mutex_lock(&world.mutex);
    world.servers[index].shown = shown;
    pthread_mutex_unlock(&world.mutex);
}

static void set_down(unsigned index, bool down)
{
    pthread_mutex_lock(&world.mutex);
    world.servers[index].down = down;
    pthread_mutex_unlock(&world.mutex);
}

/* ---- opening ---- */

static void refused(const struct weir_servers_options *options, int error, const char *field)
{
    assert_int_equal(weir_servers_open(options, &servers, &fault), error);
    assert_string_equal(fault.field, field);
    assert_null(servers);
    assert_int_equal(world.open, 0);
}

static void servers__are_not_opened_with_options_out_of_range(void **state)
{
    static const struct {
        unsigned count;
        uint64_t poll_ns, freeze_ns, timeout_ns;
        const char *field;
    } cases[] = {
        { 0, DAY, DAY, DAY, "server_count" }, { WEIR_ROUTE_SERVERS_MAX + 1, DAY, DAY, DAY, "server_count" },
        { 1, MS - 1, DAY, DAY, "poll" },      { 1, DAY + 1, DAY, DAY, "poll" },
        { 1, DAY, 0, DAY, "freeze" },         { 1, DAY, DAY + 1, DAY, "freeze" },
        { 1, DAY, DAY, MS - 1, "timeout" },   { 1, DAY, DAY, DAY + 1, "timeout" },
    };
    struct weir_servers_options options;
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        options = usual(cases[i].count);
        options.poll_ns = cases[i].poll_ns;
        options.freeze_ns = cases[i].freeze_ns;
        options.timeout_ns = cases[i].timeout_ns;
        refused(&options, WEIR_ERANGE, cases[i].field);
    }
    options = usual(1);
    options.branch_table = "no schema";
    refused(&options, WEIR_EINVAL, "branch_table");
    options = usual(1);
    options.poll_ns = options.timeout_ns = MS;
    options.freeze_ns = 1;
    assert_int_equal(weir_servers_open(&options, &servers, &fault), 0);
}

static void servers__are_not_opened_by_names_or_addresses_that_are_none(void **state)
{
    static char name[65];
    const struct weir_replicas_server bad[] = {
        { "", "host=0" }, { NULL, "host=0" }, { name, "host=0" }, { "a", NULL }, { "a", "no conninfo" },
    };
    const struct weir_replicas_server twice[] = { { "a", "host=0" }, { "b", "host=1" }, { "a", "host=1" } };
    struct weir_servers_options options = usual(1);
    (void)state;
    memset(name, 'n', 64);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        options.servers = &bad[i];
        refused(&options, WEIR_EINVAL, i < 3 ? "name" : "conninfo");
    }
    options.servers = twice;
    options.server_count = 3;
    refused(&options, WEIR_EEXIST, "name");
    name[63] = '\0';
    options.servers = &bad[2];
    options.server_count = 1;
    assert_int_equal(weir_servers_open(&options, &servers, &fault), 0);
}

static void servers__are_64_at_most(void **state)
{
    static char names[WEIR_ROUTE_SERVERS_MAX + 1][8];
    struct weir_replicas_server many[WEIR_ROUTE_SERVERS_MAX + 1];
    (void)state;
    for (unsigned i = 0; i <= WEIR_ROUTE_SERVERS_MAX; i++) {
        snprintf(names[i], sizeof names[i], "%u", i);
        many[i] = (struct weir_replicas_server){ names[i], "host=1" };
    }
    struct weir_servers_options options = usual(WEIR_ROUTE_SERVERS_MAX);
    options.servers = many;
    assert_int_equal(weir_servers_open(&options, &servers, &fault), 0);
    assert_int_equal(weir_servers_add(servers, &many[WEIR_ROUTE_SERVERS_MAX], &fault), WEIR_ELIMIT);
    assert_int_equal(weir_servers_remove(servers, "17"), 0);
    assert_int_equal(weir_servers_add(servers, &many[WEIR_ROUTE_SERVERS_MAX], &fault), 0);
}

/* ---- who comes and goes ---- */

static void servers__come_and_go_and_keep_their_order(void **state)
{
    (void)state;
    open_some(3);
    for (unsigned i = 0; i < 3; i++)
        assert_int_equal(weir_servers_ask(servers, id_of(i), soon()), 0);
    const struct weir_snapshot *before = weir_servers_look(servers);
    assert_int_equal(weir_servers_remove(servers, "x"), WEIR_ENOENT);
    assert_int_equal(weir_servers_add(servers, &all[1], &fault), WEIR_EEXIST);
    uint64_t gone = id_of(1);
    assert_int_equal(weir_servers_remove(servers, "b"), 0);
    assert_int_equal(weir_servers_ask(servers, gone, soon()), WEIR_ENOENT);
    const struct weir_snapshot *after = weir_servers_look(servers);
    assert_int_equal(after->count, 2);
    assert_string_equal(after->states[0].name, "a");
    assert_string_equal(after->states[1].name, "c");
    assert_string_equal(after->states[1].conninfo, "host=2");
    weir_servers_release(servers, after);
    assert_int_equal(weir_servers_add(servers, &all[1], &fault), 0);
    after = weir_servers_look(servers);
    assert_int_equal(after->count, 3);
    assert_string_equal(after->states[2].name, "b");
    assert_true(after->servers[2].id == gone); /* the same name, the same server */
    weir_servers_release(servers, after);
    assert_int_equal(weir_servers_ask(servers, gone, soon()), 0);
    assert_string_equal(before->states[1].conninfo, "host=1");
    weir_servers_release(servers, before);
}

/* Nothing of what was read at the one is counted for the other. */
static void servers__take_the_place_of_one_that_went_with_no_load(void **state)
{
    (void)state;
    open_some(2);
    uint64_t gone = id_of(1);
    for (unsigned i = 0; i < 100000; i++)
        weir_servers_count(servers, gone);
    assert_int_equal(weir_servers_remove(servers, "b"), 0);
    assert_int_equal(weir_servers_add(servers, &all[2], &fault), 0);
    pthread_mutex_lock(&world.mutex);
    world.ahead_ns = 2 * SECOND;
    pthread_mutex_unlock(&world.mutex);
    assert_int_equal(weir_servers_ask(servers, id_of(1), soon()), 0);
    const struct weir_snapshot *snapshot = weir_servers_look(servers);
    assert_string_equal(snapshot->states[1].name, "c");
    assert_int_equal(snapshot->servers[1].load, 0);
    weir_servers_release(servers, snapshot);
}

/* ---- asking ---- */

static void servers__are_asked_for_whoever_asks_and_nobody_else(void **state)
{
    (void)state;
    open_some(2);
    uint64_t one = id_of(0), other = id_of(1);
    assert_int_equal(weir_servers_ask(servers, one, soon()), 0);
    assert_int_equal(weir_servers_ask(servers, other, soon()), 0);
    unsigned before = asked(1);
    for (unsigned i = 1; i < 20; i++) {
        set(0, primary(1, 5, 400 + 8 * i));
        uint64_t asked_ns = real_now_ns();
        assert_int_equal(weir_servers_ask(servers, one, soon()), 0);
        const struct weir_snapshot *snapshot = weir_servers_look(servers);
        assert_int_equal(snapshot->servers[0].shown.position, 400 + 8 * i);
        assert_true(snapshot->servers[0].asked_ns > asked_ns);
        weir_servers_release(servers, snapshot);
    }
    assert_in_range(asked(1), before, before + 1); /* of what was asked before one may be under way */
    assert_int_equal(weir_servers_ask(servers, one + 1, soon()), WEIR_ENOENT);
    set_down(0, true);
    assert_int_equal(weir_servers_ask(servers, one, real_now_ns() + 20 * MS), WEIR_EAGAIN);
}

static void servers__are_asked_while_somebody_waits_for_news(void **state)
{
    (void)state;
    open_some(1);
    assert_int_equal(weir_servers_ask(servers, id_of(0), soon()), 0);
    const struct weir_snapshot *snapshot = weir_servers_look(servers);
    uint64_t number = snapshot->number;
    weir_servers_release(servers, snapshot);
    assert_int_equal(weir_servers_wait(servers, number - 1, 0), 0); /* there is news */
    unsigned before = asked(0);
    assert_int_equal(weir_servers_wait(servers, number + 1000000, real_now_ns() + MS), WEIR_EAGAIN);
    for (unsigned i = 0; i < 5; i++)
        assert_int_equal(weir_servers_wait(servers, number + i, soon()), 0);
    assert_true(asked(0) >= before + 4);
    before = asked(0);
    for (unsigned i = 0; i < 50; i++)
        nap();
    assert_in_range(asked(0), before, before + 1); /* nobody waits: one may have been under way */
}

/* Its poller sleeps for a day. */
static void servers__a_server_that_goes_is_not_waited_for(void **state)
{
    (void)state;
    open_some(3);
    for (unsigned i = 0; i < 3; i++)
        assert_int_equal(weir_servers_ask(servers, id_of(i), soon()), 0);
    assert_int_equal(weir_servers_remove(servers, "c"), 0);
    weir_servers_close(servers);
    servers = NULL;
    assert_int_equal(world.open, 0);
}

static void *ask_gone(void *context)
{
    return (void *)(intptr_t)weir_servers_ask(servers, *(uint64_t *)context, soon());
}

static void servers__who_waits_for_one_that_goes_is_told(void **state)
{
    (void)state;
    pthread_t thread;
    void *error;
    open_some(2);
    uint64_t id = id_of(1);
    set_down(1, true);
    assert_int_equal(pthread_create(&thread, NULL, ask_gone, &id), 0);
    nap(); /* time to begin; whoever is first, the answer is the same */
    assert_int_equal(weir_servers_remove(servers, "b"), 0);
    assert_int_equal(pthread_join(thread, &error), 0);
    assert_int_equal((int)(intptr_t)error, WEIR_ENOENT);
}

/* ---- connections ---- */

static void servers__another_connection_is_another_generation(void **state)
{
    (void)state;
    open_some(1);
    uint64_t id = id_of(0), last = 0;
    for (unsigned i = 0; i < 6; i++) {
        assert_int_equal(weir_servers_ask(servers, id, soon()), 0);
        const struct weir_snapshot *snapshot = weir_servers_look(servers);
        assert_true(i % 2 ? snapshot->states[0].generation == last : snapshot->states[0].generation > last);
        last = snapshot->states[0].generation;
        weir_servers_release(servers, snapshot);
        pthread_mutex_lock(&world.mutex);
        world.servers[0].error = i % 2 ? WEIR_EIO : 0; /* of the next question */
        pthread_mutex_unlock(&world.mutex);
    }
}

static void servers__one_that_is_down_is_asked_again_and_again(void **state)
{
    (void)state;
    set_down(0, true);
    open_some(1);
    assert_int_equal(weir_servers_ask(servers, id_of(0), real_now_ns() + MS), WEIR_EAGAIN);
    const struct weir_snapshot *snapshot = weir_servers_look(servers);
    for (; strcmp(snapshot->states[0].fault, "refused") != 0; snapshot = weir_servers_look(servers)) {
        weir_servers_release(servers, snapshot);
        nap();
    }
    assert_false(snapshot->servers[0].usable);
    weir_servers_release(servers, snapshot);
    set_down(0, false);
    assert_int_equal(weir_servers_ask(servers, id_of(0), soon()), 0);
    snapshot = weir_servers_look(servers);
    uint64_t number = snapshot->number;
    assert_true(snapshot->servers[0].usable);
    weir_servers_release(servers, snapshot);
    for (unsigned i = 0; i < 3; i++) /* and as often as any other */
        assert_int_equal(weir_servers_wait(servers, number + i, soon()), 0);
}

/* After 20 ms, 40, 80 and so on, however often others are asked. */
static void servers__one_that_is_down_is_asked_more_and_more_rarely(void **state)
{
    struct weir_servers_options options = usual(1);
    uint64_t begun_ns = real_now_ns();
    unsigned most = 1;
    (void)state;
    options.poll_ns = MS;
    set_down(0, true);
    assert_int_equal(weir_servers_open(&options, &servers, &fault), 0);
    for (unsigned i = 0; i < 150; i++)
        nap();
    pthread_mutex_lock(&world.mutex);
    unsigned connects = world.servers[0].connects;
    pthread_mutex_unlock(&world.mutex);
    uint64_t passed_ns = real_now_ns() - begun_ns;
    for (uint64_t gap_ns = 20 * MS, at_ns = gap_ns; at_ns <= passed_ns; at_ns += gap_ns, most++)
        gap_ns = gap_ns < 320 * MS ? 2 * gap_ns : 500 * MS;
    assert_in_range(connects, 0, most);
}

/* Nobody sees by the numbers who runs: it is looked at for whoever asks. */
static void servers__are_looked_at_for_who_runs_when_somebody_asks(void **state)
{
    (void)state;
    world.servers[0].shown.settled = false;
    world.servers[0].settles = true;
    open_some(1);
    for (unsigned i = 0; i < 2; i++) /* the first answer may be to what was asked at the start, for nobody */
        assert_int_equal(weir_servers_ask(servers, id_of(0), soon()), 0);
    const struct weir_snapshot *snapshot = weir_servers_look(servers);
    assert_true(snapshot->servers[0].settled_ns > 0);
    weir_servers_release(servers, snapshot);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, begin, end)
    const struct CMUnitTest tests[] = {
        CASE(servers__are_not_opened_with_options_out_of_range),
        CASE(servers__are_not_opened_by_names_or_addresses_that_are_none),
        CASE(servers__are_64_at_most),
        CASE(servers__come_and_go_and_keep_their_order),
        CASE(servers__take_the_place_of_one_that_went_with_no_load),
        CASE(servers__are_asked_for_whoever_asks_and_nobody_else),
        CASE(servers__are_asked_while_somebody_waits_for_news),
        CASE(servers__a_server_that_goes_is_not_waited_for),
        CASE(servers__who_waits_for_one_that_goes_is_told),
        CASE(servers__another_connection_is_another_generation),
        CASE(servers__one_that_is_down_is_asked_again_and_again),
        CASE(servers__one_that_is_down_is_asked_more_and_more_rarely),
        CASE(servers__are_looked_at_for_who_runs_when_somebody_asks),
    };
#undef CASE
    return cmocka_run_group_tests_name("polling", tests, NULL, NULL);
}
