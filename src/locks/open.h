/* SPDX-License-Identifier: Apache-2.0
 *
 * Opening the lock engines. Each raises the incarnation before it grants anything: at every start, and whenever what it
 * sees of its store differs from the witness (core/lease/incarnation.h), a small file that lies outside the store.
 * An engine whose store cannot be reached opens all the same where that can mend itself (postgres, etcd) and answers
 * WEIR_EDOWN until it can. A library that was not there at build time, or a module that is missing
 * (modules/module.h): WEIR_EINVAL, and the fault says so. */
#pragma once

#include "locks/engine.h"

struct weir_lock_sqlite_options {
    const char *path;    /* of the database; its folder must exist. WEIR_EINVAL: it is too long, and nothing was made */
    const char *witness; /* NULL = path + ".witness" */
};
/* WEIR_EBUSY: another process has it; WEIR_EIO, WEIR_ECORRUPT, WEIR_ENOMEM. */
int weir_lock_sqlite_open(const struct weir_lock_sqlite_options *options, struct weir_lock_engine **ret_engine,
                          struct weir_fault *ret_fault);

struct weir_lock_postgres_options {
    const char *conninfo; /* as libpq takes it; hosts may be several, the primary among them is found */
    const char *table;    /* NULL = "weir_locks"; created if it is not there */
    const char *witness;  /* the file; required */
};
int weir_lock_postgres_open(const struct weir_lock_postgres_options *options, struct weir_lock_engine **ret_engine,
                            struct weir_fault *ret_fault);

struct weir_lock_etcd_options {
    const char *const *endpoints; /* "http://127.0.0.1:2379" */
    size_t endpoints_count;
    const char *prefix;   /* of every key; NULL = "weir/locks/" */
    const char *username; /* NULL = no authentication */
    const char *password;
    const char *ca_file; /* for https; NULL = the system's */
    const char *witness; /* the file; required */
};
int weir_lock_etcd_open(const struct weir_lock_etcd_options *options, struct weir_lock_engine **ret_engine,
                        struct weir_fault *ret_fault);
