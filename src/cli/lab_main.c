/* SPDX-License-Identifier: Apache-2.0
 *
 * The program behind `weir lab` (apart.h). */
#include "cli/streams.h"
#include "cli/verbs.h"

int main(int argc, char **argv)
{
    char verb[] = "lab"; /* as which it is spoken of, however it was called */
    if (argc < 1 || !weir_streams_open())
        return WEIR_EXIT_ERROR;
    argv[0] = verb;
    return weir_cli_lab(argc, argv);
}
