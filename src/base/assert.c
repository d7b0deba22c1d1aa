/* SPDX-License-Identifier: Apache-2.0
 *
 * Prints what failed on stderr and aborts. Called by the macros of assert.h and by phase.c. In WebAssembly the macros
 * trap by themselves, and this file is empty. */
#include "base/assert.h"

#ifndef __wasm__
#include <stdio.h>
#include <stdlib.h>

void weir_assert_failed(const char *expression, const char *file, int line)
{
    fprintf(stderr, "weir: %s:%d: assertion failed: %s\n", file, line, expression);
    abort();
}
#endif
