/* SPDX-License-Identifier: Apache-2.0
 *
 * A ring behind a mutex. Filled by serve/refusal_lines.c, read by serve/http_state.c. */
#include "observe/last.h"

#include <pthread.h>
#include <stdlib.h>

struct weir_last {
    pthread_mutex_t lock;                          /* of all that follows */
    uint64_t number;                               /* of the newest; 0: there is none */
    struct weir_last_refusal ring[WEIR_LAST_ROOM]; /* number n at n % WEIR_LAST_ROOM */
};

int weir_last_create(struct weir_last **ret_last)
{
    struct weir_last *last = calloc(1, sizeof(*last));
    if (!last)
        return WEIR_ENOMEM;
    pthread_mutex_init(&last->lock, NULL);
    *ret_last = last;
    return 0;
}

void weir_last_destroy(struct weir_last *last)
{
    if (!last)
        return;
    pthread_mutex_destroy(&last->lock);
    free(last);
}

void weir_last_put(struct weir_last *last, const struct weir_last_refusal *refusal)
{
    pthread_mutex_lock(&last->lock);
    last->ring[++last->number % WEIR_LAST_ROOM] = *refusal;
    pthread_mutex_unlock(&last->lock);
}

size_t weir_last_read(struct weir_last *last, struct weir_last_refusal ret_refusals[WEIR_LAST_ROOM])
{
    size_t count = 0;
    pthread_mutex_lock(&last->lock);
    while (count < WEIR_LAST_ROOM && count < last->number) {
        ret_refusals[count] = last->ring[(last->number - count) % WEIR_LAST_ROOM];
        count++;
    }
    pthread_mutex_unlock(&last->lock);
    return count;
}

uint64_t weir_last_number(struct weir_last *last)
{
    pthread_mutex_lock(&last->lock);
    const uint64_t number = last->number;
    pthread_mutex_unlock(&last->lock);
    return number;
}
