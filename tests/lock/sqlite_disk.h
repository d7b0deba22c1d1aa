/* SPDX-License-Identifier: Apache-2.0
 *
 * A disk that fails on demand, and the files of the case on it. */
#pragma once

#include "lock_world.h"

struct disk {
    bool sync, write;     /* fails */
    bool put;             /* fails: what is written in order, not at a place */
    size_t steps_left;    /* with the last of these calls the process is killed; 0: never */
    size_t syncs;         /* so far */
    void (*during)(void); /* called while a file is being synced */
    int64_t wall_s;       /* the wall clock is off by */
    uint64_t slept_ns;    /* passed over: whoever sleeps until a moment is there at once */
    uint64_t boot_ns;     /* by which the clock that leases end by is ahead */
};
extern struct disk disk;

struct disk_files {
    const char *under; /* which folder */
    char folder[64], path[80], next[80], wal[80], witness[80], backup[80];
};
extern struct disk_files disk_files;

int disk_begin(void **state); /* opens the engine in a new folder */
int disk_end(void **state);
void disk_heal(void);

size_t disk_read(const char *from, char *bytes, size_t max);
void disk_write(const char *to, const char *bytes, size_t size);
void disk_copy(const char *from, const char *to);
void disk_back_up(void); /* closes the engine, copies the database, opens it again */
/* A backup, and then grants: "held" is held, "early", held in the backup, is free, and the last of "turns" is told. */
struct weir_token disk_after_backup(void);

void faults__a_backup_renamed_over_a_running_store_is_noticed(void **state);
void faults__another_store_renamed_over_a_running_one_is_noticed(void **state);
void faults__a_backup_copied_into_a_running_store_is_noticed(void **state);
void faults__a_store_that_was_removed_is_made_anew(void **state);
void faults__a_log_cut_short_or_overwritten_is_noticed(void **state);
void faults__a_change_is_not_hidden_by_a_release_or_a_longer_lease(void **state);
void faults__a_file_replaced_during_a_commit_is_noticed(void **state);
void faults__a_first_start_killed_at_any_step_leaves_nothing_or_a_store(void **state);
void faults__a_new_store_is_its_owners_and_takes_few_syncs(void **state);
void faults__where_a_new_store_cannot_be_put_nothing_is_left(void **state);
void faults__what_is_put_where_a_new_store_is_to_be_stays(void **state);
void faults__an_old_log_is_not_played_into_a_new_store(void **state);
void faults__an_old_journal_is_not_played_into_a_new_store(void **state);
void faults__links_and_empty_files_are_left_in_place(void **state);
void faults__a_link_is_gone_through(void **state);
void faults__what_is_called_as_the_next_store_is_left_alone(void **state);
void faults__of_two_first_starts_one_has_the_store(void **state);
void faults__while_a_batch_is_synced_the_rest_is_answered(void **state);
void faults__what_was_answered_during_a_batch_that_fails_holds(void **state);
void faults__tokens_grow_and_locks_hold_through_random_faults(void **state);
