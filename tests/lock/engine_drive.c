/* SPDX-License-Identifier: Apache-2.0
 *
 * engine_drive postgres CONNINFO WITNESS [TABLE]: a lock engine on a line each. A line of ops, "verb name owner ttl_ms
 * seen" with ";" between them (missing words are 0 or empty), is one batch; its answer is one line of JSON, an array of
 * an object per op. "timeout MS" is for the batches to come (2000); "state" shows the engine. Ends with its input. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "locks/open.h"

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

static struct weir_slice slice(const char *word)
{
    return (struct weir_slice){ word ? word : "", word ? strlen(word) : 0 };
}

static uint64_t number(const char *word)
{
    return word ? strtoull(word, NULL, 10) : 0;
}

static const char *const verbs[] = { "acquire", "renew", "release", "show", "raise" };
static const char *const saids[] = { "granted", "held", "free" };

static bool parse(char *text, struct weir_lock_op *op)
{
    char *rest = NULL;
    const char *verb = strtok_r(text, " \n", &rest);
    memset(op, 0, sizeof(*op));
    for (size_t i = 0; verb && i < sizeof verbs / sizeof verbs[0]; i++) {
        if (strcmp(verb, verbs[i]) != 0)
            continue;
        op->verb = (enum weir_lock_verb)i;
        op->name = slice(strtok_r(NULL, " \n", &rest));
        op->owner = slice(strtok_r(NULL, " \n", &rest));
        op->ttl_ns = number(strtok_r(NULL, " \n", &rest)) * 1000000;
        op->seen = number(strtok_r(NULL, " \n", &rest));
        return true;
    }
    return false;
}

static void print_text(const char *text, size_t size)
{
    putchar('"');
    for (size_t i = 0; i < size; i++)
        printf(text[i] == '"' || text[i] == '\\' ? "\\%c" : "%c", text[i]);
    putchar('"');
}

static void print_state(struct weir_lock_engine *engine)
{
    struct weir_lock_engine_state state;
    engine->ops->state(engine, &state);
    printf("{\"up\":%s,\"incarnation\":%" PRIu64 ",\"raised\":%" PRIu64 ",\"batches\":%" PRIu64 ",\"failures\":%" PRIu64
           ",\"fault\":",
           state.up ? "true" : "false", state.incarnation, state.raised, state.batches, state.failures);
    print_text(state.fault, strlen(state.fault));
    printf("}\n");
}

static void print_answers(const struct weir_lock_op *ops, size_t count, uint64_t took_ns)
{
    printf("[");
    for (size_t i = 0; i < count; i++) {
        const struct weir_lock_op *op = &ops[i];
        printf("%s{\"status\":\"%s\",\"took_ms\":%" PRIu64, i > 0 ? "," : "",
               op->status ? weir_error_name(op->status) + strlen("WEIR_") : "OK", took_ns / 1000000);
        if (op->status == 0) {
            printf(",\"said\":\"%s\",\"token\":[%" PRIu64 ",%" PRIu64 "],\"lease_us\":%" PRIu64 ",\"holder\":",
                   saids[op->said], op->token.incarnation, op->token.number, op->lease_ns / 1000);
            print_text(op->holder, op->holder_size);
        }
        printf("}");
    }
    printf("]\n");
}

static bool batch(struct weir_lock_engine *engine, char *line, uint64_t timeout_ns)
{
    static struct weir_lock_op ops[WEIR_LOCK_BATCH_MAX];
    char *rest = NULL;
    size_t count = 0;
    for (char *op = strtok_r(line, ";", &rest); op && count < WEIR_LOCK_BATCH_MAX; op = strtok_r(NULL, ";", &rest))
        if (!parse(op, &ops[count++]))
            return false;
    uint64_t began_ns = now_ns();
    engine->ops->apply(engine, ops, count, began_ns + timeout_ns);
    for (size_t i = 0; i < count; i++) /* as a manager: what is put off is asked again */
        while (ops[i].due_ns > 0 && ops[i].due_ns < began_ns + timeout_ns) {
            while (now_ns() < ops[i].due_ns)
                usleep(1000);
            engine->ops->apply(engine, &ops[i], 1, began_ns + timeout_ns);
        }
    print_answers(ops, count, now_ns() - began_ns);
    return true;
}

int main(int argc, char **argv)
{
    struct weir_lock_engine *engine = NULL;
    struct weir_fault fault = { 0 };
    if (argc < 4 || strcmp(argv[1], "postgres") != 0) {
        fprintf(stderr, "usage: engine_drive postgres CONNINFO WITNESS [TABLE]\n");
        return 2;
    }
    struct weir_lock_postgres_options options = { argv[2], argc > 4 ? argv[4] : NULL, argv[3] };
    int error = weir_lock_postgres_open(&options, &engine, &fault);
    if (error) {
        printf("{\"error\":\"%s\",\"field\":\"%s\",\"text\":", weir_error_name(error) + strlen("WEIR_"), fault.field);
        print_text(fault.text, strlen(fault.text));
        printf("}\n");
        return 1;
    }
    char *line = NULL;
    size_t room = 0;
    uint64_t timeout_ns = UINT64_C(2000000000);
    int status = 0;
    while (status == 0 && getline(&line, &room, stdin) > 0) {
        if (strncmp(line, "timeout ", 8) == 0)
            timeout_ns = number(line + 8) * 1000000;
        else if (strncmp(line, "state", 5) == 0)
            print_state(engine);
        else if (!batch(engine, line, timeout_ns))
            status = 2;
        fflush(stdout);
    }
    free(line);
    engine->ops->destroy(engine);
    return status;
}
