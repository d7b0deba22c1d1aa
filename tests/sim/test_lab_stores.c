/* SPDX-License-Identifier: Apache-2.0
 *
 * The numbers of `weir lab` where it is about stores and replicas, in virtual time: each against a model written here
 * once more, without the code of sim/. test_labs.c has the other questions. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/session/route.h"
#include "lab_fixture.h"
#include "random.h"

/* ---- 1 ---- */

/* All read 0, so that the counter is 1 once anybody has written: what was acknowledged beyond one is lost. */
static void lab_1__only_a_token_installed_before_the_read_loses_nothing_in_either_order(void **state)
{
    (void)state;
    static const struct {
        const char *way;
        unsigned acknowledged[2]; /* oldest first; newest first, restart */
    } expected[] = {
        { "the lock alone", { 3, 3 } },
        { "token checked, mark in memory", { 3, 3 } },
        { "token checked, mark on disk", { 3, 1 } },
        { "token installed before the read", { 1, 1 } },
    };
    static const char *const orders[] = { "oldest first", "newest first, restart" };
    play(1, 1);
    assert_int_equal(report.source, WEIR_LAB_SIMULATED);
    assert_int_equal(report.numbers_count, 16);
    for (size_t i = 0; i < 4; i++) {
        for (size_t k = 0; k < 2; k++) {
            char name[WEIR_LAB_NAME_SIZE];
            snprintf(name, sizeof(name), "%s; %s", expected[i].way, orders[k]);
            assert_value_of(name, "acknowledged", expected[i].acknowledged[k]);
            assert_value_of(name, "lost of them", expected[i].acknowledged[k] - 1);
            assert_true(last_of(name) == expected[i].acknowledged[k] - 1);
        }
    }
}

/* ---- 2 ---- */

static void lab_2__only_the_users_token_misses_nothing(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 3; seed++) {
        struct test_random random = { seed };
        double any = 0, kept = 0, shared_ms = 0;
        play(2, seed);
        assert_int_equal(report.source, WEIR_LAB_SIMULATED);
        for (unsigned i = 0; i < 64; i++) {
            uint64_t moment_ms = test_random_below(&random, 400), near = test_random_below(&random, 2) == 0;
            /* The replicas' ids are 2 and 3, the users' 1 to 8: which one is a user's is that of the higher score. */
            bool own_is_near = weir_route_score(2, i % 8 + 1) > weir_route_score(3, i % 8 + 1);
            any += moment_ms < (near ? 50 : 250);
            kept += moment_ms < (own_is_near ? 50 : 250);
            shared_ms += moment_ms < 50 ? (double)(50 - moment_ms) : 0;
        }
        assert_value("any replica: missed the write", any);
        assert_value("sticky by user: missed the write", kept);
        assert_value("a token for each device: missed the write", kept);
        assert_value("the user's token: missed the write", 0);
        assert_value("the user's token: mean time of a read", shared_ms / 64);
        static const char *const ways[] = { "any replica", "sticky by user", "a token for each device",
                                            "the user's token" };
        for (size_t i = 0; i < 4; i++) {
            assert_value_of(ways[i], "reads on the laptop", 64);
            assert_value_of(ways[i], "older than read there before", 0);
            assert_value_of(ways[i], "at the primary", 0);
            assert_true(last_of(ways[i]) == value_of(ways[i], "missed the write"));
            if (i < 3)
                assert_value_of(ways[i], "mean time of a read", 0);
        }
    }
}

/* ---- 7 ---- */

/* Counts that a server shows which is so far behind: one was made at 0 and each 20 ms. */
static unsigned shown_at(unsigned ms, unsigned lag_ms)
{
    return ms < lag_ms ? 0 : (ms - lag_ms) / 20 + 1;
}

struct told {
    double reads, back, users, step, time_ms, longest_ms;
};

static void user_by_hand(unsigned user, bool tracked, struct told *told)
{
    unsigned seen = 0, due = 400 + 7 * user;
    bool near_first = weir_route_score(2, user + 1) > weir_route_score(3, user + 1), touched = false;
    for (unsigned ms = 0; ms < 6000; ms++) {
        bool near_is_there = ms < 2000 || ms >= 4000;
        unsigned near = shown_at(ms, 20), far = shown_at(ms, 300), value;
        if (ms < due)
            continue;
        value = near_is_there && near_first ? near : far;
        if (tracked && value < seen) /* the other, if it shows enough; else the next ms */
            value = near_is_there && near >= seen ? near : far;
        if (tracked && value < seen)
            continue;
        told->reads++;
        told->back += value < seen;
        told->step = value < seen && (seen - value) * 20.0 > told->step ? (seen - value) * 20.0 : told->step;
        told->time_ms += ms - due;
        told->longest_ms = ms - due > told->longest_ms ? ms - due : told->longest_ms;
        touched = touched || value < seen;
        seen = value > seen ? value : seen;
        for (; due <= ms; due += 50)
            ;
    }
    told->users += touched;
}

static void lab_7__sticky_users_go_back_and_tracked_ones_wait_once(void **state)
{
    (void)state;
    static const char *const ways[] = { "sticky", "tracked" };
    play(7, 1);
    assert_int_equal(report.source, WEIR_LAB_SIMULATED);
    for (unsigned way = 0; way < 2; way++) {
        struct told told = { 0 };
        for (unsigned user = 0; user < 6; user++)
            user_by_hand(user, way == 1, &told);
        assert_value_of(ways[way], "reads", told.reads);
        assert_value_of(ways[way], "went back", told.back);
        assert_value_of(ways[way], "users who went back, of 6", told.users);
        assert_value_of(ways[way], "furthest step back", told.step);
        assert_value_of(ways[way], "mean time of a read", told.time_ms / told.reads);
        assert_value_of(ways[way], "longest time of a read", told.longest_ms);
        assert_value_of(ways[way], "at the primary", 0);
        assert_value_of(ways[way], "failed and were tried again", 0);
        assert_true(last_of(ways[way]) == told.back);
    }
    assert_true(value("sticky: went back") > 0 && value("sticky: furthest step back") <= 280);
    assert_value("tracked: went back", 0);
    assert_true(value("tracked: longest time of a read") > 200 && value("tracked: longest time of a read") <= 280);
}

/* ---- 9 ---- */

struct rule {
    const char *name;
    unsigned install, read;
    bool marks, fences;
};

struct found {
    bool acknowledged, lost, after;
};

/* Without playing it: a message of the older holder is taken unless its replica was marked before it came, and
 * the newer one meets it where it was taken before the step that reads. Digits as in sim/lab/replicas.c. */
static struct found schedule_by_hand(const struct rule *rule, uint64_t schedule)
{
    static const unsigned sets[3][3] = { { 0 }, { 1, 2, 4 }, { 3, 5, 6 } };
    unsigned installs = rule->install ? sets[rule->install][schedule % 3] : 0, step = 0, taken = 0, late = 0;
    bool met = false;
    unsigned marked[3] = { 99, 99, 99 }, reads[3] = { 99, 99, 99 };
    schedule /= rule->install ? 3 : 1;
    unsigned set = sets[rule->read][schedule % 3];
    schedule /= 3;
    for (unsigned i = 0; i < 3; i++) {
        if (installs >> i & 1)
            marked[i] = step++;
    }
    for (unsigned i = 0; i < 3; i++) {
        if ((set >> i & 1) == 0)
            continue;
        reads[i] = step++;
        marked[i] = rule->fences && marked[i] == 99 ? reads[i] : marked[i];
    }
    for (unsigned i = 0; i < 3; i++, step++)
        marked[i] = marked[i] == 99 ? step : marked[i];
    for (unsigned i = 0; i < 3; i++, schedule /= step + 1) {
        unsigned comes = (unsigned)(schedule % (step + 1));
        bool takes = !rule->marks || comes <= marked[i];
        taken += takes;
        late += comes >= rule->install;
        met = met || (takes && reads[i] != 99 && comes <= reads[i]);
    }
    return (struct found){ taken >= 2, taken >= 2 && !met, taken >= 2 && rule->marks && late == 3 };
}

static void lab_9__nothing_is_lost_where_reads_fence_too(void **state)
{
    (void)state;
    static const struct rule rules[] = { { "no tokens", 0, 2, false, false },
                                         { "installed at 1 of 3", 1, 2, true, false },
                                         { "installed at 2 of 3", 2, 2, true, false },
                                         { "installed at 2, read at 1", 2, 1, true, true },
                                         { "installed at 2, reads fence too", 2, 2, true, true } };
    for (uint64_t seed = 1; seed <= 3; seed++) {
        play(9, seed);
        assert_int_equal(report.source, WEIR_LAB_SIMULATED);
        for (size_t i = 0; i < 5; i++) {
            const struct rule *rule = &rules[i];
            struct test_random random = { seed };
            uint64_t places = rule->install + rule->read + 4, lost = 0, after = 0, drawn_lost = 0, drawn_older = 0;
            uint64_t count = (rule->install ? 3U : 1U) * 3 * places * places * places;
            for (uint64_t k = 0; k < count; k++) {
                struct found found = schedule_by_hand(rule, k);
                lost += found.lost;
                after += found.after;
            }
            for (int k = 0; k < 200; k++) {
                struct found found = schedule_by_hand(rule, test_random_below(&random, count));
                drawn_lost += found.lost;
                drawn_older += found.acknowledged;
            }
            assert_value_of(rule->name, "there are", (double)count);
            assert_value_of(rule->name, "an acknowledged update is lost", (double)lost);
            if (rule->marks)
                assert_value_of(rule->name, "sent after the install, and acknowledged", (double)after);
            assert_value_of(rule->name, "drawn", 200);
            assert_value_of(rule->name, "drawn, the older holder was acknowledged", (double)drawn_older);
            assert_value_of(rule->name, "drawn, an acknowledged update is lost", (double)drawn_lost);
            assert_true(last_of(rule->name) == (double)drawn_lost);
        }
    }
    assert_value("installed at 2, reads fence too: an acknowledged update is lost", 0);
    assert_value("installed at 2 of 3: an acknowledged update is lost", 146);
    assert_value("installed at 2 of 3: sent after the install, and acknowledged", 0);
    assert_true(value("installed at 1 of 3: sent after the install, and acknowledged") > 0);
    assert_null(weir_lab_number_find(&report, "no tokens: sent after the install, and acknowledged"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lab_1__only_a_token_installed_before_the_read_loses_nothing_in_either_order),
        cmocka_unit_test(lab_2__only_the_users_token_misses_nothing),
        cmocka_unit_test(lab_7__sticky_users_go_back_and_tracked_ones_wait_once),
        cmocka_unit_test(lab_9__nothing_is_lost_where_reads_fence_too),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
