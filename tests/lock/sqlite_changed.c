/* SPDX-License-Identifier: Apache-2.0
 *
 * Files that change under a running engine. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "locks/open.h"
#include "sqlite_disk.h"

static char bytes[1 << 20];

/* Memory knows better than the backup who holds what. */
static void assert_noticed(struct weir_token last)
{
    world_sleep(SECOND / 8);
    struct weir_token next = world_granted(world_acquire("turns", "B", TTL));
    assert_true(next.incarnation > last.incarnation);
    world_held_by(world_acquire("held", "B", TTL), "A");
    world_free(world_show("early"));
    world_reopen();
    world_held_by(world_acquire("held", "B", TTL), "A");
    world_held_by(world_acquire("turns", "A", TTL), "B");
    world_free(world_show("early"));
}

void faults__a_backup_renamed_over_a_running_store_is_noticed(void **state)
{
    (void)state;
    struct weir_token last = disk_after_backup();
    assert_int_equal(rename(disk_files.backup, disk_files.path), 0);
    assert_noticed(last);
}

/* Where a store of this folder lies that has more locks, none of them ours. */
static void make_another(char *path, size_t size)
{
    struct weir_lock_engine *running = lock_world.engine;
    struct weir_fault fault;
    char beside[120];
    (void)snprintf(path, size, "%s/another", disk_files.folder);
    const struct weir_lock_sqlite_options options = { .path = path };
    assert_int_equal(weir_lock_sqlite_open(&options, &lock_world.engine, &fault), 0);
    for (int i = 0; i < 300; i++) {
        char name[16];
        (void)snprintf(name, sizeof name, "other%d", i);
        (void)world_granted(world_acquire(name, "C", TTL));
    }
    lock_world.engine->ops->destroy(lock_world.engine);
    lock_world.engine = running;
    static const char *const ends[] = { "-wal", "-shm", ".lock", ".witness" };
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
        (void)snprintf(beside, sizeof beside, "%s%s", path, ends[i]);
        (void)unlink(beside);
    }
}

/* The log that lies there is of the one before: it is not played into this one. */
void faults__another_store_renamed_over_a_running_one_is_noticed(void **state)
{
    (void)state;
    char another[100];
    struct weir_token last = disk_after_backup();
    make_another(another, sizeof another);
    assert_int_equal(rename(another, disk_files.path), 0);
    assert_noticed(last);
    world_free(world_show("other7"));
}

void faults__a_backup_copied_into_a_running_store_is_noticed(void **state)
{
    (void)state;
    struct weir_token last = disk_after_backup();
    disk_copy(disk_files.backup, disk_files.path);
    assert_noticed(last);
}

void faults__a_store_that_was_removed_is_made_anew(void **state)
{
    (void)state;
    struct weir_token last = disk_after_backup();
    assert_int_equal(unlink(disk_files.path), 0);
    assert_noticed(last);
    assert_int_equal(unlink(disk_files.wal), 0);
    last = world_granted(world_acquire("more", "B", TTL));
    world_granted(world_release("turns", "B"));
    assert_noticed((struct weir_token){ 1, 1 });
    world_held_by(world_acquire("more", "A", TTL), "B");
}

static void replace_log(void)
{
    disk.during = NULL;
    disk_copy(disk_files.wal, disk_files.backup);
    assert_int_equal(rename(disk_files.backup, disk_files.wal), 0);
}

static size_t syncs_before;

/* The second sync of a batch is that of the database, when the log goes into it. */
static void replace_database(void)
{
    if (disk.syncs < syncs_before + 2)
        return;
    disk.during = NULL;
    assert_int_equal(rename(disk_files.backup, disk_files.path), 0);
}

/* After the look before a batch, and before the one after it. */
void faults__a_file_replaced_during_a_commit_is_noticed(void **state)
{
    (void)state;
    struct weir_token last = disk_after_backup();
    disk.during = replace_log;
    world_granted(world_acquire("more", "A", TTL));
    assert_noticed(last);
    last = world_granted(world_acquire("last", "A", TTL));
    world_granted(world_release("turns", "B"));
    disk_copy(disk_files.path, disk_files.backup);
    disk.during = replace_database;
    for (int i = 0; disk.during && i < 2000; i++) {
        syncs_before = disk.syncs;
        world_granted(world_acquire("again", "A", TTL));
        world_granted(world_release("again", "A"));
    }
    assert_null(disk.during);
    assert_noticed(last);
}

/* A write that grants nothing comes between the change and the next grant. */
void faults__a_change_is_not_hidden_by_a_release_or_a_longer_lease(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++) {
        struct weir_token last = disk_after_backup();
        world_granted(world_acquire("freed", "A", TTL));
        lock_world.engine->ops->idle(lock_world.engine);
        world_granted(world_release("freed", "A"));
        disk_write(disk_files.wal, bytes, 0);
        if (i == 0)
            lock_world.engine->ops->idle(lock_world.engine);
        else if (i == 1)
            world_granted(world_renew("held", "A", 2 * TTL));
        else
            world_sleep(SECOND + SECOND / 8);
        world_granted(world_renew("held", "A", TTL));
        world_granted(world_acquire("more", "A", TTL));
        assert_noticed(last);
        world_granted(world_release("turns", "B"));
        world_granted(world_release("held", "A"));
        world_granted(world_release("more", "A"));
    }
}

void faults__a_log_cut_short_or_overwritten_is_noticed(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++) {
        struct weir_token last = disk_after_backup();
        world_granted(world_acquire("last", "A", TTL)); /* leaves nothing to write */
        world_sleep(SECOND / 8);
        lock_world.engine->ops->idle(lock_world.engine); /* from here on the log's time of change counts */
        size_t size = disk_read(disk_files.wal, bytes, sizeof bytes);
        memset(bytes + size / 2, 0xa5, size / 4);
        disk_write(disk_files.wal, bytes, i == 0 ? 0 : i == 1 ? size / 2 : size);
        world_granted(world_acquire("more", "A", TTL));
        assert_noticed(last);
        world_granted(world_release("turns", "B"));
        world_granted(world_release("held", "A"));
        world_granted(world_release("more", "A"));
        world_granted(world_release("last", "A"));
    }
}
