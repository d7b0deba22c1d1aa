/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads what was said to `weir serve` on its command line and, where that says nothing, by its environment. */
#pragma once

#include "cli/serve_config.h"

/* 0, or the exit code after a complaint on standard error. ret_help: the help was asked for, and is printed. */
int weir_serve_flags_read(int argc, char **argv, struct weir_serve_flags *ret_flags, bool *ret_help);

/* Warns of variables that look as if they were flags' and are not. Their values are not printed: they may be
 * secrets. */
void weir_serve_flags_warn(const struct weir_config *config);
