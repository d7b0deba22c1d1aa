/* SPDX-License-Identifier: Apache-2.0
 *
 * Called by check.c and explain.c. Each argument is cut at its first =, and nothing is copied: names and values are
 * slices of argv. An attribute that is given twice is not noticed here; check.c refuses it, and for explain.c
 * rules/request.c does. */
#include "cli/attributes.h"

#include <stdio.h>
#include <string.h>

int weir_cli_attributes_read(int argc, char **argv, struct weir_cli_attributes *ret_attributes)
{
    if (argc > WEIR_ATTRIBUTES_MAX) {
        fprintf(stderr, "weir: at most %d attributes\n", WEIR_ATTRIBUTES_MAX);
        return WEIR_ELIMIT;
    }
    for (int i = 0; i < argc; i++) {
        const char *equals = strchr(argv[i], '=');
        if (!equals || equals == argv[i]) {
            fprintf(stderr, "weir: '%s' must be ATTRIBUTE=VALUE, such as user=ada\n", argv[i]);
            return WEIR_EINVAL;
        }
        ret_attributes->list[i].name = (struct weir_slice){ argv[i], (size_t)(equals - argv[i]) };
        ret_attributes->list[i].value = (struct weir_slice){ equals + 1, strlen(equals + 1) };
    }
    ret_attributes->count = (size_t)argc;
    return 0;
}
