/* SPDX-License-Identifier: Apache-2.0
 *
 * The embedded engine where no store is yet: killed on the way, twice at once, and with other things in its place. */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "locks/open.h"
#include "sqlite_disk.h"

static void remove_store(void)
{
    if (lock_world.engine)
        world_close();
    unlink(disk_files.path);
    unlink(disk_files.next);
    unlink(disk_files.wal);
    unlink(disk_files.witness);
}

static int open_here(struct weir_lock_engine **ret_engine)
{
    struct weir_fault fault = { 0 };
    struct weir_lock_sqlite_options options = { .path = disk_files.path, .witness = disk_files.witness };
    return weir_lock_sqlite_open(&options, ret_engine, &fault);
}

static bool is_there(const char *path, struct stat *ret_file)
{
    return lstat(path, ret_file) == 0;
}

/* A process that starts, is granted "old", and dies at a step; 0: after it. Whether it came so far. */
static bool start_and_die(size_t step)
{
    pid_t pid = fork();
    if (pid == 0) {
        disk.steps_left = step;
        lock_world.engine = NULL;
        if (open_here(&lock_world.engine) != 0 || world_acquire("old", "A", TTL).said != WEIR_LOCK_GRANTED)
            _exit(1);
        if (step > 0)
            _exit(0);
        kill(getpid(), SIGKILL);
    }
    int status = -1;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status) ? WTERMSIG(status) == SIGKILL : WEXITSTATUS(status) == 0);
    return WIFEXITED(status);
}

void faults__a_first_start_killed_at_any_step_leaves_nothing_or_a_store(void **state)
{
    (void)state;
    size_t began = 0, whole = 0, none = 0;
    bool done = false;
    for (size_t step = 1; !done; step++) {
        struct stat file;
        remove_store();
        done = start_and_die(step);
        const bool left = is_there(disk_files.next, &file);
        began += left;
        if (is_there(disk_files.path, &file)) {
            assert_true(file.st_size >= 4096); /* never an empty one */
            whole++;
        } else {
            none++;
        }
        disk.wall_s += 2; /* the start after it need not wait for its raise */
        world_open();
        assert_int_equal(is_there(disk_files.next, &file), left); /* nobody knows whose it is */
        struct weir_token token = world_granted(world_acquire("new", "B", TTL));
        if (done)
            world_held_by(world_show("old"), "A");
        world_reopen();
        assert_int_equal(weir_token_compare(world_granted(world_acquire("new", "B", TTL)), token), 0);
    }
    assert_true(began >= 2 && none >= began && whole >= 5);
}

void faults__a_new_store_is_its_owners_and_takes_few_syncs(void **state)
{
    (void)state;
    struct stat file;
    remove_store();
    mode_t mask = umask(0);
    size_t before = disk.syncs;
    world_open();
    assert_true(disk.syncs - before <= 7); /* file and folder of store and witness; the log, its head and its folder */
    umask(mask);
    assert_true(is_there(disk_files.path, &file));
    assert_int_equal(file.st_mode & 07777, 0600);
    assert_int_equal(file.st_nlink, 1);
    world_reopen();
}

void faults__where_a_new_store_cannot_be_put_nothing_is_left(void **state)
{
    (void)state;
    struct stat file;
    struct weir_lock_engine *engine = NULL;
    remove_store();
    disk.sync = true;
    assert_int_equal(open_here(&engine), WEIR_EIO);
    assert_false(is_there(disk_files.next, &file));
    disk.sync = false;
    disk.put = disk.write = true;
    assert_int_equal(open_here(&engine), WEIR_EIO);
    assert_false(is_there(disk_files.next, &file));
    disk.put = disk.write = false;
    world_open();
    world_granted(world_acquire("a", "A", TTL));
}

static void put_backup(void)
{
    struct stat file;
    if (!is_there(disk_files.next, &file) || is_there(disk_files.path, &file))
        return;
    disk.during = NULL;
    disk_copy(disk_files.backup, disk_files.path);
}

void faults__what_is_put_where_a_new_store_is_to_be_stays(void **state)
{
    (void)state;
    struct stat file;
    world_granted(world_acquire("kept", "A", TTL));
    disk_back_up();
    remove_store();
    disk.during = put_backup;
    world_open();
    assert_null(disk.during);
    world_held_by(world_show("kept"), "A");
    assert_false(is_there(disk_files.next, &file));
}

void faults__an_old_log_is_not_played_into_a_new_store(void **state)
{
    (void)state;
    struct stat file;
    remove_store();
    assert_false(start_and_die(0));
    assert_true(is_there(disk_files.wal, &file) && file.st_size > 0);
    unlink(disk_files.path);
    disk.wall_s += 2;
    world_open();
    world_free(world_show("old"));
    world_granted(world_acquire("old", "B", TTL));
    world_reopen();
    world_held_by(world_show("old"), "B");
}

/* One that says: the database had one page, cut it there. */
void faults__an_old_journal_is_not_played_into_a_new_store(void **state)
{
    (void)state;
    static const unsigned char HEAD[] = { 0xd9, 0xd5, 0x05, 0xf9, 0x20, 0xa1, 0x63, 0xd7, 0, 0, 0, 0, 0, 0,
                                          0,    0,    0,    0,    0,    1,    0,    0,    2, 0, 0, 0, 16 };
    struct stat file;
    char journal[96], bytes[512] = "";
    snprintf(journal, sizeof journal, "%s-journal", disk_files.path);
    memcpy(bytes, HEAD, sizeof HEAD);
    remove_store();
    disk_write(journal, bytes, sizeof bytes);
    world_open();
    world_granted(world_acquire("a", "A", TTL));
    world_reopen();
    world_held_by(world_show("a"), "A");
    assert_false(is_there(journal, &file));
}

void faults__links_and_empty_files_are_left_in_place(void **state)
{
    (void)state;
    struct stat file;
    remove_store();
    disk_write(disk_files.path, "", 0);
    assert_int_equal(chmod(disk_files.path, 0640), 0);
    world_open();
    world_granted(world_acquire("a", "A", TTL));
    assert_true(is_there(disk_files.path, &file));
    assert_int_equal(file.st_mode & 07777, 0640);

    /* A link is not replaced, wherever it leads. */
    struct weir_lock_engine *engine = NULL;
    remove_store();
    assert_int_equal(symlink("nowhere/db", disk_files.path), 0);
    assert_int_not_equal(open_here(&engine), 0);
    assert_true(is_there(disk_files.path, &file) && S_ISLNK(file.st_mode));

    remove_store();
    disk_write(disk_files.backup, "another's", 9);
    assert_int_equal(symlink(disk_files.backup, disk_files.next), 0);
    disk.wall_s += 2;
    world_open();
    char bytes[16];
    assert_int_equal(disk_read(disk_files.backup, bytes, sizeof bytes), 9);
    assert_memory_equal(bytes, "another's", 9);
    assert_true(is_there(disk_files.next, &file) && S_ISLNK(file.st_mode));
}

/* Its log lies beside the file that it leads to. Who looks for it beside the link finds a changed store each time. */
void faults__a_link_is_gone_through(void **state)
{
    (void)state;
    struct stat file;
    char log[96];
    snprintf(log, sizeof log, "%s-wal", disk_files.backup);
    remove_store();
    assert_int_equal(symlink(disk_files.backup, disk_files.path), 0); /* which is not there yet */
    disk.wall_s += 2;
    mode_t mask = umask(0);
    world_open();
    umask(mask);
    struct weir_token first = world_granted(world_acquire("a", "A", TTL));
    struct weir_token next = world_granted(world_acquire("b", "B", TTL));
    assert_int_equal(next.incarnation, first.incarnation);
    assert_true(is_there(disk_files.path, &file) && S_ISLNK(file.st_mode));
    assert_true(is_there(disk_files.backup, &file) && is_there(log, &file));
    assert_int_equal(file.st_mode & 07777, 0600);
    world_reopen();
    world_held_by(world_show("a"), "A");
    disk.wall_s += 2;
    next = world_granted(world_acquire("c", "A", TTL));
    assert_int_equal(world_granted(world_acquire("d", "A", TTL)).incarnation, next.incarnation);
    world_close();
    unlink(log);
    snprintf(log, sizeof log, "%s.lock", disk_files.backup);
    unlink(log);
    remove_store();
}

/* A backup that waits to be put in place, or the store of another process. */
void faults__what_is_called_as_the_next_store_is_left_alone(void **state)
{
    (void)state;
    char bytes[16];
    remove_store();
    disk_write(disk_files.next, "another's", 9);
    world_open();
    world_granted(world_acquire("a", "A", TTL));
    world_reopen();
    world_held_by(world_show("a"), "A");
    assert_int_equal(disk_read(disk_files.next, bytes, sizeof bytes), 9);
    assert_memory_equal(bytes, "another's", 9);
}

/* Opens and tells what came of it, and keeps the store until nobody listens any more. */
static void start_beside(const int begin[2], const int told[2], const int end[2])
{
    char byte;
    struct weir_lock_engine *engine = NULL;
    close(begin[1]);
    close(end[1]);
    (void)!read(begin[0], &byte, 1);
    int error = open_here(&engine);
    byte = error == 0 ? 'o' : error == WEIR_EBUSY ? 'b' : '?';
    (void)!write(told[1], &byte, 1);
    (void)!read(end[0], &byte, 1);
    _exit(0);
}

void faults__of_two_first_starts_one_has_the_store(void **state)
{
    (void)state;
    for (int i = 0; i < 20; i++) {
        int begin[2] = { -1, -1 }, told[2] = { -1, -1 }, end[2] = { -1, -1 };
        char said[2] = "";
        remove_store();
        assert_true(pipe(begin) == 0 && pipe(told) == 0 && pipe(end) == 0);
        pid_t pids[2];
        for (int j = 0; j < 2; j++)
            if ((pids[j] = fork()) == 0)
                start_beside(begin, told, end);
        close(begin[1]); /* both go */
        for (int j = 0; j < 2; j++)
            assert_int_equal(read(told[0], &said[j], 1), 1);
        assert_int_equal(said[0] + said[1], 'o' + 'b');
        assert_true(said[0] == 'o' || said[0] == 'b');
        close(end[1]);
        for (int j = 0; j < 2; j++)
            assert_int_equal(waitpid(pids[j], NULL, 0), pids[j]);
        close(begin[0]), close(told[0]), close(told[1]), close(end[0]);
        disk.wall_s += 2;
        world_open();
        world_granted(world_acquire("a", "A", TTL));
    }
}
