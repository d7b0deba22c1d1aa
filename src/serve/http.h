/* SPDX-License-Identifier: Apache-2.0
 *
 * HTTP/1.1 on the frame: checks, locks, sessions, and what operators look at. docs/http.md says what each path does. */
#pragma once

#include "serve/protocol.h"

extern const struct weir_protocol weir_http_protocol;
/* The same for who administers: it also serves /v1/rules where the other then does not, and takes whole rule sets. */
extern const struct weir_protocol weir_http_admin_protocol;
