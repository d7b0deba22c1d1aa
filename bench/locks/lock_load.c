/* SPDX-License-Identifier: Apache-2.0
 *
 *     lock_NAME ADDRESS CLIENTS MILLISECONDS
 *
 * Prints one line of figures: locks acquired and released per second, and how long an acquire took. */
#include "lock_load.h"

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define CLIENTS_MAX 256
#define SAMPLES_MAX (1u << 20) /* of one client; more are counted, not kept */

struct worker {
    pthread_t thread;
    const char *address;
    unsigned number;
    uint64_t until_ns;
    uint64_t *took_ns;
    size_t count;
    bool failed;
};

static uint64_t now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

static void *work(void *context)
{
    struct worker *worker = context;
    struct lock_client *client = lock_client_open(worker->address, worker->number);
    worker->failed = !client;
    while (client && !worker->failed) {
        uint64_t begin = now();
        if (begin >= worker->until_ns)
            break;
        worker->failed = !lock_client_acquire(client);
        uint64_t took_ns = now() - begin;
        if (!worker->failed && worker->count < SAMPLES_MAX)
            worker->took_ns[worker->count++] = took_ns;
        worker->failed |= !lock_client_release(client);
    }
    if (client)
        lock_client_close(client);
    return NULL;
}

static int by_value(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static int report(const struct worker *workers, unsigned clients, double seconds)
{
    size_t count = 0, at = 0;
    for (unsigned i = 0; i < clients; i++) {
        if (workers[i].failed)
            return 1;
        count += workers[i].count;
    }
    uint64_t *all = calloc(count + 1, sizeof *all);
    if (!all || count == 0)
        return 1;
    for (unsigned i = 0; i < clients; i++)
        for (size_t j = 0; j < workers[i].count; j++)
            all[at++] = workers[i].took_ns[j];
    qsort(all, count, sizeof *all, by_value);
    printf("rate %.1f p50_us %.1f p99_us %.1f\n", (double)count / seconds, (double)all[(count - 1) / 2] / 1000,
           (double)all[(count - 1) * 99 / 100] / 1000);
    free(all);
    return 0;
}

int main(int argc, char **argv)
{
    unsigned clients = argc == 4 ? (unsigned)atoi(argv[2]) : 0;
    if (clients == 0 || clients > CLIENTS_MAX) {
        fprintf(stderr, "usage: %s ADDRESS CLIENTS MILLISECONDS (1 to %u clients)\n", argv[0], CLIENTS_MAX);
        return 2;
    }
    static struct worker workers[CLIENTS_MAX];
    uint64_t begin = now();
    for (unsigned i = 0; i < clients; i++) {
        workers[i] = (struct worker){ .address = argv[1],
                                      .number = i,
                                      .until_ns = begin + (uint64_t)atoi(argv[3]) * 1000000,
                                      .took_ns = calloc(SAMPLES_MAX, sizeof(uint64_t)) };
        if (!workers[i].took_ns || pthread_create(&workers[i].thread, NULL, work, &workers[i]) != 0)
            return 1;
    }
    for (unsigned i = 0; i < clients; i++)
        pthread_join(workers[i].thread, NULL);
    return report(workers, clients, (double)(now() - begin) / 1e9);
}
