/* SPDX-License-Identifier: Apache-2.0
 *
 * A folder of the test's own, and short words for what the tests of fences do. */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "weir/fence.h"

static char folder[64], path[96], copy[96];

static inline int folder_make(void **state)
{
    (void)state;
    /* In memory where there is such a place: thousands of files are opened, and each opening syncs. */
    strcpy(folder, access("/dev/shm", W_OK) == 0 ? "/dev/shm/weir-fence-XXXXXX" : "/tmp/weir-fence-XXXXXX");
    if (!mkdtemp(folder))
        return -1;
    (void)snprintf(path, sizeof(path), "%s/marks", folder);
    (void)snprintf(copy, sizeof(copy), "%s/copy", folder);
    return 0;
}

static inline int folder_remove(void **state)
{
    (void)state;
    static const char *const names[] = { "marks", "marks.lock", "marks.new", "copy", "copy.lock", "copy.new" };
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        char name[128];
        (void)snprintf(name, sizeof(name), "%s/%s", folder, names[i]);
        unlink(name);
    }
    return rmdir(folder);
}

static inline struct weir_fence *fence_open(const char *at)
{
    struct weir_fence *fence = NULL;
    assert_int_equal(weir_fence_open(&(struct weir_fence_options){ .path = at }, &fence, NULL), 0);
    return fence;
}

static inline int install(struct weir_fence *fence, const char *name, uint64_t incarnation, uint64_t number)
{
    return weir_fence_install(fence, name, strlen(name), (struct weir_token){ incarnation, number });
}

static inline int count_write(void *context)
{
    ++*(int *)context;
    return 0;
}

static inline int try_write(struct weir_fence *fence, const char *name, uint64_t incarnation, uint64_t number)
{
    int count = 0;
    int error = weir_fence_write(fence, name, strlen(name), (struct weir_token){ incarnation, number }, count_write,
                                 &count);
    assert_int_equal(count, error == 0);
    return error;
}

static inline uint64_t number_of(struct weir_fence *fence, const char *name)
{
    return weir_fence_mark(fence, name, strlen(name)).number;
}
