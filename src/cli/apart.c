/* SPDX-License-Identifier: Apache-2.0
 *
 * Starts the programs weir-lab, weir-sim, weir-replay and weir-reads for main.c. The program is looked for beside the
 * running one (base/beside.h), and execv() replaces this process with it, so a call that succeeds does not return.
 * Their main() functions are in lab_main.c, sim_main.c, replay_main.c and reads_main.c. */
#include "cli/apart.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/beside.h"
#include "cli/verbs.h"

int weir_apart_run(const char *program, char **argv)
{
    struct weir_beside beside;
    if (!weir_beside_find(WEIR_BESIDE_PROGRAM, program, &beside)) {
        fprintf(stderr,
                "weir: weir %s is the program %s, which is not in %s: make install puts it there (weir-reads is "
                "built where libpq is)\n",
                argv[0], program, beside.folders);
        return WEIR_EXIT_ERROR;
    }
    (void)execv(beside.path, argv);
    fprintf(stderr, "weir: weir %s is the program %s, which cannot be started: %s\n", argv[0], beside.path,
            strerror(errno));
    return WEIR_EXIT_ERROR;
}
