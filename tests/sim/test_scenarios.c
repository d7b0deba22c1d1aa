/* SPDX-License-Identifier: Apache-2.0
 *
 * The classic failures, each with the naive way beside ours: the naive way breaks as it is said to, ours keeps its
 * bound. The scenarios are files in sim/scenarios, and their numbers are in docs/scenarios.md. In sim/regressions are
 * the plans that found a mistake once. */
#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "random.h"
#include "sim/modes.h"
#include "sim/run.h"
#include "sim/scenario.h"

struct played {
    struct weir_scenario scenario;
    struct weir_scenario_row rows[WEIR_SCENARIO_WAYS_MAX];
};

static struct played *play(const char *name)
{
    struct played *played = calloc(1, sizeof(*played));
    char path[512], error[400] = "";
    struct weir_fault fault;
    assert_non_null(played);
    snprintf(path, sizeof(path), "%s/%s", SCENARIOS, name);
    if (weir_scenario_load(path, &played->scenario, error, sizeof(error)) != 0)
        fail_msg("%s", error);
    assert_int_equal(weir_scenario_run(&played->scenario, played->rows, &fault), 0);
    weir_scenario_print(&played->scenario, played->rows, stdout);
    return played;
}

static void done(struct played *played)
{
    weir_scenario_rows_deinit(played->rows, played->scenario.ways_count);
    free(played);
}

static const struct weir_scenario_row *row(const struct played *played, const char *label)
{
    for (uint32_t i = 0; i < played->scenario.ways_count; i++) {
        if (strcmp(played->scenario.ways[i].label, label) == 0)
            return &played->rows[i];
    }
    fail_msg("no way is called \"%s\"", label);
    return NULL;
}

static uint64_t admitted(const struct played *played, const char *label)
{
    return row(played, label)->admitted;
}

/* Every way of ours kept its bound after every admission, and its total is within it; each naive one passed the limit
 * (or, for a key that never comes back, stayed far below it). */
static void ours_keep_their_bounds(const struct played *played)
{
    uint32_t ours = 0;
    for (uint32_t i = 0; i < played->scenario.ways_count; i++) {
        const struct weir_scenario_row *r = &played->rows[i];
        if (r->naive)
            continue;
        ours++;
        assert_true(r->kept);
        assert_true(r->admitted <= r->bound);
        assert_true(r->admitted > 0);
    }
    assert_true(ours > 0);
}

static void scenario__a_stale_cache_admits_1_0_1_8_and_3_0_times_the_limit(void **state)
{
    (void)state;
    struct played *played = play("stale-cache");
    assert_int_equal(admitted(played, "naive: cache 0 ms old"), 300);
    assert_int_equal(admitted(played, "naive: cache 400 ms old"), 540);
    assert_int_equal(admitted(played, "naive: cache 1,000 ms old"), 900);
    assert_int_equal(admitted(played, "exact"), 300);
    ours_keep_their_bounds(played);
    done(played);
}

static void scenario__get_then_incr_admits_n_minus_1_too_many(void **state)
{
    (void)state;
    struct played *played = play("get-then-incr");
    assert_int_equal(played->scenario.plan.nodes, 11);
    assert_int_equal(admitted(played, "naive: GET, then INCR"), 100 + 11 - 1);
    assert_int_equal(admitted(played, "exact"), 100);
    ours_keep_their_bounds(played);
    done(played);
}

static void scenario__incr_without_expire_blocks_a_key_for_ever(void **state)
{
    (void)state;
    struct played *played = play("incr-without-expire");
    const struct weir_scenario_row *naive = row(played, "naive: INCR, then EXPIRE");
    assert_true(naive->admitted <= 10); /* one window's worth, in ten */
    assert_true(naive->times_ns[naive->times_count - 1] < 1000000000);
    assert_int_equal(row(played, "exact")->limit, 100);
    assert_true(admitted(played, "exact") >= 99); /* a request died with its node */
    ours_keep_their_bounds(played);
    done(played);
}

static void scenario__a_boundary_burst_admits_2n(void **state)
{
    (void)state;
    struct played *played = play("boundary-burst");
    assert_int_equal(admitted(played, "naive: a counter per window"), 200);
    assert_int_equal(admitted(played, "exact, sliding_log"), 100);
    ours_keep_their_bounds(played);
    done(played);
}

static void scenario__windows_by_node_clocks_admit_one_limit_each(void **state)
{
    (void)state;
    struct played *played = play("clock-skew");
    assert_int_equal(admitted(played, "naive: windows by node clocks"), 300);
    assert_int_equal(admitted(played, "exact"), 100);
    ours_keep_their_bounds(played);
    done(played);
}

static void scenario__gossip_every_500_ms_lets_all_of_10000_pass(void **state)
{
    (void)state;
    struct played *played = play("gossip-burst");
    const struct weir_scenario_row *naive = row(played, "naive: tell the others every 500 ms");
    assert_int_equal(naive->asked, 10000);
    assert_int_equal(naive->admitted, 10000);
    assert_true(admitted(played, "gossip, slack 2") <= 1001 + 50 * 2);
    ours_keep_their_bounds(played);
    done(played);
}

static void scenario__four_shards_apart_mint_4b(void **state)
{
    (void)state;
    struct played *played = play("shards-apart");
    assert_int_equal(admitted(played, "naive: each believes it is alone"), 4000);
    assert_true(admitted(played, "gossip, slack 25") <= 1000 + 4 * 25);
    assert_true(admitted(played, "leased") <= 1000);
    assert_true(admitted(played, "split") <= 1000);
    ours_keep_their_bounds(played);
    done(played);
}

static void scenario__two_regions_apart_overshoot_by_their_distance(void **state)
{
    (void)state;
    struct played *played = play("two-regions");
    /* 1,000 a second in each region, and the other hears of it 100 ms later. */
    assert_in_range(admitted(played, "naive: replicate the count"), 690, 720);
    assert_int_equal(admitted(played, "exact"), 600);
    const struct weir_scenario_row *exact = row(played, "exact"), *leased = row(played, "leased");
    assert_true(exact->wait_max_ns >= 200000000); /* each answer of the far region crosses twice */
    assert_true(leased->wait_total_ns < exact->wait_total_ns && leased->to_engine * 10 < exact->to_engine);
    /* Who does not fit into the slack waits for the ask under way and the next one, however many wait. */
    assert_true(row(played, "batched, slack 30")->wait_max_ns <= 2 * 202000000 + 1000000);
    ours_keep_their_bounds(played);
    done(played);
}

static void scenario__a_hot_tenant_is_exact_while_the_rest_is_leased(void **state)
{
    (void)state;
    struct played *played = play("one-hot-tenant");
    const struct weir_scenario_row *before = row(played, "before: exact for all");
    const struct weir_scenario_row *after = row(played, "after: exact for it, else leased");
    assert_int_equal(before->to_engine, 15000 + 100 * 150); /* each request asks the engine */
    assert_true(after->to_engine < before->to_engine);
    ours_keep_their_bounds(played);
    done(played);
}

static void scenario__a_file_that_is_none_is_an_error_with_its_line(void **state)
{
    (void)state;
    static const char *const wrong[] = { "set nodes=0\n",
                                         "set nodes=65\n",
                                         "set colour=red\n",
                                         "load rate=x\n",
                                         "way nobody : x\n",
                                         "fault flood\n",
                                         "load burst=1 rate=1\n",
                                         "set latency=1\n",
                                         "group hot\n",
                                         "dance\n",
                                         "set span=0s\n",
                                         "way exact span=0s : x\n",
                                         "way exact span=1s calm=2s : x\n" };
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        char path[] = "/tmp/weir-scenario-XXXXXX", error[400] = "";
        int fd = mkstemp(path);
        FILE *file = fdopen(fd, "w");
        assert_non_null(file);
        fprintf(file, "title x\n%s", wrong[i]);
        fclose(file);
        struct weir_scenario *scenario = calloc(1, sizeof(*scenario));
        assert_non_null(scenario);
        assert_int_not_equal(weir_scenario_load(path, scenario, error, sizeof(error)), 0);
        assert_non_null(strstr(error, ":2: "));
        free(scenario);
        remove(path);
    }
}

/* Plans that found a mistake once. Under a sanitizer a third of them: it sees no more in many. */
static void regressions__stay_fixed(void **state)
{
    (void)state;
    DIR *folder = opendir(REGRESSIONS);
    unsigned count = 0, found = 0;
    assert_non_null(folder);
    for (const struct dirent *entry; (entry = readdir(folder));) {
        struct played *played = calloc(1, sizeof(*played));
        char path[512], error[400] = "";
        struct weir_fault fault;
        assert_non_null(played);
        if (entry->d_name[0] != '.' && found++ % test_effort(3, 1, 1) == 0) {
            snprintf(path, sizeof(path), "%s/%s", REGRESSIONS, entry->d_name);
            if (weir_scenario_load(path, &played->scenario, error, sizeof(error)) != 0)
                fail_msg("%s", error);
            assert_int_equal(weir_scenario_run(&played->scenario, played->rows, &fault), 0);
            if (!played->rows[0].kept)
                fail_msg("weir sim %s: %s", path, played->rows[0].why);
            assert_true(played->rows[0].admitted > 0);
            count++;
        }
        done(played);
    }
    closedir(folder);
    assert_true(found >= 23 && count >= test_effort(7, 23, 23));
}

/* What a seed drew, written and read, gives the same run, to the last number. */
static void plans__are_written_and_read(void **state)
{
    (void)state;
    static struct weir_sim_result drawn, read;
    const struct weir_sim_mode *mode;
    for (size_t i = 0; (mode = weir_sim_mode_at(i)); i++) {
        for (uint64_t seed = 1; seed <= test_effort(1, 4, 4); seed++) {
            char path[] = "/tmp/weir-plan-XXXXXX", error[400] = "";
            struct weir_scenario *scenario = calloc(1, sizeof(*scenario));
            struct weir_sim_plan plan;
            struct weir_fault fault;
            int fd = mkstemp(path);
            FILE *file = fdopen(fd, "w");
            assert_true(scenario && file);
            weir_sim_plan_seeded(&plan, mode, seed, NULL);
            weir_scenario_write_plan(&plan, "as drawn", file);
            fclose(file);
            assert_int_equal(weir_sim_run(&plan, NULL, &drawn, &fault), 0);
            if (weir_scenario_load(path, scenario, error, sizeof(error)) != 0)
                fail_msg("%s", error);
            plan = scenario->ways[0].plan;
            plan.mode = scenario->ways[0].modes[0];
            plan.loads_count = scenario->groups[0].loads_count;
            memcpy(plan.loads, scenario->groups[0].loads, sizeof(plan.loads));
            assert_int_equal(weir_sim_run(&plan, NULL, &read, &fault), 0);
            assert_memory_equal(&drawn, &read, sizeof(drawn));
            free(scenario);
            remove(path);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scenario__a_stale_cache_admits_1_0_1_8_and_3_0_times_the_limit),
        cmocka_unit_test(scenario__get_then_incr_admits_n_minus_1_too_many),
        cmocka_unit_test(scenario__incr_without_expire_blocks_a_key_for_ever),
        cmocka_unit_test(scenario__a_boundary_burst_admits_2n),
        cmocka_unit_test(scenario__windows_by_node_clocks_admit_one_limit_each),
        cmocka_unit_test(scenario__gossip_every_500_ms_lets_all_of_10000_pass),
        cmocka_unit_test(scenario__four_shards_apart_mint_4b),
        cmocka_unit_test(scenario__two_regions_apart_overshoot_by_their_distance),
        cmocka_unit_test(scenario__a_hot_tenant_is_exact_while_the_rest_is_leased),
        cmocka_unit_test(scenario__a_file_that_is_none_is_an_error_with_its_line),
        cmocka_unit_test(regressions__stay_fixed),
        cmocka_unit_test(plans__are_written_and_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
