/* SPDX-License-Identifier: Apache-2.0
 *
 * The documentation that `weir serve` serves at /docs, where there is one beside it. */
#pragma once

#include "rules/config.h"
#include "serve/site.h"

/* NULL: there is none, HTTP is off, or it cannot be used, which is no reason not to start: it is said. */
struct weir_site *weir_serve_site_load(const struct weir_config *config);
