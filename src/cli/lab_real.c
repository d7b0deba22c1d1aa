/* SPDX-License-Identifier: Apache-2.0
 *
 * The list of experiments with real servers: a new one is added here and to lab_real.h. Called by lab.c. */
#include "cli/lab_real.h"

#include <stddef.h>

#ifndef WEIR_HAVE_SESSIONS
#define weir_lab_phone_real NULL
#define weir_lab_sticky_real NULL
#endif

static const struct weir_lab_real reals[] = {
    { 1, { "redis-server" }, weir_lab_pauses_real },
    { 2, { "postgres", "initdb", "pg_basebackup" }, weir_lab_phone_real },
    { 5, { "redis-server" }, weir_lab_expire_real },
    { 7, { "postgres", "initdb", "pg_basebackup" }, weir_lab_sticky_real },
    { 9, { "redis-server" }, weir_lab_replicas_real },
    { 10, { "redis-server" }, weir_lab_tenants_real },
};

const struct weir_lab_real *weir_lab_real_find(unsigned number)
{
    for (size_t i = 0; i < sizeof(reals) / sizeof(reals[0]); i++) {
        if (reals[i].number == number)
            return &reals[i];
    }
    return NULL;
}

const char *weir_lab_real_lacks(const struct weir_lab_real *real)
{
    char path[PATH_MAX];
    if (!real->run)
        return "libpq, without which weir was built";
    for (size_t i = 0; real->needs[i]; i++) {
        if (!weir_lab_program_find(real->needs[i], path))
            return real->needs[i];
    }
    return NULL;
}
