/* SPDX-License-Identifier: Apache-2.0
 *
 * sqlite_faults [DISK]: the embedded engine on a disk that fails, fills up, and is restored under it. With DISK,
 * a small file system of the caller's, the disk is really full. */
#include <fcntl.h>
#include <malloc.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "locks/open.h"
#include "sqlite_disk.h"

static char bytes[1 << 20], bytes_after[1 << 20];

/* ---- how often it syncs ---- */

static void faults__a_grant_costs_one_fsync_and_the_rest_none(void **state)
{
    (void)state;
    world_granted(world_acquire("first", "A", TTL));
    size_t before = disk.syncs;
    world_granted(world_acquire("a", "A", TTL));
    assert_int_equal(disk.syncs - before, 1);
    world_granted(world_acquire("a", "A", TTL));
    world_granted(world_renew("a", "A", TTL));
    world_held_by(world_acquire("a", "B", TTL), "A");
    world_held_by(world_show("a"), "A");
    world_granted(world_release("a", "A"));
    assert_int_equal(disk.syncs - before, 1);
    world_granted(world_renew("first", "A", 2 * TTL)); /* a longer lease must outlive a restart */
    assert_int_equal(disk.syncs - before, 2);
    struct weir_lock_op ops[8];
    for (int i = 0; i < 8; i++) {
        char name[16];
        snprintf(name, sizeof name, "n%d", i);
        ops[i] = (struct weir_lock_op){
            .verb = WEIR_LOCK_ACQUIRE, .name = world_name(name), .owner = world_text("A"), .ttl_ns = TTL
        };
    }
    world_apply(ops, 8);
    assert_int_equal(disk.syncs - before, 3);
}

/* Numbers are reserved ahead, a thousand at a time. */
static void faults__numbers_go_on_past_those_reserved(void **state)
{
    (void)state;
    struct weir_token last = { 0 };
    for (int i = 0; i < 1100; i++) {
        struct weir_token next = world_granted(world_acquire("a", "A", TTL));
        assert_true(next.number > last.number);
        last = next;
        world_granted(world_release("a", "A"));
    }
    last = world_granted(world_acquire("a", "A", TTL));
    world_reopen();
    assert_int_equal(weir_token_compare(world_granted(world_acquire("a", "A", TTL)), last), 0);
    assert_true(world_granted(world_acquire("b", "A", TTL)).number > last.number);
}

/* ---- a disk that fails ---- */

/* It heals: what was held is held, what was not granted is not, and new tokens are after all old ones. */
static void assert_healed(struct weir_token held, const char *asked)
{
    disk_heal();
    struct weir_token next = world_granted(world_acquire(asked, "B", TTL));
    assert_true(next.incarnation > held.incarnation);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(weir_token_compare(world_granted(world_acquire("held", "A", TTL)), held), 0);
        assert_int_equal(weir_token_compare(world_granted(world_acquire(asked, "B", TTL)), next), 0);
        world_held_by(world_acquire("held", "B", TTL), "A");
        world_reopen();
    }
}

static void faults__after_a_failed_fsync_nothing_is_known_or_trusted(void **state)
{
    (void)state;
    struct weir_token held = world_granted(world_acquire("held", "A", TTL));
    disk.sync = true;
    assert_int_equal(world_acquire("asked", "A", TTL).status, WEIR_EUNKNOWN);
    disk.sync = true;
    assert_int_equal(world_acquire("asked", "A", TTL).status, WEIR_EDOWN);
    world_free(world_show("asked"));
    assert_int_equal(weir_token_compare(world_granted(world_renew("held", "A", TTL)), held), 0);
    assert_int_equal(world_renew("held", "A", 2 * TTL).status, WEIR_EDOWN);
    struct weir_lock_engine_state shown;
    lock_world.engine->ops->state(lock_world.engine, &shown);
    assert_false(shown.up);
    assert_true(shown.failures >= 2 && shown.fault[0]);
    assert_healed(held, "asked");
}

/* The disk is well again, and the witness is not: no token is given, and each batch that is refused is a failure. */
static void faults__what_is_refused_for_want_of_a_raise_is_counted(void **state)
{
    (void)state;
    struct weir_lock_engine_state before, after;
    struct weir_token held = world_granted(world_acquire("held", "A", TTL));
    struct weir_lock_op raise = { .verb = WEIR_LOCK_RAISE }, fenced;
    world_apply(&raise, 1);
    fenced = (struct weir_lock_op){ .verb = WEIR_LOCK_ACQUIRE,
                                    .name = world_name("held"),
                                    .owner = world_text("A"),
                                    .ttl_ns = TTL,
                                    .seen = world_granted(raise).incarnation };
    disk.write = true;
    assert_int_equal(world_acquire("asked", "A", TTL).status, WEIR_EDOWN);
    size_t size = disk_read(disk_files.witness, bytes, sizeof bytes);
    disk_heal();
    disk_write(disk_files.witness, "x", 1);
    world_sleep(SECOND / 8);
    assert_int_equal(world_acquire("asked", "A", TTL).status, WEIR_EDOWN);
    lock_world.engine->ops->state(lock_world.engine, &before);
    assert_int_equal(world_acquire("asked", "A", TTL).status, WEIR_EDOWN);
    lock_world.engine->ops->state(lock_world.engine, &after);
    assert_int_equal(after.failures, before.failures + 1);
    world_apply(&fenced, 1); /* a holder that was fenced needs a new token, of after the raise */
    assert_int_equal(fenced.status, WEIR_EDOWN);
    disk_write(disk_files.witness, bytes, size);
    assert_healed(held, "asked");
}

static void faults__a_full_disk_grants_nothing_and_says_so(void **state)
{
    (void)state;
    struct weir_token held = world_granted(world_acquire("held", "A", TTL));
    world_granted(world_acquire("gone", "A", TTL));
    disk.write = true;
    assert_int_equal(world_acquire("asked", "A", TTL).status, WEIR_EDOWN);
    world_free(world_show("asked"));
    assert_int_equal(weir_token_compare(world_granted(world_renew("held", "A", TTL)), held), 0);
    world_granted(world_release("gone", "A"));
    struct weir_lock_op op = { .verb = WEIR_LOCK_RAISE };
    world_apply(&op, 1);
    assert_int_equal(op.status, WEIR_EDOWN);
    assert_healed(held, "asked");
    world_free(world_show("gone"));
}

static uint64_t wall_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec;
}

static void faults__a_store_that_fails_and_heals_does_not_outrun_the_clock(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++) {
        disk.write = true;
        assert_int_equal(world_acquire("asked", "A", TTL).status, WEIR_EDOWN);
        disk_heal();
        struct weir_token token = world_granted(world_acquire("asked", "A", TTL));
        assert_true(token.incarnation <= wall_s());
        world_granted(world_release("asked", "A"));
    }
}

static void faults__a_disk_that_is_really_full(void **state)
{
    (void)state;
    struct weir_token held = world_granted(world_acquire("held", "A", TTL));
    char filler[96];
    snprintf(filler, sizeof filler, "%s/filler", disk_files.folder);
    int fd = open(filler, O_WRONLY | O_CREAT, 0600);
    while (write(fd, bytes, sizeof bytes) > 0 || write(fd, bytes, 1) > 0) {
    }
    close(fd);
    int refused = 0;
    for (int i = 0; i < 400; i++) { /* what the log has room for is still granted */
        char name[16];
        snprintf(name, sizeof name, "fill%d", i);
        struct weir_lock_op op = world_acquire(name, "A", TTL);
        assert_true(op.status == 0 || op.status == WEIR_EDOWN);
        refused += op.status != 0;
    }
    assert_true(refused > 0);
    world_granted(world_renew("held", "A", TTL));
    unlink(filler);
    assert_healed(held, "asked");
}

static void faults__a_longer_lease_is_told_only_when_it_is_durable(void **state)
{
    (void)state;
    struct weir_token held = world_granted(world_acquire("held", "A", TTL));
    disk.write = true;
    assert_int_equal(world_renew("held", "A", 10 * TTL).status, WEIR_EDOWN);
    assert_int_equal(world_renew("held", "A", 10 * TTL).status, WEIR_EDOWN);
    assert_int_equal(world_renew("held", "A", TTL).status, WEIR_EDOWN); /* from memory it would be 10 of them */
    disk_heal();
    world_sleep(SECOND / 8);
    struct weir_lock_op op = world_renew("held", "A", 10 * TTL); /* needs nobody's acquire to find the disk healed */
    assert_int_equal(weir_token_compare(world_granted(op), held), 0);
    world_reopen();
    op = world_show("held");
    world_held_by(op, "A");
    assert_true(op.lease_ns > 9 * TTL);
}

static size_t bytes_in_use(void)
{
    return mallinfo2().uordblks;
}

static void faults__names_asked_for_while_the_disk_fails_do_not_pile_up(void **state)
{
    (void)state;
    size_t before = 0;
    for (int i = 0; i < 3000; i++) {
        char name[16];
        snprintf(name, sizeof name, "name%d", i);
        disk.write = true;
        assert_int_equal(world_acquire(name, "A", TTL).status, WEIR_EDOWN);
        before = i == 1000 ? bytes_in_use() : before;
    }
    assert_true(bytes_in_use() < before + 100000);
}

/* ---- a store that goes back before a start ---- */

static void faults__a_backup_restored_before_a_start_gives_greater_tokens(void **state)
{
    (void)state;
    struct weir_token last = disk_after_backup();
    for (int i = 0; i < 3; i++) {
        world_close();
        disk_copy(disk_files.backup, disk_files.path);
        disk.wall_s = -1000000000; /* and the clock is of no help */
        world_open();
        struct weir_token next = world_granted(world_acquire("turns", "B", TTL));
        assert_true(next.incarnation > last.incarnation);
        last = next;
    }
}

static void faults__a_new_store_beside_an_old_witness_gives_greater_tokens(void **state)
{
    (void)state;
    struct weir_token last = world_granted(world_acquire("a", "A", TTL));
    world_close();
    unlink(disk_files.path);
    unlink(disk_files.wal);
    disk.wall_s = -1000000000;
    world_open();
    assert_true(world_granted(world_acquire("a", "B", TTL)).incarnation > last.incarnation);
}

/* ---- clocks ---- */

static void faults__a_stepped_clock_changes_no_lease(void **state)
{
    (void)state;
    static const int64_t STEPS[] = { 1000000000, -1000000000, 0, -1600000000 };
    struct weir_token last = world_granted(world_acquire("lease", "A", TTL));
    for (size_t i = 0; i < sizeof STEPS / sizeof STEPS[0]; i++) {
        world_sleep(SECOND / 4);
        disk.wall_s = STEPS[i];
        struct weir_lock_op before = world_acquire("lease", "B", TTL);
        world_held_by(before, "A");
        world_reopen();
        struct weir_lock_op op = world_show("lease");
        world_held_by(op, "A");
        assert_true(op.lease_ns > before.lease_ns && op.lease_ns <= TTL); /* a full one, after a restart */
        struct weir_token next = world_granted(world_acquire("other", "A", TTL));
        world_after(next, last);
        last = next;
        world_granted(world_release("other", "A"));
    }
}

/* ---- files that are not ours ---- */

static void assert_refused(const char *file, int error)
{
    struct weir_lock_engine *engine = NULL;
    struct weir_fault fault = { 0 };
    size_t size = disk_read(disk_files.path, bytes, sizeof bytes);
    struct weir_lock_sqlite_options options = { .path = disk_files.path, .witness = disk_files.witness };
    assert_int_equal(weir_lock_sqlite_open(&options, &engine, &fault), error);
    assert_null(engine);
    assert_non_null(strstr(fault.text, file));
    assert_int_equal(disk_read(disk_files.path, bytes_after, sizeof bytes_after), size);
    assert_memory_equal(bytes, bytes_after, size); /* nothing was overwritten */
}

static void faults__a_damaged_store_is_refused_and_left_as_it_is(void **state)
{
    (void)state;
    for (int i = 0; i < 100; i++) {
        char name[16];
        snprintf(name, sizeof name, "n%d", i);
        world_granted(world_acquire(name, "A", TTL));
    }
    world_close();
    disk_copy(disk_files.path, disk_files.backup);
    static char good[sizeof bytes];
    size_t size = disk_read(disk_files.backup, good, sizeof good);
    disk_write(disk_files.path, "this is a text, and no database\n", 32);
    assert_refused(disk_files.path, WEIR_ECORRUPT);
    memset(good + 8192, 0xa5, 2048); /* in the middle of the locks */
    disk_write(disk_files.path, good, size);
    assert_refused(disk_files.path, WEIR_ECORRUPT);
    disk_copy(disk_files.backup, disk_files.path);
    disk_write(disk_files.witness, "weir-witness 1 1 1 1 1 0123456789abcdef\n", 40);
    assert_refused(disk_files.witness, WEIR_ECORRUPT);
    unlink(disk_files.witness);
    world_open();
    world_held_by(world_acquire("n7", "B", TTL), "A");
}

/* Numbers near 2^63 would run over into negative ones, and the store could never be opened again. */
static void faults__numbers_near_their_end_are_refused(void **state)
{
    (void)state;
    static const int64_t COUNTERS[] = { INT64_MAX, INT64_MAX - 500, (INT64_C(1) << 62) + 1, -1 };
    world_close();
    for (size_t i = 0; i < sizeof COUNTERS / sizeof COUNTERS[0]; i++) {
        sqlite3 *db = NULL;
        char sql[64];
        snprintf(sql, sizeof sql, "UPDATE meta SET counter = %lld", (long long)COUNTERS[i]);
        assert_int_equal(sqlite3_open(disk_files.path, &db), SQLITE_OK);
        assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
        sqlite3_close(db);
        assert_refused(disk_files.path, WEIR_ECORRUPT);
    }
}

/* No number is given out above the counter, nor one of a later incarnation: the next one would not be greater than that
 * of this lock. */
static void faults__a_lock_above_what_was_given_out_is_refused(void **state)
{
    (void)state;
    static const char *const above[] = {
        "UPDATE held SET number = (SELECT counter FROM meta) + 1",
        "UPDATE held SET number = 1, incarnation = (SELECT incarnation FROM meta) + 1",
    };
    world_granted(world_acquire("a", "A", TTL));
    world_close();
    for (size_t i = 0; i < sizeof above / sizeof above[0]; i++) {
        sqlite3 *db = NULL;
        assert_int_equal(sqlite3_open(disk_files.path, &db), SQLITE_OK);
        assert_int_equal(sqlite3_exec(db, above[i], NULL, NULL, NULL), SQLITE_OK);
        assert_int_equal(sqlite3_changes(db), 1);
        sqlite3_close(db);
        assert_refused(disk_files.path, WEIR_ECORRUPT);
    }
}

/* A holder that asks for less in the same batch was told the longer lease all the same. */
static void faults__the_longest_lease_of_a_batch_survives_a_restart(void **state)
{
    (void)state;
    struct weir_lock_op ops[2] = {
        { .verb = WEIR_LOCK_ACQUIRE, .name = world_name("a"), .owner = world_text("A"), .ttl_ns = 10 * TTL },
        { .verb = WEIR_LOCK_RENEW, .name = world_name("a"), .owner = world_text("A"), .ttl_ns = TTL },
    };
    world_apply(ops, 2);
    assert_true(ops[0].status == 0 && ops[0].lease_ns > 9 * TTL);
    world_reopen();
    struct weir_lock_op op = world_show("a");
    world_held_by(op, "A");
    assert_true(op.lease_ns > 9 * TTL);
}

/* Each is written a second after it at the latest, however many come behind it. What was given back shows no lease. */
static void faults__a_release_waits_for_a_second_and_not_for_the_next_one(void **state)
{
    (void)state;
    static const char *const names[] = { "a", "b", "c" };
    for (size_t i = 0; i < 3; i++)
        world_granted(world_acquire(names[i], "A", TTL));
    size_t before = disk.syncs;
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(disk.syncs, before);
        struct weir_lock_op op = world_release(names[i], "A");
        world_granted(op);
        assert_int_equal(op.lease_ns, 0);
        disk.boot_ns += 2 * SECOND / 5;
    }
    world_free(world_show("a"));
    assert_int_equal(disk.syncs, before + 1);
}

static void faults__a_second_process_is_refused(void **state)
{
    (void)state;
    world_granted(world_acquire("a", "A", TTL));
    assert_refused(disk_files.path, WEIR_EBUSY);
    pid_t pid = fork();
    if (pid == 0) {
        struct weir_lock_engine *engine = NULL;
        struct weir_fault fault = { 0 };
        struct weir_lock_sqlite_options options = { .path = disk_files.path, .witness = disk_files.witness };
        _exit(weir_lock_sqlite_open(&options, &engine, &fault) == WEIR_EBUSY ? 0 : 1);
    }
    int status = -1;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    world_granted(world_acquire("b", "A", TTL));
}

static void faults__a_second_process_is_refused_while_the_disk_fails(void **state)
{
    (void)state;
    struct weir_token held = world_granted(world_acquire("held", "A", TTL));
    disk.write = true;
    assert_int_equal(world_acquire("asked", "A", TTL).status, WEIR_EDOWN);
    disk_heal(); /* nobody has asked since, so it is not opened again yet, and renewals go by memory */
    assert_refused(disk_files.path, WEIR_EBUSY);
    assert_int_equal(weir_token_compare(world_granted(world_renew("held", "A", TTL)), held), 0);
}

static void faults__a_release_put_off_survives_kill_9_after_a_second(void **state)
{
    (void)state;
    world_close();
    pid_t pid = fork();
    if (pid == 0) {
        world_open();
        world_acquire("freed", "A", TTL);
        world_acquire("kept", "A", TTL);
        world_release("freed", "A");
        lock_world.engine->ops->idle(lock_world.engine);
        kill(getpid(), SIGKILL);
    }
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    world_open();
    world_free(world_show("freed"));
    world_held_by(world_show("kept"), "A");
}

int main(int count, char **words)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, disk_begin, disk_end)
    const struct CMUnitTest tests[] = {
        CASE(faults__a_grant_costs_one_fsync_and_the_rest_none),
        CASE(faults__numbers_go_on_past_those_reserved),
        CASE(faults__after_a_failed_fsync_nothing_is_known_or_trusted),
        CASE(faults__what_is_refused_for_want_of_a_raise_is_counted),
        CASE(faults__a_full_disk_grants_nothing_and_says_so),
        CASE(faults__a_longer_lease_is_told_only_when_it_is_durable),
        CASE(faults__names_asked_for_while_the_disk_fails_do_not_pile_up),
        CASE(faults__a_store_that_fails_and_heals_does_not_outrun_the_clock),
        CASE(faults__a_backup_renamed_over_a_running_store_is_noticed),
        CASE(faults__another_store_renamed_over_a_running_one_is_noticed),
        CASE(faults__a_backup_copied_into_a_running_store_is_noticed),
        CASE(faults__a_store_that_was_removed_is_made_anew),
        CASE(faults__a_log_cut_short_or_overwritten_is_noticed),
        CASE(faults__a_change_is_not_hidden_by_a_release_or_a_longer_lease),
        CASE(faults__a_file_replaced_during_a_commit_is_noticed),
        CASE(faults__a_backup_restored_before_a_start_gives_greater_tokens),
        CASE(faults__a_new_store_beside_an_old_witness_gives_greater_tokens),
        CASE(faults__a_stepped_clock_changes_no_lease),
        CASE(faults__a_damaged_store_is_refused_and_left_as_it_is),
        CASE(faults__numbers_near_their_end_are_refused),
        CASE(faults__a_lock_above_what_was_given_out_is_refused),
        CASE(faults__the_longest_lease_of_a_batch_survives_a_restart),
        CASE(faults__a_release_waits_for_a_second_and_not_for_the_next_one),
        CASE(faults__a_second_process_is_refused),
        CASE(faults__a_second_process_is_refused_while_the_disk_fails),
        CASE(faults__a_release_put_off_survives_kill_9_after_a_second),
        CASE(faults__a_first_start_killed_at_any_step_leaves_nothing_or_a_store),
        CASE(faults__a_new_store_is_its_owners_and_takes_few_syncs),
        CASE(faults__where_a_new_store_cannot_be_put_nothing_is_left),
        CASE(faults__what_is_put_where_a_new_store_is_to_be_stays),
        CASE(faults__an_old_log_is_not_played_into_a_new_store),
        CASE(faults__an_old_journal_is_not_played_into_a_new_store),
        CASE(faults__links_and_empty_files_are_left_in_place),
        CASE(faults__a_link_is_gone_through),
        CASE(faults__what_is_called_as_the_next_store_is_left_alone),
        CASE(faults__of_two_first_starts_one_has_the_store),
        CASE(faults__while_a_batch_is_synced_the_rest_is_answered),
        CASE(faults__what_was_answered_during_a_batch_that_fails_holds),
        CASE(faults__tokens_grow_and_locks_hold_through_random_faults),
    };
    const struct CMUnitTest full[] = { CASE(faults__a_disk_that_is_really_full) };
#undef CASE
    if (count > 1) {
        disk_files.under = words[1];
        return cmocka_run_group_tests_name("full disk", full, NULL, NULL);
    }
    return cmocka_run_group_tests_name("faults", tests, NULL, NULL);
}
