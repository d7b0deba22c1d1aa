/* SPDX-License-Identifier: Apache-2.0
 *
 * What is right in a configuration and still surprises: one sentence each, once, no warning. */
#ifndef WEIR_CLI_NOTES_H
#define WEIR_CLI_NOTES_H

#include "rules/config.h"

/* Each NULL where there is nothing to be said. */

/* There are tokens, and no listener asks for one. */
const char *weir_note_unasked(const struct weir_config *config);

#endif
