/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory that runs out: at the first allocation, the second, and so on until all were granted; or that is short for
 * that one alone. And what is not freed in the end. For programs linked with --wrap of the functions below, so that our
 * calls of them come here first. */
#pragma once

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "weir/error.h"

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *old, size_t size);
void *__real_aligned_alloc(size_t alignment, size_t size);
char *__real_strdup(const char *text);
void __real_free(void *memory);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *old, size_t size);
void *__wrap_aligned_alloc(size_t alignment, size_t size);
char *__wrap_strdup(const char *text);
void __wrap_free(void *memory);
int __real_pthread_mutex_init(pthread_mutex_t *mutex, const pthread_mutexattr_t *attributes);
int __real_pthread_mutex_destroy(pthread_mutex_t *mutex);
int __wrap_pthread_mutex_init(pthread_mutex_t *mutex, const pthread_mutexattr_t *attributes);
int __wrap_pthread_mutex_destroy(pthread_mutex_t *mutex);

enum { LIVE_MAX = 4096 };
static void *live[LIVE_MAX];
static size_t live_count;
static long granted; /* until there is no more */
static bool once;    /* and then there is some again */
static bool counts;
static int mutexes; /* begun and not ended */

static bool denied(void)
{
    return counts && (once ? granted-- == 0 : granted-- <= 0);
}

static void *note(void *memory)
{
    if (counts && memory) {
        assert_true(live_count < LIVE_MAX);
        live[live_count++] = memory;
    }
    return memory;
}

static void forget(const void *memory)
{
    for (size_t i = live_count; memory && i-- > 0;)
        if (live[i] == memory) {
            live[i] = live[--live_count];
            return;
        }
}

void *__wrap_malloc(size_t size)
{
    return denied() ? NULL : note(__real_malloc(size));
}

void *__wrap_calloc(size_t count, size_t size)
{
    return denied() ? NULL : note(__real_calloc(count, size));
}

void *__wrap_realloc(void *old, size_t size)
{
    if (denied())
        return NULL;
    forget(old);
    return note(__real_realloc(old, size));
}

void *__wrap_aligned_alloc(size_t alignment, size_t size)
{
    return denied() ? NULL : note(__real_aligned_alloc(alignment, size));
}

char *__wrap_strdup(const char *text)
{
    return denied() ? NULL : note(__real_strdup(text));
}

void __wrap_free(void *memory)
{
    forget(memory);
    __real_free(memory);
}

int __wrap_pthread_mutex_init(pthread_mutex_t *mutex, const pthread_mutexattr_t *attributes)
{
    mutexes++;
    return __real_pthread_mutex_init(mutex, attributes);
}

int __wrap_pthread_mutex_destroy(pthread_mutex_t *mutex)
{
    mutexes--;
    return __real_pthread_mutex_destroy(mutex);
}

/* `make` makes something and unmakes it again; `least` allocations are needed for that. */
static void each_in_turn(int (*make)(void), long least)
{
    for (int mode = 0; mode < 2; mode++) {
        long most = 0;
        for (granted = -1; granted < 0; most++) {
            assert_true(most < 1000);
            granted = most;
            once = mode == 1;
            counts = true;
            const int error = make();
            counts = false;
            assert_true(error == 0 || (granted < 0 && error == WEIR_ENOMEM)); /* of some a little is left out */
            assert_int_equal(live_count, 0);
            assert_int_equal(mutexes, 0);
        }
        assert_true(most > least);
    }
}
