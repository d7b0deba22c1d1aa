/* SPDX-License-Identifier: Apache-2.0
 *
 * Standard input, output and error of each program of weir. */
#ifndef WEIR_CLI_STREAMS_H
#define WEIR_CLI_STREAMS_H

#include <stdbool.h>

/* Opens those that are closed: the first socket or file that is opened would get what is printed. */
bool weir_streams_open(void);

#endif
