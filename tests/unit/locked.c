/* SPDX-License-Identifier: Apache-2.0
 *
 * Linked into a test (meson.build), where it stands before the C library's: whoever unlocks a mutex has locked it, and
 * whoever locked it lets go; no more are destroyed than were made, and no condition is left. One thread alone would
 * never notice that a lock was left out, nor that memory of zeros was taken for a mutex. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

int __real_pthread_cond_init(pthread_cond_t *cond, const pthread_condattr_t *attributes);
int __real_pthread_cond_destroy(pthread_cond_t *cond);
int __wrap_pthread_cond_init(pthread_cond_t *cond, const pthread_condattr_t *attributes);
int __wrap_pthread_cond_destroy(pthread_cond_t *cond);
int __real_pthread_mutex_init(pthread_mutex_t *mutex, const pthread_mutexattr_t *attributes);
int __real_pthread_mutex_lock(pthread_mutex_t *mutex);
int __real_pthread_mutex_unlock(pthread_mutex_t *mutex);
int __real_pthread_mutex_destroy(pthread_mutex_t *mutex);
int __real_pthread_mutex_trylock(pthread_mutex_t *mutex);
int __wrap_pthread_mutex_init(pthread_mutex_t *mutex, const pthread_mutexattr_t *attributes);
int __wrap_pthread_mutex_lock(pthread_mutex_t *mutex);
int __wrap_pthread_mutex_trylock(pthread_mutex_t *mutex);
int __wrap_pthread_mutex_unlock(pthread_mutex_t *mutex);
int __wrap_pthread_mutex_destroy(pthread_mutex_t *mutex);

enum { HELD_MAX = 8 };

static _Thread_local pthread_mutex_t *held[HELD_MAX];
static _Thread_local unsigned count;
static atomic_int made, conditions;

static void stop(const char *why)
{
    (void)fprintf(stderr, "locked.c: %s\n", why);
    abort();
}

/* From 1; 0: this thread does not hold it. */
static unsigned place_of(const pthread_mutex_t *mutex)
{
    unsigned i = count;
    while (i > 0 && held[i - 1] != mutex)
        i--;
    return i;
}

static int take(pthread_mutex_t *mutex, int (*lock)(pthread_mutex_t *))
{
    if (count == HELD_MAX)
        stop("too many at once");
    if (place_of(mutex) > 0)
        stop("locked twice");
    int error = lock(mutex);
    if (error == 0)
        held[count++] = mutex;
    return error;
}

int __wrap_pthread_mutex_lock(pthread_mutex_t *mutex)
{
    return take(mutex, __real_pthread_mutex_lock);
}

int __wrap_pthread_mutex_trylock(pthread_mutex_t *mutex)
{
    return take(mutex, __real_pthread_mutex_trylock);
}

int __wrap_pthread_mutex_unlock(pthread_mutex_t *mutex)
{
    unsigned i = place_of(mutex);
    if (i == 0)
        stop("unlocked without having been locked");
    held[i - 1] = held[--count];
    return __real_pthread_mutex_unlock(mutex);
}

int __wrap_pthread_mutex_init(pthread_mutex_t *mutex, const pthread_mutexattr_t *attributes)
{
    made++;
    return __real_pthread_mutex_init(mutex, attributes);
}

int __wrap_pthread_mutex_destroy(pthread_mutex_t *mutex)
{
    if (--made < 0)
        stop("destroyed without having been made");
    if (place_of(mutex) > 0)
        stop("destroyed while it is held");
    return __real_pthread_mutex_destroy(mutex);
}

int __wrap_pthread_cond_init(pthread_cond_t *cond, const pthread_condattr_t *attributes)
{
    conditions++;
    return __real_pthread_cond_init(cond, attributes);
}

int __wrap_pthread_cond_destroy(pthread_cond_t *cond)
{
    conditions--;
    return __real_pthread_cond_destroy(cond);
}

__attribute__((destructor)) static void look_for_what_is_left(void)
{
    if (conditions != 0)
        stop("a condition was left, or destroyed without having been made");
}
