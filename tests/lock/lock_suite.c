/* SPDX-License-Identifier: Apache-2.0
 *
 * lock_suite KIND ARGUMENTS… [--fast] [--waiters N]: what every lock engine must pass.
 *
 *     lock_suite sqlite PATH WITNESS
 *     lock_suite postgres CONNINFO WITNESS
 *     lock_suite etcd URL WITNESS
 *
 * Without arguments sqlite takes a folder of its own. Names are new in each run, so a store may be used again. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "lock_world.h"

static char folder[] = "/tmp/weir-locks-XXXXXX";
static char path[64], witness[64];
static char *own[] = { path, witness };

static char **own_arguments(void)
{
    if (!mkdtemp(folder))
        return NULL;
    snprintf(path, sizeof path, "%s/locks.db", folder);
    snprintf(witness, sizeof witness, "%s/locks.witness", folder);
    return own;
}

static void remove_own(void)
{
    static const char *const FILES[] = { "locks.db", "locks.db-wal", "locks.witness" };
    for (size_t i = 0; i < sizeof FILES / sizeof FILES[0]; i++) {
        char file[64];
        snprintf(file, sizeof file, "%s/%s", folder, FILES[i]);
        unlink(file);
    }
    rmdir(folder);
}

int main(int count, char **words)
{
    lock_world.kind = count > 1 ? words[1] : "sqlite";
    lock_world.alone = strcmp(lock_world.kind, "sqlite") == 0;
    lock_world.waiters = lock_world.alone ? 1000 : 50;
    int i = 2;
    if (count > 3 && words[2][0] != '-') {
        lock_world.arguments = &words[2];
        i = 4;
    } else if (lock_world.alone) {
        lock_world.arguments = own_arguments();
    }
    for (; i < count; i++)
        if (strcmp(words[i], "--fast") == 0)
            lock_world.fast = true;
        else if (strcmp(words[i], "--waiters") == 0 && i + 1 < count)
            lock_world.waiters = (size_t)strtoul(words[++i], NULL, 10);
        else
            lock_world.arguments = NULL;
    if (!lock_world.arguments || getrandom(&lock_world.prefix, sizeof lock_world.prefix, 0) < 0) {
        fprintf(stderr, "usage: lock_suite sqlite|postgres|etcd STORE WITNESS [--fast] [--waiters N]\n");
        return 2;
    }
    int failed = lock_engine_cases() + lock_manager_cases();
    if (lock_world.arguments == own)
        remove_own();
    return failed > 0;
}
