/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads what was said to `weir serve` on its command line. */
#pragma once

#include "cli/serve_config.h"

/* 0, or the exit code after a complaint on standard error. ret_help: the help was asked for, and is printed. */
int weir_serve_flags_read(int argc, char **argv, struct weir_serve_flags *ret_flags, bool *ret_help);
