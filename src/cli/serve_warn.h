/* SPDX-License-Identifier: Apache-2.0
 *
 * Warnings while `weir serve` starts: text for people, or lines of the log where that is JSON, since who reads it then
 * is a program. */
#pragma once

#include "rules/config.h"

/* "weir: warning: …" */
__attribute__((format(printf, 2, 3))) void weir_serve_warn(const struct weir_config *config, const char *format, ...);

/* What the configuration says and hardly means; `always_text`: nobody starts a server with it, but asks about it. */
void weir_serve_warn_config(const struct weir_config *config, const char *file, bool always_text);
