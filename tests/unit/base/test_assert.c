/* SPDX-License-Identifier: Apache-2.0
 *
 * What an assertion says, and that weir_table_check() and weir_logs_check() see what is not sound. Each damage is done
 * in a process of its own, which must end by the assertion that is named. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/phase.h"
#include "table/internal.h"
#include "table/logs.h"

#define NOW UINT64_C(1000000000000)
#define NARROW 20u
#define WIDE 21u

/* Runs `what` in a child: it must stop there, and say `words` in one line that names this file or another. */
static void stops(void (*what)(void), const char *words)
{
    int pipes[2], status;
    char said[1000] = "";
    size_t size = 0;
    assert_int_equal(pipe(pipes), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        static const struct rlimit none = { 0, 0 };
        (void)setrlimit(RLIMIT_CORE, &none);
        (void)signal(SIGABRT, SIG_DFL);
        (void)dup2(pipes[1], STDERR_FILENO);
        what();
        _exit(0);
    }
    close(pipes[1]);
    for (ssize_t got; size < sizeof said - 1 && (got = read(pipes[0], said + size, sizeof said - 1 - size)) > 0;)
        size += (size_t)got;
    close(pipes[0]);
    assert_int_equal(waitpid(child, &status, 0), child);
    if (status == 0 || !strstr(said, words))
        fail_msg("it said \"%s\" and not \"%s\"", said, words);
}

enum { TWO_AND_TWO = __LINE__ + 5 };

static void two_and_two(void)
{
    int two = 2;
    weir_assert(two + two == 5);
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
static void debug_two_and_two(void)
{
    int two = 2;
    weir_debug_assert(two + two == 5);
    (void)two;
}
#endif

/* Who builds with a sanitizer wants all that can be seen: tests/run.py passes -Ddebug=true. */
static void under_a_sanitizer_debug_assertions_stand(void **state)
{
    (void)state;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    stops(debug_two_and_two, "two + two == 5");
#endif
}

static void an_assertion_says_what_and_where(void **state)
{
    char place[200];
    (void)state;
    stops(two_and_two, "assertion failed: two + two == 5");
    (void)snprintf(place, sizeof place, "weir: %s:%d: ", __FILE__, TWO_AND_TWO);
    stops(two_and_two, place);
}

static void move_back(void)
{
    static const struct weir_phase phases[] = { { "young", WEIR_PHASE(1) }, { "old", 0 } };
    weir_phase_check(phases, 0, 1);
    weir_phase_check(phases, 1, 0);
}

static void a_move_that_no_table_has_is_named(void **state)
{
    (void)state;
    stops(move_back, "no phase moves from old to young");
}

static void forgotten(void *context, uint32_t limit, uint64_t a, uint64_t b, bool evicted)
{
    (void)context;
    (void)limit;
    (void)a;
    (void)b;
    (void)evicted;
}

/* ---- the table ---- */

/* A narrow entry and a wide one; where each stands. */
struct two_keys {
    struct weir_table table;
    struct weir_slot *narrow, *wide;
};

static struct weir_slot *put(struct weir_table *table, uint64_t hash, uint32_t limit)
{
    struct weir_held held;
    uint64_t wait_ns;
    assert_int_equal(weir_table_hold(table, hash, limit, WEIR_ABSENT_INSERT, NOW, &held, &wait_ns), WEIR_HOLD_OK);
    weir_table_release(&held, limit, NOW + 5);
    return held.slot;
}

static void open_keys(struct two_keys *keys)
{
    assert_int_equal(weir_table_init(&keys->table, 66 << 10, 0, NOW, forgotten, NULL), 0);
    weir_table_set_kind(&keys->table, WIDE, (struct weir_kind){ .wide = true }, 0);
    keys->narrow = put(&keys->table, UINT64_C(0x1234567890abc000), NARROW);
    keys->wide = put(&keys->table, UINT64_C(0x2bcdef0123456000), WIDE);
    weir_table_check(&keys->table);
}

#define DAMAGE(name, ...)                                                                                              \
    static void name(void)                                                                                             \
    {                                                                                                                  \
        struct two_keys keys;                                                                                          \
        open_keys(&keys);                                                                                              \
        __VA_ARGS__;                                                                                                   \
        weir_table_check(&keys.table);                                                                                 \
    }

DAMAGE(lose_an_entry, *keys.narrow = (struct weir_slot){ 0 })
DAMAGE(lose_a_continuation, keys.wide[1] = (struct weir_slot){ 0 })
DAMAGE(leave_a_continuation, keys.wide[0] = (struct weir_slot){ 0 })
DAMAGE(leave_a_lock, keys.narrow->word |= WEIR_WORD_LOCKED)
DAMAGE(leave_a_shard_locked, keys.table.shard_locks[3] = 1)
DAMAGE(leave_it_growing, keys.table.growing = 1)
DAMAGE(miscount_slots, keys.table.slots_used++)
DAMAGE(miscount_evicted, keys.table.evicted = 1)
DAMAGE(say_the_wrong_home, keys.narrow->tag ^= WEIR_TAG_SECOND)
DAMAGE(grow_beyond, keys.table.count = keys.table.lines_max + 1)
DAMAGE(be_of_no_limit, keys.narrow->tag &= ~WEIR_TAG_LIMIT_MASK; keys.narrow->word &= WEIR_TICKS_MASK)
DAMAGE(leave_a_word, keys.table.lines[0].slot[3].word = 1)
DAMAGE(stray, keys.table.lines[keys.table.count].slot[0].tag = 2)

/* A second copy beside the first. */
static void be_there_twice(void)
{
    struct two_keys keys;
    open_keys(&keys);
    keys.narrow[keys.narrow->tag == keys.narrow[1].tag ? 2 : 1] = *keys.narrow;
    keys.table.entries++;
    keys.table.slots_used++;
    weir_table_check(&keys.table);
}

static void let_go_twice(void)
{
    struct two_keys keys;
    open_keys(&keys);
    weir_shard_lock(&keys.table, 5);
    weir_shard_unlock(&keys.table, 5);
    weir_shard_unlock(&keys.table, 5);
}

static void the_table_is_checked(void **state)
{
    struct two_keys keys;
    (void)state;
    open_keys(&keys);
    weir_table_deinit(&keys.table);
    stops(lose_an_entry, "table->entries == counted.entries");
    stops(lose_a_continuation, "wide == kind.wide");
    stops(leave_a_continuation, "weir_tag_is_entry(weir_slot_tag(&slot[-1]))");
    stops(leave_a_lock, "!weir_pair_locked(pair)");
    stops(leave_a_shard_locked, "table->shard_locks[shard] == 0");
    stops(leave_it_growing, "table->growing == 0");
    stops(miscount_slots, "table->slots_used == counted.slots");
    stops(miscount_evicted, "table->inserted - table->evicted");
    stops(say_the_wrong_home, "second, table->count) == number");
    stops(grow_beyond, "table->count <= table->lines_max");
    stops(be_of_no_limit, "weir_pair_limit(pair) > 0");
    stops(leave_a_word, "slot->word == 0");
    stops(stray, "weir_slot_tag(&table->lines[n].slot[i]) == 0");
    stops(be_there_twice, "shown_in(&table->lines[number], pair, second) == 1");
    stops(let_go_twice, "__ATOMIC_RELAXED) == 1");
}

/* ---- the side memory ---- */

#define OWNER 3

static void open_logs(struct weir_logs *logs, uint32_t *ret_block)
{
    static const uint16_t owners[] = { OWNER, 4 };
    assert_int_equal(weir_logs_init(logs, 64 << 10), 0);
    weir_logs_share(logs, owners, 2);
    assert_int_not_equal(weir_logs_take(logs, 8, 0), WEIR_LOGS_NONE);
    *ret_block = weir_logs_take(logs, 32, OWNER);
    assert_int_not_equal(*ret_block, WEIR_LOGS_NONE);
    weir_logs_check(logs);
}

#define DAMAGE_LOGS(name, ...)                                                                                         \
    static void name(void)                                                                                             \
    {                                                                                                                  \
        struct weir_logs logs;                                                                                         \
        uint32_t block;                                                                                                \
        open_logs(&logs, &block);                                                                                      \
        __VA_ARGS__;                                                                                                   \
        weir_logs_check(&logs);                                                                                        \
    }

DAMAGE_LOGS(overlap, logs.states[block + 1] = logs.states[block])
DAMAGE_LOGS(leave_room, logs.states[block] -= 1)
DAMAGE_LOGS(lose_its_state, logs.states[block] = 0)
DAMAGE_LOGS(begin_elsewhere, logs.fresh = 1)
DAMAGE_LOGS(be_no_ring, logs.states[block] = 99)
DAMAGE_LOGS(miscount_used, logs.blocks_used--)
DAMAGE_LOGS(miscount_kept, logs.blocks_kept++)
DAMAGE_LOGS(count_for_another, logs.owners[block] = 4)
DAMAGE_LOGS(miscount_floors, logs.floors_open++)
DAMAGE_LOGS(lose_a_free_ring, logs.free_head[0] = WEIR_LOGS_NONE)
DAMAGE_LOGS(break_a_link, *weir_logs_times(&logs, logs.free_head[0]) = 0)
/* The first of two free rings says that it is the last. */
DAMAGE_LOGS(end_a_list_early, uint32_t taken[3]; for (int i = 0; i < 3; i++) taken[i] = weir_logs_take(&logs, 8, 0);
            weir_logs_give(&logs, taken[0], 8); weir_logs_give(&logs, taken[1], 8); weir_logs_check(&logs);
            *weir_logs_times(&logs, logs.free_head[0]) |= WEIR_LOGS_NONE)
DAMAGE_LOGS(give_twice, weir_logs_give(&logs, block, 32); weir_logs_give(&logs, block, 32))

static void the_side_memory_is_checked(void **state)
{
    struct weir_logs logs;
    uint32_t block;
    (void)state;
    open_logs(&logs, &block);
    weir_logs_deinit(&logs);
    stops(overlap, "logs->states[block + i] == LOGS_INSIDE");
    stops(leave_room, "state != LOGS_INSIDE");
    stops(lose_its_state, "state != LOGS_INSIDE");
    stops(begin_elsewhere, "state != LOGS_INSIDE");
    stops(be_no_ring, "order < WEIR_LOGS_ORDERS");
    stops(miscount_used, "logs->blocks_used == counted.used");
    stops(miscount_kept, "logs->blocks_kept == counted.kept");
    stops(count_for_another, "counted.kept_by == kept_by");
    stops(miscount_floors, "logs->floors_open == floors_open");
    stops(lose_a_free_ring, "free == 0");
    stops(break_a_link, "link >> 32 == previous");
    stops(end_a_list_early, "free == 0");
    stops(give_twice, "logs->states[block] == (LOGS_USED | order)");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(under_a_sanitizer_debug_assertions_stand),
        cmocka_unit_test(an_assertion_says_what_and_where),
        cmocka_unit_test(a_move_that_no_table_has_is_named),
        cmocka_unit_test(the_table_is_checked),
        cmocka_unit_test(the_side_memory_is_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
