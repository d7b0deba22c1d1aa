/* SPDX-License-Identifier: Apache-2.0
 *
 * What is right in a configuration and still surprises: one sentence each, once, no warning. */
#pragma once

#include "rules/config.h"

/* Each NULL where there is nothing to be said. */

/* There are tokens, and no listener asks for one. */
const char *weir_note_unasked(const struct weir_config *config);

/* A listener for who changes rules, where nobody can. */
const char *weir_note_admin(const struct weir_config *config);

/* An engine that several processes may share, and nothing says how many: each takes itself for the only one. */
const char *weir_note_uncounted(const struct weir_config *config);

/* No engine, and no other node: what is counted is this process's alone. */
const char *weir_note_alone(const struct weir_config *config);
