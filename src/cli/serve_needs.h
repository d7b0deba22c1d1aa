/* SPDX-License-Identifier: Apache-2.0
 *
 * Whether this weir has what a configuration names: an engine of locks, sessions, traces, gRPC. */
#pragma once

#include "rules/config.h"

struct weir_grpc_library; /* wire/grpc_library.h */

/* Loads the modules that it takes, for a start and for --check alike. False: one is missing, and stderr says which.
 * *ret_grpc is NULL where nothing listens for gRPC. */
bool weir_serve_needs(const struct weir_config *config, const struct weir_grpc_library **ret_grpc);
