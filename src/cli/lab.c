/* SPDX-License-Identifier: Apache-2.0
 *
 * The verb `weir lab`, called by lab_main.c: lists the questions, or has one answered and prints what was found
 * (lab_print.c). The experiments are in sim/lab, those with real servers in the other lab_*.c. */
#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "cli/lab_print.h"
#include "cli/lab_real.h"
#include "cli/option.h"
#include "cli/verbs.h"
#include "rules/number.h"

static const char help[] =
    "Usage: weir lab [N [OPTION ...]]\n"
    "\n"
    "Questions about limits, locks and reads, each answered by an experiment. Without N it lists them; with N it runs\n"
    "that one, draws what happened, prints the numbers, and says what they show and what they do not.\n"
    "\n"
    "  --sim          in the simulator, in virtual time, also where the question is answered by real servers\n"
    "  --seed N       of what is drawn, where something is (1)\n"
    "  --json         the same as one JSON object: series of points, and named numbers with their units\n"
    "  --record FILE  the same object into a file, beside what is printed\n"
    "\n"
    "What a question needs besides weir (redis-server, postgres) is listed with it, and started for as long as the\n"
    "experiment lasts: on free ports of the loopback, with files in a folder of its own under $TMPDIR.\n"
    "In a browser the questions are at /learn of a running weir: http://localhost:8080/learn\n"
    "\n"
    "Exit code: 0 done, 2 wrong arguments, what the experiment needs is missing, or it was ended.\n"
    "\n"
    "Examples:\n"
    "  weir lab\n"
    "  weir lab 4\n"
    "  weir lab 1 --record pauses.json\n"
    "  weir lab 2 --sim --seed 7\n"
    "  weir lab 6 --json | jq '.numbers[] | select(.name | endswith(\"passed\"))'\n";

struct flags {
    uint64_t seed;
    bool sim, json;
    const char *record;
};

static int list(const struct flags *flags)
{
    const struct weir_lab *lab;
    json_t *all = json_array();
    for (size_t i = 0; (lab = weir_lab_at(i)); i++) {
        const struct weir_lab_real *real = weir_lab_real_find(lab->number);
        json_t *needs = json_array();
        for (size_t k = 0; real && real->needs[k]; k++)
            (void)json_array_append_new(needs, json_string(real->needs[k]));
        (void)json_array_append_new(
            all, json_pack("{s:i, s:s, s:o}", "lab", (int)lab->number, "title", lab->title, "needs", needs));
        if (!flags->json)
            printf("%3u  %s%s%s%s\n", lab->number, lab->title, real ? "  (" : "", real ? real->needs[0] : "",
                   real ? ")" : "");
    }
    if (flags->json && json_dumpf(all, stdout, 0) == 0)
        putchar('\n');
    json_decref(all);
    if (!flags->json)
        puts("\nweir lab N answers one; weir lab --help says more.");
    return WEIR_EXIT_OK;
}

static bool record(const struct weir_lab *lab, const struct weir_lab_report *report, const char *path)
{
    FILE *file = fopen(path, "w");
    bool written = file && weir_lab_print_json(lab, report, file);
    written = file && fclose(file) == 0 && written;
    if (!written)
        fprintf(stderr, "weir: --record %s: %s\n", path, strerror(errno));
    return written;
}

static int answer(const struct weir_lab *lab, const struct flags *flags)
{
    struct weir_lab_report *report = calloc(1, sizeof(*report));
    bool done = true;
    if (!report)
        return WEIR_EXIT_ERROR;
    const struct weir_lab_real *real = flags->sim ? NULL : weir_lab_real_find(lab->number);
    const char *lacks = real ? weir_lab_real_lacks(real) : NULL;
    if (lacks) {
        fprintf(stderr, "weir: lab %u needs %s%s; --sim answers it in the simulator\n", lab->number, lacks,
                real->run ? ", which is not in PATH" : "");
        done = false;
    } else if (real) {
        done = weir_lab_stand_run(real->run, flags->seed, report);
    } else {
        weir_lab_simulate(lab, flags->seed, report);
    }
    if (!done) {
        free(report);
        return WEIR_EXIT_ERROR;
    }
    if (flags->json)
        done = weir_lab_print_json(lab, report, stdout);
    else
        weir_lab_print(lab, report);
    if (flags->record)
        done = record(lab, report, flags->record) && done;
    free(report);
    return done ? WEIR_EXIT_OK : WEIR_EXIT_ERROR;
}

int weir_cli_lab(int argc, char **argv)
{
    struct flags flags = { .seed = 1 };
    const struct weir_option options[] = {
        { "sim", .given = &flags.sim },
        { "seed", .number = &flags.seed, .least = 1, .most = INT64_MAX },
        { "json", .given = &flags.json },
        { "record", .text = &flags.record },
        WEIR_OPTIONS_HELP,
    };
    int code = weir_options_read(argc, argv, options, &flags, help, "weir lab --help");
    if (code != WEIR_OPTIONS_READ)
        return code;
    if (argc - optind > 1) {
        fprintf(stderr, "weir: %s: one question at a time\n", argv[optind + 1]);
        return WEIR_EXIT_ERROR;
    }
    if (argc == optind)
        return list(&flags);
    const char *typed = argv[optind];
    uint64_t number = 0;
    const struct weir_lab *lab = weir_number_parse(typed, strlen(typed), &number) == 0 ? weir_lab_find(number) : NULL;
    if (!lab) {
        fprintf(stderr, "weir: lab %s: there is no such question; weir lab lists them\n", typed);
        return WEIR_EXIT_ERROR;
    }
    return answer(lab, &flags);
}
