/* SPDX-License-Identifier: Apache-2.0
 *
 * The commands that Redis clients may send: docs/resp.md lists them. */
#pragma once

#include "serve/protocol.h"

extern const struct weir_protocol weir_resp_protocol;
