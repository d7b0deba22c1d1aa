/* SPDX-License-Identifier: Apache-2.0
 *
 * Attributes as arguments: `user=ada route=/api/x`. The first = divides, so values may have more. */
#pragma once

#include "rules/rules.h"

struct weir_cli_attributes {
    size_t count;
    struct weir_attribute list[WEIR_ATTRIBUTES_MAX];
};

/* Points into `argv`. Complains on stderr, and returns WEIR_EINVAL or WEIR_ELIMIT. */
int weir_cli_attributes_read(int argc, char **argv, struct weir_cli_attributes *ret_attributes);
