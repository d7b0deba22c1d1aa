/* SPDX-License-Identifier: Apache-2.0
 *
 * In a build without libpq. */
#include <stdio.h>

#include "cli/verbs.h"

int weir_cli_reads(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    fputs("weir: this weir was built without PostgreSQL (meson setup -Dpostgres=enabled, with libpq)\n", stderr);
    return WEIR_EXIT_ERROR;
}
