#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# example.sh FILE: FILE as a C array, so that the program carries its example. od is everywhere that a compiler is.
set -eu
cat <<'HEAD'
/* SPDX-License-Identifier: Apache-2.0 */
#include "rules/config.h"

static const unsigned char text[] = {
HEAD
od -An -v -tu1 "$1" | sed -e 's/  */,/g' -e 's/^,//' -e 's/$/,/'
cat <<'TAIL'
};

struct weir_slice weir_config_example_text(void)
{
    return (struct weir_slice){text, sizeof(text)};
}
TAIL
