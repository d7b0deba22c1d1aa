/* SPDX-License-Identifier: Apache-2.0
 *
 * Changes of exceptions in a store of rules in SQLite, and what is read of them. */
#pragma once

#include <sqlite3.h>

#include "rule_store_fixture.h"

#define CHANGES 400 /* at most in a store of a test */

static inline struct weir_slice key_of(char key[64], const char *value)
{
    size_t size = 0;
    assert_true(weir_exception_key_add(key, 64, &size, (struct weir_slice){ "user", 4 }));
    assert_true(weir_exception_key_add(key, 64, &size, (struct weir_slice){ value, strlen(value) }));
    return (struct weir_slice){ key, size };
}

static inline struct weir_exception_change ban_of(struct weir_slice key, uint64_t until_ns, uint64_t wall_ns)
{
    struct weir_exception_change change = { .kind = WEIR_EXCEPTION_BAN,
                                            .limit = "api",
                                            .key = key,
                                            .until_ns = until_ns,
                                            .wall_ns = wall_ns,
                                            .author = "ann",
                                            .comment = "too fast" };
    assert_int_equal(weir_rule_change_id(change.change), 0);
    return change;
}

static inline struct weir_exception_change unban_of(struct weir_slice key, uint64_t wall_ns)
{
    struct weir_exception_change change = ban_of(key, 0, wall_ns);
    change.kind = WEIR_EXCEPTION_UNBAN;
    return change;
}

static inline struct weir_exception_change reset_of(struct weir_slice key, uint64_t wall_ns)
{
    struct weir_exception_change change = ban_of(key, 0, wall_ns);
    change.kind = WEIR_EXCEPTION_RESET;
    return change;
}

static inline struct weir_exception_change level_of(const char *level, struct weir_slice key, uint64_t until_ns,
                                                    uint64_t wall_ns)
{
    struct weir_exception_change change = ban_of(key, until_ns, wall_ns);
    change.kind = WEIR_EXCEPTION_LEVEL;
    change.level = level;
    return change;
}

static inline int except(struct weir_rule_store *store, const struct weir_exception_change *change,
                         uint64_t *ret_number, struct weir_fault *ret_fault)
{
    *ret_fault = (struct weir_fault){ 0 };
    return weir_rule_store_except(store, change, soon(), ret_number, ret_fault);
}

static inline uint64_t excepted(struct weir_rule_store *store, const struct weir_exception_change *change)
{
    struct weir_fault fault;
    uint64_t number = 0;
    int error = except(store, change, &number, &fault);
    if (error)
        print_message("%s: %s\n", fault.field, fault.text);
    assert_int_equal(error, 0);
    return number;
}

struct taken {
    uint64_t numbers[CHANGES + 1];
    size_t count, damaged, max;
    struct weir_exception last; /* its texts are gone */
    char key[64], author[32], level[WEIR_LEVEL_NAME_MAX + 1];
};

static inline bool take(void *context, const struct weir_exception *exception)
{
    struct taken *taken = context;
    taken->last = *exception;
    taken->damaged += exception->damaged;
    if (!exception->damaged) {
        (void)snprintf(taken->key, sizeof taken->key, "%.*s", (int)exception->key.size,
                       (const char *)exception->key.data);
        (void)snprintf(taken->author, sizeof taken->author, "%s", exception->author);
        (void)snprintf(taken->level, sizeof taken->level, "%s", exception->level);
    }
    taken->numbers[taken->count++] = exception->number;
    return taken->count < taken->max;
}

static inline struct taken taken_of(struct weir_rule_store *store, struct weir_exception_query query)
{
    struct taken taken = { .max = CHANGES };
    struct weir_fault fault = { 0 };
    query.count_max = query.count_max ? query.count_max : CHANGES;
    int error = weir_rule_store_exceptions(store, &query, soon(), take, &taken, &fault);
    if (error)
        print_message("%s: %s\n", fault.field, fault.text);
    assert_int_equal(error, 0);
    return taken;
}

static inline void run_sql(const char *sql)
{
    sqlite3 *db;
    assert_int_equal(sqlite3_open(store_path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(db);
}
