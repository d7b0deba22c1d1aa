/* SPDX-License-Identifier: Apache-2.0
 *
 * The entry point of the program `weir`: it opens standard streams that are closed (streams.c), looks the verb up in
 * the table below and calls its function with the rest of the arguments. `weir lab`,
 * `weir sim`, `weir replay` and `weir reads` are programs of their own, which apart.c starts. */
#include <stdio.h>
#include <string.h>

#include "cli/apart.h"
#include "cli/option.h"
#include "cli/streams.h"
#include "cli/verbs.h"

struct verb {
    const char *name;
    const char *summary;
    int (*run)(int argc, char **argv); /* NULL: the program does it */
    const char *program;
};

static const struct verb verbs[] = {
    { "serve", "answer Redis clients and HTTP", weir_cli_serve, NULL },
    { "check", "ask a running server whether a request may proceed", weir_cli_check, NULL },
    { "lock", "run a command under a lock, and end it before the lock is lost", weir_cli_lock, NULL },
    { "explain", "say which limits a request would meet, and why not the others", weir_cli_explain, NULL },
    { "fence", "keep a value in a folder that only the newest holder of a lock can write", weir_cli_fence, NULL },
    { "lab", "answer questions about limits, locks and reads by experiments", NULL, "weir-lab" },
    { "reads", "say how often reads of your replicas go back, and what would prevent it", NULL, "weir-reads" },
    { "replay", "say what limits would have refused of an access log, and propose some", NULL, "weir-replay" },
    { "rules", "check a configuration", weir_cli_rules, NULL },
    { "sim", "run nodes, network and faults in virtual time and check the bounds", NULL, "weir-sim" },
    { "top", "show what a running server does, and which keys it refuses most", weir_cli_top, NULL },
    { "version", "print the version", weir_cli_version, NULL },
};

static void print_help(FILE *out)
{
    fputs("weir decides: may this proceed now?\n\nUsage: weir VERB [OPTION ...]\n\n", out);
    for (size_t i = 0; i < sizeof(verbs) / sizeof(verbs[0]); i++)
        fprintf(out, "  %-10s %s\n", verbs[i].name, verbs[i].summary);
    fputs("\nweir VERB --help says more, with examples.\n", out);
}

static void verb_unknown(const char *typed)
{
    struct weir_nearest nearest = { .text = typed, .size = strlen(typed) };
    char hint[80];
    for (size_t i = 0; i < sizeof(verbs) / sizeof(verbs[0]); i++)
        weir_nearest_offer(&nearest, verbs[i].name);
    if (typed[0])
        fprintf(stderr, "weir: there is no verb '%s'%s\n\n", typed,
                weir_nearest_format(&nearest, "", hint, sizeof(hint)));
}

int main(int argc, char **argv)
{
    if (!weir_streams_open())
        return WEIR_EXIT_ERROR;
    const char *wanted = argc > 1 ? argv[1] : "";
    for (size_t i = 0; i < sizeof(verbs) / sizeof(verbs[0]); i++) {
        if (strcmp(wanted, verbs[i].name) == 0)
            return verbs[i].run ? verbs[i].run(argc - 1, argv + 1) : weir_apart_run(verbs[i].program, argv + 1);
    }
    if (strcmp(wanted, "--help") == 0 || strcmp(wanted, "-h") == 0 || strcmp(wanted, "help") == 0) {
        print_help(stdout);
        return WEIR_EXIT_OK;
    }
    if (strcmp(wanted, "--version") == 0)
        return weir_cli_version(1, argv);
    verb_unknown(wanted);
    print_help(stderr);
    return WEIR_EXIT_ERROR;
}
