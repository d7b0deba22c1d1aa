/* SPDX-License-Identifier: Apache-2.0
 *
 * users_drive URL TTL_MS TIMEOUT_MS: a store of users on a line each, for tests that break its server. URL "memory":
 * that. The primary is what the lines say; an answer is one line of JSON.
 *
 *     newest TIMELINE POSITION   the primary shows this from now on; position 0: nobody knows
 *     add USER TIMELINE POSITION
 *     get USER
 *     accept USER TIMELINE POSITION TIMELINE POSITION   before, after
 *     bench add|get THREADS MS   each thread with users of its own
 *     stats
 */
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "sessions/users.h"

#define SYSTEM UINT64_C(77)
#define THREADS_MAX 16

struct primary {
    pthread_mutex_t lock;
    uint32_t timeline;
    uint64_t position; /* 0: nobody knows */
    uint64_t questions;
};

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

static struct weir_session_token token_of(uint64_t timeline, uint64_t position)
{
    struct weir_session_token token = { .count = 1 };
    token.places[0] = (struct weir_place){ .system = SYSTEM, .timeline = (uint32_t)timeline, .position = position };
    return token;
}

static int newest(void *context, uint64_t deadline_ns, struct weir_session_token *ret_token, uint64_t *ret_changes)
{
    struct primary *primary = context;
    (void)deadline_ns, (void)ret_changes;
    pthread_mutex_lock(&primary->lock);
    primary->questions++;
    bool known = primary->position > 0;
    *ret_token = token_of(primary->timeline, primary->position);
    pthread_mutex_unlock(&primary->lock);
    return known ? 0 : WEIR_EDOWN;
}

static void print_error(int error)
{
    printf("\"status\":\"%s\"", error ? weir_error_name(error) + strlen("WEIR_") : "OK");
}

static void print_answer(int error, const struct weir_session_token *token, uint64_t begun_ns)
{
    printf("{");
    print_error(error);
    printf(",\"took_ms\":%" PRIu64 ",\"places\":[", (now_ns() - begun_ns) / 1000000);
    for (unsigned i = 0; error == 0 && i < token->count; i++)
        printf("%s[%" PRIu32 ",%" PRIu64 "]", i > 0 ? "," : "", token->places[i].timeline, token->places[i].position);
    printf("]}\n");
}

static void print_stats(struct weir_users *users, struct primary *primary)
{
    struct weir_users_stats stats;
    weir_users_stats(users, &stats);
    pthread_mutex_lock(&primary->lock);
    uint64_t questions = primary->questions;
    pthread_mutex_unlock(&primary->lock);
    for (char *at = stats.fault; *at; at++) {
        if (*at == '"' || *at == '\\')
            *at = '\'';
    }
    printf("{\"found\":%" PRIu64 ",\"not_found\":%" PRIu64 ",\"floors\":%" PRIu64 ",\"losses\":%" PRIu64
           ",\"corrupt\":%" PRIu64 ",\"failures\":%" PRIu64 ",\"questions\":%" PRIu64 ",\"fault\":\"%s\"}\n",
           stats.found, stats.not_found, stats.floors, stats.losses, stats.corrupt, stats.failures, questions,
           stats.fault);
}

/* ---- how many a second ---- */

struct bench {
    struct weir_users *users;
    pthread_t thread;
    uint32_t number;
    bool adds;
    uint64_t until_ns, done, errors;
};

static void *bench_run(void *context)
{
    struct bench *bench = context;
    for (uint64_t i = 0; now_ns() < bench->until_ns; i++) {
        struct weir_session_token seen = token_of(1, 1000 + 8 * i), token;
        char name[40];
        size_t size = (size_t)snprintf(name, sizeof name, "bench%" PRIu32 "-%" PRIu64, bench->number, i % 1000);
        int error = bench->adds ? weir_users_add(bench->users, name, size, NULL, &seen, &token)
                                : weir_users_get(bench->users, name, size, NULL, &token);
        bench->done += error == 0;
        bench->errors += error != 0;
    }
    return NULL;
}

static void bench(struct weir_users *users, bool adds, unsigned threads, uint64_t ms)
{
    struct bench benches[THREADS_MAX];
    uint64_t done = 0, errors = 0, begun_ns = now_ns();
    threads = threads < 1 ? 1 : threads > THREADS_MAX ? THREADS_MAX : threads;
    for (unsigned i = 0; i < threads; i++) {
        benches[i] = (struct bench){ .users = users, .number = i, .adds = adds, .until_ns = begun_ns + ms * 1000000 };
        if (pthread_create(&benches[i].thread, NULL, bench_run, &benches[i]) != 0)
            abort();
    }
    for (unsigned i = 0; i < threads; i++) {
        pthread_join(benches[i].thread, NULL);
        done += benches[i].done;
        errors += benches[i].errors;
    }
    printf("{\"per_s\":%" PRIu64 ",\"errors\":%" PRIu64 "}\n", done * UINT64_C(1000000000) / (now_ns() - begun_ns),
           errors);
}

/* ---- lines ---- */

#define WORDS_MAX 7

static uint64_t number(const char *word)
{
    return strtoull(word, NULL, 10);
}

static void answer(struct weir_users *users, struct primary *primary, const char *const words[WORDS_MAX])
{
    struct weir_session_token token = { 0 }, before = token_of(number(words[2]), number(words[3]));
    uint64_t begun_ns = now_ns();
    size_t size = strlen(words[1]);
    int error = 0;
    if (strcmp(words[0], "stats") == 0) {
        print_stats(users, primary);
        return;
    }
    if (strcmp(words[0], "bench") == 0) {
        bench(users, strcmp(words[1], "add") == 0, (unsigned)number(words[2]), number(words[3]));
        return;
    }
    if (strcmp(words[0], "newest") == 0) {
        pthread_mutex_lock(&primary->lock);
        primary->timeline = (uint32_t)number(words[1]);
        primary->position = number(words[2]);
        pthread_mutex_unlock(&primary->lock);
    } else if (strcmp(words[0], "add") == 0) {
        error = weir_users_add(users, words[1], size, NULL, &before, &token);
    } else if (strcmp(words[0], "get") == 0) {
        error = weir_users_get(users, words[1], size, NULL, &token);
    } else if (strcmp(words[0], "accept") == 0) {
        before.places[0].standby = true; /* of the floor that it was merged with */
        token = token_of(number(words[4]), number(words[5]));
        error = weir_users_accept(users, words[1], size, &before, &token);
    } else {
        error = WEIR_EINVAL;
    }
    print_answer(error, &token, begun_ns);
}

int main(int argc, char **argv)
{
    static struct primary primary = { .lock = PTHREAD_MUTEX_INITIALIZER, .timeline = 1 };
    struct weir_users *users = NULL;
    struct weir_fault fault = { 0 };
    if (argc != 4) {
        fprintf(stderr, "usage: users_drive URL TTL_MS TIMEOUT_MS\n");
        return 2;
    }
    struct weir_users_options options = {
        .url = strcmp(argv[1], "memory") == 0 ? NULL : argv[1],
        .ttl_ns = number(argv[2]) * 1000000,
        .timeout_ns = number(argv[3]) * 1000000,
        .newest = newest,
        .context = &primary,
    };
    int error = weir_users_open(&options, &users, &fault);
    if (error) {
        printf("{");
        print_error(error);
        printf(",\"field\":\"%s\",\"text\":\"%s\"}\n", fault.field, fault.text);
        return 1;
    }
    char *line = NULL;
    size_t room = 0;
    while (getline(&line, &room, stdin) > 0) {
        const char *words[WORDS_MAX] = { "", "", "", "", "", "", "" };
        char *rest = NULL, *word = strtok_r(line, " \n", &rest);
        for (int i = 0; word && i < WORDS_MAX; i++, word = strtok_r(NULL, " \n", &rest))
            words[i] = word;
        answer(users, &primary, words);
        fflush(stdout);
    }
    free(line);
    weir_users_close(users);
    return 0;
}
