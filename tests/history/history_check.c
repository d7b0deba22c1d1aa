/* SPDX-License-Identifier: Apache-2.0
 *
 * history_check FILE [--model NAME] [--memory MIB]: can the recorded history be explained by a correct lock? */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "search.h"

enum { EXIT_ACCEPTED, EXIT_REFUSED, EXIT_WRONG, EXIT_GAVE_UP };

static int usage(void)
{
    fputs("Usage: history_check FILE [--model mutex|reentrant|fenced|register] [--memory MIB]\n"
          "Without --model the one that the file's header names. Exit code: 0 accepted, 1 refused,\n"
          "2 wrong arguments or file, 3 gave up: the memory (256 MiB) was used up before an answer.\n",
          stderr);
    return EXIT_WRONG;
}

static int say(const char *path, const struct history *history, const struct model *model, enum search_verdict verdict,
               size_t lock, const struct search_result *result)
{
    if (verdict == SEARCH_ACCEPTED) {
        printf("%s: accepted: %s, %zu operations, %zu locks\n", path, model->name, history->count,
               history->locks.count);
        return EXIT_ACCEPTED;
    }
    printf("%s: %s: %s, lock %s, %zu operations, %zu states tried\n", path,
           verdict == SEARCH_REFUSED ? "REFUSED" : "GAVE UP", model->name, history->locks.names[lock - 1],
           result->operations, result->tried);
    for (size_t i = 0; verdict == SEARCH_REFUSED && i < history->count; i++) {
        const struct history_op *op = &history->ops[i];
        if (op->line == result->stuck)
            printf("  no order leaves a place for line %u: %s %s (%llu, %llu) by %s\n", op->line,
                   history_verb_name(op->verb), history_result_name(op->result),
                   (unsigned long long)op->token.incarnation, (unsigned long long)op->token.number,
                   op->owner == 0 ? "nobody" : history->owners.names[op->owner - 1]);
    }
    return verdict == SEARCH_REFUSED ? EXIT_REFUSED : EXIT_GAVE_UP;
}

int main(int argc, char **argv)
{
    const char *path = NULL, *name = NULL;
    size_t memory_max = SEARCH_MEMORY_DEFAULT;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--model") == 0 && i + 1 < argc)
            name = argv[++i];
        else if (strcmp(argv[i], "--memory") == 0 && i + 1 < argc)
            memory_max = (size_t)strtoull(argv[++i], NULL, 10) << 20;
        else if (argv[i][0] != '-' && !path)
            path = argv[i];
        else
            return usage();
    }
    if (!path)
        return usage();
    struct history history;
    if (history_load(path, &history) != 0) {
        fprintf(stderr, "%s:%u: %s\n", path, history.faulty_line, history.fault);
        return EXIT_WRONG;
    }
    const struct model *model = model_find(name ? name : history.model);
    int status = EXIT_WRONG;
    if (model) {
        size_t lock;
        struct search_result result;
        enum search_verdict verdict = search_all(&history, model, memory_max, &lock, &result);
        status = say(path, &history, model, verdict, lock, &result);
    } else {
        (void)usage();
    }
    history_free(&history);
    return status;
}
