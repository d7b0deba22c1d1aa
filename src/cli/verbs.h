/* SPDX-License-Identifier: Apache-2.0
 *
 * The verbs of `weir VERB ...`. Each gets its own arguments, argv[0] being the verb, and returns the exit code. */
#pragma once

enum weir_exit {
    WEIR_EXIT_OK = 0,
    WEIR_EXIT_REFUSED = 1, /* the request was refused */
    WEIR_EXIT_PART = 1,    /* replay: done, of a part of the logs: the rest could not be read */
    WEIR_EXIT_ERROR = 2,   /* wrong arguments, wrong configuration, no server */
};

int weir_cli_serve(int argc, char **argv);
int weir_cli_check(int argc, char **argv);
int weir_cli_lab(int argc, char **argv);
int weir_cli_lock(int argc, char **argv);
int weir_cli_explain(int argc, char **argv);
int weir_cli_fence(int argc, char **argv);
int weir_cli_reads(int argc, char **argv);
int weir_cli_replay(int argc, char **argv);
int weir_cli_rules(int argc, char **argv);
int weir_cli_sim(int argc, char **argv);
int weir_cli_top(int argc, char **argv);
int weir_cli_version(int argc, char **argv);
