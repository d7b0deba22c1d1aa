/* SPDX-License-Identifier: Apache-2.0
 *
 * The verb `weir version`, called by main.c, also for --version. It prints the version of this program
 * (weir/version.h), not that of a server. */
#include <stdio.h>
#include <string.h>

#include "cli/verbs.h"
#include "weir/version.h"

static const char help[] = "Usage: weir version\n"
                           "\n"
                           "Prints the version of weir.\n"
                           "\n"
                           "Example:\n"
                           "  weir version\n";

int weir_cli_version(int argc, char **argv)
{
    if (argc > 1 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)) {
        fputs(help, stdout);
        return WEIR_EXIT_OK;
    }
    if (argc > 1) {
        fprintf(stderr, "weir: version takes no argument '%s'\n", argv[1]);
        return WEIR_EXIT_ERROR;
    }
    puts("weir " WEIR_VERSION);
    return WEIR_EXIT_OK;
}
