/* SPDX-License-Identifier: Apache-2.0
 *
 * Stores of rule sets in a folder of the test's own, with calls that expect to succeed. */
#pragma once

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "rules/store_inside.h"

#define SECOND UINT64_C(1000000000)

static char store_folder[64];
static char store_path[96];
static char store_spec[128];

static inline int make_store_folder(void **state)
{
    (void)state;
    (void)snprintf(store_folder, sizeof store_folder, "/tmp/weir-rule-store-XXXXXX");
    assert_non_null(mkdtemp(store_folder));
    (void)snprintf(store_path, sizeof store_path, "%s/rules.db", store_folder);
    (void)snprintf(store_spec, sizeof store_spec, "sqlite:%s", store_path);
    return 0;
}

static inline int remove_store_folder(void **state)
{
    (void)state;
    DIR *folder = opendir(store_folder);
    for (struct dirent *entry; folder && (entry = readdir(folder));) {
        char path[sizeof store_folder + NAME_MAX + 2];
        (void)snprintf(path, sizeof path, "%s/%s", store_folder, entry->d_name);
        (void)(unlink(path) == 0 || rmdir(path) == 0);
    }
    closedir(folder);
    return rmdir(store_folder);
}

static inline uint64_t soon(void)
{
    return weir_rule_now_ns() + 60 * SECOND;
}

static inline struct weir_rule_store *store_open(void)
{
    struct weir_rule_store *store;
    struct weir_fault fault = { 0 };
    assert_int_equal(
        weir_rule_store_open(&(struct weir_rule_store_options){ .spec = store_spec, .create = true }, &store, &fault),
        0);
    return store;
}

static inline struct weir_rule_change change_of(uint64_t expected, const char *text)
{
    struct weir_rule_change change = { .expected = expected,
                                       .kind = WEIR_RULE_APPLIED,
                                       .author = "ann",
                                       .comment = "because",
                                       .text = { text, strlen(text) },
                                       .wall_ns = 1000 + expected };
    assert_int_equal(weir_rule_change_id(change.change), 0);
    return change;
}

static inline struct weir_rule_change rollback_of(uint64_t expected, uint64_t of)
{
    struct weir_rule_change change = change_of(expected, "");
    change.kind = WEIR_RULE_ROLLBACK;
    change.of = of;
    return change;
}

static inline struct weir_rule_appended append(struct weir_rule_store *store, const struct weir_rule_change *change)
{
    struct weir_rule_appended appended;
    struct weir_fault fault = { 0 };
    int error = weir_rule_store_append(store, change, soon(), &appended, &fault);
    if (error)
        print_message("%s: %s\n", fault.field, fault.text);
    assert_int_equal(error, 0);
    return appended;
}

/* A change that is made of the newest. */
static inline uint64_t append_text(struct weir_rule_store *store, uint64_t expected, const char *text)
{
    struct weir_rule_change change = change_of(expected, text);
    struct weir_rule_appended appended = append(store, &change);
    assert_int_equal(appended.said, WEIR_RULE_APPENDED);
    assert_int_equal(appended.number, expected + 1);
    assert_int_equal(appended.head.number, expected + 1);
    return appended.number;
}

static inline struct weir_rule_head head_of(struct weir_rule_store *store)
{
    struct weir_rule_head head;
    struct weir_fault fault = { 0 };
    int error = weir_rule_store_head(store, soon(), &head, &fault);
    if (error)
        print_message("%s: %s\n", fault.field, fault.text);
    assert_int_equal(error, 0);
    return head;
}

/* What a call that fails says; the store's faults are shown by their texts. */
static inline int head_error(const char *spec, bool create, struct weir_fault *ret_fault)
{
    struct weir_rule_store *store;
    struct weir_rule_head head;
    *ret_fault = (struct weir_fault){ 0 };
    assert_int_equal(
        weir_rule_store_open(&(struct weir_rule_store_options){ .spec = spec, .create = create }, &store, ret_fault),
        0);
    int error = weir_rule_store_head(store, soon(), &head, ret_fault);
    weir_rule_store_close(store);
    return error;
}

static inline void write_whole(const char *path, const void *bytes, size_t size)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, bytes, size), size);
    close(fd);
}

/* How many bytes there are; the rest of the room is not touched. */
static inline size_t read_all(const char *path, void *bytes, size_t room)
{
    int fd = open(path, O_RDONLY);
    assert_true(fd >= 0);
    ssize_t size = read(fd, bytes, room);
    assert_true(size >= 0);
    close(fd);
    return (size_t)size;
}
