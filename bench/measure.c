/* SPDX-License-Identifier: Apache-2.0
 *
 * Timed threads and the conversation with bench/run.py. */
#include "measure.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct worker {
    _Alignas(128) uint64_t state;
    uint64_t done;
    uint64_t begin_ns;
    uint64_t end_ns;
    measure_chunk *chunk;
    void *context;
    uint64_t sample_ns;
    pthread_barrier_t *start;
};

static void *work(void *argument)
{
    struct worker *worker = argument;
    uint64_t state = worker->state;
    uint64_t done = 0;

    worker->chunk(worker->context, &state);
    pthread_barrier_wait(worker->start);
    worker->begin_ns = measure_now_ns();
    uint64_t now_ns;
    do {
        done += worker->chunk(worker->context, &state);
        now_ns = measure_now_ns();
    } while (now_ns - worker->begin_ns < worker->sample_ns);
    worker->end_ns = now_ns;
    worker->done = done;
    return NULL;
}

double measure_threads(measure_chunk *chunk, void *context, unsigned threads, uint64_t sample_ns)
{
    struct worker workers[MEASURE_THREADS_MAX];
    pthread_t ids[MEASURE_THREADS_MAX];
    pthread_barrier_t start;
    double per_ns = 0;

    pthread_barrier_init(&start, NULL, threads);
    for (unsigned i = 0; i < threads; i++) {
        workers[i] = (struct worker){ .state = measure_mix(measure_now_ns() + i),
                                      .chunk = chunk,
                                      .context = context,
                                      .sample_ns = sample_ns,
                                      .start = &start };
        if (pthread_create(&ids[i], NULL, work, &workers[i]) != 0) {
            perror("pthread_create");
            exit(1);
        }
    }
    /* Rates add up even where one thread started a little later than the other. */
    for (unsigned i = 0; i < threads; i++) {
        pthread_join(ids[i], NULL);
        per_ns += (double)workers[i].done / (double)(workers[i].end_ns - workers[i].begin_ns);
    }
    pthread_barrier_destroy(&start);
    return 1.0 / per_ns;
}

double measure_take(void *context, const struct measure_case *self, uint64_t sample_ns)
{
    return measure_threads(self->chunk, context, self->threads, sample_ns);
}

int measure_serve(const struct measure_case *cases, size_t count, void *context)
{
    char line[128];
    puts("ready");
    fflush(stdout);
    while (fgets(line, sizeof line, stdin) != NULL) {
        char name[64];
        uint64_t sample_ms;
        if (sscanf(line, "%63s %" SCNu64, name, &sample_ms) != 2) {
            fprintf(stderr, "expected NAME SAMPLE_MS, got %s", line);
            return 2;
        }
        size_t i = 0;
        while (i < count && strcmp(cases[i].name, name) != 0) {
            i++;
        }
        if (i == count) {
            fprintf(stderr, "no case %s\n", name);
            return 2;
        }
        printf("%.6g\n", cases[i].take(context, &cases[i], sample_ms * 1000000));
        fflush(stdout);
    }
    return 0;
}

uint64_t measure_resident_bytes(void)
{
    uint64_t size = 0;
    uint64_t resident = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (file == NULL || fscanf(file, "%" SCNu64 " %" SCNu64, &size, &resident) != 2) {
        perror("/proc/self/statm");
        exit(1);
    }
    fclose(file);
    return resident * (uint64_t)sysconf(_SC_PAGESIZE);
}

uint64_t measure_argument(int argc, char **argv, int n, uint64_t min, uint64_t max, const char *name)
{
    char *end = NULL;
    errno = 0;
    unsigned long long value = n < argc ? strtoull(argv[n], &end, 10) : 0;
    if (n >= argc || errno != 0 || *end != '\0' || argv[n][0] == '-' || value < min || value > max) {
        fprintf(stderr, "argument %d, %s: must be %" PRIu64 " to %" PRIu64 "\n", n, name, min, max);
        exit(2);
    }
    return value;
}
