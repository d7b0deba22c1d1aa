/* SPDX-License-Identifier: Apache-2.0
 *
 * session_check FILE [--slots N]: did each recorded session see what it was promised? */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "recorded.h"
#include "weir/error.h"

#define SHOWN_MAX 20

enum { EXIT_ACCEPTED, EXIT_REFUSED, EXIT_WRONG, EXIT_GAVE_UP };

static int usage(void)
{
    fputs("Usage: session_check FILE [--slots N]\n"
          "Without --slots as many as it can need. Exit code: 0 accepted, 1 refused, 2 wrong arguments or file,\n"
          "3 gave up: the slots, or the operations of one session at once, were too many, and nothing is said.\n",
          stderr);
    return EXIT_WRONG;
}

#define NUMBER(value) ((unsigned long long)(value))

static void violation_print(const struct recorded *recorded, const struct weir_judge_violation *violation)
{
    const struct weir_judge_event *event = &violation->event;
    printf(
        "  line %llu: session %s %s version %llu of %s at %s, and line %llu leaves it %llu or more:", NUMBER(event->id),
        recorded->sessions.names[event->session - 1], event->kind == WEIR_JUDGE_READ ? "read" : "wrote",
        NUMBER(event->version), recorded->keys.names[event->key - 1], recorded->servers.names[event->server],
        NUMBER(violation->earlier), NUMBER(violation->expected));
    const char *between = " ";
    for (unsigned i = 0; i < WEIR_GUARANTEES; i++) {
        if (violation->broken >> i & 1) {
            printf("%s%s", between, weir_guarantee_name(i));
            between = ", ";
        }
    }
    putchar('\n');
}

static void counts_print(const struct recorded *recorded, const struct recorded_verdict *verdict)
{
    const struct weir_judge_counts *counts = &verdict->judge.counts;
    printf("  %zu sessions, %zu keys: %llu reads, %llu stale, %llu writes, %llu unknown, %llu lost",
           recorded->sessions.count, recorded->keys.count, NUMBER(counts->reads), NUMBER(counts->stale),
           NUMBER(counts->writes), NUMBER(counts->unknown), NUMBER(counts->lost));
    if (counts->cuts > 0)
        printf(" (%llu without need)", NUMBER(counts->lost_without_need));
    putchar('\n');
    for (size_t i = 0; i < recorded->servers.count; i++) {
        const struct weir_judge_server *server = &verdict->servers[i];
        double share = server->reads > 0 ? 100.0 * (double)server->violated / (double)server->reads : 0;
        printf("  %s: %llu reads, %llu violated (%.3f %%), %llu stale\n", recorded->servers.names[i],
               NUMBER(server->reads), NUMBER(server->violated), share, NUMBER(server->stale));
    }
}

static int say(const char *path, const struct recorded *recorded, const struct recorded_verdict *verdict)
{
    uint64_t violated = verdict->judge.counts.violated;
    if (violated == 0)
        printf("%s: accepted\n", path);
    else
        printf("%s: REFUSED: %llu reads and writes broke what their sessions were promised\n", path, NUMBER(violated));
    for (uint64_t i = 0; i < violated && i < SHOWN_MAX; i++)
        violation_print(recorded, &verdict->violations[i]);
    if (violated > SHOWN_MAX)
        printf("  and %llu more\n", NUMBER(violated - SHOWN_MAX));
    counts_print(recorded, verdict);
    return violated == 0 ? EXIT_ACCEPTED : EXIT_REFUSED;
}

static int check(const char *path, size_t slot_count)
{
    struct recorded recorded;
    if (recorded_load(path, &recorded) != 0) {
        fprintf(stderr, "%s:%u: %s\n", path, recorded.faulty_line, recorded.fault);
        return EXIT_WRONG;
    }
    struct recorded_verdict verdict = { .room = 0 };
    uint64_t line = 0;
    int failed = recorded_judge(&recorded, slot_count, &verdict, &line), status;
    if (failed == 0) {
        status = say(path, &recorded, &verdict);
    } else {
        const char *fault = verdict.judge.fault ? verdict.judge.fault : weir_error_text(failed);
        fprintf(stderr, "%s:%llu: %s%s\n", path, NUMBER(line), failed == WEIR_EINVAL ? "" : "GAVE UP: ", fault);
        status = failed == WEIR_EINVAL ? EXIT_WRONG : EXIT_GAVE_UP;
    }
    recorded_verdict_free(&verdict);
    recorded_free(&recorded);
    return status;
}

int main(int argc, char **argv)
{
    const char *path = NULL;
    size_t slot_count = 0;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--slots") == 0 && i + 1 < argc)
            slot_count = (size_t)strtoull(argv[++i], NULL, 10);
        else if (argv[i][0] != '-' && !path)
            path = argv[i];
        else
            return usage();
    }
    return path ? check(path, slot_count) : usage();
}
