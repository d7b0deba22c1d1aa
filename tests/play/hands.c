/* SPDX-License-Identifier: Apache-2.0
 *
 * hands: the code of the lock's and the readers' demonstrations, built for this machine. Reads lines of "lock CHECKED
 * LATE LEASE_NS", "do CLIENT ACT" and "wait NS"; "reads", "set WHAT VALUE", "fault KIND SERVER FROM UNTIL" and "run".
 * Answers "do", "wait" and "run" with what came of it and all numbers there are. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "play/lock.h"
#include "play/reads.h"

static void print_lock(int result)
{
    printf("%d", result);
    for (uint32_t what = 0; what < PLAY_WORLDS; what++)
        printf(" %.17g", play_lock_world(what));
    for (uint32_t client = 0; client < PLAY_CLIENTS; client++) {
        for (uint32_t what = 0; what < PLAY_OF_CLIENTS; what++)
            printf(" %.17g", play_lock_client(client, what));
        for (uint32_t act = 0; act < PLAY_ACTS; act++)
            printf(" %d", play_lock_may(client, act));
    }
    putchar('\n');
}

static void print_columns(const double *columns)
{
    for (size_t i = 0; i < PLAY_READ_COLUMNS; i++)
        printf(" %.17g", columns[i]);
}

static void print_reads(int result)
{
    printf("%d", result);
    for (uint32_t strategy = 0; strategy < PLAY_STRATEGIES; strategy++) {
        for (uint32_t what = 0; what < PLAY_READS_SUMS; what++)
            printf(" %.17g", play_reads_sum(strategy, what));
        print_columns(play_reads_broken(strategy));
        print_columns(play_reads_told(strategy));
    }
    for (uint32_t server = 0; server < PLAY_SERVERS_MAX; server++)
        print_columns(play_reads_lag(server));
    for (uint32_t i = 0; i < play_violations(); i++) {
        for (uint32_t word = 0; word < PLAY_VIOLATION_WORDS; word++)
            printf(" %.17g", play_violation(i, word));
    }
    putchar('\n');
}

int main(void)
{
    char line[128];
    while (fgets(line, sizeof line, stdin)) {
        char *rest = strchr(line, ' ');
        double numbers[4] = { 0 };
        for (size_t i = 0; rest && i < 4; i++)
            numbers[i] = strtod(rest, &rest);
        if (strncmp(line, "lock ", 5) == 0) {
            play_lock_begin(numbers[0] > 0, numbers[1] > 0, numbers[2]);
        } else if (strncmp(line, "wait ", 5) == 0) {
            play_lock_wait(numbers[0]);
            print_lock(0);
        } else if (strncmp(line, "do ", 3) == 0) {
            print_lock(play_lock_do((uint32_t)numbers[0], (uint32_t)numbers[1]));
        } else if (strncmp(line, "reads", 5) == 0) {
            play_reads_begin();
        } else if (strncmp(line, "set ", 4) == 0) {
            play_reads_set((uint32_t)numbers[0], numbers[1]);
        } else if (strncmp(line, "fault ", 6) == 0) {
            (void)play_reads_fault((uint32_t)numbers[0], (uint32_t)numbers[1], numbers[2], numbers[3]);
        } else if (strncmp(line, "run", 3) == 0) {
            print_reads(play_reads_run());
        }
    }
    return 0;
}
