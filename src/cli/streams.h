/* SPDX-License-Identifier: Apache-2.0
 *
 * Standard input, output and error of each program of weir. */
#pragma once

#include <stdbool.h>

/* Opens those that are closed: the first socket or file that is opened would get what is printed. */
bool weir_streams_open(void);
