/* SPDX-License-Identifier: Apache-2.0
 *
 * Whether this weir has what a configuration names: an engine of locks, or sessions. */
#pragma once

#include "rules/config.h"

/* Loads the modules that it takes, for a start and for --check alike. False: one is missing, and stderr says which. */
bool weir_serve_needs(const struct weir_config *config);
